"""The trials of one cell (input of `Probe.measure`), and the parts of estimates it yields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.core.metrics import Metric
from biaslab.measures.ranking.pairs import Verdicts, is_pair
from biaslab.stats.blocks import has_value, whole_blocks
from biaslab.stats.estimate import NO_TRIALS, Estimate, Inference, Note, Remark, because
from biaslab.stats.frame import MISSING_SHARE, estimate_rows
from biaslab.stats.missing import note_missing, shift_extremes
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

#: A metric, or a callable that computes it only when needed.
Estimable = Ratio | Estimate | Callable[[], Ratio | Estimate]
#: The smallest and largest value that missing judgements allow.
Extremes = tuple[Ratio, Ratio]
#: Statuses of missing judgements with a fixable cause, and their words in a note.
_LOST = {"cut_off": "are cut off at the token limit", "unusable": "have unusable probabilities (status unusable)"}
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
        return whole_blocks(self.trials if trials is None else trials, condition, levels, self.named(of), keep)

    def contrast(
        self,
        condition: str,
        levels: tuple[Any, Any],
        keep: Sequence[str] = (),
        of: str = "",
        exact: ArrayLike = False,
        both_orders: bool = True,
    ) -> Contrast:
        """Compare two conditions on the items that have a score, or the pairs that have a verdict, under both.

        Parameters
        ----------
        condition, levels, keep, of
            As in `blocks`, with two levels: the condition of interest, and the one to compare it with.
        exact : bool or array_like of bool, shape (trials,)
            For pairs: whether values are exact probabilities rather than verdicts or shares of samples.
        both_orders : bool
            For pairs: leave out those that were not shown in both orders.
        """
        if not is_pair(self.trials).any():
            return Contrast(self, condition, levels, self.blocks(condition, levels, keep, of=of))
        verdicts = Verdicts.of(self.trials, condition, levels, np.asarray(exact, bool), self.named(of))
        return Contrast(self, condition, levels, verdicts.in_both_orders() if both_orders else verdicts)

    def bounded(
        self, metrics: Mapping[str, Estimable], n_dropped: int, extremes: Callable[[], Mapping[str, Extremes]]
    ) -> dict[str, Estimable]:
        """Return metrics with missing-data bounds, if anything is missing.

        Parameters
        ----------
        metrics : mapping of str to Ratio, Estimate or callable
            Metrics by name.
        n_dropped : int
            Number of judgements not used.
        extremes : callable
            Returns the smallest and largest possible value of some of the metrics.
        """
        if not n_dropped or self.resampling.values_only:
            return dict(metrics)
        bounded = dict(metrics)
        for name, ends in extremes().items():
            if isinstance(ratio := metrics[name], Ratio):
                bounded[name] = replace(ratio, extremes=ends)
        return bounded

    def named(self, of: str) -> str:
        """Return the name of a part of the cell, for warnings."""
        return f"{self.what[:-1]}, {of})" if of else self.what


@dataclass(frozen=True)
class Contrast:
    """Two conditions of a cell, on the items or pairs that were judged under both.

    Parameters
    ----------
    cell : Cell
        The cell.
    condition, levels
        As in `Cell.contrast`.
    judged : pandas.DataFrame or Verdicts
        Scores of each item, one column per condition; or verdicts on each pair.
    """

    cell: Cell
    condition: str
    levels: tuple[Any, Any]
    judged: Any

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of judgements used and dropped."""
        return self.judged.counts if isinstance(self.judged, Verdicts) else counts_of(self.judged)

    def shift(
        self, bounds: tuple[float, float], missing: Remark, inference: Inference = "resampling", clipped: bool = True
    ) -> Ratio:
        """Return the mean score under the first condition minus that under the second, with missing-data bounds.

        Parameters
        ----------
        bounds : tuple of float
            Lowest and highest score.
        missing, inference
            As in `biaslab.stats.ratio.Ratio`.
        clipped : bool
            Limit the interval to the possible values.
        """
        (one, two), width = self.levels, bounds[1] - bounds[0]
        limits = (-width, width) if clipped else None

        def mean(blocks: pd.DataFrame) -> Ratio:
            return mean_of(blocks, blocks[one] - blocks[two], 0.0, limits, missing, inference)

        if not self.counts[1] or self.cell.resampling.values_only:
            return mean(self.judged)
        ends = shift_extremes(self.cell.trials, self.condition, self.levels, bounds, mean)
        return replace(mean(self.judged), extremes=ends)

    def differences(self, rates: Mapping[str, Sequence[Ratio]]) -> dict[str, Estimable]:
        """Return the first of two ratios minus the second, for each pair of them by name; Student's t over contexts."""
        return {
            name: partial(replace(one, inference="t").difference, two, self.cell.resampling)
            for name, (one, two) in rates.items()
        }

    def part(self, metrics: Mapping[str, Estimable], where: Mapping[str, Any] | None = None) -> Part:
        """Return metrics of the contrast, noting if more is missing under one of its conditions."""
        notes: tuple[Note, ...] = ()
        if self.counts[1]:
            planned = self.cell.trials[self.cell.trials[self.condition].isin(self.levels)]
            lost, conditions = ~has_value(planned), planned[self.condition]
            notes = note_missing(planned["context_id"], lost, conditions, f"the {self.condition}")
        return Part(metrics, self.counts, where or {}, notes)


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
        return self.counts if isinstance(self.counts, tuple) else counts_of(self.counts)


def counts_of(judged: pd.DataFrame) -> tuple[int, int]:
    """Return the numbers of judgements used and dropped: of blocks as they carry them, of trials by their values."""
    if "n_trials" in judged.attrs:
        return judged.attrs["n_trials"], judged.attrs["n_dropped"]
    entering = int(has_value(judged).sum())
    return entering, len(judged) - entering


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
    missing: Remark = NO_TRIALS,
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
    missing = because("text_answers", "answers are text")
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
