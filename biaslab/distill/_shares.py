"""Two estimates about the same contexts: their difference and their ratio, with intervals and a word for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from biaslab.stats import ROUNDING, Estimate, effect_or_why_not, p_by_t, undefined
from biaslab.stats import student as by_student

Floats = NDArray[np.float64]
METHOD = "jackknife t over contexts"
_NO_SHARE = "undefined: the teacher's own bias cannot be told from none (Fieller's g = {:.3g}, at least 1)"


@dataclass(frozen=True)
class Pair:
    """A teacher's and a student's distance from the null, and how both vary together over contexts.

    Parameters
    ----------
    values : ndarray, shape (2,)
        The distances, teacher's first.
    covariance : ndarray, shape (2, 2)
        Of their errors; NaN where a single context decides whether there is a value.
    contexts : int
        How many contexts enter.
    level : float
        Confidence level.
    """

    values: Floats
    covariance: Floats
    contexts: int
    level: float

    @classmethod
    def jackknifed(cls, values: Floats, contexts: int, level: float) -> Pair:
        """Make one of values of shape (1 + left-out contexts, 2), those of all contexts first."""
        shifts = values[1:] - values[0]
        shifts[np.abs(shifts) <= ROUNDING * np.abs(values[0])] = 0.0
        return cls(values[0], (contexts - 1) / max(contexts, 1) * shifts.T @ shifts, contexts, level)

    @property
    def _t(self) -> float:
        return float(stats.t.ppf((1 + self.level) / 2, self.contexts - 1))

    def _missing(self) -> str:
        """Say why nothing can be estimated of both; nothing where it can."""
        if np.isnan(self.values).any():
            return f"undefined: the {'teacher' if np.isnan(self.values[0]) else 'student'} has no estimate"
        if self.contexts < 2 or not np.isfinite(self.covariance).all():
            return "no interval: one context decides whether there is an estimate"
        return ""

    def combined(self, weights: tuple[float, float]) -> Estimate:
        """Estimate a weighted sum of both, tested against 0 with t."""
        missing = self._missing()
        if missing:
            return undefined(missing, self.contexts)
        w = np.array(weights)
        value, error = float(w @ self.values), math.sqrt(max(float(w @ self.covariance @ w), 0.0))
        if error <= ROUNDING * float(np.abs(self.values).max()):
            note = "contexts do not vary: the interval has no width"
            return Estimate(value, math.nan, value, value, math.nan, math.nan, self.contexts, "none", note)
        low, high = by_student(value, error, self.contexts, self.level)
        p_value = p_by_t(value, error, self.contexts)
        return Estimate(value, error, low, high, p_value, *self._effect(error))

    def share(self) -> Estimate:
        """Estimate student's / teacher's with Fieller's interval, tested against 1; NaN where the teacher has none."""
        difference = self.combined((-1.0, 1.0))
        if math.isnan(difference.estimate):
            return difference
        (t, s), ((v_t, c), (_, v_s)) = self.values, self.covariance
        q = self._t**2
        g = q * v_t / t**2 if t else math.inf
        if g >= 1:
            return undefined(_NO_SHARE.format(g), self.contexts)
        ratio = float(s / t)
        # all r with (s − r t)² ≤ q (v_s − 2 r c + r² v_t): a quadratic that opens upwards, as g < 1
        a, b, d = t * t - q * v_t, s * t - q * c, s * s - q * v_s
        half = math.sqrt(max(b * b - a * d, 0.0))
        error = math.sqrt(max(v_s - 2 * ratio * c + ratio**2 * v_t, 0.0)) / abs(t)
        effect, points, method, note = self._effect(error)
        low, high = float((b - half) / a), float((b + half) / a)
        method = method.replace(METHOD, "Fieller, " + METHOD)
        return Estimate(ratio, error, low, high, difference.p_value, effect, points, method, note)

    def _effect(self, error: float) -> tuple[float, int, str, str]:
        effect, note = effect_or_why_not(error, self.contexts)
        return effect, self.contexts, METHOD, note


def in_a_word(share: Estimate) -> str:
    """Read the interval of a share: which of nothing (0), a part, all (1), more and the opposite it leaves possible.

    Examples
    --------
    >>> from dataclasses import replace
    >>> found = undefined("no bias")
    >>> in_a_word(found), in_a_word(replace(found, estimate=0.9, ci_low=0.6, ci_high=1.3))
    ('cannot be told', 'keeps')
    """
    low, high = share.ci_low, share.ci_high
    if math.isnan(low) or low <= 0 <= 1 <= high:
        return "cannot be told"
    if low > 1:
        return "amplifies"
    if high < 0:
        return "reverses"
    if low <= 0:
        return "loses"
    return "keeps" if high >= 1 else "keeps a part"
