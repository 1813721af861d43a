"""Coefficients divided by an estimated reliability, with a jackknife of the ratio or Fieller's interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from biaslab.core.arrays import Floats
from biaslab.stats.estimate import Estimate, is_rounding, undefined, without_interval
from biaslab.stats.rating_error import RatingError
from biaslab.stats.regression import coefficient_by_t
from biaslab.stats.t_inference import effect_or_why_not

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
    def of(cls, coefficients: Floats, gram: Floats, error: Floats) -> Attenuated:
        """Correct the second-to-last coefficient for error in the last variable, the human score.

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
        """
        fine = np.linalg.cond(gram) < _SINGULAR
        inverse = np.full(gram.shape, np.nan)
        inverse[fine] = np.linalg.inv(gram[fine])
        reliability = 1 - error * inverse[:, -1, -1]
        return cls(coefficients[:, -2] * reliability + coefficients[:, -1] * error * inverse[:, -2, -1], reliability)

    def estimate(self, level: float, method: str, what: str, reach: float = 1.0, size: float = 1.0) -> Estimate:
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
        """
        contexts, reliability = len(self.product) - 1, float(self.reliability[0])
        described = f"reliability {reliability:.2f} of human scores given {what}"
        if not reliability > LEAST_BESIDE:
            return undefined(f"undefined: annotators agree too little ({described})", contexts)
        value = self._rounded(float(self.product[0]) / reliability, reach, size)
        if np.isnan(self.product).any():
            return without_interval(value, contexts, "no interval: the term depends on one context")
        spread = self._covariance(self.reliability, self.reliability)
        if (self.reliability > LEAST_BESIDE).all() and reliability >= _STRONG * math.sqrt(spread):
            ratio = self.product / self.reliability
            error = self._rounded(math.sqrt(self._covariance(ratio, ratio)), reach, size)
            return coefficient_by_t(value, error, contexts, level, f"{method}, cluster jackknife (CR3), t")
        quantile = float(stats.t.ppf((1 + level) / 2, contexts - 1))
        if reliability <= quantile * math.sqrt(spread):
            known = f"{described}, standard error {math.sqrt(spread):.2f}"
            return undefined(f"undefined: annotators agree too little for so few contexts ({known})", contexts)
        return self._fieller(value, quantile, level, f"{method}, cluster jackknife (CR3), Fieller")

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
        p_value = 2 * float(stats.t.sf(abs(product[0]) / math.sqrt(of_product), contexts - 1))
        error = math.sqrt(max(of_product - 2 * value * shared + value**2 * spread, 0.0)) / reliability[0]
        effect, note = effect_or_why_not(math.sqrt(of_product) / float(reliability[0]), contexts)
        low, high = float((b - half) / a), float((b + half) / a)
        return Estimate(value, float(error), low, high, p_value, effect, contexts, method, note)

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
