"""Base for probes that score single candidates: how to ask for a score and parse the reply."""

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
    """Base for probes that score candidates one by one on one scale.

    Further parameters: `biaslab.probes.base.Probe`.

    A trial's ``value`` is the score on the scale; for a distribution, the expected score.

    Parameters
    ----------
    scale : str
        One of `biaslab.core.scales.SCALES`.
    answer : {"distribution", "text", "score"}
        Read the exact distribution over the scale's labels, or generate text and parse the score; or ask an evaluator,
        which takes no prompt, for one number.
    replicates : int
        With ``answer="text"``: samples of each request; their scores are averaged.
    temperature : float
        With ``answer="text"``: 0 is greedy; replicates are then equal.
    max_tokens : int
        With ``answer="text"``: maximum tokens of an answer.
    protocol : Protocol or path, optional
        Prompt and parser to use instead of biaslab's own; see `biaslab.Protocol`. It sets scale, temperature and
        maximum length; its id is in the column ``protocol``.

    Attributes
    ----------
    evaluators : bool
        Whether evaluators can be asked, because the bias does not depend on the prompt.
    protocol_form : str
        Form of protocol it accepts.
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
        """Load the protocol, if given, and adopt its settings."""
        if self.protocol is not None and not self.protocol_form:
            allowed = f"None, because {self.name} has its own prompts"
            raise InputError("protocol", self.protocol, allowed, "the probe template compares several, protocols=[…]")
        if self.protocol is not None:
            protocol = Protocol.of_form(self.protocol, "score")
            settle(self, {**settled(protocol), "scale": protocol.scale.name, "max_tokens": protocol.max_tokens})

    @property
    def _scale(self) -> Scale:
        return self.protocol.scale if isinstance(self.protocol, Protocol) else find_scale(self.scale)

    @property
    def asking(self) -> Asking:
        """How scores are asked for."""
        return Asking(self.answer, self.replicates, self.temperature, self.max_tokens, self.seed, self.evaluators)

    def questions(self, dataset: Dataset) -> Iterator[Question]:
        """Yield the question for each candidate's score on each attribute."""
        for item, attribute in product(items(dataset), dataset.require_attributes(self.attributes)):
            yield self.question(dataset, item, attribute)

    def question(self, dataset: Dataset, item: Item, attribute: str, **placed: str) -> Question:
        """Return the question for one score; headings, notes and edits as in `Question.rate`."""
        return question_of(self.protocol, dataset, item, attribute, self._scale, self.attributes, **placed)

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, an evaluator's number instead of text."""
        if isinstance(refused, Completion) and self.answer == "text" and self.evaluators:
            settled = {"answer": "score", "replicates": 1, "protocol": None}
            return Nearest(replace(self, **settled), "takes an evaluator's number instead of text")  # type: ignore[arg-type]
        return super().nearest(refused)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the score in the reply, and its status."""
        return read_with(self.protocol, trial, reply)


def draw_score(trial: Trial, reply: Reply, temperature: float, use: str) -> tuple[float, Status]:
    """Draw one score from a label distribution at a temperature; return it with its status.

    The distribution is inverted at a random number that depends only on the request and its use.
    """
    p = tempered(reply.logprobs or (), temperature)
    if np.isnan(p).any() or not len(p):
        return math.nan, "refused"
    place = int(np.searchsorted(p.cumsum(), random_number(trial.request, use) / 2**52 * p.sum(), side="right"))
    return float(find_scale(str(trial.condition["scale"])).values[min(place, len(p) - 1)]), "ok"


def random_number(request: Request, use: str) -> int:
    """Return a random integer below 2**52 that depends on a request and its use."""
    return int(request_key(request, use)[:13], 16)
