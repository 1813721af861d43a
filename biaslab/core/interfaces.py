"""Interfaces of judges, designs and probes, and checks of what a judge yields."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from biaslab.core.checks import require_judge
from biaslab.core.errors import JudgeError, UnsupportedRequestError
from biaslab.core.metrics import Metric
from biaslab.core.requests import Choice, Compare, Completion, Likelihood, Rank, Request, Score, thinking_of
from biaslab.core.trials import DECLINED, UNUSABLE, Reply, Status, Trial

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core.schema import Dataset

_MOST_MASS = 1 + 1e-3  # allows for rounding
_LARGE = 700.0  # exp(x) overflows for larger x
_PAIR = "yield request, Reply(…) for each request"
_REPLIES: dict[type, str] = {
    Choice: "a Reply with logprobs, one natural logarithm per label, or with a text",
    Completion: "a Reply with a text",
    Likelihood: "a Reply with logprobs, one natural logarithm per token",
    Score: "a Reply with a score",
    Compare: "a Reply with a score, the probability that the first wins",
    Rank: "a Reply with a text such as [2] > [1] > [3], or with logprobs, one natural logarithm per text",
}


def answers_of(judge: Any, answers: Any) -> Any:
    """Return an iterator over the result of ``ask``.

    Raises
    ------
    JudgeError
        If the result is None or not an iterable of requests and replies.
    """
    if hasattr(answers, "__next__"):
        return answers
    if isinstance(answers, str | Reply | dict) or not hasattr(answers, "__iter__"):
        allowed = f"pairs of request and reply; {_PAIR}"
        raise JudgeError(f"{type(judge).__name__}.ask returned {short(answers)}, allowed: {allowed}")
    return iter(answers)


def received(judge: Any, answer: Any) -> tuple[Request, Reply]:
    """Return one answer after checking that it is a request with its reply.

    Raises
    ------
    JudgeError
        If it is not such a pair, or the reply lacks what the request asks for.
    """
    if not isinstance(answer, tuple | list) or len(answer) != 2 or not isinstance(answer[1], Reply):
        asked = answer[0] if isinstance(answer, tuple | list) and answer else None
        allowed = f"a request with {_REPLIES.get(type(asked), 'a biaslab.Reply')}; {_PAIR}"
        raise JudgeError(f"{type(judge).__name__}.ask yielded {short(answer)}, allowed: {allowed}")
    request, reply = answer
    if fault := _fault_of(request, reply):
        raise JudgeError(f"{type(judge).__name__}.ask yielded {fault}", request)
    return request, reply


def _fault_of(request: object, reply: Reply) -> str:
    """Return what is wrong with a reply, and what is allowed; empty if nothing is."""
    if isinstance(request, Choice) and reply.logprobs is not None:
        wanted = len(request.labels)
        if not hasattr(reply.logprobs, "__len__") or len(reply.logprobs) != wanted:
            labels = ", ".join(map(repr, request.labels))
            allowed = f"{wanted} numbers, the natural logarithms for the labels {labels}; return them in this order"
            return f"{short(reply.logprobs)} as logprobs, allowed: {allowed}"
        if reply.finish_reason != UNUSABLE and (mass := _mass(reply.logprobs)) > _MOST_MASS:
            sums = f"{short(reply.logprobs)} as logprobs, whose probabilities sum to {mass:.3g}"
            allowed = "natural logarithms of probabilities that sum to at most 1"
            return f"{sums}, allowed: {allowed}; compute them from logits with log_softmax"
        return ""
    nothing = reply.logprobs is None and reply.text is None and reply.score is None
    if nothing and reply.finish_reason not in DECLINED and type(request) in _REPLIES:
        return f"an empty Reply, allowed: {_REPLIES[type(request)]}; use an empty text for a refusal"
    return ""


def _mass(logprobs: Any) -> float:
    """Return the total probability of all labels, 0 if they are not numbers."""
    try:
        return math.fsum(math.exp(min(level, _LARGE)) for level in logprobs)
    except TypeError:
        return 0.0


def short(value: object) -> str:
    """Format a value in at most 60 characters."""
    if isinstance(value, tuple) and len(value) == 2:
        return f"a request with {short(value[1])}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"


#: Kinds of tokens with a price, and quantities that limit a run.
PRICES = ("input", "cached", "output")
LIMITS = ("requests", "tokens", "minutes", "dollars")

ReplyBatch = Sequence[tuple[Request, Reply]]
_ItemT = TypeVar("_ItemT", covariant=True)


@runtime_checkable
class Judge(Protocol):
    """Anything that answers requests.

    Attributes
    ----------
    id : str
        Identifies everything a reply depends on (model, revision, dtype, quantisation, chat template); part of the key
        of stored replies.
    kinds : frozenset of type
        The request kinds it answers.
    """

    @property
    def id(self) -> str:
        """Identifies the judge in the keys of stored replies."""

    @property
    def kinds(self) -> frozenset[type]:
        """The request kinds it answers."""

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` with the first request that cannot be answered; ask nothing."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request once, in any order, yielding each reply as soon as it is known."""


