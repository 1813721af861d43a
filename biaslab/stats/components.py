"""Variance components of scores of the same items under several conditions: items, conditions and residual.

Generalizability theory treats a score as a sample from a universe of admissible conditions, such as prompts; the
components are the shares of its variance due to each facet (Brennan 2001, *Generalizability Theory*; Shavelson & Webb
1991, *Generalizability Theory: A Primer*).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError
from biaslab.stats.estimate import Estimate, is_rounding, settled, undefined
from biaslab.stats.inference import Resampling
from biaslab.stats.permutation import patterns

#: Expected mean squares in closed form, or restricted maximum likelihood by `statsmodels`.
Fit = Literal["anova", "reml"]
_TWO = 2  # minimum number of conditions, and of contexts


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
            raise InputError("scores", "NaN", "items scored under every condition")

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return int(self.context.max(initial=-1)) + 1

    @property
    def why_undefined(self) -> str:
        """Why components are undefined; "" if they are defined."""
        if self.scores.shape[1] < _TWO:
            return "undefined: only one condition"
        if self.contexts < _TWO:
            return "undefined: no items left" if self.contexts == 0 else "undefined: only one context"
        return ""

    def sampling(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the variance between samples of a request, and its part in the mean scores; shape (replicates,).

        Both are 0 without sampling; NaN and 0 if no request has two samples.
        """
        if self.squares is None or self.degrees is None or self.sizes is None:
            return np.zeros(len(weights)), np.zeros(len(weights))
        squares, degrees, share, cells = (
            weights @ np.bincount(self.context, column.sum(axis=1), self.contexts)
            for column in (self.squares, self.degrees, 1 / self.sizes, np.ones_like(self.scores))
        )
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
    frame = pd.DataFrame(
        {
            "y": y.ravel(),
            "context": np.repeat(crossed.context[kept], j),
            "item": np.repeat(np.arange(len(y)), j),
            "condition": np.tile(np.arange(j), len(y)),
        }
    )
    several = bool(np.bincount(crossed.context[kept]).max(initial=0) > 1)
    crossing = {"item": "0 + C(item)", "condition": "0 + C(condition)"} if several else None
    nothing = (np.full(1, math.nan),) * 5
    if np.ptp(y) == 0:
        return nothing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at components of 0 statsmodels warns about convergence
            model = MixedLM.from_formula(
                "y ~ C(condition)", frame, groups="context", re_formula="1", vc_formula=crossing
            )
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
        return undefined("undefined: no items left", contexts)
    total, norm = counts.sum(), math.sqrt(j - 1)
    mean = deviations.sum(axis=0) / total
    seen = float(np.linalg.norm(mean)) / norm
    if contexts < _TWO:
        return Estimate(seen, *(math.nan,) * 5, contexts, "none", "no interval: only one context")
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
    low, high, p_value = settled(interval, 0.0, p_value, resampling.level)
    return Estimate(value, error, low, high, p_value, math.nan, contexts, "sign flips of contexts, triangle inequality")


def _norms(deviations: Floats, seed: int, scale: float) -> Floats:
    """Return the spread of means for each pattern of context signs."""
    every = patterns(len(deviations), seed)
    return np.concatenate([np.linalg.norm((1 - 2 * flips) @ deviations, axis=1) for flips in every]) / scale
