"""Measure remedies: the bias before and after on held-out contexts, and the cost in tokens.

Whatever is fitted is fitted on other contexts than those it is applied to.

`order_averaging`, `debiased`, `content_free_prior`, `length_regression`, `human_scale` and `pooled` (a panel) are
computed from existing judgements; remedies that change the prompt (a rubric, reasons first, hidden names, delimiters)
require a second set of judgements.

Examples
--------
>>> import biaslab as bl
>>> data = bl.load_dataset("graded", limit=8)
>>> probe = bl.probes.Position(["coherence"], [1])
>>> trials = bl.collect(probe, bl.SimulatedJudge(data, position=1.0, noise=0.5), data, progress=False)
>>> found = remedies([Case(probe, "first_position_logit", "order averaging", trials, order_averaging)])
>>> found[["bias", "remedy", "before", "after", "difference"]].round(1).to_numpy().tolist()
[['position', 'order averaging', 1.0, 0.0, -1.0]]
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression, nnls

from biaslab.core.arrays import Bools, Codes, Floats
from biaslab.core.checks import require_one_of, require_whole, shares_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.metrics import Metric
from biaslab.measures.ranking.comparisons import cells, read_trials
from biaslab.measures.ranking.debiasing import DEBIASINGS, Debiasing, content_free, debias
from biaslab.stats.blocks import CELL, clustered, each_cell, has_value, usable
from biaslab.stats.estimate import Estimate, undefined
from biaslab.stats.frame import choose_metrics, estimate_rows, estimates_frame, require_columns
from biaslab.stats.joint_jackknife import suppressed_data_warnings, texts_as_objects, with_fast_intervals
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import JointSlopes
from biaslab.stats.resample import Resampling, Statistic, cluster_statistic

__all__ = [
    "Case",
    "HumanScale",
    "as_estimates",
    "compare_with_members",
    "content_free_prior",
    "debiased",
    "human_scale",
    "learned_weights",
    "length_regression",
    "order_averaging",
    "pooled",
    "remedies",
]

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
        Trials with the remedy, on the same contexts; or a function that computes them.
    where : mapping
        Condition columns of the estimates and their values, if the metric has several rows.
    """

    probe: Estimator
    metric: str
    remedy: str
    before: pd.DataFrame
    after: pd.DataFrame | TrialsRemedy
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
        raise InputError.plain("cases is empty, expected: at least one remedy to measure")
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
    parts = []
    for state in ("before", "after"):
        named = {"bias": "probe", state: "estimate", f"{state}_low": "ci_low", f"{state}_high": "ci_high"}
        parts.append(found[[*shared, *named]].rename(columns=named).assign(state=state))
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def _measured(case: Case, resampling: Resampling) -> Iterator[dict[str, Any]]:
    """Yield the rows of one case, one per attribute."""
    frames = {"before": case.before} | ({"after": case.after} if isinstance(case.after, pd.DataFrame) else {})
    for name, trials in frames.items():
        require_columns(trials, _COLUMNS, name)
        if len(judges := set(trials["judge"])) != 1:
            raise InputError.plain(f"{name} has trials of several judges: {', '.join(sorted(judges))}; measure each")
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
            raise InputError.plain("after shares no context with before, expected: trials of the same contexts")
        after = None if after is None else texts_as_objects(after)
        return cls(case, with_fast_intervals(case.probe), texts_as_objects(before), after, contexts)

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
    if not math.isnan(estimate.estimate):
        return estimate
    return undefined("", contexts).noted(*(estimate.notes or ("undefined",)))


def _tokens(trials: pd.DataFrame) -> float:
    return float(trials["tokens"].mean()) if "tokens" in trials else math.nan


Mask = Bools
#: Trials in, trials out.
TrialsRemedy = Callable[[pd.DataFrame], pd.DataFrame]


