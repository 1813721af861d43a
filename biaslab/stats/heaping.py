"""Digit heaping: demographic measures of a preference for round numbers, for scores on integer scales.

Every measure takes *weights*, one row per item and one column per level of the scale: a 1 at the score that was given
(`biaslab.stats.scale_use.score_weights`), or the exact probabilities of the labels. They are sums or functions of sums,
so items add up to contexts, and contexts can be resampled.

Notes
-----
Heaping is judged against a smooth distribution, not against a uniform one: ranges are chosen so that a linear trend
over the scale gives exactly the fair value. What a normal distribution with a standard deviation of 8 points or more
gives lies within .003 of it where the mean is in the middle third of a 1-100 scale, and within .023 (Whipple's for 10),
.005 (for 5) and .01 (Myers') where the mean is up to 95, so that the end of the scale cuts it off. A narrow peak that
sits on a round number looks like heaping: around 50 Whipple's is 1.08 with a standard deviation of 4 and 1.33 with 3,
around 90 it is 1.16 and 1.40. So pool contexts whose scores differ.

Which test and which interval is honest was simulated with 8, 24 and 100 contexts of 5 or 16 scores, of which 0, 5, 20
or 50 % were rounded to tens, in some contexts more than in others (200 to 600 studies a design, α = .05):

* Whipple's as `biaslab.stats.ratio.Ratio` with ``null=1``: the sign-flip test rejects fair judges in .01 to .055, the
  studentised interval covers .90 to .97. Exception: fair judges in 8 contexts of 5 scores, where it covers .76 for 10
  (the test keeps its level). Whipple is the measure to test.
* Myers' is 0 when fair, the least that it can be, and any sample lies above it: percentile and BCa intervals never
  cover a fair judge, the studentised one in .7. The interval of `myers_estimate` covers .94 to 1 throughout.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, undefined, without_interval
from biaslab.stats.inference import Resampling, draw_weights, in_order
from biaslab.stats.permutation import patterns

Floats = NDArray[np.float64]
_DIGITS = 10


def whipple_sums(weights: ArrayLike, levels: Sequence[float], multiple: int = 10) -> tuple[Floats, Floats]:
    """Return numerator and denominator of Whipple's index for each row; their ratio of sums is the index.

    The index says how much more often multiples are given than the scores around them: 1 is fair, `multiple` is nothing
    but multiples. If a share h of scores is rounded to the nearest multiple, it is 1 + h (multiple - 1).

    The numerator is `multiple` times the weight at its multiples. The denominator is the weight in windows of
    `multiple` levels around them: m ± 2 for 5; for 10, m ± 4 and half of m ± 5. Multiples whose window does not fit
    into the scale are left out, so 3 to 97 enter on a 1-100 scale for 5, and 5 to 95 for 10. A score of 100 enters
    neither: at the end of a scale, a liking for round numbers and a ceiling cannot be told apart.

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
        To be put into `biaslab.stats.ratio.Ratio` with ``null=1`` and ``bounds=(0, multiple)``.

    Raises
    ------
    InputError
        If levels are not consecutive whole numbers, no multiple fits, or weights are negative or not one a level.

    References
    ----------
    Shryock & Siegel 1976, *The Methods and Materials of Demography*, ch. 8. Theirs is 100 times this, for ages 25, 30,
    ..., 60 within 23-62.

    Examples
    --------
    >>> from biaslab.stats.scale_use import score_weights
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

    Whole decades are counted from each of ten starting points, and the ten counts are added: on a 1-100 scale 1-90,
    2-91, ..., 10-99. Myers lets only the lower end move, which is enough where ages die out; both ends move here.

    Parameters
    ----------
    weights, levels
        As for `whipple_sums`; at least 19 levels.

    Returns
    -------
    numpy.ndarray, shape (..., 10)
        For the last digits 0 to 9.

    Raises
    ------
    InputError
        As for `whipple_sums`, or if no decade fits ten times.

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
    """Estimate Myers' blended index: the minimum share of scores whose last digit would have to change to be fair.

    M = ½ Σ_d |B_d / Σ B - 1/10| with the blended sums B of `myers_sums`. 0 is fair, .9 is one digit only; Myers' own is
    100 times this. Unlike Whipple's it sees a liking for any digit, such as 7. On a 1-100 scale a score of 100 does not
    enter.

    The interval is M ± q, kept within 0 to .9, where q is the quantile of ½ Σ_d |p*_d - p_d|, the total variation
    distance of resampled shares of digits p* from the observed p. Since |M(p*) - M(p)| is never more than that, it is
    conservative, most so where heaping is moderate.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    weights : array_like, shape (items, levels)
        Counts or probabilities of the levels.
    levels : sequence of float, shape (levels,)
        As for `myers_sums`.
    resampling : Resampling
        How to resample; its ``method`` makes no difference.

    Returns
    -------
    Estimate
        The note says what M is on average if the judge is fair and contexts vary as these do. There is no test.

    Raises
    ------
    InputError
        As for `myers_sums`.

    Examples
    --------
    >>> from biaslab.stats.scale_use import score_weights
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
        return undefined("undefined: no score in the range of the index")
    share = sums.sum(axis=0) / total
    value, nan = float(np.abs(share - 1 / _DIGITS).sum() / 2), float("nan")
    if contexts == 1:
        return without_interval(value, 1)
    drawn = np.concatenate([weights @ sums for weights in draw_weights(contexts, resampling.n, resampling.seed)])
    distance = np.abs(drawn / drawn.sum(axis=1, keepdims=True) - share).sum(axis=1) / 2
    reach = float(np.quantile(distance, resampling.level))
    gap = sums - sums.mean(axis=1, keepdims=True)
    flips = np.concatenate(list(patterns(contexts, resampling.seed)))  # of the sign of a whole context's deviations
    fair = (np.abs(gap.sum(axis=0) - 2 * flips @ gap).sum(axis=1) / (2 * total)).mean()
    low, high = max(value - reach, 0.0), min(value + reach, 1 - 1 / _DIGITS)
    method = "cluster bootstrap (total variation, conservative)"
    return Estimate(value, nan, low, high, nan, nan, contexts, method, f"expected for a fair judge: {fair:.3f}")


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
