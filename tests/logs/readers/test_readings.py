"""What recorded verdicts are worth: in the form that a log has, the same for either label, and of real judges."""

import gzip
import json

import pandas as pd
import pytest

import biaslab as bl
from biaslab.logs.readers.readings import bracketed, lettered, of_pairs


@pytest.mark.parametrize(
    ("verdict", "worth"),
    [
        ("[[A>>B]]", (1.0, "ok")),
        ("[[A>B]]", (1.0, "ok")),
        ("[[A=B]]", (0.5, "tie")),
        ("[[B>A]]", (0.0, "ok")),
        ("[[B>>A]]", (0.0, "ok")),
        ("[[Tie]]", (0.5, "tie")),
    ],
)
def test_degrees_of_preference(verdict, worth):
    """As Arena-Hard and JudgeBench ask for them."""
    assert bracketed(f"A names the date. My final verdict is: {verdict}") == worth
    assert lettered(verdict) == worth


def test_grades_have_no_tie():
    grades = {letter: (float(place), "ok") for place, letter in enumerate("ABC")}
    assert lettered("It is a tie.", grades)[1] == "unparsable"
    assert lettered("C", grades) == (2.0, "ok")


def test_a_log_of_brackets_is_read_by_brackets_alone():
    said = pd.Series(["So, A is better.", "Choice: B", None])
    assert of_pairs(said)["status"].tolist() == ["ok", "ok", "unparsable"]
    asked = pd.Series(["So, A is better.", "Choice: B", "[[B]]"])
    assert of_pairs(asked)["status"].tolist() == ["unparsable", "unparsable", "ok"]


@pytest.mark.slow
def test_every_verdict_of_devbench_is_read(shared_data):
    """Five judges; the shares of the first label are those of the lines "Choice: A"."""
    file = shared_data / "recorded" / "position_bias_analyzer" / "DevBench_position_bias.jsonl.gz"
    trials = bl.read_judgements(file)
    assert trials["status"].value_counts().to_dict() == {"ok": 11200}
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    first = pd.Series(["Choice: A" in line["judgment"].replace("*", "").replace("  ", " ") for line in lines])
    share = first.groupby([line["judge"] for line in lines]).mean()
    assert trials.groupby("judge")["value"].mean().to_dict() == pytest.approx(share.to_dict(), abs=0.002)


@pytest.mark.parametrize(("file", "name"), [("gpt-3.5-turbo", "gpt"), ("pandalm-7b", "pandalm")])
def test_pandalm_reasons_are_read_as_their_verdicts(shared_data, file, name):
    """PandaLM's reasons: those that were turned round by an article are not, and neither label is lost more often."""
    rows = json.loads(
        gzip.decompress((shared_data / "recorded" / "pandalm" / f"{file}-testset-v1.json.gz").read_bytes())
    )
    worth = {"1": 1.0, "2": 0.0}
    verdicts = [
        (worth[str(row[f"{name}_result"])], row[f"{name}_reason"])
        for row in rows
        if str(row[f"{name}_result"]) in worth
    ]
    readings = pd.DataFrame(
        [(wanted, *lettered(reason)) for wanted, reason in verdicts], columns=["wanted", "value", "status"]
    )
    read = readings[readings["status"] == "ok"]
    assert (read["value"] == read["wanted"]).mean() > 0.985
    kept = readings.assign(read=readings["status"] == "ok").groupby("wanted")["read"].mean()
    assert kept.min() > 0.8
    assert abs(kept[0.0] - kept[1.0]) < 0.05


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("A is vague.\n\n**[B]**", (0.0, "ok")),
        ("I weigh both.\n<|A|>", (1.0, "ok")),
        ("Final: <|C|>.", (0.5, "tie")),
        ("Both are fine. Therefore, [[B]] is better than [[A]]", (0.0, "ok")),
        ("[[A]] is clearly better than [[B]] overall.", (1.0, "ok")),
        ("**[A]** or **[B]**", None),
        ("**[A]** was asked for, but I cannot choose.", None),
        ("[[B]] is not better than [[A]].", None),
        ("Say [[A]] if [[A]] is better than [[B]].", None),
        ("[[A]] is as good as, and no better than [[B]]; I say [[B]] or [[A]]", None),
        ("[[A]] is better. It is longer than [[B]].", None),
    ],
)
def test_verdict_in_place_of_final_brackets_is_read(text, reading):
    """The last words decide, and both labels are read alike."""
    value, status = bracketed(text)
    exchanged, other = bracketed(text.translate(str.maketrans("AB", "BA")).replace("Aoth", "Both"))
    assert status == other == ("unparsable" if reading is None else reading[1])
    if reading is not None:
        assert value == reading[0]
        assert exchanged == 1 - value
