"""Protocols `Judge`, `Design` and `Probe`; `BaseJudge` with defaults for judges, and `as_judge`, which adds them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from biaslab.core.declarations import Metric
from biaslab.core.errors import UnsupportedRequestError
from biaslab.core.received import answers_of, received
from biaslab.core.requests import Request, thinking_of
from biaslab.core.trials import Reply, Status, Trial

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core.schema import Dataset

#: Kinds of tokens that have a price, and what a run can be limited in.
PRICES = ("input", "cached", "output")
LIMITS = ("requests", "tokens", "minutes", "dollars")

Pack = Sequence[tuple[Request, Reply]]
Item = TypeVar("Item", covariant=True)


@runtime_checkable
class Judge(Protocol):
    """Anything that answers requests.

    Attributes
    ----------
    id : str
        Pins everything a reply depends on (model, revision, dtype, quantisation, chat template): it is part of the key
        under which replies are stored.
    kinds : frozenset of type
        Which request kinds it answers.
    """

    @property
    def id(self) -> str:
        """Identifies the judge in keys of stored replies."""

    @property
    def kinds(self) -> frozenset[type]:
        """The kinds of requests that it answers."""

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` that carries the request if one of them cannot be answered; ask nothing."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request once, in any order, each as soon as it is known."""


@runtime_checkable
class Design(Protocol):
    """Plan judgements and read their replies: a probe or a scorer, as `biaslab.collect` takes it. Pure.

    A design in rounds has `design` take a second parameter ``trials``, the trials so far: `biaslab.collect` calls it
    again with them until it yields nothing. One that goes on with what a judge wrote says so by a true attribute
    ``keeps_replies``: then trials hold the text of each reply in a column ``reply``.

    Attributes
    ----------
    name : str
        What is measured; of a probe the phenomenon, which is also the name of its module and notebook.
    """

    name: ClassVar[str]

    def design(self, dataset: Dataset) -> Iterable[Trial]:
        """Plan the judgements of a data set."""

    def read(self, trial: Trial, reply: Reply) -> tuple[float, Status]:
        """Parse a raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""


def is_sequential(design: Design) -> bool:
    """Return whether a design has rounds: its ``design`` takes the trials so far."""
    return "trials" in signature(design.design).parameters


@runtime_checkable
class Probe(Design, Protocol):
    """Design judgements of one bias and estimate it: a frozen dataclass. Pure: it never uses a judge.

    `biaslab.probes.base.Probe` is the class that all probes of the package derive from.

    Attributes
    ----------
    metrics : tuple of Metric
        Everything that it estimates: how it is read, what is primary, how that is calibrated.
    primary : tuple of str
        The names of the primary ones, over which q-values are computed.
    """

    metrics: ClassVar[tuple[Metric, ...]]
    primary: ClassVar[tuple[str, ...]]

    def estimate(self, trials: pd.DataFrame, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """Turn trials into the estimates frame, one scalar per row; optionally only the named metrics."""


def require_kinds(judge: Judge, requests: Iterable[Request]) -> None:
    """Raise `UnsupportedRequestError` for the first request of a kind that the judge does not answer.

    One that sets a budget for thoughts is answered by judges that can be given one (`biaslab.core.BaseJudge.thinks`).
    """
    for request in requests:
        if thinking_of(request) is not None and not getattr(judge, "thinks", False):
            raise UnsupportedRequestError(
                f"the judge {judge.id!r} accepts no thinking budget; nothing was asked; use one that does: "
                "biaslab.ApiJudge with a reasoning model, or biaslab.LocalJudge(…, thinking=1024)",
                request,
            )
        if type(request) not in judge.kinds:
            able = ", ".join(sorted(kind.__name__ for kind in judge.kinds))
            raise UnsupportedRequestError(
                f"the judge {judge.id!r} does not answer {type(request).__name__} requests, only {able}; "
                "use another judge or another answer mode",
                request,
            )


@runtime_checkable
class Closable(Protocol[Item]):
    """Iterator that can be closed early, as generators can."""

    def __iter__(self) -> Iterator[Item]: ...

    def __next__(self) -> Item: ...

    def close(self) -> None:
        """Drop requests in flight and stop yielding."""


@runtime_checkable
class Stoppable(Protocol):
    """Optional for the iterator from ``ask`` or ``packs``: can stop and still yield replies already paid for."""

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Start nothing new, and yield the replies that still arrive."""


