"""Length in pairs: regressions by statsmodels alone, a planted bias, what is shared with other probes, logs."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.special import logit
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.generators import GENERATORS, generate
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError
from biaslab.probes.position import Position
from biaslab.probes.self_preference import SelfPreference
from biaslab.probes.verbosity import Verbosity

LOGIT, EXCESS = "verbosity_logit", "longer_wins_excess"
PAIR = bl.Protocol.from_template(
    "Question: {question}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}", name="pair", verdicts={"A": 1, "B": 0},
    pattern=r"\[\[([AB])\]\]",
)  # fmt: skip


@pytest.fixture(scope="module")
def population():
    return construct_population(60, longest=16, systems=("own", "another", "a third"))


def judge_of(data, **planted):
    return bl.SimulatedJudge(data, **{"noise": 1.0, "context_noise": 0.5} | planted)


def collect(probe, judge, data, **options):
    return bl.collect(probe, judge, data, progress=False, **options)


def doublings(trials):
    return np.log2(trials["words"].astype(float) / trials["opponent_words"].astype(float))


def jackknife(fit, which):
    """Return a coefficient with its 95 % interval by one Newton step without each row, as statsmodels takes it."""
    rows = len(fit.model.endog)
    shifts = np.asarray(fit.get_influence().d_params)[:, which]
    half = stats.t.ppf(0.975, rows - 1) * np.sqrt((rows - 1) / rows * (shifts**2).sum())
    return [fit.params[which], fit.params[which] - half, fit.params[which] + half]


@pytest.mark.parametrize(("judge", "effect"), [("gpt-5.2", 0.2178), ("gpt-4o-mini", 1.6854)])
def test_length_at_equal_vote_in_arena_is_that_of_statsmodels(judge, effect):
    log, probe = bl.atlas.trials("arena_gpt52", judge), Verbosity(reliability=1.0)
    found = row_of(probe.estimate(probe.accepts(log).trials, [LOGIT]), LOGIT)
    read = log[log["value"].notna()]
    x = np.column_stack([np.ones(len(read)), read["human_gap"], doublings(read)])
    fit = sm.GLM(read["value"].to_numpy(), x, family=sm.families.Binomial()).fit(tol=1e-14)
    np.testing.assert_allclose(found[["estimate", "ci_low", "ci_high"]].astype(float), jackknife(fit, 2), atol=1e-6)
    assert found["estimate"] == pytest.approx(effect, abs=1e-4)
    assert (found["n_trials"], found["template"]) == (276, "recorded")


def test_a_log_of_single_votes_says_which_reliability_it_needs():
    found = bl.audit(bl.atlas.trials("arena_gpt52", "gpt-4o-mini"), only=["verbosity", "pair_length"])
    row = row_of(found, LOGIT)
    assert row["estimate"] == pytest.approx(1.6854, abs=1e-4)
    assert np.isnan([row["ci_low"], row["p_value"]]).all()
    assert "have a reliability above 0.33" in row["note"]
    assert row_of(found, EXCESS)["ci_low"] > 0
    assert row_of(found, "longer_wins_at_equal_gold")["ci_low"] > 0.5


@pytest.mark.slow
def test_log_odds_of_a_leaderboard_are_least_squares(shared_data):
    """AlpacaEval's weighted judge, beside drawn votes that go with length: nobody voted on these pairs."""
    file = shared_data / "recorded" / "alpaca_eval_new" / "Qwen-14B-Chat__weighted_alpaca_eval_gpt4_turbo.jsonl.gz"
    log = bl.read_judgements(file)
    log = log[log["words"].gt(0) & log["opponent_words"].gt(0)].reset_index(drop=True)
    log["human_gap"] = np.sign(doublings(log) + np.random.default_rng(0).normal(size=len(log)))
    probe = Verbosity(reliability=1.0)
    found = row_of(probe.estimate(probe.accepts(log).trials, [LOGIT]), LOGIT)
    read = log[log["value"].notna()]
    y = logit(read["value"].clip(1e-15, 1 - 1e-15)).to_numpy()
    x = np.column_stack([np.ones(len(read)), read["human_gap"], doublings(read)])
    fit = sm.OLS(y, x).fit(cov_type="HC3")
    assert len(read) > 700
    rows = len(read)
    half = stats.t.ppf(0.975, rows - 1) * fit.bse[2] * np.sqrt((rows - 1) / rows)
    expected = [fit.params[2], fit.params[2] - half, fit.params[2] + half]
    np.testing.assert_allclose(found[["estimate", "ci_low", "ci_high"]].astype(float), expected, atol=1e-6)


def test_pairs_stand_in_both_orders_with_the_words_of_both(population):
    data = population.head(3)
    trials = collect(Verbosity(asks=["pairs"]), judge_of(data), data)
    assert len(trials) == 3 * 3 * 2
    words = data.candidates.set_index(["context_id", "candidate_id"])["text"].str.split().str.len()
    for column, who in (("words", "candidate_id"), ("opponent_words", "opponent_id")):
        assert (words.reindex(pd.MultiIndex.from_frame(trials[["context_id", who]])).to_numpy() == trials[column]).all()


def test_verbosity_shares_stored_replies_with_other_probes(population, tmp_path):
    data = population.head(3)
    judge, store = judge_of(data), tmp_path / "s.sqlite"
    collect(Position(templates=[1]), judge, data, store=store)
    assert collect(Verbosity(asks=["pairs"]), judge, data, store=store).attrs["asked"] == 0
    collect(Verbosity(), judge, data, store=store)
    assert collect(SelfPreference(own="own"), judge, data, store=store).attrs["asked"] == 0


