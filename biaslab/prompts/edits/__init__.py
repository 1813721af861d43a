"""Edits, one module per family: changes of how a candidate is shown that preserve its quality, or lower it.

Every `TextEdit` defined by a module in this folder is found by its name; no registration is needed. Edits that show
fixed words are declared in ``fixed_words.toml``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from biaslab.core.checks import require_one_of
from biaslab.core.files import declared
from biaslab.prompts.edits.base import Placed, TextEdit, changes, constant, edit, framed, from_table, null_edit, placed

__all__ = [
    "Placed",
    "TextEdit",
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
def available() -> dict[str, TextEdit]:
    """Return every edit by its name, in alphabetical order.

    Examples
    --------
    >>> "authority" in available()
    True
    """
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    edits = {e.name: e for module in modules for e in vars(module).values() if isinstance(e, TextEdit)}
    return dict(sorted({**edits, **of_fixed_words()}.items()))


def of_fixed_words() -> dict[str, TextEdit]:
    """Return the edits that ``fixed_words.toml`` declares."""
    entries = declared("biaslab.prompts.edits", "fixed_words.toml")
    return {name: (framed if "frame" in entry else constant)(name, **entry) for name, entry in entries.items()}


def find_edit(edit: str | TextEdit | Callable[[str], str]) -> TextEdit:
    """Return an edit by its name, or create one from a function from text to text.

    Parameters
    ----------
    edit : str, TextEdit or callable
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
    if isinstance(edit, TextEdit):
        return edit
    if callable(edit):
        return TextEdit(edit.__name__, edit)
    require_one_of("edit", edit, tuple(available()))
    return available()[edit]


def __dir__() -> list[str]:
    return __all__
