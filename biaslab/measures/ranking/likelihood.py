"""Find the most likely ranking (Liusie et al. 2024, Appendix B): exactly, with a bound, or by search."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import optimize, sparse

from biaslab.core.arrays import Codes, Floats
from biaslab.core.errors import InputError
from biaslab.measures.ranking.bradley_terry import fit_bradley_terry
from biaslab.measures.ranking.comparisons import Comparisons, tally
from biaslab.measures.ranking.conditionals import Conditionals

#: Maximum number of candidates for enumerating subsets: 2^16 of them.
EXACT = 16
#: Maximum number of candidates for solving the linear ordering problem with HiGHS.
MODERATE = 40
_TINY = 1e-15  # keeps probabilities off 0 and 1, for which contradictions would be impossible


class Ranking(NamedTuple):
    """A ranking with its log-likelihood and an upper bound.

    Attributes
    ----------
    order : numpy.ndarray of int, shape (candidates,)
        Indices of the candidates with comparisons, best first.
    log_likelihood : float
        Log-likelihood of the ranking, in nats; for decisions without conditionals, the number consistent with it.
    bound : float
        Upper bound over all rankings.
    method : str
        Method of the search.
    """

    order: Codes
    log_likelihood: float
    bound: float
    method: str

    @property
    def gap(self) -> float:
        """Upper bound on how much the log-likelihood can improve; 0 if the ranking is proved optimal."""
        return max(0.0, self.bound - self.log_likelihood)


def most_likely_ranking(
    comparisons: Comparisons,
    method: str | None = None,
    seconds: float = 10.0,
    conditionals: Conditionals | None = None,
) -> Ranking:
    """Find the ranking of one context with the highest likelihood Π p^z (1 − p)^(1 − z) (Eqs. 11-13).

    z is 1 if the ranking has the first above the second. The paper prints a sum instead of the product within Eq. 12;
    its text describes the product. If all p are 0, ½ or 1, only decisions are known, and by default the ranking
    consistent with most of them is found. If each pair was decided in both orders, that ranking is also optimal under
    Eq. 13, whatever the conditionals P(ŷ|z): two consistent decisions have the same weight for every pair, and two
    inconsistent ones cancel. If pairs were decided in one order, it is optimal only for a judge without position bias.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one context.
    method : {"exact", "milp", "search", "greedy"}, optional
        *exact*: dynamic programming over subsets, at most 16 candidates. *milp*: the linear ordering problem, by
        HiGHS. *search*: the orders by win ratio and by Bradley–Terry, improved by moving one candidate at a time.
        *greedy*: the authors' search, which swaps two candidates at a time, from a random order (with a fixed seed).
        By default depends on the number of candidates: *exact* up to 16, *milp* up to 40, *search* beyond.
    seconds : float
        Time limit of HiGHS; the best ranking by then is improved by search, and its gap remains.
    conditionals : Conditionals, optional
        Use decisions (Eq. 2) and these conditional probabilities of them (Eq. 13): see
        `biaslab.ranking.fit_conditionals`. If a judge prefers the candidate shown first, its decisions for the second
        then have more weight.

    Raises
    ------
    InputError
        If the method is unknown, or there are too many candidates for *exact*.

    References
    ----------
    Held & Karp 1962, *A dynamic programming approach to sequencing problems*; Grötschel, Jünger & Reinelt 1984, *A
    cutting plane algorithm for the linear ordering problem*, Operations Research 32.

    Examples
    --------
    >>> ranking = most_likely_ranking(Comparisons.of(["a", "b", "c"], [0, 1, 2], [1, 2, 0], [0.9, 0.8, 0.6]))
    >>> ranking.order.tolist(), round(ranking.log_likelihood, 3), ranking.method
    ([0, 1, 2], -1.245, 'exact')
    """
    compared = np.flatnonzero(comparisons.times)
    size = len(compared)
    method = method or ("exact" if size <= EXACT else "milp" if size <= MODERATE else "search")
    if method not in ("exact", "milp", "search", "greedy"):
        raise InputError("method", method, "exact, milp, search or greedy")
    if method == "exact" and size > EXACT:
        raise InputError("method", method, f"at most {EXACT} candidates, not {size}", "omit it, or use milp")
    odds, base, bound = _log_odds(comparisons, conditionals)
    if size < 2:
        return Ranking(compared, base, base, "exact")
    # equally likely rankings are distinguished by wins, not by names or order of candidates
    place = np.full(comparisons.n_candidates, -1)
    wins = comparisons.wins if conditionals is None else comparisons.total(_weighed(comparisons, conditionals))
    start = compared[np.argsort(-(wins / np.maximum(comparisons.times, 1))[compared], kind="stable")]
    place[start] = np.arange(size)
    one, two = place[comparisons.first], place[comparisons.second]
    if method == "search":
        scores = fit_bradley_terry(comparisons, position=conditionals is not None).scores[start]
        order = _search(one, two, odds, [np.argsort(-scores, kind="stable"), np.arange(size)])
    else:
        gains = tally(one * size + two, odds, size**2) - tally(two * size + one, odds, size**2)
        gains = gains.reshape(size, size) / 2
        if method == "milp":
            order, dual = _milp(gains, seconds)
            order = _search(one, two, odds, [order])
            bound = min(bound, base + dual)
        else:
            order = _exact(gains) if method == "exact" else _greedy(gains)
    rank = np.argsort(order)
    value = base + float(np.sum(np.where(rank[one] < rank[two], odds, -odds))) / 2
    return Ranking(start[order], value, value if method == "exact" else max(bound, value), method)


def _log_odds(comparisons: Comparisons, conditionals: Conditionals | None) -> tuple[Floats, float, float]:
    """Return the gain of each comparison from ranking the first above, half the sum of both directions, and a bound.

    The unit is one consistent decision for decisions, nats for probabilities and with conditionals.
    """
    p = comparisons.p
    if conditionals is not None:
        above, below = conditionals.log_chances(comparisons.won)
        odds, both = above - below, above + below
    elif np.isin(p, (0.0, 0.5, 1.0)).all():
        odds, both = 2 * p - 1, np.ones(len(p))
    else:
        chance = np.clip(p, _TINY, 1 - _TINY)
        above, below = np.log(chance), np.log1p(-chance)
        odds, both = above - below, above + below
    base = math.fsum(both) / 2
    forward = comparisons.first < comparisons.second
    _, pair = np.unique(comparisons.pair, return_inverse=True)
    return odds, base, base + float(np.abs(np.bincount(pair, np.where(forward, odds, -odds))).sum()) / 2


def _weighed(comparisons: Comparisons, conditionals: Conditionals) -> Floats:
    """Return decisions with their weights, from 0 to 1; used to choose between equally likely rankings."""
    above, below = conditionals.log_chances(comparisons.won)
    odds = above - below
    return 0.5 + odds / (2 * float(np.abs(odds).max(initial=1e-9)))


def _exact(gains: Floats) -> Codes:
    """Best order by dynamic programming over sets: the best ranking of a set ends with one of its members."""
    size = len(gains)
    total = 1 << size
    over = np.zeros((size, total))  # gain of a set from ranking one more candidate directly below it
    for k in range(size):
        over[:, 1 << k : 2 << k] = over[:, : 1 << k] + gains[k][:, None]
    sets = np.arange(total)
    count = np.zeros(total, np.intp)
    for k in range(size):
        count[1 << k : 2 << k] = count[: 1 << k] + 1
    best, last = np.zeros(total), np.zeros(total, np.intp)
    by_count = np.split(np.argsort(count, kind="stable"), np.cumsum(np.bincount(count))[:-1])
    for layer in by_count[1:]:
        value = np.full(len(layer), -np.inf)
        for k in range(size - 1, -1, -1):
            inside = np.flatnonzero(sets[layer] >> k & 1)
            rest = layer[inside] ^ (1 << k)
            gained = best[rest] + over[k, rest]
            better = gained > value[inside] + 1e-12
            value[inside[better]] = gained[better]
            last[layer[inside[better]]] = k
        best[layer] = value
    order, left = [], total - 1
    while left:
        order.append(int(last[left]))
        left ^= 1 << order[-1]
    return np.array(order[::-1], np.intp)


def _greedy(gains: Floats) -> Codes:
    """Start from a random order and make the best swap of two candidates until none improves."""
    order = np.random.default_rng(0).permutation(len(gains))
    while True:
        placed = gains[np.ix_(order, order)]
        to = placed.cumsum(axis=1)  # cumulative gains over candidates up to a position
        own = np.diag(to)
        upper, lower = to - placed - own[:, None], own[None, :] - to.T  # each over the candidates in between
        change = np.triu(-2 * (upper - lower + placed), 1)
        one, two = np.unravel_index(int(np.argmax(change)), change.shape)
        if change[one, two] < 1e-9:
            return order
        order[[one, two]] = order[[two, one]]


def _milp(gains: Floats, seconds: float) -> tuple[Codes, float]:
    """Best order by solving the linear ordering problem (HiGHS), with a bound on the gain of any order."""
    size = len(gains)
    one, two = np.triu_indices(size, 1)
    number = np.zeros((size, size), np.intp)
    number[one, two] = np.arange(len(one))
    i, j, k = np.array([(a, b, c) for a in range(size) for b in range(a + 1, size) for c in range(b + 1, size)]).T
    rows = np.repeat(np.arange(len(i), dtype=np.int32), 3)  # older SciPy versions require 32-bit indices for HiGHS
    columns = np.column_stack([number[i, j], number[j, k], number[i, k]]).ravel().astype(np.int32)
    triangles = sparse.coo_array((np.tile([1.0, 1.0, -1.0], len(i)), (rows, columns)), shape=(len(i), len(one)))
    worth = 2 * gains[one, two]  # of a 1 relative to a 0
    solution = optimize.milp(
        -worth,
        integrality=np.ones(len(one), np.uint8),
        bounds=optimize.Bounds(0, 1),
        constraints=optimize.LinearConstraint(triangles.tocsr(), 0, 1),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    bound = np.inf if solution.mip_dual_bound is None else -float(solution.mip_dual_bound) - worth.sum() / 2
    if solution.x is None:
        return np.arange(size), bound
    above = np.zeros((size, size))
    above[one, two] = solution.x.round()
    above[two, one] = 1 - above[one, two]
    return np.argsort(-above.sum(axis=1), kind="stable"), bound


def _search(one: Codes, two: Codes, odds: Floats, starts: list[Codes]) -> Codes:
    """Move single candidates to their best positions until none improves; return the best of several starts.

    A candidate's gain changes only when it passes one of its opponents, so sparse comparisons are cheap.
    """
    both, size = np.concatenate([one, two]), len(starts[0])
    others, gain = np.concatenate([two, one]), np.concatenate([odds, -odds]) / 2
    sort = np.argsort(both, kind="stable")
    others, gain = others[sort], gain[sort]
    borders = np.searchsorted(both[sort], np.arange(size + 1))
    lists = [(others[a:b], gain[a:b]) for a, b in pairwise(borders)]
    orders = [_improve(lists, begin) for begin in starts]
    return max(orders, key=lambda order: float(np.sum(odds * np.sign(np.argsort(order)[two] - np.argsort(order)[one]))))


def _improve(lists: list[tuple[Codes, Floats]], order: Codes) -> Codes:
    key: Floats = np.argsort(order).astype(float)
    for _ in range(200):
        moved = False
        for candidate in np.argsort(key, kind="stable").tolist():
            others, gain = lists[candidate]
            if not len(others):
                continue
            by_key = np.argsort(key[others], kind="stable")
            near, gains = key[others][by_key], gain[by_key]
            # in first position, the gain is the sum; each candidate passed changes it by twice its gain
            value = gains.sum() - 2 * np.concatenate([[0.0], np.cumsum(gains)])
            value[1:-1][near[1:] == near[:-1]] = -np.inf  # no position between the two orders of one pair
            now, best = int(np.searchsorted(near, key[candidate])), int(np.argmax(value))
            if value[best] > value[now] + 1e-9:
                low = near[best - 1] if best else near[0] - 2
                high = near[best] if best < len(near) else near[-1] + 2
                key[candidate], moved = (low + high) / 2, True
        key = np.argsort(np.argsort(key, kind="stable")).astype(float)
        if not moved:
            break
    return np.argsort(key, kind="stable")
