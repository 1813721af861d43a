"""Two estimates about the same contexts: their difference and their ratio, with intervals and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from biaslab.stats import ROUNDING, Estimate, effect_or_why_not, is_above, p_by_t, student as by_student, undefined

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
    errors : ndarray, shape (left-out contexts, 2)
        Their products are the covariance of both distances; NaN where a single context decides whether there is a
        value. Kept instead of the covariance, in which two judges that vary alike differ by rounding alone.
    contexts : int
        How many contexts enter.
    level : float
        Confidence level.
    """

    values: Floats
    errors: Floats
    contexts: int
    level: float

    @classmethod
    def jackknifed(cls, values: Floats, contexts: int, level: float) -> Pair:
        """Make one of values of shape (1 + left-out contexts, 2), those of all contexts first."""
        shifts = values[1:] - values[0]
        shifts[np.abs(shifts) <= ROUNDING * np.abs(values[0])] = 0.0
        return cls(values[0], math.sqrt((contexts - 1) / max(contexts, 1)) * shifts, contexts, level)

    def _missing(self) -> str:
        """Say why nothing can be estimated of both; nothing where it can."""
        if np.isnan(self.values).any():
            return f"undefined: the {'teacher' if np.isnan(self.values[0]) else 'student'} has no estimate"
        if self.contexts < 2 or not np.isfinite(self.errors).all():
            return "no interval: one context decides whether there is an estimate"
        return ""

    def combined(self, weights: tuple[float, float]) -> Estimate:
        """Estimate a weighted sum of both, tested against 0 with t."""
        missing = self._missing()
        if missing:
            return undefined(missing, self.contexts)
        w = np.array(weights)
        value, error = float(w @ self.values), float(np.linalg.norm(self.errors @ w))
        if error <= ROUNDING * float(np.abs(self.values).max()):
            note = "contexts do not vary: the interval has no width"
            return Estimate(value, math.nan, value, value, math.nan, math.nan, self.contexts, "none", note)
        low, high = by_student(value, error, self.contexts, self.level)
        effect, note = effect_or_why_not(error, self.contexts)
        p_value = p_by_t(value, error, self.contexts)
        return Estimate(value, error, low, high, p_value, effect, self.contexts, METHOD, note)

    def share(self) -> Estimate:
        """Estimate student's / teacher's with Fieller's interval, tested against 1; NaN where the teacher has none."""
        difference = self.combined((-1.0, 1.0))
        if math.isnan(difference.estimate):
            return difference
        t, s = self.values.tolist()
        q, v_t = float(stats.t.ppf((1 + self.level) / 2, self.contexts - 1)) ** 2, float(np.sum(self.errors[:, 0] ** 2))
        g = q * v_t / t**2 if t else math.inf
        if g >= 1:
            return undefined(_NO_SHARE.format(g), self.contexts)
        ratio = s / t
        # All r with (s − r t)² ≤ q var(s − r t), a quadratic that opens upwards, as g < 1. Written around the ratio,
        # with what is left there of the student's errors, it takes no small difference of large numbers.
        left = self.errors @ np.array([-ratio, 1.0])
        a, c, v = t * t - q * v_t, float(self.errors[:, 0] @ left), float(left @ left)
        half = math.sqrt(q * (a * v + q * c * c))
        error = math.sqrt(v) / abs(t)
        effect, note = effect_or_why_not(error, self.contexts)
        low, high = ratio - (q * c + half) / a, ratio - (q * c - half) / a
        p_value, method = difference.p_value, f"Fieller, {METHOD}"
        return Estimate(ratio, error, low, high, p_value, effect, self.contexts, method, note)


def verdict_of(share: Estimate) -> str:
    """Read the interval of a share: which of nothing (0), a part, all (1), more and the opposite it leaves possible.

    Examples
    --------
    >>> from dataclasses import replace
    >>> found = undefined("no bias")
    >>> verdict_of(found), verdict_of(replace(found, estimate=0.9, ci_low=0.6, ci_high=1.3))
    ('cannot be told', 'keeps')
    """
    low, high = share.ci_low, share.ci_high
    some, part = is_above(low, 0, size=1), is_above(1, high)
    if math.isnan(low) or not (some or part):
        return "cannot be told"
    if is_above(low, 1):
        return "amplifies"
    if is_above(0, high, size=1):
        return "reverses"
    if not some:
        return "loses"
    return "keeps a part" if part else "keeps"
