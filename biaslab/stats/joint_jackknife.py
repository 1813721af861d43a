"""Joint jackknife of correlated estimates of several judges on the same contexts, and of their sums."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from biaslab.core.arrays import Floats
from biaslab.core.errors import MissingDataWarning, SharedRequestsWarning, TrialsError
from biaslab.core.output import progress_bar
from biaslab.stats.blocks import joined, shared_requests
from biaslab.stats.estimate import Estimate, Note, Remark, because, is_rounding, undefined, unvarying, without_interval
from biaslab.stats.frame import LEADING, TRAILING
from biaslab.stats.resample import Resampling
from biaslab.stats.t_inference import estimate_by_t

CellKey = tuple[Any, ...]  # condition values of one row of a metric, None if empty
METHOD = "jackknife t over contexts"
_NO_ESTIMATE = because("role_without_estimate", "the {role} has no estimate")
_FEWEST = 2


@dataclass(frozen=True)
class JointValues:
    """Values of several judges with their joint variation over contexts.

    Parameters
    ----------
    values : ndarray, shape (judges,)
        One value per judge.
    errors : ndarray, shape (left-out contexts, judges)
        Their cross-products are the covariance of the values; NaN if a single context determines whether a value
        exists. Stored instead of the covariance, in which differences between judges that vary alike would be lost to
        rounding.
    contexts : int
        Number of contexts used.
    level : float
        Confidence level.
    """

    roles: ClassVar[tuple[str, ...]] = ("first", "second")

    values: Floats
    errors: Floats
    contexts: int
    level: float

    @classmethod
    def jackknifed(cls, values: Floats, contexts: int, level: float) -> Self:
        """Build from leave-one-context-out values, shape (1 + contexts, judges), the full sample first."""
        shifts = values[1:] - values[0]
        shifts[is_rounding(shifts, values[0])] = 0.0
        return cls(values[0], math.sqrt(max(contexts - 1, 0) / max(contexts, 1)) * shifts, contexts, level)

    def _missing(self) -> Remark:
        """Return why no joint estimate exists; empty if one does."""
        if np.isnan(self.values).any():
            return _NO_ESTIMATE.with_values(role=self.roles[int(np.isnan(self.values).argmax())])
        if self.contexts < _FEWEST or not np.isfinite(self.errors).all():
            return "no interval: whether there is an estimate depends on one context"
        return ""

    def combined(self, weights: ArrayLike) -> Estimate:
        """Estimate a weighted sum of the values, tested against 0 with t; no interval if contexts do not vary."""
        missing = self._missing()
        if missing:
            return undefined(missing, self.contexts)
        w = np.asarray(weights, float)
        value, error = float(w @ self.values), float(np.linalg.norm(self.errors @ w))
        largest = float(np.abs(self.values).max())
        if is_rounding(error, largest):
            if not is_rounding(value, largest):
                return without_interval(value, self.contexts, "no interval: no variation between contexts")
            return unvarying(0.0, self.contexts, self.level, None, math.nan)
        return estimate_by_t(value, error, self.contexts, self.level, METHOD)

    def quotient(self, top: ArrayLike, bottom: ArrayLike, nothing: Note) -> Estimate:
        """Estimate the quotient of two weighted sums of the values, with Fieller's interval and no test.

        Parameters
        ----------
        top, bottom : array_like of float, shape (judges,)
            Weights of the numerator and the denominator.
        nothing : Note
            Note if the denominator does not differ from 0, so that no quotient can be excluded; its value ``g`` is
            Fieller's, which is then at least 1.

        References
        ----------
        Fieller 1954, *Some Problems in Interval Estimation*, JRSS B 16(2).
        """
        missing = self._missing()
        if missing:
            return undefined(missing, self.contexts)
        one, two = np.asarray(top, float), np.asarray(bottom, float)
        s, t, errors = float(one @ self.values), float(two @ self.values), self.errors @ two
        q, v_t = float(special.stdtrit(self.contexts - 1, (1 + self.level) / 2)) ** 2, float(np.sum(errors**2))
        g = q * v_t / t**2 if t else math.inf
        if g >= 1:
            return undefined(nothing.with_values(g=f"{g:.3g}"), self.contexts)
        ratio = s / t
        # All r with (s − r t)² ≤ q var(s − r t), a quadratic that opens upwards, because g < 1. Centred at the ratio,
        # with the errors that remain there, it needs no small difference of large numbers.
        left = self.errors @ (one - ratio * two)
        a, c, v = t * t - q * v_t, float(errors @ left), float(left @ left)
        half = math.sqrt(q * (a * v + q * c * c))
        error = math.sqrt(v) / abs(t)
        low, high = ratio - (q * c + half) / a, ratio - (q * c - half) / a
        return Estimate(ratio, error, low, high, math.nan, math.nan, self.contexts, f"Fieller, {METHOD}")


def on_common_contexts(frames: Mapping[str, pd.DataFrame]) -> tuple[list[pd.DataFrame], int]:
    """Return the trials of contexts that all judges have judged, and the number of contexts dropped.

    Parameters
    ----------
    frames : mapping of str to pandas.DataFrame
        Trials with a column ``context_id``, by judge.

    Raises
    ------
    TrialsError
        If the judges have fewer than two contexts in common.
    """
    names = [set(frame["context_id"].unique()) for frame in frames.values()]
    common = set.intersection(*names)
    if len(common) < _FEWEST:
        of_each = "; ".join(f"{len(own)} of {name}" for name, own in zip(frames, names, strict=True))
        described = f"{len(common)} in common ({of_each})"
        raise TrialsError.plain(f"at least two common contexts are needed, not {described}")
    left_out = len(set.union(*names)) - len(common)
    return [frame[frame["context_id"].isin(common)] if left_out else frame for frame in frames.values()], left_out


def condition_names(estimates: pd.DataFrame, *besides: str) -> list[str]:
    """Return the columns that define the cells of one judge and data set, except some."""
    return [name for name in estimates.columns if name not in (*LEADING, *TRAILING, *besides)]


def rows_by_cell(rows: Iterable[Mapping[Any, Any]], columns: Sequence[str]) -> dict[CellKey, Mapping[Any, Any]]:
    """Return rows keyed by columns such as metric, data set and conditions (None if empty), without human-only metrics.

    Metrics that concern humans alone (``scorer`` "human") belong to neither judge.
    """
    cells = {}
    for row in rows:
        if row.get("scorer") != "human":
            key = (row.get(name) for name in columns)
            cells[tuple(None if value != value else value for value in key)] = row
    return cells


def where_apart(cells: Sequence[Mapping[CellKey, object]], columns: Sequence[str], roles: Sequence[str]) -> str:
    """Describe the columns in which judges have no value in common."""
    parts = []
    for at, name in enumerate(columns):
        ours = [sorted({str(key[at]) for key in keys}) for keys in cells]
        if not set.intersection(*map(set, ours)):
            of_each = [f"{', '.join(one)} for the {role}" for one, role in zip(ours, roles, strict=False)]
            parts.append(f"{name} is {' and '.join(of_each)}")
    return "; ".join(parts) or "no combination of them occurs for all"


def with_fast_intervals(probe: Any) -> Any:
    """Return a probe with the same estimates but without intervals, or with fast ones."""
    resampling = getattr(probe, "resampling", None)
    if resampling is None:
        return probe
    return replace(probe, resampling=replace(resampling, n=100, method="studentised", values_only=True))


@contextmanager
def suppressed_data_warnings() -> Iterator[None]:
    """Suppress warnings of missing data and shared requests that were already shown or are planted."""
    with warnings.catch_warnings():
        for kind in (MissingDataWarning, SharedRequestsWarning):
            warnings.simplefilter("ignore", kind)
        yield


def texts_as_objects(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with text converted to objects, for faster selection and comparison of rows."""
    return trials.astype(dict.fromkeys(trials.columns[trials.dtypes == "str"], object))


