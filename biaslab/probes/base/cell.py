"""The trials of one cell, and its estimates: what `Probe.measure` takes and yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core import Metric
from biaslab.stats import (
    MISSING_SHARE,
    Estimate,
    Ratio,
    Resampling,
    estimate_rows,
    has_value,
    note_missing,
    shift_extremes,
    whole_blocks,
)

#: What becomes an estimate when it is asked for; calling it computes what others do not need.
Estimable = Ratio | Estimate | Callable[[], Ratio | Estimate]
#: Probability that all labels of a question have together, which every probe of label distributions reports.
LABEL_MASS = Metric("label_mass", "probability of all labels together", "probability")


@dataclass(frozen=True)
class Cell:
    """The trials of one cell, such as those of one judge, data set and attribute, and what is asked of them.

    Parameters
    ----------
    trials : pandas.DataFrame
        Those of the cell.
    where : mapping of str to object
        The columns that tell cells apart, with their values.
    chosen : tuple of str
        The metrics to estimate.
    everything : bool
        No metrics were named, so that breakdowns are wanted too.
    what : str
        What is estimated, for warnings: ``"position (coherence, template 1)"``.
    resampling : Resampling
        Of the estimates.
    """

    trials: pd.DataFrame
    where: Mapping[str, Any]
    chosen: tuple[str, ...]
    everything: bool
    what: str
    resampling: Resampling

    def wants(self, *metrics: str) -> list[str]:
        """Return those of some metrics that are asked for."""
        return [metric for metric in metrics if metric in self.chosen]

    def items(self, keep: Sequence[str] = ("human",)) -> pd.DataFrame:
        """Return one row an item with its mean ``score`` over replicates; see `biaslab.stats.blocks.whole_blocks`."""
        return self.blocks("kind", ["score"], keep, self.trials.assign(kind="score"))

    def blocks(
        self,
        condition: str,
        levels: Sequence[object],
        keep: Sequence[str] = ("human",),
        trials: pd.DataFrame | None = None,
        of: str = "",
    ) -> pd.DataFrame:
        """Put the conditions of each item side by side; see `biaslab.stats.blocks.whole_blocks`.

        Parameters
        ----------
        condition, levels, keep
            As there.
        trials : pandas.DataFrame, optional
            A part of the cell; all of it by default.
        of : str
            What the part is, for the warning.
        """
        what = f"{self.what[:-1]}, {of})" if of else self.what
        return whole_blocks(self.trials if trials is None else trials, condition, levels, what, keep)

    def bounded(
        self,
        shift: Callable[[pd.DataFrame], Ratio],
        blocks: pd.DataFrame,
        condition: str,
        levels: Sequence[object],
        ends: tuple[float, float],
    ) -> Ratio:
        """Return the shift between two conditions, with its bounds where scores are missing.

        Parameters
        ----------
        shift : callable
            Maps blocks to the mean of the first condition less the second.
        blocks : pandas.DataFrame
            Of the cell, by `blocks`.
        condition, levels
            As there, two levels.
        ends : tuple of float
            Least and greatest score.
        """
        ratio = shift(blocks)
        if not blocks.attrs["n_dropped"]:
            return ratio
        return replace(ratio, extremes=shift_extremes(self.trials, condition, levels, ends, shift))

    def note_missing(self, blocks: pd.DataFrame, condition: str, levels: Sequence[object]) -> str:
        """Return what to note where more is missing under one of the conditions; see `Part`."""
        if not blocks.attrs["n_dropped"]:
            return ""
        planned = self.trials[self.trials[condition].isin(levels)]
        return note_missing(planned["context_id"], ~has_value(planned), planned[condition], f"the {condition}")


@dataclass(frozen=True)
class Part:
    """Metrics of one condition of a cell.

    Parameters
    ----------
    metrics : mapping of str to Ratio, Estimate or callable
        By name. Those that are not asked for are not computed.
    counts : pandas.DataFrame or tuple of int
        Judgements that enter and that were planned but do not; or blocks that carry both in ``attrs``.
    condition : mapping of str to object
        The condition columns beyond those of the cell.
    note : str
        What to note of its tests because of what is missing.
    """

    metrics: Mapping[str, Estimable]
    counts: pd.DataFrame | tuple[int, int]
    condition: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    def rows(self, cell: Cell) -> list[dict[str, Any]]:
        """Estimate the chosen metrics, one row each."""
        found = {name: _estimate(self.metrics[name], cell.resampling) for name in cell.chosen if name in self.metrics}
        given = self.counts
        counts = given if isinstance(given, tuple) else (given.attrs["n_trials"], given.attrs["n_dropped"])
        found = {name: _noted(estimate, self.note, *counts) for name, estimate in found.items()}
        return estimate_rows(found, {**cell.where, **self.condition}, cell.resampling, *counts)


def label_mass(trials: pd.DataFrame) -> Ratio:
    """Say what each trial adds to the probability that all labels have together."""
    mass = trials["label_mass"]
    missing = "undefined: answers are text"
    return Ratio(trials["context_id"], mass.fillna(0), mass.notna(), bounds=(0.0, 1.0), missing=missing)


def _noted(found: Estimate, note: str, n_trials: int, n_dropped: int) -> Estimate:
    """Say at a test whether what is missing depends on the condition, and if nothing bounds what much of it may do."""
    if np.isnan(found.p_value) or not n_dropped:
        return found
    unbounded = n_dropped > MISSING_SHARE * (n_trials + n_dropped) and np.isnan(found.bound_low)
    notes = (found.note, note, "nothing bounds the effect of what is missing" if unbounded else "")
    return replace(found, note="; ".join(filter(None, notes)))


def _estimate(found: Estimable, resampling: Resampling) -> Estimate:
    made = found() if callable(found) else found
    return made.estimate(resampling) if isinstance(made, Ratio) else made
