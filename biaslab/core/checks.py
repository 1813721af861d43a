"""Check user input, and parse values from text by the parameter's declared type.

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
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from math import inf, isfinite
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from biaslab.core.errors import InputError, MissingDependencyError

#: Extras of pyproject.toml (in a clone, `pip install '.[NAME]'`) and the packages that each adds.
EXTRAS = {
    "local": ("accelerate", "gguf", "psutil", "torch", "transformers"),
    "notebooks": ("ipywidgets", "jupyterlab", "papermill"),
    "text-metrics": ("rouge_score", "sacrebleu"),
    "widgets": ("anywidget",),
    "hub": ("datasets",),
    "ray": ("psutil", "ray"),
}


def is_there(path: str | PathLike[str]) -> bool:
    r"""Return whether a file or folder exists; False also for an invalid path, such as one with a 300-letter name.

    Examples
    --------
    >>> is_there("."), is_there("x" * 300), is_there("a\0b")
    (True, False, False)
    """
    try:
        return Path(path).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def is_whole(value: object, least: int = 0, most: float = float("inf")) -> bool:
    """Return whether a value is an int in a range; not a bool or a numpy integer, which JSON cannot write."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def require_whole(name: str, value: object, least: int, optional: bool = False) -> None:
    """Raise `InputError` unless a value is an int of at least ``least``; an optional one may be None."""
    if not (is_whole(value, least) or (optional and value is None)):
        raise InputError(name, value, f"a whole number of at least {least}")


def require_count(name: str, value: object, least: int) -> None:
    """Raise `InputError` unless a value is a whole number of at least ``least``, also of numpy.

    Examples
    --------
    >>> import numpy as np
    >>> require_count("seed", np.int64(3), 0)
    """
    require_whole(name, int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value, least)


def require_share(name: str, value: float, remedy: str = "") -> None:
    """Raise `InputError` unless a number lies between 0 and 1, both excluded."""
    if not isinstance(value, Real) or not 0 < value < 1:
        raise InputError(name, value, "a number between 0 and 1", remedy)


def shares_of(weights: Sequence[float], size: int) -> tuple[float, ...]:
    """Return the weights of a panel's members divided by their sum.

    Raises
    ------
    InputError
        Unless there is one number per member, at least 0, and not all are 0.
    """
    values = [float(weight) for weight in weights]
    if len(values) != size or not all(isfinite(value) and value >= 0 for value in values) or not any(values):
        raise InputError("weights", list(weights), f"{size} numbers, one per member, at least 0 and not all 0")
    return tuple(value / sum(values) for value in values)


def require_temperature(value: object) -> None:
    """Raise `InputError` unless a value is a temperature: a number from 0 (greedy) to 10."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 10:
        raise InputError("temperature", value, "a number from 0 to 10", "0 is greedy, 1 the model's own distribution")


def require_sampling(answer: str, replicates: int, temperature: float) -> None:
    """Raise `InputError` unless replicates and temperature fit the answer: label probabilities are asked for once."""
    require_whole("replicates", replicates, 1)
    require_temperature(temperature)
    if answer != "text" and replicates > 1:
        raise InputError("replicates", replicates, f'1 with answer="{answer}"', 'use answer="text"')


def require_one_of(name: str, value: object, allowed: Sequence[object], remedy: str = "") -> None:
    """Raise `InputError` unless a value is one of those allowed; the message suggests close matches."""
    if value not in allowed:
        raise unknown(name, value, allowed, remedy)


def require_some_of(name: str, values: object, allowed: Sequence[object]) -> None:
    """Raise `InputError` unless the values are a list of allowed ones without repetition."""
    listed = [] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not listed or any(value not in allowed or listed.count(value) > 1 for value in listed):
        strangers = [value for value in listed or [values] if value not in allowed]
        words = f"a list of values among {_listed(allowed)}, each once"
        raise InputError(name, values, words, did_you_mean(strangers[0], allowed) if strangers else "")


def unknown(name: str, value: object, allowed: Iterable[object], remedy: str = "") -> InputError:
    """Return the error for an unknown value, suggesting close matches.

    Examples
    --------
    >>> str(unknown("probe", "positon", ["position", "verbosity"]))
    "probe is 'positon', allowed: one of position, verbosity; did you mean position?"
    """
    known = list(allowed)
    remedies = filter(None, (did_you_mean(value, known), remedy))
    return InputError(name, value, f"one of {_listed(known)}", "; ".join(remedies))


_AS_CLOSE = 0.15  # a name whose similarity is this much below the best match is not suggested


def did_you_mean(value: object, known: Iterable[object]) -> str:
    """Suggest known names that are close to a value; empty if none is.

    Examples
    --------
    >>> did_you_mean("n_contxts", ["n_contexts", "seed"]), did_you_mean("wit", ["coherence"])
    ('did you mean n_contexts?', '')
    """
    from difflib import SequenceMatcher, get_close_matches  # imported only when something is wrong

    names, wanted = {str(name).lower(): str(name) for name in known}, str(value).lower()
    likely = get_close_matches(wanted, names, n=3)
    ratios = [SequenceMatcher(None, name, wanted).ratio() for name in likely]
    close = [names[name] for name, ratio in zip(likely, ratios, strict=True) if ratio > ratios[0] - _AS_CLOSE]
    return f"did you mean {' or '.join(close)}?" if close else ""


def check_spending(name: str, amounts: Mapping[str, float], known: Sequence[str]) -> None:
    """Raise `InputError` unless prices or limits are numbers by known names."""
    if not isinstance(amounts, Mapping):
        raise InputError(name, amounts, "a dictionary of numbers", f"write {name}={{{known[0]!r}: {amounts}}}")
    for key, value in amounts.items():
        if key not in known:
            raise InputError(name, key, f"names among {', '.join(known)}", did_you_mean(key, known))
        if not isinstance(value, Real) or not 0 <= value < inf or (name == "limits" and not value):
            allowed = "a number above 0" if name == "limits" else "a number of at least 0"
            raise InputError(f"{name}.{key}", value, allowed)
    if name == "prices" and "input" not in amounts:
        raise InputError(name, sorted(amounts), "dollars per million input tokens, and optionally others")


_A_JUDGE = "load one by name, biaslab.load_judge(name, data), or write a class with ask"


def require_study(probe: object, judge: object, dataset: object) -> None:
    """Raise `InputError` unless these are a design, a judge and a data set."""
    require_probe(probe)
    require_judge(judge)
    require_dataset(dataset)


def require_dataset(dataset: object) -> None:
    """Raise `InputError` unless this is a data set."""
    if not hasattr(dataset, "candidates"):
        name = dataset if isinstance(dataset, str) else "graded"
        raise InputError("dataset", dataset, "a data set", f"load one: biaslab.load_dataset({name!r})")


def require_probe(probe: object) -> None:
    """Raise `InputError` unless this is a probe or another design."""
    if isinstance(probe, type) or not callable(getattr(probe, "design", None)):
        raise InputError("probe", probe, "a probe, such as biaslab.probes.Position()", "create one: Position()")


def require_judge(judge: object) -> None:
    """Raise `InputError` unless this is a judge."""
    if isinstance(judge, type) or not callable(getattr(judge, "ask", None)):
        named = f"load one: biaslab.load_judge({judge!r}, data)" if isinstance(judge, str) else _A_JUDGE
        named = f"create one: {judge.__name__}()" if isinstance(judge, type) else named
        raise InputError("judge", judge, "a judge: an object with id, kinds, check and ask", named)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def require_extra(extra: str, what: str) -> None:
    """Raise `MissingDependencyError` unless the packages of an extra are installed, without importing them.

    Parameters
    ----------
    extra : str
        One of `EXTRAS`.
    what : str
        What needs the packages; the message begins with it.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        remedy = f"pip install '.[{extra}]' in a clone of biaslab"
        raise MissingDependencyError(f"{what} needs {', '.join(missing)}: {remedy}")


