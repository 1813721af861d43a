"""Self-preference: regressions by other means, planted bias, quality and place kept apart, logs, and bad parameters."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.special import logit
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import InputError, MissingDataWarning, NearestDesignWarning
from biaslab.probes.position import Position
from biaslab.probes.self_preference import SelfPreference
from biaslab.probes.verbosity import Verbosity

FAST = bl.Resampling(n=200)
SYSTEMS = ("own", "another", "a third")
LOGIT, SHIFT = "self_preference_logit", "self_preference_shift"


@pytest.fixture(scope="module")
def population():
    return construct_population(120, systems=SYSTEMS)


def judge_of(data, **planted):
    return bl.SimulatedJudge(data, **{"noise": 1.0, "context_noise": 0.5, "own_system": "own"} | planted)


def collect(probe, judge, data, **options):
    return bl.collect(probe, judge, data, progress=False, **options)


def test_pairs_stand_in_both_orders_and_name_their_writers(population):
    data = population.head(4)
    trials = collect(SelfPreference(own="own"), judge_of(data), data)
    pairs = trials[trials["opponent_id"].notna()]
    assert len(pairs) == 4 * 2 * 2
    assert ((pairs["system"] == "own") != (pairs["opponent_system"] == "own")).all()
    assert (pairs["own"] == "own").all()
    assert len(trials) - len(pairs) == 12
    twins = pairs.set_index(["context_id", "opponent_id", "candidate_id"])["human_gap"]
    there = pairs.set_index(["context_id", "candidate_id", "opponent_id"])["human_gap"]
    assert (twins.reindex(there.index) == -there).all()


def test_a_store_answers_it_from_position_and_verbosity(population, tmp_path):
    data = population.head(3)
    judge, store = judge_of(data), tmp_path / "s.sqlite"
    for probe in (Position(templates=[1]), Verbosity()):
        collect(probe, judge, data, store=store)
    assert collect(SelfPreference(own="own"), judge, data, store=store).attrs["asked"] == 0


def test_logit_is_the_intercept_of_log_odds_on_the_human_gap(population):
    data = population.head(30)
    probe = SelfPreference(own="own", asks=["pairs"], reliability=1.0, resampling=FAST)
    trials = collect(probe, judge_of(data, self_preference=0.5, position=0.7), data)
    found = row_of(probe.estimate(trials, [LOGIT]), LOGIT)
    sign = np.where(trials["system"] == "own", 1, -1)
    frame = trials.assign(y=sign * logit(trials["value"]), gap=sign * trials["human_gap"], first=sign)
    fit = smf.ols("y ~ gap + first", frame).fit()
    assert found["estimate"] == pytest.approx(fit.params["Intercept"])
    assert found["n_contexts"] == 30
    assert (found["n_trials"], found["n_dropped"]) == (120, 0)


def test_shift_equals_ols_with_context_indicators(population):
    data = population.head(20)
    probe = SelfPreference(own="own", asks=["scores"], reliability=1.0)
    trials = collect(probe, judge_of(data, self_preference=0.5), data)
    found = row_of(probe.estimate(trials, [SHIFT]), SHIFT)
    frame = trials.assign(y=trials["value"] / trials["value"].std(), mine=(trials["system"] == "own").astype(float))
    fit = smf.ols("y ~ mine + human + C(context_id)", frame).fit()
    assert found["estimate"] == pytest.approx(fit.params["mine"])


@pytest.mark.parametrize("planted", [0.0, -0.6, 0.9])
def test_the_planted_preference_is_recovered_in_logits(population, planted):
    """Whatever the judge's position bias, and however good it is."""
    judge = judge_of(population, self_preference=planted, position=1.0, quality=0.7)
    probe = SelfPreference(own="own", asks=["pairs"], reliability=1.0)
    found = row_of(run(probe, judge, population, [LOGIT]), LOGIT)
    assert abs(found["estimate"] - planted) < 3.5 * found["se"]
    assert found["se"] < 0.1
    assert (found["p_value"] < 0.001) == (planted != 0)


@pytest.mark.slow
def test_better_own_texts_win_without_being_preferred(population):
    """The same judge, once own texts are a point better in humans' and its eyes: more wins, no bias."""
    human = population.human.merge(population.candidates[["context_id", "candidate_id", "system"]])
    human["score"] = 1 + (human["score"] - 1) * 0.7 + 1.2 * (human.pop("system") == "own")
    better = dataclasses.replace(population, human=human)
    probe = SelfPreference(own="own", reliability=1.0, resampling=FAST)
    found = run(probe, judge_of(better), better)
    assert row_of(found, "own_win_rate", system="")["ci_low"] > 0.6
    assert row_of(found, "own_score_gap")["ci_low"] > 0.3
    for metric in (LOGIT, SHIFT):
        row = row_of(found, metric)
        assert abs(row["estimate"]) < 3 * row["se"]
    excess = row_of(found, "own_win_excess")
    assert excess["ci_high"] < 0, "noise alone moves the excess where own texts are better: it is not primary"


