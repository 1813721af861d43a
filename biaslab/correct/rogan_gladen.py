"""Estimate the true rate behind binary verdicts from sensitivity and specificity (Rogan & Gladen 1978)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from biaslab.core.arrays import Floats
from biaslab.correct.estimators import (
    FEWEST_LABELLED,
    Fitted,
    Sums,
    Target,
    fitted,
    kept,
    ratio,
    too_few,
    unfitted,
)
from biaslab.stats import Estimate


def rogan_gladen(sums: Sums, both: Floats) -> Fitted:
    """Estimate the rate that solves: rate of verdicts = rate × sensitivity + (1 − rate) × (1 − specificity).

    Parameters
    ----------
    sums : Sums
        Sums of verdicts and labels, each 0 or 1.
    both : ndarray, shape (labelled,)
        Number of items in each labelled context that are 1 for both judge and humans.
    """
    weight, true = sums.weight, sums.human[:, 0]
    false = sums.human[:, 1] - true
    if sums.rated < FEWEST_LABELLED:
        return too_few(sums)
    few = min(int((true > 0).sum()), int((false > 0).sum()))
    if few < FEWEST_LABELLED:
        why = f"undefined: one label occurs in only {few} contexts; each needs at least {FEWEST_LABELLED}"
        return unfitted(sums, why)
    overall, everywhere = ratio(sums.judged)
    hit, hits = _rate(both, true, weight)
    alarm, alarms = _rate(sums.judged_labelled[:, 0] - both, false, weight)
    if not hit > alarm:
        return unfitted(sums, "undefined: the judge does not separate 1 from 0 on the labelled contexts")
    value = (overall - alarm) / (hit - alarm)
    where = (sums.spread(hits), sums.spread(alarms))
    slack = (_unseen(hit, true), _unseen(alarm, false))
    parts = -(value * where[0] + (1 - value) * where[1]) / (hit - alarm)
    own = fitted(sums, value, everywhere / (hit - alarm), parts, sums.rated, "Rogan-Gladen")
    return RoganGladen(**vars(own), rates=(overall, hit, alarm), parts=(everywhere, *where), slack=slack)


@dataclass(frozen=True)
class RoganGladen(Fitted):
    """A rate with Fieller's interval: the rates that the observed verdicts do not reject."""

    rates: tuple[float, float, float] = (math.nan,) * 3
    parts: tuple[Floats, ...] = ()
    slack: tuple[float, ...] = (0.0, 0.0)

    def estimate(
        self,
        target: Target = "contexts like these",
        level: float = 0.95,
        null: float | None = None,
        bounds: tuple[float, float] = (0.0, 1.0),
    ) -> Estimate:
        """Return value, Fieller's interval, and the test with the same statistic."""
        bounds = (max(bounds[0], 0.0), min(bounds[1], 1.0))
        reach = float(stats.t.ppf((1 + level) / 2, self.sample - 1))
        low, high = self._fieller(reach, target)
        inside = low <= bounds[1] and high >= bounds[0]
        low, high = (float(np.clip(end, *bounds)) for end in (low, high))
        clipped = float(np.clip(self.value, *bounds))
        note = "" if clipped == self.value else f"clipped to 0–1; the raw estimate is {self.value:.3g}"
        if inside and (low, high) == bounds:
            note = "too few labels to show that the judge separates 1 from 0: any rate is possible"
        linear = replace(Fitted(**{n: getattr(self, n) for n in Fitted.__dataclass_fields__}), note=note)
        estimate = linear.estimate(target, level, null, bounds)
        p_value = math.nan
        if null is not None:
            at = np.array([null])
            distance = float(self._away(at)[0] / self._errors(at, target)[0])
            p_value = max(2.0 ** (1 - self.sample), 2 * float(stats.t.sf(abs(distance), self.sample - 1)))
            low, high = (min(low, null), max(high, null)) if p_value >= 1 - level else (low, high)
        method = "Rogan-Gladen, Fieller over contexts"
        error = float(self._errors(np.array([self.value]), target)[0] / (self.rates[1] - self.rates[2]))
        low, high = min(low, clipped), max(high, clipped)
        return replace(estimate, estimate=clipped, se=error, ci_low=low, ci_high=high, p_value=p_value, method=method)

    def _fieller(self, reach: float, target: Target) -> tuple[float, float]:
        """Return the interval of rates within a number of standard errors, from the roots of a quadratic."""
        at = np.array([0.0, 0.5, 1.0])  # three points determine a quadratic
        excess = self._away(at) ** 2 - (reach * self._errors(at, target)) ** 2
        square, slope = 2 * (excess[0] - 2 * excess[1] + excess[2]), -3 * excess[0] + 4 * excess[1] - excess[2]
        discriminant = slope**2 - 4 * square * excess[0]
        if square <= 0 or discriminant < 0:  # the labels do not distinguish sensitivity from 1 − specificity
            return -math.inf, math.inf
        half = math.sqrt(discriminant)
        return (-slope - half) / (2 * square), (-slope + half) / (2 * square)

    def _away(self, rate: Floats) -> Floats:
        """Return the difference between the observed rate of verdicts and that expected at a true rate."""
        overall, hit, alarm = self.rates
        return overall - alarm - rate * (hit - alarm)

    def _errors(self, rate: Floats, target: Target) -> Floats:
        """Return the standard error of that difference; each context contributes u − rate × v."""
        everywhere, hits, alarms = self.parts
        if target == "these contexts":
            everywhere, hits, alarms = np.zeros_like(everywhere), self.finite * hits, self.finite * alarms
        u, v = everywhere - alarms, hits - alarms
        seen = float(u @ u) - 2 * rate * float(u @ v) + rate**2 * float(v @ v)
        unseen = rate**2 * self.slack[0] + (1 - rate) ** 2 * self.slack[1]
        return np.asarray(np.sqrt(np.maximum(seen, 0.0) + unseen), float)


def _rate(counts: Floats, of: Floats, weight: Floats) -> tuple[float, Floats]:
    """Return a rate and each context's contribution to its error, divided by √(1 − its share)."""
    value, parts = ratio(np.column_stack([counts, of]), weight)
    weighted = weight * of
    return value, parts / kept(weighted / weighted.sum())


def _unseen(rate: float, of: Floats) -> float:
    """Return the variance of an observed rate of 0 or 1, after adding half a success and half a failure."""
    items = float(of.sum())
    smooth = (rate * items + 0.5) / (items + 1)
    return 0.0 if 0 < rate < 1 else smooth * (1 - smooth) / (items + 1)
