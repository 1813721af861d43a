"""t tests over contexts, where permutation tests lose their power: many ties, or few contexts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.stats.estimate import Estimate, Resampling
from biaslab.stats.intervals import ROUNDING, student


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
        The p-value, in (0, 1], not below 2^(1 - G) of a sign-flip test with as many contexts, so that contexts
        that hardly vary prove no more than so many contexts can; NaN for no context, or where a contribution is NaN.

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
        return math.nan
    if not values.any():
        return 1.0
    least = 2.0 ** (1 - contexts)
    if contexts == 1:
        return least
    error = float(values.std(ddof=1)) / math.sqrt(contexts)
    if error <= ROUNDING * float(np.abs(values).max()):
        return least
    return max(least, float(2 * stats.t.sf(abs(values.mean()) / error, contexts - 1)))


def judged_by_t(found: Estimate, resampling: Resampling, null: float = 0.0) -> Estimate:
    """Replace the sign-flip test of a difference of two statistics by the t test of its jackknife interval.

    With 8 contexts a sign-flip test has the levels 1/128, 2/128, … and finds less than is planned from t: .15 to .19 of
    studies instead of .22 to .25 for a difference of correlations.

    Parameters
    ----------
    found : Estimate
        Made by `biaslab.stats.jackknife.cluster_difference`, without bounds.
    resampling : Resampling
        As it was made; any interval but the studentised one is left as it is, and so is its test.
    null : float
        Value under the null hypothesis.

    Returns
    -------
    Estimate
        With p from t with G - 1 degrees of freedom, not below 2^(1 - G) of a sign-flip test.

    Examples
    --------
    >>> made = Estimate(0.5, 0.2, 0.1, 0.9, 0.0625, 0.6, 8, "jackknife t over contexts")
    >>> round(judged_by_t(made, Resampling()).p_value, 4)
    0.0212
    """
    half = (found.ci_high - found.ci_low) / 2
    if resampling.method != "studentised" or math.isnan(found.p_value) or not half > 0:
        return found
    freedom = found.n_contexts - 1
    error = half / float(stats.t.ppf((1 + resampling.level) / 2, freedom))
    p_value = 2 * float(stats.t.sf(abs(found.estimate - null) / error, freedom))
    return replace(found, p_value=max(2.0**-freedom, p_value), method=f"{found.method}; t test")


def difference_by_t(found: Estimate, influence: ArrayLike, resampling: Resampling) -> Estimate:
    """Replace test and studentised interval of a difference of two ratios by Student's t on its linearised error.

    Where few candidates stand in a context, many contexts say the same of both, and permutations and bootstraps lose
    their level as they do for `t_test`.

    Parameters
    ----------
    found : Estimate
        Made by `biaslab.stats.resampling.ratio_difference`.
    influence : array_like, shape (contexts,)
        What each context adds to the difference beyond its mean, to first order.
    resampling : Resampling
        As it was made; another interval than the studentised one is left as it is.

    Returns
    -------
    Estimate
        As it was found where fewer than two contexts enter or they do not vary. p is not below 2^(1 - G).

    Examples
    --------
    >>> made = Estimate(0.5, 0.2, 0.1, 0.9, 0.0625, 0.6, 4, "cluster bootstrap (studentised)")
    >>> by_t = difference_by_t(made, [0.1, -0.1, 0.1, -0.1], Resampling())
    >>> round(by_t.ci_low, 3), round(by_t.p_value, 3), by_t.method
    (-0.235, 0.125, 't over contexts; t test')
    """
    values = np.asarray(influence, float)
    contexts = len(values)
    if contexts < 2 or math.isnan(found.estimate):
        return found
    error = math.sqrt(contexts / (contexts - 1) * float(np.sum(values**2)))
    if error <= ROUNDING:
        return found
    p_value = max(2.0 ** (1 - contexts), float(2 * stats.t.sf(abs(found.estimate) / error, contexts - 1)))
    if resampling.method == "studentised":
        low, high = student(found.estimate, error, contexts, resampling.level)
        found = replace(found, ci_low=low, ci_high=high, method="t over contexts")
    return replace(found, p_value=p_value, method=f"{found.method}; t test")
