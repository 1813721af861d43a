"""Labels by people and verdicts by judges: one vocabulary, no label lost in silence; kept columns."""

import json
from itertools import cycle

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError

N = 24
JUDGE = [i % 3 > 0 for i in range(N)]
PEOPLE = [i % 4 > 0 for i in range(N)]
WORDS = [("pass", "fail"), ("PASS", "FAIL"), ("yes", "no"), ("Y", "N"), ("correct", "incorrect"), ("safe", "unsafe"),
         ("grounded", "hallucinated"), ("supported", "unsupported"), ("relevant", "irrelevant"), ("true", "false"),
         ("acceptable", "unacceptable"), ("good", "bad"), ("thumbs up", "thumbs down"), ("👍", "👎"), ("1", "0"),
         (True, False)]  # fmt: skip
NAMES = [("judge_verdict", "human_verdict"), ("judge_label", "human_label"), ("verdict", "ground_truth"),
         ("judge", "human"), ("llm_verdict", "expert_verdict"), ("pred", "gold"), ("judge_result", "human_result"),
         ("judge_pass", "human_pass"), ("llm_judge", "human_annotation"), ("y_pred", "y_true")]  # fmt: skip
ASKED = [("prediction", "label"), ("llm_judgment", "annotation"), ("judge_verdict", "label"), ("gpt-4o", "labels"),
         ("llm_judge", "sarah"), ("judge_verdict", "domain_expert")]  # fmt: skip
READ = [1.0 if good else 0.0 for good in JUDGE]


def table(**columns):
    """Return a table of questions and answers with further columns."""
    asked = [f"What does item {i} do?" for i in range(N)]
    return pd.DataFrame({"question": asked, "answer": [f"it does so {i} times" for i in range(N)], **columns})


def graded(good, words):
    return [words[0] if each else words[1] for each in good]


def answered(log, mapping=None):
    """Return the trials of a log whose questions are answered by their first options."""
    mapping = mapping or {}
    for _ in range(3):
        proposal = bl.logs.propose(log, mapping)
        mapping = mapping | {question.entry: question.options[0] for question in proposal.questions}
    return bl.read_judgements(log, mapping=mapping)


def layout(trials):
    (reading,) = trials.attrs["reading"]["readings"]
    return reading


def columns_of(trials, role):
    return [name for each in layout(trials)["roles"] if each["role"] == role for source in each["sources"]
            for name in source["columns"]]  # fmt: skip


@pytest.mark.parametrize("names", NAMES, ids="/".join)
def test_words_of_judge_and_people_are_read_alike(names):
    for words in WORDS if names in NAMES[3:5] else WORDS[-4::3]:
        judged, labels = graded(JUDGE, words), graded(PEOPLE, words)
        trials = bl.read_judgements(table(**{names[0]: judged, names[1]: labels}))
        assert trials["value"].tolist() == READ, words
        assert trials["human"].tolist() == [float(good) for good in PEOPLE], words
        assert set(trials["scale"]) == set(trials["human_scale"]) == {"0-1"}


@pytest.mark.parametrize("names", ASKED, ids="/".join)
def test_labels_of_nobody_named_are_asked_about(names):
    for words in (("pass", "fail"), ("1", "0")):
        if words == ("1", "0") and names[1] == "sarah":
            continue  # any column of flags
        log = table(**{names[0]: graded(JUDGE, words), names[1]: graded(PEOPLE, words)})
        (question,) = bl.logs.propose(log).questions
        assert question.entry == "ratings"
        with pytest.raises(InputError, match="ratings"):
            bl.read_judgements(log)
        trials = answered(log)
        assert trials["value"].tolist() == READ
        assert trials["human"].tolist() == [float(good) for good in PEOPLE]


@pytest.mark.slow
def test_vocabulary_is_shared_by_different_words():
    for one, two in zip(WORDS[:-2], cycle([("yes", "no"), ("1", "0"), ("ok", "not ok")]), strict=False):
        trials = bl.read_judgements(table(judge_verdict=graded(JUDGE, one), human_label=graded(PEOPLE, two)))
        assert trials["human"].mean() == np.mean(PEOPLE)
        assert trials["value"].tolist() == READ


def test_grades_between_pass_and_fail_set_the_scale_of_both():
    people = ["partial" if i % 5 == 0 else word for i, word in enumerate(graded(PEOPLE, ("pass", "fail")))]
    trials = answered(table(judge_verdict=graded(JUDGE, ("pass", "fail")), human_verdict=people))
    assert set(trials["value"]) == {1, 3}
    assert set(trials["human"]) == {1, 2, 3}
    assert set(trials["scale"]) == set(trials["human_scale"]) == {"1-3"}


