"""Store every reply of every judge in one file, so that nothing is asked twice and no reply is lost.

Examples
--------
>>> from biaslab.store import Store
>>> judge = Store("replies.sqlite").wrap(judge)  # doctest: +SKIP
>>> replies = dict(judge.ask(requests))  # doctest: +SKIP
>>> judge.hits, judge.asked  # doctest: +SKIP
(0, 1200)
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from importlib import metadata
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from biaslab.core.errors import CorruptStoreError, InputError, StoreError
from biaslab.core.interfaces import Judge, as_judge
from biaslab.core.output import AnyPath
from biaslab.core.requests import Request, request_json, request_key
from biaslab.core.trials import Reply, Usage, uncollected
from biaslab.store import codec
from biaslab.store.codec import READ, StoredReply, as_read, moment_to_text, record_of, reply_from_json, reply_to_json
from biaslab.store.export import export_rows, pages, summarise
from biaslab.store.file import COLUMNS, SqlRow, StoreFile, Value
from biaslab.store.stored_judge import StoredJudge

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Store", "open_store"]

_VERSION = metadata.version("biaslab")
_CHUNK = 2000  # keys per query, passed as one JSON list; SQLite looks them up in order
_KEYS = "key IN (SELECT value FROM json_each(?))"
# Keys are read from the rows themselves, because a damaged index may point to the reply of another request.
_ROWS = f"FROM replies NOT INDEXED WHERE position IN (SELECT position FROM replies WHERE {_KEYS})"  # noqa: S608
_FIND = f"SELECT key, reply, prompt_tokens, cached_tokens, completion_tokens {_ROWS}"
_KNOWN = f"SELECT key FROM replies WHERE {_KEYS}"  # noqa: S608
_RECORDS = f"SELECT {', '.join(READ)} {_ROWS}"
_KEEP = f"INSERT OR IGNORE INTO replies ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608


def __dir__() -> list[str]:
    return __all__


class Store:
    """Replies in one SQLite file, addressed by the content of their request and the judge's id.

    Several processes and threads may use a file at once. A reply is on disk before it is passed on. The file must be
    on a local disk, because SQLite's write-ahead log does not work on network file systems.

    Parameters
    ----------
    path : str or path
        The file; ``~`` is expanded. Any suffix is allowed; ``.sqlite`` is customary.
    create : bool
        Whether to create a missing file, with its parent folders.

    Raises
    ------
    ForeignStoreError
        If the file is not a store, or has another layout; it was not modified.
    CorruptStoreError
        If the file is a damaged store; it was not modified.
    StoreError
        If the file cannot be read and written, or is missing and `create` is false.

    Examples
    --------
    >>> import tempfile
    >>> from biaslab.core import Completion
    >>> request = Completion("Name a colour.")
    >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/replies.sqlite") as store:
    ...     kept = store.put(request, "some judge", Reply(text="Teal.", finish_reason="stop"))
    ...     store.get([request_key(request, "some judge")]) == {request_key(request, "some judge"): kept}
    True
    """

    def __init__(self, path: AnyPath, *, create: bool = True) -> None:
        self.path = Path(path).expanduser()
        try:
            self._file = StoreFile(self.path.resolve(), create)
        except (RuntimeError, ValueError) as error:  # a loop of symbolic links, or a character not allowed in paths
            remedy = "use another path"
            raise StoreError(f"{str(path)!r} cannot be followed ({error}); {remedy}", self.path) from error

    def wrap(self, judge: Judge) -> StoredJudge:
        """Return the judge backed by this store: it is asked only requests without a stored reply.

        Parameters
        ----------
        judge : Judge
            Any judge; its id is part of the key of every reply.

        Returns
        -------
        StoredJudge
            The same judge, backed by the store; counts ``hits`` and ``asked``.
        """
        return StoredJudge(self, judge)

    def missing(self, judge: Judge, requests: Iterable[Request]) -> list[Request]:
        """Return the distinct requests without a stored reply of this judge or, for a panel, of every member."""
        judge_id, different = judge.id, list(dict.fromkeys(requests))
        keys = [request_key(request, judge_id) for request in different]
        stored = self.known(keys)
        left = [request for request, key in zip(different, keys, strict=True) if key not in stored]
        members = as_judge(judge).members
        if not left or not members:
            return left
        asked = {request: as_judge(judge).expand(request) for request in left}
        different = list(dict.fromkeys(each for several in asked.values() for each in several))
        wanted = {each for member in members for each in self.missing(member, different)}
        return [request for request in left if not wanted.isdisjoint(asked[request])]

    def get(self, keys: Iterable[str]) -> dict[str, Reply]:
        """Return the stored replies for these keys (see `biaslab.core.request_key`), reading in chunks.

        Raises
        ------
        CorruptStoreError
            If a stored reply cannot be read.
        """
        replies: dict[str, Reply] = {}
        for rows in self._rows_of(_FIND, keys):
            with uncollected():
                for key, text, *tokens in cast("list[tuple[str, str, int, int, int]]", rows):
                    try:
                        replies[key] = reply_from_json(text, Usage(*tokens))
                    except InputError as error:
                        raise self._damaged(key) from error
        return replies

    def known(self, keys: Iterable[str]) -> set[str]:
        """Return the keys with stored replies, without reading the replies."""
        stored: set[str] = set()
        for chunk in _chunks(keys):
            stored.update(str(row[0]) for row in self._file.run(_KNOWN, (json.dumps(chunk),))[0])
        return stored

    def records(self, keys: Iterable[str] | None = None) -> Iterator[StoredReply]:
        """Yield stored replies with their requests, in chunks: those of some keys, or all in order of arrival.

        Parameters
        ----------
        keys : iterable of str, optional
            For example the column ``key`` of trials. Keys without a reply are skipped.

        Raises
        ------
        CorruptStoreError
            If a stored request or reply cannot be read.
        """
        for row in chain.from_iterable(pages(self._file, READ) if keys is None else self._rows_of(_RECORDS, keys)):
            try:
                yield record_of(row)
            except InputError as error:
                raise self._damaged(row[0]) from error

    def _rows_of(self, statement: str, keys: Iterable[str]) -> Iterator[list[SqlRow]]:
        """Yield rows that begin with a key, in chunks of keys; a damaged index may return rows of other keys."""
        for chunk in _chunks(keys):
            asked = set(chunk)
            yield [row for row in self._file.run(statement, (json.dumps(chunk),))[0] if row[0] in asked]

    def _damaged(self, key: Value) -> CorruptStoreError:
        message = f"{self.path} holds a damaged reply, key {key}; restore a copy, or delete that row"
        return CorruptStoreError(message, self.path)

    def put(self, request: Request, judge_id: str, reply: Reply) -> Reply:
        """Store a reply durably, and return the stored one: an earlier one, if another process was faster.

        Raises
        ------
        InputError
            If the reply contains NaN; nothing is stored.
        StoreError
            If the disk is full or the file cannot be written.
        """
        return self.put_all([(request, reply)], judge_id)[0]

    def put_all(self, answers: Iterable[tuple[Request, Reply]], judge_id: str) -> list[Reply]:
        """Store several replies in one transaction; see `put`.

        Parameters
        ----------
        answers : iterable of (Request, Reply)
            Distinct requests with their replies.
        judge_id : str
            Id of the judge that gave them.

        Returns
        -------
        list of Reply
            The stored replies, in order.

        Raises
        ------
        InputError
            If a reply contains NaN; nothing is stored.
        StoreError
            If the disk is full or the file cannot be written; nothing is stored.
        """
        pairs, origin = list(answers), (moment_to_text(datetime.now(UTC)), _VERSION)
        with uncollected():
            rows = [_row(request, judge_id, reply, origin) for request, reply in pairs]
        if not rows or self._file.write(_KEEP, rows) == len(rows):
            return [as_read(reply, row[-1]) for row, (_, reply) in zip(rows, pairs, strict=True)]
        stored = self.get(row[0] for row in rows)
        return [stored.get(row[0], reply) for row, (_, reply) in zip(rows, pairs, strict=True)]

    def info(self) -> pd.DataFrame:
        """Summarise the stored replies.

        Returns
        -------
        DataFrame
            One row per judge and kind, sorted: ``judge``, ``kind``, ``replies`` (count), ``prompt_tokens``,
            ``cached_tokens``, ``completion_tokens`` (sums), ``reasoning_tokens`` (the part of the latter spent on
            thoughts), ``first`` and ``last`` (times of storage, UTC). ``attrs["bytes"]`` is the size of the file.
        """
        return summarise(self._file)

    def export(self, path: AnyPath) -> int:
        """Export all replies to one file, in order of arrival, without loading them all into memory.

        Parameters
        ----------
        path : str or path
            Ends in ``.parquet``, ``.csv`` or ``.jsonl``. An existing file is replaced once the new one is complete.
            The columns are ``key``, ``judge``, ``kind``, ``prompt_tokens``, ``cached_tokens``, ``completion_tokens``,
            ``created`` (UTC), ``version`` (of biaslab), ``request`` and ``reply`` (JSON; objects in ``.jsonl``).

        Returns
        -------
        int
            Number of replies written.

        Raises
        ------
        InputError
            If the path has another suffix, or is the store itself.
        StoreError
            If the file cannot be written.
        """
        return export_rows(self._file, Path(path).expanduser())

    def prune(self, judge: str | None = None, older_than: str | date | None = None, dry_run: bool = False) -> int:
        """Delete replies of a judge, from before a given time, or both; then shrink the file.

        Parameters
        ----------
        judge : str, optional
            Exact id of the judge.
        older_than : str or date, optional
            Delete only replies stored before this time, for example ``"2025-06-30"``; UTC unless it has an offset.
        dry_run : bool
            Only count.

        Returns
        -------
        int
            Number of replies deleted, or to delete.

        Raises
        ------
        InputError
            If neither a judge nor a time is given, or the time is not ISO 8601.
        """
        if judge is None and older_than is None:
            raise InputError("judge and older_than", None, "one of them; to delete all, delete the file")
        moment = None if older_than is None else moment_to_text(codec.as_moment(older_than))
        chosen = "FROM replies WHERE (?1 IS NULL OR judge = ?1) AND (?2 IS NULL OR created < ?2)"
        if dry_run:
            return cast("int", self._file.run(f"SELECT count(*) {chosen}", (judge, moment))[0][0][0])
        _, count = self._file.run(f"DELETE {chosen}", (judge, moment))
        if count:
            self._file.run("VACUUM")
            self._file.run("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    def close(self) -> None:
        """Close the file; the next use reopens it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __len__(self) -> int:
        return cast("int", self._file.run("SELECT count(*) FROM replies")[0][0][0])

    def __bool__(self) -> bool:
        return True  # an empty store is truthy

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def _repr_html_(self) -> str:
        frame = self.info()
        title = f"Store {self.path}: {len(self):,} replies, {frame.attrs['bytes'] / 2**20:.1f} MiB"
        return f"<p>{html.escape(title)}</p>{frame.to_html(index=False)}"


@contextmanager
def open_store(store: Store | AnyPath | None, create: bool = True) -> Iterator[Store | None]:
    """Open a store by its path within a block; an open one stays open. None if missing and not to be created."""
    if store is None or isinstance(store, Store):
        yield store
    elif create or Path(store).expanduser().exists():
        with Store(store, create=create) as opened:
            yield opened
    else:
        yield None


def _row(request: Request, judge_id: str, reply: Reply, origin: tuple[str, str]) -> tuple[str, ...]:
    """Return the values of `COLUMNS`."""
    usage, key = reply.usage, request_key(request, judge_id)
    tokens = (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
    documents = (request_json(request), reply_to_json(reply))
    return cast("tuple[str, ...]", (key, judge_id, request.kind, *tokens, *origin, *documents))


def _chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(keys)
    while chunk := list(map(str, islice(remaining, _CHUNK))):
        yield chunk
