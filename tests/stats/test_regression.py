"""Regressions against statsmodels and plain loops."""

import math
from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.special import expit
from statsmodels.sandbox.regression.gmm import IV2SLS

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats import regression
from biaslab.stats.correlation import correlation_difference, disattenuated_difference
from biaslab.stats.regression import (
    extreme_outcomes,
    linear_model,
    log_odds_at_equal,
    logistic_model,
    slope_at_equal,
)
from biaslab.stats.reliability import rating_error
from biaslab.stats.resample import Resampling


def regression_frame(seed=0, contexts=10):
    rng = np.random.default_rng(seed)
    context = rng.integers(0, contexts, 120)
    x, z = rng.normal(size=(2, 120)) + context * 0.1
    y = 0.4 * x - 0.2 * z + rng.normal(size=contexts)[context] + rng.normal(size=120)
    frame = pd.DataFrame({"context_id": context, "x": x, "z": z, "y": y, "won": (y > 0.5).astype(int)})
    return frame.assign(kind=np.where(rng.random(120) < 0.5, "a", "b"))


def same(found, wanted):
    for name in ("estimate", "ci_low", "ci_high", "p_value", "n_contexts"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), abs=1e-9, nan_ok=True), name


def test_linear_coefficients_are_those_of_statsmodels():
    frame = regression_frame()
    found = linear_model(frame, "y ~ x + z")
    wanted = smf.ols("y ~ x + z", frame).fit().params
    assert {name: one.estimate for name, one in found.items()} == pytest.approx(dict(wanted), abs=1e-9)


def test_within_contexts_is_an_indicator_a_context():
    frame = regression_frame()
    found = linear_model(frame, "y ~ x + z", within=True)
    wanted = smf.ols("y ~ x + z + C(context_id)", frame).fit().params
    assert {name: one.estimate for name, one in found.items()} == pytest.approx(dict(wanted[["x", "z"]]), abs=1e-9)


@pytest.mark.parametrize("within", [False, True])
def test_jackknife_errors_are_a_plain_loop(within):
    frame = regression_frame()
    formula = "y ~ x + z + C(context_id)" if within else "y ~ x + z"
    fits = [smf.ols(formula, frame[frame["context_id"] != c]).fit().params[["x", "z"]] for c in range(10)]
    full = smf.ols(formula, frame).fit().params[["x", "z"]]
    errors = np.sqrt(0.9 * sum((fit - full) ** 2 for fit in fits))
    found = linear_model(frame, "y ~ x + z", within=within)
    for name in ("x", "z"):
        half = (found[name].ci_high - found[name].ci_low) / 2
        assert half == pytest.approx(stats.t.ppf(0.975, 9) * errors[name], abs=1e-9)


@pytest.mark.slow
@given(seed=st.integers(0, 20), random=st.randoms(use_true_random=False), factor=st.sampled_from([1e-6, 3.0, 1e6]))
def test_regressions_ignore_order_names_and_units(seed, random, factor):
    frame = regression_frame(seed)
    names = dict(enumerate(random.sample("abcdefghij", 10)))
    other = frame.sample(frac=1, random_state=random.randrange(99))
    other = other.assign(context_id=other["context_id"].map(names), x=other["x"] * factor)
    for within in (False, True):
        first = linear_model(frame, "y ~ x + z", within=within)
        again = linear_model(other, "y ~ x + z", within=within)
        assert again["x"].estimate * factor == pytest.approx(first["x"].estimate, rel=1e-6)
        assert again["x"].p_value == pytest.approx(first["x"].p_value, rel=1e-6)
        assert again["z"].ci_low == pytest.approx(first["z"].ci_low, rel=1e-6)


