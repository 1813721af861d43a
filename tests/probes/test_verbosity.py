"""Verbosity: estimates by other means, planted bias, the store it shares with Familiarity, and evaluators."""

import dataclasses
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from expected_scores import expected_scores
from hypothesis import given, settings, strategies as st
from scipy import stats
from studies import row_of

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Reply, Score, require_kinds
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError, UnsupportedRequestError
from biaslab.probes.familiarity import Familiarity
from biaslab.probes.verbosity import Verbosity

FAST = bl.Resampling(n=200)


@pytest.fixture(scope="module")
def population():
    return construct_population(200, longest=16)


def collect(probe, judge, data, **options):
    return bl.collect(probe, judge, data, progress=False, **options)


def make_trials(items):
    """Make trials of rows (context, candidate, score, words, human score)."""
    frame = pd.DataFrame(items, columns=["context_id", "candidate_id", "value", "words", "human"])
    frame["status"] = np.where(frame["value"].isna(), "refused", "ok")
    return frame.assign(judge="j", dataset="d", attribute="fluency", asked="score", label_mass=np.nan)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(5)
    rows = []
    for context in range(9):
        for candidate in range(5):
            words, human = int(rng.integers(5, 80)), float(rng.integers(1, 6))
            rows.append((f"c{context}", f"x{candidate}", human + math.log2(words) + rng.normal(), words, human))
    return make_trials(rows)


def test_slope_equals_ols_with_context_indicators(made):
    found = row_of(Verbosity().estimate(made, ["verbosity_slope"]), "verbosity_slope")
    frame = made.assign(score=stats.zscore(made["value"], ddof=1), doublings=np.log2(made["words"]))
    fit = smf.ols("score ~ doublings + human + C(context_id)", frame).fit()
    assert found["estimate"] == pytest.approx(fit.params["doublings"])
    assert found["ci_low"] < found["estimate"] < found["ci_high"]
    assert (found["n_contexts"], found["n_trials"], found["n_dropped"]) == (9, 45, 0)


def test_excess_is_the_mean_difference_of_scipys_correlations(made):
    rhos = np.array(
        [
            [stats.spearmanr(part[scorer], part["words"]).statistic for scorer in ("value", "human")]
            for _, part in made.groupby("context_id")
        ]
    )
    estimates = Verbosity().estimate(made)
    excess, differences = row_of(estimates, "verbosity_excess"), rhos[:, 0] - rhos[:, 1]
    assert excess["estimate"] == pytest.approx(differences.mean())
    test = stats.ttest_1samp(differences, 0)
    assert excess["p_value"] == pytest.approx(max(test.pvalue, 2**-8))
    assert tuple(excess[["ci_low", "ci_high"]]) == pytest.approx(tuple(test.confidence_interval()))
    for scorer, mean in zip(("judge", "human"), rhos.mean(axis=0), strict=True):
        assert row_of(estimates, "verbosity_correlation", scorer=scorer)["estimate"] == pytest.approx(mean)


def test_pooled_excess_is_the_difference_of_scipys(made):
    found = row_of(Verbosity(level="dataset", resampling=FAST).estimate(made, ["verbosity_excess"]), "verbosity_excess")
    judge, human = (stats.spearmanr(made[scorer], made["words"]).statistic for scorer in ("value", "human"))
    assert found["estimate"] == pytest.approx(judge - human)


@pytest.mark.slow
@given(st.floats(0.1, 50), st.floats(-20, 20), st.integers(1, 5))
@settings(max_examples=15, deadline=None)
def test_slope_ignores_units_of_score_and_length(made, factor, shift, longer):
    """A slope per doubling is the same wherever the doubling starts."""
    moved = made.assign(value=factor * made["value"] + shift, words=longer * made["words"])
    probe = Verbosity(resampling=FAST)
    before, after = (probe.estimate(trials, ["verbosity_slope", "verbosity_excess"]) for trials in (made, moved))
    columns = ["estimate", "ci_low", "ci_high", "p_value"]
    np.testing.assert_allclose(after[columns], before[columns], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [-0.5, pytest.param(0.8, marks=pytest.mark.slow)])
def test_the_planted_slope_is_recovered(population, size):
    """The expected scores are known exactly: an estimate of noisy ones lies within their uncertainty."""
    probe = Verbosity()
    judge = bl.SimulatedJudge(population, noise=1.0, context_noise=0.5, verbosity=size)
    trials = collect(probe, judge, population)
    slope = row_of(probe.estimate(trials, ["verbosity_slope"]), "verbosity_slope")
    frame = trials.assign(
        score=expected_scores(judge, list(probe.design(population))), doublings=np.log2(trials["words"])
    )
    columns = ["score", "doublings", "human"]
    within = frame[columns] - frame.groupby("context_id")[columns].transform("mean")
    points = np.linalg.lstsq(within[["doublings", "human"]], within["score"], rcond=None)[0][0]
    error = (slope["ci_high"] - slope["ci_low"]) / 4
    assert abs(slope["estimate"] - points / trials["value"].std()) < 3.5 * error
    assert np.sign(points) == np.sign(size)
    assert slope["p_value"] < 0.001


