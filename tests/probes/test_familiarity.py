"""Familiarity: estimates by other means, planted bias, another judge's likelihoods, and what Table 1 says."""

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
from scipy.special import logit
from studies import row_of

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion, Likelihood, Reply, Trial
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError, UnsupportedRequestError
from biaslab.probes.familiarity import Familiarity, log_perplexities

FAST = bl.Resampling(n=200)


@pytest.fixture(scope="module")
def population():
    return construct_population(300)


def collect(probe, judge, data):
    return bl.collect(probe, judge, data, progress=False)


def make_trials(items):
    """Make trials of rows (context, candidate, score, log perplexity, human score)."""
    rows = []
    for context, candidate, score, log_perplexity, human in items:
        for asked, value in (("score", score), ("candidate", log_perplexity)):
            status = "refused" if math.isnan(value) else "ok"
            rows.append((context, candidate, asked, value, status, human))
    frame = pd.DataFrame(rows, columns=["context_id", "candidate_id", "asked", "value", "status", "human"])
    return frame.assign(judge="j", dataset="d", attribute="fluency", label_mass=np.nan, label=np.nan)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(3)
    items = []
    for context in range(9):
        for candidate in range(5):
            log_perplexity, human = rng.normal(3, 0.4), float(rng.integers(1, 6))
            score = float(np.clip(np.round(human - log_perplexity + 3 + rng.normal()), 1, 5))
            items.append((f"c{context}", f"x{candidate}", score, log_perplexity, human))
    frame = pd.DataFrame(items, columns=["context_id", "candidate_id", "score", "log_perplexity", "human"])
    return frame, make_trials(items)


def test_correlations_are_the_mean_of_scipys(made):
    frame, trials = made
    estimates = Familiarity(sources=False).estimate(trials)
    rhos = np.array(
        [
            [stats.spearmanr(part[scorer], part["log_perplexity"]).statistic for scorer in ("score", "human")]
            for _, part in frame.groupby("context_id")
        ]
    )
    assert row_of(estimates, "familiarity_correlation", scorer="judge")["estimate"] == pytest.approx(rhos[:, 0].mean())
    assert row_of(estimates, "familiarity_correlation", scorer="human")["estimate"] == pytest.approx(rhos[:, 1].mean())
    excess = row_of(estimates, "familiarity_excess")
    assert excess["estimate"] == pytest.approx((rhos[:, 0] - rhos[:, 1]).mean())
    assert (excess["level"], excess["n_contexts"], excess["n_trials"]) == ("context", 9, 90)
    test = stats.ttest_1samp(rhos[:, 0] - rhos[:, 1], 0)
    assert excess["p_value"] == pytest.approx(test.pvalue)
    assert tuple(excess[["ci_low", "ci_high"]]) == pytest.approx(tuple(test.confidence_interval()))


def test_pooled_correlations_are_scipys(made):
    frame, trials = made
    estimates = Familiarity(sources=False, level="dataset").estimate(trials)
    judge, human = (stats.spearmanr(frame[c], frame["log_perplexity"]).statistic for c in ("score", "human"))
    assert row_of(estimates, "familiarity_correlation", scorer="judge")["estimate"] == pytest.approx(judge)
    assert row_of(estimates, "familiarity_excess")["estimate"] == pytest.approx(judge - human)


def test_slope_equals_ols_with_context_indicators(made):
    frame, trials = made
    probe = Familiarity(sources=False, reliability=1.0)
    found = row_of(probe.estimate(trials, ["familiarity_slope"]), "familiarity_slope")
    fit = smf.ols(
        "score ~ log_perplexity + human + C(context_id)", frame.assign(score=stats.zscore(frame["score"], ddof=1))
    )
    assert found["estimate"] == pytest.approx(fit.fit().params["log_perplexity"])
    assert found["ci_low"] < found["estimate"] < found["ci_high"]


