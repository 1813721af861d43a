"""Proposed readings: roles, open questions with their options, and the mapping file that holds both."""

import tomllib

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError

PAIRS = pd.DataFrame(
    {"question": [f"q{n}" for n in range(12)], "model_a": ["x", "y"] * 6, "model_b": ["y", "x"] * 6,
     "winner": ["A", "B", "tie"] * 4}
)  # fmt: skip
SCORES = pd.DataFrame(
    {"question": [f"q{n // 2}" for n in range(24)], "model": ["x", "y"] * 12, "score": [1, 2, 3, 4] * 6}
)


def roles(proposal):
    return {name: role for name, _, _, role, _ in proposal.roles()}


def test_pairs_leave_no_question():
    proposal = bl.logs.propose(PAIRS)
    assert proposal.is_complete
    assert roles(proposal) == {"question": "question", "model_a": "first", "model_b": "second", "winner": "verdict"}
    assert proposal.entries["winner"] == {
        "field": "winner",
        "values": {"A": "first", "B": "second", "tie": "tie"},
    }


def test_scale_that_is_not_usual_is_asked_with_the_range():
    proposal = bl.logs.propose(SCORES)
    assert [(question.entry, question.options) for question in proposal.questions] == [("scale", ("=1-4",))]
    assert proposal.single_answer == {"scale": "=1-4"}


@pytest.mark.parametrize("name", ["human_score", "manual_score", "gold_score", "annotator_score", "expert_rating"])
def test_columns_of_people_are_never_the_judge(name):
    log = SCORES.assign(score=[1, 2, 3, 4, 5, 3] * 4).assign(**{name: [1, 2, 3, 5] * 6})
    proposal = bl.logs.propose(log)
    assert proposal.entries["score"] == "score"
    assert proposal.entries["ratings"] == {"fields": [name]}


def test_two_meanings_of_numbers_are_two_options():
    proposal = bl.logs.propose(PAIRS.assign(winner=[0, 1] * 6))
    ((entry, options),) = [(question.entry, question.options) for question in proposal.questions]
    assert entry == "winner"
    assert [option["values"] for option in options] == [
        {"0": "first", "1": "second"},
        {"0": "second", "1": "first"},
    ]


def test_third_candidate_is_a_question():
    proposal = bl.logs.propose(PAIRS.assign(model_c="z"))
    assert "opponent" in {question.entry for question in proposal.questions}


def test_toml_is_read_after_its_question_is_answered(tmp_path):
    file = tmp_path / "map.toml"
    text = bl.logs.propose(SCORES).toml()
    file.write_text(text)
    with pytest.raises(InputError, match="still open: scale"):
        bl.read_judgements(SCORES, mapping=file)
    file.write_text(text.replace('scale = "?"', 'scale = "=1-5"'))
    trials = bl.read_judgements(SCORES, mapping=file)
    assert trials["value"].tolist() == SCORES["score"].tolist()
    assert set(trials["scale"]) == {"1-5"}


def test_toml_of_a_complete_proposal_reads_the_same_trials(tmp_path):
    file = tmp_path / "map.toml"
    file.write_text(bl.logs.propose(PAIRS).toml())
    mapped, single = bl.read_judgements(PAIRS, mapping=file), bl.read_judgements(PAIRS)
    pd.testing.assert_frame_equal(mapped, single)


def test_answer_given_in_advance_is_not_asked_again():
    proposal = bl.logs.propose(SCORES, {"scale": "=1-10"})
    assert proposal.is_complete
    assert proposal.entries["scale"] == "=1-10"


