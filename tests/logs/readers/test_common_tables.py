"""Tables with usual names of columns are read without a mapping, or refused with mappings that work when pasted."""

import json
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_logs import answers

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError

SIDES = {"first": 1.0, "second": 0.0, "tie": 0.5}


def pairs(names, words, items=60, systems=None, seed=3, **more):
    """Return a table of pairs and the sides that won; ``names`` are question, first, second and verdict."""
    rng = random.Random(seed)
    sides = [rng.choice(("first", "second", "first", "tie")[: len(words) + 1]) for _ in range(items)]
    question, one, two, verdict = names
    rows = []
    for n, side in enumerate(sides):
        shown = [f"an answer {n}", f"another answer {n}"] if systems is None else rng.sample(systems, 2)
        winner = words[side] if side in words else shown[side == "second"]
        rows.append({question: f"q{n}", one: shown[0], two: shown[1], verdict: winner} | more)
    return pd.DataFrame(rows), [SIDES[side] for side in sides]


AB = {"first": "A", "second": "B", "tie": "tie"}
PAIRS = [
    (("question", "answer_a", "answer_b", "winner"), AB),
    (("prompt", "response_1", "response_2", "preference"), {"first": "1", "second": "2", "tie": "3"}),
    (
        ("instruction", "output_1", "output_2", "verdict"),
        {"first": "response 1", "second": "Response 2", "tie": "draw"},
    ),
    (
        ("question_id", "model_a", "model_b", "winner"),
        {"first": "model_a", "second": "model_b", "tie": "tie (bothbad)"},
    ),
    (("query", "answerA", "answerB", "label"), {"first": "[[A]]", "second": "[[B]]", "tie": "[[C]]"}),
    (("id", "first_response", "second_response", "choice"), {"first": "first", "second": "second", "tie": "equal"}),
    (("input", "left_text", "right_text", "judge_winner"), {"first": "left", "second": "right", "tie": "both"}),
    (("question", "response_0", "response_1", "chosen"), {"first": "0", "second": "1", "tie": "tie"}),
    (("prompt_id", "summary1", "summary2", "better"), {"first": "Summary1", "second": "Summary2", "tie": "tie"}),
    (("question", "A", "B", "decision"), {"first": "A>B", "second": "B>>A", "tie": "A=B"}),
    (
        ("item_id", "completion_a", "completion_b", "llm_preference"),
        {"first": "completion_a", "second": "completion_b", "tie": "neither"},
    ),
]


@pytest.mark.parametrize(("names", "words"), PAIRS, ids=lambda given: given[1] if isinstance(given, tuple) else "")
def test_pairs_of_usual_names_are_read(names, words, tmp_path):
    table, wanted = pairs(names, words)
    file = tmp_path / "log.csv"
    table.to_csv(file, index=False)
    for given in (table, file):
        trials = bl.read_judgements(given)
        assert trials["value"].tolist() == wanted
        assert trials["context_id"].tolist() == table[names[0]].tolist()
        assert trials["candidate_id"].tolist() == table[names[1]].tolist()
        assert trials["opponent_id"].tolist() == table[names[2]].tolist()
        assert trials["order_known"].all()
        roles = {role["role"]: role for role in trials.attrs["reading"]["readings"][0]["roles"]}
        assert [source["columns"] for source in roles["first"]["sources"]] == [[names[1]]]
        assert roles["shown"]["assumed"]


def test_a_system_is_named_as_winner():
    table, wanted = pairs(
        ("question", "model_a", "model_b", "winner"), {"tie": "tie"}, systems=["gpt-4", "opus", "llama"]
    )
    assert bl.read_judgements(table)["value"].tolist() == wanted


@pytest.mark.slow
def test_the_order_may_be_unknown(tmp_path, capsys):
    file = tmp_path / "log.csv"
    pairs(PAIRS[0][0], AB)[0].to_csv(file, index=False)
    assert main(["audit", str(file), "--only", "replies"]) == 0
    assert "= first before second, assumed (--order-unknown if not)" in capsys.readouterr().out
    assert main(["audit", str(file), "--only", "replies", "--order-unknown"]) == 0
    assert "assumed" not in capsys.readouterr().out
    assert not bl.read_judgements(file, mapping={"order_known": "=false"})["order_known"].any()


