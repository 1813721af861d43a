"""Rows that hold the verdicts of both orders: read by themselves, or refused with mappings that work when pasted."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError

DATA = Path(__file__).parents[3].parent / "shared" / "data" / "recorded"


def table(first, swapped, sides):
    """A judge that takes what it sees first in .7 of 40 pairs, in both orders."""
    rng = np.random.default_rng(4)
    rows = []
    for number in range(40):
        one, two = (rng.random(2) < 0.7).tolist()
        row = {"question": f"q{number}", "answer_a": f"text {number}", "answer_b": f"a longer text {number}"}
        rows.append({**row, first: sides[not one], swapped: sides[not two]})
    return pd.DataFrame(rows)


def options(error):
    """The mappings of a message, as the command line would read them."""
    found = []
    for line in str(error).split("--map context_id=")[1:]:
        words = shlex.split("--map context_id=" + line.split(" if ")[0].split(" the first rows")[0].split("\n")[0])
        found.append(dict(word.split("=", 1) for word in words if word != "--map"))
    return found


def first_rate(trials):
    return trials.loc[trials["status"] == "ok", "value"].mean()


@pytest.mark.parametrize(("first", "swapped"), [("winner", "winner_swapped"), ("verdict_ab", "verdict_ba")])
def test_both_suggested_mappings_read_the_log(first, swapped, tmp_path):
    frame = table(first, swapped, "AB")
    with pytest.raises(InputError, match="verdict in the other order") as caught:
        bl.read_judgements(frame)
    as_shown, as_columns = (bl.read_judgements(frame, mapping=each) for each in options(caught.value))
    whole = pd.concat([frame[first], frame[swapped]])
    assert first_rate(as_shown) == pytest.approx((whole == "A").mean())
    wanted = ((frame[first] == "A").sum() + (frame[swapped] == "B").sum()) / 80
    assert first_rate(as_columns) == pytest.approx(wanted)
    assert as_shown["candidate_id"].value_counts().tolist() == [1] * 80


def test_system_names_and_shown_places_need_no_mapping():
    frame = table("winner_original", "winner_swapped_shown", "12")
    trials = bl.read_judgements(frame)
    assert first_rate(trials) == (frame[["winner_original", "winner_swapped_shown"]] == "1").to_numpy().mean()
    frame = frame.assign(model_a="m1", model_b="m2").drop(columns=["winner_original", "winner_swapped_shown"])
    named = frame.assign(
        winner=np.where(np.arange(40) < 30, "m1", "m2"), winner_reversed=np.where(np.arange(40) < 10, "m1", "m2")
    )
    trials = bl.read_judgements(named)
    assert first_rate(trials) == (30 + 30) / 80  # m1 first: 30 of 40; m2 first: 30 of 40
    assert set(trials["candidate_id"]) == {"m1", "m2"}


def test_people_prefer_columns_of_the_row_in_both_orders():
    frame = table("winner", "winner_swapped", "AB").assign(human_winner="A")
    mapping = {"context_id": "question", "candidate_id": "=A", "opponent_id": "=B", "winner_swapped": "winner_swapped"}
    sides = " | A -> first, B -> second"
    mapping |= {
        "winner": "winner" + sides,
        "winner_swapped": "winner_swapped" + sides,
        "preference": "human_winner" + sides,
    }
    trials = bl.read_judgements(frame, mapping=mapping)
    assert (trials["human_gap"] == np.where(trials["candidate_id"] == "A", 1.0, -1.0)).all()


def test_a_verdict_of_the_other_order_alone_is_refused():
    frame = table("winner", "winner_swapped", "AB")
    mapping = {"context_id": "question", "candidate_id": "=A", "opponent_id": "=B", "winner_swapped": "winner_swapped"}
    with pytest.raises(InputError, match="winner_swapped"):
        bl.read_judgements(frame.drop(columns="winner"), mapping=mapping)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
@pytest.mark.parametrize(
    ("file", "option", "rates"),
    [
        (
            "korean_frontier_judges",
            0,
            {"claude-sonnet-4-5-20250929": 0.5441, "gemini-2.5-flash": 0.6136, "gpt-5": 0.4941},
        ),
        ("judgebench_reward_models/Skywork_Skywork-Reward-Llama-3.1-8B.jsonl.gz", 0, {"": 0.5}),
    ],
)
def test_recorded_files_are_refused_with_a_mapping_that_works(file, option, rates):
    with pytest.raises(InputError) as caught:
        bl.read_judgements(DATA / file)
    trials = bl.read_judgements(DATA / file, mapping=options(caught.value)[option])
    read = trials["status"].isin(["ok", "tie"])
    whole = read.groupby([trials["judge"], trials["context_id"]]).transform("all")  # one swapped call failed
    decided = trials[whole & (trials["status"] == "ok")]
    for judge, rate in rates.items():
        of = decided if not judge else decided[decided["judge"] == judge]
        assert of["value"].mean() == pytest.approx(rate, abs=0.00005 if judge else 0.002)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_debates_are_refused_with_a_mapping_that_works():
    file = DATA / "debate_2026" / "judgments.jsonl.gz"
    with pytest.raises(InputError) as caught:
        bl.read_judgements(file)
    trials = bl.read_judgements(file, mapping=options(caught.value)[0])
    assert trials["status"].isin(["ok", "tie"]).mean() > 0.95