def test_known_format_has_no_proposal(tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text('{"judge": "j", "question": 1, "A": "x", "B": "y", "judgment": "[[A]]"}\n')
    with pytest.raises(InputError, match="bracket_pairs"):
        bl.logs.propose(file)


def test_rare_values_after_the_sample_count():
    n = range(2500)
    scores = pd.DataFrame({"question": n, "answer": [f"text {i} of words" for i in n], "score": [1 + i % 5 for i in n]})
    scores.loc[2400, "score"] = 9
    assert bl.logs.propose(scores).single_answer == {"scale": "=1-9"}
    pairs = pd.DataFrame({"question": n, "model_a": "x", "model_b": "y", "winner": ["A", "B"] * 1250})
    pairs.loc[2400, "winner"] = "tie"
    assert bl.read_judgements(pairs)["status"].value_counts().to_dict() == {"ok": 2499, "tie": 1}


def test_prompt_that_only_later_rows_have_tells_judgements_apart():
    """The first 2000 rows, from which roles are proposed, have one version of the prompt."""
    n = range(2100)
    scores = pd.DataFrame({"question": n, "answer": [f"text {i} of words" for i in n], "score": [1 + i % 5 for i in n]})
    both = pd.concat([scores.assign(version="v1"), scores.assign(version="v2", score=3)], ignore_index=True)
    trials = bl.read_judgements(both)
    assert trials["template"].value_counts().to_dict() == {"v1": 2100, "v2": 2100}


@pytest.mark.parametrize(
    ("more", "mapping", "entry"),
    [
        ({}, {"candidate_id": "model_b", "opponent_id": "model_a"}, "winner"),
        ({"shown_first": ["m1", "m2"] * 6}, None, "winner"),
        ({"flip": [True, False] * 6}, {"swapped": "flip"}, "winner"),
        ({"judge": ["gpt-4", "llama-3", "human"] * 4}, None, "judge"),
    ],
)
def test_places_and_people_are_asked_about(more, mapping, entry):
    pairs = {"question": [f"q{n}" for n in range(12)], "model_a": "m1", "model_b": "m2", "winner": list("AB" * 6)}
    (question,) = bl.logs.propose(pd.DataFrame(pairs | more), mapping).questions
    assert question.entry == entry
    assert len(question.options) == 2


@pytest.mark.parametrize("name", ["doc_id", "article_id", "source"])
@pytest.mark.parametrize("answer", [{"answer": [f"the {n} winds of the far north" for n in range(24)]}, {}])
def test_document_of_several_questions_is_offered_as_cluster(name, answer):
    log = {name: [f"d{n // 4}" for n in range(24)], "question_id": [f"q{n}" for n in range(24)], **answer}
    table = pd.DataFrame(log | {"judge_score": [1, 2, 3, 5] * 6, "human_score": [1, 5, 2, 3] * 6})
    trials = bl.read_judgements(table)
    assert trials["context_id"].tolist() == log["question_id"]
    (reading,) = trials.attrs["reading"]["readings"]
    assert f"--cluster {name}" in reading["set_aside"][name]
    estimates = bl.audit(table, cluster=name, only=["agreement"])
    assert set(estimates["n_contexts"]) == {6}
    same = bl.read_judgements(table.assign(**{name: log["question_id"]}))
    assert "--cluster" not in same.attrs["reading"]["readings"][0]["set_aside"].get(name, "")


def test_places_of_several_verdicts_beside_an_order_are_asked():
    names = {"question": [*"qrst"], "model_a": ["x", "y"] * 2, "model_b": ["y", "x"] * 2, "swapped": [True, False] * 2}
    verdicts = {"gpt4_winner": [*"ABAB"], "claude_winner": [*"BAAB"]}
    proposal = bl.logs.propose(pd.DataFrame(names | verdicts))
    options = {question.entry: question.options for question in proposal.questions}
    assert [set(option["values"].values()) for option in options["winner"]] == [
        {"first", "second"},
        {"candidate", "opponent"},
    ]
    answered = {**proposal.entries, "winner": options["winner"][0]}
    trials = bl.read_judgements(pd.DataFrame(names | verdicts), mapping=answered)
    assert trials.groupby("judge")["value"].apply(list).to_dict() == {"claude": [0, 1, 1, 0], "gpt4": [1, 0, 1, 0]}


@pytest.mark.parametrize("sign", ["\n", "\x7f", "\u200b", "\U000e0001", '"', "\\"], ids=ascii)
def test_mapping_file_keeps_names_with_any_sign(sign):
    table = SCORES.rename(columns={"model": f"mo{sign}del system"})
    assert tomllib.loads(bl.logs.propose(table).toml())["candidate_id"] == f"mo{sign}del system"
