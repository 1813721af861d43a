"""Cost of a study: counted and announced before it is run, and limited while it runs."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from biaslab.core.arrays import Floats
from biaslab.core.checks import check_spending
from biaslab.core.errors import BudgetExceededError, InputError, JudgeError, UnsupportedRequestError
from biaslab.core.interfaces import PRICES, Adaptable, BaseJudge, Design, Judge, ProbeInterface, as_judge, is_sequential
from biaslab.core.output import count
from biaslab.core.requests import Request
from biaslab.core.trials import Reply, Trial, Usage
from biaslab.store import Store, open_store
from biaslab.store.stored_judge import StoredJudge, Tally
from biaslab.study.token_counts import COUNTED, TokenCounter, count_tokens

if TYPE_CHECKING:
    from biaslab.datasets import Dataset

__all__ = ["Budget", "Cost", "count_cost", "measure", "price"]

_SAMPLE = 200  # requests tokenized for an announcement; the others are scaled by characters
_SLACK = 1 + 1e-9  # tolerance for rounding in sums
_FIRST = 4  # requests sent before the cost of one is known
_ERRORS = 3  # standard errors by which the cost of the requests left must exceed the budget for a run to end early


@dataclass(frozen=True)
class Budget:
    """Limits on spending for requests that the store does not answer; None: no limit.

    `biaslab.collect` counts the open requests before asking, and does not start if the budget does not cover them.
    Tokens are estimated if the judge cannot count them, and the duration is known only with `seconds_per_request`, so
    limits are also checked during the run.

    Parameters
    ----------
    requests : int, optional
        Number of replies.
    tokens : int, optional
        Input plus output tokens.
    minutes : float, optional
        Wall-clock time.
    dollars : float, optional
        Cost in dollars; requires `prices`.
    prices : mapping, optional
        Dollars per million tokens: ``input`` and optionally ``cached`` and ``output``. With prices, the progress bar
        shows the spending.
    partial : bool
        Start even if the budget is too small, and stop at the limit with all replies so far in the store.
    seconds_per_request : float, optional
        Measured speed of the judge. Without it, `minutes` is only checked during the run.

    Raises
    ------
    InputError
        If a limit or the speed is not above 0, or prices are invalid.

    Examples
    --------
    >>> Budget(requests=500).exceeded(requests=500, tokens=0, seconds=3.0)
    '500 of 500 requests'
    """

    requests: int | None = None
    tokens: int | None = None
    minutes: float | None = None
    dollars: float | None = None
    prices: Mapping[str, float] | None = None
    partial: bool = False
    seconds_per_request: float | None = None

    def __post_init__(self) -> None:
        for name in ("requests", "tokens", "minutes", "dollars", "seconds_per_request"):
            value: Any = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and float(value) > 0):
                raise InputError(f"budget.{name}", value, "a number above 0, or None for no limit")

        if self.prices is not None:
            check_spending("prices", self.prices, PRICES)
        elif self.dollars is not None:
            raise InputError("budget.prices", None, "dollars per million tokens, because the budget is in dollars")

    def exceeded(self, requests: int, tokens: int, seconds: float, dollars: float = 0.0) -> str:
        """Return the limit that is reached, in words; empty if none."""
        spent = (("requests", requests), ("tokens", tokens), ("minutes", seconds / 60), ("dollars", dollars))
        for name, value in spent:
            limit = getattr(self, name)
            if limit is not None and value >= limit:
                return f"{value:,.4g} of {limit:,g} {name}"
        return ""


def budget_of(judge: Judge) -> Budget | None:
    """Return the budget from a judge's own prices and limits, or None.

    Examples
    --------
    >>> import biaslab as bl
    >>> judge = bl.ApiJudge("qwen3", "http://localhost:8000/v1", limits={"requests": 500})
    >>> budget_of(bl.Sampled(judge, 5)).requests
    500
    """
    asked = as_judge(judge)
    limits: dict[str, Any] = dict(asked.limits)
    return Budget(**limits, prices=asked.prices or None) if asked.prices or limits else None


class Ledger:
    """Count planned and sent requests of a run, and check them against its budget.

    Parameters
    ----------
    judge : Judge
        The judge; the ledger does not ask it. A local judge loads its tokenizer if tokens are counted.
    budget : Budget, optional
        Limits of the run; default: none.
    source : BaseJudge, optional
        The judge wrapped with the store, if any.
    announces : bool
        Count tokens and requests of the plan even if no limit needs them.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = list(bl.probes.Position(templates=[1]).design(data))
    >>> ledger = Ledger(bl.SimulatedJudge(data), bl.Budget(requests=300))
    >>> ledger.plan([trial.request for trial in trials], trials)
    >>> ledger.require(begins=True)
    >>> ledger.planned
    240
    """

    def __init__(
        self,
        judge: Judge,
        budget: Budget | None = None,
        source: BaseJudge | None = None,
        announces: bool = False,
    ) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise InputError("budget", budget, "a Budget", f"write biaslab.Budget(requests={budget})")
        self.judge, self.budget = as_judge(judge), budget or Budget()
        self._checked, self._announces = not self.budget.partial, announces
        self._started = time.monotonic()
        self._keeps = isinstance(source, StoredJudge)
        self._tally = source.tally if isinstance(source, StoredJudge) else Tally()
        self.begin_plan()

    def begin_plan(self) -> None:
        """Start a new plan, such as for another design; spending so far still counts."""
        limited = self._checked and (self.budget.tokens is not None or self.budget.dollars is not None)
        self.tokens = TokenCounter(self.judge, COUNTED if limited else _SAMPLE) if limited or self._announces else None
        self.planned = self.sent = 0
        self._before = self.requests  # of earlier plans
        self.written = 0.0
        self._contexts: dict[str, int] = {}
        self._costs: dict[str, list[float]] = {}  # by limit, one value per context

    def plan(self, missing: Sequence[Request], trials: Sequence[Trial] = ()) -> None:
        """Add a part of the design.

        Parameters
        ----------
        missing : sequence of Request
            Different requests that the store does not answer; see `biaslab.study.spending.unanswered`.
        trials : sequence of Trial
            The judgements of that part, which assign requests to contexts.
        """
        read = written = np.zeros(len(missing))
        if self.tokens is not None and missing:
            read, written = self.tokens.add(missing)
        self.planned += len(missing)
        self.written += float(written.sum())
        if self._announces:
            self.sent += _times(self.judge, missing)
        if not self._checked or not trials:
            return
        first: dict[Request, int] = {}
        for trial in trials:
            first.setdefault(trial.request, self._contexts.setdefault(trial.context_id, len(self._contexts)))
        at = [first[request] for request in missing]
        for name, costs in self._cost_of(read, written).items():
            sums = self._costs.setdefault(name, [])
            sums += [0.0] * (len(self._contexts) - len(sums))
            for place, cost in zip(at, costs.tolist(), strict=True):
                sums[place] += cost

    def require(self, begins: bool, asks: bool = True) -> None:
        """Raise if the budget does not cover the plan (before asking), or is spent (before a later round).

        Parameters
        ----------
        begins, asks : bool
            Whether this is the first round, and whether it has open requests.

        Raises
        ------
        BudgetExceededError
            The message gives what the run needs and how many contexts the budget covers.
        """
        if not begins and self.requests:
            if asks:
                self.stop_at_limit("the design has more requests; replies are stored, if a store was given")
            return
        limits = {name: getattr(self.budget, name) * _SLACK for name in self._costs}
        over = {name: total for name, costs in self._costs.items() if (total := sum(costs)) > limits[name]}
        if not over:
            return
        fits = min(int(np.sum(np.cumsum(self._costs[name]) <= limits[name])) for name in over)
        method = "" if self.tokens is None else f" ({self.tokens.method})"
        needs = " and ".join(
            f"{_amount(name, total)} {name}" + method * (name in ("tokens", "dollars")) for name, total in over.items()
        )
        allowed = " and ".join(f"{getattr(self.budget, name):,g}" for name in over)
        reason = (
            f"the run needs {needs}, but the budget allows {allowed}, enough for {fits} of {len(self._contexts)} "
            "contexts; nothing was asked"
        )
        less = (f"dataset.head({fits}), ", f"--contexts {fits}, ") if fits else ("", "")
        then = "to start anyway and stop at the limit with all replies so far in the store"
        partial = ("Budget(..., partial=True)", "--partial of biaslab screen")
        raise BudgetExceededError(
            reason, *(f"use {start}a larger budget, or {how} {then}" for start, how in zip(less, partial, strict=True))
        )

    @property
    def requests(self) -> int:
        """Number of replies so far, excluding those from the store."""
        return self._tally.asked

    @property
    def usage(self) -> Usage:
        """Tokens of the replies so far, excluding those from the store."""
        return self._tally.usage

    def count(self, replies: Collection[Reply]) -> None:
        """Count new replies, unless the store counts them."""
        if not self._keeps:
            self._tally.count(replies, asked=True)

    @property
    def affordable(self) -> int | None:
        """Number of requests that may be sent at once, at least one; None without a limit.

        A request is paid for once it is sent, so a few are sent first. A partial budget, which is not checked before
        the run, then allows as many as the rest of it covers at the mean cost of all replies so far, including those
        from the store. Without reported tokens, there is no such limit.
        """
        budget, tally = self.budget, self._tally
        left = [] if budget.requests is None else [budget.requests - self.requests]
        replies, usage = tally.asked + tally.stored, tally.usage + tally.stored_usage
        for limit, spent, cost in (
            (budget.tokens, self.usage.tokens, usage.tokens),
            (budget.dollars, self.dollars, self._price(usage)),
        ):
            if limit is not None and not replies and (budget.partial or self.judge.thinks):
                left.append(_FIRST)
            elif limit is not None and budget.partial and cost:
                left.append(int((limit - spent) * replies / cost))
        return max(1, min(left)) if left else None

    @property
    def dollars(self) -> float:
        """Cost of the replies so far."""
        return self._price(self.usage)

    def _price(self, usage: Usage) -> float:
        return 0.0 if self.budget.prices is None else dollars(usage, self.budget.prices)

    def stop_at_limit(self, progress: str) -> None:
        """Raise `BudgetExceededError` if a limit is reached, or thoughts will surely exceed it in the requests left."""
        seconds = time.monotonic() - self._started
        reached = self.budget.exceeded(self.requests, self.usage.tokens, seconds, self.dollars)
        again = "run again with a larger budget to continue"
        if self.requests and reached:
            raise BudgetExceededError(f"the budget is spent: {reached}; {progress}; {again}")
        if self._checked and self.usage.reasoning_tokens and self.requests >= _FIRST:
            left = max(self.planned - self.requests + self._before, 0) / self.requests
            error = self._tally.relative_error * math.sqrt(1 + 1 / left) if left else 0.0  # of their mean cost
            factor = 1 + left * max(0.0, 1 - _ERRORS * error)
            over = self.budget.exceeded(0, round(factor * self.usage.tokens), 0, factor * self.dollars)
            if over:
                words = f"the judge thinks before it answers, so the run needs at least {over}"
                raise BudgetExceededError(
                    f'{words}; {progress}; {again}, or with a judge that thinks less: thinking="off", or an effort'
                )

    def _cost_of(self, read: Floats, written: Floats) -> dict[str, Floats]:
        """Return the cost of each request, by limit."""
        budget, each = self.budget, np.ones(len(read))
        costs: dict[str, Floats] = {}
        if budget.requests is not None:
            costs["requests"] = each
        if budget.tokens is not None:
            costs["tokens"] = read + written
        if budget.dollars is not None and budget.prices is not None:
            costs["dollars"] = (read * budget.prices["input"] + written * budget.prices.get("output", 0.0)) / 1e6
        if budget.minutes is not None and budget.seconds_per_request is not None:
            costs["minutes"] = each * budget.seconds_per_request / 60
        return costs


def _times(judge: BaseJudge, requests: Sequence[Request]) -> int:
    """Return the number of requests sent, which is larger for panels and judges that sample."""
    expanded = [each for request in requests for each in judge.expand(request)]
    return sum(_times(each, expanded) for each in judge.asks) if judge.asks else len(requests)


def _amount(name: str, total: float) -> str:
    return f"{total:,.4g}" if name == "dollars" else f"{math.ceil(total):,}"


class Cost(NamedTuple):
    """Cost of a study; attributes as in `biaslab.study.planning.Plan`."""

    requests: int
    stored: int
    read: int
    written: int
    distinct: int
    counted: str


def count_cost(probe: ProbeInterface, judge: Judge, dataset: Dataset, contexts: int, store: Store | None) -> Cost:
    """Count the requests and tokens of a study, extrapolating beyond the data set's contexts."""
    present = min(contexts, dataset.n_contexts)
    requests = list(dict.fromkeys(trial.request for trial in probe.design(dataset.head(present))))
    if not requests:
        raise InputError("probe", probe.name, "one that plans at least one judgement", "add contexts or candidates")
    return extrapolated_cost(judge, requests, store, present, present, contexts)


