"""Before and after in one frame: the probe's estimates of both, and their difference on the same contexts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core import Metric
from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.correct.mitigation.applied import Remedy
from biaslab.stats import Estimate, Resampling, Statistic, cluster_statistic, clustered, require_columns, undefined
from biaslab.stats.together import quickly, suppressed_data_warnings, texts_as_objects

_COLUMNS = ("judge", "dataset", "attribute", "context_id")


class Estimator(Protocol):
    """A bias measure for trials: any probe, or `biaslab.mitigation.HumanScale`."""

    name: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates frame."""


@dataclass(frozen=True)
class Case:
    """A remedy to measure.

    Parameters
    ----------
    probe : Probe
        The probe whose estimator measures the bias.
    metric : str
        Name of the metric.
    remedy : str
        Name of the remedy.
    before : pandas.DataFrame
        Trials without the remedy, of one judge.
    after : pandas.DataFrame or callable
        Trials with the remedy, on the same contexts; or a function that computes them (`biaslab.mitigation.applied`).
    where : mapping
        Condition columns of the estimates and their values, if the metric has several rows.
    """

    probe: Estimator
    metric: str
    remedy: str
    before: pd.DataFrame
    after: pd.DataFrame | Remedy
    where: Mapping[str, object] = field(default_factory=dict)


def remedies(cases: Sequence[Case], resampling: Resampling | None = None) -> pd.DataFrame:
    """Measure each remedy: the metric before and after, and their difference, paired over contexts.

    Parameters
    ----------
    cases : sequence of Case
        The cases to measure.
    resampling : Resampling, optional
        Confidence level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per case and attribute: ``bias`` (name of the probe), ``judge, dataset, attribute, metric, remedy``;
        ``null`` (value without bias); ``before, before_se, before_low, before_high`` and the same for ``after``;
        ``difference`` (after minus before) with ``se, ci_low, ci_high, ci_level, p_value`` (against 0: the remedy has
        no effect; unlike in `biaslab.report.card`, not corrected for the number of remedies);
        ``tokens_before, tokens_after`` (per judgement, NaN if unknown); ``n_contexts, method, note``. Undefined values
        are NaN with a note.

        All three are computed on the contexts in both sets of trials, with jackknife intervals over contexts and
        Student's t: each context is left out of both sets, and whatever the remedy fits is refitted without it. Fits
        are cross-fitted. Because folds take turns, their errors cancel in the mean: the interval of ``after`` is about
        all contexts together, and a fit applied to new contexts is off by about as much as ``before`` is uncertain.

    Raises
    ------
    InputError
        If there is no case, trials are of several judges, no context is in both sets, or a metric has several rows
        that ``where`` does not distinguish.
    TrialsError
        If a column is missing.

    References
    ----------
    Efron & Tibshirani 1993, *An Introduction to the Bootstrap*, ch. 11 (jackknife).
    """
    if not cases:
        raise InputError("cases", [], "at least one remedy to measure")
    resampling = replace(resampling or Resampling(), method="studentised")
    rows = [row for case in cases for row in _measured(case, resampling)]
    return pd.DataFrame(rows)


def as_estimates(found: pd.DataFrame) -> pd.DataFrame:
    """Reshape the result of `remedies` into an estimates frame, for plots and tables.

    Parameters
    ----------
    found : pandas.DataFrame
        The result of `remedies`.

    Returns
    -------
    pandas.DataFrame
        Two rows for each: ``probe, judge, dataset, metric, attribute, remedy``, ``state`` ("before" or "after"),
        ``estimate, ci_low, ci_high, ci_level, n_contexts``.
    """
    shared = ["judge", "dataset", "metric", "attribute", "remedy", "ci_level", "n_contexts"]
    require_columns(found, ["bias", *shared], "found")
    parts = [
        found[shared].assign(
            probe=found["bias"],
            state=state,
            estimate=found[state],
            ci_low=found[f"{state}_low"],
            ci_high=found[f"{state}_high"],
        )
        for state in ("before", "after")
    ]
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def _measured(case: Case, resampling: Resampling) -> Iterator[dict[str, Any]]:
    """Yield the rows of one case, one per attribute."""
    frames = {"before": case.before} | ({"after": case.after} if isinstance(case.after, pd.DataFrame) else {})
    for name, trials in frames.items():
        require_columns(trials, _COLUMNS, name)
        if len(judges := set(trials["judge"])) != 1:
            raise InputError(name, sorted(judges), "trials of one judge", "measure each judge separately")
    known = set.intersection(*(set(trials["attribute"]) for trials in frames.values()))
    for attribute in [name for name in dict.fromkeys(case.before["attribute"]) if name in known]:
        both = _Both.of(case, attribute)
        where = {name: case.before[name].iloc[0] for name in ("judge", "dataset")}
        yield {"bias": case.probe.name, **where, "attribute": attribute} | both.row(resampling)


