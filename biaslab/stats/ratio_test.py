"""Test a ratio of sums over contexts at any value, and invert that test for an interval (Fieller 1954, Tango 1998)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import stats
from scipy.optimize import brentq

from biaslab.core.arrays import Floats
from biaslab.stats.estimate import is_rounding
from biaslab.stats.t_inference import t_test

_DOUBLINGS = 60


@dataclass(frozen=True)
class Excess:
    """Shares of items above and below ½, which determine the variance of a rate.

    If the two orders of a pair favour the same candidate, the item is at ½, which is no evidence about order; only
    items above or below are. With single decisions no item is at ½.

    Parameters
    ----------
    above, below : float
        From 0 to 1, with a sum of at most 1. The rate is ½ + (above − below) / 2.
    """

    above: float
    below: float

    def widening(self, at: float) -> float:
        """Return the variance of the rate at another value, relative to that at its estimate.

        With the most likely shares given a difference δ = 2 at − 1 (Tango 1998), the variance is v(δ) / n. Subtracting
        (d − δ)² / n makes it relative to the contexts' own deviations, as in a t statistic; at ½ the factor is then 1.

        Parameters
        ----------
        at : float
            The rate, 0 to 1.

        Returns
        -------
        float
            Not positive if a difference as large as the observed one is excluded; 1 if all items are equal, so that
            there is no variance to scale.

        Examples
        --------
        >>> [round(Excess(0.2, 0.0).widening(at), 3) for at in (0.5, 0.55, 0.6, 0.7)]
        [1.0, 0.625, 1.0, 1.25]
        """
        gap, lead = 2 * at - 1, self.above - self.below
        observed = self.above + self.below - lead**2
        if is_rounding(observed):
            return 1.0
        linear = (2 - lead) * gap - self.above - self.below
        root = math.sqrt(max(linear**2 + 8 * self.below * gap * (1 - gap), 0.0))
        variance = (root - linear) / 2 + gap * (1 - gap)
        return (variance - (lead - gap) ** 2) / observed


@dataclass(frozen=True)
class RatioTest:
    """Test a ratio of sums at any value; values that are not rejected are its interval.

    Parameters
    ----------
    sums : numpy.ndarray, shape (contexts, 2)
        Numerator and denominator of each context, for at least two contexts whose ratios vary.
    excess : Excess, optional
        For a rate between 0 and 1: the score test of Tango (1998), with its variance scaled to that observed between
        contexts (Franco et al. 2019). By default the variance between contexts is used at every value (Fieller 1954).

    References
    ----------
    Fieller 1954, *Some problems in interval estimation*, JRSS B 16; Tango 1998, *Equivalence test and confidence
    interval for the difference in proportions for the paired-sample design*, Statistics in Medicine 17; Franco, Little,
    Louis & Slud 2019, *Comparative study of confidence intervals for proportions in complex sample surveys*, J. Survey
    Statistics and Methodology 7.

    Examples
    --------
    >>> test = RatioTest(np.array([[3.0, 4], [4, 4], [2, 4], [4, 4], [3, 4], [4, 4], [4, 4], [3, 4]]))
    >>> round(test.p_value(0.5), 4), [round(end, 3) for end in test.interval(0.95, 0.5)]
    (0.0078, [0.688, 0.999])
    """

    sums: Floats
    excess: Excess | None = None

    def p_value(self, at: float) -> float:
        """Return the two-sided p-value, at least 2^(1 − G) (`p_by_t`)."""
        factor = self._factor(at)
        return t_test(self._deviations(at), factor) if factor > 0 else 2.0 ** (1 - len(self.sums))

    def interval(self, level: float, null: float | None = None) -> tuple[float, float]:
        """Return the values around the ratio that are not rejected.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1.
        null : float, optional
            Included in the interval exactly if its p-value is at least 1 − level, even if fewer than 6 contexts cannot
            reject it.

        Returns
        -------
        tuple of float
            Infinite on a side where no value is rejected, because the contexts' denominators vary too much.
        """
        low, high = (0.0, 1.0) if self.excess else (-math.inf, math.inf)
        return self._end(low, level, null), self._end(high, level, null)

    def _end(self, limit: float, level: float, null: float | None) -> float:
        totals = self.sums.sum(axis=0)
        kept = float(totals[0] / totals[1])
        if null is not None and (null - kept) * (limit - kept) > 0:
            kept, limit = (null, limit) if self.p_value(null) >= 1 - level else (kept, null)
        quantile = float(stats.t.ppf((1 + level) / 2, len(self.sums) - 1))

        def room(at: float) -> float:
            deviations = self._deviations(at)
            reach = quantile**2 * self._factor(at) * float(deviations.var(ddof=1)) / len(deviations)
            return reach - float(deviations.mean()) ** 2

        if math.isinf(limit):
            limit = self._beyond(room, kept, math.copysign(1.0, limit))
        if room(kept) <= 0 or math.isinf(limit):
            return kept if room(kept) <= 0 else limit
        return limit if room(limit) >= 0 else float(brentq(room, kept, limit))

    def _beyond(self, room: Callable[[float], float], start: float, side: float) -> float:
        """Return a value that is rejected, or infinity."""
        step = float(self._deviations(start).std()) / float(self.sums[:, 1].mean())
        for power in range(_DOUBLINGS):
            if room(start + side * step * 2.0**power) < 0:
                return start + side * step * 2.0**power
        return side * math.inf

    def _factor(self, at: float) -> float:
        return self.excess.widening(at) if self.excess else 1.0

    def _deviations(self, at: float) -> Floats:
        return self.sums[:, 0] - at * self.sums[:, 1]
