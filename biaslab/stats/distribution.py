"""Distributions of scores with intervals over contexts: round numbers, scale use and ties.

Every measure takes *weights*, one row per item and one column per level of the scale: a 1 at the given score
(`score_weights`), or the exact label probabilities. The measures are sums or functions of
sums, so items can be aggregated to contexts, and contexts resampled.

Notes
-----
The reference is a smooth distribution, not a uniform one: ranges are chosen such that a linear trend over the scale
gives exactly the null. For a normal distribution with a standard deviation of at least 8 points, the indices lie
within .003 of it if the mean is in the middle third of a 1-100 scale, and within .023 (Whipple's for 10), .005 (for 5)
and .01 (Myers') if the mean is up to 95, where the end of the scale truncates the distribution. A narrow peak at a
round number looks like heaping: around 50, Whipple's is 1.08 with a standard deviation of 4 and 1.33 with 3; around 90
it is 1.16 and 1.40. So pool contexts whose scores differ. A smooth distribution is therefore fitted to the levels that
are no multiples of 5 and interpolated at these (a simple case of Camarda, Eilers & Gampe 2008, *Modelling general
patterns of digit preference*, Statistical Modelling 8). If its index departs from the null by more than .023, a note
has it, and the interval with that index as the null is plausible too
(`biaslab.stats.missing.plausible_intervals`).

The choice of test and interval is based on simulations with 8, 24 and 100 contexts of 5 or 16 scores, of which 0, 5,
20 or 50 % were rounded to tens, to a degree that varied between contexts (200 to 600 studies per design, α = .05):

* Whipple's as `biaslab.stats.ratio.Ratio` with ``null=1``: the sign-flip test rejects for unbiased judges in .01 to
  .055, the studentised interval covers .90 to .97. Exception: unbiased judges in 8 contexts of 5 scores, where it
  covers .76 for 10 (the test keeps its level). Use Whipple's index for tests.
* Myers' is 0 for an unbiased judge, its minimum, so any sample lies above it: percentile and BCa intervals never cover
  the truth, the studentised one in .7. The interval of `myers_estimate` covers .94 to 1 throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its subpackages load when they are first used
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.stats import resample
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, Note, because, undefined, without_interval
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, draw_weights, in_groups, in_order, patterns, percentile


def score_weights(scores: ArrayLike, levels: Sequence[float]) -> Floats:
    """Return indicator weights: 1 at the level of each score, all 0 if it is missing.

    Parameters
    ----------
    scores : array_like of float, shape (items,)
        Scores; NaN if missing.
    levels : sequence of float, shape (levels,)
        The levels of the scale, increasing.

    Returns
    -------
    numpy.ndarray, shape (items, levels)

    Raises
    ------
    InputError
        If a score is not one of the levels, or the levels do not increase.

    Examples
    --------
    >>> score_weights([3, np.nan, 1], levels=[1, 2, 3]).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    values, scale = np.asarray(scores, float), np.asarray(levels, float)
    if scale.ndim != 1 or not (np.diff(scale) > 0).all():
        raise InputError("levels", list(scale), "numbers in increasing order")
    weights = (np.abs(values[:, None] - scale) < 1e-9).astype(float)
    strange = ~np.isnan(values) & (weights.sum(axis=1) == 0)
    if strange.any():
        allowed = f"levels of the scale, from {scale[0]:g} to {scale[-1]:g}, or NaN"
        raise InputError("scores", values[strange][0], allowed)
    return np.asarray(weights)


def effective_levels(weights: ArrayLike) -> Floats:
    """Return exp(entropy) over the last axis: the effective number of equally used levels.

    Parameters
    ----------
    weights : array_like, shape (..., levels)
        Counts or probabilities, normalised or not.

    Returns
    -------
    numpy.ndarray, shape (...)
        From 1 to the number of levels; NaN without any weight. Biased downwards in small samples: the entropy of n
        scores on K used levels is too low by about (K - 1) / 2n (Miller 1955).

    References
    ----------
    Hill 1973, *Diversity and Evenness*, Ecology 54(2): the diversity of order 1.

    Examples
    --------
    >>> effective_levels([[1, 1, 0, 0], [3, 0, 0, 0]]).round(6).tolist()
    [2.0, 1.0]
    """
    table = np.asarray(weights, float)
    with np.errstate(invalid="ignore"):
        share = table / table.sum(axis=-1, keepdims=True)
    return np.asarray(np.exp(-xlogy(share, share).sum(axis=-1)))


