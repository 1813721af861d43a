"""Student's t over contexts: interval, test, and the smallest effect that a design detects."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.stats.estimate import is_rounding

#: Two-sided sign-flip tests of fewer contexts cannot reach p < .05.
FEWEST = 6


@checked
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


@checked
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
        than their number allows.

    Examples
    --------
    >>> round(p_by_t(0.5, 0.169, 8), 3), p_by_t(9.0, 0.1, 5)
    (0.021, 0.0625)
    """
    return max(2.0 ** (1 - contexts), 2 * float(stats.t.sf(abs(distance) / error, contexts - 1)))


@checked
def t_test(contributions: ArrayLike, widening: float = 1.0) -> float:
    """Two-sided one-sample t test that contributions, one a context, are 0 on average.

    A sign-flip test conditions on the contexts that are not 0. Where most are, as in pairs of which few flip, it is
    exact and far below its level: with 8 contexts of 3 pairs its type-I error is below .01, not .05. The
    t test is the same choice as the asymptotic McNemar test for pairs (Fagerland et al. 2013).

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        What each context adds to the statistic, centred at the null. Their order does not matter.
    widening : float
        Factor of the variance, above 0.

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
    if widening < 0:
        raise InputError("widening", widening, "a number of at least 0", "1 leaves the variance as it is")
    values = np.sort(np.asarray(contributions, float))
    contexts = len(values)
    if contexts == 0 or np.isnan(values).any():
        return math.nan
    if is_rounding(np.abs(values).max()):
        return 1.0
    error = float(values.std(ddof=1)) / math.sqrt(contexts) if contexts > 1 else 0.0
    if is_rounding(error, np.abs(values).max()):
        return 2.0 ** (1 - contexts)
    return p_by_t(float(values.mean()), error * math.sqrt(widening), contexts)


@checked
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
        return math.nan
    return float(np.sum(stats.t.ppf([1 - alpha / 2, power], contexts - 1))) * error


@checked
def effect_or_why_not(error: float, contexts: int) -> tuple[float, str]:
    """Return the smallest detectable effect, or NaN and the reason."""
    if contexts < FEWEST:
        return math.nan, f"fewer than {FEWEST} contexts: no test can reach p < .05, whatever the effect"
    return detectable_effect(error, contexts), ""
