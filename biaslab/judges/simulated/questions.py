"""The question that a request asks a simulated judge, read from its `about` and the data set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biaslab.core import About, Choice, Completion
from biaslab.core.about import Form, Reasons
from biaslab.core.errors import InputError, JudgeError, UnsupportedRequestError
from biaslab.core.scales import Scale, scale_named
from biaslab.judges.simulated.knowledge import Knowledge, Shown, digest_of

_CACHED = 100_000  # questions that are remembered, so that judges of one data set look up each but once


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Which of two candidates is better; ``labels`` are the answers in text, "Tie" among them where it is offered."""

    digest: bytes
    first: Shown
    second: Shown
    attribute: str
    source: bool
    labels: tuple[str, ...]
    template: str = ""
    reasons: Reasons = "none"


@dataclass(frozen=True, slots=True)
class ScoreQuestion:
    """Score one candidate, on one attribute or on several in one output.

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
        Form of the answer, as in `biaslab.core.About`.
    previous : float or None
        The score that already stands just before, on the unit scale.
    opened : bool
        Whether the first line already stands in the prompt up to its score.
    template : str
        Name of the variant of the prompt.
    replies : tuple of str
        What a reply looks like for each label, where that is not the label in the layout.
    """

    digest: bytes
    shown: Shown
    attributes: tuple[str, ...]
    source: bool
    scale: Scale
    units: NDArray[np.float64]
    heaps: NDArray[np.float64]
    reasons: Reasons
    layout: Form
    previous: float | None
    opened: bool
    template: str = ""
    replies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListQuestion:
    """Which of several candidates is best, or how they rank: ``protocol`` says which, and writes replies."""

    digest: bytes
    shown: tuple[Shown, ...]
    attribute: str
    source: bool
    protocol: Any
    template: str = ""


Question = PairQuestion | ScoreQuestion | ListQuestion


class Questions:
    """Completes the `about` of requests from one data set, once for all judges of it.

    Parameters
    ----------
    known : Knowledge
        The data set.
    rated : bool
        Refuse candidates that nobody rated.
    """

    def __init__(self, known: Knowledge, rated: bool = True) -> None:
        self.known, self.rated = known, rated

    def of(self, request: Choice | Completion) -> Question:
        """Return the question of a request.

        Raises
        ------
        UnsupportedRequestError
            If the request does not say what it is about.
        JudgeError
            If that is not one candidate on a scale, two, or a list, of the data set, or nobody rated it.
        """
        about = request.about
        if about is None:
            raise UnsupportedRequestError(
                "the request does not say what it is about, and this judge reads no prompts; "
                "give it the field about, a biaslab.core.About, as probes and scorers do",
                request,
            )
        key = (request.messages, about)
        question = self.known.questions.get(key)
        if question is None:
            try:
                question = self._of(request, about)
            except (InputError, JudgeError) as error:
                raise JudgeError(str(error), request) from None
            if len(self.known.questions) >= _CACHED:
                self.known.questions.clear()
            self.known.questions[key] = question
        return question

    def _of(self, request: Choice | Completion, about: About) -> Question:
        listed = getattr(about.protocol, "form", "") == "list"
        if not about.attributes or not (listed or len(about.candidate_ids) in (1, 2)):
            raise JudgeError(f"the judge scores one candidate, or compares two or a list on an attribute, not {about}")
        shown = self.known.shown(about)
        source, digest = about.source or not self.known.sources[shown[0].context_id], digest_of(request.messages)
        for one, attribute in product(shown, about.attributes) if self.rated else ():
            if attribute not in self.known.scores or math.isnan(self.known.score(one, attribute)):
                what = f"context {one.context_id!r}, candidate {one.candidate_id!r} on {attribute}"
                raise JudgeError(f"nobody rated {what}, so the simulated judge has no score for it")
        if listed:
            return ListQuestion(digest, shown, about.attributes[0], source, about.protocol, about.template)
        if len(shown) == 2:
            what = about.attributes[0]
            return PairQuestion(digest, *shown, what, source, about.labels, about.template, about.reasons)
        scale = scale_named(about.scale)
        units, heaps = levels(scale)
        previous = None if about.previous is None else scale.unit(about.previous)
        # reasons that come first are what an answer that was begun goes on with
        opened = request.messages[-1].role == "assistant" and about.reasons != "before"
        how = (about.reasons, about.form, previous, opened, about.template, about.labels)
        return ScoreQuestion(digest, shown[0], about.attributes, source, scale, units, heaps, *how)


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
