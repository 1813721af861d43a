"""Room for what is paid for but not yet stored, so that a full disk loses nothing."""

from __future__ import annotations

import contextlib
from pathlib import Path

from biaslab.core.errors import StoreError

BYTES = 4 * 2**20  # more than the replies that a judge has on their way need, with SQLite's log


class Reserve:
    """A file beside a store that is given up when the disk is full, and always when the judge was asked.

    Parameters
    ----------
    path : Path
        The store's.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, path.with_name(f".{path.name}.reserve")

    def take(self) -> None:
        """Take the room.

        Raises
        ------
        StoreError
            If it is not there.
        """
        try:
            with self._file.open("wb") as stream:
                stream.write(bytes(BYTES))
        except OSError as error:
            self.release()
            few = f"less than {BYTES / 2**20:.0f} MiB can be written beside {self.path} ({error.strerror})"
            raise StoreError(
                f"{few}; free some space and run again, which asks only what is missing", self.path
            ) from None

    def release(self) -> None:
        """Give the room back."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
