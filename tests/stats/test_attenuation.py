"""Agreement of means of few samples: what noise takes of it is given back, and exact scores are left as they are."""

import numpy as np
import pandas as pd
import pytest

from biaslab.stats import Resampling, agreement_loss, expected_agreement_loss, sampling_noise

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
