"""Interval and test for any statistic over contexts, for example a rank correlation or Krippendorff's alpha.

A statistic is a function of weights: how often each context is counted. All ones give the data, a row of draws a
bootstrap replicate, and a single 0 leaves a context out. A paired difference subtracts two statistics with the same
weights.

Leaving out each of G contexts takes a G × G matrix of weights. From `MANY` contexts on, statistics that are
functions of sums over contexts obtain these sums by subtraction, and for other statistics contexts are left out in
`GROUPS` random groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.core.arrays import Floats
from biaslab.core.checks import require_count
from biaslab.stats.estimate import (
    VALUES_ONLY,
    Estimate,
    Inference,
    is_rounding,
    settled,
    undefined,
    unvarying,
    without_interval,
)
from biaslab.stats.inference import Resampling, bca, draw_weights, percentile, random_groups
from biaslab.stats.permutation import evaluate, sign_flip
from biaslab.stats.t_inference import effect_or_why_not, p_by_t, student

#: Maps weights of shape (replicates, contexts) to values (replicates,), NaN if the statistic is undefined.
Statistic = Callable[[Floats], Floats]
Scale = Literal["fisher", "plain"]
MANY = 2_000
"""Number of contexts from which on groups of contexts are left out together."""

GROUPS = 200
"""Number of random groups of contexts to leave out, one at a time, if there are many contexts."""

_EDGE = 1e-9
_CHUNK = 1 << 20  # weights per chunk
_MISSING_SHARE = 0.05
_NOTHING_LEFT = 1e-12  # smaller remainders of a sum are rounding errors


def cluster_statistic(
    statistic: Statistic,
    contexts: int,
    resampling: Resampling,
    null: float | None = None,
    bounds: tuple[float, float] | None = None,
    missing: str = "undefined for these data",
    scale: Scale = "fisher",
    inference: Inference = "resampling",
) -> Estimate:
    """Estimate a statistic with an interval and a test over contexts.

    Parameters
    ----------
    statistic : callable
        Maps weights of shape (replicates, contexts), non-negative integers, to the statistic of each replicate, shape
        (replicates,).
    contexts : int
        Number of contexts.
    resampling : Resampling
        Resampling settings; the seed is also that of the random groups that are left out if there are many contexts
        and the statistic is not a function of sums (``method`` then says so). *percentile* and *bca* are bootstrap
        intervals. *studentised* uses the jackknife standard error and quantiles of t with G − 1 degrees of freedom;
        with bounds, on Fisher's z scale. With 8 contexts that covered .926 to .951 for Krippendorff's alpha and pooled
        rank correlations in the simulations used to choose it or similar ones, and less if alpha is near 1.
    null : float, optional
        Value under the null hypothesis; None for no test and no `mde`.
    bounds : tuple of float, optional
        Smallest and largest possible value.
    missing : str
        Note if the statistic is undefined.
    scale : {"fisher", "plain"}
        The scale on which *studentised* works if there are bounds.
    inference : {"resampling", "t"}
        "resampling": the test flips the signs of the jackknife's pseudo-values minus the null. "t": the studentised
        interval has the matching test, Student's t. With 8 contexts a sign-flip test has the levels 1/128, 2/128, …
        and less power than planned from t: .15 to .19 instead of .22 to .25 for a difference of correlations. In both
        cases interval and test are `settled`.

    Returns
    -------
    Estimate

    Raises
    ------
    InputError
        If the statistic does not return one value per replicate.

    References
    ----------
    Efron & Tibshirani 1993, *An Introduction to the Bootstrap*, ch. 11; Fisher 1921.

    Examples
    --------
    >>> values = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3, 0.4, 0.5])
    >>> estimate = cluster_statistic(lambda w: w @ values / w.sum(axis=1), 8, Resampling(), null=0.0)
    >>> round(estimate.estimate, 3), round(estimate.ci_low, 3), round(estimate.ci_high, 3), estimate.p_value
    (0.375, 0.235, 0.515, 0.0078125)
    """
    require_count("contexts", contexts, 0)
    if contexts == 0:
        return undefined(missing)
    value = float(evaluate(statistic, np.ones((1, contexts)))[0])
    if not np.isfinite(value):
        return undefined(missing, contexts)
    if contexts == 1:
        return without_interval(value, 1)
    if resampling.values_only:
        return without_interval(value, contexts, VALUES_ONLY)
    left_out, groups = _left_out(statistic, contexts, resampling.seed)
    units, unit = len(left_out), f"{groups} random groups of contexts" if groups else "contexts"
    if not np.isfinite(left_out).all():
        return without_interval(value, contexts, "no interval: whether there is a value depends on a single context")
    if is_rounding(np.ptp(left_out), np.abs(left_out).max()):
        p_value = math.nan if null is None else sign_flip(np.full(contexts, value - null), resampling.seed)
        return unvarying(value, contexts, resampling.level, bounds, p_value, null=null)
    on = _Scale.over(bounds if scale == "fisher" else None)
    pseudo = units * on.put(value) - (units - 1) * on.put(left_out)
    by_t = resampling.method == "studentised"
    if by_t:
        interval, note = student(float(on.put(value)), float(stats.sem(pseudo)), units, resampling.level), ""
        (low, high), method = map(on.back, interval), f"jackknife t over {unit}" + (", z scale" if on.fisher else "")
    else:
        (low, high), note = _bootstrapped(statistic, value, left_out, contexts, resampling)
        method = f"cluster bootstrap ({resampling.method})"
        method += f", acceleration over {unit}" if groups and resampling.method == "bca" else ""
    low, high = (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
    error = float(stats.sem(units * value - (units - 1) * left_out))
    if null is None:
        return Estimate(value, error, low, high, math.nan, math.nan, contexts, method, note)
    if by_t and inference == "t":
        distance = float(on.put(value) - on.put(null))
        p_value, method = p_by_t(distance, float(stats.sem(pseudo)), units), f"{method}; t test"
    else:
        p_value = sign_flip(pseudo - on.put(null), resampling.seed)
    low, high, p_value = settled((low, high), null, p_value, resampling.level)
    effect, why_not = effect_or_why_not(error, units)
    return Estimate(value, error, low, high, p_value, effect, contexts, method, note or why_not)


def over_clusters(statistic: Statistic, names: ArrayLike, resampling: Resampling) -> tuple[Statistic, int]:
    """Turn a statistic of contexts into one of their clusters; return it and the number of clusters.

    Parameters
    ----------
    statistic : callable
        A function of the weights of contexts.
    names : array_like, shape (contexts,)
        Names of the contexts, in the order of the weights.
    resampling : Resampling
        Its ``clusters`` say which contexts belong together.

    Examples
    --------
    >>> total, n = over_clusters(lambda w: w @ np.arange(3.0), list("abc"), Resampling(clusters={"b": "a"}))
    >>> n, total(np.array([[1.0, 0.0]])).tolist()
    (2, [1.0])
    """
    if not resampling.clusters:
        return statistic, len(np.asarray(names))
    codes, clusters = pd.factorize(resampling.cluster_of(names))
    return lambda weights: statistic(weights[:, codes]), len(clusters)


def cluster_difference(
    first: Statistic,
    second: Statistic,
    contexts: int,
    resampling: Resampling,
    null: float | None = 0.0,
    inference: Inference = "resampling",
) -> Estimate:
    """Estimate one statistic minus another on the same contexts, both with the same weights.

    Parameters
    ----------
    first, second : callable
        Statistics as in `cluster_statistic`, of the same contexts in the same order.
    contexts : int
        Number of contexts.
    resampling, null, inference
        As in `cluster_statistic`.

    Examples
    --------
    >>> one, two = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3]), np.array([0.1, 0.4, 0.2, 0.1, 0.4, 0.1])
    >>> estimate = cluster_difference(lambda w: w @ one / w.sum(1), lambda w: w @ two / w.sum(1), 6, Resampling())
    >>> round(estimate.estimate, 3), estimate.p_value
    (0.133, 0.0625)
    """
    require_count("contexts", contexts, 0)
    return cluster_statistic(lambda w: first(w) - second(w), contexts, resampling, null, inference=inference)


def _bootstrapped(
    statistic: Statistic, value: float, left_out: Floats, contexts: int, resampling: Resampling
) -> tuple[tuple[float, float], str]:
    """Return the percentile or BCa bootstrap interval, and a note."""
    weights = draw_weights(contexts, resampling.n, resampling.seed)
    replicates = np.concatenate([evaluate(statistic, chunk) for chunk in weights])
    replicates, note = replicates[np.isfinite(replicates)], ""
    if len(replicates) < (1 - _MISSING_SHARE) * resampling.n:
        note = f"undefined in {resampling.n - len(replicates)} of {resampling.n} resamples, which are left out"
    if resampling.method == "percentile":
        return percentile(replicates, resampling.level), note
    return bca(replicates, value, left_out, resampling.level), note


class _LeaveOneOut:
    """Leave-one-out weights without a matrix: their product with sums is a subtraction.

    Parameters
    ----------
    contexts : int
        Number of contexts.

    Examples
    --------
    >>> (_LeaveOneOut(3) @ np.array([1.0, 2.0, 4.0])).tolist()
    [6.0, 5.0, 3.0]
    """

    def __init__(self, contexts: int) -> None:
        self.contexts = contexts

    def __len__(self) -> int:
        return self.contexts

    def __matmul__(self, sums: Floats) -> Floats:
        """Return leave-one-out sums over contexts, with rounding errors around 0 set to 0."""
        rest: Floats = sums.sum(axis=0) - sums
        rest[np.abs(rest) <= _NOTHING_LEFT * np.abs(sums).sum(axis=0)] = 0.0
        return rest

    def __array__(self, *_args: object, **_kinds: object) -> Floats:
        raise TypeError("leave-one-out weights are known by their products with sums alone")

    def sum(self, axis: int) -> Floats:
        """Return the number of remaining contexts, for each one left out."""
        if axis != 1:
            raise TypeError("the sum of leave-one-out weights is that of each row")
        return np.full(self.contexts, self.contexts - 1.0)


def _left_out(statistic: Statistic, contexts: int, seed: int) -> tuple[Floats, int]:
    """Return the statistic leaving out each context or random group, and the number of groups (0 if none)."""
    if contexts < MANY:
        return _leave_one_out(statistic, contexts), 0
    try:
        return evaluate(statistic, _LeaveOneOut(contexts)), 0  # type: ignore[arg-type]
    except (TypeError, AttributeError, IndexError):
        return _leave_groups_out(statistic, contexts, seed), GROUPS


def _leave_groups_out(statistic: Statistic, contexts: int, seed: int) -> Floats:
    """Return the statistic leaving out random groups of nearly equal size, several groups at a time."""
    group = random_groups(contexts, GROUPS, seed)
    rows = max(1, _CHUNK // contexts)
    values = []
    for start in range(0, GROUPS, rows):
        left = np.arange(start, min(start + rows, GROUPS))
        values.append(evaluate(statistic, (group != left[:, None]).astype(float)))
    return np.concatenate(values)


def _leave_one_out(statistic: Statistic, contexts: int) -> Floats:
    """Return the statistic leaving out each context, one chunk of contexts at a time."""
    rows = max(1, _CHUNK // contexts)
    values = []
    for start in range(0, contexts, rows):
        left = np.arange(start, min(start + rows, contexts))
        weights = np.ones((len(left), contexts))
        weights[np.arange(len(left)), left] = 0
        values.append(evaluate(statistic, weights))
    return np.concatenate(values)


@dataclass(frozen=True)
class _Scale:
    """Fisher's z for bounded values, kept finite at the bounds; identity without bounds."""

    centre: float
    half: float
    fisher: bool

    @classmethod
    def over(cls, bounds: tuple[float, float] | None) -> _Scale:
        return cls(sum(bounds) / 2, (bounds[1] - bounds[0]) / 2, True) if bounds else cls(0.0, 1.0, False)

    def put(self, x: float | Floats) -> Floats:
        shifted = (np.asarray(x, float) - self.centre) / self.half
        return np.arctanh(np.clip(shifted, _EDGE - 1, 1 - _EDGE)) if self.fisher else shifted

    def back(self, z: float) -> float:
        return self.centre + self.half * (math.tanh(z) if self.fisher else z)
