"""Data sets: the schema, the bundled constructed sets and loaders of published ones.

A loader is a module of this package named after its data set, with a function ``load(path=None, **options) -> Dataset``
and a one-line docstring that `biaslab list` shows. There is no registry to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from biaslab.datasets.schema import Dataset
from biaslab.errors import InputError

__all__ = ["Dataset", "available", "load_dataset"]
_NOT_LOADERS = {"schema"}


def available() -> dict[str, str]:
    """Return the data sets that can be loaded by name, with the first line of what each says of itself."""
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
        One of `available`, such as ``"graded"``, ``"dialogues"``, ``"summeval"``, ``"tabular"``.
    path : str or Path, optional
        The file or folder of a published data set; bundled sets need none.
    limit : int, optional
        Keep the first ``limit`` contexts.
    **options
        Passed to the loader, such as the ``columns`` of ``"tabular"``, its ``data``, which is a data frame, or the
        ``name`` of a data set of the ``"hub"``.

    Returns
    -------
    Dataset

    Raises
    ------
    InputError
        If the name is unknown or the path does not exist.
    DatasetError
        If the file breaks the schema; the message names row and column.

    Examples
    --------
    >>> load_dataset("graded", limit=3).n_contexts
    3
    """
    known = available()
    if name not in known:
        raise InputError("dataset", name, f"one of {', '.join(known)}")
    if path is not None and not Path(path).exists():
        raise InputError("path", str(path), "a file or folder that exists")
    return _loader(name).load(path=None if path is None else Path(path), **options).head(limit)  # type: ignore[no-any-return]


def _loader(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
