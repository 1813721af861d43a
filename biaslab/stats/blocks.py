"""Whole blocks of score trials: an item enters a contrast only if it was scored under every condition of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.stats.frame import warn_missing

#: Columns of trials that tell apart what estimates are of, at least, and the items of a context.
CELL = ("judge", "dataset", "attribute")
ITEM = ("context_id", "candidate_id")


@checked
def usable(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that have a value."""
    return trials[has_value(trials)]


@checked
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
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     blocks = whole_blocks(trials, "source", ["with", "without"], "shift", keep=())
    >>> blocks[["candidate_id", "with", "without"]].to_numpy().tolist(), blocks.attrs["n_dropped"]
    ([['x', 4.0, 3.0]], 1)
    """
    wanted = list(levels)
    at = _places(trials[condition], wanted)
    planned, at = trials[at >= 0], at[at >= 0]
    missing = [level for place, level in enumerate(wanted) if not (at == place).any()]
    if missing:
        raise InputError(condition, missing, "conditions that were judged", "judge them too")
    item, first = number_items(planned)
    value, found = planned["value"].to_numpy(float), has_value(planned)
    means = _means(item[found], at[found], value[found], (len(first), len(wanted)))
    whole = np.flatnonzero(np.isfinite(means).all(axis=1))
    blocks = planned.iloc[first[whole]][[*ITEM, *keep]].reset_index(drop=True)
    blocks = pd.concat([blocks, pd.DataFrame(means[whole], columns=wanted)], axis=1)
    entering = int((found & np.isin(item, whole)).sum())
    blocks.attrs.update(n_trials=entering, n_dropped=len(planned) - entering)
    why = "they or their counterpart under another condition are missing"
    warn_missing(what, len(planned) - entering, len(planned), why)
    return blocks


@checked
def side_by_side(trials: pd.DataFrame, column: str, value: str = "value", by: Sequence[str] = ITEM) -> pd.DataFrame:
    """Return means, one row an item in order of appearance and one column a level in order of appearance.

    Parameters
    ----------
    trials : pandas.DataFrame
        With the named columns; none of ``by`` and ``column`` is missing anywhere.
    column, value : str
        What tells the levels apart, and what is averaged.
    by : sequence of str
        What tells the items apart.

    Returns
    -------
    pandas.DataFrame
        As ``trials.pivot_table(value, by, column, sort=False)``, many times as quick with few rows. NaN where an item
        lacks a level.

    Examples
    --------
    >>> rows = [("c1", "x", 0, 4.0), ("c1", "x", 1, 3.0), ("c1", "y", 0, 5.0)]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "replicate", "value"])
    >>> side_by_side(trials, "replicate").to_numpy().tolist()
    [[4.0, 3.0], [5.0, nan]]
    """
    item, first = number_items(trials, by)
    at, levels = pd.factorize(trials[column])
    means = _means(item, at, trials[value].to_numpy(float), (len(first), len(levels)))
    return pd.DataFrame(means, pd.MultiIndex.from_frame(trials[list(by)].iloc[first]), pd.Index(levels))


@checked
def number_items(trials: pd.DataFrame, by: Sequence[str] = ITEM) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of each row's item, in order of appearance, and the first row of each item."""
    codes = np.zeros(len(trials), np.intp)
    for name in by:
        own, names = trials[name].array.factorize(use_na_sentinel=False)  # short ones quicker than pd.factorize
        codes = pd.factorize(codes * len(names) + own)[0]
    first = np.empty(codes.max(initial=-1) + 1, np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


@checked
def each_cell(trials: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield the values of some columns and the trials that have them, in order of appearance.

    Parameters
    ----------
    trials : pandas.DataFrame
        With the named columns.
    by : sequence of str
        What tells the cells apart; trials in which one is missing are in none.

    Yields
    ------
    tuple of (tuple, pandas.DataFrame)
        As ``trials.groupby(by, sort=False)``, several times as quick with few rows.

    Examples
    --------
    >>> trials = pd.DataFrame({"judge": ["b", "a", "b", None], "value": [1, 2, 3, 4]})
    >>> [(values, part["value"].tolist()) for values, part in each_cell(trials, ["judge"])]
    [(('b',), [1, 3]), (('a',), [2])]
    """
    cell, first = number_items(trials, by)
    order, ends = np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell, minlength=len(first)))
    for number, row in enumerate(first):
        values = tuple(trials[name].iloc[row] for name in by)
        if not any(pd.isna(value) for value in values):
            whole = len(first) == 1
            yield values, trials if whole else trials.take(order[ends[number - 1] if number else 0 : ends[number]])


@checked
def of_items(trials: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of trials whose item is among some items, in their order.

    Parameters
    ----------
    trials, items : pandas.DataFrame
        With ``context_id, candidate_id``.
    """
    wanted = {*zip(*(items[name] for name in ITEM), strict=True)}
    return trials[np.array([item in wanted for item in zip(*(trials[name] for name in ITEM), strict=True)], bool)]


@checked
def has_value(trials: pd.DataFrame) -> NDArray[np.bool_]:
    """Say of each trial whether it has a value."""
    known: NDArray[np.bool_] = trials["status"].isin(["ok", "tie"]).to_numpy() & trials["value"].notna().to_numpy()
    return known


def _places(values: pd.Series, levels: Sequence[object]) -> NDArray[np.intp]:
    """Return the place of each value among the levels, -1 where it is none of them."""
    codes, found = pd.factorize(values)
    place = {level: number for number, level in enumerate(levels)}
    return np.array([*(place.get(name, -1) for name in found), -1], np.intp)[codes]


def _means(
    item: NDArray[np.intp], level: NDArray[np.intp], value: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    cell, size = item * shape[1] + level, shape[0] * shape[1]
    with np.errstate(invalid="ignore"):
        means = np.bincount(cell, value, size) / np.bincount(cell, minlength=size)
    return means.reshape(shape)
