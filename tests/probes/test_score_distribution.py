"""The score distribution probe against planted heaping, exact distributions and published ratings."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_distributions
from hypothesis import given, strategies as st
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.core.scales import SCALES, find_scale
from biaslab.probes.score_distribution import ScoreDistribution
from biaslab.stats.correlation import correlation
from biaslab.stats.distribution import describe_distribution
from biaslab.stats.samples import agreement_within, draw_means

HUNDRED = find_scale("1-100")


@pytest.fixture(scope="module")
def many():
    """120 contexts of three candidates whose human scores are uniform between 1 and 5."""
    return construct_population(120)


def counted_whipple(pooled, multiple):
    """Whipple's index of 100 shares, counted by hand."""
    level = dict(zip(range(1, 101), pooled, strict=True))
    if multiple == 10:
        hits, window = sum(level[m] for m in range(10, 91, 10)), sum(level[m] for m in range(6, 95))
        return 10 * hits / (window + (level[5] + level[95]) / 2)
    return 5 * sum(level[m] for m in range(5, 96, 5)) / sum(level[m] for m in range(3, 98))


def test_design_asks_each_scale_once_and_reads_every_label(graded):
    probe = ScoreDistribution(attributes=["fluency"], n_candidates=None)
    trials = list(probe.design(graded))
    levels = sum(len(scale.labels) for scale in SCALES.values())
    assert len(trials) == 48 * levels
    assert len({trial.request for trial in trials}) == 48 * 5
    few = ScoreDistribution(attributes=["fluency"], n_candidates=2)
    drawn = {(t.context_id, t.candidate_id) for t in few.design(graded)}
    assert len(drawn) == 16
    assert {(t.context_id, t.candidate_id) for t in few.design(graded.head(3))} <= drawn


@pytest.mark.slow
def test_planted_heaping_comes_back(many):
    probe = ScoreDistribution(scales=["1-100"])
    judge = bl.SimulatedJudge(many, quality=0.6, noise=0.5, heaping=0.8)
    estimates = run(probe, judge, many, list(ScoreDistribution.primary))
    seen = {trial.request: trial for trial in probe.design(many)}
    pooled = np.sum(expected_distributions(judge, seen.values()), axis=0)
    for multiple in (5, 10):
        found = row_of(estimates, f"round_number_excess_{multiple}", answer="single")
        truth = counted_whipple(pooled, multiple)
        assert truth > 1.4
        assert found["estimate"] == pytest.approx(truth, abs=0.02)
        assert found["ci_low"] - 0.005 < truth < found["ci_high"] + 0.005
        assert found["p_value"] < 0.001


@pytest.mark.slow
@pytest.mark.parametrize("sharpness", [6.0, pytest.param(8.0, marks=pytest.mark.slow), 12.0])
def test_a_fair_judge_is_not_accused(many, sharpness):
    """Exactly known distributions show that smooth ones, cut off by the scale's ends, lie a little off 1."""
    judge = bl.SimulatedJudge(many, quality=0.8, noise=0.5, sharpness=sharpness)
    estimates = run(ScoreDistribution(scales=["1-100"]), judge, many, list(ScoreDistribution.primary))
    single = estimates[estimates["answer"] == "single"]
    assert (single["estimate"] - 1).abs().max() < 0.03
    assert (single["p_value"] > 0.05).all()
    assert (single["mde"].gt(0) | single["note"].str.len().gt(0)).all()


def test_departure_is_tested_against_the_margin():
    rng, levels = np.random.default_rng(0), np.arange(1, 101)
    smooth = np.exp(-0.5 * ((levels - rng.uniform(30, 70, (60, 1))) / 12) ** 2)
    for extra, found in ((1.02, False), (1.15, True)):
        weights = np.where(levels % 10 == 0, extra, 1.0) * smooth
        names = np.repeat(np.arange(20), 3)
        result = describe_distribution(names, weights, levels, ["round_number_excess_10"], bl.Resampling(), 1.0, 0.03)
        assert (result["round_number_excess_10"].p_value < 0.05) == found
        if not found:
            assert result["round_number_excess_10"].p_value == 1
            plain = describe_distribution(names, weights, levels, ["round_number_excess_10"], bl.Resampling())
            assert plain["round_number_excess_10"].p_value < 0.05