def tie_sums(context: ArrayLike, weights: ArrayLike) -> tuple[Floats, Floats, NDArray[Any]]:
    """Return the numbers of tied pairs and of all pairs of items in each context.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    weights : array_like, shape (items, levels)
        With probabilities, a pair counts as tied with the probability that two independent draws agree.

    Returns
    -------
    tuple of numpy.ndarray, each of shape (contexts,)
        Tied pairs, pairs, and the names of the contexts; for `biaslab.stats.ratio.Ratio` with ``bounds=(0, 1)``.

    Examples
    --------
    >>> tied, pairs, names = tie_sums(list("aaabb"), score_weights([1, 1, 2, 3, 3], levels=[1, 2, 3]))
    >>> tied.tolist(), pairs.tolist(), names.tolist()
    ([1.0, 1.0], [3.0, 1.0], ['a', 'b'])
    """
    table = np.asarray(weights, float)
    mass = table.sum(axis=1)
    sums, names = sum_by_context(context, *table.T, (table**2).sum(axis=1), mass**2)
    each, own, own_mass = sums[:, :-2], sums[:, -2], sums[:, -1]
    tied = ((each**2).sum(axis=1) - own) / 2
    pairs = (each.sum(axis=1) ** 2 - own_mass) / 2
    return tied, pairs, names


_DIGITS = 10


def whipple_sums(weights: ArrayLike, levels: Sequence[float], multiple: int = 10) -> tuple[Floats, Floats]:
    """Return numerator and denominator of Whipple's index for each row; their ratio of sums is the index.

    The index says how much more often multiples occur than the scores around them: 1 means no preference, `multiple`
    nothing but multiples. If a share h of scores is rounded to the nearest multiple, it is 1 + h (multiple - 1).

    The numerator is `multiple` times the weight at its multiples. The denominator is the weight in windows of
    `multiple` levels around them: m ± 2 for 5; for 10, m ± 4 and half of m ± 5. Multiples whose window does not fit
    into the scale are excluded, so 3 to 97 are used on a 1-100 scale for 5, and 5 to 95 for 10. Scores of 100 are
    excluded from both because, at the end of a scale, a preference for round numbers cannot be distinguished from a
    ceiling effect.

    Parameters
    ----------
    weights : array_like, shape (..., levels)
        Counts or probabilities of the levels.
    levels : sequence of float, shape (levels,)
        Consecutive whole numbers, such as ``range(1, 101)``.
    multiple : int
        10, 5, or another whole number of at least 2.

    Returns
    -------
    tuple of numpy.ndarray, each of shape (...)
        For `biaslab.stats.ratio.Ratio` with ``null=1`` and ``bounds=(0, multiple)``.

    Raises
    ------
    InputError
        If levels are not consecutive whole numbers, no multiple fits, or weights are negative or not one per level.

    References
    ----------
    Shryock & Siegel 1976, *The Methods and Materials of Demography*, ch. 8. Their index is 100 times this, for ages
    25, 30, 35, ..., 60 within 23-62.

    Examples
    --------
    >>> from biaslab.stats.distribution import score_weights
    >>> up, down = whipple_sums(score_weights([40, 50, 53, 57, 100], range(1, 101)), range(1, 101))
    >>> up.tolist(), down.tolist()
    ([10.0, 10.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 0.0])
    """
    table, scale = _checked(weights, levels)
    require_whole("multiple", multiple, 2)
    reach = multiple // 2
    centres = [m for m in scale if m % multiple == 0 and m - reach >= scale[0] and m + reach <= scale[-1]]
    if not centres:
        raise InputError("multiple", multiple, f"a multiple whose window fits between {scale[0]} and {scale[-1]}")
    distance = np.abs(scale[:, None] - np.array(centres))
    window = (distance < multiple / 2) + 0.5 * (distance == multiple / 2)
    return multiple * table @ (distance == 0).sum(axis=1), table @ window.sum(axis=1)


