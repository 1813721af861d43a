"""Labels from 0 to 1 by whoever judges: a judge that is prompted, or an evaluator."""

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core import Reply, Score
from biaslab.core.errors import InputError
from biaslab.datasets import wmt
from biaslab.distill import annotate, examples
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
