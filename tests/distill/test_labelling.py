"""Labels from 0 to 1 by whoever judges: a judge that is prompted, or an evaluator."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import Choice, Completion, Reply, Score
from biaslab.core.errors import InputError, TrialsError
from biaslab.core.scales import whole_numbers
from biaslab.datasets import wmt
from biaslab.distill import Aspect, annotate, aspects_of, examples, find_aspect
from biaslab.distill.annotation import Stars


class Lengths:
    """An evaluator whose scores leave the range from 0 to 1."""

    id, kinds = "lengths", frozenset({Score})

    def check(self, requests):
        assert all(request.attribute in ("multiple", "coherence") for request in requests)

    def ask(self, requests):
        for request in requests:
            yield request, Reply(score=(len(request.text.split()) - 50) / 20 + 10 * bool(request.reference))


def test_a_judge_is_asked_for_stars(graded):
    judge = bl.SimulatedJudge(graded)
    found = annotate(judge, graded, ["coherence"], reference=True, seed=1, progress=False)
    stars = Stars(aspects=["coherence"], reference=True, seed=1)
    pd.testing.assert_frame_equal(found, examples(bl.collect(stars, judge, graded, progress=False), graded))
    finer = annotate(judge, graded, ["coherence"], scale="0-100", progress=False)
    assert finer["label"].corr(found["label"]) > 0.9
    assert set(annotate(judge, graded, progress=False)["attribute"]) == set(graded.attributes)


def test_an_evaluator_is_asked_for_its_score(graded):
    found = annotate(Lengths(), graded, ["coherence"], progress=False)
    words = graded.candidates["text"].str.split().str.len()
    np.testing.assert_allclose(found["label"], ((words - 50) / 20).clip(0, 1))
    assert 0 < (found["label"] == 1).sum() < len(found)
    assert (annotate(Lengths(), graded, ["coherence"], reference=True, progress=False)["label"] == 1).all()


def test_attribute_may_take_the_name_of_the_data_set(graded):
    found = annotate(Lengths(), graded, ["multiple"], attributes=["relevance"], progress=False)
    assert set(found["attribute"]) == {"relevance"}
    assert found["human"].tolist() == graded.human_means["relevance"].tolist()
    with pytest.raises(InputError, match="a distinct name for each of multiple, coherence"):
        annotate(Lengths(), graded, ["multiple", "coherence"], attributes=["relevance"], progress=False)


def test_translations_are_judged_for_their_quality(tmp_path):
    """The multi-aspect prompt of translations names none of the data set's attributes: it is about all of them."""
    rows = [("en-de", f"Text {n}.", f"Satz {k}, {n}.", f"Satz {n}.", -k, f"S{k}") for n in range(4) for k in range(5)]
    pd.DataFrame(rows, columns=list(wmt.COLUMNS)).to_csv(tmp_path / "mqm.csv", index=False)
    data = bl.load_dataset("wmt", path=tmp_path / "mqm.csv")
    judge = bl.SimulatedJudge(data, quality=1.0)
    found = annotate(judge, data, ["multiple"], task="translation", attributes=["quality"], progress=False)
    assert found.groupby("human")["label"].mean().is_monotonic_increasing
    parts = annotate(judge, data, ["accuracy", "style"], task="translation", progress=False)
    for _, part in parts.groupby("attribute"):  # an aspect of what the data set rates as a whole
        assert part["label"].to_numpy() == pytest.approx(found["label"].to_numpy())
    judged = found.rename(columns={"label": "score"}).assign(scorer="stars", judge="judge", dataset=data.name)
    accuracy = bl.scoring.system_accuracy(judged, data)
    assert accuracy["estimate"].tolist() == [1.0]


TASKS = {"translation": 4, "style-transfer": 3, "summarization": 4}


@pytest.mark.parametrize("task", TASKS)
def test_aspects_are_those_of_the_tables(task):
    found = aspects_of(task)
    assert found[0].name == "multiple"
    assert len(found) == TASKS[task] + 1
    assert all(a.worst and a.perfect and a.definition.endswith(".") for a in found)


def test_aspects_in_the_words_of_the_paper(shared_data):
    [paper] = (shared_data.parent / "papers").glob("003*.txt")
    text = paper.read_text(encoding="utf-8")
    for task in TASKS:
        for aspect in aspects_of(task):
            for words in (aspect.worst, aspect.perfect, aspect.definition):
                assert words in text, words


def test_an_aspect_by_name():
    assert find_aspect("translation", "accuracy").perfect == "perfect accuracy"
    with pytest.raises(InputError, match="multiple, coherence, consistency"):
        find_aspect("summarization", "style")
    with pytest.raises(InputError, match="translation, style-transfer"):
        find_aspect("poetry", "style")


