"""Create judges behind servers from names: typed options from an address or a table of ``biaslab.toml``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError
from biaslab.judges.api import ApiJudge, Patience

#: Keyword arguments of `biaslab.ApiJudge` that can be given as text, with their types.
OPTIONS: Mapping[str, str] = {
    "api_key": "text",
    "parameters": "fields",
    "prefill": "text or fields",
    "likelihood": "text",
    "exact": "truth",
    "top_logprobs": "whole",
    "fingerprint": "text",
    "max_concurrency": "whole",
    "timeout": "number",
    "patience": "fields",
    "redirects": "text",
    "token_field": "text",
    "dialect": "text",
    "thinking": "thought",
    "prices": "fields",
    "limits": "fields",
}
#: Request fields that need no "parameters." prefix.
FIELDS = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty", "repetition_penalty",
    "max_tokens", "max_completion_tokens", "reasoning_effort", "verbosity", "service_tier",
)  # fmt: skip
_NUMBERS: Mapping[str, tuple[type[float], ...]] = {"whole": (int,), "number": (int, float)}
_WORDS = {
    "whole": "a whole number of at least 0",
    "number": "a number of at least 0",
    "text": "text",
    "truth": "true or false",
    "fields": "a table of names and values",
}


def split_address(name: str) -> tuple[str, str | None, dict[str, Any]]:
    """Split a judge's name after ``api:`` into model, address and options.

    Parameters
    ----------
    name : str
        ``MODEL[@ADDRESS][?NAME=VALUE&…]``; several addresses are separated by commas.

    Raises
    ------
    InputError
        If the part after ``?`` is not a list of options. Values are not displayed, because one may be a misplaced key.

    Examples
    --------
    >>> split_address("qwen3@http://localhost:8000/v1?prefill=vllm&temperature=0&patience.reach=2")
    ('qwen3', 'http://localhost:8000/v1', {'prefill': 'vllm', 'temperature': '0', 'patience': {'reach': '2'}})
    """
    where, mark, query = name.partition("?")
    model, _, rest = where.partition("@http")
    pairs = parse_qsl(query, keep_blank_values=True)
    if mark and (not pairs or len(pairs) < query.strip("&").count("&") + 1 or not all(value for _, value in pairs)):
        raise InputError("judge", f"api:{model}…?…", "api:model@address?name=value&name=value, such as ?prefill=vllm")
    options: dict[str, Any] = {}
    for option, value in pairs:
        table, dot, field = option.partition(".")
        if dot:
            options.setdefault(table, {})[field] = value
        else:
            options[option] = value
    return model, f"http{rest}" if rest else None, options


def make_judge(
    model: str, address: str | None, options: Mapping[str, Any], where: str = "", also: tuple[str, ...] = ()
) -> ApiJudge:
    """Create a judge behind a server from options in an address or a file.

    Parameters
    ----------
    model : str
        Name of the model on the server.
    address : str, optional
        By default OpenAI's; several are separated by commas.
    options : mapping
        Keyword arguments of `biaslab.ApiJudge` (numbers may be text), and fields of every request (``temperature=0``;
        less common ones as ``parameters.NAME``), "none" to omit one.
    where : str
        The table that contains them, for messages.
    also : tuple of str
        Other keys allowed in the table, for messages.

    Raises
    ------
    InputError
        If an option is unknown or has an invalid value.

    Examples
    --------
    >>> make_judge("qwen3", "http://localhost:8000/v1", {"prefill": "llama.cpp", "temperature": "0"}).id
    'api:qwen3@localhost:8000/v1:{"parameters":{"temperature":0},"prefill":{}}'
    """
    _require_known(where, options, (*also, *OPTIONS, *FIELDS))
    place = f"{where}." if where else ""
    options_read = {name: _read(f"{place}{name}", OPTIONS[name], options[name]) for name in OPTIONS if name in options}
    fields = {name: options[name] for name in FIELDS if name in options} | options_read.get("parameters", {})
    if fields:
        options_read["parameters"] = {name: _value(value) for name, value in fields.items()}
    if "patience" in options_read:
        options_read["patience"] = _patience(f"{place}patience", options_read["patience"])
    for name in ("prices", "limits"):
        if name in options_read:
            table = options_read[name].items()
            options_read[name] = {key: _read(f"{place}{name}.{key}", "number", value) for key, value in table}
    return ApiJudge(model, address, **options_read)


def _require_known(where: str, names: Iterable[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            some = f"one of {', '.join(known)}" + (", parameters.NAME" if "parameters" in known else "")
            raise InputError(where or "option", name, some, did_you_mean(name, known))


def _read(name: str, kind: str, value: Any) -> Any:
    """Convert a value to the type of an option."""
    if isinstance(value, Mapping) and kind.endswith("fields"):
        return dict(value)
    if kind.startswith("text") and isinstance(value, str):
        return value
    read_value: Any = _value(value)
    if kind == "thought":  # the judge checks the value itself
        return (
            {key: _value(each) for key, each in read_value.items()} if isinstance(read_value, Mapping) else read_value
        )
    if kind == "truth" and isinstance(read_value, bool):
        return read_value
    numbers = _NUMBERS.get(kind, ())
    if isinstance(read_value, numbers) and not isinstance(read_value, bool) and 0 <= float(read_value) < math.inf:
        return read_value
    shown = value if numbers or kind == "truth" else type(value).__name__
    raise InputError(name, shown, " or ".join(_WORDS[part] for part in kind.split(" or ")))


def _value(value: Any) -> Any:
    """Parse a text as a number, boolean, None or JSON document; else return it unchanged."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("none", "null"):
        return None
    try:
        return json.loads(value)
    except ValueError:
        return value


def _patience(where: str, options: Mapping[str, Any]) -> Patience:
    defaults = {name: getattr(Patience, name) for name in Patience.__dataclass_fields__}
    _require_known(where, options, tuple(defaults))
    types = {name: "whole" if isinstance(default, int) else "number" for name, default in defaults.items()}
    return Patience(**{name: _read(f"{where}.{name}", types[name], value) for name, value in options.items()})