def test_exact_log_odds_by_least_squares_clustered_by_context(population):
    data = population.head(30)
    probe = Verbosity(asks=["pairs"], reliability=1.0)
    trials = collect(probe, judge_of(data, verbosity=0.5, position=0.7), data)
    found = row_of(probe.estimate(trials, [LOGIT]), LOGIT)
    x = np.column_stack([np.ones(len(trials)), trials["human_gap"], doublings(trials)])
    fit = sm.OLS(logit(trials["value"]).to_numpy(), x).fit()
    assert found["estimate"] == pytest.approx(fit.params[2], abs=1e-9)
    assert (found["n_contexts"], found["n_trials"]) == (30, 180)


@pytest.mark.parametrize("planted", [0.0, -0.5, 1.0])
def test_the_planted_reward_is_recovered_in_logits(population, planted):
    probe = Verbosity(asks=["pairs"], reliability=1.0)
    found = row_of(run(probe, judge_of(population, verbosity=planted), population, [LOGIT]), LOGIT)
    assert found["ci_low"] < planted < found["ci_high"]
    assert found["ci_high"] - found["ci_low"] < 0.4


@pytest.mark.slow
def test_scores_are_estimated_beside_pairs_as_alone(population):
    data = population.head(20)
    judge = judge_of(data, verbosity=0.5)
    alone = run(Verbosity(), judge, data)
    both = run(Verbosity(asks=["pairs", "scores"]), judge, data)
    assert {LOGIT, EXCESS} <= set(both["metric"]) - set(alone["metric"])
    of_scores = both[both["template"].isna()].drop(columns=["q_value", "template", "configuration"])
    there = alone.drop(columns=["q_value", "template", "configuration"])
    pd.testing.assert_frame_equal(of_scores.reset_index(drop=True), there, check_dtype=False)


@pytest.mark.parametrize(("answer", "k"), [("text", 1), ("text", 3)])
def test_verdicts_and_samples_have_log_odds_too(population, answer, k):
    probe = Verbosity(asks=["pairs"], answer=answer, replicates=k, reliability=1.0)
    found = row_of(run(probe, judge_of(population, verbosity=0.8), population, [LOGIT]), LOGIT)
    assert found["method"].startswith("logistic")
    assert found["ci_low"] > 0
    assert found["estimate"] == pytest.approx(0.7, abs=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("k", [None, 1])
def test_better_long_texts_win_without_being_preferred(k):
    """The judge sees the quality, of which length is a sign; three annotators see it with errors."""
    trials = generate(GENERATORS["compared_noisy"], "verbosity", 150, False, k, (5,))
    probe = Verbosity(asks=["pairs"])
    fair = row_of(probe.estimate(trials, [LOGIT]), LOGIT)
    naive = row_of(replace(probe, reliability=1.0).estimate(trials, [LOGIT]), LOGIT)
    assert fair["ci_low"] < 0 < fair["ci_high"]
    assert naive["ci_low"] > 0.05
    curve = probe.sensitivity(trials, [1.0, 0.8, 0.6], [LOGIT])
    assert curve["estimate"].is_monotonic_decreasing


@pytest.mark.slow
def test_missing_verdicts_drop_their_pair_and_give_bounds(population):
    probe = Verbosity(asks=["pairs"], answer="text", reliability=1.0)
    trials = collect(probe, judge_of(population, verbosity=0.5), population)
    lost = np.zeros(len(trials), bool)
    lost[[1, 50, 77]] = True
    value = trials["value"].where(~lost)
    gone = trials.assign(value=value, status=trials["status"].where(~lost, "refused"))
    row = row_of(probe.estimate(gone, [LOGIT]), LOGIT)
    assert row["n_dropped"] == 6
    assert row["bound_low"] <= row["ci_low"] < row["ci_high"] <= row["bound_high"]
    for fill in (0.0, 1.0):
        there = row_of(probe.estimate(trials.assign(value=trials["value"].where(~lost, fill)), [LOGIT]), LOGIT)
        assert row["bound_low"] - 0.02 <= there["ci_low"]
        assert there["ci_high"] <= row["bound_high"] + 0.02


def test_a_protocol_of_pairs_asks_for_pairs(population):
    probe = Verbosity(protocol=PAIR)
    assert probe.asks == ("pairs",)
    data = population.head(12)
    estimates = run(probe, judge_of(data, verbosity=1.0), data)
    assert set(estimates["metric"]) >= {LOGIT, EXCESS}
    assert set(estimates["template"].dropna()) == {PAIR.id}


def test_excess_is_the_win_share_of_longer_texts_above_humans(population):
    data = population.head(20)
    probe = Verbosity(asks=["pairs"], answer="text")
    trials = collect(probe, judge_of(data, verbosity=0.5), data)
    found = row_of(probe.estimate(trials, [EXCESS]), EXCESS)
    unequal = trials[trials["words"] != trials["opponent_words"]]
    longer = unequal["words"] > unequal["opponent_words"]
    wins = unequal["value"].where(longer, 1 - unequal["value"])
    humans = (np.sign(unequal["human_gap"]).where(longer, -np.sign(unequal["human_gap"])) + 1) / 2
    assert found["estimate"] == pytest.approx((wins - humans).mean())


@pytest.mark.parametrize("wrong", [(), ("pair",), "pairs"])
def test_asks_must_be_pairs_or_scores(wrong):
    with pytest.raises(InputError, match="asks"):
        Verbosity(asks=wrong)
