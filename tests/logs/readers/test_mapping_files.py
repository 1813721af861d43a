"""Paths, lists as rows, names for values, a second file, and the mapping file that says all this."""

import json

import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers.expressions import parse_expression
from biaslab.logs.readers.reshaping import Shape
from biaslab.logs.readers.rows import Log, Rows

GAMES = """
explode = "games"
judge = "meta.judge"
context_id = "id"
candidate_id = "games# | 0 -> a, 1 -> b"
opponent_id = "games# | 0 -> b, 1 -> a"
winner = { field = "games.said.decision", values = { "A>B" = "first", "B>A" = "second", "A=B" = "tie" } }
preference = { field = "gold", values = { 1 = "a", 2 = "b" } }
text = "texts.0"
opponent_text = "texts.1"
subset = "meta.part"
"""


def lines(folder, *records, name="log.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def toml(folder, text, name="log.toml"):
    file = folder / name
    file.write_text(text)
    return file


def test_games_become_rows_through_a_mapping_file(tmp_path):
    def record(name, gold, *decisions):
        return {"id": name, "gold": gold, "meta": {"judge": "j", "part": "easy"}, "texts": ["one two", "one"],
                "games": [{"said": {"decision": decision}} for decision in decisions]}  # fmt: skip

    log = lines(tmp_path, record("p", 1, "A>B", "A>B"), record("q", 2, "A=B", "?"), {"id": "r", "games": "none"})
    trials = bl.read_judgements(log, mapping=toml(tmp_path, GAMES))
    columns = ["context_id", "candidate_id", "value", "status", "human_gap"]
    found = trials[columns].astype(object).where(trials[columns].notna(), None).to_numpy().tolist()
    assert found == [
        ["p", "a", 1.0, "ok", 1.0],
        ["p", "b", 1.0, "ok", -1.0],
        ["q", "a", 0.5, "tie", -1.0],
        ["q", "b", None, "unparsable", 1.0],
    ]
    assert trials["words"].tolist() == [2.0] * 4
    assert set(trials["subset"]) == {"easy"}
    assert trials.attrs["problems"] == [("log.jsonl", 3, "games is neither a list nor an object")]
    assert trials.attrs["unmatched"] == {"winner: games.said.decision does not match": 1}


def test_joined_file_of_annotators_gives_human_preference(tmp_path):
    verdicts = [{"number": number, "said": said} for number, said in enumerate([1, 2, 0, 1])]
    people = [{"idx": str(number), "one": 1, "two": two, "context_id": "c"} for number, two in enumerate([1, 2, 0])]
    lines(tmp_path, *people, name="people.jsonl")
    meaning = "{ 0 = 'tie', 1 = 'first', 2 = 'second' }"
    mapping = toml(tmp_path, f"""
        join = "people.jsonl on number=idx"
        context_id = "number"
        candidate_id = "=x"
        opponent_id = "=y"
        winner = {{ field = "said", values = {meaning} }}
        preference = {{ fields = ["one", "two"], values = {meaning} }}
    """)  # fmt: skip
    trials = bl.read_judgements(lines(tmp_path, *verdicts), mapping=mapping)
    assert trials["value"].tolist() == [1.0, 0.0, 0.5]
    assert trials["human_gap"].tolist() == [1.0, 0.0, 0.5]
    assert trials.attrs["problems"] == [("log.jsonl", 4, "no record to join for number = 3")]


def test_pandalm_with_its_annotators(tmp_path):
    verdicts = [{"idx": 3, "gpt_result": "1", "gpt_reason": "So."}]
    person = {"idx": 3, "cmp_key": "a_b", "instruction": "Do", "input": "", "response1": "x", "response2": "y z"}
    lines(tmp_path, person | {"annotator1": 2, "annotator2": 2, "annotator3": 0}, name="people.jsonl")
    mapping = toml(tmp_path, 'join = "people.jsonl on idx"')
    trials = bl.read_judgements(lines(tmp_path, *verdicts), mapping=mapping)
    assert trials[["candidate_id", "human_gap", "opponent_words"]].to_numpy().tolist() == [
        ["a", pytest.approx(-2 / 3), 2.0]
    ]


def test_raters_in_a_list_in_fields_and_as_rows(tmp_path):
    records = [{"q": "a", "m": m, "score": 3, "people": [4, None, 5], "r1": 4, "r3": "5", "by": {"ann": 4, "bob": 5}}
               for m in ("x", "y")]  # fmt: skip
    file = lines(tmp_path, *records)
    base = {"context_id": "q", "candidate_id": "m", "scale": "=1-5"}
    listed = bl.read_judgements(file, mapping=base | {"ratings": "people"})
    assert listed[["human", "ratings", "annotators", "human_scale"]].iloc[0].tolist() == [4.5, "4 5", "0 2", "1-5"]
    fields = bl.read_judgements(file, mapping=base | {"ratings": "r1, r3"})
    assert fields[["human", "ratings", "annotators"]].iloc[0].tolist() == [4.5, "4 5", "0 1"]
    rows = bl.read_judgements(file, mapping=base | {"explode": "by", "judge": "by#", "score": "by"})
    assert rows[["judge", "value"]].to_numpy().tolist() == [["ann", 4.0], ["bob", 5.0]] * 2


def test_samples_become_replicates(tmp_path):
    file = lines(tmp_path, {"q": "a", "m": "x", "out": {"samples": ["Rating: 4", "Rating: 5"]}})
    mapping = {"explode": "out.samples", "replicate": "out.samples#", "reply": "out.samples", "context_id": "q",
               "candidate_id": "m", "scale": "=1-5"}  # fmt: skip
    trials = bl.read_judgements(file, mapping=mapping)
    assert trials[["replicate", "value"]].to_numpy().tolist() == [[0, 4.0], [1, 5.0]]


def test_a_field_of_the_very_name_goes_before_a_path(tmp_path):
    file = lines(tmp_path, {"a.b": "x", "a": {"b": "y"}, "q": 1, "score": 2})
    trials = bl.read_judgements(file, mapping={"context_id": "q", "candidate_id": "a.b", "scale": "=1-5"})
    assert trials["candidate_id"].tolist() == ["x"]


@pytest.mark.parametrize("said", ["1", "true"])
def test_flags_read_alike_from_field_constant_and_value_map(tmp_path, said):
    record = {"context_id": "c", "candidate_id": "x", "opponent_id": "y", "winner": "x", "known": said}
    for expression in ("known", f"={said}", f"winner | x -> {said}"):
        trials = bl.read_judgements(lines(tmp_path, record), mapping={"order_known": expression})
        assert trials["order_known"].tolist() == [True]


def test_options_of_a_mapping_file(tmp_path):
    record = {
        "judge": "j",
        "question": 81,
        "A": "x",
        "B": "y",
        "judgment": "[[A]]",
        "context_id": "c",
        "candidate_id": "d",
    }
    mapping = toml(tmp_path, 'format = "bracket_pairs"\njudge = "=me"\n')
    trials = bl.read_judgements(lines(tmp_path, record), mapping=mapping)
    assert trials[["judge", "context_id", "value"]].to_numpy().tolist() == [["me", "81", 1.0]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("colour = 'red'", "colour"),
        ("context_id = ", "TOML"),
        ("judge = 3", "judge"),
        ("winner = { field = 'a', worth = 1 }", "table with field, fields or constant"),
        ("winner = { fields = ['a', 'b'] }", "ratings, preference"),
        ("winner = { field = 'a', values = 3 }", "values"),
        ("winner = 'a | 0 ->'", "value -> meaning"),
        ("winner = { field = 'a', pattern = '(' }", "regular expression"),
        ("join = 'somewhere'", "FILE on FIELD"),
        ("join = 'nowhere.json on idx'", "existing"),
        ("join = 'log.jsonl on other'", "whose records have the field other"),
        ("explode = ''", "explode"),
        ("format = 'nonsense'", "nonsense"),
        ("format = 3", "format"),
        ("score_pattern = 'x'", "group"),
        ("context_id = 'nothing'\ncandidate_id = 'q'\nscore = 'q'\nscale = '=1-5'", "nothing"),
    ],
)
def test_wrong_mapping_files_are_named(tmp_path, text, match):
    log = lines(tmp_path, {"q": 1, "a": 2})
    with pytest.raises(InputError, match=match):
        bl.read_judgements(log, mapping=toml(tmp_path, text))


