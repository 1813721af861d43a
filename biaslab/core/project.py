"""Find the project folder, shared by the command line, papermill and JupyterLab for store and figures."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from biaslab.core.checks import did_you_mean
from biaslab.core.errors import InputError
from biaslab.core.parameters import bundled, differing, folder_of, injected, recorded, sets_parameters

#: Set in a kernel's environment by `biaslab figures`: the calling folder, which takes precedence.
PROJECT = "BIASLAB_PROJECT"
SETTINGS = "biaslab.toml"
_OURS = ("00_tour.ipynb", "position.ipynb")  # a folder that contains both is one of biaslab's notebook folders
_EXECUTED = "papermill_runs"


def find_project(start: str | os.PathLike[str] = ".") -> Path:
    """Return the project folder of a folder.

    That is the nearest folder at or above ``start`` that contains ``biaslab.toml``, or the parent of biaslab's
    notebooks or their executed copies, whichever comes first; ``start`` itself if there is neither.

    Parameters
    ----------
    start : str or path
        A folder; by default the working directory.

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
    folder = Path(start).resolve()
    for place in (folder, *folder.parents):
        if (place / SETTINGS).is_file():
            return place
        if place.name == _EXECUTED or all((place / name).is_file() for name in _OURS):
            return place.parent
    return folder


def enter_project(notebook: str | None = None) -> None:
    """Change a notebook's working directory to the project folder, wherever its kernel was started.

    Relative paths in a notebook, above all those of the store and the figures, then match those of the command line,
    so replies paid for in one are reused in the other. `find_project` defines the folder; the environment variable
    ``BIASLAB_PROJECT`` overrides it.

    Parameters
    ----------
    notebook : str, optional
        Name of the notebook, if it is one of biaslab's. If its parameters differ from the original ones, its variable
        ``out`` becomes a separate folder in ``figures``, so that figures of another study are not overwritten. A value
        of ``out`` set by the user is kept.

    Raises
    ------
    InputError
        If the variable is not a folder, or biaslab has no such notebook.
    """
    named = os.environ.get(PROJECT)
    if named and not Path(named).is_dir():
        raise InputError(PROJECT, named, "an existing folder", "unset it to use the folder above the notebooks")
    os.chdir(named or find_project())
    if notebook is not None and "IPython" in sys.modules:
        _keep_apart(notebook)


def _keep_apart(notebook: str) -> None:
    from IPython import get_ipython

    if (shell := get_ipython()) is not None:
        known = sorted(path.stem for path in bundled().glob("*.ipynb"))
        if notebook not in known:
            allowed = f"a bundled notebook: {', '.join(known)}"
            raise InputError("notebook", notebook, allowed, did_you_mean(notebook, known))
        own = recorded(bundled() / f"{notebook}.ipynb")
        _settle(shell.user_ns, own)
        shell.events.register("post_run_cell", _Again(shell.user_ns, own))


@dataclass(frozen=True)
class _Again:
    """Update the output folder after the parameter cell is run again."""

    values: dict[str, Any]
    own: dict[str, Any]

    def __call__(self, result: Any) -> None:
        if sets_parameters(result.info.raw_cell):
            _settle(self.values, self.own)


def _settle(values: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Set the figure folder for a notebook with these values."""
    if values.get("out") != own["out"] or "out" in injected(values["In"]):
        return
    if changes := differing(values, own):
        values["out"] = str(Path(own["out"], folder_of(changes)))
        changed = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
        sys.stdout.write(f"changed parameters: {changed}; figures are saved in {values['out']}\n")
