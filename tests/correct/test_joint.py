"""All biases at once: equal to statsmodels where labels are exact, planted effects, and judges without them."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.correct.joint_effects import columns_of
from biaslab.stats.reliability import depends_on_reliability

PLANTED = {"position": 0.4, "length": 0.6, "own": 0.5, "lists": 0.4}
SIDES = ("one", "two")


def pairs_log(questions, seed=0, planted=PLANTED, quality=1.0, seen=1.0):
    """Verdicts of a judge with biases; people see quality with error if ``seen`` is below 1."""
    rng = np.random.default_rng(seed)
    n = 2 * questions
    better, words = rng.normal(size=(2, n)), rng.integers(40, 400, (2, n))
    lists = rng.poisson(2, (2, n))
    own = (np.arange(n) % 3 == 0) * np.where(rng.random(n) < 0.5, 1, -1)
    terms = {
        "position": np.ones(n),
        "length": np.log2(words[0] / words[1]),
        "own": own,
        "lists": np.log1p(lists[0]) - np.log1p(lists[1]),
    }
    logit = quality * (better[0] - better[1]) + sum(planted[name] * values for name, values in terms.items())
    won = rng.random(n) < expit(logit)
    gap = better[0] - better[1] + np.sqrt(2 * (1 - seen) / seen) * rng.normal(size=n)
    log = pd.DataFrame(
        {
            "probe": "recorded", "judge": "me", "dataset": "d", "attribute": "a", "status": "ok", "replicate": 0,
            "context_id": np.repeat(np.arange(questions), 2).astype(str), "candidate_id": np.where(own > 0, "me", "x"),
            "opponent_id": np.where(own < 0, "me", "y"), "value": won * 1.0, "human_gap": gap,
            "words": words[0] * 1.0, "opponent_words": words[1] * 1.0,
            "n_lists": lists[0] * 1.0, "opponent_n_lists": lists[1] * 1.0, "order_known": True,
        }
    )  # fmt: skip
    return log, pd.DataFrame(terms).assign(gap=gap, won=won * 1.0)


def scores_log(contexts, seed=0):
    rng = np.random.default_rng(seed)
    n = 4 * contexts
    better, words, count = rng.normal(size=n), rng.integers(40, 400, n), rng.poisson(2, n)
    score = np.log2(words) + 0.8 * better + 0.3 * np.log1p(count) + 0.5 * rng.normal(size=n)
    names = {"probe": "recorded", "judge": "j", "dataset": "d", "attribute": "a", "status": "ok", "replicate": 0}
    log = pd.DataFrame(
        {**names, "context_id": np.repeat(np.arange(contexts), 4).astype(str), "candidate_id": [*"stuv"] * contexts,
         "opponent_id": None, "value": score, "human": better, "words": words * 1.0, "n_lists": count * 1.0,
         "scale": "reward", "annotators": "construction"}
    )  # fmt: skip
    return log, pd.DataFrame({"length": np.log2(words), "lists": np.log1p(count), "human": better, "score": score})


def biases(found, given="jointly"):
    rows = found.estimates[found.estimates["metric"].str.startswith("bias_") & (found.estimates["given"] == given)]
    return rows.set_index("term")


@pytest.fixture(scope="module")
def pair_study():
    log, terms = pairs_log(120)
    return bl.joint(log, covariates=["lists=n_lists"], reliability=1), terms


def test_pairs_equal_glm_of_statsmodels(pair_study):
    found, terms = pair_study
    terms["lists"] /= terms["lists"].std()
    names = ["position", "length", "own", "lists"]
    fitted = sm.GLM(terms["won"], terms[[*names, "gap"]], sm.families.Binomial()).fit(tol=1e-13)
    assert biases(found).loc[names, "estimate"].to_numpy() == pytest.approx(fitted.params[names], abs=1e-8)
    for name in names:
        alone = sm.GLM(terms["won"], terms[[name, "gap"]], sm.families.Binomial()).fit(tol=1e-13)
        assert biases(found, "alone").loc[name, "estimate"] == pytest.approx(alone.params[name], abs=1e-8)


def test_pairs_errors_are_near_clustered_glm(pair_study):
    found, terms = pair_study
    names = ["position", "length", "own", "lists"]
    model = sm.GLM(terms["won"], terms[[*names, "gap"]], sm.families.Binomial())
    fitted = model.fit(cov_type="cluster", cov_kwds={"groups": np.repeat(np.arange(120), 2)})
    ratio = biases(found).loc[names, "se"] / fitted.bse[names]
    assert ratio.between(0.98, 1.15).all()


def test_scores_equal_ols_of_statsmodels():
    log, terms = scores_log(40)
    found = bl.joint(log, covariates=["lists=n_lists"])
    terms["lists"] /= terms["lists"].std()
    x = pd.concat(
        [terms[["length", "lists", "human"]], pd.get_dummies(np.repeat(np.arange(40), 4), dtype=float)], axis=1
    )
    fitted = sm.OLS(terms["score"], x.rename(columns=str)).fit()
    names = ["length", "lists"]
    assert biases(found).loc[names, "estimate"].to_numpy() == pytest.approx(fitted.params[names], abs=1e-8)


def test_bias_alone_is_joint_plus_shared():
    log, _ = scores_log(40)
    found = bl.joint(log, covariates=["lists=n_lists"])
    shared = found.estimates[found.estimates["metric"] == "shared_points"].set_index(["term", "other"])["estimate"]
    alone, jointly = biases(found, "alone")["estimate"], biases(found)["estimate"]
    for term, other in (("length", "lists"), ("lists", "length")):
        assert alone[term] == pytest.approx(jointly[term] + shared[term, ""], abs=1e-8)
        assert shared[term, other] == pytest.approx(shared[term, ""])


@pytest.mark.slow
def test_planted_biases_are_recovered():
    log, terms = pairs_log(1500, seed=1)
    rows = biases(bl.joint(log, covariates=["lists=n_lists"], reliability=1))
    truth = pd.Series(PLANTED)
    truth["lists"] *= terms["lists"].std()
    assert ((rows["estimate"] - truth).abs() < 3 * rows["se"]).all()
    assert (rows["q_value"] < 0.05).all()


@pytest.mark.slow
def test_agreement_without_biases_is_that_of_fair_judge():
    log, terms = pairs_log(1500, seed=2, seen=0.7)
    found = bl.joint(log, covariates=["lists=n_lists"], reliability=0.7).estimates
    fair = dict.fromkeys(PLANTED, 0.0)
    _, same = pairs_log(1500, seed=2, planted=fair, seen=0.7)
    truth = np.mean((same["gap"] > 0) == (same["won"] == 1))
    rows = found[found["metric"] == "agreement"].set_index("without")
    every = "position, length, own, lists"
    assert set(rows.index) == {"", "position", "length", "own", "lists", every}
    assert rows.loc["", "estimate"] == pytest.approx(np.mean((terms["gap"] > 0) == (terms["won"] == 1)))
    assert abs(rows.loc[every, "estimate"] - truth) < 3 * rows.loc[every, "se"]
    assert rows.loc[every, "ci_low"] > rows.loc["", "estimate"]


def test_win_rate_without_own_bias_falls():
    log, _ = pairs_log(400, seed=3, planted={**dict.fromkeys(PLANTED, 0.0), "own": 1.5})
    found = bl.joint(log, without=["own"], reliability=1).estimates
    rates = found[(found["metric"] == "win_rate") & (found["system"] == "me")].set_index("without")
    assert rates.loc["", "estimate"] > 0.65
    assert rates.loc["own", "ci_low"] < 0.5 < rates.loc["own", "ci_high"]


def test_correlation_without_length_rises():
    log, terms = scores_log(60)
    found = bl.joint(log).estimates
    rows = found[found["metric"] == "correlation"].set_index("without")["estimate"]
    left = terms["score"] - terms["length"]
    contexts = np.repeat(np.arange(60), 4)
    within = [values - values.groupby(contexts).transform("mean") for values in (left, terms["human"])]
    assert rows["length"] == pytest.approx(np.corrcoef(*within)[0, 1], abs=0.02)
    assert rows["length"] > rows[""]


def test_terms_that_determine_each_other_are_refused():
    log, _ = pairs_log(60)
    log = log.assign(candidate_id="me", opponent_id="x")
    rows = biases(bl.joint(log, covariates=["lists=n_lists"], reliability=1))
    assert rows.loc[["position", "own"], "estimate"].isna().all()
    assert '"others": "position"' in rows.loc["own", "notes"]
    assert rows.loc[["length", "lists"], "estimate"].notna().all()


def test_position_of_a_baseline_is_refused():
    """One system that is always first: its strength and position are one."""
    log, _ = pairs_log(60, planted=PLANTED | {"own": 0.0})
    fixed = log.assign(candidate_id="x", opponent_id="y")
    row = biases(bl.joint(fixed, reliability=1)).loc["position"]
    assert np.isnan(row["estimate"])
    assert "always shown first" in row["note"]
    with pytest.raises(InputError, match="me"):
        bl.joint(log, own={"you": "me"})


@pytest.mark.slow
def test_unknown_reliability_widens_intervals():
    log, _ = pairs_log(200, seed=4)
    known, unknown = (biases(bl.joint(log, reliability=each)) for each in (1.0, None))
    assert (unknown["ci_low"] <= known["ci_low"]).all()
    assert unknown.loc["length", "ci_high"] > known.loc["length", "ci_high"]


@pytest.mark.slow
def test_reliabilities_ruled_out_leave_a_finding():
    """Signs of exact labels keep 2/π of the reliability at least, below which nothing has to hold."""
    log, _ = pairs_log(300, seed=4)
    signs = log.assign(human_gap=np.sign(log["human_gap"]))
    row = biases(bl.joint(signs, reliability=1.0)).loc["length"]
    assert row["ci_low"] > 0
    assert not depends_on_reliability(row)
    open_ = biases(bl.joint(signs)).loc["position"]
    assert open_["ci_low"] < biases(bl.joint(signs, reliability=1.0)).loc["position", "ci_low"]


def test_several_ratings_correct_a_null():
    """People's errors make a fair judge of longer, better texts look biased; ratings of several show that."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(300, 4))
    words = np.exp2(7 + quality + rng.normal(size=quality.shape))
    rated = quality[..., None] + 1.5 * rng.normal(size=(300, 4, 3))
    log, _ = scores_log(300)
    log = log.assign(value=quality.ravel() + 0.3 * rng.normal(size=1200), words=words.ravel())
    mean = rated.mean(axis=2).ravel()
    single = log.assign(human=mean, annotators="")
    written = [" ".join(map(repr, map(float, three))) for three in rated.reshape(-1, 3)]
    found = biases(bl.joint(single.assign(ratings=written)))
    naive = biases(bl.joint(single, reliability=1))
    assert naive.loc["length", "ci_low"] > 0.1
    assert found.loc["length", "ci_low"] < 0 < found.loc["length", "ci_high"]


