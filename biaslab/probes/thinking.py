"""Thinking: effect of thinking before the verdict on a bias, and its cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from biaslab.core import (
    PRICES,
    Metric,
    Reply,
    Status,
    ThinkingBudget,
    Trial,
    as_thinking,
    is_sequential,
    thinking_tokens,
    with_thinking,
)
from biaslab.core.checks import check_spending, require_one_of, require_temperature, require_whole, unknown
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.schema import Dataset
from biaslab.probes import available, find_metric, find_probe, names
from biaslab.probes._by_budget import Budgets, qualities
from biaslab.probes.base import FAIR, Accepted, Cell, Part, Probe, planted
from biaslab.probes.base.own_protocol import settle

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
        require_one_of("answer", self.answer, ("distribution", "text"))
        require_whole("replicates", self.replicates, 1)
        require_temperature(self.temperature)
        if self.prices:
            check_spending("prices", self.prices, PRICES)
        listed = () if isinstance(self.budgets, str) else self.budgets
        if len({as_thinking(each, "budgets") for each in listed}) < max(len(listed), 2):
            raise InputError("budgets", self.budgets, 'a list of at least two different budgets, such as [0, "low"]')
        probe = self._probe
        of_probe = [name for name in probe.conditions if name != "human_gap"]
        settle(
            self,
            {
                "cell": probe.cell,
                "conditions": (*type(self).conditions, *of_probe),
                "columns": tuple(dict.fromkeys(("thinking", "replicate", *probe.columns))),
            },
        )

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
        if is_sequential(probe) or getattr(probe, "keeps_replies", False):
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
            allowed = f"trials of the bias {self._probe.name}"
            raise TrialsError("trials", sorted(other), allowed, f"use Thinking(bias={min(other)!r})")


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
