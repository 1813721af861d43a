"""Compare judges: the difference in any metric of any probe, paired over the contexts that both judged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.checks import require_one_of, require_probe
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import difference_of, find_metric
from biaslab.probes import find_probe
from biaslab.probes.base.probe import Probe
from biaslab.stats import joint_jackknife
from biaslab.stats.estimate import Estimate, because, undefined
from biaslab.stats.frame import estimates_frame, require_columns
from biaslab.stats.joint_jackknife import CellKey, JointValues, condition_names, without_each
from biaslab.stats.sequential import require_fixed
from biaslab.stats.t_inference import effect_and_notes, p_by_t, student

_ROLES = ("reference", "other")
_UNPAIRED = "standard errors added, t over contexts"
_MINUS = " − "
Cells = dict[CellKey, Mapping[Any, Any]]


def compare(
    found: pd.DataFrame | Sequence[pd.DataFrame],
    by: str = "judge",
    metrics: Sequence[str] | None = None,
    *,
    reference: object = None,
    probe: Probe | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Compare judges, or prompts, temperatures or versions of one judge, on the contexts that both judged.

    Drift is a special case: the trials of last month and today's, distinguished by an additional column.

    Parameters
    ----------
    found : pandas.DataFrame or sequence of pandas.DataFrame
        Trials, made by `biaslab.collect` or `biaslab.read_judgements`, of one or several probes. Or estimates, which
        do not reveal shared contexts, so that their difference is treated as one between independent samples.
    by : str
        Column that identifies what is compared.
    metrics : sequence of str, optional
        By default the primary metrics of each probe.
    reference : optional
        Value of ``by`` with which all others are compared; by default the first.
    probe : Probe, optional
        For trials of a single probe: the probe with its parameters. By default the probe with default parameters.
    progress : bool
        Show a progress bar.

    Returns
    -------
    pandas.DataFrame
        An estimates frame. Each metric has three rows per cell and pair, by ``role``: "reference" and "other", the
        estimates of both on their common contexts, and "difference", the other's minus the reference's, as metric
        ``<metric>_difference`` (null 0). ``compared`` holds the values of ``by``. q-values are computed over the
        differences. ``attrs["contexts_left_out"]`` is the maximum number of contexts that only one of a pair judged.

    Raises
    ------
    InputError
        If ``by`` is not a column, has a single value, or lacks the reference; or a metric is unknown.
    TrialsError
        If a pair has fewer than two contexts, or no cell of the probe, in common; the message says how they differ.

    Notes
    -----
    Both estimates are based on the same contexts and therefore correlated: the variance of their difference comes from
    leaving out one context at a time, Var(θ₂ − θ₁) = (G − 1) / G Σ (Δ₍g₎ − Δ)², and interval and test use Student's t
    with G − 1 degrees of freedom. Contexts that share requests are left out together. If one judge was asked for label
    probabilities and the other for text, metrics that depend on this, such as logits, also differ for that reason.

    References
    ----------
    Efron & Tibshirani 1993, *An Introduction to the Bootstrap*, ch. 11.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=12)
    >>> probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    >>> judges = [bl.SimulatedJudge(data, position=size, context_noise=1.0) for size in (0.0, 1.5)]
    >>> trials = [bl.collect(probe, judge, data, progress=False) for judge in judges]
    >>> frame = compare(trials, metrics=["first_position_rate"], progress=False)
    >>> row = frame[frame["role"] == "difference"].iloc[0]
    >>> row["metric"], bool(row["ci_low"] > 0)
    ('first_position_rate_difference', True)
    """
    if not isinstance(by, str):
        several = "pass several frames as a list: biaslab.compare([first, second])"
        raise InputError("by", by, "the name of a column, such as 'judge'", several)
    if isinstance(reference, pd.DataFrame):
        raise InputError("reference", reference, f"a value of the column {by!r}", "pass all frames as a list")
    if probe is not None:
        require_probe(probe)
    frames = [found] if isinstance(found, pd.DataFrame | str) else list(found)
    if not frames or not all(isinstance(each, pd.DataFrame) for each in frames):
        raise InputError("found", found, "a frame of trials or estimates, or a list of such frames")
    frame = found if isinstance(found, pd.DataFrame) else pd.concat(frames, ignore_index=True)
    values = _values(frame, by)
    first = values[0] if reference is None else reference
    if first not in values:
        raise InputError("reference", first, f"one of {', '.join(map(str, values))}")
    require_columns(frame, ("probe", "judge", "dataset"), "found")
    require_fixed(frame, "a comparison")
    each = [(rows, own, other) for rows, own in _of_probes(frame, probe) for other in values if other != first]
    pairs = [_Pair(by, (first, other), rows, own, metrics).compared(progress) for rows, own, other in each]
    comparisons = pd.concat(pairs, ignore_index=True)
    comparisons.attrs["contexts_left_out"] = max(differences.attrs["contexts_left_out"] for differences in pairs)
    return comparisons


