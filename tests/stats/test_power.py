"""What the planner promises: against statsmodels, against itself turned round, and against simulated tests."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from statsmodels.stats.power import TTestPower

from biaslab.core.errors import InputError
from biaslab.stats.permutation import sign_flip
from biaslab.stats.power import expected_power
from biaslab.stats.t_inference import detectable_effect

SIZES = st.integers(6, 500)


@given(st.floats(0, 1.5), SIZES, st.sampled_from([0.01, 0.05, 0.1]))
def test_expected_power_is_that_of_a_one_sample_t_test(effect, contexts, alpha):
    expected = TTestPower().power(effect, nobs=contexts, alpha=alpha)
    found = expected_power(effect, 1 / math.sqrt(contexts), contexts, alpha)
    if math.isfinite(expected):  # scipy's noncentral t gives NaN in places, which statsmodels hands on
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("contexts", [6, 24, 201, 20_000])
def test_expected_power_is_defined_where_scipy_is_nan(contexts):
    """scipy's noncentral t is NaN here and there beyond 6 standard errors, where the power is 1 but for rounding."""
    found = [expected_power(shift, 1.0, contexts, alpha) for shift in np.arange(6, 45, 0.25) for alpha in (0.01, 0.05)]
    assert min(found) > 0.85
    assert max(found) <= 1 + 1e-12


@given(st.floats(0, 1e6), st.floats(1e-6, 1e6), SIZES)
def test_expected_power_grows_with_the_effect(effect, error, contexts):
    found = expected_power(effect, error, contexts)
    assert 0.05 - 1e-9 <= found <= 1
    assert found == expected_power(-effect, error, contexts)
    assert found <= expected_power(1.1 * effect, error, contexts) + 1e-9


@pytest.mark.parametrize(("contexts", "slack"), [(6, 0.01), (24, 0.001), (1000, 0.001)])
def test_the_detectable_effect_has_the_power_it_was_computed_for(contexts, slack):
    assert expected_power(detectable_effect(0.3, contexts), 0.3, contexts) == pytest.approx(0.8, abs=slack)


def test_few_contexts_have_no_power():
    assert expected_power(1e9, 1.0, 5) == 0


def test_sign_flip_test_has_the_expected_power():
    """Normal contributions, 600 studies: the power of the exact test is the planned one, within Monte-Carlo error."""
    rng, contexts, effect = np.random.default_rng(1), 8, 1.0
    found = np.mean([sign_flip(rng.normal(effect, 1.0, contexts)) < 0.05 for _ in range(600)])
    assert found == pytest.approx(expected_power(effect, 1 / math.sqrt(contexts), contexts), abs=0.06)


@pytest.mark.parametrize(
    ("values", "name"),
    [((1, 0, 8), "error"), ((1, math.nan, 8), "error"), ((math.nan, 1, 8), "effect"), ((1, 1, 8, 5), "alpha")],
)
def test_expected_power_refuses_invalid_values(values, name):
    with pytest.raises(InputError, match=name):
        expected_power(*values)
