"""Tables in memory are read as files are; what is empty and where a line is wrong is said as an editor shows it."""

import io
import json
import random
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from made_logs import answers

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError
from biaslab.logs.readers import read_judgements

PAIRS = pd.DataFrame(
    {
        "context_id": [1, 1, 2, 2, 3],
        "candidate_id": ["x", "y", "x", "y", "x"],
        "opponent_id": ["y", "x", "y", "x", "y"],
        "winner": ["x", "x", "y", None, "tie"],
        "human_gap": [0.5, -0.5, np.nan, np.nan, 1],
    },
    index=[9, 9, 7, 7, 5],
)


def test_a_table_is_read_as_its_file_is(tmp_path):
    file = tmp_path / "pairs.csv"
    PAIRS.to_csv(file, index=False)
    trials, wanted = bl.read_judgements(PAIRS), bl.read_judgements(file)
    pd.testing.assert_frame_equal(trials.drop(columns="key"), wanted.drop(columns="key"))
    assert trials["key"].tolist() == [f"table:{n}" for n in range(1, 6)]
    assert trials.attrs["files"] == {"table": "mapping"}


def test_a_table_of_other_names_is_read_through_a_mapping():
    scores = pd.DataFrame({"q": [1, 2], "m": ["x", "x"], "mark": [3, 9], "when": pd.Timestamp("2026-01-01")})
    mapping = {"context_id": "q", "candidate_id": "m", "score": "mark", "scale": "=1-5"}
    trials = bl.read_judgements(scores, mapping=mapping)
    assert trials["status"].tolist() == ["ok", "out_of_range"]
    with pytest.raises(InputError, match=r"scale = \?"):
        bl.read_judgements(scores)


def test_saved_trials_come_back_from_memory(graded):
    data = graded.head(2)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    trials = bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)
    again = bl.read_judgements(trials)
    assert again["value"].tolist() == trials["value"].tolist()
    assert again.attrs["files"] == {"table": "collected"}


def test_a_malformed_row_of_a_table_is_named_as_a_row():
    wrong = PAIRS.astype(object).assign(context_id=[1, 1, True, 2, 3])
    assert bl.read_judgements(wrong).attrs["problems"] == [("table", 3, "context_id is not a name or a whole number")]
    with pytest.raises(TrialsError, match="table, row 3"):
        bl.read_judgements(wrong, strict=True)


@pytest.mark.parametrize(
    "given",
    [None, 3, np.nan, "", b"x.csv", [], {}, PAIRS["winner"], print, PAIRS.head(0), pd.DataFrame(),
     PAIRS.set_axis(list("aabcd"), axis=1), PAIRS.T],
)  # fmt: skip
def test_read_judgements_refuses_other_types(given):
    with pytest.raises(InputError, match=r"path.* is|a table has|Arrow cannot read"):
        bl.read_judgements(given)


@pytest.mark.parametrize("wrong", [3, [], np.nan, print, pd.DataFrame({"a": [1]})], ids=str)
@pytest.mark.parametrize("name", ["format", "mapping"])
def test_wrong_options_are_refused(name, wrong):
    with pytest.raises(InputError, match=name):
        bl.read_judgements(PAIRS, **{name: wrong})


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "", "it is empty"),
        ("a.jsonl", "\n \n", "it is empty"),
        ("a.csv", "question,winner\n", r"it has a header \(question, winner\) but no rows"),
        ("a.csv", "question;winner", r"it has a header \(question, winner\) but no rows"),
        ("a.json", "[]", "it is an empty list"),
        ("a.jsonl", "\n{oops\n", "line 2: not JSON: Expecting property name"),
    ],
)
def test_empty_file_error_gives_the_reason(tmp_path, name, text, reason, capsys):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InputError, match=f"no judgement: {reason}") as caught:
        bl.read_judgements(file)
    assert "alpaca_eval" not in str(caught.value)
    assert main(["audit", str(file)]) == 2
    assert "alpaca_eval" not in capsys.readouterr().err


def test_empty_folders_say_so(tmp_path):
    with pytest.raises(InputError, match="contains no file"):
        bl.read_judgements(tmp_path)
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1")
    with pytest.raises(
        InputError, match=r"none of the 2 files of .* has a record \(a.csv: it is empty; b.pdf: it is not a log"
    ):
        bl.read_judgements(tmp_path)


