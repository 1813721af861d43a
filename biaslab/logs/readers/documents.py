"""Open logs that are plain, compressed, in archives, workbooks or folders, as records with line numbers."""

from __future__ import annotations

import codecs
import csv
import glob
import io
import json
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable
from xml.parsers import expat  # documents with a DOCTYPE, the only dangerous ones, are refused

import numpy as np
import pandas as pd

from biaslab.core.checks import is_there
from biaslab.core.errors import InputError
from biaslab.core.files import DECODER, Allowance, RepeatedKeyError
from biaslab.datasets._files import lines_of, separator_of
from biaslab.logs.readers.rows import Log, Rows

CHUNK = 100_000  # records held in memory as objects at a time
MOST_COLUMNS = 2_000
_TEXT = 8  # as objects, other values take several times their size, but long texts hardly more
_NAMED = 10  # column names of a header shown in a message


TABLE = "table"
"""Name of a data frame in keys."""


class LogDocument(NamedTuple):
    """One unpacked file, or a data frame: its name (within its archive or folder) and its content.

    A file that is not a log has no content and a remedy instead.
    """

    name: str
    data: bytes = b""
    remedy: str = ""
    frame: pd.DataFrame | None = None


def iter_documents(path: LogInput) -> Iterator[LogDocument]:
    """Yield the unpacked files at a path: one file, or those of an archive, folder or pattern, sorted by name.

    A table is a single document.

    Raises
    ------
    InputError
        If the path does not exist, or a compressed file is damaged or too large when unpacked.
    """
    if isinstance(path, ArrowTable):  # includes data frames of pandas
        frame = path if isinstance(path, pd.DataFrame) else to_pandas(path)
        named = [name for name in frame.index.names if name is not None and name not in frame.columns]
        yield LogDocument(TABLE, frame=frame.reset_index(level=named) if named else frame)
        return
    if not isinstance(path, str | Path) or not str(path):
        raise InputError("path", path, "a file, a folder or a pandas.DataFrame", _remedy(path))
    place = Path(path)
    if is_pattern(place):
        yield from _of_pattern(str(place))
        return
    if not is_there(place):
        raise InputError("path", str(path), "an existing file or folder")
    if place.is_dir():
        yield from _of_files(sorted(file for file in place.rglob("*") if file.is_file()), place, alone=False)
        return
    if not place.is_file():
        raise InputError("path", str(path), "an existing file or folder")
    yield from _of_file(place, alone=True)


def _remedy(path: object) -> str:
    """Return what to pass instead of an object that is not a path."""
    if not isinstance(path, list | tuple) or not path:
        return "pass the path of the log"
    if all(isinstance(each, Mapping) for each in path):
        return "pass records as pandas.DataFrame(records)"
    return "pass several files as a folder, or as a pattern such as logs/*.jsonl"


def is_pattern(path: object) -> bool:
    """Return whether a path is a pattern such as ``logs/*.jsonl``, and not an existing file of that name."""
    return isinstance(path, str | Path) and glob.has_magic(str(path)) and not is_there(Path(path))


def _of_pattern(pattern: str) -> Iterator[LogDocument]:
    files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]  # noqa: PTH207
    if not files:
        raise InputError("path", pattern, "a pattern that matches at least one file")
    yield from _of_files(files, Path(os.path.commonpath([file.parent for file in files])), alone=len(files) == 1)


def _of_files(files: Sequence[Path], folder: Path, *, alone: bool) -> Iterator[LogDocument]:
    """Yield files, named by their place in a folder."""
    for file in files:
        for document in _of_file(file, alone):
            inner = "" if document.name == file.name else f"/{document.name}"
            yield document._replace(name=f"{file.relative_to(folder).as_posix()}{inner}")


def _of_file(file: Path, alone: bool) -> Iterator[LogDocument]:
    """Yield a file or the files of an archive; a file that is not a log has no content, or raises if `alone`."""
    try:
        packed = file.read_bytes()
        allowance = Allowance(str(file), len(packed))
        data = allowance.unpacked(packed)
        sheet = workbook(data, allowance)
        data, remedy = (data, foreign(data)) if sheet is None else (sheet[0], sheet[1] or None)
        if remedy is not None and alone:
            raise InputError("path", str(file), "a log in a readable format", remedy)
        inside = None if remedy is not None else members(data, allowance)
        if inside is None:
            yield LogDocument(file.name, data) if remedy is None else LogDocument(file.name, b"", remedy)
        else:
            yield from (LogDocument(name, part) for name, part in inside)
    except _BROKEN as error:
        raise InputError("path", str(file), f"an intact file ({error})", "download it again") from error


