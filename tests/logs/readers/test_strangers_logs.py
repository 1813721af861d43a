"""Logs as repositories publish them, with their truth: read right, or asked about, never misread."""

import random

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError

N = 60
_RANDOM = random.Random(7)
QUESTIONS = [f"Why does thing number {n} behave as it does in case {n * 7 % 11}?" for n in range(N)]
ONE = [f"It behaves so because of reason {n} " + "and more words " * (n % 6) for n in range(N)]
TWO = [f"Nobody knows why {n} happens " + "but perhaps " * (n % 4) for n in range(N)]
SIDES = [_RANDOM.choice(["first", "first", "second"]) for _ in range(N)]
AGAIN = [_RANDOM.choice(["first", "second", "second"]) for _ in range(N)]
SYSTEMS = [["gpt-4", "vicuna-13b", "alpaca-13b"][n % 3] for n in range(N)]
OTHERS = [["vicuna-13b", "alpaca-13b", "gpt-4"][n % 3] for n in range(N)]
FIVE = [1 + n * 7 % 5 for n in range(N)]
FIVE_AGAIN = [1 + n * n % 5 for n in range(N - 1)] + [4]
PASSED = [_RANDOM.random() < 0.6 for _ in range(N)]
LABELED = [_RANDOM.random() < 0.7 for _ in range(N)]
PAIR = {"prompt": QUESTIONS, "response_a": ONE, "response_b": TWO}
ANSWERED = {"case_id": [f"c{n}" for n in range(N)], "question": QUESTIONS, "answer": ONE}


def words(sides, one="A", two="B"):
    return [one if side == "first" else two for side in sides]


def share(sides):
    return sum(side == "first" for side in sides) / N


def mean(numbers):
    return sum(numbers) / len(numbers)


LABELS = [
    ("judge_verdict", "human_verdict", "pass", "fail"),
    ("verdict", "ground_truth", "yes", "no"),
    ("judge_label", "human_label", "safe", "unsafe"),
    ("llm_label", "gold_label", "correct", "incorrect"),
    ("autograder", "expert_label", "CORRECT", "INCORRECT"),
    ("is_correct_llm", "is_correct_human", True, False),
    ("llm_judgement", "human_judgement", 1, 0),
    ("gpt4_says", "manual_check", "Y", "N"),
    ("judge", "human", "True", "False"),
    ("model_label", "annotator_label", "Supported", "Not supported"),
]


@pytest.mark.parametrize(("judge", "people", "good", "bad"), LABELS, ids=[names[0] for names in LABELS])
def test_labels_of_judge_and_people_are_distinguished(judge, people, good, bad):
    own = {judge: [good if one else bad for one in PASSED], people: [good if one else bad for one in LABELED]}
    trials = bl.read_judgements(pd.DataFrame(ANSWERED | own))
    assert trials["value"].mean() == pytest.approx(mean(PASSED))
    assert trials["human"].mean() == pytest.approx(mean(LABELED))


