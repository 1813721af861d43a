"""Serialise stored replies and times: canonical, plain ASCII, and exact.

Examples
--------
>>> reply = Reply(logprobs=(-0.1, float("-inf")))
>>> reply_to_json(reply)
'{"logprobs":[-0.1,null]}'
>>> reply_from_json(reply_to_json(reply)) == reply
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from operator import attrgetter
from typing import Any

from biaslab.core.errors import InputError
from biaslab.core.requests import Request, canonical_json, request_from_fields
from biaslab.core.trials import Reply, Usage

#: Fields that are None if a reply contains only log-probabilities.
_OTHERS = attrgetter("text", "finish_reason", "score", "model", "unseen", "samples", "thought", "temperature")
_NOTHING = (None,) * 8
_DECODED = json.JSONDecoder().raw_decode
#: Columns read for a stored reply, in the order of `record_of`.
READ = ("key", "judge", "kind", "created", "request", "reply", "prompt_tokens", "cached_tokens", "completion_tokens")


def reply_to_json(reply: Reply) -> str:
    """Serialise a reply as JSON, without its usage (a cost rather than an answer) except for the tokens of its thought.

    Parameters
    ----------
    reply : Reply
        The reply. A log-probability of ``-inf`` becomes null; all other numbers survive exactly.

    Returns
    -------
    str
        Canonical JSON; fields that are None are omitted.

    Raises
    ------
    InputError
        If a log-probability is NaN or ``+inf``, or a score is not finite.
    """
    levels = reply.logprobs
    if _is_plain(reply):
        return f'{{"logprobs":[{",".join(map(repr, levels or ()))}]}}'  # the usual case, several times faster
    if reply.score is not None and not math.isfinite(reply.score):
        raise InputError("score", reply.score, "a finite number")
    document = {
        "logprobs": None if reply.logprobs is None else [_level(float(value)) for value in reply.logprobs],
        "text": reply.text,
        "finish_reason": reply.finish_reason,
        "score": None if reply.score is None else float(reply.score),
        "model": reply.model,
        "unseen": reply.unseen,
        "bounded": list(reply.bounded) or None,
        "samples": reply.samples,
        "thought": reply.thought,
        "temperature": None if reply.temperature is None else float(reply.temperature),
        "reasoning_tokens": reply.usage.reasoning_tokens or None,
    }
    return canonical_json({name: value for name, value in document.items() if value is not None})


def reply_from_json(text: str, usage: Usage | None = None) -> Reply:
    """Parse the output of `reply_to_json`.

    Parameters
    ----------
    text : str
        The JSON text.
    usage : Usage, optional
        The tokens billed, which are stored separately; by default zero.

    Returns
    -------
    Reply
        Equal to the serialised reply.

    Raises
    ------
    InputError
        If the text is not the JSON of a reply.
    """
    try:
        document, end = _DECODED(text)
        if end != len(text):
            raise ValueError("more follows")
        levels = document.get("logprobs")
        if levels and len(document) == 1 and _are_plain(levels):  # the usual case
            return Reply(tuple(levels), usage=usage or Usage())
        logprobs = None if levels is None else tuple(-math.inf if v is None else float(v) for v in levels)
        words: dict[str, Any] = {name: document.get(name) for name in ("text", "finish_reason", "model", "thought")}
        known = {name: n for name in ("score", "unseen", "temperature") if (n := document.get(name)) is not None}
        numbers: dict[str, Any] = {name: float(n) for name, n in known.items()}
        bounded = tuple(int(index) for index in document.get("bounded", ()))
        samples = None if (n := document.get("samples")) is None else int(n)
        usage = replace(usage or Usage(), reasoning_tokens=int(document.get("reasoning_tokens", 0)))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError("reply", text, "the JSON that reply_to_json writes") from error
    if not all(word is None or isinstance(word, str) for word in words.values()):
        raise InputError("reply", text, "the JSON that reply_to_json writes")
    return Reply(logprobs, usage=usage, bounded=bounded, samples=samples, **words, **numbers)


def as_read(reply: Reply, text: str) -> Reply:
    """Return a reply as `reply_from_json` would return it: the reply itself if nothing is lost."""
    return reply if _is_plain(reply) else reply_from_json(text, reply.usage)


@dataclass(frozen=True)
class StoredReply:
    """One stored judgement: the request and the reply.

    Parameters
    ----------
    key : str
        The content address, equal to the column ``key`` of trials.
    judge : str
        The judge's id.
    created : str
        Time of storage, ISO 8601 in UTC.
    request : Request
        The request; without ``about``, which is not stored.
    reply : Reply
        The judge's reply.
    """

    key: str
    judge: str
    created: str
    request: Request
    reply: Reply


def record_of(row: Sequence[object]) -> StoredReply:
    """Return the record for a row with the columns `READ`.

    Raises
    ------
    InputError
        If request or reply is damaged.
    """
    key, judge, kind, created, request, reply = map(str, row[:6])
    try:
        fields = json.loads(request)
    except (ValueError, RecursionError) as error:
        raise InputError("request", request, "the JSON that a store writes") from error
    try:
        usage = Usage(*(int(str(tokens)) for tokens in row[6:9]))
    except ValueError as error:
        raise InputError("tokens", row[6:9], "whole numbers") from error
    return StoredReply(key, judge, created, request_from_fields(kind, fields), reply_from_json(reply, usage))


def as_moment(moment: str | date) -> datetime:
    """Parse a date or time, UTC unless it has an offset.

    Raises
    ------
    InputError
        If a string is not ISO 8601.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise InputError("date", moment, "a date such as 2025-06-30, or a date and time") from error
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment_to_text(moment: datetime) -> str:
    """Format a time in UTC to the millisecond, so that text sorts chronologically."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _is_plain(reply: Reply) -> bool:
    """Return whether a reply contains only log-probabilities, as most do."""
    levels = reply.logprobs
    if type(levels) is not tuple or _OTHERS(reply) != _NOTHING or reply.usage.reasoning_tokens or reply.bounded != ():
        return False
    return _are_plain(levels)


def _are_plain(levels: Sequence[Any]) -> bool:
    """Return whether numbers are floats for which JSON and Python have the same text."""
    return {*map(type, levels)} <= {float} and all(map(math.isfinite, levels))


def _level(value: float) -> float | None:
    if math.isnan(value) or value == math.inf:
        raise InputError("logprobs", value, "natural logarithms: a number of at most 0, or -inf")
    return None if value == -math.inf else value
