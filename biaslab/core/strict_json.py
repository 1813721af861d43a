"""Strict JSON: objects with duplicate keys are refused, because it is unclear which value is meant."""

from __future__ import annotations

import json
from typing import Any


class RepeatedKeyError(ValueError):
    """A JSON object has a duplicate key."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object for key–value pairs; for ``object_pairs_hook`` of json.

    Raises
    ------
    RepeatedKeyError
        If a key has two different values.

    Examples
    --------
    >>> unique([("winner", "A"), ("winner", "A")])
    {'winner': 'A'}
    """
    whole = dict(pairs)
    if len(whole) < len(pairs):
        key = next((key for key, value in pairs if value != whole[key]), None)
        if key is not None:
            raise RepeatedKeyError(f"duplicate key {key!r} with different values")
    return whole


DECODER = json.JSONDecoder(object_pairs_hook=unique)
