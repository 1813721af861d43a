"""Objects in users' own modules, named as ``python:module:object``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from biaslab.core.errors import InputError

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
