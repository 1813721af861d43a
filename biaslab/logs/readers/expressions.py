"""Parse the entries of a mapping, and evaluate them on records, to get columns of trials.

Parse a mapping entry: a field or path, a constant, part of a field, or the meaning of a field's values.

================================  ==========================================================================
``question``                      a field of the record
``judgments.0.decision``          a path of object keys and list indices, from 0
``=GPT-4``                        a constant
``custom_id~^(.+?)/``             the first matching group of a regular expression, searched in a field
``verdict | 0 -> tie, 1 -> a``    the meaning of a field's values; other values have none
``annotator1, annotator2``        several fields, for ``ratings`` and ``preference``
``task, id``                      several fields that form one name, for columns such as ``context_id``
``score_a > score_b``             for ``winner`` and ``preference``: the candidate with the greater number
``share | 1 -> 1, 2 -> 0``        for numbers: the meaning of two of them, with interpolation in between
================================  ==========================================================================

In a mapping file, the same is written ``{ field = "verdict", pattern = "…", values = { 0 = "tie" } }``, with a pattern,
values, or both.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.checks import read
from biaslab.core.errors import InputError
from biaslab.logs.readers.cells import (
    NUMERAL,
    FieldKind,
    is_no_value,
    keyed,
    parse_literal,
    read_value,
    strings,
    word_counts,
)
from biaslab.logs.readers.readings import OUTCOMES, compiled, first_group, human_ratings, number_of
from biaslab.logs.readers.rows import Rows, field_names
from biaslab.logs.readers.trials import SCHEMA

OPEN = "?"
"""Marks, in a proposed mapping, what only the user knows."""

LISTS = ("ratings", "preference")  # columns that are made of several fields, or of a list
#: Columns whose values several fields can form together.
TOGETHER = ("context_id", "candidate_id", "opponent_id", "judge", "dataset", "attribute", "template", "configuration")
_COMPARED = ("winner", "winner_swapped", "preference")
_GREATER = re.compile(r"(?P<one>[^>|~]*[^>|~\s-])\s+>\s+(?P<two>[^>|~]*[^>|~\s])")
_SEEN = 3  # values shown in a message
_POINT = re.compile(r"([-+]?\d+)\.0+")
_PARTS = {"field", "fields", "pattern", "values", "constant"}
_SPECIAL = set(" |<>&;()$`\"'*?[]#~\\!")  # characters special to a shell
_ALLOWED = "a field, '=constant', 'field~regular expression' or 'field | value -> meaning, …'"


def map_line(entries: Mapping[str, Any]) -> str:
    """Return a mapping as command-line options.

    Examples
    --------
    >>> map_line({"context_id": "q", "winner": {"field": "w", "values": {"A": "first", "B": "second"}}})
    '--map context_id=q --map "winner=w | A -> first, B -> second"'
    """
    return " ".join(f"--map {_quoted(name, expression)}" for name, expression in entries.items())


def _quoted(name: str, expression: Any) -> str:
    if isinstance(expression, Mapping):
        field = ", ".join(expression["fields"]) if "fields" in expression else expression["field"]
        meanings = ", ".join(f"{value} -> {meaning}" for value, meaning in expression.get("values", {}).items())
        field = f"{field}~{expression['pattern']}" if "pattern" in expression else field
        expression = f"{field} | {meanings}" if meanings else field
    text = f"{name}={expression}"
    if set(text) & set("$`\\!"):
        return shlex.quote(text)
    return text if not set(text) & _SPECIAL else '"' + text.replace('"', '\\"') + '"'


def paths_of(entry: Any, known: Container[str] = ()) -> Iterator[str]:
    """Yield the fields and paths that a mapping's entry names; one that is known may have commas.

    Examples
    --------
    >>> [list(paths_of(entry)) for entry in ("runs[].verdict | yes -> 1, no -> 0", {"fields": ["a", "b"]}, "=1")]
    [['runs[].verdict'], ['a', 'b'], []]
    """
    if isinstance(entry, str) and not entry.startswith("="):
        field = entry.partition("|")[0].partition("~")[0].strip()
        parts = [field] if field in known else field.replace(" > ", ",").split(",")
        yield from (part.strip() for part in parts)
    elif isinstance(entry, Mapping) and "constant" not in entry:
        for value in (entry.get("field"), entry.get("fields")) if {"field", "fields"} & set(entry) else entry.values():
            yield from paths_of(value, known)
    elif isinstance(entry, list | tuple):
        yield from (path for each in entry for path in paths_of(each, known))


@dataclass(frozen=True)
class Expression:
    """The source of a column's values.

    Parameters
    ----------
    fields : tuple of str
        Fields or paths; several only for columns that combine fields.
    constant : str, optional
        A value for all records, instead of fields.
    pattern : re.Pattern, optional
        A regular expression whose first matching group is used.
    values : mapping of str to str, optional
        Value → meaning; booleans and null are keyed as "true", "false" and "null".
    compared : bool
        Whether the first of two fields is compared with the second.
    """

    fields: tuple[str, ...] = ()
    constant: str | None = None
    pattern: re.Pattern[str] | None = None
    values: Mapping[str, str] | None = None
    compared: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the field is taken unchanged."""
        return self.constant is None and self.pattern is None and self.values is None and not self.compared

    def reader(self, numbers: bool = False) -> Callable[[Any], str | None]:
        """Return what gives a value's text; None if the pattern does not match or the value has no meaning.

        With ``numbers``, values between those mapped to numbers are interpolated linearly.
        """
        known = {whole(value): meaning for value, meaning in (self.values or {}).items()}
        between = _interpolation(known) if numbers else None

        def read(value: Any) -> str | None:
            text = written(value)
            if self.pattern is not None and text is not None:
                text = first_group(self.pattern, text)
            return text if self.values is None else _meant("null" if text is None else text.strip(), known, between)

        return read

    def greater(self, rows: Rows) -> list[str | None]:
        """Return "candidate" if the first field is greater, "opponent" if the second is, "tie" if they are equal."""
        pairs = zip(*(map(number_of, rows.values(field)) for field in self.fields), strict=True)
        words = {-1.0: "opponent", 0.0: "tie", 1.0: "candidate"}
        return [words.get(float(np.sign(one - two))) for one, two in pairs]


