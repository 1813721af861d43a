"""Protocols: `Judge`, `Design` and `Probe`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from biaslab.core.declarations import Metric
from biaslab.core.errors import UnsupportedRequestError
from biaslab.core.requests import Request, thinking_of
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
        """Pins every reply."""

    @property
    def kinds(self) -> frozenset[type]:
        """Request kinds that are answered."""

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
        """Turn one raw reply into a value and a status; NaN unless the status is ``"ok"`` or ``"tie"``."""


def is_sequential(design: Design) -> bool:
    """Return whether a design has rounds: its ``design`` takes the trials so far."""
    return "trials" in signature(design.design).parameters


@runtime_checkable
class Probe(Design, Protocol):
    """Design judgements of one phenomenon and estimate it: a frozen dataclass. Pure: it never uses a judge.

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
    """Raise `UnsupportedRequestError` for the first request of a kind that the judge does not answer.

    One that sets a budget for thoughts is answered by judges that can be given one (`biaslab.core.BaseJudge.thinks`).
    """
    for request in requests:
        if thinking_of(request) is not None and not getattr(judge, "thinks", False):
            raise UnsupportedRequestError(
                f"the judge {judge.id!r} cannot be given a budget for thoughts, so that nothing was asked; "
                "take one that can: biaslab.ApiJudge of a model that reasons, or biaslab.LocalJudge(…, thinking=1024)",
                request,
            )
        if type(request) not in judge.kinds:
            able = ", ".join(sorted(kind.__name__ for kind in judge.kinds))
            raise UnsupportedRequestError(
                f"the judge {judge.id!r} does not answer {type(request).__name__} requests, only {able}; "
                "choose another judge or another way to ask",
                request,
            )
