"""Cluster-robust regression: linear models, also within contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_share
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.estimate import ROUNDING, Estimate, is_rounding, undefined, without_interval
from biaslab.stats.inference import Resampling, grouped_codes
from biaslab.stats.t_inference import effect_or_why_not, student


def linear_model(
    frame: pd.DataFrame,
    formula: str,
    context: str = "context_id",
    within: bool = False,
    level: float = 0.95,
    clusters: Mapping[Any, Any] | None = None,
) -> dict[str, Estimate]:
    """Fit a linear model by least squares, with intervals and tests over contexts.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item. Rows with a missing variable or context are dropped.
    formula : str
        A `patsy` formula, such as ``"score ~ log_perplexity + human"``.
    context : str
        Column of the context.
    within : bool
        Give each context its own intercept: all variables are centred within contexts, and the model loses its
        intercept. Equivalent to indicator variables for contexts, whatever their number.
    level : float
        Confidence level, between 0 and 1.
    clusters : mapping, optional
        The cluster of each context that is not independent; the jackknife leaves out whole clusters. Intercepts remain
        those of contexts.

    Returns
    -------
    dict of str to Estimate
        By term. Standard errors come from the cluster jackknife (CR3): the variation of the coefficients when leaving
        out one context at a time, √((G − 1) / G Σ (b₍g₎ − b)²). Each term is tested against 0 by t with G − 1 degrees
        of freedom, where G is ``n_contexts``. NaN, with a note, for terms that are not identified (constant, or
        collinear with others), and with fewer than two contexts.

    Raises
    ------
    InputError
        If the formula is invalid, or the level is outside 0 to 1.
    TrialsError
        If the frame has no column ``context``.

    References
    ----------
    Cameron & Miller 2015, *A Practitioner's Guide to Cluster-Robust Inference*, J. Human Resources 50(2), §II.C, §VI.

    Examples
    --------
    >>> frame = pd.DataFrame({"context_id": [*"aabbccdd"], "x": [0, 1] * 4, "y": [1, 3, 2, 5, 0, 2, 4, 5]})
    >>> slope = linear_model(frame, "y ~ x", within=True)["x"]
    >>> round(slope.estimate, 3), round(slope.p_value, 3)
    (2.0, 0.016)
    """
    require_share("level", level, "use 0.95 for 95 %")
    y, x, names, homes = _read_formula(frame, formula, context)
    codes = pd.factorize(homes)[0]
    if within and len(codes):
        names = [name for name in names if name != "Intercept"]
        y, x = demeaned(y[:, None], codes)[:, 0], demeaned(x[:, len(x[0]) - len(names) :], codes)
    if clusters:
        codes = pd.factorize(Resampling(clusters=clusters).cluster_of(homes))[0]
    contexts = len(np.unique(codes))
    kept, reasons = identified(y, x, names, contexts)
    estimates = {name: undefined(reason, contexts) for name, reason in reasons.items()}
    if kept:
        x = x[:, kept]
        b: Floats = np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], float)
        errors = jackknife_errors(x, y - x @ b, grouped_codes(codes))
        reach = np.abs(x).max(axis=0)  # a coefficient times it is in the unit of the outcome, whatever the unit of x
        b, errors = (np.where(is_rounding(part * reach, np.abs(y).max()), 0.0, part) for part in (b, errors))
        method = f"least squares{' within contexts' if within else ''}, cluster jackknife (CR3), t"
        estimates |= {
            names[k]: coefficient_by_t(value, error, contexts, level, method)
            for k, value, error in zip(kept, b, errors, strict=True)
        }
    return {name: estimates[name] for name in names}


def jackknife_errors(x: Floats, residuals: Floats, codes: Codes, weights: Floats | float = 1.0) -> Floats:
    """Return cluster-jackknife (CR3) standard errors of coefficients: √((G − 1) / G Σ (b₍g₎ − b)²).

    Each b₍g₎ is one Newton step from b, which is exact for least squares.

    Parameters
    ----------
    x : numpy.ndarray, shape (rows, terms)
        The variables.
    residuals, weights : numpy.ndarray, shape (rows,)
        Outcome minus fitted value, and the variance function: 1 for least squares, p (1 − p) for log odds.
    codes : numpy.ndarray, shape (rows,)
        Index of each row's context, from 0.

    Returns
    -------
    numpy.ndarray, shape (terms,)
        All NaN if a single context determines a term.
    """
    contexts, shifts = int(codes.max()) + 1, jackknife_shifts(x, residuals, codes, weights)
    errors: Floats = np.sqrt((contexts - 1) / contexts * np.sum(shifts**2, axis=0))
    return errors


def jackknife_shifts(x: Floats, residuals: Floats, codes: Codes, weights: Floats | float = 1.0) -> Floats:
    """Return the change of coefficients when each context is left out, b₍g₎ − b; shape (contexts, terms).

    The parameters are those of `jackknife_errors`; all NaN if a single context determines a term.
    """
    contexts, k = int(codes.max()) + 1, x.shape[1]
    scale = np.abs(x).max(axis=0)
    x = x / scale
    gram = sums_of_products(x, codes, weights)
    score = np.column_stack([np.bincount(codes, column * residuals, contexts) for column in x.T])
    without = gram.sum(axis=0) - gram
    if (np.linalg.cond(without) > 1e12).any():
        return np.full((contexts, k), np.nan)
    shifts: Floats = np.linalg.solve(without, -score[:, :, None])[:, :, 0] / scale
    return shifts


def sums_of_products(x: Floats, codes: Codes, weights: Floats | float = 1.0) -> Floats:
    """Return Σ w x xᵀ in each context, shape (contexts, columns, columns), without an array of all products."""
    contexts, k = int(codes.max()) + 1, x.shape[1]
    sums = np.zeros((contexts, k, k))
    for i, j in zip(*np.triu_indices(k), strict=True):
        sums[:, i, j] = sums[:, j, i] = np.bincount(codes, weights * x[:, i] * x[:, j], contexts)
    return sums


def coefficient_by_t(value: float, error: float, contexts: int, level: float, method: str) -> Estimate:
    """Return a coefficient with its interval and its test against 0, by t with G − 1 degrees of freedom."""
    value, error = float(value), float(error)
    if not error > 0:
        reason = (
            "no interval: the term depends on one context"
            if math.isnan(error)
            else "no interval: residuals do not vary"
        )
        return replace(without_interval(value, contexts, reason), method=method)
    low, high = student(value, error, contexts, level)
    p_value = 2 * float(stats.t.sf(abs(value) / error, contexts - 1))
    effect, note = effect_or_why_not(error, contexts)
    return Estimate(value, error, low, high, p_value, effect, contexts, method, note)


def _read_formula(frame: pd.DataFrame, formula: str, context: str) -> tuple[Floats, Floats, list[str], pd.Series]:
    """Return outcome, variables, their names, and each row's context."""
    import patsy  # type: ignore[import-untyped]

    if context not in frame.columns:
        raise TrialsError("frame columns", list(frame.columns), f"the context column {context!r}")
    known = frame[frame[context].notna()].reset_index(drop=True)
    if known.select_dtypes("number").isin([np.inf, -np.inf]).any(axis=None):
        raise InputError("frame", math.inf, "finite numbers, or NaN if missing")
    try:
        y, x = patsy.dmatrices(formula, known, return_type="dataframe")
    except (patsy.PatsyError, ValueError, SyntaxError) as error:
        raise InputError("formula", formula, f"a formula over the columns of the frame ({error})") from None
    if y.shape[1] != 1:
        raise InputError("formula", formula, "an outcome with one number per row")
    return y.to_numpy(float)[:, 0], x.to_numpy(float), list(x.columns), known.loc[x.index, context]