def order_averaging(trials: pd.DataFrame) -> pd.DataFrame:
    """Judge each pair by the mean of both orders, at the cost of two judgements.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials in both orders, as made by `biaslab.probes.Position`.

    Returns
    -------
    pandas.DataFrame
        Pairs that were judged in both orders, with the same probability for the same candidate in each order, and the
        ``tokens`` of both judgements.

    References
    ----------
    Wang et al. 2023, *Large Language Models are not Fair Evaluators* (balanced position calibration); Zheng et al.
    2023, *Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena*.
    """
    return debiased(trials, "swap-average")


def debiased(trials: pd.DataFrame, debiasing: Debiasing, folds: int = 10) -> pd.DataFrame:
    """Remove position bias from pair trials by one of the methods of `biaslab.ranking.debias`.

    Parameters
    ----------
    trials : pandas.DataFrame
        Pair trials.
    debiasing : {"none", "threshold", "uniform-prior", "position-term", "swap-average"}
        The method. It is fitted on the contexts of other folds.
    folds : int
        Number of parts into which contexts are split.

    Returns
    -------
    pandas.DataFrame
        The trials with a debiased probability, as ``value``. Debiased sample shares are no longer counts, so their
        ``samples`` is empty.
    """
    require_one_of("debiasing", debiasing, DEBIASINGS)
    parts = [_debiased(cell, debiasing, folds) for _, cell in cells(trials)]
    return pd.concat(parts, ignore_index=True) if parts else trials


def content_free_prior(empty: pd.DataFrame) -> TrialsRemedy:
    """Calibrate pair trials by the judge's content-free prior.

    Parameters
    ----------
    empty : pandas.DataFrame
        Pair trials without content: identical or empty candidates, "N/A". They are not contexts of the data set, so
        nothing is fitted where it is applied. Only judges and attributes of the trials are used.

    Returns
    -------
    callable
        Trials in, trials out: p̂ = α p / (α p + 1 − p), where − log α are the log odds of the first without content
        (`biaslab.ranking.content_free`). Decisions (0, 1) and ties are unchanged. The tokens of the prompts without
        content are spread over the judgements.

    Raises
    ------
    InputError
        If a judge and attribute has no usable trial without content.

    References
    ----------
    Zhao et al. 2021, *Calibrate Before Use*, ICML, §4.

    Examples
    --------
    >>> nothing = pd.DataFrame({"judge": "j", "attribute": "a", "value": [0.8], "status": "ok", "tokens": 10})
    >>> nothing["context_id"] = "n"
    >>> pair = pd.DataFrame({"judge": "j", "attribute": "a", "value": [0.8, 0.2], "status": "ok", "tokens": 30})
    >>> content_free_prior(nothing)(pair)[["value", "tokens"]].round(3).to_numpy().tolist()
    [[0.5, 35.0], [0.059, 35.0]]
    """
    require_columns(empty, ("judge", "attribute", "context_id", "value", "status"), "empty")
    return partial(_without_prior, usable(empty), float(empty["tokens"].sum()) if "tokens" in empty else 0.0)


def length_regression(trials: pd.DataFrame, folds: int = 10) -> pd.DataFrame:
    """Remove the effect of length at equal human score, as length-controlled win rates do.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials with ``words`` and ``human``, as made by `biaslab.probes.Verbosity`.
    folds : int
        Number of parts into which contexts are split, at least 2. Each is adjusted with the slope fitted on the
        others.

    Returns
    -------
    pandas.DataFrame
        With ``value`` minus slope × (log2 words − its mean over the other contexts). The slope is from score ~ log2
        words + human score + an intercept per context; human scores are needed to fit it, not to apply it. If it is
        not identified, the score is unchanged.

    Raises
    ------
    TrialsError
        If a column is missing.

    References
    ----------
    Dubois et al. 2024, *Length-Controlled AlpacaEval*.

    Examples
    --------
    >>> rows = [(c, k, 2.0**k, 3.0 + k + 0.5 * h, h) for c in range(6) for k, h in ((0, 0.0), (1, 2.0), (2, 1.0))]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "words", "value", "human"])
    >>> trials = trials.assign(judge="j", dataset="d", attribute="a", status="ok")
    >>> length_regression(trials)["value"].head(3).round(6).tolist()
    [4.0, 5.0, 4.5]
    """
    require_columns(trials, (*CELL, "context_id", "value", "status", "words", "human"), "trials")
    require_whole("folds", folds, 2)
    parts = [_without_length(cell, folds) for _, cell in each_cell(trials, CELL)]
    return pd.concat(parts, ignore_index=True) if parts else trials


