"""Thinking: what a thought before the verdict does to a bias, and what that costs."""

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
    """Thinking: what a thought before the verdict does to a bias, and what that costs.

    Everything that another probe asks is asked at several budgets for thoughts, and its metric compared between them,
    context by context. Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    bias : str
        Name of the probe that measures the bias, of which the first primary metric is taken, or of one of its primary
        metrics, such as ``"verbosity_slope"``.
    budgets : sequence of int or str
        Different budgets, in any order: tokens, 0 for no thought, or efforts (minimal, low, medium, high). The smallest
        is what the others are compared with.
    answer : {"distribution", "text"}
        Read label probabilities, where the judge gives them after a thought, or generate text.
    replicates : int
        With ``answer="text"``: samples of each request; from 2 on they tell what drawing the replies anew would change.
    temperature : float
        With ``answer="text"``: of the samples.
    parameters : mapping
        Of the probe that measures the bias, such as ``{"templates": [1]}``.
    prices : mapping
        Dollars for a million tokens: ``input``, and if wanted ``output``, which thoughts are billed as. Without them
        nothing is said of dollars.

    Raises
    ------
    InputError
        If a value lies outside its range, there is no such bias, or its probe decides by replies what it asks next.

    Notes
    -----
    A trial is one of the other probe (column ``bias``) at one budget (``thinking``); with them stand the tokens that
    were written (``written``), and those of the thought among them (``thought_tokens``). A judge that cannot be given a
    budget is not asked (`biaslab.core.BaseJudge.thinks`). A server may ignore one, or bill a thought and not show it:
    ``thought_tokens`` says what it counted.

    There is one estimate for each cell of the other probe, its metric (``measured``) and each budget (``thinking``):

    - ``thinking_shift`` — the metric at this budget minus that at the smallest one (``against``), in its own unit. Null
      0. Primary. Paired over contexts: each is left out of both, and interval and test are Student's t.
    - ``bias`` — the metric itself, as its own probe estimates it.
    - ``bias_reduction`` — how much nearer to its null the metric is than at the smallest budget. Below 0: farther away.
      Where both are as good as at the null, that is noise: read it beside ``thinking_shift``.
    - ``resampling_noise`` — standard deviation of ``thinking_shift`` that drawing all replies anew would cause, from
      the metric of each replicate, with a χ² interval. It takes texts and two replicates at least: probabilities are
      those after one thought, and what another would change does not show.
    - ``agreement`` — with human scores: of pairs the share that is ordered as by humans, of scores Kendall's τ-b within
      contexts. ``agreement_shift`` — that minus the one at the smallest budget, paired. −2 to 2, null 0.
    - ``reliability`` — of pairs the probability that two samples of one request agree, of scores Krippendorff's α
      between samples.
    - ``tokens``, ``thought_tokens`` — of a judgement: read and written, and of these for the thought.
    - ``dollars`` — of 1,000 judgements, the price of cached input left out.
    - ``tokens_per_point``, ``dollars_per_point`` — what a judgement, or 1,000, cost more for each point, .01 of the
      metric's unit, that the bias is reduced by. Fieller's interval; undefined where the reduction cannot be told from
      none, since a point may then cost any amount.

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
    needs = "judgements at two budgets for thoughts or more, in a column thinking"
    metrics = (
        Metric(
            "thinking_shift",
            "the metric with more thought minus with the least",
            null=0.0,
            above="has a higher value of the metric when it thinks longer",
            below="has a lower value of the metric when it thinks longer",
            advice="choose the budget at which the bias is least for what it costs",
            use="comparing results across budgets for thoughts",
            matters=0.1,
            primary=True,
            calibration=planted({"thought_debiasing": 0.7}, _ONE, fair={**FAIR, "position": 0.8}),
        ),
        Metric("bias", "the metric at a budget"),
        Metric("bias_reduction", "nearer to the null than with the least thought"),
        Metric("resampling_noise", "standard deviation of the shift if replies were drawn anew"),
        Metric("agreement", "agreement with the reference scores", quality=True),
        Metric("agreement_shift", "agreement with more thought minus with the least", null=0.0, quality=True),
        Metric("reliability", "two samples of one request"),
        Metric("tokens", "tokens of a judgement"),
        Metric("thought_tokens", "tokens of its thought"),
        Metric("dollars", "dollars of 1,000 judgements"),
        Metric("tokens_per_point", "more tokens a judgement for each point of bias less"),
        Metric("dollars_per_point", "more dollars for 1,000 judgements for each point of bias less"),
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
            raise InputError("budgets", self.budgets, 'a list of two different budgets or more, such as [0, "low"]')
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
        """The probe that measures the bias, asking as this one does."""
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
            raise InputError("bias", self.bias, "one whose probe asks the same, whatever is answered")
        return probe

    @property
    def measured(self) -> Metric:
        """The metric that is compared."""
        kind, name = _find_bias(self.bias)
        return find_metric(name, kind.name)

    def design(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every judgement of the other probe at each budget."""
        budgets: list[ThinkingBudget] = [as_thinking(each) or 0 for each in self.budgets]
        for trial in self._probe.design(dataset):
            for budget in budgets:
                where = {"bias": self._probe.name, "thinking": str(budget), **trial.condition}
                yield replace(trial, request=with_thinking(trial.request, budget), condition=where)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return value and status as the other probe reads them."""
        return self._probe.read(trial, reply)

    def measure(self, cell: Cell) -> Iterator[Part]:
        """Yield the metric at each budget, what it shifts by, and what else the judgements are worth and cost."""
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
        """Take judgements that the other probe takes, by judges that were given several budgets."""
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
            raise TrialsError("trials", sorted(other), allowed, f"make the probe Thinking(bias={min(other)!r})")


def _find_bias(name: str) -> tuple[type[Probe], str]:
    """Return the probe of a bias, by its name or that of a primary metric, and the name of the metric."""
    if name in names() and name != Thinking.name:
        kind = find_probe(name)
        return kind, kind.primary[0]
    known = {name: kind for name, kind in available().items() if name != Thinking.name}
    for kind in known.values():
        if name in kind.primary:
            return kind, name
    raise unknown("bias", name, [*known, *(metric for kind in known.values() for metric in kind.primary)])


def _name_of(budget: object) -> str:
    """Return the name of a budget, which a table may have as a number."""
    if isinstance(budget, float) and not math.isnan(budget):
        budget = int(budget)
    return str(as_thinking(budget))  # type: ignore[arg-type]