SCORED = {"question_id": range(N), "response": ONE}
READ = {
    "a flag for each winner": (
        {"id": range(N), "model_a": SYSTEMS, "model_b": OTHERS}
        | PAIR
        | {"winner_model_a": [int(side == "first") for side in SIDES]}
        | {"winner_model_b": [int(side == "second") for side in SIDES], "winner_tie": [0] * N},
        {"n": N, "mean": share(SIDES)},
    ),
    "three judges, their mean": (
        SCORED | {"gpt4_score": FIVE, "claude_score": FIVE_AGAIN, "avg_score": FIVE},
        {"n": 2 * N, "mean": (mean(FIVE) + mean(FIVE_AGAIN)) / 2},
    ),
    "tokens and latency": (
        SCORED | {"llm_score": FIVE, "tokens_in": range(100, 160), "latency_ms": range(N)},
        {"n": N, "mean": mean(FIVE)},
    ),
    "confidence and logprob": (
        SCORED
        | {"grade": FIVE, "confidence": [0.5 + n % 5 / 10 for n in range(N)], "logprob": [-n / 10 for n in range(N)]},
        {"n": N, "mean": mean(FIVE)},
    ),
    "harmless beside other criteria": (
        SCORED | {"helpfulness": FIVE, "coherence": FIVE_AGAIN, "harmless": [int(one) for one in PASSED]},
        {"n": 3 * N, "mean": (mean(FIVE) + mean(FIVE_AGAIN) + mean(PASSED)) / 3},
    ),
    "verdict read from a reply": (
        PAIR
        | {
            "raw_output": [f"I compared the two with care and choose: {side}" for side in words(SIDES)],
            "parsed": words(SIDES),
        },
        {"n": N, "mean": share(SIDES)},
    ),
    "names of winners, both orders": (
        {
            "item_id": range(N),
            "model_x": SYSTEMS,
            "model_y": OTHERS,
            "original_verdict": [
                a if side == "first" else b for side, a, b in zip(SIDES, SYSTEMS, OTHERS, strict=True)
            ],
            "swapped_verdict": [a if side == "first" else b for side, a, b in zip(AGAIN, SYSTEMS, OTHERS, strict=True)],
        },
        {"n": 2 * N, "mean": (share(SIDES) + 1 - share(AGAIN)) / 2},
    ),
    "human and model votes": (
        PAIR | {"human_winner": words(AGAIN), "gpt4_winner": words(SIDES)},
        {"n": N, "mean": share(SIDES)},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_published_tables_are_read_right(name):
    columns, truth = READ[name]
    trials = bl.read_judgements(pd.DataFrame(columns))
    readable = trials[trials["status"].isin(["ok", "tie"])]
    assert len(readable) == truth["n"]
    assert readable["value"].mean() == pytest.approx(truth["mean"])


ASKED = {
    "reference labels": (PAIR | {"label": [1 if side == "first" else 2 for side in SIDES]}, "winner"),
    "majority of the judges": (
        PAIR | {"gpt4_verdict": words(SIDES), "claude_verdict": words(AGAIN), "majority_vote": words(SIDES)},
        "preference",
    ),
    "people's scores of different criteria": (
        SCORED
        | {
            "expert_coherence": FIVE,
            "expert_fluency": FIVE_AGAIN,
            "turker_coherence": FIVE_AGAIN,
            "turker_fluency": FIVE,
        },
        "ratings",
    ),
    "labels beside words without a known name": (
        ANSWERED | {"bespoke": words(SIDES, "yes", "no"), "expert_label": words(AGAIN, "yes", "no")},
        "score",
    ),
    "the order of each verdict": (PAIR | {"verdict_ab": words(SIDES), "verdict_ba": words(AGAIN)}, "winner_swapped"),
    "a person beside a verdict": (
        PAIR | {"annotator_id": [f"a{n % 5}" for n in range(N)], "preference": words(SIDES)},
        "person",
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_a_table_leaves_open_is_asked(name):
    columns, entry = ASKED[name]
    table = pd.DataFrame(columns)
    assert entry in [question.entry for question in bl.logs.propose(table).questions]
    with pytest.raises(InputError):
        bl.read_judgements(table)


def test_number_of_annotators_is_no_rating():
    table = pd.DataFrame(SCORED | {"score": FIVE, "annotators": [1 + n % 2 for n in range(N)]})
    assert "ratings" not in bl.logs.propose(table).entries


NOT_JUDGED = {
    "elo": {"model": SYSTEMS[:3], "elo": [1100, 1000, 900], "rank": [1, 2, 3], "votes": [50, 40, 30]},
    "leaderboard": {"name": [f"m{n}" for n in range(N)], "win_rate": range(N), "avg_length": range(1000, 1060)},
    "accuracies": {"judge": SYSTEMS[:3], "accuracy": [0.8, 0.7, 0.6], "kappa": [0.5, 0.4, 0.3]},
    "questions": {"question": QUESTIONS, "answer": ONE},
    "choices": {"question": QUESTIONS, "A": ONE, "B": TWO, "C": ONE, "answer": words(SIDES)},
    "outputs": {"id": range(N), "prompt": QUESTIONS, "output": ONE, "model": SYSTEMS, "tokens": range(N)},
    "costs": {"model": SYSTEMS, "prompt_tokens": range(N), "cost": [n / 100 for n in range(N)]},
    "chosen and rejected": {"prompt": QUESTIONS, "chosen": ONE, "rejected": TWO},
    "sentiment": {"text": ONE, "label": words(SIDES, "positive", "negative")},
}


@pytest.mark.parametrize("name", NOT_JUDGED)
def test_tables_without_judgements_are_refused(name):
    with pytest.raises(InputError):
        bl.read_judgements(pd.DataFrame(NOT_JUDGED[name]))