def _without_prior(read: pd.DataFrame, price: float, trials: pd.DataFrame) -> pd.DataFrame:
    """Subtract the content-free prior, and spread the cost of asking for it over the trials."""
    parts = []
    for (judge, attribute), cell in each_cell(trials, ("judge", "attribute")):
        own = read[(read["judge"] == judge) & (read["attribute"] == attribute)]
        if own.empty:
            raise InputError.plain(f"empty has no readable judgement of {judge} on {attribute}")
        p, tied = cell["value"].to_numpy(float), (cell["status"] == "tie").to_numpy()
        parts.append(_with_probabilities(cell, np.where(tied, p, content_free(own).weigh(p)), tied))
    corrected = pd.concat(parts, ignore_index=True)
    return corrected.assign(tokens=corrected["tokens"] + price / len(corrected)) if "tokens" in corrected else corrected


def _debiased(cell: pd.DataFrame, debiasing: Debiasing, folds: int) -> pd.DataFrame:
    """Remove position bias from the trials of one judge and attribute; trials without a debiased value are dropped."""
    if debiasing == "none":
        return cell
    read = read_trials(cell)
    comparisons, size = debias(read.comparisons, debiasing, folds), read.comparisons.n_candidates
    first, second = read.candidates
    keys, wanted = comparisons.first * size + comparisons.second, first * size + second
    p, tied = (_looked_up(keys, values, wanted) for values in (comparisons.p, comparisons.tied.astype(float)))
    moved = _with_probabilities(cell, p, tied == 1)
    if debiasing == "swap-average" and "tokens" in cell:
        own = cell["tokens"].to_numpy(float)
        twins = _looked_up(first * size + second, own, second * size + first)
        moved = moved.assign(tokens=own + np.nan_to_num(twins))
    return moved[~np.isnan(p)]


def _looked_up(known: Codes, values: Floats, wanted: Codes) -> Floats:
    """Return the first value of each requested key, NaN if missing."""
    first = pd.Series(values, known, dtype=float)
    return np.asarray(first[~first.index.duplicated()].reindex(wanted), float)


def _with_probabilities(cell: pd.DataFrame, p: Floats, tied: Bools) -> pd.DataFrame:
    """Return trials with other probabilities, some of them ties; trials without a value keep their status."""
    status = np.where(np.isnan(p), cell["status"], np.where(tied, "tie", "ok"))
    moved = cell.assign(value=p, status=status)
    return moved.assign(samples=math.nan) if "samples" in moved else moved


def _without_length(cell: pd.DataFrame, folds: int) -> pd.DataFrame:
    """Subtract the effect of length from the scores of one judge and attribute, cross-fitted over contexts."""
    known = (cell["status"] == "ok").to_numpy() & cell["human"].notna().to_numpy()
    codes, doublings = pd.factorize(cell["context_id"])[0], np.log2(cell["words"].to_numpy(float))
    columns = np.column_stack([cell["value"].to_numpy(float), doublings, cell["human"].to_numpy(float)])
    value = columns[:, 0].copy()
    for others, fold_rows in held_out(cell["context_id"], known, folds):
        if others.any():
            longer = doublings[fold_rows] - doublings[others].mean()
            value[fold_rows] -= _slope(columns[others], codes[others]) * longer
    return cell.assign(value=value)


