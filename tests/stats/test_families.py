"""Tests in families: the paper's procedure step by step, what must hold for any p-values, and error rates."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm
from statsmodels.stats.multitest import multipletests

from biaslab.core.errors import InputError
from biaslab.stats.frame import adjust, adjust_families, corrected, critical_p, estimates_frame

P = st.floats(0, 1)
TESTS = st.lists(st.tuples(P, st.integers(0, 4)), min_size=1, max_size=20)
#: Cells by metric: attributes × levels × coefficients of source and recipe, and what else stands on a card.
CARD = (16, 32, 8, 4, 4, 4, 8, 8, 2, 8, 4, 4, 4)


def rejected(p_values, family, level):
    """Select and test as procedure 1 of Benjamini and Bogomolov (2014) is written, one level at a time."""
    p_values, family = np.array(p_values), np.array(family)
    names = np.unique(family)
    ordered = [np.sort(p_values[family == name]) for name in names]
    simes = [np.min(p * len(p) / np.arange(1, len(p) + 1)) for p in ordered]
    chosen = multipletests(simes, level, "fdr_bh")[0]
    found = np.zeros(len(p_values), bool)
    for name in names[chosen]:
        own = family == name
        found[own] = multipletests(p_values[own], level * chosen.sum() / len(names), "fdr_bh")[0]
    return found


@given(TESTS, st.floats(0.001, 0.5))
def test_rejections_are_those_of_the_procedure(tests, level):
    p, family = zip(*tests, strict=True)
    found = adjust_families(p, family)
    clear = ~np.isclose(found, level, rtol=1e-9)
    assert np.array_equal((found <= level)[clear], rejected(p, family, level)[clear])


def test_an_example_by_hand():
    """Simes: .008, .03 and .3, so of three families at .05 two are selected, and each is tested at .05 × 2/3."""
    p, family = [0.004, 0.03, 0.02, 0.03, 0.2, 0.3], list("aabbcc")
    assert adjust_families(p, family) == pytest.approx([0.024, 0.045, 0.045, 0.045, 0.3, 0.3])
    assert adjust_families([*p, np.nan], [*family, "d"])[:6] == pytest.approx([0.024, 0.045, 0.045, 0.045, 0.3, 0.3])


@given(TESTS)
def test_single_family_and_singletons_equal_benjamini_hochberg(tests):
    p, family = map(list, zip(*tests, strict=True))
    assert adjust_families(p, ["same"] * len(p)) == pytest.approx(adjust(p))
    assert adjust_families(p, range(len(p))) == pytest.approx(adjust(p))
    assert adjust_families(p[:1], family[:1]) == pytest.approx(p[:1])


@given(TESTS, st.integers(0, 19), P)
def test_a_smaller_p_makes_no_q_larger(tests, at, factor):
    p, family = map(list, zip(*tests, strict=True))
    before = adjust_families(p, family)
    p[at % len(p)] *= factor
    after = adjust_families(p, family)
    assert (after <= before * (1 + 1e-12)).all()
    assert (after >= np.array(p) * (1 - 1e-12)).all()
    assert (after <= 1).all()


def test_input_is_checked():
    with pytest.raises(InputError, match="0 to 1"):
        adjust_families([1.2, 0.1], ["a", "a"])
    with pytest.raises(InputError, match="one per test"):
        adjust_families([0.2, 0.1], ["a"])
    assert adjust_families([], []).size == 0
    assert np.isnan(adjust_families([np.nan], ["a"])).all()


def test_q_values_are_corrected_over_the_rows_shown():
    p, metrics = [0.004, 0.03, 0.02, 0.03, 0.001], ["one", "one", "two", "two", "other"]
    rows = [{"metric": name, "judge": "j", "p_value": value} for name, value in zip(metrics, p, strict=True)]
    frame = estimates_frame(rows, "some", ["one", "two"], [])
    assert frame["q_value"].tolist()[:4] == pytest.approx(adjust_families(p[:4], list("aabb")))
    assert np.isnan(frame["q_value"].iloc[4])
    assert corrected(frame.head(2))["q_value"].tolist() == pytest.approx(adjust(p[:2]))
    two = corrected(frame.head(2).assign(judge=["j", "k"]))
    assert two["q_value"].tolist() == pytest.approx(adjust(p[:2]))


def simulated(sizes, effects, correlation, studies, seed):
    """Return two-sided p-values (studies, cells) of normal cells, correlated within a metric, and the metrics."""
    rng, metric = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    shared, own = (rng.standard_normal((studies, len(n))) for n in (sizes, metric))
    z = np.sqrt(correlation) * shared[:, metric] + np.sqrt(1 - correlation) * own + np.asarray(effects)[metric]
    return 2 * norm.sf(np.abs(z)), metric


def by_metric(found, metric):
    """Return of which metrics anything is found: (studies, metrics)."""
    return np.stack([found[:, metric == one].any(axis=1) for one in np.unique(metric)], axis=1)


def error_and_power(q, metric, true):
    found = by_metric(q < 0.05, metric)
    share = (found & ~true).sum(axis=1) / np.maximum(found.sum(axis=1), 1)
    return share.mean(), found[:, true].mean() if true.any() else np.nan


def both(sizes, effects, correlation, studies=600, seed=1):
    """Return error rate and power over metrics, corrected over all cells at once and by family."""
    p, metric = simulated(sizes, effects, correlation, studies, seed)
    true = np.asarray(effects) != 0
    ways = ([adjust(row) for row in p], [adjust_families(row, metric) for row in p])
    return [error_and_power(np.array(q), metric, true) for q in ways]


@pytest.mark.thorough
def test_false_discovery_rate_at_most_5_percent():
    """Source and recipe truly lose agreement, in all their cells: .05 of cells would be .25 of metrics."""
    effects = np.zeros(len(CARD))
    effects[:2] = 15.0
    (over_cells, _), (by_family, power) = both(CARD, effects, 0.5)
    assert over_cells > 0.2
    assert by_family < 0.065
    assert power > 0.99


@pytest.mark.thorough
@pytest.mark.parametrize(("metrics", "cells"), [(5, 8), (8, 4), (16, 1), (16, 4)])
def test_error_is_kept_and_power_too_where_cells_agree(metrics, cells):
    effects = np.zeros(metrics)
    effects[: max(1, metrics // 8)] = 3.5
    (_, before), (error, power) = both([cells] * metrics, effects, 0.99)
    assert error < 0.065
    assert power > before - 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_family_error_under_the_global_null(correlation):
    _, (error, _) = both(CARD, np.zeros(len(CARD)), correlation)
    assert error < 0.07


@given(TESTS, st.integers(0, 19))
def test_a_test_is_rejected_exactly_up_to_its_critical_p(tests, place):
    p_values, family = (list(column) for column in zip(*tests, strict=True))
    place %= len(tests)
    critical = critical_p(p_values, family)[place]
    assert 0.05 / (len(set(family)) * family.count(family[place])) <= critical * (1 + 1e-9)
    for nearly, expected in ((1 - 1e-7, True), (1 + 1e-7, False)):
        p_values[place] = critical * nearly
        assert rejected(p_values, family, 0.05)[place] == expected


def test_critical_p_of_no_test_is_none_and_a_level_is_checked():
    assert np.isnan(critical_p([np.nan, 0.5], ["a", "a"])).tolist() == [True, False]
    with pytest.raises(InputError, match="alpha"):
        critical_p([0.5], ["a"], alpha=5)
