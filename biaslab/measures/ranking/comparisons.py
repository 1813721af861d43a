"""Define `Comparisons`, the input of selection, decoding and debiasing, and say how far they contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from biaslab.core.arrays import Bools, Codes, Floats, Ints
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import Metric, declare_metrics
from biaslab.stats.blocks import ITEM, has_value
from biaslab.stats.estimate import Inference, Note, because, without_rounding
from biaslab.stats.frame import estimate_rows, estimates_frame, require_columns
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import require_fixed

Names = NDArray[np.object_]
CELL = ("judge", "dataset", "attribute")
_COLUMNS = ("context_id", "candidate_id", "opponent_id", "value", "status")


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Comparisons of candidates within one or several contexts, never across contexts.

    Parameters
    ----------
    context_id, candidate_id : numpy.ndarray of str, shape (candidates,)
        Names, grouped by context. A candidate need not occur in any comparison.
    first, second : numpy.ndarray of int, shape (comparisons,)
        Indices of the candidates shown first and second.
    p : numpy.ndarray of float, shape (comparisons,)
        Probability that the first wins, p_ij of Liusie et al. 2024, Eq. 1; ½ favours neither.
    called : numpy.ndarray of bool, shape (comparisons,), optional
        Whether the judge declared a tie (p = ½, which debiasing leaves unchanged); by default never. A probability
        that happens to be ½ is not a tie, and is debiased like any other.

    Examples
    --------
    >>> comparisons = Comparisons.of(["a", "b", "c"], [0, 1], [1, 2], [0.9, 0.5])
    >>> comparisons.wins.tolist(), comparisons.times.tolist()
    ([1.0, 0.5, 0.5], [1, 2, 1])
    """

    context_id: Names
    candidate_id: Names
    first: Codes
    second: Codes
    p: Floats
    called: Bools | None = None

    @classmethod
    def of(cls, names: Sequence[str], first: ArrayLike, second: ArrayLike, p: ArrayLike) -> Comparisons:
        """Build the comparisons of one context; drop those whose probability is NaN.

        Raises
        ------
        InputError
            If a probability is outside 0 to 1, or an index is not that of a candidate.
        """
        one, two, chance = np.asarray(first, np.intp), np.asarray(second, np.intp), np.asarray(p, float)
        if not (one.shape == two.shape == chance.shape and one.ndim == 1):
            raise InputError.plain(f"first, second and p differ in shape: {one.shape}, {two.shape}, {chance.shape}")
        places = np.concatenate([one, two])
        if len(places) and not 0 <= places.min() <= places.max() < len(names):
            raise InputError("first and second", (places.min(), places.max()), f"indices from 0 to {len(names) - 1}")
        kept = ~np.isnan(chance)
        outside = chance[kept & ~((chance >= 0) & (chance <= 1))]
        if len(outside):
            raise InputError("p", float(outside[0]), "probabilities from 0 to 1, or NaN if missing")
        candidates = np.array(names, object)
        return cls(np.full(len(candidates), "", object), candidates, one[kept], two[kept], chance[kept])

    def __len__(self) -> int:
        return len(self.p)

    @property
    def n_candidates(self) -> int:
        """Number of candidates, compared or not."""
        return len(self.candidate_id)

    @cached_property
    def tied(self) -> Bools:
        """Whether the judge declared each comparison a tie; shape (comparisons,)."""
        return np.zeros(len(self), bool) if self.called is None else self.called

    @cached_property
    def won(self) -> Floats:
        """Winner of each comparison (Eq. 2): 1 = first, 0 = second, ½ = tie."""
        return np.asarray((np.sign(self.p - 0.5) + 1) / 2, float)

    @cached_property
    def times(self) -> Ints:
        """Number of comparisons that involve each candidate."""
        size = self.n_candidates
        return np.bincount(self.first, minlength=size) + np.bincount(self.second, minlength=size)

    @cached_property
    def wins(self) -> Floats:
        """Number of comparisons that each candidate won; a tie counts ½."""
        return self.total(self.won)

    def total(self, p: Floats) -> Floats:
        """Sum, for each candidate, p if it is first and 1 − p if it is second."""
        size = self.n_candidates
        return tally(self.first, p, size) + tally(self.second, 1 - p, size)

    @cached_property
    def context(self) -> Codes:
        """Index of each candidate's context, from 0."""
        return np.asarray(pd.factorize(self.context_id)[0], np.intp)

    @property
    def n_contexts(self) -> int:
        """Number of contexts."""
        return int(self.context[-1]) + 1 if self.n_candidates else 0

    @cached_property
    def twins(self) -> Codes:
        """Index of the same pair's comparison in the other order, −1 if there is none; shape (comparisons,)."""
        size = self.n_candidates
        keys, mirrored = self.first * size + self.second, self.second * size + self.first
        order = np.argsort(keys, kind="stable")
        place = np.minimum(np.searchsorted(keys[order], mirrored), max(len(keys) - 1, 0))
        nearest = order[place] if len(keys) else order
        return np.where(keys[nearest] == mirrored, nearest, -1)

    @cached_property
    def pair(self) -> Codes:
        """Identifier of the pair in each comparison, the same in both orders; shape (comparisons,)."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return low * self.n_candidates + high

    def hard(self) -> Comparisons:
        """Return decisions instead of probabilities; ½ becomes a tie."""
        return replace(self, p=self.won, called=self.won == 0.5)

    def with_p(self, p: Floats) -> Comparisons:
        """Return the same comparisons with other probabilities; ties keep ½."""
        return replace(self, p=np.where(self.tied & ~np.isnan(p), 0.5, p))

    def take(self, chosen: Any) -> Comparisons:
        """Return a subset of the comparisons, with all candidates."""
        try:
            called = None if self.called is None else self.called[chosen]
            self.p[chosen]
        except (IndexError, TypeError, ValueError, KeyError) as error:
            allowed = f"indices from 0 to {len(self.p) - 1}, or {len(self.p)} booleans"
            raise InputError("chosen", chosen, allowed, "pass an array or a slice") from error
        return replace(self, first=self.first[chosen], second=self.second[chosen], p=self.p[chosen], called=called)

    def decided(self) -> Comparisons:
        """Return the comparisons that are not ties."""
        return self.take(~self.tied) if self.tied.any() else self

    def paired(self) -> Comparisons:
        """Return the comparisons of pairs that were judged in both orders."""
        return self if (self.twins >= 0).all() else self.take(self.twins >= 0)

    def split(self) -> Iterator[Comparisons]:
        """Yield the comparisons of each context."""
        borders = np.searchsorted(self.context, np.arange(self.n_contexts + 1))
        home = self.context[self.first]
        order = np.argsort(home, kind="stable")
        starts = np.searchsorted(home[order], np.arange(self.n_contexts + 1))
        for k in range(self.n_contexts):
            yield self._part(order[starts[k] : starts[k + 1]], slice(borders[k], borders[k + 1]))

    def _part(self, rows: Codes, names: slice) -> Comparisons:
        part = self.take(rows)
        first, second = part.first - names.start, part.second - names.start
        return Comparisons(self.context_id[names], self.candidate_id[names], first, second, part.p, part.called)


def tally(codes: Codes, values: Any, size: int) -> Floats:
    """Sum values by code; shape (size,)."""
    return np.asarray(np.bincount(codes, values, size), float)


def places_within(counts: Any) -> Codes:
    """Return the index of each member within its group, for groups of these sizes.

    Examples
    --------
    >>> places_within(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    return np.asarray(np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts), np.intp)


