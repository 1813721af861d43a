"""Budget and ledger of a run: its limits, its planned requests, and its spending."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from biaslab.core import PRICES, BaseJudge, Judge, Reply, Request, Trial, Usage, as_judge
from biaslab.core.arrays import Floats
from biaslab.core.checks import check_spending
from biaslab.core.errors import BudgetExceededError, InputError
from biaslab.store.stored import StoredJudge, Tally
from biaslab.study.spending.cost import dollars
from biaslab.study.spending.token_counts import COUNTED, TokenCounter

_SAMPLE = 200  # requests tokenized for an announcement; the others are scaled by characters
_SLACK = 1 + 1e-9  # tolerance for rounding in sums
_FIRST = 4  # requests sent before the cost of one is known


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
            value = getattr(self, name)
            if value is not None and not value > 0:
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
        self.written = 0.0
        self._contexts: dict[str, int] = {}
        self._costs: dict[str, list[float]] = {}  # by limit, one value per context

    def plan(self, missing: Sequence[Request], trials: Sequence[Trial] = ()) -> None:
        """Add a part of the design.

        Parameters
        ----------
        missing : sequence of Request
            Different requests that the store does not answer; see `biaslab.study.spending.cost.unanswered`.
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
        start = f"dataset.head({fits}), " if fits else ""
        raise BudgetExceededError(
            f"the run needs {needs}, but the budget allows {allowed}, enough for {fits} of {len(self._contexts)} "
            f"contexts; nothing was asked. Use {start}a larger budget, or Budget(..., partial=True) to start anyway "
            "and stop at the limit with all replies so far in the store"
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

        A request is paid for once it is sent. A partial budget, which is not checked before the run, therefore sends a
        few requests first, then as many as the rest of the budget covers at the mean cost of all replies so far,
        including those from the store. Without reported tokens, there is no such limit.
        """
        budget, tally = self.budget, self._tally
        left = [] if budget.requests is None else [budget.requests - self.requests]
        if budget.partial:
            replies, usage = tally.asked + tally.stored, tally.usage + tally.stored_usage
            for limit, spent, cost in (
                (budget.tokens, self.usage.tokens, usage.tokens),
                (budget.dollars, self.dollars, self._price(usage)),
            ):
                if limit is not None and not replies:
                    left.append(_FIRST)
                elif limit is not None and cost:
                    left.append(int((limit - spent) * replies / cost))
        return max(1, min(left)) if left else None

    @property
    def dollars(self) -> float:
        """Cost of the replies so far."""
        return self._price(self.usage)

    def _price(self, usage: Usage) -> float:
        return 0.0 if self.budget.prices is None else dollars(usage, self.budget.prices)

    def stop_at_limit(self, progress: str) -> None:
        """Raise `BudgetExceededError` if a limit is reached."""
        seconds = time.monotonic() - self._started
        reached = self.budget.exceeded(self.requests, self.usage.tokens, seconds, self.dollars)
        if self.requests and reached:
            again = "run again with a larger budget to continue"
            raise BudgetExceededError(f"the budget is spent: {reached}; {progress}; {again}")

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
