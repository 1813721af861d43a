"""Compare values with annotations; imported only after a call has failed, or if arguments are checked eagerly.

`typeguard` does the comparison. This module adds what it does not know: numpy numbers are numbers, booleans are not, a
single string is not a list of names, and which columns biaslab's frames have.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import typeguard

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.kind_words import FRAMES, Frame, columns_of, parts_of, remedy_for, words_for

_COMPARING: ContextVar[bool] = ContextVar("comparing", default=False)
#: Array-likes that hold names, which need not be numbers.
_NAMES = frozenset({"context", "names", "family", "condition", "first_names", "missing"})


def hints(function: Any, owner: object = None) -> dict[str, Any]:
    """Return the resolvable annotations of a function; for a dataclass, from the class that declares each field."""
    kind: Any = type(owner)
    return _hints(inspect.unwrap(function), kind)


@cache
def _hints(plain: Any, owner: Any) -> dict[str, Any]:
    hints_by_name: dict[str, Any] = {}
    for name, text in getattr(plain, "__annotations__", {}).items():
        module = plain.__module__
        if plain.__name__ == "__init__":
            module = next(
                (kind.__module__ for kind in owner.__mro__ if name in vars(kind).get("__annotations__", {})), module
            )
        resolved = _resolved(text, _namespace(module)) if isinstance(text, str) else text
        if resolved is not Any:
            hints_by_name[name] = resolved
    return hints_by_name


def wrong_kind(name: str, value: object, annotation: Any) -> InputError | None:
    """Return the error about a value that does not fit an annotation; None if it fits."""
    if is_kind(value, annotation, name):
        return None
    return InputError(name, value, words_for(annotation, name), remedy_for(annotation, name, value))


def wrong_frame(name: str, value: object) -> InputError | None:
    """Return the error about a frame without the columns that the parameter needs; None if it has them."""
    if isinstance(value, pd.DataFrame):
        lacking = [column for column in columns_of(name) if column not in value.columns]
        if lacking:
            words = f"{FRAMES[name].words}, with the columns {', '.join(columns_of(name))}"
            return TrialsError(name, value, words, FRAMES[name].remedy)
    return None


def wrong_value(name: str, value: object) -> InputError | None:
    """Return the error about an empty or non-finite value; None if it is neither."""
    if isinstance(value, float | np.floating) and not math.isfinite(value):
        return InputError(name, value, "a finite number", f"check the source of {name}")
    if isinstance(value, pd.DataFrame | pd.Series | str | Sequence | np.ndarray) and _length(value) == 0:
        nothing_empty = "a frame with at least one row" if isinstance(value, pd.DataFrame) else "at least one item"
        nothing_empty = "a text of at least one character" if isinstance(value, str) else nothing_empty
        return InputError(name, value, nothing_empty, f"check the source of {name}, which is empty")
    return None


def wrong_column(named: Sequence[tuple[str, Any]], error: Exception) -> InputError | None:
    """Return the error about a column missing from a frame; None if `error` is not about one."""
    frames = [(name, value) for name, value in named if isinstance(value, pd.DataFrame)]
    if not isinstance(error, KeyError) or not frames:
        return None
    message = " ".join(map(str, error.args))
    for name, value in named:
        wanted = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
        for column in wanted:
            if isinstance(column, str) and column in message and not any(column in frame for _, frame in frames):
                known = frames[0][1].columns
                allowed = f"a column of {frames[0][0]}: {_few(known)}"
                return InputError(name, column, allowed, did_you_mean(column, known))
    lacking = [
        (name, frame) for name, frame in frames if not any(isinstance(k, str) and k in frame for k in error.args)
    ]
    if len(lacking) != 1:
        return None
    [(name, frame)] = lacking
    expected = FRAMES.get(name, Frame("a frame with the required columns", f"check the columns of {name}"))
    return TrialsError(name, frame, f"{expected.words}; it lacks {message}", expected.remedy)


def _few(names: Iterable[Any]) -> str:
    listed = [str(name) for name in names]
    return ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")


def _length(value: Any) -> int:
    return 1 if isinstance(value, np.ndarray) and not value.ndim else len(value)


def is_kind(value: object, annotation: Any, name: str = "") -> bool:
    """Return whether a value and all its items fit an annotation; true if the annotation cannot be checked.

    Examples
    --------
    >>> is_kind(np.int64(3), int), is_kind(True, int), is_kind(3, float), is_kind("3", int)
    (True, False, True, False)
    >>> is_kind(["coherence"], Sequence[str]), is_kind("coherence", Sequence[str]), is_kind(None, Sequence[str] | None)
    (True, False, True)
    """
    members, is_array_like = parts_of(annotation)
    if is_array_like:
        return any(is_kind(value, kind) for kind in members) or _is_array(value, name in _NAMES)
    if type(value) in members:  # no other type is possible
        return True
    token = _COMPARING.set(True)
    try:
        typeguard.check_type(
            value,
            annotation,
            forward_ref_policy=typeguard.ForwardRefPolicy.IGNORE,
            collection_check_strategy=typeguard.CollectionCheckStrategy.ALL_ITEMS,
        )
    except typeguard.TypeCheckError:
        return False
    except Exception:  # never blame what cannot be compared
        return True
    finally:
        _COMPARING.reset(token)
    return True


def _is_array(value: object, names: bool) -> bool:
    if value is None or callable(value) or isinstance(value, str | bytes | Mapping | pd.DataFrame):
        return False
    if type(value) is object:
        return False
    with contextlib.suppress(Exception):
        array = np.asarray(value)
        if not names:
            array.astype(float)
        return array.ndim > 0
    return False


def _resolved(text: str, namespace: Mapping[str, Any]) -> Any:
    try:
        hints_by_name = get_type_hints(SimpleNamespace(__annotations__={"it": text}), dict(namespace))
    except Exception:  # an unresolved name tells nothing
        return Any
    return hints_by_name["it"]


@cache
def _namespace(module: str) -> dict[str, Any]:
    """Return the names of a module, including those imported only for annotations."""
    loaded = sys.modules[module]
    names, source = dict(vars(loaded)), getattr(loaded, "__file__", None)
    with contextlib.suppress(OSError, SyntaxError, TypeError, UnicodeDecodeError):
        tree = ast.parse(Path(source).read_text(encoding="utf-8"))  # type: ignore[arg-type]
        for node in tree.body:
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                for line in node.body:
                    with contextlib.suppress(ImportError, AttributeError):
                        names |= _imported(line)
    return names


def _imported(line: ast.stmt) -> dict[str, Any]:
    """Return the names that an import statement binds; empty for any other statement."""
    if isinstance(line, ast.ImportFrom) and line.module:
        source = import_module(line.module)
        return {each.asname or each.name: getattr(source, each.name) for each in line.names}
    if isinstance(line, ast.Import):
        return {each.asname: import_module(each.name) for each in line.names if each.asname}
    return {}


def _checker(fits: Callable[[Any, Any], bool]) -> Callable[..., None]:
    """Turn a test of value and annotation origin into a typeguard checker."""

    def check(value: Any, origin: Any, args: tuple[Any, ...], memo: Any) -> None:  # noqa: ARG001
        if not fits(value, origin):
            raise typeguard.TypeCheckError("does not fit")

    return check


def _is_number(value: Any, origin: Any) -> bool:
    return isinstance(value, Integral if origin is int else Real) and not isinstance(value, bool | np.bool_)


def _check_list(value: Any, origin: Any, args: tuple[Any, ...], memo: Any) -> None:
    """Accept anything with a length and items (also of numpy and pandas) as a list; leave iterators untouched."""
    is_one = isinstance(value, str | bytes | Mapping | pd.DataFrame) or hasattr(value, "_fields")
    if is_one or not hasattr(value, "__iter__") or (isinstance(value, Iterator) and origin is not Iterable):
        raise typeguard.TypeCheckError("is not a list")
    items = [each for each in args if each is not Ellipsis]
    if isinstance(value, Iterator) or not items:
        return
    different = origin is tuple and Ellipsis not in args
    if different and len(value) != len(items):
        raise typeguard.TypeCheckError("has another length")
    for index, each in enumerate(value):
        typeguard.check_type_internal(each, items[index if different else 0], memo)


def _check_class(value: Any, origin: Any, args: tuple[Any, ...], memo: Any) -> None:  # noqa: ARG001
    """Compare classes; for protocols only the member names count, not the signatures of methods."""
    [wanted] = args or (object,)
    names = _members(wanted)
    fits = inspect.isclass(value) and all(hasattr(value, name) or name in _annotated(value) for name in names)
    if not fits or (inspect.isclass(wanted) and not names and not issubclass(value, wanted)):
        raise typeguard.TypeCheckError("is a different class")


def _offers(value: Any, origin: Any) -> bool:
    """Return whether an object has the members of a protocol."""
    wanted = [name for kind in origin.__mro__ for name in _members(kind)]
    return not inspect.isclass(value) and all(hasattr(value, name) for name in wanted)


def _annotated(kind: type[Any]) -> set[str]:
    return {name for each in kind.__mro__ for name in vars(each).get("__annotations__", {})}


def _members(kind: Any) -> list[str]:
    if not getattr(kind, "_is_protocol", False):
        return []
    return [name for name in {**vars(kind), **vars(kind).get("__annotations__", {})} if not name.startswith("_")]


_CHECKERS: dict[Any, Callable[..., None]] = {
    int: _checker(_is_number),
    float: _checker(_is_number),
    bool: _checker(lambda value, _: isinstance(value, bool | np.bool_)),
    Callable: _checker(lambda value, _: callable(value)),
    type: _check_class,
    **dict.fromkeys((Sequence, Iterable, list, tuple, set, frozenset), _check_list),
}
_DATASET = _checker(lambda value, _: hasattr(value, "candidates") and not inspect.isclass(value))
_PROTOCOL = _checker(_offers)


def _lookup(origin: Any, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Callable[..., None] | None:  # noqa: ARG001
    """Choose a checker, only while biaslab compares, so that typeguard behaves normally for everybody else."""
    if not _COMPARING.get():
        return None
    if getattr(origin, "__qualname__", "") == "Dataset":
        return _DATASET
    if getattr(origin, "_is_protocol", False) and str(origin.__module__).startswith("biaslab"):
        return _PROTOCOL
    return _CHECKERS.get(origin)


typeguard.checker_lookup_functions.insert(0, _lookup)
