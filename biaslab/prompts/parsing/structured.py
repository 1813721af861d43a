"""Scores and verdicts in JSON objects anywhere in a text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from biaslab.core.scales import Scale
from biaslab.prompts.parsing.numerals import NUMERAL, worth

_ALONE = re.compile(rf"\s*{NUMERAL}\s*\.?\s*", re.IGNORECASE)
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|$)|[{}\[\]]', re.DOTALL)
_STRIDE = 200  # levels of nesting
Pairs = list[tuple[str, object]]


class _Object(Pairs):
    """A JSON object as pairs, which preserve repeated keys."""


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=float, strict=False)


def objects(text: str) -> Iterator[Pairs]:
    """Yield every outermost JSON object of a text as pairs of key and value."""
    return documents(text, _DECODER, "{")


def documents(text: str, decoder: json.JSONDecoder, marks: str) -> Iterator[Any]:
    """Yield every outermost JSON document in a text that begins with one of the given marks; skip all other text.

    If a document is incomplete, the documents that enclose it are incomplete too and are not retried; if one is nested
    too deeply, every `_STRIDE`-th level is tried.
    """
    broken: set[int] = set()
    begins = re.compile(f"[{re.escape(marks)}]")
    start = begins.search(text)
    while start is not None:
        place = start.start()
        end = place + 1
        if place not in broken:
            try:
                document, end = decoder.raw_decode(text, place)
            except json.JSONDecodeError as error:
                broken.update(_unclosed(text, place, error.pos))
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
    return [_written(value) for pairs in objects(text) for key, value in pairs if named.fullmatch(key)]


def _written(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)


def _search(pairs: Pairs, scale: Scale, named: Callable[[str], bool], inner: Callable[[str], bool]) -> Iterator[float]:
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
