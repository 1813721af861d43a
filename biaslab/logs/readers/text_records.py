"""Read the text of a file as records with line numbers: JSON Lines, a JSON list or object, CSV and TSV."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from biaslab.core.strict_json import DECODER, RepeatedKeyError
from biaslab.datasets._files import lines_of, separator_of
from biaslab.logs.readers.encodings import NO_TEXT
from biaslab.logs.readers.rows import Log

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_SEPARATOR = re.compile(r"sep=(.)\r?\n")
_DECIMAL = re.compile(r"^([-+]?\d+),(\d+)$")  # a decimal comma, in files with semicolons or tabs between fields
_NOT_JSON = (ValueError, RecursionError)
#: Names that promptfoo repeats, beside the outputs of each provider.
_REPEATED = frozenset(["Status", "Score", "Named Scores", "Grader Reason", "Comment"])


def from_text(text: str, log: Log) -> tuple[Iterator[tuple[int, dict[str, Any]]], bool]:
    """Return records with line numbers, and whether all values are strings, as in CSV."""
    first = text.lstrip()[:1]
    if first == "{" and (whole := _one_object(text, log)) is not None:
        return iter([(1 + text[: text.index("{")].count("\n"), whole)]), False
    if first in ("[", "{"):
        return (_from_list if first == "[" else _from_lines)(text, log), False
    return _from_table(text, log), True


def _one_object(text: str, log: Log) -> dict[str, Any] | None:
    """Return the single object in a file, written over several lines; None if it is JSON Lines or damaged."""
    text = text.strip()
    try:
        DECODER.decode(text.partition("\n")[0])
    except _NOT_JSON:
        try:
            value = None if NO_TEXT.search(text) else DECODER.decode(text)
        except RepeatedKeyError as error:
            log.refuse(1, str(error))
            return None
        except _NOT_JSON:
            return None
        return value if isinstance(value, dict) else None
    return None


def _from_lines(text: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    damaged = NO_TEXT.search(text) is not None
    decode_line = DECODER.decode
    for number, line in enumerate((line[0] for line in _LINE.finditer(text)), start=1):
        try:
            record = decode_line(line)
            if damaged and NO_TEXT.search(line):
                raise ValueError(_no_text(log))
        except _NOT_JSON as error:
            if line.strip():
                log.refuse(number, _why_not(error))
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            log.refuse(number, "not a JSON object")


def _from_list(text: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a JSON list record by record, so that a damaged record or undecodable bytes do not affect the others.

    A list of lists is a table whose first row contains the column names.
    """
    names: list[str] = []
    at = text.index("[") + 1
    opening = re.compile(r"\s*?(\n[ \t]*)\{").match(text, at)
    line, counted = 1, 0
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or text[at] == "]":
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            record, end = DECODER.raw_decode(text, at)
            if isinstance(record, list) and not names and _are_names(record):
                names, at = record, end
                continue
            if isinstance(record, list) and len(record) == len(names):
                record = dict(zip(names, record, strict=True))
            if not isinstance(record, dict) or NO_TEXT.search(text, at, end):
                raise ValueError("not a JSON object of valid text")
        except _NOT_JSON as error:
            log.refuse(line, _why_not(error))
            end = text.find(opening[1] + "{", at + 1) if opening else -1
            if end < 0:
                return
        else:
            yield line, record
        at = end


def _are_names(row: list[Any]) -> bool:
    return len(row) > 1 and all(isinstance(name, str) and name.strip() for name in row) and len(set(row)) == len(row)


def _from_table(text: str, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    text = text.replace("\0", "\udc80")
    note = _SEPARATOR.match(text)
    separator = note[1] if note else separator_of(text)
    lines = islice(lines_of(text), int(bool(note)), None)  # a note for spreadsheets counts as a line
    reader = csv.reader(lines, delimiter=separator, strict=True)
    decimal = separator in (";", "\t")
    names: list[str] | None = None
    while True:
        line = reader.line_num + 1 + bool(note)
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            log.refuse(line, f"not CSV: {brief(error)}")
            continue
        if not row:
            continue
        if names is None:
            names = _numbered([name.strip() for name in row])
            if len(set(names)) < len(names):
                twice = next(name for name in names if names.count(name) > 1)
                log.refuse(line, f"duplicate column name: {twice or 'an empty one'}; rename one of the two")
                return
        elif len(row) != len(names):
            log.refuse(line, f"{len(row)} fields instead of {len(names)}")
        elif any(NO_TEXT.search(cell) for cell in row):
            log.refuse(line, _no_text(log))
        else:
            cells = [_DECIMAL.sub(r"\1.\2", cell) for cell in row] if decimal else row
            yield line, dict(zip(names, cells, strict=True))


def _numbered(names: list[str]) -> list[str]:
    """Return names of columns, with the number of the repetition after those that promptfoo repeats."""
    return [
        f"{name} #{1 + names[:at].count(name)}" if name in _REPEATED and name in names[:at] else name
        for at, name in enumerate(names)
    ]


def _no_text(log: Log) -> str:
    return f"not {log.encoding.upper()} text"


def _why_not(error: Exception) -> str:
    return f"{'' if isinstance(error, RepeatedKeyError) else 'not JSON: '}{brief(error)}"


def brief(error: BaseException) -> str:
    """Return the first line of an error, without its position in a text."""
    text = error.msg if isinstance(error, json.JSONDecodeError) else str(error)  # its line number is always 1
    return text.partition("\n")[0][:80]
