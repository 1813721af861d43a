"""EvalBiasBench: the published file, small ones in its layout, and accuracy by kind with its interval."""

import gzip
import json

import pytest

import biaslab as bl
from biaslab.core.errors import DatasetError, InputError
from biaslab.datasets import evalbiasbench

KINDS = {
    "length": 17,
    "concreteness": 14,
    "empty reference": 13,
    "content continuation": 12,
    "nested instruction": 12,
    "familiar knowledge": 12,
}


@pytest.fixture(scope="module")
def published(shared_data):
    return shared_data / "evalbiasbench" / "biasbench.json.gz"


def written(folder, **kinds):
    file = folder / "biasbench.json.gz"
    file.write_bytes(gzip.compress(json.dumps(kinds).encode()))
    return file


def record(**changes):
    return {"instruction": "Add.", "response1": "It is 4.", "response2": "It is 5, I am sure.", "label": 1} | changes


def by_kind(trials):
    return trials.assign(subset=trials["context_id"].str.partition("/")[0])


def test_eighty_pairs_in_six_kinds(published):
    data = bl.load_dataset("evalbiasbench", path=published)
    assert (data.n_contexts, len(data.candidates), data.noun) == (80, 160, "response")
    kinds = data.candidates.drop_duplicates("context_id")["context_id"].str.partition("/")[0]
    assert kinds.value_counts().to_dict() == KINDS
    assert data.human_means["overall"].groupby("candidate_id").agg(["min", "max"]).to_numpy().tolist() == [
        [0, 0],
        [1, 1],
    ]
    assert "BSD-3" in data.provenance


def test_the_label_says_which_response_is_good(tmp_path):
    file = written(tmp_path, length_bias=[record(), record(label=2)])
    data = bl.load_dataset("evalbiasbench", path=file)
    texts = data.candidates.set_index(["context_id", "candidate_id"])["text"]
    assert texts["length/01", "good"] == texts["length/02", "bad"] == "It is 4."
    assert texts["length/02", "good"] == "It is 5, I am sure."


def test_some_kinds(tmp_path):
    file = written(tmp_path, length_bias=[record()], nested_instruction=[record(), record()])
    assert bl.load_dataset("evalbiasbench?kinds=nested instruction", path=file).n_contexts == 2
    with pytest.raises(InputError, match="length, nested instruction"):
        evalbiasbench.load(file, kinds=["lenght"])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": [record(label=3)]}, r"a, row 1, column 'label'.*1 or 2"),
        ({"a": [record(label="1")]}, "type int"),
        ({"a": [record(response2=None)]}, "'response2'"),
        ({"a": "text"}, "a list of records"),
        ({"a": [4]}, "a JSON object"),
        ([record()], "an object with one list per kind of bias"),
    ],
)
def test_damaged_files_say_where(tmp_path, document, words):
    file = tmp_path / "biasbench.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DatasetError, match=words):
        evalbiasbench.load(file)


def test_missing_path_is_refused():
    with pytest.raises(InputError, match="ncsoft/offsetbias"):
        bl.load_dataset("evalbiasbench")


def test_accuracy_by_kind_of_a_simulated_judge(published):
    """Where the good response is worth a logit, decisions go its way as often as the normal noise has it."""
    data = bl.load_dataset("evalbiasbench", path=published)
    judge = bl.SimulatedJudge(data, quality=1.0, noise=1.0)
    trials = bl.collect(bl.probes.Position(templates=[1]), judge, data, progress=False)
    found = bl.audit(by_kind(trials), only=["subsets"])
    accuracy = found[found["metric"] == "comparative_accuracy"].set_index("subset")
    assert accuracy["n_contexts"].to_dict() == KINDS
    assert (accuracy["n_trials"] == 2 * accuracy["n_contexts"]).all()
    covered = (accuracy["ci_low"] < 0.841) & (accuracy["ci_high"] > 0.841)
    assert covered.sum() >= 5
    for kind, part in by_kind(trials).groupby("subset"):
        right = (part["value"] > 0.5) == (part["human_gap"] > 0)
        assert accuracy.loc[kind, "estimate"] == pytest.approx(right.mean())


@pytest.mark.slow
def test_accuracy_of_the_embedded_judge(published):
    """It decides for what stands first; what both orders have in common falls for the longer, bad response."""
    data = bl.load_dataset("evalbiasbench", path=published, kinds=["length", "familiar knowledge"])
    probe = bl.probes.Position(templates=[1], attributes=["overall"])
    trials = bl.collect(probe, bl.load_judge("smollm2-135m"), data, progress=False)
    found = bl.audit(by_kind(trials), only=["subsets"])
    accuracy = found[found["metric"] == "comparative_accuracy"]
    assert accuracy["n_contexts"].tolist() == [17, 12]
    assert accuracy["estimate"].tolist() == [0.5, 0.5]
    length = trials[trials["context_id"].str.startswith("length/")]
    table = bl.ranking.compare_remedies(length, data.human_means, remedies=["swap-average"], orders=["both"])
    averaged = table[(table["metric"] == "comparative_accuracy") & (table["against"] == "")]
    assert averaged["ci_high"].item() < 0.4
