"""Remedies: what is planted is taken out, a fair judge is left alone, what does nothing is shown to do nothing."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.optimize import isotonic_regression
from scipy.special import expit
from statsmodels.miscmodels.ordinal_model import OrderedModel

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import About, Choice
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.mitigation import (
    Case,
    HumanScale,
    as_estimates,
    content_free_prior,
    debiased,
    human_scale,
    length_regression,
    order_averaging,
    remedies,
)

POSITION = bl.probes.Position(["coherence"], [1])
VERBOSITY = bl.probes.Verbosity(["coherence"])


@pytest.fixture(scope="module")
def population():
    return construct_population(40, longest=16)


def judged(probe, data, **planted):
    judge = bl.SimulatedJudge(data, **{"quality": 1.0, "noise": 0.7, "context_noise": 0.4, **planted})
    return bl.collect(probe, judge, data, progress=False)


@pytest.fixture(scope="module")
def leaning(population):
    return judged(POSITION, population, position=1.0)


@pytest.fixture(scope="module")
def fair(population):
    return judged(POSITION, population)


@pytest.fixture(scope="module")
def long(population):
    return judged(VERBOSITY, population, verbosity=0.5)


def measured(probe, metric, before, after, **options):
    [row] = remedies([Case(probe, metric, "a remedy", before, after, **options)]).to_dict("records")
    return row


def nothing(data, **planted):
    """Ask which of a candidate and itself is better."""
    judge = bl.SimulatedJudge(data, **{"quality": 1.0, "noise": 0.7, **planted})
    labels = "Summary A", "Summary B"
    rows = []
    for row in data.candidates.itertuples():
        about = About(row.context_id, (row.candidate_id,) * 2, (row.text,) * 2, ("coherence",), True, labels)
        [(_, reply)] = judge.ask([Choice(f"{row.text} or {row.text}?", labels, about)])
        rows.append(float(np.exp(reply.logprobs[0])))
    frame = pd.DataFrame({"judge": judge.id, "attribute": "coherence", "value": rows, "status": "ok", "tokens": 20})
    return frame.assign(context_id=data.candidates["context_id"].to_numpy())


POSITION_REMEDIES = {
    "order averaging": order_averaging,
    "threshold": lambda trials: debiased(trials, "threshold"),
    "uniform prior": lambda trials: debiased(trials, "uniform-prior"),
    "position term": lambda trials: debiased(trials, "position-term"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", POSITION_REMEDIES)
def test_position_remedies_remove_bias_and_spare_fair_judges(leaning, fair, name):
    metric = "first_position_logit"
    row = measured(POSITION, metric, leaning, POSITION_REMEDIES[name])
    assert row["before_low"] > 0.5
    assert row["p_value"] < 0.001
    assert row["ci_high"] < 0
    assert row["after_low"] <= 1e-9
    assert row["after_high"] >= -1e-9
    left = measured(POSITION, metric, fair, POSITION_REMEDIES[name])
    assert abs(left["after"]) < 0.25
    assert left["ci_low"] <= 0.05
    assert left["ci_high"] >= -0.05


@pytest.mark.slow
def test_before_is_the_probes_own_estimate(leaning):
    row = measured(POSITION, "first_position_logit", leaning, order_averaging)
    [own] = POSITION.estimate(leaning, ["first_position_logit"]).to_dict("records")
    assert row["before"] == pytest.approx(own["estimate"])
    by_context = own["se"]
    assert (row["before_high"] - row["before_low"]) / 2 == pytest.approx(by_context * stats.t.ppf(0.975, 39), rel=0.02)
    assert (row["bias"], row["metric"], row["null"], row["n_contexts"]) == ("position", "first_position_logit", 0.0, 40)
    assert row["difference"] == pytest.approx(row["after"] - row["before"])


@pytest.mark.slow
def test_order_averaging_costs_two_judgements_and_accuracy_gains(leaning):
    row = measured(POSITION, "comparative_accuracy", leaning, order_averaging)
    assert row["tokens_after"] == 2 * row["tokens_before"]
    assert row["difference"] > 0.02
    assert row["ci_low"] > 0
    averaged = order_averaging(leaning)
    both = averaged.set_index(["context_id", "candidate_id", "opponent_id"])["value"]
    for (context, first, second), value in both.head(30).items():
        assert value + both[context, second, first] == pytest.approx(1)


def test_order_averaging_drops_incomplete_pairs(leaning):
    assert len(order_averaging(leaning.iloc[1:])) == len(leaning) - 2
    refused = leaning.assign(value=leaning["value"].where(leaning.index != 3), status="ok")
    refused.loc[3, "status"] = "refused"
    assert len(order_averaging(refused)) == len(leaning) - 2


@pytest.mark.slow
def test_a_prior_without_content_takes_the_position_bias_out(population, leaning, fair):
    empty = nothing(population, position=1.0)
    empty["judge"] = leaning["judge"].iloc[0]
    row = measured(POSITION, "first_position_logit", leaning, content_free_prior(empty))
    assert row["before"] > 0.7
    assert abs(row["after"]) < 0.3
    assert row["ci_high"] < 0
    assert row["tokens_after"] == pytest.approx(row["tokens_before"] + 20 * len(empty) / len(leaning))
    none = nothing(population).assign(judge=fair["judge"].iloc[0])
    assert abs(measured(POSITION, "first_position_logit", fair, content_free_prior(none))["difference"]) < 0.2


def test_a_prior_of_another_judge_or_attribute_is_refused(population, leaning):
    with pytest.raises(InputError, match="no readable judgement"):
        content_free_prior(nothing(population))(leaning)


def test_texts_are_moved_by_averaging_alone():
    """A decision has no log odds: reweighting leaves it, the mean of two orders does not."""
    rows = [("c", "a", "b", 1.0), ("c", "b", "a", 1.0)]
    trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "value"])
    trials = trials.assign(judge="j", dataset="d", attribute="a", status="ok")
    moved = order_averaging(trials)
    assert moved["value"].tolist() == [0.5, 0.5]
    assert moved["status"].tolist() == ["tie", "tie"]


def test_a_tie_stays_a_tie_and_a_half_does_not_stay_a_half(population, leaning):
    """A judge that says "Tie" has not said that both are as likely; the remedy keeps the first and moves the second."""
    trials = leaning.copy()
    trials.loc[:1, "value"], trials.loc[0, "status"] = 0.5, "tie"
    none = nothing(population, position=1.0).assign(judge=leaning["judge"].iloc[0])
    for moved in (debiased(trials, "threshold"), content_free_prior(none)(trials)):
        assert moved["status"].iloc[:2].tolist() == ["tie", "ok"]
        assert moved["value"].iloc[0] == 0.5 > moved["value"].iloc[1] + 0.1


@pytest.mark.slow
def test_length_regression_removes_bias_and_spares_fair_judges(population, long):
    row = measured(VERBOSITY, "verbosity_slope", long, length_regression)
    assert row["before_low"] > 0.1
    assert row["after_low"] < 0 < row["after_high"]
    assert row["ci_high"] < 0
    assert row["tokens_after"] == row["tokens_before"]
    left = measured(VERBOSITY, "verbosity_slope", judged(VERBOSITY, population), length_regression)
    assert abs(left["difference"]) < 0.05
    assert left["after_low"] < 0 < left["after_high"]


def test_length_regression_is_fitted_on_other_contexts(long):
    """Whatever a fold says, its own correction stays the same."""
    first = long["context_id"] == long["context_id"].iloc[0]
    taken = long["value"] - length_regression(long)["value"]
    wild = long.assign(value=long["value"].where(~first, 5 - long["value"] ** 2))
    again = wild["value"] - length_regression(wild)["value"]
    np.testing.assert_allclose(again[first], taken[first])
    assert not np.allclose(again[~first], taken[~first])


@pytest.mark.parametrize("name", ["threshold", "uniform-prior", "position-term"])
def test_a_position_remedy_of_a_context_was_fitted_on_others(leaning, name):
    first = leaning["context_id"] == leaning["context_id"].iloc[0]
    shift = debiased(leaning, name)["value"]
    wild = leaning.assign(value=leaning["value"].where(~first, 0.999))
    moved = debiased(wild, name)["value"]
    alpha = [np.log(p / (1 - p)) - np.log(q / (1 - q)) for p, q in ((shift, leaning["value"]), (moved, wild["value"]))]
    assert alpha[0][first].iloc[0] == pytest.approx(alpha[1][first].iloc[0], abs=1e-6)


def test_length_slope_is_least_squares_within_contexts(long):
    """With one context left out at a time: least squares with an indicator a context."""
    codes = pd.factorize(long["context_id"])[0]
    frame = long.assign(code=codes, doublings=np.log2(long["words"]))
    rest = frame[frame["code"] != 0]
    columns = rest[["value", "doublings", "human"]]
    within = (columns - columns.groupby(rest["code"]).transform("mean")).to_numpy()
    slope = np.linalg.lstsq(within[:, 1:], within[:, 0], rcond=None)[0][0]
    here = frame[frame["code"] == 0]
    expected = here["value"] - slope * (here["doublings"] - rest["doublings"].mean())
    found = length_regression(long, folds=len(set(codes)))
    np.testing.assert_allclose(found["value"][: len(here)], expected)


@pytest.mark.slow
def test_second_collection_is_compared_over_common_contexts(population):
    """Such as with a rubric, reasons first, names hidden, delimiters: the judge has less of the bias."""
    before = judged(VERBOSITY, population, verbosity=0.6)
    after = judged(VERBOSITY, population.head(30), verbosity=0.0).assign(tokens=3)
    row = measured(VERBOSITY, "verbosity_slope", before, after)
    assert row["n_contexts"] == 30
    assert row["ci_high"] < 0
    assert row["after_low"] < 0 < row["after_high"]
    assert row["tokens_after"] == 3
    some = before[before["context_id"].isin(after["context_id"])]
    assert row["before"] == pytest.approx(VERBOSITY.estimate(some, ["verbosity_slope"]).loc[0, "estimate"])


@pytest.mark.slow
def test_a_remedy_that_does_nothing_is_shown_to_do_nothing(population, long):
    assert measured(VERBOSITY, "verbosity_slope", long, lambda trials: trials)["difference"] == 0
    other = judged(VERBOSITY, population, verbosity=0.5, seed=3)
    row = measured(VERBOSITY, "verbosity_slope", long, other)
    assert row["ci_low"] < 0 < row["ci_high"]
    assert row["p_value"] > 0.05


@pytest.mark.slow
def test_a_rubric_is_measured_in_the_trials_of_template(population):
    """They carry what Verbosity reads, so that one variant can be held against another."""
    probe = bl.probes.Template(["coherence"], factors=["rubric"])
    trials = judged(probe, population, verbosity=0.5)
    before, after = (trials[trials["template"] == name] for name in ("no rubric", "base"))
    row = measured(VERBOSITY, "verbosity_slope", before, after)
    assert row["before_low"] > 0
    assert row["ci_low"] < 0 < row["ci_high"]


@pytest.mark.slow
def test_the_interval_of_the_difference_is_the_jackknifes(leaning):
    row = measured(POSITION, "first_position_rate", leaning, order_averaging)
    [before] = POSITION.estimate(leaning, ["first_position_rate"]).to_dict("records")
    names = leaning["context_id"].unique()
    left = [
        POSITION.estimate(leaning[leaning["context_id"] != name], ["first_position_rate"])["estimate"].iloc[0]
        for name in names
    ]
    pseudo = len(names) * before["estimate"] - (len(names) - 1) * np.array(left)
    half = stats.t.ppf(0.975, len(names) - 1) * stats.sem(pseudo)
    assert row["after"] == row["after_low"] == row["after_high"] == 0.5
    assert row["ci_high"] == pytest.approx(0.5 - before["estimate"] + half)


@pytest.mark.slow
def test_before_and_after_are_drawn_side_by_side(leaning):
    found = remedies([Case(POSITION, "first_position_rate", "order averaging", leaning, order_averaging)])
    rows = as_estimates(found)
    assert rows["state"].tolist() == ["before", "after"]
    assert rows["estimate"].tolist() == [found.loc[0, "before"], found.loc[0, "after"]]
    ax = bl.plots.intervals(rows, "first_position_rate", by="remedy", hue="state")
    assert len(ax.containers) == 2


@pytest.mark.slow
def test_undefined_difference_has_a_note(leaning):
    refused = leaning.assign(value=math.nan, status="refused")
    row = measured(POSITION, "first_position_rate", leaning, refused.assign(judge="another"))
    assert math.isnan(row["difference"])
    assert row["note"]
    assert row["before"] > 0.5


def test_bad_input(leaning, long):
    with pytest.raises(InputError, match="at least one"):
        remedies([])
    several = pd.concat([leaning, leaning.assign(judge="another")])
    with pytest.raises(InputError, match="several judges"):
        measured(POSITION, "first_position_rate", several, order_averaging)
    with pytest.raises(InputError, match="shares no context"):
        measured(POSITION, "first_position_rate", leaning, leaning.assign(context_id="elsewhere"))
    with pytest.raises(TrialsError, match="words"):
        length_regression(long.drop(columns="words"))
    with pytest.raises(InputError, match="folds"):
        length_regression(long, folds=1)
    with pytest.raises(InputError, match="swap-average"):
        debiased(leaning, "prayer")


@pytest.mark.slow
def test_metric_with_several_rows_needs_where():
    probe = bl.probes.Template(["coherence"], factors=["wording"])
    trials = judged(probe, construct_population(8), template_noise=1.0)
    with pytest.raises(InputError, match="one row of template_shift, not 2"):
        measured(probe, "template_shift", trials, lambda given: given)
    row = measured(probe, "template_shift", trials, lambda given: given, where={"template": "wording 3"})
    own = probe.estimate(trials, ["template_shift"]).set_index("template")
    assert row["before"] == pytest.approx(own.loc["wording 3", "estimate"])


def test_weights_of_reweighting_are_those_of_the_prior():
    nothing = pd.DataFrame({"judge": "j", "attribute": "a", "value": [0.7, 0.9], "status": "ok"})
    nothing["context_id"] = ["n1", "n2"]
    p = expit(np.array([-1.0, 0.3, 2.0]))
    trials = pd.DataFrame({"judge": "j", "attribute": "a", "value": p, "status": "ok"})
    alpha = np.sqrt(3 / 7 * 1 / 9)  # the mean of both log odds
    expected = alpha * p / (alpha * p + 1 - p)
    np.testing.assert_allclose(content_free_prior(nothing)(trials)["value"], expected)


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


@pytest.mark.slow
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
