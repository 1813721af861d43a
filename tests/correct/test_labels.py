"""Labels of people in a table of their own: whose they are, on which scale, and of which items."""

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.label_files import read_label_file
from biaslab.correct.labels import HumanLabels, read_cells, with_labels
from biaslab.correct.systems import correct_systems
from biaslab.logs.readers.card import is_by_people

LOG = pd.DataFrame({"question": [*"abcdef"], "verdict": ["pass", "fail"] * 3})


def labelled(log, labels):
    return with_labels(bl.read_judgements(log), labels)


def test_labels_of_pairs_match_in_either_order():
    sides = {"model_a": ["z", "a"] * 3, "model_b": ["a", "z"] * 3}
    trials = bl.read_judgements(pd.DataFrame({"question": [*"abcdef"], **sides, "winner": ["model_a"] * 6}))
    labels = pd.DataFrame(
        {"context_id": [*"abcdef"], "candidate_id": "a", "opponent_id": "z", "score": [1, 0, 0.5] * 2}
    )
    won = with_labels(trials, labels)["human_gap"] * np.where(trials["candidate_id"] == "a", 1, -1)
    assert won.tolist() == [1, -1, 0, 1, -1, 0]
    assert HumanLabels.read(labels, trials).matched(trials).all()


def test_labels_of_unjudged_pairs_do_not_match():
    sides = {"model_a": ["x", "y"] * 2, "model_b": ["y", "z"] * 2}
    trials = bl.read_judgements(pd.DataFrame({"question": [*"aabb"], **sides, "winner": ["model_a", "model_b"] * 2}))
    labels = pd.DataFrame({"context_id": "a", "candidate_id": ["x", "y"], "opponent_id": ["z", "x"], "score": 1})
    assert HumanLabels.read(labels, trials).matched(trials).tolist() == [False, True]


@pytest.mark.parametrize("name", ["human", "human_label", "gold"])
def test_sides_in_a_column_of_people_are_their_verdicts(name):
    sides = {"question": [*"abcdef"], "model_a": ["x", "y"] * 3, "model_b": ["y", "x"] * 3}
    trials = bl.read_judgements(pd.DataFrame({**sides, "winner": ["A"] * 6}))
    labels = pd.DataFrame({**sides, name: ["A", "B", "tie"] * 2}).iloc[::-1]
    assert with_labels(trials, labels)["human_gap"].tolist() == [1, -1, 0] * 2


def test_different_labels_of_an_item_are_counted():
    labels = pd.DataFrame(
        {"question": [*"abcdabc"], "human_label": ["pass", "fail", "pass", "fail", "fail", "fail", "pass"]}
    )
    read = HumanLabels.read(labels, bl.read_judgements(LOG))
    assert (read.ambiguous, HumanLabels.read(labels.head(4), bl.read_judgements(LOG)).ambiguous) == (1, 0)
    assert read.of_items(
        pd.DataFrame({"context_id": [*"ab"], "candidate_id": "answer", "own": np.nan}), "overall", False
    ).tolist() == [0.5, 0]


@pytest.mark.parametrize(
    "labels",
    [
        pd.DataFrame({"question": [*"ab"], "verdict": ["pass", "fail"]}),
        pd.DataFrame({"context_id": [*"ab"], "candidate_id": "answer", "score": [1, 0], "judge": "gpt-4"}),
    ],
)
def test_verdicts_of_a_judge_are_no_labels(labels):
    with pytest.raises(InputError, match="person==people"):
        labelled(LOG, labels)


@pytest.mark.parametrize("words", [["pass", "pass"], ["pass", "unsure"]])
def test_question_about_labels_lists_their_values(words, tmp_path):
    pd.DataFrame({"id": [1, 2], "label": words}).to_csv(tmp_path / "labels.csv", index=False)
    with pytest.raises(InputError, match=f"{words[1]} -> NUMBER"):
        read_label_file(tmp_path / "labels.csv")


def test_scores_in_a_label_file_are_those_of_people(tmp_path):
    pd.DataFrame({"id": [1, 2], "label": ["pass", "fail"]}).to_csv(tmp_path / "labels.csv", index=False)
    assert is_by_people(read_label_file(tmp_path / "labels.csv"))


WIDE = pd.DataFrame({"question": [*"abc"], "annotator_1": ["pass", "fail", "pass"], "annotator_2": ["fail"] * 3})
LONG = pd.DataFrame({"question": [*"aabbcc"], "human_label": ["pass", "fail", "fail", "fail", "pass", "fail"]})