@runtime_checkable
class Design(Protocol):
    """Plans judgements and reads their replies: a probe or scorer, as taken by `biaslab.collect`. Pure.

    The ``design`` of a sequential design takes a second parameter ``trials``, the trials so far; `biaslab.collect`
    calls it until it yields nothing. Classes that derive from it inherit the defaults of all attributes but the name.

    Attributes
    ----------
    name : str
        What is measured; for a probe the phenomenon, also the name of its module and notebook.
    unprompted : frozenset of type
        Kinds of requests without a prompt (`Score`, `Compare`, `Rank`) that can be asked instead, because what is
        measured does not depend on the prompt.
    protocol : object, optional
        The user's own prompt and parser, if the design takes one.
    """

    name: ClassVar[str]
    unprompted: ClassVar[frozenset[type]] = frozenset()
    protocol: Any = None

    @property
    def keeps_replies(self) -> bool:
        """Whether trials have a column ``reply`` with the judge's text, on which later rounds build."""
        return False

    def design(self, dataset: Dataset) -> Iterable[Trial]:
        """Plan the judgements of a data set."""

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Parse a raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""


def is_sequential(design: Design) -> bool:
    """Return whether a design has rounds: its ``design`` takes the trials so far."""
    return "trials" in signature(design.design).parameters


@runtime_checkable
class ProbeInterface(Design, Protocol):
    """Plans judgements for one bias and estimates it: a frozen dataclass. Pure: it never calls a judge.

    All probes of the package derive from `biaslab.probes.base.Probe`.

    Attributes
    ----------
    metrics : tuple of Metric
        Everything it estimates, with interpretation, whether it is primary, and calibration.
    primary : tuple of str
        Names of the primary metrics, over which q-values are computed.
    """

    metrics: ClassVar[tuple[Metric, ...]]
    primary: ClassVar[tuple[str, ...]]

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates frame, one scalar per row; optionally only the named metrics."""


def require_kinds(judge: Judge, requests: Iterable[Request]) -> None:
    """Raise `UnsupportedRequestError` for the first request of a kind that the judge does not answer.

    Requests with a thinking budget need a judge that accepts one (`biaslab.core.BaseJudge.thinks`).
    """
    for request in requests:
        if thinking_of(request) is not None and not getattr(judge, "thinks", False):
            remedy = (
                "use one that does: biaslab.ApiJudge with a reasoning model, or biaslab.LocalJudge(…, thinking=1024)"
            )
            problem = f"the judge {judge.id!r} accepts no thinking budget"
            raise UnsupportedRequestError(problem, request, remedy=f"nothing was asked; {remedy}")
        if type(request) not in judge.kinds:
            able = ", ".join(sorted(kind.__name__ for kind in judge.kinds))
            problem = f"the judge {judge.id!r} does not answer {type(request).__name__} requests, only {able}"
            remedy = "use another judge or another answer mode"
            raise UnsupportedRequestError(problem, request, remedy=remedy)


@runtime_checkable
class Closable(Protocol[_ItemT]):
    """Iterator that can be closed early, as generators can."""

    def __iter__(self) -> Iterator[_ItemT]: ...

    def __next__(self) -> _ItemT: ...

    def close(self) -> None:
        """Drop requests in flight and stop yielding."""


@runtime_checkable
class Stoppable(Protocol):
    """Optional for the iterator from ``ask`` or ``packs``: can stop and still yield replies already paid for."""

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Start nothing new, and yield the replies that still arrive."""


