"""Edits given as a table: the formats of CALM and of JudgeBiasBench, and what is wrong with a table."""

import json

import pandas as pd
import pytest

from biaslab.core.errors import InputError
from biaslab.prompts.edits import Edit, find_edit, from_table

CALM = [
    {
        "question": "What fell?",
        "answer1": "Rain fell.",
        "answer2": "Snow fell.",
        "data_resource": "own",
        "answer1_cheerful": "Hooray, rain fell!",
        "answer1_sad": "Alas, rain fell.",
        "answer2_cheerful": "Hooray, snow fell!",
        "answer2_sad": "Alas, snow fell.",
    },
    {
        "question": "And then?",
        "answer1": "12",
        "answer2": "Rain fell.",
        "data_resource": "own",
        "answer1_cheerful": "12\u2028!",
        "answer1_sad": "",
        "answer2_cheerful": "Another hooray, rain fell!",
    },
]
JUDGE_BIAS_BENCH = [
    {
        "question": "What fell?",
        "original_response1": "Rain fell.",
        "original_response2": "Fish fell.",
        "rewritten_response1": "Rain, perhaps.",
        "rewritten_response2": "Experts agree that fish fell.",
        "label": "response1",
    },
    {
        "question": "What else?",
        "original_response1": "Frogs fell.",
        "original_response2": "Hail fell.",
        "rewritten_response1": "Experts agree that frogs fell.",
        "rewritten_response2": "Hail, perhaps.",
        "label": "response2",
    },
]


def write(folder, name, rows):
    path = folder / name
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) if path.suffix == ".jsonl" else f"[{','.join(lines)}]", encoding="utf-8")
    return path


def test_calm_table_is_an_edit(tmp_path):
    path = write(tmp_path, "sentiment_bias.json", CALM)
    cheerful = from_table(path, "cheerful")
    assert isinstance(cheerful, Edit)
    assert cheerful.name == "sentiment_bias_cheerful"
    assert "CALM" in cheerful.source
    assert (cheerful.place, cheerful.quality) == ("text", "left")
    assert cheerful("Snow fell.") == "Hooray, snow fell!"
    assert cheerful("Rain fell.") == "Hooray, rain fell!"  # the first of two rows
    assert cheerful("12") == "12\u2028!"  # a text that looks like a number is a text
    assert cheerful("Hail fell.") == "Hail fell."
    sad = from_table(path, "sad")
    assert sad("Snow fell.") == "Alas, snow fell."
    assert sad("12") == "12"  # its edited text is empty, so there is none


def test_calm_fallacies_lower_the_quality():
    rows = [{"answer1": "Rain fell.", "answer1_fallacy_oversight": "Rain fell, since clouds have vowels."}]
    assert from_table(pd.DataFrame(rows)).quality == "lowered"
    assert from_table(pd.DataFrame(rows), quality="left", name="mine").quality == "left"


def test_judgebiasbench(tmp_path):
    path = write(tmp_path, "authority_bias.jsonl", JUDGE_BIAS_BENCH)
    put_in, taken_out = from_table(path, "rejected"), from_table(path, "chosen")
    assert put_in.name == "authority_bias_rejected"
    assert put_in("Fish fell.") == "Experts agree that fish fell."
    assert put_in("Frogs fell.") == "Experts agree that frogs fell."
    assert taken_out("Rain fell.") == "Rain, perhaps."
    assert taken_out("Hail fell.") == "Hail, perhaps."
    assert put_in("Rain fell.") == "Rain fell."


def test_an_own_table(tmp_path):
    frame = pd.DataFrame({"text": ["1.0", "b"], "edited": ["one", "B"], "kind": ["words", "capitals"]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    assert from_table(tmp_path / "own.csv", "words")("1.0") == "one"
    assert from_table(frame.drop(columns="kind")).name == "table"
    assert find_edit(from_table(frame, "capitals", name="mine")).name == "mine"


def test_invalid_tables_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cheerful.*sad"):
        from_table(pd.DataFrame(CALM))
    with pytest.raises(InputError, match=r"angry.*cheerful"):
        from_table(pd.DataFrame(CALM), "angry")
    with pytest.raises(InputError, match="original_response1"):
        from_table(pd.DataFrame({"question": ["a"], "answer1": ["b"]}))
    with pytest.raises(InputError, match="label"):
        from_table(pd.DataFrame(JUDGE_BIAS_BENCH).assign(label="1"))
    with pytest.raises(InputError, match="differs"):
        from_table(pd.DataFrame({"text": ["a"], "edited": ["a"]}))
    with pytest.raises(InputError, match="a readable file"):
        from_table(tmp_path / "nowhere.json")
    (tmp_path / "broken.json").write_text("[{")
    with pytest.raises(InputError, match="a readable file"):
        from_table(tmp_path / "broken.json")
    (tmp_path / "object.json").write_text('{"text": 1}')
    with pytest.raises(InputError, match="list of objects"):
        from_table(tmp_path / "object.json")
    with pytest.raises(InputError, match=r"\.jsonl"):
        from_table(tmp_path / "table.xlsx")