def extrapolated_cost(
    judge: Judge, requests: Sequence[Request], store: Store | None, counted: int, present: int, contexts: int
) -> Cost:
    """Scale the cost of requests up to a study.

    Parameters
    ----------
    judge, store
        As in `count_cost`.
    requests : sequence of Request
        Different requests.
    counted, present, contexts : int
        Numbers of contexts: of these requests, of the study that the data set has, and of the study.
    """
    missing = unanswered(judge, requests, store)
    total = round(len(requests) * contexts / counted)
    stored = round((len(requests) - len(missing)) * present / counted)
    sample = missing if contexts == present else requests
    if not sample:
        return Cost(total, stored, 0, 0, 0, "nothing left to ask")
    tokens, factor = count_tokens(judge, sample), (total - stored) / len(sample)
    sums = float(tokens.read.sum()), float(tokens.written.sum()), tokens.distinct
    read, written, distinct = (round(factor * value) for value in sums)
    return Cost(total, stored, read, written, distinct, tokens.method)


def price(cost: Cost, prices: Mapping[str, float] | None) -> tuple[float | None, float | None]:
    """Return the maximum price in dollars, and the price with all shared prefixes cached, if that has a price."""
    if prices is None:
        return None, None
    most, least = (dollars(Usage(cost.read, cached, cost.written), prices) for cached in (0, cost.read - cost.distinct))
    return most, least if "cached" in prices else None


