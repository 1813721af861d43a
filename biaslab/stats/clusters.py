"""Contexts that share requests: the same reply stands in several of them, so that they are one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from biaslab.core.checked import checked
from biaslab.core.errors import SharedRequestsWarning, warn
from biaslab.stats.inference import Resampling


@checked
def shared_requests(trials: pd.DataFrame) -> dict[Any, Any]:
    """Put contexts that share a request, directly or through others, into one cluster.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of one cell, with ``context_id`` and, where it is known, ``key``. Rows without a key share nothing. Nor
        do recorded ones (``probe`` is "recorded"): their key is a line of a file, no request.

    Returns
    -------
    dict
        The cluster of each context that shares a request with another, called after its first context: the connected
        components of contexts and keys. Empty where no two contexts share any. A request that stands several times in
        one context is no matter.

    Examples
    --------
    >>> trials = pd.DataFrame({"context_id": list("aabbcd"), "key": ["1", "2", "2", "3", "3", "4"]})
    >>> shared_requests(trials)
    {'a': 'a', 'b': 'a', 'c': 'a'}
    """
    if "key" not in trials or ("probe" in trials and (trials["probe"] == "recorded").all()):
        return {}
    key, keys = pd.factorize(trials["key"].replace("", None) if (trials["key"] == "").any() else trials["key"])
    if len(keys) == len(trials):
        return {}
    context, names = pd.factorize(trials["context_id"])
    known = (key >= 0) & (context >= 0)
    links = pd.unique(context[known].astype(np.int64) * len(keys) + key[known])
    if len(links) <= len(keys):
        return {}
    at, key = np.divmod(links, len(keys))
    size = len(names) + len(keys)
    graph = coo_array((np.ones(len(at), np.int8), (at, len(names) + key)), shape=(size, size))
    component = connected_components(graph, directed=False)[1][: len(names)]
    first = pd.Series(np.arange(len(names))).groupby(component).transform("min").to_numpy()
    several = np.bincount(component)[component] > 1
    called = np.asarray(names, object)
    return dict(zip(called[several], called[first[several]], strict=True))


@checked
def clustered(resampling: Resampling, trials: pd.DataFrame, names: NDArray[Any], what: str) -> Resampling:
    """Return a resampling that keeps contexts of the trials that share requests together.

    Parameters
    ----------
    resampling : Resampling
        How to resample otherwise.
    trials : pandas.DataFrame
        As for `shared_requests`.
    names : numpy.ndarray, shape (contexts,)
        The contexts, in the order of the numbers by which they go.
    what : str
        What is estimated, for the warning.

    Warns
    -----
    SharedRequestsWarning
        If contexts share requests.
    """
    found = shared_requests(trials)
    warn_shared(what, found)
    return replace(resampling, clusters=found).numbered(names) if found else resampling


def grouped(frame: pd.DataFrame, within: bool, resampling: Resampling) -> tuple[pd.DataFrame, NDArray[np.intp] | None]:
    """Say what is left out whole where contexts are clustered.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row an item, with ``context_id``.
    within : bool
        Whether contexts stay what they are, since each has a mean of its own.
    resampling : Resampling
        Has the clusters.

    Returns
    -------
    tuple of pandas.DataFrame and numpy.ndarray of int, shape (contexts,)
        Within contexts: the frame, and the number of each context's cluster, contexts in order of appearance, or None
        where there are no clusters. Else the frame with clusters for contexts, and None.

    Examples
    --------
    >>> frame = pd.DataFrame({"context_id": list("aabc")})
    >>> _, cluster = grouped(frame, True, Resampling(clusters={"b": "a"}))
    >>> pooled, _ = grouped(frame, False, Resampling(clusters={"b": "a"}))
    >>> cluster.tolist(), pooled["context_id"].tolist()
    ([0, 0, 1], ['a', 'a', 'a', 'c'])
    """
    if not resampling.clusters:
        return frame, None
    if not within:
        return frame.assign(context_id=resampling.cluster_of(frame["context_id"])), None
    return frame, pd.factorize(resampling.cluster_of(frame["context_id"].unique()))[0]


@checked
def warn_shared(what: str, clusters: Mapping[Any, Any]) -> None:
    """Warn that contexts share requests, and say how many and as how many they count.

    Warns
    -----
    SharedRequestsWarning
        Unless there are none.
    """
    if clusters:
        count, example = len(set(clusters.values())), ", ".join(map(repr, [*clusters][:2]))
        message = (
            f"{what}: {len(clusters)} contexts share requests with another ({example}, …), so that the same replies "
            f"stand in several; they are resampled and tested together, as {count} cluster{'s' * (count > 1)}"
        )
        warn(message, SharedRequestsWarning)
