"""Multiple testing: q-values of one or several families of tests, and critical p-values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_share
from biaslab.core.errors import InputError
from biaslab.stats.estimate import ALPHA


def adjust(p_values: ArrayLike) -> Floats:
    """Return the q-values of one family of tests; reject if at most the level.

    Controls the false discovery rate under independence and positive dependence (Benjamini & Hochberg 1995).

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1. NaN means no test: it stays NaN and does not count.

    Returns
    -------
    numpy.ndarray, shape (tests,)

    Raises
    ------
    InputError
        If a p-value is outside 0 to 1.

    Examples
    --------
    >>> adjust([0.01, 0.02, float("nan"), 0.04]).tolist()
    [0.03, 0.03, nan, 0.04]
    """
    p = np.asarray(p_values, float)
    known = ~np.isnan(p)
    tested = p[known]
    if ((tested < 0) | (tested > 1)).any():
        raise InputError("p_values", tested.tolist(), "numbers from 0 to 1, or NaN if missing")
    adjusted = np.full(p.shape, np.nan)
    if tested.size:
        adjusted[known] = stats.false_discovery_control(tested)
    return adjusted


def adjust_families(p_values: ArrayLike, family: ArrayLike) -> Floats:
    """Return the q-values of tests in families, such as the rows of one metric; reject if at most the level.

    A family is selected by its Simes p-value, corrected over the m families (Benjamini & Hochberg 1995); within each
    of the R selected families, tests are corrected at the level times R/m (Benjamini & Bogomolov 2014). A family is
    selected if and only if one of its tests is rejected. Under independence and positive dependence this controls the
    false discovery rate among selected families and, on average over these, among the tests within each.

    The q-value of a test is the smallest level at which it is rejected: the minimum over k of m/k times the larger of
    a and s(k), where a is the test's q-value within its own family, and s(k) the k-th smallest Simes p-value.

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1. NaN means no test: it stays NaN, and a family without tests does not count.
    family : array_like, shape (tests,)
        The family of each test, as numbers or text.

    Returns
    -------
    numpy.ndarray, shape (tests,)
        From 0 to 1. Equal to `adjust` if there is one family, or if every family has one test.

    Raises
    ------
    InputError
        If a p-value is outside 0 to 1, or the numbers of families and tests differ.

    References
    ----------
    Benjamini & Bogomolov 2014, *Selective inference on multiple families of hypotheses*, JRSS B 76(1), procedure 1;
    Simes 1986, Biometrika 73(3).

    Examples
    --------
    Only the first family is selected, at .05 · 1/2:

    >>> adjust_families([0.01, 0.04, 0.2, 0.9], ["a", "a", "b", "b"]).tolist()
    [0.04, 0.08, 0.4, 0.9]
    """
    p, of = np.asarray(p_values, float), np.asarray(family)
    if of.shape != p.shape:
        raise InputError("family", of.shape, f"one per test: {p.shape}")
    within, simes = np.full(p.shape, np.nan), []
    for name in dict.fromkeys(of[~np.isnan(p)].tolist()):
        within[of == name] = adjust(p[of == name])
        simes.append(np.nanmin(within[of == name]))
    return _hierarchical(within, np.sort(simes)) if simes else within


def _hierarchical(within: Floats, simes: Floats) -> Floats:
    """Return the smallest level at which each test is rejected, from q within its family and sorted Simes p."""
    share: NDArray[Any] = np.arange(1, len(simes) + 1) / len(simes)
    return (np.maximum(within[:, None], simes) / share).min(axis=1)  # type: ignore[no-any-return]


def critical_p(p_values: ArrayLike, family: ArrayLike, alpha: float = ALPHA) -> Floats:
    """Return the critical p-value of each test, given the other tests.

    Whether a test is rejected depends on its own p-value and on the others: `adjust_families` rejects it at alpha if
    and only if its p-value is at most this critical value. The power of the test after correction is thus its power at
    this level.

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1; NaN means no test.
    family : array_like, shape (tests,)
        The family of each test.
    alpha : float
        Level for the q-values, between 0 and 1.

    Returns
    -------
    numpy.ndarray, shape (tests,)
        From alpha / (families · tests in the family), if no other test is rejected, to alpha. NaN for no test.

    Raises
    ------
    InputError
        If a p-value or alpha is outside 0 to 1, or the numbers of families and tests differ.

    Notes
    -----
    With k of m families selected, a test in a family of n is rejected if its family's j smallest p-values are at most
    alpha · k/m · j/n. The critical value is given by the largest k and j that the other tests allow, counting this one
    as rejected.

    Examples
    --------
    >>> critical_p([0.01, 0.04, 0.2, 0.9], ["a", "a", "b", "b"]).tolist()
    [0.0125, 0.025, 0.025, 0.025]
    >>> critical_p([0.3], ["a"]).tolist()
    [0.05]
    """
    require_share("alpha", alpha)
    p, of = np.asarray(p_values, float), np.asarray(family)
    adjust_families(p, of)  # validates both
    tested = ~np.isnan(p)
    names = list(dict.fromkeys(of[tested].tolist()))
    simes = {name: float(adjust(p[tested & (of == name)]).min()) for name in names}
    critical = np.full(p.shape, np.nan)
    for place in np.flatnonzero(tested):
        in_family = tested & (of == of[place])
        in_family[place] = False
        level = _step_up([each for name, each in simes.items() if name != of[place]], alpha)
        critical[place] = _step_up(p[in_family], level)
    return critical


def _step_up(others: ArrayLike, alpha: float) -> float:
    """Return the critical p-value of one additional test among others (Benjamini & Hochberg)."""
    ordered = np.sort(np.asarray(others, float))
    tests = len(ordered) + 1
    steps = alpha * np.arange(1, tests + 1) / tests
    below = np.flatnonzero(ordered <= steps[1:])  # with the additional test, the i-th of the others has rank i + 1
    return float(steps[below[-1] + 1] if len(below) else steps[0])
