"""Aliases of modules: shorter names, and former names that warn and give the new one."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # importing it at run time takes longer than importing biaslab
    Loader, MetaPathFinder = type("Loader", (), {}), object  # MovedModules needs two different bases

_INTO = {
    "core": ("checks", "errors", "output", "parameters", "progress", "project", "scales", "written"),
    "study": ("collecting", "planning", "spending"),
    "report": ("comparing", "evidence", "plots"),
    "prompts": ("edits", "parsing"),
    "measures": ("ranking", "scoring"),
    "correct": ("mitigation",),
    "atlas": ("published",),
    "store": ("trials",),
}
#: Modules that were once top-level, and the names of their current packages.
MOVED = {name: f"{room}.{name}" for room, names in _INTO.items() for name in names} | {"judgements": "logs.readers"}


class MovedModules(Loader, MetaPathFinder):
    """Find a module by a shorter or former name."""

    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        """Return a specification for a shorter or former name."""
        return ModuleSpec(fullname, self, is_package=True) if _now(fullname) != fullname else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its own name, and alias the submodules it loads.

        Otherwise a later import of a submodule would replace a function of the same name with the module.
        """
        now = _now(spec.name)
        if spec.name.split(".")[1] not in sys.modules["biaslab"].__all__:  # names in __all__ stay: biaslab.plots
            warnings.warn(f"{spec.name} has been renamed to {now}", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(now)
        self._own = module.__spec__
        loaded = {name: part for name, part in sys.modules.items() if name.startswith(f"{now}.")}
        sys.modules.update({f"{spec.name}{name.removeprefix(now)}": part for name, part in loaded.items()})
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own specification, which the import by alias replaced."""
        module.__spec__ = self._own


def install() -> None:
    """Make the aliases importable."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())  # before the path is searched for files under the new name


def _now(name: str) -> str:
    """Return the current name of a module.

    Examples
    --------
    >>> _now("biaslab.ranking.pairs"), _now("biaslab.probes")
    ('biaslab.measures.ranking.pairs', 'biaslab.probes')
    """
    package, _, inner = name.partition(".")
    first, dot, rest = inner.partition(".")
    return f"{package}.{MOVED[first]}{dot}{rest}" if package == "biaslab" and first in MOVED else name