def dollars(usage: Usage, prices: Mapping[str, float]) -> float:
    """Return the price of tokens in dollars; cached input without its own price costs the same as other input.

    Examples
    --------
    >>> dollars(Usage(prompt_tokens=1_000_000, cached_tokens=500_000), {"input": 2.0, "cached": 0.5, "output": 8.0})
    1.25
    """
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    read = (usage.prompt_tokens - cached) * prices["input"] + cached * prices.get("cached", prices["input"])
    return (read + usage.completion_tokens * prices.get("output", 0.0)) / 1e6


def measure(
    probe: ProbeInterface, judge: Judge, dataset: Dataset, store: Store | str | PathLike[str], contexts: int = 2
) -> float | None:
    """Measure the seconds per request by asking the open requests of a few contexts. This costs money.

    Replies are kept in the store, so a later study does not repeat them. The first request, which loads the judge's
    weights or opens its connection, is not timed.

    Parameters
    ----------
    probe, judge, dataset
        As in `biaslab.study.planning.plan`.
    store : Store or path
        Store of replies.
    contexts : int
        Number of contexts to ask: the first with open requests.

    Returns
    -------
    float or None
        Seconds per request; None if fewer than two requests are open.

    Examples
    --------
    >>> import tempfile
    >>> import biaslab as bl
    >>> data, probe = bl.load_dataset("graded", limit=2), bl.probes.Position()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     measure(probe, bl.SimulatedJudge(data), data, f"{folder}/replies.sqlite") < 1
    True
    """
    trials = list(probe.design(dataset))
    kept = store if isinstance(store, Store) else Store(store)
    try:
        missing = set(unanswered(judge, [trial.request for trial in trials], kept))
        chosen = list(dict.fromkeys(trial.context_id for trial in trials if trial.request in missing))[:contexts]
        asked = dict.fromkeys(t.request for t in trials if t.context_id in chosen and t.request in missing)
        if len(asked) < 2:
            return None
        first, *rest = asked
        source = kept.wrap(judge)
        source.check([first, *rest])
        list(source.ask([first]))
        started = time.monotonic()
        list(source.ask(rest))
        return (time.monotonic() - started) / len(rest)
    finally:
        if kept is not store:
            kept.close()


