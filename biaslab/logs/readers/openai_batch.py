"""Output files of OpenAI's batch API: ``custom_id, response, error``, one reply per line.

Only ``custom_id`` identifies what was judged, so a mapping is required, such as ``context_id="custom_id~^(.+?)/"``.
Each choice is a replicate. Lines with an error, or a status other than 200, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core import AT_LIMIT
from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.rows import CALL_FAILED, Rows, Source

FIELDS = frozenset({"custom_id", "response"})


def read(rows: Rows, source: Source, mapping: Mapping[str, str]) -> pd.DataFrame:
    """Return one trial per choice."""
    error = rows.take("error", "any")
    response = rows.take("response", "any")
    status = [at(each, "status_code") for each in response]
    went_wrong = pd.Series([e is not None or s not in (None, 200) for e, s in zip(error, status, strict=True)])
    rows.leave_out(went_wrong, CALL_FAILED)
    replies = [_choices(each) for each in response]
    rows.refuse(np.array([choices is None for choices in replies], bool), "the response contains no chat completion")
    flat, places = [], []
    for place, choices in enumerate(replies):
        for choice in choices or [] if rows.good[place] else []:
            flat.append({"custom_id": rows.records[place].get("custom_id"), **choice})
            places.append(place)
    inner = Rows(flat, [rows.lines[place] for place in places], rows.log, textual=False)
    if not flat:
        return pd.DataFrame()
    trials = read_mapped(inner, source, {"judge": "judge", "replicate": "replicate", "reply": "reply"} | dict(mapping))
    declined = np.array([entry["declined"] for entry in flat], bool)
    trials.loc[declined, "value"], trials.loc[declined, "status"] = np.nan, "refused"
    cut = np.array([entry["cut"] for entry in flat], bool) & (trials["status"] == "unparsable")
    trials.loc[cut, "status"] = "cut_off"
    return trials[inner.good].set_axis(np.array(places)[inner.good])


def _choices(response: Any) -> list[dict[str, Any]] | None:
    """Return the choices of a chat completion; None if there is none."""
    choices = at(response, "body.choices")
    if not isinstance(choices, list) or not choices:
        return None
    judge, total = at(response, "body.model"), at(response, "body.usage.total_tokens")
    replies = []
    for replicate, choice in enumerate(choices):
        message = at(choice, "message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str | None):
            return None
        refusal = message.get("refusal")
        declined = isinstance(refusal, str) or choice.get("finish_reason") == "content_filter"
        replies.append({
            "judge": judge,
            "reply": refusal if isinstance(refusal, str) else message.get("content"),
            "replicate": replicate,
            "tokens": total,
            "declined": declined,
            "cut": choice.get("finish_reason") == AT_LIMIT,
        })  # fmt: skip
    return replies
