"""Measure the agreement of recorded scores with human scores, like `biaslab.scoring.agreement`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import pandas as pd

from biaslab.core import Metric
from biaslab.logs.audit.measure import Measure
from biaslab.measures.scoring import agreement
from biaslab.probes.base import Accepted, rated
from biaslab.stats import ITEM, Level, Method, usable

_CELL = ("judge", "dataset", "attribute", "configuration", "scale")
_SLOW = 20_000  # items above which Kendall's tau over the whole data set is skipped


@dataclass(frozen=True)
class HumanAgreement(Measure):
    """Correlate the mean score of each item with the mean human score.

    Notes
    -----
    Estimates, one per judge × data set × attribute × configuration × scale × ``level`` (context, dataset, system) ×
    ``coefficient`` (spearman, kendall, pearson): ``human_agreement``, -1 to 1, null 0. At the context level it is the
    mean over contexts in which both vary, counted by ``n_contexts``. Candidates are taken to be systems. ``n_trials``
    counts items.
    """

    name: ClassVar[str] = "human_agreement"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("human_agreement", "agreement with humans within contexts (Spearman's ρ)", null=0.0, quality=True),
    )

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select items that humans scored too."""
        scores = rated(trials)
        why = "needs human scores of the same items: in the log, or from a data set"
        return Accepted(scores, why if scores.empty else "")

    def estimate(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates frame."""
        items = trials[[*_CELL, *ITEM, "human"]].groupby([*_CELL, *ITEM], sort=False)["human"].mean().reset_index()
        means = usable(trials).groupby([*_CELL, *ITEM], sort=False)["value"].mean().rename("score").reset_index()
        items = items.merge(means, how="left").assign(system=lambda frame: frame["candidate_id"])
        large = items.groupby(list(_CELL))["score"].transform("size") > _SLOW
        parts = [
            agreement(items[chosen], levels=levels, coefficients=methods, resampling=self.resampling, by=_CELL[3:])
            for chosen, levels, methods in (
                (~large, get_args(Level), get_args(Method)),
                (large, ("context", "system"), get_args(Method)),
                (large, ("dataset",), ("spearman", "pearson")),
            )
            if chosen.any()
        ]
        return pd.concat(parts, ignore_index=True).assign(probe=self.name, metric=self.name)
