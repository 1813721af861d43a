"""The budget and the ledger of a run: what it may spend, will ask, and has asked."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from biaslab.core import PRICES, BaseJudge, Judge, Reply, Request, Trial, Usage, as_judge
from biaslab.core.checked import checked
from biaslab.core.checks import check_spending
from biaslab.core.errors import BudgetExceededError, InputError
from biaslab.store.stored import StoredJudge
from biaslab.study.spending.cost import dollars
from biaslab.study.spending.token_counts import COUNTED, Floats, TokenCounter

_SAMPLE = 200  # requests whose tokens are counted for an announcement; the others are scaled by their characters
_SLACK = 1 + 1e-9  # a sum of many parts is off in its last bits
_FIRST = 4  # requests that tell what one costs


@checked(eager=True)
@dataclass(frozen=True)
class Budget:
    """Limits on what a run spends on replies that the store does not hold; None is no limit.

    `biaslab.collect` counts what is missing in the store before it asks, and refuses to start what the budget does not
    cover. Tokens are estimated where the judge cannot count them, and how long a run takes is known only from
    `seconds_per_request`, so the limits are watched during the run too.

    Parameters
    ----------
    requests : int, optional
        Replies.
    tokens : int, optional
        Tokens read and written.
    minutes : float, optional
        Wall-clock time.
    dollars : float, optional
        What tokens cost at `prices`, which it needs.
    prices : mapping, optional
        Dollars for a million tokens: ``input``, and if wanted ``cached`` and ``output``. With prices, the progress bar
        shows what is spent.
    partial : bool
        Start anyway, and stop at the limit with everything that was answered in the store.
    seconds_per_request : float, optional
        Measured speed of the judge. Without it, `minutes` refuses nothing before the run.

    Raises
    ------
    InputError
        If a limit or the speed is not above 0, or prices are not what is allowed.

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
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"budget.{name}", value, "a number above 0, or None for no limit")

        if self.prices is not None:
            check_spending("prices", self.prices, PRICES)
        elif self.dollars is not None:
            raise InputError("budget.prices", None, "dollars for a million tokens, where the budget is in dollars")

    def exceeded(self, requests: int, tokens: int, seconds: float, dollars: float = 0.0) -> str:
        """Return which limit is reached, in words; empty when none is."""
        spent = (("requests", requests), ("tokens", tokens), ("minutes", seconds / 60), ("dollars", dollars))
        for name, value in spent:
            limit = getattr(self, name)
            if limit is not None and value >= limit:
                return f"{value:,.4g} of {limit:,g} {name}"
        return ""


def budget_of(judge: Judge) -> Budget | None:
    """Return what a run with a judge may spend, by its own prices and limits; None where it has none.

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
    """Plans and counts the requests of a run, and holds them against its budget.

    Parameters
    ----------
    judge : Judge
        Who is asked; the ledger asks nothing. A local judge loads its tokenizer where tokens are counted.
    budget : Budget, optional
        What the run may spend; no limits by default.
    source : BaseJudge, optional
        The judge with the store around it, if there is one.
    announces : bool
        Count the tokens of the plan, and how many requests are sent for it, although no limit needs them.

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
        self.judge, self.budget = as_judge(judge), budget or Budget()
        self._checked, self._announces = not self.budget.partial, announces
        self._source, self._started = source, time.monotonic()
        self.requests, self.usage = 0, Usage()
        self._arrived, self._worth = 0, Usage()  # replies from the store included
        self.begin_plan()

    def begin_plan(self) -> None:
        """Plan anew, as where another design is asked; what was asked still counts."""
        limited = self._checked and (self.budget.tokens is not None or self.budget.dollars is not None)
        self.tokens = TokenCounter(self.judge, COUNTED if limited else _SAMPLE) if limited or self._announces else None
        self.planned = self.sent = 0
        self.written = 0.0
        self._contexts: dict[str, int] = {}
        self._costs: dict[str, list[float]] = {}  # by limit, one a context

    def plan(self, missing: Sequence[Request], trials: Sequence[Trial] = ()) -> None:
        """Add a part of the design.

        Parameters
        ----------
        missing : sequence of Request
            Different requests whose replies the store does not hold: see `biaslab.study.spending.cost.unanswered`.
        trials : sequence of Trial
            The judgements of that part, which say to which context a request belongs: a budget is checked by contexts.
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
        """Refuse what the budget does not cover: the plan before anything is asked, a later round once all is spent.

        Parameters
        ----------
        begins, asks : bool
            Whether this is the first round, and whether it asks anything that is not stored.

        Raises
        ------
        BudgetExceededError
            The message says what the run needs and how many contexts the budget covers.
        """
        if not begins and self.requests:
            if asks:
                self.stop_at_limit("the design has more to ask, what was answered is kept if a store was given")
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
        start = f"dataset.head({fits}), " if fits else ""
        raise BudgetExceededError(
            f"the run needs {needs}, the budget allows {allowed}: enough for {fits} of {len(self._contexts)} contexts; "
            f"nothing was asked. Go on with {start}a larger budget, or Budget(..., partial=True), which starts anyway "
            "and stops at the limit with everything answered in the store"
        )

    def count(self, replies: Iterable[Reply]) -> None:
        """Count replies that arrived, without those that came from the store."""
        replies = list(replies)
        self._arrived += len(replies)
        self._worth = Usage.total([self._worth, *(reply.usage for reply in replies)])
        if isinstance(self._source, StoredJudge):
            self.requests, self.usage = self._source.tally.asked, self._source.tally.usage
            return
        self.requests, self.usage = self._arrived, self._worth

    @property
    def affordable(self) -> int | None:
        """Requests that may be sent at once, at what one has cost so far; at least one, and None without a limit.

        Requests are paid for once they are sent, however many are in flight, so a budget that was not checked before
        the run is approached in portions: a few requests, which tell what one costs, then as many as the rest pays.
        """
        budget, left = self.budget, []
        if budget.requests is not None:
            left.append(budget.requests - self.requests)
        if budget.partial:
            prices = budget.prices or {}
            limits = [(budget.tokens, self._worth.tokens, self.usage.tokens)]
            limits.append((budget.dollars, dollars(self._worth, prices) if prices else 0.0, self.dollars))
            for limit, worth, spent in limits:
                if limit is not None and not self._arrived:
                    left.append(_FIRST)
                elif limit is not None and worth:
                    left.append(int((limit - spent) / (worth / self._arrived)))
        return max(1, min(left)) if left else None

    @property
    def dollars(self) -> float:
        """Cost of the replies so far."""
        return 0.0 if self.budget.prices is None else dollars(self.usage, self.budget.prices)

    def stop_at_limit(self, progress: str) -> None:
        """Raise `BudgetExceededError` if a limit is reached; nothing is spent on replies that were stored."""
        seconds = time.monotonic() - self._started
        reached = self.budget.exceeded(self.requests, self.usage.tokens, seconds, self.dollars)
        if self.requests and reached:
            again = "run again with a larger budget to go on"
            raise BudgetExceededError(f"the budget is spent: {reached}; {progress}; {again}")

    def _cost_of(self, read: Floats, written: Floats) -> dict[str, Floats]:
        """Return what each request costs, by limit."""
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
    """Return how many requests are sent for some, by a panel or by a judge that samples."""
    expanded = [each for request in requests for each in judge.expand(request)]
    return sum(_times(each, expanded) for each in judge.asks) if judge.asks else len(requests)


def _amount(name: str, total: float) -> str:
    return f"{total:,.4g}" if name == "dollars" else f"{math.ceil(total):,}"