def test_regressions_are_undefined_with_a_reason():
    frame = regression_frame()
    for poor, reason in (
        (frame.iloc[:0], "no row"),
        (frame.assign(x=np.nan), "no row"),
        (frame[frame["context_id"] == 1], "only one context"),
        (frame.assign(won=1), "outcome does not vary"),
    ):
        found = linear_model(poor, "won ~ x")["x"]
        assert np.isnan([found.estimate, found.ci_low, found.p_value]).all()
        assert reason in found.note
    doubled = linear_model(frame.assign(twice=2 * frame["x"]), "won ~ x + twice")
    assert "collinear with the others" in doubled["twice"].note
    same(doubled["x"], linear_model(frame, "won ~ x")["x"])
    constant = linear_model(frame.assign(z=frame["context_id"]), "y ~ x + z", within=True)
    assert np.isnan(constant["z"].estimate)
    exact = linear_model(frame.assign(y=2 * frame["x"]), "y ~ x")["x"]
    assert (round(exact.estimate, 9), np.isnan(exact.ci_low), exact.note[:11]) == (2, True, "no interval")
    lone = linear_model(frame.assign(flag=(frame["context_id"] == 3) * 1.0 * frame["x"]), "y ~ flag")["flag"]
    assert (np.isnan(lone.ci_low), "depends on one context" in lone.note) == (True, True)


def test_regression_refuses_invalid_formulas_and_columns():
    frame = regression_frame()
    with pytest.raises(InputError, match="formula"):
        linear_model(frame, "y ~ nothing")
    with pytest.raises(InputError, match=r"columns of numbers; kind holds"):
        linear_model(frame, "kind ~ x")
    with pytest.raises(InputError, match=r"outcome ~ term \+ term, each a column of the frame \(context_id, "):
        linear_model(frame, "y ~ log(x)")
    with pytest.raises(TrialsError, match="story"):
        linear_model(frame, "y ~ x", context="story")
    with pytest.raises(InputError, match="finite"):
        linear_model(frame.assign(x=np.inf), "y ~ x")
    with pytest.raises(InputError, match="between 0 and 1"):
        linear_model(frame, "y ~ x", level=95)


def verdicts(contexts=40, each=5, seed=0, slopes=(0.4, 0.8)):
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(contexts), each)
    gap = rng.normal(size=len(context))
    lean = rng.normal(0, 0.5, contexts)[context]
    won = rng.random(len(context)) < expit(slopes[0] + slopes[1] * gap + lean)
    return pd.DataFrame({"context_id": context, "own": 1.0, "gap": gap, "won": won.astype(float)})


def test_logistic_coefficients_are_those_of_statsmodels():
    frame = verdicts()
    found = logistic_model(frame, "won", ["gap", "own"], Resampling())
    fit = sm.Logit(frame["won"], frame[["own", "gap"]]).fit(disp=0)
    assert [found[name].estimate for name in ("own", "gap")] == pytest.approx(fit.params.tolist(), abs=1e-6)


def test_standard_errors_are_near_a_refitted_jackknife():
    frame = verdicts(contexts=60)
    names = ["own", "gap"]
    full = sm.Logit(frame["won"], frame[names]).fit(disp=0).params
    parts = [frame[frame["context_id"] != one] for one in frame["context_id"].unique()]
    each = np.array([sm.Logit(part["won"], part[names]).fit(disp=0).params - full for part in parts])
    refitted = np.sqrt((len(parts) - 1) / len(parts) * (each**2).sum(axis=0))
    found = logistic_model(frame, "won", names, Resampling())
    assert [found[name].se for name in names] == pytest.approx(refitted.tolist(), rel=0.02)
    assert found["own"].n_contexts == 60


def test_shares_of_samples_are_as_many_verdicts():
    frame = verdicts(contexts=12, each=4)
    twice = pd.concat([frame, frame.assign(won=1 - frame["won"], gap=frame["gap"] + 1)])
    halves = logistic_model(twice.assign(won=0.5 + (twice["won"] - 0.5) / 2), "won", ["own", "gap"], Resampling())
    found = logistic_model(twice, "won", ["own", "gap"], Resampling())
    assert np.sign(halves["gap"].estimate) == np.sign(found["gap"].estimate)
    assert abs(halves["gap"].estimate) < abs(found["gap"].estimate)