def test_a_mapping_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="existing TOML file"):
        bl.read_judgements(lines(tmp_path, {"q": 1}), mapping=tmp_path / "none.toml")


def test_join_on_duplicate_values_is_refused(tmp_path):
    log = lines(tmp_path, {"idx": 1}, {"idx": 1})
    with pytest.raises(InputError, match="unique values"):
        bl.read_judgements(log, mapping={"join": f"{log} on idx"})


@given(st.lists(st.lists(st.integers() | st.text() | st.none(), max_size=4), min_size=1, max_size=5))
def test_exploding_keeps_every_item_in_its_place(lists):
    rows = Rows(
        [{"a": {"b": items}, "k": n} for n, items in enumerate(lists)], range(1, len(lists) + 1), Log("f"), False
    )
    made = Shape(("a.b",)).of(rows)
    assert [(record["k"], record["a.b#"], record["a"]["b"]) for record in made.records] == [
        (n, at, item) for n, items in enumerate(lists) for at, item in enumerate(items)
    ]
    assert list(made.lines) == [n + 1 for n, items in enumerate(lists) for _ in items]


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-Z0-9>=]{1,4}(?<!-)\Z"), st.from_regex(r"\A[a-z]{1,5}\Z"), min_size=1, max_size=5
    )
)
def test_names_of_values_come_back_as_they_were_written(meanings):
    written = "field | " + ", ".join(f"{value} -> {meaning}" for value, meaning in meanings.items())
    assert dict(parse_expression("winner", written).values) == meanings


def test_a_function_of_the_table_is_a_mapping(tmp_path):
    records = [{"id": "p", "by": {"judge": "j"}, "said": [4, 5]}, {"id": 2, "by": {"judge": "j"}, "said": [3]}]

    def mapping(table):
        made = table.explode("said").rename(columns={"id": "context_id", "by.judge": "judge", "said": "score"})
        return made.assign(candidate_id="x", scale="1-5", replicate=made.groupby("context_id").cumcount())

    trials = bl.read_judgements(lines(tmp_path, *records), mapping=mapping)
    assert trials[["context_id", "replicate", "value", "key"]].to_numpy().tolist() == [
        ["p", 0, 4.0, "log.jsonl:1"],
        ["p", 1, 5.0, "log.jsonl:1"],
        ["2", 0, 3.0, "log.jsonl:2"],
    ]
    table = pd.DataFrame(records)
    assert bl.read_judgements(table, mapping=mapping)["value"].tolist() == [4.0, 5.0, 3.0]
    with pytest.raises(InputError, match=r"returns a pandas\.DataFrame"):
        bl.read_judgements(table, mapping=lambda _: None)
    with pytest.raises(InputError, match="context_id, candidate_id"):
        bl.read_judgements(table, mapping=lambda table: table.tail(1))
