"""Tables in memory are read as files are; what is empty and where a line is wrong is said as an editor shows it."""

import json

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError

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
    with pytest.raises(InputError, match=r"fields are m, mark, q, when"):
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
    with pytest.raises(InputError) as caught:
        bl.read_judgements(given)
    assert caught.value.allowed
    assert caught.value.remedy


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
    with pytest.raises(InputError, match=f"at least one judgement; {reason}") as caught:
        bl.read_judgements(file)
    assert "alpaca_eval" not in str(caught.value)
    assert main(["audit", str(file)]) == 2
    assert "alpaca_eval" not in capsys.readouterr().err


def test_empty_folders_say_so(tmp_path):
    with pytest.raises(InputError, match="at least one judgement; it contains no file"):
        bl.read_judgements(tmp_path)
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1")
    with pytest.raises(
        InputError, match=r"none of its 2 files has a record \(a.csv: it is empty; b.pdf: it is not a log"
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
        said = capsys.readouterr().err
        assert "a CSV file of estimates; these columns are missing: probe, judge, dataset, metric" in said
        assert "biaslab audit LOG --out" in said


@pytest.mark.parametrize("data", [b"", "größer,schöner\nöl,äpfel\n".encode("latin-1")])
def test_files_that_are_no_estimates_are_compared_as_logs(tmp_path, data, capsys):
    file = tmp_path / "v.csv"
    file.write_bytes(data)
    assert main(["compare", str(file), str(file)]) == 2
    assert "unexpected" not in capsys.readouterr().err
