"""Verdicts on pairs under one or two ways of asking: how often they change between ways and between samples.

A verdict is a win of either candidate, or a tie. Exact probabilities are equivalent to infinitely many samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.measures.ranking.pairs import sample_counts
from biaslab.stats import (
    Estimate,
    Ratio,
    Resampling,
    Statistic,
    cluster_difference,
    cluster_statistic,
    has_value,
    in_order,
    number_items,
    sum_by_context,
    undefined,
    warn_missing,
    without_rounding,
)

PAIR = ("context_id", "candidate_id", "opponent_id")
ORDERS = ("earlier name first", "later name first")
ONE_SAMPLE = "undefined: only one sample per verdict; sampling noise needs at least 2"
_NO_PAIR = "undefined: no pair has a verdict both ways"
_NO_DECISION = "undefined: no decision between two candidates with different human scores"
_ALL_TIES = "undefined: all verdicts are ties"
_UNIT = (0.0, 1.0)


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
        cls,
        trials: pd.DataFrame,
        way: str,
        ways: Sequence[str] | Sequence[float],
        exact: bool | Bools,
        what: str,
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
        pair, first = number_items(read, PAIR)
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
        rows = read.iloc[first[whole]][[*PAIR, "human_gap"]].reset_index(drop=True)
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

    def changes(self) -> tuple[Ratio, Ratio]:
        """Return how often the verdict changes with the way of asking, and between samples (its noise floor).

        Both are shares of pairs of samples, from 0 to 1; they are equal if the way of asking has no effect.
        """
        context, ones = self.pairs["context_id"], np.ones(len(self.pairs))
        return (
            Ratio(context, self.between, ones, bounds=_UNIT, missing=_NO_PAIR),
            Ratio(context, self.within, ones, bounds=_UNIT, missing=ONE_SAMPLE),
        )

    def accuracies(self, single: bool = False) -> tuple[Ratio, ...]:
        """Return, for each way, the share of decisions that agree with humans, among different human scores.

        See `biaslab.ranking.pairs.comparative_accuracy`; each sample of a request is a decision. Exact probabilities
        count as a decision for the more likely candidate or, with ``single``, as fractional decisions like those of
        single verdicts.
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
        names = [self.pairs[name].astype(str) for name in PAIR]
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
        names = [self.pairs[name].astype(str) for name in PAIR]
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
