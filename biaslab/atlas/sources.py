"""The sources of the atlas: origin and licence of recorded judgements, and how they were read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError
from biaslab.core.files import declared

if TYPE_CHECKING:
    from types import ModuleType

    import pandas as pd


@dataclass(frozen=True)
class AtlasSource:
    """Published judgements.

    Parameters
    ----------
    name : str
        Name in the atlas.
    title : str
        Description in one line, with the paper.
    repository : str
        Where it was published.
    licence : str
        Identifier of the licence, empty if there is none.
    notice : str
        Copyright notice of the licence.
    carried : bool
        Whether the licence allows redistributing the judgements as numbers; for other sources only biaslab's estimates
        are included.
    files : tuple of str
        Glob patterns, relative to the folder of raw data.
    left_out : str
        Parts of these files that are not among the rows.
    how_read : str
        How replies were converted to values.
    commit : str
        Commit of the repository; empty if unknown.
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
        """Read the raw files, with a reader from the repository's folder ``tools``.

        Parameters
        ----------
        folder : path
            Folder of raw data, with the ``files``.

        Returns
        -------
        pandas.DataFrame
            As returned by `biaslab.read_judgements`, with ``reply``; judges have the names of the atlas.

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


_LISTED = declared("biaslab.atlas", "sources.toml")["source"]
#: All sources, as listed in ``sources.toml`` next to this module.
SOURCES = tuple(AtlasSource(**entry | {"files": tuple(entry["files"])}) for entry in _LISTED)


def find_source(name: str) -> AtlasSource:
    """Return the source of that name.

    Raises
    ------
    InputError
        If the name is unknown; the message suggests close ones.

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
    """Import a module of ``tools/atlas``, which builds the atlas and is only in the repository.

    Raises
    ------
    InputError
        If biaslab was not installed from a checkout of the repository.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "tools" / "atlas").is_dir():
        remedy = "in a clone of biaslab, pip install --editable ."
        raise InputError("biaslab", str(root), "a checkout of the repository, which has a folder tools", remedy)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module(f"tools.atlas.{name}")