def test_mean_perplexity_is_counted_by_hand():
    items = [
        ("a", "x", 4.0, math.log(10), 3.5),
        ("a", "y", 4.0, math.log(20), 2.5),
        ("b", "x", 2.0, math.log(40), 2.4),
        ("b", "y", 4.0, math.log(60), math.nan),
    ]
    estimates = Familiarity(sources=False).estimate(make_trials(items))
    table = estimates[estimates["metric"] == "mean_perplexity"].set_index(["scorer", "score"])["estimate"]
    assert table.to_dict() == pytest.approx(
        {("judge", 2.0): 40, ("judge", 4.0): 30, ("human", 2.0): 40, ("human", 3.0): 20, ("human", 4.0): 10}
    )
    share = estimates[estimates["metric"] == "score_share"].set_index(["scorer", "score"])["estimate"]
    assert share["judge", 4.0] == pytest.approx(3 / 4)
    assert share["human", 4.0] == pytest.approx(1 / 3)


def test_single_ratings_count_in_equal_parts():
    """Each annotator's rating for himself, as Table 1 may be read; by hand."""
    items = [("a", "x", 4.0, math.log(10), 4.0), ("a", "y", 4.0, math.log(40), 3.0), ("b", "x", 2.0, math.log(20), 5.0)]
    ratings = dict(zip([("a", "x"), ("a", "y"), ("b", "x")], ["3.0 5.0", "3.0 3.0", "5.0 5.0"], strict=True))
    trials = make_trials(items)
    trials["ratings"] = [ratings[key] for key in zip(trials["context_id"], trials["candidate_id"], strict=True)]
    trials["annotators"] = "0 1"
    found = {}
    for humans in ("means", "single"):
        estimates = Familiarity(sources=False, humans=humans).estimate(trials, ["mean_perplexity", "score_share"])
        table = estimates[estimates["scorer"] == "human"].set_index(["metric", "score"])["estimate"]
        found[humans] = table.to_dict()
    perplexity = {("mean_perplexity", 3.0): (10 / 2 + 40) / 1.5, ("mean_perplexity", 5.0): (10 / 2 + 20) / 1.5}
    assert found["single"] == pytest.approx(perplexity | {("score_share", 3.0): 0.5, ("score_share", 5.0): 0.5})
    assert {score for _, score in found["means"]} == {3.0, 4.0, 5.0}


def test_table_1_comes_out_of_summaries_that_have_its_means():
    """Two summaries a rating, half a point above and below the printed mean perplexity."""
    printed = bl.published.load("stureborg2024", table=1)
    printed = printed[printed["metric"].str.contains("summary") & (printed["attribute"] == "relevance")]
    printed = printed.assign(rating=printed["row"].str.removeprefix("rating ").astype(float))
    means = printed.set_index(["rating", "judge"])["value"].unstack()  # noqa: PD010
    assert len(means) == 5
    for judge in means:
        items = [
            (f"c{rating}{sign}", "x", rating, math.log(mean + sign / 2), math.nan)
            for rating, mean in means[judge].items()
            for sign in (-1, 1)
        ]
        estimates = Familiarity(sources=False).estimate(make_trials(items), ["mean_perplexity"])
        assert estimates["estimate"].to_numpy() == pytest.approx(means[judge].to_numpy())


