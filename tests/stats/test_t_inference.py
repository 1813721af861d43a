"""Intervals of what a test does not reject: the score of a rate against independent computations, and agreement."""

import dataclasses
import math
from functools import partial

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from scipy import optimize, stats
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking import pairs
from biaslab.stats.correlation import (
    correlation,
    correlation_difference,
    disattenuated_difference,
    estimate_correlation,
)
from biaslab.stats.distribution import describe_distribution
from biaslab.stats.estimate import is_above, notes_of
from biaslab.stats.ratio import Excess, Ratio, RatioTest
from biaslab.stats.regression import linear_model
from biaslab.stats.reliability import estimate_alpha
from biaslab.stats.resample import Resampling, cluster_difference, sign_flip
from biaslab.stats.t_inference import detectable_effect, t_test

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


FEW_estimate = Resampling(n=200)
VALUES = st.lists(st.integers(-3, 3), min_size=2, max_size=30).filter(lambda values: len(set(values)) > 1)


@given(VALUES)
def test_t_test_is_the_one_sample_t_test(values):
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


def test_t_test_keeps_its_level_if_most_contexts_are_zero():
    """Eight contexts of three pairs of which few flip; sign flips almost never reject there."""
    rng = np.random.default_rng(2)
    flips = rng.choice([-1, 0, 1], p=[0.13, 0.74, 0.13], size=(1500, 8, 3)).sum(axis=2)
    t = np.mean([t_test(x) < 0.05 for x in flips])
    exact = np.mean([sign_flip(x) < 0.05 for x in flips])
    assert 0.035 < t < 0.065
    assert exact < 0.02


def candidates(seed, contexts, items=4):
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(contexts, items)) + rng.normal(0, 0.5, (contexts, 1))
    scores = {name: (quality + rng.normal(size=quality.shape)).ravel() for name in ("one", "two")}
    context = np.repeat(np.arange(contexts), items)
    return pd.DataFrame({"context_id": context, **scores, "human": np.round(2 * quality).ravel()})


def bootstrap_error(frame, statistic, draws):
    """Standard deviation over frames whose contexts are drawn with replacement, each draw under a name of its own."""
    rng, rows = np.random.default_rng(5), frame.groupby("context_id").indices
    names, found = list(rows), []
    for _ in range(draws):
        drawn = [rows[names[k]] for k in rng.integers(len(names), size=len(names))]
        renamed = np.repeat(np.arange(len(drawn)), [len(part) for part in drawn])
        found.append(statistic(frame.iloc[np.concatenate(drawn)].assign(context_id=renamed)))
    return np.std(found, ddof=1)


def rate(frame):
    wins, counted = frame["one"] > 0.3, frame["two"] > -0.5
    return Ratio(frame["context_id"], wins & counted, counted)


def gain(frame):
    return rate(frame).difference(Ratio(frame["context_id"], frame["two"], np.ones(len(frame))), FEW_estimate)


def rated(frame):
    scores = frame[["one", "two"]].round().assign(context_id=frame["context_id"], unit=np.arange(len(frame)))
    return scores.melt(["context_id", "unit"], ["one", "two"], "annotator", "score")


STATISTICS = {
    "rate": (lambda f: rate(f).estimate(FEW_estimate), lambda f: f.loc[f["two"] > -0.5, "one"].gt(0.3).mean()),
    "difference": (gain, lambda f: f.loc[f["two"] > -0.5, "one"].gt(0.3).mean() - f["two"].mean()),
    "pooled correlation": (
        lambda f: estimate_correlation(f, "one", "human", FEW_estimate, "dataset"),
        lambda f: correlation(f, "one", "human", "dataset").value,
    ),
    "alpha": (
        lambda f: estimate_alpha(rated(f), FEW_estimate, units=["unit"]),
        lambda f: krippendorff.alpha(rated(f).pivot_table("score", "annotator", "unit").to_numpy()),
    ),
    "slope": (
        lambda f: linear_model(f, "one ~ human")["human"],
        lambda f: np.polyfit(f["human"], f["one"], 1)[0],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STATISTICS))
