"""What a student has of its teacher's bias: a ratio of two estimates, with an interval and a verdict."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from scipy import stats

from biaslab.stats import Estimate, effect_or_why_not, is_above, undefined
from biaslab.stats.together import METHOD, Floats, Together

ROLES = ("teacher", "student", "control")
_NO_SHARE = "undefined: the teacher's own bias cannot be told from none (Fieller's g = {:.3g}, at least 1)"


class Pair(Together):
    """A teacher's and a student's distance from the null, perhaps a control's, and how they vary over contexts.

    ``values`` are the distances: teacher's, student's and, if there is one, that of a student whose teacher has no such
    bias.
    """

    roles: ClassVar[tuple[str, ...]] = ROLES

    @property
    def inherited(self) -> Floats:
        """Weights of what came from the teacher: the student's bias, less the control's if there is one."""
        return np.array([0.0, 1.0, -1.0][: len(self.values)])

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
