"""Edits, one module per family: changes of how a candidate is shown that preserve its quality, or lower it.

Every `Edit` defined by a module in this folder is found by its name; no registration is needed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from biaslab.core.checks import require_one_of
from biaslab.prompts.edits.base import Edit, Placed, changes, constant, edit, placed
from biaslab.prompts.edits.lookup import from_table
from biaslab.prompts.edits.null import null_edit

__all__ = [
    "Edit",
    "Placed",
    "available",
    "changes",
    "constant",
    "edit",
    "find_edit",
    "from_table",
    "null_edit",
    "placed",
]


@cache
def available() -> dict[str, Edit]:
    """Return every edit by its name, in alphabetical order.

    Examples
    --------
    >>> "authority" in available()
    True
    """
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    edits = {e.name: e for module in modules for e in vars(module).values() if isinstance(e, Edit)}
    return dict(sorted(edits.items()))


def find_edit(edit: str | Edit | Callable[[str], str]) -> Edit:
    """Return an edit by its name, or create one from a function from text to text.

    Parameters
    ----------
    edit : str, Edit or callable
        A name from `available`, an edit (returned unchanged), or a custom function str → str.

    Raises
    ------
    InputError
        If no edit has the name; the message lists the known ones.

    Examples
    --------
    >>> find_edit(str.upper).name
    'upper'
    """
    if isinstance(edit, Edit):
        return edit
    if callable(edit):
        return Edit(edit.__name__, edit)
    require_one_of("edit", edit, tuple(available()))
    return available()[edit]
