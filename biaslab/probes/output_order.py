"""Output order: do scores move when the judge gives reasons before them? (Chen et al. 2024, Tables 1-2, Figs. 1-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.core.checks import require_whole
from biaslab.core.errors import InputError
from biaslab.core.interfaces import Nearest, ends_begun
from biaslab.core.metrics import FAIR, Comparison, Figure, Metric, planted
from biaslab.core.requests import Completion, Message, Reasons, ReplyFormat, Request
from biaslab.core.scales import Scale, find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply, Scalar, Status, Trial
from biaslab.measures.scoring import pointwise
from biaslab.probes.base import comparisons
from biaslab.probes.base.comparisons import PairOrScoreProbe, pair_trials, reasoned
from biaslab.probes.base.probe import Accepted, Cell, Metrics, Part, mean_of, scored
from biaslab.probes.position import Position
from biaslab.stats.blocks import ITEM, usable
from biaslab.stats.estimate import because, undefined
from biaslab.stats.ratio import Ratio
from biaslab.stats.samples import sample_differences, sample_table, score_spread

SHIFTS = {"reason_first_shift": ("rs", "sr"), "reason_shift": ("sr", "s")}
_DIFFERENCES = ("sample_difference", "resampling_difference")
_SCORE_TOKENS = 16  # a bare score is short; longer answers would only add cost
_LINES, _JSON = (
    ("score:", "reasons:"),
    ('{"score":', '{"reasons": "'),
)  # beginnings of answers: score first, reasons first
REASONS: dict[prompts.Order, Reasons] = {"s": "none", "sr": "after", "rs": "before"}
_NO_SCORE = because("no_readable_score", "no reply contains a score")
_POINTS = 10  # number of scale values for `score_share`
Wording = Literal["own", "printed"]


_UNJUDGED = because("order_not_judged", "order {order} was not judged")


_CONSISTENCY = "order consistency with reasons first minus verdict first"
_PAIRS, _SHIFTS_OF_PAIRS = "pairs", ("first_shift", "accuracy_shift", "consistency_shift")
_RATES_OF_PAIRS = ("first_position_rate", "comparative_accuracy", "order_consistency")


@dataclass(frozen=True)
class OutputOrder(PairOrScoreProbe):
    """Output order: how much a score moves when the judge gives reasons before it.

    Every candidate is scored alone, before and after reasons. Further parameters: `biaslab.probes.base.Probe`.

    Parameters
    ----------
    forms : sequence of {"ex", "json"}
        Show an example of the answer, and/or describe a JSON object (Table 1). The example consists of lines of text,
        which small models follow more easily; with the printed wording it is JSON with a score of 5.
    orders : sequence of {"s", "sr", "rs"}
        Score alone, score before reasons, score after reasons; the last two are required.
    rules : sequence of bool
        With and/or without the special rules in the prompt; default as in Table 2 and Fig. 1 (Fig. 2: without).
    scale : str
        Name in `biaslab.core.scales.SCALES`. With our wording the highest score is best; Chen et al. ask for the
        severity of faults, so their shifts have the opposite sign.
    wording : {"own", "printed"}
        Ask for one attribute in our wording, or in that of Chen et al., as far as they print it
        (`biaslab.prompts.rate_severity`): one score for all problems, 10 the most severe, and two special rules. The
        score is then compared with the only attribute of the data set, as in ``"dialogue_sets"``.
    aspects : sequence of str
        With the printed wording: the aspects to consider.
    n_candidates : int, optional
        Candidates per context, drawn at random without replacement; default: all. The draw depends only on the
        seed and the context.
    replicates : int
        Samples of each request (N).
    temperature : float
        0 is greedy; replicates are then equal.
    max_tokens : int
        Maximum tokens of an answer with reasons (16 for a score alone). Reasons cut off before the score are parse
        failures, which are rarely missing at random: allow enough.
    asks : sequence of {"pairs", "scores"}
        Score single candidates, compare all pairs in both orders, or both. Pairs have neither forms nor rules.
    opened : bool
        Begin the answer for the judge, up to its first score or reasons, to help small models that do not follow the
        format. The judge must be able to continue an answer, which not every server supports.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    Answers are text, because reasons must be generated before the score. A trial's ``value`` is the score. There is one
    estimate for each judge × data set × attribute × scale × form × rules.

    Contrasts of two orders (column ``order``: "rs-sr", "sr-s") are over items with a score in both (means over
    replicates); others are dropped and counted in ``n_dropped``. In points of the scale:

    - ``reason_first_shift`` — score(rs) − score(sr), paired by item. Null 0; above: a judge that reasons first scores
      higher. Primary.
    - ``reason_shift`` — score(sr) − score(s), paired by item: effect of asking for reasons on a score given before
      them. Null 0.
    - ``sample_difference`` — mean absolute difference between samples in the two orders, for the same item. At least 0.
    - ``resampling_difference`` — its noise floor: the same between two samples of one request. At least 0; undefined
      with one replicate.

    For one configuration (column ``order``: "s", "sr", "rs"; no null), over all its scores:

    - ``mean_score`` — mean over items of the mean over replicates. Table 2.
    - ``score_sd`` — standard deviation of all scores, over items and samples. Table 2.
    - ``resampling_sd`` — standard deviation of the samples of one request. Undefined with one replicate.
    - ``score_share`` — share of scores nearest to the value in the column ``score``, one of at most ten evenly spaced
      values. 0–1. Figs. 1, 2.
    - ``parse_failure_rate`` — share of replies, excluding refusals, without a readable score on the scale. 0–1.

    For **pairs** (``scale`` and ``form`` are "pairs"), over those with verdicts in both orders of verdict and reasons
    and in both orders of the candidates:

    - ``first_shift`` — share of decisions for the candidate shown first, P(A), in the first order of verdict and
      reasons minus that in the second. −1 to 1, null 0; above: more primacy. Primary.
    - ``accuracy_shift`` — the same for the share of decisions that agree with humans, between candidates with different
      human scores. −1 to 1, null 0.
    - ``consistency_shift`` — the same for ``order_consistency``. −1 to 1, null 0.
    - ``verdict_change`` — probability that verdicts in the two orders of verdict and reasons differ. 0–1.
    - ``resampling_change`` — its noise floor: the same for two samples of one request. 0–1; undefined with one
      replicate.
    - ``first_position_rate``, ``comparative_accuracy``, ``order_consistency`` — for one order of verdict and reasons,
      over the pairs of its contrast: P(A), the share of decisions that agree with humans, and the probability that
      samples in both orders of the candidates have the same winner. 0–1.

    If scores are missing, both shifts have ``bound_low`` and ``bound_high``, which hold whatever the missing values
    are.

    **Inference.** All shifts: t tests and t intervals over contexts. Shares, which may come from one context: t or
    score intervals. Everything else: bootstrap intervals over contexts; ``method`` says which.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("dialogues")
    >>> probe = OutputOrder(attributes=["coherence"], forms=["json"], rules=[False], replicates=4)
    >>> judge = bl.SimulatedJudge(data, reason_first=-0.2, quality=0.5)
    >>> estimates = probe.estimate(bl.collect(probe, judge, data, progress=False), ["reason_first_shift"])
    >>> round(float(estimates["estimate"].iloc[0]), 1)  # −0.2 × 9 points, from 1 to 10
    -1.8
    """

    name = "output_order"
    cell = ("judge", "dataset", "attribute", "scale", "form", "rules")
    conditions = ("order", "score")
    columns = (*ITEM, "order", "replicate", "value", "status")
    needs = "scores before and after reasons, by one judge with one form of prompt"
    asks_for = ("pair", "score")
    metrics = (
        Metric(
            "reason_first_shift",
            "reasons first minus score first",
            "points",
            null=0.0,
            above="scores higher after reasons than before them",
            below="scores lower after reasons than before them",
            advice="fix one order of score and reasons, and report it",
            use="comparing scores given before reasons with scores after them",
            matters=0.5,
            form="score",
            primary=True,
            calibration=planted(
                {"reason_first": 0.12},
                {"forms": ("ex",), "orders": ("sr", "rs"), "rules": (True,), "replicates": 1},
                FAIR | {"quality": 0.5},
            ),
            comparison=Comparison("scores with reasons", ("scale",)),
        ),
        Metric("reason_shift", "score before reasons minus score alone", "points", null=0.0, form="score"),
        Metric("sample_difference", "samples of two orders", "mean absolute difference, points", form="score"),
        Metric("resampling_difference", "samples of one request", "mean absolute difference, points", form="score"),
        Metric("mean_score", "mean score", "points", form="score"),
        Metric("score_sd", "standard deviation of all scores", "points", form="score"),
        Metric("resampling_sd", "standard deviation of samples of one request", "points", form="score"),
        Metric("score_share", "scores at this value", "share", form="score"),
        Metric("parse_failure_rate", "replies without a score", "share"),
        Metric(
            "first_shift",
            "P(A) with reasons first minus verdict first",
            "share",
            null=0.0,
            above="prefers the candidate shown first more after reasons than before them",
            below="prefers the candidate shown first less after reasons than before them",
            advice="fix one order of verdict and reasons, and ask every pair in both orders",
            use="comparing verdicts given before reasons with verdicts after them",
            matters=0.1,
            form="pair",
            primary=True,
            calibration=planted({"reason_first": 0.12}, {"asks": ("pairs",), "orders": ("sr", "rs"), "replicates": 1}),
            comparison=Comparison("verdicts on pairs with reasons"),
        ),
        Metric("accuracy_shift", "accuracy with reasons first minus verdict first", "share", null=0.0, form="pair"),
        Metric("consistency_shift", _CONSISTENCY, "share", null=0.0, form="pair"),
        Metric("verdict_change", "verdicts that differ between two orders", "share", form="pair"),
        comparisons.RESAMPLING,
        comparisons.FIRST_RATE,
        comparisons.ACCURACY,
        comparisons.ORDER_CONSISTENCY,
    )
    figures = (
        Figure("shifts", ("reason_first_shift", "reason_shift"), by=("attribute", "form", "rules"), col="metric"),
        Figure("pairs", _SHIFTS_OF_PAIRS, by="attribute", where={"order": "rs-sr", "scale": "pairs"}),
    )

    forms: Sequence[prompts.SeverityForm] = ("ex", "json")
    orders: Sequence[prompts.Order] = ("s", "sr", "rs")
    rules: Sequence[bool] = (True,)
    scale: str = "1-10"
    n_candidates: int | None = None
    replicates: int = 2
    temperature: float = 1.0
    max_tokens: int = 256
    opened: bool = False
    wording: Wording = "own"
    aspects: Sequence[str] = ("repetitiveness", "factual accuracy", "coherence")

    def __post_init__(self) -> None:
        super().__post_init__()
        find_scale(self.scale)
        if not {"sr", "rs"} <= set(self.orders):
            raise InputError("orders", self.orders, "a list that contains sr and rs", "these are compared")
        require_whole("n_candidates", self.n_candidates, 2 if "pairs" in self.asks else 1, optional=True)
        self._asking("sr")

    def plan_pairs(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan both orders of every pair, with the verdict alone, before and after reasons."""
        where: dict[str, Scalar] = {"form": _PAIRS, "rules": False}
        options = {"replicates": self.replicates, "temperature": self.temperature, "seed": self.seed}
        position = Position(self.attributes, templates=(1,), answer="text", **options)  # type: ignore[arg-type]
        for trial in pair_trials(position, dataset, where, self.n_candidates):
            for order in self.orders:
                asked = replace(trial, condition={**trial.condition, "order": order})
                yield reasoned(asked, dataset, REASONS[order], self.max_tokens)

    def plan_scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every item in every configuration."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        if self.wording == "printed" and len(attributes) > 1:
            allowed = "one attribute with the printed wording"
            raise InputError("attributes", attributes, allowed, "it asks for a single score")
        for item in pointwise.drawn_items(dataset, self.n_candidates, self.seed):
            for attribute, rules, form, order in product(attributes, self.rules, self.forms, self.orders):
                prompt = self._prompt(dataset, item, attribute, form, order, rules)
                in_lines = form == "ex" and self.wording == "own"
                messages = [Message("user", prompt)]
                if self.opened:
                    messages.append(Message("assistant", (_LINES if in_lines else _JSON)[order == "rs"]))
                where = {"form": form, "order": order, "rules": rules}
                layout: ReplyFormat = "text" if in_lines else "json"
                about = pointwise.about_scores(item, [attribute], scale, layout, REASONS[order])
                question = pointwise.Question(item, attribute, messages, scale, about)
                yield from question.trials(self._asking(order), where)

    def _prompt(
        self,
        dataset: Dataset,
        item: pointwise.Item,
        attribute: str,
        form: prompts.SeverityForm,
        order: prompts.Order,
        rules: bool,
    ) -> str:
        scale, shown = find_scale(self.scale), (item.text, item.context, form, order, rules)
        if self.wording == "printed":
            return prompts.rate_severity(dataset, scale, *shown, self.aspects)
        return prompts.order_output(dataset, attribute, scale, *shown)

    def _asking(self, order: prompts.Order) -> pointwise.AnswerSettings:
        length = min(self.max_tokens, _SCORE_TOKENS) if order == "s" else self.max_tokens
        return pointwise.AnswerSettings("text", self.replicates, self.temperature, length, self.seed)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the design in which the judge begins its answer itself, if a begun answer was refused."""
        if not (self.opened and ends_begun(refused)):
            return None
        return Nearest(replace(self, opened=False), "lets the judge begin its answer itself")

    def read_score(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score of a reply, parsed together with the beginning that the prompt gave it, and the status."""
        last = trial.request.messages[-1] if isinstance(trial.request, Completion) else None
        if last is not None and last.role == "assistant":
            score, status = pointwise.read_score(trial, replace(reply, text=f"{last.content}{reply.text or ''}"))
            if status != "unparsable":
                return score, status
        return pointwise.read_score(trial, reply)

    def measure_scores(self, cell: Cell) -> Iterator[Part]:
        """Yield the contrasts of two orders, then the metrics of each configuration."""
        scale = scale_named(str(cell.where["scale"]))
        for metric in SHIFTS:
            if cell.wants(metric, *_DIFFERENCES):
                yield _contrast(cell, metric, scale)
        for order, part in cell.trials.groupby("order", sort=False):
            yield from _configuration(part, {"order": order}, cell, scale)

    def accepts_recorded(self, trials: pd.DataFrame) -> Accepted:
        """Select scores by judges and forms of prompt with both orders."""
        scores = scored(trials)
        scores = scores[scores["order"].notna() & scores["form"].notna()]
        cell = [scores[name] for name in self.cell]
        both = pd.Series(True, index=scores.index)
        for order in ("sr", "rs"):
            both &= (scores["order"] == order).groupby(cell).transform("any") if len(scores) else both
        return self._accepted(scores[both])

    def measure_pairs(self, cell: Cell) -> Iterator[Part]:
        """Yield the contrasts of two orders of verdict and reasons, then the rates of each order."""
        asked = set(cell.trials["order"])
        for orders in (each for each in SHIFTS.values() if asked.issuperset(each)):
            contrast = cell.contrast("order", orders, of="-".join(orders))
            verdicts = contrast.judged
            rates = (verdicts.first_rates(), verdicts.accuracies(), verdicts.order_consistencies())
            shifts = contrast.differences(dict(zip(_SHIFTS_OF_PAIRS, rates, strict=True)))
            yield contrast.part(shifts | verdicts.changes(), {"order": "-".join(orders)})
            for place, order in enumerate(orders):
                if order != "sr" or orders == SHIFTS["reason_first_shift"]:
                    of_order = zip(_RATES_OF_PAIRS, (each[place] for each in rates), strict=True)
                    yield Part(dict(of_order), contrast.counts, {"order": order})
        for name, part in cell.trials.groupby("order", sort=False):
            yield Part({"parse_failure_rate": failures(part)}, part, {"order": name})


