"""Recognise and mask keys and passwords, which no file, message, name or list of processes may show."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from biaslab.core.errors import InputError

HIDDEN = "***"
_FROM_ENVIRONMENT = "set the key in the environment variable BIASLAB_API_KEY, or name another one as api_key"
ADDRESS_REMEDY = (
    'put the address into an environment variable, such as JUDGE_URL, and give its name: "api:MODEL@JUDGE_URL"'
)
#: Keys that servers without keys are given; an answer may contain these words.
_PLACEHOLDERS = frozenset({
    "empty", "none", "null", "true", "false", "dummy", "fake", "unused", "anything", "local", "model", "default",
    "test", "token", "secret", "password", "ollama", "vllm", "openai", "lm-studio", "not-needed", "no-key", "api-key",
})  # fmt: skip
_SHORTEST = 4  # shorter values cannot be masked without masking answers
_SHORT = 8  # shorter values are masked as words only
_NAME = re.compile(
    r"(?:^|[-_])(?:(?:api|access|secret|private|subscription)[-_]?key|(?:(?:api|access|auth|bearer|session)[-_]?)?token"
    r"|secret|password|passwd|authorization|auth|bearer|credentials?|cookie)$|^key$",
    re.IGNORECASE,
)
_TOKENS = re.compile(r"(?:eos|bos|pad|stop|end|start|unk|mask|sep)[-_]?token$", re.IGNORECASE)
#: Keys are long or hold digits, unlike the names "hf_datasets" and "sk-learn".
_KEY = re.compile(
    r"\b(?:sk-(?:(?=[\w-]*\d)[\w-]{8,}|[\w-]{16,})|(?:hf_|gsk_|xai-|ghp_)[A-Za-z0-9]{16,}|(?:nvapi-|AIza)[\w-]{16,})"
)
_STARTS = ("sk-", "hf_", "gsk_", "xai-", "ghp_", "nvapi-", "AIza")
_HEX, _PERCENT = re.compile(r"u0+([0-9a-fA-F]{2})"), re.compile(r"%([0-9a-fA-F]{2})")
_ENTITY = re.compile(r"&[#\w]{1,16};")
_HEADER = re.compile(r"(?:Bearer|Basic|Token)\s+[\w.~+/=-]{4,}")
_MIXED = re.compile(r"\b(?=[A-Z\d]*[a-z])(?=[a-z\d]*[A-Z])(?=[A-Za-z]*\d)[A-Za-z\d]{20,}")  # unlike a model's name
_ROUTE = re.compile(r"[a-z]{1,15}(?:[-_][a-z]{1,15})*")
_LOGIN = re.compile(r"(?<=://)[^/\s?#,+]*@")
_ADDRESS = re.compile(r"https?://[^/\s?#,+]*@[^\s,+]*")


@lru_cache(maxsize=64)
def _quoted(secret: str) -> re.Pattern[str] | None:
    r"""Pattern of a secret in any quoting: ``\/``, ``\u002f``, ``%2F``, ``&#47;``; None if it cannot be masked."""
    if len(secret) < _SHORTEST or secret.casefold() in _PLACEHOLDERS:
        return None
    ways = []
    for sign in secret:
        code, quoted = f"{ord(sign):x}", "".join(f"%{byte:02x}" for byte in sign.encode())
        ways.append(
            rf"(?:\\*(?:{re.escape(sign)}|(?i:u0*{code:0>4}))|(?i:{quoted}|&#(?:x0*{code}|0*{ord(sign)});)"
            rf"|{re.escape(html.escape(sign))})"
        )
    whole = rf"(?<!\\){''.join(ways)}"  # not within a run of backslashes, which would take quadratic time
    return re.compile(whole if len(secret) >= _SHORT else rf"(?:(?<!\w)|(?<=\\[bfnrt])){whole}(?!\w)")


def _coded_signs(text: str) -> set[str]:
    """Return the ASCII signs, and bytes, that a text writes as codes."""
    codes = {*_HEX.findall(text.replace("U", "u")), *_PERCENT.findall(text)}
    return {chr(int(code, 16)) for code in codes} | set(map(html.unescape, _ENTITY.findall(text)))


def mask(text: str, secrets: frozenset[str] = frozenset()) -> str:
    r"""Return a text in which secrets, in any quoting, and anything with the form of a key are replaced.

    Examples
    --------
    >>> mask(r"a\/b%2Bcdefgh, sk-123456789 and me", frozenset({"a/b+cdefgh"}))
    '***, *** and me'
    """
    plain, coded = text.replace("\\", ""), _coded_signs(text)
    for secret in sorted(secrets, key=len, reverse=True):
        may_occur = not secret.isascii() or not coded.isdisjoint(secret) or secret.replace("\\", "") in plain
        if may_occur and (pattern := _quoted(secret)) is not None:  # a pattern takes .1 s a megabyte
            text = pattern.sub(HIDDEN, text)
    return _KEY.sub(HIDDEN, text) if any(start in text for start in _STARTS) else text


def require_no_secret(name: str, value: Any) -> None:
    """Raise `InputError` if an argument that becomes part of a judge's name holds a key or a password.

    Examples
    --------
    >>> require_no_secret("parameters", {"max_tokens": 4, "prompt_cache_key": "study"})
    >>> require_no_secret("parameters", {"extra_headers": {"x-api-key": "abc"}})
    Traceback (most recent call last):
    biaslab.core.errors.InputError: parameters: x-api-key is '***', allowed: no key or password; set the key in ...
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if _NAME.search(str(key)) and not _TOKENS.search(str(key)) and isinstance(inner, str):
                raise InputError(f"{name}: {key}", HIDDEN, "no key or password", _FROM_ENVIRONMENT)
            require_no_secret(name, inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            require_no_secret(name, inner)
    elif isinstance(value, str) and (_KEY.search(value) or _LOGIN.search(value) or _HEADER.fullmatch(value)):
        raise InputError(name, HIDDEN, "no key or password", _FROM_ENVIRONMENT)


def require_public_path(path: str) -> None:
    """Raise `InputError` if a path of an address holds a key, because it is part of the judge's name."""
    parts = path.split("/")
    known = {value for name, value in os.environ.items() if name.endswith("_API_KEY") and _quoted(value) is not None}
    for before, part in zip(["", *parts], parts, strict=False):
        is_route = before.lower() == "auth" and _ROUTE.fullmatch(part)  # /auth/azure_openai/v1 holds no key
        is_named = len(part) >= _SHORTEST and not is_route and _NAME.search(before)
        if _KEY.match(part) or _MIXED.search(part) or part in known or is_named:
            raise InputError("base_url", HIDDEN, "an address without a key in its path", _FROM_ENVIRONMENT)


def require_none_in_command(words: list[str]) -> None:
    """Raise `InputError` for a key or password on a command line, which every user of the machine can list."""
    if any(_LOGIN.search(word) for word in words):
        raise InputError("the command line", HIDDEN, "no password in an address", ADDRESS_REMEDY)
    if any(_KEY.search(word) for word in words):
        raise InputError("the command line", HIDDEN, "no API key", _FROM_ENVIRONMENT)


def in_environment(text: str) -> str:
    """Return a text with addresses that hold a password as names of environment variables, which are set.

    Examples
    --------
    >>> in_environment("api:m@http://host/v1")
    'api:m@http://host/v1'
    """
    for address in dict.fromkeys(_ADDRESS.findall(text)):
        taken = (number for number in range(1, 1000) if os.environ.get(f"BIASLAB_URL_{number}", address) == address)
        name = f"BIASLAB_URL_{next(taken)}"
        os.environ[name] = address
        text = text.replace(address, name)
    return text
