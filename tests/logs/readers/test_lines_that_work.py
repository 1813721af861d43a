"""Tables of people's own: read as meant, or refused with lines each of which reads the table when pasted."""

import json
import math

import pandas as pd
import pytest
from biaslab.logs.readers.common_names import ranks
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
    values,
    wins,
    worth,
    written,
    written as saved,
)

from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements


def pairs(question, one, two, verdict, words, **more):
    return [{question: ASKED[n], one: ONE[n], two: TWO[n], verdict: words[n]} | {k: v[n] for k, v in more.items()}
            for n in range(N)]  # fmt: skip


def of_scores(question, answer, score, given=FIVE):
    return [{question: ASKED[n], answer: ONE[n], score: given[n]} for n in range(N)]


FIRST = worth()
#: Name: layout, records, values, whether it is read without a mapping.
LOGS = {
    "a form": ("csv", pairs("Prompt text", "Answer A", "Answer B", "Which answer is better?",
                            wins("Answer A", "Answer B", "Both are equal")), FIRST, True),
    "Spanish": ("csv", pairs("pregunta", "respuesta_a", "respuesta_b", "ganador", wins("A", "B", "empate")), FIRST,
                False),
    "Chinese": ("csv", pairs("问题", "回答A", "回答B", "胜者", wins("A", "B", "平局")), FIRST, False),
    "Vertex": ("csv", pairs("prompt", "response", "baseline_model_response", "pairwise_fluency/pairwise_choice",
                            wins("CANDIDATE", "BASELINE", "TIE")), FIRST, True),
    "a reference": ("csv", pairs("question", "answer", "reference_answer", "verdict", wins("win", "loss")), FIRST,
                    True),
    "names of columns": ("csv", pairs("query", "base", "finetuned", "judge_choice", wins("base", "finetuned")), FIRST,
                         True),
    "numbered variants": ("csv", pairs("User prompt", "Variant 1", "Variant 2", "GPT-4 pick",
                                       wins("Variant 1", "Variant 2", "Same")), FIRST, True),
    "ticks": ("csv", pairs("Task", "Output A", "Output B", "Better", wins("A ✅", "B ✅", "–")), FIRST, False),
    "minus one": ("csv", pairs("query", "response_a", "response_b", "winner", wins(0, 1, -1)), FIRST, False),
    "counted from 0": ("jsonl", pairs("usermsg", "response 1", "response 2", "label", wins(0, 1, 2)), FIRST, False),
    "flags": ("csv", pairs("prompt", "response_a", "response_b", "prefers_b", [s == "second" for s in DECIDED]),
              worth(DECIDED), True),
    "objects": ("jsonl", rows(lambda n: {"question": ASKED[n], "candidates": {"A": ONE[n], "B": TWO[n]},
                                         "verdict": wins("A", "B")[n]}), FIRST, True),
    "lists of two": ("jsonl", rows(lambda n: {"prompt": ASKED[n], "responses": [ONE[n], TWO[n]], "models": ["x", "y"],
                                              "chosen_index": wins(0, 1, 0, DECIDED)[n]}), worth(DECIDED), True),
    "lists of objects": ("jsonl", rows(lambda n: {"prompt": ASKED[n], "winner": wins(0, 1, 0, DECIDED)[n],
                                                  "completions": [{"model": "x", "text": ONE[n]},
                                                                  {"model": "y", "text": TWO[n]}]}),
                         worth(DECIDED), True),
    "signed degrees": ("json", {"models": [{"name": "x"}, {"name": "y"}], "examples": pairs(
        "input_text", "output_text_a", "output_text_b", "score", wins(1, -1, 0))}, FIRST, False),
    "winner and loser": ("csv", rows(lambda n: {"question": ASKED[n], "winner": "xyz"[n % 3], "loser": "yzx"[n % 3]}),
                         [1.0] * N, False),
    "people alone": ("csv", pairs("question", "answer_a", "answer_b", "human_preference", wins("A", "B")), FIRST,
                     False),
    "OpenCompass": ("json", {str(n): {"prediction": f"So [[{wins('A', 'B', 'C')[n]}]]",
                                      "gold": {"answer1": "x", "answer2": "y"}, "origin_prompt": ASKED[n]}
                             for n in range(N)}, FIRST, False),
    "suggestions": ("jsonl", rows(lambda n: {
        "fields": {"instruction": ASKED[n], "response_a": ONE[n], "response_b": TWO[n]},
        "suggestions": {"preference": {"value": wins("response_a", "response_b")[n], "agent": "gpt-x"}},
        "responses": {"preference": [{"value": wins("response_a", "response_b", sides=AGAIN)[n], "user_id": "u"}]}}),
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
    layout, records, wanted, single = LOGS[name]
    trials, was_read = readings(written(tmp_path, records, layout))
    assert was_read == single
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
    records = pairs("Input.prompt", "Input.response_a", "Input.response_b", "Answer.choice", wins("A", "B"),
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


NOT = {"first": "second", "second": "first", "tie": "tie"}
OTHERS = [NOT[side] for side in DECIDED]
PLACES = wins("A", "B")
SECOND = wins("A", "B", sides=AGAIN)
BOTH = sorted(worth() + worth(AGAIN))


def pairs_flags_and_votes(one, two, **more):
    return rows(lambda n: {"question": ASKED[n], one: ONE[n], two: TWO[n]} | {k: v[n] for k, v in more.items()})


def votes(make):
    return rows(lambda n: {"question": ASKED[n], "answer_a": ONE[n], "answer_b": TWO[n], **make(n)})


def scores(**more):
    return rows(lambda n: {"question": ASKED[n], "answer": ONE[n]} | {k: v[n] for k, v in more.items()})


#: Name: two columns, a flag, its values, and the verdicts that it gives on the first column.
FLAGS = {
    "yes and no": ("candidate", "baseline", "candidate_better", wins("yes", "no", sides=DECIDED), worth(DECIDED)),
    "ties": ("candidate", "baseline", "prefers_candidate", wins("yes", "no", "tie"), worth()),
    "the baseline's": ("candidate", "baseline", "baseline_wins", wins("N", "Y", sides=DECIDED), worth(DECIDED)),
    "over the baseline": ("answer", "baseline_answer", "better_than_baseline", wins(True, False, sides=DECIDED),
                          worth(DECIDED)),
    "beats": ("new", "old", "beats_old", wins("true", "false", sides=DECIDED), worth(DECIDED)),
    "halves": ("new_answer", "old_answer", "new_wins", wins(1, 0, 0.5), worth()),
    "no word but the win": ("candidate", "baseline", "win", wins(1, 0, sides=DECIDED), worth(DECIDED)),
    "a side": ("output_a", "output_b", "b_better", wins("no", "yes", "tie"), worth()),
    "win, loss and tie": ("output", "reference_output", "result", wins("win", "loss", "tie"), worth()),
    "systems": ("gpt4_answer", "llama_answer", "llama_wins", wins("no", "yes", sides=DECIDED), worth(OTHERS)),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_flags_of_winning_are_verdicts(name, tmp_path):
    one, two, flag, given, wanted = FLAGS[name]
    trials = read_judgements(saved(tmp_path, pairs_flags_and_votes(one, two, **{flag: given}), "csv"))
    assert trials["opponent_id"].notna().all()
    assert values(trials) == wanted
    assert trials["order_known"].all() == (name == "a side")


def test_a_flag_without_the_other_answer_is_asked_for(tmp_path):
    given = wins("yes", "no", sides=DECIDED)
    (compared, graded), was_read = readings(saved(tmp_path, scores(better_than_baseline=given), "csv"))
    assert not was_read
    assert compared["opponent_id"].notna().all()
    assert graded["opponent_id"].isna().all()
    assert values(compared) == values(graded) == worth(DECIDED)


def test_a_winner_of_0_and_1_may_be_a_place(tmp_path):
    given = wins(1, 0, sides=DECIDED)
    read, was_read = readings(saved(tmp_path, pairs_flags_and_votes("output", "reference_output", winner=given), "csv"))
    assert not was_read
    assert sorted(map(values, read)) == sorted([worth(DECIDED), worth(OTHERS)])
    assert not any(each["order_known"].any() for each in read)


def test_flags_of_several_judges_and_of_people(tmp_path):
    given = {"gpt4_prefers_b": wins("no", "yes", sides=DECIDED), "claude_prefers_b": wins("no", "yes", sides=OTHERS),
             "human_prefers_b": wins("no", "yes", sides=DECIDED)}  # fmt: skip
    trials = read_judgements(saved(tmp_path, pairs_flags_and_votes("answer_a", "answer_b", **given), "csv"))
    by_judge = {judge: values(own) for judge, own in trials.groupby("judge")}
    assert by_judge == {"gpt4": worth(DECIDED), "claude": worth(OTHERS)}
    assert trials["human_gap"].tolist() == [2 * value - 1 for value in worth(DECIDED)] * 2


def test_flags_for_each_side(tmp_path):
    given = {
        "a_better": wins("yes", "no", sides=DECIDED),
        "b_better": wins("no", "yes", sides=DECIDED),
    }
    assert values(
        read_judgements(saved(tmp_path, pairs_flags_and_votes("answer_a", "answer_b", **given), "csv"))
    ) == worth(DECIDED)


#: Name: layout, and what each record has beside the answers.
VOTES = {
    "lists": ("jsonl", lambda n: {"votes": [PLACES[n], SECOND[n]]}),
    "judgements": ("jsonl", lambda n: {"judgments": [PLACES[n], SECOND[n]]}),
    "lists in CSV": ("csv", lambda n: {"votes": str([PLACES[n], SECOND[n]])}),
    "signs in CSV": ("csv", lambda n: {"votes": f"{PLACES[n]};{SECOND[n]}"}),
    "judges without a model's name": ("jsonl", lambda n: {"votes": {"ann": PLACES[n], "bob": SECOND[n]}}),
}  # fmt: skip


@pytest.mark.parametrize("name", VOTES)
def test_columns_of_votes_need_a_mapping(name, tmp_path):
    layout, make = VOTES[name]
    read, was_read = readings(saved(tmp_path, votes(make), layout))
    assert not was_read
    first = read[0]
    assert (first["judge"].nunique(), first["context_id"].nunique()) == (2, N)
    assert sorted(values(first)) == BOTH
    for other in read[1:]:
        assert sorted(values(other)) == BOTH
        assert len(set(other["judge"])) == 1


@pytest.mark.parametrize(
    "given",
    [
        lambda n: {"verdicts": {"gpt-4.1": PLACES[n], "claude-3.5": SECOND[n]}},
        lambda n: {"judges": {"gpt-4.1": {"verdict": PLACES[n], "why": "so"},
                              "claude-3.5": {"verdict": SECOND[n], "why": "so"}}},
    ],
)  # fmt: skip
def test_models_in_objects_of_verdicts_are_judges(given, tmp_path):
    trials = read_judgements(saved(tmp_path, votes(given), "jsonl"))
    by_judge = {judge: values(own) for judge, own in trials.groupby("judge")}
    assert by_judge == {"gpt-4.1": worth(), "claude-3.5": worth(AGAIN)}


@pytest.mark.parametrize(
    ("layout", "given"),
    [
        ("csv", lambda n: {"winner_helpfulness": PLACES[n], "winner_safety": SECOND[n]}),
        ("jsonl", lambda n: {"verdict": {"helpfulness": PLACES[n], "safety": SECOND[n]}}),
    ],
)
def test_verdicts_on_several_attributes(layout, given, tmp_path):
    trials = read_judgements(saved(tmp_path, votes(given), layout))
    found = {attribute: values(own) for attribute, own in trials.groupby("attribute")}
    assert found == {"helpfulness": worth(), "safety": worth(AGAIN)}


def test_verdicts_from_0_to_2_on_a_list_are_asked_for(tmp_path):
    log = rows(lambda n: {"q": ASKED[n], "shown": [ONE[n], TWO[n]], "choice": wins(1, 2, 0)[n]})
    read, was_read = readings(saved(tmp_path, log, "jsonl"))
    assert (was_read, len(read)) == (False, 2)
    assert worth() in [values(each) for each in read]


def test_ranks_of_two_in_a_list(tmp_path):
    log = rows(lambda n: {"prompt": ASKED[n], "responses": [ONE[n], TWO[n]],
                          "ranking": wins([1, 2], [2, 1], sides=DECIDED)[n]})  # fmt: skip
    (trials,), _ = readings(saved(tmp_path, log, "jsonl"))
    assert values(trials) == worth(DECIDED)


def test_lists_of_two_answers_and_scores_may_be_scored_alone(tmp_path):
    log = rows(lambda n: {"instruction": ASKED[n], "generations": [ONE[n], TWO[n]], "ratings": [FIVE[n], OTHER[n]]})
    (compared, single), _ = readings(saved(tmp_path, log, "jsonl"))
    assert compared["opponent_id"].notna().all()
    assert single["opponent_id"].isna().all()
    assert values(single) == [float(score) for both in zip(FIVE, OTHER, strict=True) for score in both]


@pytest.mark.parametrize("names", [("judge_1", "judge_2"), ("judge1_score", "judge2_score")])
def test_numbered_judges(names, tmp_path):
    trials = read_judgements(saved(tmp_path, scores(**dict(zip(names, (FIVE, OTHER), strict=True))), "csv"))
    found = [values(own) for _, own in trials.groupby("judge")]
    assert found == [list(map(float, FIVE)), list(map(float, OTHER))]


def test_scores_by_judges_or_attributes_are_asked_for(tmp_path):
    log = scores(judge_scores=[{"strict": one, "lenient": two} for one, two in zip(FIVE, OTHER, strict=True)])
    (judges, attributes), was_read = readings(saved(tmp_path, log, "jsonl"))
    assert not was_read
    assert set(judges["judge"]) == set(attributes["attribute"]) == {"strict", "lenient"}


def test_samples_in_a_list_are_judges_or_repetitions(tmp_path):
    log = scores(scores=[[one, two, 3] for one, two in zip(FIVE, OTHER, strict=True)])
    (judges, samples, *_), _ = readings(saved(tmp_path, log, "jsonl"))
    assert (judges["judge"].nunique(), samples["replicate"].nunique()) == (3, 3)
    assert sorted(values(samples)) == sorted(map(float, [*FIVE, *OTHER, *[3] * N]))


@pytest.mark.parametrize("separator", [",", "\t"])
def test_decimal_commas(separator, tmp_path):
    table = pd.DataFrame(scores(score=[f"{score:.1f}".replace(".", ",") for score in FIVE]))
    table.to_csv(tmp_path / "log.csv", index=False, sep=separator)
    (trials,), was_read = readings(tmp_path / "log.csv")
    assert was_read == (separator == "\t")
    assert values(trials) == list(map(float, FIVE))


#: Name: layout, the score of each record, and what it means.
WRITTEN = {
    "correct in part": ("csv", {"score": wins("C", "I", "P")}, worth()),
    "thumbs": ("csv", {"feedback": wins("👍", "👎", sides=DECIDED)}, worth(DECIDED)),
    "steps below zero": ("csv", {"score": [score - 3 for score in FIVE]}, FIVE),
    "objects in a cell": ("csv", {"judge_raw": [json.dumps({"coherence": score, "fluency": 2}) for score in FIVE]},
                          FIVE),
    "said in a text": ("jsonl", {"notes": [f"It has 3 parts. Rating: [[{score}]]" for score in FIVE]}, FIVE),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_scores_that_are_no_numbers_get_a_line(name, tmp_path):
    layout, given, wanted = WRITTEN[name]
    read, was_read = readings(saved(tmp_path, scores(**given), layout))
    assert not was_read
    assert list(map(float, wanted)) in [values(each) for each in read]


def test_a_suggestion_names_its_judge_and_responses_are_human(tmp_path):
    log = rows(lambda n: {"fields": {"prompt": ASKED[n], "response": ONE[n]},
                          "suggestions": {"rating": {"value": FIVE[n], "agent": "gpt-4o"}},
                          "responses": {"rating": [{"value": OTHER[n], "user_id": "u"}]}})  # fmt: skip
    trials = read_judgements(saved(tmp_path, log, "jsonl"))
    assert set(trials["judge"]) == {"gpt-4o"}
    assert values(trials) == list(map(float, FIVE))
    assert trials["human"].tolist() == list(map(float, OTHER))


def test_the_question_within_two_conversations_is_the_context(tmp_path):
    def turns(n, answer):
        return [{"role": "user", "content": ASKED[n]}, {"role": "assistant", "content": answer}]

    log = rows(lambda n: {"chosen": turns(n, ONE[n]), "rejected": turns(n, TWO[n]),
                          "judge_correct": DECIDED[n] == "first"})  # fmt: skip
    trials = read_judgements(saved(tmp_path, log, "jsonl"))
    assert trials["context_id"].nunique() == N
    assert values(trials) == worth(DECIDED)


def test_a_column_named_after_the_judge_may_hold_its_verdicts(tmp_path):
    verdicts, people = wins("acme", "zeta"), wins("acme", "zeta", sides=AGAIN)
    log = rows(lambda n: {"question": ASKED[n], "model_a": "acme", "model_b": "zeta", "llm_judge": verdicts[n],
                          "human": people[n]})  # fmt: skip
    (trials, *_), was_read = readings(saved(tmp_path, log, "csv"))
    assert not was_read
    assert values(trials) == worth()
    assert set(trials["judge"]) == {"llm_judge"}


def test_verdicts_that_name_columns_in_another_language_are_read(tmp_path):
    log = rows(lambda n: {"Frage": ASKED[n], "Antwort A": ONE[n], "Antwort B": TWO[n],
                          "Gewinner": wins("Antwort A", "Antwort B", "Unentschieden")[n]})  # fmt: skip
    (trials,), was_read = readings(saved(tmp_path, log, "csv"))
    assert not was_read
    assert values(trials) == worth()


def test_names_of_an_index_are_columns():
    table = pd.DataFrame(scores(score=FIVE)).set_index("question")
    assert read_judgements(table)["context_id"].nunique() == N
