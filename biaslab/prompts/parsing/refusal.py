"""Texts that decline to answer."""

from __future__ import annotations

import re

_REFUSAL = re.compile(
    r"^\W*(i['’]?m sorry|i am sorry|sorry,|i apologi[sz]e|i (cannot|can['’]?t|am unable|won['’]?t|will not)|"
    r"as an ai\b|unable to)",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """Return whether a text begins with a refusal.

    Examples
    --------
    >>> is_refusal("I'm sorry, but I cannot score this."), is_refusal("4")
    (True, False)
    """
    return _REFUSAL.match(text) is not None
