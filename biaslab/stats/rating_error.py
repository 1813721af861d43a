"""Error of the mean human score, estimated from several annotators' ratings of the same items."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from biaslab.core.arrays import Codes, Floats
from biaslab.stats.estimate import Estimate, is_rounding
from biaslab.stats.leave_one_out import without_clusters, without_each
from biaslab.stats.rating_lists import read_ratings

#: Maps the share (0 to below 1) of the remaining variance of human scores that is counted as error as well, because
#: annotators may share errors, to the corrected estimate. With one rating per item the share is 1 − the assumed
#: reliability. Whatever does not depend on the share, such as the error of the ratings themselves, is computed once.
Corrected = Callable[[float], Estimate]
#: Reliability below which a correction is too noisy: nothing is tested.
LEAST_RELIABILITY = 0.3
_HOLDS = "holds if single human ratings have a reliability above"


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


def too_unreliable(error: RatingError, shared: float) -> str:
    """Return why human scores, given a share of shared error, do not support a test; "" if they do.

    Examples
    --------
    >>> too_unreliable(RatingError(np.array([10.0]), np.array([8.0]), True), 0.0)
    'undefined: annotators agree too little (reliability 0.20)'
    """
    reliability = float(error.with_shared(shared).reliability[0])
    fine = reliability >= LEAST_RELIABILITY or math.isnan(reliability) or is_rounding(reliability - LEAST_RELIABILITY)
    return "" if fine else f"undefined: annotators agree too little (reliability {reliability:.2f})"


def holds_above(reliability: float) -> str:
    """Return the note for a finding that depends on the unknown reliability of human scores.

    Parameters
    ----------
    reliability : float
        The lowest reliability at which the finding holds, 0 to 1.

    Examples
    --------
    >>> holds_above(0.62)
    'holds if single human ratings have a reliability above 0.62'
    """
    return f"{_HOLDS} {reliability:.2f}"


def needed_reliability(note: str) -> float:
    """Parse from a note the reliability down to which a finding holds; NaN if not stated.

    Parameters
    ----------
    note : str
        Note of an estimate.

    Examples
    --------
    >>> needed_reliability(f"12 contexts; {holds_above(0.62)}"), needed_reliability("")
    (0.62, nan)
    """
    match = re.search(r"reliability above (\d\.\d+)", note)
    return float(match[1]) if match else math.nan


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


def _cross_products(ratings: pd.DataFrame, codes: Codes, contexts: int, within: bool) -> Floats:
    """Return an estimate of `_about_mean` free of rating error, from products of ratings by different annotators."""
    item, annotator = ratings["item"].to_numpy(), pd.factorize(ratings["annotator"])[0]
    score = ratings["score"].to_numpy(float)
    if within:
        square, own, size = _products_within(item, annotator, score, codes, contexts)
        return _centred(square, own, own, size, within)
    products, items = _products(item, annotator, score)
    at = codes[items]
    inside = (products * (at[:, None] == at)).sum(axis=1)
    sums = (np.diag(products), inside, products.sum(axis=1), np.ones(len(at)))
    square, own, rows, size = (np.bincount(at, values, contexts).astype(float) for values in sums)
    return _centred(square, own, rows, size, within)


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
    scores, ones = (sparse.csr_array((values, (item, place)), shape) for values in (centred, np.ones(len(item))))
    at = sparse.csr_array((np.ones(len(items)), (np.arange(len(items)), home)), (len(items), contexts))
    one, two = (at @ at.T).nonzero()
    sums, counts = np.bincount(item, centred, len(items)), np.bincount(item, minlength=len(items)).astype(float)
    alike, both = ((matrix @ matrix.T)[one, two] for matrix in (scores, ones))
    products = (sums[one] * sums[two] - alike) / (counts[one] * counts[two] - both)
    square, own = (
        np.bincount(home[one][chosen], products[chosen], contexts).astype(float)
        for chosen in (one == two, np.ones(len(one), bool))
    )
    return square, own, np.bincount(home, minlength=contexts).astype(float)


def _products(item: Codes, annotator: Codes, score: Floats) -> tuple[Floats, Codes]:
    """Return the mean product of ratings of two items by different annotators, shape (items, items), and the items."""
    items, item = np.unique(item, return_inverse=True)
    names, annotator = np.unique(annotator, return_inverse=True)
    scores, rated = np.zeros((2, len(items), len(names)))
    scores[item, annotator] = score - score.mean()
    rated[item, annotator] = 1
    sums, counts = scores.sum(axis=1), rated.sum(axis=1)
    products = (np.outer(sums, sums) - scores @ scores.T) / (np.outer(counts, counts) - rated @ rated.T)
    return products, items


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