def test_duplicated_contexts_in_one_cluster_change_nothing():
    frame = verdicts(contexts=10)
    doubled = pd.concat([frame, frame.assign(context_id=frame["context_id"] + 100)], ignore_index=True)
    clusters = {context + 100: context for context in range(10)}
    one = logistic_model(frame, "won", ["own"], Resampling())["own"]
    two = logistic_model(doubled, "won", ["own"], Resampling(clusters=clusters))["own"]
    assert (two.estimate, two.se, two.n_contexts) == pytest.approx((one.estimate, one.se, 10))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"won": 1.0}, "separation"),
        ({"won": 0.5}, "does not vary"),
        ({"won": np.nan}, "no rows left"),
        ({"context_id": 0}, "only one context"),
    ],
)
def test_undefined_says_why(changes, words):
    found = logistic_model(verdicts(contexts=8).assign(**changes), "won", ["own"], Resampling())["own"]
    assert math.isnan(found.estimate)
    assert words in found.note


def test_terms_that_tell_every_verdict_have_no_finite_log_odds():
    frame = verdicts(contexts=8).assign(won=lambda rows: (rows["gap"] > 0).astype(float))
    found = logistic_model(frame, "won", ["own", "gap"], Resampling())
    assert math.isnan(found["gap"].estimate)
    assert "every verdict" in found["own"].note


def test_collinear_term_is_undefined_after_the_first():
    """Own text always first: place and writer cannot be told apart."""
    found = logistic_model(verdicts(contexts=8).assign(first=1.0), "won", ["first", "own"], Resampling())
    assert math.isfinite(found["first"].estimate)
    assert "collinear with the others" in found["own"].note


def rated_verdicts(contexts, seed, better=1.0, bias=0.0, error=1.4, annotators=3):
    """Verdicts on two pairs of each context, of an own text that is better, by a judge that sees the true quality."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(2 * contexts, 2)) + np.array([better, 0.0])
    given = quality[..., None] + error * rng.normal(size=(2 * contexts, 2, annotators))
    won = rng.random(2 * contexts) < expit(quality[:, 0] - quality[:, 1] + bias)
    human = given.mean(axis=2)
    frame = pd.DataFrame({"context_id": np.repeat(np.arange(contexts), 2), "won": won * 1.0, "own": 1.0})
    frame = frame.assign(human=human[:, 0] - human[:, 1], first=np.tile([1.0, -1.0], contexts))
    sides = pd.DataFrame({"context_id": np.tile(frame.index, 2), "human": human.T.ravel()})
    return (
        frame,
        sides.assign(
            ratings=[" ".join(map(repr, row)) for row in given.transpose(1, 0, 2).reshape(-1, annotators).tolist()]
        ),
        given,
    )


def test_verdicts_at_equal_score_are_calibrated_by_hand():
    """The best linear prediction of the true difference, of statsmodels' logit; and what is left of it given back."""
    frame, sides, given = rated_verdicts(400, 1, bias=0.5)
    found = log_odds_at_equal(frame, "won", ["first", "own"], sides, Resampling())(0.0)
    apart = given[:, 0] - given[:, 1]
    cross = (apart.sum(axis=1) ** 2 - (apart**2).sum(axis=1)) / 6
    error = (frame["human"] ** 2 - cross).sum() * (1 - 1 / 400)  # Fuller's term
    x = frame[["first", "own", "human"]].to_numpy()
    predicted = np.linalg.solve(x.T @ x, x.T @ frame["human"] - [0, 0, error])
    calibrated = frame.assign(human=x @ predicted)
    fit = sm.Logit(frame["won"], calibrated[["first", "own", "human"]]).fit(disp=0).params
    left = predicted[2] * error / len(frame)
    factor = 1 / math.sqrt(1 - (16 * math.sqrt(3) / (15 * math.pi)) ** 2 * fit["human"] ** 2 * left)
    assert found.estimate == pytest.approx(fit["own"] * factor, rel=1e-6)
    assert abs(found.estimate - 0.5) < 3 * found.se
    assert found.n_contexts == 400


