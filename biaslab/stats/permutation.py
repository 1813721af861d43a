"""Permutation tests over contexts: flip signs or swap two conditions for whole contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.stats.estimate import is_rounding
from biaslab.stats.inference import in_groups

_EXACT_CONTEXTS = 12
_DRAWN = 9_999
_CHUNK = 1 << 16
_MOST = 0.5  # minimum share of contexts with a zero contribution


def sign_flip(contributions: ArrayLike, seed: int = 0) -> float:
    """Two-sided sign-flip test that contributions, one per context, are symmetric around 0.

    All 2^G sign patterns are enumerated for up to 12 contexts; beyond that 9,999 are drawn (and the observed one
    added). If half of the contexts or more contribute 0, as for a judge that is rarely swayed, the test effectively
    uses the remaining contexts, and with few of them is far below its level; patterns as extreme as the observed one
    then count as half (mid-p). With 24 contexts this raises the type-I error from .005 to .017 if 4 of them
    contribute, and from .019 to .039 if 8 do. Many contexts are flipped in random groups
    (`biaslab.stats.inference.in_groups`), which are symmetric around 0 if contexts are.

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        Each context's contribution to the statistic, centred at the null. Order does not matter.
    seed : int
        Random seed of the sign patterns.

    Returns
    -------
    float
        The p-value, in (0, 1]; NaN without contexts, or if a contribution is NaN.

    References
    ----------
    Lancaster 1961, *Significance tests in discrete distributions*, JASA 56.

    Examples
    --------
    >>> sign_flip([1.0, 1.0, 1.0, 1.0, 1.0]), sign_flip([1.0, 1.0, 1.0, 1.0, 1.0, *6 * [0.0]])
    (0.0625, 0.03125)
    """
    values = np.sort(np.asarray(contributions, float))
    size = float(np.abs(values).sum())
    rare = bool(len(values)) and float(np.mean(is_rounding(values, size))) >= _MOST and not is_rounding(size)
    values = in_groups(values, seed)
    return swap_test(lambda flips: values.sum() - 2 * (flips @ values), len(values), seed, size, mid_p=rare)


def swap_test(
    statistic: Callable[[Floats], Floats], contexts: int, seed: int = 0, size: float = 0.0, *, mid_p: bool = False
) -> float:
    """Two-sided permutation test that two conditions are exchangeable: swaps them in whole contexts.

    Judgements of the same context are dependent, so the conditions are swapped in all or none of them. All 2^G
    patterns are enumerated for up to 12 contexts; beyond that 9,999 are drawn (and the observed one added).

    Parameters
    ----------
    statistic : callable
        Maps patterns of shape (patterns, contexts), with 1 for contexts whose conditions are swapped and 0 for others,
        to the statistic, shape (patterns,): a difference, 0 under the null. Patterns with a NaN count as extreme.
    contexts : int
        Number of contexts.
    seed : int
        Random seed of the patterns.
    size : float
        Magnitude of the numbers that the statistic is computed from: values that differ only by rounding count as
        equal.
    mid_p : bool
        Count patterns exactly as extreme as the observed one as half.

    Returns
    -------
    float
        The p-value, in (0, 1]; NaN without contexts, or if the observed statistic is NaN.

    Raises
    ------
    InputError
        If the statistic does not return one value per pattern.

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
    extreme, alike, total = 0, 0, 0
    for flips in patterns(contexts, seed):
        statistics = np.abs(evaluate(statistic, flips))
        same = is_rounding(statistics - abs(observed), size)
        extreme += int(np.sum((statistics >= abs(observed)) | same | np.isnan(statistics)))
        alike += int(np.sum(same))
        total += len(flips)
    counted = extreme - (alike / 2 if mid_p and alike < total else 0)  # no information if all are alike
    if contexts <= _EXACT_CONTEXTS:
        return counted / total
    return (counted + 1) / (total + 1)


def patterns(contexts: int, seed: int = 0) -> Iterator[Floats]:
    """Yield all patterns of 0 and 1 for up to 12 contexts, and 9,999 random ones for more, in chunks.

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
    """Return the statistic of each row of patterns or weights; raise `InputError` unless it is one value per row."""
    values = np.asarray(statistic(rows), float)
    if values.shape != (len(rows),):
        raise InputError("statistic", values.shape, f"values of shape ({len(rows)},), one per row")
    return values
