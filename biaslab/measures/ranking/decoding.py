"""Turn comparisons into scores and ranks: win ratio, mean probability, Bradley–Terry or most likely ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking.bradley_terry import fit_bradley_terry, maximum_likelihood
from biaslab.measures.ranking.comparisons import Comparisons, Read, cells, places_within, read_trials
from biaslab.measures.ranking.conditionals import fit_conditionals
from biaslab.measures.ranking.debiasing import Debiasing, debias
from biaslab.measures.ranking.likelihood import Ranking, most_likely_ranking
from biaslab.stats import Resampling

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
class Decoded:
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


def decode(comparisons: Comparisons, decoding: Decoding = "win-ratio", hard: bool = False) -> Decoded:
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
    hard : bool
        Turn probabilities into decisions (Eq. 2) first; *win-ratio* always does.

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
    if hard or decoding == "win-ratio":
        comparisons = comparisons.hard()
    if decoding in ("win-ratio", "mean-probability"):
        total = comparisons.total(comparisons.p)
        return Decoded(_only_compared(total / np.maximum(comparisons.times, 1), comparisons), decoding)
    if decoding in ("bradley-terry", "bradley-terry-position"):
        position = decoding == "bradley-terry-position"
        scores = fit_bradley_terry(comparisons, position=position).scores
        method = "bradley-terry (posterior mode, position term)" if position else "bradley-terry (posterior mode)"
        return Decoded(_only_compared(scores, comparisons), method)
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
    comparisons: Comparisons,
    decoding: Decoding = "win-ratio",
    resampling: Resampling | None = None,
    hard: bool = False,
) -> pd.DataFrame:
    """Estimate intervals for ranks by bootstrapping the comparisons of each context.

    Both orders of a pair are drawn together, because they share candidates. The interval is for this judge and these
    candidates: it reflects the choice of comparisons among them.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one or several contexts.
    decoding, hard
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
        drawn_ranks[replicate] = ranks(decode(comparisons.take(chosen), decoding, hard).scores, context)
    tail = (1 - resampling.level) / 2
    seen = ~np.isnan(drawn_ranks)
    known = seen.any(axis=0)
    bounds: Floats = np.full((2, size), np.nan)
    bounds[:, known] = np.nanquantile(drawn_ranks[:, known], [tail, 1 - tail], axis=0)
    names = {"context_id": comparisons.context_id, "candidate_id": comparisons.candidate_id}
    rank = ranks(decode(comparisons, decoding, hard).scores, context)
    return pd.DataFrame(
        names
        | {"rank": rank, "ci_low": bounds[0], "ci_high": bounds[1], "ci_level": resampling.level}
        | {"undefined": 1 - seen.mean(axis=0)}
    )


def _only_compared(scores: Floats, comparisons: Comparisons) -> Floats:
    return np.where(comparisons.times > 0, scores, np.nan)


def _by_context(comparisons: Comparisons, one: Callable[[Comparisons], Decoded]) -> Decoded:
    parts = [one(part) for part in comparisons.split()]
    scores = np.concatenate([part.scores for part in parts]) if parts else np.empty(0)
    methods = dict.fromkeys(part.method for part in parts)
    notes = [part.note for part in parts if part.note]
    note = f"{notes[0]} ({len(notes)} of {len(parts)} contexts)" if notes else ""
    return Decoded(scores, " and ".join(methods), note, sum(part.gap for part in parts))


def _maximum(comparisons: Comparisons) -> Decoded:
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
    return Decoded(scores, method, none if np.isnan(scores[compared]).all() else "")


def _ranked(comparisons: Comparisons, ranking: Ranking) -> Decoded:
    scores = np.full(comparisons.n_candidates, np.nan)
    scores[ranking.order] = np.linspace(1, 0, len(ranking.order)) if len(ranking.order) > 1 else np.nan
    gap = 0.0 if ranking.gap < 1e-9 else ranking.gap
    note = f"not proved optimal: the log-likelihood can improve by at most {gap:.3g}" if gap else ""
    return Decoded(scores, f"most likely ranking ({ranking.method})", note, gap)


_RANKINGS: dict[str, Callable[[Comparisons], Decoded]] = {
    "likelihood": lambda comparisons: _ranked(comparisons, most_likely_ranking(comparisons)),
    "greedy": lambda comparisons: _ranked(comparisons, most_likely_ranking(comparisons, "greedy")),
}


def rank(
    trials: pd.DataFrame,
    decoding: Decoding = "win-ratio",
    debiasing: Debiasing = "none",
    hard: bool = False,
    folds: int = 10,
) -> pd.DataFrame:
    """Rank the candidates of each context, for every judge, data set, attribute and template.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of any probe: `biaslab.probes.Position`, `biaslab.probes.Comparative`.
    decoding, hard
        As in `biaslab.ranking.decode`.
    debiasing, folds
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
        debiased = debias(read.comparisons, debiasing, folds)
        scores = decode(debiased, decoding, hard).scores
        names = {"context_id": debiased.context_id, "candidate_id": debiased.candidate_id}
        columns = where | names | {"score": scores, "rank": ranks(scores, debiased.context)}
        for name, both in (("system", _SYSTEM), ("human", _HUMAN)):
            if set(both) <= set(cell.columns):
                columns[name] = read.of_candidates(cell[both[0]], cell[both[1]])
        frames.append(pd.DataFrame(columns))
    if not frames:
        raise TrialsError("trials", "no rows", "at least one comparison")
    return pd.concat(frames, ignore_index=True)


def human_of(trials: pd.DataFrame, read: Read, human: pd.DataFrame | None, attribute: str) -> Floats:
    """Return the mean human score of each candidate, from a frame like `Dataset.human_means` or from the trials."""
    if human is None:
        return read.of_candidates(trials["human"], trials["opponent_human"]).astype(float)
    if attribute not in human:
        raise InputError("human", list(human.columns), f"a frame with a column {attribute}")
    comparisons = read.comparisons
    index = pd.MultiIndex.from_arrays([comparisons.context_id, comparisons.candidate_id])
    return human[attribute].reindex(index).to_numpy(float)
