"""What a run may spend, and the refusal of a run that cannot be afforded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biaslab.core import Judge, as_judge
from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.study.spending.cost import check_prices


@checked(eager=True)
@dataclass(frozen=True)
class Budget:
    """What a run may spend on replies that the store does not hold; None is no limit.

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
            check_prices(self.prices)
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
