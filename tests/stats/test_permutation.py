"""Permutation over contexts against scipy's tests."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from biaslab.core.errors import InputError
from biaslab.stats.permutation import patterns, sign_flip, swap_test

rng = np.random.default_rng(3)
CLUSTERS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=2, max_size=30)


def test_swapping_conditions_is_scipys_paired_permutation_test():
    first, second = rng.gamma(2, 1, 9), rng.gamma(1.5, 1, 9)

    def gap(a, b, axis=-1):
        return np.median(a, axis=axis) - np.median(b, axis=axis)

    wanted = stats.permutation_test((first, second), gap, permutation_type="samples", n_resamples=np.inf).pvalue
    found = swap_test(lambda s: gap(np.where(s, second, first), np.where(s, first, second)), 9)
    assert found == pytest.approx(wanted, abs=1e-9)


def test_a_difference_of_means_is_a_sign_flip():
    gaps = rng.normal(0.3, 1, 30)
    assert swap_test(lambda s: ((1 - 2 * s) * gaps).mean(axis=1), 30, 4) == pytest.approx(sign_flip(gaps, 4), abs=0.02)


def test_patterns_are_all_or_fair_draws():
    assert len({tuple(row) for row in np.concatenate(list(patterns(7)))}) == 128
    drawn = np.concatenate(list(patterns(200, seed=1)))
    assert drawn.shape == (9999, 200)
    assert drawn.mean() == pytest.approx(0.5, abs=0.002)
    assert np.abs(np.corrcoef(drawn[:, :20].T) - np.eye(20)).max() < 0.05


def test_undefined_is_nan_and_bad_shapes_are_refused():
    assert np.isnan(swap_test(lambda s: s.sum(axis=1), 0))
    assert np.isnan(swap_test(lambda s: np.full(len(s), np.nan), 5))
    assert np.isnan(sign_flip([1.0, np.nan]))
    assert sign_flip([0.0, 0.0]) == 1
    with pytest.raises(InputError, match="one per row"):
        swap_test(lambda s: s, 5)


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


@given(CLUSTERS, st.randoms(use_true_random=False))
def test_exact_test_ignores_the_order_of_contexts(pairs, random):
    num, den = np.array(pairs[:12], float).T
    values = list(num - 0.5 * den)
    shuffled = random.sample(values, len(values))
    assert sign_flip(values) == pytest.approx(sign_flip(shuffled))