def _slope(columns: Floats, codes: Codes) -> float:
    """Return the effect of doubling the words within contexts at equal human score; 0 if not identifiable."""
    frame = pd.DataFrame(columns, columns=["score", "length", "human"]).assign(context_id=codes)
    fit = JointSlopes.of(frame, "score", ["length"], Resampling())
    return 0.0 if isinstance(fit, Estimate) else float(fit.corrected(0.0, "length")[0].product[0])


def held_out(context: pd.Series, labelled: Mask, folds: int) -> Iterator[tuple[Mask, Mask]]:
    """Yield masks to fit and to apply: labelled contexts are assigned to folds in turn; all others use every label.

    Examples
    --------
    >>> context, labelled = pd.Series(["a", "b", "c"]), np.array([True, False, True])
    >>> [(np.flatnonzero(fit).tolist(), np.flatnonzero(use).tolist()) for fit, use in held_out(context, labelled, 2)]
    [([0, 2], [1]), ([2], [0]), ([0], [2])]
    """
    codes, names = pd.factorize(context)
    known = np.unique(codes[labelled])
    fold = np.full(len(names), -1)
    fold[known] = np.arange(len(known)) % folds
    for each in np.unique(fold):
        fold_rows = fold[codes] == each
        yield labelled & ~fold_rows, fold_rows


ScaleMethod = Literal["isotonic", "ordinal"]
_LEVELS = 10  # with more distinct human scores, these are rounded to integers before an ordinal fit


def human_scale(trials: pd.DataFrame, method: ScaleMethod = "isotonic", folds: int = 10) -> pd.DataFrame:
    """Replace scores by the expected human score, which removes leniency and severity.

    Parameters
    ----------
    trials : pandas.DataFrame
        Score trials with ``human``, NaN without a label, as made by `biaslab.probes.Verbosity`.
    method : {"isotonic", "ordinal"}
        "isotonic": human scores as a non-decreasing, piecewise linear function of the judge's. "ordinal": the mean of
        a proportional-odds model of human scores given the judge's, which needs fewer labels but assumes a functional
        form.
    folds : int
        Number of parts into which contexts are split, at least 2. Each uses what was fitted on the others.

    Returns
    -------
    pandas.DataFrame
        With the expected human score as ``value``; unusable trials stay NaN. A monotone function preserves the order
        of texts, except for ties where it is constant.

    Raises
    ------
    InputError
        If the method is unknown or there are too few folds.
    TrialsError
        If a column is missing, or all labels are in one context.

    References
    ----------
    Barlow et al. 1972, *Statistical Inference under Order Restrictions*; McCullagh 1980, *Regression Models for Ordinal
    Data*, JRSS B 42.

    Examples
    --------
    >>> rows = [(str(c), str(k), k + 1.0, min(k + 3.0, 5.0)) for c in range(6) for k in range(3)]
    >>> trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "human", "value"])
    >>> trials = trials.assign(judge="j", dataset="d", attribute="a", status="ok")
    >>> human_scale(trials)["value"].head(3).tolist()
    [1.0, 2.0, 3.0]
    """
    require_columns(trials, (*CELL, "context_id", "value", "status", "human"), "trials")
    require_one_of("method", method, ("isotonic", "ordinal"))
    require_whole("folds", folds, 2)
    parts = [_rescaled(cell, method, folds) for _, cell in each_cell(trials, CELL)]
    return pd.concat(parts, ignore_index=True) if parts else trials


