"""Unpack gzip, xz, bzip2, tar and zip, and the sheets of an .xlsx workbook; recognise files that are no logs."""

from __future__ import annotations

import csv
import io
import lzma
import posixpath
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree as Xml  # documents with a DOCTYPE, the only dangerous ones, are refused

from biaslab.core.files import Allowance

BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError)
_ZIP = b"PK\x03\x04"
_SHEET = "save the sheet as CSV, or in Python: biaslab.audit(pandas.read_excel(FILE))"
_UNPACK = "unpack it and pass the folder"
_FOREIGN = {
    b"\xd0\xcf\x11\xe0": _SHEET,
    b"7z\xbc\xaf\x27\x1c": _UNPACK,
    b"Rar!": _UNPACK,
    b"\x28\xb5\x2f\xfd": _UNPACK,
    b"SQLite format 3": "export it: a biaslab store with `biaslab store export`, another table as CSV",
    b"\x80\x04": "pickles are not opened because they can run code: in Python, biaslab.audit(pandas.read_pickle(FILE))",
    b"\x80\x05": "pickles are not opened because they can run code: in Python, biaslab.audit(pandas.read_pickle(FILE))",
    b"ARROW1": "in Python: biaslab.audit(pandas.read_feather(FILE))",
    b"%PDF": "give the log, not a report of it",
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


def workbook(data: bytes, allowance: Allowance) -> tuple[bytes, str] | None:
    """Return the sheet of a workbook as CSV, or empty bytes and a remedy; None if it is not a workbook."""
    if not data.startswith(_ZIP) or not is_workbook(_names(data)):
        return None
    sheets = sheets_as_csv(data, allowance)
    if len(sheets) > 1:
        return b"", f"it has {len(sheets)} sheets with rows ({', '.join(sheets)}): {_SHEET}"
    return next(iter(sheets.values()), b""), ""


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


_BOOK, _RELATIONS, _TEXTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/sharedStrings.xml"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_STRICT = "{http://purl.oclc.org/ooxml/officeDocument/relationships}id"  # the same attribute in the strict variant
_PLACE = re.compile(r"([A-Z]{1,3})[1-9][0-9]*")
_MOST = 16_384  # maximum columns of a sheet
_WORDS = {"1": "true", "0": "false"}


def is_workbook(names: list[str]) -> bool:
    """Return whether the files of a zip belong to a workbook."""
    return _BOOK in names


def sheets_as_csv(data: bytes, allowance: Allowance) -> dict[str, bytes]:
    """Return the non-empty sheets of a workbook as CSV, by name.

    Dates are given as the numbers stored, formulas as their last computed values.

    Raises
    ------
    zipfile.BadZipFile
        If a part is missing or is not XML.
    InputError
        If the unpacked size exceeds the limit.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = _Parts(archive, allowance)
        targets = {each.get("Id"): each.get("Target", "") for each in parts.tree(_RELATIONS)}
        shared = [_text(each) for each in parts.tree(_TEXTS)] if _TEXTS in archive.namelist() else []
        sheets = {}
        for sheet in (each for each in parts.tree(_BOOK).iter() if _tag(each) == "sheet"):
            target = targets.get(sheet.get(_RELATION, sheet.get(_STRICT, "")), "")
            rows = _rectangle(_rows(parts.tree(posixpath.join("xl", target).lstrip("/")), shared))
            if rows:
                written = io.StringIO()
                csv.writer(written, lineterminator="\n").writerows(rows)
                sheets[sheet.get("name", "")] = written.getvalue().encode("utf-8", "surrogatepass")
        return sheets


class _Parts:
    """The parts of a workbook, each read once and counted against the size limit."""

    def __init__(self, archive: zipfile.ZipFile, allowance: Allowance) -> None:
        self._archive, self._allowance = archive, allowance

    def tree(self, name: str) -> Xml.Element:
        """Return the root element of a part."""
        try:
            with self._archive.open(name) as stream:
                data = self._allowance.read(stream)
            if b"<!DOCTYPE" in data:
                raise zipfile.BadZipFile(f"{name} has a document type")
            return Xml.fromstring(data)  # noqa: S314 - without a document type there are no entities
        except (KeyError, ValueError, RuntimeError, Xml.ParseError) as error:
            raise zipfile.BadZipFile(f"{name}: {error}") from error


def _rows(sheet: Xml.Element, shared: list[str]) -> Iterator[list[str]]:
    """Yield the cells of each row, from the first column of the sheet, with "" for empty ones."""
    for row in (each for each in sheet.iter() if _tag(each) == "row"):
        cells: dict[int, str] = {}
        for cell in (each for each in row if _tag(each) == "c"):
            place = _column(cell.get("r"), max(cells, default=-1) + 1)
            cells[place] = _value(cell, shared)
        yield [cells.get(place, "") for place in range(max(cells, default=-1) + 1)]


def _column(place: str | None, following: int) -> int:
    """Return the index of a column, from 0: "C7" is 2; a cell without a reference follows the previous one."""
    if place is None:
        return following
    match = _PLACE.fullmatch(place)
    number = 0
    for letter in match[1] if match else "":
        number = 26 * number + ord(letter) - ord("A") + 1
    if not 0 < number <= _MOST:
        raise zipfile.BadZipFile(f"not a cell reference: {place[:20]}")
    return number - 1


def _value(cell: Xml.Element, shared: list[str]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    value = next((each.text or "" for each in cell if _tag(each) == "v"), "")
    if kind == "s" and value:
        if not (value.isascii() and value.isdigit() and int(value) < len(shared)):
            raise zipfile.BadZipFile(f"no shared string with index {value[:20]}")
        return shared[int(value)]
    if kind == "e":  # an error such as #N/A
        return ""
    return _WORDS.get(value, value) if kind == "b" else value


def _text(element: Xml.Element) -> str:
    """Return the text of a cell, without phonetic hints."""
    if _tag(element) == "rPh":
        return ""
    return (element.text or "") if _tag(element) == "t" else "".join(map(_text, element))


def _rectangle(rows: Iterator[list[str]]) -> list[list[str]]:
    """Return the non-empty rows without trailing empty cells, padded to the length of the first; longer rows remain."""
    filled = [row for row in rows if any(row)]
    for row in filled:
        while not row[-1]:
            row.pop()
    return [row + [""] * (len(filled[0]) - len(row)) for row in filled]


def _tag(element: Xml.Element) -> str:
    return element.tag.rpartition("}")[2]
