"""Summarise a store's replies, and export them as Parquet, CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.core.csv_files import guarded
from biaslab.core.errors import CorruptStoreError, InputError, OutputError, StoreError
from biaslab.core.output import replacing, require_file
from biaslab.core.received import short
from biaslab.store.file import Row, StoreFile
from biaslab.store.schema import COLUMNS, log_of

if TYPE_CHECKING:
    import pandas as pd

_CHUNK = 2000  # number of replies in memory at once
_SUMMARY = (
    "SELECT judge, kind, count(*), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),"
    " sum(CASE WHEN instr(reply, '\"reasoning_tokens\":') AND json_valid(reply)"
    " THEN json_extract(reply, '$.reasoning_tokens') ELSE 0 END),"
    " min(created), max(created) FROM replies GROUP BY judge, kind ORDER BY judge, kind"
)

Write = Callable[[list[Row]], None]


def summarise(file: StoreFile) -> pd.DataFrame:
    """Return one row per judge and kind; `Store.info` documents the columns."""
    import pandas as pd

    names = ["judge", "kind", "replies", *COLUMNS[3:6], "reasoning_tokens", "first", "last"]
    frame = pd.DataFrame(file.run(_SUMMARY)[0], columns=names)
    try:
        frame = frame.astype(dict.fromkeys(names[:2], "str") | dict.fromkeys(names[2:7], "int64"))
        for name in ("first", "last"):
            frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    except (ValueError, TypeError, OverflowError) as error:
        words = f"{file.path} holds a judge, tokens or a time that cannot be read; restore a copy, or delete that row"
        raise CorruptStoreError(words, file.path) from error
    files = (file.path, log_of(file.path))
    frame.attrs["bytes"] = sum(each.stat().st_size for each in files if each.exists())
    return frame


def export_rows(file: StoreFile, path: Path) -> int:
    """Export all rows in the format given by the file's suffix, and return their number; see `Store.export`."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError("path", str(path), "a name that ends in " + ", ".join(_WRITERS))
    try:
        if path.exists() and path.samefile(file.path):
            raise InputError("path", str(path), "a file other than the store itself")
        count = 0
        require_file("path", path)
        with replacing(path) as partial, writer(partial) as write:
            for rows in pages(file, COLUMNS):
                _require_sound(rows, file.path)
                write(rows)
                count += len(rows)
        return count
    except OutputError as error:
        raise StoreError(str(error), path) from error
    except OSError as error:
        remedy = "check that its folder is writable and has space"
        raise StoreError(f"cannot write {path} ({error}); {remedy}", path) from error


def _require_sound(rows: Sequence[Row], path: Path) -> None:
    """Raise `CorruptStoreError` if a field is not of the type that a store writes."""
    for row in rows:
        for name, value in zip(COLUMNS, row, strict=True):
            if not isinstance(value, int if name in COLUMNS[3:6] else str) or (
                name == "created" and _is_no_time(value)
            ):
                words = f"{path} holds a reply whose {name} is {short(value)}"
                raise CorruptStoreError(f"{words}; restore a copy, or delete that row", path)


def _is_no_time(value: object) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return True
    return False


def pages(file: StoreFile, columns: Sequence[str]) -> Iterator[list[Row]]:
    """Yield columns of all replies in order of arrival, a few thousand rows at a time."""
    listed = f"position, {', '.join(columns)}"
    select = f"SELECT {listed} FROM replies WHERE position > ? ORDER BY position LIMIT {_CHUNK}"  # noqa: S608
    rows, _ = file.run(select, (0,))
    while rows:
        yield [row[1:] for row in rows]
        rows, _ = file.run(select, (rows[-1][0],))


@contextmanager
def _write_parquet(path: Path) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {name: pa.int64() for name in COLUMNS[3:6]} | {"created": pa.timestamp("ms", tz="UTC")}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:

        def write(rows: list[Row]) -> None:
            columns = {name: list(values) for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
            columns["created"] = [datetime.fromisoformat(str(moment)) for moment in columns["created"]]
            writer.write_table(pa.table(columns, schema=schema))

        yield write


@contextmanager
def _write_csv(path: Path) -> Iterator[Write]:
    with path.open("x", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        yield lambda rows: writer.writerows([map(guarded, row) for row in rows])


@contextmanager
def _write_jsonl(path: Path) -> Iterator[Write]:
    with path.open("x", encoding="ascii") as stream:

        def write(rows: list[Row]) -> None:
            for *plain, request, reply in rows:  # the last two are JSON already
                start = json.dumps(dict(zip(COLUMNS, plain, strict=False)))[:-1]
                stream.write(f'{start}, "request": {request}, "reply": {reply}}}\n')

        yield write


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}
