"""Logistic regression of verdicts: statsmodels' coefficients, a jackknife that refits, and separation."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

from biaslab.stats import Resampling, logistic_model


def verdicts(contexts=40, each=5, seed=0, slopes=(0.4, 0.8)):
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(contexts), each)
    gap = rng.normal(size=len(context))
    lean = rng.normal(0, 0.5, contexts)[context]
    won = rng.random(len(context)) < expit(slopes[0] + slopes[1] * gap + lean)
    return pd.DataFrame({"context_id": context, "own": 1.0, "gap": gap, "won": won.astype(float)})


def test_coefficients_are_those_of_statsmodels():
    frame = verdicts()
    found = logistic_model(frame, "won", ["gap", "own"], Resampling())
    fit = sm.Logit(frame["won"], frame[["own", "gap"]]).fit(disp=0)
    assert [found[name].estimate for name in ("own", "gap")] == pytest.approx(fit.params.tolist(), abs=1e-6)


def test_standard_errors_are_near_those_of_a_jackknife_that_fits_again():
    frame = verdicts(contexts=60)
    names = ["own", "gap"]
    whole = sm.Logit(frame["won"], frame[names]).fit(disp=0).params
    parts = [frame[frame["context_id"] != one] for one in frame["context_id"].unique()]
    each = np.array([sm.Logit(part["won"], part[names]).fit(disp=0).params - whole for part in parts])
    refitted = np.sqrt((len(parts) - 1) / len(parts) * (each**2).sum(axis=0))
    found = logistic_model(frame, "won", names, Resampling())
    assert [found[name].se for name in names] == pytest.approx(refitted.tolist(), rel=0.02)
    assert found["own"].n_contexts == 60


def test_shares_of_samples_are_as_many_verdicts():
    frame = verdicts(contexts=12, each=4)
    twice = pd.concat([frame, frame.assign(won=1 - frame["won"], gap=frame["gap"] + 1)])
    halves = logistic_model(twice.assign(won=0.5 + (twice["won"] - 0.5) / 2), "won", ["own", "gap"], Resampling())
    found = logistic_model(twice, "won", ["own", "gap"], Resampling())
    assert np.sign(halves["gap"].estimate) == np.sign(found["gap"].estimate)
    assert abs(halves["gap"].estimate) < abs(found["gap"].estimate)


def test_clusters_are_left_out_whole():
    frame = verdicts(contexts=10)
    doubled = pd.concat([frame, frame.assign(context_id=frame["context_id"] + 100)], ignore_index=True)
    clusters = {context + 100: context for context in range(10)}
    one = logistic_model(frame, "won", ["own"], Resampling())["own"]
    two = logistic_model(doubled, "won", ["own"], Resampling(clusters=clusters))["own"]
    assert (two.estimate, two.se, two.n_contexts) == pytest.approx((one.estimate, one.se, 10))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"won": 1.0}, "does not vary"),
        ({"won": np.nan}, "no row is left"),
        ({"context_id": 0}, "one context only"),
    ],
)
def test_undefined_says_why(changes, words):
    found = logistic_model(verdicts(contexts=8).assign(**changes), "won", ["own"], Resampling())["own"]
    assert math.isnan(found.estimate)
    assert words in found.note


def test_terms_that_tell_every_verdict_have_no_finite_log_odds():
    frame = verdicts(contexts=8).assign(won=lambda rows: (rows["gap"] > 0).astype(float))
    found = logistic_model(frame, "won", ["own", "gap"], Resampling())
    assert math.isnan(found["gap"].estimate)
    assert "every verdict" in found["own"].note


def test_what_varies_with_nothing_else_is_given_to_the_first_term():
    """Own text always first: place and writer cannot be told apart."""
    found = logistic_model(verdicts(contexts=8).assign(first=1.0), "won", ["first", "own"], Resampling())
    assert math.isfinite(found["first"].estimate)
    assert "apart from the others" in found["own"].note
