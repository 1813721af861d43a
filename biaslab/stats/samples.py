"""Several samples of each score: their spread, and differences between two conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.stats.blocks import side_by_side, sum_by_context, usable
from biaslab.stats.estimate import Estimate
from biaslab.stats.inference import Resampling
from biaslab.stats.jackknife import cluster_statistic
from biaslab.stats.ratio import Ratio

_TWO = "undefined: no request has two samples with a score"


def sample_table(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the scores, one row per item (context_id, candidate_id) and one column per replicate; NaN if missing."""
    return side_by_side(usable(trials), "replicate")


def sample_differences(trials: pd.DataFrame, condition: str, levels: Sequence[Any]) -> tuple[Ratio, Ratio]:
    """Return the mean absolute difference of two samples between two conditions, and within one request.

    If conditions have no effect, samples of different conditions differ as much as two samples of one request (Gini's
    mean difference). So the second value is what the first would be if the condition did not matter.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of one cell, with ``context_id, candidate_id, replicate, value, status`` and the condition.
    condition : str
        Column of the conditions.
    levels : sequence of two
        The two values of the condition.

    Returns
    -------
    tuple of Ratio
        Over the items with a score under both conditions: all pairs of samples from different conditions; and all
        pairs of samples of one request, pooled over both conditions, undefined if no request has two samples.

    Examples
    --------
    >>> rows = [("c", "x", "sr", 0, 4.0), ("c", "x", "sr", 1, 6.0), ("c", "x", "rs", 0, 1.0), ("c", "x", "rs", 1, 1.0)]
    >>> columns = ["context_id", "candidate_id", "order", "replicate", "value"]
    >>> trials = pd.DataFrame(rows, columns=columns).assign(status="ok")
    >>> between, within = sample_differences(trials, "order", ["sr", "rs"])
    >>> (between.numerator / between.denominator).tolist(), (within.numerator / within.denominator).tolist()
    ([4.0], [1.0])
    """
    first, second = (sample_table(trials[trials[condition] == level]) for level in levels)
    items = first.index.intersection(second.index)
    context = items.get_level_values(0)
    one, other = (table.loc[items].to_numpy(float) for table in (first, second))
    (sums, pairs), (own, own_pairs) = _between(one, other), _within(one) + _within(other)
    missing = "undefined: no item has scores under both conditions"
    return Ratio(context, sums, pairs, missing=missing), Ratio(context, own, own_pairs, missing=_TWO)


def sampling_noise(samples: Floats) -> Floats:
    """Return the variance of each item's mean score over samples of the same request.

    Parameters
    ----------
    samples : numpy.ndarray, shape (items, replicates)
        Scores; NaN if missing.

    Returns
    -------
    numpy.ndarray, shape (items,)
        s² / n, where s² is the variance of the item's own n scores, or, for an item with one score, the pooled
        variance. All NaN if no item has two.

    Examples
    --------
    >>> sampling_noise(np.array([[4.0, 6.0], [1.0, 1.0], [2.0, np.nan]])).tolist()
    [1.0, 0.0, 1.0]
    """
    table = pd.DataFrame(samples)
    n, variance = table.notna().sum(axis=1).to_numpy(float), table.var(axis=1).to_numpy(float)
    known = ~np.isnan(variance)
    if not known.any():
        return np.full(len(table), np.nan)
    pooled = np.average(variance[known], weights=n[known] - 1)
    return np.asarray(np.where(known, variance, pooled) / n)


def score_spread(trials: pd.DataFrame, width: float, resampling: Resampling) -> tuple[Estimate, Estimate]:
    """Return the standard deviation of all scores, and that of the samples of one request.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of one condition, with ``context_id, candidate_id, replicate, value, status``.
    width : float
        Range of the scale, in points; a standard deviation cannot exceed it.
    resampling : Resampling
        Resampling settings.

    Returns
    -------
    tuple of Estimate
        √(Σ(x − x̄)² / (n − 1)) over all scores; √(Σ(x − x̄ᵢ)² / Σ(nᵢ − 1)), x̄ᵢ the mean of item i.

    Examples
    --------
    >>> rows = [("a", "x", 0, 4.0), ("a", "x", 1, 6.0), ("b", "y", 0, 1.0), ("b", "y", 1, 1.0)]
    >>> columns = ["context_id", "candidate_id", "replicate", "value"]
    >>> all_scores, of_one = score_spread(pd.DataFrame(rows, columns=columns).assign(status="ok"), 9.0, Resampling())
    >>> round(all_scores.estimate, 3), of_one.estimate
    (2.449, 1.0)
    """
    table = sample_table(trials)
    context, scores = resampling.cluster_of(table.index.get_level_values(0)), table.to_numpy(float)
    n = (~np.isnan(scores)).sum(axis=1)
    total = np.nansum(scores, axis=1)
    square = np.nansum((scores - (total / n)[:, None]) ** 2, axis=1)  # around each item's own mean

    whole, _ = sum_by_context(context, n, total, square + total**2 / n)

    def all_scores(weights: Floats) -> Floats:
        count, sums, squares = (weights @ whole).T
        return _root(squares - sums**2 / np.where(count > 0, count, np.nan), count - 1)

    within, _ = sum_by_context(context, np.where(n > 1, square, np.nan), n - 1)
    parts = (
        (all_scores, whole, "undefined: fewer than two scores"),
        (lambda weights: _root(*(weights @ within).T), within, _TWO),
    )
    first, second = (
        cluster_statistic(statistic, len(sums), resampling, None, (0.0, width), missing, scale="plain")
        for statistic, sums, missing in parts
    )
    return first, second


def _root(squares: Floats, degrees: Floats) -> Floats:
    root: Floats = np.sqrt(np.maximum(squares, 0.0) / np.where(degrees > 0, degrees, np.nan))
    return root


def _between(one: Floats, other: Floats) -> Floats:
    """Return the sum over pairs and the number of pairs of each item, shape (2, items)."""
    return sum((_apart(one, column[:, None]) for column in other.T), np.zeros((2, len(one))))


def _within(scores: Floats) -> Floats:
    later = range(1, scores.shape[1])
    return sum((_apart(scores[:, j:], scores[:, j - 1 : j]) for j in later), np.zeros((2, len(scores))))


def _apart(scores: Floats, column: Floats) -> Floats:
    distance = np.abs(scores - column)
    return np.stack([np.nansum(distance, axis=1), (~np.isnan(distance)).sum(axis=1)])
