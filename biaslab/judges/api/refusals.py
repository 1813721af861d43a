"""Handle parameters that a server rejects, such as a temperature: report once, then omit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from biaslab.core import Completion, Reply, Request
from biaslab.core.errors import ServerError
from biaslab.judges.api import faults
from biaslab.judges.api.connection import Connection

_LIMITS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_NAMED = {
    "temperature": re.compile(r"temperature", re.IGNORECASE),
    "seed": re.compile(r"\bseed\b", re.IGNORECASE),
    "stop": re.compile(r"\bstop\b", re.IGNORECASE),
    "system": re.compile(
        r"\bsystem\b.{0,20}\b(?:role|message|prompt|instruction)|\brole\b.{0,30}\bsystem\b|developer|['\"`]system['\"`]"
        r"|roles? must alternate|only user.{0,8}(?:assistant|model) roles",
        re.IGNORECASE,
    ),
    **{name: re.compile(rf"\b(?:{name}|{name.title().replace('_', '')})\b") for name in _LIMITS},
}
_UNKNOWN = re.compile(
    r"unsupported|(?:not|never|n['’]t|no longer)(?: be)? (?:permit|allow|avail|accept|support|enabl|recogni[sz]|valid|"
    r"compatib|implement|configurab|take|used?\b|set\b|specif)|cannot(?: be)? (?:used?|set|specif|chang)|incompatible|"
    r"unknown|unrecogni[sz]ed|unexpected|extra.{0,3}(?:input|field|forbidden)|additional propert|deprecated|instead|"
    r"disallowed|forbidden|must (?:not be (?:set|specif|provid|present|used|sent|given)|be (?:omitted|unset|removed|"
    r"null|none))|no endpoints?\b|supported values|must alternate|only (?:supports? )?user\b|"
    r"invalid (?:role|value: .?system|(?:request )?(?:parameter|argument|field|key)\b)",
    re.IGNORECASE,
)
_FIXED = re.compile(
    r"(?:\bonly\b|\bdefault\b|(?:must|should|has to) (?:be|equal)|set to)[^\d\[(]{0,25}"
    r"(?:\(?default\W{0,3})?(\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_STATUSES = (400, 404, 405, 415, 422, 501)
_FIELD = re.compile(r"param|argument|field|propert|input|role", re.IGNORECASE)  # not part of a model's name
_RANGE = re.compile(
    r"positive|greater|larger|less than|between|at (?:least|most)|exceed|too (?:large|small|high|low)|"
    r"[\[(]\s*\d[\d.]*\s*,\s*\d",
    re.IGNORECASE,
)


class Refusals:
    """Request fields that one judge's server rejects.

    Attributes
    ----------
    left_out : dict of str to str
        Omitted field → what happens instead.
    temperature : float or None
        The server's own temperature, if it accepts no other.
    """

    def __init__(self) -> None:
        self.left_out: dict[str, str] = {}
        self.temperature: float | None = None
        self._warned = 0

    async def send(self, connection: Connection, path: str, body: Mapping[str, Any]) -> Any:
        """Send a body without rejected fields, learning which these are."""
        while True:
            sent = self.adapt(body)
            try:
                return await connection.post(path, sent)
            except ServerError as error:
                if not self.learn(sent, error) and self.adapt(body) == sent:
                    if (refused := faults.about_thinking(connection.request, error)) is not None:
                        raise refused from error
                    raise

    def adapt(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a body without rejected fields."""
        adapted = {name: value for name, value in body.items() if name not in self.left_out or name in _LIMITS}
        for name in self.left_out.keys() & _LIMITS.keys() & adapted.keys():
            adapted[_LIMITS[name]] = adapted.pop(name)
        if "system" in self.left_out and "messages" in adapted:
            adapted["messages"] = _without_system(adapted["messages"])
        return adapted

    def learn(self, body: Mapping[str, Any], error: ServerError) -> bool:
        """Learn from an error which fields the server rejects; return whether there are new ones."""
        words = str(error).rpartition("); ")[0]  # without our own remedy
        if error.status not in _STATUSES or not words or (error.status not in (400, 422) and not _FIELD.search(words)):
            return False
        new = [name for name, named in _NAMED.items() if _has(body, name) and named.search(words)]
        learnt = [name for name in new if name not in self.left_out and self._refuses(name, words)]
        for name in learnt:
            self.left_out[name] = self._instead(name)
        return bool(learnt)

    def mark(self, request: Request, reply: Reply) -> Reply:
        """Record the temperature of a reply that was sampled at another one than requested."""
        if self.temperature is None or not isinstance(request, Completion) or request.temperature == self.temperature:
            return reply
        return replace(reply, temperature=self.temperature)

    def warning(self) -> str:
        """Return the new message, or an empty string."""
        if len(self.left_out) == self._warned:
            return ""
        self._warned = len(self.left_out)
        return "the server rejects parts of the requests: " + "; ".join(self.left_out.values())

    def _refuses(self, name: str, words: str) -> bool:
        if name != "system" and _RANGE.search(words):  # another value would be accepted
            return False
        fixed = _FIXED.search(words) if name == "temperature" else None
        if fixed is None and not _UNKNOWN.search(words):
            return False
        if name == "temperature":
            self.temperature = 1.0 if fixed is None else float(fixed[1])
        return True

    def _instead(self, name: str) -> str:
        if name == "temperature":
            return f"this model has a fixed temperature of {self.temperature:g}"
        if name == "system":
            return "the system message is put at the beginning of the user message"
        return f"{name} is sent as {_LIMITS[name]}" if name in _LIMITS else f"{name} is omitted"


def _has(body: Mapping[str, Any], name: str) -> bool:
    if name == "system":
        return any(message.get("role") == "system" for message in body.get("messages", ()))
    return name in body


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Merge system messages into the user messages that follow."""
    kept: list[dict[str, str]] = []
    words: list[str] = []
    for message in messages:
        if message["role"] == "system":
            words.append(message["content"])
        elif message["role"] == "user" and words:
            kept.append({**message, "content": "\n\n".join([*words, message["content"]])})
            words = []
        else:
            kept.append(message)
    return [*kept, {"role": "user", "content": "\n\n".join(words)}] if words else kept
