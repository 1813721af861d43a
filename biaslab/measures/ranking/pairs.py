"""Metrics of pair judgements, shared by probes, rankings and audits; both orders of a pair as complete blocks.

A metric is a ratio of sums over judgements, each with its context, its winner (1 for the candidate shown first, 0 for
the second, NaN for a tie), and the human score of the first minus that of the second. If a judgement consists of a few
samples, the winner is a share: every sample counts as a decision, so that metrics do not depend on the number of
samples, as they would with majority votes. They are then the metrics of single answers; for an exact distribution, the
more likely label is the decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.arrays import Bools, Floats, Ints
from biaslab.core.errors import TrialsError
from biaslab.stats import Ratio, warn_missing, without_rounding

PAIR = ("context_id", "candidate_id", "opponent_id", "replicate", "value", "status")
_UNIT = (0.0, 1.0)
_ONE_ORDER = "undefined: no pair was judged in both orders"


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
    return Ratio(context, first, decided, null, _UNIT, "undefined: all judgements are ties", "score")


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
    missing = "undefined: no decision between two candidates with different human scores"
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
    return Ratio(context, twice, flips, 0.5, _UNIT, "undefined: no pair flips", "score")


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
        raise TrialsError("trials", f"duplicate {row}", "one row per pair, order and replicate")
    return keys, swapped, most


def in_both_orders(trials: pd.DataFrame, cell: Sequence[pd.Series]) -> pd.Series:
    """Return a mask of trials whose pair has a readable judgement in both orders of the same replicate."""
    one, two = trials["candidate_id"], trials["opponent_id"]
    ahead = one < two
    pair = [*cell, trials["context_id"], one.where(ahead, two), two.where(ahead, one), trials["replicate"]]
    usable = trials["status"].isin(["ok", "tie"])
    orders = [(usable & side).groupby(pair).transform("any") for side in (ahead, ~ahead)]
    return orders[0] & orders[1]


def by_gap(blocks: pd.DataFrame, bins: int) -> Iterator[tuple[float, pd.DataFrame]]:
    """Split pairs into quantile bins of the absolute human gap; yield the mean gap and the pairs of each bin.

    Bins with equal edges are merged, so there may be fewer. Pairs without human scores are in no bin.
    """
    rated = blocks[blocks["human_gap"].notna()]
    if rated.empty:
        return
    gap = rated["human_gap"].abs()
    edges = np.unique(np.quantile(gap, np.linspace(0, 1, bins + 1)).round(9))
    codes = np.searchsorted(edges[1:-1], gap.round(9), side="left")
    for code in np.unique(codes):
        chosen = rated[codes == code]
        chosen.attrs.update(n_trials=2 * len(chosen), n_dropped=0)
        yield float(chosen["human_gap"].abs().mean()), chosen


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
