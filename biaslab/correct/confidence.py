"""A judge's confidence beside people's labels: calibration error, Brier score, discrimination, and recalibration.

An item's agreement is the share of people who give it the judge's verdict. A judge is calibrated if, among verdicts
given with a confidence of .8, a person drawn at random agrees with 80 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import scipy  # its subpackages load when they are first used
from numpy.typing import ArrayLike
from scipy import special

from biaslab.core.arrays import Codes, Floats
from biaslab.core.checks import require_one_of
from biaslab.correct.estimators import logit_interval
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.estimate import Estimate, because, undefined, without_interval
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, random_groups

Recalibration = Literal["temperature", "isotonic"]
#: Items a bin at least, and bins at most.
_FEWEST, _BINS = 12, 10
_DRAWS, _FOLDS = 4_000, 5
_SHOWN = 3  # decimals of a bin's confidence
_EDGE = 1e-6  # distance from 0 and 1 of confidences whose logit is taken
_UNIT = (0.0, 1.0)
_ONE_BIN = because("one_bin", "one context, one confidence, or fewer than {fewest} labelled verdicts")
_NO_ERRORS = because("no_errors", "people {agree} with all verdicts")


@dataclass(frozen=True, eq=False)
class Confidences:
    """Confidences of verdicts, and the share of people who agree with each.

    Parameters
    ----------
    confidence, agreement : numpy.ndarray, shape (items,)
        From 0 to 1, without missing values.
    context : array_like, shape (items,)
        The context of each item, or its cluster.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 1000)
    >>> agreement = (rng.random(1000) < confidence**2).astype(float)
    >>> found = Confidences(confidence, agreement, np.arange(1000)).estimates(Resampling())
    >>> round(found["calibration_error"].estimate, 2), round(found["error_auroc"].estimate, 2)
    (0.16, 0.75)
    """

    confidence: Floats
    agreement: Floats
    context: ArrayLike

    def estimates(self, resampling: Resampling) -> dict[str, Estimate]:
        """Return every estimate by metric; see `biaslab.replace`."""
        right, sure = self.agreement, self.confidence
        brier = (sure - right) ** 2 + right * (1 - right)
        means = {"brier_score": (brier, _UNIT), "overconfidence": (sure - right, (-1.0, 1.0))}
        found = {name: self._mean(values, bounds, resampling) for name, (values, bounds) in means.items()}
        bins = Bins.of(self)
        found |= {name: without_interval(value, bins.contexts, "") for name, value in bins.brier_parts().items()}
        return found | {"calibration_error": bins.error(resampling), "error_auroc": self._auroc(resampling)}

    def bins(self) -> Codes:
        """Return the bin of each verdict, from 0: bins have about as many items each, and equal confidences one bin."""
        many = int(np.clip(len(self.confidence) // _FEWEST, 1, _BINS))
        edges = np.unique(np.quantile(self.confidence, np.arange(1, many) / many, method="higher"))
        return np.unique(np.searchsorted(edges, self.confidence, side="right"), return_inverse=True)[1]

    def diagram(self, resampling: Resampling) -> list[tuple[float, Estimate]]:
        """Return mean confidence and agreement of each bin: a reliability diagram (Murphy & Winkler 1977)."""
        place, context = self.bins(), np.asarray(self.context, object)
        found = []
        for own in (place == number for number in range(place.max() + 1)):
            agreed = share(context[own], self.agreement[own], resampling)
            found.append((round(float(self.confidence[own].mean()), _SHOWN), agreed))
        return found

    def _mean(self, values: Floats, bounds: tuple[float, float], resampling: Resampling) -> Estimate:
        null = 0.0 if bounds[0] < 0 else None
        return Ratio(self.context, values, np.ones(len(values)), null, bounds, inference="t").estimate(resampling)

    def _auroc(self, resampling: Resampling) -> Estimate:
        """Estimate the probability that a verdict people agree with has more confidence than one they do not.

        The error sums structural components over contexts (Obuchowski 1997); the interval is Student's t on the logit
        scale.
        """
        right, wrong = self.agreement, 1 - self.agreement
        contexts = len(np.unique(np.asarray(self.context)))
        if not (right.sum() > 0 and wrong.sum() > 0):
            return undefined(_NO_ERRORS.with_values(agree="disagree" if wrong.sum() > 0 else "agree"), contexts)
        below, above = _shares_below(self.confidence, wrong), 1 - _shares_below(self.confidence, right)
        value = float(right @ below / right.sum())
        parts = right * (below - value) / right.sum() + wrong * (above - value) / wrong.sum()
        sums = sum_by_context(self.context, parts)[0][:, 0]
        if contexts < 2:
            return without_interval(value, contexts)
        error = math.sqrt(float(sums @ sums) * contexts / (contexts - 1))
        low, high, p_value = logit_interval(value, max(error, 1e-12), contexts, resampling.level, _UNIT, 0.5)
        method = "structural components of contexts, t on the logit scale"
        return Estimate(value, error, low, high, p_value, math.nan, contexts, method)


def share(context: ArrayLike, values: Floats, resampling: Resampling) -> Estimate:
    """Estimate the mean of shares of items, with a score interval over contexts."""
    return Ratio(context, values, np.ones(len(values)), None, _UNIT, inference="score").estimate(resampling)


def _shares_below(values: Floats, weight: Floats) -> Floats:
    """Return for each value the share of weight at smaller values, and half of that at the same value."""
    levels, place = np.unique(values, return_inverse=True)
    at = np.bincount(place, weight, len(levels))
    return np.asarray(((np.cumsum(at) - at / 2) / at.sum())[place], float)


@dataclass(frozen=True, eq=False)
class Bins:
    """Confidences in bins of about as many items each.

    Attributes
    ----------
    share, confidence, agreement : numpy.ndarray, shape (bins,)
        Share of items, mean confidence and mean agreement.
    parts : numpy.ndarray, shape (contexts, bins)
        Contributions of contexts to the error of confidence minus agreement.
    floor : numpy.ndarray, shape (bins,)
        Least variance of the mean agreement of as many independent verdicts, with one hit and one miss added (Agresti
        & Caffo 2000), because a bin of verdicts that are all right seems not to vary.
    """

    share: Floats
    confidence: Floats
    agreement: Floats
    parts: Floats
    floor: Floats

    @classmethod
    def of(cls, verdicts: Confidences) -> Bins:
        """Put verdicts in bins."""
        sure, right, place = verdicts.confidence, verdicts.agreement, verdicts.bins()
        inside = (place[:, None] == np.arange(place.max() + 1)).astype(float)
        n = inside.sum(axis=0)
        confidence, agreement = (values @ inside / n for values in (sure, right))
        off = (inside.T * (sure - right) - inside.T * (confidence - agreement)[:, None]).T / n
        sums = sum_by_context(verdicts.context, *off.T)[0]
        contexts = len(sums)
        smooth = (agreement * n + 1) / (n + 2)
        single = bool(np.isin(right, (0.0, 1.0)).all())
        floor = smooth * (1 - smooth) / (n + 2) if single else np.zeros(len(n))
        return cls(n / n.sum(), confidence, agreement, sums * math.sqrt(contexts / max(contexts - 1, 1)), floor)

    @property
    def contexts(self) -> int:
        """Number of contexts."""
        return len(self.parts)

    def _covariance(self) -> Floats:
        """Return the covariance of the bins' confidence minus agreement."""
        covariance = self.parts.T @ self.parts
        own = np.diag(covariance)
        return np.asarray(covariance + np.diag(np.maximum(self.floor - own, 0.0)), float)

    def error(self, resampling: Resampling) -> Estimate:
        """Estimate the root mean square over items of confidence minus agreement in their bin.

        The mean square of bins is too large by the sampling variance, which is subtracted (Kumar, Liang & Ma 2019). The
        interval has the values that the observed one does not contradict, if the bins' true differences have the
        proportions of the observed ones, or of a straight line through them; p is that of a calibrated judge.
        """
        if len(self.share) < 2 or self.contexts < 2:
            return undefined(_ONE_BIN.with_values(fewest=2 * _FEWEST), self.contexts)
        gap, covariance = self.confidence - self.agreement, self._covariance()
        root = np.sqrt(self.share)
        seen, noise = float(np.linalg.norm(root * gap)), float(self.share @ np.diag(covariance))
        value = math.sqrt(max(seen**2 - noise, 0.0))
        rng, df = np.random.default_rng(resampling.seed), self.contexts - 1
        spread, vectors = np.linalg.eigh(covariance)
        drawn = rng.normal(size=(_DRAWS, len(gap))) @ (vectors * np.sqrt(np.maximum(spread, 0.0))).T
        drawn *= root / np.sqrt(rng.chisquare(df, (_DRAWS, 1)) / df)
        chance = float(np.mean(np.linalg.norm(drawn, axis=1) >= seen))
        ends = [_ends(towards, drawn, seen, noise, resampling.level) for towards in self._directions()]
        low, high = min(value, *(end[0] for end in ends)), max(value, *(end[1] for end in ends))
        error = float(np.linalg.norm(self.parts @ (root * self._directions()[0])))
        p_value = min(2 * max(chance, 1 / _DRAWS), 1.0)
        method = f"{len(gap)} bins of equal size, variance over contexts subtracted"
        return Estimate(value, error, low, min(high, 1.0), p_value, math.nan, self.contexts, method)

    def _directions(self) -> list[Floats]:
        """Return the differences of the bins, and their straight line in the confidence, each of length 1."""
        root, gap = np.sqrt(self.share), self.confidence - self.agreement
        line = np.column_stack([np.ones(len(gap)), self.confidence]) * root[:, None]
        fitted = line @ np.linalg.lstsq(line, root * gap, rcond=None)[0]
        known = [each / np.linalg.norm(each) for each in (root * gap, fitted) if np.linalg.norm(each) > _EDGE]
        return known or [root]

    def brier_parts(self) -> dict[str, float]:
        """Return reliability, resolution and uncertainty (Murphy 1973), less sampling variance (Ferro & Fricker 2012).

        The Brier score is about reliability − resolution + uncertainty; what confidences within a bin differ is left.
        """
        variance = float(self.share @ np.diag(self._covariance()))
        mean = float(self.share @ self.agreement)
        gap, apart = self.confidence - self.agreement, self.agreement - mean
        of_mean = float((self.parts @ self.share) @ (self.parts @ self.share))
        return {
            "brier_reliability": float(self.share @ gap**2) - variance,
            "brier_resolution": float(self.share @ apart**2) - variance + of_mean,
            "brier_uncertainty": mean * (1 - mean) + of_mean,
        }


