"""Cells, items and clusters of trials: complete blocks of conditions, and contexts that share requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import scipy  # its subpackages load when they are first used
from numpy.typing import ArrayLike, NDArray

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.errors import InputError, SharedRequestsWarning, warn
from biaslab.stats.frame import warn_missing
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import require_fixed

#: Minimal columns of trials that identify the cells of estimates, and the items within a context.
CELL = ("judge", "dataset", "attribute")
ITEM = ("context_id", "candidate_id")


def usable(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that have a value."""
    return trials[has_value(trials)]


def whole_blocks(
    trials: pd.DataFrame, condition: str, levels: Sequence[object], what: str | None, keep: Sequence[str] = ("human",)
) -> pd.DataFrame:
    """Arrange the conditions of each item side by side; drop and count incomplete items.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials of one cell, with ``context_id, candidate_id, value, status``, the condition and the columns to
        keep.
    condition : str
        Column of the conditions.
    levels : sequence
        Values of the condition that every item needs, in order.
    what : str, optional
        Name of the estimate, for the warning; without it, there is none.
    keep : sequence of str
        Columns that are constant within an item, such as the mean human score.

    Returns
    -------
    pandas.DataFrame
        One row per item: ``context_id, candidate_id``, the kept columns, and one column per level, the mean over its
        replicates. ``attrs["n_trials"]`` judgements are used, ``attrs["n_dropped"]`` are not.

    Raises
    ------
    InputError
        If a level has no trials.

    Warns
    -----
    MissingDataWarning
        If more than 5 % of the judgements are dropped, unless no item was judged under every condition.

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
        raise InputError.plain(f"no judgements with {condition} {', '.join(map(str, missing))}; collect them too")
    item, first = number_items(planned)
    value, readable = planned["value"].to_numpy(float), has_value(planned)
    means = _means(item[readable], at[readable], value[readable], (len(first), len(wanted)))
    whole = np.flatnonzero(np.isfinite(means).all(axis=1))
    blocks = planned.iloc[first[whole]][[*ITEM, *keep]].reset_index(drop=True)
    blocks = pd.concat([blocks, pd.DataFrame(means[whole], columns=wanted)], axis=1)
    entering = int((readable & np.isin(item, whole)).sum())
    blocks.attrs.update(n_trials=entering, n_dropped=len(planned) - entering)
    asked = np.zeros((len(first), len(wanted)), bool)
    asked[item, at] = True
    if what is not None and asked.all(axis=1).any():
        why = "they or their counterparts under another condition are missing"
        warn_missing(what, len(planned) - entering, len(planned), why)
    return blocks


def side_by_side(trials: pd.DataFrame, column: str, value: str = "value", by: Sequence[str] = ITEM) -> pd.DataFrame:
    """Average values into one row per item and one column per level, both in order of appearance.

    Parameters
    ----------
    trials : pandas.DataFrame
        With the named columns; no missing values in ``by`` and ``column``.
    column, value : str
        The column of levels, and the column to average.
    by : sequence of str
        The columns that identify an item.

    Returns
    -------
    pandas.DataFrame
        Equal to ``trials.pivot_table(value, by, column, sort=False)`` but much faster with few rows. NaN if an item
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


def number_items(trials: pd.DataFrame, by: Sequence[str] = ITEM) -> tuple[Codes, Codes]:
    """Return the item number of each row, in order of appearance, and the first row of each item."""
    codes = np.zeros(len(trials), np.intp)
    for name in by:
        own, names = trials[name].array.factorize(use_na_sentinel=False)  # faster than pd.factorize for short arrays
        codes = pd.factorize(codes * len(names) + own)[0]
    first = np.empty(codes.max(initial=-1) + 1, np.intp)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


