"""Krippendorff's alpha and correlations, against known values, the definitions, and properties."""

import math

import hypothesis.strategies as st
import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.correlation import agreement_loss, correlation
from biaslab.stats.reliability import (
    Crossed,
    estimate_alpha,
    fit_components,
    krippendorff_alpha,
    rating_error,
    spread_of_means,
)
from biaslab.stats.resample import Resampling
from biaslab.stats.samples import expected_agreement_loss, sampling_noise, thought_variance

LEVELS = ("interval", "ordinal", "nominal")
NAN = math.nan
#: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", example C: 4 observers, 12 units.
EXAMPLE = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]


def tidy(matrix):
    rows = [(u, f"a{a}", score) for a, line in enumerate(matrix) for u, score in enumerate(line)]
    return pd.DataFrame(rows, columns=["context_id", "annotator", "score"])


def alpha(frame, level="interval"):
    return estimate_alpha(frame, Resampling(n=100), level)


matrices = st.integers(2, 4).flatmap(
    lambda annotators: st.lists(
        st.lists(st.one_of(st.just(NAN), st.integers(1, 5)), min_size=annotators, max_size=annotators),
        min_size=2,
        max_size=8,
    ).map(lambda units: np.array(units, dtype=float).T)
)


@pytest.mark.parametrize(("level", "printed"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_own_example(level, printed):
    found = alpha(tidy(EXAMPLE), level)
    assert found.estimate == pytest.approx(printed, abs=5e-4)
    assert (found.note, found.n_contexts) == ("", 11)


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        ([[3, 3], [3, 3]], "all scores are the same"),
        ([[3, 3, 1], [3, 3, NAN]], "all scores are the same"),
        ([[1, 2, 3]], "fewer than two annotators"),
        ([[1, 2], [NAN, NAN]], "fewer than two annotators"),
        ([[1, NAN], [NAN, 2]], "no unit has two scores"),
        ([[NAN], [NAN]], "fewer than two annotators"),
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_alpha_is_undefined_with_a_reason(matrix, reason, level):
    found = alpha(tidy(matrix), level)
    assert math.isnan(found.estimate)
    assert found.note == reason


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(matrices, st.sampled_from(LEVELS), st.randoms())
def test_alpha_ignores_names_of_annotators_and_order(matrix, level, random):
    frame = tidy(matrix)
    names = sorted(set(frame["annotator"]))
    shuffled = random.sample(names, len(names))
    other = frame.assign(annotator=frame["annotator"].map(dict(zip(names, shuffled, strict=True))))
    other = other.sample(frac=1, random_state=random.randrange(1000))
    assert alpha(other, level).estimate == pytest.approx(alpha(frame, level).estimate, nan_ok=True)


def test_alpha_of_a_list_asks_for_a_frame():
    with pytest.raises(TrialsError, match=r"scores is .*, allowed: a frame with the columns annotator, score"):
        krippendorff_alpha([1, 2])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(matrices, st.sampled_from(LEVELS))
def test_alpha_is_the_packages_and_at_most_one(matrix, level):
    found = alpha(tidy(matrix), level)
    assert krippendorff_alpha(tidy(matrix), level) == pytest.approx(found.estimate, abs=1e-9, nan_ok=True)
    pairable = matrix[:, (~np.isnan(matrix)).sum(axis=0) > 1]
    if math.isnan(found.estimate):
        assert len(np.unique(pairable[~np.isnan(pairable)])) < 2
        return
    assert found.estimate == pytest.approx(krippendorff.alpha(pairable, level_of_measurement=level), abs=1e-9)
    assert found.estimate <= 1 + 1e-12


@pytest.mark.parametrize("level", LEVELS)
def test_alpha_of_continuous_scores_needs_little_memory(level):
    random = np.random.default_rng(0)
    truth = random.normal(size=4000)
    frame = tidy(truth + random.normal(size=(2, 4000))).rename(columns={"context_id": "unit"})
    value = alpha(frame.assign(context_id=frame["unit"] % 8), level).estimate
    assert value == pytest.approx({"interval": 0.5, "ordinal": 0.483, "nominal": 0.0}[level], abs=0.04)


def test_alpha_refuses_unknown_level_missing_column_duplicates():
    frame = tidy(EXAMPLE)
    with pytest.raises(InputError, match="interval, ordinal, nominal"):
        alpha(frame, "ratio")
    with pytest.raises(TrialsError, match="annotator"):
        alpha(frame.drop(columns="annotator"))
    with pytest.raises(TrialsError, match="several scores of"):
        alpha(pd.concat([frame, frame]))
    with pytest.raises(InputError, match="finite"):
        alpha(frame.replace(5, math.inf))


FRAME = pd.DataFrame(
    {
        "context_id": list("aaaabbbbccccd"),
        "system": [*"wxyz" * 3, "w"],
        "judge": [1, 2, 3, 4, 4, 3, 2, 1, 5, 5, 5, 5, 2],
        "human": [1, 2, 4, 3, 1, 2, 3, 4, 1, 2, 3, 4, 1],
    }
)


@pytest.mark.parametrize(
    ("method", "fraction"),
    [("spearman", (0.8 - 1) / 2), ("kendall", (2 / 3 - 1) / 2), ("pearson", (0.8 - 1) / 2)],
)
def test_correlation_by_context_averages_varying_contexts(method, fraction):
    found = correlation(FRAME, "judge", "human", "context", method)
    assert found.value == pytest.approx(fraction)
    assert (found.n, found.reason) == (2, "")


@pytest.mark.parametrize(
    ("method", "expected"),
    [("spearman", stats.spearmanr), ("kendall", stats.kendalltau), ("pearson", stats.pearsonr)],
)
def test_correlation_pooled_and_by_system_are_scipys(method, expected):
    pooled = correlation(FRAME, "judge", "human", "dataset", method)
    assert (pooled.value, pooled.n) == (pytest.approx(expected(FRAME["judge"], FRAME["human"]).statistic), 13)
    means = FRAME.groupby("system")[["judge", "human"]].mean()
    by_system = correlation(FRAME, "judge", "human", "system", method)
    assert by_system.value == pytest.approx(expected(means["judge"], means["human"]).statistic)
    assert by_system.n == 4


@given(
    st.sampled_from([("spearman", stats.spearmanr), ("kendall", stats.kendalltau), ("pearson", stats.pearsonr)]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=40),
)
def test_correlations_of_contexts_are_scipys_one_by_one(method, rows):
    frame = pd.DataFrame(rows, columns=["context_id", "judge", "human"])
    parts = [part for _, part in frame.groupby("context_id")]
    varied = [part for part in parts if part["judge"].std() > 0 and part["human"].std() > 0]
    found = correlation(frame, "judge", "human", "context", method[0])
    assert found.n == len(varied)
    if varied:
        expected = sum(method[1](part["judge"], part["human"]).statistic for part in varied) / len(varied)
        assert found.value == pytest.approx(expected, abs=1e-9)


def test_correlation_is_undefined_with_a_reason():
    constant = FRAME.assign(judge=1)
    for level, reason in (
        ("context", "in no context do both scores vary"),
        ("dataset", "one of the scores is the same for all candidates"),
        ("system", "one of the scores is the same for all systems"),
    ):
        found = correlation(constant, "judge", "human", level)
        assert math.isnan(found.value)
        assert str(found.reason) == reason
    empty = FRAME.assign(judge=NAN)
    assert correlation(empty, "judge", "human", "dataset").reason["units"] == "candidates"
    assert correlation(empty, "judge", "human", "context").n == 0
    assert correlation(empty, "judge", "human", "system").reason["units"] == "systems"


def test_correlation_drops_missing_scores_and_rounding():
    missing = FRAME.assign(judge=FRAME["judge"].where(FRAME.index != 3))
    assert correlation(missing, "judge", "human", "dataset").n == 12
    noisy = FRAME.assign(judge=FRAME["judge"] * (1 + 1e-15 * np.arange(13)))
    for method in ("spearman", "kendall", "pearson"):
        assert correlation(noisy, "judge", "human", "dataset", method) == correlation(
            FRAME, "judge", "human", "dataset", method
        )


def test_correlation_refuses_unknown_level_method_and_columns():
    with pytest.raises(InputError, match="context, dataset, system"):
        correlation(FRAME, "judge", "human", "summary")
    with pytest.raises(InputError, match="spearman, kendall, pearson"):
        correlation(FRAME, "judge", "human", method="tau")
    with pytest.raises(TrialsError, match="score"):
        correlation(FRAME, "score", "human")
    with pytest.raises(InputError, match="finite"):
        correlation(FRAME.assign(judge=math.inf), "judge", "human")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=20),
    st.sampled_from(("context", "dataset")),
    st.sampled_from(("spearman", "kendall", "pearson")),
    st.floats(1e-6, 1e6),
)
def test_correlation_is_symmetric_and_has_no_unit(rows, level, method, factor):
    frame = pd.DataFrame(rows, columns=["context_id", "judge", "human"])
    found = correlation(frame, "judge", "human", level, method)
    other = correlation(frame.assign(judge=frame["judge"] * factor), "human", "judge", level, method)
    assert other.value == pytest.approx(found.value, abs=1e-9, nan_ok=True)
    assert (other.n, other.reason) == (found.n, found.reason)
    assert math.isnan(found.value) or -1 <= found.value <= 1


