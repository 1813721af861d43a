"""What a run has spent so far, and what its progress bar says of that and of a judge's retries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from biaslab.core import BaseJudge, Reply, Usage
from biaslab.core.errors import BudgetExceededError
from biaslab.store.stored import StoredJudge
from biaslab.study.spending.affordable import Charge
from biaslab.study.spending.budget import Budget
from biaslab.study.spending.cost import dollars

if TYPE_CHECKING:
    from tqdm import tqdm


class Spent:
    """What a run has asked of its judge so far, since when, and how much of it the budget allows.

    Parameters
    ----------
    budget : Budget
        Of the run.
    source : BaseJudge
        Who is asked, with the store around it if there is one.
    """

    def __init__(self, budget: Budget, source: BaseJudge) -> None:
        self.budget, self.source, self.started = budget, source, time.monotonic()
        self.requests, self.usage = 0, Usage()

    def count(self, replies: Iterable[Reply]) -> None:
        """Count replies that arrived, without those that came from the store."""
        if isinstance(self.source, StoredJudge):
            self.requests, self.usage = self.source.tally.asked, self.source.tally.usage
            return
        usages = [reply.usage for reply in replies]
        self.requests, self.usage = self.requests + len(usages), Usage.total([self.usage, *usages])

    @property
    def requests_left(self) -> int:
        """How many requests the budget, which limits them, still has: at least one, after which the limit is seen."""
        return max(1, (self.budget.requests or 0) - self.requests)

    def dollars(self) -> float:
        """Return what the replies cost."""
        return 0.0 if self.budget.prices is None else dollars(self.usage, self.budget.prices)

    def require(self, charge: Charge, asks: bool, begins: bool) -> None:
        """Refuse what the budget does not cover: the first part of a design before it, a later one if all is spent.

        Parameters
        ----------
        charge : Charge
            What this part of the design costs.
        asks, begins : bool
            Whether it asks anything that is not stored, and whether it is the first part.
        """
        if begins or not self.requests:
            charge.require()
        elif asks:
            self.stop_at_limit("the design has more to ask, what was answered is kept if a store was given")

    def stop_at_limit(self, progress: str) -> None:
        """Raise `BudgetExceededError` if a limit is reached; nothing is spent on replies that were stored."""
        seconds = time.monotonic() - self.started
        reached = self.budget.exceeded(self.requests, self.usage.tokens, seconds, self.dollars())
        if self.requests and reached:
            again = "run again with a larger budget to go on"
            raise BudgetExceededError(f"the budget is spent: {reached}; {progress}; {again}")


class Postfix:
    """What stands behind a progress bar: what is spent so far, and what a judge says of its retries."""

    def __init__(self, bar: tqdm[Any]) -> None:
        self._bar, self._spent, self._retries = bar, "", ""

    def retried(self, words: str) -> None:
        """Say at once that the judge asks again; called from its thread."""
        self._retries = words
        self._show(refresh=True)

    def spent(self, dollars: float) -> None:
        """Say what is spent, when the bar is drawn next."""
        self._spent = f"${dollars:,.2f}"
        self._show(refresh=False)

    def _show(self, refresh: bool) -> None:
        self._bar.set_postfix_str("; ".join(filter(None, (self._spent, self._retries))), refresh=refresh)


@contextmanager
def postfix_of(judge: BaseJudge, bar: tqdm[Any]) -> Iterator[Postfix]:
    """Yield the text behind a progress bar, to which the judge adds its retries."""
    postfix = Postfix(bar)
    with judge.watched(postfix.retried):
        yield postfix
