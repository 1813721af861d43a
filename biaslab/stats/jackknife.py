"""Any statistic over contexts, such as a rank correlation or Krippendorff's alpha, with an interval and a test.

A statistic is a function of weights: how often each context is counted. All ones are the data, a row of draws is a
bootstrap replicate, and a single 0 leaves a context out. A paired difference subtracts two statistics of the same
weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from biaslab.errors import InputError
from biaslab.stats import intervals
from biaslab.stats.estimate import Estimate, Resampling, effect_or_why_not, undefined
from biaslab.stats.permutation import sign_flip
from biaslab.stats.smooth import draw_weights

Floats = NDArray[np.float64]
#: Maps weights of shape (replicates, contexts) to values (replicates,), NaN where the statistic is undefined.
Statistic = Callable[[Floats], Floats]
Scale = Literal["fisher", "plain"]
Block = TypeVar("Block")
_EDGE = 1e-9
_MISSING_SHARE = 0.05


def cluster_statistic(
    statistic: Statistic,
    contexts: int,
    resampling: Resampling,
    null: float | None = None,
    bounds: tuple[float, float] | None = None,
    missing: str = "undefined for these data",
    scale: Scale = "fisher",
) -> Estimate:
    """Estimate a statistic with an interval and a test over contexts.

    Parameters
    ----------
    statistic : callable
        Maps weights of shape (replicates, contexts), whole numbers of at least 0, to the statistic of each replicate,
        shape (replicates,). `on_blocks` makes one from a function of the resampled contexts.
    contexts : int
        How many contexts there are.
    resampling : Resampling
        How to resample. *percentile* and *bca* are bootstrap intervals. *studentised* takes the standard error from
        leaving out one context at a time and the quantiles from t with G − 1 degrees of freedom; with bounds it works
        on Fisher's z scale. With 8 contexts that covered .926 to .951 for Krippendorff's alpha and pooled rank
        correlations, on the simulations it was chosen on or ones like them, and less where alpha is near 1.
    null : float, optional
        Value under the null hypothesis; none means no test and no `mde`. The test flips the signs of the jackknife's
        pseudo-values less the null.
    bounds : tuple of float, optional
        Least and greatest possible value.
    missing : str
        What to note when the statistic is undefined.
    scale : {"fisher", "plain"}
        What *studentised* works on where there are bounds.

    Returns
    -------
    Estimate

    Raises
    ------
    InputError
        If the statistic does not return one value a replicate.

    References
    ----------
    Efron & Tibshirani 1993, *An Introduction to the Bootstrap*, ch. 11; Fisher 1921.

    Examples
    --------
    >>> values = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3, 0.4, 0.5])
    >>> found = cluster_statistic(lambda w: w @ values / w.sum(axis=1), 8, Resampling(), null=0.0)
    >>> round(found.estimate, 3), round(found.ci_low, 3), round(found.ci_high, 3), found.p_value
    (0.375, 0.235, 0.515, 0.0078125)
    """
    nan = float("nan")
    if contexts == 0:
        return undefined(missing)
    value = float(_evaluate(statistic, np.ones((1, contexts)))[0])
    if not np.isfinite(value):
        return undefined(missing, contexts)
    if contexts == 1:
        return Estimate(value, nan, nan, nan, nan, nan, 1, "none", "no interval: one context only")
    left_out = _leave_one_out(statistic, contexts)
    if not np.isfinite(left_out).all():
        reason = "no interval: a single context decides whether there is a value"
        return Estimate(value, nan, nan, nan, nan, nan, contexts, "none", reason)
    if np.ptp(left_out) <= intervals.ROUNDING * max(abs(value), float(np.abs(left_out).max())):
        low, high, method, note = intervals.unvarying(value, contexts, resampling.level, bounds)
        p_value = nan if null is None else sign_flip(np.full(contexts, value - null), resampling.seed)
        note = note or "contexts do not vary: no detectable effect can be stated"
        return Estimate(value, nan, low, high, p_value, nan, contexts, method, note)
    found = _estimate(statistic, value, left_out, resampling, null, bounds if scale == "fisher" else None)
    least, most = bounds or (-math.inf, math.inf)
    return replace(found, ci_low=max(found.ci_low, least), ci_high=min(found.ci_high, most))


def cluster_difference(first: Statistic, second: Statistic, contexts: int, resampling: Resampling) -> Estimate:
    """Estimate one statistic minus another on the same contexts, both with the same weights.

    Parameters
    ----------
    first, second : callable
        Statistics as `cluster_statistic` takes them; their contexts are the same, in the same order.
    contexts : int
        How many contexts there are.
    resampling : Resampling
        How to resample.

    Returns
    -------
    Estimate
        Tested against a difference of 0.

    Examples
    --------
    >>> one, two = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3]), np.array([0.1, 0.4, 0.2, 0.1, 0.4, 0.1])
    >>> found = cluster_difference(lambda w: w @ one / w.sum(1), lambda w: w @ two / w.sum(1), 6, Resampling())
    >>> round(found.estimate, 3), found.p_value
    (0.133, 0.0625)
    """
    return cluster_statistic(lambda weights: first(weights) - second(weights), contexts, resampling, null=0.0)


def on_blocks(blocks: Sequence[Block], function: Callable[[list[Block]], float]) -> Statistic:
    """Make a statistic from a function of the resampled contexts: a plain loop, for what cannot be vectorised.

    Parameters
    ----------
    blocks : sequence
        The data of each context, of any type.
    function : callable
        Maps a list of blocks, some of them repeated, to a number; NaN where it is undefined.

    Examples
    --------
    >>> spread = on_blocks([[1, 2], [5], [3, 9]], lambda drawn: max(map(max, drawn)) - min(map(min, drawn)))
    >>> spread(np.array([[1, 1, 1], [2, 1, 0]])).tolist()
    [8.0, 4.0]
    """

    def statistic(weights: Floats) -> Floats:
        drawn = ([b for b, times in zip(blocks, row, strict=True) for _ in range(times)] for row in weights.astype(int))
        return np.array([function(chosen) for chosen in drawn], float)

    return statistic


def _estimate(
    statistic: Statistic,
    value: float,
    left_out: Floats,
    resampling: Resampling,
    null: float | None,
    bounds: tuple[float, float] | None,
) -> Estimate:
    contexts, (centre, half) = len(left_out), _centre_and_half(bounds)
    z, z_left = _stretch((value - centre) / half, bounds), _stretch((left_out - centre) / half, bounds)
    pseudo = contexts * z - (contexts - 1) * z_left
    error, method, note = float(stats.sem(pseudo)), "jackknife t over contexts", ""
    if resampling.method == "studentised":
        ends = intervals.student(float(z), error, contexts, resampling.level)
        low, high = (centre + half * (math.tanh(end) if bounds else end) for end in ends)
        method += ", z scale" if bounds else ""
    else:
        chunks = [_evaluate(statistic, weights) for weights in draw_weights(contexts, resampling.n, resampling.seed)]
        replicates = np.concatenate(chunks)
        replicates = replicates[np.isfinite(replicates)]
        method = f"cluster bootstrap ({resampling.method})"
        if len(replicates) < (1 - _MISSING_SHARE) * resampling.n:
            note = f"undefined in {resampling.n - len(replicates)} of {resampling.n} resamples, which do not enter"
        if resampling.method == "percentile":
            low, high = intervals.percentile(replicates, resampling.level)
        else:
            low, high = intervals.bca(replicates, value, left_out, resampling.level)
    plain = float(stats.sem(contexts * value - (contexts - 1) * left_out))
    if null is None:
        return Estimate(value, plain, low, high, float("nan"), float("nan"), contexts, method, note)
    p_value = sign_flip(pseudo - _stretch((null - centre) / half, bounds), resampling.seed)
    effect, why_not = effect_or_why_not(plain, contexts)
    return Estimate(value, plain, low, high, p_value, effect, contexts, method, note or why_not)


def _leave_one_out(statistic: Statistic, contexts: int, most: int = 1 << 20) -> Floats:
    """Return the statistic without each context, a chunk of contexts at a time."""
    rows = max(1, most // contexts)
    found = []
    for start in range(0, contexts, rows):
        left = np.arange(start, min(start + rows, contexts))
        weights = np.ones((len(left), contexts))
        weights[np.arange(len(left)), left] = 0
        found.append(_evaluate(statistic, weights))
    return np.concatenate(found)


def _centre_and_half(bounds: tuple[float, float] | None) -> tuple[float, float]:
    return ((bounds[0] + bounds[1]) / 2, (bounds[1] - bounds[0]) / 2) if bounds else (0.0, 1.0)


def _stretch(x: float | Floats, bounds: tuple[float, float] | None) -> Floats:
    """Put values from -1 to 1 on Fisher's z scale, where there are bounds; the edges are kept finite."""
    return np.arctanh(np.clip(x, _EDGE - 1, 1 - _EDGE)) if bounds else np.asarray(x, float)


def _evaluate(statistic: Statistic, weights: Floats) -> Floats:
    found = np.asarray(statistic(weights), float)
    if found.shape != (len(weights),):
        raise InputError("statistic", found.shape, f"values of shape ({len(weights)},), one a replicate")
    return found
