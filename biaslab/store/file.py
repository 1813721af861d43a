"""The connection to a store's file: opened when needed, shared by threads, never carried across a fork."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from biaslab.core.errors import StoreError
from biaslab.store.schema import connect, explain, prepare

_CACHE = 64 * 1024  # KiB; keys are effectively random, so every page of their index is needed repeatedly
_RESERVED = 4 * 2**20  # bytes; more than the replies in flight of a judge need, including SQLite's log
Value = str | int | float | None
Row = tuple[Value, ...]

# One lock for all stores of this process, held for single statements, and while the process forks.
_LOCK = threading.RLock()


class StoreFile:
    """A store's file, on which single statements are run.

    A connection must not survive a fork, because the child would believe that it holds its parent's locks; so all
    connections are closed before a fork and reopened at the next use. A deleted or replaced file is detected as well.

    Parameters
    ----------
    path : Path
        Absolute path of the file.
    create : bool
        Whether to create the file if it is missing.

    Raises
    ------
    StoreError
        As in `biaslab.store.schema.prepare`.
    """

    def __init__(self, path: Path, create: bool) -> None:
        self.path, self._create = path, create
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, ...] = ()
        self._finish: Callable[[], object] | None = None
        prepare(path, create)
        self._checked: tuple[int, ...] | None = self._stamp()
        _LIVE.add(self)

    def run(self, statement: str, values: Sequence[Value] = ()) -> tuple[list[Row], int]:
        """Run a statement as one transaction, durable on return; return its rows and the number of changed rows.

        Raises
        ------
        StoreError
            If the file cannot be used; the message says what is preserved and what to do.
        """
        with _LOCK:
            connection = self._connected()
            try:
                cursor = connection.execute(statement, values)
                return cursor.fetchall(), cursor.rowcount
            except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
                raise
            except sqlite3.Error as error:
                raise explain(error, self.path, connection) from error

    def write(self, statement: str, rows: Sequence[Sequence[Value]]) -> int:
        """Run a statement for each row in one transaction, durable on return; return the number of changed rows.

        Raises
        ------
        StoreError
            As in `run`; then no row was written.
        """
        if len(rows) == 1:
            return self.run(statement, rows[0])[1]
        with _LOCK:
            connection = self._connected()
            try:
                connection.execute("BEGIN IMMEDIATE")
                changed = connection.executemany(statement, rows).rowcount
                connection.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):  # some errors end the transaction themselves
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error) and not isinstance(
                    error, sqlite3.ProgrammingError | sqlite3.InterfaceError
                ):
                    raise explain(error, self.path, connection) from error
                raise
            return changed

    def close(self) -> None:
        """Close the connection; the next use reopens it."""
        with _LOCK:
            if self._finish is not None:
                self._finish()
            self._connection = self._finish = None

    def _connected(self) -> sqlite3.Connection:
        now = self._stamp()
        if self._connection is not None and self._opened == now[:2]:
            return self._connection
        self.close()
        if self._checked != now:  # deleted, replaced or written to since the last check
            prepare(self.path, self._create)
        self._checked = None
        self._opened = self._stamp()[:2]
        try:
            connection = connect(self.path, "mode=rw")
            self._finish = weakref.finalize(self, connection.close)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{_CACHE}")
        except sqlite3.Error as error:
            self.close()
            raise explain(error, self.path) from error
        self._connection = connection
        return connection

    def _stamp(self) -> tuple[int, ...]:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read ({error}); check its folder", self.path) from error
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


_LIVE: weakref.WeakSet[StoreFile] = weakref.WeakSet()


def _before_fork() -> None:
    _LOCK.acquire()
    for file in list(_LIVE):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class Reserve:
    """Disk space reserved next to a store, so that a full disk loses no reply in flight.

    Parameters
    ----------
    path : Path
        The store's path.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, path.with_name(f".{path.name}.reserve")

    def take(self) -> None:
        """Reserve the space.

        Raises
        ------
        StoreError
            If there is not enough space.
        """
        try:
            with self._file.open("wb") as stream:
                stream.write(bytes(_RESERVED))
        except OSError as error:
            self.release()
            few = f"less than {_RESERVED / 2**20:.0f} MiB is free next to {self.path} ({error.strerror})"
            raise StoreError(
                f"{few}; free some space and run again, which asks only missing requests", self.path
            ) from None

    def release(self) -> None:
        """Release the space."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
