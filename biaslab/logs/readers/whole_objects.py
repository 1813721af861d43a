"""Extract the table in a file that is one JSON object: by column, by row, or as a list within it.

Examples are ``DataFrame.to_json()`` in any orientation, ``Dataset.to_dict()``, records keyed by their identifier, and
results with shared metadata, ``{"judge": …, "results": [{…}, …]}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.detection import detect

_DEEPEST = 2  # maximum depth of nested objects
_FEWEST = 2  # minimum rows or columns of a table
_NUMBERED = 3  # minimum number of records with numbers as keys, if no field has a common name
_KEY = "key"  # the field for the identifiers of records that are keyed by them


def records_within(record: Mapping[str, Any], depth: int = 1) -> list[dict[str, Any]] | None:
    """Return the records in an object; None if it is a record itself.

    Examples
    --------
    >>> records_within({"question": {"0": "Why?", "1": "Who?"}, "score": {"0": 4, "1": 5}})
    [{'question': 'Why?', 'score': 4}, {'question': 'Who?', 'score': 5}]
    >>> records_within({"judge": "j", "results": [{"question": "Why?", "score": 4}]})
    [{'judge': 'j', 'question': 'Why?', 'score': 4}]
    >>> records_within({"question": "Why?", "score": 4}) is None
    True
    """
    for reading in (_split, _by_column, _by_list, _by_key):
        if (rows := reading(record)) is not None:
            return rows
    lists = [name for name, value in record.items() if _are_records(value)]
    if len(lists) == 1:
        about = {name: value for name, value in record.items() if name != lists[0] and not isinstance(value, list)}
        return [{**about, **row} for row in record[lists[0]]]
    inner = [value for value in record.values() if isinstance(value, dict) and value]
    if lists or len(inner) != 1 or depth > _DEEPEST:
        return None
    if detect(inner, mapped=False) is not None:
        return [dict(inner[0])]
    return records_within(inner[0], depth + 1)


def _split(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object with column names and a list of rows, or None."""
    columns = record.get("columns")
    rows = next((record[name] for name in ("data", "rows", "values") if isinstance(record.get(name), list)), None)
    if not isinstance(columns, list) or not rows or not all(isinstance(row, list) for row in rows):
        return None
    names = [str(column.get("name")) if isinstance(column, dict) else str(column) for column in columns]
    if len(set(names)) < len(names) or any(len(row) != len(names) for row in rows):
        return None
    return [dict(zip(names, row, strict=True)) for row in rows]


def _by_column(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object whose columns are objects, keyed by the same row numbers, or None."""
    columns = list(record.values())
    if len(columns) < _FEWEST or not all(isinstance(column, dict) and column for column in columns):
        return None
    keys = list(columns[0])
    if not all(str(key).isdigit() for key in keys) or any(set(column) != set(keys) for column in columns[1:]):
        return None
    if not _is_usual([str(name) for name in record]):
        return None
    return [{str(name): column[key] for name, column in record.items()} for key in keys]


def _by_list(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of an object whose columns are lists of the same length, or None."""
    columns = {str(name): value for name, value in record.items() if isinstance(value, list)}
    lengths = {len(column) for column in columns.values()}
    if len(columns) < _FEWEST or len(columns) < len(record) or len(lengths) != 1 or lengths == {0}:
        return None
    if lengths == {1} or not _is_usual(list(columns)):
        return None
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _by_key(record: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the records of an object that is keyed by their identifiers, or None."""
    rows = list(record.values())
    if len(rows) < _FEWEST or not all(isinstance(row, dict) and row for row in rows):
        return None
    shared = sorted(map(str, set(rows[0]).intersection(*rows[1:])))
    numbered = all(str(key).isdigit() for key in record) and len(shared) > 1 and len(rows) >= _NUMBERED
    if not numbered and not named.first_named(shared, named.CONTEXT) and detect(rows, mapped=False) is None:
        return None
    return [{_KEY: str(key), **row} for key, row in record.items()]


def _are_records(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _is_usual(names: Sequence[str]) -> bool:
    """Return whether names include common ones of columns of judgements."""
    usual = (*named.CONTEXT, *named.ANSWER, *named.CANDIDATE)
    return len(names) >= _FEWEST and bool(named.first_named(names, usual) or named.find_pairs(names))
