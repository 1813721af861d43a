"""People's scores of a data set join a log by context, candidate and attribute."""

import json

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.core.schema import count_words
from biaslab.logs.readers.human_scores import find_summeval, recorded_scores, with_humans


@pytest.fixture
def data():
    return bl.load_dataset("graded", limit=2)


def means(data, rows, candidate="candidate_id"):
    keys = zip(rows["context_id"], rows["attribute"], rows[candidate], strict=True)
    by_item = data.human.groupby(["context_id", "attribute", "candidate_id"])["score"].mean()
    return np.array([by_item[key] for key in keys])


def test_scores_get_the_mean_the_ratings_and_the_words(data):
    log = data.candidates[["context_id", "candidate_id"]].assign(attribute="fluency", score=3, scale="1-5", judge="j")
    joined = with_humans(bl.read_judgements(log), data)
    np.testing.assert_allclose(joined["human"], means(data, joined))
    assert set(joined["human_scale"]) == {"1-5"}
    assert joined["words"].tolist() == data.candidates["text"].map(count_words).tolist()
    assert joined["ratings"].astype(float).tolist() == joined["human"].tolist()
    assert set(joined["annotators"]) == set(data.human["annotator"])


def test_pairs_get_the_difference_of_the_means(data):
    names = data.candidates["candidate_id"].iloc[:2].tolist()
    context = data.candidates["context_id"].iloc[0]
    log = {"context_id": context, "candidate_id": names, "opponent_id": names[::-1], "attribute": "coherence"}
    joined = with_humans(bl.read_judgements(pd.DataFrame(log | {"winner": ["first", "second"], "judge": "j"})), data)
    expected = means(data, joined) - means(data, joined, "opponent_id")
    assert joined["human_gap"].tolist() == expected.tolist()
    assert joined["human"].isna().all()


def test_a_log_of_other_texts_is_refused(data):
    log = {"context_id": ["q"], "candidate_id": ["x"], "attribute": ["fluency"], "score": [3], "scale": ["1-5"]}
    with pytest.raises(InputError, match="graded"):
        with_humans(bl.read_judgements(pd.DataFrame(log)), data)


def test_recorded_scores_are_found_in_a_folder(data, tmp_path):
    lines = [
        {"judge": "gpt", "system": name, "aspect": "fluency", "mode": "rts", "id": context, "resp": "Score: 4"}
        for context, name in data.candidates[["context_id", "candidate_id"]].to_numpy()
    ]
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "judge_scores.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = recorded_scores(tmp_path, data, "gpt", "fluency")
    assert (found["value"] == 4).all()
    assert found["human"].tolist() == means(data, found).tolist()
    assert recorded_scores(tmp_path, data, "gpt", ["fluency", "coherence"]) is None


def test_a_file_of_something_else_is_not_summeval(tmp_path):
    (tmp_path / "model_annotations.jsonl").write_text('{"question": "why"}\n')
    assert find_summeval(tmp_path) is None