class ComparisonTrials(NamedTuple):
    """Comparisons, with links to the trials that they come from.

    Attributes
    ----------
    comparisons : Comparisons
        The comparisons.
    candidates : numpy.ndarray of int, shape (2, trials)
        Indices of the candidates that each trial shows first and second.
    row : numpy.ndarray of int, shape (trials,)
        Index of each trial's comparison; −1 if the trial has no usable answer.
    """

    comparisons: Comparisons
    candidates: Codes
    row: Codes

    def of_candidates(self, first: pd.Series, second: pd.Series) -> NDArray[Any]:
        """Return the values of columns of the trials by candidate; shape (candidates,)."""
        values = np.concatenate([first.to_numpy(), second.to_numpy()])
        by_candidate = np.empty(self.comparisons.n_candidates, values.dtype)
        by_candidate[self.candidates.ravel()] = values
        return by_candidate


def comparisons_of(trials: pd.DataFrame) -> Comparisons:
    """Extract the comparisons from pair trials of one judge, data set, attribute and prompt.

    Parameters
    ----------
    trials : pandas.DataFrame
        With ``context_id, candidate_id`` (shown first), ``opponent_id`` (shown second), ``value`` (probability that
        the first wins) and ``status``. A tie counts as ½ whatever its value. Trials with a status other than "ok" or
        "tie" are dropped, but not their candidates. Several usable trials of the same ordered pair are averaged (Eq.
        5), and are a tie only if all of them are.

    Raises
    ------
    TrialsError
        If a column is missing, a candidate is compared with itself, or a trial is not a comparison.

    Examples
    --------
    >>> rows = [("d1", "a", "b", 0.8, "ok"), ("d1", "b", "a", float("nan"), "refused")]
    >>> comparisons = comparisons_of(pd.DataFrame(rows, columns=list(_COLUMNS)))
    >>> comparisons.candidate_id.tolist(), comparisons.p.tolist()
    (['a', 'b'], [0.8])
    """
    return read_trials(trials).comparisons


