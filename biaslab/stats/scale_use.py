"""How a judge uses the scale: effective levels and ties.

Every measure takes *weights*, one row per item and one column per level of the scale: a 1 at the given score
(`score_weights`), or the exact label probabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.stats.blocks import sum_by_context


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
        raise InputError(
            "scores", values[strange][0], f"levels of the scale, from {scale[0]:g} to {scale[-1]:g}, or NaN"
        )
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
