"""Paths, lists as rows, names for values, a second file, and the mapping file that says all this."""

import json
from itertools import product

import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.flatten import Shape
from biaslab.logs.readers.mapping import parse_expression
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
    verdicts = [{"number": number, "said": output} for number, output in enumerate([1, 2, 0, 1])]
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


@pytest.mark.parametrize("output", ["1", "true"])
def test_flags_read_alike_from_field_constant_and_value_map(tmp_path, output):
    record = {"context_id": "c", "candidate_id": "x", "opponent_id": "y", "winner": "x", "known": output}
    for expression in ("known", f"={output}", f"winner | x -> {output}"):
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
        ("judge = '?'", "judge"),
        ("scale = { fields = ['a', 'b'] }", "ratings, preference"),
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
    with pytest.raises(InputError, match=r"not a pandas\.DataFrame"):
        bl.read_judgements(table, mapping=lambda _: None)
    with pytest.raises(InputError, match=r"context_id = \?"):
        bl.read_judgements(table, mapping=lambda table: table.tail(1))


PAIR = {"judge": "j", "question": 81, "A": "x", "B": "y", "judgment": "Final verdict: [[A]]", "decided": "y"}
RATING = {
    "source": "hello",
    "context": "a fact",
    "system_output": "hi",
    "prompt": "Coherence (1-3) Does it follow?\n\nEvaluation Form:\n- Coherence:\n",
    "all_responses": ["Rating: 2", "Rating: 7"],
}
PROMETHEUS = {
    "instruction": "###The instruction to evaluate:\nSay hi\n\n###Response to evaluate:\nhi\n\n###Reference Answer",
    "gpt4_score": [5, 7],
}
TABLE = "context_id,candidate_id,opponent_id,said\na,x,y,I choose x.\nb,x,y,No idea.\nc,x,y,I choose y.\n"


def lines_overriding(folder, *records):
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return file


def outcome(trials):
    return [(None if value != value else value, s) for value, s in zip(trials["value"], trials["status"], strict=True)]


@pytest.mark.parametrize(
    ("mapping", "found"),
    [
        ({"winner": "decided"}, (0.0, "ok")),
        ({"winner": "=tie"}, (0.5, "tie")),
        ({"winner": "decided | y -> first"}, (1.0, "ok")),
        ({"p_first": "=0.25"}, (0.25, "ok")),
        ({"reply": "decided"}, (None, "unparsable")),
        ({"candidate_id": "decided", "opponent_id": "=x", "winner": "=x"}, (0.0, "ok")),
    ],
)
def test_a_mapped_verdict_is_the_verdict(tmp_path, mapping, found):
    assert outcome(bl.read_judgements(lines_overriding(tmp_path, PAIR), mapping=mapping)) == [found]


def test_a_mapped_verdict_leaves_what_it_does_not_replace(tmp_path):
    trials = bl.read_judgements(lines_overriding(tmp_path, PAIR), mapping={"winner": "decided"})
    assert trials.loc[0, ["judge", "context_id", "reply"]].tolist() == ["j", "81", "Final verdict: [[A]]"]


def test_a_score_is_no_verdict_of_a_pair(tmp_path):
    with pytest.raises(InputError, match="winner, p_first or reply"):
        bl.read_judgements(lines_overriding(tmp_path, PAIR), mapping={"score": "=3"})


@pytest.mark.parametrize("record", [RATING, PROMETHEUS])
def test_scores_are_read_on_the_scale_that_is_mapped(tmp_path, record):
    own = bl.read_judgements(lines_overriding(tmp_path, record))
    assert outcome(own)[1] == (None, "out_of_range")
    trials = bl.read_judgements(lines_overriding(tmp_path, record), mapping={"scale": "=1-10"})
    assert trials["scale"].tolist() == ["1-10"] * 2
    assert outcome(trials) == [(own["value"][0], "ok"), (7.0, "ok")]


def test_scale_of_a_known_format_is_a_constant(tmp_path):
    file = lines_overriding(tmp_path, RATING | {"of": "1-3"})
    with pytest.raises(InputError, match="a constant"):
        bl.read_judgements(file, mapping={"scale": "of"})


def test_saved_scores_are_checked_on_the_scale_that_is_mapped(tmp_path, graded):
    probe = bl.probes.Verbosity(attributes=["coherence"], scale="1-5", answer="text", temperature=0.0)
    trials = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False)
    trials.to_csv(tmp_path / "saved.csv", index=False)
    again = bl.read_judgements(tmp_path / "saved.csv", mapping={"scale": "=1-3"})
    assert set(again["scale"]) == {"1-3"}
    assert again["status"].eq("out_of_range").sum() == (trials["value"] > 3).sum() > 0