@dataclass(frozen=True, eq=False)
class _Both:
    """Trials of one attribute before and, if they are a second set, after; and the contexts in both."""

    case: Case
    probe: Estimator
    before: pd.DataFrame
    after: pd.DataFrame | None
    contexts: NDArray[Any]

    @classmethod
    def of(cls, case: Case, attribute: str) -> _Both:
        """Keep the contexts that both sets have."""
        before = case.before[case.before["attribute"] == attribute]
        after = case.after if isinstance(case.after, pd.DataFrame) else None
        after = None if after is None else after[after["attribute"] == attribute]
        shared = before["context_id"] if after is None else before["context_id"][_among(before, after)]
        contexts = np.asarray(shared.unique(), object)
        if not len(contexts):
            raise InputError("after", "other contexts", "trials of contexts that are also in before")
        after = None if after is None else texts_as_objects(after)
        return cls(case, quickly(case.probe), texts_as_objects(before), after, contexts)

    def row(self, resampling: Resampling) -> dict[str, Any]:
        """Return the estimates of both states, their difference, and the cost per judgement."""
        known: dict[bytes, tuple[float, float]] = {}

        def values(weights: Floats) -> Floats:
            for row in weights:
                if row.tobytes() not in known:
                    known[row.tobytes()] = self._values(self.contexts[row > 0])
            return np.array([known[row.tobytes()] for row in weights])

        how, n = clustered(resampling, self.before, self.contexts, "remedies"), len(self.contexts)
        codes, clusters = pd.factorize(how.cluster_of(np.arange(n)))
        null = self._null
        statistics: tuple[tuple[Statistic, float | None], ...] = (
            (lambda weights: values(weights[:, codes])[:, 0], null),
            (lambda weights: values(weights[:, codes])[:, 1], null),
            (lambda weights: np.diff(values(weights[:, codes]))[:, 0], 0.0),
        )
        estimates = (cluster_statistic(one, len(clusters), how, at, inference="t") for one, at in statistics)
        before, after, gap = (_or_undefined(each, n) for each in estimates)
        shown = {"metric": self.case.metric, "remedy": self.case.remedy, "null": math.nan if null is None else null}
        for name, estimate in (("before", before), ("after", after)):
            interval = {f"{name}_low": estimate.ci_low, f"{name}_high": estimate.ci_high}
            shown |= {name: estimate.estimate, f"{name}_se": estimate.se} | interval
        tokens = dict(zip(("tokens_before", "tokens_after"), map(_tokens, self._states(self.contexts)), strict=True))
        interval = {"ci_low": gap.ci_low, "ci_high": gap.ci_high, "ci_level": how.level}
        test = {"se": gap.se, **interval, "p_value": gap.p_value}
        end = {"n_contexts": gap.n_contexts, "method": gap.method, "note": gap.note}
        return shown | {"difference": gap.estimate} | test | tokens | end

    @property
    def _null(self) -> float | None:
        return next((metric.null for metric in self.probe.metrics if metric.name == self.case.metric), None)

    def _states(self, contexts: NDArray[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the trials before and after, restricted to some contexts; computed remedies are fitted on these."""
        before = self.before[self.before["context_id"].isin(contexts)]
        if not isinstance(self.case.after, pd.DataFrame):
            return before, self.case.after(before)
        assert self.after is not None  # noqa: S101 - there is a second set
        return before, self.after[self.after["context_id"].isin(contexts)]

    def _values(self, contexts: NDArray[Any]) -> tuple[float, float]:
        before, after = (self._value(trials) for trials in self._states(contexts))
        return before, after

    def _value(self, trials: pd.DataFrame) -> float:
        """Return the probe's own estimate; NaN if undefined."""
        with suppressed_data_warnings():
            estimates = self.probe.estimate(trials, [self.case.metric])
        for column, wanted in self.case.where.items():
            estimates = estimates[estimates[column] == wanted]
        if len(estimates) != 1:
            allowed = f"values of condition columns that leave one row of {self.case.metric}, not {len(estimates)}"
            raise InputError("where", dict(self.case.where), allowed)
        return float(estimates["estimate"].iloc[0])


def _among(trials: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
    return trials["context_id"].isin(set(others["context_id"]))


def _or_undefined(estimate: Estimate, contexts: int) -> Estimate:
    return estimate if not math.isnan(estimate.estimate) else undefined(estimate.note or "undefined", contexts)


def _tokens(trials: pd.DataFrame) -> float:
    return float(trials["tokens"].mean()) if "tokens" in trials else math.nan
