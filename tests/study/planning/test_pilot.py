"""Plans that know how the judge answers, and how rarely pairs flip."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.judges.repetition import Sampled
from biaslab.study.pilot import MANY, RATE, Flips, Spread, assumed_flips, flips_of, p_values, simulated_pilot, spread_of
from biaslab.study.planning import plan

PROBE = bl.probes.Position(["coherence"], [1], resampling=bl.Resampling(n=100))


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=12)


@pytest.fixture(scope="module")
def trials(data):
    return simulated_pilot(PROBE, data)[0]


def three_pairs(flips, contexts=400):
    """Three pairs a context, of which so many flip in every third context, by turns to the first and the second."""
    turn = np.arange(contexts)
    first, second = (np.where(turn % 6 == start, flips, 0) for start in (0, 3))
    deviation = math.sqrt(float((first + second).mean() / (4 * 9)))
    return Flips(deviation, 1.0, "three pairs", np.full(contexts, 3), first, second)


def test_flips_are_those_of_the_pilot(trials):
    found = flips_of(trials, spread_of(PROBE, trials, RATE))
    consistency = PROBE.estimate(trials, ["order_consistency"])["estimate"].iloc[0]
    assert found.rate == pytest.approx(1 - consistency)
    primacy = PROBE.estimate(trials, ["primacy_share"])["estimate"].iloc[0]
    assert found.first.sum() / (found.first + found.second).sum() == pytest.approx(primacy)
    assert "of pairs flip with the order" in found.origin


def test_a_simulated_study_shifts_by_what_is_planned():
    """By what turns round among the flips, and beyond that by new ones."""
    for effect, slack in ((0.04, 0.002), (0.3, 0.005)):
        nets = three_pairs(1).studies(effect, 200, np.random.default_rng(0))
        assert (nets / 3 / 2).mean() == pytest.approx(effect, abs=slack)
    assert three_pairs(1).studies(0.0, 200, np.random.default_rng(0)).mean() == pytest.approx(0.0, abs=0.005)


def test_a_simulated_study_is_tested_as_the_probe_tests_it(trials):
    decided = trials[trials["status"] == "ok"].assign(won=lambda rows: np.sign(rows["value"] - 0.5))
    nets = decided.groupby("context_id")["won"].sum().to_numpy() / 2
    [tested] = p_values(nets[None])
    assert PROBE.estimate(trials, [RATE])["p_value"].iloc[0] == pytest.approx(tested)
    assert p_values(np.zeros((1, 8))).tolist() == [1.0]
    assert p_values(np.ones((1, 8))).tolist() == [2.0**-7]


@pytest.mark.thorough
def test_power_with_few_flips_is_below_the_normal_one():
    found = three_pairs(1)
    assert found.power(0.03, 8) < Spread(found.deviation, 1.0, "").power(0.03, 8)


def test_with_many_flips_both_are_the_same():
    found = three_pairs(1)
    contexts = math.ceil(MANY / found._flips)
    assert found.power(0.02, contexts) == Spread(found.deviation, 1.0, "").power(0.02, contexts)


def test_an_unbiased_pilot_plans_for_any_shift_of_a_rate():
    """A bias makes flips that the pilot does not have."""
    found = three_pairs(1)
    assert found.rate < 0.2
    assert found.power(0.3, 24) > 0.9
    assert 6 <= found.required(0.3) <= 24
    assert math.isnan(found.power(0.6, 24))
    with pytest.raises(InputError, match="cannot shift"):
        found.required(0.5)
    assert math.isnan(found.detectable(5))


@pytest.mark.thorough
def test_contexts_that_are_planned_reach_the_power(trials):
    found = assumed_flips(trials, 0.1)
    contexts = found.required(0.04)
    assert found.power(0.04, contexts) >= 0.8
    assert contexts >= Spread(found.deviation, 1.0, "").required(0.04)
    assert found.detectable(contexts) <= 0.05


@pytest.mark.parametrize("share", [0.0, 1.2, -0.1])
def test_flips_are_a_share(trials, share):
    with pytest.raises(InputError, match="flips"):
        assumed_flips(trials, share)


def test_assumed_flips_have_the_given_rate(trials):
    found = assumed_flips(trials, 0.08)
    assert found.rate == pytest.approx(0.08, abs=0.005)
    assert set(found.pairs) == {15}


def test_flips_are_of_one_metric_only(data):
    judge = bl.SimulatedJudge(data)
    with pytest.raises(InputError, match="only to first_position_rate"):
        plan(PROBE, judge, data, metric="order_consistency", flips=0.1, contexts=8)


@pytest.mark.parametrize(("answer", "kind"), [("text", "text"), ("sampled:3", "distribution")])
def test_the_pilot_answers_in_the_mode_that_is_planned(data, answer, kind):
    trials, origin = simulated_pilot(bl.probes.Source(["coherence"]), data, answer)
    assert (trials["answer"] == kind).all()
    assert f"answers {answer}" in origin
    assert trials["samples"].isna().all() == (answer == "text")


@pytest.mark.slow
def test_texts_need_more_contexts_than_distributions(data):
    probe = bl.probes.Verbosity(["coherence"], reliability=1.0, resampling=bl.Resampling(n=100))
    judge = bl.SimulatedJudge(data)
    exact, text = (plan(probe, judge, data, effect=0.2, answer=answer) for answer in ("exact", "text"))
    assert text.spread.deviation > exact.spread.deviation
    assert text.contexts > exact.contexts


@pytest.mark.slow
def test_tokens_of_a_plan_include_all_samples(data):
    judge, data = bl.SimulatedJudge(data), data.head(8)
    once, thrice = (plan(PROBE, judge, data, contexts=8, answer=answer) for answer in ("text", "sampled:3"))
    wrapped = plan(PROBE, Sampled(judge, 3), data, contexts=8)
    assert thrice.read == wrapped.read
    assert thrice.read > 2 * once.read


def test_the_command_says_what_the_package_plans(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["plan", "position", "--judge", "simulated", "--attribute", "coherence", "--contexts", "8"]
    assert main([*words, "--answer", "text", "--flips", "0.08"]) == 0
    message = capsys.readouterr().out
    assert message.startswith("To detect a shift of 0.")
    assert "assuming that 0.08 of pairs flip with the order" in message
    assert main([*words, "--answer", "words"]) == 2
    assert "exact, text, sampled:3" in capsys.readouterr().err


PROBE_promises = bl.probes.Position(["a"], [1], resampling=bl.Resampling(n=100))
PAIRS = 6


def wins(rng, contexts, bias, sharpness):
    """Return whether the first shown wins in each order of each pair; contexts share a leaning to one place."""
    margin = sharpness * rng.normal(size=(contexts, PAIRS))
    shared = bias + 0.4 * rng.normal(size=(contexts, 1))
    return [sign * margin + shared + 0.7 * rng.normal(size=margin.shape) > 0 for sign in (1, -1)]


def shift_of(bias, sharpness):
    """Return how far a bias moves the share of the first from ½, over very many contexts."""
    return np.mean(wins(np.random.default_rng(77), 40_000, bias, sharpness)) - 0.5


def bias_for(shift, sharpness):
    """Return the bias that moves it so far."""
    low, high = 0.0, 12.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if shift_of(middle, sharpness) < shift else (low, middle)
    return (low + high) / 2


def real_power(rng, bias, contexts, sharpness, studies=500):
    """Return how often a t test of what contexts add finds a bias."""
    nets = sum(w.reshape(studies, contexts, PAIRS).sum(axis=2) for w in wins(rng, studies * contexts, bias, sharpness))
    nets = nets - PAIRS
    error = nets.std(axis=1, ddof=1) / math.sqrt(contexts)
    t = np.abs(nets.mean(axis=1)) / np.where(error > 0, error, np.inf)
    from scipy.stats import t as student

    return np.mean(2 * student.sf(t, contexts - 1) < 0.05)


def pilot(rng, contexts, sharpness):
    """Return the trials of a pilot of an unbiased judge."""
    first, second = wins(rng, contexts, 0.0, sharpness)
    context, pair = np.divmod(np.arange(contexts * PAIRS), PAIRS)
    where = {"probe": "position", "judge": "j", "dataset": "d", "attribute": "a", "template": 1, "replicate": 0}
    where |= {"context_id": [f"c{n}" for n in context], "status": "ok", "human_gap": np.nan, "label_mass": np.nan}
    where |= {"samples": np.nan}
    orders = [
        pd.DataFrame(
            where
            | {
                "candidate_id": a + pair.astype("U3").astype(object),
                "opponent_id": b + pair.astype("U3").astype(object),
                "value": won.ravel().astype(float),
            }
        )
        for won, a, b in ((first, "x", "y"), (second, "y", "x"))
    ]
    frame = pd.concat(orders, ignore_index=True)
    return frame.assign(key=np.arange(len(frame)))


def promised(rng, contexts, sharpness):
    """Return the plan of a pilot: a spread, and how pairs flip."""
    trials = pilot(rng, contexts, sharpness)
    found = spread_of(PROBE_promises, trials, RATE)
    return flips_of(trials, found)


def power_of_plans(size, sharpness, pilots, study=24, seed=0):
    """Return the real power at the effects that plans promise, one a pilot."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(pilots):
        effect = promised(rng, size, sharpness).detectable(study)
        assert not math.isnan(effect)
        found.append(real_power(rng, bias_for(effect, sharpness), study, sharpness))
    return np.array(found)


