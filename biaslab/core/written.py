"""Parse values from text, as on a command line or in a judge's name, and check values, by declared types.

Examples
--------
>>> from collections.abc import Sequence
>>> read("templates", "1,2", Sequence[int]), read("n_pairs", "none", int | None)
([1, 2], None)
>>> read("scale", "1-10", tuple[float, float])
(1.0, 10.0)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError

_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_EXAMPLES = {bool: "true", int: "3", float: "0.5"}
_NO = object()  # sentinel: the text is not a value of the type
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", NoneType: "none", str: "a text"}


def read(name: str, text: str, hint: Any) -> Any:
    """Parse a text as a value of a type.

    Parameters
    ----------
    name : str
        Name of the parameter, for the message.
    text : str
        The text. ``none`` is None if allowed.
    hint : type
        Resolved annotation: ``bool``, ``int``, ``float``, ``str``, ``Literal``, a union of these, a sequence of them
        (separated by commas), a mapping (``name=value``, separated by commas) or a pair of numbers (``1-10``).

    Returns
    -------
    object
        A list for a sequence. Further checks are left to the owner of the parameter.

    Raises
    ------
    InputError
        If the text is not such a value; the message says what is.
    """
    for kind in _kinds(hint):
        value = _read_as(name, text.strip(), kind)
        if value is not _NO:
            return value
    members = _kinds(hint)
    choices = [choice for kind in members for choice in get_args(kind) if get_origin(kind) is Literal]
    example = next((f"such as {name}={_EXAMPLES[kind]}" for kind in members if kind in _EXAMPLES), "")
    meant = did_you_mean(text, choices) or example
    raise InputError(name, text, " or ".join(map(_describe, members)), meant)


def fits(value: object, hint: Any) -> bool:
    """Return whether a value and its items have a declared type; true if the type cannot be checked.

    Examples
    --------
    >>> fits(np.int64(3), int), fits(True, int), fits(3, float), fits("3", int | None)
    (True, False, True, False)
    >>> fits(["coherence"], Sequence[str]), fits("coherence", Sequence[str]), fits((1, "a"), tuple[int, int])
    (True, False, False)
    """
    origin, inner = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, kind) for kind in inner)
    if origin is Literal:
        return any(isinstance(value, type(choice)) and value == choice for choice in inner)
    if origin in (int, float):
        return isinstance(value, Integral if origin is int else Real) and not isinstance(value, bool | np.bool_)
    if origin is bool:
        return isinstance(value, bool | np.bool_)
    if origin is Any or not isinstance(origin, type):
        return True
    if origin.__name__ == "Callable":
        return callable(value)
    if issubclass(origin, Mapping):
        items = value.items() if isinstance(value, Mapping) else ()
        return isinstance(value, Mapping) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in items)
    if issubclass(origin, Sequence) and inner:
        if isinstance(value, str | bytes | Mapping) or not (isinstance(value, Sized) and isinstance(value, Iterable)):
            return False
        kinds = inner if origin is tuple and Ellipsis not in inner else inner[:1] * len(value)
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    return isinstance(value, origin)


def require_fits(name: str, value: object, hint: Any) -> None:
    """Raise `InputError` unless a value has a declared type."""
    if fits(value, hint):
        return
    kinds = sorted(_kinds(hint), key=lambda kind: kind is NoneType)
    literals = [each for kind in kinds for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
    choices = [choice for literal in literals for choice in get_args(literal)]
    strangers = [each for each in (value if isinstance(value, list | tuple) else [value]) if each not in choices]
    remedy = did_you_mean(strangers[0], choices) if strangers else ""
    if isinstance(value, str) and any(fits([value], kind) for kind in kinds):
        remedy = f"use [{value!r}]"
    raise InputError(name, value, " or ".join(map(_allowed, kinds)), remedy)


def _allowed(kind: Any) -> str:
    """Describe a type in the words of Python."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if kind is NoneType:
        return "None"
    if origin is Literal or origin in _WORDS:
        return _describe(kind)
    name = str(getattr(origin, "__name__", origin))
    if name == "Mapping":
        return f"a dictionary from {_allowed(inner[0])} to {_allowed(inner[1])}"
    if name == "tuple" and Ellipsis not in inner:
        return f"{len(inner)} values: {', '.join(map(_allowed, inner))}"
    if name in ("Sequence", "list", "tuple"):
        plural = {str: "names", int: "whole numbers", float: "numbers"}.get(inner[0])
        among = f"values among {', '.join(map(str, get_args(inner[0])))}" if get_origin(inner[0]) is Literal else ""
        return f"a list of {plural or among or 'values that are each ' + ' or '.join(map(_allowed, _kinds(inner[0])))}"
    return {"Callable": "a function", "Any": "any value", "PathLike": "a path"}.get(name, f"a {name}")


def require_fields(made: Any) -> None:
    """Raise `InputError` unless the fields of a dataclass have their declared types; defaults are not checked."""
    kind: Any = type(made)
    hints = _hints(kind)
    for each in fields(made):
        value = getattr(made, each.name)
        if value is not each.default:
            require_fits(each.name, value, hints[each.name])


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def pairs(options: Iterable[str] | None, option: str, form: str) -> dict[str, str]:
    """Parse a repeatable option ``NAME=VALUE``; values may be empty.

    Raises
    ------
    InputError
        If one has no equals sign, or a name is repeated.

    Examples
    --------
    >>> pairs(["n_pairs=3", "templates=1,2"], "param", "NAME=VALUE")
    {'n_pairs': '3', 'templates': '1,2'}
    """
    written: dict[str, str] = {}
    for each in options or ():
        name, equals, value = (side.strip() for side in each.partition("="))
        if not (name and equals):
            raise InputError(option, each, form)
        if name in written:
            raise InputError(option, each, "each name once", f"{name} is already set to {written[name]}")
        written[name] = value
    return written


def _kinds(hint: Any) -> list[Any]:
    """Return the members of a union, most restrictive first."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    order = [Literal, NoneType, bool, int, float]
    ranks = {id(kind): next((i for i, k in enumerate(order) if k in (kind, get_origin(kind))), 9) for kind in members}
    return sorted(members, key=lambda kind: (kind is str, ranks[id(kind)]))


def _read_as(name: str, text: str, kind: Any) -> Any:
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return next((choice for choice in inner if str(choice) == text), _NO)
    if origin is NoneType:
        return None if text.lower() == "none" else _NO
    if origin is bool:
        return _TRUTH.get(text.lower(), _NO)
    if origin in (int, float):
        return _number(text, origin)
    if origin is str:
        return text
    if inner == (float, float):
        match = _RANGE.fullmatch(text)
        return (float(match[1]), float(match[2])) if match else _NO
    if isinstance(origin, type) and issubclass(origin, Mapping):
        pairs = [item.partition("=") for item in text.split(",")] if text else []
        good = all(key and equals and value for key, equals, value in pairs)
        return {key.strip(): read(name, value, inner[1]) for key, _, value in pairs} if good else _NO
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [read(name, item, inner[0]) for item in text.split(",")]
    return _NO


def _number(text: str, kind: type) -> Any:
    try:
        value = kind(text)
    except ValueError:
        return _NO
    return value if math.isfinite(value) else _NO


def _describe(kind: Any) -> str:
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin in _WORDS:
        return _WORDS[origin]
    if inner == (float, float):
        return "the lowest and the highest number, such as 1-5"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "name=value, several separated by commas"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a comma-separated list, each {_describe(inner[0])}"
    return "a value that can only be set in Python"
