"""The general path against scipy, plain loops and the frames it stands for."""

import math
import warnings

import krippendorff
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from hypothesis import given, strategies as st
from scipy import stats
from scipy.special import expit

from biaslab.core.errors import InputError, SharedRequestsWarning, TrialsError
from biaslab.stats.blocks import clustered, joined, shared_requests, warn_shared
from biaslab.stats.correlation import arranged, correlation, correlation_difference, estimate_correlation
from biaslab.stats.distribution import myers_estimate
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model, log_odds_at_equal, logistic_model
from biaslab.stats.reliability import alpha_difference, estimate_alpha
from biaslab.stats.resample import (
    GROUPS,
    JACKKNIFE_GROUPS,
    MANY as JACKKNIFE_MANY,
    Resampling,
    cluster_difference,
    cluster_statistic,
    draw_weights,
    grouped_codes,
    in_groups,
    over_clusters,
    patterns,
    random_groups,
    sign_flip,
    swap_test,
)

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
    for weights in next(draw_weights(len(contexts), 5, seed=1)):
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
    monkeypatch.setattr("biaslab.stats.correlation._LARGEST", 3)
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
    sums = many(JACKKNIFE_MANY)
    statistic = Counted(sums)
    found = cluster_statistic(statistic, JACKKNIFE_MANY, Resampling(), null=0.0, inference="t")
    without = np.array([np.log(np.delete(sums, n, axis=0).sum(axis=0)) @ (1, -1) for n in range(JACKKNIFE_MANY)])
    pseudo = JACKKNIFE_MANY * found.estimate - (JACKKNIFE_MANY - 1) * without
    assert found.se == pytest.approx(stats.sem(pseudo), rel=1e-9)
    low, high = stats.t.interval(0.95, JACKKNIFE_MANY - 1, found.estimate, stats.sem(pseudo))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), rel=1e-9)
    assert found.method.startswith("jackknife t over contexts")


@pytest.mark.parametrize(("opaque", "each"), [(False, 2), (True, JACKKNIFE_GROUPS + 1)])
def test_the_work_of_the_jackknife_grows_with_contexts(opaque, each):
    for contexts in (JACKKNIFE_MANY, 4 * JACKKNIFE_MANY):
        statistic = Counted(many(contexts), opaque)
        cluster_statistic(statistic, contexts, Resampling(), null=0.0, inference="t")
        assert statistic.weights == contexts * each


def test_opaque_statistics_are_jackknifed_over_random_groups():
    sums = many(3 * JACKKNIFE_MANY)
    exact = cluster_statistic(Counted(sums), len(sums), Resampling(), null=0.0, inference="t")
    grouped = cluster_statistic(Counted(sums, opaque=True), len(sums), Resampling(), null=0.0, inference="t")
    assert grouped.method == f"jackknife t over {JACKKNIFE_GROUPS} random groups of contexts; t test"
    assert grouped.estimate == pytest.approx(exact.estimate, rel=1e-12)
    assert grouped.se == pytest.approx(exact.se, rel=0.2)
    assert grouped.n_contexts == len(sums)
    few = cluster_statistic(Counted(sums[:100], opaque=True), 100, Resampling(), null=0.0, inference="t")
    assert few.method == "jackknife t over contexts; t test"


def test_one_context_that_decides_is_seen_among_many():
    sums = np.column_stack([np.where(np.arange(JACKKNIFE_MANY) == 7, 0.1, 0.0), np.full(JACKKNIFE_MANY, 0.3)])

    def ratio(weights):
        up, down = (weights @ sums).T
        return np.divide(down, up, where=up > 0, out=np.full(len(up), np.nan))

    found = cluster_statistic(ratio, JACKKNIFE_MANY, Resampling(), inference="t")
    assert "depends on a single context" in found.note