def test_log_odds_without_ratings_equal_the_plain_model():
    frame, sides, _ = rated_verdicts(60, 2)
    plain = logistic_model(frame, "won", ["first", "human", "own"], Resampling())["own"]
    at = log_odds_at_equal(frame, "won", ["first", "own"], sides.drop(columns="ratings"), Resampling())
    for name in ("estimate", "se", "ci_low", "p_value", "n_contexts"):
        assert getattr(at(0.0), name) == pytest.approx(getattr(plain, name), rel=1e-6)
    assert at(0.4).estimate < plain.estimate - 0.1, "own texts are better: what humans miss of that was taken for bias"
    assert "reliability 0.20" in at(0.8).note


@pytest.mark.slow
def test_verdicts_fair_to_quality_are_rarely_found_biased():
    """Reliability .6 and own texts better by one SD: the plain model rejects .4 of these studies."""
    corrected, plain = [], []
    for seed in range(60):
        frame, sides, _ = rated_verdicts(60, seed, error=math.sqrt(2))
        corrected.append(log_odds_at_equal(frame, "won", ["own"], sides, Resampling())(0.0))
        plain.append(logistic_model(frame, "won", ["human", "own"], Resampling())["own"])
    assert np.mean([one.p_value < 0.05 for one in corrected]) <= 0.1
    assert np.mean([one.p_value < 0.05 for one in plain]) >= 0.15
    assert abs(np.median([one.estimate for one in corrected])) < 0.12 < np.median([one.estimate for one in plain])


def study(rng, contexts, items=6, annotators=3, reliability=0.6, r=0.5, bias=0.0, noise=0.5, crowd=False):
    """Make human scores with errors and severity, a feature correlated with quality, and a judge that sees quality."""
    shape = (contexts, items)
    quality = rng.normal(size=shape)
    x = r * quality + np.sqrt(1 - r * r) * rng.normal(size=shape)
    errors = rng.normal(size=(*shape, annotators)) * np.sqrt(annotators * (1 - reliability) / reliability)
    given = quality[..., None] + 0.5 * rng.normal(size=(contexts, 1, 1)) + errors
    if not crowd:
        given += 0.5 * rng.normal(size=annotators)
    given = given.reshape(-1, annotators)
    y = quality + bias * x + noise * rng.normal(size=shape) + 0.5 * rng.normal(size=(contexts, 1))
    frame = pd.DataFrame({"context_id": np.repeat(np.arange(contexts), items), "y": y.ravel(), "x": x.ravel()})
    numbers = np.arange(given.size).reshape(given.shape) if crowd else np.tile(np.arange(annotators), (len(given), 1))
    return frame.assign(human=given.mean(axis=1), ratings=written(given), annotators=written(numbers))


def slope(frame, within=True):
    return slope_at_equal(frame, "y", "x", Resampling(), within)(0.0)


def excess(frame, level="context"):
    return disattenuated_difference(frame, "y", "x", Resampling(), level)(0.0)


def written(rows):
    return [" ".join(map(repr, row)) for row in rows.tolist()]


def ratings_of(frame):
    return np.array([row.split() for row in frame["ratings"]], float)


def less_context(values, frame):
    values = pd.DataFrame(values)
    return (values - values.groupby(frame["context_id"].to_numpy()).transform("mean")).to_numpy()


