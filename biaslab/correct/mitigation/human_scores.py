"""Map scores to the human scale: the expected human score of texts with that judge score, fitted on other contexts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from biaslab.core import Metric
from biaslab.core.arrays import Bools, Floats
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import TrialsError
from biaslab.correct.mitigation.applied import held_out
from biaslab.stats import CELL, Ratio, Resampling, choose_metrics, each_cell, estimates_frame, require_columns
from biaslab.stats.frame import estimate_rows

Method = Literal["isotonic", "ordinal"]
_LEVELS = 10  # with more distinct human scores, these are rounded to integers before an ordinal fit


def human_scale(trials: pd.DataFrame, method: Method = "isotonic", folds: int = 10) -> pd.DataFrame:
    """Replace scores by the expected human score, which removes leniency and severity.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials with ``human``, NaN without a label, as made by `biaslab.probes.Verbosity`.
    method : {"isotonic", "ordinal"}
        "isotonic": human scores as a non-decreasing, piecewise linear function of the judge's. "ordinal": the mean of
        a proportional-odds model of human scores given the judge's, which needs fewer labels but assumes a functional
        form.
    folds : int
        Number of parts into which contexts are split, at least 2. Each uses what was fitted on the others.

    Returns
    -------
    pandas.DataFrame
        With the expected human score as ``value``; unusable trials stay NaN. A monotone function preserves the order
        of texts, except for ties where it is constant.

    Raises
    ------
    InputError
        If the method is unknown or there are too few folds.
    TrialsError
        If a column is missing, or all labels are in one context.

    References
    ----------
    Barlow et al. 1972, *Statistical Inference under Order Restrictions*; McCullagh 1980, *Regression Models for Ordinal
    Data*, JRSS B 42.

    Examples
    --------
    >>> rows = [(str(c), str(k), k + 1.0, min(k + 3.0, 5.0)) for c in range(6) for k in range(3)]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "human", "value"])
    >>> trials = trials.assign(judge="j", dataset="d", attribute="a", status="ok")
    >>> human_scale(trials)["value"].head(3).tolist()
    [1.0, 2.0, 3.0]
    """
    require_columns(trials, (*CELL, "context_id", "value", "status", "human"), "trials")
    require_one_of("method", method, ("isotonic", "ordinal"))
    require_whole("folds", folds, 2)
    parts = [_rescaled(cell, method, folds) for _, cell in each_cell(trials, CELL)]
    return pd.concat(parts, ignore_index=True) if parts else trials


@dataclass(frozen=True)
class HumanScale:
    """Shift and distance of scores from human scores, which `human_scale` removes; a measure for `remedies`.

    Parameters
    ----------
    resampling : Resampling
        Confidence level of the intervals.

    Notes
    -----
    ``human_shift`` is the mean score minus the mean human score, positive for leniency; ``human_distance`` the mean
    absolute difference. Both require scores on the human scale.
    """

    name: ClassVar[str] = "human_scale"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("human_shift", "score minus human score", "points", null=0.0),
        Metric("human_distance", "distance from the human score", "points"),
    )
    primary: ClassVar[tuple[str, ...]] = ("human_shift",)

    resampling: Resampling = field(default_factory=Resampling)

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn score trials with ``human`` into estimates, one row per judge, attribute, data set and metric."""
        chosen = choose_metrics([metric.name for metric in self.metrics], metrics)
        require_columns(trials, (*CELL, "context_id", "value", "status", "human"), "trials")
        rows: list[dict[str, Any]] = []
        for values, cell in each_cell(trials, CELL):
            known = _known(cell)
            gap = (cell["value"] - cell["human"]).to_numpy(float)[known]
            context, one = cell["context_id"].to_numpy()[known], np.ones(int(known.sum()))
            ratios = {
                "human_shift": Ratio(context, gap, one, null=0.0, inference="t"),
                "human_distance": Ratio(context, np.abs(gap), one, inference="t"),
            }
            estimates = {name: ratios[name].estimate(self.resampling) for name in chosen}
            counts = int(known.sum()), int((~known).sum())
            rows += estimate_rows(estimates, dict(zip(CELL, values, strict=True)), self.resampling, *counts)
        return estimates_frame(rows, self.name, self.primary, ("attribute",))


def _known(cell: pd.DataFrame) -> Bools:
    known: Bools = (cell["status"].eq("ok") & cell["value"].notna() & cell["human"].notna()).to_numpy()
    return known


def _rescaled(cell: pd.DataFrame, method: Method, folds: int) -> pd.DataFrame:
    """Replace the scores of one judge and attribute by expected human scores, cross-fitted over contexts."""
    known = _known(cell)
    labelled = cell.loc[known, "context_id"].nunique()
    if labelled < 2:
        problem = "all labels in one context" if labelled else "no labels"
        raise TrialsError("human", problem, "human scores of at least two contexts")
    value, human = cell["value"].to_numpy(float), cell["human"].to_numpy(float)
    moved = value.copy()
    fitted = _isotonic if method == "isotonic" else _ordinal
    for others, fold_rows in held_out(cell["context_id"], known, folds):
        moved[fold_rows] = fitted(value[others], human[others], value[fold_rows])
    return cell.assign(value=moved)


def _isotonic(x: Floats, y: Floats, new: Floats) -> Floats:
    """Fit y as a non-decreasing function of x, and return its values at `new`, linearly interpolated."""
    places, at = np.unique(x, return_inverse=True)
    count = np.bincount(at)
    fitted = isotonic_regression(np.bincount(at, y) / count, weights=count).x
    return np.where(np.isnan(new), np.nan, np.interp(new, places, fitted))


def _ordinal(x: Floats, y: Floats, new: Floats) -> Floats:
    """Return the expected level under proportional odds; the mean if nothing varies."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    if len(np.unique(y)) > _LEVELS:
        y = np.round(y)
    levels, codes = np.unique(y, return_inverse=True)
    center, spread = float(x.mean()), float(x.std())
    if len(levels) < 2 or spread == 0:
        return np.where(np.isnan(new), np.nan, y.mean())
    model = OrderedModel(codes, ((x - center) / spread)[:, None], distr="logit")
    with warnings.catch_warnings():  # slopes diverge if scores separate levels perfectly
        warnings.simplefilter("ignore")
        fit = model.fit(method="bfgs", disp=False, maxiter=200)
    present = ~np.isnan(new)
    expected = np.full(len(new), math.nan)
    if present.any():
        p = np.asarray(model.predict(fit.params, exog=((new[present] - center) / spread)[:, None]))
        expected[present] = p @ levels
    return expected