def each_cell(trials: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Split trials by the values of some columns, in order of appearance.

    Parameters
    ----------
    trials : pandas.DataFrame
        With the named columns.
    by : sequence of str
        The columns that identify a cell; trials with a missing value there belong to no cell.

    Yields
    ------
    tuple of (tuple, pandas.DataFrame)
        Equal to ``trials.groupby(by, sort=False)`` but several times faster with few rows.

    Examples
    --------
    >>> trials = pd.DataFrame({"judge": ["b", "a", "b", None], "value": [1, 2, 3, 4]})
    >>> [(values, part["value"].tolist()) for values, part in each_cell(trials, ["judge"])]
    [(('b',), [1, 3]), (('a',), [2])]
    """
    cell, first = number_items(trials, by)
    order, stops = np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell, minlength=len(first)))
    for number, row in enumerate(first):
        values = tuple(trials[name].iloc[row] for name in by)
        if not any(pd.isna(value) for value in values):
            whole = len(first) == 1
            yield values, trials if whole else trials.take(order[stops[number - 1] if number else 0 : stops[number]])


def of_items(trials: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of the given items, in their original order.

    Parameters
    ----------
    trials, items : pandas.DataFrame
        With ``context_id, candidate_id``.
    """
    wanted = {*zip(*(items[name] for name in ITEM), strict=True)}
    return trials[np.array([item in wanted for item in zip(*(trials[name] for name in ITEM), strict=True)], bool)]


def has_value(trials: pd.DataFrame) -> Bools:
    """Return a mask of the trials that have a value."""
    known: Bools = trials["status"].isin(["ok", "tie"]).to_numpy() & trials["value"].notna().to_numpy()
    return known


def _places(values: pd.Series, levels: Sequence[object]) -> Codes:
    """Return the position of each value among the levels, -1 if it is not a level."""
    codes, distinct = pd.factorize(values)
    place = {level: number for number, level in enumerate(levels)}
    return np.array([*(place.get(name, -1) for name in distinct), -1], np.intp)[codes]


def _means(item: Codes, level: Codes, value: Floats, shape: tuple[int, int]) -> Floats:
    cell, size = item * shape[1] + level, shape[0] * shape[1]
    with np.errstate(invalid="ignore"):
        means = np.bincount(cell, value, size) / np.bincount(cell, minlength=size)
    return means.reshape(shape)


def shared_requests(trials: pd.DataFrame) -> dict[Any, Any]:
    """Cluster contexts that share a request, directly or through other contexts.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell, with ``context_id`` and, if known, ``key``. Rows without a key share nothing, nor do
        recorded ones (``probe`` is "recorded"), whose key is a line of a file rather than a request.

    Returns
    -------
    dict
        The cluster of each context that shares a request with another, named after its first context: the connected
        components of contexts and keys. Empty if no two contexts share a request. Repeated requests within one context
        do not matter.

    Examples
    --------
    >>> trials = pd.DataFrame({"context_id": list("aabbcd"), "key": ["1", "2", "2", "3", "3", "4"]})
    >>> shared_requests(trials)
    {'a': 'a', 'b': 'a', 'c': 'a'}
    """
    if "key" not in trials or ("probe" in trials and (trials["probe"] == "recorded").all()):
        return {}
    return linked_contexts(trials, "key")


def linked_contexts(frame: pd.DataFrame, column: str) -> dict[Any, Any]:
    """Cluster contexts that share a value of a column, such as a document, directly or through other contexts.

    Parameters
    ----------
    frame : pandas.DataFrame
        With ``context_id`` and the column. Missing values and empty text link nothing.
    column : str
        The column, such as ``"context"`` of the candidates of a data set for contexts with equal texts.

    Returns
    -------
    dict
        As of `shared_requests`; for ``clusters`` of `biaslab.stats.Resampling`.

    Examples
    --------
    >>> trials = pd.DataFrame({"context_id": list("abcd"), "document": ["x", "y", "x", None]})
    >>> linked_contexts(trials, "document")
    {'a': 'a', 'c': 'a'}
    """
    key, keys = pd.factorize(frame[column].replace("", None) if (frame[column] == "").any() else frame[column])
    if len(keys) == len(frame):
        return {}
    context, names = pd.factorize(frame["context_id"])
    known = (key >= 0) & (context >= 0)
    links = pd.unique(context[known].astype(np.int64) * len(keys) + key[known])
    if len(links) <= len(keys):
        return {}
    at, key = np.divmod(links, len(keys))
    size = len(names) + len(keys)
    graph = scipy.sparse.coo_array((np.ones(len(at), np.int8), (at, len(names) + key)), shape=(size, size))
    component = scipy.sparse.csgraph.connected_components(graph, directed=False)[1][: len(names)]
    first = pd.Series(np.arange(len(names))).groupby(component).transform("min").to_numpy()
    several = np.bincount(component)[component] > 1
    called = np.asarray(names, object)
    return dict(zip(called[several], called[first[several]], strict=True))


def joined(resampling: Resampling, clusters: Mapping[Any, Any]) -> Resampling:
    """Return a resampling that also keeps further clusters of contexts together.

    Examples
    --------
    >>> joined(Resampling(clusters={"b": "a"}), {"c": "b"}).cluster_of(["a", "b", "c", "d"]).tolist()
    ['b', 'b', 'b', 'd']
    """
    if not (clusters and resampling.clusters):
        return replace(resampling, clusters=clusters) if clusters else resampling
    both = [resampling.clusters, clusters]
    names = list(dict.fromkeys(name for one in both for name in (*one, *one.values())))
    links = [(name, (number, one.get(name, name))) for number, one in enumerate(both) for name in names]
    frame = pd.DataFrame(links, columns=["context_id", "cluster"])
    return replace(resampling, clusters=linked_contexts(frame, "cluster"))


def clustered(resampling: Resampling, trials: pd.DataFrame, names: NDArray[Any], what: str) -> Resampling:
    """Return a resampling that keeps contexts with shared requests together, of a fixed number of contexts.

    Parameters
    ----------
    resampling : Resampling
        The resampling to modify.
    trials : pandas.DataFrame
        As for `shared_requests`.
    names : numpy.ndarray, shape (contexts,)
        The contexts, in the order of their numbers.
    what : str
        Name of the estimate, for the warning.

    Warns
    -----
    SharedRequestsWarning
        If contexts share requests.
    """
    require_fixed(trials, what)
    clusters = shared_requests(trials)
    warn_shared(what, clusters)
    return joined(resampling, clusters).numbered(names)


def warn_shared(what: str, clusters: Mapping[Any, Any]) -> None:
    """Warn that contexts share requests, giving the numbers of contexts and clusters.

    Warns
    -----
    SharedRequestsWarning
        If any contexts share requests.
    """
    if clusters:
        count, example = len(set(clusters.values())), ", ".join(map(repr, [*clusters][:2]))
        sharing = f"{what}: {len(clusters)} contexts share requests with others ({example}, …)"
        message = f"{sharing} and count as {count} cluster{'s' * (count > 1)} in resampling and tests"
        warn(message, SharedRequestsWarning)


def sum_by_context(context: ArrayLike, *values: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    """Sum values within contexts, dropping items with a NaN value or without a context.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    *values : array_like of float, each of shape (items,)
        The values to sum.

    Returns
    -------
    tuple of numpy.ndarray
        The sums, shape (contexts, values), and the names of the contexts, shape (contexts,), in order of appearance.

    Raises
    ------
    InputError
        If the lengths of values and contexts differ.

    Examples
    --------
    >>> sums, names = sum_by_context(["b", "a", "b"], [1.0, 2.0, 3.0])
    >>> sums.tolist(), names.tolist()
    ([[4.0], [2.0]], ['b', 'a'])
    """
    # factorizing pandas's own arrays avoids unpacking the strings
    codes, names = pd.factorize(context if isinstance(context, pd.Series | pd.Index) else np.asarray(context))
    columns = [np.asarray(column, float) for column in values]
    if any(column.shape != codes.shape for column in columns):
        raise InputError("values", [column.shape for column in columns], f"shape {codes.shape}, like the contexts")
    keep = codes >= 0
    for column in columns:
        keep &= ~np.isnan(column)
    if not keep.all():
        codes, columns = codes[keep], [column[keep] for column in columns]
    sums = np.column_stack([np.bincount(codes, column, len(names)).astype(float, copy=False) for column in columns])
    seen = np.bincount(codes, minlength=len(names)) > 0
    return sums[seen], np.asarray(names, object)[seen]
