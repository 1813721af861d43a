"""What a run is going to ask, in one line before the first request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from biaslab.core import BaseJudge, Design, Judge, Request, Usage, as_judge, is_sequential
from biaslab.core.errors import InputError, JudgeError
from biaslab.core.output import count
from biaslab.store import Store
from biaslab.study.spending.budget import Budget, budget_of
from biaslab.study.spending.cost import dollars, unanswered
from biaslab.study.spending.token_counts import TokenCounter

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

_SAMPLE = 200  # requests whose tokens are counted; the others are scaled by their characters


class Announcement(NamedTuple):
    """What is going to be asked.

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


def foresee(
    judge: Judge,
    missing: Sequence[Request],
    stored: int = 0,
    budget: Budget | None = None,
    more: bool = False,
) -> Announcement:
    """Count what a judge is going to be asked.

    Parameters
    ----------
    judge : Judge
        Who would be asked. Nothing is asked; a local judge loads its tokenizer.
    missing : sequence of Request
        Different requests, at least one, whose replies the store does not hold.
    stored : int
        Further ones, whose replies it holds.
    budget : Budget, optional
        Whose prices and measured speed are used; else those of the judge, where it has any.
    more : bool
        The design goes on with what is answered.

    Examples
    --------
    >>> import biaslab as bl
    >>> from biaslab.core import Choice
    >>> judge = bl.SimulatedJudge(bl.load_dataset("graded", limit=1))
    >>> print(foresee(judge, [Choice("Is A or B better?", ("A", "B"))], budget=bl.Budget(prices={"input": 2.0})))
    1 request; 5 tokens to read and at most 1 to write, estimated at 4 characters a token; at most $0.00
    """
    found = Forecast(judge)
    found.add(missing)
    return found.announcement(stored, budget, more)


class Forecast:
    """Counts what a judge is going to be asked, of requests that come in parts: see `foresee`."""

    def __init__(self, judge: Judge) -> None:
        self._judge, self._tokens = as_judge(judge), TokenCounter(judge, _SAMPLE)
        self.requests = self._asked = 0
        self._written = 0.0

    def add(self, missing: Sequence[Request]) -> None:
        """Count some more requests, all different, whose replies the store does not hold."""
        if missing:
            _, written = self._tokens.add(missing)
            self._written += float(written.sum())
            self._asked += _times(self._judge, missing)
            self.requests += len(missing)

    def announcement(self, stored: int = 0, budget: Budget | None = None, more: bool = False) -> Announcement:
        """Return what is going to be asked, given what else is known: see `foresee`."""
        read, written = self._tokens.read, self._written
        known = budget or budget_of(self._judge) or Budget()
        prices = known.prices
        price = None if not prices else dollars(Usage(round(read), 0, round(written)), prices)
        seconds = None if known.seconds_per_request is None else known.seconds_per_request * self.requests
        counts = (self.requests, stored, self._asked, read, written)
        return Announcement(*counts, self._tokens.method, price, seconds, more)


def _times(judge: BaseJudge, requests: Sequence[Request]) -> int:
    """Return how many requests are sent for some, by a panel or by a judge that samples."""
    expanded = [each for request in requests for each in judge.expand(request)]
    return sum(_times(each, expanded) for each in judge.asks) if judge.asks else len(requests)


def foresee_all(
    designs: Iterable[Design], judge: Judge, dataset: Dataset, store: str | PathLike[str]
) -> Announcement | None:
    """Count what a judge is going to be asked by several designs together, each request once.

    Designs that do not suit the data set or the judge are left out.

    Parameters
    ----------
    designs : iterable of Design
        Such as the probes of a card.
    judge, dataset
        As for `biaslab.collect`.
    store : path
        The file of the store; it need not exist.

    Returns
    -------
    Announcement or None
        None where nothing is open.
    """
    planned: dict[Request, None] = {}
    more = False
    for design in designs:
        with suppress(InputError, JudgeError):
            requests = [trial.request for trial in design.design(dataset)]
            judge.check(requests)
            planned |= dict.fromkeys(requests)
            more |= is_sequential(design)
    kept = Store(store, create=False) if Path(store).exists() else None
    missing = unanswered(judge, list(planned), kept)
    if kept is not None:
        kept.close()
    return foresee(judge, missing, len(planned) - len(missing), more=more) if missing else None
