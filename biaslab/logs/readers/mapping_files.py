"""Load a mapping from a dictionary, a TOML file, or a function, and reshape records as it says.

Load a mapping from a dictionary, a TOML file, or a function of the table.

::

    # mapping of verdicts.json
    join = "annotators.json on idx"          # a second file, relative to this one
    explode = "games"                        # one row per item of a list
    judge = "=GPT-3.5"                       # like --map judge==GPT-3.5
    context_id = "idx"
    winner = { field = "games.verdict", values = { 1 = "first", 2 = "second", 0 = "tie" } }
    preference = ["annotator1", "annotator2", "annotator3"]

``format`` and ``score_pattern`` are allowed too. Names and expressions are checked when the file is loaded.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers.documents import iter_documents, read_frame, read_rows
from biaslab.logs.readers.expressions import LISTS, OPEN, parse_expression
from biaslab.logs.readers.flatten import are_annotations, by_item
from biaslab.logs.readers.mapping import NAMES, by_column
from biaslab.logs.readers.readings import OUTCOMES, compiled
from biaslab.logs.readers.rows import Log, Rows, items_in

OPTIONS = ("format", "score_pattern", "explode", "join", "ignore")


@dataclass(frozen=True)
class LogMapping:
    """A user's mapping of a log: columns, format and reshaping.

    Parameters
    ----------
    columns : mapping
        Column of the trials → expression.
    format : str, optional
        Format of the log.
    score_pattern : str, optional
        A regular expression that extracts scores from texts.
    shape : Shape or callable, optional
        Reshaping of records before they are read; a function takes their table and returns a new one.
    ignored : tuple of str
        Columns that have no role.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    score_pattern: str | None = None
    shape: Shape | TableFunction | None = None
    ignored: tuple[str, ...] = ()


def make_mapping(mapping: Mapping[str, Any] | str | Path | TableFunction | None) -> LogMapping:
    """Load and check a mapping.

    Raises
    ------
    InputError
        If the file is not TOML, or a name or an expression is invalid.

    Examples
    --------
    >>> make_mapping({"judge": "=me", "format": "llmbar"}).format
    'llmbar'
    """
    if isinstance(mapping, str | Path):
        return _made(read_mapping_file(mapping), str(mapping))
    if callable(mapping):
        return LogMapping(shape=mapping)
    if mapping is not None and not isinstance(mapping, Mapping):
        allowed = "columns of trials with their fields, a TOML file, or a function of a data frame"
        remedy = 'such as {"context_id": "question", "judge": "=me"}'
        raise InputError.plain(f"mapping has the type {type(mapping).__name__}, expected: {allowed}; {remedy}")
    return _made(dict(mapping or {}), "mapping")


