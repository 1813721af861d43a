"""Parts of replies that every parser reads: JSON objects, numerals, refusals and repetitions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from biaslab.core.scales import Scale
from biaslab.core.trials import Status

ParsedScore = tuple[float, Status]
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


def place_on(scale: Scale, value: float) -> ParsedScore:
    """Return a value within the range of the scale, label or not, with its status; else NaN."""
    if math.isnan(value):
        return math.nan, "unparsable"
    return (value, "ok") if scale.low <= value <= scale.high else (math.nan, "out_of_range")


_ALONE = re.compile(rf"\s*{NUMERAL}\s*\.?\s*", re.IGNORECASE)
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|[{}\[\]]', re.DOTALL)
_STRIDE = 200  # levels of nesting
_WINDOW = 50_000
JsonItems = list[tuple[str, object]]


class _Object(JsonItems):
    """A JSON object as pairs, which preserve repeated keys."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=float, strict=False)


def objects(text: str) -> Iterator[JsonItems]:
    """Yield every outermost JSON object of a text as pairs of key and value."""
    return documents(text, _DECODER, "{")


def documents(text: str, decoder: json.JSONDecoder, marks: str) -> Iterator[Any]:
    """Yield every outermost JSON document in a text that begins with one of the given marks; skip all other text.

    If a document is incomplete, the documents that enclose it are incomplete too and are not retried; if one is nested
    too deeply, every `_STRIDE`-th level is tried.
    """
    broken: set[int] = set()
    begins = re.compile(f"[{re.escape(marks)}]")
    start, cut = begins.search(text), 0
    while start is not None:
        place = start.start()
        if place > _WINDOW:  # an error counts all lines of the text before it
            text, cut, place = text[place:], cut + place, 0
        end = place + 1
        if cut + place not in broken:
            try:
                document, end = decoder.raw_decode(text, place)
            except json.JSONDecodeError as error:
                broken.update(cut + at for at in _unclosed(text, place, error.pos))
            except ValueError:  # a number with too many digits
                pass
            except RecursionError:
                later = list(islice(begins.finditer(text, end), _STRIDE))
                end = later[-1].start() if len(later) == _STRIDE else len(text)
            else:
                yield document
        start = begins.search(text, end)


def _unclosed(text: str, start: int, end: int) -> list[int]:
    """Return the opening brackets that are not closed in a piece of JSON."""
    opened: list[int] = []
    for token in _TOKENS.finditer(text, start, end):
        if token[0] in "{[":
            opened.append(token.start())
        elif token[0] in "}]" and opened:
            opened.pop()
    return opened


def json_scores(text: str, scale: Scale, named: Callable[[str], bool], inner: Callable[[str], bool]) -> list[float]:
    """Return the values under the keys that ``named`` accepts, in every JSON object of a text.

    If the value of such a key is an object, its entries that ``inner`` accepts are returned instead:
    ``{"coherence": {"score": 3, "reasons": "…"}}``. Strings are parsed as numerals; anything else is ignored.
    """
    return [value for pairs in objects(text) for value in _search(pairs, scale, named, inner)]


def only_entry(text: str, scale: Scale) -> list[float]:
    """Return the number in every JSON object with exactly one number, whatever its key."""
    return [value for pairs in objects(text) if len(pairs) == 1 for value in _numbers(pairs[0][1], scale)]


def fields(text: str, named: re.Pattern[str]) -> list[str]:
    """Return the values under the keys that match a pattern, as text, in every JSON object of a text.

    Examples
    --------
    >>> fields('So: {"winner": "A", "gap": 2}', re.compile("winner|gap"))
    ['A', '2']
    """
    values = (value for pairs in objects(text) for key, value in pairs if named.fullmatch(key))
    numbers = (f"{value:g}" if isinstance(value, float) else value for value in values)
    return [value if isinstance(value, str) else json.dumps(value) for value in numbers]


def _search(
    pairs: JsonItems, scale: Scale, named: Callable[[str], bool], inner: Callable[[str], bool]
) -> Iterator[float]:
    for key, value in pairs:
        if isinstance(value, _Object):
            yield from _search(value, scale, inner if named(key) else named, inner)
        elif named(key):
            yield from _numbers(value, scale)


def _numbers(value: object, scale: Scale) -> Iterator[float]:
    if isinstance(value, float) and not math.isnan(value):
        yield value
    elif isinstance(value, str) and (match := _ALONE.fullmatch(value)):
        yield worth(match, scale)


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
