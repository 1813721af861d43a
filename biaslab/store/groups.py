"""Join replies that a judge gives at once, so that they share a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from biaslab.core import Closable, Pack, Reply, Request, Stoppable

AT_ONCE = 0.001  # seconds; a reply that cost something takes longer
TOGETHER = 0.005  # maximum seconds that a reply waits for others


class Groups(Iterator[Pack]):
    """Packs of a judge; single replies are joined while each takes less than a millisecond, for at most five.

    A transaction takes longer than such replies, which cost nothing and may be lost in a kill. Those of judges with
    requests in flight (`biaslab.core.Stoppable`) are not joined: their packs hold whatever has arrived.

    Parameters
    ----------
    packs : iterator of packs
        From the ``packs`` of a judge.
    joins : bool
        Whether to join single replies at all.
    """

    def __init__(self, packs: Closable[Pack], joins: bool) -> None:
        self._packs = packs
        self.in_flight = isinstance(packs, Stoppable)
        self._joins = joins and not self.in_flight
        self._group: list[tuple[Request, Reply]] = []  # kept until the next one is asked for
        self._error: Exception | None = None

    def __next__(self) -> Pack:
        """Return the next group; an error or the end is raised once the replies before it were returned."""
        if not self._joins:
            return next(self._packs)
        if self._error is not None:
            raise self._error
        self._group = []
        group = self._group
        began = asked = perf_counter()
        while True:
            try:
                pack = next(self._packs)
            except Exception as error:
                if not group:
                    raise
                self._error = error
                return group
            group += pack
            now = perf_counter()
            if len(pack) > 1 or now - asked > AT_ONCE or now - began > TOGETHER:
                return group
            asked = now

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Begin nothing new; yield the replies of the last group, and those that still arrive."""
        yield from self._group
        if isinstance(self._packs, Stoppable):
            yield from self._packs.stop()

    def close(self) -> None:
        """Begin nothing new, and drop what is in flight."""
        self._packs.close()
