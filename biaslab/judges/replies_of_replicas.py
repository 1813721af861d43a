"""The replies of replicas as they arrive, in the calling process."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from biaslab.core import Reply, Request
from biaslab.core.errors import JudgeError
from biaslab.core.stopping import seconds_left
from biaslab.judges import ray_cluster
from biaslab.judges.replica import Answered

WAITING = 2  # blocks per replica at a time: one being answered, one waiting
_DEATHS = 3  # how often the rest of a block is retried after a replica died, without a reply in between
_UNREAD = 1  # unread messages after which a replica waits for the calling process


@dataclass
class _Block:
    """Requests that are sent together, those still unanswered, and how many replicas died since the last reply."""

    requests: Sequence[Request]
    deaths: int = 0

    def __post_init__(self) -> None:
        self.open = dict(enumerate(self.requests))
        self.actor: Any = None


class Packs(Iterator[list[tuple[Request, Reply]]]):
    """The replies of replicas; each pack holds all that have arrived by now. Made by `RayJudge.packs`.

    A replica sends each reply as it comes, and pauses at an unread message of a block, so that nearly all paid
    replies are in the calling process. If a replica dies, the rest of its blocks is retried by any replica; its
    replacement joins when ready. A judge's error is raised after the earlier replies were yielded. Other blocks are
    then still in flight: `stop` yields their replies.

    Parameters
    ----------
    actors : sequence
        Ray's handles of the replicas.
    blocks : iterable of list of Request
        The requests, all different.
    judge_id : str
        The judge that answers.
    seconds : float
        How long replacing a replica may take while no other one answers.
    """

    def __init__(
        self, actors: Sequence[Any], blocks: Iterable[list[Request]], judge_id: str, seconds: float = math.inf
    ) -> None:
        self._actors, self._free = actors, deque([*actors] * WAITING)
        self._left, self._judge_id, self._run = deque(map(_Block, blocks)), judge_id, uuid4().hex
        self._streams: dict[Any, _Block] = {}  # by Ray's generator of their replies
        self._returning: dict[Any, Any] = {}  # replicas that died, by the pending call that returns when they are back
        self._seconds = seconds
        self._handed: list[tuple[Request, Reply]] = []  # yielded, but perhaps not stored yet
        self._error: Exception | None = None

    def __next__(self) -> list[tuple[Request, Reply]]:
        self._handed = []
        while not self._handed:
            if self._error is not None:
                error, self._error = self._error, None
                self._left.clear()
                raise error
            self._send()
            if not self._streams and not self._left:
                raise StopIteration
            self._handed = self._receive(math.inf if self._streams else self._seconds)
        return self._handed

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Start nothing new, let replicas end early, and yield their replies; nothing is raised.

        The last pack is repeated, because the caller may not have stored it.
        """
        self._end()
        handed, self._handed = self._handed, []
        yield from handed
        while self._streams and (left := seconds_left()):
            yield from self._receive(left)
        self._error = None

    def close(self) -> None:
        """Start nothing new, let replicas end early, and drop their replies."""
        self._end()
        self._streams, self._handed, self._error = {}, [], None

    def _end(self) -> None:
        """Send nothing more, and tell the replicas to end the blocks of this run."""
        import ray

        self._left.clear()
        self._returning.clear()
        for actor in self._actors if self._streams and ray.is_initialized() else ():
            actor.stop.options(concurrency_group="control").remote(self._run)

    def _send(self) -> None:
        """Send every replica as many blocks as it may have at a time."""
        while self._free and self._left:
            block = self._left.popleft()
            block.actor = self._free.popleft()
            answer = block.actor.answer.options(
                num_returns="streaming",
                max_task_retries=0,  # Ray would ask the whole block again
                _generator_backpressure_num_objects=_UNREAD,
            )
            self._streams[answer.remote(self._run, self._judge_id, block.requests)] = block

    def _receive(self, seconds: float) -> list[tuple[Request, Reply]]:
        """Wait for a message, and return all replies that have arrived; the first error is recorded."""
        import ray

        awaited = [*self._streams, *self._returning]
        timeout = None if seconds == math.inf else seconds
        if not ray.wait(awaited, num_returns=1, timeout=timeout)[0]:
            words = f"no replica was replaced within {seconds:.0f} seconds"
            self._error = self._error or JudgeError(f"{words}; {ray_cluster.AGAIN}")
        replies: list[tuple[Request, Reply]] = []
        for each in ray.wait(awaited, num_returns=len(awaited), timeout=0)[0]:
            try:
                with ray_cluster.as_raised():
                    if each in self._streams:
                        replies += self._take(each)
                    else:
                        actor = self._returning.pop(each)
                        ray.get(each)
                        self._free.append(actor)
            except Exception as error:
                self._streams.pop(each, None)
                self._error = self._error or error
        return replies

    def _take(self, stream: Any) -> list[tuple[Request, Reply]]:
        """Return the next replies of a block."""
        import ray

        block = self._streams[stream]
        try:
            answered: Answered = ray.get(next(stream))
        except StopIteration:
            del self._streams[stream]
            self._free.append(block.actor)
            return []
        except ray.exceptions.RayActorError:
            del self._streams[stream]
            self._returning[block.actor.describe.remote()] = block.actor
            block.deaths += 1
            if block.deaths > _DEATHS:
                raise
            if block.open:
                self._left.appendleft(_Block([*block.open.values()], block.deaths))
            return []
        block.deaths = 0
        self._error = self._error or answered.error
        return [(block.open.pop(place), reply) for place, reply in answered.replies]
