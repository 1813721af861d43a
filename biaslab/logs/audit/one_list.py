"""Position bias of lists that were judged in one random order each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core import Comparison, Metric
from biaslab.logs.audit.measure import CellMeasure
from biaslab.probes.base import Accepted, Estimable, Part
from biaslab.stats import Ratio, Resampling, undefined, warn_missing

_LIST = ["context_id", "replicate", "list_order"]
_FEWEST = 10  # lists a system must stand in to be one; texts of which each stands once or twice are none
_UNBALANCED = 0.01  # level of the test of balance
_NO_LIST = "undefined: no list was ranked"


@dataclass(frozen=True)
class OneList(CellMeasure):
    """Measure position bias where every list was judged in one order.

    Notes
    -----
    Estimates, one a judge × data set × attribute × template × length of the list, of lists that were ranked whole:

    ``first_place_excess`` (primary; −1/k to 1 − 1/k, null 0)
        Share of lists whose first candidate was ranked best, less 1/k. Contexts are clusters; t test.
    ``place_rank_correlation`` (−1 to 1, null 0)
        Mean Spearman correlation of place and rank; above: what stands earlier is ranked better.

    **Assumption.** Which candidate of a list stood where does not depend on its quality, as where the order was drawn
    at random: then each place has the best candidate in one of k lists, however much candidates differ. Where
    candidates are systems it is checked that each stands equally often in each place: of k systems that stand in every
    list, (k − 1)/k times Pearson's statistic of systems by places is χ² with (k − 1)² degrees of freedom (Anderson
    1959). Below p = .01 nothing is estimated. Lists in balanced orders need no such assumption and find more:
    `biaslab.probes.ListPosition`.

    References
    ----------
    Anderson 1959, *Use of contingency tables in the analysis of consumer preference studies*, Biometrics 15.
    """

    name: ClassVar[str] = "one_list"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "first_place_excess",
            "lists whose first is ranked best, less 1/k, one order a list",
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
        Metric("place_rank_correlation", "correlation of place and rank, one order a list", "correlation", null=0.0),
    )
    cell: ClassVar[tuple[str, ...]] = ("judge", "dataset", "attribute", "template", "k")

    def accepts(self, trials: pd.DataFrame) -> Accepted:
        """Take lists that were not shown in balanced orders."""
        found = trials[trials["probe"] == self.name]
        if found.empty:
            return Accepted(found, "needs lists of candidates that were ranked in one order each")
        return Accepted(found, "takes the order of a list as random; balanced orders need no assumption and find more")

    def measure(self, trials: pd.DataFrame) -> Iterator[Part]:
        """Yield the metrics of one cell."""
        lists = trials.sort_values([*_LIST, "place"], kind="stable")
        k = int(lists["k"].iloc[0])
        read = (lists["status"] == "ok").to_numpy().reshape(-1, k).all(axis=1)
        ranked = lists[np.repeat(read, k)]
        dropped = len(lists) - len(ranked)
        warn_missing(self.name, dropped, len(lists), "they could not be read")
        yield Part(_metrics(ranked, k, self.resampling), (len(ranked), dropped))


def _metrics(ranked: pd.DataFrame, k: int, resampling: Resampling) -> dict[str, Estimable]:
    names = ("first_place_excess", "place_rank_correlation")
    p_value = _balance(ranked, k)
    if p_value < _UNBALANCED:
        why = (
            f"undefined: some systems stand in some places too often for chance (p {p_value:.2g}), so that quality and "
        )
        return dict.fromkeys(names, undefined(f"{why}place cannot be told apart", ranked["context_id"].nunique()))
    checked = (
        "nothing in the log to check it by" if np.isnan(p_value) else f"systems balanced over places (p {p_value:.2g})"
    )
    said = f"; order taken as random: {checked}"
    context = ranked["context_id"].to_numpy()[::k]
    ranks = ranked["value"].to_numpy(float).reshape(-1, k)
    one = np.ones(len(ranks))
    first = Ratio(context, (ranks[:, 0] == 1).astype(float), one, 1 / k, (0.0, 1.0), _NO_LIST, "t").estimate(resampling)
    places = np.arange(k) - (k - 1) / 2
    rho = (ranks - (k + 1) / 2) @ places / float((places**2).sum())
    related = Ratio(context, rho, one, 0.0, (-1.0, 1.0), _NO_LIST, "t").estimate(resampling)
    less = {end: getattr(first, end) - 1 / k for end in ("estimate", "ci_low", "ci_high")}
    made = (replace(first, **less), related)
    return {
        name: replace(each, method=f"{each.method}{said}") if np.isfinite(each.estimate) else each
        for name, each in zip(names, made, strict=True)
    }


def _balance(ranked: pd.DataFrame, k: int) -> float:
    """Return the p-value of the test that systems stand equally often in each place; NaN where there are none."""
    counts = pd.crosstab(ranked["candidate_id"], ranked["place"])
    if counts.empty or counts.to_numpy().sum(axis=1).min() < _FEWEST:
        return np.nan
    table = counts.to_numpy(float)
    expected = table.sum(axis=1, keepdims=True) / k
    statistic = (k - 1) / k * float(((table - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, (len(table) - 1) * (k - 1)))
