"""Rank agreement, accuracy and win rates from few labels: intervals cover, on studies that numpy alone makes."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.correct.shares import logit_interval


def scores(rng, contexts, labelled, error, candidates=4):
    """Human and judge score the same quality with errors, in half points; a part of the contexts is labelled."""
    quality = rng.normal(0, 1, (contexts, candidates))
    human = np.round(2 * (3 + quality + error * rng.normal(size=quality.shape))) / 2
    judge = np.round(2 * (3.5 + 0.8 * quality + error * rng.normal(size=quality.shape))) / 2
    human[labelled:] = np.nan
    where = {"context_id": np.repeat([f"c{n}" for n in range(contexts)], candidates), "human": human.ravel()}
    frame = pd.DataFrame(where | {"candidate_id": np.tile(np.arange(candidates).astype(str), contexts)})
    return frame.assign(score=judge.ravel(), judge="j", dataset="d", attribute="a", system=frame["candidate_id"])


def paired_trials(rng, contexts, labelled, sharpness, size=3):
    """Two systems meet several times a context; verdicts and labels share a preference of the context."""
    lean = 0.8 * rng.normal(size=(contexts, 1)) + rng.normal(size=(contexts, size)) + 1.0
    human = (lean + rng.normal(size=lean.shape) > 0).astype(float)
    judge = 1 / (1 + np.exp(-sharpness * (lean + 0.3 + rng.normal(size=lean.shape))))
    human[labelled:] = np.nan
    at = np.tile(np.arange(size), contexts)
    frame = pd.DataFrame({"context_id": np.repeat([f"c{n}" for n in range(contexts)], size), "value": judge.ravel()})
    frame = frame.assign(
        candidate_id=[f"x{n}" for n in at], opponent_id=[f"y{n}" for n in at], system="x", opponent="y"
    )
    gap = np.where(np.isnan(human), np.nan, 2 * human - 1).ravel()
    return frame.assign(human_gap=gap, judge="j", dataset="d", attribute="a", status="ok")


def coverage(make, estimand, truth, studies, seed, corrections=("human", "ppi")):
    """Return, by correction, the share of intervals with the truth among those that there are."""
    rng, covered = np.random.default_rng(seed), []
    for _ in range(studies):
        found = bl.correct(make(rng), estimand=estimand, corrections=list(corrections))
        found = found.groupby("correction", sort=False).first()
        inside = (found["ci_low"] <= truth) & (truth <= found["ci_high"])
        covered.append(inside.where(found["ci_low"].notna()).astype(float))
    return pd.concat(covered, axis=1).mean(axis=1)


def rank_truth(error, candidates=4):
    """Return the mean correlation of very many contexts."""
    frame = scores(np.random.default_rng(99), 8000, 8000, error, candidates)
    values = []
    for human, judge in zip(*(frame[c].to_numpy().reshape(-1, candidates) for c in ("human", "score")), strict=True):
        if np.ptp(human) > 0 and np.ptp(judge) > 0:
            values.append(spearmanr(human, judge).statistic)
    return np.mean(values)


def pair_truths(sharpness):
    """Return win rate and accuracy of very many contexts."""
    frame = paired_trials(np.random.default_rng(99), 60_000, 60_000, sharpness)
    human, judge = frame["human_gap"] > 0, frame["value"] > 0.5
    return human.mean(), (human == judge).mean()


@pytest.mark.slow
def test_rank_agreement_of_few_labels_is_covered():
    found = coverage(lambda rng: scores(rng, 60, 12, 0.3), "agreement", rank_truth(0.3), 60, seed=1)
    assert (found >= 0.9).all()


@pytest.mark.thorough
@pytest.mark.parametrize("error", [0.3, 0.7, 1.5])
@pytest.mark.parametrize("labelled", [8, 12, 24, 48])
def test_rank_agreement_is_covered(error, labelled):
    make, truth = (lambda rng: scores(rng, 4 * labelled, labelled, error)), rank_truth(error)
    assert (coverage(make, "agreement", truth, 1000, seed=labelled) >= 0.93).all()


@pytest.mark.thorough
@pytest.mark.parametrize("sharpness", [0.5, 4.0])
@pytest.mark.parametrize("labelled", [12, 24, 48])
def test_win_rates_and_accuracy_are_covered(sharpness, labelled):
    for estimand, truth in zip(("win_rate", "agreement"), pair_truths(sharpness), strict=True):
        found = coverage(
            lambda rng: paired_trials(rng, 4 * labelled, labelled, sharpness), estimand, truth, 1000, labelled
        )
        assert (found >= 0.93).all()


def test_the_interval_keeps_to_its_ends_and_agrees_with_its_test():
    for value, bounds, null in ((0.97, (0.0, 1.0), 0.5), (0.99, (-1.0, 1.0), 0.0), (0.52, (0.0, 1.0), 0.5)):
        low, high, p_value = logit_interval(value, 0.02, 20, 0.95, bounds, null)
        assert bounds[0] < low < value < high < bounds[1]
        assert (p_value < 0.05) == (not low <= null <= high)
    assert np.isnan(logit_interval(1.1, 0.02, 20, 0.95, (0.0, 1.0))).all()


def test_the_judge_alone_is_labelled_as_it_is():
    found = bl.correct(scores(np.random.default_rng(0), 20, 10, 0.5)).set_index("correction")
    assert set(found.index) == {"judge", "human", "ppi"}
    assert (found.loc["judge", "note"] == "the judge's bias is not corrected").all()


def lengthy(rng, other_bias, contexts=60, labelled=30):
    """A judge who rewards length, and has another bias or none: too much for one of two systems."""
    quality, words = rng.normal(0, 1, (contexts, 2)), rng.normal([6.0, 7.0], 1, (contexts, 2))
    human = 3 + quality + 0.5 * rng.normal(size=quality.shape)
    judge = human + 0.4 * (words - 6) + [0.0, other_bias] + 0.4 * rng.normal(size=quality.shape)
    human[labelled:] = np.nan
    where = {"context_id": np.repeat([f"c{n}" for n in range(contexts)], 2), "candidate_id": ["0", "1"] * contexts}
    frame = pd.DataFrame(where | {"human": human.ravel(), "score": judge.ravel(), "words": 2 ** words.ravel()})
    return frame.assign(judge="j", dataset="d", attribute="a", system=["a", "b"] * contexts)


def test_regression_interval_needs_labels_without_other_bias():
    options = {"estimand": "difference", "corrections": ["regression"]}
    [bad] = bl.correct(lengthy(np.random.default_rng(1), 1.0), **options).to_dict("records")
    assert np.isnan([bad["ci_low"], bad["p_value"]]).all()
    assert np.isfinite(bad["estimate"])
    assert bad["note"].startswith("no interval: the labels show a bias beyond")
    [good] = bl.correct(lengthy(np.random.default_rng(1), 0.0), **options).to_dict("records")
    assert good["ci_low"] < 0 < good["ci_high"]
    assert "30 labelled contexts do not reject this" in good["note"]
    with pytest.raises(InputError, match="covariate is missing"):
        bl.correct(lengthy(np.random.default_rng(1), 0.0).drop(columns="words"), **options)
