"""Evaluate the expressions of a mapping on records, to get columns of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.errors import InputError
from biaslab.logs.readers.conversations import answered
from biaslab.logs.readers.expressions import LISTS, TOGETHER, Expression, parse_expression
from biaslab.logs.readers.field_values import NUMERAL, Kind, is_no_value, keyed, read_value, strings, word_counts
from biaslab.logs.readers.log_columns import SCHEMA
from biaslab.logs.readers.outcomes import human_ratings
from biaslab.logs.readers.rows import Rows, field_names

NO_WINNER = "no winner"
"""Placeholder for a missing ``winner``."""

COUNTED = "#"
"""The constant for ``replicate`` that numbers repeated judgements in the order of the file."""

TEXTS = {"text": "words", "opponent_text": "opponent_words"}
KINDS: dict[str, Kind] = {name: "id" if column.kind == "text" else column.kind for name, column in SCHEMA.items()}
KINDS |= {"p_first": "number", "score": "number", "reply": "text", "winner": "id", "text": "text"}
KINDS |= {"opponent_text": "text", "swapped": "flag", "shown_first": "name"}
_SCORES = ("score", "p_first")
_IDENTITY = ("context_id", "candidate_id", "opponent_id")


class Mapped(NamedTuple):
    """The mapped columns, and a flag for each record that did not match."""

    columns: dict[str, pd.Series]
    unmatched: Bools


def columns_of(rows: Rows, mapping: Mapping[str, Any]) -> Mapped:
    """Return the columns of a mapping, refusing records with a value of the wrong type."""
    lost = np.zeros(len(rows.records), bool)
    columns: dict[str, pd.Series] = {}
    lists: dict[str, list[list[str]]] = {}
    for name, expression_text in mapping.items():
        expression = _split_fields(rows, name, parse_expression(name, expression_text))
        _require_fields(rows, name, expression)
        if name in LISTS and expression.compared:
            lists[name] = [[said or ""] for said in expression.greater(rows)]
        elif name in LISTS and expression.constant is None:
            parts = [_raw(rows, expression, field) for field in expression.fields]
            lists[name] = [_listed(several) for several in zip(*parts, strict=True)]
        else:
            columns[name] = _column(rows, name, expression, lost)
    if "replicate" in columns:
        rows.refuse(columns["replicate"].isna() | (columns["replicate"] % 1 != 0), "replicate is not a whole number")
    if "ratings" in lists:
        columns = human_ratings(lists["ratings"]) | columns
    if "preference" in lists:
        columns["preference"] = pd.Series(lists["preference"], dtype=object)
    for name, column in TEXTS.items():
        if name in columns:
            columns.setdefault(column, word_counts(columns.pop(name)))
    return Mapped(columns, lost)


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
        return rows.convert([_or_none(value) for value in rows.values(field)], field, "number")
    if expression.is_plain:
        return rows.take(field, KINDS[name], NO_WINNER if name == "winner" else None)
    texts = expression.texts(rows, field, numbers=KINDS[name] == "number")
    missing = np.array([text is None for text in texts], bool)
    if missing.any():
        rows.log.unmatched[f"{name}: {field} does not match"] += int((missing & rows.good).sum())
    if name in _IDENTITY and missing.any():
        lost |= missing
        whole = rows.take(field, "id")
        texts = [own if text is None else text for text, own in zip(texts, whole, strict=True)]
    return _converted(texts, KINDS[name])


def _or_none(value: Any) -> Any:
    """Return None for a text that says that there is no value, such as that of an error."""
    return None if isinstance(value, str) and (not value.strip() or is_no_value(value)) else value


def _joined(rows: Rows, fields: Sequence[str]) -> pd.Series:
    """Join the values of several fields; one may be empty, such as the input of an instruction."""
    parts = []
    for field in fields:
        values = [None if value == "" else keyed(value) for value in rows.values(field)]
        parts.append(rows.convert(values, field, "name"))
    empty = np.logical_and.reduce([part.isna().to_numpy() for part in parts])
    rows.refuse(empty, f"{', '.join(fields)} are empty")
    return strings(["/".join(map(str, values)) for values in zip(*(part.fillna("") for part in parts), strict=True)])


def _converted(texts: list[Any], kind: Kind) -> pd.Series:
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
    kind = KINDS.get(name)
    if kind not in ("number", "flag"):
        return text
    value = read_value(text, kind)
    if value is None:
        raise InputError(f"mapping[{name!r}]", text, "a number" if kind == "number" else "true or false")
    return value


def _raw(rows: Rows, expression: Expression, field: str) -> list[Any]:
    """Return the values of a field with their mapped meanings; in a list, that of each item."""
    if expression.is_plain:
        return rows.values(field)
    values = rows.values(field)
    if not any(isinstance(value, list) for value in values):
        return expression.texts(rows, field)
    inner = [value if isinstance(value, list) else [value] for value in values]
    flat = Rows([{"item": item} for items in inner for item in items], [], rows.log, rows.textual)
    texts = iter(expression.texts(flat, "item"))
    return [[next(texts) for _ in items] for items in inner]


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
