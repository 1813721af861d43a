"""Probes, one module per bias; modules in this folder are found by name, without registration.

The module ``score_distribution`` contains the class ``ScoreDistribution``, which is also an attribute of this package.
Probes of other packages are found by entry points of the group ``biaslab.probes``; a probe defined in a notebook is
known from then on.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from biaslab.core.checks import did_you_mean, require_one_of
from biaslab.core.errors import InputError
from biaslab.core.metrics import PROBES, Metric, MetricForm, difference_of, find_metric, import_declared, is_primary
from biaslab.core.project import own_object
from biaslab.core.requests import Compare, Score
from biaslab.probes.base.probe import WRITTEN, Probe

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["available", "difference_of", "find_metric", "find_probe", "import_own", "is_primary", "names", "table"]
#: Forms of judging, in the order of `table`.
FORMS: tuple[MetricForm, ...] = ("pair", "score", "list")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all probes, including those of other packages, without importing them."""
    return tuple(sorted({*_modules(), *(entry.name for entry in entry_points(group=PROBES))}))


def available() -> dict[str, type[Probe]]:
    """Return all probe classes by name, skipping those of other packages that cannot be imported."""
    return dict(sorted((import_declared() | import_own()).items()))


def import_own() -> dict[str, type[Probe]]:
    """Return the probe classes of this package by module name."""
    return {name: _own(name) for name in _modules()}


def _modules() -> list[str]:
    modules = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return [name for name in modules if not name.startswith("_")]


def table() -> pd.DataFrame:
    """Return a table of what each probe estimates for pairs, scores and lists.

    Generated from the declarations of the probes, including those of other packages and notebooks.

    Returns
    -------
    pandas.DataFrame
        One row per probe × form × primary metric (for forms without one, per metric with a null): ``probe, form,
        metric, what, unit, null, matters, judges, needs``. ``null`` is the value without bias (NaN if none),
        ``matters`` the smallest distance from it that matters. ``judges`` is "any" if judges without prompts work (a
        function, a reward model, an evaluator), else "prompted"; ``needs`` is what a log must contain.

    Examples
    --------
    >>> rows = table()
    >>> rows.loc[rows["probe"] == "self_preference", ["form", "metric", "unit"]].to_numpy().tolist()
    [['pair', 'self_preference_logit', 'logits'], ['score', 'self_preference_shift', 'SD']]
    """
    import pandas as pd

    rows = [
        (name, form, metric.name, metric.label, metric.unit, metric.null, metric.matters, judges, kind.needs)
        for name, kind in (available() | WRITTEN).items()
        for judges in ["any" if kind.unprompted & {Compare, Score} else "prompted"]
        for form in FORMS
        for metric in _of_form(kind, form)
    ]
    columns = ["probe", "form", "metric", "what", "unit", "null", "matters", "judges", "needs"]
    return pd.DataFrame(rows, columns=columns).astype({"null": float, "matters": float})


def _of_form(kind: type[Probe], form: MetricForm) -> list[Metric]:
    """Return a probe's primary metrics for a form, or else those with a null."""
    if form not in kind.asks_for:
        return []
    own = [metric for metric in kind.metrics if metric.form in ("", form)]
    return [metric for metric in own if metric.primary] or [metric for metric in own if metric.null is not None]


def find_probe(name: str) -> type[Probe]:
    """Return a probe class by its name, such as ``"position"``, or ``"python:my_module:MyProbe"``.

    Raises
    ------
    InputError
        If the probe is unknown; the message lists all.
    """
    if name.startswith("python:"):
        found: type[Probe] = own_object("probe", name, type)
        if not issubclass(found, Probe):
            raise InputError("probe", name, "a class that inherits from one of the probes")
        return found
    if name not in names() and name in WRITTEN:  # defined in a notebook
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
    return sorted([*__all__, *map(_class_of, names())])


def __getattr__(name: str) -> type[Any]:  # parameters unknown to type checkers
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in names():
        if _class_of(module) == name:
            return _probe(module)
    classes = [_class_of(module) for module in names()]
    hint = did_you_mean(name, classes) or f"there are {', '.join(classes)}"
    raise AttributeError(f"module {__name__!r} has no probe {name!r}; {hint}")