def _ends(towards: Floats, drawn: Floats, seen: float, noise: float, level: float) -> tuple[float, float]:
    """Return the least and the largest error in a direction that an observed one does not contradict."""

    def above(at: float) -> float:
        return float(np.mean(np.linalg.norm(at * towards + drawn, axis=1) >= seen))

    tail, most, chance = (1 - level) / 2, seen + 10 * math.sqrt(noise) + _EDGE, above(0.0)
    low = 0.0 if chance > tail else scipy.optimize.brentq(lambda at: above(at) - tail, 0.0, most)
    high = 0.0 if chance >= 1 - tail else scipy.optimize.brentq(lambda at: above(at) - (1 - tail), 0.0, most)
    return float(low), min(float(high), 1.0)


def recalibrated(
    confidence: Floats, agreement: Floats, context: ArrayLike, method: Recalibration, seed: int = 0
) -> Floats:
    """Return confidences recalibrated on other contexts than their own.

    Parameters
    ----------
    confidence, agreement : numpy.ndarray, shape (items,)
        As in `Confidences`; NaN where unknown.
    context : array_like, shape (items,)
        The context of each item, or its cluster.
    method : {"temperature", "isotonic"}
        Divide the logit of the confidence by the temperature of the largest likelihood (Guo et al. 2017), or regress
        agreement on confidence isotonically (Zadrozny & Elkan 2002).
    seed : int
        Of the five random parts of the contexts that are left out in turn.

    Examples
    --------
    >>> confidence = np.tile([0.8, 0.99], 100)
    >>> agreement = np.tile([1.0, 1.0, 0.0, 1.0], 50)
    >>> found = recalibrated(confidence, agreement, np.arange(200), "isotonic")
    >>> bool(abs(found[::2].mean() - 0.5) < 0.1)
    True
    """
    require_one_of("method", method, get_args(Recalibration))
    codes: Codes = np.unique(np.asarray(context), return_inverse=True)[1]
    fold = random_groups(int(codes.max()) + 1, _FOLDS, seed)[codes]
    known, values = ~np.isnan(confidence) & ~np.isnan(agreement), confidence.copy()
    for left_out in np.unique(fold):
        rest, own = known & (fold != left_out), (fold == left_out) & ~np.isnan(confidence)
        if rest.any():
            values[own] = _FITS[method](confidence[rest], agreement[rest])(values[own])
    return values


def _temperature(confidence: Floats, agreement: Floats) -> Callable[[Floats], Floats]:
    def logit(values: Floats) -> Floats:
        return np.asarray(special.logit(np.clip(values, _EDGE, 1 - _EDGE)), float)

    def loss(log_temperature: float) -> float:
        z = logit(confidence) / math.exp(log_temperature)
        return float(np.mean(np.logaddexp(0, z) - agreement * z))

    fitted = math.exp(float(scipy.optimize.minimize_scalar(loss, bounds=(-3.0, 5.0), method="bounded").x))
    return lambda values: np.asarray(special.expit(logit(values) / fitted), float)


def _isotonic(confidence: Floats, agreement: Floats) -> Callable[[Floats], Floats]:
    levels, place, size = np.unique(confidence, return_inverse=True, return_counts=True)
    fitted = scipy.optimize.isotonic_regression(np.bincount(place, agreement) / size, weights=size).x
    return lambda values: np.interp(values, levels, fitted)


_FITS: dict[str, Callable[[Floats, Floats], Callable[[Floats], Floats]]] = {
    "temperature": _temperature,
    "isotonic": _isotonic,
}
