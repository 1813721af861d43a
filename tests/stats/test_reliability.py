"""Krippendorff's alpha and correlations, against known values, the definitions, and properties."""

import math

import hypothesis.strategies as st
import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from scipy import stats

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.correlation import correlation
from biaslab.stats.inference import Resampling
from biaslab.stats.reliability import estimate_alpha, krippendorff_alpha

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
    with pytest.raises(TrialsError, match="'annotator'"):
        alpha(frame.drop(columns="annotator"))
    with pytest.raises(TrialsError, match="one score per unit and annotator"):
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
        assert found.reason == reason
    empty = FRAME.assign(judge=NAN)
    assert correlation(empty, "judge", "human", "dataset").reason == "fewer than two candidates"
    assert correlation(empty, "judge", "human", "context").n == 0
    assert correlation(empty, "judge", "human", "system").reason == "fewer than two systems"


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
