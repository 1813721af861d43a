"""Agreement with the gold label, or with what people prefer, subset by subset of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from biaslab.audit.measure import Measure
from biaslab.audit.replies import both_orders
from biaslab.probes.base import Accepted, paired
from biaslab.ranking import pairs
from biaslab.stats import estimate_rows, estimates_frame, usable

_CELL = ("judge", "dataset", "attribute", "template", "subset")


@dataclass(frozen=True)
class Subsets(Measure):
    """Say in each subset how often decisions go as the gold label does.

    Notes
    -----
    Estimates, one a judge × data set × attribute × template × ``subset``: ``comparative_accuracy``, null ½, and
    ``accuracy_both_orders``, as `biaslab.audit.replies.Replies` has them of all subsets together.
    """

    name: ClassVar[str] = "subsets"

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Take judgements of two candidates with a gold label, of data sets with subsets."""
        found = paired(trials)
        found = found[found["human_gap"].fillna(0).ne(0) & found["subset"].fillna("").ne("")]
        several = found.groupby(list(_CELL[:2]))["subset"].transform("nunique") > 1
        why = "needs a gold label or human preference, and several subsets"
        return Accepted(found[several], "" if several.any() else why)

    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""
        rows: list[dict[str, Any]] = []
        for names, cell in trials.groupby(list(_CELL), sort=False):
            where = dict(zip(_CELL, names, strict=True))
            found = usable(cell)
            won = pd.Series(pairs.decisions(found), found.index)
            ratios = {
                "comparative_accuracy": pairs.comparative_accuracy(found["context_id"], won, found["human_gap"]),
                "accuracy_both_orders": both_orders(found, won),
            }
            made = {name: ratio.estimate(self.resampling) for name, ratio in ratios.items()}
            known = {name: found_ for name, found_ in made.items() if not np.isnan(found_.estimate)}
            rows += estimate_rows(known, where, self.resampling, len(found), len(cell) - len(found))
        return estimates_frame(rows, self.name, ("comparative_accuracy",), _CELL[2:])