def parse_expression(name: str, entry: Any) -> Expression:
    r"""Parse the mapping entry of a column.

    Raises
    ------
    InputError
        If the entry has none of the forms in the module's table.

    Examples
    --------
    >>> parse_expression("winner", "verdict | 0 -> tie, A>B -> a").values
    {'0': 'tie', 'A>B': 'a'}
    >>> parse_expression("context_id", r"id~^(\d+)").fields, parse_expression("judge", "=me").constant
    (('id',), 'me')
    """
    where = f"mapping[{name!r}]"
    if isinstance(entry, Mapping):
        return _from_table(where, name, entry)
    if not isinstance(entry, str) or not entry.strip():
        raise InputError(where, entry, _ALLOWED)
    if entry.startswith("="):
        return Expression(constant=entry[1:])
    field, tilde, pattern = entry.partition("~")
    if tilde:
        pattern, meanings = _pattern_and_meanings(pattern)
        values = None if meanings is None else _meanings(where, meanings)
        return Expression((field.strip(),), pattern=compiled(pattern, where), values=values)
    field, bar, meanings = entry.partition("|")
    if bar and "->" in meanings:
        return Expression(_fields(name, field.strip()), values=_meanings(where, meanings))
    if name in _COMPARED and (compared := _GREATER.fullmatch(entry.strip())) is not None:
        return Expression((compared["one"], compared["two"]), compared=True)
    return Expression(_fields(name, entry))


def _pattern_and_meanings(text: str) -> tuple[str, str | None]:
    """Split ``expression | value -> meaning``; a ``|`` of the expression itself has no arrow after it."""
    for bar in (" | ", "|"):
        pattern, found, meanings = text.rpartition(bar)
        if found and "->" in meanings and pattern.strip():
            return pattern.rstrip(), meanings
    return text, None