@pytest.mark.slow
def test_intervals_over_random_groups_cover():
    """600 log ratios of gamma sums over 2,000 contexts, truth log(2 / 3); .95 ± 3 standard errors is .923 to .977."""
    covered = []
    for seed in range(600):
        statistic = Counted(many(JACKKNIFE_MANY, seed), opaque=True)
        found = cluster_statistic(statistic, JACKKNIFE_MANY, Resampling(seed=seed), null=0.0, inference="t")
        covered.append(found.ci_low <= math.log(2 / 3) <= found.ci_high)
    assert 0.923 < np.mean(covered) < 0.977


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


@pytest.mark.parametrize("options", [{"n": 10}, {"level": 95}, {"method": "normal"}])
def test_settings_are_checked(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Resampling(**options)


def test_weights_count_the_contexts_that_a_generator_draws():
    chunks = list(draw_weights(7, 50, seed=3, most=70))
    drawn = np.random.default_rng(3).integers(0, 7, size=(50, 7))
    assert [len(chunk) for chunk in chunks] == [10] * 5
    assert np.array_equal(np.concatenate(chunks), [np.bincount(row, minlength=7) for row in drawn])


NUMBERS = ("estimate", "se", "ci_low", "ci_high", "p_value", "n_contexts")


def by_hand(rows):
    """Merge contexts that share a key until nothing changes."""
    groups = [{context} for context in dict.fromkeys(context for context, _ in rows)]
    for key in {key for _, key in rows}:
        sharing = {context for context, other in rows if other == key}
        touched = [group for group in groups if group & sharing]
        groups = [group for group in groups if not group & sharing] + [set().union(*touched)]
    return {frozenset(group) for group in groups if len(group) > 1}


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 12)), min_size=1, max_size=25))
def test_clusters_are_the_connected_components(rows):
    trials = pd.DataFrame(rows, columns=["context_id", "key"]).astype({"key": str})
    found = shared_requests(trials)
    groups = pd.Series(found).index.groupby(pd.Series(found)) if found else {}
    assert {frozenset(group) for group in groups.values()} == by_hand(rows)
    order = list(trials["context_id"])
    assert all(order.index(cluster) == min(map(order.index, groups[cluster])) for cluster in groups)