def test_columns_may_hold_people_and_several_judges():
    table, wanted = pairs(
        ("id", "model_a", "model_b", "gpt-4o"), {"first": "A", "second": "B"}, systems=["x", "y", "z"]
    )
    people = ["model_a" if n % 3 else "model_b" for n in range(len(table))]
    trials = bl.read_judgements(table.assign(human_winner=people, claude="B"))
    assert trials[trials["judge"] == "gpt-4o"]["value"].tolist() == wanted
    assert (trials[trials["judge"] == "claude"]["value"] == 0).all()
    gaps = [1.0 if who == "model_a" else -1.0 for who in people]
    assert trials[trials["judge"] == "claude"]["human_gap"].tolist() == gaps


def scores(**columns):
    rows = [
        {"question": f"q{n // 2}", "model": "xy"[n % 2], "answer": f"words {n}"} | {k: v(n) for k, v in columns.items()}
        for n in range(60)
    ]
    return pd.DataFrame(rows)


def test_scores_of_usual_names_are_read():
    table = scores(score=lambda n: 1 + n % 5, human_score=lambda n: 1 + n % 4)
    trials = bl.read_judgements(table)
    assert trials["value"].tolist() == table["score"].tolist()
    assert trials["human"].tolist() == table["human_score"].tolist()
    assert set(trials["scale"]) == {"1-5"}
    roles = {role["role"]: role for role in trials.attrs["reading"]["readings"][0]["roles"]}
    assert roles["scale"]["observed"]
    assert bl.read_judgements(table, mapping={"scale": "=1-10"})["scale"].unique().tolist() == ["1-10"]


def test_columns_of_scores_may_be_attributes_or_judges():
    table = scores(coherence=lambda n: 1 + n % 5, fluency_score=lambda n: 1 + n * n % 5)
    trials = bl.read_judgements(table)
    assert trials[trials["attribute"] == "fluency"]["value"].tolist() == table["fluency_score"].tolist()
    assert set(trials["attribute"]) == {"coherence", "fluency"}
    judged = bl.read_judgements(scores(**{"gpt-4_score": lambda n: n % 11, "claude_score": lambda n: 10 - n % 11}))
    assert set(judged["judge"]) == {"gpt-4", "claude"}
    assert set(judged["scale"]) == {"0-10"}


def test_human_ratings_belong_to_the_attribute_that_was_rated():
    both = {"helpfulness": lambda n: 1 + n % 5, "accuracy": lambda n: 1 + n * n % 5}
    trials = bl.read_judgements(scores(**both, human_helpfulness=lambda n: 1 + n % 4)).set_index("attribute")
    assert trials.loc["helpfulness", "human"].tolist() == [1 + n % 4 for n in range(60)]
    assert trials.loc["accuracy", "human"].isna().all()
    for name in ("human_score", "human_depth"):
        table = scores(**both, **{name: lambda n: 1 + n % 4})
        (question,) = bl.logs.propose(table).questions
        assert question.entry == "ratings"
        asked = bl.read_judgements(table, mapping={"score": "accuracy", "ratings": name})
        assert asked["human"].tolist() == [1 + n % 4 for n in range(60)]


def test_answers_without_systems_are_candidates():
    trials = bl.read_judgements(scores(rating=lambda n: n % 11, annotator_1=lambda n: n % 7).drop(columns="model"))
    assert trials["candidate_id"].tolist() == [f"words {n}" for n in range(60)]


def refused(table):
    with pytest.raises(InputError) as caught:
        bl.read_judgements(table)
    return str(caught.value), answers(table)


TWO_READINGS = {
    "0 and 1": (("question", "answer_a", "answer_b", "winner"), {"first": "0", "second": "1"}, {}, 2),
    "0, 1 and 2": (("question", "answer_a", "answer_b", "winner"), {"first": "0", "second": "1", "tie": "2"}, {}, 2),
    "-1, 0 and 1": (("question", "answer_a", "answer_b", "label"), {"first": "1", "second": "-1", "tie": "0"}, {}, 2),
}


@pytest.mark.parametrize("case", TWO_READINGS)
def test_two_readings_are_asked_for_and_both_work(case):
    names, words, more, many = TWO_READINGS[case]
    table, wanted = pairs(names, words, **more)
    _, mappings = refused(table)
    read = [bl.read_judgements(table, mapping=mapping)["value"].tolist() for mapping in mappings]
    assert len(read) == many
    assert wanted in read
    assert read[0] != read[1]


