"""Regressions against statsmodels and plain loops."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import given, strategies as st
from scipy import stats

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.regression import linear_model


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
    found = linear_model(frame, "y ~ x + z + C(kind)")
    wanted = smf.ols("y ~ x + z + C(kind)", frame).fit().params
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
    whole = smf.ols(formula, frame).fit().params[["x", "z"]]
    errors = np.sqrt(0.9 * sum((fit - whole) ** 2 for fit in fits))
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
    with pytest.raises(InputError, match="one number"):
        linear_model(frame, "kind ~ x")
    with pytest.raises(TrialsError, match="story"):
        linear_model(frame, "y ~ x", context="story")
    with pytest.raises(InputError, match="finite"):
        linear_model(frame.assign(x=np.inf), "y ~ x")
    with pytest.raises(InputError, match="between 0 and 1"):
        linear_model(frame, "y ~ x", level=95)
