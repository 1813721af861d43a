"""Scores in their written forms: "4", "4.5", "four", "strong 4", "4/5", "4 out of 5", "80%"."""

from __future__ import annotations

import math
import re

from biaslab.core import Status
from biaslab.core.scales import Scale

Reading = tuple[float, Status]
_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBER = rf"\d+(?:\.\d+)?|(?:{'|'.join(_WORDS)})"
NUMERAL = (
    rf"(?:(?P<modifier>weak|strong)[ \t-]+)?(?P<number>-?(?:{NUMBER}))"
    rf"(?:[ \t]*(?:/|out[ ]of|of)[ \t]*(?P<top>{NUMBER})(?!\w)|[ \t]*(?P<percent>%))?+"
    # not part of a longer number, a date, a time, a range, a list to choose from ("1, 2 or 3") or an "either … or"
    rf"(?!\w|['’]\w|[.,:/]\d|[ \t]*(?:[-–—~]|to\b|or\b)[ \t]*(?:weak |strong )?(?:{NUMBER})(?!\w)|[ \t]+of\b"
    rf"|(?:,[ \t]*(?:{NUMBER})){{1,12}},?[ \t]*(?:,|or\b|and\b)[ \t]*(?:{NUMBER})(?!\w))"
)
"""Pattern of one score with its groups modifier, number, top and percent; to be searched case-insensitively."""


def worth(match: re.Match[str], scale: Scale) -> float:
    """Return the value of a match of `NUMERAL`; NaN if it names the top of another scale ("7/10" on 1-5)."""
    top = "100" if match["percent"] else match["top"]
    if top is not None and number(top) != math.floor(scale.high):
        return math.nan
    value = number(match["number"])
    if not match["modifier"] or "weak" not in scale.labels[0]:
        return value
    return value + (1 if match["modifier"].lower() == "strong" else -1) / 3


def number(text: str) -> float:
    """Parse digits or a word from zero to ten."""
    sign, digits = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    return sign * (_WORDS.index(digits.lower()) if digits.lower() in _WORDS else float(digits))


def place_on(scale: Scale, value: float) -> Reading:
    """Return a value within the range of the scale, label or not, with its status; else NaN."""
    if math.isnan(value):
        return math.nan, "unparsable"
    return (value, "ok") if scale.low <= value <= scale.high else (math.nan, "out_of_range")
