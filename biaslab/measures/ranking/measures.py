"""Measure a judge's comparisons: agreement with humans, position bias, consistency and cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.core.errors import InputError
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.comparisons import Comparisons, Read
from biaslab.stats import Estimate, Ratio, Resampling
from biaslab.stats.correlation import correlate_within

MEASURES = ("spearman", "comparative_accuracy", "first_position_rate", "order_consistency")


@dataclass(frozen=True, eq=False)
class Judged:
    """Comparisons after a remedy, the resulting scores, and the candidates' human scores.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of several contexts.
    scores, human : numpy.ndarray, shape (candidates,)
        The judge's and the mean human score; NaN if missing.
    """

    comparisons: Comparisons
    scores: Floats
    human: Floats

    def ratio(self, measure: str) -> Ratio:
        """Return a measure as a `Ratio` over comparisons or contexts.

        Parameters
        ----------
        measure : {"spearman", "comparative_accuracy", "first_position_rate", "order_consistency"}
            Spearman's ρ with human scores within contexts, averaged over the contexts in which both vary (null 0); or
            a metric of `biaslab.ranking.pairs`, over all comparisons, or over those in both orders. The mean ρ uses
            Student's t for interval and test, because rank correlations of a few candidates take few values, for which
            bootstrap and sign-flip tests do not keep their levels.

        Raises
        ------
        InputError
            If the measure is unknown.
        """
        ratios = {
            "spearman": self._spearman,
            "comparative_accuracy": self._accuracy,
            "first_position_rate": lambda: pairs.first_position_rate(self._home, self._won),
            "order_consistency": self._consistency,
        }
        if measure not in ratios:
            raise InputError("measure", measure, f"one of {', '.join(ratios)}")
        return ratios[measure]()

    def estimate(self, measure: str, resampling: Resampling) -> Estimate:
        """Estimate a measure over contexts."""
        return self.ratio(measure).estimate(resampling.numbered(pd.unique(self.comparisons.context_id)))

    @cached_property
    def _home(self) -> Codes:
        return self.comparisons.context[self.comparisons.first]

    @cached_property
    def _won(self) -> Floats:
        """Winner of each comparison: 1 = first, 0 = second, NaN = tie."""
        return np.where(self.comparisons.p == 0.5, np.nan, self.comparisons.won)

    def _spearman(self) -> Ratio:
        rho = correlate_within(self.scores, self.human, self.comparisons.context, "spearman")
        defined = ~np.isnan(rho)
        missing = "in no context do both scores vary"
        values, bounds = np.where(defined, rho, 0.0), (-1.0, 1.0)
        return Ratio(np.arange(len(rho)), values, defined, 0.0, bounds, missing, "t")

    def _accuracy(self) -> Ratio:
        gap = self.human[self.comparisons.first] - self.human[self.comparisons.second]
        return pairs.comparative_accuracy(self._home, self._won, gap)

    def _consistency(self) -> Ratio:
        both = self.comparisons.twins >= 0
        won = self._won
        return pairs.order_consistency(self._home[both], won[both], won[self.comparisons.twins[both]])


def tokens_per_item(trials: pd.DataFrame, read: Read) -> Ratio:
    """Return the number of tokens spent per candidate."""
    context = read.comparisons.context
    asked = context[read.candidates[0]]
    tokens = np.concatenate([trials["tokens"].to_numpy(float), np.zeros(len(context))])
    items = np.concatenate([np.zeros(len(asked)), np.ones(len(context))])
    return Ratio(np.concatenate([asked, context]), tokens, items)
