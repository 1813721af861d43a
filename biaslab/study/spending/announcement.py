"""Announce in one line what a run will ask, before the first request."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

from biaslab.core import Adaptable, Design, Judge, Request, Trial, Usage, is_sequential
from biaslab.core.errors import InputError, JudgeError, UnsupportedRequestError
from biaslab.core.output import count
from biaslab.store import open_store
from biaslab.study.spending.budget import Budget, Ledger, budget_of
from biaslab.study.spending.cost import dollars, unanswered

if TYPE_CHECKING:
    from biaslab.datasets import Dataset


class Announcement(NamedTuple):
    """Summary of the requests that a run will ask.

    Attributes
    ----------
    requests, stored : int
        Numbers of open requests, and of requests that the store answers.
    asked : int
        Number of requests sent: k times as many by `biaslab.Sampled`.
    read, written : float
        Input tokens and maximum output tokens.
    counted : str
        How tokens were counted, in words; empty if nothing is open.
    dollars, seconds : float or None
        Maximum price and duration, if known.
    more : bool
        Whether later rounds of the design add requests.
    """

    requests: int
    stored: int
    asked: int
    read: float
    written: float
    counted: str
    dollars: float | None
    seconds: float | None
    more: bool

    def __str__(self) -> str:
        times = f" ({self.asked:,} sent)" if self.asked != self.requests else ""
        parts = [
            f"{count(self.requests, 'request')}{times}"
            + (f" ({self.stored:,} more in the store)" if self.stored else ""),
            f"{self.read:,.0f} input tokens and at most {self.written:,.0f} output tokens, {self.counted}",
            "" if self.dollars is None else f"at most ${self.dollars:,.2f}",
            "" if self.seconds is None else f"{self.seconds / 60:,.1f} min",
            "plus later rounds, which depend on the answers" if self.more else "",
        ]
        return "; ".join(filter(None, parts))


def announcement_of(ledger: Ledger, stored: int = 0, more: bool = False) -> Announcement:
    """Return the announcement of a ledger's plan."""
    if ledger.tokens is None:
        raise InputError("ledger", ledger, "a ledger with announces=True")
    prices, speed = ledger.budget.prices, ledger.budget.seconds_per_request
    read, written = ledger.tokens.read, ledger.written
    price = None if not prices else dollars(Usage(round(read), 0, round(written)), prices)
    seconds = None if speed is None else speed * ledger.planned
    counts = (ledger.planned, stored, ledger.sent, read, written)
    return Announcement(*counts, ledger.tokens.method, price, seconds, more)


def foresee_all(
    designs: Iterable[Design],
    judge: Judge,
    dataset: Dataset,
    store: str | PathLike[str],
    budget: Budget | None = None,
) -> Announcement | None:
    """Count the requests of several designs together, each request once.

    For designs that the judge is known to refuse, counts the nearest design that it answers, as `biaslab.collect`
    would. Designs that fit neither the data set nor the judge are left out.

    Parameters
    ----------
    designs : iterable of Design
        Designs, such as the probes of a card.
    judge, dataset
        As in `biaslab.collect`.
    store : path
        Path of the store; need not exist.
    budget : Budget, optional
        Budget for all of them together.

    Returns
    -------
    Announcement or None
        None if nothing is open.

    Raises
    ------
    BudgetExceededError
        If the budget does not cover them, unless it is partial; the message says how many contexts fit.
    """
    ledger = Ledger(judge, budget or budget_of(judge), announces=True)
    planned: set[Request] = set()
    is_open = False
    with open_store(store, create=False) as kept:
        for design in designs:
            with suppress(InputError, JudgeError):
                trials = _answerable(design, judge, dataset)
                fresh = [each for each in dict.fromkeys(trial.request for trial in trials) if each not in planned]
                planned.update(fresh)
                ledger.plan(unanswered(judge, fresh, kept), trials)
                is_open |= is_sequential(design)
    if budget is not None:
        ledger.require(begins=True)
    return announcement_of(ledger, len(planned) - ledger.planned, is_open) if ledger.planned else None


def _answerable(design: Design, judge: Judge, dataset: Dataset) -> list[Trial]:
    """Return the trials of a design or the nearest one that a judge can answer; raise `JudgeError` if there is none."""
    trials = list(design.design(dataset))
    try:
        judge.check([trial.request for trial in trials])
    except UnsupportedRequestError as error:
        nearest = design.nearest(error.request) if isinstance(design, Adaptable) and error.request is not None else None
        if nearest is None or nearest.reads is not None:
            raise
        return _answerable(nearest.design, judge, dataset)
    return trials
