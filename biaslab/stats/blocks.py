"""Whole blocks of score trials: an item enters a contrast only if it was scored under every condition of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pandas as pd

from biaslab.errors import InputError, MissingDataWarning
from biaslab.stats.pairs import MISSING_SHARE

ITEM = ("context_id", "candidate_id")


def usable(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that have a value."""
    return trials[trials["status"].isin(["ok", "tie"]) & trials["value"].notna()]


def whole_blocks(
    trials: pd.DataFrame, condition: str, levels: Sequence[object], what: str, keep: Sequence[str] = ("human",)
) -> pd.DataFrame:
    """Put the conditions of each item side by side; items that lack one are dropped and counted.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of one cell, with ``context_id, candidate_id, value, status``, the condition and what is kept.
    condition : str
        Column that tells the conditions apart.
    levels : sequence
        Its values that must all be there, in order.
    what : str
        What is estimated, named in the warning.
    keep : sequence of str
        Columns that are equal within an item, such as the mean human score.

    Returns
    -------
    pandas.DataFrame
        One row an item: ``context_id, candidate_id``, the kept columns, and one column a level: the mean over its
        replicates. ``attrs["n_trials"]`` judgements enter, ``attrs["n_dropped"]`` do not.

    Raises
    ------
    InputError
        If no trial has one of the levels.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements do not enter.

    Examples
    --------
    >>> rows = [("c1", "x", "with", 4.0), ("c1", "x", "without", 3.0), ("c1", "y", "with", 5.0)]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "source", "value"]).assign(status="ok")
    >>> with warnings.catch_warnings(action="ignore"):
    ...     blocks = whole_blocks(trials, "source", ["with", "without"], "shift", keep=())
    >>> blocks[["candidate_id", "with", "without"]].to_numpy().tolist(), blocks.attrs["n_dropped"]
    ([['x', 4.0, 3.0]], 1)
    """
    planned = trials[trials[condition].isin(list(levels))]
    missing = [level for level in levels if not (planned[condition] == level).any()]
    if missing:
        raise InputError(condition, missing, "conditions that were judged", "judge them too")
    found = usable(planned)
    means = found.pivot_table(index=list(ITEM), columns=condition, values="value", aggfunc="mean", sort=False)
    blocks = means.reindex(columns=list(levels)).dropna()
    kept = planned.drop_duplicates(list(ITEM)).set_index(list(ITEM))[list(keep)]
    blocks = blocks.join(kept).reset_index()
    blocks.columns.name = None
    items = pd.MultiIndex.from_frame(found[list(ITEM)])
    entering = int(items.isin(pd.MultiIndex.from_frame(blocks[list(ITEM)])).sum())
    blocks.attrs.update(n_trials=entering, n_dropped=len(planned) - entering)
    if len(planned) - entering > MISSING_SHARE * len(planned):
        warnings.warn(
            f"{what}: {len(planned) - entering} of {len(planned)} judgements do not enter, because they or their "
            "counterpart under another condition are missing; what is missing may bias the rest",
            MissingDataWarning,
            stacklevel=3,
        )
    return blocks