@pytest.mark.parametrize("annotators", [2, 3])
@pytest.mark.parametrize("within", [True, False])
def test_slope_is_two_stage_least_squares_over_annotator_pairs(annotators, within):
    """One annotator's score is the instrument of another's; each ordered pair of annotators is a copy of the data."""
    frame = study(np.random.default_rng(3), 20, annotators=annotators)
    given = ratings_of(frame)
    columns = less_context(np.column_stack([frame[["y", "x"]], given]), frame) if within else None
    if columns is None:  # an intercept an annotator
        columns = np.column_stack([frame[["y", "x"]], given])
        columns = columns - columns.mean(axis=0)
    y, x, given = columns[:, 0], columns[:, 1], columns[:, 2:]
    pairs = list(permutations(range(annotators), 2))
    own, instrument = (np.concatenate([given[:, pair[k]] for pair in pairs]) for k in (0, 1))
    y, x = (np.tile(values, len(pairs)) for values in (y, x))
    fit = IV2SLS(y, np.column_stack([x, own]), np.column_stack([x, instrument])).fit()
    sums = np.column_stack([x, instrument]).T @ np.column_stack([x, own, y]) / len(pairs)
    assert np.linalg.solve(sums[:, :2], sums[:, 2])[0] == pytest.approx(fit.params[0], rel=1e-9)
    human = given.mean(axis=1)
    sums[1, 1] += (human @ human - sums[1, 1]) / 20  # Fuller's term: one part in G of the error stays
    assert slope(frame, within).estimate == pytest.approx(np.linalg.solve(sums[:, :2], sums[:, 2])[0], rel=1e-9)


@pytest.mark.parametrize("within", [True, False])
def test_errors_are_a_plain_loop_over_contexts(within):
    frame = study(np.random.default_rng(4), 12, reliability=0.9)
    full = slope(frame, within)
    assert full.method.endswith("t")
    left = [slope(frame[frame["context_id"] != c], within).estimate for c in range(12)]
    error = np.sqrt(11 / 12 * sum((b - full.estimate) ** 2 for b in left))
    assert full.se == pytest.approx(error, rel=1e-9)
    assert full.ci_high - full.estimate == pytest.approx(stats.t.ppf(0.975, 11) * error, rel=1e-9)
    level = "context" if within else "dataset"
    found = excess(frame, level)
    left = np.array([excess(frame[frame["context_id"] != c], level).estimate for c in range(12)])
    assert found.se == pytest.approx(np.sqrt(11 / 12 * ((left - left.mean()) ** 2).sum()), rel=1e-9)


@pytest.mark.parametrize("within", [True, False])
def test_with_one_rating_an_item_nothing_changes(within):
    frame = study(np.random.default_rng(5), 10, annotators=1)
    plain = linear_model(frame, "y ~ x + human", within=within)["x"]
    for rated in (frame, frame.drop(columns=["ratings", "annotators"])):
        found = slope(rated, within)
        for name in ("estimate", "se", "ci_low", "p_value", "mde", "n_contexts"):
            assert getattr(found, name) == pytest.approx(getattr(plain, name), rel=1e-9)
    level = "context" if within else "dataset"
    wanted = correlation_difference(frame, "y", "human", "x", Resampling(), level, inference="t")
    found = excess(frame, level)
    assert found.estimate == pytest.approx(wanted.estimate)
    if within:
        assert (found.ci_low, found.p_value) == pytest.approx((wanted.ci_low, wanted.p_value))


def test_shared_error_correction_ignores_earlier_shares():
    """Of the covariances by hand: the human variance alone loses the share, and Spearman's ρ its root."""
    frame = study(np.random.default_rng(11), 14, annotators=1)
    slope_at = slope_at_equal(frame, "y", "x", Resampling(), within=False)
    excess_at = disattenuated_difference(frame, "y", "x", Resampling(), "dataset")
    cov, rho = np.cov(frame[["x", "human", "y"]].T), frame[["y", "human", "x"]].corr("spearman").to_numpy()
    for share in (0.3, 0.0, 0.3):
        left = cov[:2, :2] - np.diag([0, share * cov[1, 1]])
        assert slope_at(share).estimate == pytest.approx(np.linalg.solve(left, cov[:2, 2])[0], rel=1e-9)
        assert excess_at(share).estimate == pytest.approx(rho[0, 2] - rho[1, 2] / np.sqrt(1 - share), rel=1e-9)


