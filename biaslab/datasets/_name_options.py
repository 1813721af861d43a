"""Options in the name of a data set, and whether its loader accepts them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, get_type_hints
from urllib.parse import quote, unquote

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError
from biaslab.core.written import read

#: Options of every loader that maps columns, itself or through the loader of tables.
_OF_TABLES: dict[str, Any] = {"scale": tuple[float, float], "noun": str, "attributes": Sequence[str]}
_SAFE = " ,./:"  # characters of a name that are not percent-encoded


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Split the name of a data set from the options after its question mark.

    Examples
    --------
    >>> split_name("tabular?text=summary&scale=1-10")
    ('tabular', {'text': 'summary', 'scale': '1-10'})
    """
    plain, _, asked = name.partition("?")
    options: dict[str, str] = {}
    for part in filter(None, asked.split("&")):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise InputError("dataset", part, "name=value after the question mark", "such as tabular?noun=summary")
        options[unquote(key)] = unquote(value)
    return plain, options


def join_name(name: str, options: Mapping[str, str]) -> str:
    """Append options to the name of a data set, where `split_name` finds them.

    Examples
    --------
    >>> join_name("tabular", {"text": "my summary", "scale": "1-10"})
    'tabular?text=my summary&scale=1-10'
    """
    written = "&".join(f"{quote(key, _SAFE)}={quote(value, _SAFE)}" for key, value in options.items())
    return f"{name}{'&' if '?' in name else '?'}{written}" if written else name


def read_options(name: str, load: Callable[..., Any], written: Mapping[str, str]) -> dict[str, Any]:
    """Convert written options into loader arguments; if the loader maps columns, unknown names become column mappings.

    Raises
    ------
    InputError
        If the loader has no such option, or the value is invalid.
    """
    known, hints = _options(load), _OF_TABLES | get_type_hints(load)
    if "columns" in known:
        known = (*known, *_OF_TABLES)
    columns = {key: value for key, value in written.items() if key not in known}
    check_options(name, load, {} if "columns" in known else columns)
    options = {key: read(key, value, hints[key]) for key, value in written.items() if key in known}
    return options | ({"columns": columns} if columns else {})


def check_options(name: str, load: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise `InputError` if a loader does not accept one of the options; the message lists the accepted ones."""
    known = _options(load)
    if any(each.kind is Parameter.VAR_KEYWORD for each in signature(load).parameters.values()):
        return
    for option, value in options.items():
        if option not in known:
            allowed = f"an option of the data set {name}: {', '.join(known) or 'it has none'}"
            remedy = did_you_mean(option, known) or "omit it, or load your own table as 'tabular'"
            raise InputError(option, value, allowed, remedy)


def _options(load: Callable[..., Any]) -> tuple[str, ...]:
    named = (each for each in signature(load).parameters.values() if each.kind is not Parameter.VAR_KEYWORD)
    return tuple(each.name for each in named if each.name != "path")