def test_lines_are_those_of_the_file(tmp_path):
    """With a header, blank lines and a text of two lines: what an editor calls line 8 is line 8."""
    head = "\ncontext_id,candidate_id,opponent_id,reply\n"
    (tmp_path / "a.csv").write_text(head + '1,x,y,"So:\n[[A]]"\n\n2,x,y,[[B]]\n3,x\n4,,y,[[A]]\n')
    trials = bl.read_judgements(tmp_path / "a.csv")
    assert trials["key"].tolist() == ["a.csv:3", "a.csv:6"]
    assert [line for _, line, _ in sorted(trials.attrs["problems"])] == [7, 8]
    good = json.dumps({"context_id": 1, "candidate_id": "x", "opponent_id": "y", "winner": "x"})
    (tmp_path / "b.jsonl").write_text(f"\n{good}\n\n\n{{oops\n{good.replace('1', '2')}\n")
    trials = bl.read_judgements(tmp_path / "b.jsonl")
    assert trials["key"].tolist() == ["b.jsonl:2", "b.jsonl:6"]
    assert [line for _, line, _ in trials.attrs["problems"]] == [5]


def test_a_table_for_a_paper_is_made_of_estimates(tmp_path, capsys):
    file = tmp_path / "v.csv"
    PAIRS.to_csv(file, index=False)
    for command in (["table", str(file)], ["check", "--estimates", str(file), "--limit", "tie_rate=:.2"]):
        assert main(command) == 2
        message = capsys.readouterr().err
        assert "a CSV file of estimates; these columns are missing: probe, judge, dataset, metric" in message
        assert "biaslab audit LOG --out" in message


@pytest.mark.parametrize("data", [b"", "größer,schöner\nöl,äpfel\n".encode("latin-1")])
def test_files_that_are_no_estimates_are_compared_as_logs(tmp_path, data, capsys):
    file = tmp_path / "v.csv"
    file.write_bytes(data)
    assert main(["compare", str(file), str(file)]) == 2
    assert "unexpected" not in capsys.readouterr().err


TABLE = pd.DataFrame(
    {
        "question": [f"What is {n}?" for n in range(12)],
        "answer_a": [f"one {n}" for n in range(12)],
        "answer_b": [f"two {n}" for n in range(12)],
        "winner": ["A", "B", "tie"] * 4,
    }
)