_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError)
_ZIP = b"PK\x03\x04"
_SHEET = "save the sheet as CSV, or in Python: biaslab.audit(pandas.read_excel(FILE))"
_PICKLE = "pickles are not opened because they can run code: in Python, biaslab.audit(pandas.read_pickle(FILE))"
#: Remedies for files that cannot be logs, by how they begin.
_FOREIGN: dict[tuple[bytes, ...], str] = {
    (b"\xd0\xcf\x11\xe0",): _SHEET,
    (b"7z\xbc\xaf\x27\x1c", b"Rar!", b"\x28\xb5\x2f\xfd"): "unpack it and pass the folder",
    (b"SQLite format 3",): "export it: a biaslab store with `biaslab store export`, another table as CSV",
    (b"\x80\x04", b"\x80\x05"): _PICKLE,
    (b"ARROW1",): "in Python: biaslab.audit(pandas.read_feather(FILE))",
    (b"%PDF",): "give the log, not a report of it",
}


def members(data: bytes, allowance: Allowance) -> Iterator[tuple[str, bytes]] | None:
    """Return names and contents of the files in a tar or zip archive, sorted by name; None if it is not an archive.

    An Inspect log is a zip that counts as one file. The unpacked size of all files counts against the allowance.
    """
    if data[257:262] == b"ustar":
        return _of_tar(data, allowance)
    if not data.startswith(_ZIP):
        return None
    if is_inspect_archive(data):
        allowance.take(sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(data)).infolist()))
        return None
    return _of_zip(data, allowance)


def foreign(data: bytes) -> str | None:
    """Return a remedy for a file that cannot be a log; None if it may be one."""
    return next((remedy for magic, remedy in _FOREIGN.items() if data.startswith(magic)), None)


def is_inspect_archive(data: bytes) -> bool:
    """Return whether a zip is an Inspect log."""
    return bool({"header.json", "_journal/start.json"} & set(_archive_names(data)))


def _archive_names(data: bytes) -> list[str]:
    try:
        return zipfile.ZipFile(io.BytesIO(data)).namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return []


def _of_tar(data: bytes, allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name):
            stream = archive.extractfile(member)
            if stream is not None:
                yield member.name, allowance.unpacked(allowance.read(stream))


def _of_zip(data: bytes, allowance: Allowance) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in sorted((m for m in archive.infolist() if not m.is_dir()), key=lambda m: m.filename):
            try:
                with archive.open(member) as stream:
                    whole = allowance.read(stream)
                yield member.filename, allowance.unpacked(whole)
            except RuntimeError as error:  # raised by zipfile if a password is needed
                raise zipfile.BadZipFile(str(error)) from error


_TOKEN = re.compile(rb"<(?:\w+:)?(row|c|v|is)\b(?:([^<>]*)>([^<]*))?")
_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]*)(\d+)["']""")
_SHARED = re.compile(rb"""\bt\s*=\s*["']s["']""")
_TEXTS, _ITEM = re.compile(rb"<(?:\w+:)?sst\b"), re.compile(rb"<(?:\w+:)?si\b")
_CELL = 256  # bytes that a cell takes in memory, at least
_LAST_COLUMN, _LAST_ROW = 16_384, 2**20


def workbook(data: bytes, allowance: Allowance) -> tuple[bytes, str] | None:
    """Return the sheet of a workbook as CSV, or empty bytes and a remedy; None if it is not a workbook.

    Formulas have their last computed values, and whole numbers no decimal point.

    Raises
    ------
    zipfile.BadZipFile
        If a part is damaged, or refers to what is not there.
    InputError
        If the table would take more memory than is allowed.
    """
    if not data.startswith(_ZIP) or "xl/workbook.xml" not in _archive_names(data):
        return None
    import python_calamine as calamine

    require_size(data, allowance)
    try:
        book = calamine.load_workbook(io.BytesIO(data))
        sheets = {
            name: as_csv(book.get_sheet_by_name(name).to_python(skip_empty_area=False)) for name in book.sheet_names
        }
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise zipfile.BadZipFile(str(error)) from error
    filled = {name: text for name, text in sheets.items() if text}
    if len(filled) > 1:
        return b"", f"it has {len(filled)} sheets with rows ({', '.join(filled)}): {_SHEET}"
    return next(iter(filled.values()), b""), ""