def test_names_that_are_places_too_are_asked_for():
    table, _ = pairs(("question", "model_1", "model_2", "winner"), {}, systems=["A", "B"])
    _, mappings = refused(table)
    by_name, by_place = (bl.read_judgements(table, mapping=mapping)["value"] for mapping in mappings)
    assert by_name.tolist() == (table["winner"] == table["model_1"]).astype(float).tolist()
    assert by_place.tolist() == (table["winner"] == "A").astype(float).tolist()


def test_column_of_orders_asks_what_verdicts_name():
    table, _ = pairs(PAIRS[0][0], {"first": "A", "second": "B"})
    table["swapped"] = [n % 2 == 0 for n in range(len(table))]
    _, mappings = refused(table)
    places, columns = (bl.read_judgements(table, mapping=mapping) for mapping in mappings)
    won = (table["winner"] == "A").to_numpy(float)
    swapped = table["swapped"].to_numpy()
    assert places["value"].tolist() == won.tolist()
    assert places["candidate_id"].tolist() == table["answer_a"].where(~swapped, table["answer_b"]).tolist()
    assert columns["candidate_id"].tolist() == places["candidate_id"].tolist()
    assert columns["value"].tolist() == [1 - w if s else w for w, s in zip(won, swapped, strict=True)]


def test_label_beside_a_winner_is_peoples_or_the_judges():
    table, _ = pairs(PAIRS[0][0], AB)
    table["label"] = ["A" if n % 3 else "B" for n in range(len(table))]
    _, (by_people,) = refused(table)
    assert by_people["preference"]["field"] == "label"
    trials = bl.read_judgements(table, mapping=by_people)
    assert trials["value"].tolist() == [SIDES[{"A": "first", "B": "second"}.get(w, w)] for w in table["winner"]]
    assert trials["human_gap"].tolist() == [1.0 if label == "A" else -1.0 for label in table["label"]]
    by_judge = bl.read_judgements(table, mapping={"winner": "label | A -> first, B -> second"})
    assert by_judge["value"].tolist() == (table["label"] == "A").astype(float).tolist()


def test_two_verdicts_are_asked_for():
    table, _ = pairs(PAIRS[0][0], AB)
    table["decision"] = "B"
    _, mappings = refused(table)
    judged = [bl.read_judgements(table, mapping=mapping) for mapping in mappings]
    assert judged[0]["value"].tolist() == [SIDES[{"A": "first", "B": "second"}.get(w, w)] for w in table["winner"]]
    assert (judged[1]["value"] == 0).all()


def test_a_scale_that_no_score_ends_is_asked_for():
    table = scores(score=lambda n: 1 + n % 4)
    message, mappings = refused(table)
    assert [mapping["scale"] for mapping in mappings] == ["=1-4"]
    assert "--map scale==1-4" in message
    assert bl.read_judgements(table, mapping={"scale": "=1-5"})["scale"].unique().tolist() == ["1-5"]


def test_refusal_shows_what_is_open(tmp_path):
    rows = [{"nr": n, "x": f"one {n}", "y": f"two {n}", "verdict": "x" if n % 2 else "y"} for n in range(9)]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    message, (mapping,) = refused(file)
    assert mapping["context_id"] == "nr"
    assert len(bl.read_judgements(file, mapping=mapping)) == len(rows)
    assert f"biaslab map {file} --write map.toml" in message


def test_a_list_within_an_object_becomes_rows(tmp_path):
    inner, wanted = pairs(PAIRS[0][0], AB)
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"annotations": [{"who": 1}], "instances": inner.to_dict("records")}))
    assert bl.read_judgements(file)["value"].tolist() == wanted


def test_error_message_is_printable(tmp_path):
    file = tmp_path / "log.csv"
    file.write_bytes(b"PK\x05\x06\x00\x01,\x02\nsome,thing\n")
    with pytest.raises(InputError) as caught:
        bl.read_judgements(file)
    assert all(sign.isprintable() or sign == "\n" for sign in str(caught.value))


def test_a_constant_called_as_a_field_is_a_slip():
    table, _ = pairs(PAIRS[0][0], AB)
    with pytest.raises(InputError, match="omit the first =: context_id = question"):
        bl.read_judgements(table, mapping={"context_id": "=question"})


