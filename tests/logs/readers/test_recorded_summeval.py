"""A teacher's recorded scores beside the experts' of the same texts, wherever below a folder both lie."""

import json

import pytest

from biaslab.distill import examples
from biaslab.logs.readers.recorded_summeval import find_summeval, recorded_scores

TEXTS = {"M1": "The bridge was repaired.", "M2": "Repair bridge the town council."}
SCORES = {"coherence": 5, "consistency": 4, "fluency": 3, "relevance": 2}


@pytest.fixture
def folder(tmp_path):
    ratings = [SCORES, {name: score - 1 for name, score in SCORES.items()}]
    lines = [
        {"id": f"d{i}", "model_id": name, "decoded": text, "text": f"Source {i}.", "references": ["A reference."],
         "expert_annotations": ratings, "turker_annotations": []}
        for i in range(2) for name, text in TEXTS.items()
    ]  # fmt: skip
    replies = [
        {"judge": judge, "system": name, "aspect": "coherence", "mode": mode, "id": f"d{i}", "resp": f"Score: {score}"}
        for judge, mode, score in (("gpt-4-0314", "rts", 4), ("gpt-4-0314", "mcq", 1), ("another", "rts", 2))
        for i in range(2)
        for name in TEXTS
    ]
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name, rows in (("model_annotations.aligned.jsonl", lines), ("judge_scores.jsonl", replies)):
        (tmp_path / "a" / "b" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a" / "annotations.jsonl").write_text("of something else\n")
    return tmp_path


def test_one_judge_and_configuration_beside_the_experts(folder):
    data = find_summeval(folder)
    assert (data.n_contexts, len(data.candidates)) == (2, 4)
    assert find_summeval(folder, 1).n_contexts == 1
    trials = recorded_scores(folder, data, "gpt-4-0314", "coherence")
    assert trials["value"].tolist() == [4.0] * 4
    assert trials["human"].tolist() == [4.5] * 4
    assert sorted(trials["words"]) == [4.0, 4.0, 5.0, 5.0]
    assert len(examples(trials, data)) == 4
    assert len(recorded_scores(folder, find_summeval(folder, 1), "gpt-4-0314", "coherence")) == 2


def test_missing_recordings_are_none(folder, tmp_path):
    data = find_summeval(folder)
    assert recorded_scores(folder, data, "nobody", "coherence") is None
    assert recorded_scores(tmp_path / "nowhere", data, "gpt-4-0314", "coherence") is None
    assert find_summeval(tmp_path / "nowhere") is None
    assert find_summeval(None) is None
    assert recorded_scores(None, data, "gpt-4-0314", "coherence") is None
