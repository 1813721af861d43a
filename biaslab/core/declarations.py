"""Declare the metrics of a probe: interpretation and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from biaslab.core.trials import Scalar

#: What a judge gives: a verdict on two candidates, a score of one, a ranking of several; "" where it does not matter.
Form = Literal["", "pair", "score", "list"]


@dataclass(frozen=True)
class Calibration:
    """Declare how to calibrate a metric: the bias to plant in a simulated judge, and the population.

    `biaslab.validate` asks a fair and a biased judge, and estimates over many simulated studies the type-I error of
    the test, the coverage of the interval, and the power.

    Parameters
    ----------
    fair, planted : mapping
        Settings of `biaslab.SimulatedJudge` by name: without the bias, so that the metric is at its null, and with it.
        A bias that 24 contexts find in 50 to 80 % of studies tells most about the power.
    parameters : mapping
        Constructor parameters of the probe, such that the metric has one value.
    elsewhere : mapping
        Those that are others in answer modes than the declared one.
    conservative : tuple of str
        Answer modes in which the test may reject less, and the interval cover more, than promised: with a margin about
        the null, or of few counts.
    candidates : int
        Candidates of a context.
    attributes : int
        Attributes of the population, 1 or 2.
    longest : int
        Words of the longest text; all texts are one word long by default.
    systems : tuple of str
        Systems that the candidates of a context are from, in turn; nameless by default.
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


@dataclass(frozen=True)
class Comparison:
    """Declare when estimates of a metric are comparable between judges; see `biaslab.report.comparing`.

    Parameters
    ----------
    of : str
        What the judges were asked for, in a few words, such as ``"verdicts on pairs"``.
    alike : tuple of str
        Conditions that have to have the same value, such as the scale of what is counted in points.
    """

    of: str
    alike: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figure:
    """Declare a standard figure of a probe: which estimates it shows, and along which conditions.

    `biaslab.plots.standard` draws it; its fields are arguments of `biaslab.plots.draw`.

    Parameters
    ----------
    name : str
        Of its files, after the probe's name.
    metric : str or tuple of str
        The metrics that it shows.
    by : str or tuple of str, optional
        Condition columns on the vertical axis.
    x : str, optional
        Numeric condition on the horizontal axis, in place of ``by``.
    hue, row : str, optional
        Condition columns that are told apart by colour, and by panels below one another.
    col : str or tuple of str, optional
        Condition columns that are told apart by panels side by side.
    where : mapping
        Values of conditions, or lists of them, of the rows that are shown.
    label : str, optional
        Of the horizontal axis.
    log : bool
        Estimates have a logarithmic axis.

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


@dataclass(frozen=True)
class Metric:
    """Declare a metric of a probe: interpretation, whether it is primary, calibration.

    Parameters
    ----------
    name : str
        Name in the estimates frame.
    label : str
        What it is, in a few words, such as ``"P(A), decisions for the first"``.
    unit : str
        What it is counted in, such as ``"share"``, ``"logits"`` or ``"points"``.
    null : float, optional
        Where there is no bias, or nothing but chance.
    above, below : str
        Verdict on an estimate above or below the null, after "the judge": ``"prefers the candidate shown first"``.
    advice : str or tuple of str
        What to do where that is shown; two, for above and below, where that differs.
    use : str or tuple of str
        What a judge is not to be used for where that is shown, such as ``"pairs shown in one order only"``; two, for
        above and below, where that differs, the empty one where no use suffers. A card's first line is of these.
    matters : float, optional
        The smallest distance from the null that matters in practice: a convention, which decides whether a study that
        finds nothing could have found anything. A card takes other values.
    quality : bool
        It tells how well the judge agrees with reference scores, which is no bias.
    primary : bool
        It is tested, and q-values are over such metrics. A primary metric is calibrated.
    calibration : Calibration, optional
        What to plant to see whether test and interval keep their promises.
    comparison : Comparison, optional
        What makes estimates of different judges compare; none where they depend on the texts or on how was asked.
    form : {"", "pair", "score", "list"}
        From which answers it is estimated; "" where its probe has one form, or it does not matter.
    """

    name: str
    label: str
    unit: str = ""
    null: float | None = None
    above: str = ""
    below: str = ""
    advice: str | tuple[str, str] = ""
    use: str | tuple[str, str] = ""
    matters: float | None = None
    quality: bool = False
    primary: bool = False
    calibration: Calibration | None = None
    comparison: Comparison | None = None
    form: Form = ""

    @property
    def axis(self) -> str:
        """Label and unit, for an axis or a column header."""
        return f"{self.label} ({self.unit})" if self.unit else self.label
