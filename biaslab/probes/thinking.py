"""Thinking: effect of thinking before the verdict on a bias, and its cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import check_spending, require_temperature, unknown
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.interfaces import PRICES, is_sequential
from biaslab.core.metrics import FAIR, Metric, planted
from biaslab.core.requests import ThinkingBudget, as_thinking, thinking_tokens, with_thinking
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Status, Trial
from biaslab.measures.ranking import pairs
from biaslab.probes import available, find_metric, find_probe, names
from biaslab.probes.base.probe import Accepted, Cell, Estimable, Metrics, Part, Probe, mean_of, settle
from biaslab.stats.blocks import ITEM, usable
from biaslab.stats.estimate import VALUES_ONLY, Estimate, Remark, because, undefined, without_interval
from biaslab.stats.joint_jackknife import CellKey, JointValues, carried, suppressed_data_warnings, with_fast_intervals
from biaslab.stats.ratio import Ratio
from biaslab.stats.reliability import estimate_alpha
from biaslab.stats.samples import agreement_within

_ASKED = ("answer", "replicates", "temperature")
_OWN = ("attributes", "seed", "resampling", *_ASKED)
_ONE: dict[str, Any] = {"budgets": (0, "low"), "replicates": 1, "parameters": {"templates": (1,)}}


@dataclass(frozen=True)
class Thinking(Probe):
    """Thinking: effect of thinking before the verdict on a bias, and its cost.

    The requests of another probe are asked at several thinking budgets, and its metric is compared between budgets,
    paired by context. Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    bias : str
        Name of the probe that measures the bias (uses its first primary metric), or of a primary metric, such as
        ``"verbosity_slope"``.
    budgets : sequence of int or str
        Different budgets, in any order: tokens, 0 for no thinking, or efforts (minimal, low, medium, high). The
        smallest is the reference.
    answer : {"distribution", "text"}
        Read label probabilities, if the judge gives them after thinking, or generate text.
    replicates : int
        With ``answer="text"``: samples of each request; at least 2 to estimate sampling noise.
    temperature : float
        With ``answer="text"``: temperature of the samples.
    parameters : mapping
        Parameters of the probe that measures the bias, such as ``{"templates": [1]}``.
    prices : mapping
        Dollars per million tokens: ``input`` and optionally ``output``, which includes thinking. Without prices,
        dollars are left out.

    Raises
    ------
    InputError
        If a value is out of range, the bias is unknown, or its probe chooses requests based on replies.

    Notes
    -----
    A trial is one of the other probe (column ``bias``) at one budget (``thinking``), with the output tokens
    (``written``) and the thinking tokens among them (``thought_tokens``). Judges that accept no budget are not asked
    (`biaslab.core.BaseJudge.thinks`). A server may ignore the budget, or bill thinking without showing it;
    ``thought_tokens`` is what it counted.

    There is one estimate for each cell of the other probe, its metric (``measured``) and each budget (``thinking``):

    - ``thinking_shift`` — the metric at this budget minus that at the smallest one (``against``), in its own unit. Null
      0. Primary. Student's t, paired by context with a jackknife.
    - ``bias`` — the metric itself, as estimated by its own probe.
    - ``bias_reduction`` — how much nearer to its null the metric is than at the smallest budget. Below 0: farther away.
      If both are close to the null, this is noise; read it together with ``thinking_shift``.
    - ``resampling_noise`` — standard deviation of ``thinking_shift`` over resampled replies, from the metric of each
      replicate, with a χ² interval. Needs text and at least two replicates: probabilities are conditional on one
      thought, so they do not show the effect of another.
    - ``agreement`` — with human scores: share of pairs ordered like humans, or Kendall's τ-b of scores within contexts.
      ``agreement_shift`` — that minus the one at the smallest budget, paired. −2 to 2, null 0.
    - ``reliability`` — for pairs, the probability that two samples of one request agree; for scores, Krippendorff's α
      between samples.
    - ``tokens``, ``thought_tokens`` — per judgement: input plus output tokens, and thinking tokens.
    - ``dollars`` — per 1,000 judgements, ignoring prices for cached input.
    - ``tokens_per_point``, ``dollars_per_point`` — additional cost per judgement (dollars: per 1,000) for each point
      (.01 of the metric's unit) of bias reduction. Fieller's interval; undefined if the reduction may be zero, because
      the cost per point is then unbounded.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=8)
    >>> probe = Thinking(attributes=["coherence"], budgets=[0, "low"], parameters={"templates": [1]})
    >>> judge = bl.SimulatedJudge(data, position=2.0, noise=0.5, context_noise=0.5, thought_debiasing=1.0)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["thinking_shift"])
    >>> estimates.loc[0, "thinking"], bool(estimates.loc[0, "ci_high"] < 0)
    ('low', True)
    """

    name = "thinking"
    conditions = ("measured", "thinking", "against")
    asks_for = ("pair", "score")
    needs = "judgements at two or more thinking budgets, in a column thinking"
    metrics = (
        Metric(
            "thinking_shift",
            "the metric with more thinking minus with the least",
            null=0.0,
            above="has a higher value of the metric when it thinks longer",
            below="has a lower value of the metric when it thinks longer",
            advice="choose the budget with the best trade-off between bias and cost",
            use="comparing results across thinking budgets",
            matters=0.1,
            primary=True,
            calibration=planted({"thought_debiasing": 0.7}, _ONE, fair={**FAIR, "position": 0.8}),
        ),
        Metric("bias", "the metric at a budget"),
        Metric("bias_reduction", "bias reduction relative to the least thinking"),
        Metric("resampling_noise", "standard deviation of the shift over resampled replies"),
        Metric("agreement", "agreement with the reference scores", quality=True),
        Metric("agreement_shift", "agreement with more thinking minus with the least", null=0.0, quality=True),
        Metric("reliability", "agreement of two samples of one request"),
        Metric("tokens", "tokens per judgement"),
        Metric("thought_tokens", "thinking tokens per judgement"),
        Metric("dollars", "dollars per 1,000 judgements"),
        Metric("tokens_per_point", "additional tokens per judgement and point of bias reduction"),
        Metric("dollars_per_point", "additional dollars per 1,000 judgements and point of bias reduction"),
    )

    bias: str = "position"
    budgets: Sequence[int | str] = (0, "low", "medium", "high")
    answer: Literal["distribution", "text"] = "distribution"
    replicates: int = 2
    temperature: float = 1.0
    parameters: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    prices: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_temperature(self.temperature)
        if self.prices:
            check_spending("prices", self.prices, PRICES)
        listed = () if isinstance(self.budgets, str) else self.budgets
        if len({as_thinking(each, "budgets") for each in listed}) < max(len(listed), 2):
            raise InputError("budgets", self.budgets, 'a list of at least two different budgets, such as [0, "low"]')
        probe = self._probe
        of_probe = [name for name in probe.conditions if name != "human_gap"]
        columns = tuple(dict.fromkeys(("thinking", "replicate", *probe.columns)))
        conditions = (*type(self).conditions, *of_probe)
        settle(self, {"cell": probe.cell, "conditions": conditions, "columns": columns})

    @cached_property
    def _probe(self) -> Probe:
        """The probe that measures the bias, with this probe's settings."""
        kind, _ = _find_bias(self.bias)
        known = [each.name for each in fields(kind) if each.init]
        for name in self.parameters:
            if name not in known or name in _OWN:
                raise unknown("parameters", name, [each for each in known if each not in _OWN])
        own = {name: getattr(self, name) for name in _OWN if name in known}
        if "replicates" in own and self.answer != "text":
            own["replicates"] = 1
        probe = kind(**own, **self.parameters)
        if is_sequential(probe) or probe.keeps_replies:
            raise InputError("bias", self.bias, "a bias whose probe does not choose requests based on replies")
        return probe

    @property
    def measured(self) -> Metric:
        """The metric to compare."""
        kind, name = _find_bias(self.bias)
        return find_metric(name, kind.name)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan the other probe's judgements at each budget."""
        budgets: list[ThinkingBudget] = [as_thinking(each) or 0 for each in self.budgets]
        for trial in self._probe.design(dataset):
            for budget in budgets:
                where = {"bias": self._probe.name, "thinking": str(budget), **trial.condition}
                yield replace(trial, request=with_thinking(trial.request, budget), condition=where)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return value and status, parsed by the other probe."""
        return self._probe.read(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metric at each budget, its shifts, and agreement, reliability and cost."""
        self._require_own(cell.trials)
        trials = cell.trials.assign(thinking=cell.trials["thinking"].map(_name_of))
        names = sorted(set(trials["thinking"]), key=lambda name: thinking_tokens(as_thinking(name) or 0))
        budgets = Budgets(self._probe, self.measured, replace(cell, trials=trials), tuple(names), self.prices)
        yield from budgets.of_bias()
        for name in names:
            part = budgets.cell_of(name)
            where = {"measured": "", "thinking": name, "against": ""}
            yield Part(qualities(part, self.prices), part.trials, where)
        yield from budgets.of_agreement()

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select judgements that the other probe accepts, by judges with several budgets."""
        if "thinking" not in trials:
            return self._accepted(trials.iloc[:0])
        known = trials[trials["thinking"].notna()]
        several = known.groupby(["judge", "dataset"])["thinking"].transform("nunique") > 1
        accepted = self._probe.accepts_recorded(known[several])
        return Accepted(accepted.trials, accepted.note) if len(accepted.trials) else self._accepted(accepted.trials)

    def _require_own(self, trials: pd.DataFrame) -> None:
        other = set(trials["bias"]) - {self._probe.name} if "bias" in trials else set()
        if other:
            raise TrialsError("bias", sorted(other), self._probe.name, f"use Thinking(bias={min(other)!r})")


def _find_bias(name: str) -> tuple[type[Probe], str]:
    """Return the probe of a bias, given its name or a primary metric's, and the metric's name."""
    if name in names() and name != Thinking.name:
        kind = find_probe(name)
        return kind, kind.primary[0]
    known = {name: kind for name, kind in available().items() if name != Thinking.name}
    for kind in known.values():
        if name in kind.primary:
            return kind, name
    raise unknown("bias", name, [*known, *(metric for kind in known.values() for metric in kind.primary)])


def _name_of(budget: object) -> str:
    """Return the name of a budget, which may be a number in a table."""
    if isinstance(budget, float) and not math.isnan(budget):
        budget = int(budget)
    return str(as_thinking(budget))  # type: ignore[arg-type]


_PER = 1000  # judgements to which dollars refer
_POINTS = 100  # points per unit
_NO_ESTIMATE = because("no_estimate_at_budget", "no estimate at the budget {budget}")
_EXACT_SCORES = because("exact_scores", 'expected scores are exact and have no sampling noise; use answer="text"')
_ONCE = because("one_sample", 'each request was sampled once; use answer="text" and replicates=2 or more')
_NO_REPLICATE = because("replicate_without_estimate", "no estimate for one of the replicates")
_NOT_LESS = because("bias_not_reduced", "the bias is not reduced")
_UNBOUNDED = "the reduction may be zero, so the cost per point is unbounded (Fieller's g {g})"
_NO_POINT = because("reduction_not_above_0", _UNBOUNDED)


@dataclass(frozen=True)
class Budgets:
    """The trials of one cell of a probe at several budgets.

    Parameters
    ----------
    probe : Probe
        Measures the bias.
    metric : Metric
        The metric to compare.
    cell : Cell
        The cell; its trials have a column ``thinking``.
    names : tuple of str
        The budgets; the first is the reference.
    prices : mapping of str to float
        Dollars per million tokens; empty to leave out dollars.
    """

    probe: Probe
    metric: Metric
    cell: Cell
    names: tuple[str, ...]
    prices: Mapping[str, float]

    def of_bias(self) -> Iterator[Part]:
        """Yield the metric at each budget, then its differences from the first, and their cost."""
        wanted = ("thinking_shift", "bias_reduction", "resampling_noise", "tokens_per_point", "dollars_per_point")
        for key, first in self._parts[self.names[0]].items():
            for name in self.names:
                if (part := self._parts[name].get(key)) is not None:
                    metrics = {"bias": part.metrics[self.metric.name]}
                    yield Part(metrics, part.judgements(), self._where(first, name, ""), part.notes)
            for name in self.names[1:] if self.cell.wants(*wanted) else ():
                if (part := self._parts[name].get(key)) is not None:
                    counts = np.add(first.judgements(), part.judgements())
                    notes = tuple(dict.fromkeys((*first.notes, *part.notes)))
                    where = self._where(first, name, self.names[0])
                    yield Part(self._shifts(key, name), (int(counts[0]), int(counts[1])), where, notes)

    def of_agreement(self) -> Iterator[Part]:
        """Yield the differences in agreement with humans from the first budget."""
        first, *others = ((name, of_judgements(self.cell_of(name).trials)) for name in self.names)
        if not self.cell.wants("agreement_shift") or agreement(first[1]) is None:
            return
        for name, asked in others:
            one, two = agreement(asked), agreement(first[1])
            assert one is not None and two is not None  # noqa: S101, PT018 - all budgets ask the same
            shift = partial(replace(one, inference="t").difference, two, self.cell.resampling)
            where = {"measured": "", "thinking": name, "against": first[0]}
            yield Part({"agreement_shift": shift}, pd.concat([asked, first[1]]), where)

    def cell_of(self, name: str) -> Cell:
        """Return the trials at one budget."""
        resampling = replace(self.cell.resampling, leave_one_out=True)
        return replace(self.cell, trials=self.cell.trials[self.cell.trials["thinking"] == name], resampling=resampling)

    @cached_property
    def _parts(self) -> dict[str, dict[CellKey, Part]]:
        """Results of the probe at each budget, by the conditions of its rows."""
        return {name: _measured(self.probe, self.metric, self.cell_of(name)) for name in self.names}

    def _where(self, part: Part, name: str, against: str) -> dict[str, Any]:
        own = {column: value for column, value in part.condition.items() if column != "human_gap"}
        return {"measured": self.metric.name, "thinking": name, "against": against, **own}

    def _shifts(self, key: CellKey, name: str) -> Metrics:
        """Return the shift of the metric at a budget, and the metrics derived from it."""
        metrics: Metrics = {
            "thinking_shift": partial(self._shift, key, name),
            "bias_reduction": partial(self._reduction, key, name),
            "resampling_noise": partial(self._noise, key, name),
            "tokens_per_point": partial(self._per_point, key, name, "tokens"),
        }
        if self.prices:
            metrics["dollars_per_point"] = partial(self._per_point, key, name, "dollars")
        return metrics

    def _shift(self, key: CellKey, name: str) -> Estimate:
        """Return the metric at a budget minus that at the first, by the jackknife over units."""
        values = self._pair(key, name)
        for budget, value in zip((self.names[0], name), values[0], strict=True):
            if math.isnan(value):
                return undefined("", self._units.size).noted(*self._why_not(key, budget))
        if self.cell.resampling.values_only:
            return without_interval(float(values[0, 1] - values[0, 0]), self._units.size, VALUES_ONLY)
        left_out = np.asarray(self._units, object), values[:, 1] - values[:, 0]
        shift = replace(self._jackknifed(values).combined([-1.0, 1.0]), leave_one_out=left_out)
        return shift.noted(self._note_thoughts(name))

    def _reduction(self, key: CellKey, name: str) -> Estimate:
        distances, weights = self._distances(key, name)
        return replace(self._jackknifed(distances).combined(weights), p_value=math.nan, mde=math.nan)

    def _per_point(self, key: CellKey, name: str, unit: str) -> Estimate:
        """Return the cost per point: additional cost over reduction of the bias."""
        distances, weights = self._distances(key, name)
        if not weights @ distances[0] > 0:
            return undefined(_NOT_LESS, self._units.size)
        costs = []
        for budget in (self.names[0], name):
            asked = of_judgements(self.cell_of(budget).trials)
            cost = tokens(asked) if unit == "tokens" else dollars(asked, self.prices)
            left_out = self._carried(cost)
            costs.append(np.full(1 + self._units.size, math.nan) if left_out is None else left_out)
        joint = self._jackknifed(np.column_stack([distances, *costs]))
        return joint.quotient([0.0, 0.0, -1.0, 1.0], [*(_POINTS * weights), 0.0, 0.0], _NO_POINT)

    def _noise(self, key: CellKey, name: str) -> Estimate:
        """Return the standard deviation of a shift due to the sampling of replies."""
        variance, df = 0.0, 0
        for budget in (self.names[0], name):
            cell = self.cell_of(budget)
            if not has_samples(of_judgements(cell.trials)):
                return undefined(_ONCE, self._units.size)
            values = [self._value(key, rows) for _, rows in cell.trials.groupby("replicate")]
            variance += float(np.var(values, ddof=1)) / len(values)
            df += len(values) - 1
        if math.isnan(variance):
            return undefined(_NO_REPLICATE, self._units.size)
        tails = np.array([1 - self.cell.resampling.level, 1 + self.cell.resampling.level]) / 2
        low, high = np.sqrt(variance * df / special.chdtri(df, tails)).tolist()
        method = f"χ² over replicates, {df} df"
        return Estimate(math.sqrt(variance), math.nan, low, high, math.nan, math.nan, self._units.size, method)

    def _distances(self, key: CellKey, name: str) -> tuple[Floats, Floats]:
        """Return distances from the null at the first and at another budget, and weights of the reduction."""
        distances = self._pair(key, name) - (self.metric.null or 0.0)
        return distances, np.sign(distances[0]) * [1.0, -1.0]

    def _jackknifed(self, values: Floats) -> JointValues:
        return JointValues.jackknifed(values, self._units.size, self.cell.resampling.level)

    def _pair(self, key: CellKey, name: str) -> Floats:
        """Return the metric at the first and at another budget, over all trials and then leaving out each unit."""
        return np.column_stack([self._column(key, each) for each in (self.names[0], name)])

    def _column(self, key: CellKey, name: str) -> Floats:
        if (key, name) not in self._columns:
            self._columns[key, name] = self._left_out(key, name)
        return self._columns[key, name]

    @cached_property
    def _columns(self) -> dict[tuple[CellKey, str], Floats]:
        return {}

    def _left_out(self, key: CellKey, name: str) -> Floats:
        """Return the metric over all trials, then without each unit; NaN where undefined."""
        left_out = self._carried(self._parts[name][key].metrics[self.metric.name])
        if left_out is not None:
            return left_out
        trials, size = self.cell_of(name).trials, self._units.size
        number = self._unit_of(trials["context_id"])
        left = [] if self.cell.resampling.values_only else [trials[number != unit] for unit in range(size)]
        values = [self._value(key, rows) for rows in (trials, *left)]
        return np.array(values + [math.nan] * (1 + size - len(values)))

    def _carried(self, metric: Estimable) -> Floats | None:
        """Return a metric over all trials, then without each unit, if its estimate carries these values."""
        settings = replace(self.cell.resampling, values_only=False, leave_one_out=True)
        estimate = _estimate(metric, replace(self.cell, resampling=settings))
        return carried(estimate.estimate, estimate.leave_one_out, self._units)

    def _value(self, key: CellKey, trials: pd.DataFrame) -> float:
        """Return the metric of some trials; NaN if undefined."""
        quick = with_fast_intervals(self.probe)
        cell = replace(self.cell, trials=trials, resampling=quick.resampling)
        with suppressed_data_warnings():
            part = _measured(quick, self.metric, cell).get(key)
            return math.nan if part is None else _estimate(part.metrics[self.metric.name], cell).estimate

    @cached_property
    def _units(self) -> pd.Index:
        """Jackknife units of the cell: its contexts, with those that share requests merged."""
        units = self.cell.resampling.cluster_of(self.cell.trials["context_id"])
        return pd.Index(np.asarray(units, object)).unique()  # type: ignore[no-any-return]

    def _unit_of(self, contexts: ArrayLike) -> Codes:
        """Return the number of the unit of each context."""
        return self._units.get_indexer(pd.Index(np.asarray(self.cell.resampling.cluster_of(contexts), object)))

    def _why_not(self, key: CellKey, name: str) -> tuple[Remark, ...]:
        """Return why the metric is undefined at a budget."""
        notes = _estimate(self._parts[name][key].metrics[self.metric.name], self.cell).notes
        return notes or (_NO_ESTIMATE.with_values(budget=str(name)),)

    def _note_thoughts(self, name: str) -> str:
        """Return a note if counted tokens show that budgets were not followed."""
        first, longer = (of_judgements(self.cell_of(each).trials) for each in (self.names[0], name))
        if "thought_tokens" not in first:
            return ""
        notes = []
        if not longer["thought_tokens"].any():
            notes.append(f"no thinking tokens at budget {name}: the model may not think")
        if self.names[0] == "0" and first["thought_tokens"].any():
            notes.append("thinking tokens at budget 0: thinking cannot be turned off")
        return "; ".join(notes)


def _measured(probe: Probe, metric: Metric, cell: Cell) -> dict[CellKey, Part]:
    """Return a probe's results for one metric of a cell, without breakdowns."""
    chosen = replace(cell, chosen=(metric.name,), everything=False)
    parts = [part for part in probe.measure(chosen) if metric.name in part.metrics]
    return {tuple(None if value != value else value for value in part.condition.values()): part for part in parts}