@dataclass(frozen=True)
class HumanScale:
    """Shift and distance of scores from human scores, which `human_scale` removes; a measure for `remedies`.

    Parameters
    ----------
    resampling : Resampling
        Confidence level of the intervals.

    Notes
    -----
    ``human_shift`` is the mean score minus the mean human score, positive for leniency; ``human_distance`` the mean
    absolute difference. Both require scores on the human scale.
    """

    name: ClassVar[str] = "human_scale"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("human_shift", "score minus human score", "points", null=0.0),
        Metric("human_distance", "distance from the human score", "points"),
    )
    primary: ClassVar[tuple[str, ...]] = ("human_shift",)

    resampling: Resampling = field(default_factory=Resampling)

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn score trials with ``human`` into estimates, one row per judge, attribute, data set and metric."""
        chosen = choose_metrics([metric.name for metric in self.metrics], metrics)
        require_columns(trials, (*CELL, "context_id", "value", "status", "human"), "trials")
        rows: list[dict[str, Any]] = []
        for values, cell in each_cell(trials, CELL):
            known = _known(cell)
            gap = (cell["value"] - cell["human"]).to_numpy(float)[known]
            context, one = cell["context_id"].to_numpy()[known], np.ones(int(known.sum()))
            ratios = {
                "human_shift": Ratio(context, gap, one, null=0.0, inference="t"),
                "human_distance": Ratio(context, np.abs(gap), one, inference="t"),
            }
            estimates = {name: ratios[name].estimate(self.resampling) for name in chosen}
            counts = int(known.sum()), int((~known).sum())
            rows += estimate_rows(estimates, dict(zip(CELL, values, strict=True)), self.resampling, *counts)
        return estimates_frame(rows, self.name, self.primary, ("attribute",))


def _known(cell: pd.DataFrame) -> Bools:
    known: Bools = (cell["status"].eq("ok") & cell["value"].notna() & cell["human"].notna()).to_numpy()
    return known


def _rescaled(cell: pd.DataFrame, method: ScaleMethod, folds: int) -> pd.DataFrame:
    """Replace the scores of one judge and attribute by expected human scores, cross-fitted over contexts."""
    known = _known(cell)
    labelled = cell.loc[known, "context_id"].nunique()
    if labelled < 2:
        problem = "all labels in one context" if labelled else "no labels"
        raise TrialsError.plain(f"human has {problem}; label at least two contexts")
    value, human = cell["value"].to_numpy(float), cell["human"].to_numpy(float)
    moved = value.copy()
    fitted = _isotonic if method == "isotonic" else _ordinal
    for others, fold_rows in held_out(cell["context_id"], known, folds):
        moved[fold_rows] = fitted(value[others], human[others], value[fold_rows])
    return cell.assign(value=moved)


def _isotonic(x: Floats, y: Floats, new: Floats) -> Floats:
    """Fit y as a non-decreasing function of x, and return its values at `new`, linearly interpolated."""
    places, at = np.unique(x, return_inverse=True)
    count = np.bincount(at)
    fitted = isotonic_regression(np.bincount(at, y) / count, weights=count).x
    return np.where(np.isnan(new), np.nan, np.interp(new, places, fitted))


def _ordinal(x: Floats, y: Floats, new: Floats) -> Floats:
    """Return the expected level under proportional odds; the mean if nothing varies."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    if len(np.unique(y)) > _LEVELS:
        y = np.round(y)
    levels, codes = np.unique(y, return_inverse=True)
    center, spread = float(x.mean()), float(x.std())
    if len(levels) < 2 or spread == 0:
        return np.where(np.isnan(new), np.nan, y.mean())
    model = OrderedModel(codes, ((x - center) / spread)[:, None], distr="logit")
    with warnings.catch_warnings():  # slopes diverge if scores separate levels perfectly
        warnings.simplefilter("ignore")
        fit = model.fit(method="bfgs", disp=False, maxiter=200)
    present = ~np.isnan(new)
    expected = np.full(len(new), math.nan)
    if present.any():
        p = np.asarray(model.predict(fit.params, exog=((new[present] - center) / spread)[:, None]))
        expected[present] = p @ levels
    return expected


