"""Base for probes that compare pairs: how a pair is asked for, and how a reply is read."""

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
from biaslab.core import About, Choice, Compare, Completion, Messages, Nearest, Reply, Request, Scalar, Status, Trial
from biaslab.core.checks import require_one_of, require_sampling, unknown
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.probes.base.own_protocol import settle, settled
from biaslab.probes.base.probe import Probe
from biaslab.prompts.defences import Defence, defend
from biaslab.prompts.parsing import parse_choice
from biaslab.prompts.protocols import Protocol

Answer = Literal["distribution", "text", "verdict"]
_WITHIN_TEXTS: tuple[Defence, ...] = ("none", "quoting")  # defences that put nothing around the whole prompt
Drawn = TypeVar("Drawn")
_NO_PROMPT = "direct"  # stands in the column `template` where texts are shown without a prompt
_LARGE = 709.0  # beyond it, the exponential is no float any more


@dataclass(frozen=True)
class PairProbe(Probe):
    """A probe that compares pairs of candidates.

    Its further parameters are those of `biaslab.probes.base.Probe`.

    A trial's ``value`` is the probability that the candidate shown first wins, among the two labels: p_ij of Liusie et
    al. 2024, Eq. 3, or 0, ½ (tie), 1 for text. The status says what is a tie: "Tie" as the likeliest answer. Two labels
    exactly as likely decide nothing either, but their ½ is a probability, which a remedy moves like any other.

    Parameters
    ----------
    answer : {"distribution", "text", "verdict"}
        Read the probabilities of the two labels (Liusie et al. 2024, Eq. 3), or generate text and read the label in it
        (Eqs. 4, 5); or show a judge that reads no prompt the two texts (`biaslab.core.Compare`).
    ties : bool
        Offer "Tie" as a third answer.
    replicates : int
        With ``answer="text"``: samples of each request.
    temperature : float
        With ``answer="text"``: 0 is greedy, and then replicates are equal.
    protocol : Protocol or path, optional
        Ask with this prompt and read with this parser instead of biaslab's own: see `biaslab.Protocol`. It says, too,
        whether a text or label probabilities are read, at what temperature, and whether ties are offered; its id
        stands in the column ``template``.

    Attributes
    ----------
    verdicts : bool
        Whether the verdict of a judge that reads no prompt will do, since the phenomenon does not lie in the prompt.
    protocol_form : str
        Form of the protocols that it takes.
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
        """Load the protocol where a file is named; ask as it says."""
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
            Where noun and definition come from.
        template : {1, 2}
            Comparative template.
        attribute : str
            What to compare on.
        context, pair : tuple of str
            Name and text of the context, and of the candidates shown first and second.
        condition : mapping
            Columns of the trials frame.
        headings : tuple of str
            Words in brackets behind the names of first and second.
        note : str
            A sentence before the question.
        edits : tuple of str
            Names of the edits with which first and second are shown, "" for none; empty where neither is edited.
        cue : str
            What stands at the end of the prompt, such as "Answer:".
        defence : str
            What stands around the prompt; see `biaslab.prompts.defences`, whose `shield` the texts went through.
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
        requests = [self._request(defended, about, replicate, kept) for replicate in range(self.replicates)]
        where = context[0], attribute, first, second
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
        """Return the trial of one ordered pair that is shown without a prompt."""
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
        """Yield the trials of one ordered pair that is shown by a protocol.

        A heading stands on a line before the candidate's text, a note on a line before the last message by the user.
        """
        if defence not in _WITHIN_TEXTS:
            raise InputError("defence", defence, f"one of {', '.join(_WITHIN_TEXTS)} where a protocol asks")
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

    def _request(self, prompt: Messages, about: About, replicate: int, parts: tuple[str, ...]) -> Request:
        if self.answer == "distribution":
            return Choice(prompt, about.labels, about, parts)
        return Completion(prompt, self.temperature, 32, replicate, self.seed, about)

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Return the probability that the first wins, and the status."""
        return read_pair(trial, reply, self.protocol)


def read_pair(trial: Trial, reply: Reply, protocol: object = None) -> tuple[float, Status]:
    """Return the probability that the first of a pair wins, or 0, ½ or 1 of a text, and the status.

    A protocol, where one asked, reads its own replies.
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
    """Return random numbers that depend on the seed and the context alone."""
    return np.random.default_rng([seed, zlib.crc32(context_id.encode())])


def draw(population: Sequence[Drawn], n: int | None, seed: int, context_id: str) -> list[Drawn]:
    """Draw some candidates or pairs of a context without replacement, in their order; None takes all of them."""
    if n is None or n >= len(population):
        return list(population)
    return [population[i] for i in sorted(draw_of(seed, context_id).choice(len(population), n, replace=False))]


def name_candidates(noun: str) -> tuple[str, str]:
    """Return the names that a prompt gives the candidates shown first and second.

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
    """Return a comparative prompt but for its texts and white space at its ends: see `biaslab.prompts.prepare`."""
    of = {"noun": noun, "attribute": attribute, "definition": definition}
    texts = ("context", "first", "second")
    form = prompts.prepare(f"comparative_{template}", texts, **of, ties=ties, headings=headings, note=note, cue=cue)
    return (form[0].lstrip(), *form[1:-1], form[-1].rstrip())


@cache
def _labels(noun: str, ties: bool) -> tuple[str, ...]:
    return (*name_candidates(noun), "Tie") if ties else name_candidates(noun)


def _read_distribution(logprobs: Sequence[float]) -> tuple[float, Status]:
    """Return p and the status, which is a tie where that is the likeliest label."""
    if not logprobs or not any(map(math.isfinite, logprobs[:2])):
        tied = len(logprobs) > 2 and math.isfinite(logprobs[2])
        return (0.5, "tie") if tied else (math.nan, "refused")
    first, second = logprobs[:2]
    difference = first - second
    p = 1 / (1 + math.exp(-difference)) if difference > -_LARGE else 0.0
    return p, "tie" if len(logprobs) > 2 and logprobs[2] > max(first, second) else "ok"
