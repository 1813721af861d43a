"""Krippendorff's alpha as a function of the weights of contexts, for interval, ordinal and nominal scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from biaslab.core.arrays import Codes, Floats
from biaslab.stats.estimate import ROUNDING_OF_SQUARES

_CHUNK = 1 << 18


@dataclass(frozen=True)
class WeightedAlpha:
    """Alpha as a function of the weights of contexts, at each level.

    Attributes
    ----------
    counts : numpy.ndarray, shape (contexts, scores)
        Number of ratings with each distinct score in each context.
    values : numpy.ndarray, shape (scores,)
        The distinct scores.
    at : numpy.ndarray of int, shape (ratings,)
        Index in `values` of each rating's score, sorted by unit.
    starts : numpy.ndarray of int, shape (units,)
        Index of each unit's first rating.
    context : numpy.ndarray of int, shape (units,)
        Index of each unit's context.
    """

    counts: Floats
    values: Floats
    at: Codes
    starts: Codes
    context: Codes

    @cached_property
    def sizes(self) -> Floats:
        """Ratings of each unit."""
        sizes: Floats = np.diff(np.r_[self.starts, len(self.at)]).astype(float)
        return sizes

    def interval(self, weights: Floats) -> Floats:
        """Distance is the squared difference of scores."""
        x = self.values[self.at]
        observed = np.bincount(self.context, self._within(x[None, :])[0], len(self.counts))
        n, first, second = (weights @ (self.counts @ power) for power in (self.values**0, self.values, self.values**2))
        return _one_minus(weights @ observed, 2 * (n * second - first**2), n)

    def nominal(self, weights: Floats) -> Floats:
        """Distance is 1 between different scores."""
        units = np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int))
        pairs, times = np.unique(units * len(self.values) + self.at, return_counts=True)
        equal = np.bincount(pairs // len(self.values), times * (times - 1.0))
        differing = (self.sizes * (self.sizes - 1) - equal) / (self.sizes - 1)
        totals = weights @ self.counts
        n = totals.sum(axis=1)
        observed = weights @ np.bincount(self.context, differing, len(self.counts))
        return _one_minus(observed, n**2 - np.sum(totals**2, axis=1), n)

    def ordinal(self, weights: Floats) -> Floats:
        """Distance is the squared difference of midranks, which depend on the weights."""
        values, rows = [], max(1, _CHUNK // max(len(self.at), weights.shape[1]))
        for start in range(0, len(weights), rows):
            chunk = weights[start : start + rows]
            totals = chunk @ self.counts
            n = totals.sum(axis=1)
            ranks = np.cumsum(totals, axis=1) - totals / 2 - n[:, None] / 2
            observed = np.sum(self._within(ranks[:, self.at]) * chunk[:, self.context], axis=1)
            values.append(_one_minus(observed, 2 * n * np.sum(totals * ranks**2, axis=1), n))
        return np.concatenate(values)

    def _within(self, x: Floats) -> Floats:
        """Return each unit's sum of squared pairwise differences over its scores minus one; (rows, units)."""
        first, second = (np.add.reduceat(power, self.starts, axis=1) for power in (x, x**2))
        within: Floats = 2 * (self.sizes * second - first**2) / (self.sizes - 1)
        return within


def _one_minus(observed: Floats, expected: Floats, n: Floats) -> Floats:
    """Return 1 − observed / expected disagreement; NaN if the expected disagreement is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha: Floats = np.where(expected > ROUNDING_OF_SQUARES * n**2, 1 - observed * (n - 1) / expected, np.nan)
    return alpha
