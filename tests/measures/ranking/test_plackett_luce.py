"""Plackett and Luce's model with place effects: against brute force, against statsmodels, and on planted values."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError
from biaslab.measures.ranking.plackett_luce import fit_plackett_luce

ORDERS = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def trials_of(rankings, ranked=True):
    """Return trials of one context, whose orders are `ORDERS`; a ranking names candidates, best first."""
    rows = []
    for replicate, several in enumerate(rankings):
        for number, (order, ranking) in enumerate(zip(ORDERS, several, strict=True)):
            for place, who in enumerate(order, 1):
                value = ranking.index(who) + 1.0 if ranked else float(ranking[0] == who)
                rows.append((f"c{replicate % 2}", f"m{who}", replicate, number, place, value))
    columns = ["context_id", "candidate_id", "replicate", "list_order", "place", "value"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(ranked=ranked, status="ok", label_mass=np.nan)


@pytest.fixture(scope="module")
def rankings():
    rng = np.random.default_rng(3)
    return [[tuple(rng.permutation(3).tolist()) for _ in ORDERS] for _ in range(12)]


def probability(worth, places, order, ranking, ranked):
    """By the definition: a product of choices among those left."""
    utility = {who: worth[who] + places[place] for place, who in enumerate(order)}
    left, p = set(order), 1.0
    for who in ranking if ranked else ranking[:1]:
        p *= np.exp(utility[who]) / sum(np.exp(utility[other]) for other in left)
        left -= {who}
    return p


def test_probabilities_of_all_rankings_sum_to_one():
    worth, places = np.array([0.3, -0.2, 0.9]), np.array([0.5, 0.0, -0.5])
    assert sum(probability(worth, places, ORDERS[1], each, True) for each in permutations(range(3))) == pytest.approx(1)


@pytest.mark.parametrize("ranked", [True, False])
def test_the_fit_is_that_of_brute_force(rankings, ranked):
    penalty = 0.05

    def loss(x):
        total = penalty * (x**2).sum()
        for replicate, several in enumerate(rankings):
            worth = x[:3] if replicate % 2 == 0 else x[3:6]
            for order, ranking in zip(ORDERS, several, strict=True):
                total -= np.log(probability(worth, x[6:], order, ranking, ranked))
        return total

    best = minimize(loss, np.zeros(9), method="BFGS", options={"gtol": 1e-7})
    fitted = fit_plackett_luce(trials_of(rankings, ranked), penalty=penalty)
    places = best.x[6:] - best.x[6:].mean()
    assert fitted.places == pytest.approx(places, abs=1e-4)
    for context, x in (("c0", best.x[:3]), ("c1", best.x[3:6])):
        worth = fitted.worth[context]
        assert worth.loc[["m0", "m1", "m2"]].to_numpy() == pytest.approx(x - x.mean(), abs=1e-4)
    assert fitted.log_likelihood == pytest.approx(penalty * (best.x**2).sum() - best.fun, abs=1e-6)


def test_the_fit_is_that_of_a_conditional_logit_of_statsmodels(rankings):
    from statsmodels.discrete.conditional_models import ConditionalLogit

    rows, group = [], 0
    for replicate, several in enumerate(rankings):
        for order, ranking in zip(ORDERS, several, strict=True):
            for step in range(2):
                for who in ranking[step:]:
                    place, at = order.index(who), 3 * (replicate % 2) + who
                    dummies = [float(at == each) for each in (1, 2, 4, 5)] + [float(place == each) for each in (1, 2)]
                    rows.append((group, float(who == ranking[step]), *dummies))
                group += 1
    table = np.array(rows)
    model = ConditionalLogit(table[:, 1], table[:, 2:], groups=table[:, 0]).fit(disp=False)
    fitted = fit_plackett_luce(trials_of(rankings), penalty=1e-7)
    assert fitted.places[1:] - fitted.places[0] == pytest.approx(model.params[4:], abs=1e-3)
    assert fitted.worth["c0"]["m2"] - fitted.worth["c0"]["m0"] == pytest.approx(model.params[1], abs=1e-3)
    assert fitted.log_likelihood == pytest.approx(model.llf, abs=1e-5)


def test_planted_worths_and_primacy_come_back_from_distributions():
    data = construct_population(6, candidates=4)
    judge = bl.SimulatedJudge(data, quality=1.0, position=0.8)
    trials = bl.collect(bl.probes.ListPosition(k=4), judge, data, progress=False)
    fitted = fit_plackett_luce(trials, penalty=1e-8)
    human = data.human_means["coherence"]
    centred = human - human.groupby(level=0).transform("mean")
    assert fitted.worth.to_numpy() == pytest.approx(centred.loc[fitted.worth.index].to_numpy(), abs=1e-3)
    assert fitted.first_place == pytest.approx(0.8, abs=1e-3)
    assert fitted.places[1:] == pytest.approx(np.full(3, -0.2), abs=1e-3)


def test_without_place_effects_there_are_none(rankings):
    fitted = fit_plackett_luce(trials_of(rankings), place_effects=False)
    assert not fitted.places.any()
    assert fitted.log_likelihood <= fit_plackett_luce(trials_of(rankings)).log_likelihood + 0.05


def test_a_candidate_that_always_wins_has_a_finite_worth():
    fitted = fit_plackett_luce(trials_of([[(0, 1, 2)] * 3] * 4))
    assert fitted.worth["c0"].idxmax() == "m0"
    assert np.isfinite(fitted.worth).all()


def test_bad_input_is_refused(rankings):
    with pytest.raises(InputError, match="penalty"):
        fit_plackett_luce(trials_of(rankings), penalty=0.0)
    with pytest.raises(InputError, match="no complete list"), pytest.warns(bl.core.errors.MissingDataWarning):
        fit_plackett_luce(trials_of(rankings).assign(status="refused"))