def test_judge_that_follows_humans_has_no_excess(made):
    """Humans find longer text better here; a judge that repeats their scores has no excess and no slope."""
    rng = np.random.default_rng(2)
    human = np.log2(made["words"]) + rng.normal(0, 0.5, len(made))
    estimates = Verbosity().estimate(made.assign(human=human, value=human))
    assert row_of(estimates, "verbosity_correlation", scorer="human")["ci_low"] > 0.4
    assert row_of(estimates, "verbosity_excess")["estimate"] == 0
    assert abs(row_of(estimates, "verbosity_slope")["estimate"]) < 1e-9


def test_words_are_counted_as_the_simulated_judge_counts_them(graded):
    probe = Verbosity(attributes=["fluency"])
    words = {(t.context_id, t.candidate_id): t.condition["words"] for t in probe.design(graded)}
    counted = graded.candidates["text"].str.split().str.len()
    assert list(words.values()) == counted.tolist()
    assert counted.nunique() > 10


def test_familiarity_and_verbosity_share_stored_replies(graded, tmp_path):
    judge = bl.SimulatedJudge(graded, verbosity=0.5)
    familiarity = Familiarity(attributes=["fluency"], sources=False)
    first = collect(familiarity, judge, graded, store=tmp_path / "s.sqlite")
    again = collect(Verbosity(attributes=["fluency"]), judge, graded, store=tmp_path / "s.sqlite")
    assert first.attrs["asked"] > 0
    assert again.attrs["asked"] == 0
    assert again["value"].tolist() == first.loc[first["asked"] == "score", "value"].tolist()


@dataclasses.dataclass(frozen=True)
class WordCounter:
    """An evaluator that scores length: a doubling from 8 to 16 words is worth a tenth."""

    id = "words"
    kinds = frozenset({Score})

    def check(self, requests):
        require_kinds(self, requests)

    def ask(self, requests):
        for request in requests:
            yield request, Reply(score=0.1 * math.log2(len(request.text.split()) / 8))


def test_an_evaluator_is_asked_for_numbers(graded):
    with pytest.raises(UnsupportedRequestError, match="Score"):
        collect(Verbosity(), WordCounter(), graded, nearest=False)
    probe = Verbosity(attributes=["fluency"], scale="1-10", answer="score")
    trials = collect(probe, WordCounter(), graded)
    assert trials["value"].to_numpy() == pytest.approx(1 + 0.9 * np.log2(trials["words"] / 8))
    slope = row_of(probe.estimate(trials, ["verbosity_slope"]), "verbosity_slope")
    assert slope["estimate"] == pytest.approx(0.9 / trials["value"].std())


@pytest.mark.slow
def test_samples_are_averaged(population):
    data = population.head(40)
    judge = bl.SimulatedJudge(data, verbosity=0.8, sharpness=4.0)
    sampled = Verbosity(answer="text", replicates=30)
    trials = collect(sampled, judge, data)
    many, exact = (row_of(p.estimate(t, ["verbosity_slope"]), "verbosity_slope")
                   for p, t in ((sampled, trials), (Verbosity(), collect(Verbosity(), judge, data))))  # fmt: skip
    assert many["n_trials"] == 30 * exact["n_trials"]
    assert many["estimate"] == pytest.approx(exact["estimate"], abs=0.06)
    mass = row_of(sampled.estimate(trials, ["label_mass"]), "label_mass")
    assert math.isnan(mass["estimate"])
    assert "text" in mass["note"]


@pytest.mark.slow
def test_items_without_a_score_or_a_human_score_do_not_enter(population):
    judge = bl.SimulatedJudge(population, refusal=0.3)
    trials = collect(Verbosity(), judge, population)
    lost = int((trials["status"] == "refused").sum())
    assert lost > 130
    with pytest.warns(MissingDataWarning, match="verbosity"):
        slope = row_of(Verbosity().estimate(trials, ["verbosity_slope"]), "verbosity_slope")
    assert (slope["n_trials"], slope["n_dropped"]) == (600 - lost, lost)
    with warnings.catch_warnings(action="ignore"):
        unrated = Verbosity(resampling=FAST).estimate(trials.assign(human=np.nan))
    assert math.isfinite(row_of(unrated, "verbosity_correlation", scorer="judge")["estimate"])
    for metric in ("verbosity_slope", "verbosity_excess"):
        assert math.isnan(row_of(unrated, metric)["estimate"])
        assert row_of(unrated, metric)["note"]


def test_texts_of_equal_length_leave_slope_undefined(made):
    found = row_of(Verbosity().estimate(made.assign(words=20), ["verbosity_slope"]), "verbosity_slope")
    assert math.isnan(found["estimate"])
    assert found["note"]


