"""The user's project: its folder, settings, own code, and parameters of notebooks.

Papermill silently runs with the default if a parameter is misspelt, and passes text where a number is expected. So in
a kernel, `import biaslab` inspects the cell injected by papermill, and rejects names that the notebook's parameter
cell does not set, and values of another type.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from biaslab.core.checks import did_you_mean, fits, require_fits
from biaslab.core.errors import InputError
from biaslab.core.output import AnyPath

#: Set in a kernel's environment by `biaslab figures`: the calling folder, which takes precedence.
PROJECT = "BIASLAB_PROJECT"
SETTINGS = "biaslab.toml"
_OURS = ("00_tour.ipynb", "position.ipynb")  # a folder that contains both is one of biaslab's notebook folders
_EXECUTED = "papermill_runs"


def find_project(start: AnyPath = ".") -> Path:
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

        def settle_again(result: Any) -> None:
            if sets_parameters(result.info.raw_cell):
                _settle(shell.user_ns, own)

        shell.events.register("post_run_cell", settle_again)


def _settle(values: dict[str, Any], own: Mapping[str, Any]) -> None:
    """Set the figure folder for a notebook with these values."""
    if values.get("out") != own["out"] or "out" in injected(values["In"]):
        return
    if changes := differing(values, own):
        values["out"] = str(Path(own["out"], folder_of(changes)))
        changed = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
        sys.stdout.write(f"changed parameters: {changed}; figures are saved in {values['out']}\n")


_NAME = re.compile(r"[\w.-]+")
_FORMS = {
    "judges": """a table such as [judges.mini] with model = "gpt-4o-mini", or judge = "organisation/model\"""",
    "protocols": """a table such as [protocols.mine] with file = "mine.toml\"""",
}


def find_file() -> Path | None:
    """Return the ``biaslab.toml`` in the working folder or the nearest parent folder, or None."""
    folder = Path.cwd()
    return next((place / SETTINGS for place in (folder, *folder.parents) if (place / SETTINGS).is_file()), None)


def named_tables(kind: str) -> dict[str, dict[str, Any]]:
    """Return the named tables in the file; empty if there is no file.

    Parameters
    ----------
    kind : {"judges", "protocols"}
        What the tables define.

    Raises
    ------
    InputError
        If the file is not valid TOML, or contains anything else.
    """
    path = find_file()
    if path is None:
        return {}
    form = _FORMS[kind]
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError("file", str(path), f"TOML ({error})", f"write {form}") from None
    unknown = [name for name in document if name not in _FORMS]
    tables = document.get(kind, {})
    if unknown or not isinstance(tables, Mapping):
        remedy = did_you_mean(unknown[0], list(_FORMS)) if unknown else ""
        raise InputError(str(path), unknown[0] if unknown else kind, form, remedy)
    for name, table in tables.items():
        if not _NAME.fullmatch(name) or not isinstance(table, Mapping):
            raise InputError(str(path), name, f"{form}; names may contain letters, digits, dots and hyphens")
    return {name: dict(table) for name, table in tables.items()}


PREFIX = "python:"


def own_object(kind: str, name: str, wanted: type = object) -> Any:
    """Return the object that a name such as ``"python:my_module:my_object"`` refers to.

    The module is imported from the current folder, as in a script, or from the installed packages, which go first.

    Parameters
    ----------
    kind : str
        The argument that is named, for error messages: "judge", "protocol".
    name : str
        Prefix, module and object, separated by colons.
    wanted : type, optional
        What the object has to be.

    Raises
    ------
    InputError
        If there is no such module, or no such object in it.

    Examples
    --------
    >>> own_object("judge", "python:math:sqrt")(9)
    3.0
    """
    parts = name.removeprefix(PREFIX).split(":")
    if len(parts) != 2 or not all(parts):
        raise InputError(kind, name, f"python:module:object, such as python:my_module:my_{kind}")
    if not {"", str(Path.cwd())} & set(sys.path):  # a console command has the folder of Python's programs instead
        sys.path.append(str(Path.cwd()))
    try:
        own = getattr(importlib.import_module(parts[0]), parts[1])
    except (ImportError, AttributeError) as error:
        remedy = "run biaslab in the folder of the module, or add that folder to PYTHONPATH"
        raise InputError(kind, name, f"an importable object ({error})", remedy) from error
    if not isinstance(own, wanted):
        raise InputError(kind, name, f"the name of a {wanted.__name__}; this is a {type(own).__name__}")
    return own


#: Set by every notebook of biaslab; identifies the parameter cell.
CONTRACT = frozenset({"judge", "dataset", "path", "attributes", "n_contexts", "seed", "store", "out"})
#: Paths of outputs, which do not affect a figure.
PLACES = ("store", "out")
_LONG = 3  # number of parameters spelt out in a folder name
_QUOTED = re.compile(r'"(\w+)"')
_INJECTED = "# Parameters\n"  # first line of the cell injected by papermill


def defaults(source: str) -> dict[str, Any]:
    r"""Return the values assigned in a Python cell, by name; None for anything but plain values.

    Examples
    --------
    >>> defaults("n_contexts = 24  # the sample size\nattributes: list | None = None")
    {'n_contexts': 24, 'attributes': None}
    """
    values: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values |= {target.id: _value(node.value) for target in targets if isinstance(target, ast.Name)}
    return values


