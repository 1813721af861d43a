"""Release dates of recorded judges, and the meta-regression of their biases on them."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.meta_analysis import combine_effects

import biaslab as bl
from biaslab.atlas.estimates_table import PEOPLE
from biaslab.atlas.release_trend import _Fit, has_fallen, with_dates
from biaslab.core.errors import InputError


def made(n=40, slope=-0.05, tau=0.03, seed=0, reasons=False):
    """Return estimates of dated judges whose distance from ½ falls by a slope a year."""
    draws, dates = np.random.default_rng(seed), bl.atlas.released().sample(n, random_state=seed, replace=n > 40)
    years = (pd.to_datetime(dates["released"]) - pd.Timestamp("2023-01")).dt.days.to_numpy() / 365.25
    mean = 0.3 + slope * years + (0.1 * dates["reasons"].to_numpy() if reasons else 0) + draws.normal(0, tau, n)
    error = draws.uniform(0.01, 0.04, n)
    value = mean + draws.normal(0, error)
    frame = {"judge": dates["judge"].to_numpy(), "metric": "m", "estimate": value}
    return pd.DataFrame(frame | {"ci_low": value - 1.96 * error, "ci_high": value + 1.96 * error})


def test_every_recorded_model_has_a_date_and_a_family():
    judges = set(bl.atlas.estimates()["judge"])
    models = {name for name in judges if not pd.Series([name]).str.fullmatch(PEOPLE).item()}
    dated = bl.atlas.released()
    assert models == set(dated["judge"])
    assert dated["released"].str.fullmatch(r"20\d\d-(?:0[1-9]|1[0-2])").all()
    assert not dated["judge"].duplicated().any()
    assert len(models) >= 40
    assert (dated["released"] >= "2024-05").sum() >= 12
    assert dated["reasons"].sum() >= 2


def test_without_covariates_it_is_a_random_effects_mean():
    draws = np.random.default_rng(1)
    errors = draws.uniform(0.02, 0.1, 25)
    values = 0.5 + draws.normal(0, 0.08, 25) + draws.normal(0, errors)
    ours = _Fit(np.ones((25, 1)), values, errors**2)
    theirs = combine_effects(values, errors**2, method_re="dl", use_t=True)
    assert ours.tau2 == pytest.approx(theirs.tau2, rel=1e-9)
    assert ours.i_squared == pytest.approx(theirs.i2, rel=1e-9)
    assert ours.table()["estimate"][0] == pytest.approx(theirs.mean_effect_re, rel=1e-9)
    assert ours._result.bse[0] == pytest.approx(theirs.sd_eff_w_re_hksj, rel=1e-9)


@pytest.mark.slow
def test_a_planted_trend_is_found_and_its_interval_covers():
    found = [bl.atlas.trend(made(seed=seed)).set_index("term").loc["a year"] for seed in range(60)]
    covers = [row["ci_low"] <= -0.05 <= row["ci_high"] for row in found]
    assert np.mean(covers) >= 0.88
    assert np.mean([row["ci_high"] < 0 for row in found]) > 0.9


def test_reasoning_is_a_term_of_its_own():
    found = bl.atlas.trend(made(reasons=True)).set_index("term")
    assert found.loc["reasons", "ci_low"] < 0.1 < found.loc["reasons", "ci_high"]
    assert list(found.index) == ["at 2023-01", "a year", "reasons"]
    assert (found["prediction_low"] < found["prediction_high"]).all()


def test_form_is_a_covariate_if_it_varies():
    rows = made(n=60)
    scores = np.arange(60) % 2 == 0
    named = {"source": [f"s{n}" for n in range(60)], "dataset": "d", "probe": "position", "form": None}
    rows = rows.assign(**named, metric="first_position_rate")
    assert list(bl.atlas.trend(rows)["term"]) == ["at 2023-01", "a year", "reasons"]
    asked = rows.assign(form=np.where(scores, "score", "pair"))
    for name in ("estimate", "ci_low", "ci_high"):
        asked[name] += 0.2 * scores
    found = bl.atlas.trend(asked).set_index("term")
    assert found.loc["scores", "ci_low"] < 0.2 < found.loc["scores", "ci_high"]
    assert found.loc["scores", "ci_low"] > 0.1
    assert "that does not reason and compares pairs" in has_fallen(found.reset_index(), with_dates(asked))


def test_trend_of_the_distance_from_a_given_null():
    rows = made(tau=0.0)
    mirrored = rows.assign(estimate=0.5 + rows["estimate"] * np.where(np.arange(len(rows)) % 2, 1, -1))
    half = (rows["ci_high"] - rows["ci_low"]) / 2
    mirrored = mirrored.assign(ci_low=mirrored["estimate"] - half, ci_high=mirrored["estimate"] + half)
    ours, plain = bl.atlas.trend(mirrored, null=0.5), bl.atlas.trend(rows)
    assert ours["estimate"].to_numpy() == pytest.approx(plain["estimate"].to_numpy())


@pytest.mark.parametrize(
    ("slope", "verb"), [(-0.05, "has fallen"), (0.0, "has not been shown to fall"), (0.06, "has grown")]
)
def test_sentence_on_the_trend_states_a_prediction_interval(slope, verb):
    rows = with_dates(made(slope=slope))
    found = bl.atlas.trend(rows)
    said = has_fallen(found, rows, "The habit")
    first = found.iloc[1]
    assert said.startswith(f"The habit of {first['judges']} judges released from {rows['released'].min()} to ")
    assert f"{verb}: its distance from fair changes by {first['estimate']:+.3f} a year".replace("-", "−") in said
    low, high = max(0.0, first["prediction_low"]), first["prediction_high"]
    assert said.endswith(
        f"released in {rows['released'].max()} that does not reason {low:.2f} to {high:.2f} is predicted."
    )


def test_trend_excludes_undated_judges_and_needs_six():
    rows = made(n=12)
    assert bl.atlas.trend(pd.concat([rows, rows.head(1).assign(judge="mine")]))["n"].iloc[0] == 12
    with pytest.raises(InputError, match=r"of at least [67]"):
        bl.atlas.trend(rows.head(3))
    with pytest.raises(InputError, match="several metrics"):
        bl.atlas.trend(pd.concat([rows, rows.assign(metric="other")]))
    assert with_dates(rows)["years"].between(0, 4).all()
