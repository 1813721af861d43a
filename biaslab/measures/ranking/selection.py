"""Select the pairs to compare, at random or adaptively (Liusie et al. 2024, §3.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from scipy.special import expit

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.measures.ranking.bradley_terry import DENSE, Strengths, first_minus_second, fit_bradley_terry
from biaslab.measures.ranking.comparisons import Comparisons, tally

SelectionStrategy = Literal["full", "random", "no-repeat", "symmetric", "adaptive"]
STRATEGIES: tuple[SelectionStrategy, ...] = get_args(SelectionStrategy)
#: Returns the outcomes of ordered pairs, shape (pairs, 2): probabilities that the first wins, NaN if unavailable.
Ask = Callable[[Codes], Floats]


def select(candidates: int, strategy: SelectionStrategy, budget: int | None = None, seed: int = 0) -> Codes:
    """Select the comparisons of one context by a strategy that does not depend on answers.

    Parameters
    ----------
    candidates : int
        Number of candidates N, at least 2.
    strategy : {"full", "random", "no-repeat", "symmetric"}
        *full*: all N (N − 1) ordered pairs. *random*: a random sample of these. *no-repeat*: no pair in both orders,
        each in a random one. *symmetric*: random pairs, each in both orders.
    budget : int, optional
        Number of comparisons R; fewer if there are not as many, and one fewer if *symmetric* cannot spend the last
        one. None for all, the only value allowed for *full*.
    seed : int
        Random seed.

    Returns
    -------
    numpy.ndarray of int, shape (R, 2)
        Indices of the candidate to show first and the one to show second.

    Raises
    ------
    InputError
        If the strategy is unknown or *adaptive* (see `select_adaptively`), or a number is too small.

    Examples
    --------
    >>> select(4, "symmetric", budget=4, seed=1).tolist()
    [[0, 3], [3, 0], [1, 2], [2, 1]]
    """
    check_selection(candidates, strategy, budget, seed)
    if strategy == "adaptive":
        raise InputError("strategy", strategy, "full, random, no-repeat or symmetric", "see select_adaptively")
    rng, pairs = np.random.default_rng(seed), candidates * (candidates - 1) // 2
    if strategy == "random":
        drawn = _draw(rng, 2 * pairs, budget)
        chosen = _unordered(drawn // 2, candidates)
        return np.where((drawn % 2 == 1)[:, None], chosen[:, ::-1], chosen)
    if strategy == "no-repeat":
        chosen = _unordered(_draw(rng, pairs, budget), candidates)
        return np.where((rng.random(len(chosen)) < 0.5)[:, None], chosen[:, ::-1], chosen)
    drawn = np.arange(pairs) if strategy == "full" else _draw(rng, pairs, None if budget is None else budget // 2)
    chosen = _unordered(drawn, candidates)
    return np.stack([chosen, chosen[:, ::-1]], axis=1).reshape(-1, 2)


def select_adaptively(candidates: int, budget: int, ask: Ask, batch: int = 1, seed: int = 0) -> Comparisons:
    """Ask batch after batch of comparisons, each the most informative given the answers so far.

    What is shown first depends on the answers: decode with a position term ("bradley-terry-position").

    Parameters
    ----------
    candidates : int
        Number of candidates N, at least 2.
    budget : int
        Maximum number of comparisons R; there are N (N − 1) in total.
    ask : callable
        Maps ordered pairs, shape (pairs, 2), to the probabilities that the first wins; NaN without an answer.
    batch : int
        Number of comparisons per batch.
    seed : int
        Random seed for breaking ties.

    Returns
    -------
    Comparisons
        In the order in which they were asked, without unanswered ones.

    Examples
    --------
    >>> worth = np.array([0.0, 1.0, 2.0, 3.0])
    >>> comparisons = select_adaptively(4, 6, lambda pairs: worth[pairs[:, 0]] > worth[pairs[:, 1]], seed=1)
    >>> len(comparisons), comparisons.times.tolist()
    (6, [2, 4, 4, 2])
    """
    check_selection(candidates, "adaptive", budget, seed)
    require_whole("batch", batch, 1)
    rng = np.random.default_rng(seed)
    names = np.arange(candidates).astype(str).astype(object)
    asked, p = np.empty((0, 2), np.intp), np.empty(0)
    while len(asked) < budget:
        so_far = Comparisons(np.full(candidates, "", object), names, asked[:, 0], asked[:, 1], p)
        pairs = most_informative(so_far, min(batch, budget - len(asked)), rng)
        if not len(pairs):
            break
        answers = np.asarray(ask(pairs), float)
        if answers.shape != (len(pairs),):
            allowed = f"a function that returns a number for each of {len(pairs)} pairs"
            raise InputError("ask", ask, allowed, f"this one returns shape {answers.shape}")
        asked, p = np.concatenate([asked, pairs]), np.concatenate([p, answers])
    return Comparisons.of(list(names), asked[:, 0], asked[:, 1], p)


def check_selection(candidates: int, strategy: str, budget: int | None, seed: int) -> None:
    """Raise `InputError` unless the strategy can select a budget of comparisons among the candidates."""
    require_one_of("strategy", strategy, STRATEGIES)
    if candidates < 2:
        raise InputError("candidates", candidates, "at least 2")
    if strategy == "full" and budget is not None:
        raise InputError("budget", budget, "None if the strategy is full")
    least = 2 if strategy == "symmetric" else 1
    for name, value, smallest in (("budget", budget, least), ("seed", seed, 0)):
        if value is not None:
            require_whole(name, int(value) if isinstance(value, np.integer) else value, smallest)


def _draw(rng: np.random.Generator, total: int, wanted: int | None) -> Codes:
    return rng.choice(total, total if wanted is None else min(wanted, total), replace=False)


def _unordered(code: Codes, candidates: int) -> Codes:
    """Return the pairs i < j with these indices, counted from (0, 1), (0, 2), …; shape (pairs, 2)."""
    first = np.arange(candidates)
    starts = first * (2 * candidates - first - 1) // 2
    i = np.searchsorted(starts, code, side="right") - 1
    return np.stack([i, code - starts[i] + i + 1], axis=1)


#: Precision of the normal prior of each score and the position term during selection, in logits⁻². It is tighter than
#: in a final fit: under a wide prior, a few chance wins look like large differences that need no further comparisons.
CAUTIOUS = 1.0
#: Minimum relative information of a pair's other order for it to be chosen instead of the better order.
_OTHER_ORDER = 0.75
#: With more than `DENSE` candidates, number of opponents considered for each.
_NEIGHBOURS = 24


def most_informative(comparisons: Comparisons, n: int, rng: np.random.Generator, prior: float = CAUTIOUS) -> Codes:
    """Choose the next comparisons of one context: those that make the ranks most certain.

    The scores and the position term have a normal posterior with covariance C (`fit_bradley_terry` with its position
    term). The expected rank of i falls with its score by Σ_k d_ik, where d_ik is the posterior density of score_i =
    score_k; so the covariance of the ranks is about L C Lᵀ, with L the Laplacian of d. A comparison x (1 for the
    candidate shown first, −1 for the other, 1 for the position term) that the first wins with probability q reduces
    the sum of their variances by q (1 − q) ‖L C x‖² / (1 + q (1 − q) xᵀ C x) (Bayesian A-optimality), and the ordered
    pair with the largest reduction is chosen. Then C receives the rank-one update as if the comparison had been made,
    so that a batch is not redundant.

    With a strong position bias, only the order that shows the better candidate second is informative. If both orders
    are about equally informative, the candidate that was shown first less often is shown first, to balance positions.
    No ordered pair is repeated; ties are broken at random.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one context so far; those with NaN outcomes only count as asked.
    n : int
        Number to choose; fewer are returned if fewer are left.
    rng : numpy.random.Generator
        Breaks ties.
    prior : float
        Precision of the prior, as in `biaslab.ranking.fit_bradley_terry`.

    Returns
    -------
    numpy.ndarray of int, shape (chosen, 2)
        Indices of the candidate to show first and the one to show second, the most informative first.

    Notes
    -----
    Which candidate is shown first depends on its score. Decode with a position term ("bradley-terry-position");
    otherwise a position bias becomes a bias for or against better candidates.

    With more than 400 candidates the covariance does not fit into memory: variances are then 1 / precision, only pairs
    with near-even odds are considered, valued by q (1 − q) Var(score_i − score_j), and within a batch all candidates
    are used once before any is used twice.

    References
    ----------
    Chaloner & Verdinelli 1995, *Bayesian experimental design: a review*, Statistical Science 10(3); Glickman & Jensen
    2005, *Adaptive paired comparison design*, Journal of Statistical Planning and Inference 127.

    Examples
    --------
    >>> so_far = Comparisons.of(["a", "b", "c"], [0, 1], [2, 2], [1.0, 1.0])
    >>> sorted(most_informative(so_far, 1, np.random.default_rng(0))[0].tolist())  # c is last: a or b?
    [0, 1]
    """
    known = comparisons.take(~np.isnan(comparisons.p))
    posterior = fit_bradley_terry(known, prior, position=True, covariance=comparisons.n_candidates <= DENSE)
    if posterior.covariance is None:
        return _among_neighbours(comparisons, posterior, n, rng, prior)
    return _one_by_one(comparisons, posterior, posterior.covariance, n, rng)


def _one_by_one(
    comparisons: Comparisons, posterior: Strengths, covariance: Floats, n: int, rng: np.random.Generator
) -> Codes:
    size = len(posterior.scores)
    asked = np.eye(size, dtype=bool)
    asked[comparisons.first, comparisons.second] = True
    balance, slope = _balance(comparisons), _slope_of_ranks(posterior.scores, covariance)
    weight = _weight(posterior, *np.indices((size, size)))
    chosen = []
    for _ in range(min(n, int((~asked).sum()))):
        ranks = slope @ covariance
        spread, effect = _of_comparisons(covariance), _of_comparisons(ranks.T @ ranks)
        gain = weight * effect / (1 + weight * spread) * (1 + 1e-9 * rng.random((size, size)))
        i, j = np.unravel_index(np.argmax(np.where(asked, -1.0, gain)), gain.shape)
        ahead = balance[i] - balance[j]
        if not asked[j, i] and gain[j, i] >= _OTHER_ORDER * gain[i, j] and (ahead or rng.random() - 0.5) > 0:
            i, j = j, i
        step = covariance[:, i] - covariance[:, j] + covariance[:, -1]
        covariance = covariance - np.outer(step, step) * (weight[i, j] / (1 + weight[i, j] * spread[i, j]))
        asked[i, j] = True
        balance[i] += 1
        balance[j] -= 1
        chosen.append((i, j))
    return np.array(chosen, np.intp).reshape(-1, 2)


def _slope_of_ranks(scores: Floats, covariance: Floats) -> Floats:
    """Return the derivative of the expected ranks by scores and position term; shape (candidates, candidates + 1)."""
    variance, inner = np.diag(covariance)[:-1], covariance[:-1, :-1]
    spread = variance[:, None] + variance - 2 * inner + np.eye(len(scores))  # the diagonal is overwritten below
    density = np.exp(-((scores[:, None] - scores) ** 2) / (2 * spread)) / np.sqrt(spread)
    np.fill_diagonal(density, 0.0)
    return np.pad(np.diag(density.sum(axis=1)) - density, ((0, 0), (0, 1)))


def _of_comparisons(matrix: Floats) -> Floats:
    """Return xᵀ M x for every ordered pair; shape (candidates, candidates)."""
    square, mixed = np.diag(matrix)[:-1] + matrix[-1, -1], matrix[:-1, -1]
    own, other = square + 2 * mixed, np.diag(matrix)[:-1] - 2 * mixed
    return np.asarray(own[:, None] + other - 2 * matrix[:-1, :-1], float)


def _balance(comparisons: Comparisons) -> Floats:
    """Return how often each candidate was shown first minus how often second."""
    return first_minus_second(comparisons, np.ones(len(comparisons)))


def _among_neighbours(
    comparisons: Comparisons, posterior: Strengths, n: int, rng: np.random.Generator, prior: float
) -> Codes:
    """Choose among pairs with near-even odds, using variances instead of the full covariance."""
    known = comparisons.take(~np.isnan(comparisons.p))
    size, asked = len(posterior.scores), comparisons.first * len(posterior.scores) + comparisons.second
    weight = _weight(posterior, known.first, known.second)
    precision = tally(known.first, weight, size) + tally(known.second, weight, size) + prior
    balance, chosen = _balance(comparisons), np.empty((0, 2), np.intp)
    while len(chosen) < n:
        pairs = _matching(posterior, precision, balance, asked, rng, n - len(chosen))
        if not len(pairs):
            break
        chosen, asked = np.concatenate([chosen, pairs]), np.concatenate([asked, pairs @ (size, 1)])
        weight = _weight(posterior, pairs[:, 0], pairs[:, 1])
        for side, sign in ((0, 1), (1, -1)):
            precision[pairs[:, side]] += weight
            balance[pairs[:, side]] += sign
    return chosen


def _matching(
    posterior: Strengths, precision: Floats, balance: Floats, asked: Codes, rng: np.random.Generator, most: int
) -> Codes:
    """Return disjoint pairs, the most informative first; each has shape (2,): shown first, shown second."""
    scores, size = posterior.scores, len(posterior.scores)
    order = np.lexsort((rng.random(size), scores))
    ordered = scores[order]
    # a candidate shown first has even odds against one that is better by the position term
    ahead = np.searchsorted(ordered, ordered + posterior.position) - np.searchsorted(ordered, ordered)
    place = (np.arange(size) + ahead)[:, None] + np.arange(-_NEIGHBOURS // 2, _NEIGHBOURS // 2 + 1)
    inside = (place >= 0) & (place < size) & (place != np.arange(size)[:, None])
    one, two = np.broadcast_to(order[:, None], place.shape)[inside], order[place[inside]]
    worth = _weight(posterior, one, two) * (1 / precision[one] + 1 / precision[two]) * (1 + 1e-9 * rng.random(len(one)))
    worth = np.where(balance[one] > balance[two], _OTHER_ORDER * worth, worth)
    worth = np.where(_holds(np.sort(asked), one * size + two), -1.0, worth)
    best = np.argsort(-worth)[: int((worth > 0).sum())]
    free, pairs = [True] * size, []
    for i, j in zip(one[best].tolist(), two[best].tolist(), strict=True):
        if free[i] and free[j]:
            free[i] = free[j] = False
            pairs.append((i, j))
            if len(pairs) == most:
                break
    return np.array(pairs, np.intp).reshape(-1, 2)


def _weight(posterior: Strengths, first: Codes, second: Codes) -> Floats:
    """Return q (1 − q), where q is the probability that the first wins."""
    chance = expit(posterior.scores[first] - posterior.scores[second] + posterior.position)
    return np.asarray(chance * (1 - chance), float)


def _holds(ordered: Codes, wanted: Codes) -> Bools:
    if not len(ordered):
        return np.zeros(len(wanted), bool)
    return np.asarray(ordered[np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)] == wanted)
