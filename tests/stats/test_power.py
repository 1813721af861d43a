"""What the planner promises: against statsmodels, against itself turned round, and against simulated tests."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.stats.frame import corrected, corrected_effects, critical_p
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import sign_flip
from biaslab.stats.t_inference import (
    detectable_effect,
    effect_and_notes,
    expected_power,
    inflation,
    rare_effect,
    rare_inflation,
    t_test,
)

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


def flipped(up, down, contexts):
    """Contexts of which so many differ by 1, and so many by -1."""
    return np.r_[np.ones(up), -np.ones(down), np.zeros(contexts - up - down)]


def type_one_error(test, contexts, expected):
    """Return how often a test rejects if so many contexts differ on average, to either side alike, by every case."""
    total = 0.0
    for differ in range(contexts + 1):
        likely = stats.binom.pmf(differ, contexts, expected / contexts)
        for up in range(differ + 1) if likely > 1e-7 else ():
            if test(flipped(up, differ - up, contexts)) < 0.05:
                total += likely * stats.binom.pmf(up, differ, 0.5)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("expected", [4, 6, 8, 12])
def test_t_test_keeps_its_level_for_rare_differences(expected):
    assert 0.035 <= type_one_error(t_test, 24, expected) <= 0.065


@pytest.mark.slow
def test_mid_p_sign_flip_is_nearer_to_its_level():
    def exact(values):
        up, differ = int((values > 0).sum()), int((values != 0).sum())
        return stats.binomtest(up, differ).pvalue if differ else 1.0

    for expected in (3, 5):
        plain, mid = (type_one_error(test, 12, expected) for test in (exact, sign_flip))
        assert plain < mid <= 0.05


def test_mid_p_is_that_of_the_contexts_that_differ():
    for up, down in ((5, 0), (4, 1)):
        tail = stats.binom.sf(up - 1, up + down, 0.5) - stats.binom.pmf(up, up + down, 0.5) / 2
        assert sign_flip(flipped(up, down, 12)) == pytest.approx(2 * tail)
    assert sign_flip(np.ones(5)) == 2 / 2**5  # all differ: nothing is rare
    assert sign_flip(np.zeros(5)) == sign_flip(flipped(1, 0, 5)) == 1.0


@pytest.mark.parametrize("contexts", [12, 24, 60])
def test_detectable_effect_of_a_constant_judge_has_its_power(contexts):
    """Contexts that differ, all to one side and each by 1, tested by scipy's t test."""
    effect, needed = rare_effect(flipped(1, 0, contexts) / contexts)
    values = (np.random.default_rng(contexts).uniform(size=(600, contexts)) < effect).astype(float)
    tested = values[values.any(axis=1)]
    found = stats.ttest_1samp(tested, 0.0, axis=1).pvalue < 0.05
    assert found.sum() / 600 == pytest.approx(0.8, abs=0.05)
    assert needed == 4


def test_rare_model_applies_to_few_differences_only():
    error = 1 / 24
    stated, notes = effect_and_notes(error, 24, flipped(1, 0, 24) / 24)
    known = effect_and_notes(error, 24)[0]
    assert stated > 1.7 * known
    assert [str(note) for note in notes] == ["few contexts differ: a test needs 4 that do, to one side"]
    assert effect_and_notes(error, 24, flipped(5, 4, 24) / 24) == (known, ())
    assert effect_and_notes(error, 24, np.full(24, 0.3 / 24)) == (known, ())
    assert math.isnan(rare_effect(np.zeros(8))[0])


@pytest.mark.parametrize("inference", ["t", "resampling"])
def test_estimate_of_a_constant_judge_has_that_detectable_effect(inference):
    found = Ratio(np.arange(24), flipped(1, 0, 24), np.ones(24), 0.0, (-1.0, 1.0), inference=inference)
    estimate = found.estimate(bl.Resampling(n=100))
    needed = 4 if inference == "t" else 5
    assert estimate.note == f"few contexts differ: a test needs {needed} that do, to one side"
    assert estimate.mde == pytest.approx(stats.beta.ppf(0.8, needed, 25 - needed))


def card_of(contexts, others=13):
    """One metric of a sure judge, of whom one context differs, beside metrics that show nothing."""
    found = Ratio(np.arange(contexts), flipped(1, 0, contexts), np.ones(contexts), 0.0, (-1.0, 1.0), inference="t")
    one = found.estimate(bl.Resampling(n=100))
    fixed = {"judge": "j", "dataset": "d", "attribute": "a", "null": 0.0, "n_contexts": contexts}
    rows = [{**fixed, "probe": "p0", "metric": "m0", **one.row()}]
    levels = np.linspace(0.3, 0.95, others)
    rows += [
        {**fixed, "probe": f"p{k}", "metric": f"m{k}", "p_value": level, "mde": 0.1, "notes": ""}
        for k, level in enumerate(levels, 1)
    ]
    frame = pd.DataFrame(rows)
    return corrected(frame, np.ones(len(frame), bool))


@pytest.mark.slow
@pytest.mark.parametrize("contexts", [12, 24, 60])
def test_card_detectable_effect_has_80_percent_power(contexts):
    """By scipy's t test at the level that the card leaves; before, a growth as of normal differences found .3 to .5."""
    card = card_of(contexts)
    level = critical_p(card["p_value"], list(range(len(card))))[0]
    stated = corrected_effects(card).iloc[0]
    assert stated > card["mde"].iloc[0] * inflation(contexts, level)
    rng, p_values = np.random.default_rng(contexts), []
    for _ in range(600):
        values = (rng.uniform(size=contexts) < stated).astype(float)
        varies = 0 < values.sum() < contexts
        p_values.append(stats.ttest_1samp(values, 0.0).pvalue if varies else float(not values.any()))
    assert np.mean(np.array(p_values) < level) == pytest.approx(0.8, abs=0.05)


def test_the_growth_of_rare_effects_is_that_of_their_test():
    """Ones beside zeros, of which scipy's test needs eight; of signs alone eleven halvings pass .0005."""
    needed = next(k for k in range(1, 24) if stats.ttest_1samp(flipped(k, 0, 24), 0.0).pvalue < 0.05 / 14)
    share, single = (stats.beta.ppf(0.8, k, 25 - k) for k in (needed, 4))
    assert rare_inflation(24, 4, 0.05 / 14) == pytest.approx(share / single)
    by_signs = [stats.beta.ppf(0.8, k, 25 - k) for k in (11, 5)]
    assert rare_inflation(24, 5, 0.0005) == pytest.approx(by_signs[0] / by_signs[1])
    assert rare_inflation(24, 4, 0.05) == 1
    assert math.isnan(rare_inflation(6, 4, 0.01))
    with pytest.raises(InputError, match="level"):
        rare_inflation(24, 4, 0.0)
