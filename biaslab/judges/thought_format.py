"""Formats of thoughts by model family: the tags that open and close one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


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