def myers_sums(weights: ArrayLike, levels: Sequence[float]) -> Floats:
    """Return the blended sum of every last digit for each row.

    Complete decades are counted from each of ten starting points, and the ten counts are added: on a 1-100 scale 1-90,
    2-91, ..., 10-99. Myers moves only the lower end, which suffices for ages, whose upper end thins out; here both
    ends move.

    Parameters
    ----------
    weights, levels
        As in `whipple_sums`; at least 19 levels.

    Returns
    -------
    numpy.ndarray, shape (..., 10)
        For the last digits 0 to 9.

    Raises
    ------
    InputError
        As in `whipple_sums`, or if ten decades do not fit.

    Examples
    --------
    >>> myers_sums(np.ones(100), range(1, 101)).tolist()
    [90.0, 90.0, 90.0, 90.0, 90.0, 90.0, 90.0, 90.0, 90.0, 90.0]
    """
    table, scale = _checked(weights, levels)
    length = (len(scale) - _DIGITS + 1) // _DIGITS * _DIGITS
    if length < _DIGITS:
        raise InputError("levels", len(scale), "at least 19 levels", "use whipple on a short scale")
    start, place = np.arange(_DIGITS), np.arange(len(scale))[:, None]
    blend = ((place >= start) & (place < start + length)).sum(axis=1)
    return np.asarray(table * blend @ (scale[:, None] % _DIGITS == np.arange(_DIGITS)), float)


def myers_estimate(context: ArrayLike, weights: ArrayLike, levels: Sequence[float], resampling: Resampling) -> Estimate:
    """Estimate Myers' blended index: the minimum share of scores whose last digit would have to change to be unbiased.

    M = ½ Σ_d |B_d / Σ B - 1/10| with the blended sums B of `myers_sums`. 0 means no digit preference, .9 a single
    digit; Myers' own index is 100 times this. Unlike Whipple's it detects a preference for any digit, such as 7. On a
    1-100 scale, scores of 100 are excluded.

    The interval is M ± q, clipped to 0 to .9, where q is the quantile of ½ Σ_d |p*_d - p_d|, the total variation
    distance between resampled digit shares p* and the observed p. Since |M(p*) - M(p)| never exceeds that, it is
    conservative, most so for moderate heaping.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    weights : array_like, shape (items, levels)
        Counts or probabilities of the levels.
    levels : sequence of float, shape (levels,)
        As in `myers_sums`.
    resampling : Resampling
        Resampling settings; ``method`` has no effect.

    Returns
    -------
    Estimate
        The note gives the mean of M for an unbiased judge whose contexts vary like these. There is no test.

    Raises
    ------
    InputError
        As in `myers_sums`.

    Examples
    --------
    >>> from biaslab.stats.distribution import score_weights
    >>> scores, scale = [40, 50, 60, 70, 30, 80, 55, 60, 70, 45, 50, 60, 70, 62, 40, 80], range(1, 101)
    >>> estimate = myers_estimate(list("aabbccddeeffgghh"), score_weights(scores, scale), scale, Resampling())
    >>> round(estimate.estimate, 3), round(estimate.ci_low, 3), round(estimate.ci_high, 3), estimate.note
    (0.738, 0.55, 0.9, 'expected for a fair judge: 0.261')
    """
    blended = myers_sums(weights, levels)
    sums, _ = sum_by_context(resampling.cluster_of(context), *blended.T)
    sums = in_order(sums[sums.sum(axis=1) > 0])
    contexts, total = len(sums), sums.sum()
    if not contexts:
        return undefined(because("no_score_in_range", "no score in the range of the index"))
    share = sums.sum(axis=0) / total
    value, nan = float(np.abs(share - 1 / _DIGITS).sum() / 2), float("nan")
    if contexts == 1:
        return without_interval(value, 1)
    seed, sums = resampling.seed, in_groups(sums, resampling.seed)
    drawn = np.concatenate([weights @ sums for weights in draw_weights(len(sums), resampling.n, seed)])
    distance = np.abs(drawn / drawn.sum(axis=1, keepdims=True) - share).sum(axis=1) / 2
    reach = float(np.quantile(distance, resampling.level))
    gap = sums - sums.mean(axis=1, keepdims=True)
    flipped = [
        gap.sum(axis=0) - 2 * flips @ gap for flips in patterns(len(sums), seed)
    ]  # all of a context's deviations
    fair = (np.abs(np.concatenate(flipped)).sum(axis=1) / (2 * total)).mean()
    low, high = max(value - reach, 0.0), min(value + reach, 1 - 1 / _DIGITS)
    method = "cluster bootstrap (total variation, conservative)"
    return Estimate(value, nan, low, high, nan, nan, contexts, method, (f"expected for a fair judge: {fair:.3f}",))