def test_standard_errors_are_those_of_a_plain_bootstrap(name):
    estimate, statistic = STATISTICS[name]
    frame = candidates(2, contexts=60)
    draws = 300
    assert estimate(frame).se == pytest.approx(bootstrap_error(frame, statistic, draws), rel=4 / np.sqrt(2 * draws))


@pytest.mark.parametrize("method", ["studentised", "percentile", "bca"])
@pytest.mark.parametrize("inference", ["resampling", "t"])
def test_standard_error_does_not_depend_on_the_interval(method, inference):
    values = np.random.default_rng(8).normal(1, 2, 30)
    settings = Resampling(n=200, method=method)
    ratio = Ratio(range(30), values, np.ones(30), 0.0, inference=inference)
    jackknifed = partial(cluster_difference, lambda w: w @ values / w.sum(1), lambda w: 0.0 * w[:, 0], 30)
    for found in (ratio.estimate(settings), jackknifed(settings, inference=inference)):
        assert found.se == pytest.approx(stats.sem(values))
        assert found.mde == pytest.approx(detectable_effect(stats.sem(values), 30))


def test_standard_error_is_undefined_without_variation():
    frame = candidates(4, contexts=9)
    alike = frame.assign(one=frame["human"])
    weights = np.ones((9, 19))
    for found in (
        Ratio([], [], []).estimate(FEW_estimate),
        Ratio(["a"], [1], [2]).estimate(FEW_estimate),
        Ratio(range(9), [1] * 9, [2] * 9, 0.5, (0.0, 1.0), inference="t").estimate(FEW_estimate),
        estimate_correlation(alike, "one", "human", FEW_estimate, "dataset"),
        estimate_correlation(alike, "one", "human", FEW_estimate),
        linear_model(alike, "one ~ human")["human"],
        *describe_distribution(range(9), weights, range(1, 20), ["range_used", "myers_index"], FEW_estimate).values(),
    ):
        assert math.isnan(found.se)
        assert found.note


def by_ratio(frame):
    one = frame.groupby("context_id")["one"].mean()
    return Ratio(one.index, one, np.ones(len(one)), 0.1, inference="t").estimate(FEW_estimate), 0.1


def by_difference(frame):
    sizes = 1 + frame["human"].abs()
    first = Ratio(frame["context_id"], frame["one"] * sizes, sizes, inference="t")
    return first.difference(Ratio(frame["context_id"], frame["human"], np.ones(len(frame))), FEW_estimate), 0.0


def by_correlations(frame):
    return correlation_difference(frame, "one", "two", "human", FEW_estimate, method="kendall", inference="t"), 0.0


def by_jackknife(frame):
    values = frame[["one", "two"]].to_numpy().reshape(-1, 4, 2).mean(axis=1).T
    ratios = [lambda w, v=v: (w @ v) / (w @ (1 + np.abs(v))) for v in values]
    return cluster_difference(*ratios, values.shape[1], FEW_estimate, inference="t"), 0.0


def by_regression(frame):
    return linear_model(frame, "one ~ two", within=True)["two"], 0.0


@pytest.mark.parametrize("estimate", [by_ratio, by_difference, by_correlations, by_jackknife, by_regression])
@given(seed=st.integers(0, 10_000), contexts=st.integers(6, 30), shift=st.sampled_from([0.0, 0.3, 1.0]))
@settings(max_examples=15)
def test_t_test_rejects_exactly_if_interval_excludes_null(estimate, seed, contexts, shift):
    frame = candidates(seed, contexts)
    frame["one"] = frame["one"] + shift * (1 + frame["human"])
    found, null = estimate(frame)
    assume(abs(found.p_value - 0.05) > 1e-9)
    assert (found.p_value < 0.05) == (not found.ci_low <= null <= found.ci_high)
    assert "t" in found.method.replace(";", " ").replace(",", " ").split()


def by_flips(frame):
    one = frame.groupby("context_id")["one"].mean()
    return Ratio(one.index, one, np.ones(len(one)), 0.3).estimate(FEW_estimate), 0.3


