"""What the atlas carries: the same rows as the raw files give, numbers alone, small, each with its licence."""

import string

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.atlas import carried
from biaslab.atlas.sources import SOURCES
from biaslab.core.errors import InputError
from biaslab.logs.readers.log_columns import COLUMNS, trials_of
from tools.atlas import building
from tools.atlas.raw_files import JUDGES

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
    table = pq.read_table(carried.file_of(source.name))
    assert set(table.column_names) == {*COLUMNS, *carried.PERPLEXITIES} - {"reply", "key"}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            words = [text for text in column.unique().to_pylist() if text]
            assert all(len(text) <= LONGEST for text in words), name
            assert all("\n" not in text and text.count(" ") <= 4 for text in words), name
        else:
            assert column.type in (pa.float64(), pa.float32(), pa.int64(), pa.bool_())


def test_carried_files_are_smaller_than_3_mib():
    folder = carried.FOLDER.parent
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
    carried.write_rows(made, file)
    again = carried.read_rows(file)
    assert again.pop("key").tolist() == [f"mine:{row}" for row in range(len(rows))]
    pd.testing.assert_frame_equal(again, made)
    first = file.read_bytes()
    carried.write_rows(made, file)
    assert file.read_bytes() == first
