"""Tables of people's own: read as meant, or refused with lines each of which reads the table when pasted."""

import json
import math

import pytest
from made_logs import (
    AGAIN,
    ASKED,
    DECIDED,
    FIVE,
    ONE,
    OTHER,
    SIDES,
    TWO,
    UNIT,
    WORTH,
    N,
    readings,
    rows,
    said,
    values,
    worth,
    written,
)

from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.grade_words import ranks


def pairs(question, one, two, verdict, words, **more):
    return [{question: ASKED[n], one: ONE[n], two: TWO[n], verdict: words[n]} | {k: v[n] for k, v in more.items()}
            for n in range(N)]  # fmt: skip


def of_scores(question, answer, score, given=FIVE):
    return [{question: ASKED[n], answer: ONE[n], score: given[n]} for n in range(N)]


FIRST = worth()
#: Name: layout, records, values, whether it is read without a mapping.
LOGS = {
    "a form": ("csv", pairs("Prompt text", "Answer A", "Answer B", "Which answer is better?",
                            said("Answer A", "Answer B", "Both are equal")), FIRST, True),
    "Spanish": ("csv", pairs("pregunta", "respuesta_a", "respuesta_b", "ganador", said("A", "B", "empate")), FIRST,
                False),
    "Chinese": ("csv", pairs("问题", "回答A", "回答B", "胜者", said("A", "B", "平局")), FIRST, False),
    "Vertex": ("csv", pairs("prompt", "response", "baseline_model_response", "pairwise_fluency/pairwise_choice",
                            said("CANDIDATE", "BASELINE", "TIE")), FIRST, True),
    "a reference": ("csv", pairs("question", "answer", "reference_answer", "verdict", said("win", "loss")), FIRST,
                    True),
    "names of columns": ("csv", pairs("query", "base", "finetuned", "judge_choice", said("base", "finetuned")), FIRST,
                         True),
    "numbered variants": ("csv", pairs("User prompt", "Variant 1", "Variant 2", "GPT-4 pick",
                                       said("Variant 1", "Variant 2", "Same")), FIRST, True),
    "ticks": ("csv", pairs("Task", "Output A", "Output B", "Better", said("A ✅", "B ✅", "–")), FIRST, False),
    "minus one": ("csv", pairs("query", "response_a", "response_b", "winner", said(0, 1, -1)), FIRST, False),
    "counted from 0": ("jsonl", pairs("usermsg", "response 1", "response 2", "label", said(0, 1, 2)), FIRST, False),
    "flags": ("csv", pairs("prompt", "response_a", "response_b", "prefers_b", [s == "second" for s in DECIDED]),
              worth(DECIDED), True),
    "objects": ("jsonl", rows(lambda n: {"question": ASKED[n], "candidates": {"A": ONE[n], "B": TWO[n]},
                                         "verdict": said("A", "B")[n]}), FIRST, True),
    "lists of two": ("jsonl", rows(lambda n: {"prompt": ASKED[n], "responses": [ONE[n], TWO[n]], "models": ["x", "y"],
                                              "chosen_index": said(0, 1, 0, DECIDED)[n]}), worth(DECIDED), True),
    "lists of objects": ("jsonl", rows(lambda n: {"prompt": ASKED[n], "winner": said(0, 1, 0, DECIDED)[n],
                                                  "completions": [{"model": "x", "text": ONE[n]},
                                                                  {"model": "y", "text": TWO[n]}]}),
                         worth(DECIDED), True),
    "signed degrees": ("json", {"models": [{"name": "x"}, {"name": "y"}], "examples": pairs(
        "input_text", "output_text_a", "output_text_b", "score", said(1, -1, 0))}, FIRST, False),
    "winner and loser": ("csv", rows(lambda n: {"question": ASKED[n], "winner": "xyz"[n % 3], "loser": "yzx"[n % 3]}),
                         [1.0] * N, False),
    "people alone": ("csv", pairs("question", "answer_a", "answer_b", "human_preference", said("A", "B")), FIRST,
                     False),
    "OpenCompass": ("json", {str(n): {"prediction": f"So [[{said('A', 'B', 'C')[n]}]]",
                                      "gold": {"answer1": "x", "answer2": "y"}, "origin_prompt": ASKED[n]}
                             for n in range(N)}, FIRST, False),
    "suggestions": ("jsonl", rows(lambda n: {
        "fields": {"instruction": ASKED[n], "response_a": ONE[n], "response_b": TWO[n]},
        "suggestions": {"preference": {"value": said("response_a", "response_b")[n], "agent": "gpt-x"}},
        "responses": {"preference": [{"value": said("response_a", "response_b", sides=AGAIN)[n], "user_id": "u"}]}}),
        FIRST, True),
    "letters": ("csv", of_scores("question", "answer", "grade", ["FDCBA"[f - 1] for f in FIVE]), FIVE, False),
    "stars": ("csv", of_scores("question", "answer", "rating", ["★" * f + "☆" * (5 - f) for f in FIVE]), FIVE, False),
    "agreement": ("csv", of_scores("question", "answer", "rating", [
        ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"][f - 1] for f in FIVE]), FIVE, False),
    "percent": ("csv", of_scores("prompt", "output", "score", [f"{20 * f}%" for f in FIVE]), [20 * f for f in FIVE],
                False),
    "words of the judge": ("csv", of_scores("question", "answer", "judge_response", [
        json.dumps({"explanation": "has 3 parts", "score": f}) for f in FIVE]), FIVE, False),
    "German": ("csv", of_scores("Frage", "Antwort", "Bewertung"), FIVE, False),
    "labels of two words": ("csv", of_scores("input", "output", "label", [
        ["hallucinated", "factual"][n % 2] for n in range(N)]), [n % 2 for n in range(N)], True),
    "letters of Inspect": ("csv", of_scores("input", "output", "score_model_graded_qa", [*"CI"] * (N // 2)),
                           [1, 0] * (N // 2), True),
    "unknown words": ("csv", of_scores("input", "output", "verdict", [["warm", "cold"][n % 2] for n in range(N)]),
                      [n % 2 for n in range(N)], False),
    "grades of a rubric": ("jsonl", of_scores("conversation", "response", "criteria_met", [True, False] * (N // 2)),
                           [1, 0] * (N // 2), False),
    "no answers": ("csv", [{"context.span_id": f"s{n}", "score": UNIT[n]} for n in range(N)], UNIT, False),
    "one metric a row": ("jsonl", rows(lambda n: {
        "test_case": f"t{n}", "input": ASKED[n], "actual_output": ONE[n], "metric": "Relevancy", "score": UNIT[n],
        "evaluation_model": "gpt-x"}), UNIT, True),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_read_or_refused_with_a_line_that_works(name, tmp_path):
    layout, records, wanted, alone = LOGS[name]
    trials, was_read = readings(written(tmp_path, records, layout))
    assert was_read == alone
    assert trials, "a refusal shows a line"
    assert list(map(float, wanted)) in [values(each) for each in trials]
    for each in trials:  # whatever a line assumes, it reads the table
        assert each["status"].isin(["ok", "tie"]).mean() > 0.5


def test_people_s_answers_beside_a_suggestion_are_human(tmp_path):
    layout, records, *_ = LOGS["suggestions"]
    trials = read_judgements(written(tmp_path, records, layout))
    assert trials["human_gap"].tolist() == [2 * WORTH[side] - 1 for side in AGAIN]


def test_wins_over_a_reference_leave_the_order_open(tmp_path):
    layout, records, *_ = LOGS["a reference"]
    assert not read_judgements(written(tmp_path, records, layout))["order_known"].any()


def test_workers_are_asked_for(tmp_path):
    records = pairs("Input.prompt", "Input.response_a", "Input.response_b", "Answer.choice", said("A", "B"),
                    WorkerId=[f"W{n % 4}" for n in range(N)])  # fmt: skip
    (trials,), was_read = readings(written(tmp_path, records, "csv"))
    assert not was_read
    assert trials["judge"].nunique() == 4


def test_rewards_are_on_no_scale(tmp_path):
    rewards = [math.sin(n) * 5 for n in range(N)]
    with pytest.raises(InputError, match="rewards, are on no scale") as caught:
        read_judgements(written(tmp_path, of_scores("prompt", "response", "score", rewards), "csv"))
    assert "--map" not in str(caught.value)


def test_no_mapping_is_suggested_without_judgements(tmp_path):
    """No column of these holds a judgement."""
    records = [{"model": name, "win_rate": 0.5, "elo": 1000 + n} for n, name in enumerate("xyz")]
    with pytest.raises(InputError) as caught:
        read_judgements(written(tmp_path, records, "csv"))
    assert "FIELD" in str(caught.value)


def test_suggested_mapping_separates_judges_in_two_rows(tmp_path):
    records = [{"qid": n, "system": "x", "llm": judge, "Overall Score": given[n]}
               for n in range(N) for judge, given in (("gpt-x", FIVE), ("claude-x", OTHER))]  # fmt: skip
    (trials,), _ = readings(written(tmp_path, records, "csv"))
    assert trials[trials["judge"] == "claude-x"]["value"].tolist() == OTHER


def test_ranks_of_grades_leave_room_for_those_that_no_judge_gave():
    assert ranks(["A", "B", "F"]) == {"F": 1, "B": 4, "A": 5}
    assert ranks(["C-", "A"]) == {"C-": 3, "A": 6}
    assert ranks(["unheard", "of"]) is None


def test_sides_are_all_there():
    assert set(SIDES) == set(AGAIN) == {"first", "second", "tie"}
