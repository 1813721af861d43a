"""Reliability: Krippendorff's alpha, variance components, and error of the mean human score.

Generalizability theory treats a score as a sample from a universe of admissible conditions, such as prompts; the
components are the shares of its variance due to each facet (Brennan 2001, *Generalizability Theory*; Shavelson & Webb
1991, *Generalizability Theory: A Primer*).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import krippendorff
import numpy as np
import pandas as pd
import scipy  # its subpackages load when they are first used
from pandas.util import hash_array

from biaslab.core.arrays import Bools, Codes, Codes as Integers, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.schema import CONSTRUCTION
from biaslab.stats import estimate, resample
from biaslab.stats.blocks import number_items
from biaslab.stats.estimate import ROUNDING_OF_SQUARES, Estimate, Inference, Note, because, is_rounding, undefined
from biaslab.stats.frame import require_columns
from biaslab.stats.resample import Resampling, Statistic, over_clusters, patterns, without_clusters, without_each

Measurement = Literal["interval", "ordinal", "nominal"]
_BOUNDS = (-1.0, 1.0)
_TWO = 2  # minimum number of annotators


_TOO_UNRELIABLE = because("unreliable_ratings", "human scores are too unreliable (reliability {reliability:.2f})")


def krippendorff_alpha(
    scores: pd.DataFrame,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
) -> float:
    """Compute Krippendorff's alpha of tidy scores, without an interval, using the package `krippendorff`.

    Parameters
    ----------
    scores, level, units, annotator, score
        As in `estimate_alpha`; no context is needed.

    Returns
    -------
    float
        At most 1; NaN if `estimate_alpha` is undefined.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"item": [1, 1, 2, 2], "annotator": ["a", "b"] * 2, "score": [1, 1, 5, 4]})
    >>> round(krippendorff_alpha(frame), 4)
    0.9412
    """
    require_columns(scores, (annotator, score), "scores")
    keys = [c for c in scores.columns if c not in (annotator, score)] if units is None else list(units)
    if _pairable(scores, level, keys, annotator, score, keys[0]).why_undefined:
        return math.nan
    wide = scores.pivot_table(score, annotator, keys)
    return float(krippendorff.alpha(wide.to_numpy(float), level_of_measurement=level))


def estimate_alpha(
    scores: pd.DataFrame,
    resampling: Resampling,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
    context: str = "context_id",
) -> Estimate:
    """Return Krippendorff's alpha of tidy scores with an interval over contexts.

    Whole contexts are resampled with all their units, because units of the same context are dependent; the expected
    disagreement is recomputed in every resample.

    Parameters
    ----------
    scores : pandas.DataFrame
        One row per unit × annotator, for one attribute. Missing scores are NaN or have no row.
    resampling : Resampling
        Resampling settings, as in `biaslab.stats.resample.cluster_statistic`.
    level : {"interval", "ordinal", "nominal"}
        Distance between two scores: squared difference, squared difference of ranks, or 0 if equal and 1 otherwise.
    units : sequence of str, optional
        Columns that identify a unit; by default all but ``annotator`` and ``score``. The context is always one of
        them.
    annotator, score, context : str
        Columns of the annotator, of the (numeric) score and of the context.

    Returns
    -------
    Estimate
        1 is perfect agreement, 0 chance, below 0 systematic disagreement. ``n_contexts`` counts contexts with at least
        one unit that has two scores. NaN, with a note, if there are fewer than two annotators, no unit has two scores,
        or all of these are equal. There is no test, because no null value of alpha is worth rejecting.

    Raises
    ------
    InputError
        If the level is unknown or a score is infinite.
    TrialsError
        If a column is missing, or an annotator scored the same unit twice.

    References
    ----------
    Krippendorff 2019, *Content Analysis*, 4th ed., ch. 12.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame(
    ...     {"context_id": [*"aabbccdd"], "annotator": ["x", "y"] * 4, "score": [1, 1, 2, 2, 4, 3, 5, 5]}
    ... )
    >>> estimate = estimate_alpha(frame, Resampling())
    >>> round(estimate.estimate, 3), estimate.n_contexts
    (0.954, 4)
    """
    columns = _units(scores, units, annotator, score, context)
    rated = _pairable(scores, level, columns, annotator, score, context)
    if rated.why_undefined:
        return undefined(rated.why_undefined)
    order = rated.contents().sort_values().index
    statistic, names = over_clusters(rated.alpha(order, level), order, resampling)
    return resample.cluster_statistic(statistic, names, resampling, bounds=_BOUNDS)


def alpha_difference(
    first: pd.DataFrame,
    second: pd.DataFrame,
    resampling: Resampling,
    level: Measurement = "interval",
    units: Sequence[str] | None = None,
    annotator: str = "annotator",
    score: str = "score",
    context: str = "context_id",
    null: float | None = 0.0,
    inference: Inference = "resampling",
) -> Estimate:
    """Estimate the difference in alpha between two frames, over their common contexts.

    Parameters
    ----------
    first, second : pandas.DataFrame
        Scores as in `estimate_alpha`, for example a judge's samples and human annotations, or two configurations.
    resampling, level, units, annotator, score, context
        As in `estimate_alpha`.
    null, inference
        As in `biaslab.stats.resample.cluster_statistic`.

    Returns
    -------
    Estimate
        Alpha of the first minus that of the second; both are recomputed on the same resampled contexts.

    Examples
    --------
    >>> import pandas as pd
    >>> one = pd.DataFrame(
    ...     {"context_id": [*"aabbccdd"], "annotator": ["x", "y"] * 4, "score": [1, 1, 2, 2, 4, 3, 5, 5]}
    ... )
    >>> estimate = alpha_difference(one, one.assign(score=[1, 2, 2, 1, 4, 3, 5, 4]), Resampling())
    >>> round(estimate.estimate, 3), estimate.n_contexts
    (0.179, 4)
    """
    columns = _units(first, units, annotator, score, context)
    both = [_pairable(frame, level, columns, annotator, score, context) for frame in (first, second)]
    common = set(both[0].names) & set(both[1].names)
    both = [rated.within(common) for rated in both]
    reason = next(filter(None, (rated.why_undefined for rated in both)), None)
    if reason:
        return undefined(reason, len(common))
    one, other = (rated.contents() for rated in both)
    names = one.index[np.lexsort((other.loc[one.index], one))]
    alphas = [over_clusters(rated.alpha(names, level), names, resampling) for rated in both]
    return resample.cluster_difference(alphas[0][0], alphas[1][0], alphas[0][1], resampling, null, inference)


def _units(scores: pd.DataFrame, units: Sequence[str] | None, annotator: str, score: str, context: str) -> list[str]:
    require_columns(scores, (context,), "scores")
    named = [c for c in scores.columns if c not in (annotator, score)] if units is None else list(units)
    return list(dict.fromkeys([context, *named]))


def _pairable(
    scores: pd.DataFrame, level: Measurement, units: list[str], annotator: str, score: str, context: str
) -> _Rated:
    """Return the ratings of units that have at least two."""
    require_one_of("level", level, get_args(Measurement))
    require_columns(scores, (*units, annotator, score), "scores")
    scored = scores[scores[score].notna()]
    values = scored[score].to_numpy(float)
    if np.isinf(values).any():
        raise InputError.plain(f"column {score!r} has an infinite number; write NaN if it is missing")
    unit, who = number_items(scored, units)[0], number_items(scored, [annotator])[0]
    rating = unit * (who.max(initial=0) + 1) + who
    if len(np.unique(rating)) < len(rating):
        first = scored[pd.Series(rating).duplicated().to_numpy()].iloc[0][[*units, annotator]].to_dict()
        raise TrialsError.plain(f"scores has several scores of {first}; pass the columns of the unit")
    kept = np.bincount(unit)[unit] > 1
    where, firsts = number_items(scored, [context])
    names = pd.Index(scored[context].iloc[firsts])
    alone = not len(who) or who.max() < 1
    return _Rated(values, where, unit, who, names, alone).only(kept)


@dataclass(frozen=True)
class _Rated:
    """Ratings as arrays: score and the numbers of context, unit and annotator; and the names of contexts.

    ``alone`` says that there were fewer than two annotators before units with a single score were dropped.
    """

    score: Floats
    context: Integers
    unit: Integers
    annotator: Integers
    names: pd.Index
    alone: bool

    def only(self, kept: Bools) -> _Rated:
        """Return a subset of the ratings, with all units."""
        context, names = pd.factorize(self.context[kept])
        unit = pd.factorize(self.unit[kept])[0]
        score, annotator = self.score[kept], self.annotator[kept]
        return replace(self, score=score, context=context, unit=unit, annotator=annotator, names=self.names[names])

    def within(self, names: set[Any]) -> _Rated:
        """Return the ratings of some contexts."""
        if len(names) == len(self.names):
            return self
        rated = self.only(self.names.isin(list(names))[self.context])
        return replace(rated, alone=len(np.unique(rated.annotator)) < _TWO)

    @property
    def why_undefined(self) -> Note | None:
        """Why alpha is undefined; None if it is defined."""
        if self.alone:
            return Note("one_annotator", words="fewer than two annotators")
        if not len(self.score):
            return Note("one_score_per_unit", words="no unit has two scores")
        same = (self.score == self.score[0]).all()
        return Note("constant_scores", words="all scores are the same") if same else None

    def contents(self) -> pd.Series:
        """Return a fingerprint of each context's scores that does not depend on names.

        Contexts are numbered by it, so that a seed gives the same resamples whatever their names.
        """
        _, rank = np.unique(self.score, return_inverse=True)
        of_unit = np.zeros(self.unit.max() + 1, np.uint64)
        np.add.at(of_unit, self.unit, hash_array(rank))
        home = np.zeros(len(of_unit), np.intp)
        home[self.unit] = self.context
        of_context = np.zeros(len(self.names), np.uint64)
        np.add.at(of_context, home, hash_array(of_unit))
        return pd.Series(of_context, self.names)

    def alpha(self, order: pd.Index, level: Measurement) -> Statistic:
        """Return alpha as a function of the weights of contexts, in the given order."""
        codes, unit = order.get_indexer(self.names)[self.context], self.unit
        values, at = np.unique(self.score, return_inverse=True)
        sequence = np.lexsort((at, unit, codes))
        codes, unit, at = codes[sequence], unit[sequence], at[sequence]
        starts = np.r_[0, np.flatnonzero(np.diff(unit)) + 1]
        counts = np.bincount(codes * len(values) + at, minlength=len(order) * len(values)).reshape(len(order), -1)
        centred = values - values.mean()
        scaled = centred / (np.abs(centred).max() or 1.0)
        weighted = WeightedAlpha(counts.astype(float), scaled, at, starts, codes[starts])
        return {"interval": weighted.interval, "ordinal": weighted.ordinal, "nominal": weighted.nominal}[level]


_CHUNK = 1 << 18


@dataclass(frozen=True)
class WeightedAlpha:
    """Alpha as a function of the weights of contexts, at each level.

    Attributes
    ----------
    counts : numpy.ndarray, shape (contexts, scores)
        Number of ratings with each distinct score in each context.
    values : numpy.ndarray, shape (scores,)
        The distinct scores.
    at : numpy.ndarray of int, shape (ratings,)
        Index in `values` of each rating's score, sorted by unit.
    starts : numpy.ndarray of int, shape (units,)
        Index of each unit's first rating.
    context : numpy.ndarray of int, shape (units,)
        Index of each unit's context.
    """

    counts: Floats
    values: Floats
    at: Integers
    starts: Integers
    context: Integers

    @cached_property
    def sizes(self) -> Floats:
        """Ratings of each unit."""
        sizes: Floats = np.diff(np.r_[self.starts, len(self.at)]).astype(float)
        return sizes

    def interval(self, weights: Floats) -> Floats:
        """Distance is the squared difference of scores."""
        x = self.values[self.at]
        observed = np.bincount(self.context, self._within(x[None, :])[0], len(self.counts))
        n, first, second = (weights @ (self.counts @ power) for power in (self.values**0, self.values, self.values**2))
        return _one_minus(weights @ observed, 2 * (n * second - first**2), n)

    def nominal(self, weights: Floats) -> Floats:
        """Distance is 1 between different scores."""
        units = np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int))
        pairs, times = np.unique(units * len(self.values) + self.at, return_counts=True)
        equal = np.bincount(pairs // len(self.values), times * (times - 1.0))
        differing = (self.sizes * (self.sizes - 1) - equal) / (self.sizes - 1)
        totals = weights @ self.counts
        n = totals.sum(axis=1)
        observed = weights @ np.bincount(self.context, differing, len(self.counts))
        return _one_minus(observed, n**2 - np.sum(totals**2, axis=1), n)

    def ordinal(self, weights: Floats) -> Floats:
        """Distance is the squared difference of midranks, which depend on the weights."""
        values, rows = [], max(1, _CHUNK // max(len(self.at), weights.shape[1]))
        for start in range(0, len(weights), rows):
            chunk = weights[start : start + rows]
            totals = chunk @ self.counts
            n = totals.sum(axis=1)
            ranks = np.cumsum(totals, axis=1) - totals / 2 - n[:, None] / 2
            observed = np.sum(self._within(ranks[:, self.at]) * chunk[:, self.context], axis=1)
            values.append(_one_minus(observed, 2 * n * np.sum(totals * ranks**2, axis=1), n))
        return np.concatenate(values)

    def _within(self, x: Floats) -> Floats:
        """Return each unit's sum of squared pairwise differences over its scores minus one; (rows, units)."""
        first, second = (np.add.reduceat(power, self.starts, axis=1) for power in (x, x**2))
        within: Floats = 2 * (self.sizes * second - first**2) / (self.sizes - 1)
        return within


