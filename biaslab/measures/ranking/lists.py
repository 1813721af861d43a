"""Judgements of lists: complete blocks, effects of position, balanced orders, worths (Plackett–Luce), sliding windows.

For two candidates these equal the metrics of pairs (`biaslab.measures.ranking.pairs`), up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import scipy  # its subpackages load when they are first used
from numpy.typing import NDArray
from scipy.special import logsumexp

from biaslab.core.arrays import Bools, Floats, Ints
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError, JudgeError, TrialsError
from biaslab.core.interfaces import Judge
from biaslab.core.requests import About
from biaslab.core.schema import Dataset
from biaslab.measures.ranking.pairs import common_log_odds, sample_counts
from biaslab.prompts.protocols import Protocol, list_protocol
from biaslab.stats.estimate import Estimate, because, without_rounding
from biaslab.stats.frame import warn_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, cluster_statistic

#: Columns of trials that are used: a row is a candidate at its position in one order.
LIST = ("context_id", "candidate_id", "replicate", "list_order", "place", "ranked", "value", "status")
_TINY = 1e-15  # keeps probabilities off 0, where the logarithm is infinite


@dataclass(frozen=True)
class ListBlocks:
    """Lists judged in all their orders; a block is one list and replicate of a context.

    Parameters
    ----------
    context : numpy.ndarray, shape (blocks,)
        The context of each block.
    replicate : numpy.ndarray, shape (blocks,)
        The replicate of each block.
    who : numpy.ndarray of int, shape (blocks, orders, places)
        Index of the candidate at each position, by name within the context, from 0.
    value : numpy.ndarray, shape (blocks, orders, places)
        Probability that the candidate at the position is best, or its rank.
    samples : numpy.ndarray, shape (blocks, orders)
        Number of samples whose shares the values are; NaN if they are exact or from a single answer.
    ranked : bool
        Whether values are ranks.
    label_mass : numpy.ndarray, shape (blocks, orders)
        Total probability of all labels.
    n_trials, n_dropped : int
        Numbers of rows used, and not used.
    """

    context: NDArray[Any]
    replicate: Ints
    who: Ints
    value: Floats
    samples: Floats
    ranked: bool
    label_mass: Floats
    n_trials: int
    n_dropped: int

    @property
    def k(self) -> int:
        """Number of candidates in a list."""
        return int(self.value.shape[2])

    @property
    def exact(self) -> bool:
        """Whether values are probabilities rather than verdicts or shares of samples."""
        verdicts = np.isin(self.value, (0.0, 1.0)).all()
        return not (self.ranked or verdicts or bool(np.isfinite(self.samples).any()))

    @property
    def best(self) -> Floats:
        """Decisions for the best, shape (blocks, orders, positions): 1 for one position; NaN if two are equally likely.

        An exact distribution decides for its most likely candidate; each sample is a decision, so for samples these
        are shares.
        """
        value = -self.value if self.ranked else self.value
        leads = value >= value.max(axis=2, keepdims=True) - 1e-12
        decided = np.where(leads.sum(axis=2, keepdims=True) == 1, leads, np.nan)
        counted = np.isfinite(self.samples)[..., None]
        return np.where(counted, self.value, decided)

    def by_candidate(self, values: Floats) -> Floats:
        """Rearrange values by position, shape (blocks, orders, positions), to values by candidate."""
        arranged = np.empty_like(values)
        np.put_along_axis(arranged, self.who, values, axis=2)
        return arranged

    @property
    def log_shares(self) -> Floats:
        """Log probabilities centred within the list, shape (blocks, orders, positions)."""
        logs = np.log(np.clip(self.value, _TINY, 1.0))
        return np.asarray(logs - logs.mean(axis=2, keepdims=True))


def list_blocks(trials: pd.DataFrame, what: str) -> ListBlocks:
    """Join the orders of each list; incomplete lists are dropped and counted.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell, with the columns `LIST`, ``label_mass`` and optionally ``samples``.
    what : str
        Name of the estimate, for the warning.

    Raises
    ------
    TrialsError
        If a candidate is repeated at a position of an order, or lists have different lengths.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements are dropped.
    """
    orders, k = int(trials["list_order"].max()) + 1, int(trials["place"].max())
    frame = trials.assign(samples=sample_counts(trials), value=without_rounding(trials["value"]))
    frame = frame.sort_values(["context_id", "replicate", "list_order", "place"], kind="stable")
    keys = ["context_id", "replicate"]
    if frame.duplicated([*keys, "list_order", "place"]).any():
        raise TrialsError.plain("a position occurs twice in the same list and replicate")
    size = frame.groupby(keys)["value"].transform("size").to_numpy()
    if (size > orders * k).any() or (frame.groupby([*keys, "list_order"])["place"].transform("size") != k).any():
        raise TrialsError.plain("trials has lists of different lengths; estimate them separately")
    read = (frame["status"] == "ok") & frame["value"].notna()
    whole = read.groupby([frame[key] for key in keys]).transform("all").to_numpy() & (size == orders * k)
    kept = frame[whole]
    shape = (len(kept) // (orders * k), orders, k)
    first = kept.iloc[:: orders * k]
    names = kept.groupby("context_id", sort=False)["candidate_id"]
    who = names.transform(lambda each: pd.factorize(each, sort=True)[0])
    n_dropped = len(trials) - len(kept)
    warn_missing(what, n_dropped, len(trials), "they, or another order of the same list, are missing")
    return ListBlocks(
        first["context_id"].to_numpy(object),
        first["replicate"].to_numpy(np.int64),
        who.to_numpy(np.int64).reshape(shape),
        kept["value"].to_numpy(float).reshape(shape),
        kept["samples"].to_numpy(float).reshape(shape)[:, :, 0],
        bool(trials["ranked"].astype(float).any()),
        kept["label_mass"].to_numpy(np.float64).reshape(shape)[:, :, 0],
        len(kept),
        n_dropped,
    )


_UNIT = (0.0, 1.0)
_NO_DECISION = because("no_single_best", "no order has a single best candidate")
_ONE_SIDED = "no two orders both choose the first, or none chooses the other's first; use more lists"
_NO_ODDS = because("one_sided_lists", _ONE_SIDED)


def place_rate(blocks: ListBlocks, place: int, tested: bool = False) -> Ratio:
    """Return the share of decisions for the candidate at a position (from 0; -1 is the last); the null is 1/k."""
    best = blocks.best[:, :, place]
    decided = np.isfinite(best).sum(axis=1)
    null, method = (1 / blocks.k, "score" if blocks.k == 2 else "t") if tested else (None, "resampling")
    return Ratio(blocks.context, np.nansum(best, axis=1), decided, null, _UNIT, _NO_DECISION, method)  # type: ignore[arg-type]


def place_excess(blocks: ListBlocks, place: int, resampling: Resampling) -> Estimate:
    """Estimate the share of decisions for a position minus 1/k, with the test and interval of the share."""
    rate = place_rate(blocks, place, tested=True).estimate(resampling)
    fair = 1 / blocks.k
    excess = {name: getattr(rate, name) - fair for name in ("estimate", "ci_low", "ci_high")}
    left_out = rate.leave_one_out and (rate.leave_one_out[0], rate.leave_one_out[1] - fair)
    return replace(rate, **excess, leave_one_out=left_out)


def first_place_logit(blocks: ListBlocks, resampling: Resampling) -> Ratio | Estimate:
    """Return the advantage of the first position in log odds against each other position, adjusted for candidates.

    For exact probabilities: the mean over orders of log p at the first position minus the mean of log p at the others;
    over a Latin square the candidates' worths cancel. For decisions: half the common log odds ratio of two orders of a
    list, with i first in one and j in the other: how often each order's first candidate is chosen over the other
    order's (Mantel–Haenszel, with a pair of orders as the stratum).
    """
    if not blocks.exact:
        return _counted_logit(blocks, resampling)
    advantage = blocks.log_shares[:, :, 0].mean(axis=1) * blocks.k / (blocks.k - 1)
    return Ratio(blocks.context, advantage, np.ones(len(advantage)), 0.0, None, _NO_DECISION, "t")


def _counted_logit(blocks: ListBlocks, resampling: Resampling) -> Estimate:
    """Estimate it from counts of decisions, summed over replicates."""
    counts = np.nan_to_num(blocks.by_candidate(blocks.best)) * np.nan_to_num(blocks.samples, nan=1.0)[..., None]
    codes, names = pd.factorize(blocks.context)
    total = np.zeros((len(names), *counts.shape[1:]))
    np.add.at(total, codes, counts)
    first = np.zeros((len(names), counts.shape[1]), int)
    first[codes] = blocks.who[:, :, 0]
    strata = [_of_two_orders(total, first, *two) for two in combinations(range(counts.shape[1]), 2)]
    won, lost, won_there, lost_there = np.concatenate(strata, axis=1)
    context = np.tile(names, len(strata))
    return common_log_odds(context, won, lost, won_there, lost_there, resampling, 0.0, _NO_ODDS, 0.5)


def _of_two_orders(counts: Floats, first: NDArray[np.int_], one: int, other: int) -> Floats:
    """Return decisions, shape (4, contexts): in each of two orders, for its own first and for the other's first."""
    rows, i, j = np.arange(len(counts)), first[:, one], first[:, other]
    four = [counts[rows, order, who] for order in (one, other) for who in (i, j)]
    return np.where(i != j, np.array(four), 0.0)


