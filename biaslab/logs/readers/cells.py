"""Values of a record's fields: types, marks of missing ones, texts of numbers and messages, and paths to inner ones."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import pandas as pd

from biaslab.core.schema import count_words

FieldKind = Literal["id", "name", "text", "number", "flag", "list", "any"]


_FLAGS = {"true": True, "false": False, "1": True, "0": False}


NUMERAL = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")


_NO_VALUE = re.compile(
    r"n/?a|nan|null|none|nil|-+|\?+|invalid|missing|unknown|unpars(?:e?able|ed)|timed out|refused|no (?:score|verdict)"
    r"|(?:\w+[ _]){0,3}(?:error|failed|failure|timeout)(?:\W.*)?",
    re.IGNORECASE | re.DOTALL,
)


WRONG = object()


"""Marks a value that is missing or has the wrong type."""


def read_value(value: Any, kind: FieldKind) -> Any:
    """Convert a value to a type; None if it has another type.

    Examples
    --------
    >>> read_value("4.5", "number"), read_value("yes", "flag"), read_value(3, "id")
    (4.5, None, '3')
    """
    converted = CONVERSIONS[kind].read(value)
    return None if converted is WRONG else converted


def is_no_value(text: str) -> bool:
    """Return whether a text marks a missing value, such as ``N/A`` or the words of an error.

    Examples
    --------
    >>> is_no_value("N/A"), is_no_value("ERROR: rate limit"), is_no_value("4"), is_no_value("neither")
    (True, True, False, False)
    """
    return _NO_VALUE.fullmatch(text.strip()) is not None


def measured(value: Any) -> float:
    """Return a finite number; NaN for text, booleans and anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if number else math.nan


def word_counts(texts: pd.Series) -> pd.Series:
    """Return the number of words in each text; NaN if missing."""
    return texts.map(count_words, na_action="ignore").astype(float)


def at(record: Any, path: str) -> Any:
    """Return the value at a dotted path of a record, or None.

    Examples
    --------
    >>> at({"metadata": {"model": "m"}}, "metadata.model"), at({"metadata": None}, "metadata.model")
    ('m', None)
    """
    value = value_at(record, path)
    return None if value is WRONG else value


def value_at(record: Any, path: str) -> Any:
    """Return the value at a dotted path of object keys and list indices, or `WRONG` if there is none."""
    steps = path.split(".")
    for at_, step in enumerate(steps):
        if isinstance(record, dict) and step in record:
            record = record[step]
        elif isinstance(record, dict) and (key := _key_with_points(record, steps[at_:])) is not None:
            rest = steps[at_ + key.count(".") + 1 :]
            return value_at(record[key], ".".join(rest)) if rest else record[key]
        elif isinstance(record, list) and step.isascii() and step.isdigit() and int(step) < len(record):
            record = record[int(step)]
        else:
            return WRONG
    return record


def _key_with_points(record: dict[str, Any], steps: Sequence[str]) -> str | None:
    """Return the key with points, such as "gpt-4.1", with which the rest of a path starts; None if there is none."""
    return next((key for end in range(len(steps), 1, -1) if (key := ".".join(steps[:end])) in record), None)


def items_in(value: Any, textual: bool = False) -> list[tuple[Any, Any]] | None:
    """Return the items of a list or an object, with their index or key; None for other values.

    With ``textual``, as in CSV, a text may be a list or an object as JSON or Python writes them, or have signs between
    its items.

    Examples
    --------
    >>> items_in(["A", "B"]), items_in({"x": 1}), items_in("A;B") is None
    ([(0, 'A'), (1, 'B')], [('x', 1)], True)
    >>> items_in("['A', 'tie']", textual=True), items_in("A;B", textual=True)
    ([(0, 'A'), (1, 'tie')], [(0, 'A'), (1, 'B')])
    """
    if textual and isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else None


def _from_text(text: str) -> Any:
    if text[:1] in ("[", "{"):
        return parse_literal(text)
    between = next((sign for sign in (";", "|", ",") if sign in text), None)
    return [part.strip() for part in text.split(between)] if between and text else [text] if text else []


