"""Correct p-values for how many there are."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.checks import require_one_of
from biaslab.errors import InputError

Correction = Literal["benjamini-hochberg", "holm"]
Floats = NDArray[np.float64]


def adjust(p_values: ArrayLike, correction: Correction = "benjamini-hochberg") -> Floats:
    """Return adjusted p-values of one family; reject where they are at most the level.

    Parameters
    ----------
    p_values : array_like, shape (tests,)
        From 0 to 1. NaN is no test: it stays NaN and does not count.
    correction : {"benjamini-hochberg", "holm"}
        Keep the expected share of false discoveries (Benjamini & Hochberg 1995, valid under independence and positive
        dependence), or the probability of a single one (Holm 1979, always valid).

    Returns
    -------
    numpy.ndarray, shape (tests,)

    Raises
    ------
    InputError
        If a p-value lies outside 0 to 1, or the correction is unknown.

    Examples
    --------
    >>> adjust([0.01, 0.02, float("nan"), 0.04]).tolist()
    [0.03, 0.03, nan, 0.04]
    >>> adjust([0.01, 0.02, float("nan"), 0.04], "holm").tolist()
    [0.03, 0.04, nan, 0.04]
    """
    require_one_of("correction", correction, get_args(Correction))
    given = np.asarray(p_values, float)
    known = ~np.isnan(given)
    family = given[known]
    if ((family < 0) | (family > 1)).any():
        raise InputError("p_values", family.tolist(), "numbers from 0 to 1, and NaN where there is none")
    adjusted = np.full(given.shape, np.nan)
    if family.size:
        adjusted[known] = stats.false_discovery_control(family) if correction != "holm" else _holm(family)
    return adjusted


def _holm(family: Floats) -> Floats:
    from statsmodels.stats.multitest import multipletests

    adjusted: Floats = multipletests(family, method="holm")[1]
    return adjusted
