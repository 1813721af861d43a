"""Estimates of several judges about the same contexts: sums and a ratio of them, with intervals and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.stats import (
    ROUNDING,
    Estimate,
    effect_or_why_not,
    is_above,
    p_by_t,
    settled,
    student as by_student,
    undefined,
)

Floats = NDArray[np.float64]
METHOD = "jackknife t over contexts"
ROLES = ("teacher", "student", "control")
_NO_SHARE = "undefined: the teacher's own bias cannot be told from none (Fieller's g = {:.3g}, at least 1)"


@dataclass(frozen=True)
class Pair:
    """A teacher's and a student's distance from the null, perhaps a control's, and how they vary over contexts.

    Parameters
    ----------
    values : ndarray, shape (2,) or (3,)
        The distances: teacher's, student's and, if there is one, that of a student whose teacher has no such bias.
    errors : ndarray, shape (left-out contexts, 2 or 3)
        Their products are the covariance of the distances; NaN where a single context decides whether there is a
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
        """Make one of values of shape (1 + left-out contexts, judges), those of all contexts first."""
        shifts = values[1:] - values[0]
        shifts[np.abs(shifts) <= ROUNDING * np.abs(values[0])] = 0.0
        return cls(values[0], math.sqrt((contexts - 1) / max(contexts, 1)) * shifts, contexts, level)

    def _missing(self) -> str:
        """Say why nothing can be estimated of all; nothing where it can."""
        if np.isnan(self.values).any():
            return f"undefined: the {ROLES[int(np.isnan(self.values).argmax())]} has no estimate"
        if self.contexts < 2 or not np.isfinite(self.errors).all():
            return "no interval: one context decides whether there is an estimate"
        return ""

    @property
    def inherited(self) -> Floats:
        """Weights of what came from the teacher: the student's bias, less the control's if there is one."""
        return np.array([0.0, 1.0, -1.0][: len(self.values)])

    def combined(self, weights: ArrayLike) -> Estimate:
        """Estimate a weighted sum of the distances, tested against 0 with t."""
        missing = self._missing()
        if missing:
            return undefined(missing, self.contexts)
        w = np.asarray(weights, float)
        value, error = float(w @ self.values), float(np.linalg.norm(self.errors @ w))
        if error <= ROUNDING * float(np.abs(self.values).max()):
            note = "contexts do not vary: the interval has no width"
            return Estimate(value, math.nan, value, value, math.nan, math.nan, self.contexts, "none", note)
        ends = by_student(value, error, self.contexts, self.level)
        effect, note = effect_or_why_not(error, self.contexts)
        low, high, p_value = settled(ends, 0.0, p_by_t(value, error, self.contexts), self.level)
        return Estimate(value, error, low, high, p_value, effect, self.contexts, METHOD, note)

    def share(self) -> Estimate:
        """Estimate inherited / teacher's with Fieller's interval, tested against 1; NaN where the teacher has none."""
        own = np.eye(len(self.values))[0]
        difference = self.combined(self.inherited - own)
        if math.isnan(difference.estimate):
            return difference
        t, s = float(self.values[0]), float(self.inherited @ self.values)
        q, v_t = float(stats.t.ppf((1 + self.level) / 2, self.contexts - 1)) ** 2, float(np.sum(self.errors[:, 0] ** 2))
        g = q * v_t / t**2 if t else math.inf
        if g >= 1:
            return undefined(_NO_SHARE.format(g), self.contexts)
        ratio = s / t
        # All r with (s − r t)² ≤ q var(s − r t), a quadratic that opens upwards, as g < 1. Written around the ratio,
        # with what is left there of the student's errors, it takes no small difference of large numbers.
        left = self.errors @ (self.inherited - ratio * own)
        a, c, v = t * t - q * v_t, float(self.errors[:, 0] @ left), float(left @ left)
        half = math.sqrt(q * (a * v + q * c * c))
        error = math.sqrt(v) / abs(t)
        effect, note = effect_or_why_not(error, self.contexts)
        low, high = ratio - (q * c + half) / a, ratio - (q * c - half) / a
        p_value, method = difference.p_value, f"Fieller, {METHOD}"
        return Estimate(ratio, error, low, high, p_value, effect, self.contexts, method, note)


def verdict_of(share: Estimate) -> str:
    """Read the interval of a share: which of nothing (0), a part, all (1), more and the opposite it leaves possible.

    An interval that leaves more than that possible tells less: *keeps* and *loses* are said only of one that reaches
    less than 1 beyond all of the bias and beyond none.

    Examples
    --------
    >>> from dataclasses import replace
    >>> found = undefined("no bias")
    >>> verdict_of(found), verdict_of(replace(found, estimate=0.9, ci_low=0.6, ci_high=1.3))
    ('cannot be told', 'keeps')
    >>> verdict_of(replace(found, estimate=-2.0, ci_low=-10.9, ci_high=0.92))
    'cannot be told'
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
        return "loses" if is_above(low, -1) else "cannot be told"
    if part:
        return "keeps a part"
    return "keeps" if is_above(2, high) else "keeps or amplifies"
