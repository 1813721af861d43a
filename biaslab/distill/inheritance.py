"""Bias inheritance: the share of the teacher's bias that a student has, per metric, with an interval.

Wang et al. (2023) distil a judge into a small evaluator without asking which biases it inherits. Here a probe is run
on both, on the same contexts, and each metric of the student is compared with the teacher's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import ProbeInterface
from biaslab.core.metrics import Metric
from biaslab.stats import joint_jackknife
from biaslab.stats.blocks import ITEM, usable
from biaslab.stats.estimate import Estimate, because, is_above
from biaslab.stats.frame import estimates_frame, require_columns
from biaslab.stats.joint_jackknife import JointValues, rows_by_cell, where_apart, without_each
from biaslab.stats.t_inference import effect_and_notes

ROLES = ("teacher", "student", "control")
#: Columns that describe how a judge was asked, which may differ between teacher and student.
_MAY_DIFFER = ("answer",)
_NOT_ABOVE_0 = "the teacher's own bias is not distinguishable from zero (Fieller's g = {g} ≥ 1)"
_NO_SHARE = because("bias_not_above_0", _NOT_ABOVE_0)


def bias_inheritance(
    probe: ProbeInterface,
    teacher: pd.DataFrame,
    student: pd.DataFrame,
    metrics: Sequence[str] | None = None,
    progress: bool = True,
    *,
    control: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Estimate the share of each of the teacher's biases that a student inherited.

    Parameters
    ----------
    probe : Probe
        The probe; its ``estimate`` is called once, and once more leaving out each context.
    teacher, student : pandas.DataFrame
        Trials of this probe on the same contexts, made by `biaslab.collect`, of one judge each. Use contexts on which
        the student was not trained. The column ``answer`` may differ; contexts that not all judged are dropped.
    metrics : sequence of str, optional
        Metrics that have a null; by default the probe's primary ones.
    progress : bool
        Show a progress bar.
    control : pandas.DataFrame, optional
        Trials of a student trained the same way by a teacher without the bias. A student may have a bias of its own,
        and whatever its control shows as well was not inherited: the share is then computed for the difference of the
        two.

    Returns
    -------
    pandas.DataFrame
        An estimates frame. A cell of the probe (attribute …) has one row for each ``role``, with the metric's name in
        the column ``of``:

        "teacher", "student", "control"
            Their own estimates: ``metric`` is that of the probe, ``judge`` their name.
        "difference"
            ``bias_difference``, the student's minus the teacher's (null 0), even if there is no share.
        "inherited"
            ``bias_inherited``, the student's minus the control's (null 0), if there is a control.
        "share"
            ``bias_share``, (student's − null) / (teacher's − null), or (student's − control's) / (teacher's − null). p
            tests a share of 1. ``verdict`` interprets the interval: *keeps* (above 0, contains 1), *keeps or
            amplifies* (also reaches 2), *keeps a part* (between 0 and 1), *amplifies* (above 1), *loses* (between −1
            and 1, contains 0), *reverses* (below 0), *cannot be told* (anything wider, or no share).

        Metrics in units of the standard deviation of the judge's own scores occur twice, by ``unit``: see the notes.
        q-values are computed over shares and own estimates together. ``attrs["contexts_left_out"]`` counts contexts
        that not all judged.

    Raises
    ------
    InputError
        If a metric is unknown or has no null.
    TrialsError
        If a frame has several judges, or fewer than two contexts, or no cell of the probe, are shared.

    Notes
    -----
    Both estimates are based on the same contexts and therefore correlated. Their covariance comes from leaving out one
    context at a time, (G − 1) / G Σ (θ₍g₎ − θ)(θ₍g₎ − θ)ᵀ, and the interval is Fieller's (1954): all shares r for
    which student's − r × teacher's does not differ from 0 by t with G − 1 degrees of freedom. If the teacher's own
    bias does not differ from its null (Fieller's g ≥ 1), no share can be excluded: it is NaN, with a ``note``. The
    share is thus estimated only for significant biases of the teacher, and a barely significant one tends to be
    overestimated, and its share underestimated; judge more contexts in that case.

    The student is treated as fixed: the interval is over contexts, and does not reflect variation between training
    runs.

    **Which units are comparable.** A share is a property of the two judges only if it is unaffected by noise.

    * In *points* of the scale and in *logits*, noise of the student does not affect the share. Teacher and student
      must use the same scale, and stay away from its ends, which truncate noisier scores more. A student that shrinks
      all its scores towards the mean, as regressions do, shrinks its biases as much as its sensitivity to quality: it
      then loses in points what it keeps in SD.
    * In *SD* of a judge's own scores (``verbosity_slope``, ``familiarity_slope``) a noisier student has a smaller
      bias, and a smoother one a larger bias, than in points, by the ratio of the two standard deviations. This is the
      bias's contribution to all of the student's scores, within and between contexts. A student that separates
      contexts better than their candidates has a small share, but may still rank candidates by the bias. If the two
      units disagree, report both. Points are SD times the standard deviation of the scores of items with human
      ratings.
    * Rank correlations (``verbosity_excess``, ``agreement_loss``) and rates (``first_position_rate``) are attenuated
      towards their null by noise, so a share below 1 may be due to noise alone. Prefer a slope or a logit.

    References
    ----------
    Fieller 1954, *Some Problems in Interval Estimation*, JRSS B 16(2); Efron & Tibshirani 1993, ch. 11.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=24)
    >>> probe = bl.probes.Verbosity(attributes=["coherence"])
    >>> judges = [bl.SimulatedJudge(data, quality=0.5, verbosity=size) for size in (1.0, 0.5)]
    >>> teacher, student = (bl.collect(probe, judge, data, progress=False) for judge in judges)
    >>> estimates = bias_inheritance(probe, teacher, student, progress=False)
    >>> estimates.loc[estimates["role"] == "share", ["unit", "estimate", "verdict"]].round(1).to_numpy().tolist()
    [['SD', 0.5, 'keeps a part'], ['points', 0.5, 'keeps a part']]
    """
    wanted = _require_metrics(probe, metrics)
    trials, left_out = _common([frame for frame in (teacher, student, control) if frame is not None])
    own, conditions = joint_jackknife.estimated_rows(probe, trials, list(wanted))
    conditions = [name for name in conditions if name not in _MAY_DIFFER]
    columns = ("metric", "dataset", *conditions)
    cells = [rows_by_cell(one, columns) for one in own]
    keys = [key for key in cells[0] if all(key in other for other in cells[1:])]
    if not keys:
        difference = where_apart(cells, columns, ROLES)
        raise TrialsError.plain(f"there is no common cell: {difference}; ask all under the same conditions")
    cells = [{key: part[key] for key in keys} for part in cells]
    drawn = without_each(probe, trials, cells, columns, f"{probe.name} without" if progress else "")
    rows: list[dict[str, Any]] = []
    for key, values in zip(keys, drawn, strict=True):
        metric, pair = wanted[key[0]], [part[key] for part in cells]
        where = dict(zip(("dataset", *conditions), key[1:], strict=True)) | {"of": metric.name, "unit": metric.unit}
        values = np.vstack([[[row["estimate"] for row in pair]], values]) - metric.null
        rows += [dict(row) | where | {"role": role} for role, row in zip(ROLES, pair, strict=False)]
        rows += _compared(values, pair, where)
        if metric.unit == "SD" and all({"human", *ITEM} <= set(frame.columns) for frame in trials):
            rows += _compared(values * _spreads(trials, where), pair, where | {"unit": "points"}, own=True)
    frame = estimates_frame(rows, probe.name, ("bias_share", *wanted), ("of", "unit", "role", *conditions, "verdict"))
    frame.attrs["contexts_left_out"] = left_out
    return frame


