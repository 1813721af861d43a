"""Shorten what a degenerate reply repeats, so that reading it takes a time in proportion to its length."""

from __future__ import annotations

import re

_BLANK = re.compile(r"\s{64,}")
_REPEATED = re.compile(r"([\W_]{1,8}?)\1{31,}")
_KEPT = 16


def without_runs(text: str) -> str:
    r"""Return a text in which runs of blanks, and signs repeated 32 times or more, are cut short; words are kept.

    Examples
    --------
    >>> without_runs("4" + "\n" * 1000 + "So 4."), without_runs("A" + ". " * 100 + "B").count(".")
    ('4\n\nSo 4.', 16)
    """
    blank = _BLANK.sub(lambda run: "\n\n" if "\n" in run[0] else " ", text)
    return _REPEATED.sub(lambda run: run[1] * _KEPT, blank)