def _one_minus(observed: Floats, expected: Floats, n: Floats) -> Floats:
    """Return 1 − observed / expected disagreement; NaN if the expected disagreement is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        alpha: Floats = np.where(expected > ROUNDING_OF_SQUARES * n**2, 1 - observed * (n - 1) / expected, np.nan)
    return alpha


#: Expected mean squares in closed form, or restricted maximum likelihood by `statsmodels`.
Fit = Literal["anova", "reml"]


@dataclass(frozen=True, eq=False)
class Crossed:
    """Scores of items nested in contexts and crossed with conditions, and the variance between samples of a request.

    Parameters
    ----------
    context : ndarray of int, shape (items,)
        Index of each item's context, from 0.
    scores : ndarray, shape (items, conditions)
        Means over the samples of a request; no missing values.
    squares, degrees, sizes : ndarray, shape (items, conditions), optional
        For the samples of each request: the sum of squared deviations from their mean, the degrees of freedom, and
        their number. Without them, each request has a single deterministic reply.

    Raises
    ------
    InputError
        If shapes differ or a score is missing.
    """

    context: Codes
    scores: Floats
    squares: Floats | None = None
    degrees: Floats | None = None
    sizes: Floats | None = None

    def __post_init__(self) -> None:
        if self.scores.ndim != _TWO or len(self.context) != len(self.scores):
            raise InputError("scores", self.scores.shape, "one row per item, one column per condition")
        if not np.isfinite(self.scores).all():
            raise InputError.plain("scores holds NaN, expected: items scored under every condition")

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return int(self.context.max(initial=-1)) + 1

    @property
    def why_undefined(self) -> Note | None:
        """Why components are undefined; None if they are defined."""
        if self.scores.shape[1] < _TWO:
            return because("one_condition", "only one condition")
        if not self.contexts:
            return because("no_items", "no items left")
        return because("one_context", "only one context") if self.contexts < _TWO else None

    def sampling(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the variance between samples of a request, and its part in the mean scores; shape (replicates,).

        Both are 0 without sampling; NaN and 0 if no request has two samples.
        """
        if self.squares is None or self.degrees is None or self.sizes is None:
            return np.zeros(len(weights)), np.zeros(len(weights))
        columns = self.squares, self.degrees, 1 / self.sizes, np.ones_like(self.scores)
        sums = (np.bincount(self.context, column.sum(axis=1), self.contexts) for column in columns)
        squares, degrees, share, cells = (weights @ each for each in sums)
        with np.errstate(invalid="ignore", divide="ignore"):
            single = squares / np.where(degrees > 0, degrees, np.nan)
        return single, np.nan_to_num(single) * share / cells


