"""Slopes given noisy human scores: errors-in-variables regression (Fuller 1987)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from biaslab.core.arrays import Codes, Floats
from biaslab.stats.attenuated import Attenuated, small_sample_error
from biaslab.stats.estimate import Estimate, undefined
from biaslab.stats.inference import Resampling
from biaslab.stats.leave_one_out import grouped, without_each
from biaslab.stats.rating_error import Corrected, RatingError, rating_error, too_unreliable
from biaslab.stats.regression import demeaned, identified, sums_of_products


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
        read by `biaslab.stats.rating_error.rating_error`. Rows with a missing variable are dropped.
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
        its denominator is poorly known, by Fieller's method (`biaslab.stats.attenuated.Attenuated`). NaN, with a note,
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
    names = [*beside, feature, "human"]
    known = frame[frame[[outcome, *names, "context_id"]].notna().all(axis=1)]
    known, groups = grouped(known, within, resampling)
    codes = pd.factorize(known["context_id"])[0]
    error = rating_error(known, within).of_clusters(groups)
    y, x = known[outcome].to_numpy(float), known[names].to_numpy(float)
    contexts = len(error.spread) - 1
    y, x = (y, x) if not len(y) else (y - y.mean(), x - x.mean(axis=0))
    if within and len(y):
        y, x = demeaned(y[:, None], codes)[:, 0], demeaned(x, codes)
    elif not within:
        x, names = np.column_stack([np.ones(len(x)), x]), ["Intercept", *names]
    kept, reasons = identified(y, x, names, contexts)
    if len(kept) < len(names):
        reason = reasons.get(feature) or reasons.get("human") or "undefined"
        return lambda _: undefined(reason, contexts)
    equations = _NormalEquations.of(y, x, codes if groups is None else groups[codes], error)
    size, reach = np.abs(y).max(), np.abs(x[:, -2]).max()  # the slope times reach is in the unit of the outcome
    method = f"errors in variables{' within contexts' if within else ''}"

    def at(shared: float) -> Estimate:
        if why_not := too_unreliable(error, shared):
            return undefined(why_not, contexts)
        return equations.corrected(shared).estimate(resampling.level, method, feature, reach, size)

    return at


@dataclass(frozen=True)
class _NormalEquations:
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
    def of(cls, y: Floats, x: Floats, codes: Codes, error: RatingError) -> _NormalEquations:
        contexts, scale = int(codes.max()) + 1, np.abs(x).max(axis=0)
        x = x / scale
        score = np.column_stack([np.bincount(codes, column * y, contexts) for column in x.T]).astype(float)
        return cls(without_each(sums_of_products(x, codes)), without_each(score[:, :, None]), error, scale)

    def corrected(self, shared: float) -> Attenuated:
        """Return the corrected slope on the second-to-last column, as a product and the reliability to divide by."""
        naive = np.full(self.score.shape[:2], np.nan)
        fine = np.linalg.cond(self.gram) < 1e12
        naive[fine] = np.linalg.solve(self.gram[fine], self.score[fine])[:, :, 0]
        attenuated = Attenuated.of(naive, self.gram, small_sample_error(self.error, shared) / self.scale[-1] ** 2)
        return Attenuated(attenuated.product / self.scale[-2], attenuated.reliability)
