"""Check the arguments of `ApiJudge`, and write those that enter its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from biaslab.core import canonical_json
from biaslab.core.checks import require_one_of, require_whole
from biaslab.core.errors import InputError
from biaslab.judges.api.wire import Wire

#: Request fields with which servers continue a final assistant message, by server.
PREFILLS: Mapping[str, Mapping[str, Any]] = {
    "vllm": {"continue_final_message": True, "add_generation_prompt": False},
    "llama.cpp": {},
}


def settings(wire: Wire, fingerprint: str | None, exact: bool = True) -> str:
    """Return the non-default settings that affect replies, as canonical JSON."""
    values = {
        "exact": None if exact else False,
        "fingerprint": fingerprint,
        "likelihood": wire.likelihood if wire.likelihood != "echo" else None,
        "dialect": wire.dialect if wire.dialect != "chat" else None,
        "parameters": dict(wire.parameters) or None,
        "thinking": None if wire.thinking is None else wire.thinking.setting,
        "prefill": None if wire.prefill is None else dict(wire.prefill),
        "top_logprobs": wire.top_logprobs if wire.top_logprobs != Wire.top_logprobs else None,
    }
    changed = {name: value for name, value in values.items() if value is not None}
    try:
        return f":{canonical_json(changed)}" if changed else ""
    except (TypeError, ValueError):
        raise InputError("parameters", wire.parameters, "JSON-serialisable fields") from None


def check_settings(
    model: str, likelihood: str, dialect: str, redirects: str, top_logprobs: int, most: int, timeout: float
) -> None:
    """Raise `InputError` if an argument is not allowed."""
    if not isinstance(model, str) or not model.strip():
        raise InputError("model", model, "the name of a model")
    require_one_of("likelihood", likelihood, ("echo", "prompt_logprobs"))
    require_one_of("dialect", dialect, ("chat", "responses"))
    require_one_of("redirects", redirects, ("refuse", "same_host"))
    for name, value in (("top_logprobs", top_logprobs), ("max_concurrency", most)):
        require_whole(name, value, 1)
    if not timeout > 0:
        raise InputError("timeout", timeout, "seconds above 0")


def prefill_fields(prefill: str | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the request fields that make a server continue the last assistant message; None if unknown."""
    if not isinstance(prefill, str):
        return prefill
    require_one_of("prefill", prefill, tuple(PREFILLS))
    return PREFILLS[prefill]
