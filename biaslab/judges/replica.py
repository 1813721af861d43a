"""A replica: one judge in a process of a cluster, which answers blocks of requests."""

from __future__ import annotations

import contextlib
import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from biaslab.core import BaseJudge, Closable, Judge, Pack, Reply, Request, Stoppable, as_judge
from biaslab.core.errors import BiaslabError, InputError, JudgeError
from biaslab.core.schema import Dataset

#: How to create a judge elsewhere: a name for `biaslab.load_judge`, or a module's function without arguments.
Recipe = str | Callable[[], Judge]


class Description(NamedTuple):
    """Attributes of a judge in another process."""

    id: str
    kinds: frozenset[type]
    prices: Mapping[str, float] | None
    limits: Mapping[str, float]
    encodes: bool
    reads_prompts: bool
    score_scale: str
    thought_tokens: int
    thinks: bool


class Answered(NamedTuple):
    """Some replies to a block.

    Attributes
    ----------
    replies : list of tuple
        Replies, each with the index of its request in the block.
    error : Exception or None
        What ended the block early; no more replies follow.
    """

    replies: list[tuple[int, Reply]]
    error: Exception | None = None


class Replica:
    """One judge in its own process; its methods are called remotely, with picklable arguments.

    Parameters
    ----------
    recipe : str or callable
        How to create the judge, at first use.
    dataset : Dataset, optional
        The data set that a named judge needs.
    folder : str
        The caller's working folder: relative paths refer to it if it is visible.
    environment : mapping
        Environment variables, set before importing anything that reads them.
    """

    def __init__(
        self,
        recipe: Recipe,
        dataset: Dataset | None,
        folder: str,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        os.environ.update(environment)
        self._recipe, self._dataset = recipe, dataset
        self._stopped: set[str] = set()  # names of runs to end
        with contextlib.suppress(OSError):
            os.chdir(folder)

    @cached_property
    def _judge(self) -> BaseJudge:
        from biaslab.judges import load_judge

        judge = load_judge(self._recipe, self._dataset) if isinstance(self._recipe, str) else self._recipe()
        if not isinstance(judge, Judge):
            raise InputError("judge", judge, "a function that returns a judge")
        adapted = as_judge(judge)
        if adapted.asks:
            words = "a judge that does not delegate, so that each is stored under its own id"
            remedy = "wrap the replicas instead: bl.Panel([bl.RayJudge(…), …]) or bl.Sampled(bl.RayJudge(…), k)"
            raise InputError("judge", judge.id, words, remedy)
        return adapted

    def describe(self) -> Description:
        """Return the judge's attributes; errors in creating it are raised here."""
        judge = self._judge
        prices = None if judge.prices is None else dict(judge.prices)
        own = judge.encodes, judge.reads_prompts, judge.score_scale, judge.thought_tokens, judge.thinks
        return Description(judge.id, judge.kinds, prices, dict(judge.limits), *own)

    def check(self, requests: Sequence[Request]) -> None:
        """Raise a `JudgeError` if the judge cannot answer one of the requests."""
        self._judge.check(requests)

    def encode(self, request: Request) -> list[tuple[int, ...]]:
        """Return the token sequences of a request."""
        return self._judge.encode(request)

    def stop(self, run: str) -> None:
        """End the blocks of a run after the current replies; called while another thread answers."""
        self._stopped.add(run)

    def answer(self, run: str, judge_id: str, requests: Sequence[Request]) -> Iterator[Answered]:
        """Answer a block as far as possible, yielding replies as they come; after an error, those still in flight.

        Parameters
        ----------
        run : str
            Name of the run it belongs to, for `stop`.
        judge_id : str
            The expected judge: on another type of processor, a model may have other numbers and so another id.
        requests : sequence of Request
            The block, all different.
        """
        places = {request: place for place, request in enumerate(requests)}
        packs: Iterator[Pack] = iter(())
        failure = None
        try:
            if run not in self._stopped:
                self._require(judge_id)
                packs = self._judge.packs(requests)
            for pack in packs:
                placed = [(places.pop(request, None), reply) for request, reply in pack]
                yield Answered([(place, reply) for place, reply in placed if place is not None])
                for (request, _), (place, _) in zip(pack, placed, strict=True):
                    if place is None:
                        words = f"the judge {judge_id!r} answered a request twice, or one it was not asked"
                        raise JudgeError(words, request)
                if run in self._stopped:
                    break
        except Exception as error:
            failure = _portable(error)
        for request, reply in _in_flight(packs):
            if request in places:
                yield Answered([(places.pop(request), reply)])
        if failure is not None:
            yield Answered([], failure)

    def _require(self, judge_id: str) -> None:
        if self._judge.id != judge_id:
            same = "use the same model and the same kind of processor for all replicas"
            raise JudgeError(f"a replica of the judge {judge_id!r} is another judge, {self._judge.id!r}; {same}")


def _in_flight(packs: Iterator[Pack]) -> Iterator[tuple[Request, Reply]]:
    """Yield the replies still in flight when a run ends early, because they are paid for."""
    if isinstance(packs, Stoppable):
        yield from packs.stop()
    if isinstance(packs, Closable):
        packs.close()


def _portable(error: Exception) -> Exception:
    """Return a picklable version of an error; an unexpected error carries its traceback as a note."""
    if not isinstance(error, BiaslabError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception:
        return JudgeError(f"{type(error).__name__}: {error}")
    return error
