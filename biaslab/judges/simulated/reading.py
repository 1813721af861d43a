"""What a prompt asks of a simulated judge: which candidates, attributes and scale, and in what form to answer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from biaslab.core import Choice, Completion, Message
from biaslab.errors import JudgeError
from biaslab.judges.simulated.draws import digest_of
from biaslab.judges.simulated.knowledge import Knowledge, Shown
from biaslab.judges.simulated.recognition import Seen, context_of, look_at, shows_source
from biaslab.prompts import adjectives
from biaslab.scales import SCALES, Scale, stated_scale, whole_numbers

Reasons = Literal["none", "before", "after"]
Layout = Literal["bare", "lines", "text", "json"]
_REASONS = re.compile(r"<reasons>|\"reasons\"|reasons: <")
_FROM_TO = re.compile(r"from (\d+)(?: \(worst\))? to (\d+)")
_NUMBER = r"((?:(?:weak|strong) )?\d+(?:\.\d+)?)"
_CACHED = 100_000  # prompts that are remembered, so that judges of one data set read each but once


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Which of two candidates is better; ``labels`` are the answers in text, "Tie" among them where it is offered."""

    digest: bytes
    first: Shown
    second: Shown
    attribute: str
    source: bool
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoreQuestion:
    """How good one candidate is, on one attribute or on several in one output.

    Parameters
    ----------
    digest : bytes
        Stands for the messages.
    shown : Shown
        The candidate.
    attributes : tuple of str
        Still to be scored, in order.
    source : bool
        Whether the source stands in the prompt, or there is none.
    scale : Scale
        Labels and values.
    units, heaps : ndarray, shape (labels,)
        The values on the unit scale; 1 for multiples of 10, ½ for other multiples of 5, where labels can heap.
    reasons : {"none", "before", "after"}
        Where reasons are asked.
    layout : {"bare", "lines", "text", "json"}
        Form of the answer: the label, lines ``attribute: label``, lines ``score: label``, a JSON object.
    previous : float or None
        The score that already stands just before, on the unit scale.
    opened : bool
        Whether the first line already stands in the prompt up to its score.
    """

    digest: bytes
    shown: Shown
    attributes: tuple[str, ...]
    source: bool
    scale: Scale
    units: NDArray[np.float64]
    heaps: NDArray[np.float64]
    reasons: Reasons
    layout: Layout
    previous: float | None
    opened: bool


Question = PairQuestion | ScoreQuestion