@pytest.mark.slow
def test_text_and_distribution_agree(many):
    settings = {"quality": 0.6, "noise": 0.5, "heaping": 0.8}
    judge = bl.SimulatedJudge(many, **settings)
    exact = run(ScoreDistribution(scales=["1-100"], samples=8), judge, many)
    text = run(ScoreDistribution(scales=["1-100"], samples=8, answer="text"), judge, many)
    for metric in ("round_number_excess_10", "round_number_excess_5", "pooled_sd", "tie_rate", "agreement"):
        one, other = (row_of(frame, metric, answer="single") for frame in (exact, text))
        error = (other["ci_high"] - other["ci_low"]) / 2
        assert one["estimate"] == pytest.approx(other["estimate"], abs=1.5 * error), metric
    one, other = (row_of(frame, "agreement", answer="mean of 8") for frame in (exact, text))
    assert one["estimate"] == pytest.approx(other["estimate"], abs=0.04)
    assert not {"greedy", "expected"} & set(text["answer"])


@pytest.mark.slow
def test_agreement_gain_of_averaging_comes_from_decoding(many):
    """Without noise the expected score orders as humans do; a single sample hides it, and more samples less so."""
    judge = bl.SimulatedJudge(many, quality=0.6, sharpness=4.0)
    estimates = run(ScoreDistribution(scales=["1-10"]), judge, many, ["agreement", "agreement_gain", "tie_rate"])
    agreement = estimates[estimates["metric"] == "agreement"].set_index("answer")["estimate"]
    assert agreement["expected"] == pytest.approx(1.0)
    assert agreement["single"] < agreement["mean of 10"] < agreement["expected"]
    gain = row_of(estimates, "agreement_gain", answer="expected")
    assert gain["ci_low"] < 1 - agreement["single"] < gain["ci_high"]
    assert gain["p_value"] < 0.001
    ties = estimates[estimates["metric"] == "tie_rate"].set_index("answer")["estimate"]
    assert ties["expected"] == 0
    assert ties["mean of 10"] < ties["single"]


def test_agreement_is_that_of_the_correlation_module(graded):
    probe = ScoreDistribution(attributes=["coherence"], scales=["1-10"], n_candidates=None)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, noise=1.0), graded, progress=False)
    score = (trials["value"] * trials["label"]).groupby([trials["context_id"], trials["candidate_id"]]).sum()
    human = trials.groupby(["context_id", "candidate_id"])["human"].first()
    frame = pd.DataFrame({"judge": score, "human": human}).reset_index()
    found = row_of(probe.estimate(trials, ["agreement"]), "agreement", answer="expected")
    assert found["estimate"] == pytest.approx(correlation(frame, "judge", "human", method="kendall").value)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.one_of(st.just(math.nan), st.integers(1, 4))),
        min_size=1,
        max_size=20,
    )
)
def test_agreement_within_contexts_is_kendalls(rows):
    context, scores, human = zip(*rows, strict=True)
    found = agreement_within(context, [scores], human)
    frame = pd.DataFrame({"context_id": context, "x": scores, "y": human})
    expected = correlation(frame, "x", "y", method="kendall")
    assert found.defined.sum() == expected.n
    if expected.n:
        assert found.tau.sum() / expected.n == pytest.approx(expected.value)


def test_draws_have_the_mean_and_spread_of_the_distribution():
    p, levels = np.array([[0.2, 0.3, 0.5]]), np.array([1.0, 2.0, 4.0])
    drawn = draw_means(p, levels, 10, 20_000, np.random.default_rng(1))[:, 0]
    mean = float(p[0] @ levels)
    spread = math.sqrt(float(p[0] @ (levels - mean) ** 2) / 10)
    assert drawn.mean() == pytest.approx(mean, abs=5 * spread / math.sqrt(20_000))
    assert drawn.std() == pytest.approx(spread, rel=0.03)


