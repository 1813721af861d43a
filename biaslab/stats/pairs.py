"""Pair trials as whole blocks: both orders of a pair, so that what is missing in one cannot bias a contrast."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.errors import MissingDataWarning, TrialsError

CELL = ("judge", "dataset", "attribute")
PAIR = ("context_id", "candidate_id", "opponent_id", "replicate", "value", "status")
MISSING_SHARE = 0.05


def both_orders(trials: pd.DataFrame, what: str) -> pd.DataFrame:
    """Join the two orders of each pair; pairs with a missing order are dropped and counted.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials of one cell, with the columns `PAIR`, ``human_gap`` and ``label_mass``.
    what : str
        What is estimated, named in the warning.

    Returns
    -------
    pandas.DataFrame
        One row a pair and replicate: ``context_id``; ``p_ij``, ``p_ji`` (probability that the first shown wins, in each
        order); ``first_ij``, ``first_ji`` (1 or 0 for who won, NaN for a tie); ``human_gap`` (of i over j);
        ``label_mass`` (mean of both). ``attrs["n_dropped"]`` is the number of judgements that do not enter.

    Raises
    ------
    TrialsError
        If a pair stands twice in one order, with one replicate.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements do not enter.
    """
    usable = trials["status"].isin(["ok", "tie"]).to_numpy()
    keys, swapped = _unordered(trials[usable])
    p = trials["value"].to_numpy(float)[usable]
    tied = (p == 0.5) | (trials["status"] == "tie").to_numpy()[usable]
    first = np.where(tied, np.nan, p > 0.5)
    _, ij, ji = np.intersect1d(keys[~swapped], keys[swapped], assume_unique=True, return_indices=True)
    ij, ji = np.flatnonzero(~swapped)[ij], np.flatnonzero(swapped)[ji]
    mass = trials["label_mass"].to_numpy(float)[usable]
    blocks = pd.DataFrame(
        {
            "context_id": trials["context_id"].array[usable][ij],
            "p_ij": p[ij],
            "p_ji": p[ji],
            "first_ij": first[ij],
            "first_ji": first[ji],
            "human_gap": trials["human_gap"].to_numpy(float)[usable][ij],
            "label_mass": (mass[ij] + mass[ji]) / 2,
        }
    )
    n_dropped = len(trials) - 2 * len(blocks)
    blocks.attrs["n_dropped"] = n_dropped
    if n_dropped > MISSING_SHARE * len(trials):
        warnings.warn(
            f"{what}: {n_dropped} of {len(trials)} judgements do not enter, because they or their twin in the other "
            "order are missing; what is missing may bias the rest",
            MissingDataWarning,
            stacklevel=3,
        )
    return blocks


def _unordered(trials: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a number for each pair, alike in both orders, and which trials show the later name first.

    Numbers in place of names: joining on them is many times quicker than joining on strings.
    """
    shown = [trials["candidate_id"].astype(object), trials["opponent_id"].astype(object)]
    codes, names = pd.factorize(np.concatenate(shown), sort=True)
    one, two = codes[: len(trials)], codes[len(trials) :]
    swapped = one > two
    context, _ = pd.factorize(trials["context_id"])
    replicate, replicates = pd.factorize(trials["replicate"])
    pair = np.minimum(one, two) * len(names) + np.maximum(one, two)
    keys = (context * len(names) ** 2 + pair) * len(replicates) + replicate
    order = 2 * keys + swapped
    if len(np.unique(order)) < len(order):
        repeated = trials.iloc[int(pd.Series(order).duplicated().to_numpy().argmax())]
        row = ", ".join(f"{name} {repeated[name]}" for name in ("context_id", *PAIR[1:4]))
        raise TrialsError("trials", f"twice {row}", "one row a pair, order and replicate")
    return keys, swapped


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
        chosen.attrs["n_dropped"] = 0
        yield float(chosen["human_gap"].abs().mean()), chosen


def replicate_agreement(trials: pd.DataFrame) -> pd.DataFrame:
    """Return, for every request with several usable samples, how often two of them agree.

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
    return pd.DataFrame(
        {
            "context_id": sums["context_id"],
            "agree": sums["same"],
            "pairs": sums["n"] * (sums["n"] - 1) / 2,
        }
    )
