"""The replies of replicas, block by block, in the process that asks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from biaslab.core import Reply, Request
from biaslab.core.errors import JudgeError
from biaslab.judges import ray_cluster
from biaslab.judges.replica import Answered

WAITING = 2  # blocks that a replica has at once: one that it answers, one that waits beside it


class Packs(Iterator[list[tuple[Request, Reply]]]):
    """The replies of replicas, block by block as they are answered; made by `RayJudge.packs`.

    An error of a judge is raised when what was answered of its block is handed on. Other blocks are then still on their
    way: `stop` hands on what they hold.

    Parameters
    ----------
    actors : sequence
        Ray's handles of the replicas.
    blocks : iterable of list of Request
        What is asked, all different.
    judge_id : str
        Who answers.
    """

    def __init__(self, actors: Sequence[Any], blocks: Iterable[list[Request]], judge_id: str) -> None:
        from ray.util import ActorPool

        self._actors, self._pool = actors, ActorPool([*actors] * WAITING)
        self._left, self._judge_id, self._run = enumerate(blocks), judge_id, uuid4().hex
        self._sent: dict[int, list[Request]] = {}
        self._handed: list[tuple[Request, Reply]] = []  # nobody knows yet whether these could be kept
        self._error: Exception | None = None

    def __next__(self) -> list[tuple[Request, Reply]]:
        self._handed = []
        while not self._handed:
            if self._error is not None:
                error, self._error, self._left = self._error, None, enumerate(())
                raise error
            self._send()
            if not self._pool.has_next():
                raise StopIteration
            self._handed = self._receive()
        return self._handed

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Begin nothing new, let replicas end early, and yield what they have answered; nothing is raised.

        The pack that was handed on last comes again, since it is not known whether the caller could keep it.
        """
        self._end()
        handed, self._handed = self._handed, []
        yield from handed
        while self._pool.has_next():
            try:
                yield from self._receive()
            except JudgeError:  # a replica that died; the first error says what is wrong
                continue
        self._error = None

    def close(self) -> None:
        """Begin nothing new, let replicas end early, and drop what they have answered."""
        self._end()
        self._pool, self._handed, self._error = type(self._pool)([]), [], None

    def _end(self) -> None:
        self._left = enumerate(())
        for actor in self._actors if self._pool.has_next() else ():
            actor.stop.options(concurrency_group="control").remote(self._run)

    def _send(self) -> None:
        """Give every replica as many blocks as it may have at once."""
        while self._pool.has_free():
            number, block = next(self._left, (0, []))
            if not block:
                return
            self._sent[number] = block
            self._pool.submit(
                lambda actor, given: actor.answer.remote(*given), (self._run, number, self._judge_id, block)
            )

    def _receive(self) -> list[tuple[Request, Reply]]:
        """Wait for the next block that is answered."""
        with ray_cluster.as_raised():
            answered: Answered = self._pool.get_next_unordered()
        block = self._sent.pop(answered.number)
        self._error = self._error or answered.error
        return [(block[place], reply) for place, reply in answered.replies]