def read_mapping_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a mapping file; a joined file is resolved relative to its folder.

    Raises
    ------
    InputError
        If the file does not exist or is not TOML.
    """
    file = Path(path)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("mapping", str(path), "a mapping, or an existing TOML file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        remedy = 'write for example context_id = "question"'
        raise InputError("mapping", str(path), f"a TOML file ({error})", remedy) from error
    if isinstance(entries.get("join"), str):
        entries["join"] = str(file.parent / entries["join"])  # absolute paths are unchanged
    return entries


def _made(entries: dict[str, Any], name: str) -> LogMapping:
    if is_open := [key for key, value in entries.items() if _is_open(value)]:
        allowed = "a column, a constant such as '=gpt-4', or the meaning of a value"
        raise InputError(f"{name}: {is_open[0]}", entries[is_open[0]], allowed, f"still open: {', '.join(is_open)}")
    columns = {
        key: {"fields": value} if isinstance(value, list) and key in (*LISTS, *OUTCOMES) else value
        for key, value in entries.items()
        if key not in OPTIONS
    }
    if unknown := [key for key in columns if key not in NAMES]:
        raise InputError(name, unknown, f"some of {', '.join((*OPTIONS, *NAMES))}")
    if {"judge", "person"} <= set(columns):
        raise InputError(
            f"{name}: person", columns["person"], "no person where a judge is mapped", "map one of the two"
        )
    _require_columns(columns, name)
    for own in by_column(columns):
        for key, value in own.items():
            parse_expression(key, value)
    for option in ("format", "score_pattern"):
        if not isinstance(entries.get(option), str | None):
            raise InputError(f"{name}: {option}", entries[option], "a text")
    pattern = entries.get("score_pattern")
    if pattern is not None:
        compiled(pattern, "score_pattern")
    shape = make_shape(entries.get("explode"), entries.get("join"))
    return LogMapping(columns, entries.get("format"), pattern, shape, _ignored(entries.get("ignore"), name))


def _require_columns(columns: Mapping[str, Any], name: str) -> None:
    """Raise `InputError` unless lists of columns are texts, and tables by column have a value for each."""
    outcome = next((each for each in OUTCOMES if each in columns), "")
    entry = columns.get(outcome)
    fields = entry.get("fields", []) if isinstance(entry, Mapping) else []
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise InputError(f"{name}: {outcome}", fields, "names of columns")
    if len(fields) > 1 and "winner_swapped" in columns:
        raise InputError(f"{name}: winner_swapped", columns["winner_swapped"], "used with a single column of winner")
    for key, value in columns.items():
        several = isinstance(value, Mapping) and len(fields) > 1 and bool(set(value) & set(fields))
        if several and key not in LISTS and set(value) != set(fields):
            raise InputError(f"{name}: {key}", dict(value), f"a value for each of {', '.join(fields)}")


def _is_open(value: Any) -> bool:
    """Return whether a value of a mapping holds a `?` in place of what the user has to say."""
    if isinstance(value, Mapping):
        return any(map(_is_open, value.values()))
    return value == OPEN or (isinstance(value, list) and OPEN in value)


def _ignored(names: Any, name: str) -> tuple[str, ...]:
    listed = names.split(",") if isinstance(names, str) else names or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InputError(f"{name}: ignore", names, "names of columns")
    return tuple(each.strip() for each in listed if each.strip())


TableFunction = Callable[[pd.DataFrame], pd.DataFrame]
_JOIN = re.compile(r"(?P<file>.+?)\s+on\s+(?P<left>[^=\s]+)(?:\s*=\s*(?P<right>\S+))?\s*")
_TOGETHER = "+"  # between fields with parallel lists
_NUMBER = "#"  # suffix of an exploded field: the index in its list, or the key in its object


@dataclass(frozen=True)
class Shape:
    """Reshaping steps, applied in this order.

    Parameters
    ----------
    explode : tuple of str
        Fields or paths to explode, one after the other: lists into one row per item, objects into one row per key. The
        item replaces the list, and ``field#`` is its index, from 0, or its key. ``answers+scores`` explodes two lists
        of the same length together.
    joined : mapping of str to dict, optional
        Records of another file, by the value of the field to join on.
    on : str
        The field of this file to join on.
    """

    explode: tuple[str, ...] = ()
    joined: Mapping[str, dict[str, Any]] | None = None
    on: str = ""

    def of(self, rows: Rows) -> Rows:
        """Return the reshaped records, refusing those without a join partner or a list."""
        if self.joined is not None:
            rows = _merged(rows, self.joined, self.on)
        for name in self.explode:
            rows = _exploded(rows, name)
        return rows


def make_shape(explode: Any, join: Any) -> Shape | None:
    """Return the reshaping in a mapping, or None.

    Parameters
    ----------
    explode : str or list of str, optional
        Fields, separated by commas.
    join : str, optional
        ``"FILE on FIELD"`` or ``"FILE on FIELD=ITS FIELD"``.

    Raises
    ------
    InputError
        If one has another form, or the file cannot be read.
    """
    if explode is None and join is None:
        return None
    fields = explode.split(",") if isinstance(explode, str) else explode if isinstance(explode, list) else []
    named = tuple(field.strip() for field in fields if isinstance(field, str) and field.strip())
    if explode is not None and not named:
        raise InputError(
            "mapping['explode']", explode, "the name of a field with lists, or several separated by commas"
        )
    if join is None:
        return Shape(named)
    match = _JOIN.fullmatch(join) if isinstance(join, str) else None
    if match is None:
        raise InputError("mapping['join']", join, "'FILE on FIELD' or 'FILE on FIELD=FIELD OF THE OTHER FILE'")
    return Shape(named, _by_value(Path(match["file"]), match["right"] or match["left"]), match["left"])


def shaped(chunks: Iterator[Rows], shape: Shape | TableFunction | None) -> Iterator[Rows]:
    """Yield reshaped chunks, skipping empty ones."""
    if shape is not None:
        chunks = map(shape.of, chunks) if isinstance(shape, Shape) else _through(list(chunks), shape)
    return (rows for rows in chunks if rows.records)


def _through(chunks: list[Rows], function: TableFunction) -> Iterator[Rows]:
    """Apply the user's function to a table of all records, with dotted names of nested fields, and yield its rows."""
    if not chunks:
        return
    lines = list(chain.from_iterable(rows.lines for rows in chunks))
    log, unit = chunks[0].log, chunks[0].log.unit
    table = pd.json_normalize(list(chain.from_iterable(rows.records for rows in chunks)))
    result = function(table.set_axis(pd.Index(lines, name=unit)))
    if not isinstance(result, pd.DataFrame):
        raise InputError.plain(f"mapping returned a {type(result).__name__}, not a pandas.DataFrame")
    kept = result.index.isin(lines).all()
    start = 0
    for rows in read_frame(result, log):
        end = start + len(rows.records)
        yield Rows(rows.records, result.index[start:end].tolist() if kept else rows.lines, log, chunks[0].textual)
        start = end
    log.unit = unit if kept else log.unit