def same_best(blocks: ListBlocks) -> Ratio:
    """Return how often two orders of a list have the same best candidate, or neither has one."""
    best = blocks.by_candidate(blocks.best)
    decided = np.isfinite(best[:, :, 0]).astype(float)
    best = np.nan_to_num(best)
    agree = np.einsum("boc,bpc->bop", best, best) + (1 - decided)[:, :, None] * (1 - decided)[:, None, :]
    return _mean_of_pairs(blocks, agree)


def same_best_resampled(blocks: ListBlocks) -> Ratio:
    """Return how often two samples of one request have the same best candidate: the noise floor of `same_best`.

    Computed from exact probabilities, from sample shares without bias, or between replicates.
    """
    if not blocks.exact and not np.isfinite(blocks.samples).any():
        return _between_replicates(blocks, np.nan_to_num(blocks.by_candidate(blocks.best)))
    square, n = (blocks.value**2).sum(axis=2), blocks.samples
    with np.errstate(divide="ignore", invalid="ignore"):
        unbiased = np.where(np.isnan(n), square, np.where(n > 1, (n * square - 1) / (n - 1), np.nan))
    missing = because("one_sample", "needs at least 2 samples per request (k=2)")
    return Ratio(blocks.context, unbiased.mean(axis=1), np.ones(len(unbiased)), bounds=_UNIT, missing=missing)


