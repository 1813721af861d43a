"""The project folder: where the store and the figures lie, for the command line, papermill and JupyterLab alike."""

from __future__ import annotations

import os
from pathlib import Path

#: In a kernel's environment: the folder from which `biaslab figures` was called, which settles it.
PROJECT = "BIASLAB_PROJECT"
SETTINGS = "biaslab.toml"
_FIRST_NOTEBOOK = "00_tour.ipynb"  # lies in every folder of biaslab's notebooks, and in that of their executed copies


def find_project(start: str | os.PathLike[str] = ".") -> Path:
    """Return the project folder of a folder.

    That is the nearest folder, from ``start`` upward, which holds ``biaslab.toml`` or a folder of biaslab's notebooks
    that the way up passes through; ``start`` itself where there is none.

    Parameters
    ----------
    start : str or path
        A folder; the working directory by default.

    Examples
    --------
    >>> import tempfile
    >>> made = Path(tempfile.mkdtemp()).resolve()
    >>> (made / "notebooks").mkdir()
    >>> _ = (made / "notebooks" / "00_tour.ipynb").write_text("{}")
    >>> find_project(made / "notebooks") == find_project(made) == made
    True
    """
    here = Path(start).resolve()
    for place in (here, *here.parents):
        if (place / SETTINGS).is_file():
            return place
        if (place / _FIRST_NOTEBOOK).is_file():
            return place.parent
    return here


def enter_project() -> None:
    """Make the project folder the working directory of a notebook, wherever its kernel was started.

    Relative paths in a notebook, of the store and the figures above all, are then those of the command line: an answer
    that was paid for on one way is there on the other. See `find_project` for which folder that is.
    """
    os.chdir(os.environ.get(PROJECT) or find_project())
