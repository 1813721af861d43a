"""The variance of sampled verdicts, between and within thoughts."""

import numpy as np
import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.stats import thought_variance


def two_labels(p):
    return np.log(np.stack([p, 1 - p], axis=-1))


def test_parts_add_up_to_the_variance_of_a_verdict():
    """Of all thoughts together: what the law of total variance says of a share p̄, whose verdicts have p̄(1 − p̄)."""
    p = np.random.default_rng(0).uniform(0.01, 0.99, (20, 6))
    split = thought_variance(two_labels(p))
    whole = p.mean(axis=1) * (1 - p.mean(axis=1))
    assert split.within + split.between * 5 / 6 == pytest.approx(whole.mean())
    assert split.factor.estimate == pytest.approx((split.between + split.within) / split.between)


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
    with pytest.raises(InputError, match="without any probability"):
        thought_variance([[[-np.inf, -np.inf], [-0.1, -3.0]]])
