"""Confidence and abstention: known values, coverage, recalibration, promised errors, what people get."""

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from biaslab.core.errors import InputError
from biaslab.correct.abstention import contexts_for_people, correlation_within, risk_coverage, select
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


def test_calibration_error_of_two_levels_follows_fractions():
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


def test_copies_of_verdicts_leave_standard_errors_alone():
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
    sure = recalibrated(verdicts.confidence, verdicts.agreement, verdicts.context, method)
    better = Confidences(sure, verdicts.agreement, verdicts.context)
    before, after = (Bins.of(each).error(Resampling()).estimate for each in (verdicts, better))
    assert before > 0.15
    assert after < 0.05


def test_own_context_has_no_part_in_its_recalibration():
    verdicts = judged(50)
    turned = verdicts.agreement.copy()
    own = verdicts.context == 7
    turned[own] = 1 - turned[own]
    values = [recalibrated(verdicts.confidence, right, verdicts.context, "isotonic")[own]
              for right in (verdicts.agreement, turned)]  # fmt: skip
    assert (values[0] == values[1]).all()


def test_undefined_confidence_has_a_reason():
    same = Confidences(np.full(40, 0.8), np.ones(40), np.arange(40)).estimates(Resampling())
    assert np.isnan(same["calibration_error"].estimate)
    assert same["calibration_error"].has_note("one_bin")
    assert same["error_auroc"].has_note("no_errors")


def test_unknown_recalibration_is_refused():
    with pytest.raises(InputError, match="method"):
        recalibrated(np.ones(9), np.ones(9), np.arange(9), "platt")


def verdicts(contexts, seed=0, calibration=1.0, samples=0):
    """Verdicts in contexts of one to eight items whose errors are related."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(contexts), rng.integers(1, 9, contexts))
    lead = np.abs(1 + 1.8 * rng.normal(size=len(context)))
    together = np.sqrt(0.3) * rng.normal(size=contexts)[context] + np.sqrt(0.7) * rng.normal(size=len(context))
    loss = (together < -0.35 - 0.6 * calibration * lead).astype(float)
    confidence = 1 / (1 + np.exp(-1.5 * lead))
    if samples:
        votes = rng.binomial(samples, confidence)
        confidence = np.maximum(votes, samples - votes) / samples
    return confidence, loss, context


@pytest.mark.slow
@pytest.mark.parametrize(("calibration", "samples"), [(1.0, 0), (0.3, 0), (1.0, 5), (1.0, 1)])
def test_promised_error_is_kept_in_94_percent_of_splits(calibration, samples):
    sure, lost, _ = verdicts(40_000, 99, calibration, samples)
    kept = []
    for seed in range(500):
        found = select(*verdicts(120, seed, calibration, samples), error=0.15)
        kept.append(np.isnan(found.threshold) or lost[sure >= found.threshold].mean() <= 0.15)
    assert np.mean(kept) >= 0.94


def test_selection_is_the_part_above_its_threshold():
    confidence, loss, context = verdicts(300)
    found = select(confidence, loss, context, 0.2)
    stands = confidence >= found.threshold
    assert (found.stands == stands).all()
    assert found.coverage == stands.mean() > 0.5
    assert found.selective_error.estimate == pytest.approx(loss[stands].mean())
    assert found.labels_needed is None
    assert found.price(0.5, people=3) == {"all": 1.5 * len(loss), "to_people": 1.5 * (~stands).sum()}


def test_too_few_labels_are_counted_as_the_binomial_does():
    found = select(np.full(20, 0.9), np.zeros(20), np.arange(20), 0.1)
    assert np.isnan(found.threshold)
    assert not found.stands.any()
    assert found.labels_needed == 29  # .9 ** 29 < .05
    assert select(np.full(29, 0.9), np.zeros(29), np.arange(29), 0.1).threshold == 0.9


def test_needed_labels_count_those_below_the_threshold_too():
    sure, lost = np.tile([0.9, 0.6], 30), np.tile([0.0, 1.0], 30)
    found = select(sure, lost, np.arange(60), 0.1)
    assert found.labels_needed == 72  # of which 36 above the threshold: .9 ** 36 < .025


def test_no_number_of_labels_helps_a_judge_who_errs_more_often():
    found = select(np.full(200, 0.9), np.tile([1.0, 0, 0, 0], 50), np.arange(200), 0.2)
    assert np.isnan(found.threshold)
    assert found.labels_needed is None


def test_related_errors_need_more_contexts():
    loss = np.repeat(np.r_[np.ones(2), np.zeros(28)], 5)
    context = np.repeat(np.arange(30), 5)
    assert correlation_within(context, loss) == pytest.approx(1.0)
    assert np.isnan(select(np.full(150, 0.9), loss, context, 0.1).threshold)
    assert select(np.full(150, 0.9), loss, np.arange(150), 0.15).threshold == 0.9


def test_ten_contexts_without_error_promise_nothing():
    context = np.repeat(np.arange(10), 20)
    assert not select(np.ones(200), np.zeros(200), context, 0.1).stands.any()
    assert select(np.ones(200), np.zeros(200), np.arange(200), 0.1).stands.all()
    assert not select(np.ones(200), np.eye(200)[0], np.zeros(200), 0.1).stands.any()


def test_unlabelled_verdicts_stand_without_confidence_none():
    confidence, loss, context = verdicts(300)
    loss[::2], confidence[-1] = np.nan, np.nan
    found = select(confidence, loss, context, 0.2)
    assert found.labelled == np.isfinite(loss[:-1]).sum()
    assert found.stands[::2].any()
    assert not found.stands[-1]


@pytest.mark.parametrize(("missing", "code"), [("loss", "no_labels"), ("confidence", "no_confidence")])
def test_missing_input_gives_nan_with_the_reason(missing, code):
    values = {"confidence": np.full(9, 0.8), "loss": np.zeros(9)} | {missing: np.full(9, np.nan)}
    found = select(**values, context=np.arange(9))
    assert np.isnan(found.selective_error.estimate)
    assert found.selective_error.has_note(code)


@pytest.mark.parametrize("error", [0.0, 1.0, 10])
def test_promised_error_is_a_share(error):
    with pytest.raises(InputError, match="error"):
        select(np.ones(3), np.zeros(3), np.arange(3), error)


def test_loss_rises_with_coverage_in_the_curve():
    confidence, loss, context = verdicts(2_000)
    curve = risk_coverage(confidence, loss, context, Resampling())
    errors = [estimate.estimate for _, estimate in curve]
    assert errors == sorted(errors)
    assert curve[-1][0]["coverage"] == pytest.approx(1.0, abs=0.001)
    assert all(estimate.ci_low < estimate.estimate < estimate.ci_high for _, estimate in curve)


def test_people_get_contexts_of_verdicts_that_do_not_stand():
    confidence, loss, context = verdicts(300)
    items = pd.DataFrame({"context_id": context.astype(str), "item": range(len(loss)), "confidence": confidence})
    found = select(confidence, loss, context, 0.15)
    chosen = contexts_for_people(items, found, 20)
    assert len(chosen) == 20
    assert set(chosen["context_id"]) <= set(items.loc[~found.stands, "context_id"])
    assert chosen["probability"].between(0, 1).all()