@dataclass(frozen=True)
class Components:
    """Variance components, each of shape (replicates,). Negative values are sampling error of values near 0.

    Attributes
    ----------
    context, item : ndarray
        Between contexts, and between items within contexts: what a judge is asked to tell apart. With one item per
        context, both are in ``context``.
    condition : ndarray
        Between the condition means.
    interaction : ndarray
        Items (and contexts) × conditions: effects of a condition on single items.
    sampling : ndarray
        Between samples of a request; 0 without sampling, NaN if unknown, in which case it is part of the interaction.
    """

    context: Floats
    item: Floats
    condition: Floats
    interaction: Floats
    sampling: Floats

    @property
    def total(self) -> Floats:
        """Variance of a single score under a randomly drawn condition."""
        known = np.nan_to_num(self.sampling)
        return self.context + self.item + self.condition + self.interaction + known


def fit_components(crossed: Crossed, weights: Floats, fit: Fit = "anova") -> Components:
    """Estimate the variance components.

    Parameters
    ----------
    crossed : Crossed
        The scores.
    weights : ndarray, shape (replicates, contexts)
        How often each context counts, as given by `biaslab.stats.cluster_statistic`.
    fit : {"anova", "reml"}
        "anova": mean squares equated to their expectations, in closed form. "reml": a mixed model of `statsmodels`
        (`MixedLM`: fixed conditions; random contexts, items and contexts × conditions) fitted by restricted maximum
        likelihood, NaN if it does not converge. Both agree if all contexts have the same number of items and no
        component is negative.

    Raises
    ------
    InputError
        If the fit is unknown.

    Notes
    -----
    Conditions are a fixed list, not a sample of prompts. Their effects are therefore fixed, and their component is the
    mean squared deviation of the true condition means, Σ(μ_j − μ)² / (J − 1), corrected for sampling error.

    References
    ----------
    Brennan 2001, *Generalizability Theory*, ch. 3, and ch. 7 for unequal numbers within contexts; Searle, Casella &
    McCulloch 1992, *Variance Components*, ch. 4 and 6: in balanced designs REML gives the same.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> items, conditions = rng.normal(0, 2, (8000, 1)), np.array([0.0, 1.0, 2.0])
    >>> scores = items + conditions + rng.normal(0, 1, (8000, 3))
    >>> found = fit_components(Crossed(np.arange(8000) // 4, scores), np.ones((1, 2000)))
    >>> [round(float(part[0]), 1) for part in (found.item, found.condition, found.interaction)]
    [4.0, 1.0, 1.0]
    """
    require_one_of("fit", fit, get_args(Fit))
    if fit == "anova":
        return _Squares.of(crossed).components(crossed, weights)
    components = [_likely(crossed, row) for row in weights]
    return Components(*(np.concatenate(parts) for parts in zip(*components, strict=True)))


