"""Panels from judgements that there are: as the judge `biaslab.Panel`, with weights from other contexts, measured."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import nnls

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.mitigation import compare_with_members, learned_weights, pooled

POSITION = bl.probes.Position(["coherence"], [1])
VERBOSITY = bl.probes.Verbosity(["coherence"])
METRIC = "first_position_logit"


@pytest.fixture(scope="module")
def population():
    return construct_population(24, longest=8)


@pytest.fixture(scope="module")
def judges(population):
    """One that likes the first, one that likes the second, and one that sees no quality."""
    planted = ({"position": 1.0}, {"position": -1.0}, {"quality": 0.0})
    return [bl.SimulatedJudge(population, noise=0.5, seed=seed, **each) for seed, each in enumerate(planted)]


def judged(probe, judges, data):
    return [bl.collect(probe, judge, data, progress=False) for judge in judges]


@pytest.fixture(scope="module")
def members(judges, population):
    return judged(POSITION, judges, population)


def test_pooled_trials_are_those_of_the_judge(judges, members, population):
    for weights in (None, [3, 1, 0], learned_weights(members)):
        own = bl.collect(POSITION, bl.Panel(judges, weights), population, progress=False)
        made = pooled(members, weights)
        np.testing.assert_allclose(made["value"], own["value"], atol=1e-12)
        assert made["status"].tolist() == own["status"].tolist()
        assert (made["tokens"] == own["tokens"]).all()
        keys = ["context_id", "candidate_id", "opponent_id"]
        pd.testing.assert_frame_equal(made[keys], own[keys])


@pytest.mark.slow
def test_opposite_biases_cancel_at_the_price_of_both(members):
    found = compare_with_members(POSITION, [METRIC], members[:2])
    assert found["before"].round(0).tolist() == [1, -1]
    assert (found["after"].abs() < 0.3).all()
    assert found["difference"].tolist() == pytest.approx((found["after"] - found["before"]).tolist())
    assert (found["p_value"] < 0.001).all()
    assert (found["tokens_after"] == 2 * found["tokens_before"]).all()
    assert found["judge"].tolist() == [each["judge"].iloc[0] for each in members[:2]]


def test_uninformative_member_gets_little_weight(members):
    weights = np.array(list(learned_weights(members).values()))
    assert weights.sum(axis=1) == pytest.approx(1.0)
    assert (weights[:, 2] < 0.15).all()
    assert (weights[:, :2] > 0.3).all()


def test_weights_of_a_context_are_least_squares_on_the_others(members):
    """The reference: non-negative least squares of ½ sign(gap) on p − ½, without the fold."""
    names = pd.factorize(members[0]["context_id"])[0]
    others = names % 4 != 1
    columns = np.column_stack([each["value"].to_numpy(float) for each in members]) - 0.5
    expected = nnls(columns[others], np.sign(members[0]["human_gap"].to_numpy(float))[others] / 2)[0]
    found = learned_weights(members, folds=4)[str(members[0]["context_id"][names == 1].iloc[0])]
    assert found == pytest.approx(expected / expected.sum())


def test_context_weights_ignore_its_own_human_gaps(members):
    first = members[0]["context_id"].iloc[0]
    here = members[0]["context_id"] == first
    other = [each.assign(human_gap=each["human_gap"].where(~here, -each["human_gap"])) for each in members]
    before, after = learned_weights(members), learned_weights(other)
    assert before[first] == after[first]
    assert any(before[name] != after[name] for name in before)


def test_unlabelled_contexts_have_weights_of_all_labelled_ones(members):
    labelled = members[0]["context_id"].isin([str(n) for n in range(8)])
    some = [each.assign(human_gap=each["human_gap"].where(labelled)) for each in members]
    found = learned_weights(some, folds=4)
    rest = {found[str(n)] for n in range(8, 24)}
    assert len(rest) == 1
    assert len({found[str(n)] for n in range(8)}) == 4


def test_scores_are_weighed_too_and_learning_helps_agreement(population):
    good, bad = (bl.SimulatedJudge(population, noise=0.3, quality=q, seed=n) for n, q in enumerate((1.0, 0.0)))
    trials = judged(VERBOSITY, [good, bad], population)
    weights = np.array(list(learned_weights(trials).values()))
    assert (weights[:, 0] > 0.85).all()
    errors = [
        1 - np.corrcoef(made["value"], made["human"])[0, 1] for made in (pooled(trials), pooled(trials, "learned"))
    ]
    assert errors[1] < errors[0]


@pytest.mark.slow
def test_learned_weights_are_learned_anew_in_the_interval(members):
    some = [each[each["context_id"].astype(int) < 8] for each in members]
    found = compare_with_members(POSITION, ["comparative_accuracy"], some, "learned")
    assert set(found["remedy"]) == {"panel of 3, learned weights"}
    assert len(set(found["after"])) == 1
    assert (found["ci_low"] <= found["difference"]).all()


def test_verdicts_have_a_majority_and_the_unreadable_no_vote():
    rows = pd.DataFrame({"context_id": list("abcd"), "candidate_id": "x", "opponent_id": "y", "attribute": "all"})
    weights = ([1.0, 1.0, math.nan, math.nan], [1.0, 0.0, 0.0, math.nan], [0.0, 0.5, 0.0, math.nan])
    status = {True: "ok", False: "refused"}
    members = [
        rows.assign(judge=str(n), dataset="d", value=values, status=[status[v == v] for v in values])
        for n, values in enumerate(weights)
    ]
    made = pooled(members, name="the three")
    assert made["value"].round(3).tolist()[:3] == [0.667, 0.5, 0.0]
    assert made["status"].tolist() == ["ok", "tie", "ok", "refused"]
    assert set(made["judge"]) == {"the three"}
    assert math.isnan(made["value"].iloc[3])


def test_recorded_panel_pools_the_common_judgements():
    rows = bl.atlas.trials("mt_bench").query("dataset == 'mt_bench'")
    members = [part for _, part in rows.groupby("judge")]
    made = pooled(members)
    same = set.intersection(
        *({*zip(m["context_id"], m["candidate_id"], m["opponent_id"], strict=True)} for m in members)
    )
    assert len(made) == min(map(len, members))
    assert {*zip(made["context_id"], made["candidate_id"], made["opponent_id"], strict=True)} == same


def test_bad_members(members):
    one, two, _ = members
    cases = [
        ([one], {}, InputError, "at least two judges"),
        (one, {}, InputError, "one frame each"),
        ([one, one], {}, InputError, "all different"),
        ([one, pd.concat([one, two])], {}, InputError, "one judge each"),
        ([one, two.assign(context_id="elsewhere")], {}, TrialsError, "no judgements in common"),
        ([one, two.drop(columns="status")], {}, TrialsError, "status"),
        ([one, two.assign(samples=3.0)], {}, TrialsError, "biaslab.Panel"),
        ([one, two], {"weights": [1.0]}, InputError, "2 numbers"),
        ([one, two], {"weights": [1.0, -1.0]}, InputError, "at least 0"),
        ([one, two], {"weights": {"0": [1, 1]}}, InputError, "weights lack"),
        ([one, two], {"weights": "best"}, InputError, "learned"),
    ]
    for given, options, error, says in cases:
        with pytest.raises(error, match=says):
            pooled(given, **options)
    with pytest.raises(TrialsError, match="no labels in common"):
        learned_weights([each.assign(human_gap=math.nan) for each in (one, two)])
    with pytest.raises(TrialsError, match="all labels in one context"):
        learned_weights(
            [each.assign(human_gap=each["human_gap"].where(each["context_id"] == "0")) for each in (one, two)]
        )
    with pytest.raises(InputError, match="folds"):
        learned_weights([one, two], folds=1)