def _from_table(where: str, name: str, entry: Mapping[str, Any]) -> Expression:
    unknown = sorted(set(entry) - _PARTS)
    sources = [part for part in ("field", "fields", "constant") if part in entry]
    if unknown or len(sources) != 1:
        raise InputError(where, dict(entry), "a table with field, fields or constant, and optionally pattern or values")
    if "constant" in entry:
        return Expression(constant=written(entry["constant"]) or "")
    source = entry[sources[0]]
    fields = tuple(source) if isinstance(source, list) else _fields(name, source) if isinstance(source, str) else ()
    named = all(isinstance(field, str) and field for field in fields)
    if not fields or not named or (len(fields) > 1 and name not in (*LISTS, *TOGETHER, *OUTCOMES)):
        several = ", ".join((*LISTS, *TOGETHER, *OUTCOMES))
        raise InputError(where, source, f"the name of a field, or names of several for {several}")
    pattern, values = entry.get("pattern"), entry.get("values")
    if values is not None and not isinstance(values, Mapping):
        raise InputError(f"{where}.values", values, 'a table such as { 0 = "tie" }')
    known = None if values is None else {str(key): written(value) or "" for key, value in values.items()}
    return Expression(fields, None, None if pattern is None else compiled(str(pattern), where), known)


def _fields(name: str, entry: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in entry.split(",") if field.strip()) if name in LISTS else (entry,)


def _meanings(where: str, text: str) -> dict[str, str]:
    """Parse ``a -> b, c -> d``; a comma without a following arrow belongs to the text before it."""
    meanings: dict[str, str] = {}
    parts = re.split(r",\s+(?=(?:(?!->).)*->)", text)  # commas without a following space belong to values
    if not all(pair.count("->") == 1 for pair in parts):
        parts = re.split(r",(?=[^,]*->)", text)
    for pair in parts:
        value, arrow, meaning = pair.partition("->")
        if not arrow or not value.strip() or not meaning.strip():
            raise InputError(where, text.strip(), "value -> meaning, separated by commas", "such as 0 -> tie, 1 -> one")
        meanings[value.strip()] = meaning.strip()
    return meanings


def whole(text: str) -> str:
    """Remove the decimal point of a whole number ("3.0"), which tables with missing numbers are saved with."""
    match = _POINT.fullmatch(text.strip())
    return match[1] if match else text.strip()


def _interpolation(known: Mapping[str, str]) -> tuple[list[float], list[float]] | None:
    """Return the mapped numbers, ascending, and their meanings; None unless there are two and all are numbers."""
    if len(known) < 2 or not all(NUMERAL.fullmatch(text) for pair in known.items() for text in pair):
        return None
    ordered = sorted((float(value), float(meaning)) for value, meaning in known.items())
    return [value for value, _ in ordered], [meaning for _, meaning in ordered]


def _meant(text: str, known: Mapping[str, str], between: tuple[list[float], list[float]] | None) -> str | None:
    """Return the meaning of a value, interpolated if it is not listed; None if it has none."""
    if (meaning := known.get(whole(text))) is not None or between is None:
        return meaning
    number = text.removesuffix("%")
    if not NUMERAL.fullmatch(number) or not between[0][0] <= float(number) <= between[0][-1]:
        return None
    return repr(float(np.interp(float(number), *between)))