@dataclass(frozen=True, eq=False)
class _Squares:
    """Each context's contribution to the mean squares: item count, condition means, sums of squares."""

    n: Floats
    means: Floats
    items: Floats
    rest: Floats

    @classmethod
    def of(cls, crossed: Crossed) -> _Squares:
        size, y = crossed.contexts, crossed.scores
        n = np.bincount(crossed.context, minlength=size).astype(float)
        means = np.column_stack([np.bincount(crossed.context, column, size) for column in y.T]) / n[:, None]
        own, centre = y.mean(axis=1), means.mean(axis=1)[crossed.context]
        items = np.bincount(crossed.context, (own - centre) ** 2, size) * y.shape[1]
        left = y - own[:, None] - means[crossed.context] + centre[:, None]
        rest = np.asarray(np.bincount(crossed.context, (left**2).sum(axis=1), size), float)
        return cls(n, means, items, rest)

    def components(self, crossed: Crossed, weights: Floats) -> Components:
        """Equate mean squares to their expectations."""
        j, groups = self.means.shape[1], weights.sum(axis=1)
        total, squared = weights @ self.n, weights @ self.n**2
        each = (total - squared / total) / (groups - 1)  # effective number of items per context in an unbalanced design
        centre = self.means.mean(axis=1)
        apart = self.means - centre[:, None]
        mean = weights @ (self.n[:, None] * apart) / total[:, None]
        between = (weights @ (self.n[:, None] * apart**2)).sum(axis=1) - total * (mean**2).sum(axis=1)
        crossing = between / ((j - 1) * (groups - 1))
        contexts = j * (weights @ (self.n * centre**2) - (weights @ (self.n * centre)) ** 2 / total) / (groups - 1)
        single = total <= groups  # with one item per context, items and contexts are confounded
        degrees = np.where(single, np.nan, total - groups)
        with np.errstate(invalid="ignore", divide="ignore"):
            left = np.where(single, crossing, (weights @ self.rest) / ((j - 1) * degrees))
            item = np.where(single, 0.0, ((weights @ self.items) / degrees - left) / j)
        shared = (crossing - left) / each
        context = (contexts - left - j * item - each * shared) / (j * each)
        condition = (mean**2).sum(axis=1) / (j - 1) - left / total - shared * squared / total**2
        sampling, noise = crossed.sampling(weights)
        return Components(context, item, condition, shared + left - noise, sampling)


