"""Cache tables that are slow to compute next to the store, so that a second run only reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path

import pandas as pd

from biaslab.core.csv_files import read_csv, write_csv
from biaslab.core.errors import InputError


def kept(
    store: str | PathLike[str], name: str, depends: Mapping[str, object], make: Callable[[], pd.DataFrame]
) -> pd.DataFrame:
    """Return a table from the cache if it was computed before, else compute and cache it.

    For results that need no judge, such as the scores of an evaluator that must be trained first.

    Parameters
    ----------
    store : path
        The store of replies; tables are in the folder next to it that ends in ``.tables``. Delete that to recompute.
    name : str
        Name of the file.
    depends : mapping
        Everything the table depends on: tables, and values distinguished by their ``repr``. The version of biaslab is
        added.
    make : callable
        Computes the table: numbers and non-empty texts; the index is dropped.

    Raises
    ------
    InputError
        If the name is not a valid file name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for _ in range(2):
    ...         table = kept(
    ...             f"{folder}/s.sqlite", "sums", {"to": 3}, lambda: print("computed") or pd.DataFrame({"sum": [6]})
    ...         )
    computed
    >>> table["sum"].tolist()
    [6]
    """
    if not name or Path(name).name != name:
        raise InputError("name", name, "a name for a file")
    if not Path(store).name:
        raise InputError("store", str(store), "the path of a file", "such as judgements.sqlite")
    described = {key: _described(value) for key, value in depends.items()} | {"biaslab": version("biaslab")}
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
    file = Path(store).with_suffix(".tables") / f"{name}-{digest}.csv"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_csv(make(), file)
    return read_csv(file, keep_default_na=False, na_values=[""])


def _described(value: object) -> str:
    return str(value.to_csv()) if isinstance(value, pd.DataFrame) else repr(value)
