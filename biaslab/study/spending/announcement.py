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
    """Requests that will be asked.

    Attributes
    ----------
    requests, stored : int
        Different requests that are open, and those that the store answers.
    asked : int
        What is asked for them: k times as much by `biaslab.Sampled`.
    read, written : float
        Tokens, those written at most.
    counted : str
        How tokens were counted, in words; empty where nothing is open.
    dollars, seconds : float or None
        Price at most and time, where they are known.
    more : bool
        The design goes on with what is answered.
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
        times = f" (asked as {self.asked:,})" if self.asked != self.requests else ""
        parts = [
            f"{count(self.requests, 'request')}{times}" + (f", {self.stored:,} more are stored" if self.stored else ""),
            f"{self.read:,.0f} tokens to read and at most {self.written:,.0f} to write, {self.counted}",
            "" if self.dollars is None else f"at most ${self.dollars:,.2f}",
            "" if self.seconds is None else f"{self.seconds / 60:,.1f} min",
            "more where the design goes on with what is answered" if self.more else "",
        ]
        return "; ".join(filter(None, parts))


def announcement_of(ledger: Ledger, stored: int = 0, more: bool = False) -> Announcement:
    """Return what a ledger has planned, with what else is known."""
    if ledger.tokens is None:
        raise InputError("ledger", ledger, "one that announces", "make it with announces=True")
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
    """Count what a judge is going to be asked by several designs together, each request once.

    Of what the judge is known to refuse the nearest design is counted that it answers, as `biaslab.collect` asks it.
    Designs that do not suit the data set or the judge are left out.

    Parameters
    ----------
    designs : iterable of Design
        Such as the probes of a card.
    judge, dataset
        As for `biaslab.collect`.
    store : path
        The file of the store; it need not exist.
    budget : Budget, optional
        For all of them together.

    Returns
    -------
    Announcement or None
        None where nothing is open.

    Raises
    ------
    BudgetExceededError
        If the budget does not cover them, unless it is partial; the message says how many contexts fit.
    """
    ledger = Ledger(judge, budget or budget_of(judge), announces=True)
    planned: set[Request] = set()
    more = False
    with open_store(store, create=False) as kept:
        for design in designs:
            with suppress(InputError, JudgeError):
                trials = _answerable(design, judge, dataset)
                fresh = [each for each in dict.fromkeys(trial.request for trial in trials) if each not in planned]
                planned.update(fresh)
                ledger.plan(unanswered(judge, fresh, kept), trials)
                more |= is_sequential(design)
    if budget is not None:
        ledger.require(begins=True)
    return announcement_of(ledger, len(planned) - ledger.planned, more) if ledger.planned else None


def _answerable(design: Design, judge: Judge, dataset: Dataset) -> list[Trial]:
    """Return the trials of a design or of the nearest one that a judge can answer; `JudgeError` where there is none."""
    trials = list(design.design(dataset))
    try:
        judge.check([trial.request for trial in trials])
    except UnsupportedRequestError as error:
        nearest = design.nearest(error.request) if isinstance(design, Adaptable) and error.request is not None else None
        if nearest is None or nearest.reads is not None:
            raise
        return _answerable(nearest.design, judge, dataset)
    return trials