def written(value: Any) -> str | None:
    """Return a value as text: integers without decimals, true and false in lower case; None for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) and value == value else None


NO_WINNER = "no winner"
"""Placeholder for a missing ``winner``."""

COUNTED = "#"
"""The constant for ``replicate`` that numbers repeated judgements in the order of the file."""

TEXTS = {"text": "words", "opponent_text": "opponent_words"}
KINDS: dict[str, FieldKind] = {name: "id" if column.kind == "text" else column.kind for name, column in SCHEMA.items()}
KINDS |= {"p_first": "number", "score": "number", "reply": "text", "winner": "id", "text": "text"}
KINDS |= {"person": "id", "opponent_text": "text", "swapped": "flag", "shown_first": "name"}
_SCORES = ("score", "p_first")
_IDENTITY = ("context_id", "candidate_id", "opponent_id")


def columns_of(rows: Rows, mapping: Mapping[str, Any]) -> tuple[dict[str, pd.Series], Bools]:
    """Return the columns of a mapping, and flag records that did not match; refuse those with a wrong type of value."""
    lost = np.zeros(len(rows.records), bool)
    columns: dict[str, pd.Series] = {}
    lists: dict[str, list[list[str]]] = {}
    for name, expression_text in mapping.items():
        expression = _split_fields(rows, name, parse_expression(name, expression_text))
        _require_fields(rows, name, expression)
        if name in LISTS and expression.constant is None:
            lists[name] = _lists(rows, name, expression)
        else:
            columns[name] = _column(rows, name, expression, lost)
            if name == "score" and "reply" not in mapping and expression.constant is None:
                columns["reply"] = _replies(rows, expression, columns[name])
    if "replicate" in columns:
        rows.refuse(columns["replicate"].isna() | (columns["replicate"] % 1 != 0), "replicate is not a whole number")
    if "ratings" in lists:
        rated = human_ratings(lists["ratings"])
        _note_unread_ratings(rows, lists["ratings"], rated["human"])
        columns = rated | columns
    if "preference" in lists:
        columns["preference"] = pd.Series(lists["preference"], dtype=object)
    for name, column in TEXTS.items():
        if name in columns:
            columns.setdefault(column, word_counts(columns.pop(name)))
    return columns, lost


def _lists(rows: Rows, name: str, expression: Expression) -> list[list[str]]:
    """Return the labels of each record by several people, and count words without a meaning."""
    if expression.compared:
        return [[label or ""] for label in expression.greater(rows)]
    parts = [_raw(rows, expression, field) for field in expression.fields]
    words = [rows.values(field) for field in expression.fields]
    lost = sum(own is None and bool(word) for own, word in zip(chain(*parts), chain(*words), strict=True))
    if lost and not expression.is_plain:
        rows.log.unmatched[f"{name}: {', '.join(expression.fields)} does not match"] += lost
    return [_listed(several) for several in zip(*parts, strict=True)]


def _note_unread_ratings(rows: Rows, lists: list[list[str]], means: pd.Series) -> None:
    """Count people's scores that are no numbers."""
    unread = [text for texts, mean in zip(lists, means, strict=True) for text in texts if text.strip() and mean != mean]
    if unread:
        shown = ", ".join(dict.fromkeys(unread[:_SEEN]))
        rows.log.unmatched[f"ratings are no numbers; give their meaning ({shown})"] += len(unread)


def require_fields(rows: Rows, mapping: Mapping[str, Any]) -> None:
    """Raise `InputError` if an entry names a field that no record has."""
    for name, entry in mapping.items():
        _require_fields(rows, name, _split_fields(rows, name, parse_expression(name, entry)))


def _require_fields(rows: Rows, name: str, expression: Expression) -> None:
    absent = [field for field in expression.fields if not rows.has(field)]
    if absent:
        allowed = f"a field of the file: {field_names(rows.records)}"
        raise InputError(f"mapping[{name!r}]", ", ".join(absent), allowed)


def _split_fields(rows: Rows, name: str, expression: Expression) -> Expression:
    """Split an expression such as ``task, id`` into its fields, unless a field has that very name."""
    field = expression.fields[0] if expression.is_plain and len(expression.fields) == 1 else ""
    if name not in TOGETHER or "," not in field or rows.has(field):
        return expression
    return Expression(tuple(part.strip() for part in field.split(",") if part.strip()))


