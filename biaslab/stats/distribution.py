"""Describe the distribution of scores with intervals over contexts: round numbers, scale use, ties."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, undefined, without_interval
from biaslab.stats.heaping import myers_estimate, whipple_sums
from biaslab.stats.inference import Resampling, draw_weights, in_groups, in_order, percentile
from biaslab.stats.jackknife import cluster_statistic
from biaslab.stats.ratio import Ratio
from biaslab.stats.scale_use import effective_levels, tie_sums

_CENTRAL = 0.98
_FEWEST_MULTIPLES = 3
_NONE = "undefined: no scores left"


def describe_distribution(
    context: ArrayLike,
    weights: ArrayLike,
    levels: Sequence[float],
    metrics: Sequence[str],
    resampling: Resampling,
    null: float | None = 1.0,
    margin: float = 0.0,
) -> dict[str, Estimate]:
    """Estimate metrics of the distribution of scores over the levels of a scale.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    weights : array_like, shape (items, levels)
        Counts or probabilities; all-zero rows are ignored.
    levels : sequence of float, shape (levels,)
        The levels of the scale, increasing.
    metrics : sequence of str
        Names from `DISTRIBUTION`.
    resampling : Resampling
        Resampling settings.
    null : float, optional
        Null value of Whipple's index; None for no test.
    margin : float
        The test is whether Whipple's index differs from the null by more than this margin. A smooth distribution
        truncated by the ends of the scale can have an index up to .023 from 1 (`biaslab.stats.heaping`), which would
        be detected with exact distributions, though not with the usual sample sizes.

    Returns
    -------
    dict of str to Estimate
        By metric name. Undefined, with the reason, if the scale does not admit an index.

    Raises
    ------
    InputError
        If a metric is unknown.

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
    table = np.asarray(weights, float)
    unknown = [metric for metric in metrics if metric not in _ESTIMATORS]
    if unknown:
        raise InputError("metrics", unknown, f"names among {', '.join(DISTRIBUTION)}")
    kept = table.sum(axis=1) > 0
    names = np.asarray(context, dtype=object)[kept]
    scores = _Scores(names, table[kept], np.asarray(levels, float), resampling, null, margin)
    return {metric: _ESTIMATORS[metric](scores) for metric in metrics}


@dataclass(frozen=True)
class _Scores:
    """Scores over the levels of a scale and estimation settings: the arguments of `describe_distribution`."""

    context: NDArray[Any]
    table: Floats
    values: Floats
    resampling: Resampling
    null: float | None
    margin: float

    @property
    def whole(self) -> bool:
        """Whether the levels are consecutive whole numbers."""
        return bool((self.values % 1 == 0).all() and (np.diff(self.values) == 1).all())

    def sums(self) -> Floats:
        """Return the summed distribution of each context's scores, shape (contexts, levels)."""
        return in_order(sum_by_context(self.resampling.cluster_of(self.context), *self.table.T)[0])

    def round_numbers(self, multiple: int) -> Estimate:
        """Whipple's index."""
        low, high = self.values[[0, -1]]
        reach, multiples = multiple // 2, np.arange(0, high + 1, multiple)
        fitting = ((multiples - reach >= low) & (multiples + reach <= high)).sum()
        if not self.whole or fitting < _FEWEST_MULTIPLES:
            return undefined(
                f"undefined: fewer than three multiples of {multiple} fit into the scale with their windows"
            )
        up, down = whipple_sums(self.table, self.values.tolist(), multiple)
        missing = "undefined: no score lies strictly inside the scale"
        bounds = (0.0, float(multiple))
        ratio = Ratio(self.context, up, down, self.null, bounds, missing, inference="t", margin=self.margin)
        return ratio.estimate(self.resampling)

    def myers(self) -> Estimate:
        """Myers' blended index."""
        if not self.whole or len(self.values) < 2 * 10 - 1:
            return undefined("undefined: the scale does not contain complete decades at every offset")
        return myers_estimate(self.context, self.table, self.values.tolist(), self.resampling)

    def scale_use(self) -> Estimate:
        """exp(entropy) of all scores, as a fraction of the number of levels."""
        return self._of_pooled(lambda pooled: effective_levels(pooled) / len(self.values), (0.0, 1.0))

    def spread(self) -> Estimate:
        """Return the standard deviation of all scores."""
        centred = self.values - self.values.mean()

        def deviation(pooled: Floats) -> Floats:
            share = pooled / pooled.sum(axis=1, keepdims=True)
            return np.asarray(np.sqrt(np.maximum(share @ centred**2 - (share @ centred) ** 2, 0.0)))

        return self._of_pooled(deviation, (0.0, float(self.values[-1] - self.values[0]) / 2))

    def range(self) -> Estimate:
        """Return the fraction of the scale's range covered by the central 98 % of the scores."""
        sums, values = self.sums(), self.values

        def distance(pooled: Floats) -> Floats:
            tail = ((1 - _CENTRAL) / 2 + 1e-12) * pooled.sum(axis=1, keepdims=True)
            low = (np.cumsum(pooled, axis=1) > tail).argmax(axis=1)
            high = pooled.shape[1] - 1 - (np.cumsum(pooled[:, ::-1], axis=1) > tail).argmax(axis=1)
            return np.asarray((values[high] - values[low]) / (values[-1] - values[0]))

        if not len(sums):
            return undefined(_NONE)
        value, nan, contexts = float(distance(sums.sum(axis=0, keepdims=True))[0]), float("nan"), len(sums)
        if contexts == 1:
            return without_interval(value, 1)
        sums = in_groups(sums, self.resampling.seed)
        weights = draw_weights(len(sums), self.resampling.n, self.resampling.seed)
        drawn = np.concatenate([distance(chunk @ sums) for chunk in weights])
        low, high = percentile(drawn, self.resampling.level)  # the jackknife is inconsistent for percentiles
        method, note = "cluster bootstrap (percentile)", "the coverage of the interval is not established"
        se = float(drawn.std(ddof=1)) or nan
        return Estimate(value, se, min(low, value), max(high, value), nan, nan, contexts, method, note)

    def ties(self) -> Estimate:
        """Return the share of pairs within a context with equal scores."""
        tied, pairs, names = tie_sums(self.context, self.table)
        missing = "undefined: no context with two scored items"
        return Ratio(names, tied, pairs, bounds=(0.0, 1.0), missing=missing).estimate(self.resampling)

    def _of_pooled(self, statistic: Callable[[Floats], Floats], bounds: tuple[float, float]) -> Estimate:
        """Estimate a function of the pooled distribution, (replicates, levels) to (replicates,)."""
        sums = self.sums()
        return cluster_statistic(lambda w: statistic(w @ sums), len(sums), self.resampling, None, bounds, _NONE)


_ESTIMATORS: dict[str, Callable[[_Scores], Estimate]] = {
    "round_number_excess_10": lambda scores: scores.round_numbers(10),
    "round_number_excess_5": lambda scores: scores.round_numbers(5),
    "myers_index": _Scores.myers,
    "scale_use": _Scores.scale_use,
    "range_used": _Scores.range,
    "pooled_sd": _Scores.spread,
    "tie_rate": _Scores.ties,
}
#: Names of the metrics.
DISTRIBUTION = tuple(_ESTIMATORS)
