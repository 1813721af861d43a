"""Metrics of pair judgements, shared by probes, rankings and audits; both orders of a pair as complete blocks.

A metric is a ratio of sums over judgements, each with its context, its winner (1 for the candidate shown first, 0 for
the second, NaN for a tie), and the human score of the first minus that of the second. If a judgement consists of a few
samples, the winner is a share: every sample counts as a decision, so that metrics do not depend on the number of
samples, as they would with majority votes. They are then the metrics of single answers; for an exact distribution, the
more likely label is the decision.

A verdict is a win of either candidate, or a tie. Exact probabilities are equivalent to infinitely many samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import logit

from biaslab.core.arrays import Bools, Codes, Floats, Ints
from biaslab.core.errors import MissingDataWarning, TrialsError
from biaslab.stats.blocks import has_value, number_items, sum_by_context
from biaslab.stats.estimate import Estimate, Note, Remark, because, undefined, without_rounding
from biaslab.stats.frame import warn_missing
from biaslab.stats.missing import completed, note_missing
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, Statistic, cluster_difference, cluster_statistic, in_order

PAIR = ("context_id", "candidate_id", "opponent_id", "replicate", "value", "status")
_UNIT = (0.0, 1.0)
_ONE_ORDER = because("one_order", "no pair was judged in both orders")


ONE_SIDED = because("one_sided_strata", "no stratum has decisions for both sides")


def is_pair(trials: pd.DataFrame) -> Bools:
    """Return which trials compare two candidates, as a mask.

    Examples
    --------
    >>> is_pair(pd.DataFrame({"opponent_id": ["b", None, ""]})).tolist()
    [True, False, False]
    """
    if "opponent_id" not in trials:
        return np.zeros(len(trials), bool)
    opponent = trials["opponent_id"]
    return (opponent.notna() & (opponent != "")).to_numpy(bool)


def first_position_rate(context: ArrayLike, won: ArrayLike, null: float | None = 0.5) -> Ratio:
    """Return P(A), the share of decisions (without ties) for the first-presented candidate (Liusie et al. 2024, Eq. 8).

    Parameters
    ----------
    context : array_like, shape (judgements,)
        The context of each judgement.
    won : array_like of float, shape (judgements,) or (pairs, orders)
        1 if the first wins, 0 if the second does, a sample share in between; NaN for a tie. With both orders of a pair
        in one row, the interval takes into account that pairs that do not flip carry no information about order.
    null : float, optional
        Null value; None for no test.

    Examples
    --------
    >>> rate = first_position_rate(list("aab"), [1, 0, 1])
    >>> float(rate.numerator.sum() / rate.denominator.sum()).__round__(3)
    0.667
    """
    first, decided = (values.sum(axis=1) if values.ndim > 1 else values for values in _decisions(won))
    return Ratio(context, first, decided, null, _UNIT, because("all_ties", "all judgements are ties"), "score")


def comparative_accuracy(context: ArrayLike, won: ArrayLike, gap: ArrayLike, null: float | None = 0.5) -> Ratio:
    """Return the share of decisions that agree with humans, among candidates with different human scores.

    Parameters
    ----------
    context, won, null
        As in `first_position_rate`.
    gap : array_like of float, shape (judgements,)
        Human score of the candidate shown first minus that of the second; NaN if unknown.

    Notes
    -----
    Ties are not decisions (Liusie et al. 2024, Tables 7, 10). Interval and test use the score method over contexts. In
    1,000 simulated studies with 8, 16, 24 and 100 contexts of three candidates, the test rejected .056, .050, .043 and
    .038 of true nulls (sign-flip test: .011, .025, .030, .032); with 8 contexts, a bootstrap interval covered an
    accuracy of .92 or .97 in only .74 and .71 of studies.
    """
    first, decided = _decisions(won)
    ahead = np.nan_to_num(np.asarray(gap, float))
    rated = decided * (ahead != 0)
    missing = because("no_decision_of_unequals", "no decision between two candidates with different human scores")
    return Ratio(context, rated * np.where(ahead > 0, first, 1 - first), rated, null, _UNIT, missing, "score")


def order_consistency(context: ArrayLike, won: ArrayLike, other: ArrayLike) -> Ratio:
    """Return the share of judgements with the same winner, or a tie, in the other order.

    Parameters
    ----------
    context, won
        As in `first_position_rate`.
    other : array_like of float, shape (judgements,)
        The same for the judgement in the other order: 1 if the candidate it shows first wins.
    """
    (first, decided), (first_there, decided_there) = _decisions(won), _decisions(other)
    differ = first * (1 - first_there) + (1 - first) * first_there
    same = decided * decided_there * differ + (1 - decided) * (1 - decided_there)
    return Ratio(context, same, np.ones(len(same)), bounds=_UNIT, missing=_ONE_ORDER)


def primacy_share(context: ArrayLike, won: ArrayLike, other: ArrayLike) -> Ratio:
    """Return, among pairs whose verdict flips with the order, the share in which the first wins both times (null ½)."""
    (first, decided), (first_there, decided_there) = _decisions(won), _decisions(other)
    twice = decided * decided_there * first * first_there
    flips = twice + decided * decided_there * (1 - first) * (1 - first_there)
    return Ratio(context, twice, flips, 0.5, _UNIT, because("no_flip", "no pair flips"), "score")


def tie_rate(context: ArrayLike, won: ArrayLike) -> Ratio:
    """Return the share of judgements that are ties."""
    _, decided = _decisions(won)
    return Ratio(context, 1 - decided, np.ones(len(decided)), bounds=_UNIT)


def _decisions(won: ArrayLike) -> tuple[Floats, Floats]:
    """Return the decision for the first (0 for a tie), and 1 unless it is a tie."""
    values = np.asarray(won, float)
    return np.nan_to_num(values), (~np.isnan(values)).astype(float)


def decisions(trials: pd.DataFrame) -> Floats:
    """Return the winner of each judgement: 1 = first, 0 = second, a sample share in between, NaN = tie.

    A tie has the status "tie", or two labels with equal probability up to rounding. Samples that are evenly split are
    not a tie, because that happens by chance.
    """
    p, counted = without_rounding(trials["value"]), ~np.isnan(sample_counts(trials))
    tied = (trials["status"] != "ok").to_numpy() | np.isnan(p) | (~counted & (p == 0.5))
    won: Floats = np.where(tied, np.nan, np.where(counted, p, p > 0.5))
    return won


def sample_counts(trials: pd.DataFrame) -> Floats:
    """Return the number of samples behind each value, NaN if it is exact or a single answer."""
    if "samples" not in trials:
        return np.full(len(trials), np.nan)
    counts: Floats = np.round(trials["samples"].to_numpy(float) * trials["label_mass"].fillna(1.0).to_numpy(float))
    return counts


def both_orders(trials: pd.DataFrame, what: str) -> pd.DataFrame:
    """Join the two orders of each pair; pairs with a missing order are dropped and counted.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of one cell, with the columns `PAIR`, ``human_gap`` and ``label_mass``.
    what : str
        Name of the estimate, for the warning.

    Returns
    -------
    pandas.DataFrame
        One row per pair and replicate: ``context_id``; ``pair`` (a number, shared by its replicates); ``p_ij``,
        ``p_ji`` (probability that the first wins, in each order); ``first_ij``, ``first_ji`` (the winner: see
        `decisions`); ``samples_ij``, ``samples_ji`` (number of samples that chose a label, NaN if p is exact or from a
        single answer); ``human_gap`` (of i over j); ``label_mass`` (mean of both). ``attrs["n_trials"]`` judgements
        are used, ``attrs["n_dropped"]`` are not.

    Raises
    ------
    TrialsError
        If a pair is repeated in the same order and replicate.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements are dropped.
    """
    usable = trials["status"].isin(["ok", "tie"]).to_numpy()
    keys, swapped, replicates = _unordered(trials[usable])
    p = trials["value"].to_numpy(float)[usable]
    first, samples = decisions(trials)[usable], sample_counts(trials)[usable]
    shared, ij, ji = np.intersect1d(keys[~swapped], keys[swapped], assume_unique=True, return_indices=True)
    ij, ji = np.flatnonzero(~swapped)[ij], np.flatnonzero(swapped)[ji]
    mass = trials["label_mass"].to_numpy(float)[usable]
    blocks = pd.DataFrame(
        {
            "context_id": trials["context_id"].array[usable][ij],
            "pair": shared // replicates,
            "p_ij": p[ij],
            "p_ji": p[ji],
            "first_ij": first[ij],
            "first_ji": first[ji],
            "samples_ij": samples[ij],
            "samples_ji": samples[ji],
            "human_gap": trials["human_gap"].to_numpy(float)[usable][ij],
            "label_mass": (mass[ij] + mass[ji]) / 2,
        }
    )
    blocks.attrs.update(n_trials=2 * len(blocks), n_dropped=len(trials) - 2 * len(blocks))
    warn_missing(what, blocks.attrs["n_dropped"], len(trials), "they, or the same pair in the other order, are missing")
    return blocks


def _unordered(trials: pd.DataFrame) -> tuple[Ints, Bools, int]:
    """Return an index per pair and replicate, the trials that show the later name first, and an index per pair.

    Joining on numbers is much faster than joining on strings.
    """
    shown = [trials["candidate_id"].astype(object), trials["opponent_id"].astype(object)]
    codes, names = pd.factorize(np.concatenate(shown), sort=True)
    one, two = codes[: len(trials)], codes[len(trials) :]
    swapped = one > two
    context, _ = pd.factorize(trials["context_id"])
    replicate, replicates = pd.factorize(trials["replicate"])
    pair = np.minimum(one, two) * len(names) + np.maximum(one, two)
    most = max(len(replicates), 1)
    keys = (context * len(names) ** 2 + pair) * most + replicate
    order = 2 * keys + swapped
    ordered = np.sort(order)
    if (ordered[1:] == ordered[:-1]).any():
        repeated = trials.iloc[int(pd.Series(order).duplicated().to_numpy().argmax())]
        row = ", ".join(f"{name} {repeated[name]}" for name in ("context_id", *PAIR[1:4]))
        raise TrialsError.plain(f"trials repeats {row}, expected: one row per pair, order and replicate")
    return keys, swapped, most


def in_both_orders(trials: pd.DataFrame, cell: Sequence[pd.Series]) -> pd.Series:
    """Return a mask of trials whose pair has a readable judgement in both orders of the same replicate."""
    one, two = trials["candidate_id"], trials["opponent_id"]
    ahead = one < two
    pair = [*cell, trials["context_id"], one.where(ahead, two), two.where(ahead, one), trials["replicate"]]
    usable = trials["status"].isin(["ok", "tie"])
    orders = [(usable & side).groupby(pair).transform("any") for side in (ahead, ~ahead)]
    return orders[0] & orders[1]


def in_bins(rows: pd.DataFrame, bins: int, column: str = "human_gap") -> Iterator[tuple[float, pd.DataFrame]]:
    """Split pairs into quantile bins of a column's absolute values; yield the mean and the pairs of each bin.

    Bins with equal edges are merged, so there may be fewer. Pairs without a value, such as those without human scores,
    are in no bin.
    """
    known = rows[rows[column].notna()]
    if known.empty:
        return
    sizes = known[column].abs()
    edges = np.unique(np.quantile(sizes, np.linspace(0, 1, bins + 1)).round(9))
    codes = np.searchsorted(edges[1:-1], sizes.round(9), side="left")
    for code in np.unique(codes):
        chosen = known[codes == code]
        chosen.attrs.update(n_trials=2 * len(chosen), n_dropped=0)
        yield float(chosen[column].abs().mean()), chosen


def replicate_agreement(trials: pd.DataFrame) -> pd.DataFrame:
    """Return how often two samples agree, for every request with several usable samples.

    Returns
    -------
    pandas.DataFrame
        ``context_id``; ``agree``, the number of agreeing pairs of samples; ``pairs``, the number of pairs of samples.
    """
    usable = trials[trials["status"].isin(["ok", "tie"])]
    outcome = np.where(usable["status"] == "tie", 0.5, (usable["value"] > 0.5).astype(float))
    keys = ["context_id", "candidate_id", "opponent_id"]
    counts = usable.assign(outcome=outcome).groupby([*keys, "outcome"]).size().rename("n").reset_index()
    counts["same"] = counts["n"] * (counts["n"] - 1) / 2
    sums = counts.groupby(keys)[["n", "same"]].sum().reset_index()
    sums["pairs"] = sums["n"] * (sums["n"] - 1) / 2
    return sums[["context_id", "same", "pairs"]].rename(columns={"same": "agree"})


PAIR_KEY = ("context_id", "candidate_id", "opponent_id")
ORDERS = ("earlier name first", "later name first")
ONE_SAMPLE = because("one_sample", "only one sample per verdict; sampling noise needs at least 2")
_NO_PAIR = because("no_pair_both_ways", "no pair has a verdict both ways")
_NO_DECISION = because("no_decision_of_unequals", "no decision between two candidates with different human scores")
_ALL_TIES = because("all_ties", "all verdicts are ties")


@dataclass(frozen=True)
class Verdicts:
    """Verdicts on the pairs that have one under each way of asking.

    Parameters
    ----------
    pairs : pandas.DataFrame
        One row per pair: ``context_id, candidate_id, opponent_id, human_gap`` (of the first over the second).
    shares : numpy.ndarray, shape (pairs, ways, 3)
        For each pair and way: the shares of wins of the first, wins of the second, and ties, which sum to 1.
    samples : numpy.ndarray, shape (pairs, ways)
        Number of samples behind the shares; infinite if they are exact.
    read : numpy.ndarray of int, shape (pairs,)
        Number of judgements of each pair.
    n_dropped : int
        Number of judgements not used.
    """

    pairs: pd.DataFrame
    shares: Floats
    samples: Floats
    read: Codes
    n_dropped: int

    @classmethod
    def of(
        cls, trials: pd.DataFrame, way: str, ways: Sequence[str] | Sequence[float], exact: bool | Bools, what: str
    ) -> Verdicts:
        """Count the verdicts of one cell.

        Parameters
        ----------
        trials : pandas.DataFrame
            Pair trials, with ``context_id, candidate_id, opponent_id, human_gap, value, status`` and the way of
            asking.
        way : str
            Column of the way of asking.
        ways : sequence
            One or two of its values.
        exact : bool or numpy.ndarray of bool, shape (trials,)
            Whether values are exact probabilities rather than verdicts or shares of samples.
        what : str
            Name of the estimate, for the warning.

        Warns
        -----
        MissingDataWarning
            If more than 5 % of the judgements are dropped.
        """
        asked, exact = trials[way].isin(list(ways)).to_numpy(), np.broadcast_to(exact, len(trials))
        planned = trials[asked]
        present = has_value(planned)
        read, exact = planned[present], exact[asked][present]
        counts = sample_counts(read)
        counted = np.isfinite(counts)
        shares, n = _shares(read, exact | counted), np.where(counted, counts, 1.0)
        pair, first = number_items(read, PAIR_KEY)
        k = len(ways)
        at = pair * k + (read[way] == ways[-1]).to_numpy(int) * (k - 1)
        size = k * len(first)
        total = np.bincount(at, n, size).reshape(-1, k)
        sums = np.stack([np.bincount(at, n * share, size) for share in shares.T], axis=1).reshape(-1, k, 3)
        whole: Bools = np.all(total > 0, axis=1)
        each = np.bincount(pair, minlength=len(first))[whole]
        dropped = len(planned) - int(each.sum())
        lost = "they, or the same pair asked the other way, are missing" if k > 1 else "they are missing"
        warn_missing(what, dropped, len(planned), lost)
        rows = read.iloc[first[whole]][[*PAIR_KEY, "human_gap"]].reset_index(drop=True)
        kept: Floats = np.asarray(total[whole], float)
        sampled = np.bincount(at, ~exact | counted, size).reshape(-1, k)[whole]
        samples = np.where(sampled > 0, kept, np.inf)
        return cls(rows, sums[whole] / kept[:, :, None], samples, each, dropped)

    @property
    def exact(self) -> bool:
        """Whether shares are exact probabilities throughout."""
        return bool(len(self.samples)) and bool(np.isinf(self.samples).all())

    @property
    def counts(self) -> tuple[int, int]:
        """Number of judgements used, and not used."""
        return int(self.read.sum()), self.n_dropped

    @property
    def within(self) -> Floats:
        """Probability that two samples of one way differ, averaged over ways; shape (pairs,), NaN with one sample."""
        n = self.samples
        with np.errstate(divide="ignore", invalid="ignore"):
            unbiased = np.where(np.isinf(n), 1.0, np.where(n > 1, n / (n - 1), np.nan))
        differ: Floats = ((1 - (self.shares**2).sum(axis=2)) * unbiased).mean(axis=1)
        return differ

    @property
    def between(self) -> Floats:
        """Probability that samples of different orders differ; shape (pairs,)."""
        return np.asarray(1 - self.shares.prod(axis=1).sum(axis=1))

    def changes(self) -> dict[str, Ratio]:
        """Return how often the verdict changes with the way of asking, and between samples (its noise floor).

        Named ``verdict_change`` and ``resampling_change``; both are shares of pairs of samples, from 0 to 1, and equal
        if the way of asking has no effect.
        """
        context, ones = self.pairs["context_id"], np.ones(len(self.pairs))
        changes = {"verdict_change": (self.between, _NO_PAIR), "resampling_change": (self.within, ONE_SAMPLE)}
        return {name: Ratio(context, x, ones, bounds=_UNIT, missing=why) for name, (x, why) in changes.items()}

    def accuracies(self, single: bool = False) -> tuple[Ratio, ...]:
        """Return, for each way, the share of decisions that agree with humans, among different human scores.

        See `comparative_accuracy`; each sample of a request is a decision. Exact probabilities count as a decision for
        the more likely candidate or, with ``single``, as fractional decisions like those of single verdicts.
        """
        shares = self.shares
        if self.exact and not single:
            won = (np.sign(without_rounding(shares[:, :, 0] - 0.5)) + 1) / 2
            tied = won == 0.5
            shares = np.stack([np.where(tied, 0.0, won), np.where(tied, 0.0, 1 - won), tied], axis=2)
        gap = np.nan_to_num(self.pairs["human_gap"].to_numpy(float))
        right = np.where((gap > 0)[:, None], shares[:, :, 0], shares[:, :, 1]) * (gap != 0)[:, None]
        rated = (1 - shares[:, :, 2]) * (gap != 0)[:, None]
        context, ways = self.pairs["context_id"], range(shares.shape[1])
        return tuple(Ratio(context, right[:, k], rated[:, k], 0.5, _UNIT, _NO_DECISION, "score") for k in ways)

    def in_both_orders(self) -> Verdicts:
        """Return the verdicts on pairs shown in both orders; the rest counts as dropped."""
        names = [self.pairs[name].astype(str) for name in PAIR_KEY]
        shown = {*zip(*names, strict=True)}
        kept = np.array([(c, two, one) in shown for c, one, two in zip(*names, strict=True)], bool)
        rows, dropped = self.pairs[kept].reset_index(drop=True), self.n_dropped + int(self.read[~kept].sum())
        return Verdicts(rows, self.shares[kept], self.samples[kept], self.read[kept], dropped)

    def first_rates(self) -> tuple[Ratio, ...]:
        """Return P(A) for each way: the share of decisions for the first-presented candidate."""
        decided = 1 - self.shares[:, :, 2]
        context, won = self.pairs["context_id"], self.shares[:, :, 0]
        ways = range(won.shape[1])
        return tuple(Ratio(context, won[:, k], decided[:, k], 0.5, _UNIT, _ALL_TIES, "score") for k in ways)

    def order_consistencies(self) -> tuple[Ratio, ...]:
        """Return, for each way, the probability that samples in the two orders of a pair name the same winner."""
        names = [self.pairs[name].astype(str) for name in PAIR_KEY]
        place = {key: number for number, key in enumerate(zip(*names, strict=True))}
        twin = np.array([place[c, two, one] for c, one, two in zip(*names, strict=True)], np.intp)
        turned = self.shares[twin][:, :, [1, 0, 2]] if len(twin) else self.shares
        same, ones = (self.shares * turned).sum(axis=2), np.ones(len(twin))
        context, ways = self.pairs["context_id"], range(same.shape[1])
        return tuple(Ratio(context, same[:, k], ones, bounds=_UNIT, missing=_NO_PAIR) for k in ways)

    def alphas(self, resampling: Resampling) -> tuple[Estimate, Estimate, Estimate]:
        """Estimate Krippendorff's nominal alpha of samples within a way, of samples across ways, and their difference.

        The labelling of a pair's candidates is arbitrary, so by chance either candidate wins equally often, with the
        observed share of ties. A judge that always prefers the first thus agrees perfectly with itself, and never with
        itself in the other order. Without ties alpha is 1 − 2 times the share of differing samples, apart from the
        small-sample correction, which exact probabilities do not need. All pairs have equal weight.

        Returns
        -------
        tuple of Estimate
            The first two lie in −1 to 1. With exact probabilities the difference is at most 0 (minus a mean of
            squares), so it has no test; otherwise Student's t is used.

        Examples
        --------
        >>> rows = [(c, *pair, "ok") for c in "abc" for pair in (("x", "y", 0.9), ("y", "x", 0.4))]
        >>> columns = ["context_id", "candidate_id", "opponent_id", "value", "status"]
        >>> trials = in_two_orders(pd.DataFrame(rows, columns=columns).assign(human_gap=0.0))
        >>> verdicts = Verdicts.of(trials, "order", ORDERS, exact=True, what="α")
        >>> [round(each.estimate, 2) for each in verdicts.alphas(Resampling())]  # .9 and .6 for x
        [0.34, 0.16, -0.18]
        """
        if not len(self.pairs):
            nothing = undefined(_NO_PAIR)
            return nothing, nothing, nothing
        bounds, several = (-1.0, 1.0), ~np.isnan(self.within)
        sums = self._sums(np.ones(len(self.pairs), bool), resampling)
        across = cluster_statistic(_alpha(sums, 2), len(sums), resampling, bounds=bounds, missing=_ALL_TIES)
        if not several.any():
            once = undefined(ONE_SAMPLE, len(sums))
            return once, across, once
        sums = self._sums(several, resampling)
        one, two, n = _alpha(sums, 1), _alpha(sums, 2), len(sums)
        if self.exact:  # minus a mean of squares, hence at most 0
            gap = cluster_statistic(lambda w: two(w) - one(w), n, resampling, bounds=(-2.0, 0.0), missing=_ALL_TIES)
        else:
            gap = cluster_difference(two, one, n, resampling, 0.0, "t")
        return cluster_statistic(one, n, resampling, bounds=bounds, missing=_ALL_TIES), across, gap

    def _sums(self, kept: Bools, resampling: Resampling) -> Floats:
        """Return sums over each context's pairs: count, probability that samples differ, ties and shrunken values."""
        values = np.where(np.isinf(self.samples), 0.0, 2 * self.samples).sum(axis=1)
        ties = self.shares[:, :, 2].mean(axis=1)
        parts = (np.ones(len(kept)), np.nan_to_num(self.within), self.between, ties, values)
        names = np.asarray(resampling.cluster_of(self.pairs["context_id"]))[kept]
        return in_order(sum_by_context(names, *(part[kept] for part in parts))[0])