@pytest.mark.parametrize("labels", [WIDE, LONG])
def test_each_label_of_a_person_is_a_row(labels):
    trials = bl.read_judgements(LOG)
    known = HumanLabels.read(labels, trials)
    assert known.table["score"].tolist() == [1, 0, 0, 0, 1, 0]
    found = with_labels(trials, labels)
    assert found["human"].tolist()[:3] == [0.5, 0, 0.5]
    assert found["ratings"].tolist()[:3] == ["1 0", "0 0", "1 0"]


def test_pass_rate_of_labels_by_two_people():
    log = pd.DataFrame({"question": [f"q{n}" for n in range(20)], "verdict": ["pass", "fail"] * 10})
    labels = log.head(10).assign(annotator_1=["pass", "fail"] * 5, annotator_2="pass").drop(columns="verdict")
    found = correct_systems(bl.read_judgements(log), labels).estimates.set_index("correction")
    assert found["metric"].tolist() == ["pass_rate"] * 3
    assert found.loc["human", "estimate"] == pytest.approx(0.75)


def test_scale_of_labels_is_that_of_each_attribute():
    n = np.arange(20)
    log = pd.DataFrame({"question": n, "answer": [f"an answer {i}" for i in n]})
    log = log.assign(helpfulness=1 + n % 10, accuracy=1 + n % 5)
    trials = bl.read_judgements(log)
    one = trials.rename(columns={"value": "score"})[["context_id", "candidate_id", "attribute"]]
    table = one.assign(score=np.tile(1 + n % 5, 2), scale=np.repeat(["1-10", "1-5"], 20))
    scales = with_labels(trials, table).groupby("attribute")["human_scale"].unique()
    assert scales.map(list).to_dict() == {"helpfulness": ["1-10"], "accuracy": ["1-5"]}
    cells = read_cells(trials, table, None, ())
    assert [cell.scale for cell in cells] == [(1, 10), (1, 5)]
    with pytest.raises(TrialsError, match=r"labels span 1-5, the judge's scale is 1-10: which is theirs\?"):
        read_cells(trials, table.drop(columns="scale"), None, ())
    with pytest.raises(TrialsError, match="labels are from 1 to 5, scores from 1 to 10"):
        read_cells(trials, table.assign(scale="1-5"), None, ())