def unanswered(judge: Judge, requests: Sequence[Request], store: Store | None) -> list[Request]:
    """Return the different requests that the store does not answer, in order."""
    different = list(dict.fromkeys(requests))
    return different if store is None else store.missing(judge, different)


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


def announcement_of_all(
    designs: Iterable[Design],
    judge: Judge,
    dataset: Dataset,
    store: str | PathLike[str],
    budget: Budget | None = None,
    refused: tuple[type[Request], ...] = (),
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
    refused : tuple of type
        Kinds of requests that the judge is assumed to refuse, such as `biaslab.Choice`.

    Returns
    -------
    Announcement or None
        None if nothing is open.

    Raises
    ------
    BudgetExceededError
        If the budget does not cover them, unless it is partial; the message says how many contexts fit.
    """
    ledger = Ledger(judge, budget_of(judge) if budget is None else budget, announces=True)
    planned: set[Request] = set()
    is_open = False
    with open_store(store, create=False) as kept:
        for design in designs:
            with suppress(InputError, JudgeError):
                trials = answerable(design, judge, dataset, refused)
                fresh = [each for each in dict.fromkeys(trial.request for trial in trials) if each not in planned]
                planned.update(fresh)
                ledger.plan(unanswered(judge, fresh, kept), trials)
                is_open |= is_sequential(design)
    if budget is not None:
        ledger.require(begins=True)
    return announcement_of(ledger, len(planned) - ledger.planned, is_open) if ledger.planned else None


def answerable(design: Design, judge: Judge, dataset: Dataset, refused: tuple[type[Request], ...] = ()) -> list[Trial]:
    """Return the trials of a design, or of the nearest one, that a judge can answer.

    Parameters
    ----------
    design, judge, dataset
        As in `announcement_of_all`.
    refused : tuple of type
        Kinds of requests that the judge is assumed to refuse.

    Raises
    ------
    JudgeError
        If there is none.
    """
    trials = list(design.design(dataset))
    try:
        if first := next((trial.request for trial in trials if isinstance(trial.request, refused)), None):
            raise UnsupportedRequestError("assumed to be refused", first)
        judge.check([trial.request for trial in trials])
    except UnsupportedRequestError as error:
        nearest = design.nearest(error.request) if isinstance(design, Adaptable) and error.request is not None else None
        if nearest is None or nearest.reads is not None:
            raise
        return answerable(nearest.design, judge, dataset, refused)
    return trials
