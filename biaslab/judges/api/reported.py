"""Read the metadata of a response: tokens, model, and whether the model thought first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from biaslab.core import AT_LIMIT, Usage
from biaslab.judges.api.faults import Fault
from biaslab.prompts.parsing.thoughts import opens_thought, split_message

_AT_LIMIT = re.compile(r"(?:\w+_)?length|max_\w*tokens?|token_limit\w*|model_context_window_exceeded", re.IGNORECASE)
_DECLINED = re.compile(
    r"(?:content_?|safety_?)filter\w*|(?:\w+_)?safety|recitation|blocklist|prohibited_content|spii|sensitive",
    re.IGNORECASE,
)
_REASONING = ("reasoning_tokens", "thinking_tokens", "thoughts_token_count", "thoughtsTokenCount")
_MOST_TOKENS = 2**40  # sums of such counts still fit into a store


def shows_thought(choice: Mapping[str, Any], usage: Usage) -> bool:
    """Return whether a chat completion begins with thinking, or used thinking tokens."""
    message = choice.get("message")
    text, thought = split_message(message) if isinstance(message, Mapping) else (None, None)
    return bool(thought) or usage.reasoning_tokens > 0 or opens_thought(text or "")


def usage_of(reported: object) -> Usage:
    """Return the token counts reported by a server; zeros if it reports none.

    Raises
    ------
    Fault
        If a count is implausibly large.
    """
    if not isinstance(reported, dict):
        return Usage()
    details = reported.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    tables = [reported, *(reported.get(name) for name in ("completion_tokens_details", "output_tokens_details"))]
    named = (table.get(name) for table in tables if isinstance(table, dict) for name in _REASONING)
    reasons = max((count for count in named if isinstance(count, int) and not isinstance(count, bool)), default=0)
    counts = (reported.get("prompt_tokens"), cached, reported.get("completion_tokens"), reasons)
    if any(isinstance(count, int) and count >= _MOST_TOKENS for count in counts):
        raise Fault("the server reports an impossible number of tokens (2⁴⁰ or more)")
    usage = Usage(*(count if isinstance(count, int) and count >= 0 else 0 for count in counts))
    total = reported.get("total_tokens")
    is_separate = total is None and usage.reasoning_tokens > usage.completion_tokens
    if usage.reasoning_tokens and (is_separate or total == usage.tokens + usage.reasoning_tokens):
        return replace(usage, completion_tokens=usage.completion_tokens + usage.reasoning_tokens)  # xAI, Google
    return usage


def reason_of(choice: Mapping[str, Any]) -> str | None:
    """Return why a reply ended, in OpenAI's terms if known.

    Raises
    ------
    Fault
        If the server aborted the answer.
    """
    named = choice.get("finish_reason") or choice.get("native_finish_reason")
    if named == "error" or choice.get("error"):
        raise Fault(f"the server broke off an answer: {json.dumps(choice.get('error'))[:200]}")
    if not named:
        return None
    declined = _DECLINED.fullmatch(str(named)) is not None
    return AT_LIMIT if _AT_LIMIT.fullmatch(str(named)) else "content_filter" if declined else str(named)


def model_of(document: dict[str, Any]) -> str | None:
    """Return the model that a server reports: name and fingerprint."""
    names = [document.get(name) for name in ("model", "system_fingerprint")]
    return " ".join(name for name in names if isinstance(name, str) and name) or None
