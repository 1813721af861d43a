"""Anyone's table: formats, layouts, derived identifiers, and errors that name file, row and column."""

import gzip
import io
import json
import math
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import given, settings

from biaslab.core.errors import DatasetError, InputError
from biaslab.datasets import load_dataset, tabular
from biaslab.datasets._files import lines_of, separator_of

ROWS = [
    {"doc": "Sun.", "sys": "a", "summary": 'It "shines",\nbrightly.', "coh": 4, "flu": 5},
    {"doc": "Sun.", "sys": "b", "summary": "NA", "coh": 1.5, "flu": None},
    {"doc": "Rain.", "sys": "a", "summary": "Ünïcode — 雨", "coh": None, "flu": 2},
]
COLUMNS = {"context": "doc", "system": "sys", "text": "summary", "coherence": "coh", "fluency": "flu"}
WITHOUT_SCORES = {"context": "doc", "system": "sys", "text": "summary"}
ATTRIBUTES = {"coherence": "it hangs together", "fluency": "it reads well"}
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t"), min_size=1).filter(str.strip)
FORMATS = ("csv", "tsv", "json", "jsonl", "ndjson", "csv.gz", "json.gz", "jsonl.gz", "parquet")


def write(file, rows):
    """Write rows in the format that the file's suffix names."""
    frame, kind = pd.DataFrame(rows), file.name.removesuffix(".gz").rsplit(".", 1)[1]
    if kind == "parquet":
        frame.to_parquet(file)
        return file
    if kind in ("csv", "tsv"):
        text = frame.to_csv(index=False, sep="," if kind == "csv" else "\t", lineterminator="\n")
    elif kind == "json":
        text = json.dumps(rows)
    else:
        text = "\n".join(map(json.dumps, rows)) + "\n\n"
    data = text.encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    return file


def content(data):
    """Return what a data set holds, whatever the order of its rows."""
    scores = data.human.set_index(["context_id", "candidate_id", "attribute", "annotator"])["score"].to_dict()
    return set(data.candidates.itertuples(index=False, name=None)), scores


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_data_set(tmp_path, suffix):
    data = tabular.load(write(tmp_path / f"mine.v1.{suffix}", ROWS), COLUMNS, ATTRIBUTES, noun="summary")
    assert (data.name, data.noun, data.attributes) == ("mine", "summary", ATTRIBUTES)
    assert data.candidates["text"].tolist() == [row["summary"] for row in ROWS]
    assert data.candidates["candidate_id"].tolist() == ["a", "b", "a"]
    assert data.candidates["context_id"].nunique() == 2
    assert data.human["score"].tolist() == [4.0, 1.5, 5.0, 2.0]
    assert set(data.human["annotator"]) == {"human"}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_separator_is_detected(tmp_path, separator):
    rows = [row | {"summary": row["summary"] + "; and, so on\t…"} for row in ROWS]
    file = tmp_path / "mine.csv"
    pd.DataFrame(rows).to_csv(file, index=False, sep=separator)
    expected = tabular.load(write(tmp_path / "same.jsonl", rows), COLUMNS, ATTRIBUTES)
    assert content(tabular.load(file, COLUMNS, ATTRIBUTES)) == content(expected)


@given(st.text("ab\r\n\u2028\x85"))
def test_lines_are_those_of_the_standard_library(text):
    assert list(lines_of(text)) == list(io.StringIO(text, newline=""))


def test_a_separator_is_one_that_parts_header_and_rows_alike():
    assert separator_of("a;b, or c;d\nx;y;z\n") == ";"
    assert separator_of("a,b;c;d\nx,y\n") == ","
    assert separator_of("a\tb,c\n\nx\ty\n") == "\t"
    assert separator_of("a;b\n") == ";"
    assert separator_of("a;b\nx;y;z\nv;w\n") == ";"  # the second row is damaged
    assert separator_of("one column\nx\n") == separator_of("") == ","


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab;,\t\n\"'é", min_size=1), st.text(min_size=0, max_size=5)), min_size=1, max_size=5)
)
def test_data_frame_and_its_file_give_the_same_data_set(rows):
    frame = pd.DataFrame([{"context": "c", "text": f"{text}.", "system": f"s{n}"} for n, (text, _) in enumerate(rows)])
    frame = frame.assign(quality=[None if n % 3 else 1 + n % 5 for n in range(len(frame))])
    data = load_dataset("tabular", data=frame.set_index("context", drop=False), attributes=["quality"])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mine.parquet"
        frame.to_parquet(file)
        assert content(data) == content(tabular.load(file, attributes=["quality"]))
    assert (data.name, data.provenance) == ("data", "The user's own table data, as it was given.")


