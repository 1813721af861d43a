"""Differences of correlations, corrected for attenuation by error in the human scores."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.stats.correlation import Level, context_correlations, paired, rounded
from biaslab.stats.estimate import Estimate, is_rounding, undefined, without_interval
from biaslab.stats.inference import Resampling
from biaslab.stats.leave_one_out import grouped, without_clusters, without_each
from biaslab.stats.rating_error import Corrected, rating_error, too_unreliable
from biaslab.stats.t_inference import estimate_by_t
from biaslab.stats.weighted_correlation import pooled

_LEAST_LEFT = 0.1  # if the reliability without a context is below this, that context decides the estimate


def disattenuated_difference(
    frame: pd.DataFrame, first: str, y: str, resampling: Resampling, level: Level = "context"
) -> Corrected:
    """Estimate Spearman's ρ of a column with `y` minus that of error-free human scores.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate: ``context_id, human``, the named columns and, if known, ``ratings`` and ``annotators``
        as read by `biaslab.stats.rating_error.rating_error`. Rows with a missing score are dropped.
    first, y : str
        Numeric columns: a judge's score, and a feature of the text.
    resampling : Resampling
        Confidence level and clusters; the jackknife leaves out whole clusters.
    level : {"context", "dataset"}
        Within contexts, averaged over those in which all three vary, or pooled.

    Returns
    -------
    Corrected
        For a share of shared errors, ρ(first, y) − ρ(human, y) / √λ, where λ is the reliability of the mean human
        score around its context's (or the overall) mean, from cross-products of different annotators. Interval and
        test use t over contexts; the standard error leaves out one context at a time and recomputes λ. The factor is
        exact for Pearson's r. For rank correlations of normally distributed scores it is close: bias at most .02 with
        3 to 12 candidates, reliability .4 to .6 and correlations up to .8. NaN, with a note, if λ is at most .3.

    References
    ----------
    Spearman 1904, *The proof and measurement of association between two things*, American Journal of Psychology 15(1).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality, context = rng.normal(size=600), np.repeat(np.arange(100), 6)
    >>> frame = pd.DataFrame({"context_id": context, "score": quality, "length": quality + rng.normal(size=600)})
    >>> ratings = quality[:, None] + rng.normal(size=(600, 2))
    >>> frame = frame.assign(human=ratings.mean(axis=1), ratings=[f"{one} {two}" for one, two in ratings])
    >>> corrected = disattenuated_difference(frame, "score", "length", Resampling())
    >>> raw = disattenuated_difference(frame.drop(columns="ratings"), "score", "length", Resampling())
    >>> round(corrected(0.0).estimate, 2), round(raw(0.0).estimate, 2)
    (0.04, 0.17)
    """
    complete = paired(frame, [first, "human", y], ["context_id"]).sort_values("context_id", kind="stable")
    if complete.empty:
        return lambda _: undefined("undefined: no item has all three scores")
    complete, groups = grouped(complete, level == "context", resampling)
    of_judge, of_humans, entering = _correlations(complete, [first, "human"], y, level, groups)
    if not entering.any() or math.isnan(of_judge[0] - of_humans[0]):
        reason, contexts = "undefined: in no context do all three scores vary", complete["context_id"].nunique()
        return lambda _: undefined(reason, contexts)
    error, contexts = rating_error(complete, level == "context").of_clusters(groups), int(entering.sum())

    def at(shared: float) -> Estimate:
        reliability = error.with_shared(shared).reliability
        if why_not := too_unreliable(error, shared):
            return undefined(why_not, contexts)
        with np.errstate(invalid="ignore"):
            values = of_judge - of_humans / np.sqrt(np.where(reliability > _LEAST_LEFT, reliability, np.nan))
        return _by_t(values, contexts, resampling.level)

    return at


def _correlations(
    frame: pd.DataFrame, scores: list[str], y: str, level: Level, groups: Codes | None
) -> tuple[Floats, Floats, Bools]:
    """Return ρ of either score with y, for all contexts and leaving out each (or group), and the contexts used."""
    if level == "context":
        own = np.array([context_correlations(frame, x, y, "spearman", "context_id") for x in scores])
        entering = np.isfinite(own).all(axis=0)
        sums = (without_each(totals) for totals in (*np.where(entering, own, 0.0), entering * 1.0))
        first, second, count = (without_clusters(totals, groups) for totals in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            return first / count, second / count, entering if groups is None else np.bincount(groups, entering) > 0
    codes = pd.factorize(frame["context_id"])[0]
    contexts = codes.max() + 1
    weights = np.vstack([np.ones((1, contexts)), 1 - np.eye(contexts)])
    one, two = (
        pooled(rounded(frame[x].to_numpy(float)), rounded(frame[y].to_numpy(float)), codes, "spearman")(weights)
        for x in scores
    )
    return one, two, np.ones(contexts, bool)


def _by_t(values: Floats, contexts: int, confidence: float) -> Estimate:
    """Return the first value with its jackknife error; the other values each leave out one context."""
    value, left_out = float(values[0]), values[1:]
    if contexts < 2 or np.isnan(left_out).any():
        return without_interval(value, contexts, "no interval: whether there is a value depends on a single context")
    error = float(np.sqrt((contexts - 1) / contexts * np.sum((left_out - left_out.mean()) ** 2)))
    if is_rounding(error, np.abs(left_out).max()):
        return without_interval(value, contexts, "no interval: no variation between contexts")
    method = "jackknife t over contexts, humans' correlation corrected for attenuation; t test"
    return estimate_by_t(value, error, contexts, confidence, method)
