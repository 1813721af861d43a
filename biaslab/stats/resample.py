"""Resample contexts: bootstrap, jackknife, leave-one-out sums and permutation tests.

Judgements of the same context are dependent, so contexts are resampled, never judgements. A bootstrap is a single
product of a weight matrix with each context's sums, and the gradient of the function gives the standard error of every
replicate.

A statistic is a function of weights: how often each context is counted. All ones give the data, a row of draws a
bootstrap replicate, and a single 0 leaves a context out. A paired difference subtracts two statistics with the same
weights.

Leaving out each of G contexts takes a G × G matrix of weights. From `MANY` contexts on, statistics that are
functions of sums over contexts obtain these sums by subtraction, and for other statistics contexts are left out in
`JACKKNIFE_GROUPS` random groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_count, require_share
from biaslab.core.errors import InputError
from biaslab.stats.estimate import (
    ROUNDING,
    VALUES_ONLY,
    Estimate,
    Inference,
    Note,
    Remark,
    is_rounding,
    settled,
    undefined,
    unvarying,
    without_interval,
)
from biaslab.stats.sequential import Stopping
from biaslab.stats.t_inference import effect_and_notes, p_by_t, student

#: What has equal weight in a ratio over contexts: each item, or each context whatever its size.
Weighting = Literal["items", "contexts"]
#: Maps sums of shape (replicates, columns) to values (replicates,) and their gradients (replicates, columns).
Smooth = Callable[[Floats], tuple[Floats, Floats]]
#: Weights per chunk: half a megabyte stays in cache, and its memory is reused.
_CHUNK = 1 << 16
GROUPS = 8_192
"""Number of random groups into which contexts are put if there are at least twice as many."""


_UNDEFINED = Note("undefined", words="undefined for these data")


@dataclass(frozen=True)
class Resampling:
    """Settings for resampling contexts: replicates, confidence level, method, seed and weights.

    Parameters
    ----------
    n : int
        Bootstrap replicates (B).
    level : float
        Confidence level, between 0 and 1.
    method : {"studentised", "percentile", "bca"}
        Kind of bootstrap interval (Efron & Tibshirani 1993, §12.5, §13.3, §14.3). Studentised is the default because
        it keeps its coverage with few contexts; the percentile interval covers about .88 with 8 contexts and .93 with
        24.
    seed : int
        Random seed of the bootstrap and the test.
    weights : {"items", "contexts"}
        The estimand of rates, shares, means and their differences. "items": the expectation for a judgement drawn from
        all judgements, so that large contexts have more weight: Σ numerators / Σ denominators. "contexts": for a
        judgement drawn from a randomly drawn context: the mean of the contexts' own ratios. They differ if the size of
        a context is related to what is measured ("informative cluster size", Hoffman, Sen & Weinberg 2001,
        *Within-cluster resampling*, Biometrika 88(4)). Correlations within contexts weight contexts equally in either
        case; statistics pooled over all items (slopes, Krippendorff's alpha, pooled and system-level correlations,
        scale use) weight items.
    clusters : mapping, optional
        The cluster of each context that is not independent of others, by name; every other context is its own cluster.
        Probes cluster contexts that share requests (`biaslab.stats.blocks.shared_requests`). Clusters do not change an
        estimate, only its uncertainty: they are the units that are resampled, left out and tested.
    values_only : bool
        Compute rates, means and jackknifed statistics without interval, test and bounds, for studies that are
        estimated many times, for example leaving out each context.
    leave_one_out : bool
        Give estimates their values without each context (`biaslab.stats.Estimate`). Statistics with a jackknife error
        have them anyway.
    stopping : Stopping, optional
        How the study was stopped, if that depended on results: intervals and tests are then those of a confidence
        sequence or of planned looks (`biaslab.stats.sequential`). Set by probes, from the column ``until`` of trials.

    Raises
    ------
    InputError
        If a value is out of range.

    Notes
    -----
    From 16,384 contexts on, bootstraps, sign flips and the leave-one-out errors of logistic and linear regressions work
    on 8,192 random groups of contexts, whose sums vary as those of contexts do (`in_groups`).

    Examples
    --------
    >>> Resampling(clusters={"b": "a"}).cluster_of(["a", "b", "c"]).tolist()
    ['a', 'a', 'c']
    """

    n: int = 2000
    level: float = 0.95
    method: Literal["studentised", "percentile", "bca"] = "studentised"
    seed: int = 0
    weights: Weighting = field(default="items", kw_only=True)
    clusters: Mapping[Any, Any] | None = field(default=None, kw_only=True, repr=False, hash=False)
    values_only: bool = field(default=False, kw_only=True, repr=False)
    leave_one_out: bool = field(default=False, kw_only=True, repr=False)
    stopping: Stopping | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.n, Integral) or self.n < 100:
            raise InputError("resampling.n", self.n, "at least 100 bootstrap replicates")
        require_share("resampling.level", self.level, "use 0.95 for 95 %")
        if self.method not in ("studentised", "percentile", "bca"):
            raise InputError("resampling.method", self.method, "studentised, percentile or bca")
        if self.weights not in get_args(Weighting):
            raise InputError("resampling.weights", self.weights, "items or contexts")

    def cluster_of(self, context: ArrayLike) -> Any:
        """Return the cluster of each context, by default the context itself."""
        if not self.clusters:
            return context
        codes, names = pd.factorize(pd.Index(np.asarray(context, object)))
        return np.array([*(self.clusters.get(name, name) for name in names), None], object)[codes]

    def numbered(self, names: ArrayLike) -> Resampling:
        """Return the cluster of each context, for contexts given by index into a list of names."""
        return (
            replace(self, clusters=dict(enumerate(pd.factorize(self.cluster_of(names))[0]))) if self.clusters else self
        )


def draw_weights(contexts: int, n: int, seed: int, most: int = _CHUNK) -> Iterator[Floats]:
    """Yield the counts of each context in n resamples, in chunks of at most `most` weights.

    Returns
    -------
    iterator of numpy.ndarray, shape (replicates, contexts)
        Each row sums to the number of contexts.

    Examples
    --------
    >>> [chunk.sum(axis=1).tolist() for chunk in draw_weights(4, 3, seed=0)]
    [[4.0, 4.0, 4.0]]
    """
    rng, rows = np.random.default_rng(seed), max(1, most // contexts)
    for start in range(0, n, rows):
        size = min(rows, n - start)
        drawn = rng.integers(0, contexts, size=(size, contexts))
        drawn += np.arange(0, size * contexts, contexts)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * contexts).reshape(size, contexts).astype(float)


def in_order(sums: Floats) -> Floats:
    """Sort contexts by content, so that the resamples for a seed do not depend on names or order."""
    scale = np.abs(sums).max(axis=0, initial=0.0)
    keys = np.round(sums / np.where(scale > 0, scale, 1.0), 12)
    return sums[np.lexsort(keys.T)]


def random_groups(contexts: int, groups: int, seed: int) -> Codes:
    """Return the group of each context, at random; groups differ in size by one context at most.

    Returns
    -------
    numpy.ndarray of int, shape (contexts,)
        Numbers from 0 to groups − 1.

    Examples
    --------
    >>> sorted(random_groups(5, 2, seed=0).tolist())
    [0, 0, 0, 1, 1]
    """
    return np.random.default_rng(seed).permutation(contexts) % groups


def in_groups(sums: Floats, seed: int) -> Floats:
    """Add up the sums of `GROUPS` random groups of contexts if there are at least twice as many contexts.

    Groups are as independent as contexts, so they can be resampled or flipped in their place. Their standard error
    varies by 1 / √(2 × 8,192) = .8 % around that of contexts, less than the 1.6 % of 2,000 replicates.

    Parameters
    ----------
    sums : numpy.ndarray, shape (contexts,) or (contexts, columns)
        Each context's contribution.
    seed : int
        Random seed of the groups.

    Returns
    -------
    numpy.ndarray, shape (contexts or `GROUPS`, …)

    Examples
    --------
    >>> in_groups(np.ones(3), seed=0).tolist(), len(in_groups(np.ones((100_000, 2)), seed=0))
    ([1.0, 1.0, 1.0], 8192)
    """
    if len(sums) < 2 * GROUPS:
        return sums
    group = random_groups(len(sums), GROUPS, seed)
    columns = [np.bincount(group, column, GROUPS) for column in np.atleast_2d(sums.T)]
    return np.column_stack(columns).astype(float).reshape(GROUPS, *sums.shape[1:])


def grouped_codes(codes: Codes, seed: int = 0) -> Codes:
    """Replace each row's context by its random group if there are at least twice as many contexts as `GROUPS`.

    Parameters
    ----------
    codes : numpy.ndarray of int, shape (rows,)
        Number of each row's context, from 0.
    seed : int
        Random seed of the groups.

    Examples
    --------
    >>> grouped_codes(np.array([0, 1, 1])).tolist(), int(grouped_codes(np.arange(100_000)).max())
    ([0, 1, 1], 8191)
    """
    contexts = int(codes.max(initial=-1)) + 1
    return codes if contexts < 2 * GROUPS else random_groups(contexts, GROUPS, seed)[codes]


def bootstrap_smooth(sums: Floats, function: Smooth, n: int, seed: int) -> tuple[Floats, Floats]:
    """Resample contexts with replacement and recompute a smooth function of their sums.

    Returns
    -------
    tuple of numpy.ndarray, each of shape (n,)
        The replicates, and their linearised standard errors.
    """
    contexts, k = sums.shape
    rows, columns = np.triu_indices(k)
    products = np.column_stack([sums, sums[:, rows] * sums[:, columns]])
    twice = np.where(rows == columns, 1.0, 2.0)
    values, errors = [], []
    for weights in draw_weights(contexts, n, seed):
        moments = weights @ products
        with np.errstate(divide="ignore", invalid="ignore"):
            replicates, gradient = function(moments[:, :k])
            spread = np.sum(moments[:, k:] * (gradient[:, rows] * gradient[:, columns] * twice), axis=1)
        values.append(replicates)
        errors.append(np.sqrt(np.maximum(spread, 0.0) * contexts / (contexts - 1)))
    return np.concatenate(values), np.concatenate(errors)


def bootstrap_interval(
    sums: Floats, function: Smooth, value: float, error: float, resampling: Resampling
) -> tuple[float, float]:
    """Return the bootstrap interval of a smooth function of sums over contexts; their order does not matter.

    Many contexts are resampled in random groups (`in_groups`).

    Parameters
    ----------
    sums : numpy.ndarray, shape (contexts, columns)
        Each context's contribution.
    function : callable
        Maps sums of shape (replicates, columns) to values (replicates,) and their gradients (replicates, columns). The
        gradient gives the linearised standard error of every replicate, so the studentised interval needs no second
        level of resampling.
    value, error : float
        The function of the sums over all contexts, and its linearised standard error.
    resampling : Resampling
        Resampling settings.
    """
    sums = in_groups(in_order(sums), resampling.seed)
    replicates, errors = bootstrap_smooth(sums, function, resampling.n, resampling.seed)
    finite = np.isfinite(replicates) & np.isfinite(errors)
    replicates, errors = replicates[finite], errors[finite]
    if resampling.method == "studentised":
        return studentised(value, error, replicates, errors, resampling.level)
    if resampling.method == "percentile":
        return percentile(replicates, resampling.level)
    with np.errstate(divide="ignore", invalid="ignore"):
        left_out = function(sums.sum(axis=0) - sums)[0]
    return bca(replicates, value, left_out[np.isfinite(left_out)], resampling.level)


def percentile(replicates: Floats, level: float) -> tuple[float, float]:
    """Return the quantiles of the replicates (Efron & Tibshirani 1993, §13.3).

    Parameters
    ----------
    replicates : numpy.ndarray, shape (replicates,)
        Finite values, at least one.
    level : float
        Confidence level, between 0 and 1.

    Examples
    --------
    >>> percentile(np.arange(5.0), 0.5)
    (1.0, 3.0)
    """
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def bca(replicates: Floats, value: float, left_out: Floats, level: float) -> tuple[float, float]:
    """Return quantiles corrected for bias and acceleration (Efron & Tibshirani 1993, Eqs. 14.9-14.15).

    Parameters
    ----------
    replicates : numpy.ndarray, shape (replicates,)
        Finite values, at least one. Those equal to the value count as half below it.
    value : float
        The statistic for all contexts.
    left_out : numpy.ndarray, shape (contexts,)
        The statistic leaving out each context (the jackknife).
    level : float
        Confidence level, between 0 and 1.
    """
    rounding = ROUNDING * max(1.0, abs(value), float(np.ptp(replicates)))
    share = (np.mean(replicates < value - rounding) + np.mean(replicates <= value + rounding)) / 2
    bias = special.ndtri(np.clip(share, 1 / len(replicates), 1 - 1 / len(replicates)))
    centred = left_out.mean() - left_out
    spread = np.sum(centred**2)
    acceleration = np.sum(centred**3) / (6 * spread**1.5) if spread > 0 else 0.0
    shifted = bias + special.ndtri([(1 - level) / 2, (1 + level) / 2])
    low, high = np.quantile(replicates, special.ndtr(bias + shifted / (1 - acceleration * shifted)))
    return float(low), float(high)


def studentised(value: float, error: float, replicates: Floats, errors: Floats, level: float) -> tuple[float, float]:
    """Return the bootstrap-t interval (Efron & Tibshirani 1993, §12.5).

    Parameters
    ----------
    value, error : float
        The statistic for all contexts and its standard error.
    replicates, errors : numpy.ndarray, shape (replicates,)
        Finite values and their standard errors. Replicates without variation are dropped.
    level : float
        Confidence level, between 0 and 1.

    Returns
    -------
    tuple of float
        Both NaN if no replicate has variation.
    """
    usable = errors > 1e-6 * error  # smaller errors are a spread of 0, up to rounding
    if not usable.any():
        return float("nan"), float("nan")
    pivots = (replicates[usable] - value) / errors[usable]
    lower, upper = np.quantile(pivots, [(1 - level) / 2, (1 + level) / 2])
    return float(value - upper * error), float(value - lower * error)


#: Maps weights of shape (replicates, contexts) to values (replicates,), NaN if the statistic is undefined.
Statistic = Callable[[Floats], Floats]
IntervalScale = Literal["fisher", "plain"]
MANY = 2_000
"""Number of contexts from which on groups of contexts are left out together."""

JACKKNIFE_GROUPS = 200
"""Number of random groups of contexts to leave out, one at a time, if there are many contexts."""

_EDGE = 1e-9
_JACKKNIFE_CHUNK = 1 << 20  # weights per chunk
_MISSING_SHARE = 0.05
_NOTHING_LEFT = 1e-12  # smaller remainders of a sum are rounding errors


def cluster_statistic(
    statistic: Statistic,
    contexts: int | NDArray[Any],
    resampling: Resampling,
    null: float | None = None,
    bounds: tuple[float, float] | None = None,
    missing: Remark = _UNDEFINED,
    scale: IntervalScale = "fisher",
    inference: Inference = "resampling",
    sizes: Floats | None = None,
) -> Estimate:
    """Estimate a statistic with an interval and a test over contexts.

    Parameters
    ----------
    statistic : callable
        Maps weights of shape (replicates, contexts), non-negative integers, to the statistic of each replicate, shape
        (replicates,).
    contexts : int or numpy.ndarray, shape (contexts,)
        Number of contexts, or their names: the estimate then carries its values without each (``leave_one_out``).
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
    sizes : numpy.ndarray, shape (contexts,), optional
        Number of items of each context. Of contexts that differ in size, as if they were (Σ s)² / Σ s² of equal size
        (Kish 1965, *Survey Sampling*, §8.2), Student's t then takes its degrees of freedom.

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
    names = contexts if isinstance(contexts, np.ndarray) else None
    contexts = len(contexts) if isinstance(contexts, np.ndarray) else contexts
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
    named = None if names is None or groups else (names, np.r_[value, left_out])
    units, unit = len(left_out), f"{groups} random groups of contexts" if groups else "contexts"
    if not np.isfinite(left_out).all():
        return without_interval(value, contexts, "no interval: whether there is a value depends on a single context")
    if is_rounding(np.ptp(left_out), np.abs(left_out).max()):
        p_value = math.nan if null is None else sign_flip(np.full(contexts, value - null), resampling.seed)
        return replace(unvarying(value, contexts, resampling.level, bounds, p_value, null=null), leave_one_out=named)
    on = _Scale.over(bounds if scale == "fisher" else None)
    pseudo = units * on.put(value) - (units - 1) * on.put(left_out)
    spread = float(np.std(pseudo, ddof=1)) / math.sqrt(units)
    by_t, notes = resampling.method == "studentised", tuple[Remark, ...]()
    counted = units if sizes is None else min(units, max(2.0, float(sizes.sum() ** 2 / (sizes**2).sum())))
    if by_t:
        interval = student(float(on.put(value)), spread, counted, resampling.level)
        (low, high), method = map(on.back, interval), f"jackknife t over {unit}" + (", z scale" if on.fisher else "")
    else:
        (low, high), notes = _bootstrapped(statistic, value, left_out, contexts, resampling)
        method = f"cluster bootstrap ({resampling.method})"
        method += f", acceleration over {unit}" if groups and resampling.method == "bca" else ""
    low, high = (low, high) if bounds is None else (max(low, bounds[0]), min(high, bounds[1]))
    error = (units - 1) * float(np.std(left_out, ddof=1)) / math.sqrt(units)
    if null is None:
        return Estimate(value, error, low, high, math.nan, math.nan, contexts, method, notes, leave_one_out=named)
    if by_t and inference == "t":
        distance = float(on.put(value) - on.put(null))
        p_value, method = p_by_t(distance, spread, units, counted), f"{method}; t test"
    else:
        p_value = sign_flip(pseudo - on.put(null), resampling.seed)
    low, high, p_value = settled((low, high), null, p_value, resampling.level)
    effect, why_not = effect_and_notes(error, units, effective=counted)
    return Estimate(value, error, low, high, p_value, effect, contexts, method, notes or why_not, leave_one_out=named)


