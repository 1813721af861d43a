"""Ratios of sums over contexts, such as rates and means, and differences between two, with interval and test.

Trials are first reduced to one numerator and one denominator per context: see `biaslab.stats.resample`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from biaslab.core.arrays import Floats
from biaslab.core.errors import InputError
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import (
    FEWEST,
    NO_TRIALS,
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
from biaslab.stats.resample import (
    Resampling,
    Smooth,
    bootstrap_interval,
    in_groups,
    in_order,
    sign_flip,
    swap_test,
)
from biaslab.stats.t_inference import effect_and_notes, p_by_t, root_between, student, t_test

#: With fewer contexts some resamples have almost no variation, and the studentised bootstrap is unreliable.
_FEW = 8
_NOTHING = 1e-12  # smaller remainders of a sum are rounding errors
_ANY = (-math.inf, math.inf)
_BY_T = (math.inf, "; t test")


@dataclass(frozen=True)
class Ratio:
    """A metric that is a ratio of two sums, item by item: a rate, or a mean.

    Parameters
    ----------
    context : array_like of str, shape (items,)
        The context of each item.
    numerator, denominator : array_like of float, shape (items,)
        Each item's contribution to the two sums.
    null : float, optional
        Value under the null hypothesis; None for no test.
    bounds : tuple of float, optional
        Smallest and largest possible value. If all contexts have the same ratio, the bootstrap has zero width, and the
        interval is Clopper and Pearson's with each context as one trial, which is conservative.
    missing : Note or str
        Note if the denominator is 0.
    inference : {"resampling", "t", "score"}
        "resampling": bootstrap interval and sign-flip test. "t": `biaslab.stats.t_inference.t_test`, with the values
        that it does not reject as the interval. "score", for a rate of items between 0 and 1: the same test at ½, with
        an interval that accounts for the behaviour of a rate near its bounds and with few items off ½
        (`biaslab.stats.ratio.RatioTest`). In all cases p is below .05 exactly if a 95 % interval excludes the
        null: "t" and "score" by inverting their test, "resampling" because both are `settled`.
    margin : float
        Tests whether the ratio differs from the null by more than this; the interval is widened accordingly.
    extremes : tuple of Ratio, optional
        Ratios with every missing judgement at the value that minimises, or maximises, the ratio; they give
        ``bound_low`` and ``bound_high``.
    """

    context: ArrayLike
    numerator: ArrayLike
    denominator: ArrayLike
    null: float | None = None
    bounds: tuple[float, float] | None = None
    missing: Remark = NO_TRIALS
    inference: Inference = "resampling"
    margin: float = 0.0
    extremes: tuple[Ratio, Ratio] | None = None

    def estimate(self, resampling: Resampling) -> Estimate:
        """Sum within contexts and estimate over contexts with a non-zero denominator, dropping items with NaN.

        Raises
        ------
        InputError
            If a sum is infinite, or the lengths of numerators, denominators and contexts differ.

        Examples
        --------
        >>> estimate = Ratio(range(8), [3, 4, 2, 4, 3, 4, 4, 3], [4] * 8, null=0.5).estimate(Resampling(seed=1))
        >>> round(estimate.estimate, 3), round(estimate.se, 3), round(estimate.p_value, 4)
        (0.844, 0.066, 0.0156)
        >>> round(estimate.ci_low, 3), round(estimate.ci_high, 3)
        (0.693, 0.989)
        """
        sums, names = _clustered(*self._of_contexts(resampling), resampling)
        if not len(sums):
            return undefined(self.missing)
        estimate = _estimate(sums, _ratio, self._method(sums, resampling), resampling, self.bounds)
        if resampling.values_only:
            return estimate
        estimate = self._bounded(estimate, resampling).noted(*note_uneven(sums[:, 1]))
        if resampling.leave_one_out:
            estimate = replace(estimate, leave_one_out=(names, _without_each(sums, _ratio)))
        if not self.margin or self.null is None or estimate.n_contexts < 2:
            return estimate
        margin = f"departure from {self.null:g} greater than {self.margin:g}"
        note = f"tests for a {margin} (the interval includes that margin)"
        low, high = np.clip(
            (estimate.ci_low - self.margin, estimate.ci_high + self.margin), *(self.bounds or (-np.inf, np.inf))
        )
        return replace(estimate, ci_low=float(low), ci_high=float(high)).noted(note)

    def with_missing(self, found: Estimate, n_trials: int, n_dropped: int) -> Estimate:
        """Add bounds to an estimate of this ratio, given the number of missing judgements.

        If a share m of the items is missing, the ratio of all items lies between the interval's ends times 1 − m plus
        the minimum and the maximum value times m (Horowitz & Manski 2000, §3). Items without a denominator might have
        had one, so m is computed among the items that have one.

        Parameters
        ----------
        found : Estimate
            Estimate of this ratio.
        n_trials, n_dropped : int
            Numbers of judgements used, and not used.

        Examples
        --------
        >>> rate = Ratio(range(8), [1, 1, 0, 1, 1, 1, 0, 1], [1] * 8, bounds=(0.0, 1.0))
        >>> found = rate.with_missing(rate.estimate(Resampling()), 8, 2)
        >>> found.bound_low < found.ci_low, found.ci_high <= found.bound_high
        (True, True)
        """
        bounds, n = self.bounds, np.size(self.denominator)
        if bounds is None or not np.isfinite(bounds).all() or self.extremes is not None or math.isnan(found.ci_low):
            return found
        if not n_dropped or not n_trials or n >= n_trials + n_dropped:  # nothing that was planned is missing
            return found
        share = self.missing_share(n_trials, n_dropped)
        low, high = (1 - share) * found.ci_low + share * bounds[0], (1 - share) * found.ci_high + share * bounds[1]
        return replace(found, bound_low=low, bound_high=high)

    def missing_share(self, n_trials: int, n_dropped: int) -> float:
        """Return the share of items that is missing, if each that is might have had a denominator."""
        items = np.asarray(self.denominator, float)
        missing = n_dropped * len(items) / n_trials
        return missing / (missing + float(np.nansum(items)) / float(np.nanmax(items)))

    def difference(self, other: Ratio, resampling: Resampling) -> Estimate:
        """Estimate the difference between this ratio and another, over contexts where both have a denominator.

        Both are recomputed on the same resampled contexts, so what contexts have in common cancels. With "resampling",
        the test swaps the two ratios' sums in whole contexts. With "t", the test and the studentised interval use
        Student's t on the linearised error for any number of contexts: with few candidates per context, many contexts
        have the same value for both, and permutation tests and bootstraps lose their level.

        Examples
        --------
        >>> contexts = list("aabbccddeeff")
        >>> one, two = Ratio(contexts, [1, 1] * 6, [1] * 12), Ratio(contexts, [0, 1, 0, 0] * 3, [1] * 12)
        >>> estimate = one.difference(two, Resampling())
        >>> estimate.estimate, estimate.n_contexts, estimate.p_value
        (0.75, 6, 0.03125)
        """
        (one, names), (two, others) = self._of_contexts(resampling), other._of_contexts(resampling)
        _, at, other_at = np.intersect1d(names.astype(str), others.astype(str), return_indices=True)
        sums, names = _clustered(np.hstack([one[at], two[other_at]]), names[at], resampling)
        level = resampling.level
        if not len(sums):
            return undefined(self.missing)

        def swapped(*_: float) -> float:
            rows = in_groups(in_order(sums), resampling.seed)
            gap, total = rows[:, [2, 3, 0, 1]] - rows, rows.sum(axis=0)
            return swap_test(lambda swaps: _difference(total + swaps @ gap)[0], len(rows), resampling.seed)

        def by_t(value: float, error: float) -> float:
            return p_by_t(value, error, len(sums)) if error else swapped()

        def interval(value: float, error: float) -> tuple[float, float]:
            return student(value, error, len(sums), level)

        method = _Method(swapped, interval) if self.inference == "resampling" else _Method(by_t, interval, *_BY_T)
        estimate = _estimate(sums, _difference, replace(method, null=0.0), resampling, None)
        left_out = (names, _without_each(sums, _difference)) if resampling.leave_one_out else None
        return replace(estimate, leave_one_out=left_out)

    def _method(self, sums: Floats, resampling: Resampling) -> _Method:
        """Return the test, and the interval unless it is a bootstrap."""
        null, level = self._tested(float(sums[:, 0].sum() / sums[:, 1].sum())), resampling.level
        untested = math.nan if self.null is None else 1.0  # values within the margin do not count as a departure
        if self.inference == "resampling":
            return _Method(
                lambda *_: untested if null is None else sign_flip(sums @ (1, -null), resampling.seed),
                lambda value, error: student(value, error, len(sums), level),
                null=null,
                by_signs=True,
            )
        test = RatioTest(sums, self._excess() if self.inference == "score" else None)
        return _Method(
            lambda *_: untested if null is None else test.p_value(null),
            lambda *_: test.interval(level, null),
            few=math.inf,
            label="" if self.null is None else "; t test",
            kind="score t over contexts" if self.inference == "score" else "t over contexts",
            null=null,
        )

    def _tested(self, value: float) -> float | None:
        """Return the null, or the end of its margin nearest to the value; None if there is no null."""
        if self.null is None or abs(value - self.null) <= self.margin > 0:
            return None
        return self.null + math.copysign(self.margin, value - self.null)

    def _excess(self) -> Excess:
        """Return the shares of the items' weight above and below ½."""
        up, down = (np.asarray(values, float) for values in (self.numerator, self.denominator))
        gap, total = 2 * up - down, np.nansum(np.where(np.isnan(up), 0.0, down))
        return Excess(float(np.nansum(np.maximum(gap, 0.0)) / total), float(np.nansum(np.maximum(-gap, 0.0)) / total))

    def _bounded(self, estimate: Estimate, resampling: Resampling) -> Estimate:
        """Add the outer ends of the extremes' intervals as bounds, unless nothing is missing."""
        if self.extremes is None or not estimate.n_contexts:
            return estimate
        least, most = (replace(ratio, null=None).estimate(resampling) for ratio in self.extremes)
        return replace(estimate, bound_low=least.ci_low, bound_high=most.ci_high)

    def _of_contexts(self, resampling: Resampling) -> tuple[Floats, NDArray[Any]]:
        """Return numerators and denominators of the contexts with a non-zero denominator, and their names."""
        sums, names = sum_by_context(self.context, self.numerator, self.denominator)
        if not np.isfinite(sums).all():
            raise InputError.plain("a number is infinite; write NaN if it is missing")
        entering = sums[:, 1] > 0
        sums, names = sums[entering], names[entering]
        return (sums / sums[:, 1:] if resampling.weights == "contexts" else sums), names


