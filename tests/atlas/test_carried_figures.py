"""Every figure beside the published data that belongs to a carried source comes out of the rows in the package."""

import pandas as pd
import pytest
from beside_data import EXPERT_ALPHAS, LLMBAR, audit, value
from krippendorff import alpha

import biaslab as bl
from tools.atlas.raw_texts import by_article


@pytest.mark.parametrize(("judge", "template", "first", "consistent"), LLMBAR)
def test_llmbar(judge, template, first, consistent):
    rows = bl.atlas.trials("llmbar", judge)
    found = audit(rows[(rows["dataset"] == "llmbar") & (rows["template"] == template)], "position")
    assert value(found, "first_position_rate", human_gap=None) == pytest.approx(first, abs=5e-5)
    assert value(found, "order_consistency", human_gap=None) == pytest.approx(consistent, abs=5e-5)
    counted = found[(found["metric"] == "order_consistency") & found["human_gap"].isna()]
    assert counted["n_contexts"].tolist() == [419]


@pytest.mark.parametrize(
    ("judge", "judgements", "first", "consistent", "near"),
    [("gpt-3.5-turbo-1106", 4794, 0.4738, 0.6952, 5e-5), ("gpt-4-0613", 4800, 0.4908, 0.8150, 4e-4)],
)
def test_mt_bench(judge, judgements, first, consistent, near):
    """One reply of GPT-4 gives two verdicts; the figures beside the data take the last."""
    rows = bl.atlas.trials("mt_bench", judge).query("dataset == 'mt_bench'")
    assert len(rows) == judgements
    found = audit(rows, "position")
    assert value(audit(rows, "replies"), "first_position_rate") == pytest.approx(first, abs=near)
    assert value(found, "order_consistency", human_gap=None) == pytest.approx(consistent, abs=near)


def test_pandalm():
    said = bl.atlas.trials("pandalm", "gpt-3.5-turbo")["value"].map({1.0: "1", 0.0: "2", 0.5: "tie"})
    assert said.fillna("unread").value_counts().to_dict() == {"2": 476, "1": 460, "tie": 38, "unread": 25}


def test_null_model():
    rows = bl.atlas.trials("null_model")
    won = rows["value"].where(rows["candidate_id"] == "null_model", 1 - rows["value"])
    assert won.mean() == pytest.approx(0.76920, abs=5e-6)
    assert value(audit(rows, "replies"), "win_rate", system="null_model") == pytest.approx(0.76920, abs=5e-6)


@pytest.mark.parametrize(("attribute", "level", "published"), EXPERT_ALPHAS)
def test_experts_of_summeval_agree(attribute, level, published):
    rows = bl.atlas.trials("summeval_experts").query("attribute == @attribute")
    scores = rows.pivot_table(index="judge", columns=["context_id", "candidate_id"], values="value")
    assert scores.shape == (3, 1200)
    assert alpha(scores.to_numpy(), level_of_measurement=level) == pytest.approx(published, abs=5e-5)


def test_mean_of_the_experts_is_that_of_the_other_file(shared_data):
    data = bl.load_dataset("summeval", shared_data / "summeval" / "annotations_1200.jsonl.gz")
    theirs = bl.load_dataset("summeval", shared_data / "summeval" / "means_1600.json.gz").human
    item = ["context_id", "candidate_id", "attribute"]
    named = by_article(theirs, data).set_index(item)["score"]
    mine = bl.atlas.trials("summeval_experts").groupby(item)["value"].mean()
    assert len(mine) == 4800
    assert mine.tolist() == pytest.approx(named.reindex(mine.index).tolist())


def test_mean_of_the_other_experts_stands_beside_each():
    rows = bl.atlas.trials("summeval_experts")
    item = ["context_id", "candidate_id", "attribute"]
    wide = rows.pivot_table(index=item, columns="judge", values=["value", "human"])
    others = (wide["value"].sum(axis=1) - wide["value"]["expert-2"]) / 2
    assert wide["human"]["expert-2"].tolist() == pytest.approx(others.tolist())


def test_nine_judges_repeat_themselves():
    rows = bl.atlas.trials("mt_bench").query("dataset == 'mt_bench_repetition'")
    floor = audit(rows, "position").query("metric == 'resampling_consistency'")
    assert len(floor) == 9
    assert floor["estimate"].between(0.7, 1).all()


def test_prometheus_scores():
    rows = bl.atlas.trials("prometheus")
    assert rows["value"].value_counts().to_dict() == {4.0: 489, 5.0: 338, 3.0: 80, 2.0: 41, 1.0: 12}


def test_a_person_is_a_judge_among_others():
    """An annotator of PandaLM agrees with the other two more often than GPT-3.5 with all three."""
    rows = bl.atlas.trials("pandalm").assign(agrees=lambda frame: (frame["value"] > 0.5) == (frame["human_gap"] > 0))
    decided = rows[(rows["status"] == "ok") & (rows["human_gap"].abs() == 1)]
    shares = decided.groupby("judge")["agrees"].mean()
    assert shares["annotator-1"] > shares["gpt-3.5-turbo"] > 0.8


@pytest.mark.parametrize(
    ("judge", "first", "agrees", "claude", "longer"),
    [("gpt-5.2", 0.5181, 0.6594, 0.3587, 0.642), ("gpt-4o-mini", 0.5870, 0.6848, 0.1594, 0.876)],
)
def test_arena_pairs_in_the_order_that_people_saw(judge, first, agrees, claude, longer):
    rows = bl.atlas.trials("arena_gpt52", judge).query("value.notna()")
    assert len(rows) == 276
    assert rows["value"].mean() == pytest.approx(first, abs=1e-4)
    assert (rows["value"] == (rows["human_gap"] > 0)).mean() == pytest.approx(agrees, abs=1e-4)
    own = rows["candidate_id"].str.startswith("claude")
    assert (rows["value"] == own).mean() == pytest.approx(claude, abs=1e-4)
    unequal = rows[rows["words"] != rows["opponent_words"]]
    wins = (unequal["value"] == (unequal["words"] > unequal["opponent_words"])).mean()
    assert wins == pytest.approx(longer, abs=0.001)


@pytest.mark.parametrize(
    ("judge", "first", "consistent", "gpt"),
    [
        ("claude-sonnet-4-5-20250929", 0.5441, 0.7200, 0.5735),
        ("gemini-2.5-flash", 0.6136, 0.5714, 0.5341),
        ("gpt-5", 0.4941, 0.8200, 0.8471),
    ],
)
def test_korean_battles_in_both_orders(judge, first, consistent, gpt):
    rows = bl.atlas.trials("korean_battles", judge)
    one, two = (rows[rows["candidate_id"] == name].set_index("context_id")["value"] for name in FIGHTERS)
    known = one.notna() & two.notna()
    decided = pd.concat([one[known], two[known]])
    decided = decided[decided != 0.5]
    assert decided.mean() == pytest.approx(first, abs=1e-4)
    assert (one[known] == 1 - two[known]).mean() == pytest.approx(consistent, abs=1e-4)
    for_gpt = pd.concat([one[known], 1 - two[known]])
    assert for_gpt[for_gpt != 0.5].mean() == pytest.approx(gpt, abs=1e-4)


FIGHTERS = ("gpt-5.2", "claude-opus-4.5")