def in_two_orders(trials: pd.DataFrame) -> pd.DataFrame:
    """Reorient pair trials so that both orders of a pair describe wins of the same candidate.

    Returns
    -------
    pandas.DataFrame
        The trials, with one of `ORDERS` in the column ``order``; in trials that show the later name first, candidate
        and opponent are swapped, along with value and human gap.
    """
    one, two = trials["candidate_id"].astype(object), trials["opponent_id"].astype(object)
    swapped = (one > two).to_numpy(bool)
    turned: dict[str, Any] = {
        "candidate_id": one.where(~swapped, two),
        "opponent_id": two.where(~swapped, one),
        "value": trials["value"].where(~swapped, 1 - trials["value"]),
        "human_gap": trials["human_gap"].where(~swapped, -trials["human_gap"]),
        "order": np.where(swapped, ORDERS[1], ORDERS[0]),
    }
    return trials.assign(**turned)


def _shares(trials: pd.DataFrame, probabilities: Bools) -> Floats:
    """Return, for each trial, how often the first wins, the second wins, and they tie."""
    p, tied = trials["value"].to_numpy(float), (trials["status"] == "tie").to_numpy()
    tied = tied | (~probabilities & (p == 0.5))
    first = np.where(tied, 0.0, np.where(probabilities, p, p > 0.5))
    return np.stack([first, np.where(tied, 0.0, 1 - first), tied.astype(float)], axis=1)


