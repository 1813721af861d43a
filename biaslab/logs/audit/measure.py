"""Base classes for measures that an audit estimates in addition to the probes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from biaslab.core import Metric, declare_metrics
from biaslab.probes.base import Accepted, Cell, Part
from biaslab.stats import Resampling, each_cell, estimates_frame


@dataclass(frozen=True)
class Measure(ABC):
    """Base for measures: select the recorded judgements that support an estimate, and estimate it.

    Parameters
    ----------
    resampling : Resampling
        Confidence level and resampling of the estimates.

    Attributes
    ----------
    name : str
        Name in the column ``probe`` of the estimates.
    metrics : tuple of Metric
        The metrics that it declares; those of a probe are declared there.
    primary : tuple of str
        Names of the primary metrics, over which q-values are computed.
    """

    name: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]] = ()
    primary: ClassVar[tuple[str, ...]] = ()

    resampling: Resampling

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if cls.metrics:
            cls.primary = tuple(metric.name for metric in cls.metrics if metric.primary)
        if hasattr(cls, "name"):
            declare_metrics(cls.name, cls.metrics, again=True)

    @abstractmethod
    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select the trials that support an estimate; the note gives the reason if there are none."""

    @abstractmethod
    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""


@dataclass(frozen=True)
class CellMeasure(Measure):
    """Base for measures that are estimated separately in each cell.

    Attributes
    ----------
    cell : tuple of str
        Columns of trials that define cells, judge and data set first.
    conditions : tuple of str
        Condition columns of the estimates in addition to those of the cell.
    """

    cell: ClassVar[tuple[str, ...]]
    conditions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell, one part per condition."""

    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""
        rows = []
        for values, chosen in each_cell(trials, self.cell):
            where = dict(zip(self.cell, values, strict=True))
            for part in self.measure(chosen):
                rows += part.rows(Cell(chosen, where, tuple(part.metrics), True, self.name, self.resampling))
        return estimates_frame(rows, self.name, self.primary, (*self.cell[2:], *self.conditions))