def rated_by_three(population, judge, seed=0):
    """Return trials of a judge that sees the mean human scores, as rated by three annotators who err about these."""
    means = population.human.groupby(["context_id", "candidate_id"])["score"].transform("mean")
    errors = np.random.default_rng(seed).normal(0, 1.5, len(means))
    noisy = population.human.assign(score=np.clip(means + errors, 1, 5))
    return collect(Verbosity(), judge, dataclasses.replace(population, human=noisy))


def test_trials_carry_single_ratings_and_who_gave_them(population):
    trials = collect(Verbosity(), bl.SimulatedJudge(population.head(2)), population.head(2))
    assert set(trials["annotators"]) == {"0 1 2"}
    means = [np.mean([float(score) for score in ratings.split()]) for ratings in trials["ratings"]]
    assert means == pytest.approx(trials["human"].tolist())


def test_only_single_ratings_by_construction_add_columns(graded):
    by_person = dataclasses.replace(graded, human=graded.human.assign(annotator="expert"))
    exact, rated = (collect(Verbosity(), bl.SimulatedJudge(each), each) for each in (graded, by_person))
    assert set(exact["annotators"]) == {"construction"}
    assert not {"ratings", "annotators"} & set(rated.columns)
    slopes = [Verbosity().estimate(each, ["verbosity_slope"]).loc[0] for each in (exact, rated)]
    known = Verbosity(reliability=1.0).estimate(rated, ["verbosity_slope"]).loc[0]
    assert slopes[0][["estimate", "ci_low", "ci_high"]].tolist() == known[["estimate", "ci_low", "ci_high"]].tolist()
    assert not slopes[1]["ci_high"] - slopes[1]["ci_low"] <= known["ci_high"] - known["ci_low"]


@pytest.mark.slow
def test_slope_is_corrected_for_annotator_error(population):
    """With a bias planted the slope is nearer to what it is at the scores that the judge sees."""
    judge = bl.SimulatedJudge(population, verbosity=0.5)
    trials = rated_by_three(population, judge)
    probe = Verbosity(resampling=FAST)
    found = row_of(probe.estimate(trials, ["verbosity_slope"]), "verbosity_slope")
    assert found["method"].startswith("errors in variables")
    assert "error shared by annotators is less than" in found["note"]
    assert bl.report.verdicts(pd.DataFrame([found]))[0].endswith(found["note"])


@pytest.mark.slow
def test_sensitivity_to_an_assumed_reliability(made):
    probe = Verbosity(resampling=FAST)
    curve = probe.sensitivity(made, [1.0, 0.8, 0.6])
    assert curve["reliability"].tolist() == [1.0, 0.8, 0.6]
    plain = row_of(probe.estimate(made, ["verbosity_slope"]), "verbosity_slope")
    assert curve["estimate"][0] == pytest.approx(plain["estimate"])
    within = made.assign(doublings=np.log2(made["words"]), score=made["value"] / made["value"].std())
    columns = ["score", "doublings", "human"]
    y, x, h = (within[columns] - within.groupby("context_id")[columns].transform("mean")).to_numpy().T
    gram = np.array([[x @ x, x @ h], [x @ h, 0.6 * h @ h]])
    assert curve["estimate"][2] == pytest.approx(np.linalg.solve(gram, [x @ y, h @ y])[0])
    both = probe.sensitivity(made, [0.9], ["verbosity_excess"])
    estimates = probe.estimate(made)
    judge, human = (row_of(estimates, "verbosity_correlation", scorer=who)["estimate"] for who in ("judge", "human"))
    assert both["estimate"][0] == pytest.approx(judge - human / math.sqrt(0.9))


def test_note_states_reliability_needed_with_one_rating(made):
    row = row_of(Verbosity(resampling=FAST).estimate(made, ["verbosity_slope"]), "verbosity_slope")
    needed = float(row["note"].split()[-1])
    curve = Verbosity(resampling=FAST).sensitivity(made, [needed + 0.01, max(needed, 0.3)])
    assert curve["ci_low"][0] > 0
    assert not curve["ci_low"][1] > 0
    assert "reliability above" in bl.report.verdicts(pd.DataFrame([row]))[0]


def test_trials_of_another_probe_are_refused(made):
    with pytest.raises(TrialsError, match="words"):
        Verbosity().estimate(made.drop(columns="words"))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"attributes": "fluency"}, r"use \['fluency'\]"),
        ({"scale": "1-7"}, "1-10"),
        ({"answer": "stars"}, "one of distribution, text, score"),
        ({"replicates": 3}, "text"),
        ({"level": "system"}, "one of context, dataset"),
        ({"reliability": 0.1}, "from 0.3 to 1"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(InputError, match=words):
        Verbosity(**parameters)


def test_prompts_are_choices(graded):
    assert {type(trial.request) for trial in Verbosity().design(graded)} == {Choice}
