"""Figures computed from the raw files alone come out of the readers of judges released since 2024."""

import numpy as np
import pytest

import biaslab as bl
from biaslab.atlas.sources import find_source

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows_of(shared_data):
    read = {}

    def read_once(name):
        if name not in read:
            read[name] = find_source(name).read(shared_data)
        return read[name]

    return read_once


@pytest.mark.parametrize(
    ("judge", "attribute", "mass", "mean", "pearson", "spearman"),
    [
        ("deepseek-r1-distill-qwen-32b", "coherence", 0.9919, 2.9800, 0.5972, 0.5912),
        ("deepseek-r1-distill-qwen-32b", "fluency", 0.9949, 3.1406, 0.4931, 0.4222),
        ("qwen-2.5-72b-instruct", "coherence", 0.9994, 2.6902, 0.5282, 0.5297),
        ("qwen-2.5-72b-instruct", "fluency", 0.9963, 2.7673, 0.3801, 0.3652),
    ],
)
def test_label_probabilities(rows_of, judge, attribute, mass, mean, pearson, spearman):
    rows = rows_of("label_probabilities").query("judge == @judge and attribute == @attribute")
    assert len(rows) == 1600
    assert (rows["label_mass"].mean(), rows["value"].mean()) == pytest.approx((mass, mean), abs=5e-5)
    assert rows["value"].corr(rows["human"]) == pytest.approx(pearson, abs=5e-5)
    assert rows["value"].corr(rows["human"], method="spearman") == pytest.approx(spearman, abs=5e-5)


@pytest.mark.parametrize(
    ("dataset", "items", "ok", "cut_off", "mean", "spread", "pearson"),
    [
        ("roscoe_drop", 105, 2077, 3, 4.2805, 0.5031, 0.7835),
        ("roscoe_esnli", 76, 1477, 4, 3.9455, 0.4532, 0.6557),
    ],
)
def test_reasoning_traces(rows_of, dataset, items, ok, cut_off, mean, spread, pearson):
    rows = rows_of("reasoning_traces").query("dataset == @dataset")
    counts = rows["status"].value_counts()
    assert (len(rows), counts["ok"], counts["cut_off"]) == (20 * items, ok, cut_off)
    assert rows["value"].mean() == pytest.approx(mean, abs=5e-5)
    by_item = rows.dropna(subset=["value"]).groupby("context_id").agg(
        mean=("value", "mean"), spread=("value", "std"), human=("human", "first")
    )  # fmt: skip
    assert by_item["spread"].mean() == pytest.approx(spread, abs=5e-5)
    assert by_item["mean"].corr(by_item["human"]) == pytest.approx(pearson, abs=5e-5)


@pytest.mark.parametrize(
    ("judge", "accuracy", "ties"), [("skywork-reward-llama-3.1-8b", 0.6229, 1), ("internlm2-7b-reward", 0.5943, 0)]
)
def test_reward_models(rows_of, judge, accuracy, ties):
    rows = rows_of("judgebench").query("judge == @judge")
    assert (len(rows), (rows["status"] == "tie").sum()) == (700, 2 * ties)
    one = rows[rows["candidate_id"] == "A"]
    right = ((one["value"] - 0.5) * one["human_gap"] > 0).mean()
    assert right == pytest.approx(accuracy, abs=5e-5)


@pytest.mark.parametrize(
    ("model", "turbo", "omni"),
    [
        ("gemma-2b-it", (1024, 5.3105), (1021, 4.7267)),
        ("gpt-3.5-turbo-0125", (1024, 7.1055), (1023, 6.6061)),
        ("Phi-3-mini-128k-instruct", (1023, 6.9081), (1022, 6.2838)),
    ],
)
def test_wildbench(rows_of, model, turbo, omni):
    own = rows_of("wildbench").query("candidate_id == @model").set_index("judge")["value"]
    for judge, (count, mean) in {"gpt-4-turbo-2024-04-09": turbo, "gpt-4o-2024-05-13": omni}.items():
        assert len(own[judge]) == count
        assert own[judge].mean() == pytest.approx(mean, abs=5e-5)


@pytest.mark.parametrize(
    ("judge", "dropped", "mean"),
    [
        ("gpt-4-0125-preview", 0, 6.4702),
        ("gpt-4.1-2025-04-14", 1, 7.4688),
        ("gpt-5.1-2025-11-13", 1, 5.4242),
        ("llama-3.3-70b-instruct", 0, 8.5883),
        ("tulu-3-405b", 0, 8.6202),
    ],
)
def test_japanese_scores(rows_of, judge, dropped, mean):
    """An answer that stands twice is kept once, which moves a mean in its third digit."""
    counts = {"gpt-4-0125-preview": 989, "gpt-4.1-2025-04-14": 1760, "gpt-5.1-2025-11-13": 2400}
    counts |= {"llama-3.3-70b-instruct": 2616, "tulu-3-405b": 2430}
    rows = rows_of("shaberi").query("dataset == 'shaberi_rakuda' and judge == @judge")
    assert len(rows) == counts[judge] - dropped
    assert rows["value"].mean() == pytest.approx(mean, abs=1e-3 if dropped else 5e-5)


