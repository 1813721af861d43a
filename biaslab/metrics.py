"""What the metrics of an estimates frame are called and how they are read, as each probe declares it.

Examples
--------
>>> find_metric("first_position_rate", "position").axis
'P(A), decisions for the first (share)'
>>> find_metric("charm").label
'charm'
"""

from __future__ import annotations

import pkgutil
from functools import cache

from biaslab import probes
from biaslab.core import Metric

__all__ = ["Metric", "find_metric", "is_primary"]


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
    own = _declared(probe) if probe in _modules() else {}
    if name in own:
        return own[name]
    every = (_declared(module) for module in _modules())
    return next((found[name] for found in every if name in found), Metric(name, _words(name)))


def is_primary(name: str, probe: str) -> bool:
    """Say whether a metric is one of those that its probe tests, and q-values are over."""
    return probe in _modules() and name in probes.find_probe(probe).primary


@cache
def _modules() -> tuple[str, ...]:
    names = (module.name for module in pkgutil.iter_modules(probes.__path__))
    return tuple(sorted(name for name in names if not name.startswith("_")))


@cache
def _declared(probe: str | None) -> dict[str, Metric]:
    """Return what a probe declares; of a tested metric without words at least the null."""
    kind = probes.find_probe(str(probe))
    found = {metric.name: metric for metric in getattr(kind, "metrics", ())}
    for promise in kind.calibrations:
        found.setdefault(promise.metric, Metric(promise.metric, _words(promise.metric), null=promise.null))
    return found


def _words(name: str) -> str:
    return name.replace("_", " ")
