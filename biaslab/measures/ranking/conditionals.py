"""Estimate the reliability of a judge's decisions by position: P(ŷ|z) of Liusie et al. 2024, Eq. 13."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.measures.ranking.bradley_terry import fit_bradley_terry
from biaslab.measures.ranking.comparisons import Comparisons

_FEWEST = 20  # with fewer pairs in both orders, their statistics are less informative than a model of all decisions


class Conditionals(NamedTuple):
    """Probabilities of a decision ŷ for the first, given which of the two is better (z); the others are complements.

    Attributes
    ----------
    better, worse : float
        P(ŷ = 1 | z = 1), the probability that the first wins when it is better, and P(ŷ = 1 | z = 0), when it is
        worse; strictly between 0 and 1. Without position bias, worse = 1 − better.

    Examples
    --------
    >>> leaning = Conditionals(better=0.9, worse=0.5)
    >>> [round(weight, 2) for weight in leaning.weights]
    [0.59, 1.61]
    """

    better: float
    worse: float

    @property
    def weights(self) -> tuple[float, float]:
        """Log-likelihood ratio of a correct decision: for the first, and for the second."""
        return math.log(self.better / self.worse), math.log((1 - self.worse) / (1 - self.better))

    def log_chances(self, won: Floats) -> tuple[Floats, Floats]:
        """Return log P(ŷ|z = 1) and log P(ŷ|z = 0) of each decision; 0 for ties, which are uninformative."""
        logs = [
            np.select([won == 1, won == 0], [math.log(chance), math.log1p(-chance)])
            for chance in (self.better, self.worse)
        ]
        return logs[0], logs[1]


def fit_conditionals(comparisons: Comparisons) -> Conditionals:
    """Estimate the conditionals from the judge's own decisions, without human labels.

    If each candidate is shown first equally often, the share of decisions for the first is P(A) = ½ (better + worse).
    So one conditional determines the other, as the paper notes without saying how to estimate that one. Here:

    * From pairs in both orders: the share in which the first wins both times is better × worse, if errors are
      independent. The two conditionals are then the roots of t² − 2 P(A) t + P(first twice).
    * With fewer than 20 such pairs: how often the first wins when a Bradley–Terry model with a position term has it
      ahead, or behind. The model is fitted to the same decisions, so with few of them it is overconfident.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one judge, in one or several contexts; probabilities are turned into decisions (Eq. 2), and ties
        are ignored.

    Raises
    ------
    InputError
        If there are no decisions.

    Examples
    --------
    >>> first, second = np.triu_indices(7, 1)  # pairs, in both orders: 11 decided alike, 10 for the first
    >>> both = np.r_[first, second], np.r_[second, first]
    >>> pairs = Comparisons.of(list("abcdefg"), *both, [1] * 21 + [0] * 11 + [1] * 10)
    >>> [round(value, 3) for value in fit_conditionals(pairs)]
    [0.988, 0.476]
    """
    decided = comparisons.hard().decided()
    if not len(decided):
        raise InputError("comparisons", 0, "at least one decision")
    floor = 0.5 / len(decided)
    twins = decided.twins
    both = twins >= 0
    if both.sum() < 2 * _FEWEST:
        return _counted(decided)
    won, other = decided.p[both], decided.p[twins[both]]
    half, twice = float(won.mean()), float((won * other).mean())
    spread = math.sqrt(max(half**2 - twice, 0.0))
    return Conditionals(*(float(np.clip(half + side, floor, 1 - floor)) for side in (spread, -spread)))


def _counted(decided: Comparisons) -> Conditionals:
    """Count decisions for the first by which candidate is ahead, adding half a decision per side."""
    scores = fit_bradley_terry(decided, position=True).scores
    ahead = np.sign(scores[decided.first] - scores[decided.second])
    better, worse = ((decided.p[ahead == side].sum() + 0.5) / ((ahead == side).sum() + 1.0) for side in (1, -1))
    return Conditionals(float(better), float(min(better, worse)))
