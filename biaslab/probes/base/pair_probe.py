"""Base for probes that compare pairs: how to ask for a pair and parse the reply."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from os import PathLike
from typing import ClassVar, Literal, TypeVar, get_args

import numpy as np

from biaslab import prompts
from biaslab.core import About, Choice, Compare, Completion, Nearest, Reply, Request, Scalar, Status, Trial
from biaslab.core.checks import require_one_of, require_sampling, unknown
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.probes.base.own_protocol import settle, settled
from biaslab.probes.base.probe import Probe
from biaslab.prompts.defences import Defence, defend
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.protocols import Protocol

Answer = Literal["distribution", "text", "verdict"]
_WITHIN_TEXTS: tuple[Defence, ...] = ("none", "quoting")  # defences that do not wrap the whole prompt
Drawn = TypeVar("Drawn")
_NO_PROMPT = "direct"  # value of the column `template` for texts shown without a prompt
_LARGE = 709.0  # larger values overflow exp


@dataclass(frozen=True)
class PairProbe(Probe):
    """Base for probes that compare pairs of candidates.

    Further parameters: `biaslab.probes.base.Probe`.

    A trial's ``value`` is the probability that the candidate shown first wins, normalised over the two labels (p_ij of
    Liusie et al. 2024, Eq. 3), or 0, ½ (tie), 1 for text. A tie is marked by the status: "Tie" is the likeliest answer.
    Two equally likely labels give no decision either, but their ½ is a probability, which remedies can change.

    Parameters
    ----------
    answer : {"distribution", "text", "verdict"}
        Read the probabilities of the two labels (Liusie et al. 2024, Eq. 3), or generate text and parse the label (Eqs.
        4, 5); or show the two texts to a judge that takes no prompt (`biaslab.core.Compare`).
    ties : bool
        Offer "Tie" as a third answer.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy; replicates are then equal.
    protocol : Protocol or path, optional
        Prompt and parser to use instead of biaslab's own; see `biaslab.Protocol`. It also sets whether text or label
        probabilities are read, the temperature, and whether ties are offered; its id is in the column ``template``.

    Attributes
    ----------
    verdicts : bool
        Whether judges without prompts can be asked, because the bias does not depend on the prompt.
    protocol_form : str
        Form of protocol it accepts.
    """

    verdicts: ClassVar[bool] = False
    protocol_form: ClassVar[str] = "pair"

    answer: Answer = field(default="distribution", kw_only=True)
    ties: bool = field(default=False, kw_only=True)
    replicates: int = field(default=1, kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    protocol: Protocol | str | PathLike[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.take_protocol()
        require_one_of("answer", self.answer, get_args(Answer) if self.verdicts else get_args(Answer)[:2])
        require_sampling(self.answer, self.replicates, self.temperature)

    def take_protocol(self) -> None:
        """Load the protocol, if given, and adopt its settings."""
        if self.protocol is None:
            return
        protocol = Protocol.of_form(self.protocol, "pair")
        settle(self, {**settled(protocol), "ties": 0.5 in protocol.points})

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design: text instead of label probabilities, a verdict instead of text."""
        if isinstance(refused, Completion) and self.answer == "text" and self.verdicts:
            settled = {"answer": "verdict", "protocol": None, "replicates": 1}
            return Nearest(replace(self, **settled), "shows the texts without a prompt")  # type: ignore[arg-type]
        return super().nearest(refused)

    def ask_pair(
        self,
        dataset: Dataset,
        template: int,
        attribute: str,
        context: tuple[str, str],
        pair: tuple[tuple[str, str], tuple[str, str]],
        condition: Mapping[str, Scalar],
        headings: tuple[str, str] = ("", ""),
        note: str = "",
        edits: tuple[str, ...] = (),
        defence: Defence = "none",
        cue: str = "",
    ) -> Iterator[Trial]:
        """Return one trial per replicate of an ordered pair.

        Parameters
        ----------
        dataset : Dataset
            Source of noun and definition.
        template : {1, 2}
            Comparative template.
        attribute : str
            The attribute to compare on.
        context, pair : tuple of str
            Name and text of the context, and of the candidates shown first and second.
        condition : mapping
            Columns of the trials frame.
        headings : tuple of str
            Text in brackets after the names of first and second.
        note : str
            A sentence before the question.
        edits : tuple of str
            Names of the edits of first and second, "" for none; empty if neither is edited.
        cue : str
            Text at the end of the prompt, such as "Answer:".
        defence : str
            Defence around the prompt; see `biaslab.prompts.defences`, whose `shield` has been applied to the texts.
        """
        (first, shown), (second, shown_second) = pair
        if attribute not in dataset.attributes:
            raise unknown("attribute", attribute, dataset.attributes)
        if self.answer == "verdict":
            return iter([self._show_pair(dataset, attribute, context, pair, condition, edits)])
        if isinstance(self.protocol, Protocol):
            asked = (dataset, attribute, context, pair, condition, headings, note, edits, defence)
            return self._ask_protocol(self.protocol, *asked)
        definition, noun = dataset.attributes[attribute], dataset.noun
        form = _form(template, noun, attribute, definition, self.ties, headings, note, cue)
        parts = form[0], context[1], form[1], shown, form[2], shown_second, form[3]
        whole = "".join(parts)
        prompt = whole.strip()
        labels = _labels(noun, self.ties)
        source = bool(context[1].strip())
        texts = (shown, shown_second)
        about = About(context[0], (first, second), texts, (attribute,), source, labels, edits=edits)
        defended = prompt if defence == "none" else defend(prompt, defence)
        kept = parts if len(whole) == len(prompt) and defended is prompt else ()
        where = context[0], attribute, first, second
        if self.answer == "distribution":
            return iter((Trial(Choice(defended, labels, about, kept), *where, 0, condition, labels),))
        requests = [
            Completion(defended, self.temperature, 32, replicate, self.seed, about)
            for replicate in range(self.replicates)
        ]
        return iter([Trial(each, *where, number, condition, labels) for number, each in enumerate(requests)])

    def _show_pair(
        self,
        dataset: Dataset,
        attribute: str,
        context: tuple[str, str],
        pair: tuple[tuple[str, str], tuple[str, str]],
        condition: Mapping[str, Scalar],
        edits: tuple[str, ...],
    ) -> Trial:
        """Return the trial of one ordered pair shown without a prompt."""
        (first, text), (second, other) = pair
        about = About(context[0], (first, second), (text, other), (attribute,), bool(context[1].strip()), edits=edits)
        request = Compare(text, other, context[1], dataset.rows[context[0], first]["reference"], attribute, about)
        return Trial(request, context[0], attribute, first, second, 0, {**condition, "template": _NO_PROMPT})

    def _ask_protocol(
        self,
        protocol: Protocol,
        dataset: Dataset,
        attribute: str,
        context: tuple[str, str],
        pair: tuple[tuple[str, str], tuple[str, str]],
        condition: Mapping[str, Scalar],
        headings: tuple[str, str],
        note: str,
        edits: tuple[str, ...],
        defence: Defence,
    ) -> Iterator[Trial]:
        """Yield the trials of one ordered pair asked with a protocol.

        A heading goes on the line before the candidate's text, a note on the line before the last user message.
        """
        if defence not in _WITHIN_TEXTS:
            raise InputError("defence", defence, f"one of {', '.join(_WITHIN_TEXTS)} with a protocol")
        (first, _), (second, _) = pair
        texts = tuple(
            f"({heading})\n{text}" if heading else text for heading, (_, text) in zip(headings, pair, strict=True)
        )
        shown = protocol.show(dataset, attribute, context[0], (first, second), texts)
        labels, source = protocol.labels, bool(context[1].strip()) and "context" in protocol.sources
        named = dataset.require_attributes(self.attributes) if protocol.joint else (attribute,)
        about = About(context[0], (first, second), texts, named, source, labels, edits=edits, protocol=protocol)
        where = {**condition, "template": protocol.id}
        for replicate in range(self.replicates):
            request = protocol.request(shown, about, replicate, self.seed, self.answer == "distribution", note)
            yield Trial(request, context[0], attribute, first, second, replicate, where, labels)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, and the status."""
        return read_pair(trial, reply, self.protocol)


def read_pair(trial: Trial, reply: Reply, protocol: object = None) -> tuple[float, Status]:
    """Return the probability that the first of a pair wins (0, ½ or 1 for text), and the status.

    Replies to a protocol are parsed by it.
    """
    if isinstance(trial.request, Compare):
        return (math.nan, "refused") if reply.score is None else (reply.score, _status(reply.score))
    if isinstance(protocol, Protocol):
        return protocol.read(reply, trial.attribute)
    if isinstance(trial.request, Choice):
        return _read_distribution(reply.logprobs or ())
    chosen, status = parse_choice(reply.text, trial.labels)
    if chosen is None and status != "tie":
        return math.nan, status
    return (0.5, "tie") if chosen is None or chosen == 2 else (1.0 - chosen, "ok")


def _status(value: float) -> Status:
    return "tie" if value == 0.5 else "ok"


def draw_of(seed: int, context_id: str) -> np.random.Generator:
    """Return a random generator that depends only on the seed and the context."""
    return np.random.default_rng([seed, zlib.crc32(context_id.encode())])


def draw(population: Sequence[Drawn], n: int | None, seed: int, context_id: str) -> list[Drawn]:
    """Draw candidates or pairs of a context without replacement, keeping their order; None takes all."""
    if n is None or n >= len(population):
        return list(population)
    return [population[i] for i in sorted(draw_of(seed, context_id).choice(len(population), n, replace=False))]


def name_candidates(noun: str) -> tuple[str, str]:
    """Return the names of the first and second candidate in a prompt.

    Examples
    --------
    >>> name_candidates("summary")
    ('Summary A', 'Summary B')
    """
    return f"{noun.capitalize()} A", f"{noun.capitalize()} B"


@lru_cache(maxsize=1024)
def _form(
    template: int,
    noun: str,
    attribute: str,
    definition: str,
    ties: bool,
    headings: tuple[str, str],
    note: str,
    cue: str,
) -> tuple[str, ...]:
    """Return a comparative prompt without its texts and outer white space; see `biaslab.prompts.prepare`."""
    of = {"noun": noun, "attribute": attribute, "definition": definition}
    texts = ("context", "first", "second")
    form = prompts.prepare(f"comparative_{template}", texts, **of, ties=ties, headings=headings, note=note, cue=cue)
    return (form[0].lstrip(), *form[1:-1], form[-1].rstrip())


@cache
def _labels(noun: str, ties: bool) -> tuple[str, ...]:
    return (*name_candidates(noun), "Tie") if ties else name_candidates(noun)


def _read_distribution(logprobs: Sequence[float]) -> tuple[float, Status]:
    """Return p and the status, which is "tie" if that is the most likely label."""
    if not logprobs or not any(map(math.isfinite, logprobs[:2])):
        tied = len(logprobs) > 2 and math.isfinite(logprobs[2])
        return (0.5, "tie") if tied else (math.nan, "refused")
    first, second = logprobs[:2]
    difference = first - second
    p = 1 / (1 + math.exp(-difference)) if difference > -_LARGE else 0.0
    return p, "tie" if len(logprobs) > 2 and logprobs[2] > max(first, second) else "ok"
