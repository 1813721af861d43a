"""Bootstrap intervals from replicates: percentile, BCa and studentised, and what is left where nothing varies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
#: A standard error below this share of what it is the error of is rounding.
ROUNDING = 1e-12


def percentile(replicates: Floats, level: float) -> tuple[float, float]:
    """Return the quantiles of the replicates (Efron & Tibshirani 1993, §13.3).

    Parameters
    ----------
    replicates : numpy.ndarray, shape (replicates,)
        Finite values, at least one.
    level : float
        Confidence level, between 0 and 1.

    Examples
    --------
    >>> percentile(np.arange(5.0), 0.5)
    (1.0, 3.0)
    """
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bca(replicates: Floats, value: float, left_out: Floats, level: float) -> tuple[float, float]:
    """Return quantiles corrected for bias and acceleration (Efron & Tibshirani 1993, Eqs. 14.9-14.15).

    Parameters
    ----------
    replicates : numpy.ndarray, shape (replicates,)
        Finite values, at least one. Those that equal the value count half below it.
    value : float
        The statistic of all contexts.
    left_out : numpy.ndarray, shape (contexts,)
        The statistic without each context: the jackknife.
    level : float
        Confidence level, between 0 and 1.
    """
    rounding = ROUNDING * max(abs(value), float(np.ptp(replicates)))
    share = (np.mean(replicates < value - rounding) + np.mean(replicates <= value + rounding)) / 2
    bias = stats.norm.ppf(np.clip(share, 1 / len(replicates), 1 - 1 / len(replicates)))
    centred = left_out.mean() - left_out
    spread = np.sum(centred**2)
    acceleration = np.sum(centred**3) / (6 * spread**1.5) if spread > 0 else 0.0
    shifted = bias + stats.norm.ppf([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(replicates, stats.norm.cdf(bias + shifted / (1 - acceleration * shifted)))
    return float(low), float(high)


def studentised(value: float, error: float, replicates: Floats, errors: Floats, level: float) -> tuple[float, float]:
    """Return the bootstrap-t interval (Efron & Tibshirani 1993, §12.5).

    Parameters
    ----------
    value, error : float
        The statistic of all contexts and its standard error.
    replicates, errors : numpy.ndarray, shape (replicates,)
        Finite values, and the standard error of each. Replicates without spread are left out.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    tuple of float
        Both NaN where no replicate has spread.
    """
    usable = errors > 1e-6 * error  # what is left of a spread of 0 after rounding does not count
    if not usable.any():
        return float("nan"), float("nan")
    pivots = (replicates[usable] - value) / errors[usable]
    lower, upper = np.quantile(pivots, [(1 - level) / 2, (1 + level) / 2])
    return float(value - upper * error), float(value - lower * error)


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


def unvarying(
    value: float, contexts: int, level: float, bounds: tuple[float, float] | None
) -> tuple[float, float, str, str]:
    """Return interval, method and note where every context shows the same value, so that resampling has no width.

    With bounds the interval is Clopper and Pearson's, each context one trial: contexts that differ may be a share of up
    to 1 − (α/2)^(1/G) and yet none be seen, and they may lie at either bound. That is conservative. Without bounds
    nothing can be said, and the interval has no width.

    Examples
    --------
    >>> low, high, method, _ = unvarying(1.0, 8, 0.95, (0.0, 1.0))
    >>> round(low, 3), high, method
    (0.631, 1.0, 'clopper-pearson over contexts')
    """
    if bounds is None:
        return value, value, "none", "contexts do not vary: the interval has no width"
    unseen = 1 - ((1 - level) / 2) ** (1 / contexts)
    low, high = value - unseen * (value - bounds[0]), value + unseen * (bounds[1] - value)
    return low, high, "clopper-pearson over contexts", ""