class Reader:
    """Reads the requests about one data set, each prompt once for all judges of the data set.

    Parameters
    ----------
    known : Knowledge
        The data set.
    """

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        words = adjectives()
        self._spelled = {spelling: a for a in known.attributes for spelling in (a, words.get(a, a))}
        self._listed = {a.lower() for a in known.attributes}
        names = "|".join(map(re.escape, known.attributes))
        self._line = re.compile(rf"^\W*({names}): <", re.MULTILINE | re.IGNORECASE)
        self._given = re.compile(rf"^\W*({names}|score|rating)\W*:\W*{_NUMBER}\W*?$", re.MULTILINE | re.IGNORECASE)
        self._opened = re.compile(rf"(?:^|\n)\W*({names}|score|rating)\W*:\s*$", re.IGNORECASE)

    def read(self, request: Choice | Completion) -> Question:
        """Return what a request asks.

        Raises
        ------
        JudgeError
            If the prompt does not show one or two candidates of one context, if it names no attribute or scale, or if
            nobody rated what it shows.
        """
        labels = request.labels if isinstance(request, Choice) else None
        key = (request.messages, labels)
        question = self.known.questions.get(key)
        if question is None:
            try:
                question = self._read(request.messages, labels)
            except JudgeError as error:
                raise JudgeError(str(error), request) from None
            if len(self.known.questions) >= _CACHED:
                self.known.questions.clear()
            self.known.questions[key] = question
        return question

    def _read(self, messages: Sequence[Message], labels: tuple[str, ...] | None) -> Question:
        seen = self._look(messages)
        if len(seen.candidates) not in (1, 2):
            n = len(seen.candidates)
            raise JudgeError(f"the simulated judge finds {n} candidates of its data set, not 1 or 2")
        context_id, attribute = context_of(seen, self.known), self._attribute(seen.task)
        if context_id is None or attribute is None:
            raise JudgeError("the simulated judge recognises no context or attribute in the prompt")
        owners = self.known.owners
        shown = [Shown(context_id, owners[known][context_id], text) for known, text in seen.candidates]
        source, digest = shows_source(seen, context_id, self.known), digest_of(messages)
        if len(shown) == 1:
            return self._score(messages, labels, (digest, shown[0], source), seen.task, attribute)
        noun = self.known.noun.capitalize()
        ties = "Tie" in (labels or seen.task[-1])
        answers = (f"{noun} A", f"{noun} B", "Tie") if ties else (f"{noun} A", f"{noun} B")
        for one in shown:
            self._require_score(one, attribute)
        return PairQuestion(digest, shown[0], shown[1], attribute, source, answers)

    def _look(self, messages: Sequence[Message]) -> Seen:
        """Look at the last turn of the user that shows candidates; what later turns say is the task too."""
        later: list[Seen] = []
        for message in reversed(messages):
            if message.role == "user":
                later.insert(0, look_at(message.content, self.known))
                if later[0].candidates:
                    break
        if not later:
            return Seen((), frozenset(), ())
        return later[0]._replace(task=tuple(part for seen in later for part in seen.task))

    def _attribute(self, task: Sequence[str]) -> str | None:
        """Return the attribute named in the last paragraph that names one: there the earliest, then the longest."""
        for paragraph in reversed(task):
            places = [(paragraph.find(s), -len(s), a) for s, a in self._spelled.items() if s in paragraph]
            if places:
                return min(places)[2]
        return None

    def _score(
        self,
        messages: Sequence[Message],
        labels: tuple[str, ...] | None,
        shown: tuple[bytes, Shown, bool],
        task: Sequence[str],
        attribute: str,
    ) -> ScoreQuestion:
        digest, candidate, source = shown
        text = "\n\n".join(task)
        scale = _labelled(labels) if labels else _stated(text)
        if scale is None:
            raise JudgeError("the simulated judge recognises no scale in the prompt or the labels")
        said = [m.content for m in messages if m.role == "assistant"]
        stated = [found for found in self._given.findall(text) if found[0].lower() in self._listed]
        given = stated + [found for turn in said for found in self._given.findall(turn)]
        given += [("", turn.strip()) for turn in said if turn.strip() in scale.labels]
        listed = list(dict.fromkeys(name.lower() for name in self._line.findall(text))) or [attribute.lower()]
        opened = self._opened.search(messages[-1].content) if messages[-1].role == "assistant" else None
        done = {name.lower() for name, _ in given} if len(listed) > 1 else set()
        left = [a for a in self.known.attributes if a.lower() in listed]
        left = sorted((a for a in left if a.lower() not in done), key=lambda a: listed.index(a.lower()))
        if not left:
            raise JudgeError("the simulated judge finds every score already given")
        for name in left:
            self._require_score(candidate, name)
        layout, reasons = _form(text[max(text.rfind(scale.wording), 0) :], self._line)
        previous = _worth(given[-1][1], scale) if given else None
        units, heaps = levels(scale)
        return ScoreQuestion(
            digest, candidate, tuple(left), source, scale, units, heaps, reasons, layout, previous, opened is not None
        )

    def _require_score(self, shown: Shown, attribute: str) -> None:
        if math.isnan(self.known.score(shown, attribute)):
            what = f"context {shown.context_id!r}, candidate {shown.candidate_id!r} on {attribute}"
            raise JudgeError(f"nobody rated {what}, so the simulated judge cannot either")


@cache
def levels(scale: Scale) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values on the unit scale, and where they heap: 1 at multiples of 10, ½ at other multiples of 5.

    Only scales of more than 10 whole numbers heap.
    """
    values = np.array(scale.values)
    heaps = np.where(values % 10 == 0, 1.0, np.where(values % 5 == 0, 0.5, 0.0))
    if len(values) <= 10 or (values % 1).any():
        heaps = np.zeros(len(values))
    return (values - scale.low) / (scale.high - scale.low), heaps


def _labelled(labels: Sequence[str]) -> Scale | None:
    """Return the scale that has some labels, whose order is the scale's; a space before a label does not count."""
    bare = tuple(label.strip() for label in labels)
    for scale in SCALES.values():
        if scale.labels == bare:
            return scale
    try:
        return Scale("labels", tuple(labels), tuple(map(float, labels)), ", ".join(labels))
    except ValueError:  # not numbers, or not in ascending order
        return None


def _stated(task: str) -> Scale | None:
    """Return the scale that a prompt states, in its own wording or as "from 1 to 5"."""
    found = stated_scale(task)
    ends = None if found else re.search(_FROM_TO, task)
    return whole_numbers(int(ends[1]), int(ends[2])) if ends and int(ends[1]) < int(ends[2]) else found


def _form(task: str, line: re.Pattern[str]) -> tuple[Layout, Reasons]:
    """Return the form of the answer, and where the reasons stand in it."""
    places = {"json": task.find('"score"'), "text": task.find("score: <")}
    layout: Layout = "json" if places["json"] >= 0 else "text"
    place = places[layout]
    if place < 0:
        found = line.search(task)
        if found is None:
            return "bare", "none"
        layout, place = "lines", found.start()
    reasons = _REASONS.search(task)
    if reasons is None:
        return layout, "none"
    return layout, "before" if reasons.start() < place else "after"


def _worth(label: str, scale: Scale) -> float:
    """Return what a label is worth on the unit scale."""
    value = scale.values[scale.labels.index(label)] if label in scale.labels else float(label.split()[-1])
    return scale.unit(value)
