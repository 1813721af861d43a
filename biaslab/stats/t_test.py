"""A t test over contexts, for contributions with so many ties that permutation tests lose their power."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.stats.intervals import ROUNDING


def t_test(contributions: ArrayLike) -> float:
    """Two-sided one-sample t test that contributions, one a context, are 0 on average.

    A sign-flip test conditions on the contexts that are not 0. Where most are, as in pairs of which few flip, it is
    exact and far below its level: with 8 contexts of 3 pairs it accuses
    fewer than 1 fair judge in 100, not 5. The t test is the
    same choice as the asymptotic McNemar test for pairs (Fagerland et al. 2013).

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
