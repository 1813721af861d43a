"""What a probe declares: what to plant to see whether a metric keeps its promises, and how the metric is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from biaslab.core.trials import Scalar


@dataclass(frozen=True)
class Calibration:
    """How to see whether one metric of a probe keeps its promises: what to plant in a simulated judge.

    `biaslab.calibration.calibrate` asks a fair and a biased judge, and counts over many simulated studies how often the
    test accuses the fair one, how often the interval covers the truth, and how often the bias is found.

    Parameters
    ----------
    metric : str
        Name of the metric.
    null : float
        Its value under the null hypothesis of its test.
    fair, planted : mapping
        Settings of `biaslab.SimulatedJudge` by name: without the bias, so that the metric is at its null, and with it.
        A bias that 24 contexts find in 50 to 80 % of studies tells most about the power.
    parameters : mapping
        Constructor parameters of the probe, such that the metric has one value.
    candidates : int
        Candidates of a context.
    """

    metric: str
    null: float
    fair: Mapping[str, Scalar]
    planted: Mapping[str, Scalar]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    candidates: int = 3


@dataclass(frozen=True)
class Metric:
    """How one metric of a probe is read: what plots, tables and cards write beside its numbers.

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
        What an estimate above or below the null says of a judge, after "the judge": ``"prefers what stands first"``.
    advice : str or tuple of str
        What to do where that is shown; two, for above and below, where that differs.
    matters : float, optional
        The smallest distance from the null that matters in practice: a convention, which decides whether a study that
        finds nothing could have found anything. A card takes other values.
    quality : bool
        It tells how well the judge agrees with reference scores, which is no bias.
    """

    name: str
    label: str
    unit: str = ""
    null: float | None = None
    above: str = ""
    below: str = ""
    advice: str | tuple[str, str] = ""
    matters: float | None = None
    quality: bool = False

    @property
    def axis(self) -> str:
        """Label and unit, for an axis or the head of a column."""
        return f"{self.label} ({self.unit})" if self.unit else self.label
