"""Records of a log taken apart or put together before they are read: lists to rows, a second file beside the first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biaslab.core.errors import InputError
from biaslab.logs.readers.documents import documents, read_rows
from biaslab.logs.readers.rows import Log, Rows

_JOIN = re.compile(r"(?P<file>.+?)\s+on\s+(?P<left>[^=\s]+)(?:\s*=\s*(?P<right>\S+))?\s*")
_NUMBER = "#"  # after the name of an exploded field: the place in its list, or the key in its object


@dataclass(frozen=True)
class Shape:
    """What is done to records before they are read.

    Parameters
    ----------
    explode : tuple of str
        Fields or paths with lists, one row an item, or with objects, one row a key; one after the other. The item takes
        the place of the list, and ``field#`` is its place, from 0, or its key.
    joined : mapping of str to dict, optional
        Records of another file by the value of its field.
    on : str
        The field of this file that says which.
    """

    explode: tuple[str, ...] = ()
    joined: Mapping[str, dict[str, Any]] | None = None
    on: str = ""

    def of(self, rows: Rows) -> Rows:
        """Return the records in their new shape; those without a partner or a list are refused."""
        if self.joined is not None:
            rows = _with_partners(rows, self.joined, self.on)
        for field in self.explode:
            rows = _exploded(rows, field)
        return rows


def make_shape(explode: Any, join: Any) -> Shape | None:
    """Return what a mapping says of the shape of records; None where it says nothing.

    Parameters
    ----------
    explode : str or list of str, optional
        Fields, separated by commas.
    join : str, optional
        ``"FILE on FIELD"`` or ``"FILE on FIELD=ITS FIELD"``.

    Raises
    ------
    InputError
        If one is not of that form, or the file cannot be read.
    """
    if explode is None and join is None:
        return None
    fields = explode.split(",") if isinstance(explode, str) else explode if isinstance(explode, list) else []
    named = tuple(field.strip() for field in fields if isinstance(field, str) and field.strip())
    if explode is not None and not named:
        raise InputError("mapping['explode']", explode, "the name of a field with lists, or several with commas")
    if join is None:
        return Shape(named)
    found = _JOIN.fullmatch(join) if isinstance(join, str) else None
    if found is None:
        raise InputError("mapping['join']", join, "'FILE on FIELD' or 'FILE on FIELD=FIELD OF THE OTHER FILE'")
    return Shape(named, _by_value(Path(found["file"]), found["right"] or found["left"]), found["left"])


def from_folder(join: str, folder: Path) -> str:
    """Return what to join with a file's name that starts from a folder.

    Examples
    --------
    >>> from_folder("people.json on idx", Path("logs"))
    'logs/people.json on idx'
    """
    return join if Path(join).is_absolute() else str(folder / join)


def _by_value(path: Path, field: str) -> dict[str, dict[str, Any]]:
    """Return the records of a file by the value of a field, each value once."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents(path):
        for rows in read_rows(document, Log(document.name)):
            for value, record in zip(rows.take(field, "name"), rows.records, strict=True):
                if isinstance(value, str) and found.setdefault(value, record) is not record:
                    where, remedy = f"{field} = {value}", "join on a field that identifies its records"
                    raise InputError("mapping['join']", where, f"every value once in {path}", remedy)
    if not found:
        raise InputError("mapping['join']", str(path), f"a file whose records have the field {field}")
    return found


def _with_partners(rows: Rows, joined: Mapping[str, dict[str, Any]], on: str) -> Rows:
    """Return the records with the fields of their partners; a field that both have is that of the log."""
    values = rows.take(on, "id")
    partners = [joined.get(value) if isinstance(value, str) else None for value in values]
    kept = [place for place, partner in enumerate(partners) if partner is not None and rows.good[place]]
    for place, partner in enumerate(partners):
        if partner is None and rows.good[place]:
            rows.log.refuse(rows.lines[place], f"no partner to join for {on} = {values[place]}")
    records = [{**(partners[place] or {}), **rows.records[place]} for place in kept]
    return Rows(records, [rows.lines[place] for place in kept], rows.log, rows.textual)


def _exploded(rows: Rows, field: str) -> Rows:
    records: list[dict[str, Any]] = []
    lines: list[int] = []
    for line, record, value in zip(rows.lines, rows.records, rows.values(field), strict=True):
        if not isinstance(value, list | dict):
            rows.log.refuse(line, f"{field} is neither a list nor an object")
            continue
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            records.append({**_replaced(record, field, item), f"{field}{_NUMBER}": key})
            lines.append(line)
    return Rows(records, lines, rows.log, rows.textual)


def _replaced(record: dict[str, Any], path: str, item: Any) -> dict[str, Any]:
    """Return the record with an item where a path leads, or in a field of that very name; nothing else is copied."""
    first, dot, rest = path.partition(".")
    if path in record or not dot or not isinstance(record.get(first), dict):
        return {**record, path: item}
    return {**record, first: _replaced(record[first], rest, item)}


def shaped(chunks: Iterator[Rows], shape: Shape | None) -> Iterator[Rows]:
    """Yield chunks of records in their new shape, without those that lost every record."""
    for rows in chunks:
        made = rows if shape is None else shape.of(rows)
        if made.records:
            yield made