ONCE = Resampling(n=100)


def study(contexts, k, spread, rng, candidates=4, gap=0.0):
    """Scores whose expected values agree equally with humans; those of the second are sampled with more noise."""
    human = rng.normal(size=(contexts, candidates))
    frame = pd.DataFrame({"context_id": np.repeat(np.arange(contexts), candidates), "human": human.ravel()})
    sampled = {}
    for name, noise, own in (("one", 0.3, 0.7), ("two", spread, 0.7 + gap)):
        expected = human + rng.normal(size=human.shape) * own + rng.normal(size=(contexts, 1))
        samples = expected.ravel()[:, None] + rng.normal(size=(human.size, k)) * noise
        frame[name], sampled[name] = samples.mean(axis=1), samples
    return frame, sampled


@pytest.mark.parametrize("method", ["kendall", "spearman", "pearson"])
@pytest.mark.parametrize("level", ["context", "dataset"])
def test_loss_without_noise_is_the_raw_loss(method, level):
    frame, _ = study(12, 2, 1.0, np.random.default_rng(1))
    exact = agreement_loss(frame, "one", "two", "human", ONCE, level, method)
    found = expected_agreement_loss(frame, "one", "two", "human", {}, ONCE, level, method)
    assert found.estimate == pytest.approx(exact.estimate, abs=1e-12)
    if level == "context":
        assert (found.ci_low, found.p_value) == pytest.approx((exact.ci_low, exact.p_value), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kendall", "spearman", "pearson"])
@pytest.mark.parametrize("level", ["context", "dataset"])
def test_noise_alone_is_no_loss(method, level):
    """In a study of so many contexts the bias shows: uncorrected it is .1 within contexts."""
    contexts = 3000 if level == "context" else 500
    frame, samples = study(contexts, 3, 1.5, np.random.default_rng(2))
    found = expected_agreement_loss(frame, "one", "two", "human", samples, ONCE, level, method)
    raw = agreement_loss(frame, "one", "two", "human", ONCE, level, method)
    assert raw.estimate > (0.1 if level == "context" else 0.04)
    assert abs(found.estimate) < 3.5 * found.se < 0.1


def test_true_loss_is_detected_in_either_order():
    frame, samples = study(600, 3, 1.0, np.random.default_rng(3), gap=1.0)
    found = expected_agreement_loss(frame, "one", "two", "human", samples, ONCE, method="kendall")
    assert found.ci_low > 0.1
    back = expected_agreement_loss(frame, "two", "one", "human", samples, ONCE, method="kendall")
    assert (back.estimate, back.ci_low) == pytest.approx((-found.estimate, -found.ci_high))
    share = expected_agreement_loss(frame, "one", "two", "human", samples, ONCE, method="kendall", relative=True)
    assert 0 < share.ci_low < share.estimate < share.ci_high < 1
    assert np.isnan(share.p_value)


@pytest.mark.thorough
@pytest.mark.parametrize(("contexts", "k"), [(8, 3), (24, 2), (24, 3)])
def test_type_one_error_and_coverage_keep_their_level(contexts, k):
    """120 studies: a share outside these limits has a chance below 1 in 1000 where the level is .05."""
    rng = np.random.default_rng([contexts, k])
    found = [
        expected_agreement_loss(frame, "one", "two", "human", samples, ONCE, method="kendall")
        for frame, samples in (study(contexts, k, 1.5, rng) for _ in range(120))
    ]
    found = [one for one in found if not np.isnan(one.estimate)]
    assert len(found) > 110
    assert np.mean([one.p_value < 0.05 for one in found]) < 0.13
    assert [one.p_value < 0.05 for one in found] == [not one.ci_low <= 0 <= one.ci_high for one in found]


def test_noise_as_large_as_the_differences_is_no_basis():
    frame, samples = study(40, 2, 1.0, np.random.default_rng(4))
    samples["two"] = np.random.default_rng(5).normal(size=samples["two"].shape)
    found = expected_agreement_loss(frame, "one", "two", "human", samples, ONCE)
    assert np.isnan(found.estimate)
    assert "use more samples" in found.note


def test_noise_of_a_mean_is_its_squared_standard_error():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(30, 4))
    assert sampling_noise(values) == pytest.approx(values.var(axis=1, ddof=1) / 4)
    assert np.isnan(sampling_noise(values[:, :1])).all()