def test_every_candidate_is_asked_about_every_single_aspect(graded):
    trials = list(Stars().design(graded))
    assert len(trials) == 4 * len(graded.candidates)
    assert {t.attribute for t in trials} == {"coherence", "consistency", "relevance", "fluency"}
    assert all(isinstance(t.request, Choice) and t.request.labels == tuple("12345") for t in trials)


def test_prompt_defines_the_stars_after_reference_and_text(graded):
    trial = next(iter(Stars(aspects=["coherence"], reference=True).design(graded)))
    text, row = trial.request.messages[0].content, graded.candidates.iloc[0]
    parts = [row.context, row.reference, row.text, "one star means", "incoherence", "perfect coherence"]
    assert all(part in text for part in parts)
    places = [text.index(f"\n\n{word}: ") for word in ("Reference", "Summary")]
    assert 0 < places[0] < places[1] < text.index("Score the summary with respect to its source and the reference")
    bare = next(iter(Stars(aspects=["coherence"], source=False).design(graded))).request.messages[0].content
    assert row.context not in bare
    assert "Reference" not in bare
    assert "with respect to" not in bare


def test_from_0_to_100(graded):
    stars = Stars(aspects=["fluency"], scale="0-100", answer="text", temperature=1.0)
    trial = next(iter(stars.design(graded)))
    assert isinstance(trial.request, Completion)
    assert "continuous scale from 0 to 100" in trial.request.messages[0].content
    found = bl.collect(stars, bl.SimulatedJudge(graded), graded, progress=False)
    assert found["value"].max() > 5
    assert (found["status"] == "ok").all()
    exact = bl.collect(Stars(aspects=["fluency"], scale="0-100"), bl.SimulatedJudge(graded), graded, progress=False)
    assert exact["value"].between(0, 100).all()


def test_the_multiple_aspect_has_no_human_score(graded):
    stars = Stars(aspects=["multiple", "fluency"])
    trials = list(stars.design(graded))
    [whole, fluency] = trials[:2]
    assert "the meaning aspect measures" in whole.request.messages[0].content
    assert whole.condition["human"] != whole.condition["human"]
    assert fluency.condition["human"] == fluency.condition["human"]


def test_custom_aspect_enters_the_prompt(graded):
    own = Aspect("summarization", "wit", "dull", "witty", "the wit measures how witty the summary is.")
    prompt = next(iter(Stars(aspects=[own]).design(graded))).request.messages[0].content
    assert re.search(r'one star means "dull" and five stars mean "witty"', prompt)


@pytest.mark.parametrize(
    "bad",
    [
        {"task": "poetry"},
        {"aspects": ["style"]},
        {"aspects": "fluency"},
        {"aspects": []},
        {"scale": "1-5"},
        {"answer": "score"},
        {"replicates": 2},
    ],
)
def test_invalid_settings_are_refused(bad):
    with pytest.raises(InputError):
        Stars(**bad)


def test_a_reference_that_is_missing(graded):
    blank = bl.Dataset("x", graded.candidates.assign(reference=""), graded.human, graded.attributes)
    with pytest.raises(InputError, match="has no reference"):
        next(iter(Stars(reference=True).design(blank)))


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
    with pytest.raises(TrialsError, match="several scores of"):
        examples(trials, data)
    assert len(examples(trials[trials["source"] == "with"], data)) == len(data.candidates)


def test_two_judges_are_no_teacher(data, judge):
    trials = bl.collect(Stars(aspects=["fluency"]), judge, data, progress=False)
    with pytest.raises(TrialsError, match="scores of several judges"):
        examples(pd.concat([trials, trials.assign(judge="other")]), data)


def test_missing_scale_and_candidates_are_named(data, judge):
    trials = bl.collect(Stars(aspects=["fluency"]), judge, data, progress=False)
    with pytest.raises(TrialsError, match="scale"):
        examples(trials.drop(columns="scale"), data)
    assert len(examples(trials.drop(columns="scale"), data, whole_numbers(1, 5)))
    with pytest.raises(TrialsError, match="candidates of the data set"):
        examples(trials.assign(candidate_id=trials["candidate_id"] + "?"), data)
    with pytest.raises(TrialsError, match="no scores of candidates"):
        examples(trials.assign(dataset="other"), data)


@pytest.mark.slow
def test_recorded_scores_of_gpt_4(shared_data):
    data = bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz")
    trials = bl.read_judgements(shared_data / "recorded" / "summeval_judges" / "judge_scores.jsonl.gz")
    found = examples(trials[trials["judge"].str.contains("gpt-4")], data)
    assert found.groupby("attribute").size().to_dict() == {"coherence": 1200, "consistency": 1198}
    assert sorted(found.loc[found["attribute"] == "consistency", "label"].unique())[0] == 0
    assert found["human"].between(1, 5).all()
