"""Scores with reasons before, after and without them, for `biaslab.probes.OutputOrder`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal, get_args

import numpy as np
import pandas as pd

from biaslab import prompts
from biaslab.core import Completion, Message, Nearest, Reply, Request, Status, Trial, ends_begun
from biaslab.core.about import Form, Reasons
from biaslab.core.checks import require_some_of
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, find_scale, scale_named
from biaslab.core.schema import Dataset
from biaslab.measures.scoring import pointwise
from biaslab.probes.base import Accepted, Cell, Estimable, Part, Probe, mean_of, scored
from biaslab.stats import Ratio, sample_differences, sample_table, score_spread, undefined, usable

SHIFTS = {"reason_first_shift": ("rs", "sr"), "reason_shift": ("sr", "s")}
_DIFFERENCES = ("sample_difference", "resampling_difference")
_SCORE_TOKENS = 16  # a bare score is short; longer answers would only add cost
_LINES, _JSON = (
    ("score:", "reasons:"),
    ('{"score":', '{"reasons": "'),
)  # beginnings of answers: score first, reasons first
REASONS: dict[prompts.Order, Reasons] = {"s": "none", "sr": "after", "rs": "before"}
_NO_SCORE = "undefined: no reply contains a score"
_POINTS = 10  # number of scale values for `score_share`
Wording = Literal["own", "printed"]


def mean_by_order(estimates: pd.DataFrame) -> str | None:
    """Say what the mean score is alone, before and after reasons; None if one of them is missing."""
    means = estimates[estimates["metric"] == "mean_score"].groupby("order")["estimate"].mean()
    means = means.reindex(["s", "sr", "rs"])
    finding = "The mean score is {:.1f} alone, {:.1f} before reasons and {:.1f} after them".format(*means)
    return finding if means.notna().all() else None


@dataclass(frozen=True)
class OrderedScores(Probe):
    """Base of `biaslab.probes.OutputOrder`, which documents the parameters: everything about scores."""

    forms: Sequence[prompts.Form] = ("ex", "json")
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
        require_some_of("forms", self.forms, get_args(prompts.Form))
        require_some_of("orders", self.orders, get_args(prompts.Order))
        require_some_of("rules", self.rules, (True, False))
        if not {"sr", "rs"} <= set(self.orders):
            raise InputError("orders", self.orders, "a list that contains sr and rs", "these are compared")

    def _scores(self, dataset: Dataset) -> Iterator[Trial]:
        """Plan every item in every configuration."""
        attributes, scale = dataset.require_attributes(self.attributes), find_scale(self.scale)
        if self.wording == "printed" and len(attributes) > 1:
            raise InputError(
                "attributes", attributes, "one attribute with the printed wording", "it asks for a single score"
            )
        for item in pointwise.drawn_items(dataset, self.n_candidates, self.seed):
            for attribute, rules, form, order in product(attributes, self.rules, self.forms, self.orders):
                prompt = self._prompt(dataset, item, attribute, form, order, rules)
                in_lines = form == "ex" and self.wording == "own"
                messages = [Message("user", prompt)]
                if self.opened:
                    messages.append(Message("assistant", (_LINES if in_lines else _JSON)[order == "rs"]))
                where = {"form": form, "order": order, "rules": rules}
                layout: Form = "text" if in_lines else "json"
                about = pointwise.about_scores(item, [attribute], scale, layout, REASONS[order])
                question = pointwise.Question(item, attribute, messages, scale, about)
                yield from question.trials(self._asking(order), where)

    def _prompt(
        self,
        dataset: Dataset,
        item: pointwise.Item,
        attribute: str,
        form: prompts.Form,
        order: prompts.Order,
        rules: bool,
    ) -> str:
        scale, shown = find_scale(self.scale), (item.text, item.context, form, order, rules)
        if self.wording == "printed":
            return prompts.rate_severity(dataset, scale, *shown, self.aspects)
        return prompts.order_output(dataset, attribute, scale, *shown)

    def _asking(self, order: prompts.Order) -> pointwise.Asking:
        length = min(self.max_tokens, _SCORE_TOKENS) if order == "s" else self.max_tokens
        return pointwise.Asking("text", self.replicates, self.temperature, length, self.seed)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the design in which the judge begins its answer itself, if a begun answer was refused."""
        if not (self.opened and ends_begun(refused)):
            return None
        return Nearest(replace(self, opened=False), "lets the judge begin its answer itself")

    def _read_score(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score of a reply, parsed together with the beginning that the prompt gave it, and the status."""
        last = trial.request.messages[-1] if isinstance(trial.request, Completion) else None
        if last is not None and last.role == "assistant":
            score, status = pointwise.read_score(trial, replace(reply, text=f"{last.content}{reply.text or ''}"))
            if status != "unparsable":
                return score, status
        return pointwise.read_score(trial, reply)

    def _measure_scores(self, cell: Cell) -> Iterator[Part]:
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


def _contrast(cell: Cell, metric: str, scale: Scale) -> Part:
    """Return one shift, and the differences between samples of its two orders and of one request."""
    orders, where = SHIFTS[metric], {"order": "-".join(SHIFTS[metric])}
    missing = [order for order in orders if order not in set(cell.trials["order"])]
    if missing:
        nothing = undefined(f"undefined: order {missing[0]} was not judged")
        return Part(dict.fromkeys((metric, *_DIFFERENCES), nothing), (0, 0), where)
    blocks = cell.blocks("order", orders, keep=(), of=where["order"])
    shift = partial(_shift, orders=orders, width=scale.high - scale.low)
    metrics: dict[str, Estimable] = {metric: cell.bounded(shift, blocks, "order", orders, (scale.low, scale.high))}
    if cell.wants(*_DIFFERENCES):
        metrics |= zip(_DIFFERENCES, sample_differences(cell.trials, "order", orders), strict=True)
    return Part(metrics, blocks, where, cell.note_missing(blocks, "order", orders))


def _shift(blocks: pd.DataFrame, orders: tuple[str, str], width: float) -> Ratio:
    """Return the mean score in the first order minus that in the second."""
    missing = "undefined: no item has a score in both orders"
    return mean_of(blocks, blocks[orders[0]] - blocks[orders[1]], 0.0, (-width, width), missing, "t")


def _configuration(trials: pd.DataFrame, where: dict[str, object], cell: Cell, scale: Scale) -> Iterator[Part]:
    """Yield the metrics of one configuration."""
    items = sample_table(trials).mean(axis=1).rename("score").reset_index()
    metrics: dict[str, Estimable] = {
        "mean_score": mean_of(items, items["score"], None, (scale.low, scale.high), _NO_SCORE),
        "parse_failure_rate": failures(trials),
    }
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
