"""What a judge is and what a probe is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import signature
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from biaslab.core.declarations import Metric
from biaslab.core.errors import UnsupportedRequestError
from biaslab.core.received import answers_of, received
from biaslab.core.requests import Request
from biaslab.core.trials import Reply, Status, Trial

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.core.schema import Dataset


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
        """What pins every reply."""

    @property
    def kinds(self) -> frozenset[type]:
        """Request kinds that are answered."""

    def check(self, requests: Iterable[Request]) -> None:
        """Raise a `JudgeError` that carries the request if one of them cannot be answered; ask nothing."""

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer every request once, in any order, each as soon as it is known."""


@runtime_checkable
class Packing(Protocol):
    """What a judge may also offer whose replies arrive several at a time, so that a store keeps them in one step."""

    def packs(self, requests: Iterable[Request]) -> Iterator[Sequence[tuple[Request, Reply]]]:
        """Answer every request once, in any order, all replies that arrive together as one pack, which is not empty.

        The iterator may be `Stoppable` and `Closable`, as that of ``ask``.
        """


def packs_of(judge: Judge, requests: Sequence[Request]) -> Iterator[Sequence[tuple[Request, Reply]]]:
    """Return the replies of any judge in packs; one that is not `Packing` gives packs of one."""
    return judge.packs(requests) if isinstance(judge, Packing) else _Singly(judge, judge.ask(requests))


def one_by_one(packs: Iterator[Sequence[tuple[Request, Reply]]]) -> Iterator[tuple[Request, Reply]]:
    """Yield the replies of packs one after the other; whoever stops early closes the packs too."""
    try:
        for pack in packs:
            yield from pack
    finally:
        if isinstance(packs, Closable):
            packs.close()


@runtime_checkable
class Broad(Protocol):
    """What a judge may also offer that works on many requests at once.

    Attributes
    ----------
    breadth : int
        Requests it takes to keep it busy nearly all the time: that many are handed to it together.
    """

    @property
    def breadth(self) -> int:
        """How many requests keep it busy."""


def breadth_of(judge: Judge) -> int:
    """Return how many requests keep a judge busy; 0 where it does not say."""
    return judge.breadth if isinstance(judge, Broad) else 0


class _Singly(Iterator[Sequence[tuple[Request, Reply]]]):
    """Packs of one, which stop and close as the iterator does that they come from."""

    def __init__(self, judge: Judge, answers: Iterator[tuple[Request, Reply]]) -> None:
        self._judge, self._answers = judge, answers_of(judge, answers)
        if isinstance(answers, Stoppable):
            self.stop = answers.stop
        if isinstance(answers, Closable):
            self.close = answers.close

    def __next__(self) -> Sequence[tuple[Request, Reply]]:
        return (received(self._judge, next(self._answers)),)


@runtime_checkable
class Expanding(Protocol):
    """What a judge may also offer that asks another one, often several times a request, so that a plan counts that.

    Attributes
    ----------
    judge : Judge
        Who is asked.
    """

    @property
    def judge(self) -> Judge:
        """Who is asked."""

    def expand(self, request: Request) -> Sequence[Request]:
        """Return what the other judge is asked for a request."""


@runtime_checkable
class Composed(Protocol):
    """What a judge may also offer that asks several others, each of whom a store keeps under its own id.

    Attributes
    ----------
    members : tuple of Judge
        Who is asked, each for the same.
    """

    @property
    def members(self) -> tuple[Judge, ...]:
        """Who is asked."""

    def of_members(self, members: Sequence[Judge]) -> Judge:
        """Return the same judge with others in the members' places, such as the same ones with a memory."""


@runtime_checkable
class Encoding(Protocol):
    """What a judge may also offer that has a tokenizer, so that a plan counts tokens instead of estimating them."""

    def encode(self, request: Request) -> list[tuple[int, ...]]:
        """Return the token sequences that a request makes the judge read, one a label of a `Choice`."""


@runtime_checkable
class Retrying(Protocol):
    """What a judge may also offer that asks again after a fault, so that a progress bar says so."""

    def watched(self, tell: Callable[[str], None]) -> AbstractContextManager[None]:
        """Tell of every retry, in a few words, until the context is left; the words come from another thread."""


#: Kinds of tokens that have a price, and what a run can be limited in.
PRICES = ("input", "cached", "output")
LIMITS = ("requests", "tokens", "minutes", "dollars")


@runtime_checkable
class Priced(Protocol):
    """What a judge may also offer whose tokens cost money, or of which no run may ask more than so much.

    Attributes
    ----------
    prices : mapping of str to float
        Dollars for a million tokens, by some of `PRICES`. Empty where none are known.
    limits : mapping of str to float
        By some of `LIMITS`, as `biaslab.Budget` takes them. Empty where there are none.
    """

    @property
    def prices(self) -> Mapping[str, float]:
        """Dollars for a million tokens."""

    @property
    def limits(self) -> Mapping[str, float]:
        """What one run may spend at most."""


@runtime_checkable
class Stoppable(Protocol):
    """What the iterator that ``ask`` returns may also offer, where replies are on their way that will be paid for."""

    def stop(self) -> Iterator[tuple[Request, Reply]]:
        """Begin nothing new, and yield what still comes in."""


@runtime_checkable
class Closable(Protocol):
    """What the iterator that ``ask`` returns may also offer, as every generator does."""

    def close(self) -> None:
        """Let go of what is held; nothing is yielded any more."""


@runtime_checkable
class Design(Protocol):
    """What `biaslab.collect` needs: judgements to ask, and how to read a reply. Probes are such, and scorers. Pure.

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
        """Turn one raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""


def goes_on(design: Design) -> bool:
    """Say whether a design has rounds: whether its ``design`` takes the trials so far."""
    return "trials" in signature(design.design).parameters


@runtime_checkable
class Probe(Design, Protocol):
    """A frozen dataclass that designs judgements of one phenomenon and estimates it. Pure: it never meets a judge.

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
        """Turn trials into the estimates frame, one scalar a row; only the named metrics where some are named."""


def require_kinds(judge: Judge, requests: Iterable[Request]) -> None:
    """Raise `UnsupportedRequestError` for the first request of a kind that the judge does not answer."""
    for request in requests:
        if type(request) not in judge.kinds:
            able = ", ".join(sorted(kind.__name__ for kind in judge.kinds))
            raise UnsupportedRequestError(
                f"the judge {judge.id!r} does not answer {type(request).__name__} requests, only {able}; "
                "choose another judge or another way to ask",
                request,
            )
