"""The estimates frame: one scalar a row, with its uncertainty, the only thing that plots, tables and papers see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError, TrialsError
from biaslab.stats import intervals
from biaslab.stats.multiplicity import Correction, adjust
from biaslab.stats.power import standard_error
from biaslab.stats.resampling import Estimate, Resampling, cluster_ratio, ratio_difference
from biaslab.stats.t_tests import difference_by_t, t_test

Floats = NDArray[np.float64]
#: P(A) of .50 to .93, 3 pairs a context, few of which flip, 1000 studies: with 8, 10 and 16 contexts the studentised
#: bootstrap covers .76 to .95 and Student's t .88 to .96; with 24 it is .94 to .96 and .92 to .96.
_FEW_TIED = 20

LEADING = ("probe", "judge", "dataset", "metric")
TRAILING = (
    "estimate",
    "se",
    "ci_low",
    "ci_high",
    "ci_level",
    "p_value",
    "q_value",
    "mde",
    "n_contexts",
    "n_trials",
    "n_dropped",
    "method",
    "seed",
    "note",
)


@dataclass(frozen=True)
class Ratio:
    """A metric that is a ratio of two sums, item by item: a rate, or a mean.

    Parameters
    ----------
    context : array_like of str, shape (items,)
        The context of each item.
    numerator, denominator : array_like of float, shape (items,)
        What an item adds to both sums.
    null : float, optional
        Value under the null hypothesis, if there is one to test.
    bounds : tuple of float, optional
        Least and greatest possible value.
    missing : str
        What to note when nothing is left to divide by.
    inference : {"resampling", "t"}
        By resampling: bootstrap interval and sign-flip test. By t, where most contexts add exactly what the null
        expects: `biaslab.stats.t_tests.t_test`, and with fewer than 20 contexts, unless another bootstrap than the
        studentised one is wanted, the interval of Student's t.
    """

    context: ArrayLike
    numerator: ArrayLike
    denominator: ArrayLike
    null: float | None = None
    bounds: tuple[float, float] | None = None
    missing: str = "undefined: no trial is left"
    inference: Literal["resampling", "t"] = "resampling"

    def estimate(self, resampling: Resampling) -> Estimate:
        """Sum within contexts and estimate over them; items where a number is NaN do not enter."""
        sums, _ = sum_by_context(self.context, self.numerator, self.denominator)
        by_t = self.inference == "t"
        found = cluster_ratio(sums[:, 0], sums[:, 1], resampling, None if by_t else self.null, self.bounds)
        if not found.n_contexts:
            return replace(found, note=self.missing)
        return self._by_t(found, sums[sums[:, 1] > 0], resampling.level) if by_t and found.n_contexts > 1 else found

    def _by_t(self, found: Estimate, sums: Floats, level: float) -> Estimate:
        """Replace the interval of few contexts, and add the test."""
        if found.method == "cluster bootstrap (studentised)" and found.n_contexts < _FEW_TIED:
            error = standard_error(sums[:, 0], sums[:, 1])
            interval = intervals.student(found.estimate, error, found.n_contexts, level)
            low, high = np.clip(interval, *(self.bounds or (-np.inf, np.inf)))
            found = replace(found, ci_low=float(low), ci_high=float(high), method="t over contexts")
        if self.null is None:
            return found
        p_value = t_test(sums[:, 0] - self.null * sums[:, 1])
        return replace(found, p_value=p_value, method=f"{found.method}; t test")

    def difference(self, other: Ratio, resampling: Resampling) -> Estimate:
        """Estimate this ratio minus another over the contexts of both: paired bootstrap and swaps, or Student's t.

        Examples
        --------
        >>> contexts = list("aabbccddeeff")
        >>> one, two = Ratio(contexts, [1, 1] * 6, [1] * 12), Ratio(contexts, [0, 1, 0, 0] * 3, [1] * 12)
        >>> found = one.difference(two, Resampling())
        >>> found.estimate, found.n_contexts, found.p_value
        (0.75, 6, 0.03125)
        """
        (one, names), (two, others) = (sum_by_context(r.context, r.numerator, r.denominator) for r in (self, other))
        _, at, there = np.intersect1d(names.astype(str), others.astype(str), return_indices=True)
        one, two = one[at], two[there]
        found = ratio_difference((one[:, 0], two[:, 0]), (one[:, 1], two[:, 1]), resampling)
        if self.inference == "t":
            entering = (one[:, 1] > 0) & (two[:, 1] > 0)
            found = difference_by_t(found, _influence(one[entering]) - _influence(two[entering]), resampling)
        return found if found.n_contexts else replace(found, note=self.missing)


def _influence(sums: Floats) -> Floats:
    """Return what each context adds to a ratio of sums beyond the average of all, to first order."""
    total = sums.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (sums[:, 0] - total[0] / total[1] * sums[:, 1]) / total[1]  # type: ignore[no-any-return]


def sum_by_context(context: ArrayLike, *values: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    """Reduce items to one sum a context; items where a value is NaN, or the context is missing, do not enter.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    *values : array_like of float, each of shape (items,)
        What is summed.

    Returns
    -------
    tuple of numpy.ndarray
        The sums, shape (contexts, values), and the names of the contexts, shape (contexts,), in order of appearance.

    Raises
    ------
    InputError
        If values and contexts are not equally many.

    Examples
    --------
    >>> sums, names = sum_by_context(["b", "a", "b"], [1.0, 2.0, 3.0])
    >>> sums.tolist(), names.tolist()
    ([[4.0], [2.0]], ['b', 'a'])
    """
    codes, names = pd.factorize(_vector(context))
    columns = [np.asarray(column, float) for column in values]
    if any(column.shape != codes.shape for column in columns):
        raise InputError("values", [column.shape for column in columns], f"shape {codes.shape}, that of the contexts")
    keep = codes >= 0
    for column in columns:
        keep &= ~np.isnan(column)
    if not keep.all():
        codes, columns = codes[keep], [column[keep] for column in columns]
    sums = np.column_stack([np.bincount(codes, column, len(names)).astype(float, copy=False) for column in columns])
    seen = np.bincount(codes, minlength=len(names)) > 0
    return sums[seen], np.asarray(names, object)[seen]


def ratio_rows(
    ratios: Mapping[str, Ratio], cell: Mapping[str, Any], blocks: pd.DataFrame, resampling: Resampling
) -> list[dict[str, Any]]:
    """Estimate several ratios of one cell.

    Parameters
    ----------
    ratios : mapping of str to Ratio
        By name of the metric.
    cell : mapping
        Judge, data set and the condition columns.
    blocks : pandas.DataFrame
        Made by `biaslab.stats.pairs.both_orders`: two judgements a row, ``attrs["n_dropped"]`` more planned.
    resampling : Resampling
        How uncertainty is computed.
    """
    estimates = {metric: ratio.estimate(resampling) for metric, ratio in ratios.items()}
    return estimate_rows(estimates, cell, resampling, 2 * len(blocks), blocks.attrs.get("n_dropped", 0))


def estimate_rows(
    estimates: Mapping[str, Estimate], cell: Mapping[str, Any], resampling: Resampling, n_trials: int, n_dropped: int
) -> list[dict[str, Any]]:
    """Return one row an estimate of one cell, ready for `estimates_frame`.

    Parameters
    ----------
    estimates : mapping of str to Estimate
        By name of the metric.
    cell : mapping
        Judge, data set and the condition columns.
    resampling : Resampling
        How uncertainty was computed.
    n_trials, n_dropped : int
        Judgements that enter, and that were planned but do not.
    """
    counts = {"n_trials": n_trials, "n_dropped": n_dropped}
    settings = {"ci_level": resampling.level, "seed": resampling.seed}
    return [{"metric": m, **cell, **asdict(found), **counts, **settings} for m, found in estimates.items()]


def estimates_frame(
    rows: Sequence[Mapping[str, Any]],
    probe: str,
    primary: Sequence[str],
    conditions: Sequence[str],
    correction: Correction = "benjamini-hochberg",
) -> pd.DataFrame:
    """Put rows into the frame and add q-values.

    Parameters
    ----------
    rows : sequence of mapping
        Made by `ratio_rows`.
    probe : str
        Name of the probe.
    primary : sequence of str
        Metrics that form the family of the q-values.
    conditions : sequence of str
        Names of the condition columns, in order.
    correction : {"benjamini-hochberg", "holm"}
        What the q-values are: `biaslab.stats.multiplicity.adjust`.

    Returns
    -------
    pandas.DataFrame
        ``probe, judge, dataset, metric, <conditions>, estimate, se, ci_low, ci_high, ci_level, p_value, q_value,
        mde, n_contexts, n_trials, n_dropped, method, seed, note``.
    """
    columns = {name: [row.get(name, np.nan) for row in rows] for name in (*LEADING, *conditions, *TRAILING)}
    p_values = np.array(columns["p_value"], float)
    family = np.isin(columns["metric"], list(primary)) & ~np.isnan(p_values)
    q_values = np.full(len(rows), np.nan)
    q_values[family] = adjust(p_values[family], correction)
    return pd.DataFrame(columns | {"probe": [probe] * len(rows), "q_value": q_values})


def choose_metrics(known: Sequence[str], wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return the metrics that are wanted, all known ones when ``wanted`` is None, in the order of the known ones.

    Raises
    ------
    InputError
        If one is unknown or none is wanted; the message lists the known ones.

    Examples
    --------
    >>> choose_metrics(("rate", "logit"), ["logit"])
    ('logit',)
    """
    if wanted is None:
        return tuple(known)
    unknown = [wanted] if isinstance(wanted, str) else [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise InputError("metrics", unknown or wanted, f"a list of some of {', '.join(known)}")
    return tuple(name for name in known if name in wanted)


def require_columns(frame: pd.DataFrame, wanted: Sequence[str], what: str) -> None:
    """Raise `TrialsError` if a frame lacks one of the columns that are read from it."""
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise TrialsError(what, f"without {', '.join(missing)}", f"a frame with the columns {', '.join(wanted)}")


def _vector(context: ArrayLike) -> Any:
    """Return the contexts as they are where they are pandas's, which factorizes them without unpacking the strings."""
    return context if isinstance(context, pd.Series | pd.Index) else np.asarray(context)
