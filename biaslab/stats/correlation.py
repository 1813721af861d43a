"""Correlation of two scores of the same candidates: Spearman, Kendall and Pearson at three named levels."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from biaslab.core.checked import checked
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.estimate import is_rounding

Level = Literal["context", "dataset", "system"]
Method = Literal["spearman", "kendall", "pearson"]
Vector = npt.NDArray[np.float64]
DIGITS = 12
_LARGE = 64  # candidates of a context; beyond, comparing all pairs is slower than sorting


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
    given = paired(frame, [x, y], keys)
    if level == "context":
        values = context_correlations(given, x, y, method, context)
        values = values[~np.isnan(values)]
        if not len(values):
            return Correlation(math.nan, 0, "no context in which both scores vary")
        return Correlation(float(np.mean(values)), len(values), "")
    if level == "system":
        given = given.groupby(system)[[x, y]].mean()
    a, b = rounded(given[x].to_numpy(float)), rounded(given[y].to_numpy(float))
    what = "systems" if level == "system" else "candidates"
    if len(a) < 2:
        return Correlation(math.nan, len(a), f"fewer than two {what}")
    value = float(_correlate_rows(a[None], b[None], method)[0])
    return Correlation(value, len(a), f"one of the scores is the same for all {what}" if math.isnan(value) else "")


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
    given = frame[frame[scores].notna().all(axis=1)]
    for column in scores:
        if np.isinf(given[column].to_numpy(float)).any():
            raise InputError(f"column {column!r}", math.inf, "finite numbers, and NaN where there is none")
    return given


@checked
def context_correlations(given: pd.DataFrame, x: str, y: str, method: Method, context: str) -> Vector:
    """Return the correlation within each context, NaN where one of the scores does not vary; shape (contexts,)."""
    codes = pd.factorize(given[context])[0]
    order = np.argsort(codes, kind="stable")
    a, b = rounded(given[x].to_numpy(float))[order], rounded(given[y].to_numpy(float))[order]
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    values = np.full(len(sizes), np.nan)
    for size in np.unique(sizes):
        alike = np.flatnonzero(sizes == size)
        rows = starts[alike, None] + np.arange(size)
        values[alike] = _correlate_rows(a[rows], b[rows], method)
    return values


def rounded(values: Vector) -> Vector:
    """Return the values in units of the largest, to `DIGITS` decimals: no correlation depends on the unit."""
    largest = float(np.abs(values).max(initial=0.0))
    return np.zeros_like(values) if is_rounding(largest) else np.round(values / largest, DIGITS)


def _correlate_rows(a: Vector, b: Vector, method: Method) -> Vector:
    """Correlate row by row, shape (contexts, candidates); NaN where one of both does not vary."""
    values = np.full(len(a), np.nan)
    varied = (a != a[:, :1]).any(axis=1) & (b != b[:, :1]).any(axis=1)
    a, b = a[varied], b[varied]
    if method == "kendall" and a.shape[1] > _LARGE:
        values[varied] = [stats.kendalltau(u, v, variant="b").statistic for u, v in zip(a, b, strict=True)]
    elif method == "kendall":
        values[varied] = _kendall(a, b)
    else:
        values[varied] = _pearson(*((stats.rankdata(u, axis=-1) for u in (a, b)) if method == "spearman" else (a, b)))
    return values


def _pearson(a: Vector, b: Vector) -> Vector:
    """Return Pearson's r along the last axis; both vary."""
    a, b = (u - u.mean(axis=-1, keepdims=True) for u in (a, b))
    a, b = (u / np.abs(u).max(axis=-1, keepdims=True) for u in (a, b))
    r = (a * b).sum(axis=-1) / np.sqrt((a * a).sum(axis=-1) * (b * b).sum(axis=-1))
    return np.asarray(np.clip(r, -1, 1), float)


def _kendall(a: Vector, b: Vector) -> Vector:
    """Return Kendall's τ-b of each row from all pairs of its entries; both vary."""
    first, second = np.triu_indices(a.shape[1], 1)
    u, v = (np.sign(x[:, first] - x[:, second]) for x in (a, b))
    tau = (u * v).sum(axis=1) / np.sqrt((u * u).sum(axis=1) * (v * v).sum(axis=1))
    return np.asarray(np.clip(tau, -1, 1), float)
