"""Open logs that are plain, compressed, in archives or folders: JSON Lines, JSON lists, CSV, TSV, xlsx, Parquet."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.checks import is_there
from biaslab.core.errors import InputError
from biaslab.core.unpacking import Allowance
from biaslab.datasets._files import separator_of
from biaslab.logs.readers.containers import BROKEN, foreign, members, workbook
from biaslab.logs.readers.encodings import decode
from biaslab.logs.readers.rows import Log, Rows
from biaslab.logs.readers.text_records import brief, from_text

CHUNK = 100_000  # records held in memory as objects at a time
_NAMED = 10  # column names of a header shown in a message


class Document(NamedTuple):
    """One unpacked file: its name (within its archive or folder) and its content.

    A file that is not a log has no content and a remedy instead.
    """

    name: str
    data: bytes
    remedy: str = ""


def documents(path: str | Path) -> Iterator[Document]:
    """Yield the unpacked files at a path: one file, or those of an archive, folder or pattern, sorted by name.

    Raises
    ------
    InputError
        If the path does not exist, or a compressed file is damaged or too large when unpacked.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise InputError("path", path, "a file, a folder or a pandas.DataFrame", _remedy(path))
    place = Path(path)
    if is_pattern(place):
        yield from _of_pattern(str(place))
        return
    if not is_there(place):
        raise InputError("path", str(path), "an existing file or folder")
    if place.is_dir():
        for file in sorted(file for file in place.rglob("*") if file.is_file()):
            for document in _of_file(file, alone=False):
                inner = "" if document.name == file.name else f"/{document.name}"
                yield document._replace(name=f"{file.relative_to(place).as_posix()}{inner}")
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


def is_pattern(path: str | Path) -> bool:
    """Return whether a path is a pattern such as ``logs/*.jsonl``, and not an existing file of that name."""
    return isinstance(path, str | Path) and glob.has_magic(str(path)) and not is_there(Path(path))


def _of_pattern(pattern: str) -> Iterator[Document]:
    files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]  # noqa: PTH207
    if not files:
        raise InputError("path", pattern, "a pattern that matches at least one file")
    shared = Path(os.path.commonpath([file.parent for file in files]))
    for file in files:
        for document in _of_file(file, alone=len(files) == 1):
            inner = "" if document.name == file.name else f"/{document.name}"
            yield document._replace(name=f"{file.relative_to(shared).as_posix()}{inner}")


def _of_file(file: Path, alone: bool) -> Iterator[Document]:
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
            yield Document(file.name, data) if remedy is None else Document(file.name, b"", remedy)
        else:
            yield from (Document(name, part) for name, part in inside)
    except BROKEN as error:
        raise InputError("path", str(file), f"an intact file ({error})", "download it again") from error


def read_rows(document: Document, log: Log) -> Iterator[Rows]:
    """Yield the records of a file in chunks, recording malformed lines and the encoding in `log`.

    Lines count from 1; a record of several lines has the number of its first line. In a JSON list, reading resumes
    after a damaged record at the next line that starts like the first record, and stops if there is none. Rows of
    Parquet files count from 1. A file that is a single object is one record.
    """
    if document.data.startswith(b"PAR1"):
        log.unit = "row"
        records, textual = _from_parquet(document), False
    else:
        text, log.encoding = decode(document.data)
        records, textual = from_text(text, log)
    while chunk := list(islice(records, CHUNK)):
        yield Rows([record for _, record in chunk], [line for line, _ in chunk], log, textual)


def read_frame(frame: pd.DataFrame, log: Log) -> Iterator[Rows]:
    """Yield the rows of a data frame in chunks, as from a file; rows count from 1.

    Raises
    ------
    InputError
        If its columns have several levels, or duplicate names.
    """
    names = list(map(str, frame.columns))
    if frame.columns.nlevels > 1 or len(set(names)) < len(names):
        allowed = "a table with unique column names on one level"
        raise InputError("path, columns", names, allowed, "flatten or rename the columns")
    log.unit = "row"
    for start in range(0, len(frame), CHUNK):
        part = frame.iloc[start : start + CHUNK].astype(object)
        records = [
            {name: _plain(value) for name, value in zip(names, row, strict=True)}
            for row in part.itertuples(index=False, name=None)
        ]
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


def why_empty(document: Document) -> str:
    r"""Return the reason why no record could be read from a file.

    Examples
    --------
    >>> why_empty(Document("a.csv", b"question,winner\n")), why_empty(Document("b.json", b"[]"))
    ('it has a header (question, winner) but no rows', 'it is an empty list')
    """
    if document.remedy:
        return f"it is not a log: {document.remedy}"
    text = decode(document.data).text.strip()
    if not text:
        return "it is empty"
    if text.startswith(("[", "{")):
        return "it is an empty list" if text.startswith("[") else "it contains no record"
    names = text.splitlines()[0].split(separator_of(text))
    return f"it has a header ({', '.join(name.strip() for name in names[:_NAMED])}) but no rows"


def _from_parquet(document: Document) -> Iterator[tuple[int, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        batches = pq.ParquetFile(io.BytesIO(document.data)).iter_batches(CHUNK)
        yield from enumerate((record for batch in batches for record in batch.to_pylist()), start=1)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(
            "path", document.name, f"an intact Parquet file ({brief(error)})", "download it again"
        ) from error