def test_verdicts_have_log_odds_too(population):
    probe = SelfPreference(own="own", asks=["pairs"], answer="text", resampling=FAST)
    found = row_of(run(probe, judge_of(population, self_preference=1.0), population, [LOGIT]), LOGIT)
    assert found["method"].startswith("logistic")
    assert found["ci_low"] > 0.2
    assert "error shared by annotators" in found["note"]


@pytest.mark.slow
def test_preference_is_corrected_for_annotator_error(population):
    """Own texts are better, and the judge sees the true quality: only with single ratings it is not accused."""
    rng = np.random.default_rng(3)
    human = population.human.merge(population.candidates[["context_id", "candidate_id", "system"]])
    key = ["context_id", "candidate_id"]
    truth = human.groupby(key)["score"].transform("mean") * 0.5 + 1.25 + 1.0 * (human.pop("system") == "own")
    true = dataclasses.replace(population, human=human.assign(score=truth.clip(1, 5)))
    noisy = dataclasses.replace(population, human=human.assign(score=(truth + rng.normal(0, 1, len(truth))).clip(1, 5)))
    probe = SelfPreference(own="own", asks=["pairs"], resampling=FAST)
    judge = judge_of(true, quality=1.5)
    answered = collect(probe, judge, true)
    asked = pd.DataFrame([t.condition for t in probe.design(noisy)])
    trials = answered.assign(**{name: asked[name] for name in asked if "human" in name or "rating" in name})
    trials = trials.assign(annotators=asked["annotators"], opponent_annotators=asked["opponent_annotators"])
    corrected = row_of(probe.estimate(trials, [LOGIT]), LOGIT)
    naive = row_of(dataclasses.replace(probe, reliability=1.0).estimate(trials, [LOGIT]), LOGIT)
    assert naive["ci_low"] > 0
    assert abs(corrected["estimate"]) < naive["estimate"]
    assert corrected["ci_low"] < 0 < corrected["ci_high"]
    assert corrected["method"].startswith("errors in variables")


@pytest.mark.slow
def test_adjusting_for_perplexity_removes_familiarity_bias(population):
    """A judge that likes familiar text, and writes it: preferred at equal quality, not at equal perplexity."""
    rows = population.candidates
    texts = rows["text"].str.strip()
    level = np.random.default_rng(1).normal(3.0, 0.3, len(rows)) - 0.6 * (rows["system"] == "own")
    judge = judge_of(population, familiarity=-1.5, log_perplexity=dict(zip(texts, level, strict=True)))
    probe = SelfPreference(own="own", perplexity=True, reliability=1.0, resampling=FAST)
    found = run(probe, judge, population, [LOGIT, SHIFT])
    for metric in (LOGIT, SHIFT):
        plain, adjusted = (row_of(found, metric, adjusted=name) for name in ("", "log perplexity"))
        assert plain["ci_low"] > 0
        assert abs(adjusted["estimate"]) < 3 * adjusted["se"]
    assert {type(trial.request) for trial in probe.design(population.head(1))} == {Choice, Likelihood}


@pytest.mark.slow
def test_only_preference_at_equal_perplexity_is_tested(population):
    texts = population.candidates["text"].str.strip()
    level = np.random.default_rng(1).normal(3.0, 0.3, len(texts))
    judge = judge_of(population, log_perplexity=dict(zip(texts, level, strict=True)))
    for perplexity, tested in ((True, {"log perplexity"}), (False, {""})):
        probe = SelfPreference(own="own", perplexity=perplexity, reliability=1.0, resampling=FAST)
        found = probe.estimate(bl.collect(probe, judge, population, progress=False), list(probe.primary))
        assert set(found.loc[found["p_value"].notna(), "adjusted"]) == tested
        assert found["estimate"].notna().all()
        assert found["note"].str.contains("familiar text").sum() == (0 if perplexity else len(found))


def test_nearest_design_drops_perplexity_without_likelihoods():
    near = SelfPreference(own="own", perplexity=True).nearest(Likelihood("Rain fell."))
    assert not near.design.perplexity
    assert "perplexity" in near.words
    assert SelfPreference().nearest(Choice("Which?", ("A", "B"))).design.answer == "text"


