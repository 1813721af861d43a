"""Readings that cannot be meant are refused with the line that is; what a page leaves out is said."""

import re
import shlex
from itertools import product

import pandas as pd
import pytest

from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.summary import reading_summary

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


def pasted(message):
    """Return the mapping of the first command that a message shows."""
    words = shlex.split(re.search(r"--map .*", message)[0].partition(" (or as")[0])
    return dict(word.split("=", 1) for word in words if word != "--map")


@pytest.mark.parametrize(
    ("table", "mapping", "meant"),
    [
        (PAIRS, {"context_id": "=question", **SIDES, **VERDICTS}, {"context_id": "question"}),
        (PAIRS, {"context_id": "benchmark", **SIDES, **VERDICTS}, {"context_id": "question"}),
        (PAIRS, {"context_id": "=all", **SIDES, **VERDICTS}, {"context_id": "question"}),
        (PAIRS, {"context_id": "winner", **SIDES, **VERDICTS}, {"context_id": "question"}),
        (PAIRS, {"context_id": "question", "candidate_id": "=x", "opponent_id": "=y", **VERDICTS}, SIDES),
        (SCORES, {"context_id": "question", "candidate_id": "system", **RATED}, {"judge": "grader"}),
        (SCORES, {"context_id": "question", "candidate_id": "version", "judge": "grader", **RATED},
         {"candidate_id": "system"}),
        (SCORES, {"context_id": "version", "candidate_id": "system", "judge": "grader", **RATED},
         {"context_id": "question"}),
        (SCORES.rename(columns={"grader": "shift"}), {"context_id": "question", "candidate_id": "system", **RATED},
         {"configuration": "shift"}),
    ],
)  # fmt: skip
def test_suggested_mapping_reads_the_log(table, mapping, meant):
    with pytest.raises(InputError) as raised:
        read_judgements(table, mapping=mapping)
    line = pasted(str(raised.value))
    assert line == meant
    trials = read_judgements(table, mapping=mapping | line)
    assert len(trials) == len(table)
    assert trials.attrs["duplicates"] == 0


def test_row_numbers_and_times_are_not_suggested_as_judges():
    table = SCORES.drop(columns=["grader", "version"]).assign(id=range(120), created=[f"10:{n}" for n in range(120)])
    with pytest.raises(InputError, match="map the field that distinguishes them to judge") as raised:
        read_judgements(table, mapping={"context_id": "question", "candidate_id": "system", **RATED})
    line = str(raised.value).rpartition("use --map ")[2]
    mapping = {"context_id": "question", "candidate_id": "system", **RATED} | dict([line.split("=", 1)])
    assert read_judgements(table, mapping=mapping)["replicate"].tolist() == [0, 1] * 60


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
    lines = reading_summary("log", read_judgements(once))
    assert "  3 of 30 pairs judged in one order only (not used where both orders are needed)" in lines
    of_all, of_none = (
        reading_summary("log", read_judgements(table)) for table in (PAIRS, PAIRS[PAIRS["model_a"] == "x"])
    )
    assert not any("one order" in line for line in of_all + of_none)


def test_suggested_list_is_the_one_with_judgements(tmp_path):
    items = [{"question": f"q{n}", "model_a": "x", "model_b": "y", "verdict": "AB"[n % 2]} for n in range(5)]
    frame = pd.DataFrame([{"annotations": [{"n": n} for n in range(50)], "instances": items}])
    with pytest.raises(InputError) as raised:
        read_judgements(frame)
    mapping = pasted(str(raised.value))
    assert mapping["explode"] == "instances"
    assert read_judgements(frame, mapping=mapping)["value"].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
