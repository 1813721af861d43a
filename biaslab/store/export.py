"""What a store shows of itself: a summary of its replies, and all of them as Parquet, CSV or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.errors import InputError, StoreError
from biaslab.output import replacing
from biaslab.store.file import Row, StoreFile

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "key",
    "judge",
    "kind",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "created",
    "version",
    "request",
    "reply",
)
_CHUNK = 2000  # replies in memory at once
_SUMMARY = (
    "SELECT judge, kind, count(*), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),"
    " min(created), max(created) FROM replies GROUP BY judge, kind ORDER BY judge, kind"
)

Chunks = Iterator[list[Row]]


def summarise(file: StoreFile, size: int) -> pd.DataFrame:
    """Return one row per judge and kind; `Store.info` documents the columns."""
    import pandas as pd

    names = ["judge", "kind", "replies", *COLUMNS[3:6], "first", "last"]
    frame = pd.DataFrame(file.run(_SUMMARY)[0], columns=names)
    frame = frame.astype(dict.fromkeys(names[:2], "str") | dict.fromkeys(names[2:6], "int64"))
    for name in ("first", "last"):
        frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601")
    frame.attrs["bytes"] = size
    return frame


def export_rows(file: StoreFile, path: Path) -> int:
    """Write all rows to a file in the format its suffix says, and return how many; see `Store.export`."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError("path", str(path), "a name that ends in " + ", ".join(_WRITERS))
    try:
        if path.exists() and path.samefile(file.path):
            raise InputError("path", str(path), "another file than the store itself")
        with replacing(path) as partial:
            return writer(_chunks(file), partial)
    except OSError as error:
        remedy = "check that its folder exists, may be written and has space"
        raise StoreError(f"{path} cannot be written ({error}); {remedy}", path) from error


def _chunks(file: StoreFile) -> Chunks:
    columns = f"position, {', '.join(COLUMNS)}"
    select = f"SELECT {columns} FROM replies WHERE position > ? ORDER BY position LIMIT {_CHUNK}"  # noqa: S608
    rows, _ = file.run(select, (0,))
    while rows:
        yield [row[1:] for row in rows]
        rows, _ = file.run(select, (rows[-1][0],))


def _write_parquet(chunks: Chunks, path: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {name: pa.int64() for name in COLUMNS[3:6]} | {"created": pa.timestamp("ms", tz="UTC")}
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for rows in chunks:
            columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
            columns["created"] = tuple(datetime.fromisoformat(str(moment)) for moment in columns["created"])
            writer.write_table(pa.table({name: list(columns[name]) for name in COLUMNS}, schema=schema))
            count += len(rows)
    return count


def _write_csv(chunks: Chunks, path: Path) -> int:
    count = 0
    with path.open("x", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for rows in chunks:
            writer.writerows(rows)
            count += len(rows)
    return count


def _write_jsonl(chunks: Chunks, path: Path) -> int:
    count = 0
    with path.open("x", encoding="ascii") as stream:
        for rows in chunks:
            for row in rows:
                plain = dict(zip(COLUMNS[:-2], row, strict=False))
                request, reply = row[-2:]  # JSON already
                stream.write(f'{json.dumps(plain)[:-1]}, "request": {request}, "reply": {reply}}}\n')
            count += len(rows)
    return count


_WRITERS: dict[str, Callable[[Chunks, Path], int]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
}
