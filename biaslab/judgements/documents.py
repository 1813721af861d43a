"""Files that hold logs: plain, compressed, in an archive or a folder; JSON Lines, a JSON list, CSV, TSV, Parquet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from biaslab.datasets._files import separator_of
from biaslab.errors import InputError
from biaslab.judgements.containers import BROKEN, foreign, members, unpacked
from biaslab.judgements.rows import Log, Rows

CHUNK = 100_000  # records in memory as objects at once
_LEADING = re.compile(rb"\s*")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_NO_TEXT = re.compile("[\udc80-\udcff]")  # what "surrogateescape" makes of bytes that are not UTF-8
_DECODER = json.JSONDecoder()
_NOT_JSON = (ValueError, RecursionError)


class Document(NamedTuple):
    """One file, unpacked: its name, within its archive or folder where it has one, and its bytes."""

    name: str
    data: bytes


def documents(path: str | Path) -> Iterator[Document]:
    """Yield the files at a path: the file itself, unpacked, or those of an archive or folder in order of name.

    Raises
    ------
    InputError
        If there is nothing at the path, or a compressed file is damaged.
    """
    place = Path(path)
    if place.is_dir():
        for file in sorted(file for file in place.rglob("*") if file.is_file()):
            for document in _of_file(file, alone=False):
                inner = "" if document.name == file.name else f"/{document.name}"
                yield Document(f"{file.relative_to(place).as_posix()}{inner}", document.data)
        return
    if not place.is_file():
        raise InputError("path", str(path), "a file or folder that exists")
    yield from _of_file(place, alone=True)


def _of_file(file: Path, alone: bool) -> Iterator[Document]:
    """Yield a file, or those of an archive; what holds no log is empty, or refused where it stands alone."""
    try:
        data = unpacked(file.read_bytes())
        remedy = foreign(data)
        if remedy is not None and alone:
            raise InputError("path", str(file), "a log of a format that can be read", remedy)
        inside = None if remedy is not None else members(data)
        if inside is None:
            yield Document(file.name, b"" if remedy is not None else data)
        else:
            yield from (Document(name, part) for name, part in inside)
    except BROKEN as error:
        raise InputError("path", str(file), f"a whole file ({error})", "get it again") from error


def read_rows(document: Document, log: Log) -> Iterator[Rows]:
    """Yield the records of a file in chunks; what is malformed is noted in the log.

    Lines count from 1. Of a JSON list the line is the one on which a record begins; after a damaged record, reading
    goes on at the next line that begins as the first record's does, and stops where there is none. Rows of CSV, TSV
    and Parquet files count from 1 after the header. An object that is a whole file is one record.
    """
    start = document.data.removeprefix(b"\xef\xbb\xbf")
    first = start[_LEADING.match(start).end() :][:1]  # type: ignore[union-attr]
    if document.data.startswith(b"PAR1"):
        found, textual = _from_parquet(document), False
    elif first == b"{" and (whole := _one_object(start)) is not None:
        found, textual = iter([(1, whole)]), False
    elif first in (b"[", b"{"):
        found, textual = (_from_list if first == b"[" else _from_lines)(start, log), False
    else:
        found, textual = _from_table(start, log), True
    while chunk := list(islice(found, CHUNK)):
        yield Rows([record for _, record in chunk], [line for line, _ in chunk], log, textual)


def _one_object(data: bytes) -> dict[str, Any] | None:
    """Return the object that a file is, written over several lines; None if it is lines of objects, or damaged."""
    text, whole = _decoded(data.strip())
    try:
        _DECODER.decode(text.partition("\n")[0])
    except _NOT_JSON:
        try:
            found = _DECODER.decode(text) if whole else None
        except _NOT_JSON:
            return None
        return found if isinstance(found, dict) else None
    return None


def _from_lines(data: bytes, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    text, whole = _decoded(data)
    decode = _DECODER.decode
    for number, line in enumerate(io.StringIO(text, newline="\n"), start=1):
        try:
            record = decode(line)
            if not whole and _NO_TEXT.search(line):
                raise ValueError("not UTF-8 text")
        except _NOT_JSON as error:
            if line.strip():
                log.refuse(number, f"not JSON: {_brief(error)}")
            continue
        if isinstance(record, dict):
            yield number, record
        else:
            log.refuse(number, "not a JSON object")


def _decoded(data: bytes) -> tuple[str, bool]:
    """Return a text and whether all of it is UTF-8; what is not becomes half a surrogate pair."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape"), False


def _from_list(data: bytes, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a JSON list record by record, so that one that is damaged costs no other."""
    text, _ = _decoded(data)  # bytes that are no text cost their record only
    at = text.index("[") + 1
    opening = re.compile(r"\s*?(\n[ \t]*)\{").match(text, at)
    line, counted = 1, 0
    while True:
        at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text) or text[at] == "]":
            return
        line, counted = line + text.count("\n", counted, at), at
        try:
            record, end = _DECODER.raw_decode(text, at)
            if not isinstance(record, dict) or _NO_TEXT.search(text, at, end):
                raise ValueError("not a JSON object of UTF-8 text")
        except _NOT_JSON as error:
            log.refuse(line, f"not JSON: {_brief(error)}")
            end = text.find(opening[1] + "{", at + 1) if opening else -1
            if end < 0:
                return
        else:
            yield line, record
        at = end


def _from_table(data: bytes, log: Log) -> Iterator[tuple[int, dict[str, Any]]]:
    text = _decoded(data)[0].replace("\0", "\udc80")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator_of(text), strict=True)
    names: list[str] | None = None
    number = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            log.refuse(number, f"not CSV: {_brief(error)}")
            continue
        if names is None:
            names = [name.strip() for name in row]
            if len(set(names)) < len(names):
                log.refuse(0, "two columns of one name")
                return
            continue
        number += 1
        if len(row) != len(names):
            if row:
                log.refuse(number, f"{len(row)} fields, not {len(names)}")
        elif any(_NO_TEXT.search(cell) for cell in row):
            log.refuse(number, "not UTF-8 text")
        else:
            yield number, dict(zip(names, row, strict=True))


def _from_parquet(document: Document) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = pq.ParquetFile(io.BytesIO(document.data)).iter_batches(CHUNK)
        yield from enumerate((record for batch in batches for record in batch.to_pylist()), start=1)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError("path", document.name, f"a whole Parquet file ({_brief(error)})", "get it again") from error


def _brief(error: BaseException) -> str:
    return str(error).partition("\n")[0][:80]