def drawn(contexts=40, items=4, conditions=(0.0, 0.5, 1.0), sd=(1.0, 0.8, 0.6, 0.7), seed=0):
    """Draw scores, with standard deviations of contexts, items, and the interactions of both with conditions."""
    rng = np.random.default_rng(seed)
    context, j = np.repeat(np.arange(contexts), items), len(conditions)
    own = sd[0] * rng.normal(size=contexts)[context] + sd[1] * rng.normal(size=contexts * items)
    crossing = sd[2] * rng.normal(size=(contexts, j))[context] + sd[3] * rng.normal(size=(contexts * items, j))
    return Crossed(context, own[:, None] + np.array(conditions) + crossing)


def values(found):
    parts = found.context, found.item, found.condition, found.interaction, found.sampling
    return np.array([float(part[0]) for part in parts])


def complete(crossed, fit="anova"):
    return values(fit_components(crossed, np.ones((1, crossed.contexts)), fit))


def test_mean_squares_are_those_of_a_table_of_variance():
    crossed = drawn(contexts=12, items=3)
    rows, j = crossed.scores.shape
    frame = pd.DataFrame(
        {
            "y": crossed.scores.ravel(),
            "c": np.repeat(crossed.context, j),
            "i": np.repeat(np.arange(rows) % 3, j),
            "t": np.tile(np.arange(j), rows),
        }
    )
    table = anova_lm(ols("y ~ C(c) + C(c):C(i) + C(t) + C(c):C(t)", frame).fit())
    square = table["sum_sq"] / table["df"]
    left, crossing = square["Residual"], square["C(c):C(t)"]
    shared, item = (crossing - left) / 3, (square["C(c):C(i)"] - left) / j
    context = (square["C(c)"] - square["C(c):C(i)"] - crossing + left) / (3 * j)
    condition = (square["C(t)"] - crossing) / rows
    np.testing.assert_allclose(complete(crossed), [context, item, condition, left + shared, 0.0], rtol=1e-8)