def estimated_rows(
    probe: Any, trials: Sequence[pd.DataFrame], metrics: Sequence[str]
) -> tuple[list[list[dict[str, Any]]], list[str]]:
    """Return the rows of each judge's estimates, with ``leave_one_out`` if known, and the condition columns."""
    if not hasattr(probe, "estimate_rows"):
        frames = [probe.estimate(frame, metrics) for frame in trials]
        return [frame.to_dict("records") for frame in frames], condition_names(frames[0])
    probe = replace(probe, resampling=replace(probe.resampling, leave_one_out=True))
    both = [probe.estimate_rows(frame, metrics) for frame in trials]
    return [rows for rows, _ in both], list(both[0][1])


def without_each(
    probe: Any,
    trials: Sequence[pd.DataFrame],
    cells: Sequence[Mapping[CellKey, Mapping[Any, Any]]],
    columns: Sequence[str],
    bar: str = "",
) -> Floats:
    """Return estimates without each context, or without each cluster of contexts that share requests.

    They are those that estimates carry (``leave_one_out``); estimates that carry none are computed anew without each.

    Parameters
    ----------
    probe : Probe
        The probe that made the estimates.
    trials : sequence of pandas.DataFrame
        One per judge, with the same contexts.
    cells : sequence of dict
        The rows of each judge, as returned by `rows_by_cell`, of the same cells.
    columns : sequence of str
        Columns of the estimates that identify cells, the metric first.
    bar : str
        Label of the progress bar; empty for no bar.

    Returns
    -------
    ndarray, shape (keys, contexts, judges)
        NaN if there is no estimate.
    """
    shared = shared_requests(pd.concat([frame.filter(["context_id", "key", "probe"]) for frame in trials]))
    resampling = joined(getattr(probe, "resampling", Resampling()), shared)
    units = [pd.Series(resampling.cluster_of(frame["context_id"]), frame.index, object) for frame in trials]
    names = pd.Index(units[0].unique(), dtype=object)
    is_text = all(isinstance(name, str) for name in names)  # a number may also stand for a context
    values = np.full((len(cells[0]), len(names), len(trials)), math.nan)
    anew: list[tuple[int, CellKey, int]] = []
    for role, rows in enumerate(cells):
        for at, (key, row) in enumerate(rows.items()):
            left_out = carried(row["estimate"], row.get("leave_one_out"), names) if is_text else None
            if left_out is None and not math.isnan(row["estimate"]):
                anew.append((at, key, role))
            elif left_out is not None:
                values[at, :, role] = left_out[1:]
    quick, wanted = with_fast_intervals(probe), list(dict.fromkeys(key[0] for _, key, _ in anew))
    trials = [texts_as_objects(frame) for frame in trials] if anew else []
    with suppressed_data_warnings():  # these were issued for the complete trials
        for number, name in enumerate(progress_bar(names if anew else [], desc=bar, unit="context", disable=not bar)):
            rest = [
                rows_by_cell(quick.estimate(frame[unit != name], wanted).to_dict("records"), columns)
                for frame, unit in zip(trials, units, strict=True)
            ]
            for at, key, role in anew:
                values[at, number, role] = rest[role][key]["estimate"] if key in rest[role] else math.nan
    return values


def carried(estimate: float, left_out: tuple[NDArray[Any], Floats] | None, names: pd.Index) -> Floats | None:
    """Return an estimate over all units and without each of the named ones, as far as it carries these values.

    Examples
    --------
    >>> carried(0.5, (np.array(["a", "b"], object), np.array([0.5, 0.4, 0.6])), pd.Index(["b", "a", "c"])).tolist()
    [0.5, 0.6, 0.4, 0.5]
    """
    if left_out is None:
        return None
    own, values = left_out
    at = names.get_indexer(pd.Index(own, dtype=object))
    if (at < 0).any() or not is_rounding(values[0] - estimate, estimate):  # of other units, or changed since
        return None
    without = np.full(1 + len(names), estimate)  # units that do not enter leave it as it is
    without[1 + at] = values[1:]
    return without