def rank_consistency(blocks: ListBlocks) -> Ratio:
    """Return the mean Kendall's tau between rankings of the same list in two orders; -1 to 1."""
    ahead = _orderings(blocks.by_candidate(blocks.value))
    return _mean_of_pairs(blocks, np.einsum("bod,bpd->bop", ahead, ahead), (-1.0, 1.0))


def rank_consistency_resampled(blocks: ListBlocks) -> Ratio:
    """Return the mean Kendall's tau between two samples of one request: the noise floor of `rank_consistency`."""
    return _between_replicates(blocks, _orderings(blocks.by_candidate(blocks.value)), (-1.0, 1.0))


def mean_rank(blocks: ListBlocks, place: int) -> Ratio:
    """Return the mean rank of the candidate at a position (from 0): 1 to k, (k + 1) / 2 without a position effect."""
    ranks = blocks.value[:, :, place].mean(axis=1)
    return Ratio(blocks.context, ranks, np.ones(len(ranks)), bounds=(1.0, float(blocks.k)))


def spearman_place_rank(blocks: ListBlocks) -> Ratio:
    """Return the mean Spearman correlation of position and rank; 0 means no position effect, above 0 primacy."""
    ranks = scipy.stats.rankdata(blocks.value, axis=2)
    places = np.arange(blocks.k) - (blocks.k - 1) / 2
    spread = float((places**2).sum())
    rho = ((ranks - (blocks.k + 1) / 2) @ places / spread).mean(axis=1)
    return Ratio(blocks.context, rho, np.ones(len(rho)), 0.0, (-1.0, 1.0), inference="t")


