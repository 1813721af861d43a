"""The file of a store: its schema, checks and connection, shared by threads and never carried across a fork."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from biaslab.core.errors import CorruptStoreError, ForeignStoreError, StoreError

_CACHE = 64 * 1024  # KiB; keys are effectively random, so every page of their index is needed repeatedly
_RESERVED = 4 * 2**20  # bytes; more than the replies in flight of a judge need, including SQLite's log
Value = str | int | float | None
SqlRow = tuple[Value, ...]

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
        As in `biaslab.store.file.prepare`.
    """

    def __init__(self, path: Path, create: bool) -> None:
        self.path, self._create = path, create
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, ...] = ()
        self._finish: Callable[[], object] | None = None
        prepare(path, create)
        self._checked: tuple[int, ...] | None = self._stamp()
        _LIVE.add(self)

    def run(self, statement: str, values: Sequence[Value] = ()) -> tuple[list[SqlRow], int]:
        """Run a statement as one transaction, durable on return; return its rows and the number of changed rows.

        Raises
        ------
        StoreError
            If the file cannot be used; the message says what is preserved and what to do.
        """
        with self._connected() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall(), cursor.rowcount

    def write(self, statement: str, rows: Sequence[Sequence[Value]]) -> int:
        """Run a statement for each row in one transaction, durable on return; return the number of changed rows.

        Raises
        ------
        StoreError
            As in `run`; then no row was written.
        """
        with self._connected() as connection, connection:  # commits, or rolls back
            connection.execute("BEGIN IMMEDIATE")
            return connection.executemany(statement, rows).rowcount

    def close(self) -> None:
        """Close the connection; the next use reopens it."""
        with _LOCK:
            if self._finish is not None:
                self._finish()
            self._connection = self._finish = None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, which no other thread uses meanwhile; explain SQLite's errors."""
        with _LOCK:
            connection = self._connect()
            try:
                yield connection
            except (sqlite3.ProgrammingError, sqlite3.InterfaceError):
                raise
            except sqlite3.Error as error:
                raise explain(error, self.path, connection) from error

    def _connect(self) -> sqlite3.Connection:
        now = self._stamp()
        if self._connection is not None and self._opened == now[:2]:
            return self._connection
        self.close()
        if self._checked != now:  # deleted, replaced or written to since the last check
            prepare(self.path, self._create)
        self._checked = None
        self._opened = self._stamp()[:2]
        try:
            connection = connect(self.path, "mode=rw" if _may_write(self.path) else "immutable=1")
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


def _may_write(path: Path) -> bool:
    """Return whether a store may grow; one that may not, and that no process writes to, is only read."""
    return log_of(path).exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


_LIVE: weakref.WeakSet[StoreFile] = weakref.WeakSet()


def _before_fork() -> None:
    _LOCK.acquire()
    for file in list(_LIVE):
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def reserve_space(path: Path) -> None:
    """Reserve space next to a store until `release_space`, so that a full disk loses no reply in flight.

    Raises
    ------
    StoreError
        If there is not enough space.
    """
    try:
        _reserved_file(path).write_bytes(bytes(_RESERVED))
    except OSError as error:
        release_space(path)
        few = f"less than {_RESERVED / 2**20:.0f} MiB is free next to {path} ({error.strerror})"
        raise StoreError(f"{few}; free some space and run again, which asks only missing requests", path) from None


def release_space(path: Path) -> None:
    """Release the reserved space, if any."""
    with contextlib.suppress(OSError):
        _reserved_file(path).unlink(missing_ok=True)


def _reserved_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.reserve")


APPLICATION_ID = 0x62696173  # "bias" in ASCII
SCHEMA_VERSION = 1
CHECKED_BYTES = 64 * 2**20  # up to this size, every page is checked when a store is opened
BUSY_SECONDS = 60.0

_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_TEXTS = ("created", "version", "request", "reply")
_KEPT = {"key": "TEXT NOT NULL UNIQUE", "judge": "TEXT NOT NULL", "kind": "TEXT NOT NULL"}
_KEPT |= dict.fromkeys(_COUNTS, "INTEGER NOT NULL") | dict.fromkeys(_TEXTS, "TEXT NOT NULL")
#: Columns of a stored reply, in order.
COLUMNS = tuple(_KEPT)

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_TRIES = 5
_SCHEMA = f"""
CREATE TABLE replies (
    position INTEGER PRIMARY KEY,
    {", ".join(f"{name} {declared}" for name, declared in _KEPT.items())}
);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""
_RESCUE = "restore a copy, or move it away and start a new store; `sqlite3 FILE .recover` may rescue replies"


def prepare(path: Path, create: bool) -> None:
    """Create or check the store at a path.

    Parameters
    ----------
    path : Path
        Absolute path of the store.
    create : bool
        Whether to create a missing store, with its parent folders.

    Raises
    ------
    ForeignStoreError, CorruptStoreError
        If the file is not a store or is damaged; it was not modified.
    StoreError
        If the store is missing and not to be created, or cannot be read or written.
    """
    log = log_of(path)
    try:
        log_left = log.exists()  # checked first: a store's log appears only after the store
        if not path.exists():
            if log_left:
                remedy = f"restore the store, or delete {log.name}"
                raise StoreError(f"{path} is missing but its log {log.name} exists; {remedy}", path)
            if not create:
                raise StoreError(f"there is no store at {path}; check the path", path)
            path.parent.mkdir(parents=True, exist_ok=True)
            _create(path)
        verify(path)
    except OSError as error:
        raise _unusable(path, error) from error


def verify(path: Path) -> None:
    """Raise unless there is a sound store at the path; neither the file nor its log is modified.

    The header is read as plain bytes before SQLite sees the file. Then every page is checked if the file is at most
    `CHECKED_BYTES`; for a larger one, its length and columns. A fault counts only if the file did not change
    meanwhile, because another process may be writing to it.
    """
    _recognise(path)
    for _ in range(_TRIES):
        before = _stamp(path)
        fault = _find_fault(path)
        if not fault:
            return
        if before == _stamp(path):
            break
    raise CorruptStoreError(f"{path} is a damaged store ({fault}); it was not modified; {_RESCUE}", path)


def connect(path: Path, options: str) -> sqlite3.Connection:
    """Open an existing file in autocommit mode, for any thread; the caller must serialise access."""
    address, wait = f"{path.as_uri()}?{options}", BUSY_SECONDS
    return sqlite3.connect(address, uri=True, timeout=wait, isolation_level=None, check_same_thread=False)


def log_of(path: Path) -> Path:
    """Return the path of a store's write-ahead log."""
    return path.with_name(path.name + "-wal")


