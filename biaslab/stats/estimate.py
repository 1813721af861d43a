"""An estimate over contexts: the value, its standard error, and what Student's t makes of both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.errors import InputError

#: How an interval and a test are made: by resampling contexts and flipping their signs, or by Student's t.
Inference = Literal["resampling", "t"]
#: A standard error below this share of what it is the error of is rounding.
ROUNDING = 1e-12
#: Two-sided sign-flip tests of fewer contexts cannot reach p < .05.
FEWEST = 6
_NAN = math.nan


@dataclass(frozen=True)
class Estimate:
    """A value over contexts with its uncertainty; NaN with a note where it is undefined.

    Attributes
    ----------
    estimate : float
        The value.
    se : float
        Its standard error over contexts, in the unit of the estimate, whichever interval is taken: linearised, from
        leaving out one context at a time, or cluster-robust. NaN with fewer than two contexts, where these do not vary,
        so that nothing is known of it, and for measures that have none (Myers' index).
    ci_low, ci_high : float
        The interval.
    p_value : float
        Two-sided test against the null (sign-flip over contexts unless `method` says otherwise); NaN without a null.
    mde : float
        Smallest difference from the null that this design detects with 80 % power at α = .05. NaN, with a note, where
        contexts do not vary, and below 6 contexts, where no sign-flip test reaches .05.
    n_contexts : int
        Contexts that enter.
    method : str
        How the interval was made.
    note : str
        Why something is NaN, or what to know when reading it.
    """

    estimate: float
    se: float
    ci_low: float
    ci_high: float
    p_value: float
    mde: float
    n_contexts: int
    method: str
    note: str = ""


def undefined(reason: str, contexts: int = 0) -> Estimate:
    """Return an estimate that is NaN throughout, with the reason."""
    return without_interval(_NAN, contexts, reason)


def without_interval(value: float, contexts: int, reason: str = "no interval: one context only") -> Estimate:
    """Return a value about whose uncertainty nothing can be said, with the reason."""
    return Estimate(value, _NAN, _NAN, _NAN, _NAN, _NAN, contexts, "none", reason)


def unvarying(
    value: float, contexts: int, level: float, bounds: tuple[float, float] | None, p_value: float, test: str = ""
) -> Estimate:
    """Return the estimate where every context shows the same value, so that resampling has no width.

    With bounds the interval is Clopper and Pearson's, each context one trial: contexts that differ may be a share of up
    to 1 − (α/2)^(1/G) and yet none be seen, and they may lie at either bound. That is conservative. Without bounds
    nothing can be said, and the interval has no width.

    Examples
    --------
    >>> found = unvarying(1.0, 8, 0.95, (0.0, 1.0), p_value=2**-7)
    >>> round(found.ci_low, 3), found.ci_high, found.method
    (0.631, 1.0, 'clopper-pearson over contexts')
    """
    if bounds is None:
        note = "contexts do not vary: the interval has no width"
        return Estimate(value, _NAN, value, value, p_value, _NAN, contexts, "none" + test, note)
    unseen = 1 - ((1 - level) / 2) ** (1 / contexts)
    low, high = value - unseen * (value - bounds[0]), value + unseen * (bounds[1] - value)
    method, note = "clopper-pearson over contexts", "contexts do not vary: no detectable effect can be stated"
    return Estimate(value, _NAN, low, high, p_value, _NAN, contexts, method + test, note)


def is_above(value: float, other: float, size: float = 0.0) -> bool:
    """Return whether a value is above another by more than rounding; where either is NaN, it is not.

    Parameters
    ----------
    value, other : float
        What is compared.
    size : float
        How large the numbers are that both come of, where that is more than they themselves: beside a bound of 0.

    Examples
    --------
    >>> is_above(0.1 + 0.2, 0.3), is_above(0.31, 0.3), is_above(1e-16, 0), is_above(1e-16, 0, size=1)
    (False, True, True, False)
    """
    return value - other > ROUNDING * max(abs(value), abs(other), size)


def student(value: float, error: float, contexts: int, level: float) -> tuple[float, float]:
    """Return the interval of Student's t with G - 1 degrees of freedom.

    Parameters
    ----------
    value, error : float
        The statistic of all contexts and its standard error.
    contexts : int
        Number of contexts G, at least 2.
    level : float
        Confidence level, between 0 and 1.

    Examples
    --------
    >>> low, high = student(0.0, 1.0, 5, 0.95)
    >>> round(low, 3), round(high, 3)
    (-2.776, 2.776)
    """
    reach = float(stats.t.ppf((1 + level) / 2, contexts - 1)) * error
    return value - reach, value + reach


def p_by_t(distance: float, error: float, contexts: int) -> float:
    """Return the two-sided p-value of Student's t with G - 1 degrees of freedom: the test of the interval `student`.

    Parameters
    ----------
    distance, error : float
        Of the statistic from its null, and its standard error, above 0.
    contexts : int
        Number of contexts G, at least 2.

    Returns
    -------
    float
        Not below 2^(1 - G) of a sign-flip test with as many contexts, so that contexts that hardly vary prove no more
        than so many contexts can.

    Examples
    --------
    >>> round(p_by_t(0.5, 0.169, 8), 3), p_by_t(9.0, 0.1, 5)
    (0.021, 0.0625)
    """
    return max(2.0 ** (1 - contexts), 2 * float(stats.t.sf(abs(distance) / error, contexts - 1)))


def t_test(contributions: ArrayLike) -> float:
    """Two-sided one-sample t test that contributions, one a context, are 0 on average.

    A sign-flip test conditions on the contexts that are not 0. Where most are, as in pairs of which few flip, it is
    exact and far below its level: with 8 contexts of 3 pairs it accuses fewer than 1 fair judge in 100, not 5. The
    t test is the same choice as the asymptotic McNemar test for pairs (Fagerland et al. 2013).

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        What each context adds to the statistic, centred at the null. Their order does not matter.

    Returns
    -------
    float
        The p-value, in (0, 1], not below 2^(1 - G) (`p_by_t`); NaN for no context, or where a contribution is NaN.

    References
    ----------
    Fagerland, Lydersen & Laake 2013, *The McNemar test for binary matched-pairs data: mid-p and asymptotic are better
    than exact conditional*, BMC Medical Research Methodology 13:91.

    Examples
    --------
    >>> round(t_test([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), 4)
    0.0331
    >>> t_test([1.0, 1.0, 1.0, 1.0, 1.0])
    0.0625
    """
    values = np.sort(np.asarray(contributions, float))
    contexts = len(values)
    if contexts == 0 or np.isnan(values).any():
        return _NAN
    if not values.any():
        return 1.0
    error = float(values.std(ddof=1)) / math.sqrt(contexts) if contexts > 1 else 0.0
    if error <= ROUNDING * float(np.abs(values).max()):
        return 2.0 ** (1 - contexts)
    return p_by_t(float(values.mean()), error, contexts)


def detectable_effect(error: float, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest effect that a design detects: (t_{1−α/2} + t_{power}) · error with G − 1 degrees of freedom.

    Parameters
    ----------
    error : float
        Standard error of the estimate with this many contexts.
    contexts : int
        Number of contexts G.
    power, alpha : float
        Wanted power, and two-sided level of the test.

    Returns
    -------
    float
        In the unit of the error; NaN for fewer than two contexts.

    Raises
    ------
    InputError
        If power or alpha lies outside 0 to 1.

    Examples
    --------
    >>> round(detectable_effect(0.0656, 8), 3)
    0.214
    """
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise InputError(name, value, "a number between 0 and 1")
    if contexts < 2:
        return _NAN
    return float(np.sum(stats.t.ppf([1 - alpha / 2, power], contexts - 1))) * error


def effect_or_why_not(error: float, contexts: int) -> tuple[float, str]:
    """Return the smallest detectable effect, or NaN and the reason."""
    if contexts < FEWEST:
        return _NAN, "fewer than 6 contexts: no test can reach p < .05, whatever the effect"
    return detectable_effect(error, contexts), ""
