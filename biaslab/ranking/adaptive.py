"""Adaptive selection: ask next what says most about the scores, given the Bradley–Terry posterior so far."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from biaslab.ranking.bradley_terry import DENSE, PRIOR, fit_bradley_terry
from biaslab.ranking.comparisons import Bools, Codes, Comparisons, Floats, tally

#: With more than `DENSE` candidates, each is compared with so many neighbours in the ranking so far.
_NEIGHBOURS = 24


def most_informative(comparisons: Comparisons, n: int, rng: np.random.Generator, prior: float = PRIOR) -> Codes:
    """Choose the next comparisons of one context: those that say most about the scores.

    A comparison of i and j with win probability q adds q (1 − q) to the precision of score_i − score_j, so it is worth
    ½ log(1 + q (1 − q) Var(score_i − score_j)) nats (D-optimality). After each choice the covariance is updated by a
    matrix of rank one, as if the comparison had been asked, so that a batch does not ask the same thing twice. Of
    equally good ones chance decides, and of a pair that one is shown first which was shown first less often, so that a
    position bias falls on all alike. No ordered pair is asked twice.

    Parameters
    ----------
    comparisons : Comparisons
        Of one context, so far; NaN outcomes may be among them, and count as asked only.
    n : int
        How many to choose; fewer are returned where fewer are left.
    rng : numpy.random.Generator
        Decides between equals.
    prior : float
        Precision of the prior, as in `biaslab.ranking.fit_bradley_terry`.

    Returns
    -------
    numpy.ndarray of int, shape (chosen, 2)
        Which candidate to show first and which second, the most informative first.

    Notes
    -----
    With more than 400 candidates the covariance does not fit: variances are 1 / precision, the pairs considered are
    neighbours in the ranking so far, and within a batch no candidate is in two comparisons before all others are in
    one.

    References
    ----------
    Glickman & Jensen 2005, *Adaptive paired comparison design*, Journal of Statistical Planning and Inference 127.
    """
    known = comparisons.take(~np.isnan(comparisons.p))
    scores = fit_bradley_terry(known, prior, covariance=comparisons.n_candidates <= DENSE)
    if scores.covariance is None:
        return _among_neighbours(comparisons, scores.scores, n, rng, prior)
    return _one_by_one(comparisons, scores.scores, scores.covariance, n, rng)


def _one_by_one(
    comparisons: Comparisons, scores: Floats, covariance: Floats, n: int, rng: np.random.Generator
) -> Codes:
    size = len(scores)
    asked = np.eye(size, dtype=bool)
    asked[comparisons.first, comparisons.second] = True
    balance = _balance(comparisons)
    one, two = np.triu_indices(size, 1)
    chance = expit(scores[one] - scores[two])
    weight, jitter = chance * (1 - chance), 1 + 1e-9 * rng.random(len(one))
    chosen = []
    for _ in range(n):
        left = ~(asked[one, two] & asked[two, one])
        if not left.any():
            break
        variance = np.diag(covariance)
        spread = variance[one] + variance[two] - 2 * covariance[one, two]
        best = int(np.argmax(np.where(left, weight * spread * jitter, -1.0)))
        i, j = int(one[best]), int(two[best])
        column = covariance[:, i] - covariance[:, j]
        covariance = covariance - np.outer(column, column) * (weight[best] / (1 + weight[best] * spread[best]))
        i, j = _in_order(i, j, balance, asked, rng)
        asked[i, j] = True
        balance[i] += 1
        balance[j] -= 1
        chosen.append((i, j))
    return np.array(chosen, np.intp).reshape(-1, 2)


def _in_order(i: int, j: int, balance: Floats, asked: Bools, rng: np.random.Generator) -> tuple[int, int]:
    """Say which of two is shown first."""
    if asked[i, j] or asked[j, i]:
        return (j, i) if asked[i, j] else (i, j)
    ahead = balance[i] - balance[j]
    swap = ahead > 0 or (ahead == 0 and rng.random() < 0.5)
    return (j, i) if swap else (i, j)


def _balance(comparisons: Comparisons) -> Floats:
    """Return how much oftener each candidate was shown first than second."""
    ones = np.ones(len(comparisons))
    size = comparisons.n_candidates
    return tally(comparisons.first, ones, size) - tally(comparisons.second, ones, size)


def _among_neighbours(
    comparisons: Comparisons, scores: Floats, n: int, rng: np.random.Generator, prior: float
) -> Codes:
    """Choose among neighbours in the ranking so far, with variances in place of the covariance."""
    known = comparisons.take(~np.isnan(comparisons.p))
    size, asked = len(scores), comparisons.first * len(scores) + comparisons.second
    chance = expit(scores[known.first] - scores[known.second])
    weight = chance * (1 - chance)
    precision = tally(known.first, weight, size) + tally(known.second, weight, size) + prior
    balance, chosen = _balance(comparisons), np.empty((0, 2), np.intp)
    while len(chosen) < n:
        pairs = _matching(scores, precision, balance, asked, rng, n - len(chosen))
        if not len(pairs):
            break
        chosen, asked = np.concatenate([chosen, pairs]), np.concatenate([asked, pairs @ (size, 1)])
        chance = expit(scores[pairs[:, 0]] - scores[pairs[:, 1]])
        for side, sign in ((0, 1), (1, -1)):
            precision[pairs[:, side]] += chance * (1 - chance)
            balance[pairs[:, side]] += sign
    return chosen


def _matching(
    scores: Floats, precision: Floats, balance: Floats, asked: Codes, rng: np.random.Generator, most: int
) -> Codes:
    """Return disjoint pairs of neighbours, the most informative first; each of shape (2,), shown first and second."""
    size = len(scores)
    order = np.lexsort((rng.random(size), scores))
    apart = np.arange(1, min(_NEIGHBOURS, size - 1) + 1)
    place = np.repeat(np.arange(size), len(apart))
    other = place + np.tile(apart, size)
    one, two = order[place[other < size]], order[other[other < size]]
    swap = np.where(balance[one] == balance[two], rng.random(len(one)) < 0.5, balance[one] > balance[two])
    one, two = np.where(swap, two, one), np.where(swap, one, two)
    known = np.sort(asked)
    taken = [_holds(known, a * size + b) for a, b in ((one, two), (two, one))]
    one, two = np.where(taken[0], two, one), np.where(taken[0], one, two)
    chance = expit(scores[one] - scores[two])
    worth = chance * (1 - chance) * (1 / precision[one] + 1 / precision[two]) * (1 + 1e-9 * rng.random(len(one)))
    worth = np.where(taken[0] & taken[1], -1.0, worth)
    best = np.argsort(-worth)[: int((worth > 0).sum())]
    free, pairs = [True] * size, []
    for i, j in zip(one[best].tolist(), two[best].tolist(), strict=True):
        if free[i] and free[j]:
            free[i] = free[j] = False
            pairs.append((i, j))
            if len(pairs) == most:
                break
    return np.array(pairs, np.intp).reshape(-1, 2)


def _holds(ordered: Codes, wanted: Codes) -> Bools:
    if not len(ordered):
        return np.zeros(len(wanted), bool)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)] == wanted)
