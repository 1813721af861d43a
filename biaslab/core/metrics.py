"""Declare the metrics of probes, and look them up by name.

A probe declares its metrics when its class is created, whether in this package or in a notebook. Probes not yet
imported are found through the entry points of installed packages: the group ``biaslab.probes`` lists probes by name,
``biaslab.metrics`` modules that declare metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal

from biaslab.core.errors import warn
from biaslab.core.trials import Scalar

if TYPE_CHECKING:
    import pandas as pd

#: What a judge answers with: a verdict on a pair, a score, a ranking of several; "" if it does not matter.
MetricForm = Literal["", "pair", "score", "list"]


@dataclass(frozen=True)
class Calibration:
    """Declare how to calibrate a metric: the bias to plant in a simulated judge, and the population.

    `biaslab.validate` asks an unbiased and a biased judge, and estimates the type-I error of the test, the coverage of
    the interval, and the power over many simulated studies.

    Parameters
    ----------
    fair, planted : mapping
        Settings of `biaslab.SimulatedJudge` by name: without the bias (metric at its null) and with it. A bias that is
        detected in 50 to 80 % of studies with 24 contexts is most informative about power.
    parameters : mapping
        Constructor parameters of the probe for which the metric has a single value.
    elsewhere : mapping
        Parameters that differ in answer modes other than the declared one.
    conservative : tuple of str
        Answer modes in which the test may reject less often, and the interval cover more often, than the nominal
        level: metrics with a margin around the null, based on few counts, or whose interval holds for two models.
    candidates : int
        Number of candidates per context.
    attributes : int
        Number of attributes of the population, 1 or 2.
    longest : int
        Length of the longest text in words; by default all texts are one word long.
    systems : tuple of str
        Systems that wrote the candidates of a context, in turn; by default candidates have no system.
    """

    fair: Mapping[str, Scalar]
    planted: Mapping[str, Scalar]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    candidates: int = 3
    attributes: int = 1
    longest: int = 1
    systems: tuple[str, ...] = ()
    elsewhere: Mapping[str, Any] = field(default_factory=dict)
    conservative: tuple[str, ...] = ()


#: Simulated judge with quality and noise but no bias, on which most metrics are calibrated.
FAIR: dict[str, Any] = {"quality": 1.0, "noise": 1.0, "context_noise": 0.5}


def planted(
    bias: Mapping[str, Any], parameters: Mapping[str, Any] | None = None, fair: Mapping[str, Any] = FAIR, **options: Any
) -> Calibration:
    """Declare how a metric is calibrated: on a fair judge, and on the same judge with a bias.

    Parameters
    ----------
    bias : mapping
        Settings of `biaslab.SimulatedJudge` that add the bias.
    parameters : mapping, optional
        Parameters of the probe with which the metric has a single value.
    fair : mapping
        Settings of the fair judge.
    **options
        Other fields of `biaslab.core.Calibration`.

    Examples
    --------
    >>> planted({"position": 0.4}, fair={"noise": 1.0}).planted
    {'noise': 1.0, 'position': 0.4}
    """
    return Calibration(fair, {**fair, **bias}, parameters or {}, **options)


@dataclass(frozen=True)
class Comparison:
    """Declare when estimates of a metric are comparable between judges; see `biaslab.report.verdicts`.

    Parameters
    ----------
    of : str
        What the judges were asked for, in a few words, for example ``"verdicts on pairs"``.
    alike : tuple of str
        Conditions that must be equal, such as the scale if the metric is counted in points.
    """

    of: str
    alike: tuple[str, ...] = ()


@dataclass(frozen=True)
class Says:
    """Declare the headline of a figure, for each outcome of its tests.

    An empty sentence, or one with a metric that was not estimated, is replaced by one written from the findings.
    The sentences may have fields in braces: ``judge`` (who was measured), and the name of each metric that is drawn
    (its estimate with the interval, or the range of several).

    Parameters
    ----------
    found : str
        All rows of the first metric show a bias on the same side.
    mixed : str
        Some do, or not on the same side.
    none : str
        In all rows a bias that matters is excluded.
    open : str
        No row shows a bias, and at least one is inconclusive.
    plain : str
        The metric is not tested.

    Examples
    --------
    >>> Says(plain="{order_consistency} of the winners stay").plain
    '{order_consistency} of the winners stay'
    """

    found: str = ""
    mixed: str = ""
    none: str = ""
    open: str = ""
    plain: str = ""


@dataclass(frozen=True)
class Figure:
    """Declare a standard figure of a probe: which estimates it shows, and along which conditions.

    Drawn by `biaslab.plots.standard`; the fields are arguments of `biaslab.plots.draw`.

    Parameters
    ----------
    name : str
        Suffix of the file name, after the probe's name.
    metric : str or tuple of str
        The metrics to show.
    by : str or tuple of str, optional
        Condition columns for the vertical axis.
    x : str, optional
        Numeric condition for the horizontal axis, instead of ``by``.
    hue, row : str, optional
        Condition columns shown as colours and as rows of panels.
    col : str or tuple of str, optional
        Condition columns shown as columns of panels.
    where : mapping
        Filter: values of conditions, or lists of values, of the rows to show.
    label : str, optional
        Label of the horizontal axis.
    log : bool
        Whether the axis of the estimates is logarithmic.
    says : Says or callable, optional
        The headline for each outcome, or a function that returns it for the estimates of the probe (None if they allow
        none); by default the sentence of `biaslab.plots.headline`.

    Examples
    --------
    >>> Figure("consistency", ("order_consistency", "resampling_consistency"), by="attribute", col="template").col
    'template'
    """

    name: str
    metric: str | tuple[str, ...]
    by: str | tuple[str, ...] | None = None
    x: str | None = None
    hue: str | None = None
    col: str | tuple[str, ...] | None = None
    row: str | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    log: bool = False
    says: Says | Callable[[pd.DataFrame], Says | str | None] | None = None


@dataclass(frozen=True)
class Metric:
    """Declare a metric of a probe: interpretation, whether it is primary, calibration.

    Parameters
    ----------
    name : str
        Name in the column ``metric`` of the estimates frame.
    label : str
        Short description, such as ``"P(A), decisions for the first"``.
    unit : str
        Unit, such as ``"share"``, ``"logits"`` or ``"points"``.
    null : float, optional
        Value without bias, or under chance alone.
    above, below : str
        Verdict for an estimate above or below the null, to follow "the judge":
        ``"prefers the candidate shown first"``.
    advice : str or tuple of str
        What to do if the bias is shown; a pair if the advice differs for above and below.
    advice_at_ends : str
        What to do instead if a rate is within .05 of 0 or 1 in every cell, so that averaging leaves hardly anything.
    use : str or tuple of str
        What a judge with this bias should not be used for, such as ``"pairs shown in one order only"``; a pair if it
        differs for above and below, with "" if no use is affected. The first line of a card is built from these.
    matters : float, optional
        The smallest distance from the null that matters in practice: a convention, used to tell whether a study that
        finds nothing could have found anything. Cards accept other values.
    quality : bool
        Whether the metric measures agreement with reference scores rather than a bias.
    primary : bool
        Whether the metric is tested and included in q-values. Primary metrics are calibrated.
    calibration : Calibration, optional
        The bias to plant when checking the test and the interval by simulation.
    comparison : Comparison, optional
        When estimates of different judges are comparable; None if they depend on the texts or on how the question was
        asked.
    form : {"", "pair", "score", "list"}
        The form of answers it is estimated from; "" if its probe has one form or it does not matter.
    whole : bool
        Whether its values are whole numbers, such as ranks, and are written without decimals.
    odds_of : str
        For log odds: the probability, such as ``"P(A)"``; cards and pages show the estimate as a probability, too.
    subject : {"judge", "system"}
        Whose behaviour ``above`` and ``below`` describe: the judge's, or that of the systems that it judges.
    """

    name: str
    label: str
    unit: str = ""
    null: float | None = None
    above: str = ""
    below: str = ""
    advice: str | tuple[str, str] = ""
    advice_at_ends: str = ""
    use: str | tuple[str, str] = ""
    matters: float | None = None
    quality: bool = False
    primary: bool = False
    calibration: Calibration | None = None
    comparison: Comparison | None = None
    form: MetricForm = ""
    whole: bool = False
    odds_of: str = ""
    subject: Literal["judge", "system"] = "judge"

    @property
    def axis(self) -> str:
        """Label and unit, for an axis or a column header."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


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


def is_declared(name: str, probe: str | None) -> bool:
    """Return whether a probe declares a metric of this name, whether or not it estimated it.

    Examples
    --------
    >>> declare_metrics("colour", [Metric("red_rate", "P(red)", "share", null=0.5)])
    >>> is_declared("red_rate", "colour"), is_declared("read_rate", "colour")
    (True, False)
    """
    return name in _of(probe)


def difference_of(metric: Metric) -> Metric:
    """Return the metric for a difference between two judges; see `biaslab.compare`.

    Examples
    --------
    >>> difference_of(find_metric("first_position_rate")).name
    'first_position_rate_difference'
    """
    name, label = metric.name + _DIFFERENCE, f"difference of {metric.label}"
    inherited: Any = {"matters": metric.matters, "primary": metric.primary, "above": _HIGHER, "below": _LOWER}
    return Metric(name, label, metric.unit, null=0.0, **inherited)


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
