"""Probes, one module a phenomenon. Dropping a module here is all it takes: nothing is registered.

The module ``score_distribution`` holds the class ``ScoreDistribution``, which is also an attribute of this package.
"""

from __future__ import annotations

import importlib
import pkgutil

from biaslab.core import Probe
from biaslab.errors import InputError


def available() -> dict[str, type[Probe]]:
    """Return every probe class by the name of its module."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name: _probe(name) for name in names}


def find_probe(name: str) -> type[Probe]:
    """Return a probe class by the name of its module, such as ``"position"``.

    Raises
    ------
    InputError
        If there is no such probe; the message lists those there are.
    """
    known = available()
    if name not in known:
        raise InputError("probe", name, f"one of {', '.join(known)}")
    return known[name]


def _probe(name: str) -> type[Probe]:
    class_name = name.title().replace("_", "")
    return getattr(importlib.import_module(f"{__name__}.{name}"), class_name)  # type: ignore[no-any-return]


def __getattr__(name: str) -> type[Probe]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in pkgutil.iter_modules(__path__):
        if module.name.title().replace("_", "") == name:
            return _probe(module.name)
    raise AttributeError(f"module {__name__!r} has no probe {name!r}; there are {', '.join(available())}")
