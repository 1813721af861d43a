"""Whether a budget covers a run: what is asked is charged part by part, and refused before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from biaslab.core import Judge, Request, Trial
from biaslab.core.errors import BudgetExceededError
from biaslab.study.spending.budget import Budget
from biaslab.study.spending.token_counts import TokenCounter

_SLACK = 1 + 1e-9  # a sum of many parts is off in its last bits


class Charge:
    """What a run costs, context by context, by each limit of a budget that can be checked before the run.

    Parameters
    ----------
    budget : Budget
        What the run may spend. A partial one refuses nothing.
    judge : Judge
        Who would be asked; nothing is.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=2)
    >>> trials = list(bl.probes.Position(templates=[1]).design(data))
    >>> charge = Charge(bl.Budget(requests=300), bl.SimulatedJudge(data))
    >>> charge.add([trial.request for trial in trials], trials)
    >>> charge.require()
    """

    def __init__(self, budget: Budget, judge: Judge) -> None:
        self._budget = budget
        counts = budget.tokens is not None or budget.dollars is not None
        self._counter = TokenCounter(judge) if counts and not budget.partial else None
        self._contexts: dict[str, int] = {}
        self._costs: dict[str, list[float]] = {}  # by limit, one a context

    def add(self, missing: Sequence[Request], trials: Sequence[Trial]) -> None:
        """Charge a part of the run.

        Parameters
        ----------
        missing : sequence of Request
            What would be asked: see `biaslab.study.spending.cost.unanswered`.
        trials : sequence of Trial
            That part of the design, which says to which context a request belongs.
        """
        if self._budget.partial:
            return
        first: dict[Request, int] = {}
        for trial in trials:
            first.setdefault(trial.request, self._contexts.setdefault(trial.context_id, len(self._contexts)))
        at = [first[request] for request in missing]
        for name, costs in self._of(missing).items():
            sums = self._costs.setdefault(name, [])
            sums += [0.0] * (len(self._contexts) - len(sums))
            for place, cost in zip(at, costs, strict=True):
                sums[place] += cost

    def require(self) -> None:
        """Refuse the run where the budget does not cover it.

        Raises
        ------
        BudgetExceededError
            The message says what the run needs and how many contexts the budget covers.
        """
        limits = {name: getattr(self._budget, name) * _SLACK for name in self._costs}
        over = {name: total for name, costs in self._costs.items() if (total := sum(costs)) > limits[name]}
        if not over:
            return
        fits = min(int(np.sum(np.cumsum(self._costs[name]) <= limits[name])) for name in over)
        method = "" if self._counter is None else f" ({self._counter.method})"
        needs = " and ".join(
            f"{_amount(name, total)} {name}" + method * (name in ("tokens", "dollars")) for name, total in over.items()
        )
        allowed = " and ".join(f"{getattr(self._budget, name):,g}" for name in over)
        start = f"dataset.head({fits}), " if fits else ""
        raise BudgetExceededError(
            f"the run needs {needs}, the budget allows {allowed}: enough for {fits} of {len(self._contexts)} contexts; "
            f"nothing was asked. Go on with {start}a larger budget, or Budget(..., partial=True), which starts anyway "
            "and stops at the limit with everything answered in the store"
        )

    def _of(self, missing: Sequence[Request]) -> dict[str, list[float]]:
        """Return what each request costs, by limit."""
        budget, costs = self._budget, dict[str, list[float]]()
        if budget.requests is not None:
            costs["requests"] = [1.0] * len(missing)
        if self._counter is not None:
            read, written = self._counter.add(missing)
            if budget.tokens is not None:
                costs["tokens"] = (read + written).tolist()
            if budget.dollars is not None and budget.prices is not None:
                at_most = read * budget.prices["input"] + written * budget.prices.get("output", 0.0)
                costs["dollars"] = (at_most / 1e6).tolist()
        if budget.minutes is not None and budget.seconds_per_request is not None:
            costs["minutes"] = [budget.seconds_per_request / 60] * len(missing)
        return costs


def _amount(name: str, total: float) -> str:
    return f"{total:,.4g}" if name == "dollars" else f"{math.ceil(total):,}"
