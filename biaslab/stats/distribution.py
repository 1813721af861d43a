"""What a distribution of scores looks like, with intervals over contexts: round numbers, use of the scale, ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError
from biaslab.stats.estimate import Estimate, undefined, without_interval
from biaslab.stats.heaping import myers_estimate, whipple_sums
from biaslab.stats.jackknife import cluster_statistic
from biaslab.stats.ratio import Ratio, sum_by_context
from biaslab.stats.resampling import Resampling, draw_weights, in_order, percentile
from biaslab.stats.scale_use import effective_levels, tie_sums

__all__ = ["DISTRIBUTION", "describe_distribution"]

Floats = NDArray[np.float64]
_CENTRAL = 0.98
_FEWEST_MULTIPLES = 3


def describe_distribution(
    context: ArrayLike,
    weights: ArrayLike,
    levels: Sequence[float],
    metrics: Sequence[str],
    resampling: Resampling,
    null: float | None = 1.0,
    margin: float = 0.0,
) -> dict[str, Estimate]:
    """Estimate how scores are distributed over the levels of a scale.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    weights : array_like, shape (items, levels)
        Counts or probabilities; a row of zeros does not enter.
    levels : sequence of float, shape (levels,)
        The levels of the scale, in increasing order.
    metrics : sequence of str
        Some of `DISTRIBUTION`.
    resampling : Resampling
        How to resample.
    null : float, optional
        Of Whipple's index; none means no test.
    margin : float
        What is tested is whether Whipple's index differs from the null by more than this. A smooth distribution that
        the ends of the scale cut off has an index up to .023 from 1 (`biaslab.stats.heaping`): exact distributions
        show it, samples are too few to.

    Returns
    -------
    dict of str to Estimate
        By name of the metric. Undefined, with the reason, where a scale does not allow an index.

    Raises
    ------
    InputError
        If there is no such metric.

    Examples
    --------
    >>> from biaslab.stats.scale_use import score_weights
    >>> scores, names = [40, 50, 62, 70, 35, 80, 50, 60, 90, 41, 50, 60], list("aabbccddeeff")
    >>> levels = list(range(1, 101))
    >>> found = describe_distribution(
    ...     names, score_weights(scores, levels), levels, ["round_number_excess_10", "tie_rate"], Resampling()
    ... )
    >>> {name: round(estimate.estimate, 2) for name, estimate in found.items()}
    {'round_number_excess_10': 7.5, 'tie_rate': 0.0}
    """
    table, values = np.asarray(weights, float), np.asarray(levels, float)
    unknown = [metric for metric in metrics if metric not in _ESTIMATORS]
    if unknown:
        raise InputError("metrics", unknown, f"some of {', '.join(DISTRIBUTION)}")
    kept = table.sum(axis=1) > 0
    names = np.asarray(context, dtype=object)[kept]
    options = (values, resampling, null, margin)
    return {metric: _ESTIMATORS[metric](names, table[kept], *options) for metric in metrics}


def _round_numbers(multiple: int) -> Callable[..., Estimate]:
    def estimator(
        context: ArrayLike, table: Floats, values: Floats, resampling: Resampling, null: float | None, margin: float
    ) -> Estimate:
        reach, multiples = multiple // 2, np.arange(0, values[-1] + 1, multiple)
        fitting = ((multiples - reach >= values[0]) & (multiples + reach <= values[-1])).sum()
        if not _is_whole(values) or fitting < _FEWEST_MULTIPLES:
            return undefined(
                f"undefined: fewer than three multiples of {multiple} fit into the scale with their windows"
            )
        up, down = whipple_sums(table, values.tolist(), multiple)
        missing = "undefined: no score lies between the ends of the scale"
        bounds = (0.0, float(multiple))
        return Ratio(context, up, down, null, bounds, missing, inference="t", margin=margin).estimate(resampling)

    return estimator


def _myers(context: ArrayLike, table: Floats, values: Floats, resampling: Resampling, *_: object) -> Estimate:
    if not _is_whole(values) or len(values) < 2 * 10 - 1:
        return undefined("undefined: the scale has no whole decades, shifted by every digit")
    return myers_estimate(context, table, values.tolist(), resampling, test=False)


def _scale_use(context: ArrayLike, table: Floats, values: Floats, resampling: Resampling, *_: object) -> Estimate:
    def share(pooled: Floats) -> Floats:
        return np.asarray(effective_levels(pooled) / len(values))

    return _of_pooled(share, context, table, resampling, (0.0, 1.0))


def _spread(context: ArrayLike, table: Floats, values: Floats, resampling: Resampling, *_: object) -> Estimate:
    def deviation(pooled: Floats) -> Floats:
        share = pooled / pooled.sum(axis=1, keepdims=True)
        centred = values - values.mean()
        return np.asarray(np.sqrt(np.maximum(share @ centred**2 - (share @ centred) ** 2, 0.0)))

    return _of_pooled(deviation, context, table, resampling, (0.0, float(values[-1] - values[0]) / 2))


def _range(context: ArrayLike, table: Floats, values: Floats, resampling: Resampling, *_: object) -> Estimate:
    def distance(pooled: Floats) -> Floats:
        tail = ((1 - _CENTRAL) / 2 + 1e-12) * pooled.sum(axis=1, keepdims=True)
        low = (np.cumsum(pooled, axis=1) > tail).argmax(axis=1)
        high = pooled.shape[1] - 1 - (np.cumsum(pooled[:, ::-1], axis=1) > tail).argmax(axis=1)
        return np.asarray((values[high] - values[low]) / (values[-1] - values[0]))

    sums = _pooled_sums(context, table)
    if not len(sums):
        return undefined("undefined: no score is left")
    value, nan = float(distance(sums.sum(axis=0, keepdims=True))[0]), float("nan")
    if len(sums) == 1:
        return without_interval(value, 1)
    drawn = np.concatenate([distance(w @ sums) for w in draw_weights(len(sums), resampling.n, resampling.seed)])
    low, high = percentile(drawn, resampling.level)  # a jackknife of percentiles fails
    note = "the coverage of the interval is not established"
    se = float(drawn.std(ddof=1)) or nan
    return Estimate(
        value, se, min(low, value), max(high, value), nan, nan, len(sums), "cluster bootstrap (percentile)", note
    )


def _ties(context: ArrayLike, table: Floats, values: Floats, resampling: Resampling, *_: object) -> Estimate:  # noqa: ARG001
    tied, pairs, names = tie_sums(context, table)
    missing = "undefined: no context with two scored items"
    return Ratio(names, tied, pairs, bounds=(0.0, 1.0), missing=missing).estimate(resampling)


def _of_pooled(
    statistic: Callable[[Floats], Floats],
    context: ArrayLike,
    table: Floats,
    resampling: Resampling,
    bounds: tuple[float, float],
) -> Estimate:
    """Estimate a function of the distribution of all scores together, shape (replicates, levels) to (replicates,)."""
    sums = _pooled_sums(context, table)

    def of_weights(weights: Floats) -> Floats:
        return statistic(weights @ sums)

    return cluster_statistic(of_weights, len(sums), resampling, bounds=bounds, missing="undefined: no score is left")


def _pooled_sums(context: ArrayLike, table: Floats) -> Floats:
    return in_order(sum_by_context(context, *table.T)[0])


def _is_whole(values: Floats) -> bool:
    return bool((values % 1 == 0).all() and (np.diff(values) == 1).all())


_ESTIMATORS: dict[str, Callable[..., Estimate]] = {
    "round_number_excess_10": _round_numbers(10),
    "round_number_excess_5": _round_numbers(5),
    "myers_index": _myers,
    "scale_use": _scale_use,
    "range_used": _range,
    "pooled_sd": _spread,
    "tie_rate": _ties,
}
#: Names of the metrics.
DISTRIBUTION = tuple(_ESTIMATORS)
