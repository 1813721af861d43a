"""The dark current: what is shown, what comes back of a planted bias, and scores of nothing."""

import math

import numpy as np
import pandas as pd
import pytest
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion
from biaslab.core.errors import InputError
from biaslab.probes.vacuum import NOTHINGS, Vacuum

FAST = bl.Resampling(n=200)


def shown(probe, data):
    return {(t.condition["asked"], t.condition["nothing"]): t.request for t in probe.design(data.head(1))}


def test_both_sides_are_the_same(graded):
    asked = shown(Vacuum(["fluency"]), graded)
    assert {nothing for kind, nothing in asked if kind == "pair"} == set(NOTHINGS)
    for nothing in ("identical", "empty", "named"):
        one, two = asked["pair", nothing].about.texts
        assert one == two
        assert asked["pair", nothing].messages[0].content.count(one) >= 2
    one, two = asked["pair", "shuffled"].about.texts
    text = asked["pair", "identical"].about.texts[0]
    assert one != two
    assert sorted(one.split()) == sorted(two.split()) == sorted(text.split())


def test_scores_are_asked_of_nothing_and_of_the_text(graded):
    asked = shown(Vacuum(["fluency"]), graded)
    assert {nothing for kind, nothing in asked if kind == "score"} == {"text itself", "empty", "shuffled"}
    assert asked["score", "empty"].about.texts == ("",)
    assert asked["score", "shuffled"].about.edits == ("shuffled",)
    assert not asked["score", "text itself"].about.edits


def test_empty_pair_is_asked_once_per_context(graded):
    trials = list(Vacuum(["fluency"], asks=["pairs"], n_candidates=None).design(graded.head(2)))
    kinds = [trial.condition["nothing"] for trial in trials]
    assert {kind: kinds.count(kind) for kind in NOTHINGS} == {
        "identical": 12, "empty": 2, "shuffled": 12, "named": 24
    }  # fmt: skip


def test_draws_depend_only_on_context_and_seed(graded):
    probe = Vacuum(["fluency"], seed=3)
    more, fewer = (list(probe.design(graded.head(n))) for n in (4, 2))
    assert more[: len(fewer)] == fewer
    assert list(Vacuum(["fluency"], seed=4).design(graded.head(2))) != fewer


@pytest.mark.parametrize("nothing", NOTHINGS)
def test_planted_position_bias_is_recovered_without_content(graded, nothing):
    """Quality, length, familiarity and writers have no part in it, since both sides are alike."""
    judge = bl.SimulatedJudge(
        graded, quality=2.0, position=-0.7, verbosity=1.0, self_preference=1.0, own_system="clean"
    )
    found = run(Vacuum(["coherence"], asks=["pairs"], resampling=FAST), judge, graded)
    at = {"nothing": nothing}
    assert row_of(found, "dark_first_logit", **at)["estimate"] == pytest.approx(-0.7)
    assert row_of(found, "dark_first_rate", **at)["estimate"] == 0.0
    assert row_of(found, "dark_first_rate", **at)["p_value"] == pytest.approx(2 * 0.5**8)
    assert row_of(found, "tie_rate", **at)["estimate"] == 0.0


@pytest.mark.parametrize("options", [{}, {"answer": "text", "replicates": 60}])
def test_a_name_that_is_favoured(graded, options):
    """Whatever the place: names stand once in each, and their text is the same."""
    judge = bl.SimulatedJudge(graded, position=0.8, edits={"Ada": 0.9, "Ben": 0.0})
    probe = Vacuum(["fluency"], ["named"], asks=["pairs"], names=("Ada", "Ben"), resampling=FAST, **options)
    trials = bl.collect(probe, judge, graded, progress=False)
    assert {tuple(t.request.about.edits) for t in probe.design(graded)} == {("Ada", "Ben"), ("Ben", "Ada")}
    assert all("(Ada)" in t.request.messages[0].content for t in probe.design(graded.head(1)))
    found = probe.estimate(trials)
    row = row_of(found, "name_logit")
    assert row["estimate"] == pytest.approx(0.9, abs=4 * row["se"] if options else 1e-9)
    assert "Ada against Ben" in row["note"]
    if not options:  # log odds of shares that are pooled over names are nearer to 0
        assert row_of(found, "dark_first_logit")["estimate"] == pytest.approx(0.8)


def test_a_judge_without_bias_calls_a_tie(graded):
    """Two labels exactly as likely; offered as a third answer, or in text, too."""
    for options in ({}, {"ties": True}, {"ties": True, "answer": "text", "replicates": 2}):
        judge = bl.SimulatedJudge(graded, ties=0.5)
        found = run(Vacuum(["coherence"], ["identical"], asks=["pairs"], **options), judge, graded)
        assert row_of(found, "tie_rate")["estimate"] == 1.0
        assert math.isnan(row_of(found, "dark_first_rate")["estimate"])