def _alpha(sums: Floats, place: int) -> Statistic:
    """Return alpha as a function of context weights, from the share of differing samples in a column."""

    def alpha(weights: Floats) -> Floats:
        total = weights @ sums
        n, differ, ties, values = total[:, 0], total[:, place], total[:, 3], total[:, 4]
        with np.errstate(divide="ignore", invalid="ignore"):
            tie = ties / n
            chance = 1 - tie**2 - (1 - tie) ** 2 / 2
            few = np.where(values > 0, (values - 1) / values, 1.0)
            return np.where(chance > 1e-12, 1 - differ / n / chance * few, np.nan)

    return alpha


_TINY = 1e-15  # keeps probabilities off 0 and 1, where the logit is infinite
_ONE_SIDED = "no pair where the first wins both orders, or none where the second does; use more samples"
_MISSING = because("one_sided_pairs", _ONE_SIDED)


def first_position_log_odds(blocks: pd.DataFrame, resampling: Resampling, null: float | None = 0.0) -> Estimate:
    """Estimate half the common log odds ratio of "i beats j" between both orders, from counts.

    Each pair is a stratum: its two orders are the rows of a 2 × 2 table, decisions for i and for j the columns. If i
    wins with logits q + θ and q − θ in the two orders, the odds ratio is exp(2θ) whatever q. The Mantel–Haenszel
    estimator works with few decisions per stratum; with one decision per order it is the ratio of pairs in which the
    first wins both times to pairs in which the second does. Interval and test: Student's t on the jackknife over
    contexts.

    Parameters
    ----------
    blocks : pandas.DataFrame
        As made by `both_orders`.
    resampling : Resampling
        Settings of the estimate.
    null : float, optional
        Null value; None for no test.

    Returns
    -------
    Estimate
        In logits. If logits vary between requests beyond what candidates and order explain, it is closer to 0 than
        their mean, like any odds ratio of averages; undefined, with the reason, if no pair is informative.

    References
    ----------
    Mantel & Haenszel 1959, *Statistical aspects of the analysis of data from retrospective studies of disease*, JNCI
    22; Efron & Stein 1981, *The jackknife estimate of variance*, Annals of Statistics 9.

    Examples
    --------
    >>> blocks = pd.DataFrame({"context_id": list("aabbccdd"), "pair": range(8)})
    >>> blocks = blocks.assign(samples_ij=np.nan, first_ij=[1, 1, 1, 0] * 2)
    >>> blocks = blocks.assign(samples_ji=np.nan, first_ji=[1, 1, 0, 0] * 2)
    >>> round(first_position_log_odds(blocks, Resampling()).estimate, 3)  # ½ log(4 / 2)
    0.347
    """
    counts = {}
    for order in ("ij", "ji"):
        decided = blocks[f"first_{order}"].notna()
        samples = blocks[f"samples_{order}"].fillna(1.0).where(decided, 0.0)
        counts[f"first_{order}"] = blocks[f"first_{order}"].fillna(0.0) * samples
        counts[f"second_{order}"] = samples - counts[f"first_{order}"]
    table = pd.DataFrame(counts).groupby([blocks["context_id"], blocks["pair"]], sort=False).sum()
    won_and_lost = table["first_ij"], table["second_ij"], table["second_ji"], table["first_ji"]
    return common_log_odds(table.index.get_level_values(0), *won_and_lost, resampling, null, _MISSING, 0.5)


