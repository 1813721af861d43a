"""Several evaluators as one: the weighted sum, its id, and where it may stand in an evaluator's place."""

import numpy as np
import pytest

from biaslab.core import Score
from biaslab.core.errors import InputError
from biaslab.distill import EvaluatorJudge, WeightedEvaluators, cross_fit, train

QUICK = {"epochs": 2, "hidden": (4,), "progress": False}


@pytest.fixture(scope="module")
def evaluators(tiny_encoder, taught):
    options = {"encoder": tiny_encoder, **QUICK}
    return {
        "alone": train(taught, inputs="output", **options),
        "folds": cross_fit(taught, folds=2, inputs="reference-based", seed=1, **options),
    }


def shown(taught):
    return [taught[name].tolist() for name in ("text", "source", "reference")]


def test_scores_are_the_weighted_sum(evaluators, taught):
    both = WeightedEvaluators(evaluators, {"alone": 3.0, "folds": 1.0})
    one, two = (each.score(*shown(taught)) for each in evaluators.values())
    np.testing.assert_allclose(both.score(*shown(taught)), 0.75 * one + 0.25 * two)
    equal = WeightedEvaluators(evaluators)
    np.testing.assert_allclose(equal.score(*shown(taught)), (one + two) / 2)
    assert both.needs == ("source", "reference")
    assert WeightedEvaluators({"alone": evaluators["alone"]}).needs == ()


def test_an_evaluator_without_weight_is_not_asked(evaluators, taught):
    only = WeightedEvaluators(evaluators, {"alone": 1.0, "folds": 0.0})
    assert only.score(taught["text"].tolist()).shape == (len(taught),)  # the other needs a reference


def test_the_id_pins_evaluators_and_weights(evaluators):
    ids = {WeightedEvaluators(evaluators, {"alone": w, "folds": 1.0}).id for w in (1.0, 2.0, 2.0 + 1e-12)}
    assert len(ids) == 3
    assert WeightedEvaluators(evaluators).id == WeightedEvaluators(evaluators, {"alone": 2.0, "folds": 2.0}).id
    swapped = dict(zip(evaluators, reversed(evaluators.values()), strict=True))
    assert WeightedEvaluators(swapped).id != WeightedEvaluators(evaluators).id


def test_weighted_evaluators_serve_as_a_judge(evaluators, taught):
    both = WeightedEvaluators(evaluators)
    judge = EvaluatorJudge(both)
    for attribute in ("", "multiple"):
        requests = [Score(*texts, attribute) for texts in zip(*shown(taught), strict=True)]
        judge.check(requests)
        replies = dict(judge.ask(requests))
        np.testing.assert_allclose([replies[r].score for r in requests], both.score(*shown(taught)))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, -1.0), (0.0, 0.0), (float("nan"), 1.0)])
def test_invalid_weights_are_refused(evaluators, weights):
    weights = dict(zip(evaluators, weights, strict=False))
    with pytest.raises(InputError, match="a non-negative number for each of alone, folds"):
        WeightedEvaluators(evaluators, weights)
    with pytest.raises(InputError, match="at least one"):
        WeightedEvaluators({})
