"""Look up metrics, as declared by their probes, by name.

A probe declares its metrics when its class is created, whether in this package or in a notebook. Probes not yet
imported are found through the entry points of installed packages: the group ``biaslab.probes`` lists probes by name,
``biaslab.metrics`` modules that declare metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from biaslab.core.declarations import Metric
from biaslab.core.errors import warn

PROBES, _METRICS = "biaslab.probes", "biaslab.metrics"
_DIFFERENCE = "_difference"
_HIGHER, _LOWER = "higher than in the reference", "lower than in the reference"
_declared: dict[str, dict[str, Metric]] = {}


def declare_metrics(probe: str, metrics: Iterable[Metric], again: bool = False) -> None:
    """Register the metrics of a probe.

    Parameters
    ----------
    probe : str
        Value of the column ``probe`` in the estimates frame.
    metrics : iterable of Metric
        The metrics estimated under this name.
    again : bool
        Replace existing metrics of the same names, for example when a notebook cell is run again.

    Examples
    --------
    >>> declare_metrics("colour", [Metric("red_rate", "P(red)", "share", null=0.5)])
    >>> find_metric("red_rate", "colour").axis
    'P(red) (share)'
    """
    known = _declared.setdefault(probe, {})
    known.update({metric.name: metric for metric in metrics if again or metric.name not in known})


def find_metric(name: str, probe: str | None = None) -> Metric:
    """Return a metric's declaration: its probe's, else any probe's, else a default from its name.

    Parameters
    ----------
    name : str
        Name of the metric in an estimates frame.
    probe : str, optional
        Name of the probe in the frame. Metrics of the same name, such as ``agreement``, differ between probes.
    """
    own = _of(probe)
    if name in own:
        return own[name]
    import_declared()
    of = name.removesuffix(_DIFFERENCE)
    everywhere = [own, *(_declared[each] for each in sorted(_declared))]
    declared = next((each[known] for known in (name, of) for each in everywhere if known in each), None)
    if declared is None:
        return Metric(name, name.replace("_", " "))
    return declared if declared.name == name else difference_of(declared)


def difference_of(metric: Metric) -> Metric:
    """Return the metric for a difference between two judges; see `biaslab.compare`.

    Examples
    --------
    >>> difference_of(find_metric("first_position_rate")).name
    'first_position_rate_difference'
    """
    name, label = metric.name + _DIFFERENCE, f"difference of {metric.label}"
    return Metric(
        name, label, metric.unit, null=0.0, matters=metric.matters, primary=metric.primary, above=_HIGHER, below=_LOWER
    )


def is_primary(name: str, probe: str) -> bool:
    """Return whether a metric is primary: tested by its probe or audit, and included in q-values."""
    own = _of(probe)
    name = name if name in own else name.removesuffix(_DIFFERENCE)
    return name in own and own[name].primary


@cache
def import_declared() -> dict[str, Any]:
    """Import everything that installed packages announce as probes or metrics; return the probes by name."""
    probes = {entry.name: _imported(entry) for entry in entry_points(group=PROBES)}
    for entry in entry_points(group=_METRICS):
        _imported(entry)
    return {name: probe for name, probe in probes.items() if probe is not None}


def _imported(entry: EntryPoint) -> Any:
    """Load an entry point; warn, instead of failing, if it cannot be imported."""
    try:
        loaded = entry.load()
        return loaded() if entry.group == _METRICS and callable(loaded) else loaded
    except Exception as error:
        warn(f"ignored {entry.group} {entry.name} = {entry.value!r}: {error!r}", UserWarning)
        return None


def _of(probe: str | None) -> dict[str, Metric]:
    """Return what a probe declares, importing announced packages only if it is not known yet."""
    if probe is not None and probe not in _declared:
        import_declared()
    return _declared.get(str(probe), {})
