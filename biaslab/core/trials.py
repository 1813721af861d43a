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
#: Finish reason of a reply that ended at the token limit.
AT_LIMIT = "length"
#: Finish reasons that mean the server or model declined to answer, whatever the text.
DECLINED = frozenset({"content_filter", "refusal"})
#: Finish reason of a reply whose label distribution is invalid, or does not bound the omitted labels enough.
UNUSABLE: Status = "unusable"
Scalar = str | int | float | bool | None
_MANY = 10_000  # new objects: above this, scanning them costs as much as freezing them


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
    """Raw reply of a judge, parsed by probes.

    Parameters
    ----------
    logprobs : tuple of float, optional
        Natural logarithms, at most 0; ``-inf`` is allowed. For `Choice`: one per label, in the request's order,
        **not** normalised, so ``sum(exp(logprobs))`` is the probability mass of the labels. For `Likelihood`: one per
        token of the text (without the first token if nothing precedes it).
    text : str, optional
        For `Completion`: the generated text; for reasoning models, the answer alone.
    finish_reason : str, optional
        For `Completion`: ``"stop"``, ``"length"`` or the server's own reason. For `Choice`: ``"unusable"`` if the
        values are not a distribution, or only bounds; ``text`` then says why.
    score : float, optional
        For `Score`: the quality of the text, from 0 (worst) to 1 (best) in the evaluator's training data; regression
        models may go slightly beyond.
    usage : Usage
        Tokens billed.
    model : str, optional
        The model reported by the server, name and fingerprint: ``"gpt-4o-2024-08-06 fp_6b68a8204b"``.
    unseen : float, optional
        For `Choice` by a server that returns only its top tokens: the probability of answers it did not return, or
        that were too short to tell which label they begin.
    bounded : tuple of int
        Indices of labels whose log-probability is only an upper bound because the server did not return them.
    samples : int, optional
        For `Choice`: number of samples if the log-probabilities are sample shares; None if they are exact.
    thought : str, optional
        The reasoning text before the answer, if available; never parsed for a verdict.
    temperature : float, optional
        The temperature that was used, if the server accepts only its own.
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

    def __init__(  # by hand, like that of `Trial`
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
    """A planned judgement: a request and its condition.

    Parameters
    ----------
    request : Request
        The request.
    context_id : str
        The context, the sampling unit of every estimate.
    attribute : str
        The attribute, such as ``"coherence"``.
    candidate_id : str
        The candidate that is scored or, in a pair, shown first.
    opponent_id : str, optional
        The candidate shown second in a pair.
    replicate : int
        Index of the repetition.
    condition : mapping
        Columns of the trials frame that identify conditions or hold covariates.
    labels : tuple of str
        The answers to look for in the text of a reply, if the request does not list them.
    """

    request: Request
    context_id: str
    attribute: str
    candidate_id: str
    opponent_id: str | None = None
    replicate: int = 0
    condition: Mapping[str, Scalar] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    def __init__(  # by hand: one is made per judgement, and the `__init__` of `dataclass` takes twice as long
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

    The new objects are then moved to the oldest generation, which only rare full collections scan.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():  # slow, so checked last
                gc.freeze()
                gc.unfreeze()
            gc.enable()
