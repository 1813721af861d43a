"""Agreement of recorded scores with humans, and halo: attributes that a judge does not tell apart as humans do."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import numpy as np
import pandas as pd

from biaslab.stats import (
    ITEM,
    Estimate,
    Level,
    Method,
    Ratio,
    Resampling,
    context_correlations,
    estimate_correlation,
    estimate_rows,
    estimates_frame,
    paired,
    usable,
)

_CELL = ("judge", "dataset", "configuration", "scale")
_SLOW = 20_000  # items above which Kendall's tau of all of them together is not computed


def agree_with_humans(trials: pd.DataFrame, resampling: Resampling) -> pd.DataFrame:
    """Correlate the mean score of each item with the mean human score.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of `biaslab.read_judgements`, with ``human``.
    resampling : Resampling
        Of the estimates.

    Returns
    -------
    pandas.DataFrame
        Estimates, one a judge × data set × attribute × configuration × scale × ``level`` (context, dataset, system) ×
        ``coefficient`` (spearman, kendall, pearson): ``human_agreement``, -1 to 1. At the level of contexts the mean
        over those in which both vary, which ``n_contexts`` counts.
    """
    rows: list[dict[str, Any]] = []
    for names, cell in trials.groupby([*_CELL, "attribute"], sort=False):
        where = dict(zip((*_CELL, "attribute"), names, strict=True))
        found = usable(cell)
        items = found.groupby(list(ITEM), sort=False)[["value", "human"]].mean().reset_index()
        items["system"] = items["candidate_id"]
        counts = len(found), len(cell) - len(found)
        for level in get_args(Level):
            for method in _methods(level, len(items)):
                made = estimate_correlation(items, "value", "human", resampling, level, method)
                at = where | {"level": level, "coefficient": method}
                rows += estimate_rows({"human_agreement": made}, at, resampling, *counts)
    return estimates_frame(rows, "human_agreement", (), (*_CELL[2:], "attribute", "level", "coefficient"))


def _methods(level: Level, items: int) -> tuple[Method, ...]:
    return ("spearman", "pearson") if level == "dataset" and items > _SLOW else get_args(Method)


def estimate_halo(trials: pd.DataFrame, resampling: Resampling) -> pd.DataFrame:
    """Correlate a judge's scores of two attributes, beside the humans' of the same items.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of `biaslab.read_judgements` of at least two attributes, with ``human``.
    resampling : Resampling
        Of the estimates.

    Returns
    -------
    pandas.DataFrame
        Estimates, one a judge × data set × configuration × scale × pair of attributes (``attribute``, ``other``), of
        items with all four scores. Correlations are Spearman's within contexts, averaged over contexts in which all
        scores vary:

        ``halo_judge``, ``halo_human`` (-1 to 1)
            Between the judge's mean scores of both attributes; between the mean human scores.
        ``halo_excess`` (primary; -2 to 2, null 0)
            The first minus the second. Above 0: the judge tells the attributes less apart than humans do.
    """
    rows: list[dict[str, Any]] = []
    for names, cell in trials.groupby(list(_CELL), sort=False):
        where = dict(zip(_CELL, names, strict=True))
        found = usable(cell)
        means = found.pivot_table(index=list(ITEM), columns="attribute", values=["value", "human"], sort=False)
        for one, other in combinations(dict.fromkeys(found["attribute"]), 2):
            wanted = [(kind, name) for kind in ("value", "human") for name in (one, other)]
            if not set(wanted) <= set(means.columns):
                continue
            four = means[wanted].dropna()
            four.columns = ["judge_1", "judge_2", "human_1", "human_2"]
            made = _halo(four.reset_index(), resampling)
            at = where | {"attribute": one, "other": other}
            inside = pd.MultiIndex.from_frame(found[list(ITEM)]).isin(four.index)
            entering = int((inside & found["attribute"].isin([one, other])).sum())
            planned = int(cell["attribute"].isin([one, other]).sum())
            rows += estimate_rows(made, at, resampling, entering, planned - entering)
    return estimates_frame(rows, "halo", ("halo_excess",), (*_CELL[2:], "attribute", "other"))


def _halo(four: pd.DataFrame, resampling: Resampling) -> dict[str, Estimate]:
    given = paired(four, ["judge_1", "judge_2", "human_1", "human_2"], ["context_id"])
    judge, human = (
        context_correlations(given, f"{who}_1", f"{who}_2", "spearman", "context_id") for who in ("judge", "human")
    )
    both = ~np.isnan(judge) & ~np.isnan(human)
    contexts = np.arange(len(both))
    missing = "undefined: no context in which both attributes vary, for the judge and for humans"

    def mean(values: np.ndarray[Any, Any], null: float | None, bound: float) -> Estimate:
        ratio = Ratio(contexts, np.where(both, values, 0.0), both, null, (-bound, bound), missing)
        return ratio.estimate(resampling)

    return {
        "halo_judge": mean(judge, None, 1.0),
        "halo_human": mean(human, None, 1.0),
        "halo_excess": mean(judge - human, 0.0, 2.0),
    }