def _estimate(metric: Estimable, cell: Cell) -> Estimate:
    value = metric() if callable(metric) else metric
    return value.estimate(cell.resampling) if isinstance(value, Ratio) else value


def of_judgements(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that may involve thinking (a probe may also ask for likelihoods)."""
    return trials[trials["thought_tokens"].notna()] if "thought_tokens" in trials else trials


def has_samples(asked: pd.DataFrame) -> bool:
    """Return whether requests were sampled as text at least twice."""
    return bool((asked["replicate"] > 0).any()) and bool(asked["label_mass"].isna().all())


def is_exact(asked: pd.DataFrame) -> bool:
    """Return whether values are exact, so that asking again would not change them."""
    return bool(asked["label_mass"].notna().any()) and bool(asked["samples"].isna().all())


def qualities(cell: Cell, prices: Mapping[str, float]) -> Metrics:
    """Return the other metrics of the judgements at one budget."""
    asked = of_judgements(cell.trials)
    metrics: Metrics = {"reliability": partial(_reliability, asked, cell)}
    if (agree := agreement(asked)) is not None:
        metrics["agreement"] = agree
    if "tokens" in asked:
        metrics["tokens"] = tokens(asked)
    if "thought_tokens" in asked:
        paid = _paid(asked)
        metrics["thought_tokens"] = mean_of(paid, paid["thought_tokens"])
        metrics |= {"dollars": dollars(asked, prices)} if prices else {}
    return metrics


def tokens(asked: pd.DataFrame) -> Ratio:
    """Return the tokens per judgement, input plus output."""
    paid = _paid(asked)
    return mean_of(paid, paid["tokens"])


def dollars(asked: pd.DataFrame, prices: Mapping[str, float]) -> Ratio:
    """Return the dollars per thousand judgements."""
    paid = _paid(asked)
    read = paid["tokens"] - paid["written"]
    return mean_of(paid, _PER * (read * prices["input"] + paid["written"] * prices.get("output", 0.0)) / 1e6)


def agreement(asked: pd.DataFrame) -> Ratio | None:
    """Return agreement with humans; None without human scores.

    For pairs, the share ordered like humans; for scores, Kendall's τ-b within contexts, of means of samples.
    """
    if asked["opponent_id"].notna().any():
        if "human_gap" not in asked:
            return None
        return pairs.comparative_accuracy(asked["context_id"], pairs.decisions(asked), asked["human_gap"])
    if "human" not in asked:
        return None
    means = usable(asked).groupby(list(ITEM), sort=False, as_index=False)[["value", "human"]].mean()
    return agreement_within(means["context_id"], means["value"].to_numpy(float)[None], means["human"]).ratio()


def _reliability(asked: pd.DataFrame, cell: Cell) -> Ratio | Estimate:
    """Return the agreement of two samples of one request: a share for pairs, Krippendorff's α for scores."""
    if asked["opponent_id"].notna().any():
        if is_exact(asked):
            p = asked["value"].to_numpy(float)
            return mean_of(asked, 1 - 2 * p * (1 - p), None, (0.0, 1.0))
        seen = pairs.replicate_agreement(asked)
        return Ratio(seen["context_id"], seen["agree"], seen["pairs"], bounds=(0.0, 1.0), missing=_ONCE)
    if not has_samples(asked):
        return undefined(_EXACT_SCORES if is_exact(asked) else _ONCE, asked["context_id"].nunique())
    scores = usable(asked)[[*ITEM, "replicate", "value"]]
    return estimate_alpha(scores, cell.resampling, units=list(ITEM), annotator="replicate", score="value")


def _paid(asked: pd.DataFrame) -> pd.DataFrame:
    """Return one row per request, which may have several trials, such as one per label."""
    return asked.drop_duplicates("key") if "key" in asked else asked