def read_trials(trials: pd.DataFrame) -> ComparisonTrials:
    """Extract comparisons like `comparisons_of`, and link them to the trials."""
    require_columns(trials, _COLUMNS, "trials")
    if trials["opponent_id"].isna().any():
        raise TrialsError.plain("trials has a row without opponent_id, which is no comparison")
    contexts, context_names = pd.factorize(trials["context_id"])
    shown = [trials[name].to_numpy(object) for name in ("candidate_id", "opponent_id")]
    codes, names = pd.factorize(np.concatenate(shown))
    keys, place = np.unique(np.tile(contexts, 2) * max(len(names), 1) + codes, return_inverse=True)
    candidates = place.reshape(2, -1)
    if (candidates[0] == candidates[1]).any():
        raise TrialsError.plain("trials has a comparison of a candidate with itself")
    status = trials["status"].to_numpy(object)
    value = np.where(status == "tie", 0.5, without_rounding(trials["value"]))
    usable = ((status == "ok") | (status == "tie")) & ~np.isnan(value)
    codes, pairs = pd.factorize((candidates[0] * len(keys) + candidates[1])[usable])
    row = np.full(len(trials), -1)
    row[usable] = codes
    count = np.bincount(codes, minlength=len(pairs))
    p = tally(codes, value[usable], len(pairs)) / count
    called = tally(codes, (status == "tie")[usable], len(pairs)) == count
    first, second = np.divmod(pairs, max(len(keys), 1))
    home, who = np.divmod(keys, max(len(names), 1))
    contexts_of, who_of = np.asarray(context_names, object)[home], np.asarray(names, object)[who]
    comparisons = Comparisons(contexts_of, who_of, first, second, p, called if called.any() else None)
    return ComparisonTrials(comparisons, candidates, row)


