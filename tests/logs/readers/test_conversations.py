"""Arena tables: the texts of pairs are conversations, whose answers have lengths; what users asked does not count."""

import json

import pytest
from made_logs import ASKED, ONE, SIDES, TWO, readings, rows, said, worth, written

import biaslab as bl
from biaslab.logs.readers import read_judgements
from biaslab.logs.readers.conversations import answered


def messages(n, text):
    return [{"role": "user", "content": ASKED[n]}, {"role": "assistant", "content": text}]


def parts(n, text):
    return [
        {"role": turn["role"], "content": [{"type": "text", "text": turn["content"]}]} for turn in messages(n, text)
    ]


#: How conversations are written, and what is the layout of the file.
WRITTEN = {
    "objects": ("jsonl", messages),
    "parts": ("jsonl", parts),
    "JSON in a cell": ("csv", lambda n, text: json.dumps(messages(n, text))),
    "Python in a cell": ("csv", lambda n, text: str(messages(n, text))),
    "from and value": ("jsonl", lambda n, text: [{"from": "human", "value": ASKED[n]}, {"from": "gpt", "value": text}]),
}


def battle(n, form):
    words = said("model_a", "model_b", "tie (bothbad)")
    return {"question_id": f"q{n}", "model_a": "x", "model_b": "y", "winner": words[n], "turn": 1,
            "conversation_a": form(n, ONE[n]), "conversation_b": form(n, TWO[n]), "tstamp": 1e9 + n}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_lengths_of_an_arena_table_are_those_of_its_answers(name, tmp_path):
    layout, form = WRITTEN[name]
    trials = read_judgements(written(tmp_path, rows(lambda n: battle(n, form)), layout))
    assert trials["value"].tolist() == worth()
    assert trials["words"].tolist() == [len(text.split()) for text in ONE]
    assert trials["opponent_words"].tolist() == [len(text.split()) for text in TWO]


def test_the_line_that_is_offered_has_the_texts(tmp_path):
    records = rows(lambda n: battle(n, messages) | {"judge_verdict": said("A", "B", sides=SIDES)[n]})
    trials, alone = readings(written(tmp_path, records, "jsonl"))
    assert not alone
    assert all(each["words"].tolist() == [len(text.split()) for text in ONE] for each in trials)
    assert "longer_wins_at_equal_gold" in set(bl.audit(trials[0], only=["pair_length"])["metric"])


def test_people_of_an_arena_are_judges_or_one(tmp_path):
    records = rows(lambda n: battle(n, messages) | {"judge": f"arena_user_{n % 30}"})
    trials, alone = readings(written(tmp_path, records, "jsonl"))
    assert not alone
    assert [each["judge"].nunique() for each in trials] == [30, 1]


@pytest.mark.parametrize("value", ["[{not a list}]", '["a", 1]', [1, 2], [], None, "", "[]", [{"role": "user"}], 3])
def test_other_values_than_conversations_are_unchanged(value):
    assert answered(value) == value
