"""Replies of judges, and trials (planned judgements)."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Literal, get_args

from biaslab.core.errors import InputError
from biaslab.core.requests import Request

Status = Literal[
    "ok", "tie", "refused", "unparsable", "out_of_range", "off_format", "ambiguous", "unusable", "cut_off",
    "incomplete", "repeated", "invented",
]  # fmt: skip
STATUSES: tuple[Status, ...] = get_args(Status)
#: Finish reason of a reply that ended at the limit of its tokens.
AT_LIMIT = "length"
#: Finish reasons with which a server says that it, or its model, declined to answer; whatever the text is.
DECLINED = frozenset({"content_filter", "refusal"})
#: Finish reason of a reply whose distribution over labels is none, or says too little of labels that were not shown.
UNUSABLE: Status = "unusable"
Scalar = str | int | float | bool | None
_MANY = 10_000  # new objects: looking at them takes as long as declaring them old


@dataclass(frozen=True)
class Usage:
    """Token counts of one or more replies: input, cached input, output, and thinking.

    Examples
    --------
    >>> (Usage(100, 20, 5) + Usage(10)).tokens
    115
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage.total((self, other))

    @classmethod
    def total(cls, usages: Collection[Usage]) -> Usage:
        """Add usages up.

        Examples
        --------
        >>> Usage.total([Usage(100, 20, 5), Usage(10)])
        Usage(prompt_tokens=110, cached_tokens=20, completion_tokens=5, reasoning_tokens=0)
        """
        try:
            return cls(*(sum(map(attrgetter(each.name), usages)) for each in fields(cls)))
        except (TypeError, AttributeError) as error:
            remedy = "such as [reply.usage for reply in replies]"
            raise InputError("usages", usages, "a list of biaslab.Usage", remedy) from error


@dataclass(frozen=True)
class Reply:
    """Raw reply of a judge, to be parsed by probes.

    Parameters
    ----------
    logprobs : tuple of float, optional
        Natural logarithms, at most 0, ``-inf`` allowed. For `Choice`: one a label, in the request's order, **not**
        normalised, so that ``sum(exp(logprobs))`` is the probability mass the labels have. For `Likelihood`: one a
        token of the text (the first token is left out when nothing stands before it).
    text : str, optional
        For `Completion`: the generated text; of a model that reasons first, the answer alone.
    finish_reason : str, optional
        For `Completion`: ``"stop"``, ``"length"`` or what the server said. For `Choice`: ``"unusable"`` if what was
        sent is no distribution, or bounds only; then ``text`` says why.
    score : float, optional
        For `Score`: how good the text is, 0 being the worst and 1 the best that the evaluator was taught; a regression
        may go a little beyond.
    usage : Usage
        Tokens paid for.
    model : str, optional
        What a server said it ran, such as ``"gpt-4o-2024-08-06 fp_6b68a8204b"``: name and fingerprint.
    unseen : float, optional
        For `Choice` by a server that shows only its likeliest tokens: the probability of answers that it did not show,
        or not far enough to tell which label they are.
    bounded : tuple of int
        Labels, by index, whose log-probability is only an upper bound, since the server did not show them.
    samples : int, optional
        For `Choice`: the log-probabilities are shares of so many samples; exact where nothing is said.
    thought : str, optional
        What a model that reasons wrote before its answer, where that is shown; it is never read for a verdict.
    temperature : float, optional
        The temperature that a server sampled at, where it takes none but its own.
    """

    logprobs: tuple[float, ...] | None = None
    text: str | None = None
    finish_reason: str | None = None
    score: float | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    unseen: float | None = None
    bounded: tuple[int, ...] = ()
    samples: int | None = None
    thought: str | None = None
    temperature: float | None = None

    def __init__(  # by hand, as that of `Trial`
        self,
        logprobs: tuple[float, ...] | None = None,
        text: str | None = None,
        finish_reason: str | None = None,
        score: float | None = None,
        usage: Usage | None = None,
        model: str | None = None,
        unseen: float | None = None,
        bounded: tuple[int, ...] = (),
        samples: int | None = None,
        thought: str | None = None,
        temperature: float | None = None,
    ) -> None:
        held = self.__dict__
        held["logprobs"], held["text"], held["finish_reason"], held["score"] = logprobs, text, finish_reason, score
        held["usage"], held["model"], held["unseen"] = Usage() if usage is None else usage, model, unseen
        held["bounded"], held["samples"], held["thought"], held["temperature"] = bounded, samples, thought, temperature


@dataclass(frozen=True)
class Trial:
    """One planned judgement: a request and its condition.

    Parameters
    ----------
    request : Request
        What is asked.
    context_id : str
        The context, which is the sampling unit of every estimate.
    attribute : str
        What is judged, such as ``"coherence"``.
    candidate_id : str
        The candidate that is scored or, of a pair, shown first.
    opponent_id : str, optional
        The candidate of a pair that is shown second.
    replicate : int
        Which repetition of the same judgement this is.
    condition : mapping
        Columns of the trials frame that tell conditions apart or carry covariates.
    labels : tuple of str
        The answers that the text of a reply is read against, where the request itself does not list them.
    """

    request: Request
    context_id: str
    attribute: str
    candidate_id: str
    opponent_id: str | None = None
    replicate: int = 0
    condition: Mapping[str, Scalar] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    def __init__(  # by hand: one is made a judgement, and what `dataclass` writes takes twice as long
        self,
        request: Request,
        context_id: str,
        attribute: str,
        candidate_id: str,
        opponent_id: str | None = None,
        replicate: int = 0,
        condition: Mapping[str, Scalar] | None = None,
        labels: tuple[str, ...] = (),
    ) -> None:
        held = self.__dict__
        held["request"], held["context_id"], held["attribute"] = request, context_id, attribute
        held["candidate_id"], held["opponent_id"], held["replicate"] = candidate_id, opponent_id, replicate
        held["condition"], held["labels"] = {} if condition is None else condition, labels


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector while many objects without cycles are created.

    What was made meanwhile counts as old afterwards, so that only the collector's rare full rounds look at it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # that nobody else freezes takes a while to see
                gc.freeze()
                gc.unfreeze()
            gc.enable()
