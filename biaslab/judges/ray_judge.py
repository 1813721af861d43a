"""`RayJudge`: one judge in many processes, on one or more machines, with Ray."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

from biaslab.core.checks import require_extra, require_whole
from biaslab.core.errors import BiaslabError, InputError, JudgeError
from biaslab.core.interfaces import BaseJudge, Closable, Judge, ReplyBatch, Stoppable, as_judge, require_kinds, short
from biaslab.core.requests import Request
from biaslab.core.schema import Dataset
from biaslab.core.trials import Reply
from biaslab.judges import named_judges, ray_cluster
from biaslab.judges.in_flight import InFlight

_INLINE = 64_000  # bytes of a pickled data set that Ray sends within a message; larger ones go to its object store
_RETRIES = 3  # retries of calls other than answers if a replica dies
_SECONDS = 300.0  # time limit to start all replicas, including machines that must be started first
#: Attributes of a judge in another process that are also those of the replicas together.
_DESCRIBED = ("id", "kinds", "prices", "encodes", "reads_prompts", "score_scale", "thought_tokens", "thinks")
_ELSEWHERE = ("api", "atlas", "recorded", "simulated")  # kinds of judge names that use no GPU here


class RayJudge(BaseJudge):
    """Replicas of one judge, each in its own process, on this machine or on a Ray cluster.

    The cluster is given by the environment variable ``RAY_ADDRESS``; otherwise one is started on this machine, and
    stopped by `close` or at the end of the process. Replies are stored under the id of the judge itself, so a study
    can move between one machine and many.

    Parameters
    ----------
    judge : str or callable
        What each replica runs: a name for `biaslab.load_judge`, or an importable function that returns a judge. Judges
        that delegate wrap it: ``Panel([RayJudge(…), RayJudge(…)])``.
    replicas : int
        Number of replicas.
    gpus : float, optional
        GPUs per replica: an integer, or a fraction such as 0.5. By default 1 if the judge is a local model and the
        cluster has GPUs, else 0.
    dataset : Dataset, optional
        Source of the texts of a simulated or recorded judge.

    Attributes
    ----------
    id : str
        That of the judge, reported by a replica, because a model's precision depends on the processor.

    Raises
    ------
    InputError
        If a value is not allowed, or the judge cannot be created from its name in another process.
    MissingDependencyError
        If Ray is not installed: the extra ``ray``.
    UnreachableError
        If no cluster responds at ``RAY_ADDRESS``.
    JudgeError
        If the first replica could not be started within five minutes; or whatever creating it raises.

    Notes
    -----
    Requests are sent in blocks of whole contexts (`biaslab.judges.ray_judge`), at most two blocks per replica at
    a time, so that prompts with a common prefix are computed together. Replies arrive as they are made, and a store
    saves them at once. A replica that dies is replaced, and only its unanswered requests are asked again, those of a
    block at most three times without progress. A judge's error is raised unchanged after all replies, for which other
    replicas end early.

    Every machine needs biaslab, the judge's dependencies, and the environment variables of keys. Ray's dashboard and
    usage statistics are off in a cluster started here.

    Examples
    --------
    >>> judge = RayJudge("organisation/model", replicas=8, gpus=1)    # doctest: +SKIP
    >>> trials = bl.collect(probe, judge, data, "replies.sqlite")     # doctest: +SKIP
    """

    def __init__(
        self, judge: str | Callable[[], Judge], replicas: int, gpus: float | None = None, dataset: Dataset | None = None
    ) -> None:
        require_whole("replicas", replicas, 1)
        _require_recipe(judge)
        _require_gpus(gpus)
        require_extra("ray", f"a judge of {replicas} replicas")
        self._recipe, self._dataset, self.replicas = judge, dataset, replicas
        self._actors: list[Any] = []
        self._shared: Any = None
        self._complete = False
        try:
            ray_cluster.join(self)
            self.gpus = _gpus_of(judge, gpus, replicas)
            self._actors = [self._start()]
            description = self._descriptions()[0]
        except BaseException:
            self.close()
            raise
        self.__dict__.update(description)
        self.breadth = breadth_of_blocks(replicas)

    def __repr__(self) -> str:
        return f"RayJudge({self.id!r}, replicas={self.replicas}, gpus={self.gpus:g})"

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` with the first request that the judge cannot answer."""
        from ray.util import ActorPool

        wanted = list(dict.fromkeys(requests))
        require_kinds(self, wanted)
        pool = ActorPool(self._all() * WAITING)
        with ray_cluster.as_raised():
            for _ in pool.map(lambda actor, block: actor.check.remote(block), blocks_of(wanted, self.replicas)):
                pass

    def packs(self, requests: Iterable[Request]) -> Packs:
        """Answer every request once, in any order, yielding replies that arrive together as one pack; see `Packs`."""
        wanted = list(dict.fromkeys(requests))
        require_kinds(self, wanted)
        return Packs(self._all(), blocks_of(wanted, self.replicas), self.id, _SECONDS)

    def close(self) -> None:
        """Stop the replicas, and the cluster if it was started here and nothing else uses it; asking restarts them."""
        import ray

        for actor in self._actors if ray.is_initialized() else ():
            ray.kill(actor)
        self._actors, self._shared, self._complete = [], None, False
        ray_cluster.leave(self)

    def encode(self, request: Request) -> list[tuple[int, ...]]:
        """Return the token sequences that a request makes a replica read."""
        import ray

        self._actors = self._actors or self._all()
        with ray_cluster.as_raised():
            encoded: list[tuple[int, ...]] = ray.get(self._actors[0].encode.remote(request))
        return encoded

    def _all(self) -> list[Any]:
        """Return all replicas, starting them at first use, after checking that they are the same judge."""
        if not self._complete:
            ray_cluster.join(self)
            self._actors += [self._start() for _ in range(self.replicas - len(self._actors))]
            ids = {each["id"] for each in self._descriptions()} | {self.id}
            if len(ids) > 1:
                same = "use the same model and the same kind of processor for all replicas"
                raise JudgeError(f"the replicas are different judges, {' and '.join(sorted(ids))}; {same}")
            self._complete = True
        return self._actors

    def _start(self) -> Any:
        import ray

        actor = ray.remote(concurrency_groups={"control": 1})(Replica).options(
            num_cpus=0,  # replicas share cores, and compete only for GPUs
            num_gpus=self.gpus,
            max_restarts=-1,
            max_task_retries=_RETRIES,
            scheduling_strategy="SPREAD",
        )
        if self._shared is None and self._dataset is not None:
            # a large one is kept here, because a replacement replica needs it again; a small one is sent along
            is_large = len(pickle.dumps(self._dataset)) > _INLINE
            self._shared = ray.put(self._dataset) if is_large else self._dataset
        return actor.remote(self._recipe, self._shared, str(Path.cwd()), self._environment())

    def _environment(self) -> dict[str, str]:
        """Return environment variables of a replica: its share of the cores, and no GPU if it has none."""
        cores = max(1, int(ray_cluster.total("CPU") // self.replicas))
        threads = {} if "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": str(cores)}
        return threads if self.gpus else {**threads, "CUDA_VISIBLE_DEVICES": ""}

    def _descriptions(self) -> list[dict[str, Any]]:
        """Wait for all replicas, and return the attributes of their judges."""
        descriptions = ray_cluster.outcomes([each.describe.remote() for each in self._actors], _SECONDS)
        if len(descriptions) < len(self._actors):
            has = " and ".join(f"{ray_cluster.total(each):g} {each}s" for each in ("GPU", "CPU"))
            words = f"{len(self._actors) - len(descriptions)} of {len(self._actors)} replicas could not be started"
            remedy = "use fewer, or free resources with judge.close()"
            raise JudgeError(f"{words} within {_SECONDS:.0f} seconds on a cluster of {has}; {remedy}")
        return descriptions


def _require_recipe(judge: object) -> None:
    """Raise `InputError` unless a judge can be created in another process: from a name, or an importable function."""
    allowed = "the name of a judge, such as 'organisation/model', or a function of a module that returns one"
    if isinstance(judge, str):
        if judge.split(":")[0] == "ray" or not judge:
            raise InputError("judge", judge, allowed)
        return
    remedy = "a judge object cannot be sent to other machines; pass its name, or a function that creates it"
    if not callable(judge) or isinstance(judge, Judge) or getattr(judge, "__module__", "__main__") == "__main__":
        raise InputError("judge", judge, allowed, remedy)
    try:
        pickle.dumps(judge)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError("judge", judge, allowed, remedy) from error


def _require_gpus(gpus: object) -> None:
    good = gpus is None or (isinstance(gpus, Real) and not isinstance(gpus, bool) and 0 <= float(gpus) < math.inf)
    if not good or (gpus is not None and float(gpus) > 1 and not float(gpus).is_integer()):  # type: ignore[arg-type]
        raise InputError("gpus", gpus, "a whole number of at least 0, or a share of a GPU such as 0.5")


def _gpus_of(judge: JudgeSource, gpus: float | None, replicas: int) -> float:
    """Return the GPUs per replica; a cluster that cannot grow must have enough."""
    available = ray_cluster.total("GPU")
    wanted = float(gpus) if gpus is not None else float(available > 0 and isinstance(judge, str) and _runs_here(judge))
    if ray_cluster.is_ours() and wanted * replicas > available:
        allowed = f"at most {available / replicas:g}: this machine has {available:g} GPUs for {replicas} replicas"
        raise InputError("gpus", wanted, allowed, "use fewer replicas, or set RAY_ADDRESS to a cluster")
    return wanted


def _runs_here(name: str) -> bool:
    """Return whether a name is that of a model that runs within a replica."""
    table = named_judges().get(name)
    if table is not None:
        return "judge" in table and _runs_here(str(table["judge"]))
    return name.split(":")[0] not in _ELSEWHERE


#: How to create a judge elsewhere: a name for `biaslab.load_judge`, or a module's function without arguments.
JudgeSource = str | Callable[[], Judge]


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
        recipe: JudgeSource,
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
            raise InputError("judge", self._recipe, "a function that returns a judge", f"it returned {short(judge)}")
        adapted = as_judge(judge)
        if adapted.asks:
            words = "a judge that does not delegate, so that each is stored under its own id"
            remedy = "wrap the replicas instead: bl.Panel([bl.RayJudge(…), …]) or bl.Sampled(bl.RayJudge(…), k)"
            raise InputError("judge", judge.id, words, remedy)
        return adapted

    def describe(self) -> dict[str, Any]:
        """Return the judge's attributes; errors in creating it are raised here."""
        return {name: getattr(self._judge, name) for name in _DESCRIBED} | {"limits": dict(self._judge.limits)}

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
        packs: Iterator[ReplyBatch] = iter(())
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


def _in_flight(packs: Iterator[ReplyBatch]) -> Iterator[tuple[Request, Reply]]:
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


WAITING = 2  # blocks per replica at a time: one being answered, one waiting
_DEATHS = 3  # how often the rest of a block is retried after a replica died, without a reply in between
_UNREAD = 1  # unread messages after which a replica waits for the calling process


@dataclass(eq=False)
class _Block:
    """Requests that are sent together, those still unanswered, and how many replicas died since the last reply."""

    requests: Sequence[Request]
    deaths: int = 0

    def __post_init__(self) -> None:
        self.open = dict(enumerate(self.requests))
        self.actor: Any = None


class Packs(InFlight[_Block]):
    """The replies of replicas, in packs of all that have arrived by now. Made by `RayJudge.packs`.

    A replica sends each reply as it comes, and pauses at an unread message of a block, so that nearly all paid
    replies are in the calling process. If a replica dies, the rest of its blocks is retried by any replica; its
    replacement joins when ready. After an error the other replicas end their blocks early.

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
        super().__init__(map(_Block, blocks), WAITING * len(actors))
        self._actors, self._free = actors, deque([*actors] * WAITING)
        self._left, self._judge_id, self._run = deque[_Block](), judge_id, uuid4().hex
        self._streams: dict[Any, _Block] = {}  # by Ray's generator of their replies
        self._returning: dict[Any, Any] = {}  # replicas that died, by the pending call that returns when they are back
        self._seconds = seconds

    def _start(self, work: Sequence[_Block]) -> None:
        self._left.extend(work)
        self._dispatch()

    def _cease(self) -> None:
        """Tell the replicas to end the blocks of this run."""
        import ray

        while self._left:
            self._ended(self._left.popleft())
        self._returning.clear()
        for actor in self._actors if self._streams and ray.is_initialized() else ():
            actor.stop.options(concurrency_group="control").remote(self._run)

    def _drop(self) -> None:
        self._streams = {}

    def _dispatch(self) -> None:
        """Send blocks to the replicas that are free for one."""
        while self._free and self._left:
            block = self._left.popleft()
            block.actor = self._free.popleft()
            answer = block.actor.answer.options(
                num_returns="streaming",
                max_task_retries=0,  # Ray would ask the whole block again
                _generator_backpressure_num_objects=_UNREAD,
            )
            self._streams[answer.remote(self._run, self._judge_id, block.requests)] = block

    def _receive(self, seconds: float) -> None:
        """Wait for a message, and take all that have arrived."""
        import ray

        awaited = [*self._streams, *self._returning]
        seconds = seconds if self._streams else min(seconds, self._seconds)
        if not ray.wait(awaited, num_returns=1, timeout=None if seconds == math.inf else seconds)[0]:
            if not self._is_ending:
                words = f"no replica was replaced within {seconds:.0f} seconds"
                self._fail(JudgeError(f"{words}; {ray_cluster.AGAIN}"))
            return
        for each in ray.wait(awaited, num_returns=len(awaited), timeout=0)[0]:
            try:
                with ray_cluster.as_raised():
                    if each in self._streams:
                        self._take(each)
                    elif each in self._returning:
                        actor = self._returning.pop(each)
                        ray.get(each)
                        self._free.append(actor)
            except Exception as error:
                if each in self._streams:
                    self._ended(self._streams.pop(each))
                self._fail(error)
        self._dispatch()

    def _take(self, stream: Any) -> None:
        """Take the next replies of a block."""
        import ray

        block = self._streams[stream]
        try:
            answered: Answered = ray.get(next(stream))
        except StopIteration:
            del self._streams[stream]
            self._free.append(block.actor)
            self._ended(block)
            return
        except ray.exceptions.RayActorError:
            block.deaths += 1
            if block.deaths > _DEATHS:
                raise
            del self._streams[stream]
            self._returning[block.actor.describe.remote()] = block.actor
            if block.open and not self._is_ending:
                rest = _Block([*block.open.values()], block.deaths)
                self._in_flight.add(rest)
                self._left.appendleft(rest)
            self._ended(block)
            return
        block.deaths = 0
        if answered.error is not None:
            self._fail(answered.error)
        self._arrived.extend((block.open.pop(place), reply) for place, reply in answered.replies)


#: Maximum number of requests per block. Larger contexts are split, at the cost of one more shared prefix per block.
LARGEST = 1024
_FEW = 128  # contexts are joined up to this number of requests, so that a block is worth sending
_EACH = 8  # minimum number of blocks per replica, if contexts allow it, so that all finish at about the same time


def blocks_of(requests: Iterable[Request], replicas: int) -> list[list[Request]]:
    """Cut distinct requests into blocks of whole contexts.

    Parameters
    ----------
    requests : iterable of Request
        The requests; of equal ones only the first is used. A request's context comes from its ``about``; without one,
        it is its own context.
    replicas : int
        Number of judges that answer blocks in parallel.

    Returns
    -------
    list of list of Request
        Every request once. A context lies in one block unless it has more than `LARGEST` requests, in which case it is
        split into blocks of its own. Contexts are in the order of their first requests, and their requests in the
        given order.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=6)
    >>> requests = [trial.request for trial in bl.probes.Position(templates=[1]).design(data)]
    >>> [len(block) for block in blocks_of(requests, replicas=2)]
    [120, 120, 120, 120, 120, 120]
    """
    contexts = _by_context(requests)
    wanted = math.ceil(sum(map(len, contexts)) / (_EACH * replicas))
    return list(_joined(contexts, min(max(wanted, 1), _FEW)))


def breadth_of_blocks(replicas: int) -> int:
    """Return the number of requests that gives about 16 blocks per replica, so that little time is idle at the end."""
    return 2 * _EACH * _FEW * replicas


def _by_context(requests: Iterable[Request]) -> list[list[Request]]:
    """Group distinct requests by context; a request without one is its own context."""
    contexts: dict[object, list[Request]] = {}
    for place, request in enumerate(dict.fromkeys(requests)):
        key = place if request.about is None else request.about.context_id
        contexts.setdefault(key, []).append(request)
    return list(contexts.values())


def _joined(contexts: Sequence[list[Request]], enough: int) -> Iterator[list[Request]]:
    """Join contexts until a block has enough requests, and cut blocks that are too large."""
    block: list[Request] = []
    for context in contexts:
        if block and len(context) > LARGEST:
            yield block
            block = []
        block += context
        if len(block) >= enough:
            yield from (block[start : start + LARGEST] for start in range(0, len(block), LARGEST))
            block = []
    if block:
        yield block