def note_uneven(weights: Floats) -> tuple[Note, ...]:
    """Return a note if contexts differ so much in size that they count as fewer than six (Kish 1965, §8.2).

    Examples
    --------
    >>> note_uneven(np.array([*[10.0] * 20])), str(note_uneven(np.array([900.0, *[10.0] * 20]))[0])
    ((), 'contexts differ in size and count as 1.5 of equal size')
    """
    effective = float(weights.sum() ** 2 / (weights**2).sum())
    return (Note("uneven_contexts", {"effective": effective}),) if effective < min(FEWEST, len(weights) / 2) else ()


@dataclass(frozen=True)
class _Method:
    """Test and interval for a value and its standard error (0 if contexts do not vary)."""

    test: Callable[[float, float], float]
    interval: Callable[[float, float], tuple[float, float]]
    few: float = _FEW
    label: str = ""
    kind: str = "t over contexts"
    null: float | None = None
    by_signs: bool = False


def _estimate(
    sums: Floats, function: Smooth, method: _Method, resampling: Resampling, bounds: tuple[float, float] | None
) -> Estimate:
    """Estimate a smooth function of sums over contexts; with enough of them the interval is a bootstrap."""
    contexts, level, label = len(sums), resampling.level, method.label
    values, gradients = function(sums.sum(axis=0, keepdims=True))
    value = float(values[0])
    if contexts == 1:
        return without_interval(value, 1)
    if resampling.values_only:
        return without_interval(value, contexts, VALUES_ONLY)
    error = float(np.sqrt(np.sum((sums @ gradients[0]) ** 2) * contexts / (contexts - 1)))
    if resampling.stopping is not None:
        rate, parts = bounds == (0.0, 1.0) and sums.shape[1] == 2, sums @ gradients[0]
        made, ends = resampling.stopping.of_sums(sums, value, error, parts, level, method.null, rate), bounds or _ANY
        low, high = (float(np.clip(end, *ends)) for end in (made.ci_low, made.ci_high))
        return replace(made, ci_low=low, ci_high=high)
    if is_rounding(error, np.sum(np.abs(sums) @ np.abs(gradients[0]))):
        return unvarying(value, contexts, level, bounds, method.test(value, 0.0), label, method.null)
    p_value = method.test(value, error)
    if resampling.method == "studentised" and contexts < method.few:
        (low, high), kind = method.interval(value, error), method.kind
    else:
        low, high = bootstrap_interval(sums, function, value, error, resampling)
        kind = f"cluster bootstrap ({resampling.method})"
    least, most = bounds or _ANY
    low, high = float(np.clip(low, least, most)), float(np.clip(high, least, most))
    low, high, p_value = settled((low, high), method.null, p_value, level)
    effect, notes = effect_and_notes(error, contexts, _at_null(sums, gradients[0], value, method.null), method.by_signs)
    return Estimate(value, error, low, high, p_value, effect, contexts, kind + label, notes)


