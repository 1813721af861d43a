"""Checks of what a user gives: each raises an `InputError` that names the value and says what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec

from biaslab.errors import InputError, MissingDependencyError

#: What `pip install 'biaslab[NAME]'` brings beyond the rest: the packages that each extra of pyproject.toml lists.
EXTRAS = {
    "local": ("accelerate", "gguf", "psutil", "torch", "transformers"),
    "notebooks": ("ipywidgets", "jupyterlab", "papermill"),
    "hub": ("datasets",),
}


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


def require_attributes_list(value: Sequence[str] | None) -> None:
    """Raise `InputError` if attributes are one string instead of several."""
    if isinstance(value, str):
        raise InputError("attributes", value, "a list of names", f"write [{value!r}]")


def require_extra(extra: str, what: str) -> None:
    """Raise `MissingDependencyError` unless the packages of an extra are installed; none of them is imported.

    Parameters
    ----------
    extra : str
        One of `EXTRAS`.
    what : str
        What needs them, as the beginning of a sentence.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingDependencyError(f"{what} needs {', '.join(missing)}: pip install 'biaslab[{extra}]'")
