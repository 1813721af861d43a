"""The comparative probe: what is asked, in rounds or at once, and what comes out."""

import numpy as np
import pandas as pd
import pytest
import studies
from scipy.stats import kendalltau, spearmanr

import biaslab as bl
from biaslab.core import Choice
from biaslab.core.errors import BudgetExceededError, InputError, MissingDataWarning
from biaslab.probes.comparative import Comparative
from biaslab.probes.position import Position
from biaslab.stats.frame import without_breakdowns


def run(probe, judge, data, metrics=None):
    return studies.run(probe, judge, data, metrics).set_index("metric")


def win_ratios(trials):
    """Eq. 6, counted decision by decision."""
    won, asked = {}, {}
    for row in trials.itertuples():
        for name, p in ((row.candidate_id, row.value), (row.opponent_id, 1 - row.value)):
            won[name] = won.get(name, 0) + (p > 0.5) + 0.5 * (p == 0.5)
            asked[name] = asked.get(name, 0) + 1
    return {name: won[name] / asked[name] for name in won}


@pytest.mark.parametrize("strategy", ["full", "random", "no-repeat", "symmetric"])
def test_agreement_is_that_of_win_ratios_counted_by_hand(graded, strategy):
    judge = bl.SimulatedJudge(graded, quality=0.7, noise=1.0)
    probe = Comparative(["fluency"], strategy=strategy, budget=None if strategy == "full" else 12)
    trials = bl.collect(probe, judge, graded, progress=False)
    means, expected, tau = graded.human_means["fluency"], [], []
    for context_id, rows in trials.groupby("context_id"):
        ratios = win_ratios(rows)
        scores = [[ratios[name], means[context_id, name]] for name in ratios]
        if np.ptp([score for score, _ in scores]) > 0:
            expected.append(spearmanr(scores).statistic)
            tau.append(kendalltau(*np.transpose(scores)).statistic)
    found = probe.estimate(trials).set_index("metric")["estimate"]
    assert found["spearman"] == pytest.approx(np.mean(expected))
    assert found["kendall"] == pytest.approx(np.mean(tau))


def test_the_same_requests_as_the_position_probe(graded):
    """A store that answered one answers the other."""
    position = {trial.request for trial in Position(["coherence"], [1]).design(graded)}
    assert {trial.request for trial in Comparative(["coherence"]).design(graded)} == position
    assert {
        trial.request for trial in Comparative(["coherence"], strategy="random", budget=7).design(graded)
    } < position


def test_metrics_are_those_of_the_position_probe(graded):
    judge = bl.SimulatedJudge(graded, position=1.0, noise=1.0)
    ours = run(Comparative(["coherence"]), judge, graded)
    theirs = run(Position(["coherence"], [1]), judge, graded)
    theirs = without_breakdowns(theirs.reset_index()).set_index("metric")
    for metric in ("first_position_rate", "order_consistency", "comparative_accuracy", "label_mass"):
        for column in ("estimate", "p_value"):
            assert ours.loc[metric, column] == pytest.approx(theirs.loc[metric, column], nan_ok=True)
    assert ours.loc["tokens_per_item", "estimate"] == 5  # 30 comparisons of a token each, 6 candidates


@pytest.mark.slow
def test_debiasing_removes_position_bias_out_of_sample(graded):
    judge = bl.SimulatedJudge(graded, position=2.0, noise=0.5)
    before, after = (run(Comparative(["coherence"], debiasing=name), judge, graded) for name in ("none", "threshold"))
    assert before.loc["first_position_rate", "estimate"] > 0.75
    assert abs(after.loc["first_position_rate", "estimate"] - 0.5) < 0.05
    assert after.loc["comparative_accuracy", "estimate"] > before.loc["comparative_accuracy", "estimate"] + 0.1
    assert (after["debiasing"] == "threshold").all()
    alone = run(Comparative(["coherence"], debiasing="threshold"), judge, graded.head(1))
    assert np.isnan(alone.loc["spearman", "estimate"])
    assert "the debiasing cannot be fitted" in alone.loc["spearman", "note"]


def test_all_levels_of_agreement(graded):
    trials = bl.collect(Comparative(["coherence"]), bl.SimulatedJudge(graded, noise=1.0), graded, progress=False)
    found = Comparative(["coherence"]).estimate(trials).set_index("metric")["estimate"]
    ranked = bl.ranking.rank(trials)
    assert found["dataset_spearman"] == pytest.approx(spearmanr(ranked["score"], ranked["human"]).statistic)
    means = ranked.groupby("system")[["score", "human"]].mean().round(12)
    assert found["system_spearman"] == pytest.approx(spearmanr(means["score"], means["human"]).statistic)


def test_missing_judgements_drop_their_twin(graded):
    judge = bl.SimulatedJudge(graded, noise=1.0, refusal=0.2)
    probe = Comparative(["coherence"])
    trials = bl.collect(probe, judge, graded, progress=False)
    with pytest.warns(MissingDataWarning, match="the same pair in the other order"):
        row = probe.estimate(trials, ["spearman"]).iloc[0]
    usable = trials[trials["status"] == "ok"]
    pairs = set(zip(usable["context_id"], usable["candidate_id"], usable["opponent_id"], strict=True))
    assert row["n_trials"] == sum((c, j, i) in pairs for c, i, j in pairs)
    assert row["n_trials"] + row["n_dropped"] == len(trials) == 240


