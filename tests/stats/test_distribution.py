"""Heaping against hand-computed fractions, a published census example, planted rounding and smooth distributions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from biaslab.core.errors import InputError
from biaslab.stats.distribution import (
    describe_distribution,
    effective_levels,
    myers_estimate,
    myers_sums,
    score_weights,
    tie_sums,
    whipple_sums,
)
from biaslab.stats.estimate import Note
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling, cluster_statistic
from biaslab.stats.samples import tempered

SCALE = range(1, 101)
LEVELS = np.arange(1, 101)
COUNTS = arrays(float, 100, elements=st.integers(0, 20).map(float))
TABLES = arrays(float, (6, 100), elements=st.integers(0, 5).map(float))

#: Males by single age 0-99: the example of SINGAGE in the US Census Bureau's Population Analysis Spreadsheets (PAS),
#: as R's DemoTools ships it (``pop1m_pasex``).
# fmt: off
MALES = [
    80626, 95823, 104315, 115813, 100796, 105086, 97266, 116328, 75984, 89982, 95525, 56973, 78767, 65672, 53438, 85014,
    47600, 64363, 42195, 42262, 73221, 30080, 34391, 29072, 20531, 66171, 24029, 44227, 24128, 23599, 82088, 16454,
    22628, 17108, 12531, 57325, 17220, 28425, 16206, 17532, 65976, 11593, 15828, 13541, 8133, 44696, 11165, 18543,
    12614, 12041, 55798, 9324, 10772, 10453, 6773, 28358, 9916, 13348, 8039, 7583, 42470, 5288, 5317, 6582,
    3361, 17949, 3650, 5873, 3279, 3336, 27368, 1965, 2495, 2319, 1335, 12022, 1401, 1668, 1360, 1185,
    9167, 424, 568, 462, 282, 6206, 343, 409, 333, 291, 4137, 133, 169, 157, 89, 2068, 68, 81, 66, 57,
]
# fmt: on


def whipple(weights, levels, multiple=10):
    up, down = (float(part.sum()) for part in whipple_sums(weights, levels, multiple))
    return up / down if down else float("nan")


def myers(weights, levels):
    table = np.atleast_2d(weights)
    return myers_estimate([0] * len(table), table, levels, Resampling(n=100)).estimate


def scale_use(weights):
    return float(effective_levels(np.atleast_2d(weights).sum(axis=0))) / np.shape(weights)[-1]


def range_used(weights):
    table = np.atleast_2d(weights)
    found = describe_distribution([0] * len(table), table, SCALE, ["range_used"], Resampling(n=100))
    return found["range_used"].estimate


def normal(mean, sd):
    mass = stats.norm.cdf(LEVELS + 0.5, mean, sd) - stats.norm.cdf(LEVELS - 0.5, mean, sd)
    return mass / mass.sum()


def rounded(share, mass, multiple):
    """Move a share of each level to the nearest multiple; what lies halfway goes half to either side."""
    heaped = np.zeros(100)
    for level, weight in zip(LEVELS, mass, strict=True):
        gaps = {m: abs(level - m) for m in range(multiple, 101, multiple)}
        nearest = [m for m, gap in gaps.items() if gap == min(gaps.values())]
        for m in nearest:
            heaped[m - 1] += weight / len(nearest)
    return (1 - share) * mass + share * heaped


def draw(rng, contexts, n, share):
    """Scores around a mean of each context, a share of them rounded to tens."""
    means = rng.normal(60, 10, (contexts, 1))
    scores = np.clip(np.rint(rng.normal(means, 9, (contexts, n))), 1, 100)
    tens = np.clip(np.floor(scores / 10 + 0.5) * 10, 10, 100)
    return np.where(rng.random((contexts, n)) < share, tens, scores)


@pytest.mark.slow
@given(COUNTS, st.sampled_from([5, 10]))
def test_whipple_is_the_fraction(counts, multiple):
    half = Fraction(multiple, 2)
    up = down = Fraction(0)
    for m in [m for m in SCALE if m % multiple == 0 and m - multiple // 2 >= 1 and m + multiple // 2 <= 100]:
        up += multiple * Fraction(counts[m - 1])
        for k in SCALE:
            down += Fraction(counts[k - 1]) * (1 if abs(k - m) < half else Fraction(1, 2) if abs(k - m) == half else 0)
    found = whipple(counts, SCALE, multiple)
    assert np.isnan(found) if down == 0 else found == pytest.approx(float(up / down), rel=1e-12)


@pytest.mark.slow
@given(COUNTS)
def test_myers_is_the_count_from_ten_starting_points(counts):
    blended = [Fraction(0)] * 10
    for start in range(1, 11):
        for score in range(start, start + 90):
            blended[score % 10] += Fraction(counts[score - 1])
    assert myers_sums(counts, SCALE).tolist() == [float(b) for b in blended]
    total = sum(blended)
    found = myers(counts, SCALE)
    if total == 0:
        assert np.isnan(found)
    else:
        expected = sum(abs(b / total - Fraction(1, 10)) for b in blended) / 2
        assert found == pytest.approx(float(expected), abs=1e-12)
        assert 0 <= found <= 0.9 + 1e-12


def test_classical_whipple_of_a_census():
    """DemoTools: check_heaping_whipple(pop1m_pasex, 0:99, 25, 60, digit = c(0, 5)) is 2.33873; PAS prints 2.34."""
    assert whipple(MALES[23:63], range(23, 63), 5) == pytest.approx(2.33873, abs=5e-6)


def test_classical_myers_of_a_census():
    """DemoTools: check_heaping_myers(pop1m_pasex, 0:99, 10, 89, method = "pasex") * 2 is 47.46004; PAS prints 47.46.

    Only the lower end is blended there, as here with nothing above 89.
    """
    assert 200 * myers(MALES[10:90] + [0] * 20, range(10, 110)) == pytest.approx(47.46004, abs=5e-6)


@given(st.floats(0, 5), st.floats(0, 1))
def test_a_linear_trend_is_exactly_fair(level, slope):
    for trend in (level + 1 + slope * LEVELS, level + 1 + slope * (101 - LEVELS)):
        assert whipple(trend, SCALE, 10) == pytest.approx(1, abs=1e-12)
        assert whipple(trend, SCALE, 5) == pytest.approx(1, abs=1e-12)
        assert myers(trend, SCALE) == pytest.approx(0, abs=1e-12)


@given(st.floats(35, 65), st.floats(8, 40))
def test_a_smooth_peak_within_the_scale_is_nearly_fair(mean, sd):
    mass = normal(mean, sd)
    assert whipple(mass, SCALE, 10) == pytest.approx(1, abs=0.003)
    assert whipple(mass, SCALE, 5) == pytest.approx(1, abs=0.001)
    assert myers(mass, SCALE) < 0.0015


@given(st.floats(5, 95), st.floats(8, 40))
def test_a_smooth_peak_that_an_end_cuts_off_is_nearly_fair(mean, sd):
    mass = normal(mean, sd)
    assert whipple(mass, SCALE, 10) == pytest.approx(1, abs=0.023)
    assert whipple(mass, SCALE, 5) == pytest.approx(1, abs=0.005)
    assert myers(mass, SCALE) < 0.01


@pytest.mark.parametrize(("a", "b"), [(2, 2), (8, 2), (5, 1.5), (12, 3), (9, 1.2)])
def test_a_skewed_distribution_is_nearly_fair(a, b):
    mass = np.diff(stats.beta.cdf(np.arange(101) / 100, a, b))
    assert 100 * stats.beta.std(a, b) > 8
    assert whipple(mass, SCALE, 10) == pytest.approx(1, abs=0.023)
    assert myers(mass, SCALE) < 0.01


def test_narrow_peak_is_not_fair_as_documented():
    found = [[round(whipple(normal(mean, sd), SCALE), 2) for sd in (4, 3)] for mean in (50, 90)]
    assert found == [[1.08, 1.33], [1.16, 1.4]]


@pytest.mark.parametrize(
    ("peaks", "sd", "noted"),
    [((20, 90), 3, True), ((70, 90), 3, True), ((30, 60, 90), 3, True), ((20, 90), 12, False), ((20, 90), 0.05, False)],
)
def test_index_of_narrow_peaks_is_that_of_a_smooth_distribution(peaks, sd, noted):
    """In .25 to .36 of fair judges with peaks of 3 points a preference for round numbers was found."""
    mass = np.mean([normal(mean, sd) for mean in peaks], axis=0)
    table = np.random.default_rng(0).poisson(200 * mass, (20, 100))
    name = "round_number_excess_10"
    found = describe_distribution(range(20), table, LEVELS, [name], Resampling(n=100), null=1.0, margin=0.03)[name]
    values = {note.code: dict(note.values) for note in found.notes if isinstance(note, Note)}
    assert ("narrow_peak" in values) == noted
    if noted:
        assert values["narrow_peak"]["index"] == pytest.approx(whipple(mass, SCALE), abs=0.1)


def test_heaping_is_no_narrow_peak():
    """The smooth distribution is interpolated at round numbers, so that their excess does not bend it."""
    mass = normal(55, 20)
    heaped = 0.8 * mass + 0.2 * np.where(np.arange(1, 101) % 10 == 0, np.convolve(mass, np.ones(10), "same"), 0)
    table = np.random.default_rng(0).poisson(20 * heaped / heaped.sum(), (60, 100))
    name = "round_number_excess_10"
    found = describe_distribution(range(60), table, LEVELS, [name], Resampling(n=100), null=1.0, margin=0.03)[name]
    assert found.ci_low > 1.5
    assert not any(isinstance(note, Note) for note in found.notes)


@pytest.mark.parametrize("odd", [(42,), (42, 88), (42, 88, 73), (89, 91), (88,) * 3, (1,), (1, 99)])
def test_round_numbers_are_found_beside_few_other_scores(odd):
    """A smooth distribution of one or two scores was singular, and a log with them had no answer at all."""
    scores = [*range(50, 100, 10)] * 24 + list(odd)
    table = score_weights(scores, LEVELS)
    name = "round_number_excess_10"
    names = [f"c{place % 40}" for place in range(len(scores))]
    found = describe_distribution(names, table, LEVELS, [name], Resampling(n=100), null=1.0, margin=0.03)[name]
    assert found.ci_low > 9
    notes = [dict(note.values) for note in found.notes if isinstance(note, Note) and note.code == "narrow_peak"]
    assert all(note["low"] > 1 for note in notes)


@pytest.mark.parametrize("scores", [(72,), (72, 73), (72, 72, 73), (1,), (50, 51), (99, 99, 1)])
def test_index_of_a_score_or_two_is_finite(scores):
    name = "round_number_excess_10"
    table = score_weights(scores, LEVELS)
    found = describe_distribution(range(len(scores)), table, LEVELS, [name], Resampling(n=100), null=1.0)[name]
    assert found.estimate == 10 * np.isin(scores, [50]).mean() or np.isnan(found.estimate)


@pytest.mark.parametrize("seed", range(4))
def test_label_probabilities_have_no_empty_peak(seed):
    """Sums of probabilities differ by their order; an empty part of the scores would have no mean (a warning)."""
    table = np.random.default_rng(seed).random((12, 100))
    name = "round_number_excess_10"
    found = describe_distribution(range(12), table, LEVELS, [name], Resampling(n=100), null=1.0)[name]
    assert found.estimate == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("multiple", [5, 10])
@pytest.mark.parametrize("share", [0.1, 0.4, 1.0])
def test_planted_rounding_is_recovered(multiple, share):
    heaped = rounded(share, normal(50, 12), multiple)
    assert (whipple(heaped, SCALE, multiple) - 1) / (multiple - 1) == pytest.approx(share, abs=0.002)
    if multiple == 10:
        assert myers(heaped, SCALE) == pytest.approx(0.9 * share, abs=0.003)


def test_myers_detects_heaping_that_whipple_misses():
    sevens = normal(50, 12) + 0.1 * (LEVELS % 10 == 7)
    assert whipple(sevens, SCALE) < 1
    assert myers(sevens, SCALE) > 0.3


@pytest.mark.slow
@given(TABLES, st.floats(0.01, 100))
def test_weights_may_be_scaled_and_rows_add_up(table, factor):
    for multiple in (5, 10):
        rows, pooled = whipple_sums(table, SCALE, multiple), whipple_sums(table.sum(axis=0), SCALE, multiple)
        assert [part.sum() for part in rows] == pytest.approx([float(part) for part in pooled])
        assert whipple(factor * table, SCALE, multiple) == pytest.approx(whipple(table, SCALE, multiple), nan_ok=True)
    assert myers_sums(table, SCALE).sum(axis=0) == pytest.approx(myers_sums(table.sum(axis=0), SCALE))
    assert myers(factor * table, SCALE) == pytest.approx(myers(table, SCALE), nan_ok=True)
    assert scale_use(factor * table) == pytest.approx(scale_use(table), nan_ok=True)


@given(st.lists(st.sampled_from([*SCALE, float("nan")]), min_size=1, max_size=30))
def test_counted_scores_are_their_histogram(scores):
    weights = score_weights(scores, SCALE)
    given_ = [score for score in scores if score == score]
    assert weights.sum(axis=0).tolist() == [given_.count(level) for level in SCALE]
    expected = (max(given_) - min(given_)) / 99 if given_ else float("nan")
    assert range_used(weights) == pytest.approx(expected, nan_ok=True)


def test_range_of_the_central_mass():
    mass = normal(50, 10)
    low, high = stats.norm.ppf([0.01, 0.99], 50, 10)
    assert range_used(mass) == pytest.approx((high - low) / 99, abs=1.5 / 99)


def test_effective_levels():
    assert scale_use(np.ones(100)) == pytest.approx(1)
    p = np.array([0.5, 0.25, 0.25])
    assert effective_levels(p) == pytest.approx(2**1.5)
    assert effective_levels(p) == pytest.approx(np.exp(stats.entropy(p)))
    assert np.isnan(scale_use(np.zeros(5)))


def test_effective_levels_over_contexts():
    rng = np.random.default_rng(5)
    sums = score_weights(draw(rng, 24, 8, 0.5).ravel(), SCALE).reshape(24, 8, 100).sum(axis=1)
    found = cluster_statistic(lambda w: effective_levels(w @ sums) / 100, 24, Resampling(), bounds=(0, 1))
    assert found.estimate == pytest.approx(scale_use(sums))
    assert found.ci_low < found.estimate < found.ci_high


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=20))
def test_ties_are_counted(items):
    contexts, scores = zip(*items, strict=True)
    tied, pairs, names = tie_sums(contexts, score_weights(scores, range(1, 5)))
    for name, ties, all_pairs in zip(names, tied, pairs, strict=True):
        own = [score for context, score in items if context == name]
        both = [(x, y) for i, x in enumerate(own) for y in own[:i]]
        assert (ties, all_pairs) == (sum(x == y for x, y in both), len(both))


def test_ties_of_probabilities_and_of_thirds():
    tied, pairs, _ = tie_sums(["a", "a"], [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    assert (tied[0], pairs[0]) == (pytest.approx(0.5 * 0.2 + 0.5 * 0.3), pytest.approx(1))
    thirds = [1, 1.33, 1.67, 2]
    assert tie_sums(["a"] * 3, score_weights([1.33, 1.67, 1.33], thirds))[0].tolist() == [1.0]


def test_myers_over_contexts():
    rng = np.random.default_rng(3)
    contexts = np.repeat(np.arange(24), 16)
    fair, heaped = (score_weights(draw(rng, 24, 16, share).ravel(), SCALE) for share in (0, 0.3))
    low, high = (myers_estimate(contexts, weights, SCALE, Resampling()) for weights in (fair, heaped))
    assert (low.estimate, high.estimate) == (pytest.approx(myers(fair, SCALE)), pytest.approx(myers(heaped, SCALE)))
    assert low.ci_low == 0
    assert high.ci_low > 0
    assert float(low.note.split(": ")[1]) == pytest.approx(low.estimate, abs=0.03)
    assert np.isnan(myers_estimate(["a"], np.ones((1, 100)), SCALE, Resampling()).ci_low)
    assert np.isnan(myers_estimate(["a"], np.zeros((1, 100)), SCALE, Resampling()).estimate)


@given(st.permutations(range(8)))
def test_myers_does_not_depend_on_the_order_of_contexts(order):
    rows = score_weights(draw(np.random.default_rng(1), 8, 6, 0.3).ravel(), SCALE)
    contexts = np.repeat(np.arange(8), 6)
    settings = Resampling(n=100)
    first, second = (myers_estimate(c, rows, SCALE, settings) for c in (contexts, np.array(order)[contexts]))
    assert second.ci_low == pytest.approx(first.ci_low)
    assert second.note == first.note


@pytest.mark.parametrize(
    "call",
    [
        lambda: whipple(np.ones(10), range(1, 11), 10),
        lambda: whipple(np.ones(100), SCALE, 1),
        lambda: whipple(np.ones(99), SCALE),
        lambda: whipple(-np.ones(100), SCALE),
        lambda: whipple(np.full(100, np.nan), SCALE),
        lambda: whipple(np.ones(3), [1, 1.33, 1.67]),
        lambda: whipple(np.ones(3), [1, 3, 5]),
        lambda: myers(np.ones(10), range(1, 11)),
        lambda: score_weights([1.5], range(1, 11)),
        lambda: score_weights([1], [2, 1]),
    ],
)
def test_meaningless_arguments_are_refused(call):
    with pytest.raises(InputError):
        call()


@pytest.mark.thorough
@pytest.mark.parametrize("contexts", [8, 24, 100])
@pytest.mark.parametrize("share", [0, 0.2])
def test_levels_and_coverage(contexts, share):
    """Binomial bounds over 600 studies; the floor for 8 contexts is that of the studentised interval elsewhere."""
    rng, studies, names = np.random.default_rng(contexts), 600, np.repeat(np.arange(contexts), 16)
    settings = Resampling(n=400)
    large = score_weights(draw(np.random.default_rng(0), 20_000, 16, share).ravel(), SCALE).sum(axis=0)
    truth = (whipple(large, SCALE), myers(large, SCALE)) if share else (1.0, 0.0)
    covered, rejected = np.zeros(2), 0
    for _ in range(studies):
        weights = score_weights(draw(rng, contexts, 16, share).ravel(), SCALE)
        tens = Ratio(names, *whipple_sums(weights, SCALE), null=1, bounds=(0, 10)).estimate(settings)
        digits = myers_estimate(names, weights, SCALE, settings)
        for k, found in enumerate((tens, digits)):
            covered[k] += found.ci_low <= truth[k] <= found.ci_high
        rejected += tens.p_value <= 0.05
    assert covered[0] >= studies * (0.91 if contexts == 8 else 0.92)
    assert covered[1] >= studies * 0.925
    if share:
        assert rejected > 0.5 * studies
    else:
        assert rejected <= studies * 0.07


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
