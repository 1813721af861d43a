"""Variance components: by another way of summing squares, by a mixed model, by simulation with known ones."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from biaslab.core.errors import InputError
from biaslab.stats import Crossed, Resampling, fit_components, spread_of_means


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


def whole(crossed, fit="anova"):
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
    np.testing.assert_allclose(whole(crossed), [context, item, condition, left + shared, 0.0], rtol=1e-8)


def test_reml_agrees_with_anova_in_balanced_contexts():
    crossed = drawn(contexts=20)
    np.testing.assert_allclose(whole(crossed, "reml"), whole(crossed), rtol=0.01, atol=0.002)


def test_a_mixed_model_that_fails_is_undefined():
    crossed = Crossed(np.arange(3), np.ones((3, 2)))
    assert np.isnan(whole(crossed, "reml")[:4]).all()


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
        found.append(whole(crossed))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(len(found))
    truth = np.array([1.0, 0.64, 0.25, 0.36 + 0.49, 0.0])
    assert (np.abs(mean - truth) <= 3.5 * error + 1e-12).all()


def test_one_item_a_context_leaves_items_in_contexts():
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 2, (500, 1)) + rng.normal(0, 1, (500, 4))
    found = whole(Crossed(np.arange(500), scores))
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
    found = whole(crossed)
    assert found[4] == pytest.approx(2.25, rel=0.05)
    assert found[3] == pytest.approx(0.25, abs=0.09)
    once = Crossed(context, samples[..., 0], np.zeros((240, 3)), np.zeros((240, 3)), np.ones((240, 3)))
    found = whole(once)
    assert math.isnan(found[4])
    assert found[3] == pytest.approx(2.5, abs=0.4)


@given(st.floats(-5, 5), st.floats(0.1, 10), st.integers(0, 1000))
@settings(max_examples=20)
def test_components_ignore_shift_and_order_and_scale_by_square(shift, factor, seed):
    crossed = drawn(contexts=6, items=2, seed=seed)
    order = np.random.default_rng(seed).permutation(6)
    moved = Crossed(order[crossed.context], shift + factor * crossed.scores)
    np.testing.assert_allclose(whole(moved), factor**2 * whole(crossed), rtol=1e-6, atol=1e-9 * factor**2)


def test_weights_of_0_and_2_are_contexts_left_out_and_doubled():
    crossed = drawn(contexts=6)
    kept = crossed.context < 5
    weights = np.array([[1.0, 1, 1, 1, 1, 0], [2.0, 1, 1, 1, 1, 0]])
    found = fit_components(crossed, weights)
    assert found.item[0] == pytest.approx(whole(Crossed(crossed.context[kept], crossed.scores[kept]))[1])
    again = crossed.context == 0
    context = np.concatenate([crossed.context[kept], np.full(again.sum(), 5)])
    doubled = Crossed(context, np.concatenate([crossed.scores[kept], crossed.scores[again]]))
    assert [float(part[1]) for part in (found.context, found.condition)] == pytest.approx(
        [whole(doubled)[0], whole(doubled)[2]]
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
    assert Crossed(np.zeros(0, int), np.zeros((0, 3))).why_undefined == "undefined: no items left"
    assert "one condition" in Crossed(np.arange(2), np.zeros((2, 1))).why_undefined


def test_bad_input():
    with pytest.raises(InputError, match="every condition"):
        Crossed(np.arange(2), np.array([[1.0, math.nan], [1.0, 2.0]]))
    with pytest.raises(InputError, match="one row per item"):
        Crossed(np.arange(3), np.zeros((2, 2)))
    with pytest.raises(InputError, match="anova, reml"):
        fit_components(drawn(), np.ones((1, 40)), "bayes")