def _at_null(sums: Floats, gradient: Floats, value: float, null: float | None) -> Floats | None:
    """Return each context's contribution to the distance from the null; None if there is no null."""
    if null is None:
        return None
    share = sums[:, 1] / sums[:, 1].sum() if sums.shape[1] == len(("numerator", "denominator")) else 1 / len(sums)
    return np.asarray(sums @ gradient + (value - null) * share, float)


def _clustered(sums: Floats, names: NDArray[Any], resampling: Resampling) -> tuple[Floats, NDArray[Any]]:
    return sum_by_context(resampling.cluster_of(names), *sums.T) if resampling.clusters else (sums, names)


def _without_each(sums: Floats, function: Smooth) -> Floats:
    """Return the function of all contexts, then without each; NaN if no denominator is left."""
    total = sums.sum(axis=0)
    rest = np.vstack([total, total - sums])
    rest[:, 1::2][rest[:, 1::2] <= _NOTHING * rest[0, 1::2]] = np.nan
    return function(rest)[0]


def _ratio(sums: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore", invalid="ignore"):  # resamples may have a denominator of 0
        value = sums[:, 0] / sums[:, 1]
        return value, np.stack([1 / sums[:, 1], -value / sums[:, 1]], axis=1)


def _difference(sums: Floats) -> tuple[Floats, Floats]:
    (first, up), (second, down) = _ratio(sums[:, :2]), _ratio(sums[:, 2:])
    return first - second, np.concatenate([up, -down], axis=1)


_DOUBLINGS = 60


@dataclass(frozen=True)
class Excess:
    """Shares of items above and below ½, which determine the variance of a rate.

    If the two orders of a pair favour the same candidate, the item is at ½, which is no evidence about order; only
    items above or below are. With single decisions no item is at ½.

    Parameters
    ----------
    above, below : float
        From 0 to 1, with a sum of at most 1. The rate is ½ + (above − below) / 2.
    """

    above: float
    below: float

    def widening(self, at: float) -> float:
        """Return the variance of the rate at another value, relative to that at its estimate.

        With the most likely shares given a difference δ = 2 at − 1 (Tango 1998), the variance is v(δ) / n. Subtracting
        (d − δ)² / n makes it relative to the contexts' own deviations, as in a t statistic; at ½ the factor is then 1.

        Parameters
        ----------
        at : float
            The rate, 0 to 1.

        Returns
        -------
        float
            Not positive if a difference as large as the observed one is excluded; 1 if all items are equal, so that
            there is no variance to scale.

        Examples
        --------
        >>> [round(Excess(0.2, 0.0).widening(at), 3) for at in (0.5, 0.55, 0.6, 0.7)]
        [1.0, 0.625, 1.0, 1.25]
        """
        gap, lead = 2 * at - 1, self.above - self.below
        observed = self.above + self.below - lead**2
        if is_rounding(observed):
            return 1.0
        linear = (2 - lead) * gap - self.above - self.below
        root = math.sqrt(max(linear**2 + 8 * self.below * gap * (1 - gap), 0.0))
        variance = (root - linear) / 2 + gap * (1 - gap)
        return (variance - (lead - gap) ** 2) / observed


@dataclass(frozen=True)
class RatioTest:
    """Test a ratio of sums at any value; values that are not rejected are its interval.

    Parameters
    ----------
    sums : numpy.ndarray, shape (contexts, 2)
        Numerator and denominator of each context, for at least two contexts whose ratios vary.
    excess : Excess, optional
        For a rate between 0 and 1: the score test of Tango (1998), with its variance scaled to that observed between
        contexts (Franco et al. 2019). By default the variance between contexts is used at every value (Fieller 1954).

    References
    ----------
    Fieller 1954, *Some problems in interval estimation*, JRSS B 16; Tango 1998, *Equivalence test and confidence
    interval for the difference in proportions for the paired-sample design*, Statistics in Medicine 17; Franco, Little,
    Louis & Slud 2019, *Comparative study of confidence intervals for proportions in complex sample surveys*, J. Survey
    Statistics and Methodology 7.

    Examples
    --------
    >>> test = RatioTest(np.array([[3.0, 4], [4, 4], [2, 4], [4, 4], [3, 4], [4, 4], [4, 4], [3, 4]]))
    >>> round(test.p_value(0.5), 4), [round(end, 3) for end in test.interval(0.95, 0.5)]
    (0.0078, [0.688, 0.999])
    """

    sums: Floats
    excess: Excess | None = None

    def p_value(self, at: float) -> float:
        """Return the two-sided p-value, at least 2^(1 − G) (`p_by_t`)."""
        factor = self._factor(at)
        return t_test(self._deviations(at), factor) if factor > 0 else 2.0 ** (1 - len(self.sums))

    def interval(self, level: float, null: float | None = None) -> tuple[float, float]:
        """Return the values around the ratio that are not rejected.

        Parameters
        ----------
        level : float
            Confidence level, between 0 and 1.
        null : float, optional
            Included in the interval exactly if its p-value is at least 1 − level, even if fewer than 6 contexts cannot
            reject it.

        Returns
        -------
        tuple of float
            Infinite on a side where no value is rejected, because the contexts' denominators vary too much.
        """
        low, high = (0.0, 1.0) if self.excess else (-math.inf, math.inf)
        return self._end(low, level, null), self._end(high, level, null)

    def _end(self, limit: float, level: float, null: float | None) -> float:
        totals = self.sums.sum(axis=0)
        kept = float(totals[0] / totals[1])
        if null is not None and (null - kept) * (limit - kept) > 0:
            kept, limit = (null, limit) if self.p_value(null) >= 1 - level else (kept, null)
        quantile = float(special.stdtrit(len(self.sums) - 1, (1 + level) / 2))

        def room(at: float) -> float:
            deviations = self._deviations(at)
            reach = quantile**2 * self._factor(at) * float(deviations.var(ddof=1)) / len(deviations)
            return reach - float(deviations.mean()) ** 2

        if math.isinf(limit):
            limit = self._beyond(room, kept, math.copysign(1.0, limit))
        if room(kept) <= 0 or math.isinf(limit):
            return kept if room(kept) <= 0 else limit
        return limit if room(limit) >= 0 else root_between(room, kept, limit)

    def _beyond(self, room: Callable[[float], float], start: float, side: float) -> float:
        """Return a value that is rejected, or infinity."""
        step = float(self._deviations(start).std()) / float(self.sums[:, 1].mean())
        for power in range(_DOUBLINGS):
            if room(start + side * step * 2.0**power) < 0:
                return start + side * step * 2.0**power
        return side * math.inf

    def _factor(self, at: float) -> float:
        return self.excess.widening(at) if self.excess else 1.0

    def _deviations(self, at: float) -> Floats:
        return self.sums[:, 0] - at * self.sums[:, 1]
