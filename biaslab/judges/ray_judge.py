"""`RayJudge`: one judge in many processes, on one or more machines, with Ray."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Iterable
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.core import BaseJudge, Judge, Request, require_kinds
from biaslab.core.checks import require_extra, require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.judges import ray_cluster
from biaslab.judges.context_blocks import blocks_of, breadth_of_blocks
from biaslab.judges.judge_file import named_judges
from biaslab.judges.replica import Description, Recipe, Replica
from biaslab.judges.replies_of_replicas import WAITING, Packs

if TYPE_CHECKING:
    from biaslab.core.schema import Dataset

_INLINE = 64_000  # bytes of a pickled data set that Ray sends within a message; larger ones go to its object store
_RETRIES = 3  # retries of calls other than answers if a replica dies
_SECONDS = 300.0  # time limit to start all replicas, including machines that must be started first
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
    Requests are sent in blocks of whole contexts (`biaslab.judges.context_blocks`), at most two blocks per replica at
    a time, so that prompts with a common prefix are computed together. Replies arrive as they are made, and a store
    saves them at once. A replica that dies is replaced, and only its unanswered requests are asked again, those of a
    block at most three times without progress. A judge's error is raised unchanged after the earlier replies; other
    replicas then end early, and their replies are yielded.

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
        self.id, self.kinds, self.prices, self.limits = description[:4]
        self.encodes, self.reads_prompts, self.score_scale, self.thought_tokens, self.thinks = description[4:]
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
            ids = {each.id for each in self._descriptions()} | {self.id}
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

    def _descriptions(self) -> list[Description]:
        """Wait for all replicas, and return their descriptions."""
        descriptions: list[Description] = ray_cluster.outcomes(
            [each.describe.remote() for each in self._actors], _SECONDS
        )
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


def _gpus_of(judge: Recipe, gpus: float | None, replicas: int) -> float:
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