def _checked(weights: ArrayLike, levels: Sequence[float]) -> tuple[Floats, NDArray[np.int_]]:
    """Return weights as an array and levels as integers; raise `InputError` if invalid."""
    table, scale = np.asarray(weights, float), np.asarray(levels, float)
    if scale.ndim != 1 or not len(scale) or (scale != np.arange(len(scale)) + round(scale[0])).any():
        raise InputError("levels", list(scale), "consecutive whole numbers, such as range(1, 101)")
    if table.shape[-1:] != scale.shape:
        raise InputError("weights", table.shape, f"one weight per level, shape (..., {len(scale)})")
    if not (table >= 0).all():
        strange = table[~(table >= 0)][0]
        raise InputError("weights", float(strange), "numbers of at least 0", "remove rows without weights")
    return table, scale.astype(int)


_CENTRAL = 0.98
_FEWEST_MULTIPLES = 3
_NEARLY = 0.023  # the farthest that the index of a smooth distribution may lie from the null at an end of the scale
_PREFERRED = 5  # its multiples may be preferred, so the smooth distribution is interpolated there
_ORDER, _ROUGHNESS = 3, np.logspace(1, 7, 7)  # of the differences; weights of their squares, from many peaks to one
_STEPS, _CLOSE, _FARTHEST = 30, 1e-6, 3.0  # at most; change of shares at convergence, of log counts in a step
_FEWEST_OTHERS = 20  # scores at one or two levels that are no multiples of 5
_RIDGE = 1e-11  # keeps a distribution finite where few levels are used
_OUTSIDE = "fewer than three multiples of {multiple} fit into the scale with their windows"
_FEW_MULTIPLES = because("few_multiples", _OUTSIDE)
_NONE = because("no_scores", "no scores left")


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
        truncated by the ends of the scale can have an index up to .023 from 1 (`biaslab.stats.distribution`), which
        would be detected with exact distributions, though not with the usual sample sizes.

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
    >>> from biaslab.stats.distribution import score_weights
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
            return undefined(_FEW_MULTIPLES.with_values(multiple=int(multiple)))
        up, down = whipple_sums(self.table, self.values.tolist(), multiple)
        missing = because("no_score_inside_scale", "no score lies strictly inside the scale")
        bounds = (0.0, float(multiple))
        ratio = Ratio(self.context, up, down, self.null, bounds, missing, inference="t", margin=self.margin)
        estimate = ratio.estimate(self.resampling)
        if self.null is None or np.isnan(estimate.ci_low):
            return estimate
        smooth = _smooth(self.table.sum(axis=0), self.values)
        if not smooth.any():
            return estimate
        up, down = whipple_sums(smooth[None], self.values.tolist(), multiple)
        excess = float((up / down)[0]) - self.null
        if not abs(excess) > _NEARLY:
            return estimate
        ends = {"low": estimate.ci_low - max(excess, 0.0), "high": estimate.ci_high - min(excess, 0.0)}
        return estimate.noted(Note("narrow_peak", {**ends, "index": self.null + excess}))

    def myers(self) -> Estimate:
        """Myers' blended index."""
        if not self.whole or len(self.values) < 2 * 10 - 1:
            why = "the scale does not contain complete decades at every offset"
            return undefined(because("incomplete_decades", why))
        return myers_estimate(self.context, self.table, self.values.tolist(), self.resampling)

    def scale_use(self) -> Estimate:
        """exp(entropy) of all scores, as a fraction of the number of levels."""
        return self._of_pooled(lambda pooled: effective_levels(pooled) / len(self.values), (0.0, 1.0))

    def spread(self) -> Estimate:
        """Return the standard deviation of all scores."""
        most = float(self.values[-1] - self.values[0]) / 2
        return self._of_pooled(lambda pooled: self._moments(pooled)[:, 1], (0.0, most))

    def _moments(self, pooled: Floats) -> Floats:
        """Return mean and standard deviation of each distribution, shape (distributions, 2)."""
        middle = self.values.mean()
        share, centred = pooled / pooled.sum(axis=1, keepdims=True), self.values - middle
        mean = share @ centred
        return np.column_stack([mean + middle, np.sqrt(np.maximum(share @ centred**2 - mean**2, 0.0))])

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
        method, notes = "cluster bootstrap (percentile)", ("the coverage of the interval is not established",)
        se = float(drawn.std(ddof=1)) or nan
        return Estimate(value, se, min(low, value), max(high, value), nan, nan, contexts, method, notes)

    def ties(self) -> Estimate:
        """Return the share of pairs within a context with equal scores."""
        tied, pairs, names = tie_sums(self.context, self.table)
        missing = because("no_two_items", "no context with two scored items")
        return Ratio(names, tied, pairs, bounds=(0.0, 1.0), missing=missing).estimate(self.resampling)

    def _of_pooled(self, statistic: Callable[[Floats], Floats], bounds: tuple[float, float]) -> Estimate:
        """Estimate a function of the pooled distribution, (replicates, levels) to (replicates,)."""
        sums = self.sums()
        return resample.cluster_statistic(
            lambda w: statistic(w @ sums), len(sums), self.resampling, None, bounds, _NONE
        )


