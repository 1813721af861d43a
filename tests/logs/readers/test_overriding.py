"""An explicit mapping always wins, and what it does not match is a row with a status, never a line less."""

import json

import pytest

import biaslab as bl
from biaslab.core.errors import InputError

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


def lines(folder, *records):
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
    assert outcome(bl.read_judgements(lines(tmp_path, PAIR), mapping=mapping)) == [found]


def test_a_mapped_verdict_leaves_what_it_does_not_replace(tmp_path):
    trials = bl.read_judgements(lines(tmp_path, PAIR), mapping={"winner": "decided"})
    assert trials.loc[0, ["judge", "context_id", "reply"]].tolist() == ["j", "81", "Final verdict: [[A]]"]


def test_a_score_is_no_verdict_of_a_pair(tmp_path):
    with pytest.raises(InputError, match="winner, p_first, reply for a log of pairs"):
        bl.read_judgements(lines(tmp_path, PAIR), mapping={"score": "=3"})


@pytest.mark.parametrize("record", [RATING, PROMETHEUS])
def test_scores_are_read_on_the_scale_that_is_mapped(tmp_path, record):
    own = bl.read_judgements(lines(tmp_path, record))
    assert outcome(own)[1] == (None, "out_of_range")
    trials = bl.read_judgements(lines(tmp_path, record), mapping={"scale": "=1-10"})
    assert trials["scale"].tolist() == ["1-10"] * 2
    assert outcome(trials) == [(own["value"][0], "ok"), (7.0, "ok")]


def test_scale_may_come_from_a_field(tmp_path):
    file = lines(tmp_path, RATING | {"of": "1-3"}, RATING | {"of": "1-10", "source": "another"})
    trials = bl.read_judgements(file, mapping={"scale": "of"})
    assert outcome(trials) == [(2.0, "ok"), (None, "out_of_range"), (2.0, "ok"), (7.0, "ok")]
    assert trials["scale"].tolist() == ["1-3", "1-3", "1-10", "1-10"]
    assert trials["key"].tolist() == ["log.jsonl:1"] * 2 + ["log.jsonl:2"] * 2


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


def test_unmatched_identifier_keeps_the_field_and_has_no_value(tmp_path):
    file = lines(tmp_path, PAIR | {"question": "q1"}, PAIR | {"question": "none"})
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
    gold = bl.read_judgements(lines(tmp_path, PAIR | people), mapping={"preference": "gold"})
    assert gold["human_gap"].tolist() == [-1.0]
    votes = bl.read_judgements(lines(tmp_path, PAIR | people), mapping={"preference": "votes"})
    assert votes["human_gap"].tolist() == pytest.approx([2 / 3])
    rated = bl.read_judgements(lines(tmp_path, RATING | {"by": [2, 3]}), mapping={"ratings": "by"})
    assert rated[["human", "ratings", "human_scale"]].to_numpy().tolist() == [[2.5, "2 3", "1-3"]] * 2


def test_texts_may_be_mapped_in_a_known_format(tmp_path):
    texts = {"text": "judgment", "opponent_text": "=one two"}
    trials = bl.read_judgements(lines(tmp_path, PAIR), mapping=texts)
    assert trials[["words", "opponent_words"]].to_numpy().tolist() == [[3.0, 2.0]]
