"""Ratios of sums: interval, test and standard error against independent computations, and what must not change them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from biaslab.core.errors import InputError
from biaslab.stats.blocks import sum_by_context
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, in_order, sign_flip
from biaslab.stats.t_inference import t_test

rng = np.random.default_rng(7)
NUM, DEN = rng.gamma(2.0, 2.0, 40), rng.integers(1, 9, 40).astype(float)


def cluster_ratio(num, den, resampling, null=None, bounds=None):
    """The ratio of sums that stand one a context."""
    return Ratio(np.arange(len(num)), num, den, null, bounds).estimate(resampling)


def ratio_difference(nums, dens, resampling):
    first, second = (Ratio(np.arange(len(num)), num, den) for num, den in zip(nums, dens, strict=True))
    return first.difference(second, resampling)


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
    assert "no variation" in found.note


@given(st.integers(2, 5))
def test_below_six_contexts_nothing_is_detectable(contexts):
    found = cluster_ratio(np.arange(contexts) + 5.0, np.full(contexts, 5.0), Resampling(), null=0.0)
    assert found.p_value > 0.05
    assert np.isnan(found.mde)
    assert "fewer than 6" in found.note


FEW = Resampling(n=200)
NAN = float("nan")
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


@given(clusters, st.sampled_from(["studentised", "percentile", "bca"]), st.randoms(use_true_random=False))
def test_order_of_contexts_and_repeated_seeds_change_nothing(pairs, method, random):
    settings = Resampling(n=150, seed=random.randrange(100), method=method)
    first = cluster_ratio(*np.array(pairs, float).T, settings, null=0.5)
    again = cluster_ratio(*np.array(random.sample(pairs, len(pairs)), float).T, settings, null=0.5)
    for name in ("estimate", "ci_low", "ci_high", "p_value", "mde"):
        assert getattr(again, name) == pytest.approx(getattr(first, name), abs=1e-9, nan_ok=True)
    assert cluster_ratio(*np.array(pairs, float).T, settings, null=0.5) == first or np.isnan(first.mde)


def plain_error(num, den):
    residuals = num - num.sum() / den.sum() * den
    return np.sqrt(len(num) / (len(num) - 1) * (residuals**2).sum()) / den.sum()


def plain_difference_error(rows):
    na, da, nb, db = rows.T
    residuals = (na - na.sum() / da.sum() * da) / da.sum() - (nb - nb.sum() / db.sum() * db) / db.sum()
    return np.sqrt(len(rows) / (len(rows) - 1) * (residuals**2).sum())


def test_studentised_interval_equals_a_plain_loop():
    found = cluster_ratio(NUM, DEN, Resampling(n=400, seed=5))
    rows = in_order(np.column_stack([NUM, DEN]))
    drawn = [rows[draw].T for draw in np.random.default_rng(5).integers(0, 40, size=(400, 40))]
    pivots = [(num.sum() / den.sum() - found.estimate) / plain_error(num, den) for num, den in drawn]
    upper, lower = np.quantile(pivots, [0.975, 0.025])
    assert found.ci_low == pytest.approx(found.estimate - upper * plain_error(NUM, DEN), abs=1e-9)
    assert found.ci_high == pytest.approx(found.estimate - lower * plain_error(NUM, DEN), abs=1e-9)


@pytest.mark.parametrize("method", ["studentised", "percentile"])
def test_paired_difference_equals_a_plain_loop(method):
    other = NUM * 0.8 + rng.gamma(1.0, 1.0, 40)
    found = ratio_difference((NUM, other), (DEN, DEN + 1), Resampling(n=300, seed=2, method=method))
    rows = in_order(np.column_stack([NUM, DEN, other, DEN + 1]))

    def gap(rows):
        na, da, nb, db = rows.sum(axis=0)
        return na / da - nb / db

    drawn = [rows[draw] for draw in np.random.default_rng(2).integers(0, 40, size=(300, 40))]
    if method == "percentile":
        wanted = np.quantile([gap(rows) for rows in drawn], [0.025, 0.975])
    else:
        pivots = [(gap(one) - gap(rows)) / plain_difference_error(one) for one in drawn]
        wanted = gap(rows) - np.quantile(pivots, [0.975, 0.025]) * plain_difference_error(rows)
    assert found.estimate == pytest.approx(gap(rows), abs=1e-9)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(wanted), abs=1e-9)


def test_paired_difference_drops_incomplete_contexts():
    found = ratio_difference(([1, 2, 3], [1, 2, 9]), ([2, 4, 6], [2, 4, 0]), Resampling())
    assert (found.estimate, found.n_contexts, found.p_value) == (0.0, 2, 1.0)
    assert "no variation" in found.note
    assert np.isnan(ratio_difference(([], []), ([], []), Resampling()).estimate)


def test_bca_of_a_difference_is_scipys():
    other = NUM * 0.8 + rng.gamma(1.0, 1.0, 40)
    wanted = stats.bootstrap(
        (NUM, DEN, other),
        lambda a, d, b, axis=-1: ratio(a, d, axis) - ratio(b, d, axis),
        paired=True,
        n_resamples=20_000,
        random_state=np.random.default_rng(1),
    ).confidence_interval
    found = ratio_difference((NUM, other), (DEN, DEN), Resampling(n=20_000, method="bca"))
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(wanted), abs=0.03 * (wanted.high - wanted.low))


def test_standard_error_of_a_mean_is_the_textbook_one():
    assert cluster_ratio(NUM, np.ones(40), Resampling(n=100)).se == pytest.approx(stats.sem(NUM))


def test_constant_contexts_have_exact_bounds_or_a_note():
    inside = cluster_ratio([3.0] * 8, [6.0] * 8, Resampling(), null=0.5, bounds=(0.0, 1.0))
    assert inside.ci_low == pytest.approx(1 - inside.ci_high)
    assert inside.ci_high == pytest.approx(1 - 0.5 * 0.025 ** (1 / 8))
    assert inside.p_value == 1
    unbounded = cluster_ratio([3.0] * 8, [6.0] * 8, Resampling())
    assert (unbounded.ci_low, unbounded.ci_high) == (0.5, 0.5)
    assert "no variation" in unbounded.note


def test_infinite_and_missing_sums():
    with pytest.raises(InputError, match="finite"):
        cluster_ratio([np.inf, 1], [1, 1], Resampling())
    with pytest.raises(InputError, match="like the contexts"):
        cluster_ratio([1], [1, 1], Resampling())
    assert cluster_ratio([np.nan, 1, 2], [1, 1, 1], Resampling()).n_contexts == 2
    assert np.isnan(cluster_ratio([np.nan] * 3, [np.nan] * 3, Resampling(), null=0.0).estimate)


def same(found, wanted):
    for name in ("estimate", "se", "ci_low", "ci_high", "p_value", "n_contexts"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=1e-9, nan_ok=True), name


def test_sums_by_context_are_a_groupby():
    rng = np.random.default_rng(0)
    names = np.array([f"c{i}" for i in rng.integers(0, 40, 500)], object)
    values = np.where(rng.random((2, 500)) < 0.05, NAN, rng.normal(size=(2, 500)))
    wanted = pd.DataFrame({"a": values[0], "b": values[1]}).assign(c=names).dropna().groupby("c", sort=False).sum()
    for context in (names, pd.Series(names), list(names), pd.Series(names, dtype="category")):
        sums, found = sum_by_context(context, *values)
        assert pd.DataFrame(sums, index=found).loc[wanted.index].to_numpy() == pytest.approx(wanted.to_numpy())
    with pytest.raises(InputError, match="shape"):
        sum_by_context(names, [1.0])


@given(st.integers(0, 30), st.randoms(use_true_random=False))
def test_ratios_ignore_item_order_and_context_names(seed, random):
    rng = np.random.default_rng(seed)
    context, num, den = rng.integers(0, 9, 60), rng.normal(size=60), rng.random(60)
    order = np.array(random.sample(range(60), 60))
    names = np.array(random.sample("abcdefghi", 9))
    first = Ratio(context, num, den, 0.0).estimate(FEW)
    again = Ratio(names[context][order], num[order], den[order], 0.0).estimate(FEW)
    same(again, first)
    gap = Ratio(context, num, den).difference(Ratio(context, den, den), FEW)
    assert gap.estimate == pytest.approx(first.estimate - 1)


def test_ratio_of_no_data_has_a_reason():
    empty = Ratio(["a", "b"], [NAN, NAN], [1, 1], 0.5, missing="undefined: no answer").estimate(FEW)
    assert (np.isnan(empty.estimate), np.isnan(empty.p_value), empty.note) == (True, True, "undefined: no answer")
    apart = Ratio(["a"], [1], [1], missing="gone").difference(Ratio(["b"], [1], [1]), FEW)
    assert (np.isnan(apart.estimate), apart.note) == (True, "gone")


def ratios(contexts, **options):
    context = np.repeat(np.arange(contexts), 2)
    wins = np.tile([1, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0], contexts)[: 2 * contexts]
    return [
        Ratio(context, wins, np.ones(2 * contexts), inference=by, bounds=(0.0, 1.0), **options)
        for by in ("t", "resampling")
    ]


@pytest.mark.parametrize("contexts", [8, 24])
def test_ratio_inference_is_by_t_or_by_resampling(contexts):
    by_t, resampled = (ratio.estimate(Resampling()) for ratio in ratios(contexts, null=0.5))
    first, _ = ratios(contexts, null=0.5)
    sums = np.asarray(first.numerator).reshape(-1, 2).sum(axis=1)
    assert by_t.p_value == pytest.approx(t_test(sums - 1))
    assert resampled.p_value == sign_flip(sums - 1)
    assert (by_t.estimate, by_t.mde) == (resampled.estimate, resampled.mde)
    interval = stats.ttest_1samp(sums / 2, 0).confidence_interval()
    assert (by_t.ci_low, by_t.ci_high) == pytest.approx((interval.low, min(interval.high, 1.0)))
    assert by_t.method == "t over contexts; t test"


def test_requested_bootstrap_replaces_t_and_no_null_no_test():
    by_t, resampled = (ratio.estimate(Resampling(method="bca")) for ratio in ratios(8))
    assert (by_t.ci_low, by_t.ci_high, by_t.method) == (resampled.ci_low, resampled.ci_high, resampled.method)
    assert math.isnan(by_t.p_value)
    assert "bca" in by_t.method
    assert ratios(8)[0].estimate(Resampling()).method == "t over contexts"


@pytest.mark.thorough
@pytest.mark.parametrize("contexts", [8, 24, 100])
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_type_one_error_and_coverage_hold(contexts, rate):
    """2000 studies of judges whose contexts differ: rejections of a true null, and intervals that cover the truth.

    Sign-flip test and bootstrap interval reject where both do: of few contexts they reject a little less.
    """
    generator, rejected, covered, studies = np.random.default_rng(11), 0, 0, 2000
    for study in range(studies):
        rates = generator.beta(16 * rate, 16 * (1 - rate), contexts)
        wins = generator.binomial(30, rates)
        found = cluster_ratio(wins, np.full(contexts, 30), Resampling(n=500, seed=study), null=rate, bounds=(0, 1))
        rejected += found.p_value < 0.05
        covered += found.ci_low <= rate <= found.ci_high
    assert rejected / studies <= 0.065
    least, most = (0.025, 0.98) if contexts == 8 else (0.035, 0.97)
    assert rate != 0.5 or rejected / studies >= least  # the exact test is conservative where contexts are skewed
    assert 0.93 <= covered / studies <= most


@pytest.mark.slow
def test_a_million_trials():
    context = np.random.default_rng(0).integers(0, 10_000, 1_000_000)
    found = Ratio(context, context % 2, np.ones(len(context)), null=0.5).estimate(Resampling(n=2000))
    assert found.n_contexts == 10_000
    assert found.ci_low < 0.5 < found.ci_high


def informative(seed, contexts):
    """Contexts of 2 to 16 judgements, the larger ones with higher rates: .583 pooled, .5 per context."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 17, contexts)
    rate = 0.5 + 0.04 * (sizes - 9) + rng.uniform(-0.1, 0.1, contexts)
    return Ratio(np.arange(contexts), rng.binomial(sizes, rate), sizes, bounds=(0.0, 1.0))


