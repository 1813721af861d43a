"""Data sets: the schema, bundled constructed sets, and loaders for published ones.

A loader is a module of this package named after its data set, with a function
``load(path=None, **options) -> Dataset`` whose one-line docstring is shown by `biaslab list`. No registration is
needed.
"""

from __future__ import annotations

import importlib
import pkgutil
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from biaslab.core.checks import is_there, require_one_of
from biaslab.core.errors import InputError
from biaslab.core.schema import Dataset
from biaslab.datasets._name_options import check_options, join_name, read_options, split_name

__all__ = ["Dataset", "available", "join_name", "load_dataset", "maps_columns"]
_NOT_LOADERS = {"schema"}


def available() -> dict[str, str]:
    """Return the data sets that can be loaded by name, each with a one-line description."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {
        name: (_loader(name).__doc__ or "").strip().splitlines()[0]
        for name in names
        if name not in _NOT_LOADERS and not name.startswith("_")
    }


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
    load = _loader(plain).load
    check_options(plain, load, options)
    options = read_options(plain, load, written) | options
    _check_path(path, "data" in signature(load).parameters)
    return load(path=None if path is None else Path(path), **options).head(limit)  # type: ignore[no-any-return]


def maps_columns(name: str) -> bool:
    """Return whether a data set is a user's own table, with options for columns, scale and noun."""
    plain, _ = split_name(name)
    require_one_of("dataset", plain, tuple(available()))
    return "columns" in signature(_loader(plain).load).parameters


def _check_path(path: object, takes_data: bool) -> None:
    if path is None:
        return
    allowed = "an existing file or folder"
    if not isinstance(path, str | Path):
        remedy = "write a table to a file first: table.to_csv('my.csv', index=False)"
        if takes_data:
            remedy = "pass a table as data: load_dataset('tabular', data=table)"
        raise InputError("path", type(path).__name__, f"{allowed}, by its name", remedy)
    if not is_there(path):
        raise InputError("path", str(path), allowed, "check the name and the working folder")


def _loader(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
