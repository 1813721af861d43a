"""Trials of any scorer, probe or log become texts with labels from 0 to 1."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import TrialsError
from biaslab.core.scales import whole_numbers
from biaslab.distill import Stars, examples


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=3)


@pytest.fixture(scope="module")
def judge(data):
    return bl.SimulatedJudge(data, noise=0.5)


def test_labels_are_scores_on_0_to_1(data, judge):
    trials = bl.collect(Stars(aspects=["coherence"]), judge, data, progress=False)
    found = examples(trials, data)
    assert found["label"].to_numpy() == pytest.approx((trials["value"].to_numpy() - 1) / 4)
    assert found[["context_id", "candidate_id"]].equals(trials[["context_id", "candidate_id"]])
    items = data.candidates.set_index(["context_id", "candidate_id"])
    for row in found.itertuples():
        item = items.loc[(row.context_id, row.candidate_id)]
        assert (row.text, row.source, row.reference) == (item["text"], item["context"], item["reference"])
        assert row.human == data.human_means["coherence"][row.context_id, row.candidate_id]


@pytest.mark.parametrize(
    "design",
    [
        Stars(aspects=["fluency"], scale="0-100"),
        bl.scoring.GEval(["fluency"]),
        bl.scoring.PromptScoring(["fluency"]),
        bl.probes.Familiarity(["fluency"]),
        bl.scoring.Rating(["fluency"], answer="text", replicates=3, temperature=1.0),
    ],
    ids=lambda design: design.name,
)
def test_examples_come_from_any_scorer(design, data, judge):
    found = examples(bl.collect(design, judge, data, progress=False), data)
    assert len(found) == len(data.candidates)
    assert found["label"].between(0, 1).all()
    assert found["label"].nunique() > 3


@pytest.mark.slow
@given(st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0, np.nan]), min_size=1, max_size=5))
def test_label_is_the_mean_of_readable_replicates(data, values):
    row = data.candidates.iloc[0]
    about = {"judge": "j", "dataset": data.name, "attribute": "fluency", "scale": "1-5"}
    trials = pd.DataFrame(
        [
            {**about, "context_id": row.context_id, "candidate_id": row.candidate_id, "replicate": i, "value": v,
             "status": "ok" if v == v else "refused"}
            for i, v in enumerate(values)
        ]
    )  # fmt: skip
    found = examples(trials, data)
    kept = [v for v in values if v == v]
    assert found["label"].tolist() == pytest.approx([(np.mean(kept) - 1) / 4] if kept else [])


def test_an_attribute_that_humans_did_not_judge(data, judge):
    found = examples(bl.collect(Stars(aspects=["multiple"]), judge, data, progress=False), data)
    assert found["human"].isna().all()
    assert set(found["attribute"]) == {"multiple"}


def test_two_conditions_are_no_labels(data, judge):
    trials = bl.collect(bl.probes.Source(["fluency"]), judge, data, progress=False)
    with pytest.raises(TrialsError, match="select one first"):
        examples(trials, data)
    assert len(examples(trials[trials["source"] == "with"], data)) == len(data.candidates)


def test_two_judges_are_no_teacher(data, judge):
    trials = bl.collect(Stars(aspects=["fluency"]), judge, data, progress=False)
    with pytest.raises(TrialsError, match="scores of one judge"):
        examples(pd.concat([trials, trials.assign(judge="other")]), data)


def test_missing_scale_and_candidates_are_named(data, judge):
    trials = bl.collect(Stars(aspects=["fluency"]), judge, data, progress=False)
    with pytest.raises(TrialsError, match="scale"):
        examples(trials.drop(columns="scale"), data)
    assert len(examples(trials.drop(columns="scale"), data, whole_numbers(1, 5)))
    with pytest.raises(TrialsError, match="candidates of the data set"):
        examples(trials.assign(candidate_id=trials["candidate_id"] + "?"), data)
    with pytest.raises(TrialsError, match="no scores of this data set"):
        examples(trials.assign(dataset="other"), data)


@pytest.mark.slow
def test_recorded_scores_of_gpt_4(shared_data):
    data = bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz")
    trials = bl.read_judgements(shared_data / "recorded" / "summeval_judges" / "judge_scores.jsonl.gz")
    found = examples(trials[trials["judge"].str.contains("gpt-4")], data)
    assert found.groupby("attribute").size().to_dict() == {"coherence": 1200, "consistency": 1198}
    assert sorted(found.loc[found["attribute"] == "consistency", "label"].unique())[0] == 0
    assert found["human"].between(1, 5).all()
