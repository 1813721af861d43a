"""Leave-one-out sums over contexts, and over clusters of contexts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.stats.inference import Resampling


def grouped(frame: pd.DataFrame, within: bool, resampling: Resampling) -> tuple[pd.DataFrame, Codes | None]:
    """Return the frame and the cluster numbers by which a cluster jackknife leaves out whole clusters.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item, with ``context_id``.
    within : bool
        Whether contexts must stay separate because each has its own mean.
    resampling : Resampling
        Its ``clusters`` are used.

    Returns
    -------
    tuple of pandas.DataFrame and numpy.ndarray of int, shape (contexts,)
        Within contexts: the frame, and the cluster number of each context in order of appearance, or None without
        clusters. Otherwise: the frame with clusters in place of contexts, and None.

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


def without_each(own: Floats) -> Floats:
    """Return the total over contexts, then the leave-one-out sums; shape (contexts,) to (1 + contexts,)."""
    total = own.sum(axis=0)
    return np.concatenate([[total], total - own])


def without_clusters(values: Floats, clusters: Codes | None) -> Floats:
    """Turn sums over all contexts and without each into sums over all and without each cluster of contexts.

    Parameters
    ----------
    values : numpy.ndarray, shape (1 + contexts, ...)
        As returned by `without_each`.
    clusters : numpy.ndarray of int, shape (contexts,), optional
        The cluster number of each context; by default every context is its own.

    Examples
    --------
    >>> without_clusters(np.array([6.0, 5, 4, 3]), np.array([0, 0, 1]))
    array([6., 3., 3.])
    """
    if clusters is None:
        return values
    own = np.zeros((clusters.max() + 1, *values.shape[1:]))
    np.add.at(own, clusters, values[0] - values[1:])
    return np.concatenate([values[:1], values[0] - own])