@given(*[st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdefxy"), max_size=5)] * 2)
def test_joined_clusters_are_the_connected_components(one, other):
    names = [*"abcdefxy"]
    found = joined(Resampling(clusters=one), other).cluster_of(names)
    rows = [(name, (number, each.get(name, name))) for number, each in enumerate((one, other)) for name in names]
    groups = pd.Series(names).groupby(found).agg(frozenset)
    assert {group for group in groups if len(group) > 1} == by_hand(rows)


def test_probe_keeps_its_clusters_beside_shared_requests():
    trials = pd.DataFrame({"context_id": [*"aabbcd"], "key": [*"122345"]})
    with pytest.warns(SharedRequestsWarning, match="2 contexts"):
        how = clustered(Resampling(clusters={"c": "d", "d": "d"}), trials, np.array([*"abcd"]), "position")
    assert how.cluster_of(np.arange(4)).tolist() == [0, 0, 1, 1]


def test_trials_without_key_share_no_requests():
    trials = pd.DataFrame({"context_id": [*"aabb"], "key": ["1", "2", "2", "1"]})
    assert shared_requests(trials)
    assert not shared_requests(trials.drop(columns="key"))
    assert not shared_requests(trials.assign(probe="recorded"))
    assert not shared_requests(trials.assign(key=None))
    assert not shared_requests(trials.assign(key=""))
    assert not shared_requests(trials.assign(context_id="a"))  # asked twice in one context
    assert not shared_requests(trials.iloc[:0])


def test_the_warning_counts_contexts_and_clusters():
    with pytest.warns(SharedRequestsWarning, match=r"position: 3 contexts .* as 1 cluster "):
        warn_shared("position", {"a": "a", "b": "a", "c": "a"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_shared("position", {})


def twice(contexts):
    """Names of contexts and of their copies, and the clusters that they are."""
    copies = [f"{name} again" for name in contexts]
    return [*contexts, *copies], dict(zip([*contexts, *copies], [*contexts] * 2, strict=True))


def same_clusters(found, wanted, tolerance=1e-9):
    for name in NUMBERS:
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=tolerance, abs=1e-9, nan_ok=True), name


@pytest.mark.parametrize("weights", ["items", "contexts"])
@pytest.mark.parametrize("inference", ["resampling", "t"])
def test_a_ratio_of_contexts_twice_is_that_of_contexts_once(inference, weights):
    rng = np.random.default_rng(3)
    context = [f"c{k}" for k in rng.integers(0, 12, 60)]
    up, down = rng.random(60), rng.integers(1, 4, 60).astype(float)
    other = rng.random(60)
    names, clusters = twice(context)
    options = {"null": 0.3, "inference": inference}
    once, again = Resampling(n=300, weights=weights), Resampling(n=300, weights=weights, clusters=clusters)
    one, two = Ratio(context, up, down, **options), Ratio(names, [*up, *up], [*down, *down], **options)
    same_clusters(two.estimate(again), one.estimate(once))
    against = Ratio(context, other, down, **options), Ratio(names, [*other, *other], [*down, *down], **options)
    same_clusters(two.difference(against[1], again), one.difference(against[0], once))


@pytest.mark.parametrize("level", ["context", "dataset"])
def test_correlations_slopes_and_alpha_follow(level):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"context_id": np.repeat([f"c{k}" for k in range(10)], 4), "x": rng.normal(size=40)})
    frame = frame.assign(y=frame["x"] + rng.normal(size=40))
    names, clusters = twice(list(frame["context_id"]))
    double = pd.concat([frame, frame], ignore_index=True).assign(context_id=names)
    once, again = Resampling(n=200), Resampling(n=200, clusters=clusters)
    same_clusters(
        estimate_correlation(double, "x", "y", again, level), estimate_correlation(frame, "x", "y", once, level)
    )
    slope = linear_model(double, "y ~ x", within=level == "context", clusters=clusters)["x"]
    same_clusters(slope, linear_model(frame, "y ~ x", within=level == "context")["x"])
    ratings = frame.melt("context_id", ["x", "y"], "annotator", "score", ignore_index=False).reset_index()
    copies = pd.concat([ratings, ratings.assign(context_id=ratings["context_id"] + " again")], ignore_index=True)
    units = ["index"]
    found, wanted = estimate_alpha(copies, again, units=units), estimate_alpha(ratings, once, units=units)
    same_clusters(found, wanted, 0.05)  # alpha counts the ratings


def test_jackknife_deletes_whole_clusters():
    values = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3, 0.7])
    clusters = Resampling(clusters={"b": "a", "g": "f"})
    statistic, names = over_clusters(lambda w: w @ values / w.sum(axis=1), [*"abcdefg"], clusters)
    found = cluster_statistic(statistic, names, Resampling())
    groups = [[0, 1], [2], [3], [4], [5, 6]]
    left = np.array([np.delete(values, group).mean() for group in groups])
    pseudo = 5 * values.mean() - 4 * left
    assert (found.estimate, found.se) == pytest.approx((values.mean(), pseudo.std(ddof=1) / np.sqrt(5)))


def test_weights_are_checked():
    with pytest.raises(InputError, match="items or contexts"):
        Resampling(weights="size")


MANY = 2 * GROUPS + 3_000


@given(st.integers(1, 500), st.integers(1, 50), st.integers(0, 9))
def test_groups_differ_in_size_by_at_most_one_context(contexts, groups, seed):
    sizes = np.bincount(random_groups(contexts, groups, seed), minlength=groups)
    assert sizes.sum() == contexts
    assert np.ptp(sizes) <= 1


def test_groups_keep_the_totals_and_the_variance_of_contexts():
    sums = np.random.default_rng(0).gamma(2.0, size=(MANY, 2))
    together = in_groups(sums, seed=1)
    assert together.shape == (GROUPS, 2)
    assert together.sum(axis=0) == pytest.approx(sums.sum(axis=0))
    centred = sums - sums.mean(axis=0)
    squares = [(part**2).sum(axis=0) for part in (in_groups(centred, seed=1), centred)]
    assert squares[0] == pytest.approx(squares[1], rel=0.08)