def explain(error: sqlite3.Error, path: Path, connection: sqlite3.Connection | None = None) -> StoreError:
    """Return the store error for an SQLite error, saying what is preserved and what to do."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF  # primary result code; the other bytes only refine it
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        kept = "all replies stored so far are safe"
        with contextlib.suppress(sqlite3.Error):
            if connection is not None:
                count = connection.execute("SELECT count(*) FROM replies").fetchone()[0]
                kept = f"the {count:,} replies stored so far are safe"
        remedy = "free some space and run again, which asks only missing requests"
        return StoreError(f"cannot write to {path} ({error}); {kept}; {remedy}", path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        locked = f"another process has locked {path} for {BUSY_SECONDS:.0f} seconds"
        return StoreError(f"{locked}; end it or run again; all replies stored so far are safe", path)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return _unusable(path, error)
    return CorruptStoreError(f"{path} is a damaged store ({error}); {_RESCUE}", path)


def _unusable(path: Path, error: Exception) -> StoreError:
    remedy = "check the permissions of the file and its folder, or use another path"
    return StoreError(f"cannot read and write {path} ({error}); {remedy}", path)


def _recognise(path: Path) -> None:
    """Read the header and raise unless it is that of a store that this version can read."""
    elsewhere = "it was not modified; use another path, or move that file away"
    if not path.is_file():
        raise ForeignStoreError(f"{path} is not a file; {elsewhere}", path)
    with path.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    if header[: len(_MAGIC)] != _MAGIC:
        content = "is empty" if not header else "is some other file"
        raise ForeignStoreError(f"{path} {content}, not a biaslab store; {elsewhere}", path)
    if len(header) < _HEADER_BYTES:
        cut = f"only {len(header)} bytes are left"
        raise CorruptStoreError(f"{path} is a damaged store ({cut}); it was not modified; {_RESCUE}", path)
    (version,) = struct.unpack_from(">I", header, 60)
    (application,) = struct.unpack_from(">I", header, 68)
    if application != APPLICATION_ID:
        raise ForeignStoreError(f"{path} is another program's SQLite database; {elsewhere}", path)
    if version != SCHEMA_VERSION:
        layout = f"has layout {version}, but this biaslab reads layout {SCHEMA_VERSION} only"
        remedy = "use another path, or the biaslab that wrote it"
        raise ForeignStoreError(f"{path} {layout}; it was not modified; {remedy}", path)


def _find_fault(path: Path) -> str:
    """Return a description of damaged pages; empty if they are sound.

    Without a log no process has the file open, so it is read as immutable, and no file appears next to it. With a log,
    left by a killed process or used by a running one, both are read under SQLite's locks, with a read-only connection.
    """
    logged = log_of(path).exists()
    with path.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    (size,) = struct.unpack_from(">H", header, 16)
    (pages,) = struct.unpack_from(">I", header, 28)
    length, whole = path.stat().st_size, pages * (65536 if size == 1 else size)
    if not logged and length < whole:
        return f"{length:,} of {whole:,} bytes are left"
    try:
        with contextlib.closing(connect(path, "mode=ro" if logged else "immutable=1")) as connection:
            connection.execute(f"SELECT position, {', '.join(COLUMNS)} FROM replies LIMIT 1").fetchall()  # noqa: S608
            if length > CHECKED_BYTES:
                return ""
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if not isinstance(explain(error, path), CorruptStoreError):
            raise explain(error, path) from error
        return str(error)
    return "" if answer == "ok" else " ".join(str(answer).split())


def _stamp(path: Path) -> tuple[int, int, int, bool]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, log_of(path).exists()


def _create(path: Path) -> None:
    """Create an empty store at the path atomically, unless another process is faster."""
    with contextlib.closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(_SCHEMA)
        image = bytearray(memory.serialize())
    image[18:20] = b"\2\2"  # read and write version 2: the database has a write-ahead log
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with draft.open("xb") as stream:
            stream.write(image)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:  # a file system without hard links
            if not path.exists():
                draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