def _smooth(counts: Floats, levels: Floats) -> Floats:
    """Return the expected counts of a smooth distribution like that of the scores that are no multiple of 5.

    Log counts are penalised for their third differences (Eilers & Marx 1996), so that the smoothest distribution is a
    normal one; Schwarz's criterion decides how far it may depart from that, as with several peaks. All 0 if too few
    scores are no multiple of 5: fewer than 20, at fewer than three levels.
    """
    used = (levels % _PREFERRED != 0).astype(float)
    total, differences = float(counts @ used), np.diff(np.eye(len(levels)), _ORDER, axis=0)
    if total < _FEWEST_OTHERS and np.count_nonzero(counts * used) < _ORDER:
        return np.zeros_like(counts)
    fits, logs = [], np.log((counts * used + total / len(levels)) / 2)
    for roughness in _ROUGHNESS:
        penalty = roughness * (differences.T @ differences + _RIDGE * np.eye(len(levels)))
        for _ in range(_STEPS):
            weight = used * np.exp(logs)
            slope = used * counts - weight - penalty @ logs
            step = scipy.linalg.solve(np.diag(weight) + penalty, slope, assume_a="pos")
            logs = logs + np.clip(step, -_FARTHEST, _FARTHEST)
            if np.abs(used * np.exp(logs) - weight).max() < _CLOSE * total:
                break
        weight = used * np.exp(logs)
        parameters = float(np.trace(scipy.linalg.solve(np.diag(weight) + penalty, np.diag(weight), assume_a="pos")))
        likelihood = float((xlogy(counts, np.exp(logs)) * used).sum() - weight.sum())
        fits.append((parameters * np.log(max(total, 1.0)) - 2 * likelihood, np.exp(logs)))
    return np.asarray(min(fits, key=lambda fit: fit[0])[1], float)


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
