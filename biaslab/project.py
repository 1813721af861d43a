"""The project folder: where the store and the figures lie, for the command line, papermill and JupyterLab alike."""

from __future__ import annotations

import os
from pathlib import Path

from biaslab.errors import InputError

#: In a kernel's environment: the folder from which `biaslab figures` was called, which settles it.
PROJECT = "BIASLAB_PROJECT"
SETTINGS = "biaslab.toml"
_OURS = ("00_tour.ipynb", "position.ipynb")  # a folder that holds both is one of biaslab's notebooks
_EXECUTED = "papermill_runs"


def find_project(start: str | os.PathLike[str] = ".") -> Path:
    """Return the project folder of a folder.

    On the way up from ``start`` that is the first folder which holds ``biaslab.toml``, or the one above biaslab's
    notebooks or their executed copies; ``start`` itself where there is neither.

    Parameters
    ----------
    start : str or path
        A folder; the working directory by default.

    Examples
    --------
    >>> import tempfile
    >>> made = Path(tempfile.mkdtemp()).resolve()
    >>> (made / "notebooks").mkdir()
    >>> for name in ("00_tour.ipynb", "position.ipynb"):
    ...     (made / "notebooks" / name).touch()
    >>> find_project(made / "notebooks") == find_project(made) == made
    True
    """
    here = Path(start).resolve()
    for place in (here, *here.parents):
        if (place / SETTINGS).is_file():
            return place
        if place.name == _EXECUTED or all((place / name).is_file() for name in _OURS):
            return place.parent
    return here


def enter_project() -> None:
    """Make the project folder the working directory of a notebook, wherever its kernel was started.

    Relative paths in a notebook, of the store and the figures above all, are then those of the command line: an answer
    that was paid for on one way is there on the other. See `find_project` for which folder that is; the environment
    variable ``BIASLAB_PROJECT`` names another.

    Raises
    ------
    InputError
        If the variable names no folder.
    """
    named = os.environ.get(PROJECT)
    if named and not Path(named).is_dir():
        raise InputError(PROJECT, named, "a folder that exists", "unset it to take the folder above the notebooks")
    os.chdir(named or find_project())
