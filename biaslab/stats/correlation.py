"""Correlate two scores of the same candidates: Spearman, Kendall or Pearson, at three levels."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.estimate import is_rounding

Level = Literal["context", "dataset", "system"]
Method = Literal["spearman", "kendall", "pearson"]
DIGITS = 12
_LARGE = 64  # candidates per context above which sorting is faster than comparing all pairs


class Correlation(NamedTuple):
    """A correlation and its sample size.

    Parameters
    ----------
    value : float
        From -1 to 1; NaN if undefined.
    n : int
        Number of contexts averaged, of candidates, or of systems, depending on the level.
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
    """Correlate two columns, for example a judge's score and the mean human score.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per candidate. Rows with a missing score are dropped.
    x, y : str
        Numeric columns.
    level : {"context", "dataset", "system"}
        *context*: over the candidates of each context, averaged over the contexts in which both scores vary
        ("summary-level" in papers). *dataset*: over all candidates, pooled. *system*: over the means of systems.
    method : {"spearman", "kendall", "pearson"}
        Spearman's ρ with midranks, Kendall's τ-b, or Pearson's r. Scores that differ by less than 1e-12 of the largest
        are ties, because such differences are rounding errors of means.
    context, system : str
        Columns of the context and of the system, used at the level of that name.

    Returns
    -------
    Correlation
        ``value``, ``n`` and ``reason``. With two candidates or systems the value is -1 or 1; no minimum size is
        applied.

    Raises
    ------
    InputError
        If the level or method is unknown, or a score is infinite.
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
            return Correlation(math.nan, 0, "in no context do both scores vary")
        return Correlation(float(np.mean(values)), len(values), "")
    if level == "system":
        scored = scored.groupby(system)[[x, y]].mean()
    a, b = rounded(scored[x].to_numpy(float)), rounded(scored[y].to_numpy(float))
    units = "systems" if level == "system" else "candidates"
    if len(a) < 2:
        return Correlation(math.nan, len(a), f"fewer than two {units}")
    value = float(correlate_rows(a[None], b[None], method)[0])
    return Correlation(value, len(a), f"one of the scores is the same for all {units}" if math.isnan(value) else "")


def check_options(level: str, method: str) -> None:
    """Raise `InputError` if the level or the method is unknown."""
    for name, value, allowed in (("level", level, get_args(Level)), ("method", method, get_args(Method))):
        require_one_of(name, value, allowed)


def paired(frame: pd.DataFrame, scores: list[str], keys: list[str]) -> pd.DataFrame:
    """Return the rows in which no score is missing; raise if a column is missing or a score is infinite."""
    missing = [column for column in (*scores, *keys) if column not in frame.columns]
    if missing:
        raise TrialsError("frame column", missing, f"the columns {', '.join((*scores, *keys))}")
    scored = frame[frame[scores].notna().all(axis=1)]
    for column in scores:
        if np.isinf(scored[column].to_numpy(float)).any():
            raise InputError(f"column {column!r}", math.inf, "finite numbers, or NaN if missing")
    return scored


def context_correlations(scored: pd.DataFrame, x: str, y: str, method: Method, context: str) -> Floats:
    """Return the correlation within each context, shape (contexts,); NaN if a score does not vary."""
    return correlate_within(
        scored[x].to_numpy(float), scored[y].to_numpy(float), pd.factorize(scored[context])[0], method
    )


def correlate_within(x: Floats, y: Floats, codes: Codes, method: Method) -> Floats:
    """Correlate two scores within each context, given by index; NaN if a score does not vary.

    Parameters
    ----------
    x, y : numpy.ndarray, shape (items,)
        Scores; items with a NaN are dropped.
    codes : numpy.ndarray, shape (items,)
        Index of each item's context, from 0.
    method : {"spearman", "kendall", "pearson"}
        As in `correlation`.

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
        values[alike] = correlate_rows(a[rows], b[rows], method)
    return values


def rounded(values: Floats) -> Floats:
    """Scale each row by its largest value and round to 12 decimals; correlations do not depend on the unit."""
    largest = np.fmax.reduce(np.abs(values), axis=-1, keepdims=True, initial=0.0)
    return np.round(values / np.where(is_rounding(largest), np.inf, largest), DIGITS)


def correlate_rows(a: Floats, b: Floats, method: Method) -> Floats:
    """Correlate row by row, shape (rows, items), ignoring NaN items; NaN if either side does not vary."""
    if method != "kendall":
        if method == "spearman":
            a, b = (stats.rankdata(v, axis=1, nan_policy="omit") for v in (a, b))
        return pearson_rows(a, b, (~np.isnan(a)).astype(float))
    if a.shape[1] > _LARGE and not np.isnan(a).any():
        return np.array([stats.kendalltau(*pair, variant="b").statistic for pair in zip(a, b, strict=True)], float)
    first, second = np.triu_indices(a.shape[1], 1)
    u, v = (np.nan_to_num(np.sign(side[:, first] - side[:, second])) for side in (a, b))
    return bounded((u * v).sum(axis=1), (u * u).sum(axis=1) * (v * v).sum(axis=1))


def pearson_rows(a: Floats, b: Floats, weights: Floats) -> Floats:
    """Return Pearson's r of each row, for arrays of shape (rows, items); NaN if either side does not vary."""
    a, b = (_standardised(side, weights) for side in (a, b))
    aa, bb, ab = (np.sum(weights * one * other, axis=1) for one, other in ((a, a), (b, b), (a, b)))
    return bounded(ab, aa * bb)


def _standardised(values: Floats, weights: Floats) -> Floats:
    """Return each row minus its mean, divided by the largest deviation; 0 if it does not vary."""
    enters = weights > 0
    varies = np.where(enters, values, np.inf).min(axis=1) < np.where(enters, values, -np.inf).max(axis=1)
    drawn = np.where(enters & varies[:, None], values, 0.0)
    with np.errstate(invalid="ignore"):
        mean = np.sum(weights * drawn, axis=1, keepdims=True) / weights.sum(axis=1, keepdims=True)
    centred = np.where(enters, drawn - mean, 0.0)
    return centred / np.where(varies, np.abs(centred).max(axis=1), 1.0)[:, None]


def bounded(products: Floats, squares: Floats) -> Floats:
    """Return products / √squares, clipped to −1 to 1; NaN for 0 / 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = np.clip(products / np.sqrt(squares), -1, 1)
    return r
