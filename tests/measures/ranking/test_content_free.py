"""The content-free prior: log odds of pairs of the same, and position bias before and after it is taken out."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.measures.ranking import comparisons_of, content_free, dark_log_odds, debias


def same(p, **more):
    """Pairs of the same, a context each."""
    rows = {"context_id": range(len(p)), "candidate_id": "x", "opponent_id": "x", "value": p, "status": "ok"}
    return pd.DataFrame(rows).assign(**more)


def test_exact_log_odds_are_averaged():
    found = dark_log_odds(same(expit([0.5, 1.0, 1.5, 1.0, 0.8, 1.2])))
    assert found.estimate == pytest.approx(1.0)
    assert found.ci_low < 1.0 < found.ci_high
    assert found.p_value < 0.05


def test_verdicts_have_the_log_odds_of_their_share():
    assert dark_log_odds(same([1.0] * 9 + [0.0] * 3)).estimate == pytest.approx(math.log(3))
    assert content_free(same([1.0] * 9 + [0.0] * 3)).alpha == pytest.approx(1 / 3)
    assert dark_log_odds(same([0.6, 0.9], samples=5.0)).estimate == pytest.approx(math.log(3))


def test_refused_verdicts_are_excluded():
    trials = same(expit([1.0, 1.0, 5.0])).assign(status=["ok", "ok", "refused"])
    assert dark_log_odds(trials).estimate == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        (same([0.8, 0.7], attribute=["a", "b"]), "attribute is 'a, b', allowed: one attribute"),
        (same([0.8, 0.7], nothing=["empty", "identical"]), "select the rows of one"),
        (same([1.0, 1.0, 1.0]), "does not vary"),
        (same([0.5]).iloc[:0], "no identical pair"),
    ],
)
def test_no_prior_without_a_reason(trials, words):
    with pytest.raises(InputError, match=words):
        content_free(trials)


def rate_and_accuracy(comparisons, human):
    """P(A) of exact decisions, and how often the better one wins."""
    decided = comparisons.p != 0.5
    gap = human[comparisons.first] - human[comparisons.second]
    first = comparisons.p > 0.5
    right = first[decided & (gap != 0)] == (gap[decided & (gap != 0)] > 0)
    return first[decided].mean(), right.mean()


@pytest.mark.parametrize("position", [1.5, -1.0])
def test_content_free_prior_debiases_one_order_designs(position):
    """Half the price of asking both orders: the prior is fitted on prompts that hold no pair that is judged."""
    data = bl.load_dataset("graded", limit=24)
    judge = bl.SimulatedJudge(data, quality=0.5, position=position, noise=0.5)
    vacuum = bl.probes.Vacuum(["coherence"], nothing=["identical"], asks=["pairs"], n_candidates=3)
    prior = content_free(bl.collect(vacuum, judge, data, progress=False))
    assert prior.log_alpha == pytest.approx(-position, abs=0.25)
    trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, progress=False)
    one = trials[trials["candidate_id"] < trials["opponent_id"]]
    comparisons = comparisons_of(one)
    keys = zip(comparisons.context_id, comparisons.candidate_id, strict=True)
    human = np.array([data.human_means["coherence"][key] for key in keys])
    (before, worse), (after, better) = (
        rate_and_accuracy(found, human) for found in (comparisons, debias(comparisons, prior))
    )
    assert abs(before - 0.5) > 0.2
    assert abs(after - 0.5) < 0.06
    assert better > worse


def test_a_remedy_that_was_fitted_elsewhere_needs_no_folds():
    """A single context has nothing else to fit on, and the prior does not need it."""
    data = bl.load_dataset("graded", limit=1)
    judge = bl.SimulatedJudge(data, position=1.3)
    comparisons = comparisons_of(bl.collect(bl.probes.Position(["fluency"], [1]), judge, data, progress=False))
    assert len(debias(comparisons, "threshold")) == 0
    found = debias(comparisons, bl.ranking.Reweighting(-1.3))
    assert len(found) == len(comparisons)
    twins = found.p[found.twins]
    assert found.p + twins == pytest.approx(np.ones(len(found)))
