"""The t test that belongs to a jackknife interval."""

from __future__ import annotations

import math
from dataclasses import replace

from scipy import stats

from biaslab.stats.estimate import Estimate, Resampling


def judged_by_t(found: Estimate, resampling: Resampling, null: float = 0.0) -> Estimate:
    """Replace the sign-flip test of a difference of two statistics by the t test of its jackknife interval.

    With 8 contexts a sign-flip test has the levels 1/128, 2/128, … and finds less than is planned from t: .15 to .19 of
    studies instead of .22 to .25 for a difference of correlations.

    Parameters
    ----------
    found : Estimate
        Made by `biaslab.stats.cluster_statistic.cluster_difference`, without bounds.
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
    >>> made = Estimate(0.5, 0.1, 0.9, 0.0625, 0.6, 8, "jackknife t over contexts")
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
