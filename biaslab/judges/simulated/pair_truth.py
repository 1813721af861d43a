"""Expected values of pair metrics of a simulated judge, with its noise integrated out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from biaslab.core.arrays import Floats, Ints
from biaslab.core.errors import InputError
from biaslab.judges.simulated.answering import utility
from biaslab.judges.simulated.knowledge import ShownCandidate

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.judges.simulated import SimulatedJudge

_COLUMNS = ("context_id", "candidate_id", "opponent_id", "attribute")
_REACH = 8.5  # in standard deviations; less than 1e-16 lies beyond
_COARSEST, _FINEST = 0.25, 0.002


class Outcomes(NamedTuple):
    """Probabilities of the outcomes of pairs, each of shape (pairs,).

    ``first`` and ``second``: wins as shown, the rest are ties. Over both orders: ``both_first`` and ``both_second``,
    the one shown first, or second, wins both times, and ``same``, the same candidate (or neither) wins. ``mean`` is
    the expected log odds, 0 for a tie, ``gap`` the human score of the first minus that of the second, ``present`` the
    share of pairs with neither order refused.
    """

    first: Floats
    second: Floats
    both_first: Floats
    both_second: Floats
    same: Floats
    mean: Floats
    gap: Floats
    present: Floats


def _ratio(top: Floats, bottom: Floats) -> float:
    total = math.fsum(bottom)
    return math.fsum(top) / total if total > 0 else math.nan


PAIR_METRICS: dict[str, Callable[[Outcomes], float]] = {
    "first_position_rate": lambda o: _ratio(o.first * o.present, (o.first + o.second) * o.present),
    "first_position_logit": lambda o: _ratio(o.mean * o.present, o.present),
    "order_consistency": lambda o: _ratio(o.same * o.present, o.present),
    "primacy_share": lambda o: _ratio(o.both_first * o.present, (o.both_first + o.both_second) * o.present),
    "comparative_accuracy": lambda o: _ratio(
        np.where(o.gap > 0, o.first, o.second) * (o.gap != 0) * o.present,
        (o.first + o.second) * (o.gap != 0) * o.present,
    ),
    "tie_rate": lambda o: _ratio((1 - o.first - o.second) * o.present, o.present),
}


def _counted_logit(outcomes: Outcomes) -> float:
    """Return the limit of the Mantel–Haenszel estimator; NaN if no pair follows one of the orders."""
    up, down = (math.fsum(both * outcomes.present) for both in (outcomes.both_first, outcomes.both_second))
    return math.log(up / down) / 2 if up > 0 and down > 0 else math.nan


def pair_truth(judge: SimulatedJudge, metric: str, trials: pd.DataFrame, temperature: float | None) -> float:
    """Return the expectation of a metric of pair trials: see `SimulatedJudge.truth`."""
    if metric not in PAIR_METRICS:
        remedy = "expected values are known for these metrics of pairs only"
        raise InputError("metric", metric, f"one of {', '.join(PAIR_METRICS)}", remedy)
    if not set(_COLUMNS) <= set(trials.columns):
        raise InputError("columns of trials", list(trials.columns), f"{', '.join(_COLUMNS)} among others")
    variants = [*trials["variant"].unique()] if "variant" in trials else []
    if set(variants) - {"unedited"}:
        raise InputError("variants of trials", variants, "unedited alone", "select the unedited trials")
    names = trials[list(_COLUMNS)].to_numpy(dtype=object)
    asked = {tuple(row) for row in names}
    both = [(c, i, j, a) for c, i, j, a in names if (c, j, i, a) in asked]
    if not both:
        return math.nan
    expected = _outcomes(judge, both, temperature)
    if metric == "first_position_logit" and temperature is not None:
        return _counted_logit(expected)
    return PAIR_METRICS[metric](expected)


def _outcomes(judge: SimulatedJudge, pairs: list[tuple[str, str, str, str]], temperature: float | None) -> Outcomes:
    """Return the outcomes of (context, candidate, opponent, attribute) tuples."""
    shown = dict.fromkeys((c, name, a) for c, i, j, a in pairs for name in (i, j))
    worth = {each: _known(judge, *each) for each in shown}
    sides = np.array([(worth[c, i, a], worth[c, j, a]) for c, i, j, a in pairs])
    lead, gap = sides[:, 0, 0] - sides[:, 1, 0], sides[:, 0, 1] - sides[:, 1, 1]
    # pairs that are equal to the judge are computed once
    keys, place = np.unique(np.column_stack([lead, gap]).round(12), axis=0, return_inverse=True)
    place = place.ravel()
    decided = _decide(judge, keys[:, 0], temperature)
    mean = _mean_log_odds(judge, keys[:, 0] + judge.position)
    keep = 1 - judge.refusal
    present = np.where(keys[:, 1] != 0, keep, 1.0) if judge.selective else np.full(len(keys), keep**2)
    return Outcomes(*(values[place] for values in (*decided, mean, keys[:, 1], present)))


def _known(judge: SimulatedJudge, context: str, candidate: str, attribute: str) -> tuple[float, float]:
    """Return a candidate's utility and human score."""
    known = judge.known
    text = known.texts.get((context, candidate))
    score = math.nan if text is None or attribute not in known.scores else known.score((context, candidate), attribute)
    if text is None or math.isnan(score):
        raise InputError("trials", (context, candidate, attribute), "candidates of the judge's data set with scores")
    return utility(judge, ShownCandidate(context, candidate, text), attribute, source=True), score