class BaseJudge:
    """Base of judges: a subclass defines ``id``, ``kinds``, and ``ask`` or ``packs``; the rest has defaults.

    Deriving from it is optional: `as_judge` gives any `Judge` the same defaults.

    Attributes
    ----------
    id, kinds
        See `Judge`.
    breadth : int
        Number of requests that keeps the judge busy; at least this many are passed to it together. 0 for any.
    prices : mapping of str to float, or None
        Dollars per million tokens, by keys of `PRICES`; empty if unknown. None: tokens cost nothing.
    limits : mapping of str to float
        Maximum a run may spend, by keys of `LIMITS`, as in `biaslab.Budget`.
    reads_prompts : bool
        False if the judge sees texts without a prompt: probes then do not report this as a departure from their
        design.
    score_scale : str
        Name of the scale of its replies to `Score` requests, such as ``"reward"``. Empty if replies are fractions of
        the requested scale, from 0 (lowest) to 1 (highest).
    thought_tokens : int
        Tokens it may write before each answer if it reasons first; counted by plans and budgets.
    thinks : bool
        Whether it obeys the thinking budget of a request (`biaslab.core.requests`); if not, such requests are refused
        before anything is asked.
    encodes : bool
        Whether `encode` counts tokens; if not, plans estimate them.
    is_recorded : bool
        Whether its replies exist already, so that a study that lacks labels is not stopped to save replies.
    members : tuple of Judge
        For a panel: the judges that are asked the same requests; their replies are stored under their own ids.
    asks : tuple of BaseJudge
        The judges it delegates to, each of which gets what `expand` returns; empty if it answers itself.
    """

    id: str
    kinds: frozenset[type]
    breadth: int = 0
    prices: Mapping[str, float] | None = None
    limits: Mapping[str, float] = MappingProxyType({})
    reads_prompts: bool = True
    score_scale: str = ""
    thought_tokens: int = 0
    thinks: bool = False
    encodes: bool = False
    is_recorded: bool = False
    members: tuple[Judge, ...] = ()
    asks: tuple[BaseJudge, ...] = ()

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` with the first request that cannot be answered; ask nothing."""
        require_kinds(self, requests)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request once, in any order, as soon as possible; `Stoppable` if the iterator of `packs` is."""
        return _OneByOne(self.packs(requests))

    def packs(self, requests: Iterable[Request]) -> Closable[ReplyBatch]:
        """Answer like `ask`, yielding replies that arrive together as one pack, stored in one transaction."""
        return _PacksOfOne(self, self.ask(requests))

    def expand(self, request: Request) -> Sequence[Request]:
        """Return the requests to the judges in ``asks`` that one request leads to."""
        return [request]

    def of_members(self, members: Sequence[Judge]) -> Judge:
        """Return the same panel with other members, for example the same judges wrapped with a store."""
        raise NotImplementedError

    def encode(self, request: Request) -> list[tuple[int, ...]]:
        """Return the token sequences that the judge reads for a request, one per label of a `Choice`."""
        raise NotImplementedError

    def watched(self, tell: Callable[[str], None]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Report retries to a callback within this context; it is called from another thread."""
        return nullcontext()


def as_judge(judge: Judge) -> BaseJudge:
    """Return a judge, adding the defaults of `BaseJudge` that its class lacks."""
    return judge if isinstance(judge, BaseJudge) else _Adapted(judge)


class _Adapted(BaseJudge):
    """Adapt a judge of any class: its own attributes if present, else the defaults."""

    def __init__(self, judge: Any) -> None:
        require_judge(judge)
        self._judge, self.id, self.kinds = judge, judge.id, judge.kinds
        for name in vars(BaseJudge).keys() - {"packs", "asks", "encodes"}:
            if not name.startswith("_") and hasattr(judge, name):
                setattr(self, name, getattr(judge, name))
        self.encodes = hasattr(judge, "encode")
        self.asks = tuple(map(as_judge, [judge.judge] if hasattr(judge, "expand") else self.members))

    def packs(self, requests: Iterable[Request]) -> Closable[ReplyBatch]:
        """Answer in the judge's own packs, else in packs of one."""
        if not hasattr(self._judge, "packs"):
            return _PacksOfOne(self._judge, self._judge.ask(requests))
        packs = self._judge.packs(requests)
        return packs if isinstance(packs, Closable) else (pack for pack in packs)

    def __repr__(self) -> str:
        return repr(self._judge)


class _OneByOne(Iterator[tuple[Request, Reply]]):
    """Iterate over the replies of packs; stops and closes as the packs do."""

    def __init__(self, packs: Closable[ReplyBatch]) -> None:
        self._packs = packs
        self._ready: deque[tuple[Request, Reply]] = deque()
        if isinstance(packs, Stoppable):
            self.stop = self._stop

    def __next__(self) -> tuple[Request, Reply]:
        if not self._ready:
            self._ready.extend(next(self._packs))
        return self._ready.popleft()

    def _stop(self) -> Iterator[tuple[Request, Reply]]:
        """Start nothing new, and yield the answered replies, including the last pack again."""
        self._ready.clear()
        return self._packs.stop()  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        """Start nothing new, and drop answered replies."""
        self._ready.clear()
        self._packs.close()


class _PacksOfOne(Iterator[ReplyBatch]):
    """Iterate over packs of one reply; stops and closes as the underlying iterator does."""

    def __init__(self, judge: Judge, answers: Iterator[tuple[Request, Reply]]) -> None:
        self._judge, self._answers = judge, answers_of(judge, answers)
        self.close: Callable[[], None] = getattr(answers, "close", lambda: None)
        if isinstance(answers, Stoppable):
            self.stop = answers.stop

    def __next__(self) -> ReplyBatch:
        return (received(self._judge, next(self._answers)),)


@dataclass(frozen=True)
class Nearest:
    """Another design for the same bias, without the requests that a judge refused.

    Parameters
    ----------
    design : Design
        The design to use instead.
    words : str
        How it differs, as a verb phrase that follows the name of the design: "reads text instead of …".
    reads : Design, optional
        The design for the embedded model, asked first; ``design`` is then `Continuable`, and receives its trials.
    omits : str
        What it leaves out, as such a phrase; unlike ``words``, also reported for judges that read no prompts.
    """

    design: Design
    words: str
    reads: Design | None = None
    omits: str = ""


@runtime_checkable
class Adaptable(Protocol):
    """Optional: the design has an alternative to requests that a judge refuses."""

    def nearest(self, refused: Request) -> Nearest | None:
        """Return the nearest design without such requests; None if the bias cannot be measured without them."""


@runtime_checkable
class Continuable(Protocol):
    """Optional: the design continues from the trials of another model."""

    def given(self, read: pd.DataFrame, dataset: Dataset) -> Design:
        """Return the design with the trials of the other model."""


def reading_text(design: Any, refused: Request, **changes: object) -> Nearest | None:
    """Return the same design with ``answer="text"`` instead of label probabilities.

    Parameters
    ----------
    design : dataclass
        Has a parameter ``answer``.
    refused : Request
        A request that the judge refuses.
    **changes
        Further parameters to change.

    Returns
    -------
    Nearest or None
        None if the refused request is not a `Choice`, or the design already reads text.

    Examples
    --------
    >>> import biaslab as bl
    >>> nearest = reading_text(bl.probes.Position(), Choice("A or B?", ("A", "B")))
    >>> nearest.design.answer, nearest.words
    ('text', 'reads text instead of label probabilities')
    """
    if not isinstance(refused, Choice) or getattr(design, "answer", None) != "distribution":
        return None
    return Nearest(replace(design, answer="text", **changes), "reads text instead of label probabilities")


def ends_begun(request: Request) -> bool:
    """Return whether a request ends with the beginning of an answer.

    Examples
    --------
    >>> ends_begun(Choice([("user", "How good is it?"), ("assistant", "Score:")], ("1", "2")))
    True
    """
    return isinstance(request, Choice | Completion) and request.messages[-1].role == "assistant"
