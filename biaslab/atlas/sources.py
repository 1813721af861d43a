"""The sources of the atlas: where recorded judgements come from, under which licence, and how they were read."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd


@dataclass(frozen=True)
class Source:
    """Judgements that somebody published.

    Parameters
    ----------
    name : str
        What it is called here.
    title : str
        What it is, in a line, with its paper.
    repository : str
        Where it was published.
    licence : str
        Identifier of the licence, empty where there is none.
    notice : str
        Copyright notice of the licence.
    carried : bool
        Whether the licence allows to carry the judgements as numbers; of other sources only our estimates are here.
    files : tuple of str
        Glob patterns below the folder of raw data.
    left_out : str
        What of these files is not among the rows.
    how_read : str
        How replies became values.
    commit : str
        Of the repository; empty where it is not known.
    """

    name: str
    title: str
    repository: str
    licence: str
    notice: str
    carried: bool
    files: tuple[str, ...]
    left_out: str
    how_read: str
    commit: str = ""

    def read(self, folder: str | Path) -> pd.DataFrame:
        """Read the raw files, with a reader of the folder ``tools`` of the repository.

        Parameters
        ----------
        folder : path
            Of raw data, which holds ``files``.

        Returns
        -------
        pandas.DataFrame
            As `biaslab.read_judgements` returns it, with ``reply``; judges have the names of the atlas.

        Raises
        ------
        InputError
            If a file is missing, or biaslab was not installed from a checkout.
        """
        self.require_files(Path(folder))
        trials: pd.DataFrame = getattr(build_tool("raw_files"), self.name)(Path(folder))
        return trials

    def require_files(self, folder: Path) -> None:
        """Raise `InputError` unless there is a file for each pattern."""
        missing = [pattern for pattern in self.files if not any(folder.glob(pattern))]
        if missing:
            remedy = f"get them from {self.repository}"
            raise InputError("folder", str(folder), f"a folder with {', '.join(missing)}", remedy)


def _read_sources() -> Iterator[Source]:
    for entry in tomllib.loads(files(__package__).joinpath("sources.toml").read_text(encoding="utf-8"))["source"]:
        entry["files"] = tuple(entry["files"])
        yield Source(**entry)


#: All of them, as ``sources.toml`` beside this module lists them.
SOURCES = tuple(_read_sources())


def find_source(name: str) -> Source:
    """Return the source of that name.

    Raises
    ------
    InputError
        If there is none; the message has the names that are close.

    Examples
    --------
    >>> find_source("mt_bench").licence
    'MIT'
    """
    by_name = {source.name: source for source in SOURCES}
    if name not in by_name:
        raise unknown("source", name, list(by_name))
    return by_name[name]


def build_tool(name: str) -> ModuleType:
    """Import a module of ``tools/atlas``, which builds the atlas and is in the repository alone.

    Raises
    ------
    InputError
        If biaslab was not installed from a checkout of the repository.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "tools" / "atlas").is_dir():
        remedy = "clone it, and install it with pip install --editable"
        raise InputError("biaslab", str(root), "a checkout of the repository, which has a folder tools", remedy)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module(f"tools.atlas.{name}")
