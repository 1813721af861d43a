"""Agreement with the gold label, or with what people prefer, subset by subset of a data set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from biaslab.logs.audit.measure import CellMeasure
from biaslab.logs.audit.replies import both_orders
from biaslab.measures.ranking import pairs
from biaslab.probes.base import Accepted, Part, paired
from biaslab.stats import usable


@dataclass(frozen=True)
class Subsets(CellMeasure):
    """Measure agreement with the gold label in each subset.

    Notes
    -----
    Estimates, one a judge × data set × attribute × template × ``subset``: ``comparative_accuracy``, null ½, and
    ``accuracy_both_orders``, as `biaslab.logs.audit.replies.Replies` has them of all subsets together.
    """

    name: ClassVar[str] = "subsets"
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "subset")
    primary: ClassVar[tuple[str, ...]] = ("comparative_accuracy",)

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Take judgements of two candidates with a gold label, of data sets with subsets."""
        found = paired(trials)
        found = found[found["human_gap"].fillna(0).ne(0) & found["subset"].fillna("").ne("")]
        several = found.groupby(list(self.cell[:2]))["subset"].transform("nunique") > 1
        why = "needs a gold label or human preference, and several subsets"
        return Accepted(found[several], "" if several.any() else why)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one subset."""
        found = usable(trials)
        won = pd.Series(pairs.decisions(found), found.index)
        ratios = {
            "comparative_accuracy": pairs.comparative_accuracy(found["context_id"], won, found["human_gap"]),
            "accuracy_both_orders": both_orders(found, won),
        }
        made = {name: ratio.estimate(self.resampling) for name, ratio in ratios.items()}
        known = {name: estimate for name, estimate in made.items() if not np.isnan(estimate.estimate)}
        yield Part(known, (len(found), len(trials) - len(found)))
