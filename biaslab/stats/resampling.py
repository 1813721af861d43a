"""Ratios over contexts, and differences of them, with bootstrap intervals and tests.

Judgements of one context are not independent, so contexts are resampled, never judgements. Trials are first reduced to
one numerator and one denominator a context; a bootstrap is then one product of a weight matrix with them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError
from biaslab.stats.estimate import Estimate, Resampling
from biaslab.stats.permutation import sign_flip, swap_test
from biaslab.stats.smooth import in_order, smooth_estimate

__all__ = ["Estimate", "Resampling", "cluster_ratio", "ratio_difference", "sign_flip"]

Floats = NDArray[np.float64]


def cluster_ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    resampling: Resampling,
    null: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """Estimate Σ numerators / Σ denominators with an interval and a test over contexts.

    Parameters
    ----------
    numerators, denominators : array_like, shape (contexts,)
        Sums within each context: for a rate, successes and trials; for a mean, sum and count. Contexts whose
        denominator is 0, or where either is NaN, do not enter. Their order does not matter.
    resampling : Resampling
        How to resample.
    null : float, optional
        Value under the null hypothesis; none means no test and no `mde`.
    bounds : tuple of float, optional
        Least and greatest possible ratio. When all contexts have the same ratio the bootstrap has no width, and the
        interval is Clopper and Pearson's with each context as one trial, which is conservative.

    Returns
    -------
    Estimate

    Raises
    ------
    InputError
        If a sum is infinite, or the two are not one a context.

    Examples
    --------
    >>> e = cluster_ratio([3, 4, 2, 4, 3, 4, 4, 3], [4] * 8, Resampling(seed=1), null=0.5)
    >>> round(e.estimate, 3), round(e.ci_low, 3), round(e.ci_high, 3), round(e.p_value, 4)
    (0.844, 0.693, 0.989, 0.0156)
    """
    sums = _columns(numerators, denominators)
    sums = in_order(sums[(sums[:, 1] > 0) & ~np.isnan(sums[:, 0])])
    found = smooth_estimate(sums, _ratio, resampling, bounds)
    if null is None or found.n_contexts < 2:
        return found
    return replace(found, p_value=sign_flip(sums[:, 0] - null * sums[:, 1], resampling.seed))


def ratio_difference(
    numerators: tuple[ArrayLike, ArrayLike], denominators: tuple[ArrayLike, ArrayLike], resampling: Resampling
) -> Estimate:
    """Estimate how much larger one ratio is than another on the same contexts, with a paired bootstrap.

    Both ratios are recomputed with the same resampled contexts, so what the contexts have in common cancels. The test
    swaps the two ratios' sums in whole contexts, against a difference of 0.

    Parameters
    ----------
    numerators, denominators : tuple of two array_like, each of shape (contexts,)
        Sums within each context of the first and of the second ratio, in the same order of contexts. A context where
        either ratio has no denominator does not enter.
    resampling : Resampling
        How to resample.

    Returns
    -------
    Estimate
        Of the first minus the second.

    Examples
    --------
    >>> e = ratio_difference(([3, 4, 2, 4, 3, 4, 4, 3], [2, 2, 1, 3, 2, 3, 2, 2]), ([4] * 8, [4] * 8), Resampling())
    >>> round(e.estimate, 3), e.p_value
    (0.312, 0.0078125)
    """
    sums = _columns(numerators[0], denominators[0], numerators[1], denominators[1])
    sums = in_order(sums[(sums[:, [1, 3]] > 0).all(axis=1) & ~np.isnan(sums).any(axis=1)])
    found = smooth_estimate(sums, _difference, resampling)
    if found.n_contexts < 2:
        return found
    gap, total = sums[:, [2, 3, 0, 1]] - sums, sums.sum(axis=0)
    p_value = swap_test(lambda swaps: _difference(total + swaps @ gap)[0], len(sums), resampling.seed)
    return replace(found, p_value=p_value)


def _columns(*sums: ArrayLike) -> Floats:
    arrays = [np.asarray(values, float) for values in sums]
    if any(array.shape != arrays[0].shape or array.ndim != 1 for array in arrays):
        raise InputError("sums", [array.shape for array in arrays], "one number a context in each")
    columns = np.column_stack(arrays)
    if np.isinf(columns).any():
        raise InputError("sums", np.inf, "finite numbers, and NaN where there is none")
    return columns


def _ratio(sums: Floats) -> tuple[Floats, Floats]:
    value = sums[:, 0] / sums[:, 1]
    return value, np.stack([1 / sums[:, 1], -value / sums[:, 1]], axis=1)


def _difference(sums: Floats) -> tuple[Floats, Floats]:
    (first, up), (second, down) = _ratio(sums[:, :2]), _ratio(sums[:, 2:])
    return first - second, np.concatenate([up, -down], axis=1)