class _Pair:
    """Two values of a column, and the rows of one probe."""

    def __init__(
        self, by: str, names: tuple[Any, Any], rows: pd.DataFrame, probe: Probe | None, metrics: Sequence[str] | None
    ) -> None:
        self.by, self.names, self.probe, self.metrics = by, names, probe, metrics
        self.name = str(rows["probe"].iloc[0]) if probe is None else probe.name
        self.parts = {str(name): rows[rows[by] == name] for name in names}

    def compared(self, progress: bool) -> pd.DataFrame:
        """Return the rows of the pair."""
        estimates = self._of_estimates() if self.probe is None else self._of_trials(self.probe, progress)
        rows, conditions, left_out = estimates
        primary = {row["metric"] for row in rows if row["role"] == "difference"}
        frame = estimates_frame(rows, self.name, sorted(primary), ("role", "compared", *conditions))
        frame.attrs["contexts_left_out"] = left_out
        return frame

    def _of_estimates(self) -> tuple[list[dict[str, Any]], list[str], int]:
        """Return rows, condition names and the number of contexts left out (unknown from estimates, so 0)."""
        frames = list(self.parts.values())
        wanted = self.metrics or [m for m in dict.fromkeys(frames[0]["metric"]) if find_metric(m, self.name).primary]
        frames = [frame[frame["metric"].isin(list(wanted))] for frame in frames]
        conditions = condition_names(frames[0], *self._free(frames))
        cells = self._cells([frame.to_dict("records") for frame in frames], conditions)
        rows = [row for key in cells[0] for row in self._rows(key, [each[key] for each in cells], _unpaired)]
        return rows, conditions, 0

    def _of_trials(self, probe: Probe, progress: bool) -> tuple[list[dict[str, Any]], list[str], int]:
        """Return rows, condition names and the number of contexts left out from trials, paired by context."""
        wanted = list(probe.primary if self.metrics is None else self.metrics)
        trials, left_out = joint_jackknife.on_common_contexts(self.parts)
        (own, conditions), free = joint_jackknife.estimated_rows(probe, trials, wanted), self._free(trials)
        conditions = [name for name in conditions if name not in free]
        cells = self._cells(own, conditions)
        bar = f"{self.name} without" if progress else ""
        drawn = without_each(probe, trials, cells, self._columns(conditions), bar)
        rows: list[dict[str, Any]] = []
        for key, left in zip(cells[0], drawn, strict=True):
            rows += self._rows(key, [each[key] for each in cells], partial(_paired, left))
        return rows, conditions, left_out

    def _free(self, frames: Sequence[pd.DataFrame]) -> tuple[str, ...]:
        """Return the columns in which the two may differ: the compared one and, if each has a single value, ``how``."""
        single = all("answer" in frame and len(frame["answer"].unique()) == 1 for frame in frames)
        return (self.by, "answer") if single else (self.by,)

    def _columns(self, conditions: Sequence[str]) -> list[str]:
        """Return the columns that identify cells."""
        return ["metric", "dataset", *(["judge"] if self.by != "judge" else []), *conditions]

    def _cells(self, rows_of_each: Sequence[Sequence[Mapping[Any, Any]]], conditions: Sequence[str]) -> list[Cells]:
        """Return the rows of both for their common cells, in the order of the first."""
        columns = self._columns(conditions)
        cells = [joint_jackknife.rows_by_cell(rows, columns) for rows in rows_of_each]
        both = [key for key in cells[0] if key in cells[1]]
        if not both:
            differing = joint_jackknife.where_apart(cells, columns, [str(name) for name in self.names])
            raise TrialsError.plain(f"there is no common cell: {differing}; ask both under the same conditions")
        return [{key: rows[key] for key in both} for rows in cells]

    def _rows(self, key: CellKey, pair: Sequence[Mapping[Any, Any]], difference: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of one cell: both estimates and their difference."""
        for role, name, row in zip(_ROLES, self.names, pair, strict=True):
            yield {**row, "role": role, "compared": str(name)}
        words = _MINUS.join(map(str, reversed(self.names)))
        judge = words if self.by == "judge" else pair[0]["judge"]
        metric = difference_of(find_metric(str(key[0]), self.name)).name
        facts = {name: sum(row[name] for row in pair) for name in ("n_trials", "n_dropped")}
        facts |= {name: pair[1][name] for name in ("ci_level", "seed")}
        where = {"metric": metric, "judge": judge, "role": "difference", "compared": words}
        yield {**pair[0], **facts, **where, **difference(pair).row()}


def _paired(left: np.ndarray, pair: Sequence[Mapping[Any, Any]]) -> Estimate:
    """Estimate the difference of two paired estimates."""
    values = np.vstack([[row["estimate"] for row in pair], left])
    contexts = min(int(row["n_contexts"]) for row in pair)
    estimate = JointValues.jackknifed(values, contexts, float(pair[0]["ci_level"])).combined([-1.0, 1.0])
    if math.isnan(estimate.estimate) and not np.isnan(values[0]).any():
        return replace(estimate, estimate=float(values[0, 1] - values[0, 0]))
    return estimate


def _unpaired(pair: Sequence[Mapping[Any, Any]]) -> Estimate:
    """Estimate the difference of two estimates treated as independent."""
    contexts = min(int(row["n_contexts"]) for row in pair)
    value = float(pair[1]["estimate"] - pair[0]["estimate"])
    error = math.hypot(*(float(row["se"]) for row in pair))
    if not error > 0:
        return undefined(because("no_standard_error", "an estimate without standard error"), contexts)
    low, high = student(value, error, contexts, float(pair[0]["ci_level"]))
    effect, notes = effect_and_notes(error, contexts)
    found = Estimate(value, error, low, high, p_by_t(value, error, contexts), effect, contexts, _UNPAIRED, notes)
    return found.noted("treated as independent; pairing trials by context would be more precise")


def _values(frame: pd.DataFrame, by: str) -> list[object]:
    """Return the values to compare; raise `InputError` if there are fewer than two."""
    require_one_of("by", by, tuple(map(str, frame.columns)))
    values = list(frame[by].dropna().unique())
    if len(values) < len(_ROLES):
        allowed = "a column with at least two values"
        raise InputError("by", by, allowed, f"here all rows have {', '.join(map(str, values)) or 'no value'}")
    return values


def _of_probes(frame: pd.DataFrame, probe: Probe | None) -> Iterator[tuple[pd.DataFrame, Probe | None]]:
    """Yield the rows of each probe with their estimator, which frames of estimates do not need."""
    if "estimate" in frame:
        yield from ((rows, None) for _, rows in frame.groupby("probe", sort=False))
        return
    for name in [probe.name] if probe is not None else frame["probe"].unique():
        if name == "recorded":
            remedy = "such as biaslab.probes.Position()"
            raise InputError.plain(f"probe is missing, expected: a probe to estimate recorded judgements; {remedy}")
        wanted = probe or find_probe(str(name))()
        accepted = wanted.accepts(frame)
        if accepted.trials.empty:
            raise TrialsError.plain(f"found has no trials that the probe {name} can estimate: {accepted.note}")
        yield accepted.trials, accepted.probe or wanted
