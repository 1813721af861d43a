"""Probes, one module per phenomenon; a module in this folder is found by its name, and nothing is registered.

The module ``score_distribution`` holds the class ``ScoreDistribution``, which is also an attribute of this package. A
probe of another package is found by an entry point of the group ``biaslab.probes``, under its name; one that a notebook
defines is known from then on.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from biaslab.core import difference_of, find_metric, import_declared, is_primary
from biaslab.core.checked import checked
from biaslab.core.checks import require_one_of
from biaslab.core.metrics import PROBES
from biaslab.probes.base import WRITTEN, Probe

__all__ = ["available", "difference_of", "find_metric", "find_probe", "import_own", "is_primary", "names"]


@cache
def names() -> tuple[str, ...]:
    """Return the names of all probes, of this and of other packages, without importing them."""
    return tuple(sorted({*_modules(), *(entry.name for entry in entry_points(group=PROBES))}))


def available() -> dict[str, type[Probe]]:
    """Return every probe class by its name; one of another package that cannot be imported is left out."""
    return dict(sorted((import_declared() | import_own()).items()))


def import_own() -> dict[str, type[Probe]]:
    """Return the probe classes of this package by the names of their modules."""
    return {name: _own(name) for name in _modules()}


def _modules() -> list[str]:
    modules = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return [name for name in modules if not name.startswith("_")]


@checked
def find_probe(name: str) -> type[Probe]:
    """Return a probe class by its name, such as ``"position"``.

    Raises
    ------
    InputError
        If there is no such probe; the message lists those there are.
    """
    if name not in names() and name in WRITTEN:  # in a notebook
        return WRITTEN[name]
    require_one_of("probe", name, names())
    return _probe(name)


def _probe(name: str) -> type[Probe]:
    if name in _modules():
        return _own(name)
    require_one_of("probe", name, list(available()))
    return available()[name]


def _own(name: str) -> type[Probe]:
    return getattr(importlib.import_module(f"{__name__}.{name}"), _class_of(name))  # type: ignore[no-any-return]


def _class_of(name: str) -> str:
    return name.title().replace("_", "")


def __dir__() -> list[str]:
    return sorted([*globals(), *map(_class_of, names())])


def __getattr__(name: str) -> type[Any]:  # whose parameters a type checker cannot know
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in names():
        if _class_of(module) == name:
            return _probe(module)
    raise AttributeError(f"module {__name__!r} has no probe {name!r}; there are {', '.join(names())}")