def test_reml_agrees_with_anova_in_balanced_contexts():
    crossed = drawn(contexts=20)
    np.testing.assert_allclose(complete(crossed, "reml"), complete(crossed), rtol=0.01, atol=0.002)


def test_a_mixed_model_that_fails_is_undefined():
    crossed = Crossed(np.arange(3), np.ones((3, 2)))
    assert np.isnan(complete(crossed, "reml")[:4]).all()


@pytest.mark.parametrize("unequal", [False, True])
def test_known_components_are_found_on_average(unequal):
    """Over many draws, also where contexts differ in size: the estimates are unbiased."""
    found = []
    for seed in range(60):
        crossed = drawn(seed=seed)
        if unequal:
            keep = np.random.default_rng(seed).random(len(crossed.context)) < 0.6
            keep[::4] = True
            crossed = Crossed(crossed.context[keep], crossed.scores[keep])
        found.append(complete(crossed))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(len(found))
    truth = np.array([1.0, 0.64, 0.25, 0.36 + 0.49, 0.0])
    assert (np.abs(mean - truth) <= 3.5 * error + 1e-12).all()


def test_one_item_a_context_leaves_items_in_contexts():
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 2, (500, 1)) + rng.normal(0, 1, (500, 4))
    found = complete(Crossed(np.arange(500), scores))
    assert found[0] == pytest.approx(4, abs=0.7)
    assert found[1] == 0
    assert found[3] == pytest.approx(1, abs=0.15)


