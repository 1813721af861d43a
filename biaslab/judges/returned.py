"""Parse the return values of a `biaslab.FunctionJudge`'s function as replies."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

from biaslab.core import Compare, Completion, Rank, Reply, Request, Score
from biaslab.core.errors import JudgeError
from biaslab.core.received import short

_WORDS = {"first": 1.0, "second": 0.0, "tie": 0.5, "a": 1.0, "b": 0.0, "c": 0.5}
_ALLOWED = {
    Compare: '"first", "second" or "tie", the probability that the first wins, a mapping of these names to '
    "probabilities, or None",
    Score: "a number on the scale, or None",
    Rank: "the index of the best candidate from 0, its name such as [1], a list of these from best to worst, a mapping "
    "of indices to probabilities, or None",
    Completion: "the text of a reply, or None",
}


def read_returned(request: Request, returned: Any, name: str, scale: tuple[float, float]) -> Reply:
    """Parse a function's return value as the reply to a request.

    Parameters
    ----------
    request : Request
        The request that the function answered.
    returned : object
        See `biaslab.FunctionJudge` for valid values.
    name : str
        Name of the function, for messages.
    scale : (low, high)
        Range of the scores returned by a function of one candidate.

    Raises
    ------
    JudgeError
        If the value is not valid for the request.
    """
    returned = returned.value if isinstance(returned, Enum) else returned
    if returned is None:
        return Reply(text="", finish_reason="refusal")
    if isinstance(request, Completion) and isinstance(returned, str):
        return Reply(text=returned, finish_reason="stop")
    if isinstance(request, Rank) and (listed := _listed(returned, len(request.texts))) is not None:
        return listed
    score = _preference(returned) if isinstance(request, Compare) else _number(returned)
    low, high = scale
    if isinstance(request, Score) and score is not None:
        score = (score - low) / (high - low) if low <= score <= high else None
    if score is None or isinstance(request, Completion | Rank):
        kind = type(request)
        on = f"; the scale is {low:g} to {high:g}, or what FunctionJudge(scale=…) says" if kind is Score else ""
        shown = short(list(returned)) if isinstance(returned, tuple) else short(returned)
        raise JudgeError(f"{name} returned {shown}, allowed: {_ALLOWED[kind]}{on}", request)
    return Reply(score=score)


def _preference(returned: Any) -> float | None:
    """Return the probability that the first wins, or None if missing."""
    if isinstance(returned, str):
        return _WORDS.get(returned.strip().lower())
    if isinstance(returned, Mapping):
        shares = {_WORDS.get(str(name).strip().lower()): _number(share) for name, share in returned.items()}
        first, second = (_number(shares.get(value)) for value in (1.0, 0.0))
        if first is None or second is None or min(first, second) < 0 or first + second <= 0:
            return None
        return first / (first + second)
    value = _number(returned)
    return value if value is not None and 0 <= value <= 1 else None


def _listed(returned: Any, k: int) -> Reply | None:
    """Return the reply about k texts, None if invalid; omitted or repeated names are kept in its text."""
    if isinstance(returned, Mapping):
        shares = {_index(name, k): _number(share) for name, share in returned.items()}
        masses = [shares.get(place, 0.0) for place in range(k)]
        if None in shares or any(mass is None or mass < 0 for mass in masses) or not sum(filter(None, masses)):
            return None
        total = math.fsum(filter(None, masses))
        return Reply(logprobs=tuple(math.log(mass / total) if mass else -math.inf for mass in masses))
    one = isinstance(returned, str) or not hasattr(returned, "__iter__")
    places = [_index(each, k) for each in ([returned] if one else returned)]
    if not places or None in places:
        return None
    return Reply(text=" > ".join(f"[{place + 1}]" for place in places if place is not None), finish_reason="stop")


def _index(named: Any, k: int) -> int | None:
    """Return the index from 0 of a candidate, given as an index or by its name in prompts: ``"[1]"`` is the first."""
    if isinstance(named, str):
        match = re.fullmatch(r"\s*\[(\d{1,9})\]\s*", named)
        place = int(match[1]) - 1 if match else -1
    else:
        number = _number(named)
        place = int(number) if number is not None and number.is_integer() else -1
    return place if 0 <= place < k else None


def _number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else, including booleans and text."""
    try:
        number = float(value) if not isinstance(value, bool | np.bool_ | str) else math.nan
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