def demeaned(columns: Floats, codes: Codes) -> Floats:
    """Centre each column within contexts, setting rounding errors to 0."""
    count = np.bincount(codes)
    means = np.column_stack([np.bincount(codes, column) / count for column in columns.T])
    left = columns - means[codes]
    return np.where(np.abs(left) <= ROUNDING * np.abs(columns).max(axis=0, initial=0.0), 0.0, left)


def identified(y: Floats, x: Floats, names: list[str], contexts: int) -> tuple[list[int], dict[str, str]]:
    """Return the indices of the estimable terms, in order, and the reasons for the others."""
    if contexts < 2:
        reason = "undefined: no rows left" if contexts == 0 else "undefined: only one context"
        return [], dict.fromkeys(names, reason)
    if is_rounding(np.ptp(y), np.abs(y).max()):
        return [], dict.fromkeys(names, "undefined: the outcome does not vary")
    kept: list[int] = []
    reasons: dict[str, str] = {}
    scale = np.abs(x).max(axis=0)
    scaled = x / np.where(scale > 0, scale, 1.0)
    for k, name in enumerate(names):
        if np.linalg.matrix_rank(scaled[:, [*kept, k]], tol=1e-9 * math.sqrt(len(x))) > len(kept):
            kept.append(k)
        else:
            reasons[name] = "undefined: the term is collinear with the others"
    if len(kept) >= len(x):
        return [], dict.fromkeys(names, "undefined: as many terms as rows")
    return kept, reasons