@pytest.mark.slow
@given(st.floats(0.1, 50), st.floats(-20, 20))
@settings(max_examples=15, deadline=None)
def test_the_unit_of_the_score_does_not_matter(factor, shift):
    rng = np.random.default_rng(1)
    items = [(f"c{k // 4}", f"x{k % 4}", *rng.normal(3, 1, 2), float(rng.integers(1, 6))) for k in range(32)]
    moved = [(c, x, factor * score + shift, log_perplexity, human) for c, x, score, log_perplexity, human in items]
    probe = Familiarity(sources=False, resampling=FAST)
    before, after = (probe.estimate(make_trials(rows), list(probe.primary)) for rows in (items, moved))
    columns = ["estimate", "ci_low", "ci_high", "p_value"]
    np.testing.assert_allclose(after[columns], before[columns], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("size", [-1.0, pytest.param(1.5, marks=pytest.mark.slow)])
def test_the_planted_slope_is_recovered(population, size):
    """The expected scores are known exactly: an estimate of noisy ones lies within their uncertainty."""
    probe = Familiarity()
    judge = bl.SimulatedJudge(population, noise=1.0, context_noise=0.5, familiarity=size)
    trials = collect(probe, judge, population)
    estimates = probe.estimate(trials, ["familiarity_slope", "familiarity_correlation"])
    planned = [trial for trial in probe.design(population) if trial.condition["asked"] == "score"]
    scored = trials[trials["asked"] == "score"].reset_index(drop=True)
    spread = scored["value"].std()
    read = trials[trials["asked"] == "candidate"]["value"].to_numpy()
    frame = scored.assign(score=expected_scores(judge, planned) / spread, log_perplexity=read)
    codes = frame.groupby("context_id")
    within = frame[["score", "log_perplexity", "human"]] - codes[["score", "log_perplexity", "human"]].transform("mean")
    truth = np.linalg.lstsq(within[["log_perplexity", "human"]], within["score"], rcond=None)[0][0]
    slope = row_of(estimates, "familiarity_slope")
    error = (slope["ci_high"] - slope["ci_low"]) / 4
    assert abs(slope["estimate"] - truth) < 3.5 * error
    assert np.sign(slope["estimate"]) == np.sign(size)
    assert slope["p_value"] < 0.001
    rho = row_of(estimates, "familiarity_correlation", scorer="judge")
    assert np.sign(rho["estimate"]) == np.sign(size)
    assert abs(row_of(estimates, "familiarity_correlation", scorer="human")["estimate"]) < 0.15


@pytest.mark.slow
def test_judge_that_follows_humans_has_no_excess(population):
    """Humans find likely text better here; a judge that agrees with them has their correlation, and no excess."""
    means = population.human_means["coherence"].to_numpy()
    rng = np.random.default_rng(0)
    texts = dict(zip(population.candidates["text"], 4 - 0.3 * means + rng.normal(0, 0.3, len(means)), strict=True))
    judge = bl.SimulatedJudge(population, log_perplexity=texts)
    probe = Familiarity(
        sources=False, reliability=1.0
    )  # the judge sees the mean human scores, which then have no errors
    estimates = probe.estimate(collect(probe, judge, population))
    assert row_of(estimates, "familiarity_correlation", scorer="human")["ci_high"] < -0.4
    assert row_of(estimates, "familiarity_excess")["estimate"] == 0
    assert abs(row_of(estimates, "familiarity_slope")["estimate"]) < 0.03
    liking = dataclasses.replace(judge, familiarity=-1.0)
    estimates = probe.estimate(collect(probe, liking, population))
    assert row_of(estimates, "familiarity_excess")["ci_high"] < 0
    assert row_of(estimates, "familiarity_slope")["estimate"] < 0


@pytest.mark.slow
def test_samples_tend_to_the_distribution(population):
    data = population.head(60)
    judge = bl.SimulatedJudge(data, familiarity=-1.5, sharpness=4.0)
    exact, sampled = Familiarity(sources=False), Familiarity(sources=False, answer="text", replicates=60)
    one_by_one, at_once = (probe.estimate(collect(probe, judge, data)) for probe in (sampled, exact))
    cell = ["metric", "scorer", "score"]
    both = at_once.merge(one_by_one, on=cell, suffixes=("", "_sampled"))
    both = both[both["metric"] != "label_mass"]
    assert len(both) == len(at_once) - 1
    difference = (both["estimate"] - both["estimate_sampled"]).abs()
    assert (difference < (both["ci_high"] - both["ci_low"]) / 3).all()
    assert math.isnan(row_of(one_by_one, "label_mass")["estimate"])


@pytest.mark.slow
def test_items_that_lack_a_score_or_a_likelihood_do_not_enter(population):
    judge = bl.SimulatedJudge(population, refusal=0.3)
    probe = Familiarity(sources=False)
    trials = collect(probe, judge, population)
    scores, texts = (trials[trials["asked"] == asked] for asked in ("score", "candidate"))
    assert (texts["status"] == "ok").all()
    lost = int((scores["status"] == "refused").sum())
    assert lost > 200
    with pytest.warns(MissingDataWarning, match="familiarity"):
        slope = row_of(probe.estimate(trials, ["familiarity_slope"]), "familiarity_slope")
    assert (slope["n_trials"], slope["n_dropped"]) == (2 * (900 - lost), 2 * lost)
    gone = trials["asked"].eq("candidate") & trials["context_id"].isin([str(k) for k in range(20)])
    with warnings.catch_warnings(action="ignore"):
        fewer = probe.estimate(trials.assign(value=trials["value"].mask(gone)), ["familiarity_slope"])
        table = probe.estimate(trials.assign(value=trials["value"].mask(gone)), ["mean_perplexity"])
    assert row_of(fewer, "familiarity_slope")["n_contexts"] <= slope["n_contexts"] - 15
    assert (table["n_contexts"] <= 280).all()


@pytest.mark.slow
def test_likelihoods_of_another_judge(graded):
    """The same likelihoods, handed over as data, give the same estimates."""
    judge = bl.SimulatedJudge(graded, familiarity=-1.0, noise=1.0)
    together = Familiarity(attributes=["coherence"], resampling=FAST)
    read = collect(dataclasses.replace(together, asks="likelihoods"), judge, graded)
    assert set(read["asked"]) == {"candidate", "source"}
    texts = log_perplexities(read, graded)
    assert set(texts) == {*graded.candidates["text"], *graded.candidates["context"]}
    apart = dataclasses.replace(together, log_perplexity=texts, likelihood_judge="reader")
    assert not any(isinstance(trial.request, Likelihood) for trial in apart.design(graded))
    one_run, two_runs = (probe.estimate(collect(probe, judge, graded)) for probe in (together, apart))
    assert set(one_run["likelihood_judge"]) == {judge.id}
    assert set(two_runs["likelihood_judge"]) == {"reader"}
    pd.testing.assert_frame_equal(one_run.drop(columns="likelihood_judge"), two_runs.drop(columns="likelihood_judge"))


def test_a_text_without_perplexity_is_named_or_left_out(graded):
    texts = dict.fromkeys([*graded.candidates["text"], *graded.candidates["context"]], 3.0)
    first = graded.candidates["text"].iloc[0]
    lacking = {text: value for text, value in texts.items() if text != first}
    with pytest.raises(InputError, match=r"candidate of context 'news-1'.*log_perplexities"):
        list(Familiarity(log_perplexity=lacking).design(graded))
    rng = np.random.default_rng(0)
    texts = {text: float(rng.normal(3, 0.3)) for text in texts} | {first: math.nan}
    probe = Familiarity(attributes=["fluency"], log_perplexity=texts, sources=False)
    found = probe.estimate(collect(probe, bl.SimulatedJudge(graded), graded), ["familiarity_slope"])
    assert row_of(found, "familiarity_slope")["n_dropped"] == 2


@dataclasses.dataclass(frozen=True)
class Wordless:
    """A judge that gives no likelihoods and counts what it is asked."""

    judge: bl.SimulatedJudge
    asked: list = dataclasses.field(default_factory=list)
    id = "wordless"
    kinds = frozenset({Choice, Completion})

    def check(self, requests):
        bl.core.require_kinds(self, requests)

    def ask(self, requests):
        for request in requests:
            self.asked.append(request)
            yield from self.judge.ask([request])


def test_judge_without_likelihoods_is_refused_before_any_request(graded):
    inner = bl.SimulatedJudge(graded)
    judge = Wordless(inner)
    with pytest.raises(UnsupportedRequestError, match=r"does not answer Likelihood requests.*another judge"):
        bl.collect(Familiarity(), judge, graded, progress=False, nearest=False)
    assert not judge.asked
    texts = log_perplexities(collect(Familiarity(asks="likelihoods"), inner, graded), graded)
    trials = collect(Familiarity(log_perplexity=texts), judge, graded)
    assert set(trials["status"]) == {"ok"}


def test_value_is_the_mean_token_log_probability():
    trial = Trial(Likelihood("Rain fell."), "c", "fluency", "x", condition={"asked": "candidate"})
    probe = Familiarity()
    value, status = probe.read(trial, Reply(logprobs=(math.log(1 / 2), math.log(1 / 8), math.log(1 / 4))))
    assert (math.exp(value), status) == (pytest.approx(4), "ok")
    for logprobs in ((), None, (-1.0, -math.inf)):
        value, status = probe.read(trial, Reply(logprobs=logprobs))
        assert math.isnan(value)
        assert status == "refused"


def test_sources(graded):
    judge = bl.SimulatedJudge(graded, noise=1.0)
    probe = Familiarity(attributes=["fluency"], resampling=FAST)
    trials = collect(probe, judge, graded)
    sources = trials[trials["asked"] == "source"]
    assert len(sources[["context_id", "key"]].drop_duplicates()) == graded.n_contexts  # each is read once
    estimates = probe.estimate(trials)
    items = trials[trials["asked"] == "score"].merge(
        sources, on=["context_id", "candidate_id"], suffixes=("", "_source")
    )
    rho = stats.spearmanr(items["value"], items["value_source"]).statistic
    assert row_of(estimates, "source_correlation", scorer="judge")["estimate"] == pytest.approx(rho)
    fit = smf.ols("value ~ value_source + human", items.assign(value=stats.zscore(items["value"], ddof=1))).fit()
    assert row_of(estimates, "source_slope")["estimate"] == pytest.approx(fit.params["value_source"])
    means = trials[trials["asked"] == "label"].merge(
        sources, on=["context_id", "candidate_id"], suffixes=("", "_source")
    )
    means = means[means["label"] == 4]
    mean = np.average(np.exp(means["value_source"]), weights=means["value"])
    assert row_of(estimates, "source_perplexity", scorer="judge", score=4.0)["estimate"] == pytest.approx(mean)


def test_no_source_no_estimate_of_it(graded):
    bare = dataclasses.replace(graded, candidates=graded.candidates.assign(context=""))
    probe = Familiarity(attributes=["fluency"], resampling=FAST)
    trials = collect(probe, bl.SimulatedJudge(bare), bare)
    assert not probe.estimate(trials)["metric"].str.startswith("source").any()
    with pytest.raises(InputError, match="source"):
        probe.estimate(trials, ["source_slope"])


def test_likelihoods_alone_are_no_study(graded):
    probe = Familiarity(asks="likelihoods")
    with pytest.raises(TrialsError, match="log_perplexities"):
        probe.estimate(collect(probe, bl.SimulatedJudge(graded), graded))


def test_without_human_scores_the_judge_alone_is_described(graded):
    probe = Familiarity(attributes=["fluency"], sources=False, resampling=FAST)
    trials = collect(probe, bl.SimulatedJudge(graded, noise=1.0), graded).assign(human=np.nan)
    estimates = probe.estimate(trials)
    assert math.isfinite(row_of(estimates, "familiarity_correlation", scorer="judge")["estimate"])
    for metric in ("familiarity_slope", "familiarity_excess"):
        assert math.isnan(row_of(estimates, metric)["estimate"])
        assert row_of(estimates, metric)["note"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"attributes": "fluency"}, r"use \['fluency'\]"),
        ({"scale": "1-7"}, "1-10"),
        ({"answer": "marks"}, "one of distribution, text, score"),
        ({"replicates": 3}, "text"),
        ({"asks": "scores"}, "one of both, likelihoods"),
        ({"level": "system"}, "one of context, dataset"),
        ({"log_perplexity": {"a": -1.0}}, "at least 0"),
        ({"log_perplexity": {"a": math.inf}}, "finite"),
        ({"log_perplexity": {"a": 1.0}, "asks": "likelihoods"}, "both, because log_perplexity is given"),
    ],
)
def test_bad_parameters(parameters, words):
    with pytest.raises(InputError, match=words):
        Familiarity(**parameters)


