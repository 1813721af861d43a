"""Cluster-robust regression: linear and logistic models, also with error in the human scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy import special
from scipy.special import expit, logit

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_share
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.estimate import FEWEST, ROUNDING, Estimate, Note, because, is_rounding, undefined, without_interval
from biaslab.stats.frame import require_columns
from biaslab.stats.reliability import (
    LEAST_RELIABILITY,
    Corrected,
    RatingError,
    rating_error,
    too_unreliable,
)
from biaslab.stats.resample import Resampling, grouped, grouped_codes, without_each
from biaslab.stats.t_inference import effect_and_notes, student

_TOO_UNRELIABLE = because(
    "unreliable_ratings", "human scores are too unreliable (reliability {reliability:.2f} given {given})"
)
_TOO_UNCERTAIN = because(
    "uncertain_reliability",
    "human scores are too unreliable for so few contexts (reliability {reliability:.2f} given {given}, standard error "
    "{error:.2f})",
)
NO_RESIDUALS = Note("no_residuals", words="no interval: residuals do not vary")
_FEW_INFORM = Note(
    "few_contexts_inform", words="few of {contexts} contexts inform the estimate (effective number {effective:.1f})"
)


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
        Outcome and terms, columns of numbers, as in ``"score ~ log_perplexity + human"``. The model has an intercept.
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
    codes, units = pd.factorize(homes)
    if within and len(codes):
        names = [name for name in names if name != "Intercept"]
        y, x = demeaned(y[:, None], codes)[:, 0], demeaned(x[:, len(x[0]) - len(names) :], codes)
    if clusters:
        codes, units = pd.factorize(Resampling(clusters=clusters).cluster_of(homes))
    contexts = len(units)
    kept, reasons = identified(y, x, names, contexts)
    estimates = {name: undefined(reason, contexts) for name, reason in reasons.items()}
    if kept:
        x = x[:, kept]
        b: Floats = np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], float)
        shifts = jackknife_shifts(x, y - x @ b, grouped_codes(codes))
        errors, left_out = _errors_of(shifts), b + shifts
        reach = np.abs(x).max(axis=0)  # a coefficient times it is in the unit of the outcome, whatever the unit of x
        b, errors = (np.where(is_rounding(part * reach, np.abs(y).max()), 0.0, part) for part in (b, errors))
        method = f"least squares{' within contexts' if within else ''}, cluster jackknife (CR3), t"
        for k, value, error, without in zip(kept, b, errors, left_out.T, strict=True):
            estimate = coefficient_by_t(value, error, contexts, level, method)
            estimates[names[k]] = _carrying(estimate, units, without)
    return {name: estimates[name] for name in names}


def _errors_of(shifts: Floats) -> Floats:
    """Return cluster-jackknife (CR3) standard errors of coefficients, √((G − 1) / G Σ (b₍g₎ − b)²), from the shifts."""
    return np.asarray(np.sqrt((len(shifts) - 1) / len(shifts) * np.sum(shifts**2, axis=0)), float)


def _carrying(estimate: Estimate, units: pd.Index, left_out: Floats) -> Estimate:
    """Return an estimate with the values without each unit, unless these were left out in random groups."""
    if len(units) != len(left_out):
        return estimate
    return replace(estimate, leave_one_out=(np.asarray(units, object), np.r_[estimate.estimate, left_out]))


def jackknife_shifts(x: Floats, residuals: Floats, codes: Codes, weights: Floats | float = 1.0) -> Floats:
    """Return the change of coefficients when each context is left out, b₍g₎ − b.

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
    numpy.ndarray, shape (contexts, terms)
        All NaN if a single context determines a term.
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


def effective_contexts(x: Floats, codes: Codes, weights: Floats, term: int) -> float:
    """Return the effective number of contexts behind a coefficient: G if all inform it equally, 1 if only one does.

    (Σ s)² / Σ s², where s is a context's share of the term's information given the other terms, its partial leverage.
    Parameters as in `jackknife_shifts`; ``term`` is the column.

    References
    ----------
    Carter, Schnepel & Steigerwald 2017, *Asymptotic behavior of a t-test robust to cluster heterogeneity*, Review of
    Economics and Statistics 99(4).

    Examples
    --------
    >>> x = np.column_stack([np.ones(8), np.repeat([0.0, 1.0], 4)])
    >>> effective_contexts(x, np.arange(8), np.ones(8), 1), effective_contexts(x, np.arange(8) // 2, np.ones(8), 1)
    (8.0, 4.0)
    """
    weighted = x * np.sqrt(weights)[:, None]
    others, own = np.delete(weighted, term, axis=1), weighted[:, term]
    left = own - others @ np.linalg.lstsq(others, own, rcond=None)[0]
    shares = np.bincount(codes, left**2)
    return float(shares.sum() ** 2 / np.sum(shares**2))


def coefficient_by_t(
    value: float, error: float, contexts: int, level: float, method: str, effective: float | None = None
) -> Estimate:
    """Return a coefficient with its interval and its test against 0, by t with G − 1 degrees of freedom.

    G is the number of contexts or, if given, their effective number (`effective_contexts`).
    """
    value, error = float(value), float(error)
    if not error > 0:
        reason = "no interval: the term depends on one context" if math.isnan(error) else NO_RESIDUALS
        return replace(without_interval(value, contexts, reason), method=method)
    counted = contexts if effective is None else effective
    low, high = student(value, error, counted, level)
    p_value = 2 * float(special.stdtr(counted - 1, -abs(value) / error))
    if counted < min(FEWEST, contexts):
        notes: tuple[Note, ...] = (_FEW_INFORM.with_values(contexts=contexts, effective=float(counted)),)
        return Estimate(value, error, low, high, p_value, math.nan, contexts, method, notes)
    effect, notes = effect_and_notes(error, int(counted))
    return Estimate(value, error, low, high, p_value, effect, contexts, method, notes)


