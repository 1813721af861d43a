"""Copy the notebooks that come with biaslab, to change them."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from biaslab.core.errors import InputError
from biaslab.core.parameters import bundled


class Copied(NamedTuple):
    """Paths of notebooks that were ``written``, were the ``same`` already, or ``kept`` because they differ."""

    written: tuple[Path, ...]
    same: tuple[Path, ...]
    kept: tuple[Path, ...]


def copy_notebooks(folder: str | PathLike[str] = "notebooks", overwrite: bool = False) -> Copied:
    """Copy all notebooks to a folder, to edit them there.

    Parameters
    ----------
    folder : str or path
        Target folder; created if missing.
    overwrite : bool
        Replace existing files that differ, for example notebooks that were edited or executed.

    Returns
    -------
    Copied
        The result for each notebook.

    Raises
    ------
    InputError
        If the folder cannot be created or written.

    Examples
    --------
    >>> import tempfile
    >>> made = tempfile.mkdtemp()
    >>> len(copy_notebooks(made).written) == len(copy_notebooks(made).same) > 0
    True
    """
    place = Path(folder)
    written, same, kept = [], [], []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for source in sorted(bundled().glob("*.ipynb")):
            target = place / source.name
            if target.exists() and target.read_bytes() == source.read_bytes():
                same.append(target)
            elif target.exists() and not overwrite:
                kept.append(target)
            else:
                shutil.copyfile(source, target)
                written.append(target)
    except OSError as error:
        raise InputError("folder", str(folder), f"a folder that can be written ({error.strerror})") from error
    return Copied(tuple(written), tuple(same), tuple(kept))
