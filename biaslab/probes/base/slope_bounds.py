"""Bounds on a slope with missing scores on a bounded scale, and the tipping point of a finding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from biaslab.core.arrays import Floats
from biaslab.stats import TIPPING, Estimate
from biaslab.stats.rating_error import rating_error
from biaslab.stats.regression import demeaned

_HALVINGS = 7
_WIDTH = 4.0  # assumed maximum deviation of unbounded scores, in standard deviations


@dataclass(frozen=True)
class MissingScores:
    """Items with missing scores, and their possible effect on a slope at equal human score.

    A slope is a weighted sum of scores, so its smallest and largest values have each missing score at one end of the
    scale, by the sign of its weight (Horowitz & Manski 2000). The tipping point is the deviation of missing scores from
    their prediction at which a finding vanishes (Yan, Lee & Li 2009, *Missing data handling methods in medical device
    clinical trials*, J. Biopharm. Stat. 19).

    Parameters
    ----------
    items : pandas.DataFrame
        All planned items: ``context_id, score, human``, the feature and the covariates; only ``score`` may be NaN.
    feature : str
        Column of the feature.
    covariates : sequence of str
        Columns controlled for in addition to the human score.
    within : bool
        Whether each context has its own intercept.
    ends : tuple of float
        Lowest and highest score, in the unit of ``score``; infinite if unbounded.
    """

    items: pd.DataFrame
    feature: str
    covariates: Sequence[str]
    within: bool
    ends: tuple[float, float]

    def bound(self, estimate: Estimate, slope: Callable[[pd.DataFrame], Estimate], unit: float = 1.0) -> Estimate:
        """Add bounds to an estimate and, if these contain 0 but the interval does not, its tipping point.

        Parameters
        ----------
        estimate : Estimate
            The slope over items with a score.
        slope : callable
            Returns the slope of complete items.
        unit : float
            Scale points per unit of ``score``, for the note.
        """
        lost = self.items["score"].isna().to_numpy()
        if not lost.any() or math.isnan(estimate.ci_low):
            return estimate
        up = self._weights()[lost] > 0
        low, high = math.nan, math.nan
        if np.isfinite(self.ends).all():
            low = slope(self._filled(np.where(up, *self.ends))).ci_low
            high = slope(self._filled(np.where(up, *self.ends[::-1]))).ci_high
            low, high = (math.nan, math.nan) if math.isnan(low) or math.isnan(high) else (low, high)
        estimate = replace(estimate, bound_low=min(low, estimate.ci_low), bound_high=max(high, estimate.ci_high))
        if estimate.ci_low <= 0 <= estimate.ci_high or low > 0 or high < 0:
            return estimate
        off = self._tipping_point(estimate, slope, np.where(up, 1.0, -1.0) * math.copysign(1.0, estimate.estimate))
        if off is None:
            return estimate
        words = f"{TIPPING} missing scores {off * unit:.2g} points off their predicted values"
        return replace(estimate, note="; ".join(filter(None, (estimate.note, words))))

    def _weights(self) -> Floats:
        """Return each score's weight in the slope: the feature's residual on human score and covariates."""
        names = [*self.covariates, "human", self.feature]
        x = self.items[names].to_numpy(float)
        x = demeaned(x, pd.factorize(self.items["context_id"])[0]) if self.within else x - x.mean(axis=0)
        gram = x.T @ x
        gram[-2, -2] -= rating_error(self.items, self.within).error[0]
        solved: Floats = np.linalg.lstsq(gram, np.eye(len(names))[-1], rcond=None)[0]
        return x @ solved

    def _filled(self, values: Floats) -> pd.DataFrame:
        score = self.items["score"].to_numpy(float).copy()
        score[np.isnan(score)] = np.clip(values, *self.ends)
        return self.items.assign(score=score)

    def _tipping_point(
        self, estimate: Estimate, slope: Callable[[pd.DataFrame], Estimate], sides: Floats
    ) -> float | None:
        """Return how far missing scores must deviate to overturn the finding; None if no deviation does."""
        predicted = self._predicted()
        spread = float(self.items["score"].std())
        width = self.ends[1] - self.ends[0] if np.isfinite(self.ends).all() else _WIDTH * spread

        def holds(off: float) -> bool:
            there = slope(self._filled(predicted - off * sides))
            return there.ci_low > 0 if estimate.estimate > 0 else there.ci_high < 0

        if holds(width):
            return None
        low, high = 0.0, width
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if holds(middle) else (low, middle)
        return high

    def _predicted(self) -> Floats:
        """Return the regression predictions for the missing scores."""
        known = self.items["score"].notna().to_numpy()
        names = [*self.covariates, "human", self.feature]
        x, y = self.items[names].to_numpy(float), self.items["score"].to_numpy(float)
        codes = pd.factorize(self.items["context_id"])[0] if self.within else np.zeros(len(x), np.intp)
        count = np.bincount(codes[known], minlength=codes.max() + 1)
        whole = np.column_stack([x, y])
        means = np.column_stack([np.bincount(codes[known], column[known], len(count)) for column in whole.T])
        means = np.where(count[:, None] > 0, means / np.maximum(count, 1)[:, None], whole[known].mean(axis=0))
        centred = whole - means[codes]
        slopes = np.linalg.lstsq(centred[known, :-1], centred[known, -1], rcond=None)[0]
        predicted: Floats = means[codes[~known], -1] + centred[~known, :-1] @ slopes
        return predicted
