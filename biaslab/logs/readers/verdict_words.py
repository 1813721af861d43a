"""Interpret common verdicts on two candidates: words, letters, numbers and signs."""

from __future__ import annotations

import re
from collections import Counter

from biaslab.logs.readers.common_names import SIDES
from biaslab.logs.readers.field_values import NUMERAL

_KNOWN = 0.9  # share of words among a column's values from which numbers among them count as errors
_NOUN = (
    r"(?:model|answer|response|assistant|output|option|summary|system|candidate|text|completion|choice|reply|story"
    r"|translation)"
)
_DEGREE = (
    r"(?:much|far|slightly|significantly|somewhat|clearly|strongly|weakly|marginally|moderately|considerably|definitely"
    r"|a bit|a little)"
)
_PLACE = r"(?:a|b|x|y|0|1|2|first|second|left|right|one|two)"
_SIDE = re.compile(
    rf"(?:i )?(?:{_DEGREE} )?(?:(?:prefers?|preferred|favou?rs?) )?(?:the |chatbot )?(?:assistant )?(?:{_NOUN} ?)?"
    rf"({_PLACE})(?:\+{{1,2}})?(?: (?:one|{_NOUN}))?"
    rf"(?: wins| won| {_DEGREE}| (?:is |was )?(?:{_DEGREE} )?(?:better|preferred|best|superior)"
    rf"(?: than (?:the )?(?:{_NOUN} ?)?{_PLACE}(?: {_NOUN})?)?)?"
)
_ALIKE = r"(?:the same|same|equal|equally|similar|comparable|equivalent|tied)"
_TIE = re.compile(
    rf"(?:it s |it is )?(?:a )?(?:tie|ties|tied|draw)(?: (?!.*\b{_PLACE}\b).*)?"
    rf"|(?:(?:both|the two|they) )?(?:{_NOUN}s? )?(?:are )?(?:(?:about|roughly|nearly|almost|of) )*{_ALIKE}"
    rf"(?: (?:quality|good|bad|well|poor))?"
    rf"|(?:both|neither)(?: of them)?(?: {_NOUN}s?)?(?: (?:are |is )?(?:equally )?(?:good|bad|better|poor|fine|wrong))?"
    r"|unentschieden|gleichstand|gleich(?: gut)?|empate|égalité|egalité|ex aequo|pareggio"
    r"|gelijkspel|remis|ничья|平局|引き分け"
    r"|no (?:clear |strong )?(?:preference|difference)|a ?[=~≈] ?b|b ?[=~≈] ?a|a==b|1 ?= ?2|=|all bad|all good|bothbad"
)
_DEGREES = {"a>b": "first", "a>>b": "first", "b>a": "second", "b>>a": "second", "a<b": "second", "a<<b": "second"}
_DEGREES |= {"1>2": "first", "2>1": "second", ">": "first", "<": "second"}
_PICTURES = str.maketrans({"👈": "left", "👉": "right", "⬅": "left", "➡": "right", "🤝": "tie", "🅰": "a", "🅱": "b",
                           "✅": "", "✔": "", "✓": "", "🏆": "", "⭐": "",
                           "\ufe0f": ""})  # fmt: skip
_MARKS = re.compile(r"[\[\]*\"'().:_\-!]")


def side_of(value: str) -> str | None:
    """Return "first", "second" or "tie" for a verdict that names a position; None otherwise.

    ``0`` gives None because it is ambiguous: the first, counted from 0, or a tie.

    Examples
    --------
    >>> side_of("A"), side_of("[[B]]"), side_of("model_b"), side_of("Response 1"), side_of("tie (bothbad)")
    ('first', 'second', 'second', 'first', 'tie')
    >>> side_of("A is slightly better"), side_of("Strongly prefer B"), side_of("B++"), side_of("about the same")
    ('first', 'second', 'second', 'tie')
    >>> side_of("gpt-4") is None, side_of("0") is None, side_of("-2") is None
    (True, True, True)
    """
    if NUMERAL.fullmatch(value):
        return {"1": "first", "2": "second"}.get(value.strip())
    plain = " ".join(_MARKS.sub(" ", value.lower().translate(_PICTURES)).split())
    if _TIE.fullmatch(plain):
        return "tie"
    if plain.replace(" ", "") in _DEGREES:
        return _DEGREES[plain.replace(" ", "")]
    match = _SIDE.fullmatch(plain)
    if match is None or match[1] == "0":
        return None
    return "first" if match[1] in {one for one, _ in SIDES if one != "0"} else "second"


def meanings(values: Counter[str], sides: int) -> dict[str, str] | None:
    """Return the meaning of a verdict column's values; None if it is ambiguous.

    Parameters
    ----------
    values : Counter
        Counts of the column's values.
    sides : int
        Index in `SIDES` of the words that distinguish the two candidate columns.

    Examples
    --------
    >>> meanings(Counter("ABC"), 0), meanings(Counter("01"), 2), meanings(Counter("012"), 0)
    ({'A': 'first', 'B': 'second', 'C': 'tie'}, {'0': 'first', '1': 'second'}, None)
    """
    stripped = {value.strip() for value in values}
    numerals = {value for value in stripped if NUMERAL.fullmatch(value)}
    if sum(n for value, n in values.items() if value.strip() in numerals) <= (1 - _KNOWN) * values.total():
        stripped, numerals = stripped - numerals, set()  # rare numbers among words are error codes
    if SIDES[sides] == ("0", "1") and "0" in numerals:
        known = {"0": "first", "1": "second"} | ({"2": "tie"} if "2" in numerals else {})
        return None if numerals - set(known) else {v: known.get(v) or side_of(v) or "" for v in sorted(stripped)}
    counted = {"1", "2", "3"} if SIDES[sides] == ("1", "2") else {"1", "2"}
    if numerals - counted or (numerals and SIDES[sides] == ("0", "1")):
        return None
    read = {value: side for value in sorted(stripped) if (side := side_of(value)) is not None}
    for third, one, two in (("C", "A", "B"), ("c", "a", "b"), ("3", "1", "2"), ("[[C]]", "[[A]]", "[[B]]")):
        if third in stripped and {one, two} & stripped and "tie" not in read.values():
            read[third] = "tie"
    return read