def over_clusters(statistic: Statistic, names: ArrayLike, resampling: Resampling) -> tuple[Statistic, NDArray[Any]]:
    """Turn a statistic of contexts into one of their clusters; return it and the names of the clusters.

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
    >>> total, names = over_clusters(lambda w: w @ np.arange(3.0), list("abc"), Resampling(clusters={"b": "a"}))
    >>> names.tolist(), total(np.array([[1.0, 0.0]])).tolist()
    (['a', 'c'], [1.0])
    """
    if not resampling.clusters:
        return statistic, np.asarray(names, object)
    codes, clusters = pd.factorize(resampling.cluster_of(names))
    return lambda weights: statistic(weights[:, codes]), clusters


def cluster_difference(
    first: Statistic,
    second: Statistic,
    contexts: int | NDArray[Any],
    resampling: Resampling,
    null: float | None = 0.0,
    inference: Inference = "resampling",
) -> Estimate:
    """Estimate one statistic minus another on the same contexts, both with the same weights.

    Parameters
    ----------
    first, second : callable
        Statistics as in `cluster_statistic`, of the same contexts in the same order.
    contexts, resampling, null, inference
        As in `cluster_statistic`.

    Examples
    --------
    >>> one, two = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3]), np.array([0.1, 0.4, 0.2, 0.1, 0.4, 0.1])
    >>> estimate = cluster_difference(lambda w: w @ one / w.sum(1), lambda w: w @ two / w.sum(1), 6, Resampling())
    >>> round(estimate.estimate, 3), estimate.p_value
    (0.133, 0.0625)
    """
    return cluster_statistic(lambda w: first(w) - second(w), contexts, resampling, null, inference=inference)


