"""Inference that may stop early, against published bounds, exact expectations and simulated studies."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling
from biaslab.stats.sequential import Stopping, Until, bounds, crossing, log_wealth, repeated_p, t_mixture

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)
RATE = (0.0, 1.0)


def estimate(num, den, null, until=None, most=400, rate=RATE):
    resampling = Resampling(stopping=Stopping(until or Until(), len(num), most))
    return Ratio(range(len(num)), num, den, null, rate).estimate(resampling)


@pytest.mark.parametrize(
    ("shares", "spending", "alpha", "published"),
    [
        (FIFTHS, "obrien-fleming", 0.05, (4.877, 3.357, 2.680, 2.290, 2.031)),
        (FIFTHS, "pocock", 0.05, (2.438, 2.427, 2.410, 2.397, 2.386)),
        ((1.0,), "pocock", 0.01, (2.576,)),
    ],
)
def test_bounds_of_spending_are_published_ones(shares, spending, alpha, published):
    assert bounds(shares, spending, alpha) == pytest.approx(published, abs=0.0011)


@pytest.mark.parametrize(
    ("looks", "pocock", "obrien"), [(2, 2.178, 1.977), (3, 2.289, 2.004), (5, 2.413, 2.040), (10, 2.555, 2.087)]
)
def test_published_constants_spend_5_percent(looks, pocock, obrien):
    shares = np.arange(1, looks + 1) / looks
    assert crossing([pocock] * looks, shares).sum() == pytest.approx(0.05, abs=3e-4)
    assert crossing(obrien / np.sqrt(shares), shares).sum() == pytest.approx(0.05, abs=3e-4)


def test_unequal_looks_spend_the_level_and_have_power():
    shares = (0.1, 0.15, 0.7, 1.0)
    for spending in ("obrien-fleming", "pocock"):
        limits = bounds(shares, spending, 0.05)
        assert crossing(limits, shares).sum() == pytest.approx(0.05, abs=1e-5)
        assert 0.7 < crossing(limits, shares, drift=2.8).sum() < 0.8


@pytest.mark.parametrize("level", [0.001, 0.05, 0.3])
def test_repeated_p_inverts_the_bounds(level):
    limit = bounds((0.3, 0.6, 1.0), "pocock", level)[-1]
    assert repeated_p(limit, (0.3, 0.6, 1.0), "pocock") == pytest.approx(level, rel=1e-4)


def test_expected_wealth_is_1_for_contexts_of_different_size():
    """Over all outcomes of five contexts of 1 to 3 judgements whose size is related to their rate."""
    kinds = [
        (0.0, 1.0, 0.5),
        (1.0, 1.0, 0.2),
        (3.0, 3.0, 0.15),
        (0.0, 3.0, 0.15),
    ]  # numerator, denominator, probability
    rate = sum(n * p for n, _, p in kinds) / sum(d * p for _, d, p in kinds)
    total = 0.0
    for drawn in itertools.product(kinds, repeat=5):
        num, den, chance = np.array(drawn).T
        total += chance.prod() * math.exp(log_wealth(num, den, 3.0, rate))
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("contexts", "statistic"), [(10, 3.0), (40, 2.5), (200, 4.0)])
def test_mixture_equals_its_integral(contexts, statistic):
    """Of noncentral t densities over effects, relative to the density without effect."""
    spread = math.sqrt((-2 * math.log(0.05) + math.log(-2 * math.log(0.05)) + 1) / 50)

    effects = np.linspace(-4 * spread, 4 * spread, 40_001)
    shifted = stats.nct.pdf(statistic, contexts - 1, effects * math.sqrt(contexts))
    whole = np.trapezoid(np.nan_to_num(shifted) * stats.norm.pdf(effects, 0, spread), effects)
    e_value = whole / stats.t.pdf(statistic, contexts - 1)
    assert t_mixture(statistic, contexts, 0.05, 50)[1] == pytest.approx(min(1.0, 1 / e_value), rel=0.01)


@given(st.integers(0, 10_000), st.integers(12, 60), st.sampled_from(["bets", "few", "many", "looks", "mean"]))
def test_interval_excludes_null_exactly_if_p_below_5_percent(seed, contexts, kind):
    rng = np.random.default_rng(seed)
    size = 3 if kind == "few" else 20
    num = rng.binomial(size, rng.beta(3, 4, contexts)).astype(float)
    until = {"bets": Until(exact=True), "looks": Until(looks=[8, contexts])}.get(kind, Until())
    null = rng.uniform(0.3, 0.7)
    found = estimate(num, np.full(contexts, float(size)), null, until, contexts, None if kind == "mean" else RATE)
    assert (found.p_value < 0.05) == (not found.ci_low <= null <= found.ci_high)
    assert found.ci_low <= found.estimate <= found.ci_high


def test_method_depends_on_the_rate_and_the_size_of_contexts():
    few, many, rare = np.tile([1.0, 0, 2, 1], 10), np.tile([10.0, 12, 7, 9], 10), np.tile([1.0, 0, 2, 1], 10)
    size = np.ones(40)
    methods = [
        estimate(few, 2 * size, 0.5).method,
        estimate(many, 20 * size, 0.5).method,
        estimate(rare, 20 * size, 0.5).method,
        estimate(many, 20 * size, 0.5, Until(exact=True)).method,
        estimate(many, size, 0.0, rate=None).method,
    ]
    bets, sequence = "betting confidence sequence", "asymptotic confidence sequence"
    assert methods == [bets, sequence, f"{sequence}, no narrower than by betting", bets, sequence]


def test_equal_contexts_have_no_interval_without_bounds():
    alike = estimate(np.full(30, 2.0), np.ones(30), 0.0, rate=None)
    assert math.isnan(alike.ci_low)
    assert estimate(np.full(30, 2.0), np.full(30, 2.0), 0.5).ci_low == pytest.approx(0.82, abs=0.01)


def test_skewness_moves_the_end_of_the_long_tail():
    (low, high), _ = t_mixture(0.0, 40, 0.05, 50)
    limits, p_value = t_mixture(low, 40, 0.05, 50, 0.3)
    assert limits[0] < 1.3 * low
    assert limits[1] == high
    assert p_value > 0.05
    assert t_mixture(high, 40, 0.05, 50, 0.3)[1] == pytest.approx(0.05)
    assert t_mixture(0.0, 40, 0.05, 50, -0.3)[0] == (low, -limits[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"half_width": 0.0}, {"half_width": "wide"}, {"effect": -1.0}, {"half_width": 0.1, "effect": 0.1},
        {"contexts": 1}, {"looks": [20, 10]}, {"looks": [1, 5]}, {"looks": [5, 9], "contexts": 9}, {"every": 0},
        {"looks": [5, 9], "exact": True}, {"spending": "pocock"}, {"spending": "linear"}, {"seed": -1},
    ],
)  # fmt: skip
def test_rule_refuses_values_out_of_range(wrong):
    with pytest.raises(InputError):
        Until(**wrong)


def test_rule_must_hold_in_all_rows():
    rows = [{"ci_low": 0.52, "ci_high": 0.6}, {"ci_low": 0.46, "ci_high": 0.54}]
    assert Until().reason(rows, 0.5) == ""
    assert Until().reason(rows[:1], 0.5) == "null_excluded"
    assert Until(effect=0.05).reason(rows, 0.5) == "settled"
    assert Until(half_width=0.04).reason(rows, 0.5) == "half_width"
    assert Until(half_width=0.03).reason(rows, 0.5) == Until().reason([], 0.5) == ""


def test_stopping_survives_its_column():
    stopping = Stopping(Until(looks=[10, 20], metric="rate"), 10, 20, "null_excluded", 1.5)
    assert Stopping.of(pd.DataFrame({"until": [str(stopping)] * 2})) == stopping
    assert Stopping.of(pd.DataFrame({"value": [1]})) is None
    for texts in (["{}"], [str(stopping), str(dataclasses.replace(stopping, contexts=20))]):
        with pytest.raises(TrialsError):
            Stopping.of(pd.DataFrame({"until": texts}))


def misses(draw, null, rng, contexts=200, studies=200, rate=RATE, until=None):
    """Share of studies in which the truth is rejected after any context, or at any look."""
    found = 0
    for _ in range(studies):
        num, den = draw(rng, contexts)
        if until:  # the interval alone, because p-values of looks take long
            made = [estimate(num[:n], den[:n], None, until, contexts, rate) for n in until.looks]
            found += any(not each.ci_low <= null <= each.ci_high for each in made)
        else:
            made = [estimate(num[:n], den[:n], null, None, contexts, rate) for n in range(2, contexts + 1, 3)]
            found += any(each.p_value < 0.05 for each in made)
    return found / studies


def verdicts(size, rate, icc):
    def draw(rng, contexts):
        own = rng.beta(rate * (1 / icc - 1), (1 - rate) * (1 / icc - 1), contexts)
        return rng.binomial(size, own).astype(float), np.full(contexts, float(size))

    return draw


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("draw", "truth", "rate"),
    [
        (verdicts(2, 0.5, 0.2), 0.5, RATE),
        (verdicts(12, 0.5, 0.2), 0.5, RATE),
        (verdicts(30, 0.03, 0.5), 0.03, RATE),
        (lambda rng, n: (rng.exponential(size=n), np.ones(n)), 1.0, None),
    ],
)
def test_coverage_at_all_times_at_least_95_percent(draw, truth, rate):
    assert misses(draw, truth, np.random.default_rng(1), rate=rate) <= 0.05 + 0.015


@pytest.mark.thorough
@pytest.mark.parametrize("looks", [[20, 40, 60], [10, 15, 50, 55, 60]])
@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_type_i_error_at_planned_looks_at_most_5_percent(looks, spending):
    until = Until(looks=looks, spending=spending)
    found = misses(verdicts(6, 0.5, 0.2), 0.5, np.random.default_rng(2), looks[-1], 2000, until=until)
    assert found <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "rate"), [(1, RATE), (20, RATE), (20, None)])
def test_twice_the_detectable_effect_saves_30_percent(size, rate):
    """Of the contexts of a fixed design with 80 % power."""
    rng, fixed, stops = np.random.default_rng(3), 60, []
    effect = 2 * 2.85 * math.sqrt(0.25 * (1 / size + (1 - 1 / size) * 0.1) / fixed)
    for _ in range(40):
        num, den = verdicts(size, 0.5 + effect, 0.1)(rng, fixed)
        p_values = (estimate(num[:n], den[:n], 0.5, most=fixed, rate=rate).p_value for n in range(2, fixed + 1))
        stops.append(next((n for n, p in enumerate(p_values, 2) if p < 0.05), fixed))
    assert np.mean(stops) <= 0.7 * fixed
