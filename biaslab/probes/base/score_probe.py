"""Base for probes that score single candidates: how a score is asked for, and how a reply is read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from os import PathLike
from typing import ClassVar

import numpy as np

from biaslab.core import Completion, Nearest, Reply, Request, Status, Trial, request_key
from biaslab.core.errors import InputError
from biaslab.core.scales import Scale, find_scale
from biaslab.core.schema import Dataset
from biaslab.measures.scoring.pointwise import AnyAnswer, Asking, Item, Question, items
from biaslab.probes.base.own_protocol import question_of, read_with, settle, settled
from biaslab.probes.base.probe import Probe
from biaslab.prompts.protocols import Protocol
from biaslab.stats import tempered


@dataclass(frozen=True)
class ScoreProbe(Probe):
    """A probe that scores candidates one by one on one scale.

    Its further parameters are those of `biaslab.probes.base.Probe`.

    A trial's ``value`` is the score on the scale: the expected one of a distribution.

    Parameters
    ----------
    scale : str
        One of `biaslab.core.scales.SCALES`.
    answer : {"distribution", "text", "score"}
        Read the exact distribution over the scale's labels, or generate text and read the score in it; or ask an
        evaluator, which reads no prompt, for one number.
    replicates : int
        With ``answer="text"``: samples of each request; their scores are averaged.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    max_tokens : int
        With ``answer="text"``: length of an answer at most.
    protocol : Protocol or path, optional
        Ask with this prompt and read with this parser instead of biaslab's own: see `biaslab.Protocol`. Scale,
        temperature and length of a reply are its own; its id stands in a column ``protocol``.

    Attributes
    ----------
    evaluators : bool
        Whether an evaluator's number will do, since the phenomenon does not lie in the prompt.
    protocol_form : str
        Forms of the protocols that it takes.
    """

    evaluators: ClassVar[bool] = True
    protocol_form: ClassVar[str] = "score"
    columns: ClassVar[tuple[str, ...]] = ("context_id", "candidate_id", "human", "value", "status")

    scale: str = field(default="1-5", kw_only=True)
    answer: AnyAnswer = field(default="distribution", kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    max_tokens: int = field(default=16, kw_only=True)
    protocol: Protocol | str | PathLike[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.take_protocol()
        super().__post_init__()
        _ = self._scale, self.asking

    def take_protocol(self) -> None:
        """Load the protocol where a file is named; ask as it says."""
        if self.protocol is not None and not self.protocol_form:
            allowed = f"None: {self.name} has prompts of its own"
            raise InputError("protocol", self.protocol, allowed, "template compares several with protocols=[…]")
        if self.protocol is not None:
            protocol = Protocol.of_form(self.protocol, "score")
            settle(self, {**settled(protocol), "scale": protocol.scale.name, "max_tokens": protocol.max_tokens})

    @property
    def _scale(self) -> Scale:
        return self.protocol.scale if isinstance(self.protocol, Protocol) else find_scale(self.scale)

    @property
    def asking(self) -> Asking:
        """The protocol that asks for scores."""
        return Asking(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed, self.evaluators)

    def questions(self, dataset: Dataset) -> Iterator[Question]:
        """Yield the question for the score of every candidate and attribute."""
        for item, attribute in product(items(dataset), dataset.require_attributes(self.attributes)):
            yield self.question(dataset, item, attribute)

    def question(self, dataset: Dataset, item: Item, attribute: str, **placed: str) -> Question:
        """Return the question for one score; headings, notes and edits as `Question.rate` takes them."""
        return question_of(self.protocol, dataset, item, attribute, self._scale, self.attributes, **placed)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, an evaluator's number instead of text."""
        if isinstance(refused, Completion) and self.answer == "text" and self.evaluators:
            settled = {"answer": "score", "replicates": 1, "protocol": None}
            return Nearest(replace(self, **settled), "takes an evaluator's number instead of text")  # type: ignore[arg-type]
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score that the reply gives, and its status."""
        return read_with(self.protocol, trial, reply)


def draw_score(trial: Trial, reply: Reply, temperature: float, use: str) -> tuple[float, Status]:
    """Draw one score from a label distribution at a temperature, and return it with its status.

    The distribution is inverted at a random number that depends on the request and on what it is for alone.
    """
    p = tempered(reply.logprobs or (), temperature)
    if np.isnan(p).any() or not len(p):
        return math.nan, "refused"
    place = int(np.searchsorted(p.cumsum(), random_number(trial.request, use) / 2**52 * p.sum(), side="right"))
    return float(find_scale(str(trial.condition["scale"])).values[min(place, len(p) - 1)]), "ok"


def random_number(request: Request, use: str) -> int:
    """Return a random whole number below 2**52 that depends on a request and what it is for."""
    return int(request_key(request, use)[:13], 16)
