"""Student's t over contexts: interval, test, power and minimum detectable effect."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from biaslab.core.checks import require_share
from biaslab.core.errors import InputError
from biaslab.stats.estimate import ALPHA, FEWEST, Estimate, Note, is_rounding, settled

_POWER = 0.8


def student(value: float, error: float, contexts: float, level: float) -> tuple[float, float]:
    """Return the interval of Student's t with G - 1 degrees of freedom.

    Parameters
    ----------
    value, error : float
        The statistic for all contexts and its standard error.
    contexts : float
        Number of contexts G, or their effective number; above 1.
    level : float
        Confidence level, between 0 and 1.

    Examples
    --------
    >>> low, high = student(0.0, 1.0, 5, 0.95)
    >>> round(low, 3), round(high, 3)
    (-2.776, 2.776)
    """
    reach = float(special.stdtrit(contexts - 1, (1 + level) / 2)) * error
    return value - reach, value + reach


def p_by_t(distance: float, error: float, contexts: int, effective: float | None = None) -> float:
    """Return the two-sided p-value of Student's t with G - 1 degrees of freedom: the test of the interval `student`.

    Parameters
    ----------
    distance, error : float
        Distance of the statistic from its null, and its standard error, above 0.
    contexts : int
        Number of contexts G, at least 2.
    effective : float, optional
        Their effective number, above 1, which then gives the degrees of freedom.

    Returns
    -------
    float
        At least 2^(1 - G), like the p-value of a sign-flip test with the same number of contexts, so that contexts
        with very little variation are no stronger evidence than their number allows.

    Examples
    --------
    >>> round(p_by_t(0.5, 0.169, 8), 3), p_by_t(9.0, 0.1, 5)
    (0.021, 0.0625)
    """
    return max(2.0 ** (1 - contexts), 2 * float(special.stdtr((effective or contexts) - 1, -abs(distance) / error)))


def t_test(contributions: ArrayLike, widening: float = 1.0) -> float:
    """Two-sided one-sample t test that the mean of contributions, one per context, is 0.

    A sign-flip test conditions on the contexts that are not 0. If most are 0, as when few pairs flip, it is exact but
    far below its level: with 8 contexts of 3 pairs its type-I error is below .01 instead of .05. Using a t test
    instead is analogous to using the asymptotic McNemar test for pairs (Fagerland et al. 2013).

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        Each context's contribution to the statistic, centred at the null. Order does not matter.
    widening : float
        Factor for the variance, above 0.

    Returns
    -------
    float
        The p-value, in (0, 1], at least 2^(1 - G) (`p_by_t`); NaN without contexts, or if a contribution is NaN.

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
        raise InputError("widening", widening, "a number of at least 0", "1 leaves the variance unchanged")
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


