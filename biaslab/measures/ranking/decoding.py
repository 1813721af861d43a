"""Turn comparisons into scores and ranks: win ratio, mean probability, Bradley–Terry or most likely ranking."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import scipy  # its subpackages load when they are first used

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking.bradley_terry import fit_bradley_terry, maximum_likelihood
from biaslab.measures.ranking.comparisons import Comparisons, ComparisonTrials, cells, places_within, read_trials, tally
from biaslab.measures.ranking.debiasing import Debiasing, debias
from biaslab.stats.resample import Resampling

#: Maximum number of candidates for enumerating subsets: 2^16 of them.
EXACT = 16
#: Maximum number of candidates for solving the linear ordering problem with HiGHS.
MODERATE = 40
_TINY = 1e-15  # keeps probabilities off 0 and 1, for which contradictions would be impossible


class MostLikelyRanking(NamedTuple):
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
    comparisons: Comparisons, method: str | None = None, seconds: float = 10.0, conditionals: Conditionals | None = None
) -> MostLikelyRanking:
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
        return MostLikelyRanking(compared, base, base, "exact")
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
    return MostLikelyRanking(start[order], value, value if method == "exact" else max(bound, value), method)


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
    triangles = scipy.sparse.coo_array((np.tile([1.0, 1.0, -1.0], len(i)), (rows, columns)), shape=(len(i), len(one)))
    worth = 2 * gains[one, two]  # of a 1 relative to a 0
    triples = scipy.optimize.LinearConstraint(triangles.tocsr(), 0, 1)
    whole, unit = np.ones(len(one), np.uint8), scipy.optimize.Bounds(0, 1)
    limits: Any = {"time_limit": seconds, "mip_rel_gap": 0.0}
    solution = scipy.optimize.milp(-worth, integrality=whole, bounds=unit, constraints=triples, options=limits)
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


Decoding = Literal[
    "win-ratio",
    "mean-probability",
    "bradley-terry",
    "bradley-terry-position",
    "bradley-terry-ml",
    "likelihood",
    "greedy",
    "likelihood-decisions",
]
DECODINGS: tuple[Decoding, ...] = get_args(Decoding)
_HUMAN = ("human", "opponent_human")
_SYSTEM = ("system", "opponent_system")


@dataclass(frozen=True, eq=False)
class CandidateScores:
    """Scores of candidates.

    Parameters
    ----------
    scores : numpy.ndarray, shape (candidates,)
        Higher is better; only their order and, for Bradley–Terry, their differences within a context are meaningful.
        NaN for candidates without a usable comparison.
    method : str
        How they were computed.
    note : str
        Caveats: disconnected contexts, rankings not proved to be optimal.
    gap : float
        For most likely rankings: upper bound on the improvement of a better one, in nats (or decisions), over all
        contexts.
    """

    scores: Floats
    method: str
    note: str = ""
    gap: float = 0.0


def decode(comparisons: Comparisons, decoding: Decoding = "win-ratio") -> CandidateScores:
    """Turn comparisons into scores, within each context.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one or several contexts.
    decoding : str
        *win-ratio*: share of decisions won among a candidate's comparisons (Eq. 6), a tie counting as ½.
        *mean-probability*: the same with probabilities. *bradley-terry*: posterior mode under a weak prior, always
        defined. *bradley-terry-position*: the same with a position term common to all contexts; use it after adaptive
        selection, and for decisions, which no other remedy can debias. *bradley-terry-ml*: maximum likelihood by
        evalica, NaN for contexts without a maximum. *likelihood*: the most likely ranking (Eqs. 11, 12; for decisions,
        the one consistent with most), scored from 1 (best) to 0. *greedy*: the paper's approximate search for it.
        *likelihood-decisions*: the most likely ranking given only decisions (Eq. 13), with P(ŷ|z) estimated from all
        comparisons (`biaslab.ranking.fit_conditionals`).

    Raises
    ------
    InputError
        If the decoding is unknown.

    Notes
    -----
    Win ratio and mean probability are comparable only between candidates with similar opponents, so not after adaptive
    selection, which pairs good candidates with each other.

    Examples
    --------
    >>> comparisons = Comparisons.of(["a", "b", "c", "d"], [0, 1, 2], [1, 2, 0], [0.9, 0.8, 0.6])
    >>> decode(comparisons).scores.tolist()
    [0.5, 0.5, 0.5, nan]
    >>> decode(comparisons, "likelihood").scores.tolist()
    [1.0, 0.5, 0.0, nan]
    """
    require_one_of("decoding", decoding, DECODINGS)
    if decoding == "win-ratio":
        comparisons = comparisons.hard()
    if decoding in ("win-ratio", "mean-probability"):
        total = comparisons.total(comparisons.p)
        return CandidateScores(_only_compared(total / np.maximum(comparisons.times, 1), comparisons), decoding)
    if decoding in ("bradley-terry", "bradley-terry-position"):
        position = decoding == "bradley-terry-position"
        scores = fit_bradley_terry(comparisons, position=position).scores
        method = "bradley-terry (posterior mode, position term)" if position else "bradley-terry (posterior mode)"
        return CandidateScores(_only_compared(scores, comparisons), method)
    if decoding == "likelihood-decisions":
        decided = comparisons.hard()
        known = fit_conditionals(decided) if len(decided.decided()) else None
        return _by_context(decided, lambda part: _ranked(part, most_likely_ranking(part, conditionals=known)))
    return _by_context(comparisons, _maximum if decoding == "bradley-terry-ml" else _RANKINGS[decoding])


def ranks(scores: Floats, context: Codes | None = None) -> Floats:
    """Return ranks within contexts: 1 is best, ties share their mean rank, NaN stays NaN.

    Examples
    --------
    >>> ranks(np.array([0.2, 0.9, np.nan, 0.2])).tolist()
    [2.5, 1.0, nan, 2.5]
    """
    home = np.zeros(len(scores)) if context is None else context
    return np.asarray(pd.Series(-scores.round(12)).groupby(home).rank(method="average"), float)


def rank_intervals(
    comparisons: Comparisons, decoding: Decoding = "win-ratio", resampling: Resampling | None = None
) -> pd.DataFrame:
    """Estimate intervals for ranks by bootstrapping the comparisons of each context.

    Both orders of a pair are drawn together, because they share candidates. The interval is for this judge and these
    candidates: it reflects the choice of comparisons among them.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one or several contexts.
    decoding : str
        As in `decode`.
    resampling : Resampling, optional
        Number of replicates, level and seed; intervals are percentile intervals whatever its method.

    Returns
    -------
    pandas.DataFrame
        ``context_id, candidate_id, rank, ci_low, ci_high, ci_level, undefined`` (share of replicates without any
        comparison of the candidate, which are ignored).

    Examples
    --------
    >>> pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]
    >>> intervals = rank_intervals(Comparisons.of(["a", "b", "c"], *zip(*pairs), [1, 0, 1, 0, 1, 1]))
    >>> intervals[["candidate_id", "rank", "ci_low", "ci_high"]].to_numpy().tolist()
    [['a', 1.0, 1.0, 1.0], ['b', 2.5, 1.5, 3.0], ['c', 2.5, 1.5, 3.0]]
    """
    resampling = resampling or Resampling()
    rng = np.random.default_rng(resampling.seed)
    context, size = comparisons.context, comparisons.n_candidates
    keys, pair = np.unique(comparisons.pair, return_inverse=True)
    home = context[keys // size] if size else keys
    order = np.argsort(pair, kind="stable")
    starts, counts = np.searchsorted(pair[order], np.arange(len(keys))), np.bincount(pair, minlength=len(keys))
    blocks = [np.flatnonzero(home == k) for k in np.unique(home)]
    drawn_ranks = np.full((resampling.n, size), np.nan)
    for replicate in range(resampling.n):
        drawn = np.concatenate([block[rng.integers(0, len(block), len(block))] for block in blocks])
        chosen = order[np.repeat(starts[drawn], counts[drawn]) + places_within(counts[drawn])]
        drawn_ranks[replicate] = ranks(decode(comparisons.take(chosen), decoding).scores, context)
    tail = (1 - resampling.level) / 2
    seen = ~np.isnan(drawn_ranks)
    known = seen.any(axis=0)
    bounds: Floats = np.full((2, size), np.nan)
    bounds[:, known] = np.nanquantile(drawn_ranks[:, known], [tail, 1 - tail], axis=0)
    names = {"context_id": comparisons.context_id, "candidate_id": comparisons.candidate_id}
    rank = ranks(decode(comparisons, decoding).scores, context)
    found = {"rank": rank, "ci_low": bounds[0], "ci_high": bounds[1], "ci_level": resampling.level}
    return pd.DataFrame(names | found | {"undefined": 1 - seen.mean(axis=0)})


def _only_compared(scores: Floats, comparisons: Comparisons) -> Floats:
    return np.where(comparisons.times > 0, scores, np.nan)


def _by_context(comparisons: Comparisons, one: Callable[[Comparisons], CandidateScores]) -> CandidateScores:
    parts = [one(part) for part in comparisons.split()]
    scores = np.concatenate([part.scores for part in parts]) if parts else np.empty(0)
    methods = dict.fromkeys(part.method for part in parts)
    notes = [part.note for part in parts if part.note]
    note = f"{notes[0]} ({len(notes)} of {len(parts)} contexts)" if notes else ""
    return CandidateScores(scores, " and ".join(methods), note, sum(part.gap for part in parts))


def _maximum(comparisons: Comparisons) -> CandidateScores:
    method = "bradley-terry (maximum likelihood, evalica)"
    compared = np.flatnonzero(comparisons.times)
    scores = np.full(comparisons.n_candidates, np.nan)
    place = np.full(comparisons.n_candidates, -1)
    place[compared] = np.arange(len(compared))
    names = comparisons.context_id[compared], comparisons.candidate_id[compared]
    inner = Comparisons(*names, place[comparisons.first], place[comparisons.second], comparisons.p)
    if len(compared):
        scores[compared] = maximum_likelihood(inner)
    none = "no maximum: not every candidate is connected to every other by a chain of wins"
    return CandidateScores(scores, method, none if np.isnan(scores[compared]).all() else "")


def _ranked(comparisons: Comparisons, ranking: MostLikelyRanking) -> CandidateScores:
    scores = np.full(comparisons.n_candidates, np.nan)
    scores[ranking.order] = np.linspace(1, 0, len(ranking.order)) if len(ranking.order) > 1 else np.nan
    gap = 0.0 if ranking.gap < 1e-9 else ranking.gap
    note = f"not proved optimal: the log-likelihood can improve by at most {gap:.3g}" if gap else ""
    return CandidateScores(scores, f"most likely ranking ({ranking.method})", note, gap)


_RANKINGS: dict[str, Callable[[Comparisons], CandidateScores]] = {
    "likelihood": lambda comparisons: _ranked(comparisons, most_likely_ranking(comparisons)),
    "greedy": lambda comparisons: _ranked(comparisons, most_likely_ranking(comparisons, "greedy")),
}


def rank(trials: pd.DataFrame, decoding: Decoding = "win-ratio", debiasing: Debiasing = "none") -> pd.DataFrame:
    """Rank the candidates of each context, for every judge, data set, attribute and template.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of any probe: `biaslab.probes.Position`, `biaslab.probes.Comparative`.
    decoding : str
        As in `biaslab.ranking.decode`.
    debiasing : str
        As in `biaslab.ranking.debias`: remedies are fitted on other contexts.

    Returns
    -------
    pandas.DataFrame
        ``judge, dataset, attribute, [template,] context_id, candidate_id, score, rank``, with 1 the best; if the
        trials have them also ``system`` and ``human``, the mean human score. NaN for candidates without a usable
        comparison.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = bl.collect(bl.probes.Position(["coherence"], [1]), bl.SimulatedJudge(data), data, progress=False)
    >>> rank(trials)[["candidate_id", "score", "rank"]].head(2).to_numpy().tolist()
    [['c1', 0.9, 1.5], ['c2', 0.2, 5.0]]
    """
    frames = []
    for where, cell in cells(trials):
        read = read_trials(cell)
        debiased = debias(read.comparisons, debiasing)
        scores = decode(debiased, decoding).scores
        names = {"context_id": debiased.context_id, "candidate_id": debiased.candidate_id}
        columns = where | names | {"score": scores, "rank": ranks(scores, debiased.context)}
        for name, both in (("system", _SYSTEM), ("human", _HUMAN)):
            if set(both) <= set(cell.columns):
                columns[name] = read.of_candidates(cell[both[0]], cell[both[1]])
        frames.append(pd.DataFrame(columns))
    if not frames:
        raise TrialsError.plain("trials has no rows, expected: at least one comparison")
    return pd.concat(frames, ignore_index=True)


def human_of(trials: pd.DataFrame, read: ComparisonTrials, human: pd.DataFrame | None, attribute: str) -> Floats:
    """Return the mean human score of each candidate, from a frame like `Dataset.human_means` or from the trials."""
    if human is None:
        return read.of_candidates(trials["human"], trials["opponent_human"]).astype(float)
    if attribute not in human:
        raise InputError.plain(f"human lacks the column {attribute}")
    comparisons = read.comparisons
    index = pd.MultiIndex.from_arrays([comparisons.context_id, comparisons.candidate_id])
    return human[attribute].reindex(index).to_numpy(float)


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
        chances, decided = (self.better, self.worse), [won == 1, won == 0]
        logs = [np.select(decided, [math.log(chance), math.log1p(-chance)]) for chance in chances]
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
        raise InputError.plain("comparisons has only ties, expected: at least one decision")
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
