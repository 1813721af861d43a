"""Formats of thoughts by model family: the words that open and close one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class ThoughtFormat(NamedTuple):
    r"""The words around a thought.

    Attributes
    ----------
    opening : str
        What begins a thought, where the chat template does not.
    tag : str
        What ends it.
    after : str
        What stands between the tag and the answer.
    before : str
        What stands between the last words and the tag, where the end is forced.
    """

    opening: str
    tag: str
    after: str
    before: str = "\n"

    @property
    def name(self) -> str:
        """Text that identifies the opening; a template may add other white space after it."""
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
    """Return the format whose opening the chat template, or else the tokenizer's added tokens, have; None without any.

    Parameters
    ----------
    tokenizer : transformers.PreTrainedTokenizerBase
        Of the model.
    """
    template = tokenizer.get_chat_template() if tokenizer.chat_template else ""
    added = [token.content for token in tokenizer.added_tokens_decoder.values()]
    places: Sequence[Any] = (template, added)
    for place in places:
        for each in FORMATS:
            if each.name in place:
                return each
    return None