@pytest.mark.slow
def test_power_from_a_small_unbiased_pilot_is_as_planned():
    assert 0.68 <= power_of_plans(8, 3.0, 15).mean() <= 0.92


@pytest.mark.thorough
@pytest.mark.parametrize("sharpness", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("size", [8, 24, 100])
def test_power_at_the_planned_effect_is_as_planned(size, sharpness):
    """Wanted are .75 to .87; a fifth of a tenth more for 60 pilots."""
    low, high = (0.71, 0.91) if size == 8 else (0.73, 0.89)
    assert low <= power_of_plans(size, sharpness, 60).mean() <= high


@pytest.mark.thorough
@pytest.mark.parametrize("size", [8, 24, 100])
def test_mean_power_over_pilots_of_a_normal_metric(size):
    rng, powers = np.random.default_rng(size), []
    for _ in range(400):
        spread = Spread(rng.normal(size=size).std(ddof=1), 1.0, "", pilot=size)
        effect = spread.detectable(40)
        powers.append(Spread(1.0, 1.0, "").power(effect, 40))
    assert 0.77 <= np.mean(powers) <= 0.87


@pytest.mark.slow
def test_a_small_pilot_promises_less():
    known, large, small = (Spread(0.2, 1.0, "", pilot=size) for size in (0, 100, 8))
    assert known.detectable(40) < large.detectable(40) < 1.02 * known.detectable(40) < small.detectable(40)
    assert small.required(0.1) > known.required(0.1)
    for spread in (known, small):
        assert spread.power(spread.detectable(40), 40) == pytest.approx(0.8, abs=0.01)
    assert small.detectable(40) == pytest.approx(assured_normal(8, 0.8) * 0.2 / math.sqrt(40), rel=0.05)


@pytest.mark.slow
def test_plan_for_a_card_has_effects_alone_and_among_tests():
    data = bl.load_dataset("graded", limit=12)
    judge = bl.SimulatedJudge(data, noise=2)
    probe = bl.probes.Position(["coherence"], [1], resampling=bl.Resampling(n=100))
    trials = bl.collect(probe, judge, data, progress=False)
    single, card = (bl.plan(probe, judge, data, contexts=60, pilot=trials, tests=tests) for tests in (1, 14))
    assert card.effect > 1.2 * single.effect == pytest.approx(1.2 * card.effect_alone)
    assert f"can detect ≥ {single.effect:.3g} alone, ≥ {card.effect:.3g} on a card of 14 tests" in str(card)
    assert "α = 0.05, 14 tests" in str(card)
    assert "alone" not in str(single)
    with pytest.raises(bl.errors.InputError, match="tests"):
        bl.plan(probe, judge, data, contexts=60, pilot=trials, tests=0)


def assured_normal(size, power):
    """Return the effect in standard errors for a power on average: by drawing variances of pilots, none of ours."""
    freedom = 2 * (size - 1) / 3  # what a kurtosis of 4 leaves of size - 1
    drawn = np.sqrt(np.random.default_rng(0).chisquare(freedom, 200_000) / freedom)
    grid = np.linspace(2.5, 5, 251)
    powers = [norm.sf(2.023 - shift * drawn).mean() for shift in grid]
    return grid[np.argmax(np.array(powers) >= power)]
