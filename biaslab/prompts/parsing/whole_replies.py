"""Whole replies: detect refusals, and shorten repetitions."""

from __future__ import annotations

import re

_BLANK = re.compile(r"\s{64,}")
_REPEATED = re.compile(r"([\W_]{1,8}?)\1{31,}")
_KEPT = 16
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


def without_runs(text: str) -> str:
    r"""Return a text with runs of white space, and signs repeated 32 times or more, shortened; words are unchanged.

    Examples
    --------
    >>> without_runs("4" + "\n" * 1000 + "So 4."), without_runs("A" + ". " * 100 + "B").count(".")
    ('4\n\nSo 4.', 16)
    """
    blank = _BLANK.sub(lambda run: "\n\n" if "\n" in run[0] else " ", text)
    return _REPEATED.sub(lambda run: run[1] * _KEPT, blank)