def _read_formula(frame: pd.DataFrame, formula: str, context: str) -> tuple[Floats, Floats, list[str], pd.Series]:
    """Return outcome, variables, their names, and each row's context; without rows in which one of them is missing."""
    require_columns(frame, (context,), "frame")
    outcome, _, terms = formula.partition("~")
    names = [name.strip() for name in (outcome, *terms.split("+"))]
    if not set(names) <= set(frame.columns):
        known = ", ".join(map(str, frame.columns))
        raise InputError("formula", formula, f"outcome ~ term + term, each a column of the frame ({known})")
    rows = frame.loc[frame[[context, *names]].notna().all(axis=1)]
    for name in names:
        if not is_numeric_dtype(rows[name]):
            raise InputError("formula", formula, f"columns of numbers; {name} holds {rows[name].dtype}")
    y, x = rows[names[0]].to_numpy(float), rows[list(dict.fromkeys(names[1:]))].to_numpy(float)
    if not (np.isfinite(y).all() and np.isfinite(x).all()):
        raise InputError.plain("frame has an infinite number; write NaN if it is missing")
    x = np.column_stack([np.ones(len(x)), x])
    return y, x, ["Intercept", *dict.fromkeys(names[1:])], rows[context].reset_index(drop=True)


def demeaned(columns: Floats, codes: Codes) -> Floats:
    """Centre each column within contexts, setting rounding errors to 0."""
    count = np.bincount(codes)
    means = np.column_stack([np.bincount(codes, column) / count for column in columns.T])
    left = columns - means[codes]
    return np.where(np.abs(left) <= ROUNDING * np.abs(columns).max(axis=0, initial=0.0), 0.0, left)


_CONSTANT = because("constant_outcome", "the outcome does not vary")
#: Note if no finite log odds exist.
SEPARATED = because(
    "separated",
    "the terms predict every verdict (separation), so log odds are infinite; use more contexts, or "
    "label probabilities instead of verdicts",
)


def identified(
    y: Floats, x: Floats, names: list[str], contexts: int, verdicts: bool = False
) -> tuple[list[int], dict[str, Note]]:
    """Return the indices of the estimable terms of outcomes or verdicts, in order, and the reasons for the others."""
    if contexts < 2:
        reason = because("no_rows", "no rows left") if contexts == 0 else because("one_context", "only one context")
        return [], dict.fromkeys(names, reason)
    if is_rounding(np.ptp(y), np.abs(y).max()):
        return [], dict.fromkeys(names, SEPARATED if verdicts and y[0] in (0, 1) else _CONSTANT)
    kept: list[int] = []
    reasons: dict[str, Note] = {}
    scale = np.abs(x).max(axis=0)
    scaled = x / np.where(scale > 0, scale, 1.0)
    for k, name in enumerate(names):
        if np.linalg.matrix_rank(scaled[:, [*kept, k]], tol=1e-9 * math.sqrt(len(x))) > len(kept):
            kept.append(k)
        else:
            reasons[name] = because("collinear", "the term is collinear with the others")
    if len(kept) >= len(x):
        return [], dict.fromkeys(names, because("saturated", "as many terms as rows"))
    return kept, reasons


_LOGISTIC_METHOD = "logistic regression, linearised cluster jackknife (CR3), t"
_STEPS, _CLOSE = 50, 1e-8  # maximum number of steps; change of any logit at convergence, which is quadratic
_FEW_STEPS = 12  # of fits without a context, which are close to the full one
_FAR = 20.0  # logits; if the fit keeps growing beyond this, the terms separate the verdicts


def logistic_model(
    frame: pd.DataFrame, outcome: str, terms: Sequence[str], resampling: Resampling, effective: bool = False
) -> dict[str, Estimate]:
    """Fit a logistic model to an outcome in 0 to 1 by quasi-likelihood, with intervals and tests over contexts.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per verdict: ``context_id``, the outcome (0, 1, ½ for a tie, or a share), and the terms. Rows with a
        missing value are dropped.
    outcome : str
        Column of the outcome.
    terms : sequence of str
        Numeric columns. There is no intercept unless one of them is a column of ones.
    resampling : Resampling
        Confidence level and clusters.
    effective : bool
        For the last term, use the effective number of contexts (`effective_contexts`) for the degrees of freedom,
        because few contexts may inform it.

    Returns
    -------
    dict of str to Estimate
        By term, in log odds. Standard errors come from the linearised cluster jackknife: one Newton step from the full
        fit to that without each context. Tested against 0 by t with G − 1 degrees of freedom. NaN, with a note, if the
        terms are not identified or separate the verdicts.

    References
    ----------
    Papke & Wooldridge 1996, *Econometric methods for fractional response variables*, J. Applied Econometrics 11;
    MacKinnon, Nielsen & Webb 2023, *Cluster-robust jackknife and bootstrap inference for logistic regression models*.

    Examples
    --------
    >>> frame = pd.DataFrame({"context_id": [*"aabbccddee"], "own": 1.0, "won": [1, 0, 1, 1, 0, 1, 1, 0, 1, 1.0]})
    >>> estimate = logistic_model(frame, "won", ["own"], Resampling())["own"]
    >>> round(estimate.estimate, 3), round(float(np.log(7 / 3)), 3)
    (0.847, 0.847)
    """
    known = frame[frame[[outcome, *terms, "context_id"]].notna().all(axis=1)]
    y, x = known[outcome].to_numpy(float), known[list(terms)].to_numpy(float)
    codes, units = pd.factorize(resampling.cluster_of(known["context_id"]))
    contexts = len(units)
    kept, reasons = identified(y, x, list(terms), contexts, verdicts=True)
    x, identifiable = x[:, kept], [terms[k] for k in kept]
    b = fitted_log_odds(y, x) if kept else None
    if b is None:
        reasons |= dict.fromkeys(identifiable, SEPARATED)
    estimates = {name: undefined(reason, contexts) for name, reason in reasons.items()}
    if b is not None:
        p = expit(x @ b)
        weights, groups = p * (1 - p), grouped_codes(codes, resampling.seed)
        shifts = jackknife_shifts(x, y - p, groups, weights)
        errors, left_out = _errors_of(shifts), _refitted(y, x, codes, b + shifts, resampling)
        for k, (name, value, error) in enumerate(zip(identifiable, b, errors, strict=True)):
            counted = effective_contexts(x, codes, weights, k) if effective and name == terms[-1] else None
            estimate = coefficient_by_t(value, error, contexts, resampling.level, _LOGISTIC_METHOD, counted)
            estimates[name] = _carrying(estimate, units, left_out[:, k]) if resampling.leave_one_out else estimate
    return {name: estimates[name] for name in terms}


