"""Read the sheet of an .xlsx workbook as CSV."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from itertools import pairwise
from xml.parsers import expat  # documents with a DOCTYPE, the only dangerous ones, are refused

from biaslab.core.errors import InputError
from biaslab.core.files import Allowance
from biaslab.logs.readers.containers import SHEET, ZIP, names_in

_TEXTS = "xl/sharedStrings.xml"
_TOKEN = re.compile(rb"<(?:\w+:)?(row|c|v)\b(?:([^<>]*)>([^<]*))?")
_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]*)(\d+)["']""")
_SHARED = re.compile(rb"""\bt\s*=\s*["']s["']""")
_ITEM = re.compile(rb"<(?:\w+:)?si\b")
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
    if not data.startswith(ZIP) or "xl/workbook.xml" not in names_in(data):
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
        return b"", f"it has {len(filled)} sheets with rows ({', '.join(filled)}): {SHEET}"
    return next(iter(filled.values()), b""), ""


def require_size(data: bytes, allowance: Allowance) -> None:
    """Count a workbook's parts, the cells between its first and last ones, and its repeated texts as decompressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        try:
            parts = {name: allowance.read(archive.open(name)) for name in archive.namelist() if name.startswith("xl/")}
        except InputError:
            raise
        except (RuntimeError, ValueError) as error:  # a password is needed, or the directory is damaged
            raise zipfile.BadZipFile(str(error)) from error
    for name, part in parts.items():
        if name.endswith((".xml", ".rels")):
            _require_xml(name, part)
    texts = parts.get(_TEXTS, b"")
    allowance.take(_CELL * sum(1 for _ in _ITEM.finditer(texts)))
    places = [item.start() for item in _ITEM.finditer(texts)]
    lengths = [end - start for start, end in pairwise([*places, len(texts)])]
    for part in parts.values():
        allowance.take(_size(part, lengths))


def _require_xml(name: str, part: bytes) -> None:
    """Raise `zipfile.BadZipFile` if a part is cut off, or has what spreadsheets do not write and `_size` cannot see."""
    if b"<!" in part:
        raise zipfile.BadZipFile(f"{name} has a document type or comments")
    try:
        expat.ParserCreate().Parse(part, True)
    except expat.ExpatError as error:
        raise zipfile.BadZipFile(f"{name}: {error}") from error


def _size(sheet: bytes, lengths: list[int]) -> int:
    """Return the bytes that a sheet's cells take; all cells up to the last row and column are held."""
    row = column = most = size = 0
    rows, is_shared = 0, False
    for kind, attributes, text in (token.groups(b"") for token in _TOKEN.finditer(sheet)):
        if kind == b"v":
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
        rows, most = max(rows, row), max(most, column)
    return size + _CELL * rows * most


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters.upper()[:4]:
        number = 26 * number + letter - ord("A") + 1
    return number


def as_csv(rows: list[list[object]]) -> bytes:
    r"""Return non-empty rows without trailing empty cells as CSV, padded to the length of the first.

    Examples
    --------
    >>> as_csv([["a", "b"], ["", ""], [1.0, ""], [0.5, True]])
    b'a,b\\n1,\\n0.5,true\\n'
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
