"""Own texts and long texts where humans err, scores end and judgements are missing; trials drawn without any judge."""

import math
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from studies import row_of

import biaslab as bl
from biaslab.calibration.generators import GENERATORS, generate
from biaslab.calibration.text_models import Draws, OwnTexts
from biaslab.probes.base import feature_probe
from biaslab.probes.base.feature_probe import MissingScores, holding_for
from biaslab.stats import regression
from biaslab.stats.estimate import Estimate, Note, because, notes_of, undefined

LOGIT, SHIFT, EXCESS = "self_preference_logit", "self_preference_shift", "own_win_excess"
OWN = bl.probes.SelfPreference(own="own", resampling=bl.Resampling(n=200))


def own_texts(contexts=60, bias=0.0, k=None, seed=0, **settings):
    trials = OwnTexts(**settings).draw(contexts, bias, Draws.seeded(k, [seed]))
    return trials.assign(judge="j", dataset="d", attribute="quality", probe="self_preference", key=range(len(trials)))


def estimate(probe, trials, metric):
    with warnings.catch_warnings(action="ignore"):
        return row_of(probe.estimate(trials, [metric]), metric)


def verdict(row):
    return bl.report.findings(pd.DataFrame([row])).iloc[0]


def without(trials, lost):
    """Refuse some judgements."""
    return trials.assign(value=trials["value"].mask(lost), status=np.where(lost, "refused", trials["status"]))


def test_verdicts_know_how_much_humans_err():
    """Own texts are better and the judge fair: three ratings tell how much of that the mean score misses."""
    trials = own_texts(400, k=1, reliability=0.5, better=1.5)
    alone = trials.assign(ratings=None, opponent_ratings=None)
    known, unknown = estimate(OWN, trials, LOGIT), estimate(OWN, alone, LOGIT)
    assert abs(known["estimate"]) < 2.5 * known["se"]
    assert unknown["estimate"] > 3 * unknown["se"]


@pytest.mark.slow
def test_single_ratings_take_the_worst_case_over_reliability():
    trials = own_texts(100, bias=0.6, k=1, reliability=0.6, better=1.0, rated=False)
    row = estimate(OWN, trials, LOGIT)
    curve = OWN.sensitivity(trials, list(np.linspace(1, 0.3, 6).round(2)), [LOGIT])
    assert row["estimate"] == pytest.approx(curve["estimate"][0])
    assert row["ci_low"] == pytest.approx(curve["ci_low"].min())
    assert row["ci_high"] == pytest.approx(curve["ci_high"].max())
    assert curve["ci_low"][0] > 0 > row["ci_low"]
    assert curve["estimate"].min() < 0 < curve["estimate"].max()
    assert row["p_value"] == 1.0  # some reliability gives 0
    found = verdict(row)
    assert (found["finding"], found["doubt"]) == ("open", "reliability")
    assert "which a single rating cannot show" in found["words"]


def test_a_preference_that_holds_at_every_reliability_is_found():
    row = estimate(OWN, own_texts(100, bias=1.5, k=1, better=0.0, rated=False), LOGIT)
    assert row["ci_low"] > 0
    assert "a reliability above 0.30" in row["note"]
    assert verdict(row)["finding"] == "above"


def test_a_slope_that_needs_reliable_humans_is_inconclusive():
    trials = generate(GENERATORS["noisy_humans"], "verbosity", 80, False, None, (1,)).drop(columns="ratings")
    row = estimate(bl.probes.Verbosity(), trials, "verbosity_slope")
    assert row["ci_low"] < 0 < row["estimate"]
    assert verdict(row)["finding"] == "open"
    assert verdict(estimate(bl.probes.Verbosity(reliability=1.0), trials, "verbosity_slope"))["finding"] == "above"


def test_excess_allows_for_errors_of_the_judge():
    """Noise pulls the judge's correlation to 0: in .29 of studies a fair judge seemed to prefer shorter texts."""
    trials = generate(GENERATORS["noisy_humans"], "verbosity", 80, False, None, (1,))
    rows = bl.probes.Verbosity().estimate(trials).set_index(["metric", "scorer"])
    judge, excess = rows.loc[("verbosity_correlation", "judge")], rows.loc["verbosity_excess"].iloc[0]
    note = notes_of(excess)["judge_noise"]
    assert judge["estimate"] > 0
    assert note["low"] == excess["ci_low"]
    most = min(judge["ci_high"] / math.sqrt(0.3), 1.0)
    assert note["high"] - excess["ci_high"] == pytest.approx(most - judge["ci_high"])