def test_judgements_that_contradict_each_other_are_refused():
    table, _ = pairs(PAIRS[0][0], AB)
    twice = pd.concat([table.assign(wording="x"), table.assign(wording="y", winner="B")])
    with pytest.raises(InputError, match=r"60 duplicate judgements, \d+ of which contradict the first.*wording"):
        bl.read_judgements(twice)
    assert bl.read_judgements(twice, mapping={"judge": "wording"})["judge"].tolist() == ["x"] * 60 + ["y"] * 60
    assert bl.read_judgements(twice, mapping={"replicate": "=#"})["replicate"].tolist() == [0] * 60 + [1] * 60


def test_three_candidates_are_not_read_as_two():
    table, _ = pairs(PAIRS[0][0], AB)
    with pytest.raises(InputError, match="answer_c is a third candidate"):
        bl.read_judgements(table.assign(answer_c="third"))


def test_verdicts_that_name_neither_candidate_are_shown(tmp_path, capsys):
    table, wanted = pairs(PAIRS[0][0], AB)
    file = tmp_path / "log.csv"
    table.to_csv(file, index=False)
    names = {"context_id": "question", "candidate_id": "answer_a", "opponent_id": "answer_b", "winner": "winner"}
    assert main(["audit", str(file), *(word for pair in names.items() for word in ("--map", "=".join(pair)))]) == 4
    assert "winner names neither candidate; give the meaning of its values (A, B)" in capsys.readouterr().err
    mapping = names | {"winner": "winner | A -> first, B -> second, tie -> tie"}
    assert bl.read_judgements(file, mapping=mapping)["value"].tolist() == wanted


def test_ratings_of_people_are_not_called_unreadable(tmp_path, capsys):
    file = tmp_path / "log.csv"
    scores(annotator_1=lambda n: 1 + n % 5, annotator_2=lambda n: 1 + n % 3).to_csv(file, index=False)
    assert main(["audit", str(file), "--humans"]) == 0
    message = capsys.readouterr().out
    assert "60 items rated by people" in message
    assert "0 of them readable" not in message


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


def first_rate(trials):
    return trials.loc[trials["status"] == "ok", "value"].mean()


@pytest.mark.parametrize(("first", "swapped"), [("winner", "winner_swapped"), ("verdict_ab", "verdict_ba")])
def test_both_meanings_of_the_other_order_are_offered(first, swapped):
    frame = table(first, swapped, "AB")
    _, mappings = refused(frame)
    as_shown, as_columns = (bl.read_judgements(frame, mapping=each) for each in mappings)
    full = pd.concat([frame[first], frame[swapped]])
    assert first_rate(as_shown) == pytest.approx((full == "A").mean())
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


def decided_in_both_orders(trials):
    read = trials["status"].isin(["ok", "tie"])
    full = read.groupby([trials["judge"], trials["context_id"]]).transform("all")  # one swapped call failed
    return trials[full & (trials["status"] == "ok")]


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_recorded_verdicts_in_both_orders_are_read_at_once():
    decided = decided_in_both_orders(bl.read_judgements(DATA / "korean_frontier_judges"))
    rates = {"claude-sonnet-4-5-20250929": 0.5441, "gemini-2.5-flash": 0.6136, "gpt-5": 0.4941}
    assert decided.groupby("judge")["value"].mean().to_dict() == pytest.approx(rates, abs=0.00005)


@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_recorded_lists_of_two_verdicts_are_mapped_by_item():
    file = DATA / "judgebench_reward_models" / "Skywork_Skywork-Reward-Llama-3.1-8B.jsonl.gz"
    proposal = bl.logs.propose(file)
    assert proposal.entries["context_id"] == "pair_id"
    asked = {question.entry: question.options for question in proposal.questions}
    assert [option["field"] for option in asked["preference"]] == ["label"]
    assert {option["field"] for option in asked["winner_swapped"]} == {"decisions[1]"}
    verdicts = {"winner": proposal.entries["winner"]}
    verdicts |= {"winner_swapped": "decisions[1] | A>B -> first, B>A -> second"}
    decided = decided_in_both_orders(bl.read_judgements(file, mapping=verdicts))
    assert decided["value"].mean() == pytest.approx(0.5, abs=0.002)  # a reward model sees no order


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_debates_are_read_after_one_answer():
    file = DATA / "debate_2026" / "judgments.jsonl.gz"
    trials = bl.read_judgements(file, mapping=answers(file)[0])
    assert trials["status"].isin(["ok", "tie"]).mean() > 0.95
