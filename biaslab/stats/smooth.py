"""Cluster bootstrap of smooth functions of sums over contexts: ratios, their differences, odds.

A bootstrap is one product of a weight matrix with the sums of each context, and the gradient of the function gives the
standard error of every replicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from biaslab.stats import intervals
from biaslab.stats.estimate import Estimate, Resampling, effect_or_why_not, undefined

Floats = NDArray[np.float64]
#: Maps sums of shape (replicates, columns) to values (replicates,) and their gradients (replicates, columns).
Smooth = Callable[[Floats], tuple[Floats, Floats]]
#: Weights at a time: half a megabyte stays in cache, and is reused rather than mapped anew.
_CHUNK = 1 << 16
#: With fewer contexts some resamples have next to no spread, and a studentised bootstrap goes astray.
FEW = 8


def smooth_estimate(
    sums: Floats, function: Smooth, resampling: Resampling, bounds: tuple[float, float] | None = None
) -> Estimate:
    """Estimate a smooth function of sums over contexts; the p-value is left NaN.

    Parameters
    ----------
    sums : numpy.ndarray, shape (contexts, columns)
        What each context adds.
    function : callable
        Maps sums of shape (replicates, columns) to values (replicates,) and their gradients (replicates, columns). The
        gradient gives the linearised standard error of every replicate, so that a studentised interval costs no more.
    resampling : Resampling
        How to resample.
    bounds : tuple of float, optional
        Least and greatest possible value.
    """
    contexts, nan = len(sums), float("nan")
    if contexts == 0:
        return undefined("undefined: no trial is left")
    with np.errstate(divide="ignore", invalid="ignore"):
        values, gradients = function(sums.sum(axis=0, keepdims=True))
    value = float(values[0])
    if not np.isfinite(value):
        return undefined("undefined: nothing to divide by", contexts)
    if contexts == 1:
        return Estimate(value, nan, nan, nan, nan, nan, 1, "none", "no interval: one context only")
    error = float(np.sqrt(np.sum((sums @ gradients[0]) ** 2) * contexts / (contexts - 1)))
    if error <= intervals.ROUNDING * float(np.sum(np.abs(sums) @ np.abs(gradients[0]))):
        low, high, method, note = intervals.unvarying(value, contexts, resampling.level, bounds)
        note = note or "contexts do not vary: no detectable effect can be stated"
        return Estimate(value, nan, low, high, nan, nan, contexts, method, note)
    if resampling.method == "studentised" and contexts < FEW:
        (low, high), method = intervals.student(value, error, contexts, resampling.level), "t over contexts"
    else:
        low, high = _interval(sums, function, value, error, resampling)
        method = f"cluster bootstrap ({resampling.method})"
    least, most = bounds or (-np.inf, np.inf)
    low, high = float(np.clip(low, least, most)), float(np.clip(high, least, most))
    effect, note = effect_or_why_not(error, contexts)
    return Estimate(value, error, low, high, nan, effect, contexts, method, note)


def draw_weights(contexts: int, n: int, seed: int, most: int = _CHUNK) -> Iterator[Floats]:
    """Yield how often each context is drawn in each of n resamples, in chunks of at most `most` weights.

    Returns
    -------
    iterator of numpy.ndarray, shape (replicates, contexts)
        Each row sums to the number of contexts.

    Examples
    --------
    >>> [chunk.sum(axis=1).tolist() for chunk in draw_weights(4, 3, seed=0)]
    [[4.0, 4.0, 4.0]]
    """
    rng, rows = np.random.default_rng(seed), max(1, most // contexts)
    for start in range(0, n, rows):
        size = min(rows, n - start)
        drawn = rng.integers(0, contexts, size=(size, contexts))
        drawn += np.arange(0, size * contexts, contexts)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * contexts).reshape(size, contexts).astype(float)


def in_order(sums: Floats) -> Floats:
    """Sort contexts by what they add, so that a seed gives the same resamples however contexts are named or ordered."""
    scale = np.abs(sums).max(axis=0, initial=0.0)
    keys = np.round(sums / np.where(scale > 0, scale, 1.0), 12)
    return sums[np.lexsort(keys.T)]


def bootstrap_smooth(sums: Floats, function: Smooth, n: int, seed: int) -> tuple[Floats, Floats]:
    """Resample contexts with replacement and recompute a smooth function of their sums.

    Returns
    -------
    tuple of numpy.ndarray, each of shape (n,)
        The replicates, and the linearised standard error of each.
    """
    contexts, k = sums.shape
    rows, columns = np.triu_indices(k)
    products = np.column_stack([sums, sums[:, rows] * sums[:, columns]])
    twice = np.where(rows == columns, 1.0, 2.0)
    values, errors = [], []
    for weights in draw_weights(contexts, n, seed):
        moments = weights @ products
        with np.errstate(divide="ignore", invalid="ignore"):
            found, gradient = function(moments[:, :k])
            spread = np.sum(moments[:, k:] * (gradient[:, rows] * gradient[:, columns] * twice), axis=1)
        values.append(found)
        errors.append(np.sqrt(np.maximum(spread, 0.0) * contexts / (contexts - 1)))
    return np.concatenate(values), np.concatenate(errors)


def _interval(
    sums: Floats, function: Smooth, value: float, error: float, resampling: Resampling
) -> tuple[float, float]:
    replicates, errors = bootstrap_smooth(sums, function, resampling.n, resampling.seed)
    finite = np.isfinite(replicates) & np.isfinite(errors)
    replicates, errors = replicates[finite], errors[finite]
    if resampling.method == "studentised":
        return intervals.studentised(value, error, replicates, errors, resampling.level)
    if resampling.method == "percentile":
        return intervals.percentile(replicates, resampling.level)
    with np.errstate(divide="ignore", invalid="ignore"):
        left_out = function(sums.sum(axis=0) - sums)[0]
    return intervals.bca(replicates, value, left_out[np.isfinite(left_out)], resampling.level)