def _orderings(ranks: Floats) -> Floats:
    """Return which of two candidates is ahead, shape (blocks, orders, pairs), scaled so that products sum to tau-a."""
    pairs = np.array(list(combinations(range(ranks.shape[2]), 2)))
    return np.asarray(np.sign(ranks[:, :, pairs[:, 0]] - ranks[:, :, pairs[:, 1]]) / np.sqrt(len(pairs)))


def _mean_of_pairs(blocks: ListBlocks, agree: Floats, bounds: tuple[float, float] = _UNIT) -> Ratio:
    """Return the mean over pairs of orders of an agreement, shape (blocks, orders, orders)."""
    one, other = np.triu_indices(agree.shape[1], 1)
    mean = agree[:, one, other].mean(axis=1)
    missing = because("no_complete_list", "no list was read completely")
    return Ratio(blocks.context, mean, np.ones(len(mean)), bounds=bounds, missing=missing)


def _between_replicates(blocks: ListBlocks, answers: Floats, bounds: tuple[float, float] = _UNIT) -> Ratio:
    """Return the mean over pairs of replicates of the product of answers, shape (blocks, orders, …)."""
    rows = pd.Series(np.arange(len(blocks.context))).groupby(blocks.context, sort=False)
    pairs = np.array([two for _, group in rows for two in combinations(group, 2)], int).reshape(-1, 2)
    agree = (answers[pairs[:, 0]] * answers[pairs[:, 1]]).sum(axis=2).mean(axis=1)
    missing = because("one_replicate", "only one replicate")
    return Ratio(blocks.context[pairs[:, 0]], agree, np.ones(len(agree)), bounds=bounds, missing=missing)


_Shown = TypeVar("_Shown", bound=Hashable)


