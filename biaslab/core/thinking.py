"""Thinking budgets in requests to reasoning models."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TypeAlias

from biaslab.core.errors import InputError

#: Maximum thinking tokens of each effort.
EFFORTS: Mapping[str, int] = {"none": 0, "minimal": 1024, "low": 4096, "medium": 16_384, "high": 32_768}
#: Maximum tokens (0 for no thinking), or an effort.
ThinkingBudget: TypeAlias = int | str
_ALLOWED = f"a whole number of tokens, 0 for no thinking, or one of {', '.join(EFFORTS)}"


def as_thinking(value: ThinkingBudget | None, name: str = "thinking") -> ThinkingBudget | None:
    """Return a thinking budget in canonical form; None for the judge's own setting.

    Parameters
    ----------
    value : int or str, optional
        Tokens (also as text) or an effort; ``"none"`` and ``"off"`` mean 0.
    name : str
        Name of the parameter, for messages.

    Raises
    ------
    InputError
        If the value is not a thinking budget.

    Examples
    --------
    >>> as_thinking("none"), as_thinking("4096"), as_thinking("low"), as_thinking(None)
    (0, 4096, 'low', None)
    """
    if value is None:
        return None
    if isinstance(value, str):
        if value in ("none", "off"):
            return 0
        if value in EFFORTS:
            return value
        if value.isascii() and value.isdigit():
            return int(value)
    elif isinstance(value, Integral) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise InputError(name, value, _ALLOWED)


def thinking_tokens(budget: ThinkingBudget) -> int:
    """Return the maximum thinking tokens of a budget.

    Examples
    --------
    >>> thinking_tokens(0), thinking_tokens("low"), thinking_tokens(500)
    (0, 4096, 500)
    """
    return EFFORTS[budget] if isinstance(budget, str) else budget