def _bootstrapped(
    statistic: Statistic, value: float, left_out: Floats, contexts: int, resampling: Resampling
) -> tuple[tuple[float, float], tuple[Remark, ...]]:
    """Return the percentile or BCa bootstrap interval, and notes."""
    weights = draw_weights(contexts, resampling.n, resampling.seed)
    replicates = np.concatenate([evaluate(statistic, chunk) for chunk in weights])
    replicates = replicates[np.isfinite(replicates)]
    notes: tuple[Remark, ...] = ()
    if len(replicates) < (1 - _MISSING_SHARE) * resampling.n:
        notes = (f"undefined in {resampling.n - len(replicates)} of {resampling.n} resamples, which are left out",)
    if resampling.method == "percentile":
        return percentile(replicates, resampling.level), notes
    return bca(replicates, value, left_out, resampling.level), notes


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
        return _leave_groups_out(statistic, contexts, seed), JACKKNIFE_GROUPS


def _leave_groups_out(statistic: Statistic, contexts: int, seed: int) -> Floats:
    """Return the statistic leaving out random groups of nearly equal size, several groups at a time."""
    group = random_groups(contexts, JACKKNIFE_GROUPS, seed)
    rows = max(1, _JACKKNIFE_CHUNK // contexts)
    values = []
    for start in range(0, JACKKNIFE_GROUPS, rows):
        left = np.arange(start, min(start + rows, JACKKNIFE_GROUPS))
        values.append(evaluate(statistic, (group != left[:, None]).astype(float)))
    return np.concatenate(values)


def _leave_one_out(statistic: Statistic, contexts: int) -> Floats:
    """Return the statistic leaving out each context, one chunk of contexts at a time."""
    rows = max(1, _JACKKNIFE_CHUNK // contexts)
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


_EXACT_CONTEXTS = 12
_DRAWN = 9_999
_MOST = 0.5  # minimum share of contexts with a zero contribution


def sign_flip(contributions: ArrayLike, seed: int = 0) -> float:
    """Two-sided sign-flip test that contributions, one per context, are symmetric around 0.

    All 2^G sign patterns are enumerated for up to 12 contexts; beyond that 9,999 are drawn (and the observed one
    added). If half of the contexts or more contribute 0, as for a judge that is rarely swayed, the test effectively
    uses the remaining contexts, and with few of them is far below its level; patterns as extreme as the observed one
    then count as half (mid-p). With 24 contexts this raises the type-I error from .005 to .017 if 4 of them
    contribute, and from .019 to .039 if 8 do. Many contexts are flipped in random groups
    (`biaslab.stats.resample.in_groups`), which are symmetric around 0 if contexts are.

    Parameters
    ----------
    contributions : array_like, shape (contexts,)
        Each context's contribution to the statistic, centred at the null. Order does not matter.
    seed : int
        Random seed of the sign patterns.

    Returns
    -------
    float
        The p-value, in (0, 1]; NaN without contexts, or if a contribution is NaN.

    References
    ----------
    Lancaster 1961, *Significance tests in discrete distributions*, JASA 56.

    Examples
    --------
    >>> sign_flip([1.0, 1.0, 1.0, 1.0, 1.0]), sign_flip([1.0, 1.0, 1.0, 1.0, 1.0, *6 * [0.0]])
    (0.0625, 0.03125)
    """
    values = np.sort(np.asarray(contributions, float))
    size = float(np.abs(values).sum())
    rare = bool(len(values)) and float(np.mean(is_rounding(values, size))) >= _MOST and not is_rounding(size)
    values = in_groups(values, seed)
    return swap_test(lambda flips: values.sum() - 2 * (flips @ values), len(values), seed, size, mid_p=rare)


def swap_test(
    statistic: Callable[[Floats], Floats], contexts: int, seed: int = 0, size: float = 0.0, *, mid_p: bool = False
) -> float:
    """Two-sided permutation test that two conditions are exchangeable: swaps them in whole contexts.

    Judgements of the same context are dependent, so the conditions are swapped in all or none of them. All 2^G
    patterns are enumerated for up to 12 contexts; beyond that 9,999 are drawn (and the observed one added).

    Parameters
    ----------
    statistic : callable
        Maps patterns of shape (patterns, contexts), with 1 for contexts whose conditions are swapped and 0 for others,
        to the statistic, shape (patterns,): a difference, 0 under the null. Patterns with a NaN count as extreme.
    contexts : int
        Number of contexts.
    seed : int
        Random seed of the patterns.
    size : float
        Magnitude of the numbers that the statistic is computed from: values that differ only by rounding count as
        equal.
    mid_p : bool
        Count patterns exactly as extreme as the observed one as half.

    Returns
    -------
    float
        The p-value, in (0, 1]; NaN without contexts, or if the observed statistic is NaN.

    Raises
    ------
    InputError
        If the statistic does not return one value per pattern.

    References
    ----------
    Ernst 2004, *Permutation Methods: A Basis for Exact Inference*, Statistical Science 19(4).

    Examples
    --------
    The largest score under two conditions; the outlier stays one wherever it goes:

    >>> a, b = np.array([3.0, 9.0, 4.0, 5.0, 4.0, 6.0]), np.array([1.0, 2.0, 2.0, 1.0, 3.0, 2.0])
    >>> swap_test(lambda s: np.where(s, b, a).max(axis=1) - np.where(s, a, b).max(axis=1), 6)
    0.0625
    """
    if contexts == 0:
        return float("nan")
    observed = evaluate(statistic, np.zeros((1, contexts)))[0]
    if np.isnan(observed):
        return float("nan")
    extreme, alike, total = 0, 0, 0
    for flips in patterns(contexts, seed):
        statistics = np.abs(evaluate(statistic, flips))
        same = is_rounding(statistics - abs(observed), size)
        extreme += int(np.sum((statistics >= abs(observed)) | same | np.isnan(statistics)))
        alike += int(np.sum(same))
        total += len(flips)
    counted = extreme - (alike / 2 if mid_p and alike < total else 0)  # no information if all are alike
    if contexts <= _EXACT_CONTEXTS:
        return counted / total
    return (counted + 1) / (total + 1)


def patterns(contexts: int, seed: int = 0) -> Iterator[Floats]:
    """Yield all patterns of 0 and 1 for up to 12 contexts, and 9,999 random ones for more, in chunks.

    Returns
    -------
    iterator of numpy.ndarray, shape (patterns, contexts)

    Examples
    --------
    >>> np.concatenate(list(patterns(2))).tolist()
    [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    """
    if contexts <= _EXACT_CONTEXTS:
        yield (np.arange(2**contexts)[:, None] >> np.arange(contexts) & 1).astype(float)
        return
    rng, left, rows = np.random.default_rng(seed), _DRAWN, max(1, _CHUNK // contexts)
    while left:
        size = min(rows, left)
        bits = np.unpackbits(np.frombuffer(rng.bytes(size * contexts // 8 + 1), np.uint8), count=size * contexts)
        yield bits.reshape(size, contexts).astype(float)
        left -= size


def evaluate(statistic: Callable[[Floats], Floats], rows: Floats) -> Floats:
    """Return the statistic of each row of patterns or weights; raise `InputError` unless it is one value per row."""
    values = np.asarray(statistic(rows), float)
    if values.shape != (len(rows),):
        raise InputError("statistic", values.shape, f"values of shape ({len(rows)},), one per row")
    return values


def grouped(frame: pd.DataFrame, within: bool, resampling: Resampling) -> tuple[pd.DataFrame, Codes | None]:
    """Return the frame and the cluster numbers by which a cluster jackknife leaves out whole clusters.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item, with ``context_id``.
    within : bool
        Whether contexts must stay separate because each has its own mean.
    resampling : Resampling
        Its ``clusters`` are used.

    Returns
    -------
    tuple of pandas.DataFrame and numpy.ndarray of int, shape (contexts,)
        Within contexts: the frame, and the cluster number of each context in order of appearance, or None without
        clusters. Otherwise: the frame with clusters in place of contexts, and None.

    Examples
    --------
    >>> frame = pd.DataFrame({"context_id": list("aabc")})
    >>> _, cluster = grouped(frame, True, Resampling(clusters={"b": "a"}))
    >>> pooled, _ = grouped(frame, False, Resampling(clusters={"b": "a"}))
    >>> cluster.tolist(), pooled["context_id"].tolist()
    ([0, 0, 1], ['a', 'a', 'a', 'c'])
    """
    if not resampling.clusters:
        return frame, None
    if not within:
        return frame.assign(context_id=resampling.cluster_of(frame["context_id"])), None
    return frame, pd.factorize(resampling.cluster_of(frame["context_id"].unique()))[0]


def without_each(own: Floats) -> Floats:
    """Return the total over contexts, then the leave-one-out sums; shape (contexts,) to (1 + contexts,)."""
    total = own.sum(axis=0)
    return np.concatenate([[total], total - own])


def without_clusters(values: Floats, clusters: Codes | None) -> Floats:
    """Turn sums over all contexts and without each into sums over all and without each cluster of contexts.

    Parameters
    ----------
    values : numpy.ndarray, shape (1 + contexts, ...)
        As returned by `without_each`.
    clusters : numpy.ndarray of int, shape (contexts,), optional
        The cluster number of each context; by default every context is its own.

    Examples
    --------
    >>> without_clusters(np.array([6.0, 5, 4, 3]), np.array([0, 0, 1]))
    array([6., 3., 3.])
    """
    if clusters is None:
        return values
    own = np.zeros((clusters.max() + 1, *values.shape[1:]))
    np.add.at(own, clusters, values[0] - values[1:])
    return np.concatenate([values[:1], values[0] - own])
