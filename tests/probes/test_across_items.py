"""Biases at equal human score where each context has one candidate: items are compared across contexts."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from studies import row_of

import biaslab as bl
from biaslab.stats.reliability import depends_on_reliability
from biaslab.study.pilot import spread_of

FAST = bl.Resampling(n=100)
COLUMNS = {"probe": "verbosity", "judge": "j", "dataset": "d", "attribute": "a", "status": "ok", "label_mass": np.nan}


def answers(contexts=200, bias=0.0, reliability=1.0, r=0.0, ratings=1, binary=False, per=1, seed=0):
    """Return scores of a judge that adds `bias` standard deviations per doubling of words; quality is r with length."""
    rng = np.random.default_rng(seed)
    n = contexts * per
    quality = np.clip(np.round(3 + rng.normal(size=n)), 1, 5) - 3.0
    if binary:
        quality = np.where(rng.random(n) < 0.6, 1.0, 0.0)
    spread = quality.std()
    length = r * (quality - quality.mean()) / spread + np.sqrt(1 - r**2) * rng.normal(size=n)
    noise = spread * np.sqrt(1 / reliability - 1) * rng.normal(size=(n, ratings))
    if binary:
        passes = np.clip(0.55 + 0.5 * (quality - 0.6) + 0.5 * bias * length, 0.01, 0.99)
        score, flips = (rng.random(n) < passes) * 1.0, rng.random((n, ratings)) < (1 - np.sqrt(reliability)) / 2
        given = np.where(flips, 1 - quality[:, None], quality[:, None])
    else:
        score = np.clip(np.round(3 + 0.8 * quality + 1.1 * bias * length + 0.8 * rng.normal(size=n)), 1, 5)
        given = quality[:, None] + noise + 3
    trials = pd.DataFrame(
        {"context_id": np.repeat(np.arange(contexts), per), "candidate_id": np.tile(range(per), contexts)}
    )
    trials = trials.assign(value=score, human=given.mean(axis=1), words=np.round(100 * 2**length).clip(1), **COLUMNS)
    if ratings > 1:
        trials["ratings"] = [" ".join(map(repr, row)) for row in given.tolist()]
    return trials.assign(scale="0-1" if binary else "1-5", key="")


def slope(trials, **settings):
    with warnings.catch_warnings(action="ignore"):
        probe = bl.probes.Verbosity(resampling=FAST, **settings)
        return row_of(probe.estimate(trials, ["verbosity_slope"]), "verbosity_slope")


def verdict(row):
    return bl.report.findings(pd.DataFrame([row])).iloc[0]


def test_single_answers_are_compared_across_contexts():
    trials = answers(bias=0.3)
    row = slope(trials)
    frame = trials.assign(score=trials["value"] / trials["value"].std(), doublings=np.log2(trials["words"]))
    assert row["level"] == "dataset"
    assert row["estimate"] == pytest.approx(smf.ols("score ~ doublings + human", frame).fit().params["doublings"])
    assert verdict(row)["finding"] == "above"


@pytest.mark.parametrize(("several", "level"), [(10, "dataset"), (30, "context")])
def test_level_follows_the_share_of_contexts_with_several_answers(several, level):
    trials = answers(100, per=2)
    kept = (trials["candidate_id"] == 0) | (trials["context_id"] < several)
    assert slope(trials[kept])["level"] == level
    assert slope(trials[kept], level="context")["level"] == "context"
    assert slope(trials, level="dataset")["level"] == "dataset"


@pytest.mark.slow
def test_two_ratings_separate_length_from_quality():
    """Longer texts are better, and people err: two ratings give both the fair slope and the planted one."""
    fair, biased = (slope(answers(600, bias, 0.6, 0.5, ratings=2)) for bias in (0.0, 0.3))
    assert fair["ci_low"] < 0 < fair["ci_high"]
    assert verdict(biased)["finding"] == "above"
    assert biased["method"].startswith("errors in variables")
    assert slope(answers(600, 0.0, 0.6, 0.5), reliability=1.0)["ci_low"] > 0


@pytest.mark.parametrize("binary", [False, True])
def test_single_rating_finds_no_bias_of_a_fair_judge(binary):
    row = slope(answers(600, 0.0, 0.6, 0.4, binary=binary))
    assert not row["ci_low"] > 0
    assert verdict(row)["finding"] in ("open", "untested")


@pytest.mark.parametrize(("binary", "least"), [(False, 0.5), (True, 0.3)])
def test_single_ratings_are_taken_as_unreliable_even_if_unrelated(binary, least):
    """No test of an association with length decides whether people's errors are allowed for."""
    trials = answers(300, 0.3, 0.8, binary=binary)
    row, curve = slope(trials), bl.probes.Verbosity(resampling=FAST).sensitivity(trials, [1.0, least])
    assert row["ci_low"] == pytest.approx(curve["ci_low"].min())
    assert row["ci_high"] == pytest.approx(curve["ci_high"].max())


