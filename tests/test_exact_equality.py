"""Type-I error where contexts are equal but for the last bits of a float: order-invariant and constant judges.

Each metric is estimated where it is at its null in every context, over 1,000 simulated studies of 40 contexts.
"""

import hashlib

import numpy as np
import pytest

import biaslab as bl
from biaslab.calibration.population import Population, estimate_each, population_for, studies
from biaslab.probes import available
from biaslab.stats import Resampling, is_rounding

N, CONTEXTS, POPULATION = 1_000, 40, 120
#: Metrics that are at their null in every context of such a judge; of what others know, contexts say different things.
OF_BOTH = ["anchor_slope", "score_excess", "win_excess", "reason_first_shift", "template_shift"]
OF_ORDER_INVARIANT = [
    *OF_BOTH, "anchor_excess", "configuration_gap", "logit_excess", "first_position_rate", "first_position_logit",
    "recipe_gain", "agreement_loss", "cot_shift", "temperature_shift",
]  # fmt: skip
#: Log odds between the worst and the best text of the order-invariant judge, and the points of the scale between them.
STRENGTH, POINTS = 6.0, 4.0


def worth(*names):
    """Return a number from 0 to 1 for each text, the same whenever it is judged."""
    digests = (hashlib.sha256("|".join(text).encode()).hexdigest() for text in zip(*names, strict=True))
    return np.array([int(digest[:8], 16) / 2**32 for digest in digests])


def are_scores(trials):
    return "opponent_id" not in trials or trials["opponent_id"].fillna("").eq("").any()


def order_invariant(trials):
    """P(A) = σ(r_A − r_B), and one score for each text, whatever else is asked."""
    context, one = trials["context_id"].astype(str), worth(trials["context_id"].astype(str), trials["candidate_id"])
    if are_scores(trials):
        return 1 + POINTS * one
    return 1 / (1 + np.exp(-STRENGTH * (one - worth(context, trials["opponent_id"]))))


def constant(trials):
    return np.full(len(trials), 3.0 if are_scores(trials) else 0.5)


def population(probe, metric, judge):
    """Judge a whole population; values differ from the judge's by a few units in the last place."""
    calibration = metric.calibration
    data, chosen = population_for(calibration, POPULATION), probe(**calibration.parameters)
    trials = bl.collect(chosen, bl.SimulatedJudge(data), data, progress=False)
    bits = np.random.default_rng(0).integers(-4, 5, (2, len(trials)))
    values = judge(trials) * (1 + bits[0] * 2.0**-52) + bits[1] * 1e-17
    return chosen, Population.of(chosen, metric.name, trials.assign(value=values, status="ok"))


def declared(name):
    metrics = [(probe, metric) for probe in available().values() for metric in probe.metrics if metric.name == name]
    [found] = [(probe, metric) for probe, metric in metrics if metric.calibration is not None]
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "judge"),
    [*((name, order_invariant) for name in OF_ORDER_INVARIANT), *((name, constant) for name in OF_BOTH)],
)
def test_exactly_equal_conditions_give_no_finding(name, judge):
    probe, metric = declared(name)
    chosen, judged = population(probe, metric, judge)
    assert is_rounding(judged.estimate - metric.null, 1.0)
    found = 0
    for trials, seed in studies(judged, CONTEXTS, N, [0]):
        rows = estimate_each(chosen, trials, name, Resampling(n=200, seed=seed))
        apart = (rows["ci_low"] > metric.null) | (rows["ci_high"] < metric.null)
        found += int((apart | (rows["p_value"] < 0.05)).sum())
    assert found == 0
