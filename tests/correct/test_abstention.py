"""Abstention: promised errors are kept, few labels are named, people get the rest."""

import numpy as np
import pandas as pd
import pytest

from biaslab.core.errors import InputError
from biaslab.correct.abstention import contexts_for_people, correlation_within, risk_coverage, select
from biaslab.stats.resample import Resampling


def judged(contexts, seed=0, calibration=1.0, samples=0):
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
    sure, lost, _ = judged(40_000, 99, calibration, samples)
    kept = []
    for seed in range(500):
        found = select(*judged(120, seed, calibration, samples), error=0.15)
        kept.append(np.isnan(found.threshold) or lost[sure >= found.threshold].mean() <= 0.15)
    assert np.mean(kept) >= 0.94


def test_selection_is_the_part_above_its_threshold():
    confidence, loss, context = judged(300)
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


def test_unlabelled_verdicts_stand_and_those_without_confidence_do_not():
    confidence, loss, context = judged(300)
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
    confidence, loss, context = judged(2_000)
    curve = risk_coverage(confidence, loss, context, Resampling())
    errors = [estimate.estimate for _, estimate in curve]
    assert errors == sorted(errors)
    assert curve[-1][0]["coverage"] == pytest.approx(1.0, abs=0.001)
    assert all(estimate.ci_low < estimate.estimate < estimate.ci_high for _, estimate in curve)


def test_people_get_contexts_of_verdicts_that_do_not_stand():
    confidence, loss, context = judged(300)
    items = pd.DataFrame({"context_id": context.astype(str), "item": range(len(loss)), "confidence": confidence})
    found = select(confidence, loss, context, 0.15)
    chosen = contexts_for_people(items, found, 20)
    assert len(chosen) == 20
    assert set(chosen["context_id"]) <= set(items.loc[~found.stands, "context_id"])
    assert chosen["probability"].between(0, 1).all()
