"""Compute with label distributions: temperature, means of n samples, and agreement with humans.

Agreement is an expectation over sampling: it is averaged over draws before contexts are resampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Codes, Floats
from biaslab.core.errors import InputError
from biaslab.stats.correlation import correlate_within, rounded
from biaslab.stats.estimate import is_rounding
from biaslab.stats.ratio import Ratio

_AT_ONCE = 4096  # items per chunk: all draws of a chunk are held in memory


def tempered(logprobs: ArrayLike, temperature: float = 1.0) -> Floats:
    """Return the exact distribution over labels at a temperature.

    p_T ∝ p^(1/T) is exact if every label is a single token that is certain to end there. Labels of several tokens are
    sampled token by token, which this formula approximates; at T = 1 there is no difference.

    Parameters
    ----------
    logprobs : array_like, shape (..., labels)
        Log-probabilities at temperature 1, as in `biaslab.Reply`, normalised or not.
    temperature : float
        0 is greedy: all mass on the most likely label, shared equally if several are tied up to rounding.

    Returns
    -------
    numpy.ndarray, shape (..., labels)
        Probabilities that sum to 1; all NaN if no label has any probability.

    Raises
    ------
    InputError
        If the temperature is negative or not a number.

    Examples
    --------
    >>> tempered([np.log(0.2), np.log(0.1)], temperature=0.5).round(2).tolist()
    [0.8, 0.2]
    """
    if not temperature >= 0 or np.isinf(temperature):
        raise InputError("temperature", temperature, "a finite number of at least 0")
    values = np.asarray(logprobs, float)
    if not values.size:
        return values
    known, highest = np.isfinite(values).any(axis=-1, keepdims=True), values.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):  # -inf below the maximum is correct
        p = is_rounding(highest - values) if temperature == 0 else np.exp((values - highest) / temperature)
        return np.where(known, p / p.sum(axis=-1, keepdims=True), np.nan)


def draw_means(probabilities: ArrayLike, levels: ArrayLike, n: int, draws: int, rng: np.random.Generator) -> Floats:
    """Draw the mean of n sampled scores for every item, several times.

    Parameters
    ----------
    probabilities : array_like, shape (items, levels)
        The label distribution of each item, summing to 1.
    levels : array_like, shape (levels,)
        The value of each label.
    n, draws : int
        Number of samples per mean, and number of means per item.
    rng : numpy.random.Generator
        Source of random numbers.

    Returns
    -------
    numpy.ndarray, shape (draws, items)

    Raises
    ------
    InputError
        If ``n`` or ``draws`` is less than 1.

    Examples
    --------
    >>> draw_means([[0.0, 1.0], [1.0, 0.0]], [1, 2], n=3, draws=2, rng=np.random.default_rng(0)).tolist()
    [[2.0, 1.0], [2.0, 1.0]]
    """
    if n < 1 or draws < 1:
        raise InputError("n, draws", (n, draws), "whole numbers of at least 1")
    table, values = np.asarray(probabilities, float), np.asarray(levels, float)
    drawn = [np.empty((0, draws))]
    for start in range(0, len(table), _AT_ONCE):
        cumulative = np.cumsum(table[start : start + _AT_ONCE], axis=1)[:, :, None, None]
        u = rng.random((len(cumulative), draws, n)) * cumulative[:, -1]
        at = np.zeros(u.shape, np.intp)
        for label in range(len(values) - 1):
            at += cumulative[:, label] <= u
        drawn.append(values[at].mean(axis=2))
    return np.concatenate(drawn).T


@dataclass(frozen=True)
class Agreement:
    """Agreement of drawn scores with a reference within contexts, one value per context.

    Attributes
    ----------
    context : numpy.ndarray, shape (contexts,)
        Names of the contexts.
    tau : numpy.ndarray, shape (contexts,)
        Sum over draws of Kendall's τ-b, divided by the number of draws.
    defined : numpy.ndarray, shape (contexts,)
        Share of the draws for which it is defined, because both scores vary.
    tied, pairs : numpy.ndarray, shape (contexts,)
        Number of pairs of items with equal drawn scores, and of all pairs of items, per draw.
    """

    context: NDArray[Any]
    tau: Floats
    defined: Floats
    tied: Floats
    pairs: Floats

    def ratio(self) -> Ratio:
        """Return Kendall's τ-b, averaged over the contexts and draws for which it is defined."""
        missing = "undefined: in no context do both scores vary"
        return Ratio(self.context, self.tau, self.defined, bounds=(-1.0, 1.0), missing=missing)

    def tie_ratio(self) -> Ratio:
        """Return the share of pairs within a context whose drawn scores are equal."""
        missing = "undefined: no context with two scored items"
        return Ratio(self.context, self.tied, self.pairs, bounds=(0.0, 1.0), missing=missing)


def agreement_within(context: ArrayLike, drawn: ArrayLike, reference: ArrayLike) -> Agreement:
    """Correlate every draw with a reference within each context.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    drawn : array_like, shape (draws, items)
        Scores, one row per draw; NaN if missing.
    reference : array_like, shape (items,)
        For example mean human scores; items with a NaN do not enter the correlation.

    Returns
    -------
    Agreement

    Notes
    -----
    For a single draw this equals `biaslab.stats.correlation.correlation` with Kendall's τ-b at the level of contexts.

    Examples
    --------
    >>> found = agreement_within(list("aaa"), [[1, 2, 3], [1, 1, 1], [3, 2, 1]], [10, 20, 30])
    >>> found.tau.tolist(), found.defined.round(3).tolist(), found.tied.tolist(), found.pairs.tolist()
    ([0.0], [0.667], [1.0], [3.0])
    """
    codes, names = pd.factorize(np.asarray(context, dtype=object), sort=True)
    scores, human = np.asarray(drawn, float), np.asarray(reference, float)
    if scores.ndim != 2 or scores.shape[1:] != codes.shape or human.shape != codes.shape:
        raise InputError("drawn", scores.shape, f"shape (draws, {len(codes)}), and one reference per item")
    home: Codes = (np.arange(len(scores))[:, None] * len(names) + codes).ravel()
    shape, value = (len(scores), len(names)), scores.ravel()
    tau = correlate_within(value, np.tile(human, len(scores)), home, "kendall").reshape(shape)
    scored = ~np.isnan(value)
    _, level = np.unique(rounded(value[scored]), return_inverse=True)
    cells, times = np.unique(home[scored] * (len(level) + 1) + level, return_counts=True)
    tied = _pairs_of(times, cells // (len(level) + 1), shape)
    sizes = np.bincount(home[scored], minlength=tau.size)
    pairs = _pairs_of(sizes, np.arange(tau.size), shape)
    known = ~np.isnan(tau)
    return Agreement(np.asarray(names, object), np.nan_to_num(tau).mean(axis=0), known.mean(axis=0), tied, pairs)


def _pairs_of(counts: Codes, home: Codes, shape: tuple[int, int]) -> Floats:
    """Return the number of pairs of items, summed over the contexts of a draw and averaged over draws."""
    sums = np.bincount(home, counts * (counts - 1) / 2, shape[0] * shape[1])
    return np.asarray(sums.reshape(shape).mean(axis=0), float)
