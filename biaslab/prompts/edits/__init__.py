"""Edits, one module a family: changes of how a candidate is shown that leave its quality, or lower it.

Every `Edit` that a module in this folder defines is found by its name: nothing is registered.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from biaslab.core.checked import checked
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


@checked
def find_edit(edit: str | Edit | Callable[[str], str]) -> Edit:
    """Return an edit by its name, or make one of a function from text to text.

    Parameters
    ----------
    edit : str, Edit or callable
        One of `available`, an edit, which is returned, or one's own function str → str.

    Raises
    ------
    InputError
        If no edit has the name; the message lists those there are.

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
