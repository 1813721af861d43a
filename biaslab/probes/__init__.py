"""Probes, one module a phenomenon. Dropping a module here is all it takes: nothing is registered.

The module ``score_distribution`` holds the class ``ScoreDistribution``, which is also an attribute of this package.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from biaslab.checked import checked
from biaslab.checks import require_one_of
from biaslab.core import Metric
from biaslab.probes._audited import AUDITED
from biaslab.probes.base import Probe

_DIFFERENCE = "_difference"
_HIGHER, _LOWER = "higher than in the reference", "lower than in the reference"


@cache
def names() -> tuple[str, ...]:
    """Return the names of all probes, those of their modules; nothing is imported."""
    found = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in found if not name.startswith("_")))


def available() -> dict[str, type[Probe]]:
    """Return every probe class by the name of its module."""
    return {name: _probe(name) for name in names()}


@checked
def find_probe(name: str) -> type[Probe]:
    """Return a probe class by the name of its module, such as ``"position"``.

    Raises
    ------
    InputError
        If there is no such probe; the message lists those there are.
    """
    require_one_of("probe", name, names())
    return _probe(name)


@checked
@cache
def find_metric(name: str, probe: str | None = None) -> Metric:
    """Return how a metric is read: as its probe declares it, else as any probe does, else by its name alone.

    Parameters
    ----------
    name : str
        Name of the metric in an estimates frame.
    probe : str, optional
        Name of the probe in the frame. Metrics of one name, such as ``agreement``, are not the same in all probes.
    """
    own = _declared(probe)
    if name in own:
        return own[name]
    every = [_declared(module) for module in names()]
    of = name.removesuffix(_DIFFERENCE)
    found = next((each[known] for known in (name, of) for each in (own, *every) if known in each), None)
    if found is None:
        return Metric(name, name.replace("_", " "))
    return found if found.name == name else difference_of(found)


@checked
def difference_of(metric: Metric) -> Metric:
    """Return how the difference of a metric between two judges is read: see `biaslab.compare`.

    Examples
    --------
    >>> difference_of(find_metric("first_position_rate")).name
    'first_position_rate_difference'
    """
    name, label = metric.name + _DIFFERENCE, f"difference of {metric.label}"
    return Metric(
        name, label, metric.unit, null=0.0, matters=metric.matters, primary=metric.primary, above=_HIGHER, below=_LOWER
    )


@checked
def is_primary(name: str, probe: str) -> bool:
    """Say whether a metric is one of those that its probe, or an audit, tests, and q-values are over."""
    name = name.removesuffix(_DIFFERENCE) if name not in _declared(probe) else name
    if probe in AUDITED:
        return name in _declared(probe) and _declared(probe)[name].primary
    return probe in names() and name in find_probe(probe).primary


@cache
def _declared(probe: str | None) -> dict[str, Metric]:
    """Return what a probe declares: its metrics, and those of frames that other functions make of its phenomenon."""
    if probe not in names():
        return {metric.name: metric for metric in AUDITED.get(str(probe), ())}
    kind = find_probe(str(probe))
    return {metric.name: metric for metric in (*kind.metrics, *kind.labels)}


def _probe(name: str) -> type[Probe]:
    class_name = name.title().replace("_", "")
    return getattr(importlib.import_module(f"{__name__}.{name}"), class_name)  # type: ignore[no-any-return]


def __getattr__(name: str) -> type[Probe]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in names():
        if module.title().replace("_", "") == name:
            return _probe(module)
    raise AttributeError(f"module {__name__!r} has no probe {name!r}; there are {', '.join(names())}")
