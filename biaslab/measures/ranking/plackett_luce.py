"""Worth of candidates and position effects, from rankings of lists (Plackett 1975; Luce 1959)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from biaslab.core.arrays import Bools, Floats, Ints
from biaslab.core.errors import InputError
from biaslab.measures.ranking.list_blocks import list_blocks

_GRADIENT = 1e-8


@dataclass(frozen=True)
class PlackettLuce:
    """Worth of candidates and position effects, in log odds.

    Parameters
    ----------
    worth : pandas.Series
        By context and candidate; mean 0 within each context.
    places : numpy.ndarray, shape (k,)
        Advantage of each position; mean 0.
    log_likelihood : float
        Of the data, without the penalty.
    """

    worth: pd.Series
    places: Floats
    log_likelihood: float

    @property
    def first_place(self) -> float:
        """Advantage of the first position over the mean of the others."""
        return float(self.places[0] - self.places[1:].mean())


def fit_plackett_luce(trials: pd.DataFrame, place_effects: bool = True, penalty: float = 0.01) -> PlackettLuce:
    """Fit worths and position effects to rankings, or to choices of the best.

    The candidate at position j is chosen first with probability proportional to exp(worth + position effect), then the
    next one among the remaining candidates, and so on; for a choice of the best, only the first step is known. Shares
    and probabilities of being best count as fractions of a choice.

    Parameters
    ----------
    trials : pandas.DataFrame
        Trials of `biaslab.probes.ListPosition`, for one judge, attribute and prompt.
    place_effects : bool
        Whether to include position effects; without them, an unbalanced design biases the worths.
    penalty : float
        Half the precision of a normal prior around 0 on each worth, above 0, which keeps the worth of a candidate that
        always wins finite.

    Returns
    -------
    PlackettLuce
        Ranking candidates by worth removes position effects. With few orders per list, position effects are
        overestimated, as is usual for maximum likelihood with many nuisance parameters (Neyman & Scott 1948), while
        the penalty shrinks them: test position effects with the probe's metrics instead.

    Raises
    ------
    InputError
        If no complete list was parsed, or a parameter is out of range.

    References
    ----------
    Luce 1959, *Individual Choice Behavior*; Plackett 1975, *The analysis of permutations*, Applied Statistics 24.

    Examples
    --------
    >>> import biaslab as bl
    >>> data = bl.load_dataset("graded", limit=4)
    >>> judge = bl.SimulatedJudge(data, position=1.0)
    >>> probe = bl.probes.ListPosition(["coherence"], k=4)
    >>> fitted = fit_plackett_luce(bl.collect(probe, judge, data, progress=False), penalty=1e-6)
    >>> round(fitted.first_place, 2)
    1.0
    """
    if not penalty > 0:
        raise InputError("penalty", penalty, "a number above 0")
    blocks = list_blocks(trials, "Plackett-Luce")
    if not len(blocks.context):
        raise InputError("trials", "no complete list", "lists that were read in all their orders")
    keys, names = _number_candidates(trials, blocks.context, blocks.who)
    k = blocks.k
    who, value = keys.reshape(-1, k), blocks.value.reshape(-1, k)
    stages = _stages(who, value, blocks.ranked)
    effects = k if place_effects else 0

    def loss(parameters: Floats) -> tuple[float, Floats]:
        worth, places = parameters[: len(names)], parameters[len(names) :]
        total, gradient = penalty * float((parameters**2).sum()), 2 * penalty * parameters
        for left, taken, mass in stages:
            cost, slope = _stage_loss(worth[who] + (places if effects else 0.0), left, taken, mass)
            total += cost
            gradient += np.concatenate(
                [np.bincount(who.ravel(), slope.ravel(), len(names)), slope.sum(axis=0)[:effects]]
            )
        return total, gradient

    start = np.zeros(len(names) + effects)
    best = minimize(loss, start, jac=True, method="BFGS", options={"gtol": _GRADIENT, "maxiter": 5000})
    worth = pd.Series(best.x[: len(names)], index=names, name="worth")
    worth -= worth.groupby(level="context_id").transform("mean")
    places = best.x[len(names) :] if effects else np.zeros(k)
    likelihood = penalty * float((best.x**2).sum()) - float(best.fun)
    return PlackettLuce(worth, places - places.mean(), likelihood)


def _number_candidates(trials: pd.DataFrame, context: NDArray[np.object_], who: Ints) -> tuple[Ints, pd.MultiIndex]:
    """Return indices of candidates over all contexts (`list_blocks` numbers them within one), and their names."""
    kept = trials.loc[trials["context_id"].isin(context), ["context_id", "candidate_id"]].drop_duplicates()
    kept = kept.sort_values(["context_id", "candidate_id"])
    names = pd.MultiIndex.from_frame(kept)
    start = kept.groupby("context_id", sort=False).size().cumsum().shift(fill_value=0)
    return who + start.loc[list(context)].to_numpy()[:, None, None], names


def _stages(who: Ints, value: Floats, ranked: bool) -> list[tuple[Bools, Floats, Floats]]:
    """Return each choice step, shape (lists, k): who remains, the share that chooses each, and the step's mass."""
    if not ranked:
        return [(np.ones(who.shape, bool), value, value.sum(axis=1))]
    stages = [(value >= rank, (value == rank).astype(float)) for rank in range(1, who.shape[1])]
    return [(left, taken, taken.sum(axis=1)) for left, taken in stages]


def _stage_loss(utility: Floats, left: Bools, taken: Floats, mass: Floats) -> tuple[float, Floats]:
    """Return the negative log-likelihood of one step, and its gradient by utility."""
    open_ = np.where(left, utility, -np.inf)
    total = logsumexp(open_, axis=1, keepdims=True)
    cost = float((mass * total[:, 0]).sum() - (taken * utility).sum())
    return cost, mass[:, None] * np.exp(open_ - total) - taken
