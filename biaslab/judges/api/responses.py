"""OpenAI's Responses API: convert bodies and responses from and to those of chat completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.judges.api.faults import Fault

RESPONSES = "/responses"
#: Field that limits the answer, including the thought.
TOKEN_FIELD = "max_output_tokens"  # noqa: S105 - the name of a field
_LOGPROBS = "message.output_text.logprobs"
_NO_FIELDS = ("seed", "logprobs", "top_logprobs", "reasoning_effort", "messages")  # unknown by these names
_USAGE = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens", "total_tokens": "total_tokens"}
_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def as_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the body of a chat completion to the Responses API, with storage by the server turned off.

    Examples
    --------
    >>> as_responses({"model": "m", "messages": [{"role": "user", "content": "A or B?"}], "reasoning_effort": "low"})
    {'model': 'm', 'input': [{'role': 'user', 'content': 'A or B?'}], 'store': False, 'reasoning': {'effort': 'low'}}
    """
    kept = {name: value for name, value in body.items() if name not in _NO_FIELDS}
    written = {"model": kept.pop("model"), "input": body["messages"], "store": False}
    if "reasoning_effort" in body:
        written["reasoning"] = {"effort": body["reasoning_effort"]}
    if body.get("logprobs"):
        written |= {"include": [_LOGPROBS], "top_logprobs": body["top_logprobs"]}
    return written | kept


def as_chat(document: object) -> object:
    """Convert a response of the Responses API to a chat completion; leave others unchanged.

    Parameters
    ----------
    document : object
        The JSON response: ``output`` with items of type ``reasoning`` and ``message``, ``status``,
        ``incomplete_details`` and ``usage``.

    Raises
    ------
    Fault
        If the server failed to answer, or ``output`` is not a list of items.

    Examples
    --------
    >>> thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "B is longer."}]}
    >>> said = {"type": "message", "content": [{"type": "output_text", "text": "A"}]}
    >>> chat = as_chat({"status": "completed", "output": [thought, said]})
    >>> chat["choices"][0]["message"]
    {'content': 'A', 'reasoning_content': 'B is longer.', 'refusal': None}
    """
    if not isinstance(document, Mapping) or "choices" in document or "output" not in document:
        return document
    output, error = document["output"], document.get("error")
    if isinstance(error, Mapping) or document.get("status") in ("failed", "cancelled"):
        words = str(error.get("message") or error) if isinstance(error, Mapping) else str(document["status"])
        raise Fault(f"the server reports a failure: {words[:200]}")
    if not isinstance(output, list) or not all(isinstance(item, Mapping) for item in output):
        raise Fault("the server sent an output that is not a list of items")
    parts = [part for item in output if item.get("type") == "message" for part in _parts(item, "content")]
    texts = [part for part in parts if part.get("type") == "output_text"]
    refusals = [str(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    thoughts = [
        str(part.get("text") or "")
        for item in output
        if item.get("type") == "reasoning"
        for part in [*_parts(item, "content"), *_parts(item, "summary")]
    ]
    calls = [str(item.get("arguments") or "") for item in output if item.get("type") == "function_call"]
    text = "".join(str(part.get("text") or "") for part in texts) or next(iter(calls), "")
    message = {
        "content": text,
        "reasoning_content": "\n".join(filter(None, thoughts)) or None,
        "refusal": refusals[0] if refusals else None,
    }
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": _reason(document)}
    if content := [entry for part in texts for entry in part.get("logprobs") or ()]:
        choice["logprobs"] = {"content": content}
    return {"model": document.get("model"), "usage": _usage(document.get("usage")), "choices": [choice]}


def _parts(item: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    parts = item.get(name)
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _reason(document: Mapping[str, Any]) -> str:
    """Return the finish reason in the terms of a chat completion."""
    details = document.get("incomplete_details")
    if document.get("status") != "incomplete" or not isinstance(details, Mapping):
        return "stop"
    return _REASONS.get(str(details.get("reason")), str(details.get("reason")))


def _usage(reported: object) -> dict[str, Any] | None:
    if not isinstance(reported, Mapping):
        return None
    usage: dict[str, Any] = {name: reported.get(field) for name, field in _USAGE.items()}
    for name, field in (("prompt", "input"), ("completion", "output")):
        usage[f"{name}_tokens_details"] = reported.get(f"{field}_tokens_details")
    return usage