def test_sampling_variance_is_subtracted_from_interaction():
    rng = np.random.default_rng(2)
    context = np.repeat(np.arange(60), 4)
    true = rng.normal(0, 1, (240, 1)) + rng.normal(0, 0.5, (240, 3))
    samples = true[..., None] + rng.normal(0, 1.5, (240, 3, 5))
    squares = ((samples - samples.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    crossed = Crossed(context, samples.mean(axis=2), squares, np.full((240, 3), 4.0), np.full((240, 3), 5.0))
    found = complete(crossed)
    assert found[4] == pytest.approx(2.25, rel=0.05)
    assert found[3] == pytest.approx(0.25, abs=0.09)
    once = Crossed(context, samples[..., 0], np.zeros((240, 3)), np.zeros((240, 3)), np.ones((240, 3)))
    found = complete(once)
    assert math.isnan(found[4])
    assert found[3] == pytest.approx(2.5, abs=0.4)


@given(st.floats(-5, 5), st.floats(0.1, 10), st.integers(0, 1000))
@settings(max_examples=20)
def test_components_ignore_shift_and_order_and_scale_by_square(shift, factor, seed):
    crossed = drawn(contexts=6, items=2, seed=seed)
    order = np.random.default_rng(seed).permutation(6)
    moved = Crossed(order[crossed.context], shift + factor * crossed.scores)
    np.testing.assert_allclose(complete(moved), factor**2 * complete(crossed), rtol=1e-6, atol=1e-9 * factor**2)


def test_weights_of_0_and_2_are_contexts_left_out_and_doubled():
    crossed = drawn(contexts=6)
    kept = crossed.context < 5
    weights = np.array([[1.0, 1, 1, 1, 1, 0], [2.0, 1, 1, 1, 1, 0]])
    found = fit_components(crossed, weights)
    assert found.item[0] == pytest.approx(complete(Crossed(crossed.context[kept], crossed.scores[kept]))[1])
    again = crossed.context == 0
    context = np.concatenate([crossed.context[kept], np.full(again.sum(), 5)])
    doubled = Crossed(context, np.concatenate([crossed.scores[kept], crossed.scores[again]]))
    assert [float(part[1]) for part in (found.context, found.condition)] == pytest.approx(
        [complete(doubled)[0], complete(doubled)[2]]
    )


def test_the_test_of_means_is_that_of_all_patterns_of_signs():
    rng = np.random.default_rng(3)
    apart = rng.normal(0.3, 1, (7, 3))
    apart -= apart.mean(axis=1, keepdims=True)
    found = spread_of_means(apart, np.full(7, 2.0), Resampling())
    signs = np.array([[1 - 2 * (k >> g & 1) for g in range(7)] for k in range(2**7)])
    norms = np.sqrt(((signs @ apart / 14) ** 2).sum(axis=1) / 2)
    p_value = np.mean(norms >= norms[0] - 1e-12)
    assert found.p_value == pytest.approx(max(p_value, 0.05) if found.ci_low <= 0 else p_value)
    assert found.ci_high == pytest.approx(norms[0] + np.quantile(norms, 0.95))
    assert (found.ci_low > 0) == (found.p_value < 0.05)


def test_the_test_of_means_keeps_its_level():
    rng, rejected = np.random.default_rng(4), 0
    for _ in range(400):
        apart = rng.normal(0, 1, (8, 4))
        rejected += spread_of_means(apart - apart.mean(axis=1, keepdims=True), np.ones(8), Resampling()).p_value < 0.05
    assert 0.02 < rejected / 400 < 0.08


def test_note_gives_the_reason_for_too_little_data():
    assert spread_of_means(np.zeros((0, 3)), np.zeros(0), Resampling()).note.startswith("undefined")
    assert "one context" in spread_of_means(np.array([[1.0, -1.0]]), np.ones(1), Resampling()).note
    assert Crossed(np.zeros(0, int), np.zeros((0, 3))).why_undefined.code == "no_items"
    assert Crossed(np.arange(2), np.zeros((2, 1))).why_undefined.code == "one_condition"


def test_bad_input():
    with pytest.raises(InputError, match="every condition"):
        Crossed(np.arange(2), np.array([[1.0, math.nan], [1.0, 2.0]]))
    with pytest.raises(InputError, match="one row per item"):
        Crossed(np.arange(3), np.zeros((2, 2)))
    with pytest.raises(InputError, match="anova, reml"):
        fit_components(drawn(), np.ones((1, 40)), "bayes")


def two_labels(p):
    return np.log(np.stack([p, 1 - p], axis=-1))


def test_parts_add_up_to_the_variance_of_a_verdict():
    """Of all thoughts together: what the law of total variance says of a share p̄, whose verdicts have p̄(1 − p̄)."""
    p = np.random.default_rng(0).uniform(0.01, 0.99, (20, 6))
    split = thought_variance(two_labels(p))
    complete = p.mean(axis=1) * (1 - p.mean(axis=1))
    assert split.within + split.between * 5 / 6 == pytest.approx(complete.mean())
    assert split.factor.estimate == pytest.approx((split.between + split.within) / split.between)


@pytest.mark.slow
def test_factor_is_the_ratio_of_texts_to_thoughts_of_equal_width():
    """Means over k thoughts vary as shares of factor × k sampled texts do, of one item with known thoughts."""
    random, k, runs = np.random.default_rng(1), 4, 40_000
    p = random.beta(6, 3, (runs, k))
    factor = thought_variance(two_labels(p)).factor.estimate
    n = round(k * factor)
    texts = random.random((runs, n)) < random.beta(6, 3, (runs, n))
    assert p.mean(axis=1).var() == pytest.approx(texts.mean(axis=1).var(), rel=0.05)
    assert factor == pytest.approx(10, rel=0.03)  # beta(a, b): the variance of p is p̄(1 − p̄)/(a + b + 1)


def test_scores():
    """Values of labels in points; a mass that labels do not have together is left out."""
    p = np.array([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]], [[0.2, 0.6, 0.2], [0.1, 0.8, 0.1]]])
    split = thought_variance(np.log(p) - 3, values=(1, 2, 3))
    assert split.between == pytest.approx((0.5**2 / 2 + 0) / 2)
    assert split.within == pytest.approx(np.mean([0.6875, 0.6875, 0.4, 0.2]))