def test_a_data_frame_of_any_types(tmp_path):
    frame = pd.DataFrame(ROWS).astype({"sys": "category", "summary": "string", "coh": "Float64"})
    data = load_dataset("tabular", data=frame, columns=COLUMNS, attributes=ATTRIBUTES, name="mine", limit=1)
    full = tabular.load(write(tmp_path / "mine.jsonl", ROWS), COLUMNS, ATTRIBUTES)
    assert content(data) == content(full.head(1))
    assert data.name == "mine"
    scores = pd.DataFrame([{"doc": "0", "candidate_id": "0", "attribute": "coherence", "score": 2}])
    texts = pd.DataFrame([{"doc": 0, "text": "It shines."}])
    rated = tabular.load(data=texts, columns={"context_id": "doc"}, attributes=["coherence"], human=scores)
    assert rated.human["score"].tolist() == [2.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"data": [{"text": "t"}]},
            r"^data is .*, allowed: a pandas.DataFrame; create one with pd.DataFrame\(rows\)",
        ),
        ({"data": pd.DataFrame()}, "^data is empty"),
        ({"data": pd.DataFrame([["t", "u"]], columns=["text", "text"])}, r"^data, header repeats the columns text"),
        ({"data": pd.DataFrame({("a", "text"): ["t"]})}, "^data, columns is .* a single level of columns"),
        ({"data": pd.DataFrame({"context": ["c"]})}, "^data has no column 'text'"),
        ({"data": pd.DataFrame({"text": ["t", None], "context": "c"}, index=[7, 7])}, "^data, row 2, column 'text'"),
        ({"data": pd.DataFrame({"text": ["t"], "context": "c", "q": [9]})}, "^data, row 1, column 'q' is 9"),
        ({"data": pd.DataFrame({"text": ["t"]}), "human": 5}, "^human is 5"),
    ],
)
def test_errors_of_data_frames_name_row_and_column(given, message):
    with pytest.raises(InputError, match=message):
        tabular.load(**given, attributes=["q"])


def test_a_path_and_a_data_frame_are_one_too_many(tmp_path):
    file = write(tmp_path / "mine.csv", ROWS)
    with pytest.raises(InputError, match="only one of the two"):
        tabular.load(file, COLUMNS, ATTRIBUTES, data=pd.DataFrame(ROWS))


def long_rows():
    for row in ROWS:
        for attribute in ("coherence", "fluency"):
            for annotator in (1, 2):
                score = row[COLUMNS[attribute]]
                named = {key: row[key] for key in ("doc", "sys", "summary")}
                yield named | {"attribute": attribute, "annotator": annotator, "score": score}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_long_layout_keeps_annotators(tmp_path, suffix):
    file = write(tmp_path / f"mine.{suffix}", list(long_rows()))
    data = tabular.load(file, WITHOUT_SCORES)
    assert tuple(data.attributes) == ("coherence", "fluency")
    assert data.attributes["fluency"] == "the fluency of the text"
    assert (len(data.candidates), len(data.human)) == (3, 8)
    assert set(data.human["annotator"]) == {"1", "2"}
    wide = tabular.load(write(tmp_path / "wide.csv", ROWS), COLUMNS, ATTRIBUTES)
    pd.testing.assert_frame_equal(data.human_means, wide.human_means)
    only = tabular.load(file, WITHOUT_SCORES, attributes=["fluency"])
    assert set(only.human["attribute"]) == {"fluency"}
    with pytest.raises(InputError, match=r"\['fluent'\].*coherence, fluency"):
        tabular.load(file, WITHOUT_SCORES, attributes=["fluent"])


def test_wide_layout_with_annotators(tmp_path):
    rows = [row | {"annotator": who} for row in ROWS for who in ("x", "y")]
    data = tabular.load(write(tmp_path / "mine.jsonl", rows), COLUMNS, ATTRIBUTES)
    assert (len(data.candidates), len(data.human)) == (3, 8)