_NEEDS = ("judge", "context_id", "candidate_id", "opponent_id", "attribute", "value", "status")
#: Columns of trials that belong to a judge rather than to what it was asked.
_SAID = {"judge", "value", "status", "label_mass", "samples", "tokens", "key", "reply", "judge_system"}
PanelWeights = Literal["learned"] | Sequence[float] | Mapping[str, Sequence[float]]
_HALF = 1e-9  # closer to ½ than this, a panel is tied


def pooled(
    members: Sequence[pd.DataFrame], weights: PanelWeights | None = None, name: str | None = None, folds: int = 10
) -> pd.DataFrame:
    """Pool trials of several judges into trials of a panel, like the answers of `biaslab.Panel`.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        Trials of the same design, one frame per judge, at least two. Judgements missing from any of them are dropped.
    weights : "learned", sequence of float, or mapping of str to sequence of float, optional
        Non-negative weight of each member; by default equal. "learned": `learned_weights`. A mapping gives weights by
        context.
    name : str, optional
        Value of the column ``judge``.
    folds : int
        Number of parts into which contexts are split if weights are learned.

    Returns
    -------
    pandas.DataFrame
        The weighted mean of the usable members' values: for probabilities the mean, for verdicts the majority; ½ in a
        pair is a tie. ``tokens`` are those of all members.

    Raises
    ------
    InputError
        If there are fewer than two members, one is repeated, or the numbers of weights and members differ.
    TrialsError
        If a column is missing, members have no judgement in common, or values are samples.

    References
    ----------
    Verga et al. 2024, *Replacing Judges with Juries*.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": "d", "context_id": ["a", "b"], "candidate_id": "x", "opponent_id": "y"})
    >>> rows = rows.assign(attribute="overall", status="ok", tokens=9)
    >>> members = [rows.assign(judge=str(n), value=values) for n, values in enumerate(([1.0, 0.0], [1.0, 1.0]))]
    >>> pooled(members)[["judge", "value", "status", "tokens"]].to_numpy().tolist()
    [['panel of 2', 1.0, 'ok', 18], ['panel of 2', 0.5, 'tie', 18]]
    """
    same = aligned(members)
    if isinstance(weights, str):
        if weights != "learned":
            raise InputError("weights", weights, '"learned", or numbers')
        weights = learned_weights(members, folds)
    base, value, read = same[0], values_of(same), np.column_stack([has_value(each) for each in same])
    share = np.where(read, _shares(weights, base["context_id"], len(members)), 0.0)
    total = share.sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.where(total > 0, (share * np.nan_to_num(value)).sum(axis=1) / total, np.nan)
    even = base["opponent_id"].notna().to_numpy() & (np.abs(mean - 0.5) < _HALF)
    panel = base.assign(
        judge=name or f"panel of {len(members)}",
        value=np.where(even, 0.5, mean),
        status=np.where(total > 0, np.where(even, "tie", "ok"), base["status"]),
        key=[f"panel:{key}" if key else "" for key in base["key"]] if "key" in base else "",
    )
    if all("tokens" in each for each in same):
        panel["tokens"] = sum(each["tokens"].to_numpy() for each in same)
    if all("label_mass" in each for each in same):
        mass = np.column_stack([each["label_mass"].to_numpy(float) for each in same])
        panel["label_mass"] = mass.mean(axis=1)
    return panel


