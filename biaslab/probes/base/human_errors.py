"""Errors in human scores: the reliability that is known, and the note where none is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from biaslab.stats import LEAST_RELIABILITY, Corrected, Estimate

_ASSUMED = (0.85, 0.7, 0.55, 0.4, LEAST_RELIABILITY)  # reliabilities; estimates go one way as it falls


def has_several_ratings(items: pd.DataFrame) -> bool:
    """Return whether some item has ratings of several annotators, so that the error in human scores is known."""
    return "ratings" in items and bool(items["ratings"].fillna("").str.contains(" ", regex=False).any())


def without_ratings(items: pd.DataFrame) -> pd.DataFrame:
    """Return items of which only the mean human score is known."""
    return items.drop(columns=["ratings", "annotators"], errors="ignore")


def over_reliabilities(estimate: Estimate, at: Corrected) -> Estimate:
    """Return an estimate with the interval and the test that hold whatever the reliability of human scores, .3 to 1.

    Parameters
    ----------
    estimate : Estimate
        That takes human scores as they are.
    at : Corrected
        The estimate at a share of their variance that is error.
    """
    each = [estimate, *(at(1 - reliability) for reliability in _ASSUMED)]
    ends = [(one.ci_low, one.ci_high) for one in each]
    if np.isnan(ends).any():
        why_not = "no test: how reliable human scores are is not known, and nothing can be said of every reliability"
        return noted(without_test(estimate), why_not)
    return replace(
        estimate,
        ci_low=min(low for low, _ in ends),
        ci_high=max(high for _, high in ends),
        p_value=max(one.p_value for one in each),
        mde=max(one.mde for one in each),
        method=f"{estimate.method}; at every reliability of human scores from {LEAST_RELIABILITY} to 1",
    )


def without_test(estimate: Estimate) -> Estimate:
    """Return an estimate without interval, bounds and test."""
    return replace(
        estimate,
        ci_low=math.nan,
        ci_high=math.nan,
        p_value=math.nan,
        mde=math.nan,
        bound_low=math.nan,
        bound_high=math.nan,
    )


def noted(estimate: Estimate, note: str) -> Estimate:
    """Append to the note of an estimate."""
    return replace(estimate, note="; ".join(filter(None, (estimate.note, note))))