def test_interval_allows_for_better_texts_near_the_top_of_the_scale():
    row = estimate(OWN, own_texts(better=1.0, ceiling=0.8, seed=1), SHIFT)
    assert row["ci_low"] <= 0 <= row["ci_high"]
    assert row["method"].endswith("with and without bends in the effect of quality")
    assert verdict(row)["finding"] not in ("above", "below")


def test_better_texts_at_the_top_of_the_scale_are_no_bias():
    row = estimate(OWN, own_texts(better=1.0, ceiling=2.0), SHIFT)
    assert row["ci_low"] <= 0 <= row["ci_high"]
    assert verdict(row)["finding"] not in ("above", "below")


@pytest.mark.parametrize("crowding", [0.8, 2.0, 3.0])
def test_bias_is_found_beside_a_crowded_end(crowding):
    """With bends in noisy human scores instead of in quality, no such study had a test."""
    row = estimate(OWN, own_texts(150, bias=1.5, ceiling=crowding, seed=2), SHIFT)
    assert row["ci_low"] > 0


def test_scores_that_quality_and_length_explain_show_a_length_bias():
    """Without residuals, a bias is certain; a fair judge's slope is a rounding error."""
    rng = np.random.default_rng(2)
    human = rng.normal(size=200)
    items = pd.DataFrame({"context_id": np.repeat(np.arange(50), 4), "human": human, "doublings": rng.normal(size=200)})
    known, quantiles = bl.Resampling(), np.quantile(human, [0.2, 0.4, 0.6, 0.8])
    bent = human - 0.5 * np.maximum(human - quantiles[1], 0)
    for bias in (0.0, 0.3):
        scored = items.assign(score=bent + bias * items["doublings"])
        of = partial(feature_probe.slope_given_quality, scored, "doublings", known, False, (), 1.0)
        found = feature_probe.allowing_for_bends(of(False), partial(of, True), scored, known)
        assert (found.p_value < 0.05) == (bias > 0)
        assert (found.ci_low > 0) == (bias > 0)


@pytest.mark.parametrize("scale", ["1-10", "1-100"])
def test_fair_scores_that_bend_in_quality_show_no_length_bias(scale):
    """Few of them lie at an end, but they are no straight line in people's: p was below 1e-25."""
    data = bl.load_dataset("graded", limit=24)
    probe = bl.probes.Verbosity(attributes=["coherence"], scale=scale)
    trials = bl.collect(probe, bl.SimulatedJudge(data, quality=1.0), data, progress=False)
    row = probe.estimate(trials, ["verbosity_slope"]).iloc[0]
    assert row["ci_low"] <= 0 <= row["ci_high"]
    assert row["p_value"] > 0.05


def some_lost(trials, asked, share=0.1, seed=3):
    return (trials["asked"] == asked).to_numpy() & (np.random.default_rng(seed).random(len(trials)) < share)


@pytest.mark.parametrize(
    ("metric", "asked", "k"),
    [(SHIFT, "score", None), pytest.param(EXCESS, "pair", None, marks=pytest.mark.slow), (LOGIT, "pair", 1)],
)
def test_bounds_cover_every_completion(metric, asked, k):
    trials = own_texts(30, bias=0.4, k=k, reliability=0.8, better=0.5)
    lost = some_lost(trials, asked)
    row = estimate(OWN, without(trials, lost), metric)
    assert row["bound_low"] < row["ci_low"] < row["ci_high"] < row["bound_high"]
    rng, ends = np.random.default_rng(0), (1.0, 5.0) if asked == "score" else (0.0, 1.0)
    own_first = (trials["system"] == "own").to_numpy()
    fills = [rng.choice(ends, len(trials)) for _ in range(4)]
    fills += [np.where(own_first, *ends), np.where(own_first, *ends[::-1])]
    for fill in fills:
        there = estimate(OWN, trials.assign(value=trials["value"].where(~lost, fill)), metric)
        assert row["bound_low"] <= there["estimate"] <= row["bound_high"]


