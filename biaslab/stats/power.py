"""Power of tests over contexts."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import special

from biaslab.core.checks import require_share
from biaslab.core.errors import InputError
from biaslab.stats.estimate import ALPHA, FEWEST
from biaslab.stats.t_inference import root_between

#: Assumed kurtosis of context contributions, for the sampling variance of a pilot's variance: heavier tails than the
#: normal's 3.
KURTOSIS = 4.0
_NODES = 64  # quadrature nodes for the distribution of a pilot's variance
_CERTAIN = 30.0  # standard errors beyond the critical value at which the noncentral t loses precision


def expected_power(effect: float, error: float, contexts: int, alpha: float = 0.05) -> float:
    """Return the power of a two-sided test for an effect, from the noncentral t with G - 1 degrees of freedom.

    Parameters
    ----------
    effect : float
        Distance from the null; the sign does not matter.
    error : float
        Standard error of the estimate with this number of contexts, in the same unit, above 0.
    contexts : int
        Number of contexts G. Below 6 the power is 0: no sign-flip test reaches p < .05.
    alpha : float
        Significance level of the test.

    Returns
    -------
    float
        From 0 to 1; equal to `alpha` without an effect.

    Raises
    ------
    InputError
        If the error is not positive, alpha is outside 0 to 1, or the effect is not finite.

    References
    ----------
    Cohen 1988, *Statistical Power Analysis for the Behavioral Sciences*, §2.3, §12.7.

    Examples
    --------
    A shift of half a standard deviation, 34 contexts:

    >>> round(expected_power(0.5, 1 / math.sqrt(34), 34), 3)
    0.808
    """
    require_share("alpha", alpha)
    if not 0 < error < math.inf:
        raise InputError("error", error, "a standard error above 0")
    if not math.isfinite(effect):
        raise InputError("effect", effect, "a finite number")
    if contexts < FEWEST:
        return 0.0
    freedom, shift = contexts - 1, abs(effect) / error
    critical = float(special.stdtrit(freedom, 1 - alpha / 2))
    if shift > critical + _CERTAIN:
        return 1.0
    opposite = float(special.nctdtr(freedom, shift, -critical))  # scipy sometimes returns NaN for values below 1e-9
    return 1 - float(special.nctdtr(freedom, shift, critical)) + (0.0 if math.isnan(opposite) else opposite)


def inflation(contexts: int, level: float, power: float = 0.8) -> float:
    """Return the factor by which the minimum detectable effect grows at a level below .05.

    For a test among others, whose level is what the correction for multiple testing leaves it (`critical_p`).

    Parameters
    ----------
    contexts : int
        Number of contexts G.
    level : float
        Two-sided level of the test, between 0 and 1.
    power : float
        Desired power, between 0 and 1.

    Returns
    -------
    float
        1 at .05; from the noncentral t with G - 1 degrees of freedom. NaN if G contexts cannot reach a p-value that
        low, because it is at least 2^(1 - G) (`biaslab.stats.p_by_t`).

    Raises
    ------
    InputError
        If level or power is outside 0 to 1.

    Examples
    --------
    One of 14 metrics on a card, 24 contexts; and 8 contexts, whose p-values are never below .0078:

    >>> round(inflation(24, 0.05 / 14), 3), inflation(8, 0.05 / 14)
    (1.416, nan)
    """
    require_share("level", level)
    require_share("power", power)
    if contexts < FEWEST or 2.0 ** (1 - contexts) > level:
        return math.nan
    return _shift(contexts, level, power) / _shift(contexts, ALPHA, power)


@cache
def _shift(contexts: int, level: float, power: float) -> float:
    """Return the effect, in standard errors, at which a test has this power."""
    most = float(special.stdtrit(contexts - 1, 1 - level / 2)) + _CERTAIN
    return root_between(lambda effect: expected_power(effect, 1.0, contexts, level) - power, 0.0, most)


def assured_power(effect: float, error: float, contexts: int, alpha: float = 0.05, known_from: int = 0) -> float:
    """Return the power for an effect, averaged over the uncertainty of a pilot's standard error (assurance).

    Parameters
    ----------
    effect, error, contexts, alpha
        As in `expected_power`; the error is the pilot's, scaled to this number of contexts.
    known_from : int
        Number of contexts in the pilot, at least 2, or 0 if the error is an assumption.

    Returns
    -------
    float
        From 0 to 1. The variance of a pilot with H contexts is distributed around the true one as χ² with 2 (H - 1) /
        (κ - 1) degrees of freedom, where κ is the kurtosis of the context contributions; 4 is assumed, because a small
        pilot cannot estimate it.

    References
    ----------
    O'Hagan, Stevens & Campbell 2005, *Assurance in clinical trial design*, Pharmaceutical Statistics 4.

    Examples
    --------
    >>> round(assured_power(0.5, 0.17, 34), 3), round(assured_power(0.5, 0.17, 34, known_from=8), 3)
    (0.815, 0.705)
    """
    alone = expected_power(effect, error, contexts, alpha)
    if known_from < 2 or contexts < FEWEST:
        return alone
    freedom = 2 * (known_from - 1) / (KURTOSIS - 1)
    shares = np.sqrt(special.chdtri(freedom, 1 - (np.arange(_NODES) + 0.5) / _NODES) / freedom)
    critical = float(special.stdtrit(contexts - 1, 1 - alpha / 2))
    shifts = np.minimum(abs(effect) / error * shares, critical + _CERTAIN)
    return float(np.mean(1 - special.nctdtr(contexts - 1, shifts, critical)))


@cache
def assured_shift(contexts: int, power: float = 0.8, alpha: float = 0.05, known_from: int = 0) -> float:
    """Return the effect, in standard errors of a pilot, at which a study has this power on average.

    Parameters
    ----------
    contexts, power, alpha, known_from
        As in `assured_power`.

    Returns
    -------
    float
        Larger than that of `biaslab.stats.detectable_effect`, the more so the smaller the pilot.
    """
    most = float(special.stdtrit(contexts - 1, 1 - alpha / 2)) + _CERTAIN
    while assured_power(most, 1.0, contexts, alpha, known_from) < power:
        most *= 2
    return root_between(lambda e: assured_power(e, 1.0, contexts, alpha, known_from) - power, 0.0, most, 1e-4)
