"""Ratios of sums over contexts, such as rates and means, and differences of two of them, with interval and test.

Trials are first reduced to one numerator and one denominator a context: see `biaslab.stats.inference`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError
from biaslab.stats.estimate import ROUNDING, Estimate, Inference, undefined, unvarying, without_interval
from biaslab.stats.inference import (
    Resampling,
    Smooth,
    bootstrap_interval,
    effect_or_why_not,
    in_order,
    p_by_t,
    student,
    t_test,
)
from biaslab.stats.permutation import sign_flip, swap_test

Floats = NDArray[np.float64]
#: Maps a value and its standard error, 0 where contexts do not vary, to a p-value and what to add to the method.
Test = Callable[[float, float], tuple[float, str]]
#: With fewer contexts some resamples have next to no spread, and a studentised bootstrap goes astray.
_FEW = 8
#: P(A) of .50 to .93, 3 pairs a context, few of which flip, 1000 studies: with 8, 10 and 16 contexts the studentised
#: bootstrap covers .76 to .95 and Student's t .88 to .96; with 24 it is .94 to .96 and .92 to .96.
_FEW_TIED = 20


@dataclass(frozen=True)
class Ratio:
    """A metric that is a ratio of two sums, item by item: a rate, or a mean.

    Parameters
    ----------
    context : array_like of str, shape (items,)
        The context of each item.
    numerator, denominator : array_like of float, shape (items,)
        What an item adds to both sums.
    null : float, optional
        Value under the null hypothesis, if there is one to test.
    bounds : tuple of float, optional
        Least and greatest possible value. When all contexts have the same ratio the bootstrap has no width, and the
        interval is Clopper and Pearson's with each context as one trial, which is conservative.
    missing : str
        What to note when nothing is left to divide by.
    inference : {"resampling", "t"}
        By resampling: bootstrap interval and sign-flip test. By t, where most contexts add exactly what the null
        expects: `biaslab.stats.inference.t_test`, and with few contexts the interval of Student's t, unless another
        bootstrap than the studentised one is wanted.
    margin : float
        What is tested is whether the ratio differs from the null by more than this.
    t_below : float
        By t, fewer contexts than this are few.
    extremes : tuple of Ratio, optional
        The ratio with every judgement that is missing at the value that makes it least, and greatest; they give the
        estimate its ``bound_low`` and ``bound_high``.
    """

    context: ArrayLike
    numerator: ArrayLike
    denominator: ArrayLike
    null: float | None = None
    bounds: tuple[float, float] | None = None
    missing: str = "undefined: no trial is left"
    inference: Inference = "resampling"
    margin: float = 0.0
    t_below: float = _FEW_TIED
    extremes: tuple[Ratio, Ratio] | None = None

    def estimate(self, resampling: Resampling) -> Estimate:
        """Sum within contexts and estimate over those with a denominator; items where a number is NaN do not enter.

        Raises
        ------
        InputError
            If a sum is infinite, or numerators, denominators and contexts are not equally many.

        Examples
        --------
        >>> found = Ratio(range(8), [3, 4, 2, 4, 3, 4, 4, 3], [4] * 8, null=0.5).estimate(Resampling(seed=1))
        >>> round(found.estimate, 3), round(found.se, 3), round(found.p_value, 4)
        (0.844, 0.066, 0.0156)
        >>> round(found.ci_low, 3), round(found.ci_high, 3)
        (0.693, 0.989)
        """
        sums = self._sums(resampling)

        def test(value: float, _: float) -> tuple[float, str]:
            """Return the p value of the null or of the margin's nearer end, and the method's name."""
            if self.null is None:
                return float("nan"), ""
            away = value - self.null
            if self.margin and abs(away) <= self.margin:
                return 1.0, "; t test" if self.inference == "t" else ""
            contributions = sums[:, 0] - (self.null + float(np.copysign(self.margin, away))) * sums[:, 1]
            if self.inference == "t":
                return t_test(contributions), "; t test"
            return sign_flip(contributions, resampling.seed), ""

        few = self.t_below if self.inference == "t" else _FEW
        found = _estimate(sums, _ratio, test, few, resampling, self.bounds, self.missing)
        found = self._bounded(found, resampling)
        if not self.margin or self.null is None or found.n_contexts < 2:
            return found
        note = f"tested is a departure from {self.null:g} by more than {self.margin:g}"
        return replace(found, note="; ".join(filter(None, [found.note, note])))

    def difference(self, other: Ratio, resampling: Resampling) -> Estimate:
        """Estimate how much larger this ratio is than another on the contexts where both have a denominator.

        Both are recomputed with the same resampled contexts, so what the contexts have in common cancels. By
        resampling, the test swaps the two ratios' sums in whole contexts. By t, test and studentised interval are
        Student's on the linearised error, however many contexts there are: where few candidates stand in a context,
        many contexts say the same of both, and permutations and bootstraps lose their level.

        Examples
        --------
        >>> contexts = list("aabbccddeeff")
        >>> one, two = Ratio(contexts, [1, 1] * 6, [1] * 12), Ratio(contexts, [0, 1, 0, 0] * 3, [1] * 12)
        >>> found = one.difference(two, Resampling())
        >>> found.estimate, found.n_contexts, found.p_value
        (0.75, 6, 0.03125)
        """
        (one, names), (two, others) = self._of_contexts(resampling), other._of_contexts(resampling)
        _, at, there = np.intersect1d(names.astype(str), others.astype(str), return_indices=True)
        sums, by_t = np.hstack([one[at], two[there]]), self.inference == "t"
        sums = _clustered(sums, names[at], resampling)

        def test(value: float, error: float) -> tuple[float, str]:
            if by_t and error:
                return p_by_t(value, error, len(sums)), "; t test"
            rows = in_order(sums)
            gap, total = rows[:, [2, 3, 0, 1]] - rows, rows.sum(axis=0)
            return swap_test(lambda swaps: _difference(total + swaps @ gap)[0], len(rows), resampling.seed), ""

        return _estimate(sums, _difference, test, np.inf if by_t else _FEW, resampling, None, self.missing)

    def _bounded(self, found: Estimate, resampling: Resampling) -> Estimate:
        """Add the ends of the extremes' intervals; what is not there is not missing, so that it has no bounds."""
        if self.extremes is None or not found.n_contexts:
            return found
        least, most = (replace(ratio, null=None).estimate(resampling) for ratio in self.extremes)
        return replace(found, bound_low=least.ci_low, bound_high=most.ci_high)

    def _sums(self, resampling: Resampling) -> Floats:
        """Return numerator and denominator of what is resampled: contexts, or clusters of them."""
        return _clustered(*self._of_contexts(resampling), resampling)

    def _of_contexts(self, resampling: Resampling) -> tuple[Floats, NDArray[Any]]:
        """Return numerator and denominator of the contexts that have one, and their names."""
        sums, names = sum_by_context(self.context, self.numerator, self.denominator)
        if not np.isfinite(sums).all():
            raise InputError("numerator, denominator", np.inf, "finite numbers, and NaN where there is none")
        entering = sums[:, 1] > 0
        sums, names = sums[entering], names[entering]
        return (sums / sums[:, 1:] if resampling.weights == "contexts" else sums), names


