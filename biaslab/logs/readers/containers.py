"""Unpack tar and zip archives, and the sheets of .xlsx workbooks; recognise files that are no logs."""

from __future__ import annotations

import csv
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.parsers import expat  # documents with a DOCTYPE, the only dangerous ones, are refused

from biaslab.core.errors import InputError
from biaslab.core.files import Allowance

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError)
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
    if is_inspect(data):
        allowance.take(sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(data)).infolist()))
        return None
    return _of_zip(data, allowance)


def foreign(data: bytes) -> str | None:
    """Return a remedy for a file that cannot be a log; None if it may be one."""
    return next((remedy for magic, remedy in _FOREIGN.items() if data.startswith(magic)), None)


def is_inspect(data: bytes) -> bool:
    """Return whether a zip is an Inspect log."""
    return bool({"header.json", "_journal/start.json"} & set(_names(data)))


def _names(data: bytes) -> list[str]:
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
    if not data.startswith(_ZIP) or "xl/workbook.xml" not in _names(data):
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
        allowance.take(_size(part, lengths))


def _require_xml(name: str, part: bytes) -> None:
    """Raise `zipfile.BadZipFile` if a part is cut off, or has what spreadsheets do not write and `_size` cannot see."""
    if not name.casefold().endswith((".xml", ".rels")):
        return
    is_sheet = name.casefold().startswith("xl/") or b"sheetData" in part  # others may have comments
    if b"<!DOCTYPE" in part or (is_sheet and b"<!" in part):
        raise zipfile.BadZipFile(f"{name} has a document type or comments")
    try:
        expat.ParserCreate().Parse(part, True)
    except expat.ExpatError as error:
        raise zipfile.BadZipFile(f"{name}: {error}") from error


def _size(sheet: bytes, lengths: list[int]) -> int:
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
            column = _column(place[1]) if place else column + 1
            row = int(place[2][:9]) if place else row
            is_shared = _SHARED.search(attributes) is not None
            if row > _LAST_ROW or not 0 < column <= _LAST_COLUMN:
                raise zipfile.BadZipFile(f"not a cell reference: {attributes[:40].decode(errors='replace')}")
    return size + _CELL * rows * most


def _column(letters: bytes) -> int:
    return sum(26**at * (letter - ord("A") + 1) for at, letter in enumerate(reversed(letters.upper()[:4])))


def as_csv(rows: Sequence[Sequence[object]]) -> bytes:
    r"""Return non-empty rows without trailing empty cells as CSV, padded to the length of the first.

    Examples
    --------
    >>> as_csv([["a", "b"], ["", ""], [1.0, ""], [0.5, True]])
    b'a,b\n1,\n0.5,true\n'
    """
    filled = [row for row in ([_text(cell) for cell in row] for row in rows) if any(row)]
    for row in filled:
        while not row[-1]:
            row.pop()
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([row + [""] * (len(filled[0]) - len(row)) for row in filled])
    return written.getvalue().encode("utf-8", "surrogatepass")


def _text(cell: object) -> str:
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"{cell:.0f}" if isinstance(cell, float) and cell.is_integer() else str(cell)
