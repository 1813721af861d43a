"""Synthesis of independent estimates: equal to statsmodels, and its coverage in simulated studies."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from statsmodels.stats.meta_analysis import combine_effects

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError


def of_data_sets(estimates, errors, metric="first_position_rate"):
    cell = {"probe": "position", "judge": "j", "metric": metric, "n_contexts": 10, "n_trials": 20}
    rows = enumerate(zip(estimates, errors, strict=True))
    return pd.DataFrame([cell | {"dataset": str(k), "estimate": x, "se": se} for k, (x, se) in rows])


def test_synthesis_equals_statsmodels():
    rng = np.random.default_rng(3)
    values, errors = rng.normal(0.5, 0.06, 9), rng.uniform(0.01, 0.05, 9)
    [row] = bl.synthesis(of_data_sets(values, errors), scale="plain").to_dict("records")
    fit = combine_effects(values, errors**2, method_re="pm", use_t=True)
    expected = fit.mean_effect_re, fit.sd_eff_w_re_hksj, fit.tau2, fit.i2, fit.q, *fit.conf_int()[3]
    found = row["estimate"], row["se"], row["tau"] ** 2, row["i_squared"], row["q"], row["ci_low"], row["ci_high"]
    assert found == pytest.approx(expected, abs=1e-8)
    assert row["q_p_value"] == pytest.approx(fit.test_homogeneity().pvalue, abs=1e-8)


def test_synthesis_on_the_arcsine_scale_equals_statsmodels():
    values, errors = np.array([0.9, 0.97, 0.85, 0.99]), np.array([0.03, 0.01, 0.04, 0.008])
    [row] = bl.synthesis(of_data_sets(values, errors)).to_dict("records")
    slope = 0.5 / np.sqrt(values * (1 - values))
    fit = combine_effects(np.arcsin(np.sqrt(values)), (errors * slope) ** 2, method_re="pm", use_t=True)
    ends = np.sin(np.array([fit.mean_effect_re, *fit.conf_int()[3]])) ** 2
    assert (row["estimate"], row["ci_low"], row["ci_high"]) == pytest.approx(ends, abs=1e-8)


def test_synthesis_of_equal_errors_is_a_t_interval():
    """With equal standard errors the weights are equal, and Hartung and Knapp's interval is that of a one-sample t."""
    values = np.array([0.38, 0.5, 0.46, 0.58, 0.54])
    [row] = bl.synthesis(of_data_sets(values, [0.02] * 5), scale="plain").to_dict("records")
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (row["estimate"], row["ci_low"], row["ci_high"]) == pytest.approx((values.mean(), low, high))
    assert row["p_value"] == row["q_value"] == pytest.approx(stats.ttest_1samp(values, 0.5).pvalue)
    assert row["tau"] ** 2 == pytest.approx(values.var(ddof=1) - 0.02**2)
    assert row["i_squared"] == pytest.approx(1 - 0.02**2 / values.var(ddof=1))
    reach = stats.t.ppf(0.975, 3) * np.sqrt(row["tau"] ** 2 + values.var(ddof=1) / 5)
    ends = (values.mean() - reach, values.mean() + reach)
    assert (row["prediction_low"], row["prediction_high"]) == pytest.approx(ends)
    assert (row["n_estimates"], row["n_contexts"], row["n_trials"]) == (5, 50, 100)


def test_equal_estimates_keep_their_sampling_error():
    [row] = bl.synthesis(of_data_sets([0.5, 0.5, 0.5], [0.03, 0.04, 0.05]), scale="plain").to_dict("records")
    error = (1 / 0.03**2 + 1 / 0.04**2 + 1 / 0.05**2) ** -0.5
    assert (row["estimate"], row["se"], row["tau"], row["i_squared"]) == pytest.approx((0.5, error, 0.0, 0.0))
    assert row["ci_high"] == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error)


def test_synthesis_needs_three_estimates_with_errors():
    with pytest.raises(TrialsError):
        bl.synthesis(of_data_sets([0.4, 0.5, 0.6], [0.03, 0.04, math.nan]))


def test_synthesis_refuses_an_unknown_scale():
    with pytest.raises(InputError, match="arcsine"):
        bl.synthesis(of_data_sets([0.4, 0.5, 0.6], [0.03] * 3), scale="log")


@pytest.mark.parametrize("scale", ["arcsine", "logit"])
def test_pooled_share_and_prediction_lie_between_0_and_1(scale):
    [row] = bl.synthesis(of_data_sets([0.02, 0.9, 0.99], [0.01] * 3), scale=scale).to_dict("records")
    ends = [row[name] for name in ("prediction_low", "ci_low", "estimate", "ci_high", "prediction_high")]
    assert ends == sorted(ends)
    assert 0 <= ends[0] <= ends[-1] <= 1


def test_differences_of_shares_are_pooled_as_they_are():
    rows = of_data_sets([-0.1, 0.1, 0.3], [0.05] * 3, "first_position_rate_difference")
    assert bl.synthesis(rows)["estimate"].item() == pytest.approx(0.1)


def test_several_estimates_of_a_data_set_are_not_pooled():
    rows = of_data_sets([0.4, 0.5, 0.6, 0.5], [0.03] * 4)
    with pytest.raises(TrialsError, match="for dataset 0"):
        bl.synthesis(pd.concat([rows, rows]))


def test_infinite_errors_and_unnamed_parts_are_not_pooled():
    rows = of_data_sets([0.4, 0.5, 0.6, 0.9], [0.03, 0.03, 0.03, np.inf])
    assert bl.synthesis(rows)[["n_estimates", "n_left_out"]].to_numpy().tolist() == [[3, 1]]
    with pytest.raises(TrialsError, match="without dataset"):
        bl.synthesis(rows.assign(dataset=["a", "b", "c", None]))


@pytest.mark.thorough
@pytest.mark.parametrize("spread", [0.0, 0.8])
@pytest.mark.parametrize(("parts", "rate"), [(5, 0.5), (10, 0.9), (30, 0.97)])
def test_synthesis_covers_at_least_91_percent(parts, rate, spread):
    """400 studies: a binomial share of .95 is below .917 in one of a thousand."""
    rng, covered = np.random.default_rng(parts), []
    truth = rate if not spread else np.sin(np.mean(np.arcsin(np.sqrt(_rates(rng, rate, spread, 100_000))))) ** 2
    for _ in range(400):
        contexts = rng.integers(20, 160, parts)
        shares = [rng.binomial(4, p, n) / 4 for p, n in zip(_rates(rng, rate, spread, parts), contexts, strict=True)]
        rows = of_data_sets([x.mean() for x in shares], [stats.sem(x) for x in shares])
        [row] = bl.synthesis(rows).to_dict("records")
        covered.append(row["ci_low"] <= truth <= row["ci_high"])
    assert 0.91 <= np.mean(covered) <= 0.98


def _rates(rng, rate, spread, size):
    return special.expit(special.logit(rate) + spread * rng.normal(size=size))
