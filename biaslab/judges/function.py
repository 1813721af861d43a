"""Any function as a judge: a pipeline, a rule, a model behind your own code."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from biaslab.core import LIMITS, BaseJudge, Compare, Completion, Judge, Rank, Reply, Request, Score
from biaslab.core.checks import check_spending, require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.own_code import own_object
from biaslab.core.stopping import seconds_left
from biaslab.judges.returned import read_returned

_PAIR, _ONE, _LIST, _PROMPT = ("first", "second"), ("candidate",), ("candidates",), ("prompt",)
_SHOWN = ("context", "reference", "attribute")
_FIRST_WAIT = 0.5  # seconds before the first retry; doubled for each further one


class FunctionJudge(BaseJudge):
    """A judge defined by a function, plain or async.

    Parameters
    ----------
    function : callable
        Its argument names determine what it is asked: ``fn(context, first, second)`` compares two texts,
        ``fn(context, candidate)`` scores one, ``fn(context, candidates)`` picks or ranks those in a list, and
        ``fn(prompt)`` answers prompts, such as those of a `biaslab.Protocol`. It may also declare ``reference`` and
        ``attribute``; arguments are passed by name.
    name : str
        Display name in tables and figures; by default the function's name.
    version : str
        Version of the function, part of the id. Change it when the function changes; otherwise stored replies are
        reused.
    scale : (low, high)
        Range of the scores returned by a function of one candidate.
    concurrency : int
        Number of parallel calls.
    retries : int
        How often a call that raised is retried, after half a second, one, two, …
    limits : mapping of str to float, optional
        Maximum number of calls in a run: ``{"requests": 500}``.

    Attributes
    ----------
    id : str
        ``function:NAME@VERSION``, plus the scale if it is not 1 to 5.

    Raises
    ------
    InputError
        If the function has none of these arguments, or requires others.

    Notes
    -----
    A function of two texts returns ``"first"``, ``"second"`` or ``"tie"``; the probability that the first wins, where
    ½ is a tie; or a mapping of these names to probabilities. A function of a list of texts returns the index of the
    best from 0, or its name in prompts (``"[1]"`` for the first); a list of these from best to worst; or a mapping of
    indices to probabilities. ``None`` is a refusal. An exception is a failed call, never a verdict: the answers so far
    are kept, and the error names the line.

    Examples
    --------
    >>> import biaslab as bl
    >>> def longer(first, second):
    ...     return "first" if len(first) > len(second) else "second"
    >>> data, probe = bl.load_dataset("graded", limit=8), bl.probes.Position(["coherence"])
    >>> trials = bl.collect(probe, FunctionJudge(longer), data, progress=False)
    >>> probe.estimate(trials, ["order_consistency"])["estimate"].item()  # below 1: of equal lengths, the second wins
    0.975
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str = "",
        version: str = "1",
        *,
        scale: tuple[float, float] = (1.0, 5.0),
        concurrency: int = 8,
        retries: int = 2,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        if not callable(function):
            raise InputError("function", function, "a function")
        require_whole("concurrency", concurrency, 1)
        require_whole("retries", retries, 0)
        if not scale[0] < scale[1]:
            raise InputError("scale", scale, "two bounds, the lower one first")
        self.function, self.scale, self.concurrency, self.retries = function, scale, concurrency, retries
        self._arguments = _arguments_of(function)
        self.kinds = frozenset({_kind_of(self._arguments, function)})
        self.reads_prompts = Completion in self.kinds
        self.limits = dict(limits or {})
        check_spending("limits", self.limits, LIMITS)
        self.breadth = concurrency
        suffix = "" if tuple(scale) == (1.0, 5.0) else f":{scale[0]:g}-{scale[1]:g}"
        self.id = f"function:{name or _name_of(function)}@{version}{suffix}"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    def __repr__(self) -> str:
        return f"FunctionJudge({self.id!r})"

    def ask(self, requests: Iterable[Request]) -> _Calls:
        """Answer each request once, as soon as the function returns."""
        wanted = list(requests)
        self.check(wanted)
        return _Calls(self._answer, wanted, self.concurrency)

    def _answer(self, request: Request) -> Reply:
        """Call the function, retrying if it raises, and parse its result."""
        arguments = {name: value for name, value in _available_arguments(request).items() if name in self._arguments}
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(_FIRST_WAIT * 2 ** (attempt - 1))
            try:
                return read_returned(request, self._called(arguments), _name_of(self.function), self.scale)
            except JudgeError:
                raise
            except Exception as error:
                failed = error
        place = traceback.extract_tb(failed.__traceback__)[-1]
        failure = f"{type(failed).__name__}{f' {self.retries + 1} times' if self.retries else ''}: {failed}"
        where = f"{place.filename}:{place.lineno}"
        raise JudgeError(f"{_name_of(self.function)} raised {failure} ({where})", request) from failed

    def _called(self, arguments: Mapping[str, Any]) -> Any:
        """Call the function, and await its result if it is async."""
        result = self.function(**arguments)
        if not inspect.isawaitable(result):
            return result
        with self._starting:  # one loop for all calls, because clients belong to the loop in which they were first used
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="biaslab-function", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(_awaited(result), self._loop).result()