def _decide(judge: SimulatedJudge, lead: Floats, temperature: float | None) -> tuple[Floats, ...]:
    """Return first, second, both_first, both_second and same of `Outcomes`, given the first candidate's lead."""
    first, second = lead + judge.position, -lead + judge.position
    if not judge.noise and not temperature:
        return _decide_without_noise(judge, first, second, greedy=temperature == 0)
    smooth = judge.noise > 0 or judge.ties == 0
    shifts, weights = normal_rule(judge.context_noise / max(judge.noise, temperature or 0.0), smooth)
    sums = tuple(np.zeros(len(lead)) for _ in range(5))
    for shift, weight in zip(judge.context_noise * shifts, weights, strict=True):
        a, b = _win_rates(judge, first + shift, temperature)
        c, d = _win_rates(judge, second + shift, temperature)
        parts = (a, b, a * c, b * d, a * d + b * c + (1 - a - b) * (1 - c - d))
        for total, part in zip(sums, parts, strict=True):
            total += weight * part
    return sums


def _win_rates(judge: SimulatedJudge, mean: Floats, temperature: float | None) -> tuple[Floats, Floats]:
    """Return the win rates of the first and the second of a pair, with prompt noise integrated out."""
    if not temperature:
        return ndtr((mean - judge.ties) / judge.noise), ndtr((-mean - judge.ties) / judge.noise)
    shifts, weights = normal_rule(judge.noise / temperature, smooth=judge.ties == 0)
    log_odds = mean + judge.noise * shifts[:, None]
    decided = weights[:, None] * (np.abs(log_odds) >= judge.ties)
    wins = expit(log_odds / temperature)
    return (decided * wins).sum(axis=0), (decided * (1 - wins)).sum(axis=0)


def _decide_without_noise(judge: SimulatedJudge, first: Floats, second: Floats, greedy: bool) -> tuple[Floats, ...]:
    """Decide without prompt noise: exact, from the intervals of context shifts in which each outcome occurs."""
    limits = np.array([-math.inf, -judge.ties, judge.ties, math.inf])

    def chance(one: int, two: int) -> Floats:
        if not judge.context_noise:
            return np.array((_winner(judge, first, greedy) == one) & (_winner(judge, second, greedy) == two), float)
        low = np.maximum(limits[one] - first, limits[two] - second)
        high = np.minimum(limits[one + 1] - first, limits[two + 1] - second)
        shares: Floats = np.maximum(ndtr(high / judge.context_noise) - ndtr(low / judge.context_noise), 0.0)
        return shares

    lost, tied, won = ([chance(one, two) for two in range(3)] for one in range(3))
    return won[0] + won[1] + won[2], lost[0] + lost[1] + lost[2], won[2], lost[0], won[0] + lost[2] + tied[1]


def _winner(judge: SimulatedJudge, log_odds: Floats, greedy: bool) -> Ints:
    """Return 2 if the first wins, 0 if the second does, 1 for a tie; greedy text has to choose at log odds 0."""
    even = (log_odds == 0) & ((not greedy) | (judge.ties > 0))
    return np.where(even | (np.abs(log_odds) < judge.ties), 1, np.where(log_odds > 0, 2, 0))


def _mean_log_odds(judge: SimulatedJudge, mean: Floats) -> Floats:
    """Return expected log odds, counting ties as 0: the mean minus the part inside the tie band."""
    spread = math.hypot(judge.noise, judge.context_noise)
    if judge.ties == 0 or spread == 0:
        return np.where(np.abs(mean) >= judge.ties, mean, 0.0)
    low, high = (-judge.ties - mean) / spread, (judge.ties - mean) / spread
    density = np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)
    inside: Floats = mean * (ndtr(high) - ndtr(low)) + spread * density / math.sqrt(2 * math.pi)
    return mean - inside


def normal_rule(ratio: float, smooth: bool = True) -> tuple[Floats, Floats]:
    """Return nodes and weights for the expectation of a function of a standard normal variable.

    The trapezoidal rule on an even grid: for analytic functions its error falls exponentially with the number of nodes
    (Trefethen and Weideman 2014, The exponentially convergent trapezoidal rule, SIAM Review 56), even if the function
    is too steep for the fixed nodes of Gauss–Hermite quadrature.

    Parameters
    ----------
    ratio : float
        Standard deviation of the noise relative to the width of the function's transition; 0 is no noise.
    smooth : bool
        Whether the function is smooth; step functions get the finest grid, which is accurate to about 1e-3.

    Examples
    --------
    >>> nodes, weights = normal_rule(1.0)
    >>> round(float(weights @ nodes**4), 9)
    3.0
    """
    if ratio == 0:
        return np.zeros(1), np.ones(1)
    step = max(min(_COARSEST, 0.5 / ratio), _FINEST) if smooth else _FINEST
    nodes = step * np.arange(-np.ceil(_REACH / step), np.ceil(_REACH / step) + 1)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()