def parse_literal(text: str) -> Any:
    """Return the value that a text writes as JSON or in Python; None if it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def plain(text: str | None) -> str | None:
    """Escape lone surrogates, so that a text can be encoded."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def keyed(value: Any) -> Any:
    """Return a short key of a list or an object, such as the messages of a conversation; other values unchanged.

    Examples
    --------
    >>> keyed([{"role": "user", "content": "Why?"}]) == keyed([{"content": "Why?", "role": "user"}]), keyed("q1")
    (True, 'q1')
    """
    if not isinstance(value, list | dict) or not value:
        return value
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def strings(values: Sequence[str | None]) -> pd.Series:
    """Return a series of strings, escaping lone surrogates, which are not valid text."""
    try:
        return pd.Series(list(values), dtype="str")
    except UnicodeEncodeError:
        return pd.Series([plain(value) for value in values], dtype="str")


def is_blank(value: Any) -> bool:
    """Return whether a value is null, NaN or a blank text."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _id(value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else WRONG


def _name(value: Any) -> Any:
    return None if value is None or value != value else _id(value)


def _number(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return WRONG
    if isinstance(value, str) and not NUMERAL.fullmatch(value):
        return WRONG
    try:
        number = float(value)
    except OverflowError:
        return WRONG
    return WRONG if math.isinf(number) else number


def _flag(value: Any) -> Any:
    read = _FLAGS.get(value.lower()) if isinstance(value, str) else value
    return read if isinstance(read, bool) else WRONG


class Conversion(NamedTuple):
    """Conversion of a cell of a log to one type: description for messages, converter, placeholder and dtype.

    Options are parsed by `biaslab.core.checks.read`. Cells have other rules: null and NaN are missing values, JSON has
    already typed most of them, and a malformed one is counted as a refused record instead of raising an error.
    """

    allowed: str
    read: Callable[[Any], Any]
    empty: Any
    dtype: Any


CONVERSIONS: dict[FieldKind, Conversion] = {
    "id": Conversion("a name or a whole number", _id, None, "str"),
    "name": Conversion("a name, a whole number or null", _name, None, "str"),
    "text": Conversion("a text or null", lambda v: v if v is None or isinstance(v, str) else WRONG, None, "str"),
    "number": Conversion("a finite number or null", _number, math.nan, float),
    "flag": Conversion("true or false", _flag, False, bool),
    "list": Conversion("a list", lambda value: value if isinstance(value, list) else WRONG, [], object),
    "any": Conversion("anything", lambda value: value, None, object),
}


_POINT = re.compile(r"([-+]?\d+)\.0+")


def whole(text: str) -> str:
    """Remove the decimal point of a whole number ("3.0"), which tables with missing numbers are saved with."""
    match = _POINT.fullmatch(text.strip())
    return match[1] if match else text.strip()


def written(value: Any) -> str | None:
    """Return a value as text: integers without decimals, true and false in lower case; None for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) and value == value else None


_ASKING = frozenset(["user", "human", "system", "developer", "tool", "prompter"])
_WHO, _WHAT = ("role", "from", "speaker"), ("content", "value", "text")


def answered(value: Any) -> Any:
    """Return the text of what a model says in a conversation, its messages joined; any other value unchanged.

    Examples
    --------
    >>> answered([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]), answered("So.")
    ('So.', 'So.')
    >>> answered("[{'role': 'user', 'content': 'Why?'}, {'role': 'assistant', 'content': 'So it is.'}]")
    'So it is.'
    """
    listed = list_in(value)
    if not isinstance(listed, list) or not listed:
        return value
    if all(isinstance(item, str) for item in listed):  # a text per turn
        return "\n".join(listed)
    if not all(isinstance(item, dict) and _of(item, _WHAT) is not None for item in listed):
        return value
    return "\n".join(text for item in listed if not _is_asking(item) for text in _texts(_of(item, _WHAT)))


def list_in(value: Any) -> Any:
    """Return the list that a text writes as JSON or in Python; any other value unchanged."""
    listed = parse_literal(value) if isinstance(value, str) and value.strip()[:1] == "[" else None
    return listed if isinstance(listed, list) else value


def _of(message: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((message[name] for name in names if message.get(name) is not None), None)


def _is_asking(message: dict[str, Any]) -> bool:
    return str(_of(message, _WHO)).lower() in _ASKING


def _texts(content: Any) -> Iterator[str]:
    """Yield a content's text, or those of its parts."""
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text