def test_unmatched_expression_makes_the_row_unparsable(tmp_path):
    (tmp_path / "log.csv").write_text(TABLE)
    trials = bl.read_judgements(tmp_path / "log.csv", mapping={"winner": r"said~choose (\w)"})
    assert outcome(trials) == [(1.0, "ok"), (None, "unparsable"), (0.0, "ok")]
    assert trials.attrs["unmatched"] == {"winner: said does not match": 1}
    rate = bl.audit(trials, only=["replies"]).set_index(["metric", "system"])["estimate"]["readable_rate", ""]
    assert rate == pytest.approx(2 / 3)


@pytest.mark.parametrize("blank", ["", "  ", None, float("nan"), "NA"])
@pytest.mark.parametrize("mapping", [None, {"judge": "=j"}])
def test_blank_verdict_is_a_missing_judgement(blank, mapping):
    names = {"context_id": list("abc"), "candidate_id": "x", "opponent_id": "y"}
    trials = bl.read_judgements(pd.DataFrame(names | {"winner": ["first", blank, "second"]}), mapping=mapping)
    assert trials["status"].tolist() == ["ok", "unparsable", "ok"]
    assert trials.attrs["malformed"] == 0


def test_unmatched_identifier_keeps_the_field_and_has_no_value(tmp_path):
    file = lines_overriding(tmp_path, PAIR | {"question": "q1"}, PAIR | {"question": "none"})
    trials = bl.read_judgements(file, mapping={"context_id": r"question~q(\d+)"})
    assert trials["context_id"].tolist() == ["1", "none"]
    assert outcome(trials) == [(1.0, "ok"), (None, "unparsable")]
    assert trials.attrs["malformed"] == 0


def test_numbers_within_texts(tmp_path):
    (tmp_path / "log.csv").write_text("context_id,candidate_id,said\na,x,4 stars\na,y,many stars\n")
    trials = bl.read_judgements(tmp_path / "log.csv", mapping={"score": r"said~^(\w+) stars", "scale": "=1-5"})
    assert outcome(trials) == [(4.0, "ok"), (None, "unparsable")]


def test_an_explicit_mapping_goes_before_a_column_of_that_name(tmp_path):
    (tmp_path / "log.csv").write_text("context_id,candidate_id,opponent_id,winner,reply\na,x,y,x,B\n")
    assert outcome(bl.read_judgements(tmp_path / "log.csv")) == [(1.0, "ok")]
    assert outcome(bl.read_judgements(tmp_path / "log.csv", mapping={"reply": "reply"})) == [(0.0, "ok")]


def test_human_preference_may_be_mapped_in_a_known_format(tmp_path):
    people = {"gold": "y", "votes": ["x", "x", "tie"]}
    gold = bl.read_judgements(lines_overriding(tmp_path, PAIR | people), mapping={"preference": "gold"})
    assert gold["human_gap"].tolist() == [-1.0]
    votes = bl.read_judgements(lines_overriding(tmp_path, PAIR | people), mapping={"preference": "votes"})
    assert votes["human_gap"].tolist() == pytest.approx([2 / 3])
    rated = bl.read_judgements(lines_overriding(tmp_path, RATING | {"by": [2, 3]}), mapping={"ratings": "by"})
    assert rated[["human", "ratings", "human_scale"]].to_numpy().tolist() == [[2.5, "2 3", "1-3"]] * 2


def test_texts_may_be_mapped_in_a_known_format(tmp_path):
    texts = {"text": "judgment", "opponent_text": "=one two"}
    trials = bl.read_judgements(lines_overriding(tmp_path, PAIR), mapping=texts)
    assert trials[["words", "opponent_words"]].to_numpy().tolist() == [[3.0, 2.0]]


VERDICTS = {"winner": "winner | A -> first, B -> second, tie -> tie"}
SIDES = {"candidate_id": "model_a", "opponent_id": "model_b"}
PAIRS = pd.DataFrame(
    [
        {"question": f"q{n}", "model_a": one, "model_b": two, "winner": ("A", "B", "tie")[(n * 7 + turn) % 3],
         "benchmark": "mine", "round": 1 + n % 2}
        for n in range(30)
        for turn, (one, two) in enumerate(["xy", "yx"])
    ]
)  # fmt: skip
SCORES = pd.DataFrame(
    [
        {"question": f"q{n}", "system": system, "grade": 1 + (n * 3 + place + len(judge) * (n % 2)) % 5,
         "grader": judge, "version": "2026"}
        for n, (place, system), judge in product(range(20), enumerate("abc"), ("one", "three"))
    ]
)  # fmt: skip
RATED = {"score": "grade", "scale": "=1-5"}


