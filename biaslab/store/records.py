"""What a store holds of one judgement: the request as it was asked and the reply as it came."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from biaslab.core import Reply, Request, Usage, request_from_fields
from biaslab.core.errors import InputError
from biaslab.store.codec import reply_from_json

#: What is read of a stored reply, in the order of `record_of`.
READ = ("key", "judge", "kind", "created", "request", "reply", "prompt_tokens", "cached_tokens", "completion_tokens")


@dataclass(frozen=True)
class Record:
    """One stored reply with its request.

    Parameters
    ----------
    key : str
        The content address, as in the column ``key`` of trials.
    judge : str
        The judge's id.
    created : str
        When it was stored, ISO 8601 in UTC.
    request : Request
        What was asked; without ``about``, which is not stored.
    reply : Reply
        What the judge said.
    """

    key: str
    judge: str
    created: str
    request: Request
    reply: Reply


def record_of(row: Sequence[object]) -> Record:
    """Return the record of a row of the columns `READ`.

    Raises
    ------
    InputError
        If request or reply is damaged.
    """
    key, judge, kind, created, request, reply = map(str, row[:6])
    try:
        fields = json.loads(request)
    except ValueError as error:
        raise InputError("request", request, "the JSON that a store writes") from error
    usage = Usage(*(int(str(tokens)) for tokens in row[6:9]))
    return Record(key, judge, created, request_from_fields(kind, fields), reply_from_json(reply, usage))