def test_the_interval_is_over_contexts():
    p = np.random.default_rng(2).beta(2, 2, (60, 5))
    split = thought_variance(two_labels(p), context=[str(n // 3) for n in range(60)], resampling=bl.Resampling(seed=3))
    assert split.factor.n_contexts == 20
    assert 1 < split.factor.ci_low < split.factor.estimate < split.factor.ci_high


@pytest.mark.parametrize(
    ("shape", "values", "named"),
    [
        ((3, 2), None, "logprobs"),
        ((3, 1, 2), None, "logprobs"),
        ((0, 2, 2), None, "logprobs"),
        ((3, 2, 2), (1, 2, 3), "values"),
    ],
)
def test_wrong_arguments(shape, values, named):
    with pytest.raises(InputError, match=named):
        thought_variance(np.full(shape, -0.7), values)


def test_a_thought_that_rules_every_label_out():
    with pytest.raises(InputError, match="no label has probability"):
        thought_variance([[[-np.inf, -np.inf], [-0.1, -3.0]]])


def test_rating_error_does_not_depend_on_how_products_are_split(monkeypatch):
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, (40, 3))
    frame = pd.DataFrame({"context_id": rng.integers(0, 30, 40), "human": ratings.mean(axis=1)})
    frame["ratings"] = [" ".join(map(str, row)) for row in ratings]
    frame["annotators"] = [" ".join(map(str, rng.choice(6, 3, replace=False))) for _ in ratings]
    whole = rating_error(frame, within=False)
    monkeypatch.setattr("biaslab.stats.reliability._PRODUCTS", 100)
    split = rating_error(frame, within=False)
    assert whole.error == pytest.approx(split.error)
    assert (whole.error != 0).any()