def tiny(rows, scale="1-100", **more):
    columns = ["context_id", "candidate_id", "value", "status", "human"]
    fixed = {"judge": "j", "dataset": "d", "attribute": "coherence", "scale": scale, "replicate": 0}
    rest = {"human_scale": "1-5", "ratings": "", "label_mass": np.nan}
    return pd.DataFrame(rows, columns=columns).assign(**fixed, **{**rest, **more})


def test_estimates_of_a_tiny_frame_are_counted_by_hand():
    rows = [
        ("a", "x", 40.0, "ok", 1.0), ("a", "y", 50.0, "ok", 2.0), ("a", "z", 50.0, "ok", 3.0),
        ("b", "x", 57.0, "ok", 1.0), ("b", "y", 53.0, "ok", 2.0), ("b", "z", 60.5, "ok", 3.0),
    ]  # fmt: skip
    estimates = ScoreDistribution(answer="text", samples=1).estimate(tiny(rows))
    value = {row.metric: row.estimate for row in estimates.itertuples()}
    assert value["round_number_excess_10"] == pytest.approx(
        10 * 3 / 5
    )  # 60.5 is between two levels: it enters ranks only
    assert value["round_number_excess_5"] == pytest.approx(5 * 3 / 5)
    assert value["tie_rate"] == pytest.approx(1 / (3 + 1))
    assert value["scale_use"] == pytest.approx(math.exp(0.6 * math.log(5) + 0.4 * math.log(2.5)) / 100)
    assert value["range_used"] == pytest.approx(17 / 99)
    assert value["pooled_sd"] == pytest.approx(np.std([40, 50, 50, 57, 53]))
    assert value["agreement"] == pytest.approx((2 / math.sqrt(2 * 3) + 1 / 3) / 2)


def test_recorded_scores_are_split_by_configuration(tmp_path):
    rows = [f"c{c},x,{score},1-10,{way}" for c in range(6) for way, score in (("terse", 5), ("long", c + 1))]
    file = tmp_path / "log.csv"
    names = "context_id,candidate_id,score,scale,configuration"
    file.write_text("\n".join([names, *rows]), encoding="utf-8")
    probe, trials = ScoreDistribution(), bl.read_judgements(file).assign(ratings="3.5")
    accepted = probe.accepts(trials)
    assert set(accepted.trials["attribute"]) == {"overall (terse)", "overall (long)"}
    assert set(accepted.trials["ratings"]) == {""}  # ratings that are no whole numbers heap nowhere
    spread = probe.estimate(accepted.trials, ["pooled_sd"]).set_index("attribute")["estimate"]
    assert spread["overall (terse)"] == 0
    assert spread["overall (long)"] == pytest.approx(np.std([1, 2, 3, 4, 5, 6]))
    pairs = probe.accepts(trials.assign(opponent_id="y"))
    assert (len(pairs.trials), pairs.note) == (0, "needs single scores on a scale")


@pytest.mark.slow
def test_refusals_drop_items_and_warn(graded):
    judge = bl.SimulatedJudge(graded, refusal=0.4)
    for answer in ("distribution", "text"):
        probe = ScoreDistribution(["coherence"], ["1-100"], answer=answer, samples=2, n_candidates=None)
        trials = bl.collect(probe, judge, graded, progress=False)
        refused = trials[trials["status"] == "refused"].drop_duplicates(["context_id", "candidate_id", "replicate"])
        assert len(refused) > 4
        with pytest.warns(MissingDataWarning, match="scale 1-100"):
            found = row_of(probe.estimate(trials, ["scale_use"]), "scale_use", answer="single")
        assert found["n_dropped"] == len(refused)
        assert found["n_trials"] + found["n_dropped"] == 48 * (1 if answer == "distribution" else 2)