def by_bounded(frame):
    """Contexts at 0 or 1 and nothing between, so that some studies do not vary at all."""
    ups = (frame.groupby("context_id")["one"].mean() > 0.5).to_numpy(float)
    return Ratio(range(len(ups)), ups, np.ones(len(ups)), 0.5, (0.0, 1.0)).estimate(FEW_estimate), 0.5


def by_permutations(frame):
    first, second = (Ratio(frame["context_id"], frame[name], np.ones(len(frame))) for name in ("one", "two"))
    return first.difference(second, FEW_estimate), 0.0


def by_pseudo_values(frame):
    values = frame.groupby("context_id")["one"].mean().to_numpy()
    return cluster_difference(lambda w: w @ values / w.sum(1), lambda w: 0.0 * w[:, 0], len(values), FEW_estimate), 0.0


def by_percentiles(frame):
    settings = dataclasses.replace(FEW_estimate, method="percentile")
    return correlation_difference(frame, "one", "two", "human", settings, inference="t"), 0.0


def by_attenuation(frame):
    return disattenuated_difference(frame, "one", "two", FEW_estimate)(0.0), 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimate",
    [
        by_ratio,
        by_correlations,
        by_flips,
        by_bounded,
        by_permutations,
        by_pseudo_values,
        by_percentiles,
        by_attenuation,
    ],
)
@given(seed=st.integers(0, 10_000), contexts=st.integers(2, 14), shift=st.sampled_from([0.0, 0.3, 1.0]))
def test_p_below_5_percent_exactly_if_interval_excludes_null(estimate, seed, contexts, shift):
    """Also with few contexts, whose tests cannot reach .05, and where test and interval are of different methods."""
    frame = candidates(seed, contexts)
    frame["one"] = frame["one"] + shift
    found, null = estimate(frame)
    assume(not math.isnan(found.p_value))
    outside = is_above(found.ci_low, null) or is_above(null, found.ci_high)
    assert is_above(0.05, found.p_value) == outside


@pytest.mark.parametrize(("away", "expected"), [(0.02, 1.0), (-0.02, 1.0), (0.2, None), (-0.2, None)])
@pytest.mark.parametrize("inference", ["resampling", "t"])
def test_margin_moves_the_null_of_the_test_and_the_interval(away, expected, inference):
    values = 1 + away + np.array([-0.1, 0.1, -0.05, 0.05, 0.0, 0.0, -0.02, 0.02, 0.01, -0.01])
    ratio = partial(Ratio, range(10), values, np.ones(10), inference=inference)
    found = ratio(null=1.0, margin=0.05).estimate(FEW_estimate)
    edge = ratio(null=1 + math.copysign(0.05, away)).estimate(FEW_estimate)
    assert found.p_value == (edge.p_value if expected is None else expected)
    assert (found.ci_low, found.ci_high) == pytest.approx((edge.ci_low - 0.05, edge.ci_high + 0.05))
    assert found.method == edge.method
    assert found.note == "tests for a departure from 1 greater than 0.05 (the interval includes that margin)"


def test_detectable_effect_has_the_promised_power():
    values = np.random.default_rng(7).normal(0, 1, 50)
    effect = detectable_effect(stats.sem(values), 50)
    power = TTestPower().power(effect / values.std(ddof=1), nobs=50, alpha=0.05)
    assert power == pytest.approx(0.8, abs=0.01)


def test_detectable_effect_refuses_power_and_alpha_above_1():
    with pytest.raises(InputError, match="power"):
        detectable_effect(0.1, 12, power=80)
    with pytest.raises(InputError, match="alpha"):
        detectable_effect(0.1, 12, alpha=5)
    assert np.isnan(detectable_effect(0.1, 1))


@pytest.mark.parametrize("notes", [None, math.nan])
def test_note_without_its_code_is_refused(notes):
    assert notes_of({"note": "", "notes": notes}) == {}
    with pytest.raises(TrialsError, match="keep the column notes"):
        notes_of({"note": "no variation between contexts", "notes": notes})