def test_missing_verdicts_bound_a_bias():
    log, _ = pairs_log(80)
    log.loc[:7, ["status", "value"]] = ["refused", np.nan]
    rows = biases(bl.joint(log, reliability=1))
    assert (rows["bound_low"] < rows["ci_low"]).all()
    assert set(rows["n_dropped"]) == {8}


def test_texts_of_log_give_lists_and_markdown():
    texts = ["- a\n- b\n# head", "plain words only", "1. x\n**bold** y", "* z"]
    rng = np.random.default_rng(0)
    log, _ = pairs_log(60)
    log = log.assign(text=rng.choice(texts, 120), opponent_text=rng.choice(texts, 120))
    found = biases(bl.joint(log, covariates=["lists=text", "markdown=text"], reliability=1))
    assert {"lists", "markdown"} <= set(found.index[found["estimate"].notna()])


@pytest.mark.slow
def test_data_set_gives_labels_and_texts():
    data = bl.load_dataset("graded", limit=24)
    probe = bl.probes.Verbosity(attributes=["coherence"])
    trials = bl.collect(probe, bl.SimulatedJudge(data, verbosity=1.0), data, progress=False)
    found = bl.joint(trials, data)
    assert biases(found).loc["length", "ci_low"] > 0
    assert "favours longer texts" in str(found)


