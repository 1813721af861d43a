"""Covariate-adjusted scores at equal human score, for example the length-controlled mean and win rate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.correct.estimators import (
    FEWEST_LABELLED,
    Fitted,
    Sums,
    fitted,
    kept,
    ratio,
    summed,
    too_few,
    unfitted,
)
from biaslab.stats import ALPHA, is_rounding, p_by_t


@dataclass(frozen=True)
class Slope:
    """Slope of the judge's value on the covariate at equal human score.

    Parameters
    ----------
    value : float
        The slope; NaN if the labelled part does not identify it.
    parts : ndarray, shape (names,)
        Each context's contribution to its error.
    """

    value: float
    parts: Floats

    @classmethod
    def of(cls, items: pd.DataFrame, contexts: list[str], probability: pd.Series | None, within: bool) -> Slope:
        """Fit value ~ covariate + human on the labelled items, with an intercept per context or a common one.

        Errors are residuals of whole contexts, each divided by √(1 − h), where h is its leverage on the slope.
        """
        known = items[items[["value", "human", "covariate"]].notna().all(axis=1)]
        place = pd.Index(contexts).get_indexer(pd.Index(known["context_id"]))
        likely = 1.0 if probability is None else probability.reindex(known["context_id"]).to_numpy(float)
        root = np.sqrt(np.ones(len(known)) / likely)
        columns = known[["value", "covariate", "human"]].to_numpy(float)
        group = place if within else np.zeros(len(place), int)
        count = np.bincount(group, minlength=1)
        means = np.column_stack([np.bincount(group, column, len(count)) for column in columns.T])
        y, *x = ((columns - means[group] / count[group, None]) * root[:, None]).T
        design = np.column_stack(x)
        if len(known) < len(x) + 2 or np.linalg.matrix_rank(design, tol=1e-9) < len(x):
            return cls(math.nan, np.zeros(len(contexts)))
        coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
        lever = np.linalg.solve(design.T @ design, design.T)[0]
        errors = np.bincount(place, lever * (y - design @ coefficients), len(contexts))
        leverage = np.bincount(place, lever**2, len(contexts)) / float(lever @ lever)
        return cls(float(coefficients[0]), np.where(leverage > 0, errors / kept(leverage), 0.0))


def adjusted(
    items: pd.DataFrame, all_items: pd.DataFrame, sums: Sums, contexts: list[str], slope: Slope, reference: bool
) -> Fitted:
    """Estimate from the judge's values minus slope × (covariate − its mean over all items).

    Parameters
    ----------
    items, all_items : pandas.DataFrame
        The items of the estimate, and all that the judge saw, with ``context_id, value, human, covariate``.
    sums : Sums
        Sums over the items.
    contexts : list of str
        All names, in order.
    slope : Slope
        Slope on the covariate.
    reference : bool
        Whether the covariate is centred at its mean over all items; for differences, at 0.

    References
    ----------
    Dubois et al. 2024, *Length-Controlled AlpacaEval*, arXiv 2404.04475. They adjust to equal length; with labels,
    this removes the effect of length at equal human score.
    """
    if sums.rated < FEWEST_LABELLED:
        return too_few(sums)
    if math.isnan(slope.value):
        return unfitted(sums, "undefined: the labels do not identify the slope of the covariate")
    whole = items[items["covariate"].notna()]
    less = whole.assign(value=whole["value"] - slope.value * whole["covariate"])
    value, everywhere = ratio(summed(less, contexts, None).judged)
    away = ratio(summed(whole.assign(value=whole["covariate"]), contexts, None).judged)[0]
    if reference:
        known = all_items[all_items["covariate"].notna()]
        middle, parts = ratio(summed(known.assign(value=known["covariate"]), contexts, None).judged)
        value, everywhere, away = value + slope.value * middle, everywhere + slope.value * parts, away - middle
    labelled = -away * slope.parts
    sample = sums.rated if not is_rounding(away) else sums.contexts
    p_value = _p_of_no_other_bias(whole, contexts, slope, middle if reference else 0.0)
    if p_value < ALPHA:
        why = f"no interval: the labels show a bias beyond that of the covariate (p = {p_value:.2g})"
        return replace(unfitted(sums, why), value=value)
    note = (
        f"assumes no bias except the covariate's; {sums.rated} labelled contexts do not reject this (p {p_value:.2g})"
    )
    return fitted(sums, value, everywhere, labelled, sample, "adjusted for the covariate, t over contexts", note)


def _p_of_no_other_bias(items: pd.DataFrame, contexts: list[str], slope: Slope, middle: float) -> float:
    """Test that adjusted values equal the labels on average, accounting for the error of the slope."""
    known = items[items[["value", "human"]].notna().all(axis=1)]
    moved = known["covariate"] - middle
    left = known.assign(value=known["value"] - slope.value * moved - known["human"])
    sums = summed(left, contexts, None)
    value, parts = ratio(sums.judged)
    away = ratio(summed(known.assign(value=moved), contexts, None).judged)[0]
    error = float(np.linalg.norm(parts - away * slope.parts))
    return 1.0 if is_rounding(value) else p_by_t(value, error, sums.contexts) if error > 0 else 0.0
