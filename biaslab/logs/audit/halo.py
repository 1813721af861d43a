"""Halo effect: a judge's scores of two attributes correlate more than human scores do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from biaslab.core import Comparison, Metric
from biaslab.logs.audit.measure import CellMeasure
from biaslab.probes.base import Accepted, Part, rated
from biaslab.stats import (
    ITEM,
    Estimate,
    Ratio,
    Resampling,
    context_correlations,
    paired,
    usable,
)


@dataclass(frozen=True)
class Halo(CellMeasure):
    """Halo effect: correlation of a judge's scores of two attributes, compared with that of human scores.

    Notes
    -----
    Estimates, one per judge × data set × configuration × scale × pair of attributes (``attribute``, ``other``), from
    items that judge and humans scored on both. Correlations are Spearman's ρ within contexts, averaged over contexts in
    which all four scores vary:

    ``halo_judge``, ``halo_human`` (-1 to 1)
        Correlation of the two attributes in the judge's mean scores, and in the mean human scores.
    ``halo_excess`` (primary; -2 to 2, null 0)
        ``halo_judge`` minus ``halo_human``. Above 0: the judge distinguishes the attributes less than humans do.
    """

    name: ClassVar[str] = "halo"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "halo_excess",
            "correlation of two scores, judge minus humans",
            "r",
            null=0.0,
            above="lets one attribute's score drag the other more than humans do",
            below="distinguishes attributes more than humans do",
            advice=("ask for one attribute at a time", ""),
            use=("distinguishing attributes", ""),
            matters=0.1,
            primary=True,
            comparison=Comparison("scores of two attributes"),
        ),
        Metric("halo_judge", "correlation of the judge's scores of two attributes", "r"),
        Metric("halo_human", "correlation of human scores of two attributes", "r"),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "configuration", "scale")
    conditions: ClassVar[tuple[str, ...]] = ("attribute", "other")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select items with scores of several attributes by a judge and by humans."""
        scores = rated(trials)
        item = ["judge", "dataset", "configuration", *ITEM]
        several = scores.groupby(item)["attribute"].transform("nunique") > 1
        if scores.empty or not several.any():
            return Accepted(
                scores.iloc[:0], "needs scores of two attributes of the same items by a judge and by humans"
            )
        return Accepted(scores)

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of each pair of attributes."""
        readable = usable(trials)
        means = readable.pivot_table(index=list(ITEM), columns="attribute", values=["value", "human"], sort=False)
        for one, other in combinations(dict.fromkeys(readable["attribute"]), 2):
            wanted = [(kind, name) for kind in ("value", "human") for name in (one, other)]
            if not set(wanted) <= set(means.columns):
                continue
            four = means[wanted].dropna()
            four.columns = ["judge_1", "judge_2", "human_1", "human_2"]
            inside = pd.MultiIndex.from_frame(readable[list(ITEM)]).isin(four.index)
            entering = int((inside & readable["attribute"].isin([one, other])).sum())
            planned = int(trials["attribute"].isin([one, other]).sum())
            effect = _halo(four.reset_index(), self.resampling)
            yield Part(effect, (entering, planned - entering), {"attribute": one, "other": other})


def _halo(four: pd.DataFrame, resampling: Resampling) -> dict[str, Estimate]:
    complete = paired(four, ["judge_1", "judge_2", "human_1", "human_2"], ["context_id"])
    judge, human = (
        context_correlations(complete, f"{who}_1", f"{who}_2", "spearman", "context_id") for who in ("judge", "human")
    )
    both = ~np.isnan(judge) & ~np.isnan(human)
    contexts = np.arange(len(both))
    missing = "undefined: in no context do both attributes vary for the judge and for humans"

    def mean(values: np.ndarray[Any, Any], null: float | None, bound: float) -> Estimate:
        ratio = Ratio(contexts, np.where(both, values, 0.0), both, null, (-bound, bound), missing)
        return ratio.estimate(resampling.numbered(complete["context_id"].unique()))

    return {
        "halo_judge": mean(judge, None, 1.0),
        "halo_human": mean(human, None, 1.0),
        "halo_excess": mean(judge - human, 0.0, 2.0),
    }