def test_win_rates_without_nothing_are_not_told():
    log, _ = pairs_log(60)
    found = bl.joint(log.assign(candidate_id="x", opponent_id="y", words=np.nan), own={"me": "x"})  # always first
    assert biases(found)["estimate"].isna().all()
    assert "x wins" in str(found)
    assert "without" not in str(found)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"covariates": ["length"]}, "covariates"),
        ({"covariates": ["a=b,c,d"]}, "covariates"),
        ({"covariates": ["position=words"]}, "covariates"),
        ({"covariates": ["lists=n_lists", "lists=words"]}, "covariates"),
        ({"covariates": ["topic=judge"]}, "covariates"),
        ({"without": ["lists"]}, "without"),
        ({"reliability": 0.1}, "reliability"),
        ({"reliability": "high"}, "reliability"),
        ({"covariates": "words"}, "covariates"),
        ({"own": ["me"]}, "own"),
        ({"own": {"you": "x"}}, "own"),
        ({"resampling": 3}, "resampling"),
        ({"cluster": "absent"}, "cluster"),
    ],
)
def test_bad_options_are_refused(options, name):
    log, _ = pairs_log(20)
    with pytest.raises(InputError) as error:
        bl.joint(log, **options)
    assert error.value.name == name


def test_judgements_without_labels_are_refused():
    log, _ = pairs_log(20)
    with pytest.raises(InputError, match="label"):
        bl.joint(log.assign(human_gap=np.nan))


