"""The trials of one cell (input of `Probe.measure`), and the parts of estimates it yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.metrics import Metric
from biaslab.stats.blocks import has_value, whole_blocks
from biaslab.stats.estimate import Estimate, Inference, Note
from biaslab.stats.frame import MISSING_SHARE, estimate_rows
from biaslab.stats.missing import note_missing, shift_extremes
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

#: A metric, or a callable that computes it only when needed.
Estimable = Ratio | Estimate | Callable[[], Ratio | Estimate]
#: Statuses of missing judgements with a fixable cause, and their words in a note.
_LOST = {
    "cut_off": "are cut off at the token limit",
    "unusable": "have unusable probabilities (status unusable)",
}
#: Total probability of all labels, reported by every probe that reads label distributions.
LABEL_MASS = Metric("label_mass", "probability of all labels together", "probability")


@dataclass(frozen=True)
class Cell:
    """The trials of one cell, such as one judge, data set and attribute, and the requested metrics.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of the cell.
    where : mapping of str to object
        The columns that define the cell, with their values.
    chosen : tuple of str
        The metrics to estimate.
    everything : bool
        Whether breakdowns are wanted too, because no metrics were named.
    what : str
        Name for warnings, such as ``"position (coherence, template 1)"``.
    resampling : Resampling
        Level and resampling of the estimates.
    """

    trials: pd.DataFrame
    where: Mapping[str, Any]
    chosen: tuple[str, ...]
    everything: bool
    what: str
    resampling: Resampling

    def wants(self, *metrics: str) -> list[str]:
        """Return which of the metrics are requested."""
        return [metric for metric in metrics if metric in self.chosen]

    def items(self, keep: Sequence[str] = ("human",)) -> pd.DataFrame:
        """Return one row per item with its mean ``score`` over replicates; see `biaslab.stats.blocks.whole_blocks`."""
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
            Part of the cell; default: all.
        of : str
            Name of the part, for the warning.
        """
        label = f"{self.what[:-1]}, {of})" if of else self.what
        return whole_blocks(self.trials if trials is None else trials, condition, levels, label, keep)

    def bounded(
        self,
        shift: Callable[[pd.DataFrame], Ratio],
        blocks: pd.DataFrame,
        condition: str,
        levels: Sequence[object],
        bounds: tuple[float, float],
    ) -> Ratio:
        """Return the shift between two conditions, with bounds if scores are missing.

        Parameters
        ----------
        shift : callable
            Maps blocks to the mean of the first condition minus the second.
        blocks : pandas.DataFrame
            Result of `blocks`.
        condition, levels
            As in `blocks`, with two levels.
        bounds : tuple of float
            Lowest and highest score.
        """
        ratio = shift(blocks)
        if not blocks.attrs["n_dropped"] or self.resampling.values_only:
            return ratio
        return replace(ratio, extremes=shift_extremes(self.trials, condition, levels, bounds, shift))

    def note_missing(self, blocks: pd.DataFrame | int, condition: str, levels: Sequence[object]) -> tuple[Note, ...]:
        """Return a note if more is missing under one of the conditions; `blocks` may be the number dropped."""
        if not (blocks if isinstance(blocks, int) else blocks.attrs["n_dropped"]):
            return ()
        planned = self.trials[self.trials[condition].isin(levels)]
        return note_missing(planned["context_id"], ~has_value(planned), planned[condition], f"the {condition}")


@dataclass(frozen=True)
class Part:
    """Metrics of one condition of a cell.

    Parameters
    ----------
    metrics : mapping of str to Ratio, Estimate or callable
        Metrics by name; only requested ones are computed.
    counts : pandas.DataFrame or tuple of int
        Numbers of judgements used and dropped; or blocks that carry both in ``attrs``; or trials, of which those with a
        value are used.
    condition : mapping of str to object
        Condition columns in addition to those of the cell.
    notes : tuple of Note
        Notes on missing data, added to its tests.
    """

    metrics: Mapping[str, Estimable]
    counts: pd.DataFrame | tuple[int, int]
    condition: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def rows(self, cell: Cell) -> list[dict[str, Any]]:
        """Estimate the chosen metrics, one row each."""
        chosen = {name: self.metrics[name] for name in cell.chosen if name in self.metrics}
        counts = self.judgements()
        estimates = {
            name: _noted(_estimate(metric, cell.resampling, *counts), self.notes, *counts)
            for name, metric in chosen.items()
        }
        return estimate_rows(estimates, {**cell.where, **self.condition}, cell.resampling, *counts)

    def judgements(self) -> tuple[int, int]:
        """Return the numbers of judgements used and dropped."""
        if isinstance(self.counts, tuple):
            return self.counts
        if "n_trials" in self.counts.attrs:
            return self.counts.attrs["n_trials"], self.counts.attrs["n_dropped"]
        entering = int(has_value(self.counts).sum())
        return entering, len(self.counts) - entering


def with_lost(rows: list[dict[str, Any]], trials: pd.DataFrame) -> list[dict[str, Any]]:
    """Add a note on missing judgements with a fixable cause to the rows of a cell."""
    counts = dict(trials["status"].value_counts()) if "status" in trials else {}
    known = {status: words for status, words in _LOST.items() if counts.get(status)}
    lost = [f"{counts[status]:,} of {len(trials):,} judgements {words}" for status, words in known.items()]
    return [{**row, "note": "; ".join(filter(None, (row.get("note", ""), *lost)))} for row in rows] if lost else rows


def mean_of(
    items: pd.DataFrame,
    values: ArrayLike,
    null: float | None = None,
    bounds: tuple[float, float] | None = None,
    missing: str = "undefined: no trials left",
    inference: Inference = "resampling",
) -> Ratio:
    """Return the mean of one value per item.

    Parameters
    ----------
    items : pandas.DataFrame
        One row per item, with ``context_id``.
    values : array_like of float, shape (items,)
        One value per item; NaN items are left out.
    null, bounds, missing, inference
        As in `biaslab.stats.ratio.Ratio`.

    Examples
    --------
    >>> items = pd.DataFrame({"context_id": list("aabb"), "score": [1.0, 2.0, 3.0, 4.0]})
    >>> mean_of(items, items["score"]).estimate(Resampling()).estimate
    2.5
    """
    return Ratio(items["context_id"], values, np.ones(len(items)), null, bounds, missing, inference)


def label_mass(trials: pd.DataFrame) -> Ratio:
    """Return the mean total probability of all labels."""
    mass = trials["label_mass"]
    missing = "undefined: answers are text"
    return Ratio(trials["context_id"], mass.fillna(0), mass.notna(), bounds=(0.0, 1.0), missing=missing)


def _noted(estimate: Estimate, notes: tuple[Note, ...], n_trials: int, n_dropped: int) -> Estimate:
    """Add notes on missing data to a test: dependence on the condition, and lack of bounds."""
    if np.isnan(estimate.p_value) or not n_dropped:
        return estimate
    unbounded = n_dropped > MISSING_SHARE * (n_trials + n_dropped) and np.isnan(estimate.bound_low)
    return estimate.noted(*notes, *([Note("unbounded")] if unbounded else []))


def _estimate(metric: Estimable, resampling: Resampling, n_trials: int, n_dropped: int) -> Estimate:
    """Estimate a metric, with missing-data bounds if its values are bounded."""
    computed = metric() if callable(metric) else metric
    if not isinstance(computed, Ratio):
        return computed
    return computed.with_missing(computed.estimate(resampling), n_trials, n_dropped)