def common_log_odds(
    context: ArrayLike,
    won: ArrayLike,
    lost: ArrayLike,
    won_there: ArrayLike,
    lost_there: ArrayLike,
    resampling: Resampling,
    null: float | None = 0.0,
    missing: Remark = ONE_SIDED,
    share: float = 1.0,
) -> Estimate:
    """Estimate the common log odds ratio of strata (Mantel–Haenszel), with a jackknife over contexts.

    Parameters
    ----------
    context : array_like, shape (strata,)
        The context of each stratum.
    won, lost, won_there, lost_there : array_like of float, shape (strata,)
        Decisions for and against: under the condition of interest, and under the other one.
    resampling, null
        As in `first_position_log_odds`.
    missing : str
        Note if the estimate is undefined.
    share : float
        Share of the log odds ratio to estimate: ½ if the reference lies halfway between both conditions.

    Examples
    --------
    >>> round(common_log_odds(list("ab"), [3, 3], [1, 1], [1, 2], [3, 2], Resampling()).estimate, 3)  # log(15 / 3)
    1.609
    """
    wins, losses, wins_there, losses_there = (np.asarray(v, float) for v in (won, lost, won_there, lost_there))
    total = np.maximum(wins + losses + wins_there + losses_there, 1e-300)
    up, down = wins * losses_there / total, losses * wins_there / total
    sums, names = sum_by_context(resampling.cluster_of(context), up, down)

    def shared_log_odds(weights: Floats) -> Floats:
        up, down = (weights @ sums).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(up / down) * share, float)

    return cluster_statistic(shared_log_odds, names, resampling, null, missing=missing, inference="t")