def test_slope_bounds_are_least_squares_over_all_completions():
    """With one rating and two missing scores, every pair of ends by statsmodels."""
    trials = generate(GENERATORS["normal"], "verbosity", 12, False, None, (2,)).drop(columns="ratings")
    lost = np.zeros(len(trials), bool)
    lost[[1, 17]] = True
    row = estimate(bl.probes.Verbosity(reliability=1.0), without(trials, lost), "verbosity_slope")
    spread, slopes = trials["value"][~lost].std(), []
    for fill in np.array(np.meshgrid([1.0, 5.0], [1.0, 5.0])).reshape(2, -1).T:
        value = trials["value"].to_numpy().copy()
        value[lost] = fill
        frame = trials.assign(score=value / spread, doublings=np.log2(trials["words"]))
        fit = smf.ols("score ~ doublings + human + C(context_id)", frame).fit()
        slopes.append(fit.params["doublings"])
    assert row["bound_low"] < min(slopes)
    assert max(slopes) < row["bound_high"]
    half = (row["ci_high"] - row["ci_low"]) / 2
    assert row["bound_low"] > min(slopes) - 3 * half
    assert row["bound_high"] < max(slopes) + 3 * half


def of_few_items(completed):
    """Return the bounds of a slope of 0.5 [0.4, 0.6] where completions of a missing score have given intervals."""
    items = pd.DataFrame({"context_id": [*"aabbcc"], "score": [1.0, 2, 3, 4, 5, np.nan], "human": [1.0, 3, 2, 5, 4, 1]})
    items = items.assign(doublings=[0.0, 2, 1, 1, 3, 2])
    found = Estimate(0.5, 0.05, 0.4, 0.6, 0.001, 0.2, 3, "least squares")
    each = iter([replace(found, estimate=value, ci_low=low, ci_high=high) for value, low, high in completed])
    return MissingScores(items, "doublings", [], True, (1.0, 5.0)).bound(found, lambda _: next(each), has_note=False)


def test_every_completion_may_have_the_widest_interval():
    found = of_few_items([(0.2, 0.1, 0.3), (0.7, 0.5, 1.0)])
    assert (found.bound_low, found.bound_high) == pytest.approx((0.0, 1.0))


def test_undefined_slope_has_no_bounds():
    found = of_few_items([(0.2, 0.1, 0.3), (0.7, np.nan, np.nan)])
    assert np.isnan(found.bound_low)
    assert found.notes == (Note("unbounded"),)
    held = holding_for([replace(found, notes=()), found], "either way")
    assert held.notes == (Note("unbounded"),)


@pytest.mark.slow
def test_tipping_point_is_where_the_interval_reaches_null():
    trials = own_texts(60, bias=0.35)
    lost = some_lost(trials, "score", 0.12)
    row = estimate(OWN, without(trials, lost), SHIFT)
    assert row["ci_low"] > 0 > row["bound_low"]
    off = float(row["note"].split("missing scores ")[1].split(" points")[0])
    assert 0 < off < 4
    found = verdict(row)
    assert (found["finding"], found["doubt"]) == ("open", "missing")
    assert "tipping point: missing scores" in found["words"]
    few = estimate(OWN, without(own_texts(60, bias=1.0), some_lost(trials, "score", 0.01)), SHIFT)
    assert few["bound_low"] > 0
    assert verdict(few)["finding"] == "above"


def test_unbounded_effect_is_not_a_finding():
    """Log odds of exact probabilities: a missing one could be as near to 0 or 1 as can be."""
    trials = own_texts(60, bias=1.0)
    row = estimate(OWN, without(trials, some_lost(trials, "pair", 0.1)), LOGIT)
    assert row["ci_low"] > 0
    assert math.isnan(row["bound_low"])
    found = verdict(row)
    assert (found["finding"], found["doubt"]) == ("open", "missing")
    assert "whose effect is unbounded" in found["words"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("generator", "metric", "mode"), [("own_better", LOGIT, "text"), ("missing_15", SHIFT, "exact")]
)
def test_the_scheduled_cells_of_own_texts_keep_their_bands(generator, metric, mode):
    options = {"studies": 40, "population": 400, "contexts": [24], "generators": [generator], "modes": [mode]}
    found = bl.validate([bl.probes.SelfPreference], [metric], **options)
    assert found["kept"].all(), found[~found["kept"]]
    assert ("found" in set(found["quantity"])) == (generator == "missing_15")


def test_cell_with_an_untested_metric_is_refused(monkeypatch):
    nowhere = because("nowhere", "defined nowhere")
    monkeypatch.setattr(regression, "bent_slope_at_equal", lambda *_: lambda _: undefined(nowhere))
    options = {"studies": 2, "population": 60, "contexts": [12], "generators": ["own_better_ceiling"]}
    found = bl.validate([bl.probes.SelfPreference], [SHIFT], **options)
    assert set(found["quantity"]) == {"refused"}
    assert found["note"].str.contains("no test: an effect of quality that may bend leaves no interval").all()