def require_size(data: bytes, allowance: Allowance) -> None:
    """Count a workbook's parts, the cells between its first and last ones, and its repeated texts as decompressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        try:
            parts = [(name, allowance.read(archive.open(name))) for name in archive.namelist()]
        except InputError:
            raise
        except (RuntimeError, ValueError) as error:  # a password is needed, or the directory is damaged
            raise zipfile.BadZipFile(str(error)) from error
    for name, part in parts:
        _require_xml(name, part)
    texts = [part for _, part in parts if _TEXTS.search(part)]
    if len(texts) > 1 or len({name.casefold() for name, _ in parts}) < len(parts):
        raise zipfile.BadZipFile("a part occurs twice")
    allowance.take(_CELL * sum(1 for part in texts for _ in _ITEM.finditer(part)))
    places = [item.start() for part in texts for item in _ITEM.finditer(part)]
    lengths = [end - start for start, end in pairwise([*places, *map(len, texts)])]
    for _, part in parts:
        allowance.take(_sheet_size(part, lengths))


def _require_xml(name: str, part: bytes) -> None:
    """Raise `zipfile.BadZipFile` if a part is cut off or has what spreadsheets never write and `_sheet_size` misses."""
    if not name.casefold().endswith((".xml", ".rels")):
        return
    is_sheet = name.casefold().startswith("xl/") or b"sheetData" in part  # others may have comments
    if b"<!DOCTYPE" in part or (is_sheet and b"<!" in part):
        raise zipfile.BadZipFile(f"{name} has a document type or comments")
    try:
        expat.ParserCreate().Parse(part, True)
    except expat.ExpatError as error:
        raise zipfile.BadZipFile(f"{name}: {error}") from error


def _sheet_size(sheet: bytes, lengths: list[int]) -> int:
    """Return the bytes that a sheet's cells take; all up to the last row and column with values are held."""
    row = column = most = size = 0
    rows, is_shared = 0, False
    for kind, attributes, text in (token.groups(b"") for token in _TOKEN.finditer(sheet)):
        if kind in (b"v", b"is"):
            rows, most = max(rows, row), max(most, column)
            index = text.strip()
            if is_shared and index:
                if not index.isdigit() or len(index) > 9 or int(index) >= len(lengths):
                    raise zipfile.BadZipFile(f"no shared string with index {index[:20].decode(errors='replace')}")
                size += lengths[int(index)]
            continue
        place = _PLACE.search(attributes)
        if kind == b"row":
            row, column = int(place[2][:9]) if place else row + 1, 0
        else:
            column = _column_number(place[1]) if place else column + 1
            row = int(place[2][:9]) if place else row
            is_shared = _SHARED.search(attributes) is not None
            if row > _LAST_ROW or not 0 < column <= _LAST_COLUMN:
                raise zipfile.BadZipFile(f"not a cell reference: {attributes[:40].decode(errors='replace')}")
    return size + _CELL * rows * most


def _column_number(letters: bytes) -> int:
    return sum(26**at * (letter - ord("A") + 1) for at, letter in enumerate(reversed(letters.upper()[:4])))


def as_csv(rows: Sequence[Sequence[object]]) -> bytes:
    r"""Return non-empty rows without trailing empty cells as CSV, padded to the length of the first.

    Examples
    --------
    >>> as_csv([["a", "b"], ["", ""], [1.0, ""], [0.5, True]])
    b'a,b\n1,\n0.5,true\n'
    """
    filled = [row for row in ([_cell_text(cell) for cell in row] for row in rows) if any(row)]
    for row in filled:
        while not row[-1]:
            row.pop()
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([row + [""] * (len(filled[0]) - len(row)) for row in filled])
    return written.getvalue().encode("utf-8", "surrogatepass")