def compare_with_members(
    probe: Estimator,
    metrics: Sequence[str],
    members: Sequence[pd.DataFrame],
    panel: pd.DataFrame | PanelWeights | None = None,
    resampling: Resampling | None = None,
) -> pd.DataFrame:
    """Compare the bias and the cost of a panel with those of each member.

    Parameters
    ----------
    probe : Probe
        The probe whose estimator measures the bias.
    metrics : sequence of str
        Names of the metrics.
    members : sequence of pandas.DataFrame
        Trials of each member.
    panel : pandas.DataFrame, "learned", or weights, optional
        Trials of the panel, asked as a `biaslab.Panel`; or the weights with which to pool the members' trials.
    resampling : Resampling, optional
        Confidence level of the intervals.

    Returns
    -------
    pandas.DataFrame
        As in `remedies`: a row per metric and member, with the member as ``judge`` and ``before``, and the panel as
        ``remedy`` and ``after``. Intervals are over contexts, and learned weights are relearned without each
        of them.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = bl.probes.Position(["coherence"], [1])
    >>> judges = [bl.SimulatedJudge(data, position=size, noise=0.5, seed=n) for n, size in enumerate((1.0, -1.0))]
    >>> trials = [bl.collect(probe, judge, data, progress=False) for judge in judges]
    >>> found = compare_with_members(probe, ["first_position_logit"], trials)
    >>> found[["before", "after", "tokens_before", "tokens_after"]].round(0).abs().to_numpy().tolist()
    [[1.0, 0.0, 1.0, 2.0], [1.0, 0.0, 1.0, 2.0]]
    """
    pool = panel if isinstance(panel, pd.DataFrame) else pooled(members, panel)
    name = str(pool["judge"].iloc[0]) if len(pool) else ""

    def anew(before: pd.DataFrame) -> pd.DataFrame:
        return pooled([each[each["context_id"].isin(set(before["context_id"]))] for each in members], "learned")

    after = anew if isinstance(panel, str) else pool
    shown = f"{name}, learned weights" if isinstance(panel, str) else name
    return remedies([Case(probe, metric, shown, each, after) for metric in metrics for each in members], resampling)


def _shares(weights: Any, contexts: pd.Series, size: int) -> Floats:
    """Return the weights of members, shape (judgements, members) or (1, members)."""
    if isinstance(weights, Mapping):
        absent = sorted(set(contexts.astype(str)) - set(weights))
        if absent:
            raise InputError.plain(f"weights lack {len(absent)} contexts, such as {absent[0]}")
        known = {name: shares_of(weights[name], size) for name in contexts.astype(str).unique()}
        return np.array([known[name] for name in contexts.astype(str)])
    return np.full((1, size), 1 / size) if weights is None else np.array([shares_of(weights, size)])


def learned_weights(members: Sequence[pd.DataFrame], folds: int = 10) -> dict[str, tuple[float, ...]]:
    """Learn the weight of each panel member for a context from the other labelled contexts.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        Trials of the same design with ``human`` scores, or for pairs ``human_gap``, NaN without a label.
    folds : int
        Number of parts into which labelled contexts are split, at least 2. The weights of each are learned on the
        others, those of unlabelled contexts on all labelled ones.

    Returns
    -------
    dict
        Context → weights, one per member, summing to 1, as in `biaslab.Panel`.

    Raises
    ------
    InputError
        As in `pooled`.
    TrialsError
        If there are no labels, or all of them are in one context.

    Notes
    -----
    Stacking: the non-negative coefficients in a regression of human scores on those of all members, each centred by
    attribute; for pairs of ½, 0 or −½ (by which candidate humans score higher) on p − ½. They are normalised to sum to
    1, and equal if no member helps.

    References
    ----------
    Breiman 1996, *Stacked Regressions*, Machine Learning 24.

    Examples
    --------
    >>> rows = [(str(c), str(k), float(k)) for c in range(8) for k in range(3)]
    >>> rows = pd.DataFrame(rows, columns=["context_id", "candidate_id", "human"]).assign(opponent_id=None)
    >>> rows = rows.assign(dataset="d", attribute="a", status="ok")
    >>> members = [rows.assign(judge=str(n), value=rows["human"] * (1 - n) + 2) for n in (0, 1)]
    >>> learned_weights(members, folds=4)["3"]
    (1.0, 0.0)
    """
    require_whole("folds", folds, 2)
    same = aligned(members)
    base, values = same[0], values_of(same)
    label = base[_label_of(base)].to_numpy(float)
    known = ~np.isnan(label) & np.column_stack([has_value(each) for each in same]).all(axis=1)
    labelled = base.loc[known, "context_id"].nunique()
    if labelled < 2:
        problem = "all labels in one context" if labelled else "no labels in common"
        raise TrialsError.plain(f"human has {problem}; label at least two contexts that all members judged")
    learned: dict[str, tuple[float, ...]] = {}
    for others, fold_rows in held_out(base["context_id"], known, folds):
        weights = _stacked(base[others], values[others])
        learned |= dict.fromkeys(base.loc[fold_rows, "context_id"].astype(str), weights)
    return {str(name): learned[str(name)] for name in base["context_id"].unique()}


