"""Plans that know how the judge answers, and how rarely pairs flip."""

import math

import numpy as np
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError
from biaslab.judges.sampled import Sampled
from biaslab.study.planning.flips import MANY, RATE, Flips, assumed_flips, flips_of, p_values
from biaslab.study.planning.pilot import Spread, simulated_pilot, spread_of
from biaslab.study.planning.study import plan

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


def test_texts_need_more_contexts_than_distributions(data):
    probe, judge = bl.probes.Verbosity(["coherence"], resampling=bl.Resampling(n=100)), bl.SimulatedJudge(data)
    exact, text = (plan(probe, judge, data, effect=0.2, answer=answer) for answer in ("exact", "text"))
    assert text.spread.deviation > exact.spread.deviation
    assert text.contexts > exact.contexts


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
    said = capsys.readouterr().out
    assert said.startswith("To detect a shift of 0.")
    assert "assuming that 0.08 of pairs flip with the order" in said
    assert main([*words, "--answer", "words"]) == 2
    assert "exact, text, sampled:3" in capsys.readouterr().err