def _cell_text(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"{cell:.0f}" if isinstance(cell, float) and cell.is_integer() else str(cell)


def read_rows(document: LogDocument, log: Log) -> Iterator[Rows]:
    """Yield the records of a file or table in chunks, recording malformed lines and the encoding in `log`.

    A file in an unknown encoding is one malformed line, with the remedy, and has no records.

    Lines count from 1; a record of several lines has the number of its first line. In a JSON list, reading resumes
    after a damaged record at the next line that starts like the first record, and stops if there is none. Rows of
    Parquet files count from 1. A file that is a single object is one record.
    """
    if document.frame is not None:
        yield from read_frame(document.frame, log)
        return
    if document.data.startswith(b"PAR1"):
        log.unit = "row"
        records, textual = _from_parquet(document), False
    else:
        text, encoding = decode(document.data)
        if encoding is None:
            log.refuse(1, f"{UNKNOWN} {document.name}")
            return
        log.encoding = encoding
        records, textual = from_text(text, log)
    while chunk := list(islice(records, CHUNK)):
        yield Rows([record for _, record in chunk], [line for line, _ in chunk], log, textual)


def first_rows(path: LogInput) -> Rows | None:
    """Return the first records at a path; None if there are none."""
    for document in iter_documents(path):
        if (rows := next(read_rows(document, Log(document.name)), None)) is not None:
            return rows
    return None


def read_frame(frame: pd.DataFrame, log: Log) -> Iterator[Rows]:
    """Yield the rows of a data frame in chunks, as from a file; rows count from 1.

    Raises
    ------
    InputError
        If its columns have several levels, or duplicate names.
    """
    if frame.empty:
        return
    names = list(map(str, frame.columns))
    if frame.columns.nlevels > 1 or len(set(names)) < len(names):
        allowed = "a table with unique column names on one level"
        raise InputError("path, columns", names, allowed, "flatten or rename the columns")
    log.unit = "row"
    for start in range(0, len(frame), CHUNK):
        part = frame.iloc[start : start + CHUNK].astype(object)
        rows = part.itertuples(index=False, name=None)
        records = [{name: _plain(value) for name, value in zip(names, row, strict=True)} for row in rows]
        yield Rows(records, range(start + 1, start + 1 + len(records)), log, textual=False)


def _plain(value: Any) -> Any:
    """Return a cell as a JSON value; None if missing."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if value is None or isinstance(value, str | list | dict):
        return value
    if pd.isna(value):
        return None
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float) else str(value)


def why_empty(document: LogDocument) -> str:
    r"""Return the reason why no record could be read from a file.

    Examples
    --------
    >>> why_empty(LogDocument("a.csv", b"question,winner\n")), why_empty(LogDocument("b.json", b"[]"))
    ('it has a header (question, winner) but no rows', 'it is an empty list')
    """
    if document.frame is not None:
        return f"it has {len(document.frame)} rows and {len(document.frame.columns)} columns"
    if document.remedy:
        return f"it is not a log: {document.remedy}"
    text = decode(document.data).text.strip()
    if not text:
        return "it is empty"
    if text.startswith(("[", "{")):
        return "it is an empty list" if text.startswith("[") else "it contains no record"
    names = text.splitlines()[0].split(separator_of(text))
    return f"it has a header ({', '.join(name.strip() for name in names[:_NAMED])}) but no rows"


def _from_parquet(document: LogDocument) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    allowance = Allowance(document.name, len(document.data))
    try:
        file = pq.ParquetFile(io.BytesIO(document.data))
        columns = [file.schema.column(at) for at in range(len(file.schema))]
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        batches = pq.ParquetFile(io.BytesIO(document.data), read_dictionary=texts).iter_batches(CHUNK)
        yield from enumerate(_of_batches(batches, file.schema_arrow, allowance), start=1)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        allowed = f"an intact Parquet file ({brief(error)})"
        raise InputError("path", document.name, allowed, "download it again") from error


def _of_batches(batches: Iterator[Any], schema: Any, allowance: Allowance) -> Iterator[dict[str, Any]]:
    for batch in batches:
        allowance.take(sum(map(_size, batch.columns)))
        yield from (batch if batch.schema == schema else batch.cast(schema)).to_pylist()


def _size(array: Any) -> int:
    """Return the bytes of a column, with an eighth of those of texts that are stored once, for each row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.DictionaryArray) and isinstance(array.dictionary, pa.StringArray | pa.BinaryArray):
        length = pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
        return int(length) // _TEXT + 8 * len(array)
    if isinstance(array, pa.StructArray | pa.ListArray | pa.LargeListArray):
        inner = array.flatten()
        return sum(map(_size, inner if isinstance(inner, list) else [inner])) + 8 * len(array)
    return int(array.nbytes)


_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_SEPARATOR = re.compile(r"sep=(.)\r?\n")
#: Decimal commas by separator; with tabs, 1,234 may be 1234 as well as 1.234, so it is no number.
_DECIMAL = {";": re.compile(r"^([-+]?\d+),(\d+)$"), "\t": re.compile(r"^(?![-+]?[1-9]\d{0,2},\d{3}$)([-+]?\d+),(\d+)$")}
_NOT_JSON = (ValueError, RecursionError)
#: Names that promptfoo repeats, next to the outputs of each provider.
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
    decimal = _DECIMAL.get(separator)
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
            if len(row) > MOST_COLUMNS:
                log.refuse(line, f"{len(row)} columns, more than {MOST_COLUMNS}")
                return
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
            cells = [decimal.sub(r"\1.\2", cell) for cell in row] if decimal else row
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


