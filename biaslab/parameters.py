"""Parameters of notebooks: what their tagged cell sets, and whether what papermill puts behind it fits.

Papermill runs on with the default where a name is misspelt. So `import biaslab` looks, in a kernel, for the cell that
papermill wrote, and refuses names that the cell before does not set.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from biaslab.checks import did_you_mean
from biaslab.errors import InputError

#: What every notebook of biaslab sets, by which its cell of parameters is told from any other cell.
CONTRACT = frozenset({"judge", "dataset", "path", "attributes", "n_contexts", "seed", "store", "out"})
_QUOTED = re.compile(r'"(\w+)"')
_INJECTED = "# Parameters\n"  # how papermill begins the cell that it writes


def defaults(source: str) -> dict[str, Any]:
    r"""Return what a cell of Python sets, name by name; None where it is no plain value.

    Examples
    --------
    >>> defaults("n_contexts = 24  # the sample size\nattributes: list | None = None")
    {'n_contexts': 24, 'attributes': None}
    """
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: _value(node.value) for target in targets if isinstance(target, ast.Name)}
    return found


def types_of(notebook: Path) -> dict[str, Any]:
    """Return the parameters of a notebook with the types of their values, as `biaslab.written.read` takes them.

    Any may be None. The type is that of the default; where that is None, a comment that begins with "list" or "number"
    says what is meant, and behind a number a word in quotes that it may stand there. Papermill's own reading drops
    lines with a second "=", as in a comment.
    """
    source = parameters_cell(notebook)
    comments = {line.partition(" ")[0].rstrip(":="): line.partition("#")[2].strip() for line in source.splitlines()}
    return {name: _type(value, comments.get(name, "")) for name, value in defaults(source).items()}


def parameters_cell(notebook: Path) -> str:
    """Return the source of a notebook's cell of parameters; empty where it has none."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tagged = next((cell for cell in cells if "parameters" in cell["metadata"].get("tags", ())), {"source": ""})
    return "".join(tagged["source"])


def check_injected() -> None:
    """Raise `InputError` if papermill gave this kernel's notebook a parameter that it does not have."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None:
        require_known(shell.user_ns.get("In", ()))


def require_known(cells: Sequence[str]) -> None:
    r"""Raise `InputError` if a cell that papermill wrote sets what the cell of parameters before it does not.

    Parameters
    ----------
    cells : sequence of str
        Sources, in the order of their execution.

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
        known = defaults(before)
        if known.keys() >= CONTRACT:
            for name, value in defaults(cell).items():
                if name not in known:
                    allowed = f"parameters that the notebook has: {', '.join(known)}"
                    raise InputError(name, value, allowed, did_you_mean(name, known))


def _value(node: ast.expr | None) -> Any:
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None


def _type(value: Any, comment: str) -> Any:
    if isinstance(value, list | tuple):
        return list[type(value[0])] | None if value else list[str] | None  # type: ignore[misc]
    if value is None:
        kinds = {"list": list[int | float | str], "number": int | float}
        return next((kind | None for word, kind in kinds.items() if comment.startswith(word)), str | None)
    words = tuple(_QUOTED.findall(comment)) if isinstance(value, int | float) else ()
    return Literal[words] | type(value) | None if words else type(value) | None
