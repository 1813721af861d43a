"""Tests by permutation over contexts: flip the sign, or swap the two conditions, of whole contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.core.errors import InputError
from biaslab.stats.estimate import is_rounding

Floats = NDArray[np.float64]
_EXACT_CONTEXTS = 12
_DRAWN = 9_999
_CHUNK = 1 << 16


def sign_flip(contributions: ArrayLike, seed: int = 0) -> float:
    """Two-sided sign-flip test that contributions, one a context, are symmetric around 0.

    All 2^G sign patterns are enumerated for up to 12 contexts, 9,999 are drawn beyond (and the observed one counted).

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        What each context adds to the statistic, centred at the null. Their order does not matter.
    seed : int
        Of the drawn sign patterns.

    Returns
    -------
    float
        The p-value, in (0, 1]; NaN for no context, or where a contribution is NaN.

    Examples
    --------
    >>> sign_flip([1.0, 1.0, 1.0, 1.0, 1.0])
    0.0625
    """
    values = np.sort(np.asarray(contributions, float))
    size = float(np.abs(values).sum())
    return swap_test(lambda flips: values.sum() - 2 * (flips @ values), len(values), seed, size)


def swap_test(statistic: Callable[[Floats], Floats], contexts: int, seed: int = 0, size: float = 0.0) -> float:
    """Two-sided permutation test that two conditions are exchangeable: swap them in whole contexts.

    Judgements of one context are not independent, so the two conditions change places in all of a context or in none of
    it. All 2^G patterns are enumerated for up to 12 contexts, 9,999 are drawn beyond (and the observed one counted).

    Parameters
    ----------
    statistic : callable
        Maps patterns of shape (patterns, contexts), 1 where the conditions of a context are swapped and else 0, to the
        statistic of each, shape (patterns,): a difference, 0 under the null. Patterns where it is NaN count as extreme.
    contexts : int
        How many contexts there are.
    seed : int
        Of the drawn patterns.
    size : float
        How large the numbers are that the statistic comes of: values that differ by rounding only are as extreme.

    Returns
    -------
    float
        The p-value, in (0, 1]; NaN for no context, or where the observed statistic is NaN.

    Raises
    ------
    InputError
        If the statistic does not return one value a pattern.

    References
    ----------
    Ernst 2004, *Permutation Methods: A Basis for Exact Inference*, Statistical Science 19(4).

    Examples
    --------
    The largest score under two conditions; the outlier stays one wherever it goes:

    >>> a, b = np.array([3.0, 9.0, 4.0, 5.0, 4.0, 6.0]), np.array([1.0, 2.0, 2.0, 1.0, 3.0, 2.0])
    >>> swap_test(lambda s: np.where(s, b, a).max(axis=1) - np.where(s, a, b).max(axis=1), 6)
    0.0625
    """
    if contexts == 0:
        return float("nan")
    observed = evaluate(statistic, np.zeros((1, contexts)))[0]
    if np.isnan(observed):
        return float("nan")
    extreme, total = 0, 0
    for flips in patterns(contexts, seed):
        found = np.abs(evaluate(statistic, flips))
        extreme += int(np.sum((found >= abs(observed)) | is_rounding(found - abs(observed), size) | np.isnan(found)))
        total += len(flips)
    if contexts <= _EXACT_CONTEXTS:
        return extreme / total
    return (extreme + 1) / (total + 1)


def patterns(contexts: int, seed: int = 0) -> Iterator[Floats]:
    """Yield all patterns of 0 and 1 for up to 12 contexts, and 9,999 drawn ones beyond, in chunks.

    Returns
    -------
    iterator of numpy.ndarray, shape (patterns, contexts)

    Examples
    --------
    >>> np.concatenate(list(patterns(2))).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    if contexts <= _EXACT_CONTEXTS:
        yield (np.arange(2**contexts)[:, None] >> np.arange(contexts) & 1).astype(float)
        return
    rng, left, rows = np.random.default_rng(seed), _DRAWN, max(1, _CHUNK // contexts)
    while left:
        size = min(rows, left)
        bits = np.unpackbits(np.frombuffer(rng.bytes(size * contexts // 8 + 1), np.uint8), count=size * contexts)
        yield bits.reshape(size, contexts).astype(float)
        left -= size


def evaluate(statistic: Callable[[Floats], Floats], rows: Floats) -> Floats:
    """Return the statistic of each row of patterns or weights; raise `InputError` unless it is one value a row."""
    found = np.asarray(statistic(rows), float)
    if found.shape != (len(rows),):
        raise InputError("statistic", found.shape, f"values of shape ({len(rows)},), one per row")
    return found