def _column(rows: Rows, name: str, expression: Expression, lost: Bools) -> pd.Series:
    if expression.constant is not None:
        return pd.Series(_constant(name, expression.constant), index=range(len(rows.records)))
    field = expression.fields[0]
    if expression.compared:
        return strings(expression.greater(rows))
    if len(expression.fields) > 1:
        return _joined(rows, expression.fields)
    if expression.is_plain and name in _IDENTITY:
        return rows.convert([keyed(value) for value in rows.values(field)], field, "id")
    if expression.is_plain and name in TEXTS:
        return rows.convert([answered(value) for value in rows.values(field)], field, "text")
    if expression.is_plain and name in _SCORES:
        lacking = is_text if name == "score" else _is_no_text
        return rows.convert([None if lacking(value) else value for value in rows.values(field)], field, "number")
    if expression.is_plain:
        return rows.take(field, KINDS[name], NO_WINNER if name == "winner" else None)
    texts = list(map(expression.reader(numbers=KINDS[name] == "number"), rows.values(field)))
    missing = np.array([text is None for text in texts], bool)
    if missing.any():
        rows.log.unmatched[f"{name}: {field} does not match"] += int((missing & rows.good).sum())
    if name in _IDENTITY and missing.any():
        lost |= missing
        whole = rows.take(field, "id")
        texts = [own if text is None else text for text, own in zip(texts, whole, strict=True)]
    return _converted(texts, KINDS[name])


def _is_no_text(value: Any) -> bool:
    """Return whether a text says that there is no value, such as that of an error."""
    return isinstance(value, str) and (not value.strip() or is_no_value(value))


def is_text(value: Any) -> bool:
    """Return whether a value is a text and no number, such as a judge's words instead of a score."""
    return isinstance(value, str) and not NUMERAL.fullmatch(value)


def _replies(rows: Rows, expression: Expression, scores: pd.Series) -> pd.Series:
    """Return the texts in place of scores, and those that a score was taken from."""
    texts = rows.values(expression.fields[0])
    kept = scores.isna() | (expression.pattern is not None)
    words = [text if keep and is_text(text) and text.strip() else None for text, keep in zip(texts, kept, strict=True)]
    return strings(words)


def _joined(rows: Rows, fields: Sequence[str]) -> pd.Series:
    """Join the values of several fields; one may be empty, such as the input of an instruction."""
    parts = []
    for field in fields:
        values = [None if value == "" else keyed(value) for value in rows.values(field)]
        parts.append(rows.convert(values, field, "name"))
    empty = np.logical_and.reduce([part.isna().to_numpy() for part in parts])
    rows.refuse(empty, f"{', '.join(fields)} are empty")
    return strings(["/".join(map(str, values)) for values in zip(*(part.fillna("") for part in parts), strict=True)])


def _converted(texts: list[Any], kind: FieldKind) -> pd.Series:
    """Convert texts to numbers or flags, with NaN and False for invalid ones; leave other kinds as text."""
    if kind == "number":
        numbers = (read_value(text, "number") for text in texts)
        return pd.Series([np.nan if number is None else number for number in numbers], dtype=float)
    if kind == "flag":
        return pd.Series([bool(read_value(text or "", "flag")) for text in texts], dtype=bool)
    return strings(texts)


def _constant(name: str, text: str) -> Any:
    if (name, text) == ("replicate", COUNTED):
        return 0
    kind = {"number": float, "flag": bool}.get(KINDS.get(name, "text"))
    return text if kind is None else read(f"mapping[{name!r}]", text, kind)


def _raw(rows: Rows, expression: Expression, field: str) -> list[Any]:
    """Return the values of a field with their mapped meanings; in a list, that of each item."""
    values, read = rows.values(field), expression.reader()
    if expression.is_plain:
        return values
    if not any(isinstance(value, list) for value in values):
        return list(map(read, values))
    return [[read(item) for item in (value if isinstance(value, list) else [value])] for value in values]


def _listed(parts: tuple[Any, ...]) -> list[str]:
    """Return the items of several fields or of lists as texts; empty text for an item that is not text or a number."""
    whole = [item for part in parts for item in (part if isinstance(part, list) else _split(part))]
    return [_text(item) for item in whole]


def _split(part: Any) -> list[Any]:
    """Split a text that consists of several numbers, as in saved trials; otherwise return the value in a list."""
    words = part.split() if isinstance(part, str) else []
    return words if len(words) > 1 and all(NUMERAL.fullmatch(word) for word in words) else [part]


def _text(item: Any) -> str:
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    return str(item).strip() if isinstance(item, str | int | float) and not isinstance(item, bool) else ""


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
