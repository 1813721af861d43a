"""Budgets for thoughts, as users write them for local models and for servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biaslab.core import EFFORTS, ThinkingBudget, thinking_tokens
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError

#: What ``"auto"`` begins with where a reply was cut off, and the most that it allows.
LEAST, MOST = 1024, 32_768
_ALLOWED = 'a number of tokens, {"tokens": 4096}, {"effort": "low"}, "off" or "auto"'


@dataclass(frozen=True)
class Thinking:
    """Budget for the thought before an answer.

    Parameters
    ----------
    tokens : int
        Tokens that are added to the limit of each answer.
    effort : str, optional
        What the server is told as ``reasoning_effort``.
    mode : {"on", "off", "auto"}
        ``"off"`` asks for an answer without a thought; ``"auto"`` finds out how many tokens are needed.
    """

    tokens: int = 0
    effort: str | None = None
    mode: str = "on"

    @classmethod
    def of(cls, given: Mapping[str, Any] | str | int | None) -> Thinking | None:
        """Read a budget as users write it; None if none is set.

        Raises
        ------
        InputError
            If it is something else than is allowed.

        Examples
        --------
        >>> Thinking.of({"effort": "low"}).tokens, Thinking.of("off").mode, Thinking.of(4096).setting
        (4096, 'off', {'tokens': 4096})
        """
        if given is None:
            return None
        if given in ("off", "auto"):
            return cls(mode=str(given))
        if isinstance(given, str):
            given = {"effort": given}
        elif isinstance(given, int) and not isinstance(given, bool):
            given = {"tokens": given}
        if not isinstance(given, Mapping) or not given or given.keys() - {"tokens", "effort"}:
            raise InputError("thinking", given, _ALLOWED)
        effort, tokens = given.get("effort"), given.get("tokens")
        if effort is not None:
            require_one_of("thinking.effort", effort, tuple(EFFORTS))
        if tokens is not None:
            require_whole("thinking.tokens", tokens, 1)
        return cls(EFFORTS[effort or "none"] if tokens is None else int(tokens), effort)

    def at(self, budget: ThinkingBudget | None, by_effort: bool = False) -> Thinking:
        """Return what a request's own budget makes of this; the same where it sets none.

        Parameters
        ----------
        budget : int or str, optional
            As `biaslab.core.thinking` has it. Room for an effort is what it may take, or more where the judge has it.
        by_effort : bool
            Whether no thought is asked for as an effort, not by a switch of the chat template.

        Examples
        --------
        >>> Thinking(tokens=8192).at("low"), Thinking(8192, "low").at(0).mode
        (Thinking(tokens=8192, effort='low', mode='on'), 'off')
        """
        if budget is None:
            return self
        if budget == 0:
            return Thinking(effort="none") if by_effort else Thinking(mode="off")
        if isinstance(budget, int):
            return Thinking(budget)
        mode = "auto" if self.mode == "auto" else "on"
        return Thinking(max(thinking_tokens(budget), self.tokens), budget, mode)

    @property
    def setting(self) -> object:
        """The budget as part of a judge's id: equal budgets are written alike."""
        if self.mode != "on":
            return self.mode
        told = {"tokens": self.tokens, "effort": self.effort}
        if self.effort is not None and self.tokens == EFFORTS[self.effort]:
            del told["tokens"]
        return {name: value for name, value in told.items() if value is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of each request that tell the server."""
        if self.mode == "off":
            return {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
        return {} if self.effort is None else {"reasoning_effort": self.effort}

    @property
    def is_on(self) -> bool:
        """Whether a thought comes before each answer, so that there is no distribution over labels."""
        return self.mode == "auto" or (self.mode == "on" and self.effort != "none")
