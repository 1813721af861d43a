"""Decoding against evalica's golden results, statsmodels and what must hold by definition."""

import io
import time
from itertools import permutations

import evalica
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import spearmanr

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError
from biaslab.measures.ranking import (
    Comparisons,
    decode,
    fit_bradley_terry,
    fit_log_odds,
    maximum_likelihood,
    rank_intervals,
    ranks,
    select,
)
from biaslab.measures.ranking.bradley_terry import is_connected
from biaslab.measures.ranking.lists import fit_plackett_luce

# Comparisons and results that evalica 0.4 tests itself against (its files food.csv, simple.csv and *-golden.csv).
FOOD = """Pizza Sushi 1|Burger Pasta 0|Tacos Pizza 1|Sushi Tacos 0|Burger Pizza 1|Pasta Sushi 0|Tacos Burger 1
Pizza Pasta .5|Sushi Burger 0|Pasta Tacos 1|Burger Sushi 0|Tacos Pizza 1|Sushi Pasta .5|Burger Tacos 1|Pizza Burger 0
Pasta Tacos 0|Burger Sushi 0|Tacos Pasta 1|Pizza Tacos 0|Sushi Burger 1|Pasta Pizza 0|Burger Sushi 0|Tacos Pasta 1
Pizza Sushi 1|Sushi Burger 0|Pasta Tacos 0|Tacos Pizza 1|Burger Pasta 0|Sushi Tacos 1|Pizza Burger 0"""
SIMPLE = """0 1 .5|0 2 0|0 2 .5|0 4 .5|1 0 1|1 2 .5|1 2 .5|1 3 .5|2 4 .5|3 0 1|3 1 1|3 2 1|3 4 .5|3 4 .5|4 0 1|4 3 1"""
GOLDEN = {
    "food": (
        FOOD,
        {"Tacos": 10.0, "Sushi": 6.5, "Burger": 6.0, "Pasta": 4.0, "Pizza": 3.5},
        {
            "Tacos": 0.43428982771223773,
            "Sushi": 0.19060028489839073,
            "Burger": 0.14797665121689418,
            "Pasta": 0.1281534106031957,
            "Pizza": 0.09897982556928168,
        },
    ),
    "simple": (
        SIMPLE,
        {"3": 4.5, "4": 4.0, "1": 3.0, "2": 3.0, "0": 1.5},
        {
            "4": 0.34947527489923,
            "3": 0.33688868041573855,
            "2": 0.13168568070110523,
            "1": 0.1311506914535368,
            "0": 0.050799672530389396,
        },
    ),
}


@pytest.fixture(params=sorted(GOLDEN))
def golden(request):
    text, counts, strengths = GOLDEN[request.param]
    frame = pd.read_csv(io.StringIO(text.replace("|", "\n")), sep=" ", header=None, dtype={0: str, 1: str})
    names = sorted(counts)
    first, second = (frame[side].map(names.index).to_numpy() for side in (0, 1))
    return Comparisons.of(names, first, second, frame[2]), frame, counts, strengths


def test_win_ratio_is_evalicas_count_over_comparisons(golden):
    comparisons, frame, counts, _ = golden
    ratio = dict(zip(comparisons.candidate_id, decode(comparisons).scores, strict=True))
    times = pd.concat([frame[0], frame[1]]).value_counts()
    assert ratio == pytest.approx({name: counts[name] / times[name] for name in counts})
    winners = frame[2].map({1: evalica.Winner.X, 0: evalica.Winner.Y, 0.5: evalica.Winner.Draw})
    assert evalica.counting(frame[0], frame[1], winners).scores.to_dict() == pytest.approx(counts)


def test_bradley_terry_is_evalicas_golden_result(golden):
    """By evalica with a closer tolerance than its file's, and by our own fit with next to no prior."""
    comparisons, _, _, strengths = golden
    expected = np.array([strengths[name] for name in comparisons.candidate_id])
    for scores in (maximum_likelihood(comparisons), fit_bradley_terry(comparisons, prior=1e-9).scores):
        found = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(found, expected, rtol=2e-4)


def soft(n, seed, noise=0.7):
    rng = np.random.default_rng(seed)
    pairs = select(n, "full")
    scores = rng.normal(size=n)
    odds = scores[pairs[:, 0]] - scores[pairs[:, 1]] + 0.4 + noise * rng.normal(size=len(pairs))
    return Comparisons.of(list(map(str, range(n))), *pairs.T, expit(odds)), pairs, odds


