"""Pooled and system-level correlations as functions of the weights of contexts, many replicates at a time.

With every weight 1 they are those of `biaslab.stats.correlation`; with other whole numbers they are those of a frame in
which each context is repeated so often.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from biaslab.stats.correlation import DIGITS, Level, Method, rounded
from biaslab.stats.estimate import ROUNDING_OF_SQUARES, is_rounding
from biaslab.stats.jackknife import Statistic

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
_CHUNK = 1 << 18
#: Contexts × contexts counts are held for Kendall's tau; with more contexts it is recomputed resample by resample.
_LARGEST = 2000


def arranged(
    given: pd.DataFrame, columns: list[str], level: Level, method: Method, keys: list[str]
) -> tuple[Callable[[int, int], Statistic], int]:
    """Return what makes the statistic of two of the columns, and the number of contexts.

    Rows are sorted by scores within contexts and contexts by their rows, so that a seed gives the same resamples
    however contexts are named or ordered.
    """
    scores = np.column_stack([rounded(given[column].to_numpy(float)) for column in columns])
    systems = pd.factorize(given[keys[1]], sort=True)[0] if level == "system" else np.zeros(len(given), np.intp)
    codes, names = pd.factorize(given[keys[0]])
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
    """Make a correlation over all candidates, by the way that takes least; parameters as for `pooled`."""
    if method == "kendall" and codes.max(initial=0) >= _LARGEST:
        return _kendall_by_resample(np.column_stack([x, y]), codes)
    return pooled(x, y, codes, method)


def pooled(x: Floats, y: Floats, codes: Codes, method: Method) -> Statistic:
    """Make a correlation over all candidates.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (candidates,)
        Finite scores.
    codes : numpy.ndarray, shape (candidates,)
        Number of the context of each candidate, from 0.
    method : {"spearman", "kendall", "pearson"}
        As `biaslab.stats.correlation.correlation` computes them.

    Examples
    --------
    >>> rho = pooled(np.array([1.0, 2, 3]), np.array([1.0, 3, 2]), np.arange(3), "spearman")
    >>> rho(np.array([[1.0, 1, 1], [1, 2, 0]])).round(3).tolist()
    [0.5, 1.0]
    """
    if method == "kendall":
        return _kendall(x, y, codes)
    if method == "pearson":
        return _pearson(x, y, codes)
    levels = [_levels(values, codes) for values in (x, y)]

    def spearman(weights: Floats) -> Floats:
        found = []
        for chunk in _chunks(weights, len(x)):
            one, other = (_midranks(chunk @ counts)[:, level] for counts, level in levels)
            found.append(weighted_pearson(one, other, chunk[:, codes]))
        return np.concatenate(found)

    return spearman


def by_system(x: Floats, y: Floats, codes: Codes, systems: Codes, method: Method) -> Statistic:
    """Make a correlation over the means of systems; a system that no drawn context has does not enter.

    Parameters
    ----------
    x, y, codes, method
        As for `pooled`.
    systems : numpy.ndarray, shape (candidates,)
        Number of the system of each candidate, from 0.
    """
    shape = (int(codes.max()) + 1, int(systems.max()) + 1)
    place = codes * shape[1] + systems
    counts, sum_x, sum_y = (np.bincount(place, v, shape[0] * shape[1]).reshape(shape) for v in (np.ones(len(x)), x, y))

    def statistic(weights: Floats) -> Floats:
        found = []
        for chunk in _chunks(weights, shape[1] ** 2):
            n = chunk @ counts
            with np.errstate(invalid="ignore", divide="ignore"):
                means = [_rounded(np.where(n > 0, chunk @ total / n, np.nan)) for total in (sum_x, sum_y)]
            found.append(_correlate_rows(means[0], means[1], (n > 0).astype(float), method))
        return np.concatenate(found)

    return statistic


def weighted_pearson(a: Floats, b: Floats, weights: Floats) -> Floats:
    """Return Pearson's r of each row, NaN where one side does not vary; all of shape (replicates, items).

    Examples
    --------
    >>> weighted_pearson(np.array([[1.0, 2, 3]]), np.array([[1.0, 2, 9]]), np.array([[1.0, 1, 0]])).tolist()
    [1.0]
    """
    n = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = (_standardised(v, weights, n) for v in (a, b))
        aa, bb, ab = (np.sum(weights * one * other, axis=1) for one, other in ((a, a), (b, b), (a, b)))
        return _bounded(ab, aa * bb)


def _standardised(values: Floats, weights: Floats, n: Floats) -> Floats:
    """Return each row less its mean, in units of the largest deviation; NaN where that is rounding."""
    drawn = np.where(weights > 0, values, 0.0)
    centred = np.where(weights > 0, drawn - np.sum(weights * drawn, axis=1, keepdims=True) / n, 0.0)
    largest = np.abs(centred).max(axis=1, keepdims=True)
    return centred / np.where(is_rounding(largest, np.abs(drawn).max(axis=1, keepdims=True)), np.nan, largest)


def _bounded(products: Floats, squares: Floats) -> Floats:
    """Return products / √squares, kept in −1 to 1; NaN for 0 / 0."""
    r: Floats = np.clip(products / np.sqrt(squares), -1, 1)
    return r


def _pearson(x: Floats, y: Floats, codes: Codes) -> Statistic:
    """Pearson's r from six sums a context; a spread that is rounding is none."""
    x, y = ((v - v.mean()) / (np.abs(v - v.mean()).max() or 1.0) for v in (x, y))
    moments = np.column_stack([np.bincount(codes, v) for v in (np.ones(len(x)), x, y, x * x, y * y, x * y)])

    def statistic(weights: Floats) -> Floats:
        n, sx, sy, sxx, syy, sxy = (weights @ moments).T
        with np.errstate(invalid="ignore", divide="ignore"):
            a, b = sxx - sx**2 / n, syy - sy**2 / n
            r = _bounded(sxy - sx * sy / n, a * b)
            return np.where((a > ROUNDING_OF_SQUARES * sxx) & (b > ROUNDING_OF_SQUARES * syy), r, np.nan)

    return statistic


