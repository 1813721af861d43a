"""Thinking budgets, as users write them, and the formats of thoughts by model family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.core.requests import EFFORTS, ThinkingBudget, thinking_tokens

#: Initial budget of ``"auto"`` after a reply was cut off, and its maximum.
LEAST, MOST = 1024, 32_768
_ALLOWED = 'a number of tokens, {"tokens": 4096}, {"effort": "low"}, "off" or "auto"'


@dataclass(frozen=True)
class ThinkingOption:
    """Budget for thinking before an answer.

    Parameters
    ----------
    tokens : int
        Tokens added to the limit of each answer.
    effort : str, optional
        The server's ``reasoning_effort``.
    mode : {"on", "off", "auto"}
        ``"off"`` requests an answer without a thought; ``"auto"`` finds out how many tokens are needed.
    """

    tokens: int = 0
    effort: str | None = None
    mode: str = "on"

    @classmethod
    def of(cls, budget: Mapping[str, Any] | str | int | None) -> ThinkingOption | None:
        """Parse a budget as users write it; None if there is none.

        Raises
        ------
        InputError
            If it is not allowed.

        Examples
        --------
        >>> ThinkingOption.of({"effort": "low"}).tokens, ThinkingOption.of("off").mode, ThinkingOption.of(4096).setting
        (4096, 'off', {'tokens': 4096})
        """
        if budget is None:
            return None
        if budget in ("off", "auto"):
            return cls(mode=str(budget))
        if isinstance(budget, str):
            budget = {"effort": budget}
        elif isinstance(budget, int) and not isinstance(budget, bool):
            budget = {"tokens": budget}
        if not isinstance(budget, Mapping) or not budget or budget.keys() - {"tokens", "effort"}:
            raise InputError("thinking", budget, _ALLOWED)
        effort, tokens = budget.get("effort"), budget.get("tokens")
        if effort is not None:
            require_one_of("thinking.effort", effort, tuple(EFFORTS))
        if tokens is not None:
            require_whole("thinking.tokens", tokens, 1)
        return cls(EFFORTS[effort or "none"] if tokens is None else int(tokens), effort)

    def at(self, budget: ThinkingBudget | None, by_effort: bool = False) -> ThinkingOption:
        """Return the budget with a request's own applied; unchanged if it sets none.

        Parameters
        ----------
        budget : int or str, optional
            As in `biaslab.core.requests`. For an effort, the limit is the larger of the effort's and the judge's own.
        by_effort : bool
            Whether thinking is turned off by an effort rather than the chat template's switch.

        Examples
        --------
        >>> ThinkingOption(tokens=8192).at("low"), ThinkingOption(8192, "low").at(0).mode
        (ThinkingOption(tokens=8192, effort='low', mode='on'), 'off')
        """
        if budget is None:
            return self
        if budget == 0:
            return ThinkingOption(effort="none") if by_effort else ThinkingOption(mode="off")
        if isinstance(budget, int):
            return ThinkingOption(budget)
        mode = "auto" if self.mode == "auto" else "on"
        return ThinkingOption(max(thinking_tokens(budget), self.tokens), budget, mode)

    @property
    def setting(self) -> object:
        """The budget as part of a judge's id; equal budgets have equal text."""
        if self.mode != "on":
            return self.mode
        fields = {"tokens": self.tokens, "effort": self.effort}
        if self.effort is not None and self.tokens == EFFORTS[self.effort]:
            del fields["tokens"]
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of each request that set the budget on the server."""
        if self.mode == "off":
            return {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
        return {} if self.effort is None else {"reasoning_effort": self.effort}

    @property
    def is_on(self) -> bool:
        """Whether a thought precedes each answer, so that no label distribution is available."""
        return self.mode == "auto" or (self.mode == "on" and self.effort != "none")


class ThoughtFormat(NamedTuple):
    r"""The tags around a thought.

    Attributes
    ----------
    opening : str
        Opening tag, if the chat template does not write it.
    tag : str
        Closing tag.
    after : str
        Text between the closing tag and the answer.
    before : str
        Text before the closing tag when a thought is cut off.
    """

    opening: str
    tag: str
    after: str
    before: str = "\n"

    @property
    def name(self) -> str:
        """Text that identifies the opening tag; templates may add other white space after it."""
        return self.opening.strip()


#: By families: DeepSeek, Qwen, GLM, SmolLM and others; Seed; EXAONE; Magistral; Kimi; Command A; gpt-oss.
FORMATS = (
    ThoughtFormat("<think>\n", "</think>", "\n\n"),
    ThoughtFormat("<seed:think>", "</seed:think>", "", before=""),
    ThoughtFormat("<thought>\n", "</thought>", "\n\n"),
    ThoughtFormat("[THINK]", "[/THINK]", "", before=""),
    ThoughtFormat("◁think▷", "◁/think▷", "", before=""),
    ThoughtFormat("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", before=""),
    ThoughtFormat(
        "<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant<|channel|>final<|message|>", before=""
    ),
)


def find_format(tokenizer: Any) -> ThoughtFormat | None:
    """Return the format whose opening tag is in the chat template, or else in the tokenizer's added tokens, if any.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        The model's tokenizer.
    """
    template = tokenizer.get_chat_template() if tokenizer.chat_template else ""
    added = [token.content for token in tokenizer.added_tokens_decoder.values()]
    places: Sequence[Any] = (template, added)
    for place in places:
        for each in FORMATS:
            if each.name in place:
                return each
    return None