def test_verdicts_in_text(graded):
    judge = bl.SimulatedJudge(graded, position=1.0)
    probe = Vacuum(["coherence"], ["identical"], asks=["pairs"], answer="text", replicates=40, resampling=FAST)
    found = run(probe, judge, graded)
    row = row_of(found, "dark_first_logit")
    assert row["estimate"] == pytest.approx(1.0, abs=4 * row["se"])
    assert row["method"].startswith("logistic")
    assert {type(trial.request) for trial in probe.design(graded)} == {Completion}


def test_scores_of_empty_and_shuffled_text_are_lowest(graded):
    """An empty text has the lowest quality, in the judge's eyes too; shuffled words what is planted."""
    judge = bl.SimulatedJudge(graded, edits={"shuffled": -1.0})
    probe = Vacuum(["coherence"], resampling=FAST)
    trials = bl.collect(probe, judge, graded, progress=False)
    found = probe.estimate(trials)
    score = {
        kind: row_of(found, "dark_score", nothing=kind)["estimate"] for kind in ("text itself", "shuffled", "empty")
    }
    assert score["text itself"] > score["shuffled"] > score["empty"]
    for kind in ("shuffled", "empty"):
        drop = row_of(found, "dark_score_drop", nothing=kind)
        assert drop["estimate"] == pytest.approx(score["text itself"] - score[kind])
        assert drop["ci_low"] > 0
    shares = found[(found["metric"] == "score_share") & (found["nothing"] == "empty")]
    assert shares["score"].tolist() == [1, 2, 3, 4, 5]
    assert shares["estimate"].sum() == pytest.approx(1)
    assert shares["estimate"] @ shares["score"] == pytest.approx(score["empty"])


def test_judge_without_quality_scores_empty_text_equally(graded):
    judge = bl.SimulatedJudge(graded, quality=0.0)
    found = run(Vacuum(["coherence"], asks=["scores"], resampling=FAST), judge, graded)
    assert row_of(found, "dark_score_drop", nothing="empty")["estimate"] == pytest.approx(0)


def test_sampled_scores_have_shares_too(graded):
    judge = bl.SimulatedJudge(graded)
    probe = Vacuum(["coherence"], asks=["scores"], answer="text", replicates=3, resampling=FAST)
    shares = run(probe, judge, graded)
    shares = shares[(shares["metric"] == "score_share") & (shares["nothing"] == "empty")]
    assert shares["estimate"].sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_rate_is_that_of_the_normal_distribution():
    """P(A) of decisions is Φ(position / noise) of prompts and contexts together."""
    data = construct_population(400)
    judge = bl.SimulatedJudge(data, position=0.5, noise=0.8, context_noise=0.6)
    probe = Vacuum(nothing=["identical"], asks=["pairs"], n_candidates=None, resampling=FAST)
    row = row_of(run(probe, judge, data, ["dark_first_rate"]), "dark_first_rate")
    assert abs(row["estimate"] - 0.6915) < 3.5 * row["se"]
    assert row["n_trials"] == 1200


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"nothing": ["noise"]}, "values among identical, empty, shuffled, named"),
        ({"names": ("GPT-4", "GPT-4 ")}, "two different names"),
        ({"asks": ["songs"]}, "values among pairs, scores"),
        ({"n_candidates": 0}, "at least 1"),
        ({"template": 0}, "one of 1, 2"),
        ({"scale": "1-7"}, "1-10"),
        ({"answer": "score"}, "one of distribution, text"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(InputError, match=words):
        Vacuum(**parameters)


def test_prompts_are_choices(graded):
    assert {type(trial.request) for trial in Vacuum(["fluency"]).design(graded)} == {Choice}
    assert np.isfinite(run(Vacuum(["fluency"]), bl.SimulatedJudge(graded), graded)["estimate"]).any()


def test_missing_verdicts_are_warned_of_and_bound_the_rate():
    """Judgements that name the first are refused more often: the rate is off, and its bounds hold the truth of ½."""
    rng, contexts = np.random.default_rng(4), 60
    data = bl.load_dataset("graded", limit=12)
    probe = bl.probes.Vacuum(attributes=["coherence"], asks=["pairs"], resampling=bl.Resampling(n=100))
    trials = bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)
    one = trials[trials["nothing"] == "identical"].iloc[[0]]
    rows = pd.concat([one] * contexts * 4, ignore_index=True)
    first = rng.permutation(np.arange(len(rows)) % 2 == 0)
    refused = first & (rng.random(len(rows)) < 0.4)
    rows = rows.assign(context_id=[f"c{n // 4}" for n in range(len(rows))], key=np.arange(len(rows)).astype(str))
    rows = rows.assign(value=np.where(refused, np.nan, first), status=np.where(refused, "refused", "ok"))
    with pytest.warns(bl.errors.MissingDataWarning, match="no verdict could be read"):
        found = probe.estimate(rows, ["dark_first_rate"]).iloc[0]
    assert found["ci_high"] < 0.5
    assert found["bound_low"] < 0.5 < found["bound_high"]
    assert bl.report.findings(pd.DataFrame([found]))["doubt"].iloc[0] == "missing"
    assert np.isnan(probe.estimate(rows[~refused], ["dark_first_rate"])["bound_low"].iloc[0])