def _likely(crossed: Crossed, weight: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Fit the mixed model to the contexts with positive weight; NaN if it does not converge."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    kept = weight[crossed.context] > 0
    y = crossed.scores[kept]
    j = y.shape[1]
    context, item = np.repeat(crossed.context[kept], j), np.repeat(np.arange(len(y)), j)
    names = {"context": context, "item": item, "condition": np.tile(np.arange(j), len(y))}
    frame = pd.DataFrame({"y": y.ravel(), **names})
    several = bool(np.bincount(crossed.context[kept]).max(initial=0) > 1)
    crossing = {"item": "0 + C(item)", "condition": "0 + C(condition)"} if several else None
    nothing = (np.full(1, math.nan),) * 5
    if np.ptp(y) == 0:
        return nothing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at components of 0 statsmodels warns about convergence
            make = partial(MixedLM.from_formula, groups="context", re_formula="1", vc_formula=crossing)
            model = make("y ~ C(condition)", frame)
            fit = model.fit(reml=True, method=["lbfgs", "powell"])
    except (np.linalg.LinAlgError, ValueError):
        return nothing
    if not (fit.converged and np.isfinite(fit.scale)):
        return nothing
    parts = dict(zip(model.exog_vc.names, fit.vcomp, strict=True)) if several else {}
    means = np.array([0.0, *fit.fe_params.to_numpy()[1:]])
    error = np.zeros((j, j))
    error[1:, 1:] = fit.cov_params().to_numpy()[1:j, 1:j]
    noise = float(np.trace((np.eye(j) - 1 / j) @ error)) / (j - 1)
    sampling, left = crossed.sampling(weight[None, :])
    interaction = float(fit.scale) + parts.get("condition", 0.0) - float(left[0])
    values = float(fit.cov_re.iloc[0, 0]), parts.get("item", 0.0), means.var(ddof=1) - noise, interaction
    return *(np.full(1, value) for value in values), sampling  # type: ignore[return-value]


def spread_of_means(deviations: Floats, counts: Floats, resampling: Resampling) -> Estimate:
    """Estimate the standard deviation of the condition means, and test whether they are equal.

    Parameters
    ----------
    deviations : ndarray, shape (contexts, conditions)
        For each context, the sum over its items of the score under each condition minus the item's mean over
        conditions.
    counts : ndarray, shape (contexts,)
        Number of items in each context, above 0.
    resampling : Resampling
        Confidence level and seed.

    Returns
    -------
    Estimate
        √(Σ(μ_j − μ)² / (J − 1)), in the unit of the scores; null 0. Sampling error is subtracted from the squares, so
        the estimate may be 0. The test flips the signs of all deviations of whole contexts, which is exact if each
        context's deviations are symmetric around 0. The interval is the observed value ± the 95 % quantile under
        flipped signs, which is conservative by the triangle inequality, and includes 0 if the test does not reject.
        test does not reject.

    Examples
    --------
    >>> deviations = np.array([[-1.0, 1.0], [-0.5, 0.5], [-1.5, 1.5], [-1.0, 1.0], [-2.0, 2.0], [-1.0, 1.0]])
    >>> estimate = spread_of_means(deviations, np.full(6, 2.0), Resampling())
    >>> round(estimate.estimate, 2), estimate.p_value, round(estimate.ci_low, 2)
    (0.81, 0.03125, 0.14)
    """
    contexts, j = deviations.shape
    if contexts == 0 or j < _TWO:
        return undefined(because("no_items", "no items left"), contexts)
    total, norm = counts.sum(), math.sqrt(j - 1)
    mean = deviations.sum(axis=0) / total
    seen = float(np.linalg.norm(mean)) / norm
    if contexts < _TWO:
        return Estimate(seen, *(math.nan,) * 5, contexts, "none", ("no interval: only one context",))
    left = deviations - counts[:, None] * mean
    noise = float((left**2).sum()) * contexts / (contexts - 1) / (total * norm) ** 2
    order = np.lexsort(np.round(deviations, 12).T)
    flipped = _norms(deviations[order], resampling.seed, total * norm)
    exact = len(flipped) == 2**contexts
    extreme = int(((flipped >= seen) | is_rounding(flipped - seen, seen)).sum())
    p_value = (extreme + (not exact)) / (len(flipped) + (not exact))
    reach = float(np.quantile(flipped, resampling.level))
    value, error = math.sqrt(max(seen**2 - noise, 0.0)), math.sqrt(noise)
    interval = max(seen - reach, 0.0), seen + reach
    low, high, p_value = estimate.settled(interval, 0.0, p_value, resampling.level)
    return Estimate(value, error, low, high, p_value, math.nan, contexts, "sign flips of contexts, triangle inequality")


def _norms(deviations: Floats, seed: int, scale: float) -> Floats:
    """Return the spread of means for each pattern of context signs."""
    every = patterns(len(deviations), seed)
    return np.concatenate([np.linalg.norm((1 - 2 * flips) @ deviations, axis=1) for flips in every]) / scale


#: Maps the share (0 to below 1) of the remaining variance of human scores that is counted as error as well, because
#: annotators may share errors, to the corrected estimate. With one rating per item the share is 1 − the assumed
#: reliability. Whatever does not depend on the share, such as the error of the ratings themselves, is computed once.
Corrected = Callable[[float], Estimate]
#: Reliability below which a correction is too noisy: nothing is tested.
LEAST_RELIABILITY = 0.3


@dataclass(frozen=True)
class RatingError:
    """Sums of squares of the mean human score and their error part, for all contexts and leaving out each.

    Attributes
    ----------
    spread : numpy.ndarray, shape (1 + contexts,)
        Σ(h̄ − mean)² over all contexts, then without each context in turn, in order of appearance.
    error : numpy.ndarray, shape (1 + contexts,)
        Its expected error part, due to annotators. 0 if no item has two ratings.
    estimated : bool
        Whether some item has two ratings, so that the error is estimated rather than unknown.
    """

    spread: Floats
    error: Floats
    estimated: bool

    def of_clusters(self, clusters: Codes | None) -> RatingError:
        """Leave out clusters instead of contexts, given each context's cluster number."""
        spread, error = (without_clusters(sums, clusters) for sums in (self.spread, self.error))
        return RatingError(spread, error, self.estimated)

    def with_shared(self, share: float) -> RatingError:
        """Count a share (0 to 1) of the remaining variance as error, to allow for error shared by annotators.

        Examples
        --------
        >>> RatingError(np.array([10.0]), np.array([4.0]), True).with_shared(0.5).reliability
        array([0.3])
        """
        return RatingError(self.spread, self.error + share * (self.spread - self.error), self.estimated)

    @property
    def reliability(self) -> Floats:
        """Share of the variance that is not error, shape (1 + contexts,); NaN if human scores do not vary."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1 - self.error / self.spread, float)


def rating_error(frame: pd.DataFrame, within: bool = True) -> RatingError:
    """Estimate the error of mean human scores from cross-products of different annotators.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item: ``context_id``, ``human`` (the mean score) and, if known, ``ratings``, the individual scores
        separated by spaces, and ``annotators``, their annotators in the same form. Without ``annotators``, the
        position in the list identifies the annotator.
    within : bool
        Compute deviations from the means of contexts rather than from the overall mean.

    Returns
    -------
    RatingError

    Raises
    ------
    TrialsError
        If no item has as many ratings as annotators, or the mean human score of an item is not the mean of its
        ratings.

    Notes
    -----
    The true sum of squares is estimated from products of ratings by different annotators alone, Σᵢ Pᵢᵢ − Σᵢⱼ Pᵢⱼ / n,
    where Pᵢⱼ is the mean of hᵢₐ hⱼᵦ over annotators a ≠ b of items i and j; their errors are independent, so they
    cancel in expectation. If the same annotators rate every item, this is the mean of Σᵢ (hᵢₐ − h̄ₐ)(hᵢᵦ − h̄ᵦ), in
    which annotators' severity cancels; if each item has its own annotators, it uses the usual variance within items.
    Items with one rating are assigned the error variance of a rating estimated from the others.

    References
    ----------
    Fuller 1987, *Measurement Error Models*, §1.2 and §2.2.

    Examples
    --------
    >>> frame = pd.DataFrame({"context_id": list("aaabbb"), "ratings": ["1 2", "2 4", "5 4", "2 3", "1 3", "4 4"]})
    >>> frame["human"] = [1.5, 3, 4.5, 2.5, 2, 4]
    >>> rating_error(frame).reliability.round(2)
    array([0.75, 0.77, 0.74])
    """
    codes, names = pd.factorize(frame["context_id"])
    contexts, scores = len(names), frame["human"].to_numpy(float)
    scores = scores - scores.mean() if len(scores) else scores
    spread = _about_mean(scores, codes, contexts, within)
    if "ratings" not in frame:
        return RatingError(spread, np.zeros(1 + contexts), False)
    ratings = read_ratings(frame, frame["human"].to_numpy(float))
    count = np.bincount(ratings["item"], minlength=len(frame))
    several = count > 1
    if not several.any():
        return RatingError(spread, np.zeros(1 + contexts), False)
    raw = _about_mean(scores[several], codes[several], contexts, within)
    true = _cross_products(ratings[several[ratings["item"]]], codes, contexts, within)
    share = 1 / np.maximum(count, 1)
    known, every = (_degrees(share[kept], codes[kept], contexts, within) for kept in (several, count >= 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = (raw - true) * every / known
    return RatingError(spread, np.where(is_rounding(error, spread), 0.0, error), True)


def too_unreliable(error: RatingError, shared: float, least: float = LEAST_RELIABILITY) -> Note | None:
    """Return why human scores, given a share of shared error, do not support a test; None if they do.

    They do not if their reliability is below ``least``.

    Examples
    --------
    >>> str(too_unreliable(RatingError(np.array([10.0]), np.array([8.0]), True), 0.0))
    'undefined: human scores are too unreliable (reliability 0.20)'
    """
    reliability = float(error.with_shared(shared).reliability[0])
    fine = reliability >= least or math.isnan(reliability) or is_rounding(reliability - least)
    return None if fine else _TOO_UNRELIABLE.with_values(reliability=reliability)


def known_reliability(items: pd.DataFrame, declared: float | None) -> float | None:
    """Return the reliability declared for human scores: 1 if all are by the annotator "construction"; None if none is.

    Parameters
    ----------
    items : pandas.DataFrame
        ``human`` and, if known, ``annotators``.
    declared : float, optional
        Reliability that the user declares.

    Examples
    --------
    >>> known_reliability(pd.DataFrame({"human": [1.0, 2.0, np.nan], "annotators": ["construction"] * 2 + [""]}), None)
    1.0
    """
    if declared is not None or "annotators" not in items:
        return declared
    annotators = items.loc[items["human"].notna(), "annotators"]
    return 1.0 if len(annotators) and (annotators == CONSTRUCTION).all() else None


def depends_on_reliability(row: Mapping[Any, Any]) -> bool:
    """Return whether a finding depends on the unknown reliability of human scores: whether it needs more than .3.

    Parameters
    ----------
    row : mapping
        A row of an estimates frame.

    Examples
    --------
    >>> depends_on_reliability({"notes": '[["depends_on_reliability", {"reliability": 0.62}]]'})
    True
    """
    note = estimate.notes_of(row).get("depends_on_reliability")
    return note is not None and estimate.is_above(float(note["reliability"]), LEAST_RELIABILITY)


def moments_within(ratings: pd.DataFrame, codes: Codes, across: bool) -> Floats:
    """Return sums of squares and products of two scores around the means of contexts.

    Parameters
    ----------
    ratings : pandas.DataFrame
        One row per item and source, such as an annotator: ``item`` (its number), ``annotator``, and the scores ``one``
        and ``other``.
    codes : numpy.ndarray of int, shape (items,)
        The context of each item, from 0.
    across : bool
        Use products of ratings by different sources alone, whose errors are independent, so that they cancel in
        expectation even if the errors in the two scores of one source are related. Every item needs two sources. By
        default ratings of an item, one each, have no error.

    Returns
    -------
    numpy.ndarray, shape (1 + contexts, 3)
        Σ of squares of one and other, and Σ of their products; for all contexts and leaving out each.

    Examples
    --------
    >>> table = {"item": [0, 0, 1, 1], "annotator": [*"abab"], "one": [1.0, 2, 3, 4], "other": [1.0, 1, 2, 2]}
    >>> moments_within(pd.DataFrame(table), np.zeros(2, int), across=True)[0]
    array([2. , 0.5, 1. ])
    """
    contexts, scores = int(codes.max(initial=-1)) + 1, (ratings["one"], ratings["other"])

    def square(score: pd.Series) -> Floats:
        if across:
            return _cross_products(ratings.assign(score=score), codes, contexts, True)
        return _about_mean(score.to_numpy(float), codes[ratings["item"].to_numpy()], contexts, True)

    one, other, both = (square(score) for score in (*scores, scores[0] + scores[1]))
    return np.column_stack([one, other, (both - one - other) / 2])


def _about_mean(values: Floats, codes: Codes, contexts: int, within: bool) -> Floats:
    """Return the sum of squares around context means, or the overall mean; for all contexts and without each."""
    square, total, size = (_counted(codes, term, contexts) for term in (values**2, values, np.ones(len(values))))
    return _centred(square, total**2, total * total.sum(), size, within)


def _degrees(variance: Floats, codes: Codes, contexts: int, within: bool) -> Floats:
    """Return the expectation of `_about_mean` for independent errors with these variances."""
    sums, size = (_counted(codes, term, contexts) for term in (variance, np.ones(len(variance))))
    return _centred(sums, sums, sums, size, within)


def _counted(codes: Codes, values: Floats, contexts: int) -> Floats:
    return np.asarray(np.bincount(codes, values, contexts), float)


_PRODUCTS = 1 << 22  # products of ratings of two items that are held in memory at once


def _cross_products(ratings: pd.DataFrame, codes: Codes, contexts: int, within: bool) -> Floats:
    """Return an estimate of `_about_mean` free of rating error, from products of ratings by different annotators."""
    item, annotator = ratings["item"].to_numpy(), pd.factorize(ratings["annotator"])[0]
    score = ratings["score"].to_numpy(float)
    if within:
        square, own, size = _products_within(item, annotator, score, codes, contexts)
        return _centred(square, own, own, size, within)
    items = np.unique(item)
    at, sums = codes[items], np.ones((4, len(items)))
    for start, products in _products(item, annotator, score):
        rows = slice(start, start + len(products))
        inside = np.where(at[rows, None] == at, products, 0.0)
        sums[:3, rows] = np.diagonal(products, start), inside.sum(axis=1), products.sum(axis=1)
    square, own, totals, size = (np.bincount(at, values, contexts).astype(float) for values in sums)
    return _centred(square, own, totals, size, within)


def _products_within(
    item: Codes, annotator: Codes, score: Floats, codes: Codes, contexts: int
) -> tuple[Floats, Floats, Floats]:
    """Return Σ pᵢᵢ, Σ pᵢⱼ over pairs of items, and n for each context; p as in `_products`."""
    items, item = np.unique(item, return_inverse=True)
    home, context = codes[items], codes[items][item]
    rated = np.bincount(context, minlength=contexts)
    centred = score - (np.bincount(context, score, contexts) / np.maximum(rated, 1))[context]
    place = np.unique(context.astype(np.int64) * (annotator.max(initial=0) + 1) + annotator, return_inverse=True)[1]
    shape = (len(items), int(place.max(initial=-1)) + 1)
    scores, ones = (scipy.sparse.csr_array((values, (item, place)), shape) for values in (centred, np.ones(len(item))))
    at = scipy.sparse.csr_array((np.ones(len(items)), (np.arange(len(items)), home)), (len(items), contexts))
    one, two = (at @ at.T).nonzero()
    sums, counts = np.bincount(item, centred, len(items)), np.bincount(item, minlength=len(items)).astype(float)
    alike, both = ((matrix @ matrix.T)[one, two] for matrix in (scores, ones))
    products = (sums[one] * sums[two] - alike) / (counts[one] * counts[two] - both)
    chosen = (one == two, np.ones(len(one), bool))
    square, own = (np.bincount(home[one][each], products[each], contexts).astype(float) for each in chosen)
    return square, own, np.bincount(home, minlength=contexts).astype(float)


def _products(item: Codes, annotator: Codes, score: Floats) -> Iterator[tuple[int, Floats]]:
    """Yield the mean product of ratings of two items by different annotators: the first row, and rows × all items."""
    items, item = np.unique(item, return_inverse=True)
    names, annotator = np.unique(annotator, return_inverse=True)
    scores, rated = np.zeros((2, len(items), len(names)))
    scores[item, annotator] = score - score.mean()
    rated[item, annotator] = 1
    sums, counts = scores.sum(axis=1), rated.sum(axis=1)
    step = max(1, _PRODUCTS // max(len(items), 1))
    for start in range(0, len(items), step):
        rows = slice(start, start + step)
        products = np.outer(sums[rows], sums) - scores[rows] @ scores.T
        yield start, products / (np.outer(counts[rows], counts) - rated[rows] @ rated.T)


def _centred(square: Floats, own: Floats, rows: Floats, size: Floats, within: bool) -> Floats:
    """Return Σᵢ pᵢᵢ − Σᵢⱼ pᵢⱼ / n within contexts, or over all; for all contexts, and without each.

    Parameters
    ----------
    square, own, rows, size : numpy.ndarray, shape (contexts,)
        For each context: Σ pᵢᵢ, Σ pᵢⱼ over its pairs of items, Σ pᵢⱼ of its items with those of all contexts, and n.
    within : bool
        Compute this within each context and sum, rather than over all items.
    """
    if within:
        return without_each(square - own / np.maximum(size, 1))
    pairs = np.concatenate([[rows.sum()], rows.sum() - 2 * rows + own])
    centred: Floats = without_each(square) - pairs / np.maximum(without_each(size), 1)
    return centred


_COLUMNS = ("ratings", "annotators")
_ROUNDED = 1e-5  # maximum distance of a mean score from its ratings, as a share of the largest sum


def read_ratings(frame: pd.DataFrame, human: Floats) -> pd.DataFrame:
    """Return one row per rating: the number of its ``item``, the ``annotator`` and the ``score``.

    Many items have the same ratings by the same annotators, so each combination is parsed once.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item: ``ratings`` and ``annotators``, separated by spaces; both may be missing.
    human : numpy.ndarray, shape (items,)
        The mean human score of each item.

    Raises
    ------
    TrialsError
        If an item has more or fewer annotators than ratings, or the mean of its ratings is not its human score.

    Examples
    --------
    >>> read_ratings(pd.DataFrame({"ratings": ["1 3", "", "2"]}), np.array([2.0, 1, 2])).to_numpy().tolist()
    [[0, '0', 1.0], [0, '1', 3.0], [2, '0', 2.0]]
    """
    texts = [frame[name].fillna("").astype(str) if name in frame else [""] * len(frame) for name in _COLUMNS]
    (ratings, rated), (names, named) = (pd.factorize(np.asarray(column, object)) for column in texts)
    distinct, which = np.unique(ratings * max(len(named), 1) + names, return_inverse=True)
    parsed = [_parse(rated[code // len(named)], named[code % len(named)]) for code in distinct]
    lengths = np.array([len(scores) for scores, _ in parsed], np.intp)
    counts, starts = lengths[which], (np.cumsum(lengths) - lengths)[which]
    item = np.repeat(np.arange(len(frame)), counts)
    at = np.arange(len(item)) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    score = np.array([float(score) for scores, _ in parsed for score in scores])[at]
    annotator = np.array([name for _, who in parsed for name in who], object)[at]
    sums = np.bincount(item, score, len(frame))
    if (np.abs(sums - counts * human)[counts > 0] > _ROUNDED * np.abs(sums).max(initial=1.0)).any():
        raise TrialsError.plain("the mean of some ratings is not the human score; column 'ratings' needs all")
    return pd.DataFrame({"item": item, "annotator": annotator, "score": score})


def _parse(ratings: str, annotators: str) -> tuple[list[str], list[str]]:
    """Return an item's scores and annotators; without annotators, the position in the list identifies them."""
    scores = ratings.split()
    names = (annotators.split() if scores else []) or [str(position) for position in range(len(scores))]
    if len(names) != len(scores):
        raise TrialsError.plain("column 'annotators' does not name one annotator per rating")
    return scores, names
