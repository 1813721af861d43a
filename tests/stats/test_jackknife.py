"""The general path against scipy, plain loops and the frames it stands for."""

import math

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.correlation import correlation
from biaslab.stats.correlation_intervals import correlation_difference, estimate_correlation
from biaslab.stats.inference import Resampling, draw_weights
from biaslab.stats.jackknife import GROUPS, MANY, cluster_difference, cluster_statistic
from biaslab.stats.reliability import alpha_difference, estimate_alpha
from biaslab.stats.weighted_correlation import arranged

METHODS = ("spearman", "kendall", "pearson")
LEVELS = ("context", "dataset", "system")
VALUES = np.random.default_rng(1).gamma(2.0, 1.0, 30)
FEW = Resampling(n=200, seed=3)


def weighted_mean(weights):
    return weights @ VALUES / weights.sum(axis=1)


def candidates(seed=0, contexts=10, items=4, points=5):
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(contexts, items))
    scores = {name: np.round(quality + rng.normal(size=quality.shape), 1) for name in ("one", "two")}
    frame = pd.DataFrame({name: score.ravel() for name, score in scores.items()})
    human = np.clip(np.round(quality * 1.5 + 3), 1, points).ravel()
    place = np.indices(quality.shape).reshape(2, -1)
    return frame.assign(context_id=place[0].astype(str), system=np.char.add("s", place[1].astype(str)), human=human)


def ratings(seed=0, contexts=8, units=3, annotators=3):
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 1, (contexts, units, 1)) + rng.normal(0, 0.7, (contexts, units, annotators))
    x = np.where(rng.random(x.shape) < 0.1, np.nan, np.clip(np.round(x), 1, 5))
    place = np.indices(x.shape).reshape(3, -1).astype(str)
    return pd.DataFrame({"context_id": place[0], "unit": place[1], "annotator": place[2], "score": x.ravel()})


def repeated(frame, weights):
    """The frame in which each context stands as often as its weight says, each time under another name."""
    names = sorted(frame["context_id"].unique())
    parts = [
        frame[frame["context_id"] == name].assign(context_id=f"{name}/{time}")
        for name, weight in zip(names, weights, strict=True)
        for time in range(int(weight))
    ]
    return pd.concat(parts)


def same(found, wanted):
    for name in ("estimate", "ci_low", "ci_high", "p_value", "mde", "n_contexts"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=1e-9, nan_ok=True), name


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_are_scipys(method):
    wanted = stats.bootstrap((VALUES,), np.mean, n_resamples=20_000, method=method, rng=np.random.default_rng(1))
    found = cluster_statistic(weighted_mean, 30, Resampling(n=20_000, method=method))
    width = wanted.confidence_interval.high - wanted.confidence_interval.low
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(wanted.confidence_interval), abs=0.03 * width)


def test_studentised_interval_of_a_mean_is_students():
    found = cluster_statistic(weighted_mean, 30, Resampling(), null=1.0)
    wanted = stats.ttest_1samp(VALUES, 1.0)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(wanted.confidence_interval()), abs=1e-9)
    assert found.p_value == pytest.approx(wanted.pvalue, abs=0.01)


def test_a_difference_uses_the_same_resamples():
    found = cluster_difference(weighted_mean, lambda w: weighted_mean(w) - 0.25, 30, FEW)
    assert (found.estimate, found.ci_low, found.ci_high) == pytest.approx((0.25, 0.25, 0.25))
    assert "no variation" in found.note


