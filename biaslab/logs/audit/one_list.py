"""Position bias from lists that were each ranked in one random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core import Comparison, Metric
from biaslab.logs.audit.measure import CellMeasure
from biaslab.measures.ranking.list_blocks import ListBlocks, list_blocks
from biaslab.measures.ranking.place_effects import place_excess, spearman_place_rank
from biaslab.probes.base import Accepted, Part
from biaslab.stats import Estimate, Resampling, undefined

_LIST = ["context_id", "replicate", "list_order"]
_FEWEST = 10  # minimum lists for a candidate to count as a system; single texts occur once or twice
_UNBALANCED = 0.01  # significance level of the balance test


@dataclass(frozen=True)
class OneList(CellMeasure):
    """Measure position bias from lists ranked in one order only.

    Notes
    -----
    Estimates, one per judge × data set × attribute × template × length of the list, from lists ranked as a whole:

    ``first_place_excess`` (primary; −1/k to 1 − 1/k, null 0)
        Share of lists whose first candidate is ranked best, minus 1/k.
    ``place_rank_correlation`` (−1 to 1, null 0)
        Mean Spearman correlation of position and rank; above: earlier candidates are ranked better.

    Both are estimated and tested as in `biaslab.probes.ListPosition`, clustered by context.

    **Assumption.** The position of a candidate does not depend on its quality. This holds if the order was random: each
    position then has the best candidate in one of k lists, however much candidates differ. If candidates are systems,
    a test checks whether each occurs equally often in each position: for k systems that are in every list, (k − 1)/k
    times Pearson's statistic of systems by positions is χ² with (k − 1)² degrees of freedom (Anderson 1959). Nothing is
    estimated if they are unbalanced at the .01 level. Ranking each list in balanced orders needs no such assumption and
    is the better design.

    References
    ----------
    Anderson 1959, *Use of contingency tables in the analysis of consumer preference studies*, Biometrics 15.
    """

    name: ClassVar[str] = "one_list"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "first_place_excess",
            "lists whose first is ranked best, less 1/k, one order per list",
            "share",
            null=0.0,
            above="prefers the candidate shown first",
            below="avoids the candidate shown first",
            advice="ask every list in balanced orders and average",
            use="lists shown in one order only",
            matters=0.05,
            primary=True,
            comparison=Comparison("verdicts on lists in one order", ("k",)),
        ),
        Metric("place_rank_correlation", "correlation of place and rank, one order per list", "correlation", null=0.0),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "k")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Select lists that were not ranked in balanced orders."""
        lists = trials[trials["probe"] == self.name]
        if lists.empty:
            return Accepted(lists, "needs lists of candidates ranked in one order each")
        return Accepted(lists, "assumes a random order; ranking balanced orders needs no assumption and has more power")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell."""
        lists = [trials[name] for name in _LIST]
        blocks = list_blocks(trials.assign(replicate=trials.groupby(lists).ngroup(), list_order=0), self.name)
        read = trials["status"].eq("ok").groupby(lists).transform("all")
        metrics = _metrics(blocks, _balance(trials[read], blocks.k), self.resampling)
        yield Part(metrics, (blocks.n_trials, blocks.n_dropped))


def _metrics(blocks: ListBlocks, p_value: float, resampling: Resampling) -> dict[str, Estimate]:
    """Estimate both metrics; leave them undefined if the balance test shows that the order was not random."""
    if p_value < _UNBALANCED:
        why = f"systems are not balanced over positions (p {p_value:.2g}), so quality cannot be separated from position"
        unknown = undefined(f"undefined: {why}", len(set(blocks.context)))
        return {"first_place_excess": unknown, "place_rank_correlation": unknown}
    checked = "the log has nothing to check this with" if np.isnan(p_value) else f"systems balanced (p {p_value:.2g})"
    metrics = {
        "first_place_excess": place_excess(blocks, 0, resampling),
        "place_rank_correlation": spearman_place_rank(blocks).estimate(resampling),
    }
    assumption = f"; assumes random order: {checked}"
    return {
        name: replace(each, method=f"{each.method}{assumption}") if np.isfinite(each.estimate) else each
        for name, each in metrics.items()
    }


def _balance(ranked: pd.DataFrame, k: int) -> float:
    """Return the p-value of a test that systems occur equally often in each position; NaN if candidates are texts."""
    counts = pd.crosstab(ranked["candidate_id"], ranked["place"])
    if counts.empty or counts.to_numpy().sum(axis=1).min() < _FEWEST:
        return np.nan
    table = counts.to_numpy(float)
    expected = table.sum(axis=1, keepdims=True) / k
    statistic = (k - 1) / k * float(((table - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, (len(table) - 1) * (k - 1)))
