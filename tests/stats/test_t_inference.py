"""Intervals of what a test does not reject: the score of a rate against independent computations, and agreement."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from scipy import optimize, stats
from statsmodels.stats.proportion import proportion_confint

from biaslab.measures.ranking import pairs
from biaslab.stats.inference import Resampling
from biaslab.stats.ratio import Ratio
from biaslab.stats.ratio_test import Excess, RatioTest
from biaslab.stats.t_inference import t_test

FEW = Resampling(n=100)
PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 1)), min_size=3, max_size=60)


def likeliest_variance(above, below, gap):
    """The variance of the difference where the likelihood of three outcomes is greatest at this gap."""

    def loss(second):
        p = np.array([second + gap, second, 1 - 2 * second - gap])
        counts = np.array([above, below, 1 - above - below])
        return -np.sum(counts[counts > 0] * np.log(np.maximum(p[counts > 0], 1e-300)))

    low, high = max(0.0, -gap), (1 - gap) / 2
    second = optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return 2 * second + gap - gap**2


@pytest.mark.parametrize(("above", "below"), [(0.3, 0.1), (0.05, 0.2), (0.6, 0.4), (0.2, 0.2)])
@pytest.mark.parametrize("at", [0.2, 0.45, 0.5, 0.6, 0.9])
def test_rate_variance_is_that_of_constrained_likelihood(above, below, at):
    gap, found = 2 * at - 1, above - below
    expected = (likeliest_variance(above, below, gap) - (found - gap) ** 2) / (above + below - found**2)
    assert Excess(above, below).widening(at) == pytest.approx(expected, abs=1e-6)
    assert Excess(below, above).widening(1 - at) == pytest.approx(Excess(above, below).widening(at))


@pytest.mark.parametrize("ones", [3, 20, 37])
def test_interval_of_single_decisions_is_wilsons(ones):
    """One decision a context: Wilson's interval at the number of contexts that Student's t makes of theirs."""
    won = np.repeat([1.0, 0.0], [ones, 40 - ones])
    found = Ratio(range(40), won, np.ones(40), 0.5, (0.0, 1.0), inference="score").estimate(FEW)
    worth = (39 + stats.t.ppf(0.975, 39) ** 2) * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 39)) ** 2
    expected = proportion_confint(ones / 40 * worth, worth, method="wilson")
    assert (found.ci_low, found.ci_high) == pytest.approx(expected)


@given(PAIRS, st.sampled_from([0.5, 0.6]))
def test_rate_test_agrees_with_its_interval(rows, null):
    context, first, other = np.array(rows).T
    found = pairs.first_position_rate(context, np.column_stack([first, other]), null).estimate(FEW)
    assume(found.n_contexts > 1)
    assume(abs(found.p_value - 0.05) > 1e-9)
    assert 0 <= found.ci_low <= found.estimate <= found.ci_high <= 1
    assert (found.p_value < 0.05) == (not found.ci_low <= null <= found.ci_high)


@given(st.lists(st.tuples(st.floats(-2, 3), st.floats(0.1, 5)), min_size=2, max_size=20), st.sampled_from([0.0, 0.7]))
def test_t_ratio_test_agrees_with_its_interval(rows, null):
    num, den = np.array(rows).T
    found = Ratio(range(len(rows)), num, den, null, inference="t").estimate(FEW)
    assume(abs(found.p_value - 0.05) > 1e-9)
    assert (found.p_value < 0.05) == (not found.ci_low <= null <= found.ci_high)
    assert found.p_value >= 2.0 ** (1 - len(rows))


@given(st.integers(2, 20), st.sampled_from([0.0, 0.3, 0.75, 1.0]), st.sampled_from([0.2, 0.5, 0.75]))
def test_constant_context_test_agrees_with_its_interval(contexts, rate, null):
    found = Ratio(range(contexts), [rate * 4] * contexts, [4] * contexts, null, (0.0, 1.0)).estimate(FEW)
    assume(abs(found.p_value - 0.05) > 1e-9)
    assert (found.p_value < 0.05) == (not found.ci_low <= null <= found.ci_high)


def test_at_one_half_the_score_test_is_the_t_test_of_flips():
    rng = np.random.default_rng(3)
    context, won = np.repeat(np.arange(12), 5), rng.integers(0, 2, (60, 2)).astype(float)
    won[won[:, 0] == 0, 1] = 1
    flips = np.bincount(context, won.sum(axis=1) - 1)
    found = pairs.first_position_rate(context, won).estimate(FEW)
    assert found.p_value == pytest.approx(t_test(flips))
    assert found.method == "score t over contexts; t test"


def test_an_interval_without_end_is_infinite():
    """The denominators are those of a single context: no ratio is out of the question."""
    low, high = RatioTest(np.array([[1.0, 50.0], [0.5, 0.1], [0.2, 0.1]])).interval(0.95)
    assert (low, high) == (-np.inf, np.inf)


def flipping(rng, contexts, flips, first, size=3, spread=9.0):
    """Pairs of which a share flips, not alike in all contexts; whether for the first."""
    context = np.repeat(np.arange(contexts), size)
    share = rng.beta(flips * spread, (1 - flips) * spread, contexts)[context]
    flip, up, side = (rng.random((3, len(context))) < np.array([share, share * 0 + first, share * 0 + 0.5])).astype(
        float
    )
    return context, np.where(flip[:, None] > 0, up[:, None], np.column_stack([side, 1 - side]))


@pytest.mark.thorough
@pytest.mark.parametrize("contexts", [24, 100])
@pytest.mark.parametrize(
    ("flips", "first"), [(0.02, 1.0), (0.08, 1.0), (0.16, 0.5), (0.16, 1.0), (0.9, 0.9), (0.96, 1.0)]
)
def test_few_flips_are_covered(contexts, flips, first):
    """Judges that flip few pairs, or nearly all, with P(A) from .5 to .98: a bootstrap covers .69 to .91 of them."""
    rng, truth = np.random.default_rng(4), 0.5 + flips * (first - 0.5)
    found = [pairs.first_position_rate(*flipping(rng, contexts, flips, first)).estimate(FEW) for _ in range(400)]
    covered = np.mean([one.ci_low <= truth <= one.ci_high for one in found])
    assert covered > 0.915
    if first == 0.5:
        assert np.mean([one.p_value < 0.05 for one in found]) < 0.075