def detectable_effect(error: float, contexts: int, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the minimum detectable effect of a design: (t_{1−α/2} + t_{power}) · error, G − 1 degrees of freedom.

    Parameters
    ----------
    error : float
        Standard error of the estimate with this number of contexts.
    contexts : int
        Number of contexts G.
    power, alpha : float
        Desired power, and two-sided level of the test.

    Returns
    -------
    float
        In the unit of the error; NaN for fewer than two contexts.

    Raises
    ------
    InputError
        If power or alpha is outside 0 to 1.

    Examples
    --------
    >>> round(detectable_effect(0.0656, 8), 3)
    0.214
    """
    for name, value in (("power", power), ("alpha", alpha)):
        require_share(name, value)
    return _detectable(error, contexts, power, alpha) if contexts > 1 else math.nan


def _detectable(error: float, contexts: float, power: float = _POWER, alpha: float = ALPHA) -> float:
    return float(np.sum(special.stdtrit(contexts - 1, [1 - alpha / 2, power]))) * error


def effect_and_notes(
    error: float,
    contexts: int,
    contributions: ArrayLike | None = None,
    by_signs: bool = False,
    effective: float | None = None,
) -> tuple[float, tuple[Note, ...]]:
    """Return the minimum detectable effect, or NaN, and notes.

    Parameters
    ----------
    error : float
        Standard error of the estimate.
    contexts : int
        Number of contexts G.
    contributions : array_like, shape (contexts,), optional
        Each context's contribution to the distance from the null. If fewer contexts contribute nearly all of it than a
        test needs, as for a judge that is rarely swayed, the standard error is too optimistic, and the effect comes
        from `rare_effect`, a model of rare differences.
    by_signs : bool
        Whether the test is a sign-flip test with mid-p rather than a t test.
    effective : float, optional
        As in `p_by_t`.
    """
    if contexts < FEWEST:
        return math.nan, (Note("few_contexts", {"fewest": FEWEST}),)
    known = _detectable(error, effective or contexts)
    if contributions is None or math.isnan(known):
        return known, ()
    least, needed = rare_effect(contributions, by_signs)
    if math.isnan(least) or least <= known:
        return known, ()
    return least, (Note("few_differ", {"needed": needed}),)


def rare_effect(contributions: ArrayLike, by_signs: bool = False) -> tuple[float, int]:
    """Return the effect detected with 80 % power if few contexts differ, all in the same direction.

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        Each context's contribution to the distance from the null; they sum to that distance.
    by_signs : bool
        Whether the test is a sign-flip test with mid-p rather than a t test.

    Returns
    -------
    tuple of float and int
        In the unit of the contributions' sum: the share of contexts that must differ so that enough of them do in 80 %
        of studies, times the size of a difference, Σ c² / Σ |c|; and how many differing contexts a test needs. NaN if
        that many, (Σ |c|)² / Σ c², differ already, so that the standard error is reliable.

    Examples
    --------
    Of 24 contexts one differs, by 1; four are needed, which 22 % of contexts are in 80 % of studies:

    >>> effect, needed = rare_effect([1 / 24] + [0.0] * 23)
    >>> round(effect, 3), needed
    (0.218, 4)
    """
    sizes = np.abs(np.asarray(contributions, float))
    contexts, total = len(sizes), float(sizes.sum())
    if is_rounding(total):
        return math.nan, 0
    needed = _fewest_alike(contexts, by_signs)
    if total**2 > (needed - 0.5) * float((sizes**2).sum()):
        return math.nan, needed
    share = float(special.betaincinv(needed, contexts - needed + 1, _POWER))
    return share * contexts * float((sizes**2).sum()) / total, needed


def rare_inflation(contexts: int, needed: int, level: float) -> float:
    """Return the factor by which `rare_effect` grows at a level below .05.

    At a lower level more contexts have to differ, and therefore a larger share, so that enough do in 80 % of studies.

    Parameters
    ----------
    contexts : int
        Number of contexts G.
    needed : int
        How many contexts have to differ at .05, as in the note of `effect_and_notes`; identifies the test.
    level : float
        Two-sided level of the test, between 0 and 1.

    Returns
    -------
    float
        NaN if no number of equally differing contexts reaches a p-value that low.

    Examples
    --------
    One of 14 metrics on a card, 24 contexts: eight instead of four have to differ.

    >>> round(rare_inflation(24, 4, 0.05 / 14), 2)
    1.82
    """
    require_share("level", level)
    by_signs = needed != _fewest_alike(contexts, False)
    one, other = (_share_of_rare(contexts, by_signs, alpha) for alpha in (ALPHA, level))
    return other / one


def _share_of_rare(contexts: int, by_signs: bool, alpha: float) -> float:
    """Return the share of contexts that must differ so that enough do in 80 % of studies; NaN with too few contexts."""
    needed = _fewest_alike(contexts, by_signs, alpha)
    return float(special.betaincinv(needed, contexts - needed + 1, _POWER)) if needed < contexts else math.nan


@cache
def _fewest_alike(contexts: int, by_signs: bool, alpha: float = ALPHA) -> int:
    """Return how many contexts must differ equally, with the others at 0, for a p-value below alpha."""
    for alike in range(1, contexts):
        p_value = 0.5**alike if by_signs else t_test([1.0] * alike + [0.0] * (contexts - alike))
        if p_value < alpha:
            return alike
    return contexts


def estimate_by_t(
    value: float,
    error: float,
    contexts: int,
    level: float,
    method: str,
    null: float | None = 0.0,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """Return a value with the interval `student`, clipped to bounds, and the consistent test `p_by_t`."""
    p_value = math.nan if null is None else p_by_t(value - null, error, contexts)
    low, high, p_value = settled(student(value, error, contexts, level), null, p_value, level)
    low, high = (float(np.clip(end, *bounds)) for end in (low, high))
    effect, notes = effect_and_notes(error, contexts)
    return Estimate(value, error, low, high, p_value, effect, contexts, method, () if null is None else notes)


def root_between(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-12) -> float:
    """Return where a function is 0, between two values at which its signs differ.

    In place of `scipy.optimize.brentq`, which takes a tenth of a second to import.

    Parameters
    ----------
    function : callable
        A continuous function.
    low, high : float
        The two values.
    tolerance : float
        The last step is at most this, relative to values above 1.

    References
    ----------
    Dowell & Jarratt 1971, *A modified regula falsi method for computing the root of an equation*, BIT 11 (Illinois).

    Examples
    --------
    >>> round(root_between(lambda x: x**2 - 2, 0.0, 2.0), 9)
    1.414213562
    """
    at_low, at_high, step = function(low), function(high), math.inf
    while at_high and abs(step) > tolerance * max(1.0, abs(high)):
        step = at_high * (low - high) / (at_high - at_low)
        at_next = function(high + step)
        low, at_low = (low, at_low / 2) if at_next * at_high > 0 else (high, at_high)
        high, at_high = high + step, at_next
    return high


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