def _kendall(x: Floats, y: Floats, codes: Codes) -> Statistic:
    """Kendall's τ-b as a ratio of quadratic forms: pairs of contexts agree so often, whatever their weights."""
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
        with np.errstate(invalid="ignore", divide="ignore"):
            return _bounded(both, one * other)

    return statistic


def _correlate_rows(a: Floats, b: Floats, present: Floats, method: Method) -> Floats:
    if method == "kendall":
        sa, sb = (np.nan_to_num(np.sign(v[:, :, None] - v[:, None, :])) for v in (a, b))
        both, one, other = (np.sum(p, axis=(1, 2)) for p in (sa * sb, sa * sa, sb * sb))
        with np.errstate(invalid="ignore", divide="ignore"):
            return _bounded(both, one * other)
    if method == "spearman":
        a, b = (stats.rankdata(v, axis=1, nan_policy="omit") for v in (a, b))
    return weighted_pearson(np.nan_to_num(a), np.nan_to_num(b), present)


def _levels(values: Floats, codes: Codes) -> tuple[Floats, Codes]:
    """Return how many candidates of each context have each distinct value, and the value's number of each candidate."""
    distinct, level = np.unique(values, return_inverse=True)
    shape = (int(codes.max()) + 1, len(distinct))
    counts = np.bincount(codes * shape[1] + level, minlength=shape[0] * shape[1])
    return counts.reshape(shape).astype(float), level


def _midranks(counts: Floats) -> Floats:
    """Return the midrank of each distinct value, less ½, from how often each occurs; shape (replicates, values)."""
    return np.cumsum(counts, axis=1) - counts / 2


def _rounded(means: Floats) -> Floats:
    """Round as `correlation` does: means that differ in the last bit are equal."""
    largest = np.abs(np.nan_to_num(means)).max(axis=1, keepdims=True)
    return np.round(means / np.where(largest > 0, largest, 1.0), DIGITS)


def _chunks(weights: Floats, items: int) -> list[Floats]:
    rows = max(1, _CHUNK // max(items, weights.shape[1]))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]


def _kendall_by_resample(scores: Floats, codes: Codes) -> Statistic:
    def statistic(weights: Floats) -> Floats:
        drawn = (np.repeat(scores, row[codes].astype(int), axis=0).T for row in weights)
        return np.array([stats.kendalltau(*pair, variant="b").statistic for pair in drawn], float)

    return statistic