def _estimate(
    sums: Floats,
    function: Smooth,
    test: Test,
    few: float,
    resampling: Resampling,
    bounds: tuple[float, float] | None,
    missing: str,
) -> Estimate:
    """Estimate a smooth function of sums over contexts; fewer than ``few`` have the interval of Student's t."""
    contexts = len(sums)
    if contexts == 0:
        return undefined(missing)
    values, gradients = function(sums.sum(axis=0, keepdims=True))
    value = float(values[0])
    if contexts == 1:
        return without_interval(value, 1)
    error = float(np.sqrt(np.sum((sums @ gradients[0]) ** 2) * contexts / (contexts - 1)))
    if error <= ROUNDING * float(np.sum(np.abs(sums) @ np.abs(gradients[0]))):
        return unvarying(value, contexts, resampling.level, bounds, *test(value, 0.0))
    p_value, label = test(value, error)
    if resampling.method == "studentised" and contexts < few:
        (low, high), method = student(value, error, contexts, resampling.level), "t over contexts"
    else:
        low, high = bootstrap_interval(sums, function, value, error, resampling)
        method = f"cluster bootstrap ({resampling.method})"
    least, most = bounds or (-np.inf, np.inf)
    low, high = float(np.clip(low, least, most)), float(np.clip(high, least, most))
    effect, note = effect_or_why_not(error, contexts)
    return Estimate(value, error, low, high, p_value, effect, contexts, method + label, note)


def _clustered(sums: Floats, names: NDArray[Any], resampling: Resampling) -> Floats:
    return sum_by_context(resampling.cluster_of(names), *sums.T)[0] if resampling.clusters else sums


def _ratio(sums: Floats) -> tuple[Floats, Floats]:
    with np.errstate(divide="ignore", invalid="ignore"):  # resamples may leave nothing to divide by
        value = sums[:, 0] / sums[:, 1]
        return value, np.stack([1 / sums[:, 1], -value / sums[:, 1]], axis=1)


def _difference(sums: Floats) -> tuple[Floats, Floats]:
    (first, up), (second, down) = _ratio(sums[:, :2]), _ratio(sums[:, 2:])
    return first - second, np.concatenate([up, -down], axis=1)


def sum_by_context(context: ArrayLike, *values: ArrayLike) -> tuple[Floats, NDArray[Any]]:
    """Reduce items to one sum a context; items where a value is NaN, or the context is missing, do not enter.

    Parameters
    ----------
    context : array_like, shape (items,)
        The context of each item.
    *values : array_like of float, each of shape (items,)
        What is summed.

    Returns
    -------
    tuple of numpy.ndarray
        The sums, shape (contexts, values), and the names of the contexts, shape (contexts,), in order of appearance.

    Raises
    ------
    InputError
        If values and contexts are not equally many.

    Examples
    --------
    >>> sums, names = sum_by_context(["b", "a", "b"], [1.0, 2.0, 3.0])
    >>> sums.tolist(), names.tolist()
    ([[4.0], [2.0]], ['b', 'a'])
    """
    # pandas's own columns are factorized as they are, without unpacking the strings
    codes, names = pd.factorize(context if isinstance(context, pd.Series | pd.Index) else np.asarray(context))
    columns = [np.asarray(column, float) for column in values]
    if any(column.shape != codes.shape for column in columns):
        raise InputError("values", [column.shape for column in columns], f"shape {codes.shape}, that of the contexts")
    keep = codes >= 0
    for column in columns:
        keep &= ~np.isnan(column)
    if not keep.all():
        codes, columns = codes[keep], [column[keep] for column in columns]
    sums = np.column_stack([np.bincount(codes, column, len(names)).astype(float, copy=False) for column in columns])
    seen = np.bincount(codes, minlength=len(names)) > 0
    return sums[seen], np.asarray(names, object)[seen]