def test_scores_in_a_second_file(tmp_path):
    texts = [{key: row[key] for key in ("doc", "sys", "summary")} | {"id": n // 2} for n, row in enumerate(ROWS)]
    columns = WITHOUT_SCORES | {"context_id": "id"}
    scores = [{"id": "0", "sys": "b", "attribute": "coherence", "score": 2}]
    file, human = write(tmp_path / "texts.csv", texts), write(tmp_path / "scores.jsonl", scores)
    data = load_dataset("tabular", file, columns=columns, attributes=["coherence"], human=human)
    assert data.human.to_dict("records") == [
        {
            "context_id": "0",
            "candidate_id": "b",
            "attribute": "coherence",
            "annotator": "human",
            "score": 2.0,
        }
    ]
    renamed = write(tmp_path / "renamed.csv", [{"id": 0, "sys": "b", "coh": 2}])
    wide = tabular.load(file, columns | {"coherence": "coh"}, ["coherence"], human=renamed)
    assert content(wide) == content(data)
    with pytest.raises(DatasetError, match=r"renamed\.csv has no scores, .* coherence"):
        tabular.load(file, columns, ["coherence"], human=renamed)
    with pytest.raises(DatasetError, match=r"column 'rating' is missing"):
        tabular.load(file, columns | {"score": "rating"}, ["coherence"], human=renamed)
    human = write(tmp_path / "scores.jsonl", [*scores, scores[0] | {"id": "7"}])
    with pytest.raises(DatasetError, match=r"scores\.jsonl, row 2, column 'candidate_id' is \('7', 'b'\)"):
        tabular.load(file, columns, ["coherence"], human=human)


def test_a_table_without_human_scores(tmp_path):
    rows = [{"context": "c", "text": "t"}, {"context": "c", "text": "t"}]
    data = tabular.load(write(tmp_path / "bare.csv", rows), attributes=["coherence"])
    assert len(data.human) == 0
    assert data.candidates["candidate_id"].tolist() == ["0", "1"]


def test_ids_are_whole_numbers_and_long_tables_number_texts(tmp_path):
    rows = [
        {"context_id": i, "text": text, "annotator": who, "score": 3}
        for i in (1, 2)
        for text in ("one", "two")
        for who in ("x", "y")
    ]
    file = tmp_path / "mine.parquet"
    pd.DataFrame(rows).astype({"context_id": float}).to_parquet(file)
    data = tabular.load(file, attributes=["quality"])
    assert data.candidates[["context_id", "candidate_id"]].to_numpy().tolist() == [
        ["1", "0"],
        ["1", "1"],
        ["2", "0"],
        ["2", "1"],
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.xlsx", "", r"a\.xlsx.*\.csv, \.tsv, \.jsonl"),
        ("a.gz", "", r"\.csv, \.tsv"),
        ("a.jsonl", '{"text": "t", "context": "c"}\n\n{"text": ', r"a\.jsonl, line 3 is"),
        ("a.jsonl", '{"text": "t", "context": "c"}\n[1]', r"a\.jsonl, line 2 is \[1\]"),
        ("a.json", '{"text": "t"}', "a JSON list of objects"),
        ("a.json", '[{"text": "t", "context": "c"}, 3]', r"a\.json, row 2 is 3"),
        ("a.json", "[", r"a\.json, line 1"),
        ("a.csv", "", r"a\.csv is "),
        ("a.csv", 'text,context\nt,"c\n', r"a\.csv, line 2 cannot be read"),
        ("a.csv", "text,context\n", "at least one data row"),
        ("a.csv", "text,text\nx,y\n", r"a\.csv, header repeats the columns text"),
        ("a.csv", "text,context\nt,c,d\n", r"a\.csv, row 1, number of fields is 3, allowed: 2"),
        ("a.csv", "text,context\nt,c\nt\n", r"a\.csv, row 2, number of fields is 1, allowed: 2"),
        (
            "a.csv",
            "text,context,q\nt,c,3\n\nu,c,6\n",
            r"a\.csv, row 3, column 'q' is '6', allowed: .* 1 to 5",
        ),
        ("a.csv", "text;context;q\nt;c;2,5\n", r"a\.csv, row 1, column 'q' is '2,5'.*write 2\.5"),
        ("a.csv", "text;context\nt;c;d\nu;c\n", r"a\.csv, row 1, number of fields is 3, .*separated by ';'"),
        ("a.csv", "text,context,q\nt,c,good\n", r"a\.csv, row 1, column 'q' is 'good'"),
        ("a.csv", "text,context,q\n,c,1\n", r"a\.csv, row 1, column 'text' is ''"),
        ("a.csv", "context,q\nc,1\n", r"a\.csv has no column 'text'"),
        ("a.csv", "text,q\nt,1\n", r"a\.csv has neither a column 'context_id'"),
        ("a.csv", "text,context_id,context,q\nt,1,c,1\nu,1,d,1\n", r"row 2, column 'context' is 'd'"),
        ("a.csv", "text,context_id,q\nt,,1\n", r"row 1, column 'context_id' is ''"),
        ("a.csv", "text,context_id,system,q\nt,1,s,1\nu,1,s,1\n", r"row 2, column 'candidate_id'.*annotator"),
        ("a.csv", "text,context_id,system,score\nt,1,s,1\nu,1,s,1\n", r"row 2, column 'text' is 'u'"),
        ("a.csv", "text,context_id,annotator,score\nt,1,s,1\nt,1,s,2\n", r"row 2, column 'annotator'"),
        ("a.jsonl", '{"text": "t", "context": "c", "q": true}', r"row 1, column 'q' is True"),
        ("a.jsonl", '{"text": 5, "context": "c", "q": 1}', r"row 1, column 'text' is 5"),
        (
            "a.jsonl",
            '{"text": "t", "context": ["a", "b"], "q": 1}',
            r"row 1, column 'context' is \['a', 'b'\]",
        ),
        ("a.parquet", "no parquet", "a Parquet file"),
        ("a.csv.gz", "no gzip", "a complete gzip file"),
    ],
)
def test_errors_name_file_row_and_column(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        tabular.load(file, attributes=["q"])


def test_errors_of_options(tmp_path):
    file = write(tmp_path / "mine.csv", ROWS)
    with pytest.raises(InputError, match="load_dataset"):
        tabular.load()
    with pytest.raises(InputError, match=r"columns is \['texts'\]"):
        tabular.load(file, {"texts": "summary"})
    with pytest.raises(DatasetError, match=r"mine\.csv, column 'summry' is missing.*doc, sys, summary"):
        tabular.load(file, {"text": "summry"})
    with pytest.raises(InputError, match="at least one attribute of a wide table"):
        tabular.load(file, WITHOUT_SCORES)
    with pytest.raises(DatasetError, match=r"no column 'fluency'"):
        tabular.load(file, WITHOUT_SCORES | {"coherence": "coh"}, ["coherence", "fluency"])
    with pytest.raises(InputError, match="scale"):
        tabular.load(file, COLUMNS, ATTRIBUTES, scale=(5, 1))
    with pytest.raises(InputError, match=r"\['coherence'\]"):
        tabular.load(file, COLUMNS, "coherence")
    (tmp_path / "latin.csv").write_bytes("text,context\nä,c\n".encode("latin-1"))
    with pytest.raises(DatasetError, match="save it as UTF-8"):
        tabular.load(tmp_path / "latin.csv", attributes=["q"])


tables = st.lists(
    st.tuples(st.sampled_from(["c1", "c2"]), texts, st.one_of(st.none(), st.floats(1, 5))),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(tables, st.sampled_from(["csv", "tsv", "json", "jsonl", "csv.gz", "parquet"]), st.randoms())
def test_table_round_trips_in_any_row_order(table, suffix, random):
    rows = [
        {"context_id": context, "candidate_id": f"k{n}", "text": text, "quality": score}
        for n, (context, text, score) in enumerate(table)
    ]
    with tempfile.TemporaryDirectory() as folder:
        data = tabular.load(write(Path(folder) / f"a.{suffix}", rows), attributes=["quality"])
        shuffled = random.sample(rows, len(rows))
        other = tabular.load(write(Path(folder) / f"b.{suffix}", shuffled), attributes=["quality"])
    assert content(data) == content(other)
    assert data.candidates[["context_id", "candidate_id", "text"]].to_dict("records") == [
        {key: row[key] for key in ("context_id", "candidate_id", "text")} for row in rows
    ]
    assert data.human["score"].tolist() == [row["quality"] for row in rows if row["quality"] is not None]
    assert not data.human["score"].map(math.isnan).any()