class Stream:
    """What polars and DuckDB give: a stream of Arrow, and nothing else."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", [pa.Table.from_pandas, Stream])
def test_tables_of_other_packages_are_read_as_those_of_pandas(kind):
    found, expected = read_judgements(kind(TABLE)), read_judgements(TABLE)
    pd.testing.assert_frame_equal(found, expected)
    assert found["value"].tolist() == [1.0, 0.0, 0.5] * 4


def test_nested_and_missing_cells_of_arrow_are_read(tmp_path):
    rows = [{"context_id": n, "candidate_id": "x", "score": None if n == 2 else n, "scale": "1-5", "ratings": [1, 2]}
            for n in range(1, 6)]  # fmt: skip
    trials = read_judgements(pa.Table.from_pylist(rows))
    assert trials["status"].tolist() == ["ok", "unparsable", "ok", "ok", "ok"]
    assert trials["ratings"].tolist() == ["1 2"] * 5


@pytest.mark.slow
def test_audit_and_doctor_take_them_too():
    found = bl.audit(Stream(TABLE), only=["replies"])
    assert "win_rate" not in set(found["metric"])
    assert bl.doctor(Stream(TABLE)).holdings["pairs"] == 12
    with pytest.raises(InputError, match="path is 3"):
        read_judgements(3)


def parts(folder):
    TABLE.iloc[:6].to_csv(folder / "one.csv", index=False)
    TABLE.iloc[6:].to_csv(folder / "two.csv", index=False)
    return folder


@pytest.mark.slow
def test_a_folder_of_tables_and_a_pattern_are_one_log(tmp_path):
    full = read_judgements(TABLE)
    for path in (parts(tmp_path), tmp_path / "*.csv", str(tmp_path / "**/*.csv")):
        trials = read_judgements(path)
        assert trials["value"].tolist() == full["value"].tolist()
        assert trials["context_id"].tolist() == full["context_id"].tolist()
        assert set(trials.attrs["files"]) == {"one.csv", "two.csv"}
    assert len(read_judgements(tmp_path / "one*")) == 6


def test_tables_beside_a_known_log_are_no_logs(tmp_path):
    parts(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"judge": "j", "question": 1, "A": "x", "B": "y", "judgment": "[[A]]"}\n')
    trials = read_judgements(tmp_path)
    assert set(trials.attrs["files"]) == {"log.jsonl"}
    assert set(trials.attrs["skipped"]) == {"one.csv", "two.csv"}


def test_a_pattern_that_matches_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="a pattern that matches at least one file"):
        read_judgements(tmp_path / "*.jsonl")


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        (["one.csv", "two.csv"], "a pattern such as logs/\\*.jsonl"),
        ([{"question": "q", "winner": "A"}], r"pandas.DataFrame\(records\)"),
        (3, "pass the path of the log"),
    ],
)
@pytest.mark.parametrize("function", [read_judgements, bl.audit, bl.doctor])
def test_other_types_than_paths_are_refused_with_a_remedy(function, path, remedy):
    with pytest.raises(InputError, match=remedy):
        function(path)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    TABLE.to_csv(tmp_path / "run[1].csv", index=False)
    assert len(read_judgements(tmp_path / "run[1].csv")) == 12


SYSTEMS = ["gpt-4o", "llama-3-8b", "mistral-7b"]
WORTH = {"first": 1.0, "second": 0.0, "tie": 0.5}
SIDES = [random.Random(5 + n).choice(["first", "second", "first", "tie"]) for n in range(60)]
DECIDED = [side if side != "tie" else "first" for side in SIDES]
SHARES = [round(random.Random(9 + n).random(), 6) for n in range(60)]


def table(words, one="answer_a", two="answer_b", column="winner", sides=SIDES, **more):
    """Return pairs; ``words`` is what each side is called, or a function of the side and the row."""
    verdicts = [words(side, n) if callable(words) else words[side] for n, side in enumerate(sides)]
    rows = [
        {"question": f"What is {n}?", one: f"one answer {n}", two: f"another answer {n}", column: word}
        | {name: value(n) for name, value in more.items()}
        for n, word in enumerate(verdicts)
    ]
    return pd.DataFrame(rows)


def refused(given):
    with pytest.raises(InputError):
        read_judgements(given)
    return answers(given)


@pytest.mark.parametrize(
    "words",
    [
        {"first": "Model A", "second": "Model B", "tie": "Tie"},
        {"first": "A is slightly better", "second": "B is much better", "tie": "about the same"},
        {"first": "Response A is significantly better than Response B", "second": "Response B is better",
         "tie": "Both responses are equally good"},
        {"first": "Strongly prefer A", "second": "Slightly prefer B", "tie": "No preference"},
        {"first": "A++", "second": "B+", "tie": "A=B"},
        {"first": "[[A>>B]]", "second": "[[B>A]]", "tie": "[[A=B]]"},
        {"first": "ASSISTANT A", "second": "ASSISTANT B", "tie": "BOTH BAD"},
        {"first": "model_a", "second": "model_b", "tie": "tie (inconsistent)"},
        {"first": "1.0", "second": "2.0", "tie": "tie"},
    ],
    ids=lambda words: words["first"],
)  # fmt: skip
def test_words_of_verdicts(words):
    assert read_judgements(table(words))["value"].tolist() == [WORTH[side] for side in SIDES]


def graded(low, high):
    """Return numbers from low, the first, to high; the middle is a tie."""
    middle = (low + high) / 2
    below = [n for n in range(low, high + 1) if n < middle]
    return lambda side, n: {"first": below, "second": [low + high - m for m in below], "tie": [int(middle)]}[side][
        n % (1 if side == "tie" else len(below))
    ]


@pytest.mark.parametrize(("low", "high"), [(-3, 3), (-1, 1), (1, 7), (1, 5), (-2, 2), (1, 3)])
def test_numbers_of_degrees_are_asked_for(low, high):
    first, second, *_ = refused(table(graded(low, high), column="preference"))
    for mapping, step in ((first, 1), (second, -1)):
        values = read_judgements(table(graded(low, high), column="preference"), mapping=mapping)["value"]
        assert values.tolist() == [WORTH[side] if step == 1 else 1 - WORTH[side] for side in SIDES]


def test_signs_are_not_lost():
    """Of -2 and 2 none is "2": the second candidate."""
    first, second = refused(table({"first": -2, "second": 2}, column="preference", sides=DECIDED))
    given = table({"first": -2, "second": 2}, column="preference", sides=DECIDED)
    assert read_judgements(given, mapping=first)["value"].tolist() == [WORTH[side] for side in DECIDED]
    assert read_judgements(given, mapping=second)["value"].mean() == 1 - pd.Series(DECIDED).map(WORTH).mean()


def test_two_columns_counted_from_zero_and_verdicts_from_one():
    given = table({"first": "1", "second": "2"}, "response_0", "response_1", sides=DECIDED)
    first, _ = refused(given)
    assert read_judgements(given, mapping=first)["value"].tolist() == [WORTH[side] for side in DECIDED]


@pytest.mark.parametrize(
    ("written", "which"),
    [
        (lambda share: 2 - share, 0),  # as AlpacaEval counts: 2 is output_2
        (lambda share: share, 0),
        (lambda share: 1 - share, 1),
        (lambda share: 100 * share, 0),
        (lambda share: f"{100 * share:.4f}%", 0),
        (lambda share: 2 * share - 1, 0),
    ],
)
def test_numbers_of_shares_are_asked_for(written, which):
    given = table(lambda _, n: written(SHARES[n]), column="preference")
    mapping = refused(given)[which]
    assert read_judgements(given, mapping=mapping)["value"].tolist() == pytest.approx(SHARES)


def test_columns_of_each_side():
    likely = table(lambda _, n: SHARES[n], column="prob_a").assign(prob_b=[1 - share for share in SHARES])
    assert read_judgements(likely)["value"].tolist() == pytest.approx(SHARES)
    assert read_judgements(likely.drop(columns="prob_a"))["value"].tolist() == pytest.approx(SHARES)
    marks = table({"first": 8, "second": 7, "tie": 7}, column="score_a")
    marks["score_b"] = [8 if side == "second" else 7 for side in SIDES]
    (mapping,) = refused(marks)
    assert mapping["winner"] == "score_a > score_b"
    assert read_judgements(marks, mapping=mapping)["value"].tolist() == [WORTH[side] for side in SIDES]


def test_a_gold_label_is_not_taken_for_the_judge():
    words = {"first": "A", "second": "B", "tie": "tie"}
    given = table(words, column="prediction", label=lambda n: "AB"[n % 2])
    (by_people,) = refused(given)
    assert by_people["winner"]["field"] == "prediction"
    assert by_people["preference"]["field"] == "label"
    trials = read_judgements(given, mapping=by_people)
    assert trials["value"].tolist() == [WORTH[side] for side in SIDES]
    assert trials["human_gap"].tolist() == [1.0, -1.0] * 30
    people = table(words, column="judge", human=lambda n: "AB"[n % 2])
    assert read_judgements(people)["human_gap"].tolist() == [1.0, -1.0] * 30
    assert read_judgements(people)["judge"].unique().tolist() == ["unknown"]
    assert len(refused(table(words, column="alice", bob=lambda n: "AB"[n % 2]))) == 2


def test_people_in_the_column_of_judges_are_no_judges():
    given = table({"first": "A", "second": "B", "tie": "tie"}, judge=lambda n: f"expert_{n % 7}")
    assert [mapping["judge"] for mapping in refused(given)] == ["judge", "=people"]


def test_a_model_beside_two_candidates_may_be_the_judge():
    given = table({"first": "A", "second": "B", "tie": "tie"}, model=lambda n: ["gpt-4o", "claude"][n % 2])
    (mapping,) = refused(given)
    assert read_judgements(given, mapping=mapping)["judge"].tolist() == given["model"].tolist()


@pytest.mark.parametrize("flags", [("A,B", "B,A"), ("AB", "BA"), ("original", "swapped")])
def test_columns_of_the_order_are_asked_for(flags):
    given = table({"first": "A", "second": "B", "tie": "tie"}, shown_order=lambda n: flags[n % 2])
    places, columns = refused(given)
    ahead = [f"{['one', 'another'][n % 2]} answer {n}" for n in range(60)]
    for mapping, swap in ((places, False), (columns, True)):
        trials = read_judgements(given, mapping=mapping)
        assert trials["candidate_id"].tolist() == ahead
        wanted = [1 - WORTH[side] if swap and n % 2 else WORTH[side] for n, side in enumerate(SIDES)]
        assert trials["value"].tolist() == wanted


def test_flag_named_after_the_order_asks_what_it_means():
    given = table({"first": "A", "second": "B", "tie": "tie"}, shown_order=lambda n: n % 2 == 0)
    (question,) = bl.logs.propose(given).questions
    assert (question.entry, question.options, question.required) == ("swapped", ("shown_order",), False)


def test_a_file_in_the_other_order_only_says_so():
    given = table({"first": "A", "second": "B", "tie": "tie"}, swapped=lambda _: True)
    assert read_judgements(given, mapping=refused(given)[0])["candidate_id"].tolist() == given["answer_b"].tolist()
    kept = table({"first": "A", "second": "B", "tie": "tie"}, swapped=lambda _: False)
    assert read_judgements(kept)["candidate_id"].tolist() == kept["answer_a"].tolist()


def test_the_system_that_was_shown_first_may_be_named():
    rows = []
    for n, side in enumerate(SIDES):
        one, two = SYSTEMS[n % 3], SYSTEMS[(n + 1) % 3]
        preferred = {"first": one, "second": two, "tie": "tie"}[side]
        rows.append({"question": f"q{n}", "model_a": one, "model_b": two, "first_model": [one, two][n % 2],
                     "winner": preferred, "human": preferred})  # fmt: skip
    trials = read_judgements(pd.DataFrame(rows))
    assert trials["candidate_id"].tolist() == [row["first_model"] for row in rows]
    wanted = [1 - WORTH[side] if n % 2 else WORTH[side] for n, side in enumerate(SIDES)]
    assert trials["value"].tolist() == wanted
    assert trials["human_gap"].tolist() == [2 * value - 1 for value in wanted]


def test_chosen_and_rejected_are_no_order():
    given = table(lambda side, _: int(side == "first"), "chosen", "rejected", "results", DECIDED)
    _, mapping = refused(given)
    trials = read_judgements(given, mapping=mapping)
    assert trials["value"].tolist() == [WORTH[side] for side in DECIDED]
    assert not trials["order_known"].any()
    assert (trials["human_gap"] == 1).all()


def test_longer_names_beside_the_texts_are_not_the_texts():
    given = table({"first": "A", "second": "B", "tie": "tie"}, answer_a_tokens=lambda _: 7, answer_b_tokens=lambda _: 8)
    given = given[sorted(given.columns, key=len, reverse=True)]
    assert read_judgements(given)["words"].tolist() == [3.0] * 60


def scores(systems=SYSTEMS, items=40, **columns):
    rows = [{"question": f"What is {n}?", "model": system, "answer": f"text of {system} on {n}"}
            for n in range(items) for system in systems]  # fmt: skip
    return pd.DataFrame([row | {name: value(n) for name, value in columns.items()} for n, row in enumerate(rows)])


def five(n):
    return 1 + n * n % 5 if n % 7 else 5


def test_judges_and_attributes_are_not_pooled():
    trials = read_judgements(
        scores(gpt4_coherence=five, gpt4_fluency=five, claude_coherence=five, coherence_human=five)
    )
    assert trials.groupby(["judge", "attribute"]).size().to_dict() == {
        ("gpt4", "coherence"): 120, ("gpt4", "fluency"): 120, ("claude", "coherence"): 120
    }  # fmt: skip


def test_attributes_on_different_scales():
    given = scores(coherence=five, fluency=lambda n: 1 + n % 3)
    (each,) = refused(given)
    assert each["scale"] == {"coherence": "=1-5", "fluency": "=1-3"}
    trials = read_judgements(given, mapping=each)
    assert trials.groupby("attribute")["scale"].first().to_dict() == {"coherence": "1-5", "fluency": "1-3"}
    long = pd.concat([scores(score=five).assign(criterion="coherence"),
                      scores(score=lambda n: 1 + n % 3).assign(criterion="fluency")])  # fmt: skip
    trials = read_judgements(long, mapping=refused(long)[0])
    assert trials.groupby("attribute")["scale"].first().to_dict() == {"coherence": "1-5", "fluency": "1-3"}


def test_people_on_another_scale():
    given = scores(score=lambda n: 1 + n % 10, human_score=five)
    theirs, same = refused(given)
    assert set(read_judgements(given, mapping=theirs)["human_scale"]) == {"1-5"}
    assert set(read_judgements(given, mapping=same)["human_scale"]) == {"1-10"}


def test_unnamed_columns_like_scores_are_asked_about():
    given = scores(coherence=five, spiciness=lambda n: five(n + 1))
    both, one = refused(given)
    assert set(read_judgements(given, mapping=both)["attribute"]) == {"coherence", "spiciness"}
    alone = read_judgements(given, mapping=one)
    assert alone["value"].tolist() == given["coherence"].tolist()
    assert len(refused(scores(score=five, gpt4_score=lambda n: five(n + 1)))) == 2


@pytest.mark.parametrize("words", [("pass", "fail"), (True, False), ("Yes", "No")])
def test_grades_of_two_words(words):
    trials = read_judgements(scores(verdict=lambda n: words[n % 2]))
    assert trials["value"].tolist() == [1.0, 0.0] * 60
    assert set(trials["scale"]) == {"0-1"}


def test_texts_with_scores_are_read_with_the_line_that_is_shown():
    given = scores(score=lambda n: f"{five(n)}/5")
    (mapping,) = refused(given)
    assert read_judgements(given, mapping=mapping)["value"].tolist() == [five(n) for n in range(120)]


def test_models_beside_the_same_answer_judged_it():
    given = scores(score=five).assign(answer=lambda rows: "an answer to " + rows["question"])
    (judges,) = refused(given)
    assert read_judgements(given, mapping=judges)["judge"].tolist() == given["model"].tolist()


def test_numbers_of_rows_are_no_items():
    trials = read_judgements(scores(score=five).assign(item_id=range(120)))
    assert trials["context_id"].nunique() == 40


def test_identifiers_that_several_tasks_share():
    numbers = [n // 3 for n in range(120)]
    parts = [
        scores(score=five).assign(
            task=task, question_id=numbers, question=lambda rows, task=task: task + rows["question"]
        )
        for task in "xy"
    ]
    assert read_judgements(pd.concat(parts))["context_id"].nunique() == 80
    turns = pd.concat([parts[0].assign(turn=turn).drop(columns=["question", "task"]) for turn in (1, 2)])
    assert read_judgements(turns)["context_id"].nunique() == 80


def nested(rows):
    return [{"input": {"question": row["question"]}, "output": {"model": row["model"], "text": row["answer"]},
             "evaluation": {"score": row["score"], "reason": "so"}} for row in rows]  # fmt: skip


def zipped(text):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("results/log.csv", text)
        archive.writestr("__MACOSX/results/._log.csv", b"\0\5\x16\7")
    return packed.getvalue()


WHOLE = scores(score=five)
RECORDS = WHOLE.to_dict("records")
FILES = {
    "columns.json": WHOLE.to_json(),
    "index.json": WHOLE.to_json(orient="index"),
    "split.json": WHOLE.to_json(orient="split"),
    "table.json": WHOLE.to_json(orient="table"),
    "lists.json": json.dumps(WHOLE.to_dict("list")),
    "keyed.json": json.dumps({f"id {n}": row for n, row in enumerate(RECORDS)}),
    "rows.json": json.dumps([list(WHOLE), *WHOLE.to_numpy().tolist()]),
    "wrapped.json": json.dumps({"data": RECORDS, "meta": {"n": 3}}, indent=1),
    "nested.jsonl": "\n".join(map(json.dumps, nested(RECORDS))),
    "bars.csv": WHOLE.to_csv(index=False, sep="|"),
    "told.csv": "sep=;\n" + WHOLE.to_csv(index=False, sep=";"),
    "comma.csv": WHOLE.assign(score=WHOLE["score"] / 1.0).to_csv(index=False, sep=";", decimal=","),
    "comma.tsv": WHOLE.assign(score=WHOLE["score"] / 1.0).to_csv(index=False, sep="\t", decimal=","),
    "index.csv": WHOLE.to_csv(),
    "log.zip": zipped(WHOLE.to_csv(index=False)),
}


@pytest.mark.parametrize("name", FILES)
def test_layouts_of_files(name, tmp_path):
    file = tmp_path / name
    file.write_bytes(FILES[name] if isinstance(FILES[name], bytes) else FILES[name].encode())
    trials = read_judgements(file)
    assert trials["value"].tolist() == WHOLE["score"].tolist()
    assert trials["candidate_id"].tolist() == WHOLE["model"].tolist()
    assert trials["context_id"].tolist() == WHOLE["question"].tolist()


def test_a_comma_before_three_digits_may_separate_thousands(tmp_path):
    file = tmp_path / "log.tsv"
    WHOLE.assign(words=[f"1,{200 + n}" for n in range(len(WHOLE))]).to_csv(file, index=False, sep="\t")
    words = read_judgements(file)["words"]
    assert not ((words > 1) & (words < 2)).any()


def test_field_next_to_a_list_applies_to_all_its_records(tmp_path):
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"judge": "claude", "results": RECORDS}))
    assert set(read_judgements(file)["judge"]) == {"claude"}
