"""Messages of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from biaslab.core.errors import InputError

Role = Literal["system", "user", "assistant"]


class Message(NamedTuple):
    """One turn of a conversation; the last one may be the assistant's, which the judge then continues."""

    role: Role
    content: str


Messages: TypeAlias = str | Sequence[Message | tuple[str, str] | Mapping[str, str]]


def as_messages(messages: Messages) -> tuple[Message, ...]:
    """Turn a string, pairs or dictionaries into messages.

    Raises
    ------
    InputError
        If there are no messages, or one has an unknown role or content that is not a string.
    """
    if isinstance(messages, str):
        return (Message("user", messages),)
    turns = tuple(
        Message(**turn) if isinstance(turn, Mapping) else Message(*turn)  # type: ignore[arg-type]
        for turn in messages
    )
    if not turns:
        raise InputError("messages", turns, "a string or at least one message")
    for turn in turns:
        if turn.role not in ("system", "user", "assistant"):
            raise InputError("messages", turn.role, "the roles system, user and assistant")
        if not isinstance(turn.content, str):
            raise InputError("messages", turn.content, "a string as content")
    return turns