@pytest.mark.parametrize(
    ("dataset", "template", "first", "flips", "pairs"),
    [
        ("llmbar", "baseline", 0.9770, 0.9541, 370),
        ("llmbar", "cot", 0.9469, 0.8951, 410),
        ("llmbar", "rubric", 0.9239, 0.8722, 352),
        ("mtbench", "baseline", 0.9514, 0.8986, 345),
        ("mtbench", "cot", 0.8319, 0.6731, 413),
        ("mtbench", "self_refine", 0.9878, 0.9752, 403),
    ],
)
def test_mistral_in_both_orders(rows_of, dataset, template, first, flips, pairs):
    rows = rows_of("small_judges")
    rows = rows[(rows["dataset"] == f"small_judges_{dataset}") & (rows["template"] == template)]
    assert rows["value"].mean() == pytest.approx(first, abs=5e-5)
    one, two = (rows[rows["candidate_id"] == name].set_index("context_id")["value"] for name in "12")
    known = one.notna() & two.notna()
    assert known.sum() == pairs
    assert (one[known] != 1 - two[known]).mean() == pytest.approx(flips, abs=5e-5)


@pytest.mark.parametrize(
    ("model", "template", "first", "win_rate"),
    [
        ("cohere", "alpaca_eval_gpt4_turbo_fn", 0.6186, 0.19255),
        ("cohere", "alpaca_eval_cot_gpt4_turbo_fn", 0.5416, 0.17267),
        ("alpaca-7b", "alpaca_eval_cot_gpt4_turbo_fn", 0.4900, 0.02422),
        ("Qwen-14B-Chat", "weighted_alpaca_eval_gpt4_turbo", 0.4479, 0.07502),
    ],
)
def test_alpaca_eval_by_the_order_that_was_shown(rows_of, model, template, first, win_rate):
    """Of Qwen, the figure counts two ties whose log-probabilities are not equal: a mean that is .0001 higher."""
    rows = rows_of("alpaca_eval_2024")
    rows = rows[(rows["dataset"] == f"alpaca_eval_{model}") & (rows["template"] == template)]
    shown = rows[rows["order_known"] & (rows["status"] == "ok")]
    assert shown["value"].mean() == pytest.approx(first, abs=5e-5 + 1e-4 * (model == "Qwen-14B-Chat"))
    won = rows["value"].where(rows["candidate_id"] == model, 1 - rows["value"])
    assert won.mean() == pytest.approx(win_rate, abs=5e-6)
    ours = bl.atlas.estimates(source="alpaca_eval_2024", metric="first_position_rate")
    ours = ours[(ours["dataset"] == f"alpaca_eval_{model}") & ours["template"].isin([template, None])]
    assert ours["estimate"].tolist() == pytest.approx([first], abs=2e-4)


def test_paper_reviews_reproduce_printed_means_and_correlations(shared_data):
    rows = find_source("ai_scientist").read(shared_data)
    assert rows["context_id"].nunique() == 500
    assert rows["human"].mean() == pytest.approx(5.4231, abs=5e-5)
    figures = {
        "single": (5.0520, 0.2185),
        "reflected": (4.9840, 0.3214),
        "merged": (5.4000, 0.3212),
        "merged with an example": (5.2280, 0.4188),
    }
    for way, (mean, correlation) in figures.items():
        own = rows[rows["configuration"] == way]
        assert own["value"].mean() == pytest.approx(mean, abs=5e-5)
        assert own["value"].corr(own["human"]) == pytest.approx(correlation, abs=5e-5)
    ours = bl.atlas.estimates(source="ai_scientist", metric="correlation")
    ours = ours[ours["coefficient"] == "pearson"].set_index("configuration")["estimate"]
    assert ours.to_dict() == pytest.approx({way: printed for way, (_, printed) in figures.items()}, abs=5e-5)


def test_debates_have_the_printed_wins_of_the_roles_and_no_order(shared_data):
    rows = find_source("debates").read(shared_data)
    figures = {"kimi-k2.6": (1273, 0.5931), "gemini-3.1-pro-preview": (308, 0.4545), "grok-4.3": (266, 0.6053)}
    for judge, (count, wins) in figures.items():
        own = rows[rows["judge"] == judge]
        assert len(own) == count
        assert own["value"].mean() == pytest.approx(wins, abs=5e-5)
    assert not rows["order_known"].any()
    told = set(bl.atlas.estimates(source="debates")["metric"])
    assert told == {"readable_rate", "win_rate"}  # a role is no place, and no preference for the first is told


def test_translations_are_one_segment_a_document(shared_data):
    rows = find_source("wmt25").read(shared_data)
    by_gpt, by_command = (rows[rows["judge"].str.startswith(name)] for name in ("gpt", "command"))
    assert len(by_gpt) == 55_699
    assert "CommandA-MT" in set(by_gpt["candidate_id"]) - set(by_command["candidate_id"])
    assert not rows.duplicated(["judge", "context_id", "candidate_id"]).any()
    fives = [np.mean(part["value"] % 5 == 0) for part in (by_gpt, by_command)]
    assert fives == pytest.approx([0.3937, 0.8787], abs=0.03)  # of all segments
    gaps = bl.atlas.estimates(source="wmt25", metric="own_score_gap").set_index("judge")["estimate"]
    assert (gaps > 0).all()