def test_fewer_contexts_stay_as_they_are():
    few = np.arange(2.0 * GROUPS - 1)
    assert in_groups(few, seed=0) is few
    assert grouped_codes(few.astype(int)).tolist() == few.tolist()


@pytest.mark.slow
def test_ratio_interval_of_many_contexts_is_normal():
    rng = np.random.default_rng(2)
    size = rng.integers(1, 4, MANY)
    won = rng.binomial(size, 0.6)
    found = Ratio(np.arange(MANY), won, size).estimate(Resampling(n=20_000))
    value = won.sum() / size.sum()
    error = np.sqrt(((won - value * size) ** 2).sum()) / size.sum()
    assert found.estimate == pytest.approx(value)
    assert found.n_contexts == MANY
    assert [found.ci_low, found.ci_high] == pytest.approx([value - 1.96 * error, value + 1.96 * error], abs=0.1 * error)


@pytest.mark.parametrize("shift", [0.0, 0.012])
def test_flipping_groups_gives_the_p_value_of_many_contexts(shift):
    values = np.random.default_rng(3).normal(shift, 1.0, MANY)
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert sign_flip(values) == pytest.approx(expected, abs=0.02)


@pytest.fixture(scope="module")
def verdicts():
    rng = np.random.default_rng(4)
    context = np.repeat(np.arange(MANY), 2)
    human, length = rng.normal(size=(2, len(context)))
    lean = np.repeat(rng.normal(0, 0.7, MANY), 2)
    won = rng.random(len(context)) < expit(0.8 * human + 0.1 * length + lean)
    return pd.DataFrame({"context_id": context, "won": won * 1.0, "human": human, "length": length, "one": 1.0})


def test_logistic_errors_are_those_of_the_cluster_sandwich(verdicts):
    names = ["one", "length", "human"]
    found = logistic_model(verdicts, "won", names, Resampling())
    fit = sm.GLM(verdicts["won"], verdicts[names], sm.families.Binomial()).fit(
        cov_type="cluster", cov_kwds={"groups": verdicts["context_id"]}
    )
    assert [found[name].estimate for name in names] == pytest.approx(fit.params.tolist(), abs=1e-9)
    assert [found[name].se for name in names] == pytest.approx(fit.bse.tolist(), rel=0.05)


def test_log_odds_at_equal_scores_match_the_logistic_model(verdicts):
    sides = pd.DataFrame({"context_id": np.tile(np.arange(len(verdicts)), 2)})
    sides["human"] = np.concatenate([verdicts["human"], -verdicts["human"]]) / 2
    found = log_odds_at_equal(verdicts, "won", ["one", "length"], sides, Resampling())(0.0)
    plain = logistic_model(verdicts, "won", ["one", "length", "human"], Resampling())["length"]
    assert [found.estimate, found.se] == pytest.approx([plain.estimate, plain.se], rel=1e-6)
    assert found.n_contexts == plain.n_contexts == MANY


def test_linear_errors_are_those_of_the_cluster_sandwich(verdicts):
    found = linear_model(verdicts, "won ~ human + length")["length"]
    fit = sm.OLS(verdicts["won"], verdicts[["one", "human", "length"]]).fit(
        cov_type="cluster", cov_kwds={"groups": verdicts["context_id"]}
    )
    assert found.se == pytest.approx(fit.bse["length"], rel=0.05)
    assert found.n_contexts == MANY


@pytest.mark.slow
def test_heaps_of_many_contexts_need_little_memory():
    levels = range(1, 101)
    scores = np.random.default_rng(5).integers(1, 101, 60_000)
    found = myers_estimate(np.arange(len(scores)), np.eye(100)[scores - 1], levels, Resampling(n=200))
    assert found.n_contexts == (scores < 100).sum()
    assert found.estimate < 0.01
    assert found.ci_high < 0.02
