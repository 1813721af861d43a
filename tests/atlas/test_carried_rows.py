"""What the atlas carries: the same rows as the raw files give, numbers alone, small, each with its licence."""

import string

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beside_data import EXPERT_ALPHAS, LLMBAR, audit, value
from hypothesis import given, strategies as st
from krippendorff import alpha

import biaslab as bl
from biaslab.atlas import judgements
from biaslab.atlas.sources import SOURCES
from biaslab.core.errors import InputError
from biaslab.logs.readers.trials import COLUMNS, trials_of
from tools.atlas import building
from tools.atlas.raw_files import JUDGES
from tools.atlas.raw_texts import by_article

CARRIED = [source for source in SOURCES if source.carried]
LONGEST = 40


def test_sources_are_those_of_the_licences():
    assert {source.name: source.licence for source in CARRIED} == {
        **dict.fromkeys(["llmbar", "mt_bench", "devbench", "null_model", "arena_gpt52", "korean_battles"], "MIT"),
        **dict.fromkeys(["summeval_experts", "topical_chat_means"], "MIT"),
        **dict.fromkeys(["pandalm", "prometheus"], "Apache-2.0"),
    }
    assert len({source.name for source in SOURCES}) == len(SOURCES) == 26


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [pytest.param(one, marks=pytest.mark.slow if one.name == "llmbar" else []) for one in CARRIED],
    ids=lambda one: one.name,
)
def test_rows_and_card_are_made_again(source, shared_data):
    made = building.make_rows(source, shared_data)
    page = (building.CARDS / f"{source.name}.md").read_text(encoding="utf-8")
    assert building.card(source, made) == page
    pd.testing.assert_frame_equal(made, bl.atlas.trials(source.name).drop(columns="key"))


@pytest.mark.slow
@pytest.mark.parametrize("source", [one for one in SOURCES if not one.carried], ids=lambda one: one.name)
def test_sources_not_carried_are_readable(source, shared_data):
    source.require_files(shared_data)
    if source.name != "topical_chat_judges":  # takes ten seconds
        trials = source.read(shared_data)
        assert len(trials) > 1000
        assert not set(trials["judge"]) & set(JUDGES)
        assert "reply" in trials


@pytest.mark.parametrize("source", CARRIED, ids=lambda one: one.name)
def test_numbers_and_short_names_alone(source):
    table = pq.read_table(judgements.file_of(source.name))
    assert set(table.column_names) == {*COLUMNS, *judgements.PERPLEXITIES} - {"reply", "key"}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            words = [text for text in column.unique().to_pylist() if text]
            assert all(len(text) <= LONGEST for text in words), name
            assert all("\n" not in text and text.count(" ") <= 4 for text in words), name
        else:
            assert column.type in (pa.float64(), pa.float32(), pa.int64(), pa.bool_())


def test_carried_files_are_smaller_than_3_mib():
    folder = judgements.FOLDER.parent
    files = [*folder.glob("*.csv"), *folder.glob("*.parquet"), *folder.glob("rows/*"), *folder.glob("cards/*")]
    assert {file.name for file in folder.glob("rows/*")} == {f"{source.name}.parquet" for source in CARRIED}
    assert sum(file.stat().st_size for file in files) < 3 * 2**20


@pytest.mark.parametrize("source", CARRIED, ids=lambda one: one.name)
def test_cards_name_source_and_licence(source):
    page = (building.CARDS / f"{source.name}.md").read_text(encoding="utf-8")
    heads = ["What was left out", "How replies were read", "Counts", "Log-perplexities", "Licence"]
    assert [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")] == heads
    words = "Permission is hereby granted" if source.licence == "MIT" else "Apache License, Version 2.0"
    for said in (source.notice, source.repository, words):
        assert said in page
    for row in bl.atlas.judges(source.name).itertuples():
        assert f"| {row.dataset} | {row.judge} | {row.judgements:,} | {row.contexts:,} |" in page


def test_all_carried_rows_have_unique_keys_and_licences():
    found = bl.atlas.trials()
    assert len(found) == 120_766
    assert found["key"].is_unique
    assert found.attrs["licences"]["llmbar"].startswith("MIT, Copyright (c) 2023 Princeton")


def test_changing_returned_rows_leaves_the_next_unchanged():
    rows = bl.atlas.trials("prometheus")
    rows["value"] = 0.0
    rows.attrs["licences"].clear()
    assert bl.atlas.trials("prometheus").attrs["licences"]
    assert bl.atlas.trials("prometheus")["value"].min() == 1


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="did you mean mt_bench"):
        bl.atlas.trials("mtbench")
    with pytest.raises(InputError, match=r"did you mean .*gpt-4-0613"):
        bl.atlas.trials("mt_bench", "GPT-4-0613")
    with pytest.raises(InputError, match="for this source only estimates are included"):
        bl.atlas.trials("alpaca_eval")
    with pytest.raises(InputError, match="judge is 'expert-1', allowed: one of gpt-4"):
        bl.atlas.trials("prometheus", "expert-1")


def test_a_folder_without_the_files(tmp_path):
    with pytest.raises(InputError, match=r"a folder with recorded/prometheus.*github.com/prometheus-eval"):
        building.build(tmp_path, ["prometheus"], tmp_path / "rows")
    with pytest.raises(InputError, match="allowed: one of llmbar"):
        building.make_rows(next(source for source in SOURCES if not source.carried), tmp_path)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.text(string.ascii_letters + " é", min_size=1, max_size=9),
            st.none() | st.text(string.ascii_letters, max_size=9),
            st.floats(allow_infinity=False),
            st.booleans(),
            st.none() | st.floats(0, 20).map(lambda number: round(number, 4)),
        ),
        min_size=1,
    )
)
def test_rows_come_back_as_they_were_written(tmp_path_factory, rows):
    contexts, opponents, values, known, perplexities = zip(*rows, strict=True)
    index = pd.RangeIndex(len(rows))
    given_here = {"context_id": contexts, "opponent_id": opponents, "value": values, "order_known": known}
    columns = {name: pd.Series(list(column), index) for name, column in given_here.items()}
    made = trials_of(columns | {"candidate_id": "a", "status": "ok"}, index).drop(columns="reply")
    made = made.assign(replicate=0, log_perplexity=np.array(perplexities, float), opponent_log_perplexity=np.nan)
    file = tmp_path_factory.mktemp("rows") / "mine.parquet"
    judgements.write_rows(made, file)
    again = judgements.read_rows(file)
    assert again.pop("key").tolist() == [f"mine:{row}" for row in range(len(rows))]
    pd.testing.assert_frame_equal(again, made)
    first = file.read_bytes()
    judgements.write_rows(made, file)
    assert file.read_bytes() == first


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


@pytest.mark.slow
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


@pytest.mark.slow
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