_MOST_REFITTED = 30_000_000  # rows times contexts; with more, one Newton step is as close


def _refitted(y: Floats, x: Floats, codes: Codes, b: Floats, resampling: Resampling) -> Floats:
    """Refit log odds without each context if wanted, from one Newton step each; shape (contexts, terms).

    NaN if there are none without a context, which may separate the verdicts.
    """
    if not resampling.leave_one_out or len(b) * len(y) > _MOST_REFITTED or np.isnan(b).any():
        return b
    kept, products = codes != np.arange(len(b))[:, None], (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    for _ in range(_FEW_STEPS):
        p = expit(b @ x.T)
        gram = ((kept * p * (1 - p)) @ products).reshape(len(b), x.shape[1], -1)
        moved = np.linalg.solve(gram, ((kept * (y - p)) @ x)[:, :, None])[:, :, 0]
        b = b + moved
        if (change := np.abs(moved @ x.T).max(axis=1)).max() <= _CLOSE:
            break
    return np.where((change <= _CLOSE)[:, None], b, np.nan)


def fitted_log_odds(y: Floats, x: Floats) -> Floats | None:
    """Return the coefficients of the quasi-binomial GLM; None if not finite.

    Iteratively reweighted least squares from the start of statsmodels' GLM, which needs about six times the memory
    (1.1 GB instead of .19 for 2,000,000 verdicts and four terms).
    """
    mean = (y + 0.5) / 2
    fitted = logit(mean)
    for _ in range(_STEPS):
        weighted = x * (mean * (1 - mean))[:, None]
        try:
            b = np.asarray(np.linalg.solve(x.T @ weighted, weighted.T @ fitted + x.T @ (y - mean)), float)
        except np.linalg.LinAlgError:
            return None
        before, fitted = fitted, x @ b
        if np.abs(fitted - before).max() <= _CLOSE:
            return b if np.abs(fitted).max() <= _FAR else None
        mean = expit(fitted)
    return None


def slope_at_equal(
    frame: pd.DataFrame,
    outcome: str,
    feature: str,
    resampling: Resampling,
    within: bool = True,
    beside: Sequence[str] = (),
) -> Corrected:
    """Regress an outcome on a feature and the mean human score, subtracting the latter's error variance.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per item: ``context_id, human``, the named columns and, if known, ``ratings`` and ``annotators`` as
        read by `biaslab.stats.reliability.rating_error`. Rows with a missing variable are dropped.
    outcome, feature : str
        Numeric columns. Annotators' errors must be independent of both.
    resampling : Resampling
        Confidence level and clusters; the jackknife leaves out whole clusters.
    within : bool
        Whether each context has its own intercept.
    beside : sequence of str
        Further covariates, measured without error.

    Returns
    -------
    Corrected
        The slope on the feature, for a share of shared errors. In the normal equations of least squares, the error
        variance of annotators is subtracted from Σh̄²; errors enter no other product, in expectation. Except for
        Fuller's small-sample term, this equals instrumental variables with one annotator's score as the instrument for
        another's, averaged over all ordered pairs of annotators. Standard errors come from the cluster jackknife
        (CR3), which recomputes everything without each context; t with G − 1 degrees of freedom, of the slope or, if
        its denominator is poorly known, by Fieller's method (`biaslab.stats.regression.Attenuated`). NaN, with a note,
        if the reliability is below .3, if less than a tenth of the human scores' variance given the feature is true,
        or if it might all be error.

    References
    ----------
    Fuller 1987, *Measurement Error Models*, §2.2, Eq. 2.2.12, and §2.5; Cameron & Miller 2015 for CR3; Fieller 1954.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality, context = rng.normal(size=240), np.repeat(np.arange(40), 6)
    >>> frame = pd.DataFrame({"context_id": context, "score": quality, "length": quality + rng.normal(size=240)})
    >>> ratings = quality[:, None] + rng.normal(size=(240, 2))
    >>> frame = frame.assign(human=ratings.mean(axis=1), ratings=[f"{one} {two}" for one, two in ratings])
    >>> frame["score"] += 0.3 * rng.normal(size=240)
    >>> slope = slope_at_equal(frame, "score", "length", Resampling())
    >>> naive = slope_at_equal(frame.drop(columns="ratings"), "score", "length", Resampling())
    >>> round(naive(0.0).estimate, 2), slope(0.0).ci_low < 0 < slope(0.0).ci_high
    (0.24, True)
    """
    fit = JointSlopes.of(frame, outcome, [*beside, feature], resampling, within)
    return (lambda _: fit) if isinstance(fit, Estimate) else fit.at(feature)


@dataclass(frozen=True)
class JointSlopes:
    """Slopes of several terms at equal human score: `slope_at_equal` for each of them, from one fit.

    Attributes
    ----------
    terms : sequence of str
        The terms; the human score follows as last variable.
    equations : NormalEquations
        Their normal equations, for all contexts and leaving out each.
    units : pandas.Index
        Contexts or clusters.
    within : bool
        Whether each context has its own intercept.
    reach : numpy.ndarray, shape (terms,)
        Largest value of each term: its slope times it is in the unit of the outcome, whose magnitude is ``size``.
    """

    terms: Sequence[str]
    equations: NormalEquations
    units: pd.Index
    resampling: Resampling
    within: bool
    reach: Floats
    size: float

    @classmethod
    def of(
        cls, frame: pd.DataFrame, outcome: str, terms: Sequence[str], resampling: Resampling, within: bool = True
    ) -> JointSlopes | Estimate:
        """Fit the terms, or return why the last of them is not estimated; parameters as in `slope_at_equal`."""
        names = [*terms, "human"]
        known = frame[frame[[outcome, *names, "context_id"]].notna().all(axis=1)]
        known, groups = grouped(known, within, resampling)
        codes, units = pd.factorize(known["context_id"])
        units, error = pd.unique(resampling.cluster_of(units)), rating_error(known, within).of_clusters(groups)
        y, x = known[outcome].to_numpy(float), known[names].to_numpy(float)
        contexts = len(error.spread) - 1
        y, x = (y, x) if not len(y) else (y - y.mean(), x - x.mean(axis=0))
        if within and len(y):
            y, x = demeaned(y[:, None], codes)[:, 0], demeaned(x, codes)
        elif not within:
            x, names = np.column_stack([np.ones(len(x)), x]), ["Intercept", *names]
        kept, reasons = identified(y, x, names, contexts)
        if len(kept) < len(names):
            return undefined(reasons.get(terms[-1]) or reasons.get("human") or "undefined", contexts)
        equations = NormalEquations.of(y, x, codes if groups is None else groups[codes], error)
        reach = np.abs(x).max(axis=0)[-len(terms) - 1 : -1]
        return cls(terms, equations, units, resampling, within, reach, float(np.abs(y).max()))

    def corrected(self, shared: float, term: str) -> tuple[Attenuated, float]:
        """Return a term's slope at equal human score, for a share of shared errors, and 1, as `JointLogOdds`."""
        return self.equations.corrected(shared, list(self.terms).index(term) - len(self.terms) - 1), 1.0

    def at(self, term: str) -> Corrected:
        """Return the slope of a term for a share of shared errors."""
        place, error = list(self.terms).index(term), self.equations.error
        method = f"errors in variables{' within contexts' if self.within else ''}"

        def at(shared: float) -> Estimate:
            if why_not := too_unreliable(error, shared):
                return undefined(why_not, len(error.spread) - 1)
            ratio = self.corrected(shared, term)[0]
            estimate = ratio.estimate(self.resampling.level, method, term, self.reach[place], self.size)
            return _carrying(estimate, self.units, ratio.leave_one_out(error, shared))

        return at


_MOST_BENDS, _PER_BEND = 4, 10  # in the effect of quality; residual degrees of freedom for each


def bent_slope_at_equal(
    frame: pd.DataFrame,
    outcome: str,
    feature: str,
    resampling: Resampling,
    within: bool = True,
    beside: Sequence[str] = (),
) -> Corrected:
    """Regress an outcome on a feature and on quality, whose effect may bend at up to four of its quantiles.

    Quality is what human scores and covariates predict of it, without their error (regression calibration; Carroll,
    Ruppert, Stefanski & Crainiceanu 2006, ch. 4). That is exact if quality, feature and error are jointly normal;
    standard errors take the prediction as known. With a feature that hardly differs from quality, or a skewed one, and
    two ratings, it rejects too often by itself, so that it is used beside `slope_at_equal`, not instead. Parameters and
    result as there.
    """
    names = [*beside, feature, "human"]
    known = frame[frame[[outcome, *names, "context_id"]].notna().all(axis=1)]
    codes, x, error = pd.factorize(known["context_id"])[0], known[names].to_numpy(float), rating_error(known, within)
    centred = demeaned(x, codes if within else np.zeros_like(codes)) if len(x) else x

    def at(shared: float) -> Estimate:
        if why_not := too_unreliable(error, shared):
            return undefined(why_not, len(error.spread) - 1)
        noise = small_sample_error(error, shared)[0]
        quality = x[:, -1]
        if noise > 0:
            gram = centred.T @ centred
            true = gram[-1] - np.r_[np.zeros(len(names) - 1), noise]
            quality = quality + centred @ (np.linalg.lstsq(gram, true, rcond=None)[0] - np.eye(len(names))[-1])
        free = len(quality) - (codes.max() if within else 0)  # items beyond the intercepts
        knots = knots_of(quality, min(_MOST_BENDS, free // _PER_BEND))
        bends = {f"bend_{place}": np.maximum(quality - at, 0.0) for place, at in enumerate(knots)}
        formula = " + ".join([*beside, *bends, "human", feature])
        of = known.assign(human=quality, **bends)
        options: dict[str, Any] = {"within": within, "level": resampling.level, "clusters": resampling.clusters}
        return linear_model(of, f"{outcome} ~ {formula}", **options)[feature]

    return at


def knots_of(quality: Floats, most: int = _MOST_BENDS) -> list[float]:
    """Return equidistant quantiles of a variable that lie clear of its ends and of each other.

    Examples
    --------
    >>> knots_of(np.arange(11.0)), knots_of(np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0]))
    ([2.0, 4.0, 6.0, 8.0], [2.0])
    """
    low, high = float(quality.min()), float(quality.max())
    knots = [low]
    for at in np.quantile(quality, np.arange(1, most + 1) / (most + 1)):
        if not (is_rounding(float(at) - knots[-1], high - low) or is_rounding(high - float(at), high - low)):
            knots.append(float(at))
    return knots[1:]


@dataclass(frozen=True)
class NormalEquations:
    """Normal equations of least squares, for all contexts and leaving out each; the last column is the human score.

    Attributes
    ----------
    gram : numpy.ndarray, shape (1 + contexts, columns, columns)
        Σ x xᵀ, each column scaled by its largest value.
    score : numpy.ndarray, shape (1 + contexts, columns, 1)
        Σ x y.
    error : RatingError
        The error part of Σh̄².
    scale : numpy.ndarray, shape (columns,)
        The largest value of each column.
    """

    gram: Floats
    score: Floats
    error: RatingError
    scale: Floats

    @classmethod
    def of(cls, y: Floats, x: Floats, codes: Codes, error: RatingError) -> NormalEquations:
        """Sum the products of all rows, and without each context."""
        contexts, scale = int(codes.max()) + 1, np.abs(x).max(axis=0)
        x = x / scale
        score = np.column_stack([np.bincount(codes, column * y, contexts) for column in x.T]).astype(float)
        return cls(without_each(sums_of_products(x, codes)), without_each(score[:, :, None]), error, scale)

    def corrected(self, shared: float, term: int = -2) -> Attenuated:
        """Return the corrected slope on a column, as a product and the reliability to divide by."""
        naive = np.full(self.score.shape[:2], np.nan)
        fine = np.linalg.cond(self.gram) < 1e12
        naive[fine] = np.linalg.solve(self.gram[fine], self.score[fine])[:, :, 0]
        spent = small_sample_error(self.error, shared) / self.scale[-1] ** 2
        attenuated = Attenuated.of(naive, self.gram, spent, term)
        return Attenuated(attenuated.product / self.scale[term], attenuated.reliability)


_PROBIT = (16 * np.sqrt(3) / (15 * np.pi)) ** 2  # the logistic function is close to a normal ogive 1.7 times as wide
_LOGISTIC_ERRORS_METHOD = "logistic regression, errors in variables"
_DOUBTFUL, _MANY_MISSING = 20, 1_000  # outcomes tried at both ends; missing outcomes above which none is
_NEAR = 1e-4  # change of a coefficient for a numeric derivative
_LEAST_LEFT = 0.25  # minimum share of a latent verdict's variance that is not human error


def log_odds_at_equal(
    frame: pd.DataFrame,
    outcome: str,
    terms: Sequence[str],
    sides: pd.DataFrame,
    resampling: Resampling,
    least: float = LEAST_RELIABILITY,
    effective: bool = False,
) -> Corrected:
    """Regress verdicts on differences between two texts, correcting for error in the human scores.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per verdict: ``context_id``, the outcome (0, 1, ½ for a tie, or a share), the terms, and ``human``, the
        difference of mean human scores. No missing numbers.
    outcome : str
        Column of the outcome.
    terms : sequence of str
        Numeric columns without error; the log odds of the last are returned.
    sides : pandas.DataFrame
        Two rows per verdict, one for each text: ``context_id``, the position of the verdict in ``frame``, ``human``,
        the mean score of the text, and, if known, ``ratings`` and ``annotators`` as read by
        `biaslab.stats.reliability.rating_error`.
    resampling : Resampling
        Confidence level and clusters.
    least : float
        Reliability below which nothing is estimated.
    effective : bool
        As in `logistic_model`.

    Returns
    -------
    Corrected
        The log odds of the last term at equal true score, for a share of shared errors. The human difference is
        replaced by the best linear prediction of the true difference; its error variance comes from cross-products of
        different annotators, minus Fuller's small-sample term. The residual true difference attenuates all log odds by
        √(1 + .346 β²τ²), like any noise in a logistic model, and the estimate is scaled up accordingly. Interval and
        test: `biaslab.stats.regression.Attenuated`, with leave-one-out coefficients by one Newton step, and the error
        variance recomputed. NaN, with a note, if the reliability is below ``least`` or the terms separate the verdicts.

    References
    ----------
    Carroll, Ruppert, Stefanski & Crainiceanu 2006, *Measurement Error in Nonlinear Models*, §4.2 and §4.8; Fuller 1987.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> quality, verdict = rng.normal(size=(300, 2)) + [1, 0], np.arange(300)
    >>> given = quality[:, :, None] + 1.4 * rng.normal(size=(300, 2, 3))
    >>> won = rng.random(300) < expit(quality[:, 0] - quality[:, 1])
    >>> human = given.mean(axis=2)
    >>> frame = pd.DataFrame({"context_id": verdict, "won": won * 1.0, "own": 1.0, "human": human[:, 0] - human[:, 1]})
    >>> written = [" ".join(map(str, three)) for side in (0, 1) for three in given[:, side].tolist()]
    >>> sides = pd.DataFrame({"context_id": [*verdict, *verdict], "human": human.T.ravel(), "ratings": written})
    >>> naive = log_odds_at_equal(frame, "won", ["own"], sides.drop(columns="ratings"), Resampling())(0.0)
    >>> corrected = log_odds_at_equal(frame, "won", ["own"], sides, Resampling())(0.0)
    >>> naive.ci_low > 0, corrected.ci_low < 0 < corrected.ci_high
    (True, True)
    """
    fit = JointLogOdds.of(frame, outcome, terms, sides, resampling, least, effective)
    return (lambda _: fit) if isinstance(fit, Estimate) else fit.at(terms[-1])


@dataclass(frozen=True)
class JointLogOdds:
    """Log odds of several terms at equal human score: `log_odds_at_equal` for each of them, from one fit.

    Attributes
    ----------
    terms : sequence of str
        The terms; the human score follows as last variable.
    fits : tuple of numpy.ndarray, shape (1 + contexts, variables)
        Uncorrected log odds, of all contexts and leaving out each: by one Newton step, and refitted if wanted.
    gram : numpy.ndarray, shape (1 + contexts, variables, variables)
        Σ x xᵀ.
    rows : numpy.ndarray, shape (1 + contexts,)
        Numbers of verdicts.
    error : RatingError
        The error part of the sum of squared differences of human scores.
    units : pandas.Index
        Contexts or clusters.
    counted : mapping of str to float
        The effective number of contexts behind a term, where it is used.
    """

    terms: Sequence[str]
    fits: tuple[Floats, Floats]
    gram: Floats
    rows: Floats
    error: RatingError
    units: pd.Index
    resampling: Resampling
    least: float
    counted: Mapping[str, float]

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        outcome: str,
        terms: Sequence[str],
        sides: pd.DataFrame,
        resampling: Resampling,
        least: float = LEAST_RELIABILITY,
        effective: bool = False,
    ) -> JointLogOdds | Estimate:
        """Fit the terms, or return why the last of them is not estimated; parameters as in `log_odds_at_equal`."""
        names = ["human", *terms]  # of collinear terms, the last is dropped
        y, x = frame[outcome].to_numpy(float), frame[names].to_numpy(float)
        codes, units = pd.factorize(resampling.cluster_of(frame["context_id"]))
        contexts = len(units)
        kept, reasons = identified(y, x, names, contexts, verdicts=True)
        if len(kept) < len(names):
            return undefined(reasons.get(terms[-1]) or next(iter(reasons.values())), contexts)
        x = x[:, [*range(1, len(names)), 0]]  # move human to the end
        naive = fitted_log_odds(y, x)
        if naive is None:
            return undefined(SEPARATED, contexts)
        p, codes = expit(x @ naive), grouped_codes(codes, resampling.seed)
        without = naive + jackknife_shifts(x, y - p, codes, p * (1 - p))
        fits = [np.vstack([naive, each]) for each in (without, _refitted(y, x, codes, without, resampling))]
        last = len(terms) - 1
        counted = {terms[last]: effective_contexts(x, codes, p * (1 - p), last)} if effective else {}
        sums = without_each(sums_of_products(np.column_stack([x, np.ones(len(x))]), codes))
        gram, rows = sums[:, :-1, :-1], sums[:, -1, -1]
        del x, y, p  # of millions of verdicts they are large, and ratings are read next
        try:
            error = _of_differences(sides, codes, sums[:, -2, -2] - sums[:, -2, -1] ** 2 / np.maximum(rows, 1))
        except ValueError as fault:
            raise TrialsError.plain(f"sides must have context_id, human and, if known, ratings: {fault}") from fault
        return cls(terms, (fits[0], fits[1]), gram, rows, error, units, resampling, least, counted)

    def corrected(self, shared: float, term: str, refitted: bool = False) -> tuple[Attenuated, Floats]:
        """Return a term's log odds at equal human score, and the factor that undoes the attenuation of log odds."""
        spent, coefficients = small_sample_error(self.error, shared), self.fits[refitted]
        ratio = Attenuated.of(coefficients, self.gram, spent, list(self.terms).index(term))
        factor = _deattenuation(coefficients[:, -1], ratio.reliability, spent / self.rows)
        return Attenuated(ratio.product * factor, ratio.reliability), factor

    def at(self, term: str) -> Corrected:
        """Return the log odds of a term for a share of shared errors."""

        def at(shared: float) -> Estimate:
            if why_not := too_unreliable(self.error, shared, self.least):
                return undefined(why_not, len(self.units))
            ratio = self.corrected(shared, term)[0]
            level, effective = self.resampling.level, self.counted.get(term)
            estimate = ratio.estimate(level, _LOGISTIC_ERRORS_METHOD, term, effective=effective)
            estimate = replace(estimate, n_contexts=len(self.units))
            if not self.resampling.leave_one_out:
                return estimate
            left_out = self.corrected(shared, term, refitted=True)[0]
            return _carrying(estimate, self.units, left_out.leave_one_out(self.error, shared, self.least))

        return at


def extreme_outcomes(y: Floats, x: Floats, error: float | None, sign: float) -> Floats | None:
    """Fill in missing outcomes, 0 or 1, such that log odds at equal human score are largest, or smallest.

    Log odds are not linear in the outcomes, so which value of an outcome raises them depends on the others. The search
    refits the model after each change of the missing outcomes, until each is at the end to which the derivative points
    and, if at most 1,000 are missing, none of the 20 with the least derivative gives more at its other end.

    Parameters
    ----------
    y : numpy.ndarray, shape (rows,)
        The outcomes; NaN if missing.
    x : numpy.ndarray, shape (rows, terms)
        The variables; the last is the human score, and the one before it the term in question.
    error : float or None
        The error part of Σh², as in `log_odds_at_equal`; None if there is no human score, and the last variable is the
        term.
    sign : float
        1 for the largest log odds, −1 for the smallest.

    Returns
    -------
    numpy.ndarray or None
        The outcomes; None if variables are collinear, the terms separate outcomes at some step, or human scores are too
        unreliable.

    Examples
    --------
    >>> y = np.array([1.0, 0, 1, 0, np.nan, np.nan])
    >>> x = np.column_stack([[1.0, 1, 1, 1, 1, -1], [2.0, 1, -1, -2, 1, 1]])
    >>> extreme_outcomes(y, x, 0.0, 1.0)[-2:], extreme_outcomes(y, x, 0.0, -1.0)[-2:]
    (array([1., 0.]), array([0., 1.]))
    """
    missing = np.isnan(y)
    filled = np.where(missing, 0.5, y)
    best = _outcome_effects(filled, x, error)
    for _ in range(_STEPS):
        if best is None:
            return None
        before, filled = filled, np.where(missing, sign * best[1] > 0, y)
        if (filled == before).all():
            break
        best = _outcome_effects(filled, x, error)
    if best is None:
        return None
    if missing.sum() > _MANY_MISSING:  # one changes next to nothing
        return filled
    doubtful = np.flatnonzero(missing)[np.argsort(np.abs(best[1][missing]))][:_DOUBTFUL]
    for row in np.tile(doubtful, 2):
        other = filled.copy()
        other[row] = 1 - other[row]
        tried = _outcome_effects(other, x, error)
        if tried is None:
            return None
        if sign * tried[0] > sign * best[0]:
            filled, best = other, tried
    return filled


def _outcome_effects(y: Floats, x: Floats, error: float | None) -> tuple[float, Floats] | None:
    """Return the log odds of the term and their derivative by each outcome; None if undefined."""
    b, gram = fitted_log_odds(y, x), (x.T @ x)[None]
    if b is None or np.linalg.cond(gram[0]) >= _SINGULAR:
        return None
    value, slopes = float(b[-1]), np.eye(len(b))[-1]
    if error is not None:
        shifts = np.array([[0.0], [1.0], [-1.0], [1.0], [-1.0]]) * _NEAR
        near = b + shifts * np.eye(len(b))[[-2, -2, -2, -1, -1]]
        ratio = Attenuated.of(near, gram, np.array([error]))
        if not ratio.reliability[0] > LEAST_BESIDE:
            return None
        factor = _deattenuation(near[:, -1], ratio.reliability, np.array([error / len(x)]))
        corrected = ratio.product / ratio.reliability * factor
        value, slopes[-2:] = float(corrected[0]), (corrected[1::2] - corrected[2::2]) / (2 * _NEAR)
    p = expit(x @ b)
    return value, np.asarray(x @ np.linalg.solve(x.T @ (x * (p * (1 - p))[:, None]), slopes), float)


def _of_differences(sides: pd.DataFrame, codes: Codes, spread: Floats) -> RatingError:
    """Return the error in a sum of squared differences: twice that of the two sides around their mean."""
    verdicts = sides["context_id"].drop_duplicates().to_numpy(np.intp)
    error = rating_error(sides).of_clusters(codes[verdicts])
    return RatingError(spread, 2 * error.error, error.estimated)


def _deattenuation(slope: Floats, reliability: Floats, error: Floats) -> Floats:
    """Return the factor that undoes the attenuation of log odds by the residual true difference, √(1 + .346 β²τ²).

    In terms of the estimated slope β_m = β / √(1 + .346 β²τ²), it is 1 / √(1 − .346 β_m²τ²).
    """
    fine = reliability > LEAST_BESIDE
    slopes = np.where(fine, slope / np.where(fine, reliability, 1.0), 0.0)
    left = np.where(fine, np.maximum(reliability * error, 0.0), 0.0)
    return np.asarray(1 / np.sqrt(np.maximum(1 - _PROBIT * slopes**2 * left, _LEAST_LEFT)), float)


#: Minimum reliability of the human score given the other terms; below it no coefficient is estimated.
LEAST_BESIDE = 0.1
#: A reliability of at least this many standard errors is known well enough to divide by.
_STRONG = 6.0
_SINGULAR = 1e12


@dataclass(frozen=True)
class Attenuated:
    """A coefficient times its reliability, and the reliability: for all contexts, and leaving each out.

    Attributes
    ----------
    product, reliability : numpy.ndarray, shape (1 + contexts,)
        The estimate is their ratio. NaN if a single context determines the terms.
    """

    product: Floats
    reliability: Floats

    @classmethod
    def of(cls, coefficients: Floats, gram: Floats, error: Floats, term: int = -2) -> Attenuated:
        """Correct a coefficient, by default the second-to-last, for error in the last variable, the human score.

        Regression calibration: the human score h is replaced by its best linear prediction of the true score from all
        variables, which gives γ + γ_h E M⁻¹[·, h] / λ, with γ the uncorrected coefficients, M = Σ x xᵀ, E the part of
        Σh² that is error, and λ = 1 − E M⁻¹[h, h] the reliability of h given the other variables. In a linear model
        this solves the normal equations of errors-in-variables regression.

        Parameters
        ----------
        coefficients : numpy.ndarray, shape (1 + contexts, variables)
            The uncorrected coefficients γ.
        gram : numpy.ndarray, shape (1 + contexts, variables, variables)
            M.
        error : numpy.ndarray, shape (1 + contexts,)
            E.
        term : int
            Place of the coefficient.
        """
        fine = np.linalg.cond(gram) < _SINGULAR
        inverse = np.full(gram.shape, np.nan)
        inverse[fine] = np.linalg.inv(gram[fine])
        reliability = 1 - error * inverse[:, -1, -1]
        shared = coefficients[:, -1] * error * inverse[:, term, -1]
        return cls(coefficients[:, term] * reliability + shared, reliability)

    def estimate(
        self,
        level: float,
        method: str,
        what: str,
        reach: float = 1.0,
        size: float = 1.0,
        effective: float | None = None,
    ) -> Estimate:
        """Return the ratio with its interval and a test against 0.

        If the reliability is at least six standard errors: cluster jackknife of the ratio (CR3) and Student's t.
        Otherwise Fieller's method: the values b for which product − b × reliability does not differ significantly from
        0, by the same jackknife. (The former rejects a true null in up to .08 of studies if the reliability is poorly
        known.) NaN, with a note, if Fieller's interval is unbounded, that is, if a reliability of 0 cannot be
        excluded.

        Parameters
        ----------
        level : float
            Confidence level.
        method : str
            Name of the method, for the estimate.
        what : str
            The variable given which the human score's reliability is computed, for notes.
        reach, size : float
            The coefficient times ``reach`` is in the unit of the outcome, whose magnitude is ``size``; for rounding.
        effective : float, optional
            The effective number of contexts, for the degrees of freedom.
        """
        contexts, reliability = len(self.product) - 1, float(self.reliability[0])
        values: dict[str, float | str] = {"reliability": reliability, "given": what}
        if not reliability > LEAST_BESIDE:
            return undefined(_TOO_UNRELIABLE.with_values(**values), contexts)
        value = self._rounded(float(self.product[0]) / reliability, reach, size)
        if np.isnan(self.product).any():
            return without_interval(value, contexts, "no interval: the term depends on one context")
        spread = self._covariance(self.reliability, self.reliability)
        if (self.reliability > LEAST_BESIDE).all() and reliability >= _STRONG * math.sqrt(spread):
            ratio = self.product / self.reliability
            error = self._rounded(math.sqrt(self._covariance(ratio, ratio)), reach, size)
            found = coefficient_by_t(value, error, contexts, level, f"{method}, cluster jackknife (CR3), t", effective)
            return replace(found, mde=self._detectable(found.mde, error, spread))
        quantile = float(special.stdtrit((effective or contexts) - 1, (1 + level) / 2))
        if reliability <= quantile * math.sqrt(spread):
            return undefined(_TOO_UNCERTAIN.with_values(**values, error=math.sqrt(spread)), contexts)
        return self._fieller(value, quantile, level, f"{method}, cluster jackknife (CR3), Fieller")

    def _detectable(self, effect: float, error: float, spread: float) -> float:
        """Return an effect that is detected although its product has a larger error: the reliability's times it.

        NaN if none is.
        """
        if not error > 0:
            return effect
        left = 1 - spread * (effect / error / float(self.reliability[0])) ** 2
        return effect / math.sqrt(left) if left > 0 else math.nan

    def _fieller(self, value: float, quantile: float, level: float, method: str) -> Estimate:
        contexts, (product, reliability) = len(self.product) - 1, (self.product, self.reliability)
        of_product, shared, spread = (
            self._covariance(one, two)
            for one, two in ((product, product), (product, reliability), (reliability, reliability))
        )
        if is_rounding(math.sqrt(of_product)):
            return coefficient_by_t(value, 0.0, contexts, level, method)
        square = quantile**2
        a = reliability[0] ** 2 - square * spread
        b = product[0] * reliability[0] - square * shared
        c = product[0] ** 2 - square * of_product
        half = math.sqrt(max(b * b - a * c, 0.0))
        p_value = 2 * float(special.stdtr(contexts - 1, -abs(product[0]) / math.sqrt(of_product)))
        error = math.sqrt(max(of_product - 2 * value * shared + value**2 * spread, 0.0)) / reliability[0]
        effect, notes = effect_and_notes(error, contexts)
        effect = self._detectable(effect, error, spread)
        low, high = float((b - half) / a), float((b + half) / a)
        return Estimate(value, float(error), low, high, p_value, effect, contexts, method, notes)

    def leave_one_out(self, error: RatingError, shared: float, least: float = LEAST_RELIABILITY) -> Floats:
        """Return the ratio without each context; NaN if human scores are then too unreliable."""
        fine = (self.reliability > LEAST_BESIDE) & ~(error.with_shared(shared).reliability < least - ROUNDING)
        return np.asarray(np.divide(self.product, self.reliability, np.full(len(fine), np.nan), where=fine)[1:], float)

    @staticmethod
    def _covariance(one: Floats, two: Floats) -> float:
        """Return the jackknife covariance (CR3) of two statistics."""
        contexts = len(one) - 1
        return float((contexts - 1) / contexts * np.sum((one[1:] - one[0]) * (two[1:] - two[0])))

    @staticmethod
    def _rounded(value: float, reach: float, size: float) -> float:
        return 0.0 if is_rounding(value * reach, size) else value


def small_sample_error(error: RatingError, shared: float) -> Floats:
    """Return the error part of Σh², shape (1 + contexts,), for a share of shared errors, with Fuller's correction.

    The error estimated from annotators is reduced by one part in G, the number of contexts, so that the corrected
    estimate has moments in small samples (Fuller 1987, §2.5.1, with α = 1). An assumed share is not an estimate and is
    left as it is.
    """
    variance = error.error
    if error.estimated:
        left = np.maximum(np.array([len(variance) - 1] + [len(variance) - 2] * (len(variance) - 1), float), 1.0)
        variance = variance * (1 - 1 / left)
    return np.asarray(variance + shared * (error.spread - variance), float)