def test_a_pair_that_is_refused_in_one_order_does_not_enter(population):
    data = population.head(40)
    probe = SelfPreference(own="own", asks=["pairs"], resampling=FAST)
    trials = collect(probe, judge_of(data, refusal=0.2), data)
    with pytest.warns(MissingDataWarning, match="self_preference"):
        found = row_of(probe.estimate(trials, [LOGIT]), LOGIT)
    lost = set(
        zip(*(trials.loc[trials["status"] == "refused", n] for n in ("context_id", "candidate_id")), strict=True)
    )
    assert lost
    assert found["n_trials"] + found["n_dropped"] == 160
    assert found["n_trials"] % 2 == 0


@pytest.mark.slow
def test_without_own_each_system_is_estimated_untested(population):
    data = population.head(20)
    found = run(SelfPreference(resampling=FAST), judge_of(data, self_preference=2.0), data)
    told = found[found["metric"] == LOGIT].set_index("own")
    assert set(told.index) == set(SYSTEMS)
    assert told["estimate"].idxmax() == "own"
    assert told["p_value"].isna().all()
    assert told["note"].str.contains("own is not set").all()


def test_texts_without_system_belong_to_no_writer(population):
    data = construct_population(8)
    found = run(SelfPreference(resampling=FAST), bl.SimulatedJudge(data), data)
    assert found["estimate"].isna().all()
    assert found["note"].str.contains("no candidate has a system").all()
    with pytest.raises(InputError, match="no candidate has a system"):
        list(SelfPreference(own="own").design(data))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"own": "owm"}, r"own is 'owm', allowed: one of own, another, a third; did you mean own"),
        ({"asks": []}, "values among pairs, scores"),
        ({"template": 3}, "one of 1, 2"),
        ({"reliability": 2}, "from 0.3 to 1"),
    ],
)
def test_bad_parameters(parameters, words, population):
    with pytest.raises(InputError, match=words):
        list(SelfPreference(**parameters).design(population.head(1)))


@pytest.mark.slow
def test_functions_answer_the_form_they_can_score_or_pair(population):
    probe, data = SelfPreference(own="own"), population.head(6)
    asked = {}
    for judge in (lambda candidate: 1 + len(candidate) % 5, lambda first, second: "first" if first < second else "tie"):
        with pytest.warns(NearestDesignWarning, match="self_preference asks for (scores|pairs) only"):
            trials = bl.collect(probe, judge, data, progress=False)
        asked |= {tuple(trials["asked"].unique()): trials["value"].notna().all()}
        metric = "own_score_gap" if "score" in set(trials["asked"]) else "own_win_rate"
        assert probe.estimate(trials, [metric])["estimate"].notna().all()
    assert asked == {("score",): True, ("pair",): True}
    texts = SelfPreference(own="own", answer="text").design(population.head(1))
    assert {type(trial.request) for trial in texts} == {Completion}


def log(folder, rows):
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return bl.read_judgements(file)


@pytest.mark.parametrize(("bias", "found"), [(0.9, True), (0.0, False)])
def test_a_log_of_verdicts_with_human_preferences(tmp_path, bias, found):
    rng = np.random.default_rng(0)
    rows = []
    for context in range(150):
        gap = float(rng.choice([-1, 1]))
        for own_first in (True, False):
            wins = rng.random() < 1 / (1 + math.exp(-(bias + gap)))
            sides = ("me", "other") if own_first else ("other", "me")
            rows.append({"context_id": context, "candidate_id": sides[0], "opponent_id": sides[1], "judge": "Me",
                         "winner": "me" if wins else "other", "human_gap": gap if own_first else -gap})  # fmt: skip
    estimates = bl.audit(log(tmp_path, rows), only=["self_preference"], resampling=FAST)
    row = row_of(estimates, LOGIT)
    assert (row["ci_low"] > 0) == found
    assert abs(row["estimate"] - bias) < 3 * row["se"]


def test_own_texts_always_first_are_collinear_with_place(tmp_path):
    rows = [{"context_id": c, "candidate_id": "me", "opponent_id": "other", "judge": "me",
             "winner": "me" if c % 3 else "other", "human_gap": (-1) ** c} for c in range(20)]  # fmt: skip
    row = row_of(bl.audit(log(tmp_path, rows), only=["self_preference"], resampling=FAST), LOGIT)
    assert math.isnan(row["estimate"])
    assert "collinear with the others" in row["note"]