def _require_metrics(probe: ProbeInterface, metrics: Sequence[str] | None) -> dict[str, Metric]:
    """Return the requested metrics by name; each has a null."""
    by_name = {metric.name: metric for metric in probe.metrics}
    tested = [name for name, metric in by_name.items() if metric.null is not None and not metric.quality]
    wanted = probe.primary if metrics is None else metrics
    unknown = [wanted] if isinstance(wanted, str) else [name for name in wanted if name not in tested]
    if unknown or not wanted:
        raise InputError("metrics", unknown or wanted, f"a list of metrics with a null: {', '.join(tested)}")
    return {name: by_name[name] for name in dict.fromkeys(wanted)}


def _common(trials: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], int]:
    """Return the trials on contexts that all judged, and the number of excluded contexts."""
    for role, frame in zip(ROLES, trials, strict=False):
        require_columns(frame, ("judge", "dataset", "context_id"), f"{role}'s trials")
        judges = sorted(set(frame["judge"]))
        if len(judges) != 1:
            raise TrialsError.plain(f"{role}'s trials have {len(judges)} judges; select the rows of one")
    return joint_jackknife.on_common_contexts(dict(zip(ROLES, trials, strict=False)))


def _compared(
    values: Floats, pair: Sequence[Mapping[Any, Any]], where: Mapping[str, Any], own: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the rows of difference and share, and of the judges' own estimates if the probe gives none."""
    contexts = min(int(row["n_contexts"]) for row in pair)
    judged, unit = TeacherAndStudent.jackknifed(values, contexts, float(pair[0]["ci_level"])), np.eye(len(pair))
    facts = {name: sum(row[name] for row in pair) for name in ("n_trials", "n_dropped")}
    facts |= {name: pair[1][name] for name in ("judge", "ci_level", "seed")}
    if own:
        for role, row, weights in zip(ROLES, pair, unit, strict=False):
            yield {**row, **where, "role": role, **judged.combined(weights).row()}
    difference = judged.combined(unit[1] - unit[0])
    yield {**where, **facts, "metric": "bias_difference", "role": "difference", **difference.row()}
    if len(pair) > 2:
        inherited = judged.combined(judged.inherited)
        yield {**where, **facts, "metric": "bias_inherited", "role": "inherited", **inherited.row()}
    share = judged.share()
    yield {**where, **facts, "metric": "bias_share", "role": "share", "verdict": verdict_of(share), **share.row()}


def _spreads(trials: Sequence[pd.DataFrame], where: Mapping[str, Any]) -> Floats:
    """Return the standard deviation of each judge's item scores, whole and without each context: (1 + G, judges)."""
    names = {name: at for at, name in enumerate(dict.fromkeys(trials[0]["context_id"]))}
    columns = []
    for frame in trials:
        same = {name: value for name, value in where.items() if value is not None and name in frame.columns}
        same |= {"asked": "score"} if "asked" in frame.columns else {}
        chosen = usable(frame[(frame[list(same)] == pd.Series(same)).all(axis=1) & frame["human"].notna()])
        scores = chosen.groupby(list(ITEM), sort=False)["value"].mean()
        scores -= scores.mean()
        at = scores.index.get_level_values(0).map(names).to_numpy()
        sums = np.array([np.bincount(at, scores**power, len(names)) for power in (0, 1, 2)])
        n, first, second = np.column_stack([sums.sum(axis=1), sums.sum(axis=1)[:, None] - sums])
        with np.errstate(invalid="ignore", divide="ignore"):
            columns.append(np.sqrt(np.maximum(second - first**2 / n, 0.0) / (n - 1)))
    return np.column_stack(columns)


class TeacherAndStudent(JointValues):
    """Distances of teacher, student and optional control from the null, with their covariance over contexts.

    ``values`` are the distances: the teacher's, the student's and, if there is a control, its own.
    """

    roles: ClassVar[tuple[str, ...]] = ROLES

    @property
    def inherited(self) -> Floats:
        """Weights of the inherited bias: the student's bias, minus the control's if there is one."""
        return np.array([0.0, 1.0, -1.0][: len(self.values)])

    def share(self) -> Estimate:
        """Estimate inherited / teacher's with Fieller's interval, tested against 1; NaN if the teacher has none."""
        own = np.eye(len(self.values))[0]
        difference = self.combined(self.inherited - own)
        if math.isnan(difference.estimate):
            return difference
        estimate = self.quotient(self.inherited, own, _NO_SHARE)
        if math.isnan(estimate.estimate):
            return estimate
        effect, notes = effect_and_notes(estimate.se, self.contexts)
        return replace(estimate, p_value=difference.p_value, mde=effect, notes=notes)


def verdict_of(share: Estimate) -> str:
    """Interpret the interval of a share: which of none (0), part, all (1), more and the opposite it includes.

    Wide intervals are less informative: *keeps* and *loses* require one that extends less than 1 beyond all of the
    bias and beyond none.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from biaslab.stats.estimate import undefined
    >>> estimate = undefined("no bias")
    >>> verdict_of(estimate), verdict_of(replace(estimate, estimate=0.9, ci_low=0.6, ci_high=1.3))
    ('cannot be told', 'keeps')
    >>> verdict_of(replace(estimate, estimate=-2.0, ci_low=-10.9, ci_high=0.92))
    'cannot be told'
    """
    low, high = share.ci_low, share.ci_high
    some, part = is_above(low, 0, size=1), is_above(1, high)
    if math.isnan(low) or not (some or part):
        return "cannot be told"
    if is_above(low, 1):
        return "amplifies"
    if is_above(0, high, size=1):
        return "reverses"
    if not some:
        return "loses" if is_above(low, -1) else "cannot be told"
    if part:
        return "keeps a part"
    return "keeps" if is_above(2, high) else "keeps or amplifies"
