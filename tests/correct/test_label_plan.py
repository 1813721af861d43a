"""How many contexts to label, and which: known formulas, probabilities that are kept, errors, the command line."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct import choose_contexts, draw_labels, plan_labels
from biaslab.stats.t_inference import assured_power, detectable_effect, expected_power


def judged(noise=0.5, size=400, pilot=80, seed=0):
    rng = np.random.default_rng(seed)
    human = rng.normal(3, 1, size)
    score = human + noise * rng.normal(size=size) + 0.5
    labels = np.where(np.arange(size) < pilot, human, np.nan)
    columns = {"judge": "j", "dataset": "d", "attribute": "a", "candidate_id": "x", "system": "s"}
    return pd.DataFrame({"context_id": [f"c{n}" for n in range(size)], "score": score, "human": labels, **columns})


def test_planning_functions_are_attributes_of_correct():
    assert bl.correct.plan_labels is plan_labels
    assert bl.correct.choose_contexts is choose_contexts
    assert {"LabelPlan", "choose_contexts", "plan_labels"} <= set(dir(bl.correct))


@pytest.mark.parametrize("pilot", [10, 80])
def test_labels_without_judge_need_the_sample_size_of_a_mean(pilot):
    found = plan_labels(judged(pilot=pilot), effect=0.3)
    for n, enough in ((found.alone, True), (found.alone - 1, False)):
        assert bool(assured_power(0.3, found.deviation / np.sqrt(n), n, known_from=pilot) >= 0.8) is enough
    assert detectable_effect(found.deviation / np.sqrt(found.alone), found.alone) < 0.3
    assert found.correlation == pytest.approx(1 / np.sqrt(1.25), abs=0.5 / np.sqrt(pilot))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("pilot", [6, 10, 20])
def test_power_after_small_pilots_is_as_promised(pilot):
    plans = [plan_labels(judged(size=60, pilot=pilot, seed=seed), effect=0.5).alone for seed in range(60)]
    assert 0.78 <= np.mean([expected_power(0.5, 1 / np.sqrt(n), n) for n in plans]) <= 0.88


def test_judge_saves_more_labels_the_better_it_agrees():
    good, poor = (plan_labels(judged(noise), effect=0.3) for noise in (0.3, 4.0))
    assert good.with_judge < 0.4 * good.alone
    assert poor.with_judge <= poor.alone


def test_unreachable_effect_has_no_number_of_labels():
    found = plan_labels(judged(), effect=0.001)
    assert found.with_judge is None
    assert "all 400 judged contexts are not enough" in str(found)
    assert found.to_frame().shape[0] == 1


def test_planned_labels_reach_the_planned_effect():
    """With the planned number of labels the interval is as wide as the plan says, to a tenth."""
    planned = plan_labels(judged(), effect=0.3)
    frame = judged(pilot=planned.with_judge, seed=1)
    found = bl.correct(frame, corrections=["ppi"])
    assert found["mde"].item() == pytest.approx(0.3, rel=0.25)


def pairs(p):
    names = [f"{n:03}" for n in range(len(p))]
    return pd.DataFrame({"context_id": names, "candidate_id": "x", "opponent_id": "y", "value": p, "status": "ok"})


@pytest.mark.thorough
@pytest.mark.slow
def test_contexts_are_drawn_with_the_stated_probabilities():
    p = np.linspace(0.5, 0.99, 40)
    drawn = [choose_contexts(pairs(p), 10, seed=seed) for seed in range(1500)]
    often = pd.concat(drawn).groupby("context_id").agg(n=("probability", "size"), said=("probability", "first"))
    assert {len(one) for one in drawn} == {10}
    assert np.abs(often["n"] / 1500 - often["said"]).max() < 0.06
    assert often["said"].iloc[0] > 1.5 * often["said"].iloc[-1]
    assert set(choose_contexts(pairs(p), 10, "uniform")["probability"]) == {0.25}
    assert choose_contexts(pairs(p), 40)["probability"].tolist() == [1.0] * 40


def test_chosen_contexts_serve_correction():
    rng = np.random.default_rng(0)
    p = rng.random(200)
    won = (rng.random(200) < p).astype(float)
    chosen = choose_contexts(pairs(p), 60)
    labels = chosen.assign(candidate_id="x", opponent_id="y", score=won[chosen["context_id"].astype(int)])
    frame = pairs(p).assign(judge="j", dataset="d", attribute="a")
    found = bl.correct(frame, labels, corrections=["human", "ppi"])
    assert (found["ci_low"] < 0.5).all()
    assert (found["ci_high"] > 0.45).all()
    given = dict(zip(chosen["context_id"], chosen["probability"], strict=True))
    again = bl.correct(frame, labels.drop(columns="probability"), corrections=["human", "ppi"], labelled=given)
    assert again["estimate"].tolist() == found["estimate"].tolist()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: plan_labels(judged(), effect=0), "effect is 0"),
        (lambda: plan_labels(judged(pilot=3)), "labels in at least 5 contexts"),
        (lambda: plan_labels(judged(), estimand="ranking"), "difference or systems"),
        (lambda: choose_contexts(pairs(np.full(9, 0.5)), 12), "at most 9"),
        (lambda: choose_contexts(pairs(np.full(9, 0.5)), 2), "at least 5"),
        (lambda: choose_contexts(pairs(np.full(9, 0.5)), 6, "best"), "how is 'best'"),
    ],
)
def test_invalid_plans_are_refused(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_the_command_line_plans_and_chooses(tmp_path):
    data = bl.load_dataset("graded", limit=24)
    judge = bl.SimulatedJudge(data, position=0.5, noise=1.0, context_noise=0.5)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    bl.collect(probe, judge, data, progress=False).to_csv(tmp_path / "trials.csv", index=False)
    out = tmp_path / "chosen.csv"
    options = ["--judged", str(tmp_path / "trials.csv"), "--effect", "0.4", "--budget", "8", "--out", str(out)]
    done = CliRunner().invoke(app, ["plan-labels", *options])
    assert done.exit_code == 0, done.output
    assert "To detect a shift of 0.4 in win_rate" in done.output
    assert len(pd.read_csv(out)) == 8
    assert CliRunner().invoke(app, ["plan-labels"]).exit_code != 0


@pytest.fixture(scope="module")
def trials():
    return bl.atlas.trials("arena_gpt52", judge="gpt-5.2")


@pytest.mark.slow
def test_a_judge_that_needs_correction(trials):
    """All labels: .236 [.189, .290]. The judge says .359 [.302, .416], whatever is labelled."""
    drawn = draw_labels(trials, shares=[0.2, 0.5], draws=30)
    table = drawn.pivot_table("estimate", ["metric", "share"], "correction")
    assert (table.loc["coverage", "judge"] == 0).all()
    assert (table.loc["coverage", ["human", "ppi"]] > 0.8).all(axis=None)
    widths = table.loc["interval_width"]
    assert (widths.loc[0.5, ["human", "ppi"]] < widths.loc[0.2, ["human", "ppi"]]).all()
    assert widths["judge"].nunique() == 1  # noqa: PD101
    assert sorted(set(drawn["contexts_labelled"])) == [55, 138]
    assert drawn["ci_low"].le(drawn["estimate"] + 1e-9).all()
    assert drawn.equals(draw_labels(trials, shares=[0.2, 0.5], draws=30))


def test_labels_that_cannot_be_drawn(trials, graded):
    with pytest.raises(InputError, match="shares"):
        draw_labels(trials, shares=[0.5, 1.0])
    few = trials[trials["context_id"].isin(trials["context_id"].unique()[:3])]
    with pytest.raises(TrialsError, match="at least five contexts"):
        draw_labels(few, shares=[0.5], draws=1)
