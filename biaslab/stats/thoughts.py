"""Variance of verdicts between and within thoughts, and what exact distributions given each thought save."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from biaslab.core.errors import InputError
from biaslab.stats.estimate import Estimate
from biaslab.stats.inference import Resampling
from biaslab.stats.ratio import Ratio


class ThoughtVariance(NamedTuple):
    """Variance of one sampled verdict per item, between and within thoughts: means over items.

    Attributes
    ----------
    between : float
        Variance of the expected verdict given a thought; averaging k thoughts divides it by k.
    within : float
        Variance of the verdict given its thought; exact distributions eliminate it.
    factor : Estimate
        (between + within) / between, at least 1: the number of sampled texts that give an interval as narrow as one
        thought with its exact distribution. Infinite if all thoughts about an item agree.
    """

    between: float
    within: float
    factor: Estimate


def thought_variance(
    logprobs: ArrayLike,
    values: Sequence[float] | None = None,
    context: Sequence[object] | None = None,
    resampling: Resampling | None = None,
) -> ThoughtVariance:
    """Split the variance of a sampled verdict between and within thoughts, by the law of total variance.

    The mean of k exact distributions is the Rao–Blackwellised version of the share among k sampled texts, because a
    text is a thought and an answer drawn given that thought.

    Parameters
    ----------
    logprobs : array_like, shape (items, thoughts, labels)
        Natural logarithms of the label probabilities given each thought; they need not be normalised.
    values : sequence of float, shape (labels,), optional
        The value of each label, for example its score; by default 1 for the first and 0 for all others.
    context : sequence, shape (items,), optional
        Context of each item, the unit of the factor's interval; by default each item is its own context.
    resampling : Resampling, optional
        Settings of the interval.

    Returns
    -------
    ThoughtVariance
        Both components, in squared units of the values, and the factor with its interval.

    Raises
    ------
    InputError
        If there are fewer than two thoughts per item, a thought gives no label any probability, or the numbers of
        values and labels differ.

    Notes
    -----
    Given a thought, the expected verdict and its variance are exact; so the variance of the former over k thoughts
    (divisor k − 1) and the mean of the latter are unbiased.

    References
    ----------
    Casella and Robert 1996, *Rao-Blackwellisation of Sampling Schemes*.

    Examples
    --------
    >>> sure, torn = np.log([[0.9, 0.1]] * 4), np.log([[0.4, 0.6], [0.6, 0.4], [0.5, 0.5], [0.5, 0.5]])
    >>> split = thought_variance([sure, torn])
    >>> round(split.between, 4), round(split.within, 4), round(split.factor.estimate, 1)
    (0.0033, 0.1675, 51.3)
    """
    levels = np.asarray(logprobs, float)
    if levels.ndim != 3 or levels.shape[1] < 2 or not levels.size:
        raise InputError("logprobs", levels.shape, "the shape (items, thoughts, labels), with at least two thoughts")
    top = levels.max(axis=2, keepdims=True)
    if not np.isfinite(top).all():
        raise InputError("logprobs", "a thought without any probability", "thoughts with a label that has probability")
    worth = np.eye(levels.shape[2])[0] if values is None else np.asarray(values, float)
    if worth.shape != levels.shape[2:]:
        raise InputError("values", values, f"one number for each of {levels.shape[2]} labels")
    p = np.exp(levels - top)
    p /= p.sum(axis=2, keepdims=True)
    means = p @ worth
    within = ((p @ worth**2) - means**2).clip(min=0).mean(axis=1)
    between = means.var(axis=1, ddof=1)
    names = [str(number) for number in range(len(levels))] if context is None else list(map(str, context))
    share = Ratio(names, between, within + between, bounds=(0, 1), missing="undefined: no verdict varies")
    factor = _inverse(share.estimate(resampling or Resampling()))
    return ThoughtVariance(float(between.mean()), float(within.mean()), factor)


def _inverse(share: Estimate) -> Estimate:
    """Return the inverse of a share, with the interval inverted and the error by the delta method."""
    if math.isnan(share.estimate):
        return share
    value, low, high = (
        math.inf if end <= 0 else 1 / min(end, 1.0) if end == end else math.nan
        for end in (share.estimate, share.ci_high, share.ci_low)
    )
    return replace(share, estimate=value, se=share.se * value**2, ci_low=low, ci_high=high, mde=math.nan)