@pytest.mark.parametrize("seed", range(3))
def test_bradley_terry_is_the_fractional_logit_of_statsmodels(seed):
    comparisons, pairs, _ = soft(7, seed)
    design = np.zeros((len(pairs), 8))
    design[np.arange(len(pairs)), pairs[:, 0]], design[np.arange(len(pairs)), pairs[:, 1]] = 1, -1
    design[:, 7] = 1
    drop = [1, 2, 3, 4, 5, 6, 7]  # the first candidate is the reference
    fitted = sm.GLM(comparisons.p, design[:, drop], family=sm.families.Binomial()).fit(tol=1e-12)
    found = fit_bradley_terry(comparisons, prior=1e-9, position=True)
    np.testing.assert_allclose(found.scores[1:] - found.scores[0], fitted.params[:6], atol=1e-5)
    assert found.position == pytest.approx(fitted.params[6], abs=1e-5)
    without = sm.GLM(comparisons.p, design[:, drop[:6]], family=sm.families.Binomial()).fit(tol=1e-12)
    plain = maximum_likelihood(comparisons)
    np.testing.assert_allclose(plain[1:] - plain[0], without.params, atol=1e-4)


def test_log_odds_are_ordinary_least_squares():
    comparisons, pairs, odds = soft(6, 1)
    design = np.zeros((len(pairs), 7))
    design[np.arange(len(pairs)), pairs[:, 0]], design[np.arange(len(pairs)), pairs[:, 1]] = 1, -1
    design[:, 6] = 1
    expected = np.linalg.lstsq(design[:, 1:], odds, rcond=None)[0]
    found = fit_log_odds(comparisons, prior=1e-9)
    np.testing.assert_allclose(found.scores[1:] - found.scores[0], expected[:5], atol=1e-6)
    assert found.position == pytest.approx(expected[5], abs=1e-6)


@given(st.integers(0, 10_000), st.integers(2, 9), st.floats(0.01, 10), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_posterior_mode_has_no_slope(seed, n, prior, position, hard):
    """Also where the judge is certain and nobody beats the best: the fit must have come to rest."""
    rng = np.random.default_rng(seed)
    pairs = select(n, "random", max(2, n), seed)
    p = rng.integers(0, 2, len(pairs)) if hard else rng.random(len(pairs))
    found = fit_bradley_terry(Comparisons.of(list(map(str, range(n))), *pairs.T, p), prior, position)
    residual = p - expit(found.scores[pairs[:, 0]] - found.scores[pairs[:, 1]] + found.position)
    slope = np.bincount(pairs[:, 0], residual, n) - np.bincount(pairs[:, 1], residual, n) - prior * found.scores
    np.testing.assert_allclose(slope, 0, atol=1e-6)
    if position:
        assert residual.sum() == pytest.approx(prior * found.position, abs=1e-6)


def test_contexts_are_fitted_side_by_side_as_if_alone(graded):
    judge = bl.SimulatedJudge(graded, noise=1.0)
    trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, graded, progress=False)
    together = bl.ranking.comparisons_of(trials)
    common = {"bradley-terry-position", "likelihood-decisions"}  # the term, and the conditionals, are those of all
    for decoding in set(bl.ranking.DECODINGS) - common:
        single = np.concatenate([decode(part, decoding).scores for part in together.split()])
        np.testing.assert_allclose(decode(together, decoding).scores, single, atol=1e-7)


@pytest.mark.parametrize("position", [False, True])
def test_the_covariance_is_the_inverse_information(position):
    comparisons, pairs, _ = soft(5, 2)
    size = 6 if position else 5
    found = fit_bradley_terry(comparisons.take(slice(0, 13)), 0.5, position, covariance=True)
    q = expit(found.scores[pairs[:13, 0]] - found.scores[pairs[:13, 1]] + found.position)
    precision = 0.5 * np.eye(size)
    for (i, j), weight in zip(pairs[:13], q * (1 - q), strict=True):
        step = np.eye(size)[i] - np.eye(size)[j] + (np.eye(size)[5] if position else 0)
        precision += weight * np.outer(step, step)
    np.testing.assert_allclose(found.covariance @ precision, np.eye(size), atol=1e-9)


def test_hard_decisions_are_debiased_by_the_position_term():
    """Each pair in one order, the weaker one first, by a judge that prefers the first by more than most gaps."""
    worth = np.random.default_rng(3).uniform(1, 5, 16)
    second, first = np.triu_indices(16, 1)
    swap = worth[first] > worth[second]
    first, second = np.where(swap, second, first), np.where(swap, first, second)
    won = (worth[first] - worth[second] + 1.5 > 0).astype(float)
    comparisons = Comparisons.of(list(map(str, range(16))), first, second, won)
    names = ("bradley-terry", "bradley-terry-position")
    found = {name: spearmanr(decode(comparisons, name).scores, worth).statistic for name in names}
    assert found["bradley-terry-position"] > found["bradley-terry"] + 0.2


