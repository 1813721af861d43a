"""Correlate two scores of the same candidates: Spearman, Kendall and Pearson at three named levels.

Pooled and system-level correlations are functions of the weights of contexts, many replicates at a time. Whole numbers
give the correlation of a frame in which each context is repeated so often.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from biaslab.core.checked import checked
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.estimate import is_rounding
from biaslab.stats.jackknife import Statistic

Level = Literal["context", "dataset", "system"]
Method = Literal["spearman", "kendall", "pearson"]
Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
DIGITS = 12
_CHUNK = 1 << 18
_LARGE = 64  # candidates of a context; beyond, comparing all pairs is slower than sorting
#: Contexts × contexts counts are kept for Kendall's tau; with more contexts it is recomputed for each replicate.
_LARGEST = 2000


class Correlation(NamedTuple):
    """A correlation and what it rests on.

    Parameters
    ----------
    value : float
        From -1 to 1; NaN where it is undefined.
    n : int
        Contexts that entered the average, candidates, or systems, by level.
    reason : str
        Why the value is NaN; empty otherwise.
    """

    value: float
    n: int
    reason: str


def correlation(
    frame: pd.DataFrame,
    x: str,
    y: str,
    level: Level = "context",
    method: Method = "spearman",
    context: str = "context_id",
    system: str = "system",
) -> Correlation:
    """Correlate two columns, such as a judge's and the mean human score.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows where either score is missing are left out.
    x, y : str
        Columns of numbers.
    level : {"context", "dataset", "system"}
        *context*: over the candidates of each context, averaged over the contexts where both scores vary (the
        papers' "summary-level"). *dataset*: over all candidates, pooled. *system*: over the systems' means.
    method : {"spearman", "kendall", "pearson"}
        Spearman's ρ with midranks, Kendall's τ-b, or Pearson's r. Scores that differ by less than 1e-12 of
        the largest are ties: rounding in the last bit of a mean is no difference.
    context, system : str
        Columns of the context and of the system, read at the level of that name.

    Returns
    -------
    Correlation
        ``value``, ``n`` and ``reason``. With two candidates or systems the value is -1 or 1; nothing is left
        out for being small.

    Raises
    ------
    InputError
        If level or method is unknown, or a score is infinite.
    TrialsError
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"context_id": list("aaab"), "judge": [1, 2, 3, 4], "human": [1, 3, 2, 5]})
    >>> correlation(frame, "judge", "human", level="context")
    Correlation(value=0.5, n=1, reason='')
    """
    check_options(level, method)
    keys = {"context": [context], "dataset": [], "system": [system]}[level]
    scored = paired(frame, [x, y], keys)
    if level == "context":
        values = context_correlations(scored, x, y, method, context)
        values = values[~np.isnan(values)]
        if not len(values):
            return Correlation(math.nan, 0, "no context in which both scores vary")
        return Correlation(float(np.mean(values)), len(values), "")
    if level == "system":
        scored = scored.groupby(system)[[x, y]].mean()
    a, b = rounded(scored[x].to_numpy(float)), rounded(scored[y].to_numpy(float))
    units = "systems" if level == "system" else "candidates"
    if len(a) < 2:
        return Correlation(math.nan, len(a), f"fewer than two {units}")
    value = float(_correlate_rows(a[None], b[None], method)[0])
    return Correlation(value, len(a), f"one of the scores is the same for all {units}" if math.isnan(value) else "")


def check_options(level: str, method: str) -> None:
    """Raise `InputError` if the level or the method is unknown."""
    for name, value, allowed in (("level", level, get_args(Level)), ("method", method, get_args(Method))):
        require_one_of(name, value, allowed)


@checked
def paired(frame: pd.DataFrame, scores: list[str], keys: list[str]) -> pd.DataFrame:
    """Return the rows that have all of the scores; raise if a column is missing or a score is infinite."""
    missing = [column for column in (*scores, *keys) if column not in frame.columns]
    if missing:
        raise TrialsError("frame column", missing, f"the columns {', '.join((*scores, *keys))}")
    scored = frame[frame[scores].notna().all(axis=1)]
    for column in scores:
        if np.isinf(scored[column].to_numpy(float)).any():
            raise InputError(f"column {column!r}", math.inf, "finite numbers, and NaN where there is none")
    return scored


@checked
def context_correlations(scored: pd.DataFrame, x: str, y: str, method: Method, context: str) -> Floats:
    """Return the correlation within each context, NaN where one of the scores does not vary; shape (contexts,)."""
    return correlate_within(
        scored[x].to_numpy(float), scored[y].to_numpy(float), pd.factorize(scored[context])[0], method
    )


def correlate_within(x: Floats, y: Floats, codes: Codes, method: Method) -> Floats:
    """Correlate two scores within each context, by its number; NaN where one of them does not vary.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (items,)
        Scores; items where one is NaN do not enter.
    codes : numpy.ndarray, shape (items,)
        Number of the context of each item, from 0.
    method : {"spearman", "kendall", "pearson"}
        As for `correlation`.

    Returns
    -------
    numpy.ndarray, shape (contexts,)

    Examples
    --------
    >>> scores, context = np.array([1.0, 2, 3, 1]), np.array([0, 0, 0, 1])
    >>> correlate_within(scores, np.array([1.0, 3, 2, 1]), context, "spearman").tolist()
    [0.5, nan]
    """
    values = np.full(int(codes.max(initial=-1)) + 1, np.nan)
    known = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    order = known[np.argsort(codes[known], kind="stable")]
    a, b = rounded(x[order]), rounded(y[order])
    sizes = np.bincount(codes[order], minlength=len(values))
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 1]):
        alike = np.flatnonzero(sizes == size)
        rows = starts[alike, None] + np.arange(size)
        values[alike] = _correlate_rows(a[rows], b[rows], method)
    return values


def arranged(
    scored: pd.DataFrame, columns: list[str], level: Level, method: Method, keys: list[str]
) -> tuple[Callable[[int, int], Statistic], int]:
    """Return a function that makes the statistic of two of the columns, and the number of contexts.

    Rows are sorted by scores within contexts and contexts by their rows, so that a seed gives the same resamples
    however contexts are named or ordered.
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