def test_undefined_is_nan_with_a_reason():
    nothing = cluster_statistic(weighted_mean, 0, FEW, missing="no context")
    assert (math.isnan(nothing.estimate), nothing.note) == (True, "no context")
    never = cluster_statistic(lambda w: np.full(len(w), np.nan), 9, FEW, null=0.0)
    assert (math.isnan(never.p_value), never.note) == (True, "undefined for these data")
    single = cluster_statistic(lambda w: w[:, 0], 1, FEW)
    assert (single.estimate, math.isnan(single.ci_low), single.note) == (1.0, True, "no interval: only one context")
    fragile = cluster_statistic(lambda w: np.where(w[:, 0] > 0, 1.0, np.nan), 9, FEW)
    assert (math.isnan(fragile.ci_low), "single context" in fragile.note) == (True, True)
    sparse = cluster_statistic(
        lambda w: np.where(w[:, :2].sum(axis=1) > 0, w[:, 2] + w[:, 0], np.nan),
        9,
        Resampling(n=200, method="percentile"),
    )
    assert "of 200 resamples" in sparse.note
    with pytest.raises(InputError, match="one per row"):
        cluster_statistic(lambda w: w, 5, FEW)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", ["dataset", "system"])
def test_weighted_correlation_is_that_of_the_repeated_frame(level, method):
    frame = candidates()
    make, contexts = arranged(frame, ["one", "human"], level, method, ["context_id", "system"])
    statistic = make(0, 1)
    for weights in next(draw_weights(contexts, 5, seed=1)):
        names = sorted_contexts(frame, ["one", "human"], level)
        order = dict(zip(names, weights, strict=True))
        plain = repeated(frame, [order[name] for name in sorted(order)])
        wanted = correlation(plain, "one", "human", level, method).value
        assert statistic(weights[None])[0] == pytest.approx(wanted, abs=1e-9)


