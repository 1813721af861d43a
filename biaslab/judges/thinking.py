"""How long a model may think before it answers: what a user says, the same for models here and behind a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError

#: Tokens that a thought of each effort may take, unless ``tokens`` says otherwise.
EFFORTS: Mapping[str, int] = {"none": 0, "minimal": 1024, "low": 4096, "medium": 16_384, "high": 32_768}
#: What ``"auto"`` begins with where a reply was cut off, and the most that it allows.
LEAST, MOST = 1024, 32_768
_ALLOWED = 'a number of tokens, {"tokens": 4096}, {"effort": "low"}, "off" or "auto"'


@dataclass(frozen=True)
class Thinking:
    """How long a model may think before it answers.

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
        """Read what a user says; None where nothing is said.

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

    @property
    def setting(self) -> object:
        """What enters the id of a judge: the same for the same wish, however it was written."""
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