def test_likelihood_without_maximum_is_nan_unlike_the_mode():
    """b never lost, d was compared with nobody, and two pairs are linked by no comparison."""
    unbeaten = Comparisons.of(["a", "b", "c", "d"], [1, 0, 2], [0, 2, 0], [1, 1, 1])
    assert not is_connected(unbeaten)
    found = decode(unbeaten, "bradley-terry-ml")
    assert np.isnan(found.scores).all()
    assert "no maximum" in found.note
    mode = decode(unbeaten, "bradley-terry").scores
    assert np.isfinite(mode[:3]).all()
    assert mode[1] == max(mode[:3])
    assert np.isnan(mode[3])
    apart = Comparisons.of(list("abcd"), [0, 1, 2, 3], [1, 0, 3, 2], [1, 1, 1, 1])
    assert np.isnan(decode(apart, "bradley-terry-ml").scores).all()
    np.testing.assert_allclose(decode(apart, "bradley-terry").scores, 0, atol=1e-9)


def test_only_asked_pairs_count():
    comparisons = Comparisons.of(list("abcd"), [0, 0], [1, 2], [0.8, 0.2])
    np.testing.assert_array_equal(decode(comparisons).scores, [0.5, 0, 1, np.nan])
    np.testing.assert_allclose(decode(comparisons, "mean-probability").scores, [0.5, 0.2, 0.8, np.nan])


@given(st.integers(0, 999), st.sampled_from(bl.ranking.DECODINGS), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_judge_without_doubt_gets_its_own_ranking_back(seed, decoding, hard):
    rng = np.random.default_rng(seed)
    scores, pairs = rng.permutation(6).astype(float), select(6, "full")
    comparisons = Comparisons.of(list("abcdef"), *pairs.T, expit(scores[pairs[:, 0]] - scores[pairs[:, 1]]))
    found = decode(comparisons.hard() if hard else comparisons, decoding).scores
    if decoding == "bradley-terry-ml" and hard:
        assert np.isnan(found).all()
        return
    assert ranks(found).tolist() == (6 - scores).tolist()


def test_unknown_decodings_are_refused():
    with pytest.raises(InputError, match="win-ratio"):
        decode(Comparisons.of(["a", "b"], [0], [1], [0.5]), "elo")
    with pytest.raises(InputError, match="prior"):
        fit_bradley_terry(Comparisons.of(["a", "b"], [0], [1], [0.5]), prior=0)


@pytest.mark.thorough
def test_rank_intervals_narrow_with_comparisons_and_cover():
    rng = np.random.default_rng(0)
    scores, held, widths = np.linspace(0, 3, 8), [], {16: [], 56: []}
    for seed in range(12):
        pairs = select(8, "symmetric", 56, seed)
        won = (scores[pairs[:, 0]] - scores[pairs[:, 1]] + rng.normal(size=len(pairs)) > 0).astype(float)
        complete = Comparisons.of(list("abcdefgh"), *pairs.T, won)
        for size, kept in widths.items():
            found = rank_intervals(complete.take(slice(0, size)), "bradley-terry", bl.Resampling(n=100, seed=seed))
            kept.append((found["ci_high"] - found["ci_low"]).mean())
            assert (found["ci_low"] <= found["ci_high"])[found["rank"].notna()].all()
        held.append(((found["ci_low"] <= 8 - np.arange(8)) & (np.arange(8, 0, -1) <= found["ci_high"])).mean())
    assert np.nanmean(widths[56]) < np.nanmean(widths[16])
    assert np.mean(held) > 0.85


def test_rank_intervals_are_by_context_with_share_undefined():
    frame = pd.DataFrame(
        [
            ("d", "a", "b", 1.0, "ok"),
            ("d", "b", "c", 1.0, "ok"),
            ("e", "x", "y", 0.0, "ok"),
            ("e", "y", "x", 1.0, "ok"),
        ],
        columns=["context_id", "candidate_id", "opponent_id", "value", "status"],
    )
    found = rank_intervals(bl.ranking.comparisons_of(frame), resampling=bl.Resampling(n=200)).set_index("candidate_id")
    assert found.loc[["x", "y"], ["rank", "ci_low", "ci_high", "undefined"]].to_numpy().tolist() == [
        [2, 2, 2, 0],
        [1, 1, 1, 0],
    ]
    assert 0.1 < found.loc["a", "undefined"] < 0.4  # ¼: both drawn comparisons are the other one
    assert found.loc["b", "undefined"] == 0


def test_decoding_of_10000_candidates_takes_under_5_seconds():
    n = 10_000
    rng = np.random.default_rng(0)
    scores, pairs = rng.normal(size=n), select(n, "symmetric", 10 * n, seed=0)
    won = (scores[pairs[:, 0]] - scores[pairs[:, 1]] + rng.normal(size=len(pairs)) > 0).astype(float)
    comparisons = Comparisons.of(list(map(str, range(n))), *pairs.T, won)
    started = time.process_time()
    found = decode(comparisons, "bradley-terry").scores
    assert time.process_time() - started < 5
    assert spearmanr(found, scores, nan_policy="omit").statistic > 0.9


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


@pytest.mark.slow
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
    with pytest.raises(InputError, match="no list that was read"), pytest.warns(bl.core.errors.MissingDataWarning):
        fit_plackett_luce(trials_of(rankings).assign(status="refused"))