@pytest.mark.parametrize("weights", ["items", "contexts"])
def test_both_estimands_are_unbiased_with_informative_sizes(weights):
    sizes = np.arange(2, 17)
    rates = 0.5 + 0.04 * (sizes - 9)
    truth = np.average(rates, weights=sizes if weights == "items" else None)
    found = [informative(seed, 60).estimate(Resampling(n=200, weights=weights)) for seed in range(200)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(truth, abs=0.01)
    covered = np.mean([one.ci_low <= truth <= one.ci_high for one in found])
    assert 0.90 <= covered <= 0.99


def test_equal_context_weights():
    one = Ratio([*"aaabbc"], [1, 0, 0, 1, 1, 0], np.ones(6))
    assert one.estimate(Resampling()).estimate == 0.5
    assert one.estimate(Resampling(weights="contexts")).estimate == pytest.approx((1 / 3 + 1 + 0) / 3)


@given(st.integers(0, 10_000), st.floats(0.0, 0.3))
def test_margin_widens_interval_in_agreement_with_test(seed, margin):
    rng = np.random.default_rng(seed)
    up = rng.uniform(0.8, 1.6, 12)
    ratio = Ratio(np.arange(12), up, np.ones(12), 1.0, (0.0, 10.0), inference="t")
    plain, wide = ratio.estimate(Resampling()), replace(ratio, margin=margin).estimate(Resampling())
    assert wide.ci_high - wide.ci_low == pytest.approx(plain.ci_high - plain.ci_low + 2 * margin)
    if min(abs(wide.ci_low - 1), abs(wide.ci_high - 1)) > 1e-6:
        assert (wide.p_value < 0.05) == (not wide.ci_low <= 1 <= wide.ci_high)
