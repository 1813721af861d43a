"""Logistic regression of verdicts: statsmodels' coefficients, a jackknife that refits, and separation."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

from biaslab.stats import Resampling, log_odds_at_equal, logistic_model


def verdicts(contexts=40, each=5, seed=0, slopes=(0.4, 0.8)):
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(contexts), each)
    gap = rng.normal(size=len(context))
    lean = rng.normal(0, 0.5, contexts)[context]
    won = rng.random(len(context)) < expit(slopes[0] + slopes[1] * gap + lean)
    return pd.DataFrame({"context_id": context, "own": 1.0, "gap": gap, "won": won.astype(float)})


def test_logistic_coefficients_are_those_of_statsmodels():
    frame = verdicts()
    found = logistic_model(frame, "won", ["gap", "own"], Resampling())
    fit = sm.Logit(frame["won"], frame[["own", "gap"]]).fit(disp=0)
    assert [found[name].estimate for name in ("own", "gap")] == pytest.approx(fit.params.tolist(), abs=1e-6)


def test_standard_errors_are_near_a_refitted_jackknife():
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


def test_duplicated_contexts_in_one_cluster_change_nothing():
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
        ({"won": np.nan}, "no rows left"),
        ({"context_id": 0}, "only one context"),
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


def test_collinear_term_is_undefined_after_the_first():
    """Own text always first: place and writer cannot be told apart."""
    found = logistic_model(verdicts(contexts=8).assign(first=1.0), "won", ["first", "own"], Resampling())
    assert math.isfinite(found["first"].estimate)
    assert "collinear with the others" in found["own"].note


def rated_verdicts(contexts, seed, better=1.0, bias=0.0, error=1.4, annotators=3):
    """Verdicts on two pairs of each context, of an own text that is better, by a judge that sees the true quality."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(2 * contexts, 2)) + np.array([better, 0.0])
    given = quality[..., None] + error * rng.normal(size=(2 * contexts, 2, annotators))
    won = rng.random(2 * contexts) < expit(quality[:, 0] - quality[:, 1] + bias)
    human = given.mean(axis=2)
    frame = pd.DataFrame({"context_id": np.repeat(np.arange(contexts), 2), "won": won * 1.0, "own": 1.0})
    frame = frame.assign(human=human[:, 0] - human[:, 1], first=np.tile([1.0, -1.0], contexts))
    sides = pd.DataFrame({"context_id": np.tile(frame.index, 2), "human": human.T.ravel()})
    return (
        frame,
        sides.assign(
            ratings=[" ".join(map(repr, row)) for row in given.transpose(1, 0, 2).reshape(-1, annotators).tolist()]
        ),
        given,
    )


def test_verdicts_at_equal_score_are_calibrated_by_hand():
    """The best linear prediction of the true difference, of statsmodels' logit; and what is left of it given back."""
    frame, sides, given = rated_verdicts(400, 1, bias=0.5)
    found = log_odds_at_equal(frame, "won", ["first", "own"], sides, Resampling())(0.0)
    apart = given[:, 0] - given[:, 1]
    cross = (apart.sum(axis=1) ** 2 - (apart**2).sum(axis=1)) / 6
    error = (frame["human"] ** 2 - cross).sum() * (1 - 1 / 400)  # Fuller's term
    x = frame[["first", "own", "human"]].to_numpy()
    predicted = np.linalg.solve(x.T @ x, x.T @ frame["human"] - [0, 0, error])
    calibrated = frame.assign(human=x @ predicted)
    fit = sm.Logit(frame["won"], calibrated[["first", "own", "human"]]).fit(disp=0).params
    left = predicted[2] * error / len(frame)
    factor = 1 / math.sqrt(1 - (16 * math.sqrt(3) / (15 * math.pi)) ** 2 * fit["human"] ** 2 * left)
    assert found.estimate == pytest.approx(fit["own"] * factor, rel=1e-6)
    assert abs(found.estimate - 0.5) < 3 * found.se
    assert found.n_contexts == 400


def test_log_odds_without_ratings_equal_the_plain_model():
    frame, sides, _ = rated_verdicts(60, 2)
    plain = logistic_model(frame, "won", ["first", "human", "own"], Resampling())["own"]
    at = log_odds_at_equal(frame, "won", ["first", "own"], sides.drop(columns="ratings"), Resampling())
    for name in ("estimate", "se", "ci_low", "p_value", "n_contexts"):
        assert getattr(at(0.0), name) == pytest.approx(getattr(plain, name), rel=1e-6)
    assert at(0.4).estimate < plain.estimate - 0.1, "own texts are better: what humans miss of that was taken for bias"
    assert "reliability 0.20" in at(0.8).note


@pytest.mark.slow
def test_verdicts_fair_to_quality_are_rarely_found_biased():
    """Reliability .6 and own texts better by one SD: the plain model rejects .4 of these studies."""
    corrected, plain = [], []
    for seed in range(60):
        frame, sides, _ = rated_verdicts(60, seed, error=math.sqrt(2))
        corrected.append(log_odds_at_equal(frame, "won", ["own"], sides, Resampling())(0.0))
        plain.append(logistic_model(frame, "won", ["human", "own"], Resampling())["own"])
    assert np.mean([one.p_value < 0.05 for one in corrected]) <= 0.1
    assert np.mean([one.p_value < 0.05 for one in plain]) >= 0.15
    assert abs(np.median([one.estimate for one in corrected])) < 0.12 < np.median([one.estimate for one in plain])