def _contrast(cell: Cell, metric: str, scale: Scale) -> Part:
    """Return one shift, and the differences between samples of its two orders and of one request."""
    orders, where = SHIFTS[metric], {"order": "-".join(SHIFTS[metric])}
    if lacking := [order for order in orders if order not in set(cell.trials["order"])]:
        nothing = undefined(_UNJUDGED.with_values(order=lacking[0]))
        return Part(dict.fromkeys((metric, *_DIFFERENCES), nothing), (0, 0), where)
    contrast = cell.contrast("order", orders, of=where["order"])
    missing = because("no_item_in_both_orders", "no item has a score in both orders")
    metrics: Metrics = {metric: contrast.shift((scale.low, scale.high), missing, "t")}
    if cell.wants(*_DIFFERENCES):
        metrics |= zip(_DIFFERENCES, sample_differences(cell.trials, "order", orders), strict=True)
    return contrast.part(metrics, where)


def _configuration(trials: pd.DataFrame, where: dict[str, object], cell: Cell, scale: Scale) -> Iterator[Part]:
    """Yield the metrics of one configuration."""
    items = sample_table(trials).mean(axis=1).rename("score").reset_index()
    mean = mean_of(items, items["score"], None, (scale.low, scale.high), _NO_SCORE)
    metrics: Metrics = {"mean_score": mean, "parse_failure_rate": failures(trials)}
    if cell.wants("score_sd", "resampling_sd"):
        both = score_spread(trials, scale.high - scale.low, cell.resampling)
        metrics |= zip(("score_sd", "resampling_sd"), both, strict=True)
    yield Part(metrics, trials, where)
    for value, share in _shares(trials, scale) if cell.wants("score_share") else ():
        yield Part({"score_share": share}, trials, where | {"score": value})


def failures(trials: pd.DataFrame) -> Ratio:
    """Return the share of unreadable replies, excluding refusals."""
    failed = trials["status"].isin(["unparsable", "cut_off", "out_of_range"])
    return Ratio(trials["context_id"], failed, trials["status"] != "refused", bounds=(0.0, 1.0), inference="t")


def _shares(trials: pd.DataFrame, scale: Scale) -> Iterator[tuple[float, Ratio]]:
    """Yield evenly spaced values of the scale, each with the share of scores nearest to it."""
    read = usable(trials)
    values = np.linspace(scale.low, scale.high, min(_POINTS, len(scale.values)))
    step = values[1] - values[0]
    nearest = np.rint((read["value"].to_numpy(float) - scale.low) / step).clip(0, len(values) - 1)
    for place, value in enumerate(values):
        yield float(value), mean_of(read, nearest == place, None, (0.0, 1.0), _NO_SCORE, "score")
