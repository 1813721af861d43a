"""Bradley–Terry: posterior mode under a weak prior, with covariance, and maximum likelihood by evalica."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy  # its subpackages load when they are first used
from scipy.special import expit, logit

from biaslab.core.arrays import Codes, Floats
from biaslab.core.errors import InputError
from biaslab.measures.ranking.comparisons import Comparisons, places_within, tally

#: Precision of the normal prior of each score, in logits⁻²: a standard deviation of 3.2.
PRIOR = 0.1
#: With more candidates in a context, the normal equations are sparse, and there is no covariance.
DENSE = 400
_STEPS = 50
_FARTHEST = 30.0  # maximum log odds
_TOLERANCE = 1e-9


class Strengths(NamedTuple):
    """Parameters of a fitted Bradley–Terry model.

    Attributes
    ----------
    scores : numpy.ndarray, shape (candidates,)
        In logits: σ(score_i − score_j + position) is the probability that i wins when shown first.
    position : float
        Advantage of the candidate shown first, in logits; 0 if not in the model.
    covariance : numpy.ndarray, shape (candidates, candidates), optional
        Covariance of the scores (Laplace approximation), for a single context with at most `DENSE` candidates; the
        last row and column are the position term's, if the model has one.
    """

    scores: Floats
    position: float
    covariance: Floats | None = None


def fit_bradley_terry(
    comparisons: Comparisons, prior: float = PRIOR, position: bool = False, covariance: bool = False
) -> Strengths:
    """Find the posterior mode of the Bradley–Terry scores, for all contexts at once.

    Maximises Σ p log σ(η) + (1 − p) log σ(−η) − ½ prior Σ score², with η = score_first − score_second + position, by
    Newton's method. Probabilities are used as fractional outcomes, as in a fractional logit (Papke & Wooldridge 1996).

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one or several contexts.
    prior : float
        Precision of the normal prior of each score, above 0. It keeps the scores of undefeated candidates finite, and
        makes candidates comparable (at 0) that no chain of comparisons connects.
    position : bool
        Whether to include a position term, common to all contexts and with the same prior.
    covariance : bool
        Whether to return the covariance of the parameters.

    Raises
    ------
    InputError
        If the prior is not positive, or a covariance is requested for too many candidates.

    References
    ----------
    Bradley & Terry 1952, *Rank analysis of incomplete block designs*, Biometrika 39; Davidson & Beaver 1977, *On
    extending the Bradley–Terry model to incorporate within-pair order effects*, Biometrics 33.

    Examples
    --------
    >>> fitted = fit_bradley_terry(Comparisons.of(["a", "b", "c"], [0, 1], [1, 2], [0.9, 0.9]))
    >>> fitted.scores.round(2).tolist()
    [1.24, 0.0, -1.24]
    """
    if not prior > 0:
        raise InputError("prior", prior, "a number above 0")
    size = comparisons.n_candidates
    if covariance and size > DENSE:
        raise InputError("covariance", size, f"at most {DENSE} candidates")
    scores, bias = np.zeros(size), 0.0
    equations = _equations(comparisons, prior)
    for _ in range(_STEPS):
        chance = expit(scores[comparisons.first] - scores[comparisons.second] + bias)
        residual, weight = comparisons.p - chance, chance * (1 - chance)
        slope = first_minus_second(comparisons, residual) - prior * scores
        mixed = first_minus_second(comparisons, weight)
        step = equations.solve(weight, slope)
        move = 0.0
        if position and len(comparisons):
            across = equations.solve(weight, mixed)
            curvature = weight.sum() + prior - mixed @ across
            move = float((residual.sum() - prior * bias - mixed @ step) / curvature)
            step = step - move * across
        largest = max(float(np.abs(step).max(initial=0.0)), abs(move))
        shorter = min(1.0, 4.0 / largest) if largest else 1.0
        scores, bias = scores + shorter * step, bias + shorter * move
        if largest < _TOLERANCE:
            break
    spread = None
    if covariance:
        chance = expit(scores[comparisons.first] - scores[comparisons.second] + bias)
        precision = information(comparisons, chance * (1 - chance), prior, position)
        spread = np.asarray(np.linalg.inv(precision), float)
    return Strengths(scores, bias, spread)


def fit_log_odds(comparisons: Comparisons, prior: float = PRIOR) -> Strengths:
    """Fit score_first − score_second + position to the log odds of p by least squares, for all contexts at once.

    If answers are probabilities, position bias is additive on this scale. The likelihood of `fit_bradley_terry`
    underestimates the position term, the more so the more the log odds vary, because σ of a mean is not the mean of σ.

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one or several contexts, at least one comparison; log odds are clipped to ±30.
    prior : float
        Precision of the normal prior of each score and the position term, relative to a residual variance of 1; above
        0.

    Examples
    --------
    >>> fitted = fit_log_odds(Comparisons.of(["a", "b"], [0, 1], [1, 0], expit([1.5, 0.5])), prior=1e-9)
    >>> fitted.scores.round(6).tolist(), round(fitted.position, 6)
    ([0.25, -0.25], 1.0)
    """
    odds = np.clip(logit(comparisons.p), -_FARTHEST, _FARTHEST)
    ones = np.ones(len(odds))
    equations = _equations(comparisons, prior)
    apart, across = (equations.solve(ones, first_minus_second(comparisons, values)) for values in (odds, ones))
    mixed = first_minus_second(comparisons, ones)
    position = float((odds.sum() - mixed @ apart) / (len(odds) + prior - mixed @ across))
    return Strengths(apart - position * across, position)


def maximum_likelihood(comparisons: Comparisons) -> Floats:
    """Find the maximum-likelihood scores of one context by evalica (Newman's iteration, 2023).

    Parameters
    ----------
    comparisons : Comparisons
        Comparisons of one context. A probability p counts as a win of weight p and a loss of weight 1 − p.

    Returns
    -------
    numpy.ndarray, shape (candidates,)
        In logits, with mean 0; all NaN if the likelihood has no maximum, because `is_connected` is false.

    Examples
    --------
    >>> cycle = Comparisons.of(["a", "b", "c"], [0, 1, 2, 0], [1, 2, 0, 1], [1, 1, 1, 1])
    >>> maximum_likelihood(cycle).round(2)[:2].tolist()
    [0.42, -0.42]
    """
    import evalica

    size = comparisons.n_candidates
    if not is_connected(comparisons):
        return np.full(size, np.nan)
    wins = evalica.Winner.X, evalica.Winner.Y
    winners = [winner for winner in wins for _ in range(len(comparisons))]
    weights = np.concatenate([comparisons.p, 1 - comparisons.p]).tolist()
    pairs = (np.tile(comparisons.first, 2), np.tile(comparisons.second, 2), winners)
    index = pd.RangeIndex(size)
    fitted = evalica.bradley_terry(*pairs, index=index, weights=weights, tolerance=1e-12, limit=100_000)
    logs = np.log(fitted.scores.sort_index().to_numpy(float))
    return np.asarray(logs - logs.mean(), float)


def is_connected(comparisons: Comparisons) -> bool:
    """Check that the likelihood has a maximum: a chain of wins leads from every candidate to every other.

    References
    ----------
    Ford 1957, *Solution of a ranking problem from binary comparisons*, American Mathematical Monthly 64(8).
    """
    win, loss = comparisons.p > 0, comparisons.p < 1
    one = np.concatenate([comparisons.first[win], comparisons.second[loss]])
    two = np.concatenate([comparisons.second[win], comparisons.first[loss]])
    size = comparisons.n_candidates
    beats = scipy.sparse.coo_array((np.ones(len(one)), (one, two)), shape=(size, size))
    parts, _ = scipy.sparse.csgraph.connected_components(beats, connection="strong")
    return bool(parts == 1)


def information(comparisons: Comparisons, weight: Floats, prior: float, position: bool = False) -> Floats:
    """Return the precision matrix of the scores of one context; the position term, if any, comes last."""
    size = comparisons.n_candidates
    place = comparisons.first * size + comparisons.second
    across = tally(place, weight, size * size).reshape(size, size)
    across = across + across.T
    precision: Floats = np.diag(across.sum(axis=1) + prior) - across
    if not position:
        return precision
    mixed = first_minus_second(comparisons, weight)
    return np.block([[precision, mixed[:, None]], [mixed[None, :], np.full((1, 1), weight.sum() + prior)]])


def first_minus_second(comparisons: Comparisons, values: Floats) -> Floats:
    """Return each candidate's sum of values where it was shown first, minus that where it was second."""
    size = comparisons.n_candidates
    return tally(comparisons.first, values, size) - tally(comparisons.second, values, size)


def _largest(comparisons: Comparisons) -> int:
    return int(np.bincount(comparisons.context).max()) if comparisons.n_candidates else 0


def _equations(comparisons: Comparisons, prior: float) -> _Blocks | _Sparse:
    return _Blocks(comparisons, prior) if _largest(comparisons) <= DENSE else _Sparse(comparisons, prior)


class _Blocks:
    """Normal equations of many small contexts, solved as one stack of matrices."""

    def __init__(self, comparisons: Comparisons, prior: float) -> None:
        context, width = comparisons.context, max(_largest(comparisons), 1)
        counts = np.bincount(context, minlength=comparisons.n_contexts)
        inside = places_within(counts)
        self.shape = (comparisons.n_contexts, width, width)
        self.slot: Codes = context * width + inside
        home = context[comparisons.first] * width**2
        one, two = inside[comparisons.first], inside[comparisons.second]
        self.places = [home + a * width + b for a, b in ((one, two), (two, one), (one, one), (two, two))]
        self.prior = prior * np.eye(width)

    def solve(self, weight: Floats, right: Floats) -> Floats:
        size = int(np.prod(self.shape))
        off, mirrored, one, two = (tally(place, weight, size) for place in self.places)
        matrix = (one + two - off - mirrored).reshape(self.shape) + self.prior
        stacked = np.zeros(self.shape[0] * self.shape[1])
        stacked[self.slot] = right
        solved = np.linalg.solve(matrix, stacked.reshape(*self.shape[:2], 1)).ravel()
        return np.asarray(solved[self.slot], float)


class _Sparse:
    """Normal equations of a context with many candidates, solved by conjugate gradients."""

    def __init__(self, comparisons: Comparisons, prior: float) -> None:
        self.first, self.second, self.prior = comparisons.first, comparisons.second, prior
        self.size = comparisons.n_candidates

    def solve(self, weight: Floats, right: Floats) -> Floats:
        one, two, size = self.first, self.second, self.size
        across = scipy.sparse.coo_array((weight, (one, two)), shape=(size, size)).tocsr()
        diagonal = tally(one, weight, size) + tally(two, weight, size) + self.prior
        matrix = scipy.sparse.diags_array(diagonal) - across - across.T
        inverse = scipy.sparse.diags_array(1 / diagonal)
        solved, _ = scipy.sparse.linalg.cg(matrix, right, rtol=1e-10, maxiter=2000, M=inverse)
        return np.asarray(solved, float)
