"""Label distributions against sampling, at any temperature and any number of samples."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError
from biaslab.stats.labels import tempered

LOGPROBS = st.lists(st.floats(-30, 0), min_size=2, max_size=10)


@given(LOGPROBS, st.floats(0, 10))
def test_tempered_is_a_distribution_in_the_same_order(logprobs, temperature):
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


@pytest.mark.parametrize("bad", [-1, math.inf, math.nan])
def test_bad_values_are_named(bad):
    with pytest.raises(InputError, match="temperature"):
        tempered([0.0, 0.0], bad)
