"""Parameters that are given for several notebooks at once: some of them must have each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from biaslab.core.checks import unknown
from biaslab.core.parameters import PLACES, types_of
from biaslab.core.written import read


def read_given(notebooks: Sequence[Path], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as values: a text becomes what the notebook's own value is, a list, a number or a text.

    Raises
    ------
    InputError
        If none of the notebooks has a name, or a text is no value of its type.
    """
    known: dict[str, Any] = {}
    for notebook in notebooks if given else ():
        with suppress(OSError, ValueError, KeyError, SyntaxError):  # a broken one fails when it is executed
            known = types_of(notebook) | known
    names = [name for name in known if name not in PLACES]
    for name in given:
        if name not in names:
            raise unknown("parameter", name, names, f"{name} has an option of its own" if name in PLACES else "")
    return {name: read(name, value, known[name]) if isinstance(value, str) else value for name, value in given.items()}
