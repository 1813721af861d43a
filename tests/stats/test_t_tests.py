"""The t test over contexts: against scipy, at its edges, and where it keeps the level that sign flips do not reach."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from biaslab.stats.estimate import t_test
from biaslab.stats.permutation import sign_flip
from biaslab.stats.ratio import Ratio
from biaslab.stats.resampling import Resampling

VALUES = st.lists(st.integers(-3, 3), min_size=2, max_size=30).filter(lambda values: len(set(values)) > 1)


@given(VALUES)
def test_is_the_one_sample_t_test(values):
    expected = max(stats.ttest_1samp(values, 0).pvalue, 2.0 ** (1 - len(values)))
    assert t_test(values) == pytest.approx(expected, rel=1e-9)
    assert t_test(np.negative(values)[::-1]) == pytest.approx(t_test(values), rel=1e-9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], math.nan), ([1.0, math.nan], math.nan), ([2.0], 1.0), ([0.0] * 5, 1.0), ([3.0] * 8, 2**-7),
        ([1.0] * 7 + [1.001], 2**-7),
    ],
)  # fmt: skip
def test_edges(values, expected):
    assert t_test(values) == pytest.approx(expected, nan_ok=True)


def test_keeps_its_level_where_most_contexts_add_nothing():
    """Eight contexts of three pairs of which few flip; sign flips almost never reject there."""
    rng = np.random.default_rng(2)
    flips = rng.choice([-1, 0, 1], p=[0.13, 0.74, 0.13], size=(1500, 8, 3)).sum(axis=2)
    t = np.mean([t_test(x) < 0.05 for x in flips])
    exact = np.mean([sign_flip(x) < 0.05 for x in flips])
    assert 0.035 < t < 0.065
    assert exact < 0.02


def ratios(contexts, **options):
    context = np.repeat(np.arange(contexts), 2)
    wins = np.tile([1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0], contexts)[: 2 * contexts]
    return [
        Ratio(context, wins, np.ones(2 * contexts), inference=by, bounds=(0.0, 1.0), **options)
        for by in ("t", "resampling")
    ]


@pytest.mark.parametrize("contexts", [8, 24])
def test_a_ratio_says_how_it_was_inferred(contexts):
    by_t, resampled = (ratio.estimate(Resampling()) for ratio in ratios(contexts, null=0.5))
    first, _ = ratios(contexts, null=0.5)
    sums = np.asarray(first.numerator).reshape(-1, 2).sum(axis=1)
    assert by_t.p_value == pytest.approx(t_test(sums - 1))
    assert resampled.p_value == sign_flip(sums - 1)
    assert (by_t.estimate, by_t.mde) == (resampled.estimate, resampled.mde)
    if contexts < 20:
        interval = stats.ttest_1samp(sums / 2, 0).confidence_interval()
        assert (by_t.ci_low, by_t.ci_high) == pytest.approx((interval.low, min(interval.high, 1.0)))
        assert by_t.method == "t over contexts; t test"
    else:
        assert (by_t.ci_low, by_t.ci_high) == (resampled.ci_low, resampled.ci_high)
        assert by_t.method == f"{resampled.method}; t test"


def test_a_wanted_bootstrap_is_kept_and_without_a_null_there_is_no_test():
    by_t, resampled = (ratio.estimate(Resampling(method="bca")) for ratio in ratios(8))
    assert (by_t.ci_low, by_t.ci_high, by_t.method) == (resampled.ci_low, resampled.ci_high, resampled.method)
    assert math.isnan(by_t.p_value)
    assert "bca" in by_t.method
    assert ratios(8)[0].estimate(Resampling()).method == "t over contexts"
