"""Keep N requests in flight, and lose no reply that is paid for: behind functions, servers and replicas.

A judge's own part is to start pieces of work and to say which have ended; threads, tasks of an event loop and replicas
do this. The engine limits their number, hands replies on, and ends a run: on its own, by an error, or by a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from biaslab.core.requests import Request
from biaslab.core.stopping import note_dropped, seconds_left
from biaslab.core.trials import Reply

Work = TypeVar("Work")


class InFlight(Iterator[list[tuple[Request, Reply]]], Generic[Work]):
    """Replies in order of completion, in packs of all that have arrived.

    Replies that wait for the caller count as in flight, so that no more than that is lost with a process that is
    killed. After an error nothing more is started; replies in flight are yielded, and then the error is raised.

    Parameters
    ----------
    work : iterable
        Hashable pieces of work, all different: requests, or blocks of them.
    most : int
        Maximum number of pieces in flight.
    grace : float
        Seconds to wait for what is in flight when a run ends early.

    Notes
    -----
    A subclass defines `_start`, and `_cease` and `_drop` where there is something to end. It reports to `_ended`, from
    any thread. Nothing here holds a lock, because a signal may interrupt any line, and its handler calls `stop`.
    """

    def __init__(self, work: Iterable[Work], most: int, grace: float = math.inf) -> None:
        self._waiting, self._most, self._grace = iter(work), most, grace
        self._in_flight: set[Work] = set()
        self._arrived: deque[tuple[Request, Reply]] = deque()  # kept until the next pack is asked for
        self._handed = 0  # how many of these were yielded, but are perhaps not stored yet
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_ending, self._until = False, math.inf
        self._error: BaseException | None = None

    def __next__(self) -> list[tuple[Request, Reply]]:
        """Wait for at least one reply, and return all that have arrived."""
        for _ in range(self._handed):
            self._arrived.popleft()
        self._handed = 0
        while True:
            self._send()
            is_idle = not self._in_flight  # read first: a reply may arrive between the two looks
            if self._arrived:
                break
            if is_idle:
                error = self._outcome()
                self.close()
                raise StopIteration if error is None else error
            self._wait()
        self._handed = len(self._arrived)
        return [self._arrived[at] for at in range(self._handed)]

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Start nothing more; yield replies in flight as they arrive, because they are paid for; nothing is raised.

        The last pack is repeated, because the caller may not have stored it.
        """
        self._end()
        self._handed = 0
        while True:
            is_idle = not self._in_flight
            while self._arrived:
                reply = self._arrived[0]  # kept until the caller has stored it
                yield reply
                if self._arrived and self._arrived[0] is reply:
                    self._arrived.popleft()
            if is_idle:
                break
            self._wait()
        self.close()

    def close(self) -> None:
        """Start nothing more, and drop what is in flight."""
        self._end()
        note_dropped(len(self._in_flight) + len(self._arrived) - self._handed)
        self._drop()
        self._in_flight.clear()
        self._arrived.clear()
        self._handed, self._error = 0, None

    def _start(self, work: Sequence[Work]) -> None:
        """Start pieces of work, without waiting for them."""
        raise NotImplementedError

    def _cease(self) -> None:
        """End what has cost nothing yet; called once, from any thread, when nothing more is to be sent."""

    def _drop(self) -> None:
        """End everything at once."""

    def _outcome(self) -> BaseException | None:
        """Return the error to raise at the end."""
        return self._error

    def _ended(
        self, work: Work, replies: Iterable[tuple[Request, Reply]] = (), error: BaseException | None = None
    ) -> None:
        """Record the end of a piece of work; called from any thread."""
        if work in self._in_flight:  # not dropped
            if error is not None:
                self._fail(error)
            self._arrived.extend(replies)
            self._in_flight.discard(work)
        self._news.put(None)

    def _fail(self, error: BaseException) -> None:
        """Send nothing more, and raise the error (the first of several) after the replies in flight."""
        self._error = self._error or error
        self._end()

    def _end(self) -> None:
        if not self._is_ending:
            self._is_ending, self._until = True, time.monotonic() + self._grace
            self._cease()

    def _send(self) -> None:
        work = [] if self._is_ending else list(islice(self._waiting, max(self._room(), 0)))
        if work:
            self._in_flight.update(work)
            self._start(work)

    def _room(self) -> int:
        """Return the number of pieces that may be started now."""
        return self._most - len(self._in_flight) - len(self._arrived)

    def _wait(self) -> None:
        """Wait until something has ended; at the end of a run, as long as there is time."""
        left = min(self._until - time.monotonic(), seconds_left()) if self._is_ending else math.inf
        if left > 0:
            self._receive(left)
        else:
            note_dropped(len(self._in_flight))
            self._drop()
            self._in_flight.clear()

    def _receive(self, seconds: float) -> None:
        """Wait for news."""
        with contextlib.suppress(queue.Empty):
            self._news.get(timeout=None if seconds > threading.TIMEOUT_MAX else seconds)
            while True:
                self._news.get_nowait()


class Loop:
    """An event loop in a daemon thread, so that a judge works inside Jupyter's own running loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="biaslab-loop", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """Return whether the thread runs; after a fork it does not."""
        return self._thread.is_alive()

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Schedule a function in the loop's thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(function, *arguments)

    def wait(self, work: Coroutine[Any, Any, object], seconds: float | None = None) -> Any:
        """Run a coroutine in the loop's thread and wait for its result, unless called from that thread."""
        if threading.current_thread() is self._thread:
            return self.loop.create_task(work)
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def close(self) -> None:
        """End the thread, whatever it is doing."""
        if self._thread.is_alive():
            self.call(self.loop.stop)
            if threading.current_thread() is not self._thread:
                self._thread.join(5)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=1) if tasks else asyncio.sleep(0))
        finally:
            self.loop.close()
