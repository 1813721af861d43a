"""The recipe against rate-explain and G-Eval: planted differences, hand-computed frames, the price."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.judges.repetition import Sampled
from biaslab.measures.scoring import GEval, Rating, agreement, scores
from biaslab.probes.recipe import Recipe

ONE = {"attributes": ["coherence"]}
NARROW = {"levels": ["context"], "coefficients": ["spearman"]}
SCORES = {
    "human": [[1, 2, 3], [1, 2, 3], [3, 1, 2]],
    "recipe": [[1, 2, 3], [2, 1, 3], [3, 1, 2]],
    "rate_explain": [[1, 3, 2], [2, 1, 3], [1, 2, 3]],
    "g_eval": [[3, 2, 1], [1, 2, 3], [2, 2, 2]],
}


def frame(given=SCORES):
    rows = [
        (scorer, f"c{c}", "xyz"[k], given["human"][c][k], float(value))
        for scorer in ("recipe", "rate_explain", "g_eval")
        for c, each in enumerate(given[scorer])
        for k, value in enumerate(each)
    ]
    trials = pd.DataFrame(rows, columns=["scorer", "context_id", "candidate_id", "human", "value"])
    cell = {"judge": "j", "dataset": "d", "attribute": "fluency", "answer": "text", "replicate": 0, "tokens": 10}
    return trials.assign(status="ok", label_mass=np.nan, **cell)


def test_requests_equal_those_of_the_scorers(graded):
    """The trials are those of three scorers, so that a store answers for all of them."""
    trials = list(Recipe(**ONE).design(graded))
    asked = {name: [t.request for t in trials if t.condition["scorer"] == name] for name in SCORES if name != "human"}
    assert asked["recipe"] == [t.request for t in Rating(["coherence"]).design(graded)]
    assert asked["rate_explain"] == [t.request for t in Rating(["coherence"], "1-5", "after").design(graded)]
    assert asked["g_eval"] == [t.request for t in GEval(["coherence"]).design(graded)]
    assert all(graded.candidates["context"].iloc[0] in t.request.messages[0].content for t in trials[:6])


def test_texts_are_one_greedy_answer_and_samples(graded):
    trials = list(Recipe(**ONE, answer="text", samples=3).design(graded))
    settings = {(t.condition["scorer"], t.request.temperature, t.condition["scale"]) for t in trials}
    assert settings == {("recipe", 0.0, "1-10"), ("rate_explain", 1.0, "1-5"), ("g_eval", 1.0, "1-5")}
    counts = pd.Series([t.condition["scorer"] for t in trials]).value_counts().to_dict()
    n = len(graded.candidates)
    assert counts == {"recipe": n, "rate_explain": 3 * n, "g_eval": 3 * n}


def test_recipe_reads_modes_and_g_eval_expected_scores(graded):
    judge = bl.SimulatedJudge(graded, noise=1.0, sharpness=4.0)
    trials = bl.collect(Recipe(**ONE), judge, graded, progress=False).set_index("scorer")["value"]
    assert (trials["recipe"] % 1 == 0).all()
    assert (trials["g_eval"] % 1 != 0).all()
    assert trials["rate_explain"].between(1, 5).all()


def test_estimates_of_a_frame_computed_by_hand():
    found = Recipe().estimate(frame().assign(answer="distribution"))
    rho = {
        name: [stats.spearmanr(x, h).statistic for x, h in zip(each, SCORES["human"], strict=True)]
        for name, each in SCORES.items()
        if name not in ("human", "g_eval")
    }
    context = {"level": "context", "coefficient": "spearman"}
    assert row_of(found, "agreement", scorer="recipe", **context)["estimate"] == pytest.approx(np.mean(rho["recipe"]))
    gain = row_of(found, "recipe_gain", against="rate_explain", **context)
    assert gain["estimate"] == pytest.approx(np.mean(np.subtract(rho["recipe"], rho["rate_explain"])))
    g_eval = row_of(found, "recipe_gain", against="g_eval", **context)
    assert g_eval["estimate"] == pytest.approx(((1 - -1) + (0.5 - 1)) / 2)  # G-Eval says nothing of the third context
    assert g_eval["n_contexts"] == 2
    pooled = [stats.kendalltau(np.ravel(SCORES[n]), np.ravel(SCORES["human"])).statistic for n in ("recipe", "g_eval")]
    row = row_of(found, "recipe_gain", against="g_eval", level="dataset", coefficient="kendall")
    assert row["estimate"] == pytest.approx(pooled[0] - pooled[1])
    assert row_of(found, "tokens", scorer="g_eval")["estimate"] == 10
    assert row_of(found, "parse_rate", scorer="recipe")["estimate"] == 1


def test_agreement_is_that_of_the_scorers(graded):
    judge, probe = bl.SimulatedJudge(graded, noise=1.0), Recipe(**ONE, **NARROW)
    found = run(probe, judge, graded, ["agreement"])
    for name, scorer in (("recipe", Rating(["coherence"])), ("g_eval", GEval(["coherence"]))):
        alone = scores(bl.collect(scorer, judge, graded, progress=False))
        same = agreement(alone, graded, ["context"], ["spearman"], bl.Resampling())
        assert row_of(found, "agreement", scorer=name)["estimate"] == pytest.approx(same["estimate"].item())


@pytest.mark.slow
def test_tokens_grow_with_samples_and_parse_rate_counts_garbage(graded):
    found = run(Recipe(**ONE, answer="text", samples=4), bl.SimulatedJudge(graded), graded, ["tokens", "parse_rate"])
    tokens = found[found["metric"] == "tokens"].set_index("scorer")["estimate"]
    assert tokens["rate_explain"] == pytest.approx(4 * tokens["recipe"])
    garbage = run(
        Recipe(**ONE, answer="text", samples=4), bl.SimulatedJudge(graded, garbage=0.3), graded, ["parse_rate"]
    )
    assert garbage["estimate"].to_numpy() == pytest.approx(0.7, abs=0.15)


def test_refused_items_drop_out_of_every_scorer():
    trials = frame()
    gone = (trials["scorer"] == "g_eval") & (trials["context_id"] == "c0") & (trials["candidate_id"] == "x")
    trials.loc[gone, ["value", "status"]] = [np.nan, "refused"]
    with pytest.warns(MissingDataWarning, match="recipe"):
        found = Recipe(**NARROW).estimate(trials)
    row = row_of(found, "agreement", scorer="recipe")
    assert (row["n_trials"], row["n_dropped"]) == (24, 3)
    assert row["estimate"] == pytest.approx((1 + 0.5 + 1) / 3)


@pytest.mark.slow
def test_recipe_gain_is_found_only_if_planted():
    """The planted difference: greedy answers on 1-5 are tied where expected scores on 1-100 still differ."""
    data = construct_population(200)
    calibration = Recipe.metrics[0].calibration
    probe = Recipe(**calibration.parameters)
    planted = run(probe, bl.SimulatedJudge(data, **calibration.planted), data, ["recipe_gain"]).iloc[0]
    fair = run(probe, bl.SimulatedJudge(data, **calibration.fair), data, ["recipe_gain"]).iloc[0]
    assert planted["ci_high"] < 0
    assert fair["ci_low"] < 0 < fair["ci_high"]


@pytest.mark.slow
def test_gain_is_corrected_for_number_of_samples():
    data, judge = construct_population(150), {"noise": 0.5, "sharpness": 4.0}
    gains = {}
    for samples in (1, 2, 16):
        probe = Recipe(against=["rate_explain"], **NARROW, answer="text", samples=samples)
        gains[samples] = run(probe, bl.SimulatedJudge(data, **judge), data, ["recipe_gain"]).iloc[0]
    assert gains[2]["ci_low"] < gains[16]["estimate"] < gains[2]["ci_high"]
    assert "sampling noise: reliability 1.00" in gains[2]["note"]
    assert np.isnan(gains[1]["estimate"])
    assert "samples=2" in gains[1]["note"]


def test_counted_samples_leave_gain_undefined_with_remedy():
    data = construct_population(8)
    judge = Sampled(bl.SimulatedJudge(data, noise=0.5, sharpness=4.0), 3)
    with pytest.warns(MissingDataWarning):
        found = run(Recipe(**NARROW, against=["g_eval"]), judge, data, ["recipe_gain"]).iloc[0]
    assert np.isnan(found["estimate"])
    assert "means of 3 counted samples" in found["note"]
    assert 'answer="text"' in found["note"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"against": []}, "rate_explain"),
        ({"against": ["analyze_rate"]}, "rate_explain"),
        ({"levels": ["system"]}, "context"),
        ({"coefficients": "kendall"}, "spearman"),
        ({"scale": "1-7"}, "1-100"),
        ({"rival_scale": "1-7"}, "1-100"),
        ({"samples": 0, "answer": "text"}, "at least 1"),
        ({"answer": "speech"}, "distribution"),
        ({"attributes": "coherence"}, "a list"),
    ],
)
def test_bad_parameters_are_named(options, words):
    with pytest.raises(InputError, match=words):
        Recipe(**options)


def test_missing_scorer_and_column_are_named():
    with pytest.raises(InputError, match="g_eval"):
        Recipe(**NARROW).estimate(frame()[lambda t: t["scorer"] != "g_eval"])
    with pytest.raises(TrialsError, match="human"):
        Recipe().estimate(frame().drop(columns="human"))