def test_scale_column_of_a_label_file_is_not_taken_for_their_range():
    n = np.arange(24)
    log = pd.DataFrame({"question": n // 2, "criterion": ["tone", "facts"] * 12, "judge": "j", "score": 1 + n % 5})
    labels = log.drop(columns=["score", "judge"]).assign(label=2 + n % 3, scale=["1-5", "1-10"] * 12)
    trials = bl.read_judgements(log.assign(scale="1-5"))
    known = HumanLabels.read(labels, trials)
    assert [known.stated_scale(name, trials) for name in ("tone", "facts")] == [(1, 5), (1, 10)]
    with pytest.raises(TrialsError, match="labels are from 1 to 10, scores from 1 to 5"):
        read_cells(trials, known, None, ())


@pytest.mark.slow
def test_items_without_a_label_keep_that_of_the_log():
    log = LOG.assign(human_verdict=["pass", "pass", "", "", "", "fail"])
    labels = pd.DataFrame({"question": [*"bc"], "human_label": ["pass", "fail"]})
    assert labelled(log, labels)["human"].fillna(-1).tolist() == [1, 1, 0, -1, -1, 0]
    [_, human, *_] = correct_systems(bl.read_judgements(log), labels).estimates["n_labelled"]
    assert human == 4
    with pytest.raises(TrialsError, match="labels 0, the log 1"):
        labelled(log, labels.assign(human_label=["fail", "pass"]))


def test_labels_of_a_duplicate_index_and_of_two_judges():
    trials = bl.read_judgements(pd.concat([LOG.assign(judge="j"), LOG.assign(judge="k")]))
    labels = pd.DataFrame({"question": [*"ab"], "human_label": ["pass", "fail"]})
    found = with_labels(trials.set_axis([7] * 12), bl.read_judgements(labels).set_axis([0, 0]))
    assert set(found.index) == {7}
    assert found["human"].fillna(-1).tolist() == [1, 0, -1, -1, -1, -1] * 2


@pytest.mark.slow
def test_all_items_labelled_counts_items_of_contexts():
    log = pd.DataFrame({"question": [*"abcdef"] * 2, "model": ["x"] * 6 + ["y"] * 6, "verdict": ["pass", "fail"] * 6})
    labels = log.drop(columns="verdict").assign(human_label=["pass", "fail", "pass"] * 4)
    trials = bl.read_judgements(log)
    assert correct_systems(trials, labels).items[["items", "labelled"]].to_numpy().tolist() == [[6, 6]] * 2
    assert "all items are labelled" in str(correct_systems(trials, labels))
    texts = bl.read_judgements(log.assign(answer=[f"the answer {n}" for n in range(12)]).drop(columns="model"))
    part = with_labels(texts, labels.assign(answer=texts["candidate_id"]).drop(columns="model").iloc[:7])
    found = correct_systems(part)
    assert found.items[["items", "labelled"]].to_numpy().tolist() == [[12, 7]]
    assert "all items are labelled" not in str(found)


def test_unnamed_candidates_are_taken_together():
    log = pd.DataFrame({"question": [f"q{n}" for n in range(12)], "verdict": ["pass", "fail"] * 6})
    found = correct_systems(bl.read_judgements(log.assign(human_label=["pass", "pass", "fail"] * 4)))
    assert set(found.estimates["system"]) == {""}


def test_long_questions_match_a_log_that_names_them_by_a_hash():
    """Exports of tools name a long question by a hash; a file of labels has the question itself."""
    questions = [f"Question {n}: " + "why does the oven door stay hot for so long " * (n % 3) for n in range(12)]
    labels = pd.DataFrame({"question": questions, "human_label": ["pass", "fail"] * 6})
    results = [
        {"gradingResult": {"pass": True, "score": 1.0, "componentResults": [{"pass": True, "score": n % 2, "assertion":
         {"type": "llm-rubric", "value": "good"}}]}, "provider": {"id": "m"}, "vars": {"q": question},
         "response": {"output": f"text {n}"}, "promptIdx": 0}
        for n, question in enumerate(questions)
    ]  # fmt: skip
    trials = bl.read_judgements(pd.DataFrame(results))
    assert trials["context_id"].str.len().max() <= 64
    assert with_labels(trials, labels)["human"].tolist() == [1.0, 0.0] * 6


def test_repeated_short_answers_are_no_systems():
    log = pd.DataFrame({"question": [f"q{n}" for n in range(40)], "answer": ["yes", "no"] * 20})
    log = log.assign(verdict=["pass", "fail", "pass", "pass"] * 10, human_label=["pass", "fail", "", ""] * 10)
    found = correct_systems(bl.read_judgements(log)).estimates
    assert set(found["metric"]) >= {"pass_rate"}
    assert set(found["system"]) == {""}


def test_question_how_scores_pass_lists_their_values():
    log = LOG.assign(human_score=[1, 5, 2, 4, 3, 5])
    trials = bl.read_judgements(log, mapping={"human_scale": "=1-5"})
    with pytest.raises(TrialsError, match="1 -> 0, 2 -> 0, 3 -> 0, 4 -> 1, 5 -> 1"):
        bl.correct(trials)


def test_system_of_one_context_has_any_rank():
    log = pd.DataFrame({"question": range(40), "model": ["x", *"yz" * 19, "z"], "verdict": ["pass", "fail"] * 20})
    found = bl.correct(bl.read_judgements(log.assign(human_label=["pass", "fail", "fail", "pass"] * 10)))
    ranks = found[found["metric"] == "rank"].set_index("system")
    assert ranks.loc["x", ["ci_low", "ci_high"]].dropna().to_numpy().tolist() == [[1, 3]]


@pytest.mark.parametrize("name", ["human", "label", "score"])
def test_probabilities_weight_labels_of_any_form(name):
    log = pd.DataFrame({"question": [f"q{n}" for n in range(60)], "verdict": ["pass", "fail", "pass"] * 20})
    labels = log[["question"]].head(24).assign(**{name: ["pass", "fail"] * 12}, probability=[0.8, 0.2] * 12)
    if name == "score":
        labels = labels.rename(columns={"question": "context_id"}).assign(candidate_id="answer")
    found = correct_systems(bl.read_judgements(log), labels)
    human = found.estimates.query("correction == 'human' and metric == 'pass_rate'")["estimate"].item()
    assert human == pytest.approx((12 / 0.8) / (12 / 0.8 + 12 / 0.2))
    assert found.weighted


@pytest.mark.parametrize("name", ["human", "gold", "human_label"])
def test_label_beside_an_answer_of_yes_or_no_is_the_label(name):
    log = pd.DataFrame({"question": [f"q{n}" for n in range(20)], "answer": ["yes", "no"] * 10})
    labels = log.assign(**{name: ["pass", "pass", "fail", "pass"] * 5})
    found = correct_systems(bl.read_judgements(log.assign(judge_verdict=["pass", "fail"] * 10)), labels)
    assert found.estimates.query("correction == 'human' and metric == 'pass_rate'")["estimate"].item() == 0.75
