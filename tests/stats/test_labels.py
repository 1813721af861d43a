"""Label distributions against sampling, at any temperature and any number of samples."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from biaslab.errors import InputError
from biaslab.stats.labels import expected_score, mean_of_samples, tempered

LOGPROBS = st.lists(st.floats(-30, 0), min_size=2, max_size=10)


@given(LOGPROBS, st.floats(0, 10))
def test_is_a_distribution_that_keeps_the_order(logprobs, temperature):
    p = tempered(logprobs, temperature)
    assert p.sum() == pytest.approx(1)
    assert (p >= 0).all()
    order = np.argsort(logprobs, kind="stable")
    assert (np.diff(p[order]) >= -1e-12).all()


@given(LOGPROBS, st.floats(0.1, 10), st.floats(-20, 0))
def test_label_mass_does_not_matter_and_temperatures_compose(logprobs, temperature, shift):
    p = tempered(logprobs, temperature)
    assert tempered([x + shift for x in logprobs], temperature) == pytest.approx(p)
    assert tempered(np.log(tempered(logprobs)), temperature) == pytest.approx(p, abs=1e-9)


def test_greedy_is_the_limit():
    assert tempered([-1.0, -2.0, -1.0], 0).tolist() == [0.5, 0, 0.5]
    assert tempered([-1.0, -2.0], 1e-3).tolist() == [1.0, 0.0]


def test_labels_without_probability():
    assert tempered([-math.inf, -1.0]).tolist() == [0.0, 1.0]
    assert np.isnan(tempered([-math.inf, -math.inf])).all()
    assert np.isnan(expected_score([1, 2], [-math.inf, -math.inf]))


def test_mean_of_samples_is_what_sampling_converges_to():
    rng, logprobs, scores = np.random.default_rng(3), np.log([0.1, 0.2, 0.4, 0.3]), [1, 2, 3, 4]
    for temperature in (0.5, 1.0, 2.0):
        drawn = rng.choice(scores, size=(20_000, 20), p=tempered(logprobs, temperature)).mean(axis=1)
        mean, deviation = mean_of_samples(scores, logprobs, 20, temperature)
        assert drawn.mean() == pytest.approx(mean, abs=4 * deviation / np.sqrt(20_000))
        assert drawn.std() == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize("bad", [lambda: tempered([0.0, 0.0], -1), lambda: mean_of_samples([1], [0.0], 0)])
def test_bad_values_are_named(bad):
    with pytest.raises(InputError, match=r"temperature|n is"):
        bad()
    with pytest.raises(InputError, match="scores"):
        mean_of_samples([1, 2, 3], [0.0, 0.0], 1)
