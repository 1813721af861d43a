"""Students of several attributes, their scores beside those of the teacher, and curves of fewer annotations."""

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.distill import learning_curve, rated_by, scores_of, students

QUICK = {"epochs": 2, "hidden": (8,), "inputs": "output", "progress": False}


class Longer:
    """Stands for cross-fitted evaluators: longer texts score more."""

    def score(self, texts, sources, references):
        assert len(texts) == len(sources) == len(references)
        return np.array([len(text) for text in texts], float)


@pytest.fixture(scope="module")
def labelled(graded):
    return bl.distill.annotate(bl.SimulatedJudge(graded, noise=1), graded, ["coherence", "fluency"], progress=False)


def test_labels_agree_perfectly_with_their_teacher(graded, labelled):
    rated = {"teacher": rated_by(labelled, graded, "t"), "humans": rated_by(labelled, graded, "h", label=False)}
    found = bl.scoring.agreement(scores_of(labelled, graded), rated, ["dataset"], ["spearman"])
    by = found.set_index(["agreement_with", "attribute"])["estimate"]
    assert by["teacher"].to_numpy() == pytest.approx([1, 1])
    assert (by["humans"] < 1).all()
    assert (by["humans"] > 0.5).all()
    alone = bl.scoring.agreement(scores_of(labelled, graded), rated["humans"], ["dataset"], ["spearman"])
    assert alone["estimate"].to_numpy() == pytest.approx(by["humans"].to_numpy())


def test_evaluators_score_the_texts_of_their_attribute(graded, labelled):
    mixed = labelled.sample(frac=1, random_state=0)
    scores = scores_of(mixed, graded, {"coherence": Longer(), "fluency": Longer()}, "length")
    assert scores["score"].tolist() == [len(text) for text in mixed["text"]]
    assert set(scores["scorer"]) == {"length"}
    with pytest.raises(InputError, match="an evaluator of fluency"):
        scores_of(labelled, graded, {"coherence": Longer()})


def test_ratings_lie_on_the_scale_of_the_data_set(graded, labelled):
    rated = rated_by(labelled.assign(label=1.0), graded, "generous")
    assert set(rated.human["score"]) == {graded.scale[1]}
    assert set(rated.human["annotator"]) == {"generous"}
    assert list(rated.attributes) == ["coherence", "fluency"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* texts are truncated")
def test_each_attribute_has_a_student_with_its_inputs(tiny_encoder, graded, labelled):
    shown = QUICK | {"inputs": {"coherence": "reference-free", "fluency": "output"}}
    taught = students(labelled, folds=50, encoder=str(tiny_encoder), **shown)
    assert {name: each.needs for name, each in taught.items()} == {"coherence": ("source",), "fluency": ()}
    assert len(taught["fluency"].folds) == graded.n_contexts
    with pytest.raises(InputError, match="inputs for fluency"):
        students(labelled, inputs={"coherence": "output"}, progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* texts are truncated")
@pytest.mark.parametrize(("fewer", "counts", "used"), [("texts", [1, 2, 99], [6, 12]), ("sources", [12, 99], [12])])
def test_curves_teach_with_fewer_texts_and_score_all(tiny_encoder, graded, labelled, fewer, counts, used):
    one = labelled[labelled["attribute"] == "fluency"]
    curve = learning_curve(one, graded, counts, fewer, folds=4, encoder=str(tiny_encoder), **QUICK)
    sizes = curve.groupby("annotations", sort=False)["score"].agg(["size", "count"])
    assert sizes.to_numpy().tolist() == [[len(one), len(one)]] * len(used)
    assert sizes.index.tolist() == used
    again = learning_curve(one, graded, counts, fewer, folds=4, encoder=str(tiny_encoder), **QUICK)
    pd.testing.assert_frame_equal(curve, again)


def test_ratings_are_of_the_teacher_and_of_humans_if_known(graded, labelled):
    rated = bl.distill.ratings(labelled, graded, "t")
    assert list(rated) == ["teacher", "reference scores"]
    expected = rated_by(labelled, graded, "reference scores", label=False)
    pd.testing.assert_frame_equal(rated["reference scores"].human, expected.human)
    assert list(bl.distill.ratings(labelled.assign(human=np.nan), graded)) == ["teacher"]
