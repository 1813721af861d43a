"""Data sets: the schema, bundled constructed sets, and loaders for published ones.

A loader of published data is a module of this package named after its data set, with a function
``load(path=None, **options) -> Dataset``; it needs no registration. The bundled sets are functions ``load_NAME`` of
`biaslab.datasets.construction`. `biaslab list` shows the first line of the docstring of either.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints
from urllib.parse import quote, unquote

from biaslab.core.checks import did_you_mean, is_there, pairs, read, require_one_of
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset

__all__ = ["Dataset", "available", "join_name", "load_dataset", "maps_columns"]


def __dir__() -> list[str]:
    return __all__


_BUNDLED = ("dialogue_sets", "dialogues", "graded", "lengths")
_NOT_LOADERS = {"construction"}


def available() -> dict[str, str]:
    """Return the data sets that can be loaded by name, each with a one-line description."""
    modules = {module.name for module in pkgutil.iter_modules(__path__)} - _NOT_LOADERS
    names = sorted({*_BUNDLED, *(name for name in modules if not name.startswith("_"))})
    described = {name: _loader(name) if name in _BUNDLED else _module(name) for name in names}
    return {name: (each.__doc__ or "").strip().splitlines()[0] for name, each in described.items()}


def load_dataset(name: str, /, path: str | Path | None = None, limit: int | None = None, **options: Any) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A name from `available`, for example ``"graded"``, ``"dialogues"``, ``"summeval"``, ``"tabular"``. Options may
        follow it, as on the command line and in notebooks: ``"tabular?text=summary&scale=1-10&noun=summary"``, where
        names that are not options map a name of the schema to a column of the file.
    path : str or Path, optional
        File or folder of a published data set; bundled sets need none.
    limit : int, optional
        Use only the first ``limit`` contexts.
    **options
        Passed to the loader, for example the ``columns`` or the ``data`` (a data frame) of ``"tabular"``, or the
        ``name`` of a data set on the ``"hub"``.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the name is unknown, the path does not exist, or the loader does not accept an option.
    DatasetError
        If the file violates the schema; the message names row and column.

    Examples
    --------
    >>> load_dataset("graded", limit=3).n_contexts
    3
    """
    if not isinstance(name, str):
        remedy = 'for a table, use load_dataset("tabular", data=table)'
        raise InputError("dataset", name, "the name of a data set", remedy)
    plain, written = split_name(name)
    a_file = f'for a file, use load_dataset("tabular", path={name!r})' if is_there(name) or Path(name).suffix else ""
    require_one_of("dataset", plain, tuple(available()), a_file)
    load = _loader(plain)
    check_options(plain, load, options)
    options = read_options(plain, load, written) | options
    _check_path(path, "data" in signature(load).parameters)
    return load(path=None if path is None else Path(path), **options).head(limit)


def maps_columns(name: str) -> bool:
    """Return whether a data set is a user's own table, with options for columns, scale and noun."""
    plain, _ = split_name(name)
    require_one_of("dataset", plain, tuple(available()))
    return "columns" in signature(_loader(plain)).parameters


def _check_path(path: object, takes_data: bool) -> None:
    if path is None:
        return
    allowed = "an existing file or folder"
    if not isinstance(path, str | Path):
        remedy = "write a table to a file first: table.to_csv('my.csv', index=False)"
        if takes_data:
            remedy = "pass a table as data: load_dataset('tabular', data=table)"
        raise InputError("path", path, f"{allowed}, by its name", remedy)
    if not is_there(path):
        raise InputError("path", str(path), allowed, "check the name and the working folder")


def _loader(name: str) -> Callable[..., Dataset]:
    return getattr(_module("construction"), f"load_{name}") if name in _BUNDLED else _module(name).load  # type: ignore[no-any-return]


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


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
    form = "name=value after the question mark, such as tabular?noun=summary"
    options = pairs(filter(None, asked.split("&")), "dataset", form)
    return plain, {unquote(name): unquote(value) for name, value in options.items()}


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
