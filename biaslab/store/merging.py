"""Merge several stores into one, for example those of parallel runs of a study."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from biaslab.core.errors import InputError, StoreError
from biaslab.core.output import replacing, require_file
from biaslab.store.schema import COLUMNS, connect, log_of, prepare

_LISTED = ", ".join(COLUMNS)
_COPY = f"INSERT OR IGNORE INTO replies ({_LISTED}) SELECT {_LISTED} FROM given.replies ORDER BY position"  # noqa: S608
_OTHER = (
    "SELECT count(*), min(theirs.key) FROM given.replies theirs JOIN main.replies ours USING (key)"
    " WHERE ours.reply <> theirs.reply"
)


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


def merge_stores(
    out: str | os.PathLike[str], stores: Sequence[str | os.PathLike[str]], first_wins: bool = False
) -> Merged:
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
