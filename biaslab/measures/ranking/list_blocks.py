"""Judgements of lists in all their orders, as complete blocks, and the decision in each order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.arrays import Floats, Ints
from biaslab.core.errors import TrialsError
from biaslab.measures.ranking.pairs import sample_counts
from biaslab.stats import warn_missing, without_rounding

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
        raise TrialsError("trials", "a duplicate position", "one row per context, replicate, order and position")
    size = frame.groupby(keys)["value"].transform("size").to_numpy()
    if (size > orders * k).any() or (frame.groupby([*keys, "list_order"])["place"].transform("size") != k).any():
        raise TrialsError(
            "trials", "lists of different lengths", f"lists of {k} candidates", "estimate them separately"
        )
    read = (frame["status"] == "ok") & frame["value"].notna()
    whole = read.groupby([frame[key] for key in keys]).transform("all").to_numpy() & (size == orders * k)
    kept = frame[whole]
    shape = (len(kept) // (orders * k), orders, k)
    first = kept.iloc[:: orders * k]
    who = kept.groupby("context_id", sort=False)["candidate_id"].transform(
        lambda names: pd.factorize(names, sort=True)[0]
    )
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
