"""What differs by rounding is equal: no spread, no effect, no finding, whichever way an estimate is made."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.stats.correlation import correlation_difference
from biaslab.stats.estimate import is_above, is_rounding, without_rounding
from biaslab.stats.frame import without_breakdowns
from biaslab.stats.joint_jackknife import JointValues
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model
from biaslab.stats.reliability import spread_of_means
from biaslab.stats.resample import Resampling, cluster_difference, cluster_statistic, sign_flip
from biaslab.stats.samples import tempered
from biaslab.stats.t_inference import t_test

QUICK = Resampling(n=100)
BITS = st.lists(st.integers(-64, 64), min_size=6, max_size=24).map(lambda found: np.array(found) * 2.0**-53)
VALUES = st.sampled_from([0.0, 0.5, 1 / 3, 4.0, -2.5])


def assert_nothing(found, value):
    """Not told from the value: no spread, p = 1 where there is a test, and the value within whatever interval."""
    assert found.estimate == pytest.approx(value, abs=1e-12)
    assert math.isnan(found.se)
    assert math.isnan(found.p_value) or found.p_value == 1.0
    assert not is_above(found.ci_low, value)
    assert not is_above(value, found.ci_high)


@given(BITS, VALUES, st.sampled_from(["resampling", "t"]), st.sampled_from(["studentised", "bca"]))
def test_a_ratio_that_is_its_null_but_for_rounding_is_its_null(bits, value, inference, method):
    resampling = Resampling(n=100, method=method)
    ratio = Ratio(np.arange(len(bits)), value + bits, np.ones(len(bits)), null=value, inference=inference)
    found = ratio.estimate(resampling)
    assert_nothing(found, value)
    assert found.estimate == value


@given(BITS)
def test_log_odds_that_cancel_but_for_rounding_are_no_bias(bits):
    """P(A) = σ(r_A − r_B) in both orders: the logits add up to 1e-17 or so, of which 40 contexts once made p < .001."""
    won = np.array([1.0, -1.0]) * np.linspace(0.1, 7, len(bits))[:, None]
    p = 1 / (1 + np.exp(-won)) + bits[:, None] / 8
    sums = np.log(p / (1 - p)).sum(axis=1)
    found = Ratio(np.arange(len(bits)), sums, np.ones(len(bits)), null=0.0, inference="t").estimate(QUICK)
    assert (found.estimate, found.p_value) == (0.0, 1.0)
    assert (found.ci_low, found.ci_high) == (0.0, 0.0)


@given(BITS, VALUES)
def test_statistics_of_contexts_that_are_equal_but_for_rounding(bits, value):
    values = value + bits

    def mean(weights):
        return weights @ values / weights.sum(axis=1)

    assert_nothing(cluster_statistic(mean, len(bits), QUICK, null=value), value)
    assert_nothing(cluster_difference(mean, lambda w: np.full(len(w), value), len(bits), QUICK), 0.0)


@given(BITS)
def test_differences_of_ratios_that_are_equal_but_for_rounding(bits):
    contexts, ones = np.arange(len(bits)), np.ones(len(bits))
    values = np.linspace(1, 5, len(bits))
    one, two = Ratio(contexts, values, ones), Ratio(contexts, values + bits * 4, ones)
    assert_nothing(one.difference(two, QUICK), 0.0)


@given(BITS)
def test_tests_of_rounding_reject_nothing(bits):
    assert t_test(bits) == 1.0
    assert sign_flip(bits) == 1.0


@given(BITS, st.integers(0, 9))
def test_sums_that_tie_but_for_rounding_are_as_extreme(bits, seed):
    """A pattern of signs that leaves the sum as it was is counted, whatever the last bits say."""
    values = np.resize([1.0, -1.0, 2.0], len(bits))
    assert sign_flip(values + bits, seed) == sign_flip(values, seed)


@given(BITS)
def test_slopes_of_an_outcome_that_is_rounding_are_undefined(bits):
    frame = pd.DataFrame({"context_id": np.arange(len(bits)) // 2, "x": np.arange(len(bits)) % 3, "y": bits})
    found = linear_model(frame, "y ~ x")["x"]
    assert math.isnan(found.p_value)
    assert "does not vary" in found.note


@pytest.mark.slow
@given(BITS)
def test_correlations_of_scores_that_tie_but_for_rounding(bits):
    contexts = np.repeat(np.arange(len(bits)), 3)
    human, score = np.tile([1.0, 2.0, 4.0], len(bits)), np.tile([2.0, 2.0, 3.0], len(bits))
    frame = pd.DataFrame({"context_id": contexts, "human": human, "one": score})
    frame["two"] = score + np.repeat(bits, 3) * np.tile([1, -1, 1], len(bits))
    assert_nothing(correlation_difference(frame, "one", "two", "human", QUICK), 0.0)


@given(BITS)
def test_means_of_conditions_that_are_equal_but_for_rounding(bits):
    deviations = np.outer(bits, [1.0, -1.0])
    assert spread_of_means(deviations, np.full(len(bits), 2.0), QUICK).p_value == 1.0


@given(BITS)
def test_judges_that_are_equal_but_for_rounding(bits):
    values = 0.7 + np.column_stack([np.zeros(len(bits) + 1), [0.0, *bits]])
    assert_nothing(JointValues.jackknifed(values, len(bits), 0.95).combined([1, -1]), 0.0)


@given(st.floats(-100, 100).map(lambda value: round(value, 4)), st.integers(-4, 4))
def test_short_decimals_are_exact_again(value, ulps):
    moved = value
    for _ in range(abs(ulps)):
        moved = math.nextafter(moved, math.copysign(math.inf, ulps))
    assert without_rounding(moved) == value


@given(st.floats(-1e6, 1e6))
def test_without_rounding_changes_values_by_at_most_2e_14(value):
    assert without_rounding(value) == pytest.approx(value, rel=2e-14, abs=2e-14)


def test_tie_at_temperature_0_is_shared_despite_rounding():
    logs = np.log([0.4, 0.4, 0.2])
    assert tempered([math.nextafter(logs[0], 0), *logs[1:]], 0).tolist() == [0.5, 0.5, 0.0]


def test_is_rounding_is_relative_to_the_given_size():
    assert is_rounding(np.array([1e-8, math.nan, 1e-10]), 100).tolist() == [True, False, True]
    assert not is_rounding(1e-8)


@pytest.mark.slow
def test_unbiased_judge_has_no_position_finding_from_rounding():
    """The case that a first user met, once with 'q < 0.001 … above 0.0' at 3.5e-17."""
    data = bl.load_dataset("graded", limit=40)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    estimates = probe.estimate(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False))
    rows = without_breakdowns(estimates).set_index("metric")
    for metric, null in (("first_position_rate", 0.5), ("first_position_logit", 0.0)):
        assert rows.loc[metric, "estimate"] == null
        assert rows.loc[metric, "p_value"] == 1.0
    found = bl.report.findings(estimates)
    assert set(found.loc[found["finding"].isin(["above", "below"]), "metric"]) == {"comparative_accuracy"}
