"""What a design can find: the smallest detectable effect of so many contexts, and the contexts that an effect needs."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.errors import InputError

Floats = NDArray[np.float64]
#: Two-sided sign-flip tests of fewer contexts cannot reach p < .05.
FEWEST = 6
_CERTAIN = 30.0  # standard errors beyond the critical value, where the noncentral t runs out of digits


def standard_error(numerators: ArrayLike, denominators: ArrayLike) -> float:
    """Linearised standard error of Σ numerators / Σ denominators over contexts; NaN for fewer than two.

    Examples
    --------
    >>> round(standard_error([1, 2, 3, 4], [1, 1, 1, 1]), 4)
    0.6455
    """
    num, den = np.asarray(numerators, float), np.asarray(denominators, float)
    contexts = len(num)
    if contexts < 2:
        return math.nan
    residuals = num - num.sum() / den.sum() * den
    return float(np.sqrt(contexts / (contexts - 1) * np.sum(residuals**2)) / den.sum())


def detectable_effect(error: float, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return (t_{1−α/2} + t_{power}) · error with G − 1 degrees of freedom.

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


def expected_power(effect: float, error: float, contexts: int, alpha: float = 0.05) -> float:
    """Return the power of a two-sided test against an effect, from the noncentral t with G - 1 degrees of freedom.

    Parameters
    ----------
    effect : float
        Distance from the null; its sign does not matter.
    error : float
        Standard error of the estimate with this many contexts, in the same unit, above 0.
    contexts : int
        Number of contexts G. Below 6 the power is 0: no sign-flip test reaches p < .05.
    alpha : float
        Level of the test.

    Returns
    -------
    float
        From 0 to 1; `alpha` where there is no effect.

    Raises
    ------
    InputError
        If the error is not above 0, alpha lies outside 0 to 1, or the effect is not finite.

    References
    ----------
    Cohen 1988, *Statistical Power Analysis for the Behavioral Sciences*, §2.3, §12.7.

    Examples
    --------
    A shift of half a standard deviation, 34 contexts:

    >>> round(expected_power(0.5, 1 / math.sqrt(34), 34), 3)
    0.808
    """
    if not 0 < alpha < 1:
        raise InputError("alpha", alpha, "a number between 0 and 1")
    if not 0 < error < math.inf:
        raise InputError("error", error, "a standard error above 0")
    if not math.isfinite(effect):
        raise InputError("effect", effect, "a finite number")
    if contexts < FEWEST:
        return 0.0
    freedom, shift = contexts - 1, abs(effect) / error
    critical = float(stats.t.ppf(1 - alpha / 2, freedom))
    if shift > critical + _CERTAIN:
        return 1.0
    opposite = float(stats.nct.cdf(-critical, freedom, shift))  # scipy gives NaN in places where it is below 1e-9
    return float(stats.nct.sf(critical, freedom, shift)) + (0.0 if math.isnan(opposite) else opposite)