def _label_of(trials: pd.DataFrame) -> str:
    """Return the column with the human label of each judgement."""
    name = "human_gap" if trials["opponent_id"].notna().all() else "human"
    require_columns(trials, (name,), "members")
    return name


def _stacked(trials: pd.DataFrame, values: Floats) -> tuple[float, ...]:
    """Return non-negative least-squares weights."""
    size, name = values.shape[1], _label_of(trials)
    label = trials[name].to_numpy(float)
    if name == "human_gap":
        columns, wanted = values - 0.5, np.sign(label) / 2
    else:
        both = pd.DataFrame(np.column_stack([values, label]))
        centred = (both - both.groupby(trials["attribute"].to_numpy()).transform("mean")).to_numpy(float)
        columns, wanted = centred[:, :-1], centred[:, -1]
    weights = nnls(columns, wanted)[0] if len(trials) else np.zeros(size)
    total = float(weights.sum())
    return tuple(map(float, weights / total)) if total > 0 else (1 / size,) * size


def aligned(members: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the trials that all members have, aligned row by row.

    Parameters
    ----------
    members : sequence of pandas.DataFrame
        One frame per judge, at least two.

    Raises
    ------
    InputError
        If there are fewer than two members, or a frame has several judges.
    TrialsError
        If a column is missing, values are sample shares, or members have no judgement in common.
    """
    if isinstance(members, pd.DataFrame) or len(members) < 2:
        raise InputError("members", members, "trials of at least two judges, one frame each")
    for each in members:
        require_columns(each, _NEEDS, "members")
    names = [str(each["judge"].iloc[0]) if len(set(each["judge"])) == 1 else "" for each in members]
    if len(set(names)) < len(names) or not all(names):
        raise InputError.plain("members must be frames of one judge each, all different")
    by_name = dict(zip(names, members, strict=True))
    if sampled := [name for name, each in by_name.items() if "samples" in each and each["samples"].notna().any()]:
        remedy = "ask them as biaslab.Panel, which pools samples"
        raise TrialsError.plain(f"values of {', '.join(sampled)} are shares of samples; {remedy}")
    shared = [column for column in members[0] if column not in _SAID and all(column in each for each in members)]
    codes = pd.concat([each[shared] for each in members]).groupby(shared, dropna=False, sort=False).ngroup()
    parts = np.split(codes.to_numpy(), np.cumsum([len(each) for each in members])[:-1])
    keyed = [pd.MultiIndex.from_arrays([part, pd.Series(part).groupby(part).cumcount()]) for part in parts]
    common = keyed[0]
    for other in keyed[1:]:
        common = common[common.isin(other)]
    if not len(common):
        allowed = f"the same design and data set for {' and '.join(names)}"
        raise TrialsError.plain(f"members have no judgements in common, expected: {allowed}")
    places = [index.get_indexer(common) for index in keyed]
    return [each.take(at).reset_index(drop=True) for each, at in zip(members, places, strict=True)]


def values_of(trials: Sequence[pd.DataFrame]) -> Floats:
    """Return the values of aligned trials, shape (judgements, judges)."""
    return np.column_stack([each["value"].to_numpy(float) for each in trials])
