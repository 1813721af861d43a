"""Handle error in human scores of known or unknown reliability."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from biaslab.stats import LEAST_RELIABILITY, Corrected, Estimate

_ASSUMED = (0.85, 0.7, 0.55, 0.4, LEAST_RELIABILITY)  # reliabilities; estimates change monotonically with reliability


def has_several_ratings(items: pd.DataFrame) -> bool:
    """Return whether items have ratings of several annotators, so that the error in human scores is known."""
    return "ratings" in items and bool(items["ratings"].fillna("").str.contains(" ", regex=False).any())


def without_ratings(items: pd.DataFrame) -> pd.DataFrame:
    """Return items with only their mean human score."""
    return items.drop(columns=["ratings", "annotators"], errors="ignore")


def over_reliabilities(estimate: Estimate, at: Corrected) -> Estimate:
    """Return an estimate with interval and test valid for every reliability of human scores from .3 to 1.

    Parameters
    ----------
    estimate : Estimate
        Estimate without correction.
    at : Corrected
        Function that returns the estimate at a given share of error.
    """
    each = [estimate, *(at(1 - reliability) for reliability in _ASSUMED)]
    intervals = [(one.ci_low, one.ci_high) for one in each]
    if np.isnan(intervals).any():
        why_not = "no test: the reliability of human scores is unknown, and no conclusion holds for all reliabilities"
        return noted(without_test(estimate), why_not)
    return replace(
        estimate,
        ci_low=min(low for low, _ in intervals),
        ci_high=max(high for _, high in intervals),
        p_value=max(one.p_value for one in each),
        mde=max(one.mde for one in each),
        method=f"{estimate.method}; valid for reliabilities of human scores from {LEAST_RELIABILITY} to 1",
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
    """Append a note to an estimate."""
    return replace(estimate, note="; ".join(filter(None, (estimate.note, note))))