def test_people_have_a_scale_of_their_own():
    trials = bl.read_judgements(
        table(score=[1 + i % 5 for i in range(N)], human_label=graded(PEOPLE, ("ok", "not ok")))
    )
    assert (set(trials["scale"]), set(trials["human_scale"])) == ({"1-5"}, {"0-1"})
    assert trials["human"].mean() == np.mean(PEOPLE)


def test_stars_are_numbers():
    stars = ["★" * (1 + i % 5) for i in range(N)]
    trials = answered(table(judge_rating=stars, human_rating=["★★", "★★★★"] * (N // 2)))
    assert trials["value"].tolist() == [1 + i % 5 for i in range(N)]
    assert trials["human"].tolist() == [2, 4] * (N // 2)


def test_words_the_vocabulary_lacks_are_asked_about():
    log = table(judge_label=graded(JUDGE, ("pass", "fail")), human_label=graded(PEOPLE, ("spam", "ham")))
    (question,) = bl.logs.propose(log).questions
    assert question.entry == "ratings"
    assert question.options[0] == {"fields": ["human_label"], "values": {"ham": "?", "spam": "?"}}
    trials = bl.read_judgements(log, mapping={"ratings": "human_label | ham -> 0, spam -> 1"})
    assert trials["human"].mean() == np.mean(PEOPLE)


def test_few_words_without_a_grade_are_counted():
    people = ["unsure", *graded(PEOPLE, ("pass", "fail"))[1:]]
    trials = bl.read_judgements(table(judge_label=graded(JUDGE, ("pass", "fail")), human_label=people))
    assert trials["human"].isna().tolist() == [True] + [False] * (N - 1)
    assert sum(trials.attrs["unmatched"].values()) == 1


def test_mapped_columns_of_words_have_their_numbers():
    log = table(one=graded(JUDGE, ("pass", "fail")), two=graded(PEOPLE, ("pass", "fail")))
    trials = bl.read_judgements(log, mapping={"score": "one", "ratings": "two"})
    assert trials["value"].tolist() == READ
    assert trials["human"].mean() == np.mean(PEOPLE)
    upside_down = {"score": "one | pass -> 0, fail -> 1", "ratings": "two"}
    assert bl.read_judgements(log, mapping=upside_down)["human"].mean() == 1 - np.mean(PEOPLE)


def wide_table():
    """Return three judges' scores, of which every eighth of the first is a text."""
    scores = {name: [str(1 + (i + at) % 5) for i in range(N)] for at, name in enumerate(("gpt4", "claude", "llama"))}
    scores["gpt4"] = ["I cannot rate this" if i % 8 == 0 else score for i, score in enumerate(scores["gpt4"])]
    scores["claude"][3] = "see above"
    return table(**{f"{name}_score": own for name, own in scores.items()}, human_score=[1 + i % 5 for i in range(N)])


def test_texts_in_place_of_scores_are_unreadable_rows():
    trials = bl.read_judgements(wide_table())
    assert len(trials) == 3 * N
    assert trials.attrs["malformed"] == 0
    of = trials.set_index("judge")
    assert of["status"].groupby("judge").value_counts().to_dict() == {
        ("gpt4", "ok"): N - 3, ("gpt4", "refused"): 3, ("claude", "ok"): N - 1, ("claude", "unparsable"): 1,
        ("llama", "ok"): N}  # fmt: skip
    assert set(of.loc["gpt4", "reply"].dropna()) == {"I cannot rate this"}
    assert of.loc["claude", "reply"].dropna().tolist() == ["see above"]
    assert trials["human"].notna().all()


def test_people_skip_some_items_in_words():
    people = ["skipped, too long" if i % 5 == 0 else str(1 + i % 5) for i in range(N)]
    trials = bl.read_judgements(
        table(judge_score=[1 + i % 5 for i in range(N)], annotator_1=people, annotator_2=["3"] * N)
    )
    assert trials["ratings"].iloc[:3].tolist() == ["3", "2 3", "3 3"]
    expected = ["Paris" if i % 3 else "4" for i in range(N)]
    trials = bl.read_judgements(table(judge_score=[1 + i % 5 for i in range(N)], expected=expected))
    assert trials["human"].isna().all()
    assert "expected" in layout(trials)["set_aside"]


def test_judges_column_of_texts_is_asked_about():
    log = wide_table()
    log["gpt4_score"] = ["I cannot rate this" if i % 3 else "4" for i in range(N)]
    (question,) = bl.logs.propose(log).questions
    assert (question.entry, question.options) == ("ignore", ("gpt4_score",))
    assert set(bl.read_judgements(log, mapping={"ignore": "gpt4_score"})["judge"]) == {"claude", "llama"}


@pytest.mark.parametrize("name", ["reply", "response", "judge_response", "judge_output", "llm_output", "output",
                                  "completion", "raw_response", "judgment_text", "feedback", "rationale"])  # fmt: skip
def test_replies_beside_human_scores_are_the_judges(name):
    scores = [1 + i % 5 for i in range(N)]
    replies = [f"The answer is fine overall.\nScore: {score}" for score in scores]
    trials = answered(table(**{name: replies}, human_score=scores[::-1]))
    assert trials["value"].tolist() == scores
    assert trials["human"].tolist() == scores[::-1]
    assert set(trials["scale"]) == {"1-5"}
    assert trials["reply"].tolist() == replies
    verdicts = [f"It is as it is.\nVerdict: {word}" for word in graded(JUDGE, ("PASS", "FAIL"))]
    trials = answered(table(**{name: verdicts}, human_verdict=graded(PEOPLE, ("pass", "fail"))))
    assert trials["value"].tolist() == READ
    assert trials["human"].mean() == np.mean(PEOPLE)


@pytest.mark.parametrize("names", [("annotator_1", "annotator_2", "annotator_3"), ("human_1", "human_2", "human_3")])
def test_several_people_are_ratings(names):
    numbers = [[1 + (i + at) % 5 for i in range(N)] for at in range(3)]
    trials = bl.read_judgements(table(judge_score=numbers[0], **dict(zip(names, numbers, strict=True))))
    assert trials["ratings"].iloc[:2].tolist() == ["1 2 3", "2 3 4"]
    words = [graded(PEOPLE, ("pass", "fail")), graded(JUDGE, ("Pass", "Fail")), ["pass"] * N]
    log = table(judge_verdict=graded(JUDGE, ("pass", "fail")), **dict(zip(names, words, strict=True)))
    trials = bl.read_judgements(log)
    assert trials["ratings"].iloc[:2].tolist() == ["0 0 1", "1 1 1"]
    assert trials["annotators"].iloc[0] == "0 1 2"
    assert trials["value"].tolist() == READ


@pytest.mark.parametrize("written", [list, json.dumps])
def test_lists_of_labels_are_ratings(written):
    words = [list(each) for each in zip(graded(PEOPLE, ("pass", "fail")), graded(JUDGE, ("pass", "fail")), strict=True)]
    log = table(judge_verdict=graded(JUDGE, ("pass", "fail")), labels=list(map(written, words)))
    (question,) = bl.logs.propose(log).questions
    assert question.entry == "ratings"
    assert answered(log)["ratings"].iloc[:4].tolist() == ["0 0", "1 1", "1 1", "1 0"]
    named = log.rename(columns={"labels": "human_labels"})
    assert bl.read_judgements(named)["ratings"].iloc[:4].tolist() == ["0 0", "1 1", "1 1", "1 0"]


def test_model_beside_question_and_answer_is_the_system():
    judged = {"judge_verdict": graded(JUDGE, ("pass", "fail")), "human_verdict": graded(PEOPLE, ("pass", "fail"))}
    log = table(**judged, model=["gpt-4o", "llama-3"] * (N // 2)).assign(answer=graded(JUDGE, ("Yes", "No")))
    trials = bl.read_judgements(log)
    assert len(trials) == N
    assert columns_of(trials, "system") == ["model"]
    assert set(trials["judge"]) == {"unknown"}
    paired = log.assign(question=[f"Is it {i // 2}?" for i in range(N)])
    trials = bl.read_judgements(paired)
    assert trials.groupby("context_id")["candidate_id"].nunique().tolist() == [2] * (N // 2)


def test_equal_answers_of_different_cases_are_different_rows():
    log = table(case_id=[f"c{i}" for i in range(N)], judge_verdict=graded(JUDGE, ("pass", "fail")))
    log.loc[[1, 2], ["question", "answer"]] = log.loc[0, ["question", "answer"]].tolist()
    trials = bl.read_judgements(log)
    assert (len(trials), trials.attrs["duplicates"]) == (N, 0)
    paired = log.assign(question=[f"Is it {i // 2}?" for i in range(N)], answer=["Yes", "No", "No", "No"] * (N // 4))
    trials = bl.read_judgements(paired)
    assert (len(trials), trials["context_id"].nunique()) == (N, N // 2)


def test_unused_column_of_people_is_named_with_its_reason():
    log = table(judge_verdict=graded(JUDGE, ("pass", "fail")), human_agrees=graded(PEOPLE, ("yes", "no")))
    log["gold_answer"] = [f"so {i} times it does" for i in range(N)]
    trials = bl.read_judgements(log)
    assert trials["human"].isna().all()
    assert {"human_agrees", "gold_answer"} <= set(layout(trials)["set_aside"])
    assert "not used" not in layout(trials)["set_aside"].values()


def kept_table():
    return table(judge_verdict=graded(JUDGE, ("pass", "fail")), language=["de", "fr"] * (N // 2),
                 retrieved_docs=range(N), late=[True, False] * (N // 2), subset=["x", "y"] * (N // 2))  # fmt: skip


def test_kept_columns_are_numbers_or_texts(tmp_path):
    kept_table().to_csv(tmp_path / "log.csv", index=False)
    for log in (kept_table(), tmp_path / "log.csv"):
        trials = bl.read_judgements(log, keep=["language", "retrieved_docs", "late"])
        assert trials["language"].tolist() == ["de", "fr"] * (N // 2)
        assert trials["retrieved_docs"].tolist() == list(range(N))
        assert trials["late"].str.lower().tolist() == ["true", "false"] * (N // 2)
        assert columns_of(trials, "kept") == ["language", "retrieved_docs", "late"]


def test_kept_paths_follow_the_records(tmp_path):
    records = [{"id": i, "meta": {"words": i or None, "tag": ["a"]}, "answer": f"so {i}", "gpt4_score": 1 + i % 5,
                "claude_score": 5 - i % 5} for i in range(N)]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, records)))
    trials = bl.read_judgements(tmp_path / "log.jsonl", keep=["meta.words"])
    assert len(trials) == 2 * N
    kept = trials.groupby("context_id", sort=False)["meta.words"].agg(set).tolist()
    assert kept[1:] == [{i} for i in range(1, N)]
    assert trials["meta.words"].isna().sum() == 2


def test_kept_columns_of_a_known_format():
    line = {"judge": "j", "question": 1, "A": "x", "B": "y", "judgment": "[[A]]", "meta": {"language": "de"}}
    log = pd.DataFrame([line | {"question": i, "level": i / 2} for i in range(5)])
    trials = bl.read_judgements(log, keep=["level", "meta.language"])
    assert set(trials.attrs["files"].values()).isdisjoint({"table", "mapping"})
    assert trials["level"].tolist() == [0, 0.5, 1, 1.5, 2]
    assert trials["meta.language"].tolist() == ["de"] * 5
    with pytest.raises(InputError, match="a number or a text"):
        bl.read_judgements(log, keep=["meta"])


def test_kept_columns_tell_no_judgements_apart():
    log = pd.concat([kept_table(), kept_table().iloc[:1].assign(language="it")])
    trials = bl.read_judgements(log, keep=["language"])
    assert (len(trials), trials.attrs["duplicates"]) == (N, 1)
    assert set(trials["language"]) == {"de", "fr"}


def test_kept_names_that_collide_or_are_unknown_are_refused():
    log = kept_table()
    assert bl.read_judgements(log, keep=["subset"])["subset"].tolist() == ["x", "y"] * (N // 2)
    with pytest.raises(InputError, match="answer"):
        bl.read_judgements(log, keep=["answer"])
    with pytest.raises(InputError, match=r"retrieved_docs.*did you mean language"):
        bl.read_judgements(log, keep=["langage"])


def test_judge_that_agrees_with_all_labels_repeats_none():
    words = graded(JUDGE, ("pass", "fail"))
    proposal = bl.logs.propose(table(llm_label=words, label=words))
    assert proposal.entries["score"]["field"] == "llm_label"
    assert [question.entry for question in proposal.questions] == ["ratings"]


def test_words_of_several_criteria_have_labels_of_their_own():
    log = table(accuracy=graded(JUDGE, ("yes", "no")), human_accuracy=graded(PEOPLE, ("yes", "no")),
                clarity=graded(PEOPLE, ("yes", "no")), human_clarity=graded(JUDGE, ("yes", "no")))  # fmt: skip
    means = bl.read_judgements(log).groupby("attribute")[["value", "human"]].mean().round(3)
    one, two = round(np.mean(JUDGE), 3), round(np.mean(PEOPLE), 3)
    assert means.to_numpy().tolist() == [[one, two], [two, one]]


@pytest.mark.parametrize(
    ("judge", "people", "words"),
    [("judge_grounded", "human_hallucination", ("yes", "no")), ("judge_verdict", "human_flagged", ("1", "0"))],
)
def test_opposite_meanings_of_yes_are_asked_about(judge, people, words):
    verdicts = ["pass" if good else "fail" for good in JUDGE] if words[0] == "1" else graded(JUDGE, words)
    log = table(**{judge: verdicts, people: graded([not good for good in PEOPLE], words)})
    with pytest.raises(InputError, match=f"ratings = .*{people} a fail"):
        bl.read_judgements(log)
    answer = {"fields": [people], "values": {words[0]: "0", words[1]: "1"}}
    trials = bl.read_judgements(log, mapping={"ratings": answer})
    assert trials["value"].tolist() == READ
    assert trials["human"].tolist() == [float(good) for good in PEOPLE]


def test_label_beside_a_judges_of_one_name_is_no_criterion():
    log = table(judge_correct=graded(JUDGE, ("yes", "no")), is_correct=graded(PEOPLE, ("yes", "no")))
    with pytest.raises(InputError, match="score = "):
        bl.read_judgements(log)