def rounded(values: Floats) -> Floats:
    """Return each row in units of its largest value, to 12 decimals: no correlation depends on the unit."""
    largest = np.fmax.reduce(np.abs(values), axis=-1, keepdims=True, initial=0.0)
    return np.round(values / np.where(is_rounding(largest), np.inf, largest), DIGITS)


def whole(x: Floats, y: Floats, codes: Codes, method: Method) -> Statistic:
    """Return the pooled correlation as a function of weights, by the cheapest algorithm; parameters as for `pooled`."""
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
        Number of the context of each candidate, from 0.
    method : {"spearman", "kendall", "pearson"}
        As for `correlation`.

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
            replicates.append(_pearson_rows(a, b, chunk[:, codes]))
        return np.concatenate(replicates)

    return statistic


def by_system(x: Floats, y: Floats, codes: Codes, systems: Codes, method: Method) -> Statistic:
    """Return the correlation of system means as a function of weights; systems without a drawn context are left out.

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
        replicates = []
        for chunk in _chunks(weights, shape[1] ** 2):
            n = chunk @ counts
            with np.errstate(invalid="ignore", divide="ignore"):
                a, b = (rounded(np.where(n > 0, chunk @ total / n, np.nan)) for total in (sum_x, sum_y))
            replicates.append(_correlate_rows(a, b, method))
        return np.concatenate(replicates)

    return statistic


def _correlate_rows(a: Floats, b: Floats, method: Method) -> Floats:
    """Correlate row by row, shape (rows, items), without items that are NaN; NaN where one side does not vary."""
    if method != "kendall":
        if method == "spearman":
            a, b = (stats.rankdata(v, axis=1, nan_policy="omit") for v in (a, b))
        return _pearson_rows(a, b, (~np.isnan(a)).astype(float))
    if a.shape[1] > _LARGE and not np.isnan(a).any():
        return np.array([stats.kendalltau(*pair, variant="b").statistic for pair in zip(a, b, strict=True)], float)
    first, second = np.triu_indices(a.shape[1], 1)
    u, v = (np.nan_to_num(np.sign(side[:, first] - side[:, second])) for side in (a, b))
    return _bounded((u * v).sum(axis=1), (u * u).sum(axis=1) * (v * v).sum(axis=1))


def _pearson_rows(a: Floats, b: Floats, weights: Floats) -> Floats:
    """Return Pearson's r of each row, NaN where one side does not vary; all of shape (rows, items)."""
    a, b = (_standardised(side, weights) for side in (a, b))
    aa, bb, ab = (np.sum(weights * one * other, axis=1) for one, other in ((a, a), (b, b), (a, b)))
    return _bounded(ab, aa * bb)


def _standardised(values: Floats, weights: Floats) -> Floats:
    """Return each row less its mean, in units of the largest deviation; 0 where it does not vary."""
    enters = weights > 0
    varies = np.where(enters, values, np.inf).min(axis=1) < np.where(enters, values, -np.inf).max(axis=1)
    drawn = np.where(enters & varies[:, None], values, 0.0)
    with np.errstate(invalid="ignore"):
        mean = np.sum(weights * drawn, axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    centred = np.where(enters, drawn - mean, 0.0)
    return centred / np.where(varies, np.abs(centred).max(axis=1), 1.0)[:, None]


def _bounded(products: Floats, squares: Floats) -> Floats:
    """Return products / √squares, kept in −1 to 1; NaN for 0 / 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = np.clip(products / np.sqrt(squares), -1, 1)
    return r


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
        return _bounded(both, one * other)

    return statistic


def _levels(values: Floats, codes: Codes) -> tuple[Floats, Codes]:
    """Return how many candidates of each context have each distinct value, and the value's number of each candidate."""
    distinct, level = np.unique(values, return_inverse=True)
    shape = (int(codes.max()) + 1, len(distinct))
    counts = np.bincount(codes * shape[1] + level, minlength=shape[0] * shape[1])
    return counts.reshape(shape).astype(float), level


def _midranks(counts: Floats) -> Floats:
    """Return the midrank of each distinct value, less ½, from how often each occurs; shape (replicates, values)."""
    return np.cumsum(counts, axis=1) - counts / 2


def _chunks(weights: Floats, items: int) -> list[Floats]:
    rows = max(1, _CHUNK // max(items, weights.shape[1]))
    return [weights[start : start + rows] for start in range(0, len(weights), rows)]


def _kendall_by_resample(scores: Floats, codes: Codes) -> Statistic:
    def statistic(weights: Floats) -> Floats:
        drawn = (np.repeat(scores, row[codes].astype(int), axis=0).T for row in weights)
        return np.array([stats.kendalltau(*pair, variant="b").statistic for pair in drawn], float)

    return statistic