def load_named(name: str) -> FunctionJudge:
    """Make the judge of a name such as ``"python:my_module:my_function"``, of the current folder or installed.

    Raises
    ------
    InputError
        If the module or the function does not exist.
    """
    function = own_object("judge", name)
    return function if isinstance(function, FunctionJudge) else FunctionJudge(function)


class _Calls(Iterator[tuple[Request, Reply]]):
    """Concurrent calls, yielded as they return; calls in progress finish even after a stop or failure."""

    def __init__(self, call: Callable[[Request], Reply], requests: Sequence[Request], concurrency: int) -> None:
        self._call, self._requests = call, iter(requests)
        self._pool = ThreadPoolExecutor(min(concurrency, max(len(requests), 1)), "biaslab-function")
        self._done: queue.SimpleQueue[tuple[Request, Reply | BaseException]] = queue.SimpleQueue()
        self._under_way = 0
        self._error: BaseException | None = None
        for _ in range(concurrency):
            self._send()

    def _send(self) -> None:
        """Start the next call, unless an earlier one failed."""
        request = next(self._requests, None) if self._error is None else None
        if request is not None:
            self._under_way += 1
            self._pool.submit(self._run, request)

    def _run(self, request: Request) -> None:
        """Make one call in a thread; put the reply, or the error, in the queue."""
        try:
            self._done.put((request, self._call(request)))
        except BaseException as error:
            self._done.put((request, error))

    def __next__(self) -> tuple[Request, Reply]:
        while self._under_way:
            request, reply = self._done.get()
            self._under_way -= 1
            if isinstance(reply, Reply):
                self._send()
                return request, reply
            self._error = self._error or reply
        self.close()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopIteration

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Start no more calls; yield those that still return."""
        self._requests = iter(())
        while self._under_way:
            try:
                request, reply = self._done.get(timeout=min(seconds_left(), threading.TIMEOUT_MAX))
            except queue.Empty:  # the grace period after a signal is over
                break
            self._under_way -= 1
            if isinstance(reply, Reply):
                yield request, reply
        self.close()

    def close(self) -> None:
        """Start no more calls, and drop those in progress."""
        self._requests = iter(())
        self._pool.shutdown(wait=False, cancel_futures=True)


def _arguments_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the argument names of a function; all known ones if it accepts any."""
    known = {*_SHOWN, *_PAIR, *_ONE, *_LIST, *_PROMPT}
    try:
        declared = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InputError("function", function, "a function with a signature", "wrap it in a def") from error
    strange = [
        each.name
        for each in declared
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and each.default is each.empty
        and (each.name not in known or each.kind is each.POSITIONAL_ONLY)
    ]
    if strange:
        allowed = "first and second, candidate, candidates, or prompt; also context, reference, attribute"
        raise InputError("argument of the function", strange[0], allowed, "give other arguments a default")
    return frozenset(each.name for each in declared if each.name in known)


def _kind_of(arguments: frozenset[str], function: Callable[..., Any]) -> type:
    """Return the kind of request that a function answers, by its argument names."""
    asked = [
        kind
        for names, kind in ((_PAIR, Compare), (_ONE, Score), (_LIST, Rank), (_PROMPT, Completion))
        if set(names) <= arguments
    ]
    if len(asked) != 1:
        allowed = "one of the arguments first and second, candidate, candidates, or prompt"
        remedy = "give an instance of the class" if isinstance(function, type) else "a decorator needs functools.wraps"
        raise InputError("function", _name_of(function), allowed, "" if len(asked) > 1 or arguments else remedy)
    return asked[0]


def _available_arguments(request: Request) -> dict[str, Any]:
    """Return the argument values available for a request, by name."""
    if isinstance(request, Completion):
        return {"prompt": "\n\n".join(message.content for message in request.messages)}
    assert isinstance(request, Compare | Score | Rank)  # noqa: S101 - `check` has seen to it
    shown = {"context": request.source, "reference": request.reference, "attribute": request.attribute}
    if isinstance(request, Compare):
        return shown | {"first": request.first, "second": request.second}
    if isinstance(request, Rank):
        return shown | {"candidates": list(request.texts)}
    return shown | {"candidate": request.text}


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def judge_of(judge: Judge | Callable[..., Any]) -> Judge:
    """Return a judge unchanged, or wrap a function as a judge.

    Examples
    --------
    >>> def longer(first, second):
    ...     return "first" if len(first) > len(second) else "second"
    >>> judge_of(longer).id.startswith("function:")
    True
    """
    if callable(judge) and not isinstance(judge, type) and not hasattr(judge, "ask"):
        return FunctionJudge(judge)
    return cast(Judge, judge)