def test_sides_of_swapped_log_are_refused():
    log, _ = pairs_log(20)
    roles = [{"role": "shown", "sources": [{"columns": ["order"]}]}]
    log.attrs["reading"] = {"readings": [{"roles": roles}]}
    with pytest.raises(InputError, match="either order"):
        bl.joint(log, covariates=["lists=n_lists,opponent_n_lists"])


def test_columns_of_covariates_are_kept():
    assert columns_of(["length=a+b,c", "x"]) == ["a", "b", "c", "x"]


def test_judgements_without_terms_are_refused():
    log, _ = pairs_log(20)
    bare = log.assign(words=np.nan, opponent_words=np.nan, order_known=False, candidate_id="x", opponent_id="y")
    with pytest.raises(InputError, match="covariates"):
        bl.joint(bare)


@pytest.mark.slow
def test_agreement_without_biases_covers_fair_judge():
    fair = dict.fromkeys(PLANTED, 0.0)
    _, large = pairs_log(100_000, seed=9, planted=fair)
    truth = np.mean((large["gap"] > 0) == (large["won"] == 1))
    covered = []
    for seed in range(60):
        log, _ = pairs_log(60, seed=500 + seed)
        found = bl.joint(log, covariates=["lists=n_lists"], without=list(PLANTED), reliability=1).estimates
        row = found[(found["metric"] == "agreement") & (found["without"] != "")].iloc[0]
        covered.append(row["ci_low"] <= truth <= row["ci_high"])
    assert np.mean(covered) >= 0.88


@pytest.mark.slow
def test_intervals_cover_planted_biases():
    covered = []
    for seed in range(60):
        log, terms = pairs_log(60, seed=100 + seed)
        rows = biases(bl.joint(log, covariates=["lists=n_lists"], without=["length"], reliability=1))
        truth = pd.Series(PLANTED)
        truth["lists"] *= terms["lists"].std()
        covered.append((rows["ci_low"] <= truth) & (truth <= rows["ci_high"]))
    assert 0.92 <= np.mean(covered) <= 0.99