class BaseJudge:
    """Base of judges: a subclass defines ``id``, ``kinds``, and ``ask`` or ``packs``; the rest has defaults.

    A judge need not derive from it: `as_judge` gives any `Judge` the same defaults.

    Attributes
    ----------
    id, kinds
        See `Judge`.
    breadth : int
        Requests that keep the judge busy nearly all the time: at least so many are handed to it together. 0 for any.
    prices : mapping of str to float, or None
        Dollars for a million tokens, by some of `PRICES`; empty where they are not known. None: tokens cost nothing.
    limits : mapping of str to float
        What one run may spend at most, by some of `LIMITS`, as `biaslab.Budget` takes them.
    reads_prompts : bool
        False of a judge that is shown texts without a prompt: then a probe does so without saying that it departs from
        its design.
    score_scale : str
        Name of the scale of the numbers that it gives to `Score` requests, such as ``"reward"``; empty if they are
        shares of whatever scale is asked for, 0 its lowest and 1 its highest value.
    thought_tokens : int
        Tokens that it may write before each answer, as a model that thinks does; plans and budgets count them.
    thinks : bool
        Whether it obeys the budget for thoughts that a request sets (`biaslab.core.thinking`); if not, such requests
        are refused before anything is asked.
    encodes : bool
        Whether `encode` counts tokens; if not, plans estimate them.
    members : tuple of Judge
        Of a panel: the judges that are asked the same, each of which a store keeps under its own id.
    asks : tuple of BaseJudge
        The judges that this one asks, each what `expand` returns; empty if it answers itself.
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
    members: tuple[Judge, ...] = ()
    asks: tuple[BaseJudge, ...] = ()

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` that carries the request if one of them cannot be answered; ask nothing."""
        require_kinds(self, requests)

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request once, in any order, each as soon as it is known; `Stoppable` if the packs are."""
        return _OneByOne(self.packs(requests))

    def packs(self, requests: Iterable[Request]) -> Closable[Pack]:
        """Answer like `ask`, yielding replies that arrive together as one pack, which a store writes in one step."""
        return _PacksOfOne(self, self.ask(requests))

    def expand(self, request: Request) -> Sequence[Request]:
        """Return the requests to the judges in ``asks`` for one request."""
        return [request]

    def of_members(self, members: Sequence[Judge]) -> Judge:
        """Return the same panel with other members, such as the same judges wrapped with a store."""
        raise NotImplementedError

    def encode(self, request: Request) -> list[tuple[int, ...]]:
        """Return the token sequences that the judge reads for a request, one per label of a `Choice`."""
        raise NotImplementedError

    def watched(self, tell: Callable[[str], None]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Report retries to a callback within this context; it is called from another thread."""
        return nullcontext()


Packing = Broad = Expanding = Encoding = BaseJudge  # former names of what a judge may offer


def as_judge(judge: Judge) -> BaseJudge:
    """Return a judge, adding the defaults of `BaseJudge` that its class lacks."""
    return judge if isinstance(judge, BaseJudge) else _Adapted(judge)


class _Adapted(BaseJudge):
    """Adapt a judge of any class: its own attributes if present, else the defaults."""

    def __init__(self, judge: Any) -> None:
        self._judge, self.id, self.kinds = judge, judge.id, judge.kinds
        for name in vars(BaseJudge).keys() - {"packs", "asks", "encodes"}:
            if not name.startswith("_") and hasattr(judge, name):
                setattr(self, name, getattr(judge, name))
        self.encodes = hasattr(judge, "encode")
        self.asks = tuple(map(as_judge, [judge.judge] if hasattr(judge, "expand") else self.members))

    def packs(self, requests: Iterable[Request]) -> Closable[Pack]:
        """Answer in the judge's own packs, else in packs of one."""
        if not hasattr(self._judge, "packs"):
            return _PacksOfOne(self._judge, self._judge.ask(requests))
        packs = self._judge.packs(requests)
        return packs if isinstance(packs, Closable) else (pack for pack in packs)

    def __repr__(self) -> str:
        return repr(self._judge)


class _OneByOne(Iterator[tuple[Request, Reply]]):
    """Iterate over the replies of packs; stops and closes as the packs do."""

    def __init__(self, packs: Closable[Pack]) -> None:
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


class _PacksOfOne(Iterator[Pack]):
    """Iterate over packs of one reply; stops and closes as the underlying iterator does."""

    def __init__(self, judge: Judge, answers: Iterator[tuple[Request, Reply]]) -> None:
        self._judge, self._answers = judge, answers_of(judge, answers)
        self.close: Callable[[], None] = getattr(answers, "close", lambda: None)
        if isinstance(answers, Stoppable):
            self.stop = answers.stop

    def __next__(self) -> Pack:
        return (received(self._judge, next(self._answers)),)
