"""Requests in flight in one process, for which others with the same store wait instead of asking too.

Each run has a file next to the store with the keys it claims, and a lock on that file which ends with its process:
claims of a killed process are free at once. A run that stores no reply for ten minutes loses its claims too.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # Windows, on which every process asks on its own
    fcntl = None  # type: ignore[assignment]

LEASE = 600.0  # seconds without a reply; more than one attempt of a judge behind a server may take
_MUTEX = "mutex"
_process = {"name": uuid4().hex}


class Claims:
    """The claims of one run; there are none if files cannot be locked.

    Parameters
    ----------
    store : Path
        The store's file, next to which the claims are.
    """

    def __init__(self, store: Path) -> None:
        self._folder = store.with_name(f".{store.name}.claims")
        self._file = self._folder / f"{_process['name']}-{uuid4().hex}"
        self._lock: int | None = None

    def take(self, keys: Iterable[str]) -> set[str]:
        """Claim those keys that no other living process has claimed, and return them."""
        wanted = set(keys)
        if fcntl is None:
            return wanted
        try:
            with self._alone():
                free = wanted - self._of_others()
                if free:
                    self._write(free)
                return free
        except OSError:
            return wanted

    def renew(self) -> None:
        """Record that a reply was stored."""
        with contextlib.suppress(OSError):
            os.utime(self._file)

    def close(self) -> None:
        """Release all claims."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        with contextlib.suppress(OSError), self._alone():
            self._file.unlink(missing_ok=True)
            if [each.name for each in self._folder.iterdir()] == [_MUTEX]:
                (self._folder / _MUTEX).unlink()
                self._folder.rmdir()
        os.close(lock)

    def _write(self, keys: set[str]) -> None:
        if self._lock is None:
            self._lock = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, "".join(f"{key}\n" for key in sorted(keys)).encode())

    def _of_others(self) -> set[str]:
        """Return the keys that other processes claim, and remove the files of those that have ended."""
        claimed: set[str] = set()
        for file in self._folder.iterdir():
            if file.name == _MUTEX or file.name.startswith(_process["name"]):
                continue
            with contextlib.suppress(FileNotFoundError):  # that run has just ended
                if not _is_locked(file):
                    file.unlink()
                elif time.time() - file.stat().st_mtime < LEASE:
                    claimed.update(file.read_text(encoding="utf-8").split())
        return claimed

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Let only one run at a time access the files."""
        while True:
            self._folder.mkdir(exist_ok=True)
            try:
                mutex = os.open(self._folder / _MUTEX, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            except FileNotFoundError:  # the last other run has just removed the folder
                continue
            fcntl.flock(mutex, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(mutex).st_ino == (self._folder / _MUTEX).stat().st_ino:
                    break
            os.close(mutex)
        try:
            yield
        finally:
            os.close(mutex)


def _is_locked(file: Path) -> bool:
    """Return whether the process that created a file is alive."""
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _rename() -> None:
    _process["name"] = uuid4().hex


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rename)
