"""Simultaneous intervals for several systems, and for their ranks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from biaslab.core.arrays import Floats
from biaslab.correct.estimators import Fitted, Target
from biaslab.stats import Estimate, undefined

_DRAWS = 20_000
_RIDGE = 1e-9  # differences of estimates are linearly dependent


def at_once(
    fits: list[Fitted], target: Target, level: float, seed: int, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> list[Estimate]:
    """Estimate several values with simultaneous intervals.

    Parameters
    ----------
    fits : list of Fitted
        One per system, with the same names of contexts.
    target, level
        As in `biaslab.correct.estimators.Fitted.estimate`.
    seed : int
        Random seed.
    bounds : tuple of float
        Smallest and largest possible value.

    Returns
    -------
    list of Estimate
        The quantile of t is replaced by that of the largest |t|, simulated from the multivariate t distribution with
        the correlations of the estimates (max-t; Hothorn, Bretz & Westfall 2008).
    """
    single = [fit.estimate(target, level, bounds=bounds) for fit in fits]
    if len(fits) < 2 or not all(estimate.se > 0 for estimate in single):
        return single
    errors = np.column_stack([fit.errors(target) for fit in fits])
    reach = _quantile(errors, min(fit.sample for fit in fits), level, seed)
    words = f", simultaneous over {len(fits)}"
    intervals = [
        np.clip((one.estimate - reach * one.se, one.estimate + reach * one.se), *bounds).tolist() for one in single
    ]
    return [
        replace(one, ci_low=low, ci_high=high, method=one.method + words)
        for one, (low, high) in zip(single, intervals, strict=True)
    ]


def ranks(fits: list[Fitted], target: Target, level: float, seed: int) -> list[Estimate]:
    """Estimate the rank of each system (1 = best), with simultaneous intervals.

    Parameters
    ----------
    fits, target, level, seed
        As in `at_once`.

    Returns
    -------
    list of Estimate
        A rank is at least 1 plus the number of systems shown to be better, and at most the number of systems minus
        those shown to be worse, by max-t intervals for all differences.

    References
    ----------
    Klein, Wright & Wieczorek 2020, *A joint confidence region for an overall ranking of populations*, JRSS C 69;
    Mogstad, Romano, Shaikh & Wilhelm 2024, *Inference for ranks*, Review of Economic Studies 91.
    """
    values = np.array([fit.value for fit in fits])
    if np.isnan(values).any():
        note = next((fit.note for fit in fits if np.isnan(fit.value)), "")
        return [undefined(note or "undefined: a system has no estimate", fit.contexts) for fit in fits]
    places = 1 + np.array([np.sum(values > value) + (np.sum(values == value) - 1) / 2 for value in values])
    best, worst = np.ones(len(fits), int), np.full(len(fits), len(fits))
    pairs = list(combinations(range(len(fits)), 2))
    gaps = [fits[a].errors(target) - fits[b].errors(target) for a, b in pairs]
    errors = np.column_stack(gaps) if gaps else np.zeros((1, 0))
    size = np.linalg.norm(errors, axis=0)
    reach = _quantile(errors[:, size > 0], min(fit.sample for fit in fits), level, seed) if (size > 0).any() else 0.0
    for (a, b), error in zip(pairs, size, strict=True):
        gap = values[a] - values[b]
        if abs(gap) > reach * error:
            better, worse = (a, b) if gap > 0 else (b, a)
            best[worse] += 1
            worst[better] -= 1
    method = f"max-t over {len(pairs)} differences, contexts"
    return [
        Estimate(float(p), np.nan, float(low), float(high), np.nan, np.nan, fit.contexts, method, fit.note)
        for p, low, high, fit in zip(places, best, worst, fits, strict=True)
    ]


def _quantile(errors: Floats, sample: int, level: float, seed: int) -> float:
    """Return the quantile of the largest |t| by simulation; columns are estimates."""
    rng = np.random.default_rng(seed)
    scaled = errors / np.linalg.norm(errors, axis=0)
    factor = np.linalg.cholesky(scaled.T @ scaled + _RIDGE * np.eye(scaled.shape[1]))  # the same on every processor
    drawn = np.abs(rng.normal(size=(_DRAWS, len(factor))) @ factor.T).max(axis=1)
    df = sample - 1
    return float(np.quantile(drawn / np.sqrt(rng.chisquare(df, _DRAWS) / df), level))