@pytest.mark.slow
def test_samples_of_text_are_averaged(graded):
    judge = bl.SimulatedJudge(graded.head(4), quality=2.0)
    probe = Comparative(["coherence"], answer="text", replicates=5)
    trials = bl.collect(probe, judge, graded.head(4), progress=False)
    assert len(trials) == 4 * 30 * 5
    soft = bl.collect(Comparative(["coherence"]), judge, graded.head(4), progress=False)
    means = trials.groupby(["context_id", "candidate_id", "opponent_id"])["value"].mean()
    exact = soft.set_index(["context_id", "candidate_id", "opponent_id"])["value"]
    assert np.abs(means - exact.reindex(means.index)).mean() < 0.15
    assert probe.estimate(trials, ["spearman"])["n_trials"].item() == len(trials)


class Watched:
    """A judge that notes how often and what it is asked."""

    kinds = frozenset({Choice})

    def __init__(self, judge):
        self.judge, self.id, self.check, self.rounds = judge, judge.id, judge.check, []

    def ask(self, requests):
        self.rounds.append(list(requests))
        return self.judge.ask(requests)


ADAPTIVE = Comparative(["coherence", "fluency"], strategy="adaptive", budget=14, rounds=5)


@pytest.mark.slow
def test_adaptive_design_spends_its_budget_in_rounds(graded):
    watched = Watched(bl.SimulatedJudge(graded, quality=2.0, noise=0.5))
    trials = bl.collect(ADAPTIVE, watched, graded, progress=False)
    assert [len(asked) for asked in watched.rounds] == [48, 48, 48, 48, 32]  # 3, 3, 3, 3, 2 of 8 contexts × 2
    assert trials.groupby(["context_id", "attribute"]).size().eq(14).all()
    assert not trials.duplicated(["context_id", "attribute", "candidate_id", "opponent_id"]).any()
    assert trials.attrs["asked"] == 224
    assert ADAPTIVE.estimate(trials)["decoding"].eq("bradley-terry-position").all()


@pytest.mark.slow
def test_adaptive_agrees_more_than_random_for_the_same_price():
    data = bl.load_dataset("graded", limit=24)
    found = {}
    for strategy in ("random", "adaptive"):
        options = {"budget": 10, "rounds": 5, "decoding": "bradley-terry-position"}
        probe = Comparative(["coherence", "fluency"], strategy=strategy, **options)
        judge = bl.SimulatedJudge(data, quality=3.0, noise=0.3)
        found[strategy] = run(probe, judge, data, ["spearman"])["estimate"].mean()
    assert found["adaptive"] > found["random"] + 0.02


@pytest.mark.slow
def test_refused_pairs_are_not_repeated(graded):
    trials = bl.collect(ADAPTIVE, bl.SimulatedJudge(graded, refusal=0.3), graded, progress=False)
    assert trials["key"].is_unique
    assert trials.groupby(["context_id", "attribute"]).size().eq(14).all()


@pytest.mark.slow
def test_a_stopped_adaptive_run_goes_on_where_it_was(graded, tmp_path):
    judge, store = bl.SimulatedJudge(graded, quality=2.0, noise=0.5), tmp_path / "replies.sqlite"
    with pytest.raises(BudgetExceededError, match="stored, if a store was given"):
        bl.collect(ADAPTIVE, judge, graded, store=store, budget=bl.Budget(requests=100, partial=True), progress=False)
    rest = Watched(judge)
    trials = bl.collect(ADAPTIVE, rest, graded, store=store, progress=False)
    assert (trials.attrs["asked"], trials.attrs["stored"]) == (124, 100)
    pd.testing.assert_frame_equal(trials, bl.collect(ADAPTIVE, judge, graded, progress=False))


@pytest.mark.slow
def test_an_adaptive_design_is_a_function_of_the_trials(graded):
    judge = bl.SimulatedJudge(graded, quality=2.0, noise=0.5)
    first = list(ADAPTIVE.design(graded))
    trials = bl.collect(ADAPTIVE, judge, graded, progress=False)
    start = trials.head(len(first))
    assert list(ADAPTIVE.design(graded, start)) == list(ADAPTIVE.design(graded, start))
    turned = start.assign(value=start["value"] ** 3)
    assert list(ADAPTIVE.design(graded, start)) != list(ADAPTIVE.design(graded, turned))
    assert list(ADAPTIVE.design(graded, trials)) == []
    assert list(Comparative(["coherence"]).design(graded, start)) == []


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"attributes": "coherence"}, "list"),
        ({"template": 3}, "template"),
        ({"strategy": "clever"}, "adaptive"),
        ({"decoding": "elo"}, "bradley-terry"),
        ({"debiasing": "magic"}, "threshold"),
        ({"budget": 5}, "full"),
        ({"budget": 1, "strategy": "random"}, "budget"),
        ({"rounds": 0}, "rounds"),
        ({"folds": 1}, "folds"),
        ({"strategy": "adaptive", "decoding": "win-ratio"}, "bradley-terry"),
        ({"answer": "song"}, "answer"),
        ({"replicates": 3}, "replicates"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_parameters_are_refused(parameters, words):
    with pytest.raises(InputError, match=words):
        Comparative(**parameters)
