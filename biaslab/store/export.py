"""Summarise a store's replies, export them as Parquet, CSV or JSON lines, and merge stores."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.core.errors import CorruptStoreError, InputError, OutputError, StoreError
from biaslab.core.files import guarded
from biaslab.core.interfaces import short
from biaslab.core.output import AnyPath, replacing, require_file
from biaslab.store.file import COLUMNS, SqlRow, StoreFile, connect, log_of, prepare

if TYPE_CHECKING:
    import pandas as pd

_CHUNK = 2000  # number of replies in memory at once
_SUMMARY = (
    "SELECT judge, kind, count(*), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),"
    " sum(CASE WHEN instr(reply, '\"reasoning_tokens\":') AND json_valid(reply)"
    " THEN json_extract(reply, '$.reasoning_tokens') ELSE 0 END),"
    " min(created), max(created) FROM replies GROUP BY judge, kind ORDER BY judge, kind"
)

Write = Callable[[list[SqlRow]], None]


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


def _require_sound(rows: Sequence[SqlRow], path: Path) -> None:
    """Raise `CorruptStoreError` if a field is not of the type that a store writes."""
    for row in rows:
        for name, value in zip(COLUMNS, row, strict=True):
            of_kind = isinstance(value, int if name in COLUMNS[3:6] else str)
            if not of_kind or (name == "created" and _is_no_time(value)):
                words = f"{path} holds a reply whose {name} is {short(value)}"
                raise CorruptStoreError(f"{words}; restore a copy, or delete that row", path)


def _is_no_time(value: object) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return True
    return False


def pages(file: StoreFile, columns: Sequence[str]) -> Iterator[list[SqlRow]]:
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

        def write(rows: list[SqlRow]) -> None:
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

        def write(rows: list[SqlRow]) -> None:
            for *plain, request, reply in rows:  # the last two are JSON already
                start = json.dumps(dict(zip(COLUMNS, plain, strict=False)))[:-1]
                stream.write(f'{start}, "request": {request}, "reply": {reply}}}\n')

        yield write


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".jsonl": _write_jsonl}


_LISTED = ", ".join(COLUMNS)
_COPY = f"INSERT OR IGNORE INTO replies ({_LISTED}) SELECT {_LISTED} FROM given.replies ORDER BY position"  # noqa: S608
_BOTH = "given.replies theirs JOIN main.replies ours USING (key)"
_OTHER = f"SELECT count(*), min(theirs.key) FROM {_BOTH} WHERE ours.reply <> theirs.reply"  # noqa: S608


@dataclass(frozen=True)
class Merged:
    """Counts of a merged store.

    Attributes
    ----------
    replies : int
        Number of replies in the new store.
    repeated : int
        Number of replies that an earlier store had too, and that are kept once.
    different : int
        How many of these differ from the earlier store's reply, which is kept.
    """

    replies: int
    repeated: int
    different: int


def merge_stores(out: AnyPath, stores: Sequence[AnyPath], first_wins: bool = False) -> Merged:
    """Write a new store with the replies of several others, which are opened read-only.

    Replies are in the order of the stores and, within a store, in order of arrival. Keys in several stores are kept
    once. The new store appears only when complete.

    Parameters
    ----------
    out : str or path
        Path of the new store; must not exist.
    stores : sequence of str or path
        At least two, all different.
    first_wins : bool
        If stores have different replies to the same request of the same judge, such as two samples, keep that of the
        first store. By default this is an error.

    Returns
    -------
    Merged
        The counts.

    Raises
    ------
    InputError
        If `out` exists or a store is repeated.
    StoreError
        If an input is missing, not a store or damaged; if replies differ and `first_wins` is false; or if the new
        store cannot be written. Nothing is created in these cases.

    Examples
    --------
    >>> import tempfile
    >>> from biaslab.core import Completion, Reply
    >>> from biaslab.store import Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, words in (("a", "North"), ("b", "South")):
    ...         with Store(f"{folder}/{name}.sqlite") as store:
    ...             _ = store.put(Completion(words), "some judge", Reply(text="yes"))
    ...             _ = store.put(Completion("East"), "some judge", Reply(text="no"))
    ...     merge_stores(f"{folder}/all.sqlite", [f"{folder}/a.sqlite", f"{folder}/b.sqlite"])
    Merged(replies=3, repeated=1, different=0)
    """
    place = require_file("out", Path(out).expanduser())
    sources = [Path(store).expanduser().resolve() for store in stores]
    if len(sources) < 2 or len(set(sources)) < len(sources):
        raise InputError("stores", [str(store) for store in stores], "at least two stores, each named once")
    if place.exists():
        raise InputError("out", str(out), "a path that does not exist yet", "use another path, or move that file away")
    for source in sources:
        prepare(source, create=False)
    with replacing(place) as partial:
        try:
            return _fill(partial, sources, first_wins)
        finally:
            for left in (log_of(partial), partial.with_name(f"{partial.name}-shm")):
                left.unlink(missing_ok=True)


def _fill(path: Path, sources: Sequence[Path], first_wins: bool) -> Merged:
    """Create a merged store at a path; durable on return."""
    target = path.absolute()
    prepare(target, create=True)
    repeated = different = 0
    with contextlib.closing(connect(target, "mode=rw")) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF"):  # not durable before it is complete
            connection.execute(f"PRAGMA {pragma}")
        for source in sources:
            with _reading(connection, source):
                (others, key) = connection.execute(_OTHER).fetchone()
                if others and not first_wins:
                    raise StoreError(_refused(others, key, source), source)
                (count,) = connection.execute("SELECT count(*) FROM given.replies").fetchone()
                repeated += count - connection.execute(_COPY).rowcount
                different += others
        (replies,) = connection.execute("SELECT count(*) FROM replies").fetchone()
        connection.execute("PRAGMA journal_mode = WAL")
    with target.open("rb") as stream:
        os.fsync(stream.fileno())
    return Merged(replies, repeated, different)


@contextlib.contextmanager
def _reading(connection: sqlite3.Connection, source: Path) -> Iterator[None]:
    """Attach a store as ``given``, read-only; as immutable if no process has it open."""
    options = "mode=ro" if log_of(source).exists() else "immutable=1"
    try:
        connection.execute("ATTACH ? AS given", (f"{source.as_uri()}?{options}",))
        try:
            yield
        finally:
            connection.execute("DETACH given")
    except sqlite3.Error as error:
        kept = "nothing was written, and the stores are unchanged; free some space or restore a copy"
        raise StoreError(f"{source} could not be merged ({error}); {kept}", source) from error


def _refused(others: int, key: str, source: Path) -> str:
    words = f"{source} has different replies to {others:,} requests of earlier stores, such as key {key}"
    return f"{words}; nothing was written; to keep the first store's replies, use --first-wins"
