"""Any function as a judge: a pipeline, a rule, a model behind your own code."""

from __future__ import annotations

import inspect
import math
import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, cast

import numpy as np

from biaslab.core.checks import check_spending, fits, require_whole
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.interfaces import LIMITS, BaseJudge, Judge, short
from biaslab.core.project import own_object
from biaslab.core.requests import Compare, Completion, Rank, Request, Score
from biaslab.core.trials import Reply
from biaslab.judges.in_flight import InFlight, Loop

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
        if not fits(scale, tuple[float, float]) or not scale[0] < scale[1]:
            raise InputError("scale", scale, "two numbers, the lower one first, such as (1, 5)")
        self.function, self.scale, self.concurrency, self.retries = function, scale, concurrency, retries
        self._arguments = _arguments_of(function)
        self.kinds = frozenset({_kind_of(self._arguments, function)})
        self.reads_prompts = Completion in self.kinds
        self.limits = dict(limits or {})
        check_spending("limits", self.limits, LIMITS)
        self.breadth = concurrency
        suffix = "" if tuple(scale) == (1.0, 5.0) else f":{scale[0]:g}-{scale[1]:g}"
        self.id = f"function:{name or _name_of(function)}@{version}{suffix}"
        self._loop: Loop | None = None
        self._starting = threading.Lock()

    def __repr__(self) -> str:
        return f"FunctionJudge({self.id!r})"

    def packs(self, requests: Iterable[Request]) -> _Calls:
        """Answer each request once, as soon as the function returns."""
        wanted = list(dict.fromkeys(requests))
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
            self._loop = self._loop or Loop()

        async def awaited() -> Any:
            return await result

        return self._loop.wait(awaited())


def load_named(name: str) -> FunctionJudge:
    """Make the judge of a name such as ``"python:my_module:my_function"``, of the current folder or installed.

    Raises
    ------
    InputError
        If the module or the function does not exist.
    """
    function = own_object("judge", name)
    return function if isinstance(function, FunctionJudge) else FunctionJudge(function)


class _Calls(InFlight[Request]):
    """Concurrent calls in threads; those in progress finish even after a stop or failure."""

    def __init__(self, call: Callable[[Request], Reply], requests: Sequence[Request], concurrency: int) -> None:
        super().__init__(requests, concurrency)
        self._call = call
        self._pool = ThreadPoolExecutor(min(concurrency, max(len(requests), 1)), "biaslab-function")
        self._unstarted = deque[Request]()

    def _start(self, work: Sequence[Request]) -> None:
        self._unstarted.extend(work)
        while self._unstarted:
            request = self._unstarted.popleft()
            try:
                self._pool.submit(self._run, request)
            except RuntimeError as error:  # the system allows no further thread
                self._ended(request, error=error)

    def _cease(self) -> None:
        while self._unstarted:
            self._ended(self._unstarted.popleft())

    def _run(self, request: Request) -> None:
        try:
            self._ended(request, [(request, self._call(request))])
        except BaseException as error:
            self._ended(request, error=error)

    def _drop(self) -> None:
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
    kinds = ((_PAIR, Compare), (_ONE, Score), (_LIST, Rank), (_PROMPT, Completion))
    asked = [kind for names, kind in kinds if set(names) <= arguments]
    if len(asked) != 1:
        allowed = "those of one kind of judge: first and second, candidate, candidates, or prompt"
        remedy = "give an instance of the class" if isinstance(function, type) else "a decorator needs functools.wraps"
        named = f"list of arguments of {_name_of(function)}"
        raise InputError(named, sorted(arguments), allowed, "" if arguments else remedy)
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


_WORDS = {"first": 1.0, "second": 0.0, "tie": 0.5, "a": 1.0, "b": 0.0, "c": 0.5}
_ALLOWED = {
    Compare: '"first", "second" or "tie", the probability that the first wins, a mapping of these names to '
    "probabilities, or None",
    Score: "a number on the scale, or None",
    Rank: "the index of the best candidate from 0, its name such as [1], a list of these from best to worst, a mapping "
    "of indices to probabilities, or None",
    Completion: "the text of a reply, or None",
}


def read_returned(request: Request, returned: Any, name: str, scale: tuple[float, float]) -> Reply:
    """Parse a function's return value as the reply to a request.

    Parameters
    ----------
    request : Request
        The request that the function answered.
    returned : object
        See `biaslab.FunctionJudge` for valid values.
    name : str
        Name of the function, for messages.
    scale : (low, high)
        Range of the scores returned by a function of one candidate.

    Raises
    ------
    JudgeError
        If the value is not valid for the request.
    """
    returned = returned.value if isinstance(returned, Enum) else returned
    if returned is None:
        return Reply(text="", finish_reason="refusal")
    if isinstance(request, Completion) and isinstance(returned, str):
        return Reply(text=returned, finish_reason="stop")
    if isinstance(request, Rank) and (listed := _listed(returned, len(request.texts))) is not None:
        return listed
    score = _preference(returned) if isinstance(request, Compare) else _number(returned)
    low, high = scale
    if isinstance(request, Score) and score is not None:
        score = (score - low) / (high - low) if low <= score <= high else None
    if score is None or isinstance(request, Completion | Rank):
        kind = type(request)
        on = f"; the scale is {low:g} to {high:g}, or what FunctionJudge(scale=…) says" if kind is Score else ""
        shown = short(list(returned)) if isinstance(returned, tuple) else short(returned)
        raise JudgeError(f"{name} returned {shown}, allowed: {_ALLOWED[kind]}{on}", request)
    return Reply(score=score)


def _preference(returned: Any) -> float | None:
    """Return the probability that the first wins, or None if missing."""
    if isinstance(returned, str):
        return _WORDS.get(returned.strip().lower())
    if isinstance(returned, Mapping):
        shares = {_WORDS.get(str(name).strip().lower()): _number(share) for name, share in returned.items()}
        first, second = (_number(shares.get(value)) for value in (1.0, 0.0))
        if first is None or second is None or min(first, second) < 0 or first + second <= 0:
            return None
        return first / (first + second)
    value = _number(returned)
    return value if value is not None and 0 <= value <= 1 else None


def _listed(returned: Any, k: int) -> Reply | None:
    """Return the reply about k texts, None if invalid; omitted or repeated names are kept in its text."""
    if isinstance(returned, Mapping):
        shares = {_index(name, k): _number(share) for name, share in returned.items()}
        masses = [shares.get(place, 0.0) for place in range(k)]
        if None in shares or any(mass is None or mass < 0 for mass in masses) or not sum(filter(None, masses)):
            return None
        total = math.fsum(filter(None, masses))
        return Reply(logprobs=tuple(math.log(mass / total) if mass else -math.inf for mass in masses))
    one = isinstance(returned, str) or not hasattr(returned, "__iter__")
    places = [_index(each, k) for each in ([returned] if one else returned)]
    if not places or None in places:
        return None
    return Reply(text=" > ".join(f"[{place + 1}]" for place in places if place is not None), finish_reason="stop")


def _index(named: Any, k: int) -> int | None:
    """Return the index from 0 of a candidate, given as an index or by its name in prompts: ``"[1]"`` is the first."""
    if isinstance(named, str):
        match = re.fullmatch(r"\s*\[(\d{1,9})\]\s*", named)
        place = int(match[1]) - 1 if match else -1
    else:
        number = _number(named)
        place = int(number) if number is not None and number.is_integer() else -1
    return place if 0 <= place < k else None


def _number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else, including booleans and text."""
    try:
        number = float(value) if not isinstance(value, bool | np.bool_ | str) else math.nan
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
