"""Scores on the human scale: leniency is taken out on contexts that nothing was fitted on; a fair judge is left."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import isotonic_regression
from statsmodels.miscmodels.ordinal_model import OrderedModel

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.mitigation import Case, HumanScale, human_scale, remedies

PROBE = bl.probes.Verbosity(["coherence"])


@pytest.fixture(scope="module")
def lenient():
    """A judge that gives two thirds of the way from a human score to the best one."""
    data = construct_population(24)
    trials = bl.collect(PROBE, bl.SimulatedJudge(data, noise=0.5), data, progress=False)
    return trials.assign(value=5 - (5 - trials["value"]) / 3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["isotonic", "ordinal"])
def test_leniency_is_removed_out_of_sample(lenient, method):
    probe = HumanScale()
    some = lenient[lenient["context_id"].astype(int) < 12]
    cases = [
        Case(probe, name, method, some, lambda t: human_scale(t, method, 4))
        for name in ("human_shift", "human_distance")
    ]
    shift, distance = remedies(cases).to_dict("records")
    assert shift["before_low"] > 0.7
    assert shift["after_low"] < 0 < shift["after_high"]
    assert shift["ci_high"] < -0.7
    assert distance["ci_high"] < 0
    assert shift["before"] == pytest.approx((some["value"] - some["human"]).mean())
    assert shift["tokens_after"] == shift["tokens_before"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["isotonic", "ordinal"])
def test_context_scores_ignore_its_own_human_scores(lenient, method):
    first = lenient["context_id"] == "0"
    wild = lenient.assign(human=lenient["human"].where(~first, 6 - lenient["human"]))
    one, two = (human_scale(trials, method)["value"] for trials in (lenient, wild))
    np.testing.assert_array_equal(one[first], two[first])
    assert (one[~first] != two[~first]).any()


def test_isotonic_scores_are_fitted_on_other_folds(lenient):
    codes = pd.factorize(lenient["context_id"])[0]
    rest, here = lenient[codes % 10 != 3].sort_values("value"), lenient[codes % 10 == 3]
    fitted = isotonic_regression(rest["human"].to_numpy(float)).x
    expected = np.interp(here["value"], rest["value"], fitted)
    np.testing.assert_allclose(human_scale(lenient)["value"][codes % 10 == 3], expected, atol=1e-9)


def test_isotonic_scores_ignore_monotone_maps_at_known_scores(lenient):
    """Where a score stood in the fit too; between two of them the pieces are linear in the score itself."""
    rounded = lenient.assign(value=lenient["value"].round(1))
    moved = rounded.assign(value=np.exp(rounded["value"]))
    both = [human_scale(trials)["value"] for trials in (rounded, moved)]
    seen = rounded.groupby("value")["context_id"].transform("nunique") > 3
    np.testing.assert_allclose(both[0][seen], both[1][seen], atol=1e-6)


def test_ordinal_scores_are_those_of_proportional_odds(lenient):
    trials = lenient.assign(human=lenient["human"].round())
    codes = pd.factorize(trials["context_id"])[0]
    rest, here = trials[codes % 10 == 0], trials[codes % 10 != 0]
    rest, here = here, rest
    model = OrderedModel(rest["human"].astype(int).to_numpy(), rest[["value"]].to_numpy(float), distr="logit")
    p = np.asarray(
        model.predict(model.fit(method="newton", disp=False, maxiter=300).params, here[["value"]].to_numpy())
    )
    expected = p @ np.unique(rest["human"])
    np.testing.assert_allclose(human_scale(trials, "ordinal")["value"][codes % 10 == 0], expected, atol=2e-3)


def test_unlabelled_contexts_use_all_labels_and_missing_stays(lenient):
    labelled = lenient["context_id"].astype(int) < 12
    some = lenient.assign(human=lenient["human"].where(labelled))
    some.loc[0, ["value", "status"]] = [math.nan, "refused"]
    moved = human_scale(some)
    assert math.isnan(moved["value"].iloc[0])
    assert moved["value"].iloc[1:].notna().all()
    gap = (moved["value"] - lenient["human"])[~labelled]
    assert abs(gap.mean()) < 0.3


def test_constant_scores_become_the_mean_human_score(lenient):
    constant = lenient.assign(value=4.0)
    for method in ("isotonic", "ordinal"):
        moved = human_scale(constant, method, 24)["value"]
        assert moved.iloc[0] == pytest.approx(lenient["human"].iloc[3:].mean(), abs=0.2)


def test_human_scale_refuses_bad_input(lenient):
    with pytest.raises(InputError, match="isotonic"):
        human_scale(lenient, "linear")
    with pytest.raises(InputError, match="folds"):
        human_scale(lenient, folds=1)
    with pytest.raises(TrialsError, match="human"):
        human_scale(lenient.drop(columns="human"))
    with pytest.raises(TrialsError, match="no label"):
        human_scale(lenient.assign(human=math.nan))
    with pytest.raises(TrialsError, match="all labels in one context"):
        human_scale(lenient.assign(human=lenient["human"].where(lenient["context_id"] == "0")))