@pytest.mark.slow
def test_heaping_index_needs_room_around_round_numbers(graded):
    estimates = run(ScoreDistribution(["coherence"]), bl.SimulatedJudge(graded), graded)
    heaped = estimates[estimates["metric"].isin(ScoreDistribution.primary)]
    assert set(heaped.loc[heaped["estimate"].notna(), "scale"]) == {"1-100"}
    assert heaped.loc[heaped["estimate"].isna(), "note"].str.contains("multiples").all()
    assert set(heaped.loc[heaped["q_value"].notna(), "answer"]) == {"single"}


@pytest.mark.slow
def test_rows_in_any_order_do_not_matter(graded):
    probe = ScoreDistribution(["coherence"], ["1-10", "1-100"])
    trials = bl.collect(probe, bl.SimulatedJudge(graded, noise=1), graded, progress=False)
    key = ["metric", "scale", "answer"]
    plain, other = (
        probe.estimate(frame).sort_values(key).reset_index(drop=True)
        for frame in (trials, trials.sample(frac=1, random_state=1))
    )
    pd.testing.assert_frame_equal(plain, other)


@pytest.mark.parametrize(
    "options",
    [
        {"attributes": "coherence"}, {"scales": "1-5"}, {"scales": []}, {"scales": ["1-7"]}, {"answer": "maybe"},
        {"samples": 0}, {"temperature": -1.0, "answer": "text"}, {"n_candidates": 0}, {"seed": -1},
        {"max_tokens": 0},
    ],
)  # fmt: skip
def test_parameters_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options)).removesuffix("s")):
        ScoreDistribution(**options)


def test_missing_columns_are_named():
    with pytest.raises(TrialsError, match="ratings"):
        ScoreDistribution().estimate(pd.DataFrame({"judge": []}))


@pytest.mark.slow
def test_human_ratings_of_summeval(shared_data):
    """Single expert ratings, counted by hand from the file as it is published."""
    data = bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz", limit=20)
    probe = ScoreDistribution(["coherence"], ["1-5"])
    estimates = run(probe, bl.SimulatedJudge(data), data)
    humans = estimates[estimates["answer"] == "humans"].set_index("metric")
    items = {(t.context_id, t.candidate_id) for t in probe.design(data)}
    human = data.human[data.human["attribute"] == "coherence"].set_index(["context_id", "candidate_id"])
    scores = human.loc[list(items), "score"]
    share = scores.value_counts(normalize=True)
    assert set(humans.index) == {"scale_use", "range_used", "pooled_sd", "tie_rate"}
    assert humans.loc["scale_use", "estimate"] == pytest.approx(math.exp(-(share * np.log(share)).sum()) / 5)
    assert humans.loc["pooled_sd", "estimate"] == pytest.approx(scores.std(ddof=0))
    assert humans["n_trials"].eq(len(scores)).all()


def test_human_raters_of_webnlg_like_round_numbers(shared_data):
    """Workers rated on a slider from 0 to 100."""
    from biaslab.datasets.webnlg import read_ratings

    ratings = read_ratings(shared_data / "webnlg2020" / "en.tar.xz")
    ratings = ratings[(ratings["attribute"] == ratings["attribute"].iloc[0])]
    ratings = ratings[ratings["context_id"].isin(ratings["context_id"].unique()[:40])]
    written = ratings.groupby(["context_id", "candidate_id"])["score"].agg(lambda s: " ".join(f"{v:g}" for v in s))
    rows = [(context, candidate, np.nan, "refused", np.nan) for context, candidate in written.index]
    trials = tiny(rows, human_scale="0-100").assign(ratings=written.to_numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        estimates = ScoreDistribution(answer="text").estimate(trials, ["round_number_excess_10"])
    found = row_of(estimates, "round_number_excess_10", answer="humans")
    weight = 1 / ratings.groupby(["context_id", "candidate_id"])["score"].transform("size")
    scores = ratings["score"].to_numpy(float)
    inside = (scores > 5) & (scores < 95)
    window = weight[inside].sum() + weight[(scores == 5) | (scores == 95)].sum() / 2
    tens = weight[inside & (scores % 10 == 0)].sum()
    assert found["estimate"] == pytest.approx(10 * tens / window)
    assert found["ci_low"] > 1
    assert np.isnan(found["p_value"])
