"""Check what a judge's `ask` yields, because user-defined classes may yield anything."""

from __future__ import annotations

import math
from typing import Any

from biaslab.core.errors import JudgeError
from biaslab.core.requests import Choice, Compare, Completion, Likelihood, Rank, Request, Score
from biaslab.core.trials import DECLINED, UNUSABLE, Reply

_MOST_MASS = 1 + 1e-3  # allows for rounding
_LARGE = 700.0  # exp(x) overflows for larger x
_PAIR = "yield request, Reply(…) for each request"
_REPLIES = {
    Choice: "a Reply with logprobs, one natural logarithm per label, or with a text",
    Completion: "a Reply with a text",
    Likelihood: "a Reply with logprobs, one natural logarithm per token",
    Score: "a Reply with a score",
    Compare: "a Reply with a score, the probability that the first wins",
    Rank: "a Reply with a text such as [2] > [1] > [3], or with logprobs, one natural logarithm per text",
}


def answers_of(judge: Any, answers: Any) -> Any:
    """Return an iterator over the result of ``ask``.

    Raises
    ------
    JudgeError
        If the result is None or not an iterable of requests and replies.
    """
    if hasattr(answers, "__next__"):
        return answers
    if isinstance(answers, str | Reply | dict) or not hasattr(answers, "__iter__"):
        raise JudgeError(f"{_named(judge)}.ask returned {short(answers)}, allowed: pairs of request and reply; {_PAIR}")
    return iter(answers)


def received(judge: Any, answer: Any) -> tuple[Request, Reply]:
    """Return one answer after checking that it is a request with its reply.

    Raises
    ------
    JudgeError
        If it is not such a pair, or the reply lacks what the request asks for.
    """
    if not isinstance(answer, tuple | list) or len(answer) != 2 or not isinstance(answer[1], Reply):
        wanted = next((words for kind, words in _REPLIES.items() if _asks(answer, kind)), "a biaslab.Reply")
        raise JudgeError(f"{_named(judge)}.ask yielded {short(answer)}, allowed: a request with {wanted}; {_PAIR}")
    request, reply = answer
    if isinstance(request, Choice) and reply.logprobs is not None:
        length, wanted_length = _length(reply.logprobs), len(request.labels)
        if length != wanted_length:
            raise JudgeError(
                f"{_named(judge)}.ask yielded {short(reply.logprobs)} as logprobs, allowed: {wanted_length} numbers, "
                f"the natural logarithms for the labels {', '.join(map(repr, request.labels))}; return them in this "
                "order",
                request,
            )
        if reply.finish_reason != UNUSABLE and _mass(reply.logprobs) > _MOST_MASS:
            raise JudgeError(
                f"{_named(judge)}.ask yielded {short(reply.logprobs)} as logprobs, whose probabilities sum to "
                f"{_mass(reply.logprobs):.3g}, allowed: natural logarithms of probabilities that sum to at most 1; "
                "compute them from logits with log_softmax",
                request,
            )
    elif _is_empty(request, reply):
        words = next(words for kind, words in _REPLIES.items() if isinstance(request, kind))
        raise JudgeError(
            f"{_named(judge)}.ask yielded an empty Reply, allowed: {words}; use an empty text for a refusal", request
        )
    return request, reply


def _is_empty(request: object, reply: Reply) -> bool:
    nothing = reply.logprobs is None and reply.text is None and reply.score is None
    return nothing and reply.finish_reason not in DECLINED and isinstance(request, tuple(_REPLIES))


def _asks(answer: Any, kind: type) -> bool:
    return isinstance(answer, tuple | list) and any(isinstance(each, kind) for each in answer[:1])


def _mass(logprobs: Any) -> float:
    """Return the total probability of all labels, 0 if they are not numbers."""
    try:
        return math.fsum(math.exp(min(level, _LARGE)) for level in logprobs)
    except TypeError:
        return 0.0


def _length(values: Any) -> int | None:
    return len(values) if hasattr(values, "__len__") else None


def _named(judge: Any) -> str:
    return type(judge).__name__


def short(value: object) -> str:
    """Format a value in at most 60 characters."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"a request with {short(value[1])}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
