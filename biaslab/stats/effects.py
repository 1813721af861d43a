"""Effect sizes of two conditions on the same contexts: standardised difference, superiority, odds ratio."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.errors import InputError
from biaslab.stats.estimate import Estimate, Resampling
from biaslab.stats.frame import sum_by_context
from biaslab.stats.intervals import ROUNDING
from biaslab.stats.jackknife import cluster_statistic
from biaslab.stats.permutation import sign_flip
from biaslab.stats.resampling import cluster_ratio
from biaslab.stats.smooth import in_order, smooth_estimate

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Bools = NDArray[np.bool]
_ONE_CONDITION = "undefined: no context has both conditions"


def standardised_difference(
    context: ArrayLike, score: ArrayLike, treated: ArrayLike, resampling: Resampling
) -> Estimate:
    """Estimate the mean difference of two conditions in standard deviations of the contexts' means.

    (mean of the contexts' treated means − mean of their other means) / √(½ (s₁² + s₀²)), s² the variance of the means
    of contexts in one condition: Cohen's d for paired designs in units of the scores, not of their differences.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    score : array_like of float, shape (items,)
        NaN where there is none.
    treated : array_like of bool, shape (items,)
        The condition of each item. Contexts with only one of them do not enter.
    resampling : Resampling
        How to resample.

    Returns
    -------
    Estimate
        Without unit, above 0 where treated scores are higher; tested against 0. Divided by √(½ (s₁² + s₀²)) estimated
        from few contexts it is too far from 0 by about 3 / (4 G − 5) of itself; no correction is made.

    References
    ----------
    Lakens 2013, *Calculating and reporting effect sizes*, Frontiers in Psychology 4:863, Eq. 10.

    Examples
    --------
    >>> found = standardised_difference(list("aabbccddee"), [3, 1, 4, 1, 5, 3, 4, 2, 3, 2], [1, 0] * 5, Resampling())
    >>> round(found.estimate, 3)
    2.39
    """
    means = in_order(_condition_means(context, score, treated))
    moments = np.column_stack([np.ones(len(means)), means, means**2])

    def statistic(weights: Floats) -> Floats:
        n, first, second, squares, others = (weights @ moments).T
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = (squares - first**2 / n + others - second**2 / n) / (2 * (n - 1))
            d: Floats = (
                (first - second) / n / np.sqrt(np.where(spread > ROUNDING * (squares + others) / n, spread, np.nan))
            )
        return d

    missing = "undefined: contexts do not vary" if len(means) > 1 else "undefined: fewer than two contexts"
    missing = missing if len(means) else _ONE_CONDITION
    found = cluster_statistic(statistic, len(means), resampling, null=0.0, missing=missing)
    if math.isnan(found.p_value):
        return found
    return replace(found, p_value=sign_flip(means[:, 0] - means[:, 1], resampling.seed))


def superiority(context: ArrayLike, score: ArrayLike, treated: ArrayLike, resampling: Resampling) -> Estimate:
    """Estimate the probability that a treated item of a context scores higher than another of it, ties counting half.

    The common-language effect size, made within contexts and averaged over them; Cliff's δ is 2 × it − 1.

    Parameters
    ----------
    context, score, treated, resampling
        As for `standardised_difference`.

    Returns
    -------
    Estimate
        From 0 to 1, tested against ½ (no effect).

    References
    ----------
    Vargha & Delaney 2000, *A Critique and Improvement of the CL Common Language Effect Size Statistics*.

    Examples
    --------
    >>> found = superiority(list("aabbccddee"), [3, 1, 4, 1, 5, 3, 4, 2, 2, 2], [1, 0] * 5, Resampling())
    >>> found.estimate
    0.9
    """
    codes, scores, condition = _items(context, score, treated)
    shares = []
    for items in np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1]):
        one, other = scores[items][condition[items]], scores[items][~condition[items]]
        if len(one) and len(other):
            ranks = stats.rankdata(np.concatenate([one, other]))[: len(one)].sum()
            shares.append((ranks - len(one) * (len(one) + 1) / 2) / (len(one) * len(other)))
    found = cluster_ratio(shares, np.ones(len(shares)), resampling, 0.5, (0.0, 1.0))
    return found if found.n_contexts else replace(found, note=_ONE_CONDITION)


def cliffs_delta(context: ArrayLike, score: ArrayLike, treated: ArrayLike, resampling: Resampling) -> Estimate:
    """Estimate Cliff's δ: how much oftener a treated item of a context scores higher than lower than another of it.

    Parameters
    ----------
    context, score, treated, resampling
        As for `standardised_difference`.

    Returns
    -------
    Estimate
        From −1 to 1, tested against 0 (no effect): 2 × `superiority` − 1.

    References
    ----------
    Cliff 1993, *Dominance statistics*, Psychological Bulletin 114(3).

    Examples
    --------
    >>> found = cliffs_delta(list("aabbccddee"), [3, 1, 4, 1, 5, 3, 4, 2, 2, 2], [1, 0] * 5, Resampling())
    >>> found.estimate
    0.8
    """
    share = superiority(context, score, treated, resampling)
    value, low, high = (2 * end - 1 for end in (share.estimate, share.ci_low, share.ci_high))
    return replace(share, estimate=value, ci_low=low, ci_high=high, mde=2 * share.mde)


def odds_ratio(context: ArrayLike, success: ArrayLike, treated: ArrayLike, resampling: Resampling) -> Estimate:
    """Estimate the odds of success of treated items over those of others, within contexts (Mantel & Haenszel).

    Σ a d / n over Σ b c / n, where a context with n items has a treated successes, b treated failures, c other
    successes and d other failures. The interval is made for the logarithm, over contexts.

    Parameters
    ----------
    context, treated, resampling
        As for `standardised_difference`.
    success : array_like of float, shape (items,)
        1 or 0; NaN where there is none.

    Returns
    -------
    Estimate
        Above 0, tested against 1 (no effect); its `mde` is the smallest factor above 1. NaN, with a note, where one of
        the sums is 0: the odds ratio would be 0 or infinite.

    Raises
    ------
    InputError
        If a success is neither 0 nor 1.

    References
    ----------
    Mantel & Haenszel 1959, *Statistical aspects of the analysis of data from retrospective studies of disease*.

    Examples
    --------
    >>> found = odds_ratio([*"aaaabbbbcccc"], [1, 1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0], [1, 1, 0, 0] * 3, Resampling())
    >>> round(found.estimate, 3)
    2.0
    """
    codes, outcome, condition = _items(context, success, treated)
    if not np.isin(outcome, (0.0, 1.0)).all():
        raise InputError(
            "success", sorted(set(outcome.tolist()) - {0.0, 1.0})[:5], "0 or 1, and NaN where there is none"
        )
    won = outcome.astype(bool)
    cells = (won & condition, ~won & condition, won & ~condition, ~won & ~condition)
    a, b, c, d = (np.bincount(codes, cell) for cell in cells)
    n = np.maximum(np.bincount(codes), 1)
    both = (a + b > 0) & (c + d > 0)
    sums = in_order(np.column_stack([a * d / n, b * c / n])[both])
    found = smooth_estimate(sums, _log_ratio, resampling)
    if math.isnan(found.estimate):
        why = "undefined: the odds are 0 or infinite in one condition" if found.n_contexts else _ONE_CONDITION
        return replace(found, note=why)
    value, low, high, factor = np.exp([found.estimate, found.ci_low, found.ci_high, found.mde]).tolist()
    p_value = sign_flip(sums[:, 0] - sums[:, 1], resampling.seed) if len(sums) > 1 else math.nan
    return replace(found, estimate=value, ci_low=low, ci_high=high, mde=factor, p_value=p_value)


def _log_ratio(sums: Floats) -> tuple[Floats, Floats]:
    return np.log(sums[:, 0] / sums[:, 1]), np.stack([1 / sums[:, 0], -1 / sums[:, 1]], axis=1)


def _items(context: ArrayLike, score: ArrayLike, treated: ArrayLike) -> tuple[Codes, Floats, Bools]:
    """Return the number of the context, the score and the condition of each item that has a score."""
    codes = pd.factorize(np.asarray(context))[0]
    scores, conditions = np.asarray(score, float), np.asarray(treated)
    if scores.shape != codes.shape or conditions.shape != codes.shape:
        raise InputError("score and treated", [scores.shape, conditions.shape], f"shape {codes.shape}, of the contexts")
    if not np.isin(conditions, (0, 1)).all():
        raise InputError("treated", "something else", "true or false")
    known = ~np.isnan(scores) & (codes >= 0)
    return codes[known], scores[known], conditions[known].astype(bool)


def _condition_means(context: ArrayLike, score: ArrayLike, treated: ArrayLike) -> Floats:
    """Return the mean of the treated and of the other items of each context that has both; shape (contexts, 2)."""
    codes, scores, condition = _items(context, score, treated)
    sums, _ = sum_by_context(codes, scores * condition, condition, scores * ~condition, ~condition)
    sums = sums[(sums[:, [1, 3]] > 0).all(axis=1)]
    return sums[:, [0, 2]] / sums[:, [1, 3]]
