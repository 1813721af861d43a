"""Weights whose choices score best: exact line searches between evaluators, the way of MERT (Och 2003)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STARTS, _LINES, _ROUNDS = 16, 4, 20  # random starts and lines for each evaluator; rounds of a start at most


def mean_goal(values: Floats, goals: Floats, weights: Floats) -> float:
    """Return the mean goal of the candidates that weights choose, the first of equally good ones.

    Parameters
    ----------
    values : numpy.ndarray, shape (contexts, candidates, evaluators)
        Scores.
    goals : numpy.ndarray, shape (contexts, candidates)
        What the choices are to be good at.
    weights : numpy.ndarray, shape (evaluators,)
    """
    best = np.argmax(values @ weights, axis=1)
    return float(np.take_along_axis(goals, best[:, None], axis=1).mean())


def search_weights(values: Floats, goals: Floats, seed: int = 0) -> tuple[Floats, float]:
    """Return weights from 0 with sum 1 whose choices have the greatest mean goal found, and that mean.

    Starts are equal weights, each evaluator alone and random ones. From each, lines towards single evaluators and
    towards random weights are searched exactly, as long as that helps. With two evaluators the first line is the whole
    space, and the result exact.

    Parameters
    ----------
    values, goals
        As for `mean_goal`.
    seed : int
        Of the random starts and lines.
    """
    size, rng = values.shape[-1], np.random.default_rng(seed)
    alone = np.eye(size)
    starts = np.vstack([np.full(size, 1 / size), alone, rng.dirichlet(np.ones(size), _STARTS * size)])
    reached = [mean_goal(values, goals, start) for start in starts]
    best, most = starts[int(np.argmax(reached))], max(reached)
    for weights, goal in zip(starts, reached, strict=True):
        for _ in range(_ROUNDS):
            towards = [*alone, *rng.dirichlet(np.ones(size), _LINES * size)]
            tried = [_best_on_line(values, goals, weights, other - weights) for other in towards]
            gained = [mean_goal(values, goals, point) for point in tried]
            if max(gained) <= goal:
                break
            weights, goal = tried[int(np.argmax(gained))], max(gained)
        if goal > most:
            best, most = weights, goal
    return best, most


def _best_on_line(values: Floats, goals: Floats, weights: Floats, direction: Floats) -> Floats:
    """Return the best weights on a line: the middle of the best piece, the widest of equally good ones.

    Along the line each candidate's sum is a straight line; which is the greatest changes at the corners of their upper
    envelope only. All envelopes are walked at once, and the mean goal is known between all of their corners.
    """
    if np.allclose(direction, 0):
        return weights
    ratios = -weights / np.where(direction == 0, np.nan, direction)
    low, high = float(np.nanmax(ratios[direction > 0])), float(np.nanmin(ratios[direction < 0]))
    levels, slopes = values @ (weights + low * direction), values @ direction
    contexts = np.arange(len(values))
    chosen = np.lexsort((-slopes, -levels), axis=1)[:, 0]  # at the start of the line the highest, then the steepest
    places, changes = [0.0], [float(goals[contexts, chosen].sum())]
    while True:
        rise = slopes - slopes[contexts, chosen][:, None]
        behind = levels[contexts, chosen][:, None] - levels
        corners = np.where(rise > 0, behind / np.where(rise > 0, rise, 1.0), np.inf)
        nearest = corners.min(axis=1)
        going = nearest < high - low
        if not going.any():
            break
        steepest = np.where(corners <= nearest[:, None], slopes, -np.inf).argmax(axis=1)
        places += nearest[going].tolist()
        changes += (goals[contexts, steepest] - goals[contexts, chosen])[going].tolist()
        chosen = np.where(going, steepest, chosen)
    order = np.argsort(places, kind="stable")
    edges = np.append(np.array(places)[order], high - low)
    sums, widths = np.cumsum(np.array(changes)[order]), np.diff(edges)
    sums = np.where(widths > 1e-12, sums, -np.inf)
    piece = int(np.argmax(np.where(sums >= sums.max() - 1e-9, widths, -np.inf)))
    middle = low + float(edges[piece : piece + 2].mean())
    found: Floats = np.clip(weights + middle * direction, 0.0, None)
    return found / float(found.sum())