@pytest.mark.parametrize(
    ("table", "mapping", "column"),
    [
        (PAIRS, {"context_id": "=question", **SIDES, **VERDICTS}, "question"),
        (PAIRS, {"context_id": "benchmark", **SIDES, **VERDICTS}, "question"),
        (PAIRS, {"context_id": "=all", **SIDES, **VERDICTS}, "question"),
        (PAIRS, {"context_id": "question", "candidate_id": "=x", "opponent_id": "=y", **VERDICTS}, "model_a, model_b"),
        (SCORES, {"context_id": "question", "candidate_id": "system", **RATED}, "grader"),
        (SCORES, {"context_id": "question", "candidate_id": "version", "judge": "grader", **RATED}, "system"),
        (SCORES, {"context_id": "version", "candidate_id": "system", "judge": "grader", **RATED}, "question"),
        (SCORES.rename(columns={"grader": "shift"}), {"context_id": "question", "candidate_id": "system", **RATED},
         "shift"),
    ],
)  # fmt: skip
def test_implausible_mapping_names_what_differs(table, mapping, column):
    with pytest.raises(InputError, match=column) as raised:
        read_judgements(table, mapping=mapping)
    assert "--map" not in str(raised.value).replace("--map replicate==#", "")  # no role is offered


def test_repetitions_without_a_field_are_numbered():
    table = SCORES.drop(columns=["grader", "version"]).assign(id=range(120), created=[f"10:{n}" for n in range(120)])
    mapping = {"context_id": "question", "candidate_id": "system", **RATED}
    with pytest.raises(InputError, match="--map replicate==#"):
        read_judgements(table, mapping=mapping)
    assert read_judgements(table, mapping=mapping | {"replicate": "=#"})["replicate"].tolist() == [0, 1] * 60


def test_contradictions_are_counted_against_what_is_kept(tmp_path):
    rows = [{"context_id": "c", "candidate_id": "x", "score": score, "scale": "1-5"} for score in (1, 2, 2, 1, 2, 3)]
    many = [{"context_id": f"d{n}", "candidate_id": "x", "score": 1, "scale": "1-5"} for n in range(300)]
    trials = read_judgements(pd.DataFrame(rows + many))
    assert (trials.attrs["duplicates"], trials.attrs["contradictions"]) == (5, 4)


def test_duplicate_judgements_are_dropped():
    twice = pd.concat([PAIRS, PAIRS])
    trials = read_judgements(twice, mapping={"context_id": "question", **SIDES, **VERDICTS})
    assert (len(trials), trials.attrs["duplicates"], trials.attrs["contradictions"]) == (60, 60, 0)


def test_a_log_of_one_item_and_no_other_field_of_items_is_read():
    table = SCORES[(SCORES["question"] == "q0") & (SCORES["grader"] == "one")]
    table = pd.concat([table.assign(system=table["system"] + str(n)) for n in range(5)])
    mapping = {"context_id": "question", "candidate_id": "system", **RATED}
    assert len(read_judgements(table, mapping=mapping)) == 15


def test_summary_counts_pairs_judged_in_one_order():
    once = PAIRS.drop(index=[1, 3, 4])
    readings = [read_judgements(table).attrs["reading"] for table in (once, PAIRS, PAIRS[PAIRS["model_a"] == "x"])]
    assert [reading["one_order"] for reading in readings] == [[3, 30], [0, 30], [30, 30]]


def test_list_with_judgements_becomes_rows():
    items = [{"question": f"q{n}", "model_a": "x", "model_b": "y", "verdict": "AB"[n % 2]} for n in range(5)]
    frame = pd.DataFrame([{"annotations": [{"n": n} for n in range(50)], "instances": items}])
    assert read_judgements(frame)["value"].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_swapped_rows_that_hold_the_order_shown_are_refused():
    """Swapped again, every pair was read as judged twice in one order, with the wrong text first."""
    pairs = [(f"q{n}", f"one {n}", f"two {n}") for n in range(20)]
    fixed = pd.DataFrame([(*pair, flag, "first") for pair in pairs for flag in (0, 1)])
    fixed.columns = ["question", "a", "b", "swapped", "winner"]
    mapping = {"context_id": "question", "candidate_id": "a", "opponent_id": "b", "winner": "winner", "judge": "=j"}
    mapping |= {"swapped": {"field": "swapped", "values": {"0": "false", "1": "true"}}}
    read = read_judgements(fixed, mapping=mapping)
    assert read["candidate_id"].tolist() == [text for _, *texts in pairs for text in texts]
    turned = fixed.assign(a=read["candidate_id"].tolist(), b=read["opponent_id"].tolist())
    with pytest.raises(InputError, match="leave swapped out"):
        read_judgements(turned, mapping=mapping)
    plain = read_judgements(turned, mapping={name: entry for name, entry in mapping.items() if name != "swapped"})
    assert plain["candidate_id"].tolist() == read["candidate_id"].tolist()