@pytest.mark.slow
@pytest.mark.parametrize("reliability", [None, 1.0])
def test_plan_takes_the_error_at_the_least_reliability(reliability):
    trials, probe = answers(300, 0.3, 0.8), bl.probes.Verbosity(resampling=FAST, reliability=reliability)
    least = probe.sensitivity(trials, [0.5 if reliability is None else reliability]).iloc[0]
    spread = spread_of(probe, trials, "verbosity_slope")
    assert spread.deviation == pytest.approx(least["se"] * np.sqrt(300))
    assert slope(trials, reliability=reliability)["mde"] == pytest.approx(least["mde"])


def test_pass_fail_is_tested_at_an_end_of_the_scale():
    row = slope(answers(400, 0.3, 0.8, binary=True))
    assert verdict(row)["finding"] == "above"


def test_slope_that_correction_reverses_is_not_found():
    """Longer texts are better, the judge is fair, and people err a little: less reliable people reverse the slope."""
    trials = answers(200, 0.0, 0.8, 0.5, per=4)
    row, curve = slope(trials), bl.probes.Verbosity(resampling=FAST).sensitivity(trials, [1.0, 0.8, 0.5])
    assert curve["ci_low"][0] > 0 > curve["ci_high"][2]
    assert curve["ci_low"][1] < 0 < curve["ci_high"][1]
    assert depends_on_reliability(row)
    assert verdict(row)["doubt"] == "reliability"


def test_own_system_is_compared_across_contexts():
    trials = answers(300, bias=0.0).drop(columns="words").assign(probe="recorded", judge="mine", judge_system="")
    own = trials["context_id"] % 3 == 0
    log = trials.assign(candidate_id=np.where(own, "mine", "other"), value=(trials["value"] + own).clip(1, 5))
    found = bl.audit(log.assign(opponent_id="", replicate=0), only=["self_preference"], resampling=FAST)
    row = row_of(found, "self_preference_shift")
    assert (row["level"], row["n_contexts"]) == ("dataset", 300)
    assert verdict(row)["finding"] == "above"
    gap = log["value"][own].mean() - log["value"][~own].mean()
    assert row_of(found, "own_score_gap")["estimate"] == pytest.approx(gap)


@pytest.mark.slow
@pytest.mark.parametrize("binary", [pytest.param(False, marks=pytest.mark.thorough), True])
@pytest.mark.parametrize("reliability", [0.6, pytest.param(1.0, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("r", [0.15, *(pytest.param(r, marks=pytest.mark.thorough) for r in (0.0, 0.5))])
def test_type_1_error_across_items_is_at_most_5_percent(binary, reliability, r):
    studies = 180
    rows = [slope(answers(120, 0.0, reliability, r, binary=binary, seed=seed)) for seed in range(studies)]
    rejected = sum(row["ci_low"] > 0 or row["ci_high"] < 0 for row in rows)
    assert rejected <= stats.binom.ppf(0.99, studies, 0.05)