def test_pairs_have_the_log_odds_of_least_squares_per_doubling(graded):
    probe = Familiarity(["coherence"], asks=["pairs"], reliability=1.0)
    judge = bl.SimulatedJudge(graded, noise=0.5, familiarity=-1.0, position=0.5)
    trials = collect(probe, judge, graded)
    assert set(trials["asked"]) == {"pair", "candidate"}
    found = row_of(probe.estimate(trials), "familiarity_logit")
    read = trials[trials["asked"] == "candidate"].set_index(["context_id", "candidate_id"])["value"]
    pairs = trials[trials["asked"] == "pair"]
    one, two = (pd.MultiIndex.from_frame(pairs[["context_id", who]]) for who in ("candidate_id", "opponent_id"))
    apart = (read.reindex(one).to_numpy() - read.reindex(two).to_numpy()) / np.log(2)
    frame = pd.DataFrame({"y": logit(pairs["value"]), "gap": pairs["human_gap"], "apart": apart})
    fit = smf.ols("y ~ gap + apart", frame).fit()
    assert found["estimate"] == pytest.approx(fit.params["apart"], abs=1e-9)
    assert found["ci_low"] < -np.log(2) < found["ci_high"]
    assert found["likelihood_judge"] == judge.id


def test_perplexities_of_another_model_serve_pairs_too(graded):
    reader, judge = bl.SimulatedJudge(graded, noise=0.5), bl.SimulatedJudge(graded, noise=0.5, familiarity=-1.0)
    read = collect(Familiarity(["coherence"], asks="likelihoods"), reader, graded)
    known = log_perplexities(read, graded)
    probe = Familiarity(["coherence"], asks=["pairs"], log_perplexity=known, likelihood_judge="reader", reliability=1.0)
    trials = collect(probe, judge, graded)
    assert set(trials["asked"]) == {"pair"}
    found = row_of(probe.estimate(trials), "familiarity_logit")
    assert found["ci_high"] < 0
    assert found["likelihood_judge"] == "reader"