NO_TEXT = re.compile("[\udc80-\udcff]")
"""Matches characters that stand for undecodable bytes."""

UNKNOWN = "neither UTF-8 nor Western European text; convert it: iconv -f ENCODING -t UTF-8"
"""Why a file of another encoding is not read, and the remedy; the name of the file follows."""

_BEYOND_ASCII = re.compile("[^\0-\x7f\udc80-\udcff]")
_UTF_8, _WESTERN = "utf-8", "cp1252"
_ZEROS = 50  # UTF-16 and UTF-32 have at least one zero in this many bytes
_FEW = 10  # at most one line in this many may be damaged where the encoding is not known
#: What Cyrillic, Greek, Asian, Polish or Macintosh bytes look like in cp1252, and Western European words do not: five
#: of the upper half in a row, a sign within a word, a capital after a small letter.
_NOT_WESTERN = re.compile("[\xa1-\xff]{5}|[A-Za-z][¡-¦¨¬¯³¶¸¹¼-¿][A-Za-z]|[a-z][ŠŒŽŸ]")


class DecodedText(NamedTuple):
    """A text, and the encoding from which it was decoded; None if that is not known."""

    text: str
    encoding: str | None


def decode(data: bytes) -> DecodedText:
    r"""Decode the text of a file.

    UTF-8, 16 and 32 are recognised by a byte order mark or by zeros in the first characters. Anything else is read as
    Western European (cp1252, of which Latin-1 is a part) if its words can be that. A file that is UTF-8 except for some
    bytes is read as UTF-8; its undecodable bytes match `NO_TEXT`, as those of a file in another encoding do.

    Examples
    --------
    >>> decode("Café A, Café B: größer, naïve\n".encode("latin-1")).encoding
    'cp1252'
    >>> decode('{"judge": "j"}'.encode("utf-16-le"))
    DecodedText(text='{"judge": "j"}', encoding='utf-16-le')
    >>> decode("Первый ответ лучше".encode("cp1251")).encoding is None
    True
    """
    detected = _unicode(data)
    text = data.decode(detected, "surrogateescape" if detected.startswith(_UTF_8) else "replace")
    damaged = len(NO_TEXT.findall(text))
    if damaged > max(1, len(_BEYOND_ASCII.findall(text))):
        if (western := _western(data)) is not None:
            return DecodedText(western, _WESTERN)
        lines = text.splitlines()
        if _FEW * sum(NO_TEXT.search(line) is not None for line in lines) > len(lines):
            return DecodedText(text, None)
    return DecodedText(text, detected.removesuffix("-sig"))


def _unicode(data: bytes) -> str:
    """Return UTF-8, 16 or 32, by byte order mark or by the zeros next to ASCII; a few stray zeros are damage."""
    detected = json.detect_encoding(data)
    marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))
    return detected if marked or detected.startswith(_UTF_8) or _ZEROS * data.count(0) > len(data) else _UTF_8


def _western(data: bytes) -> str | None:
    """Return the text as cp1252, or None if it cannot be that."""
    try:
        text = data.decode(_WESTERN)
    except UnicodeDecodeError:
        return None
    return None if _NOT_WESTERN.search(text) else text


@runtime_checkable
class ArrowTable(Protocol):
    """A table with Arrow's PyCapsule interface, such as from polars, pyarrow or DuckDB; read without a copy."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a capsule with a stream of batches."""


LogInput = str | Path | pd.DataFrame | ArrowTable
"""What a log is read from."""


def to_pandas(table: ArrowTable) -> pd.DataFrame:
    """Convert a table of another package to a pandas data frame.

    Parameters
    ----------
    table : ArrowTable
        From polars, pyarrow, DuckDB or any package that supports the protocol.

    Raises
    ------
    InputError
        If Arrow cannot read it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_pandas(pa.table({"question": ["q"], "score": [3]})).to_dict("records")
    [{'question': 'q', 'score': 3}]
    """
    import pyarrow as pa

    try:
        frame: pd.DataFrame = pa.table(table).to_pandas()
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        why = str(error).partition("\n")[0]
        raise InputError.plain(f"Arrow cannot read the {type(table).__name__} ({why}): use pandas") from error
    return frame