def cells(trials: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the trials of each judge, data set, attribute and, if there are several prompts, template."""
    require_columns(trials, (*CELL, *_COLUMNS), "trials")
    names = [*CELL, *(["template"] if "template" in trials else [])]
    for values, cell in trials.groupby(names, sort=False):
        yield dict(zip(names, values, strict=True)), cell


#: Value of the column ``probe`` in the estimates of `transitivity`.
NAME = "transitivity"
declare_metrics(
    NAME,
    [
        Metric("cycle_rate", "three candidates preferred in a circle", "share"),
        Metric("indirect_error", "win probability off what two other comparisons imply", "share"),
        Metric("score_conflict_rate", "pairs decided against the judge's own scores", "share"),
    ],
)
#: Why an estimate is undefined, and the inference for it.
_ESTIMATED: dict[str, tuple[Note, Inference]] = {
    "cycle_rate": (
        because("no_triple", "no three candidates of a context with a winner in each of their pairs"), "score",
    ),
    "indirect_error": (because("no_probabilities", "needs probabilities of three candidates, not verdicts"), "t"),
    "score_conflict_rate": (because("no_scores", "no decided pair of candidates with different scores"), "score"),
}  # fmt: skip


def transitivity(
    trials: pd.DataFrame, scores: pd.DataFrame | None = None, resampling: Resampling | None = None
) -> pd.DataFrame:
    """Estimate how often a judge of pairs contradicts itself: circles among three candidates, and its own scores.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials, in one order or both, which are averaged.
    scores : pandas.DataFrame, optional
        Scores that the same judges gave the same candidates; by default rows of `trials` without ``opponent_id``.
    resampling : Resampling, optional
        Confidence level and clusters.

    Returns
    -------
    pandas.DataFrame
        An estimates frame, one row per metric and judge × data set × attribute × template:

        ``cycle_rate`` (0–1)
            Share of circles (a beats b, b beats c, c beats a) among three candidates with a winner in each pair. ¼ if
            verdicts are tossed; 0 if the judge ranks. Noise makes circles, too: average samples first.
        ``indirect_error`` (0–1)
            Mean distance of the probability that a beats c from that which a against b, and b against c, imply in the
            model of Bradley and Terry. Needs probabilities.
        ``score_conflict_rate`` (0–1)
            Share of decided pairs that the candidate with the lower score wins.

    Raises
    ------
    TrialsError
        If a column is missing, or there is no comparison.

    References
    ----------
    Xu et al. 2025, *Investigating non-transitivity in LLM-as-a-judge*, arXiv 2502.14074; Wang et al. 2025,
    *TrustJudge*, arXiv 2509.21117 (scores against comparisons).

    Examples
    --------
    >>> rows = [("q", "a", "b", 1.0), ("q", "b", "c", 1.0), ("q", "c", "a", 1.0)]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "value"])
    >>> trials = trials.assign(judge="j", dataset="d", attribute="x", status="ok")
    >>> transitivity(trials)["estimate"].tolist()
    [1.0, nan, nan]
    """
    how = resampling or Resampling()
    require_columns(trials, (*CELL, *_COLUMNS), "trials")
    require_fixed(trials, "transitivity")
    is_pair = trials["opponent_id"].notna()
    if not is_pair.any():
        raise TrialsError.plain("trials has no comparison: every row is without opponent_id")
    given = trials[~is_pair] if scores is None else scores
    keys = [*CELL, *ITEM]
    require_columns(given, (*keys, "value", "status"), "scores")
    require_fixed(given, "transitivity")
    mean = given[has_value(given)].groupby(keys)["value"].mean()
    rows: list[dict[str, Any]] = []
    for where, cell in cells(trials[is_pair]):
        contexts, sums = [], []
        whole = comparisons_of(cell)
        graded = not np.isin(whole.p, (0.0, 0.5, 1.0)).all()
        for part in whole.split():
            named = pd.MultiIndex.from_product(
                [*([where[name]] for name in CELL), part.context_id[:1], part.candidate_id]
            )
            contexts.append(part.context_id[0])
            sums.append(_contradictions(part, graded, mean.reindex(named).to_numpy(float) if len(mean) else None))
        total, known = np.array(sums).transpose(1, 2, 0), int(has_value(cell).sum())
        for (name, (reason, inference)), (found, of) in zip(_ESTIMATED.items(), total, strict=True):
            ratio = Ratio(contexts, found, of, None, (0.0, 1.0), reason, inference)
            rows += estimate_rows({name: ratio.estimate(how)}, where, how, known, len(cell) - known)
    return estimates_frame(rows, NAME, (), ("attribute", "template"))


def _contradictions(part: Comparisons, graded: bool, scores: Floats | None) -> list[tuple[float, float]]:
    """Return the sum and the number of circles, of errors of what others imply, and of conflicts with scores."""
    n = part.n_candidates
    wins, times = np.zeros((n, n)), np.zeros((n, n))
    np.add.at(wins, (part.first, part.second), part.p)
    np.add.at(wins, (part.second, part.first), 1 - part.p)
    np.add.at(times, (part.first, part.second), 1)
    times = times + times.T
    with np.errstate(invalid="ignore"):
        p = without_rounding(wins / times)
    one, two, three = np.array(list(combinations(range(n), 3)), np.intp).reshape(-1, 3).T
    edges = np.array([p[one, two], p[two, three], p[three, one]])  # around the circle
    decided = (~np.isnan(edges) & (edges != 0.5)).all(axis=0)
    circles = np.isin((edges[:, decided] > 0.5).sum(axis=0), (0, 3))
    inner = graded & ((edges > 0) & (edges < 1)).all(axis=0)
    odds = logit(edges[:, inner])
    errors = np.abs(edges[:, inner] - expit(odds - odds.sum(axis=0)))
    found = [(float(circles.sum()), float(decided.sum())), (float(errors.mean(axis=0).sum()), float(inner.sum()))]
    if scores is None:
        return [*found, (0.0, 0.0)]
    i, j = np.triu_indices(n, 1)
    gap, shown = scores[i] - scores[j], p[i, j]
    both = ~np.isnan(gap) & (gap != 0) & ~np.isnan(shown) & (shown != 0.5)
    return [*found, (float(((shown > 0.5) != (gap > 0))[both].sum()), float(both.sum()))]
