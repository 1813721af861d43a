"""JSON that says one thing: an object with two values of one key is refused, for nobody knows which is meant."""

from __future__ import annotations

import json
from typing import Any


class RepeatedKeyError(ValueError):
    """A JSON object has two values of one key."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of some pairs; for ``object_pairs_hook`` of the package json.

    Raises
    ------
    RepeatedKeyError
        If one key has two values that differ.

    Examples
    --------
    >>> unique([("winner", "A"), ("winner", "A")])
    {'winner': 'A'}
    """
    whole = dict(pairs)
    if len(whole) < len(pairs):
        key = next((key for key, value in pairs if value != whole[key]), None)
        if key is not None:
            raise RepeatedKeyError(f"the key {key!r} stands twice, with different values")
    return whole


DECODER = json.JSONDecoder(object_pairs_hook=unique)