def _by_value(path: Path, field: str) -> dict[str, dict[str, Any]]:
    """Return the records of a file by the value of a field, which must be unique."""
    records: dict[str, dict[str, Any]] = {}
    for document in iter_documents(path):
        for rows in read_rows(document, Log(document.name)):
            if are_annotations(rows.records):
                items = by_item(rows.records[0])
                rows = Rows(items, range(1, len(items) + 1), rows.log, textual=False)
            for value, record in zip(rows.take(field, "name"), rows.records, strict=True):
                if isinstance(value, str) and records.setdefault(value, record) is not record:
                    where, remedy = f"{field} = {value}", "join on a field that identifies the records"
                    raise InputError("mapping['join']", where, f"unique values in {path}", remedy)
    if not records:
        raise InputError("mapping['join']", str(path), f"a file whose records have the field {field}")
    return records


def _merged(rows: Rows, joined: Mapping[str, dict[str, Any]], on: str) -> Rows:
    """Join the fields of the other file to each record, refusing records without a match; the log's fields win."""
    values = rows.take(on, "id")
    alone = rows.good & ~values.isin(list(joined)).to_numpy()
    for place in np.flatnonzero(alone).tolist():
        rows.log.refuse(rows.lines[place], f"no record to join for {on} = {values[place]}")
    rows.good &= ~alone
    places = np.flatnonzero(rows.good).tolist()
    records = [joined[values[place]] | rows.records[place] for place in places]
    return Rows(records, [rows.lines[place] for place in places], rows.log, rows.textual)


def _exploded(rows: Rows, field: str) -> Rows:
    """Return one row per item of a list, or per key of an object; refuse records without either."""
    if _TOGETHER in field and not rows.has(field):
        return _exploded_together(rows, [name.strip() for name in field.split(_TOGETHER)])
    items = pd.Series([items_in(value, rows.textual) for value in rows.values(field)], dtype=object)
    rows.refuse(items.isna(), f"{field} is neither a list nor an object")
    exploded = items.explode().dropna()  # (key, item); empty lists give no row
    places = exploded.index.tolist()
    records = [
        {**_replaced(rows.records[place], field, item), f"{field}{_NUMBER}": key}
        for place, (key, item) in zip(places, exploded, strict=True)
    ]
    return Rows(records, [rows.lines[place] for place in places], rows.log, rows.textual)


def _exploded_together(rows: Rows, fields: Sequence[str]) -> Rows:
    """Return one row per position in parallel lists; refuse records whose lists differ in length."""
    lists = [[items_in(value, rows.textual) for value in rows.values(field)] for field in fields]
    made: list[tuple[int, dict[str, Any]]] = []
    alike = np.zeros(len(rows.records), bool)
    for place, several in enumerate(zip(*lists, strict=True)):
        alike[place] = None not in several and len({len(items or ()) for items in several}) == 1
        for at, items in enumerate(zip(*(items or () for items in several), strict=True)) if alike[place] else ():
            record = rows.records[place]
            for name, (_, item) in zip(fields, items, strict=True):
                record = {**_replaced(record, name, item), f"{name}{_NUMBER}": at}
            made.append((place, record))
    rows.refuse(~alike, f"{' and '.join(fields)} are not lists of the same length")
    return Rows([row for _, row in made], [rows.lines[place] for place, _ in made], rows.log, rows.textual)


def _replaced(record: dict[str, Any], path: str, item: Any) -> dict[str, Any]:
    """Return the record with an item at a path, or in a field with that exact name; unchanged parts are shared."""
    first, dot, rest = path.partition(".")
    if path in record or not dot or not isinstance(record.get(first), dict):
        return {**record, path: item}
    return {**record, first: _replaced(record[first], rest, item)}
