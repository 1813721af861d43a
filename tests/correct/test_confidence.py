"""Calibration error, Brier score, AUROC of errors and recalibration: known values, coverage, other contexts."""

import numpy as np
import pytest
from scipy import special, stats

from biaslab.core.errors import InputError
from biaslab.correct.confidence import Bins, Confidences, recalibrated
from biaslab.stats.resample import Resampling


def judged(contexts, seed=0, slope=1.0, items=4):
    """Verdicts whose log odds to be right are the confidence's times a slope; contexts share a part."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(contexts), items)
    lead = np.abs(0.3 + 0.5 * rng.normal(size=contexts)[context] + 1.4 * rng.normal(size=len(context)))
    z = np.sqrt(0.3) * rng.normal(size=contexts)[context] + np.sqrt(0.7) * rng.normal(size=len(context))
    right = (stats.norm.cdf(z) < special.expit(slope * lead)).astype(float)
    return Confidences(special.expit(lead), right, context)


def test_two_levels_have_the_calibration_error_of_their_fractions():
    sure = np.tile([0.6, 0.9], 200)
    right = np.tile([1.0, 0, 0, 1, 1, 1, 0, 0], 50)  # 2 of 4 at .6, 2 of 4 at .9
    found = Bins.of(Confidences(sure, right, np.arange(400)))
    assert found.share.tolist() == [0.5, 0.5]
    assert found.agreement.tolist() == [0.5, 0.5]
    variance = 0.25 / 199  # of the mean of 200 independent verdicts
    expected = np.sqrt((0.1**2 + 0.4**2) / 2 - variance)
    assert found.error(Resampling()).estimate == pytest.approx(expected, abs=1e-4)


def test_brier_score_is_its_parts_if_confidences_have_levels():
    rng = np.random.default_rng(0)
    sure = rng.choice([0.55, 0.7, 0.95], 3_000)
    right = (rng.random(3_000) < sure**2).astype(float)
    found = Confidences(sure, right, np.arange(3_000)).estimates(Resampling())
    parts = [found[f"brier_{name}"].estimate for name in ("reliability", "resolution", "uncertainty")]
    assert found["brier_score"].estimate == pytest.approx(np.mean((sure - right) ** 2))
    assert parts[0] - parts[1] + parts[2] == pytest.approx(found["brier_score"].estimate, abs=1e-3)
    assert parts[0] == pytest.approx(np.mean((sure - sure**2) ** 2), abs=0.01)


def test_auroc_equals_the_share_of_pairs_with_ties_as_half():
    verdicts = judged(30)
    sure, right = np.round(verdicts.confidence, 1), verdicts.agreement == 1
    apart = sure[right][:, None] - sure[~right]
    expected = np.mean((apart > 0) + (apart == 0) / 2)
    found = Confidences(sure, verdicts.agreement, verdicts.context).estimates(Resampling())["error_auroc"]
    assert found.estimate == pytest.approx(expected)
    assert found.ci_low < expected < found.ci_high


def test_copies_of_verdicts_in_a_context_leave_errors_as_they_are():
    one = judged(60)
    copied = Confidences(*(np.repeat(values, 3) for values in (one.confidence, one.agreement, one.context)))
    errors = [each.estimates(Resampling())["error_auroc"].se for each in (one, copied)]
    assert errors[1] == pytest.approx(errors[0])


def test_people_who_disagree_count_as_shares():
    sure, share = np.full(40, 0.75), np.tile([0.5, 1.0], 20)
    found = Confidences(sure, share, np.arange(40)).estimates(Resampling())
    single = np.tile([1.0, 0, 1, 1], 20)
    assert found["brier_score"].estimate == pytest.approx(np.mean((0.75 - single) ** 2))
    assert found["overconfidence"].estimate == pytest.approx(0.0)


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.0, 0.4])
def test_intervals_cover_the_values_of_a_population(slope):
    whole = judged(40_000, 99, slope)
    truth = {"calibration_error": Bins.of(whole).error(Resampling()).estimate}
    truth["overconfidence"] = np.mean(whole.confidence - whole.agreement)
    covered = {name: [] for name in truth}
    for seed in range(200):
        found = judged(60, seed, slope).estimates(Resampling(seed=seed))
        for name, value in truth.items():
            covered[name].append(found[name].ci_low <= value <= found[name].ci_high)
    assert min(map(np.mean, covered.values())) > 0.9


def test_calibrated_judge_is_rejected_in_few_studies():
    rejected = [Bins.of(judged(60, seed)).error(Resampling()).p_value < 0.05 for seed in range(60)]
    assert np.mean(rejected) <= 0.1


@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_recalibration_reduces_the_calibration_error(method):
    verdicts = judged(400, slope=0.3)
    better = Confidences(recalibrated(verdicts, method), verdicts.agreement, verdicts.context)
    before, after = (Bins.of(each).error(Resampling()).estimate for each in (verdicts, better))
    assert before > 0.15
    assert after < 0.05


def test_own_context_has_no_part_in_its_recalibration():
    verdicts = judged(50)
    turned = verdicts.agreement.copy()
    own = verdicts.context == 7
    turned[own] = 1 - turned[own]
    values = [recalibrated(Confidences(verdicts.confidence, right, verdicts.context), "isotonic")[own]
              for right in (verdicts.agreement, turned)]  # fmt: skip
    assert (values[0] == values[1]).all()


def test_what_is_undefined_says_why():
    same = Confidences(np.full(40, 0.8), np.ones(40), np.arange(40)).estimates(Resampling())
    assert np.isnan(same["calibration_error"].estimate)
    assert same["calibration_error"].has_note("one_bin")
    assert same["error_auroc"].has_note("no_errors")


def test_unknown_recalibration_is_refused():
    with pytest.raises(InputError, match="method"):
        recalibrated(judged(9), "platt")