def balanced_orders(candidates: Sequence[_Shown], neighbours: bool = False) -> list[tuple[_Shown, ...]]:
    """Return orders that form a Latin square, one order per candidate.

    Parameters
    ----------
    candidates : sequence
        At least two, all different.
    neighbours : bool
        Balance first-order carry-over too: each candidate immediately precedes each other one equally often. With an
        even number of candidates this holds in any case; an odd number needs a second square, and twice as many
        orders.

    Returns
    -------
    list of tuple
        Each candidate takes each position once (twice with the second square). For two candidates these are the two
        orders of a pair.

    Raises
    ------
    InputError
        If there are fewer than two candidates, or one is repeated.

    References
    ----------
    Williams 1949, *Experimental designs balanced for the estimation of residual effects of treatments*, Australian
    Journal of Scientific Research A 2.

    Examples
    --------
    >>> balanced_orders("abcd")
    [('a', 'b', 'd', 'c'), ('b', 'c', 'a', 'd'), ('c', 'd', 'b', 'a'), ('d', 'a', 'c', 'b')]
    >>> len(balanced_orders("abc", neighbours=True))
    6
    """
    k = len(candidates)
    if k < 2 or len(set(candidates)) < k:
        raise InputError("candidates", list(candidates), "at least two, all different")
    zigzag = [(place + 1) // 2 if place % 2 else (k - place // 2) % k for place in range(k)]
    square = [tuple(candidates[(start + at) % k] for at in zigzag) for start in range(k)]
    return square + [order[::-1] for order in square] if neighbours and k % 2 else square


_GRADIENT = 1e-8


@dataclass(frozen=True)
class PlackettLuce:
    """Worth of candidates and position effects, in log odds.

    Parameters
    ----------
    worth : pandas.Series
        By context and candidate; mean 0 within each context.
    places : numpy.ndarray, shape (k,)
        Advantage of each position; mean 0.
    log_likelihood : float
        Of the data, without the penalty.
    """

    worth: pd.Series
    places: Floats
    log_likelihood: float

    @property
    def first_place(self) -> float:
        """Advantage of the first position over the mean of the others."""
        return float(self.places[0] - self.places[1:].mean())


def fit_plackett_luce(trials: pd.DataFrame, place_effects: bool = True, penalty: float = 0.01) -> PlackettLuce:
    """Fit worths and position effects to rankings, or to choices of the best.

    The candidate at position j is chosen first with probability proportional to exp(worth + position effect), then the
    next one among the remaining candidates, and so on; for a choice of the best, only the first step is known. Shares
    and probabilities of being best count as fractions of a choice.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of `biaslab.probes.ListPosition`, for one judge, attribute and prompt.
    place_effects : bool
        Whether to include position effects; without them, an unbalanced design biases the worths.
    penalty : float
        Half the precision of a normal prior around 0 on each worth, above 0, which keeps the worth of a candidate that
        always wins finite.

    Returns
    -------
    PlackettLuce
        Ranking candidates by worth removes position effects. With few orders per list, position effects are
        overestimated, as is usual for maximum likelihood with many nuisance parameters (Neyman & Scott 1948), while
        the penalty shrinks them: test position effects with the probe's metrics instead.

    Raises
    ------
    InputError
        If no complete list was parsed, or a parameter is out of range.

    References
    ----------
    Luce 1959, *Individual Choice Behavior*; Plackett 1975, *The analysis of permutations*, Applied Statistics 24.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> judge = bl.SimulatedJudge(data, position=1.0)
    >>> probe = bl.probes.ListPosition(["coherence"], k=4)
    >>> fitted = fit_plackett_luce(bl.collect(probe, judge, data, progress=False), penalty=1e-6)
    >>> round(fitted.first_place, 2)
    1.0
    """
    if not penalty > 0:
        raise InputError("penalty", penalty, "a number above 0")
    blocks = list_blocks(trials, "Plackett-Luce")
    if not len(blocks.context):
        raise InputError.plain("trials has no list that was read in all its orders")
    keys, names = _number_candidates(trials, blocks.context, blocks.who)
    k = blocks.k
    who, value = keys.reshape(-1, k), blocks.value.reshape(-1, k)
    stages = _stages(who, value, blocks.ranked)
    effects = k if place_effects else 0

    def loss(parameters: Floats) -> tuple[float, Floats]:
        worth, places = parameters[: len(names)], parameters[len(names) :]
        total, gradient = penalty * float((parameters**2).sum()), 2 * penalty * parameters
        for left, taken, mass in stages:
            cost, slope = _stage_loss(worth[who] + (places if effects else 0.0), left, taken, mass)
            total += cost
            of_names = np.bincount(who.ravel(), slope.ravel(), len(names))
            gradient += np.concatenate([of_names, slope.sum(axis=0)[:effects]])
        return total, gradient

    start = np.zeros(len(names) + effects)
    best = scipy.optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": _GRADIENT, "maxiter": 5000})
    worth = pd.Series(best.x[: len(names)], index=names, name="worth")
    worth -= worth.groupby(level="context_id").transform("mean")
    places = best.x[len(names) :] if effects else np.zeros(k)
    likelihood = penalty * float((best.x**2).sum()) - float(best.fun)
    return PlackettLuce(worth, places - places.mean(), likelihood)


def _number_candidates(trials: pd.DataFrame, context: NDArray[np.object_], who: Ints) -> tuple[Ints, pd.MultiIndex]:
    """Return indices of candidates over all contexts (`list_blocks` numbers them within one), and their names."""
    kept = trials.loc[trials["context_id"].isin(context), ["context_id", "candidate_id"]].drop_duplicates()
    kept = kept.sort_values(["context_id", "candidate_id"])
    names = pd.MultiIndex.from_frame(kept)
    start = kept.groupby("context_id", sort=False).size().cumsum().shift(fill_value=0)
    return who + start.loc[list(context)].to_numpy()[:, None, None], names


def _stages(who: Ints, value: Floats, ranked: bool) -> list[tuple[Bools, Floats, Floats]]:
    """Return each choice step, shape (lists, k): who remains, the share that chooses each, and the step's mass."""
    if not ranked:
        return [(np.ones(who.shape, bool), value, value.sum(axis=1))]
    stages = [(value >= rank, (value == rank).astype(float)) for rank in range(1, who.shape[1])]
    return [(left, taken, taken.sum(axis=1)) for left, taken in stages]


def _stage_loss(utility: Floats, left: Bools, taken: Floats, mass: Floats) -> tuple[float, Floats]:
    """Return the negative log-likelihood of one step, and its gradient by utility."""
    open_ = np.where(left, utility, -np.inf)
    total = logsumexp(open_, axis=1, keepdims=True)
    cost = float((mass * total[:, 0]).sum() - (taken * utility).sum())
    return cost, mass[:, None] * np.exp(open_ - total) - taken


#: Ranks some candidates: returns their indices, best first.
Ranker = Callable[[list[Any]], Sequence[int]]


def sliding_windows(
    candidates: Sequence[Any], ranker: Ranker, window: int = 20, step: int = 10, rounds: int = 1
) -> list[int]:
    """Rank a list that is too long for one prompt.

    The last ``window`` candidates are ranked first; the window then moves up by ``step``, carrying its best candidates
    along, until it reaches the top.

    Parameters
    ----------
    candidates : sequence
        In the initial order, for example that of a first-stage retriever.
    ranker : callable
        Maps a list of candidates to their indices, best first. Omitting or inventing candidates is an error: decide
        how to treat such replies within the ranker.
    window, step : int
        Number of candidates in a window, at least 2, and the distance it moves, from 1 to one window.
    rounds : int
        How often the window slides from the end to the top.

    Returns
    -------
    list of int
        Indices of the candidates, best first.

    Raises
    ------
    InputError
        If a parameter is out of range, or the ranker does not return a permutation.

    References
    ----------
    Sun et al. 2023, *Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents*, EMNLP.

    Examples
    --------
    >>> by_size = lambda numbers: sorted(range(len(numbers)), key=lambda at: -numbers[at])
    >>> sliding_windows([3, 9, 1, 7, 5, 8], by_size, window=3, step=2)
    [1, 5, 0, 2, 3, 4]
    >>> sliding_windows([3, 9, 1, 7, 5, 8], by_size, window=3, step=2, rounds=3)
    [1, 5, 3, 4, 0, 2]
    """
    require_whole("window", window, 2)
    require_whole("step", step, 1)
    require_whole("rounds", rounds, 1)
    if step > window:
        raise InputError("step", step, f"at most the window, {window}", "otherwise some candidates are never compared")
    order = list(range(len(candidates)))
    for _ in range(rounds):
        for start, end in windows_of(len(order), window, step):
            shown = order[start:end]
            order[start:end] = [shown[at] for at in _permutation(ranker([candidates[at] for at in shown]), len(shown))]
    return order


def windows_of(n: int, window: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each window over n positions, from the end of the list to the top.

    Examples
    --------
    >>> list(windows_of(6, 3, 2)), list(windows_of(2, 3, 2))
    ([(3, 6), (1, 4), (0, 3)], [(0, 2)])
    """
    start = max(n - window, 0)
    yield start, n
    while start > 0:
        start = max(start - step, 0)
        yield start, min(start + window, n)


def _permutation(ranked: Any, n: int) -> list[int]:
    try:
        places = [int(at) for at in ranked]
    except (TypeError, ValueError):
        places = []
    if sorted(places) != list(range(n)):
        raise InputError.plain(f"ranker returned {ranked!r}, expected: each index from 0 to {n - 1} once")
    return places


def judge_ranker(
    judge: Judge, dataset: Dataset, attribute: str, context_id: str, protocol: Protocol | None = None
) -> Ranker:
    """Return a ranker for `sliding_windows` that lets a judge rank the candidates of a context.

    Parameters
    ----------
    judge : Judge
        Answers `biaslab.core.Completion` requests; wrapped with a store, it is asked once per window.
    dataset : Dataset
        Source of the candidates' texts.
    attribute : str
        The attribute to rank by.
    context_id : str
        The context.
    protocol : Protocol, optional
        Protocol for rankings of lists; by default biaslab's own.

    Returns
    -------
    callable
        Maps candidate names to their indices, best first. A reply that is not a ranking raises `JudgeError` with its
        status.

    Raises
    ------
    InputError
        If the protocol does not ask for rankings.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=1)
    >>> names = data.candidates["candidate_id"].tolist()
    >>> ranker = judge_ranker(bl.SimulatedJudge(data, quality=9.0), data, "coherence", "news-1")
    >>> [names[at] for at in sliding_windows(names, ranker, window=4, step=2)][:2]
    ['c1', 'c5']
    """
    asking = list_protocol(ranks=True) if protocol is None else Protocol.of_form(protocol, "list")
    if not asking.places.ranks:
        raise InputError("protocol", asking.id, "one that asks for a ranking", 'such as replies="order"')

    def ranker(names: list[Any]) -> Sequence[int]:
        """Ask for a ranking of the named candidates, and return their indices, best first."""
        rows = [dataset.rows[context_id, name] for name in names]
        source, texts = bool(rows[0]["context"].strip()), tuple(row["text"] for row in rows)
        labels = asking.list_labels(len(names))
        about = About(context_id, tuple(names), texts, (attribute,), source, labels, protocol=asking)
        request = asking.request(asking.show(dataset, attribute, context_id, names), about)
        [(_, reply)] = judge.ask([request])
        ranks, status = asking.read_list(reply, len(names))
        if status != "ok":
            raise JudgeError(f"the ranking of a window of {context_id!r} is {status}", request)
        return [int(at) for at in np.argsort(ranks)]

    return ranker


def window_effect(orders: pd.DataFrame) -> pd.DataFrame:
    """Estimate how the final rank depends on a candidate's initial position.

    Parameters
    ----------
    orders : pandas.DataFrame
        One row per candidate and list: ``context_id``; ``list``, which identifies the lists of a context (the same
        candidates in different initial orders); initial ``place`` and final ``rank``, both from 1; ``candidate_id``.

    Returns
    -------
    pandas.DataFrame
        By ``metric``: ``place_correlation``, the mean Spearman correlation of place and rank, both centred for each
        candidate over its lists, which removes its worth (null 0; above: candidates that start higher end higher); and
        ``rank_spread``, the mean standard deviation of a candidate's ranks over lists. With ``estimate``, ``ci_low``,
        ``ci_high``, ``p_value`` and ``n_contexts``; the sampling unit is the context.

    Raises
    ------
    InputError
        If a column is missing, or no candidate occurs in two lists.

    Examples
    --------
    >>> rows = [(c, turn, n, (n + turn) % 4 + 1) for c in "abcdefgh" for turn in range(4) for n in range(4)]
    >>> orders = pd.DataFrame(rows, columns=["context_id", "list", "candidate_id", "place"])
    >>> orders["rank"] = orders["place"]
    >>> window_effect(orders)[["metric", "estimate"]].round(2).to_dict("list")
    {'metric': ['place_correlation', 'rank_spread'], 'estimate': [1.0, 1.12]}
    """
    missing = [name for name in ("context_id", "list", "candidate_id", "place", "rank") if name not in orders]
    if missing:
        raise InputError.plain(f"orders lacks the columns {', '.join(missing)}")
    by = orders.groupby(["context_id", "candidate_id"])
    centred = orders.assign(**{name: orders[name] - by[name].transform("mean") for name in ("place", "rank")})
    if not centred["place"].any():
        raise InputError.plain("each candidate of orders must start at several positions")
    codes, names = pd.factorize(centred["context_id"])
    rho, spread = np.empty(len(names)), np.empty(len(names))
    for code in range(len(names)):
        rows = centred[codes == code]
        rho[code] = _correlation(rows["place"].to_numpy(float), rows["rank"].to_numpy(float))
        spread[code] = float(np.sqrt((rows["rank"] ** 2).groupby(rows["candidate_id"]).mean()).mean())
    effects = {"place_correlation": _mean(rho, 0.0, (-1.0, 1.0)), "rank_spread": _mean(spread, None, None)}
    columns = ("estimate", "ci_low", "ci_high", "p_value", "n_contexts")
    rows = [{"metric": name} | {column: getattr(e, column) for column in columns} for name, e in effects.items()]
    return pd.DataFrame(rows)


def _correlation(place: Floats, rank: Floats) -> float:
    """Return Spearman's correlation; 0 if ranks do not vary, because position then has no effect."""
    return float(scipy.stats.spearmanr(place, rank).statistic) if np.ptp(rank) > 0 and np.ptp(place) > 0 else 0.0


def _mean(values: Floats, null: float | None, bounds: tuple[float, float] | None) -> Any:
    return cluster_statistic(
        lambda weights: weights @ values / weights.sum(axis=1), len(values), Resampling(), null, bounds, scale="plain"
    )
