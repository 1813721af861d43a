"""Covariates that a user names: slopes at equal human label over items, by column of numbers or words."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from studies import row_of

import biaslab as bl
from biaslab.core.errors import InputError

FAST = bl.Resampling(n=100)


@pytest.fixture(scope="module")
def log():
    """Return 300 items in 150 contexts: retrieved documents add to the score, German takes from it."""
    rng = np.random.default_rng(0)
    n = 300
    human, docs = rng.integers(1, 6, n).astype(float), rng.integers(0, 9, n)
    language = rng.choice(["en", "de", "fr"], n, p=[0.5, 0.3, 0.2])
    score = 0.2 + 0.6 * human + 0.2 * docs - 0.6 * (language == "de") + 0.5 * rng.normal(size=n)
    items = {"context_id": [f"c{i // 2}" for i in range(n)], "candidate_id": [f"x{i % 2}" for i in range(n)]}
    rated = {"score": score.round(3).clip(1, 5), "scale": "1-5", "human": human, "human_scale": "1-5"}
    trials = bl.read_judgements(pd.DataFrame(items | rated))
    return trials.assign(docs=docs, language=language, case=[f"i{i}" for i in range(n)], constant="x", twin=human)


def covariate(log, name, **where):
    return row_of(bl.audit(log, only=["covariate"], covariates=[name], resampling=FAST), "covariate_slope", **where)


def test_slope_of_numbers_is_that_of_clustered_ols(log):
    row = covariate(log, "docs")
    frame = log.assign(
        y=log["value"] / 4, z=log["docs"] / log["docs"].std(), cluster=pd.factorize(log["context_id"])[0]
    )
    fit = smf.ols("y ~ z + human", frame).fit(cov_type="cluster", cov_kwds={"groups": frame["cluster"]})
    assert row["estimate"] == pytest.approx(fit.params["z"], abs=1e-9)
    assert row["se"] == pytest.approx(fit.bse["z"], rel=0.05)
    assert (row["n_contexts"], row["n_trials"]) == (150, 300)
    found = bl.report.findings(pd.DataFrame([row])).iloc[0]
    assert (found["finding"], "docs" in found["sentence"]) == ("above", True)


def test_words_are_compared_with_the_most_frequent(log):
    rows = bl.audit(log, only=["covariate"], covariates=["language"], resampling=FAST)
    assert set(rows["contrast"]) == {"de vs en", "fr vs en"}
    pair = log[log["language"].isin(["de", "en"])].assign(y=log["value"] / 4, de=(log["language"] == "de") * 1.0)
    fit = smf.ols("y ~ de + human", pair).fit()
    assert row_of(rows, "covariate_contrast", contrast="de vs en")["estimate"] == pytest.approx(
        fit.params["de"], abs=1e-9
    )


@pytest.mark.parametrize("infinite", [np.inf, -np.inf, "inf", "NaN"])
def test_infinite_values_are_missing(log, infinite):
    docs = log["docs"].astype(object)
    first = np.arange(len(log)) < 3
    rows = [covariate(log.assign(docs=docs.mask(first, value)), "docs") for value in (infinite, None)]
    assert rows[0]["estimate"] == rows[1]["estimate"]
    assert [row["n_trials"] for row in rows] == [297, 297]


@pytest.mark.parametrize(("name", "named"), [("docs", "covariate docs"), ("native", "native, contrast no vs yes")])
def test_page_names_the_only_covariate(log, name, named):
    native = log.assign(native=np.where(log["language"] == "de", "no", "yes"))
    assert named in " ".join(bl.report.page(bl.audit(native, only=["covariate"], covariates=[name])).split())


@pytest.mark.parametrize("name", ["case", "constant", "twin"])
def test_column_that_cannot_be_estimated_says_why(log, name):
    row = covariate(log, name)
    assert np.isnan(row["estimate"])
    assert row["note"].startswith("undefined")


def test_unknown_column_is_refused(log):
    with pytest.raises(InputError, match="did you mean language"):
        bl.audit(log, covariates=["langauge"])


def test_missing_labels_are_named(log):
    found = bl.audit(log.assign(human=np.nan), only=["covariate"], covariates=["docs"], resampling=FAST)
    assert "labels" in found.attrs["not_run"]["covariate"]
    assert "human scores of the items" in found.attrs["additions"]["covariate"]
