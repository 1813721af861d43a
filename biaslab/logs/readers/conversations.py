"""Conversations in place of texts: lists of messages, as objects, as JSON or as Python writes them."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

_ASKING = frozenset(["user", "human", "system", "developer", "tool", "prompter"])
_WHO, _WHAT = ("role", "from", "speaker"), ("content", "value", "text")
_OPENINGS = ("[{", '["', "['")
_NOT_WRITTEN = (ValueError, SyntaxError, RecursionError, MemoryError)


def answered(value: Any) -> Any:
    """Return the text of what a model says in a conversation, its messages joined; any other value unchanged.

    Examples
    --------
    >>> answered([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]), answered("So.")
    ('So.', 'So.')
    >>> answered("[{'role': 'user', 'content': 'Why?'}, {'role': 'assistant', 'content': 'So it is.'}]")
    'So it is.'
    """
    listed = _listed(value) if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed:
        return value
    if all(isinstance(item, str) for item in listed):  # a text per turn
        return "\n".join(listed)
    if not all(isinstance(item, dict) and _of(item, _WHAT) is not None for item in listed):
        return value
    return "\n".join(text for item in listed if not _is_asking(item) for text in _texts(_of(item, _WHAT)))


def _listed(text: str) -> Any:
    """Return the list that a text writes; None for another text."""
    text = text.strip()
    if not text.startswith(_OPENINGS) or not text.endswith("]"):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except _NOT_WRITTEN:
            continue
    return None


def _of(message: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((message[name] for name in names if message.get(name) is not None), None)


def _is_asking(message: dict[str, Any]) -> bool:
    return str(_of(message, _WHO)).lower() in _ASKING


def _texts(content: Any) -> Iterator[str]:
    """Yield a content's text, or those of its parts."""
    parts = content if isinstance(content, list) else [content]
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text
