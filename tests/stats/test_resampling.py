"""Bootstrap, test and detectable effect against independent computations, and what must not change them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from biaslab.errors import InputError
from biaslab.stats.resampling import Resampling, cluster_ratio, detectable, sign_flip, standard_error
from biaslab.stats.smooth import in_order

rng = np.random.default_rng(7)
NUM, DEN = rng.gamma(2.0, 2.0, 40), rng.integers(1, 9, 40).astype(float)


def ratio(num, den, axis=-1):
    return num.sum(axis=axis) / den.sum(axis=axis)


@pytest.mark.parametrize(("method", "scipy_name"), [("percentile", "percentile"), ("bca", "BCa")])
def test_intervals_are_scipys(method, scipy_name):
    wanted = stats.bootstrap(
        (NUM, DEN), ratio, paired=True, n_resamples=40_000, method=scipy_name, random_state=np.random.default_rng(1)
    ).confidence_interval
    found = cluster_ratio(NUM, DEN, Resampling(n=40_000, method=method, seed=2))
    width = wanted.high - wanted.low
    assert found.estimate == pytest.approx(NUM.sum() / DEN.sum())
    assert abs(found.ci_low - wanted.low) < 0.02 * width
    assert abs(found.ci_high - wanted.high) < 0.02 * width


def test_sign_flip_is_scipys_exact_test():
    values = rng.normal(0.4, 1, 10)
    wanted = stats.permutation_test(
        (values,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    ).pvalue
    assert sign_flip(values) == pytest.approx(wanted)


def test_drawn_sign_flips_agree_with_enumerated_ones():
    values = np.r_[rng.normal(0.5, 1, 12)]
    exact = sign_flip(values)
    drawn = sign_flip(np.r_[values, 0.0], seed=3)  # one more context changes nothing but the method
    assert drawn == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 9999) + 1e-4)


def test_detectable_effect_has_the_promised_power():
    values = rng.normal(0, 1, 50)
    effect = detectable(values, np.ones(50))
    power = TTestPower().power(effect / values.std(ddof=1), nobs=50, alpha=0.05)
    assert power == pytest.approx(0.8, abs=0.01)


def test_undefined_is_nan_with_a_reason():
    nothing = cluster_ratio([], [], Resampling())
    empty = cluster_ratio([0.0, 0.0], [0.0, 0.0], Resampling(), null=0.5)
    single = cluster_ratio([3.0], [4.0], Resampling(), null=0.5)
    assert np.isnan(nothing.estimate)
    assert np.isnan(empty.estimate)
    assert nothing.note
    assert empty.note
    assert single.estimate == 0.75
    assert np.isnan(single.ci_low)
    assert np.isnan(single.p_value)
    assert "one context" in single.note


def test_a_rate_of_one_everywhere_has_an_honest_interval():
    found = cluster_ratio([6.0] * 8, [6.0] * 8, Resampling(), null=0.5, bounds=(0.0, 1.0))
    low = stats.binomtest(8, 8).proportion_ci(0.95, method="exact").low
    assert (found.ci_low, found.ci_high) == (pytest.approx(low), 1.0)
    assert found.p_value == 2 / 2**8
    assert np.isnan(found.mde)
    assert "do not vary" in found.note


@given(st.integers(2, 5))
def test_below_six_contexts_nothing_is_detectable(contexts):
    found = cluster_ratio(np.arange(contexts) + 5.0, np.full(contexts, 5.0), Resampling(), null=0.0)
    assert found.p_value > 0.05
    assert np.isnan(found.mde)
    assert "fewer than 6" in found.note


@pytest.mark.parametrize("options", [{"n": 10}, {"level": 95}, {"method": "normal"}])
def test_settings_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Resampling(**options)


clusters = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=2, max_size=30)


@given(clusters, st.integers(0, 5))
def test_estimate_lies_in_its_interval_and_scale_is_irrelevant(pairs, seed):
    num, den = np.array(pairs, float).T
    plain = cluster_ratio(num, den, Resampling(n=200, seed=seed), null=0.5)
    scaled = cluster_ratio(num * 3, den, Resampling(n=200, seed=seed), null=1.5)
    assert plain.ci_low <= plain.ci_high
    assert 0 < plain.p_value <= 1
    assert scaled.estimate == pytest.approx(3 * plain.estimate)
    assert scaled.ci_low == pytest.approx(3 * plain.ci_low)
    assert scaled.p_value == pytest.approx(plain.p_value)


@given(clusters, st.randoms(use_true_random=False))
def test_exact_test_ignores_the_order_of_contexts(pairs, random):
    num, den = np.array(pairs[:12], float).T
    values = list(num - 0.5 * den)
    shuffled = random.sample(values, len(values))
    assert sign_flip(values) == pytest.approx(sign_flip(shuffled))


def test_studentised_interval_equals_a_plain_loop():
    settings = Resampling(n=400, seed=5)
    found = cluster_ratio(NUM, DEN, settings)
    ordered = in_order(np.column_stack([NUM, DEN]))
    draws, pivots = np.random.default_rng(5).integers(0, 40, size=(400, 40)), []
    for draw in draws:
        num, den = ordered[draw].T
        residuals = num - num.sum() / den.sum() * den
        error = np.sqrt(40 / 39 * (residuals**2).sum()) / den.sum()
        pivots.append((num.sum() / den.sum() - found.estimate) / error)
    residuals = NUM - found.estimate * DEN
    error = np.sqrt(40 / 39 * (residuals**2).sum()) / DEN.sum()
    upper, lower = np.quantile(pivots, [0.975, 0.025])
    assert found.ci_low == pytest.approx(found.estimate - upper * error)
    assert found.ci_high == pytest.approx(found.estimate - lower * error)


def test_standard_error_of_a_mean_is_the_textbook_one():
    assert standard_error(NUM, np.ones(40)) == pytest.approx(stats.sem(NUM))


@pytest.mark.slow
@pytest.mark.parametrize("contexts", [8, 24, 100])
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_type_one_error_and_coverage_hold(contexts, rate):
    """2000 studies of judges whose contexts differ: rejections of a true null, and intervals that cover the truth."""
    generator, rejected, covered, studies = np.random.default_rng(11), 0, 0, 2000
    for study in range(studies):
        rates = generator.beta(16 * rate, 16 * (1 - rate), contexts)
        wins = generator.binomial(30, rates)
        found = cluster_ratio(wins, np.full(contexts, 30), Resampling(n=500, seed=study), null=rate, bounds=(0, 1))
        rejected += found.p_value < 0.05
        covered += found.ci_low <= rate <= found.ci_high
    assert rejected / studies <= 0.065
    assert rate != 0.5 or rejected / studies >= 0.035  # the exact test is conservative where contexts are skewed
    assert 0.93 <= covered / studies <= 0.97