def types_of(notebook: Path) -> dict[str, Any]:
    """Return the parameters of a notebook with the types of their values, for `biaslab.core.checks.read`.

    None is always allowed. The type is that of the default; if the default is None, a comment that begins with "list"
    or "number" gives it (for a number, words in quotes are allowed too). Papermill's own parser cannot be used: it
    drops lines that contain a second "=", for example in a comment.
    """
    return _types(parameters_cell(notebook))


def _types(source: str) -> dict[str, Any]:
    comments = {line.partition(" ")[0].rstrip(":="): line.partition("#")[2].strip() for line in source.splitlines()}
    return {name: _type(value, comments.get(name, "")) for name, value in defaults(source).items()}


def parameters_cell(notebook: Path) -> str:
    """Return the source of a notebook's parameter cell; empty if it has none."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tagged = next((cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())), {"source": ""})
    return "".join(tagged["source"])


def bundled() -> Path:
    """Return the folder of the bundled notebooks: inside the package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    return next(place for place in (package / "notebooks", package.parent / "notebooks") if place.is_dir())


def recorded(notebook: Path) -> dict[str, Any]:
    """Return the original parameters of a notebook, from its metadata or else its cell.

    Editing the cell in JupyterLab leaves the metadata unchanged.
    """
    metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
    own: dict[str, Any] = metadata.get("biaslab", {}).get("parameters") or defaults(parameters_cell(notebook))
    return own


def record(notebook: Path) -> None:
    """Record the parameters of a notebook's cell in its metadata, after its author changed them."""
    document = json.loads(notebook.read_text(encoding="utf-8"))
    document["metadata"].setdefault("biaslab", {})["parameters"] = defaults(parameters_cell(notebook))
    notebook.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def differing(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from a notebook's own, except for paths of outputs.

    Examples
    --------
    >>> differing({"n_contexts": 4, "templates": (1, 2)}, {"n_contexts": 20, "templates": [1, 2], "seed": 0})
    {'n_contexts': 4}
    """
    names = [name for name in sorted(own) if name in values and name not in PLACES]
    pairs = [(name, _plain(values[name]), _plain(own[name])) for name in names]
    return {name: value for name, value, expected in pairs if value != expected}


def folder_of(changes: Mapping[str, Any]) -> str:
    """Return a folder name that describes changed parameters; empty if nothing is changed.

    Examples
    --------
    >>> folder_of({"n_contexts": 4}), folder_of({})
    ('n_contexts-4fd3f59a', '')
    """
    if not changes:
        return ""
    digest = hashlib.sha256(json.dumps(changes, sort_keys=True).encode()).hexdigest()
    return "-".join([*sorted(changes)[:_LONG], digest[:8]])


def check_injected() -> None:
    """Raise `InputError` if papermill passed this kernel's notebook an unknown parameter."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None:
        require_known(shell.user_ns.get("In", ()))


def require_known(cells: Sequence[str]) -> None:
    r"""Raise `InputError` if a cell injected by papermill does not fit the parameter cell before it.

    Names must be set by the parameter cell, and values must have the types given by `types_of`, or be None.

    Parameters
    ----------
    cells : sequence of str
        Sources of the cells in execution order.

    Examples
    --------
    >>> cell = "\n".join(f"{name} = None" for name in sorted(CONTRACT))
    >>> try:
    ...     require_known([cell, "# Parameters\nn_contxts = 4"])
    ... except InputError as error:
    ...     error.value, error.remedy
    (4, 'did you mean n_contexts?')
    """
    for before, cell in pairwise(cells):
        if not cell.startswith(_INJECTED):
            continue
        if sets_parameters(before):
            known, own = _types(before), defaults(before)
            for name, value in defaults(cell).items():
                if name not in known:
                    allowed = f"parameters of the notebook: {', '.join(known)}"
                    raise InputError(name, value, allowed, did_you_mean(name, known))
                if own[name] is not None:  # without a declared type, any value is accepted
                    _require_type(name, value, known[name])


def _require_type(name: str, value: Any, kind: Any) -> None:
    """Raise `InputError` unless a value has a type given by `types_of`; text may look like a number."""
    looks_so = fits("", kind) and isinstance(value, int | float)
    listed = fits([], kind) and isinstance(value, str)  # a list, written with commas
    if not (looks_so or listed):
        require_fits(name, value, kind)


def sets_parameters(cell: str) -> bool:
    """Return whether a cell sets all parameters of the contract."""
    try:
        return defaults(cell).keys() >= CONTRACT
    except SyntaxError:  # an IPython magic, or invalid syntax
        return False


def injected(cells: Sequence[str]) -> dict[str, Any]:
    """Return the values set by the cells injected by papermill."""
    written = [defaults(cell) for cell in cells if cell.startswith(_INJECTED)]
    return {name: value for values in written for name, value in values.items()}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=lambda array: getattr(array, "tolist", array.__repr__)()))


def _value(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _type(value: Any, comment: str) -> Any:
    if isinstance(value, list | tuple):
        return list[type(value[0])] | None if value else list[str] | None  # type: ignore[misc]
    if value is None:
        types = {"list": list[int | float | str], "number": int | float}
        return next((kind | None for word, kind in types.items() if comment.startswith(word)), str | None)
    words = tuple(_QUOTED.findall(comment)) if isinstance(value, int | float) else ()
    return Literal[words] | type(value) | None if words else type(value) | None