@pytest.mark.parametrize("within", [True, False])
def test_standard_error_deletes_whole_clusters(within):
    """Pooled, a cluster is a context by another name; within contexts, standard errors are a loop over clusters."""
    frame = study(np.random.default_rng(12), 12, reliability=0.95)
    clusters = Resampling(clusters={c: c // 2 * 2 for c in range(12)})
    level = "context" if within else "dataset"
    ways = {
        "slope": lambda part: slope_at_equal(part, "y", "x", clusters, within)(0.0),
        "excess": lambda part: disattenuated_difference(part, "y", "x", clusters, level)(0.0),
    }
    for name, way in ways.items():
        found = way(frame)
        left = np.array([way(frame[frame["context_id"] // 2 != c]).estimate for c in range(6)])
        full = found.estimate if name == "slope" else left.mean()
        assert found.se == pytest.approx(np.sqrt(5 / 6 * ((left - full) ** 2).sum()), rel=1e-9)
        assert found.n_contexts == 6


@given(seed=st.integers(0, 50), severe=st.floats(-9, 9), factor=st.sampled_from([0.01, 100.0]))
@settings(max_examples=15, deadline=None)
def test_severity_and_units_of_annotators_do_not_matter(seed, severe, factor):
    """Every item has the same annotators: how severe one is cancels, and is not taken for error."""
    frame = study(np.random.default_rng(seed), 8)
    other = ratings_of(frame) + np.array([severe, 0, 0])
    moved = frame.assign(human=other.mean(axis=1), ratings=written(other))
    before, after = rating_error(frame), rating_error(moved)
    assert after.error == pytest.approx(before.error, rel=1e-7)
    scaled = frame.assign(human=factor * frame["human"], ratings=written(factor * ratings_of(frame)))
    assert rating_error(scaled).reliability == pytest.approx(before.reliability, rel=1e-7)


def test_error_with_separate_annotators_is_within_item_variance():
    frame = study(np.random.default_rng(6), 15, items=4, crowd=True)
    variance = ratings_of(frame).var(axis=1, ddof=1) / 3
    assert rating_error(frame).error[0] == pytest.approx(3 / 4 * variance.sum())
    assert rating_error(frame, within=False).error[0] == pytest.approx(59 / 60 * variance.sum())


def test_without_names_the_place_in_the_list_is_the_annotator():
    frame = study(np.random.default_rng(7), 6)
    unnamed = rating_error(frame.drop(columns="annotators"))
    assert unnamed.error == pytest.approx(rating_error(frame).error)


@pytest.mark.slow
def test_single_ratings_take_the_error_of_repeated_ones():
    """A third of the items has three ratings, the others their first only: slopes still hold."""
    rng, found = np.random.default_rng(8), []
    for _ in range(40):
        frame = study(rng, 30, reliability=0.8)
        given, once = ratings_of(frame), rng.random(len(frame)) < 2 / 3
        one = given[:, :1]
        frame["human"] = np.where(once, one[:, 0], given.mean(axis=1))
        for column in ("ratings", "annotators"):
            frame[column] = frame[column].str.split().str[0].where(once, frame[column])
        found.append(slope(frame).estimate)
    assert np.isnan(found).sum() <= 2
    assert abs(np.nanmedian(found)) < 0.05


@pytest.mark.parametrize("within", [True, False])
def test_bent_slope_without_bends_is_that_of_errors_in_variables(within, monkeypatch):
    monkeypatch.setattr(regression, "_MOST_BENDS", 0)
    frame = study(np.random.default_rng(3), 40, bias=0.2)
    bent = regression.bent_slope_at_equal(frame, "y", "x", Resampling(), within)(0.0)
    assert bent.estimate == pytest.approx(slope(frame, within).estimate, abs=1e-9)


def test_bent_slope_allows_for_a_ceiling():
    """Scores that stop growing with quality, and a feature that does too, are no effect of the feature."""
    rng = np.random.default_rng(1)
    quality = rng.normal(size=4000)
    x, errors = np.minimum(quality, 0) + 0.5 * rng.normal(size=4000), 0.5 * rng.normal(size=(4000, 3))
    given = quality[:, None] + errors
    frame = pd.DataFrame({"context_id": np.arange(4000) // 4, "x": x, "human": given.mean(axis=1)})
    frame = frame.assign(y=np.minimum(quality + 0.3 * rng.normal(size=4000), 0.2), ratings=written(given))
    straight, bent = (
        each(frame, "y", "x", Resampling(), False)(0.0) for each in (slope_at_equal, regression.bent_slope_at_equal)
    )
    assert straight.ci_low > 0.1
    assert abs(bent.estimate) < 0.06


def test_detectable_effect_grows_with_the_error_of_reliability():
    """An effect is estimated with more error the larger it is: .47 were found of .80 promised, 24 contexts of 3."""
    few, many = (slope(study(np.random.default_rng(4), contexts, items=3)) for contexts in (40, 2000))
    usual = stats.t.ppf(0.975, 1999) + stats.t.ppf(0.8, 1999)
    assert few.mde / few.se > 1.05 * usual
    assert many.mde / many.se == pytest.approx(usual, rel=0.02)


def test_low_agreement_and_bad_columns_give_a_reason():
    frame = study(np.random.default_rng(9), 12)
    noise = np.random.default_rng(0).normal(size=(len(frame), 3))
    noisy = frame.assign(human=noise.mean(axis=1), ratings=written(noise))
    for found in (slope(noisy), excess(noisy)):
        assert np.isnan(found.estimate)
        assert "human scores are too unreliable" in found.note
    with pytest.raises(TrialsError, match="mean"):
        slope(frame.assign(human=0.0))
    with pytest.raises(TrialsError, match="annotators"):
        slope(frame.assign(annotators="1 2"))
    assert "no row" in slope(frame.iloc[:0]).note
    assert "collinear" in slope(frame.assign(x=1.0)).note


def test_fieller_interval_inverts_the_jackknife_t_test():
    """Every value b is tested by the jackknife of product − b × reliability; the interval is what is not rejected."""
    frame = study(np.random.default_rng(2), 24, items=3, reliability=0.5, bias=0.3)
    found = slope(frame)
    assert found.method.endswith("Fieller")
    columns = less_context(np.column_stack([frame[["y", "x", "human"]], ratings_of(frame)]), frame)

    def parts(kept, contexts):
        y, x, human, *given = columns[kept].T
        cross = np.mean([one @ two for one, two in permutations(given, 2)])
        true = cross + (human @ human - cross) / contexts
        others = human @ human - (x @ human) ** 2 / (x @ x)
        reliability = (true - (x @ human) ** 2 / (x @ x)) / others
        slopes = np.linalg.solve([[x @ x, x @ human], [x @ human, true]], [x @ y, human @ y])
        return np.array([slopes[0] * reliability, reliability])

    codes = frame["context_id"].to_numpy()
    full, left = parts(codes >= 0, 24), np.array([parts(codes != c, 23) for c in range(24)]) - parts(codes >= 0, 24)
    assert found.estimate == pytest.approx(full[0] / full[1])

    def t_of(b):
        error = np.sqrt(23 / 24 * (((left @ [1, -b]) ** 2).sum()))
        return abs(full @ [1, -b]) / error

    assert [t_of(found.ci_low), t_of(found.ci_high)] == pytest.approx([stats.t.ppf(0.975, 23)] * 2)
    assert found.p_value == pytest.approx(2 * stats.t.sf(t_of(0.0), 23))


def test_unreliable_scores_leave_the_slope_undefined():
    """Length correlated .7 with quality: what quality is beside it is a quarter of what human scores are beside it."""
    frame = study(np.random.default_rng(1), 10, items=3, annotators=2, reliability=0.4, r=0.7)
    found = slope(frame)
    assert np.isnan([found.estimate, found.ci_low, found.p_value]).all()
    assert "standard error" in found.note or "too unreliable" in found.note


def rates(make, estimate, truth, studies):
    """Return type-I error or power, and coverage, of the studies that have an interval."""
    found = [estimate(make()) for _ in range(studies)]
    found = [one for one in found if one.se > 0]
    rejected = np.mean([one.p_value < 0.05 for one in found])
    return rejected, np.mean([one.ci_low <= truth <= one.ci_high for one in found])


@pytest.mark.slow
@pytest.mark.parametrize("estimate", ["slope", "excess"])
def test_judge_fair_to_quality_is_rarely_found_biased(estimate):
    """Reliability .6 and r = .5: least squares rejects .78 of these studies, uncorrected correlations .26."""
    rng, noise = np.random.default_rng(10), 0.5 if estimate == "slope" else 0.0
    of = {"slope": slope, "excess": excess}[estimate]
    rejected, covered = rates(lambda: study(rng, 24, noise=noise), of, 0.0, 50)
    assert rejected <= 0.12
    assert covered >= 0.88
    naive, _ = rates(lambda: study(rng, 24, noise=noise).drop(columns=["ratings", "annotators"]), of, 0.0, 20)
    assert naive > 0.15


@pytest.mark.thorough
@pytest.mark.parametrize("crowd", [False, True])
@pytest.mark.parametrize("contexts", [8, 24])
def test_type_i_error_and_coverage_with_three_annotators(contexts, crowd):
    rng = np.random.default_rng([contexts, crowd])
    for bias in (0.0, 0.3):
        make = lambda bias=bias: study(rng, contexts, bias=bias, crowd=crowd)  # noqa: E731
        rejected, covered = rates(make, slope, bias, 400)
        assert 0.92 <= covered <= 0.99
        assert bias or rejected <= 0.085  # .045 in 2,000 studies with 24 contexts and a crowd
    for r in (-0.5, 0.5):
        make = lambda r=r: study(rng, contexts, r=r, noise=0.0, crowd=crowd)  # noqa: E731
        rejected, _ = rates(make, excess, 0.0, 400)
        assert rejected <= 0.085


@pytest.mark.parametrize("error", [None, 0.0, 12.0])
def test_extreme_outcomes_are_those_of_all_completions(error):
    """Every way to fill in eight outcomes; log odds by statsmodels, regression calibration by hand."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(60), rng.normal(size=60), rng.normal(size=60)])
    x[:, 1] += x[:, 2]
    y = (rng.random(60) < expit(x @ [0.3, 0.8, 0.5])).astype(float)
    y[:8] = np.nan
    inverse = np.linalg.inv(x.T @ x)
    reliability = 1 - (error or 0.0) * inverse[2, 2]

    def at_equal(outcomes):
        _, feature, human = sm.Logit(outcomes, x).fit(disp=0).params
        if error is None:
            return human
        left = 1 - (16 * 3**0.5 / 15 / math.pi) ** 2 * (human / reliability) ** 2 * reliability * error / 60
        return (feature + human * error * inverse[1, 2] / reliability) / left**0.5

    every = [at_equal(np.r_[fill, y[8:]]) for fill in product((0.0, 1.0), repeat=8)]
    least, most = (at_equal(extreme_outcomes(y, x, error, sign)) for sign in (-1.0, 1.0))
    assert (least, most) == pytest.approx((min(every), max(every)), abs=1e-6)


def test_separated_outcomes_have_no_extremes():
    x = np.column_stack([np.arange(8.0) - 3.5, np.tile([1.0, -1], 4)])
    assert extreme_outcomes(np.where(x[:, 0] > 0, 1.0, 0.0), x, 0.0, 1.0) is None