def sorted_contexts(frame, columns, level):
    def content(rows):
        scores = [rows[c].to_numpy() / frame[c].abs().max() for c in columns]
        systems = pd.factorize(frame["system"], sort=True)[0][rows.index] if level == "system" else np.zeros(len(rows))
        block = np.column_stack([np.round(np.column_stack(scores), 12), systems])
        return block[np.lexsort((block[:, -1], *block[:, :-1].T[::-1]))].tobytes()

    return sorted(frame["context_id"].unique(), key=lambda name: content(frame[frame["context_id"] == name]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("level", LEVELS)
def test_correlation_with_an_interval_is_the_correlation(level, method):
    frame = candidates(contexts=12)
    found = estimate_correlation(frame, "one", "human", FEW, level, method, null=0.0)
    assert found.estimate == pytest.approx(correlation(frame, "one", "human", level, method).value, abs=1e-9)
    assert -1 <= found.ci_low < found.estimate < found.ci_high <= 1
    assert found.p_value < 0.1 if level != "system" else method == "pearson" or "no test" in found.note
    other = estimate_correlation(frame, "two", "human", FEW, level, method)
    gap = correlation_difference(frame, "one", "two", "human", FEW, level, method)
    assert gap.estimate == pytest.approx(found.estimate - other.estimate, abs=1e-9)
    assert gap.ci_low <= gap.estimate <= gap.ci_high


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@given(seed=st.integers(0, 50), random=st.randoms(use_true_random=False), factor=st.sampled_from([0.001, 3.0, 1e6]))
def test_correlation_ignores_order_names_and_units(level, seed, random, factor):
    frame = candidates(seed, contexts=7)
    names = dict(zip("0123456", random.sample("abcdefg", 7), strict=True))
    shuffled = frame.sample(frac=1, random_state=random.randrange(99))
    other = shuffled.assign(context_id=shuffled["context_id"].map(names), one=shuffled["one"] * factor)
    settings = Resampling(n=100, seed=seed, method=random.choice(["studentised", "percentile", "bca"]))
    same(
        estimate_correlation(other, "one", "human", settings, level, null=0.0),
        estimate_correlation(frame, "one", "human", settings, level, null=0.0),
    )


def test_kendall_of_many_contexts_falls_back_to_the_loop(monkeypatch):
    frame = candidates()
    settings = Resampling(n=100, method="percentile")
    wanted = estimate_correlation(frame, "one", "human", settings, "dataset", "kendall")
    monkeypatch.setattr("biaslab.stats.weighted_correlation._LARGEST", 3)
    same(estimate_correlation(frame, "one", "human", settings, "dataset", "kendall"), wanted)


def test_correlations_are_undefined_with_a_reason():
    frame = candidates()
    for level in LEVELS:
        for constant in (frame.assign(one=3.0), frame.assign(one=np.nan), frame.iloc[:0]):
            for found in (
                estimate_correlation(constant, "one", "human", FEW, level, null=0.0),
                correlation_difference(constant, "one", "two", "human", FEW, level),
            ):
                assert math.isnan(found.estimate)
                assert math.isnan(found.ci_low)
                assert math.isnan(found.p_value)
                assert found.note
    one = estimate_correlation(frame[frame["context_id"] == "0"], "one", "human", FEW, "dataset")
    assert (math.isnan(one.ci_low), one.note) == (True, "no interval: only one context")
    perfect = estimate_correlation(frame.assign(one=frame["human"]), "one", "human", FEW, "dataset")
    assert perfect.estimate == 1
    assert perfect.ci_low < 0.95


def packages_alpha(frame, level):
    wide = frame.pivot_table(index="annotator", columns=["context_id", "unit"], values="score")
    return krippendorff.alpha(wide.to_numpy(), level_of_measurement=level)


@pytest.mark.parametrize("level", ["interval", "ordinal", "nominal"])
def test_weighted_alpha_is_the_packages_of_the_repeated_frame(level):
    frame = ratings(contexts=9)
    found = estimate_alpha(frame, FEW, level, ["unit"])
    wanted = packages_alpha(frame, level)
    assert found.estimate == pytest.approx(wanted, abs=1e-9)
    values = [packages_alpha(repeated(frame, np.arange(9) != left), level) for left in range(9)]
    z = 9 * np.arctanh(wanted) - 8 * np.arctanh(values)
    wanted_interval = np.tanh(np.arctanh(wanted) + np.array([-1, 1]) * stats.t.ppf(0.975, 8) * stats.sem(z))
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(wanted_interval), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["interval", "ordinal", "nominal"])
@given(seed=st.integers(0, 30), random=st.randoms(use_true_random=False))
def test_alpha_ignores_order_and_names(level, seed, random):
    frame = ratings(seed)
    names = {kind: dict(zip("01234567", random.sample("abcdefgh", 8), strict=True)) for kind in frame.columns[:3]}
    other = frame.sample(frac=1, random_state=random.randrange(99))
    other = other.assign(**{kind: other[kind].map(names[kind]) for kind in names}, score=other["score"] * 7)
    settings = Resampling(n=100, seed=seed, method=random.choice(["studentised", "percentile", "bca"]))
    same(estimate_alpha(other, settings, level, ["unit"]), estimate_alpha(frame, settings, level, ["unit"]))


def test_difference_of_alphas_is_paired():
    first, second = ratings(1), ratings(1).assign(score=lambda f: f["score"].where(f["annotator"] != "2", 3.0))
    gap = alpha_difference(first, second, FEW, units=["unit"])
    alphas = [packages_alpha(f, "interval") for f in (first, second)]
    assert gap.estimate == pytest.approx(alphas[0] - alphas[1], abs=1e-9)
    assert gap.p_value < 0.05
    nothing = alpha_difference(first, first, FEW, units=["unit"])
    assert (nothing.estimate, nothing.p_value) == (0.0, 1.0)
    apart = alpha_difference(first, second.assign(context_id="z" + second["context_id"]), FEW, units=["unit"])
    assert (math.isnan(apart.estimate), bool(apart.note)) == (True, True)


def test_alphas_are_undefined_with_a_reason():
    frame = ratings()
    for constant in (frame.assign(score=3.0), frame.assign(score=np.nan), frame.iloc[:0]):
        found = estimate_alpha(constant, FEW, units=["unit"])
        assert math.isnan(found.estimate)
        assert found.note
    one = estimate_alpha(frame[frame["context_id"] == "0"], FEW, units=["unit"])
    assert (math.isnan(one.ci_low), one.note) == (True, "no interval: only one context")
    agreed = frame.assign(score=frame["context_id"].astype(float))
    assert estimate_alpha(agreed, FEW, units=["unit"]).ci_low == pytest.approx(1 - 2 * (1 - 0.025 ** (1 / 8)))
    for missing in ("context_id", "score", "unit"):
        with pytest.raises(TrialsError, match=missing):
            alpha_difference(frame, frame.drop(columns=missing), FEW, units=["unit"])


class Counted:
    """A statistic of sums that counts the weights that it is given, one a replicate and context."""

    def __init__(self, sums, opaque=False):
        self.sums, self.opaque, self.weights = sums, opaque, 0

    def __call__(self, weights):
        if self.opaque:
            weights = np.asarray(weights)
        self.weights += weights.size if isinstance(weights, np.ndarray) else len(weights)
        up, down = (weights @ self.sums).T
        return np.log(up / down)


def many(contexts, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.gamma(2.0, 1.0, contexts), rng.gamma(3.0, 1.0, contexts)])