def test_pairs_without_human_scores_have_a_note_and_no_log_odds(graded):
    probe = Familiarity(["coherence"], asks=["pairs"])
    trials = collect(probe, bl.SimulatedJudge(graded), graded).assign(human_gap=np.nan, human=np.nan)
    found = row_of(probe.estimate(trials), "familiarity_logit")
    assert math.isnan(found["estimate"])
    assert found["note"]


def test_a_protocol_of_pairs_asks_for_pairs_beside_likelihoods(graded):
    template = "Question: {question}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}"
    pair = bl.Protocol.from_template(template, name="pair", verdicts={"A": 1, "B": 0}, pattern=r"\[\[([AB])\]\]")
    probe = Familiarity(["coherence"], protocol=pair)
    trials = collect(probe, bl.SimulatedJudge(graded, noise=0.5, familiarity=-1.0), graded)
    assert set(trials["asked"]) == {"pair", "candidate"}
    assert row_of(probe.estimate(trials, ["familiarity_logit"]), "familiarity_logit")["template"] == pair.id


@pytest.mark.parametrize("asks", ["likelihoods", "both", ["scores"], ["pairs", "scores"]])
@pytest.mark.parametrize("form", ["pair", "score"])
def test_protocol_changes_asks_only_if_of_another_form(form, asks):
    slots, reads = {
        "pair": ("{answer_a} {answer_b}", {"verdicts": {"A": 1, "B": 0}, "pattern": "([AB])"}),
        "score": ("{answer}", {"scale": "1-5", "pattern": "([1-5])"}),
    }[form]
    protocol = bl.Protocol.from_template(f"{{question}} {slots}", form, **reads)
    probe = Familiarity(["coherence"], asks=asks, protocol=protocol)
    kept = asks == "likelihoods" or (form == "score" and asks in ("both", ["scores"]))
    assert probe.asks == (asks if kept else (f"{form}s",))


def test_another_models_likelihoods_are_asked_for_without_pairs(graded):
    """A reader of likelihoods, such as the embedded model, compares no pairs, whatever the judge's own prompt asks."""
    template = "Question: {question}\n\n[A]\n{answer_a}\n\n[B]\n{answer_b}"
    pair = bl.Protocol.from_template(template, name="pair", verdicts={"A": 1, "B": 0}, pattern=r"\[\[([AB])\]\]")
    judged = Familiarity(["coherence"], protocol=pair)
    refused = next(trial.request for trial in judged.design(graded) if trial.opponent_id is None)
    nearest = judged.nearest(refused)
    assert {trial.condition["asked"] for trial in nearest.reads.design(graded)} == {"candidate"}
