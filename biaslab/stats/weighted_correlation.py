"""Correlations as functions of context weights, for many replicates at once.

Integer weights give the correlation of a frame in which each context is repeated that often.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core.arrays import Codes, Floats
from biaslab.stats.correlation import Level, Method, bounded, correlate_rows, pearson_rows, rounded
from biaslab.stats.jackknife import Statistic

_CHUNK = 1 << 18
#: Up to this size, counts for pairs of contexts are stored for Kendall's tau; beyond, it is recomputed for each
#: replicate.
_LARGEST = 2000


def arranged(
    scored: pd.DataFrame, columns: list[str], level: Level, method: Method, keys: list[str]
) -> tuple[Callable[[int, int], Statistic], int]:
    """Return a function that builds the statistic for two of the columns, and the number of contexts.

    Rows are sorted by score within contexts, and contexts by their rows, so that a seed gives the same resamples
    whatever the names and order of contexts.
    """
    scores = np.column_stack([rounded(scored[column].to_numpy(float)) for column in columns])
    systems = pd.factorize(scored[keys[1]], sort=True)[0] if level == "system" else np.zeros(len(scored), np.intp)
    codes, names = pd.factorize(scored[keys[0]])
    order = np.lexsort((systems, *scores.T[::-1], codes))
    scores, systems, codes = scores[order], systems[order], codes[order]
    blocks = np.split(np.column_stack([scores, systems]), np.flatnonzero(np.diff(codes)) + 1)
    blocks = sorted(blocks, key=lambda block: block.tobytes())
    rows, codes = np.concatenate(blocks), np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])

    def make(i: int, j: int) -> Statistic:
        if level == "system":
            return by_system(rows[:, i], rows[:, j], codes, rows[:, -1].astype(np.intp), method)
        return whole(rows[:, i], rows[:, j], codes, method)

    return make, len(names)


def whole(x: Floats, y: Floats, codes: Codes, method: Method) -> Statistic:
    """Return the pooled correlation as a function of weights, by the cheapest algorithm; parameters as in `pooled`."""
    if method == "kendall" and codes.max(initial=0) >= _LARGEST:
        return _kendall_by_resample(np.column_stack([x, y]), codes)
    return pooled(x, y, codes, method)


def pooled(x: Floats, y: Floats, codes: Codes, method: Method) -> Statistic:
    """Return the correlation over all candidates as a function of the weights of contexts.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (candidates,)
        Finite scores.
    codes : numpy.ndarray, shape (candidates,)
        Index of each candidate's context, from 0.
    method : {"spearman", "kendall", "pearson"}
        As in `correlation`.

    Examples
    --------
    >>> rho = pooled(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), np.arange(3), "spearman")
    >>> rho(np.array([[1.0, 1, 1], [1, 2, 0]])).round(3).tolist()
    [0.5, 1.0]
    """
    if method == "kendall":
        return _kendall(x, y, codes)
    levels = [_levels(values, codes) for values in (x, y)]

    def statistic(weights: Floats) -> Floats:
        replicates = []
        for chunk in _chunks(weights, len(x)):
            if method == "spearman":
                a, b = (_midranks(chunk @ counts)[:, level] for counts, level in levels)
            else:
                a, b = (np.broadcast_to(values, (len(chunk), len(x))) for values in (x, y))
            replicates.append(pearson_rows(a, b, chunk[:, codes]))
        return np.concatenate(replicates)

    return statistic


def by_system(x: Floats, y: Floats, codes: Codes, systems: Codes, method: Method) -> Statistic:
    """Return the correlation of system means as a function of weights, dropping systems without a drawn context.

    Parameters
    ----------
    x, y, codes, method
        As in `pooled`.
    systems : numpy.ndarray, shape (candidates,)
        Index of each candidate's system, from 0.
    """
    shape = (int(codes.max()) + 1, int(systems.max()) + 1)
    place = codes * shape[1] + systems
    counts, sum_x, sum_y = (np.bincount(place, v, shape[0] * shape[1]).reshape(shape) for v in (np.ones(len(x)), x, y))

    def statistic(weights: Floats) -> Floats:
        replicates = []
        for chunk in _chunks(weights, shape[1] ** 2):
            n = chunk @ counts
            with np.errstate(invalid="ignore", divide="ignore"):
                a, b = (rounded(np.where(n > 0, chunk @ total / n, np.nan)) for total in (sum_x, sum_y))
            replicates.append(correlate_rows(a, b, method))
        return np.concatenate(replicates)

    return statistic


def _kendall(x: Floats, y: Floats, codes: Codes) -> Statistic:
    """Kendall's τ-b as a ratio of quadratic forms in the weights of contexts."""
    contexts = int(codes.max()) + 1
    order = np.argsort(codes, kind="stable")
    x, y, borders = x[order], y[order], np.searchsorted(codes[order], np.arange(contexts))
    forms = np.zeros((3, contexts, contexts))
    for start, end in zip(borders, np.r_[borders[1:], len(x)], strict=True):
        sx, sy = np.sign(x[start:end, None] - x), np.sign(y[start:end, None] - y)
        for form, product in zip(forms, (sx * sy, sx * sx, sy * sy), strict=True):
            form[codes[order[start]]] = np.add.reduceat(product.sum(axis=0), borders)

    def statistic(weights: Floats) -> Floats:
        both, one, other = (np.sum((weights @ form) * weights, axis=1) for form in forms)
        return bounded(both, one * other)

    return statistic


def _levels(values: Floats, codes: Codes) -> tuple[Floats, Codes]:
    """Return the counts of distinct values per context, and each candidate's value index."""
    distinct, level = np.unique(values, return_inverse=True)
    shape = (int(codes.max()) + 1, len(distinct))
    counts = np.bincount(codes * shape[1] + level, minlength=shape[0] * shape[1])
    return counts.reshape(shape).astype(float), level


def _midranks(counts: Floats) -> Floats:
    """Return the midrank of each distinct value minus ½, from counts; shape (replicates, values)."""
    return np.cumsum(counts, axis=1) - counts / 2


def _chunks(weights: Floats, items: int) -> list[Floats]:
    rows = max(1, _CHUNK // max(items, weights.shape[1]))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]


def _kendall_by_resample(scores: Floats, codes: Codes) -> Statistic:
    def statistic(weights: Floats) -> Floats:
        drawn = (np.repeat(scores, row[codes].astype(int), axis=0).T for row in weights)
        return np.array([stats.kendalltau(*pair, variant="b").statistic for pair in drawn], float)

    return statistic