def test_sums_of_many_contexts_are_jackknifed_by_subtraction():
    sums = many(MANY)
    statistic = Counted(sums)
    found = cluster_statistic(statistic, MANY, Resampling(), null=0.0, inference="t")
    without = np.array([np.log(np.delete(sums, n, axis=0).sum(axis=0)) @ (1, -1) for n in range(MANY)])
    pseudo = MANY * found.estimate - (MANY - 1) * without
    assert found.se == pytest.approx(stats.sem(pseudo), rel=1e-9)
    low, high = stats.t.interval(0.95, MANY - 1, found.estimate, stats.sem(pseudo))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), rel=1e-9)
    assert found.method.startswith("jackknife t over contexts")


@pytest.mark.parametrize(("opaque", "each"), [(False, 2), (True, GROUPS + 1)])
def test_the_work_of_the_jackknife_grows_with_contexts(opaque, each):
    for contexts in (MANY, 4 * MANY):
        statistic = Counted(many(contexts), opaque)
        cluster_statistic(statistic, contexts, Resampling(), null=0.0, inference="t")
        assert statistic.weights == contexts * each


def test_opaque_statistics_are_jackknifed_over_random_groups():
    sums = many(3 * MANY)
    exact = cluster_statistic(Counted(sums), len(sums), Resampling(), null=0.0, inference="t")
    grouped = cluster_statistic(Counted(sums, opaque=True), len(sums), Resampling(), null=0.0, inference="t")
    assert grouped.method == f"jackknife t over {GROUPS} random groups of contexts; t test"
    assert grouped.estimate == pytest.approx(exact.estimate, rel=1e-12)
    assert grouped.se == pytest.approx(exact.se, rel=0.2)
    assert grouped.n_contexts == len(sums)
    few = cluster_statistic(Counted(sums[:100], opaque=True), 100, Resampling(), null=0.0, inference="t")
    assert few.method == "jackknife t over contexts; t test"


def test_one_context_that_decides_is_seen_among_many():
    sums = np.column_stack([np.where(np.arange(MANY) == 7, 0.1, 0.0), np.full(MANY, 0.3)])

    def ratio(weights):
        up, down = (weights @ sums).T
        return np.divide(down, up, where=up > 0, out=np.full(len(up), np.nan))

    found = cluster_statistic(ratio, MANY, Resampling(), inference="t")
    assert "depends on a single context" in found.note


@pytest.mark.slow
def test_intervals_over_random_groups_cover():
    """600 log ratios of gamma sums over 2,000 contexts, truth log(2 / 3); .95 ± 3 standard errors is .923 to .977."""
    covered = []
    for seed in range(600):
        statistic = Counted(many(MANY, seed), opaque=True)
        found = cluster_statistic(statistic, MANY, Resampling(seed=seed), null=0.0, inference="t")
        covered.append(found.ci_low <= math.log(2 / 3) <= found.ci_high)
    assert 0.923 < np.mean(covered) < 0.977
