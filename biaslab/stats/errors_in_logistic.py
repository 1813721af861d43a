"""Log odds of verdicts given noisy human scores: regression calibration (Carroll et al. 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import expit

from biaslab.core.arrays import Codes, Floats
from biaslab.core.errors import TrialsError
from biaslab.stats.attenuated import LEAST_BESIDE, Attenuated, small_sample_error
from biaslab.stats.estimate import Estimate, undefined
from biaslab.stats.inference import Resampling, grouped_codes
from biaslab.stats.leave_one_out import without_each
from biaslab.stats.logistic import SEPARATED, fitted_log_odds
from biaslab.stats.rating_error import Corrected, RatingError, rating_error, too_unreliable
from biaslab.stats.regression import identified, jackknife_shifts, sums_of_products

_PROBIT = (16 * np.sqrt(3) / (15 * np.pi)) ** 2  # the logistic function is close to a normal ogive 1.7 times as wide
_METHOD = "logistic regression, errors in variables"
_LEAST_LEFT = 0.25  # minimum share of a latent verdict's variance that is not human error


def log_odds_at_equal(
    frame: pd.DataFrame, outcome: str, terms: Sequence[str], sides: pd.DataFrame, resampling: Resampling
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
        `biaslab.stats.rating_error.rating_error`.
    resampling : Resampling
        Confidence level and clusters.

    Returns
    -------
    Corrected
        The log odds of the last term at equal true score, for a share of shared errors. The human difference is
        replaced by the best linear prediction of the true difference; its error variance comes from cross-products of
        different annotators, minus Fuller's small-sample term. The residual true difference attenuates all log odds by
        √(1 + .346 β²τ²), like any noise in a logistic model, and the estimate is scaled up accordingly. Interval and
        test: `biaslab.stats.attenuated.Attenuated`, with leave-one-out coefficients by one Newton step, and the error
        variance recomputed. NaN, with a note, if the reliability is below .3 or the terms separate the verdicts.

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
    names = ["human", *terms]  # of collinear terms, the last is dropped
    y, x = frame[outcome].to_numpy(float), frame[names].to_numpy(float)
    codes = pd.factorize(resampling.cluster_of(frame["context_id"]))[0]
    contexts, asked = int(codes.max(initial=-1)) + 1, terms[-1]
    kept, reasons = identified(y, x, names, contexts)
    if len(kept) < len(names):
        reason = reasons.get(asked) or next(iter(reasons.values()))
        return lambda _: undefined(reason, contexts)
    x = x[:, [*range(1, len(names)), 0]]  # move human to the end
    naive = fitted_log_odds(y, x)
    if naive is None:
        return lambda _: undefined(SEPARATED, contexts)
    p, codes = expit(x @ naive), grouped_codes(codes, resampling.seed)
    coefficients = np.concatenate([naive[None], naive + jackknife_shifts(x, y - p, codes, p * (1 - p))])
    sums = without_each(sums_of_products(np.column_stack([x, np.ones(len(x))]), codes))
    gram, rows = sums[:, :-1, :-1], sums[:, -1, -1]
    del x, y, p  # of millions of verdicts they are large, and ratings are read next
    try:
        error = _of_differences(sides, codes, sums[:, -2, -2] - sums[:, -2, -1] ** 2 / np.maximum(rows, 1))
    except ValueError as fault:
        raise TrialsError(
            "sides", str(fault), "both sides of each row: context_id, human and, if known, ratings"
        ) from fault

    def at(shared: float) -> Estimate:
        if why_not := too_unreliable(error, shared):
            return undefined(why_not, contexts)
        spent = small_sample_error(error, shared)
        ratio = Attenuated.of(coefficients, gram, spent)
        factor = _deattenuation(coefficients[:, -1], ratio.reliability, spent / rows)
        corrected = Attenuated(ratio.product * factor, ratio.reliability)
        estimate = corrected.estimate(resampling.level, _METHOD, asked)
        return replace(estimate, n_contexts=contexts)

    return at


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