def is_counted(trials: pd.DataFrame) -> bool:
    """Check whether values are verdicts or sample shares, so that log odds are taken of their mean."""
    sampled = "samples" in trials and bool(trials["samples"].notna().any())
    return sampled or (len(trials) > 0 and bool(trials["value"].isin([0.0, 0.5, 1.0]).all()))


def log_odds(p: Floats) -> Floats:
    """Return log odds, clipped to be finite."""
    odds: Floats = logit(np.clip(p, _TINY, 1 - _TINY))
    return odds


_ORDERED = ["context_id", "candidate_id", "opponent_id", "replicate"]


def missing_data_bounds(trials: pd.DataFrame) -> dict[str, tuple[Ratio, Ratio]]:
    """Return pair metrics with missing judgements set to minimise, and to maximise, the metric.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of one cell, as for `both_orders`. All pairs requested in both orders are
        used, even if only one order was answered.

    Returns
    -------
    dict of str to tuple of Ratio
        ``first_position_rate``, ``comparative_accuracy``, ``order_consistency`` and ``tie_rate``; for ``extremes`` of
        `biaslab.stats.ratio.Ratio`. See `biaslab.stats.missing`.
    """
    planned = _planned(trials)
    known = planned[["p_ij", "p_ji"]].notna().to_numpy()
    won = planned[["first_ij", "first_ji"]].to_numpy(float)
    context, gap = planned["context_id"].repeat(2), np.outer(planned["human_gap"].to_numpy(float), (1, -1)).ravel()
    right = (gap > 0).astype(float)

    def put(value: Floats | float) -> Floats:
        return np.where(known.ravel(), won.ravel(), value)

    alike, apart = (_consistency(context, known, won, same) for same in (True, False))
    low, high = (first_position_rate(planned["context_id"], put(end).reshape(known.shape)) for end in (0.0, 1.0))
    worst, best = (comparative_accuracy(context, put(wins), gap) for wins in (1 - right, right))
    rates = {"first_position_rate": (low, high), "comparative_accuracy": (worst, best)}
    ties = (tie_rate(context, put(0.0)), tie_rate(context, put(np.nan)))
    return rates | {"order_consistency": (apart, alike), "tie_rate": ties}


def note_missing_pairs(trials: pd.DataFrame) -> tuple[Note, ...]:
    """Return a note if judgements are missing more often when the better candidate is shown first, or second."""
    better = np.sign(trials["human_gap"].to_numpy(float))
    better[better == 0] = np.nan
    return note_missing(trials["context_id"], ~has_value(trials), better, "whether the better candidate is shown first")


def _planned(trials: pd.DataFrame) -> pd.DataFrame:
    """Return both orders of each pair as requested, with p = NaN if missing."""
    once = trials.iloc[np.argsort(~has_value(trials), kind="stable")].drop_duplicates(_ORDERED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)  # about pairs requested in one order only
        return both_orders(completed(once, np.nan), "")


def _consistency(context: pd.Series, known: Bools, won: Floats, same: bool) -> Ratio:
    """Return the consistency if missing verdicts agree with the other order, or contradict it."""
    reversed_known, twin = known[:, ::-1], won[:, ::-1]
    neither = np.array([1.0, 0.0]) if same else np.ones(2)
    like = 1 - twin if same else np.where(np.isnan(twin), 1.0, twin)
    filled = np.where(known, won, np.where(reversed_known, like, neither))
    return order_consistency(context, filled.ravel(), filled[:, ::-1].ravel())
