"""Checks of what a user gives: each raises an `InputError` that names the value and says what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from biaslab.errors import InputError


def is_whole(value: object, least: int = 0, most: float = float("inf")) -> bool:
    """Say whether a value is a whole number in a range. True is none, nor is one of numpy, which JSON cannot write."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def require_whole(name: str, value: object, least: int, optional: bool = False) -> None:
    """Raise `InputError` unless a value is a whole number of at least so much; an optional one may be None."""
    if not (is_whole(value, least) or (optional and value is None)):
        raise InputError(name, value, f"a whole number of at least {least}")


def require_one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    """Raise `InputError` unless a value is one of those allowed."""
    if value not in allowed:
        raise InputError(name, value, f"one of {', '.join(map(str, allowed))}")


def require_some_of(name: str, values: object, allowed: Sequence[object]) -> None:
    """Raise `InputError` unless there is a list of some of what is allowed, each once."""
    listed = [] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not listed or any(value not in allowed or listed.count(value) > 1 for value in listed):
        raise InputError(name, values, f"a list of some of {', '.join(map(str, allowed))}, each once")


def did_you_mean(value: object, known: Iterable[object]) -> str:
    """Ask whether a name that is close to a value was meant; empty where none is.

    Examples
    --------
    >>> did_you_mean("n_contxts", ["n_contexts", "seed"]), did_you_mean("wit", ["coherence"])
    ('did you mean n_contexts?', '')
    """
    from difflib import get_close_matches  # only where something is wrong

    names = {str(name).lower(): str(name) for name in known}
    close = [names[name] for name in get_close_matches(str(value).lower(), names, n=3)]
    return f"did you mean {' or '.join(close)}?" if close else ""


def require_attributes_list(value: Sequence[str] | None) -> None:
    """Raise `InputError` if attributes are one string instead of several."""
    if isinstance(value, str):
        raise InputError("attributes", value, "a list of names", f"write [{value!r}]")