_RANGE = re.compile(r"(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
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
    >>> import numpy as np
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
        return isinstance(value, Integral if origin is int else Real) and not isinstance(value, bool)
    if origin is bool:
        from numpy import bool_  # imported here because the command line starts without numpy

        return isinstance(value, bool | bool_)
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
    kinds = _kinds(hint)
    literals = [each for kind in kinds for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
    choices = [choice for literal in literals for choice in get_args(literal)]
    strangers = [each for each in (value if isinstance(value, list | tuple) else [value]) if isinstance(each, str)]
    remedy = did_you_mean(strangers[0], choices) if strangers else ""
    if isinstance(value, str) and any(fits([value], kind) for kind in kinds):
        remedy = f"use [{value!r}]"
    raise InputError(name, value, describe(hint), remedy)


def describe(hint: Any) -> str:
    """Describe a type, or a union of types, in words.

    Examples
    --------
    >>> describe(int | None)
    'a whole number or None'
    """
    return " or ".join(map(_allowed, sorted(_kinds(hint), key=lambda kind: kind is NoneType)))


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
    known = {"Callable": "a function", "Any": "any value", "PathLike": "a path"}
    return known.get(name, f"{'an' if name.startswith(('A', 'E', 'I', 'O')) else 'a'} {name}")


def require_fields(made: Any) -> None:
    """Raise `InputError` unless the fields of a dataclass have their declared types; defaults are not checked."""
    kind: Any = type(made)
    hints = _hints(kind)
    for each in fields(made):
        value = getattr(made, each.name)
        if value is not each.default:
            require_fits(each.name, value, hints.get(each.name, Any))


def require_counts_and_lists(made: Any, from_zero: Sequence[str] = ()) -> None:
    """Raise `InputError` unless whole numbers are at least 1, and lists have at least one value, each once.

    Parameters
    ----------
    made : dataclass
        Its fields of the types ``int`` and ``Sequence`` are checked.
    from_zero : sequence of str
        Fields that may be 0.
    """
    kind: Any = type(made)
    hints = _hints(kind)
    for name in (each.name for each in fields(made)):
        value, kinds = getattr(made, name), _kinds(hints.get(name, Any))
        if int in kinds and isinstance(value, Integral):
            require_whole(name, value, 0 if name in from_zero else 1)
        if isinstance(value, list | tuple):
            inner = [member for kind in kinds for member in get_args(kind)]
            choices = [choice for member in inner if get_origin(member) is Literal for choice in get_args(member)]
            if choices:
                require_some_of(name, value, choices)
            elif not value or any(value.count(each) > 1 for each in value):
                raise InputError(name, value, "a list of at least one value, each once")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except NameError:  # a class of a user's own, whose annotations are imported for type checkers alone
        return {}


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
    order = [Literal, NoneType, int, float, bool]
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
        return value if math.isfinite(value) else _NO
    except (ValueError, OverflowError):
        return _NO


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
