"""The estimates frame: its columns, and corrections of p-values against statsmodels."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.estimate import notes_of
from biaslab.stats.frame import LEADING, TRAILING, adjust, average_over, estimate_rows, estimates_frame, random_effects
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

NAN = float("nan")


def test_estimate_row_holds_standard_error_and_counts():
    found = Ratio(range(8), [3, 4, 2, 4, 3, 4, 4, 3], [4] * 8, 0.5).estimate(Resampling(n=200, seed=4))
    rows = estimate_rows({"rate": found}, {"judge": "j", "dataset": "d", "attribute": "a"}, Resampling(seed=4), 32, 1)
    frame = estimates_frame(rows, "position", ["rate"], ["attribute"])
    assert tuple(frame.columns) == (*LEADING, "attribute", *TRAILING)
    row = frame.iloc[0]
    assert (row["estimate"], row["se"], row["q_value"]) == (found.estimate, found.se, found.p_value)
    assert (row["n_trials"], row["n_dropped"], row["seed"], row["attribute"]) == (32, 1, 4, "a")


@settings(max_examples=25)  # multipletests collects garbage each time
@given(st.lists(st.one_of(st.floats(0, 1), st.just(NAN)), max_size=20))
def test_q_values_are_those_of_statsmodels(p_values):
    known = np.array([p for p in p_values if not np.isnan(p)])
    found = adjust(p_values)
    assert np.array_equal(np.isnan(found), np.isnan(p_values))
    if len(known):
        assert found[~np.isnan(found)] == pytest.approx(multipletests(known, method="fdr_bh")[1], abs=1e-9)


def test_q_values_check_range_and_skip_other_metrics():
    with pytest.raises(InputError, match="0 to 1"):
        adjust([1.2])
    rows = [{"metric": "rate", "p_value": p} for p in (0.01, 0.02, 0.04)] + [{"metric": "other", "p_value": 0.5}]
    frame = estimates_frame(rows, "position", ["rate"], [])
    assert frame["q_value"].tolist()[:3] == pytest.approx([0.03, 0.03, 0.04])
    assert np.isnan(frame["q_value"].iloc[3])


CELL = {"judge": "j", "dataset": "d"}


def frame_of(columns):
    """Return the estimated means of columns, an attribute a column, over the same contexts."""
    rows = []
    for attribute, values in columns.items():
        found = Ratio(np.arange(len(values)), values, np.ones(len(values)), inference="t").estimate(Resampling(n=100))
        rows += estimate_rows({"mean": found}, CELL | {"attribute": attribute}, Resampling(), len(values), 1)
    return estimates_frame(rows, "p", ["mean"], ["attribute"])


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(-1, 1), st.floats(0.1, 5))
def test_average_interval_contains_that_of_the_mean_column(seed, shared, scale):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, 12))
    columns = {"a": one, "b": scale * (shared * one + np.sqrt(1 - shared**2) * other)}
    average = average_over(frame_of(columns), "attribute").iloc[0]
    full = frame_of({"both": (columns["a"] + columns["b"]) / 2}).iloc[0]
    assert average["estimate"] == pytest.approx(full["estimate"])
    assert average["se"] >= full["se"] - 1e-12
    assert average["ci_low"] <= full["ci_low"] + 1e-9
    assert average["ci_high"] >= full["ci_high"] - 1e-9
    twice = average_over(frame_of({"a": one, "b": 2 * one}), "attribute").iloc[0]
    assert twice["se"] == pytest.approx(frame_of({"both": 1.5 * one}).iloc[0]["se"])


def test_average_note_names_undefined_values():
    values = np.arange(6.0)
    frame = frame_of({"a": values, "b": values + 1, "c": values})
    average = average_over(frame, "attribute").iloc[0]
    assert (average["attribute"], average["n_trials"], average["n_dropped"]) == ("average", 18, 3)
    assert np.isnan([average["p_value"], average["q_value"]]).all()
    broken = frame.assign(estimate=frame["estimate"].where(frame["attribute"] != "b"))
    average = average_over(broken, "attribute", "Avg.").iloc[0]
    assert np.isnan(average["estimate"])
    assert (average["attribute"], average["note"]) == ("Avg.", "undefined for b")
    assert average_over(frame.iloc[:1], "attribute").empty


def test_rows_with_equal_conditions_are_refused():
    frame = frame_of({"a": np.arange(4.0), "b": np.arange(4.0)})
    with pytest.raises(InputError, match="the same cell"):
        average_over(pd.concat([frame, frame]), "attribute")
    with pytest.raises(InputError, match="prompt"):
        average_over(frame, "prompt")


def test_words_without_codes_are_read_back_from_a_csv(tmp_path):
    row = {"judge": "j", "dataset": "d", "metric": "tie_rate", "estimate": 0.5, "notes": ""}
    frame = estimates_frame([row | {"note": "one sample"}, row | {"note": ""}], "position", [], [])
    frame.to_csv(tmp_path / "estimates.csv", index=False)
    saved = pd.read_csv(tmp_path / "estimates.csv").to_dict("records")
    assert [notes_of(each) for each in saved] == [{}, {}]
    assert frame["notes"].tolist() == ["[]", ""]


def of_data_sets(estimates, errors):
    cell = {"probe": "position", "judge": "j", "metric": "first_position_rate", "n_contexts": 10, "n_trials": 20}
    rows = enumerate(zip(estimates, errors, strict=True))
    return pd.DataFrame([cell | {"dataset": str(k), "estimate": x, "se": se} for k, (x, se) in rows])


def test_pooled_estimate_of_equal_errors_is_a_t_interval():
    """With equal standard errors the weights are equal, and Hartung and Knapp's interval is that of a one-sample t."""
    values = np.array([0.38, 0.5, 0.46, 0.58, 0.54])
    [row] = random_effects(of_data_sets(values, [0.02] * 5)).to_dict("records")
    low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert (row["estimate"], row["ci_low"], row["ci_high"]) == pytest.approx((values.mean(), low, high))
    assert row["p_value"] == row["q_value"] == pytest.approx(stats.ttest_1samp(values, 0.5).pvalue)
    assert row["tau"] ** 2 == pytest.approx(values.var(ddof=1) - 0.02**2)
    assert row["i_squared"] == pytest.approx(1 - 0.02**2 / values.var(ddof=1))
    reach = stats.t.ppf(0.975, 3) * np.sqrt(row["tau"] ** 2 + values.var(ddof=1) / 5)
    assert (row["prediction_low"], row["prediction_high"]) == pytest.approx(
        (values.mean() - reach, values.mean() + reach)
    )
    assert (row["n_estimates"], row["n_contexts"], row["n_trials"]) == (5, 50, 100)


def test_pooled_estimates_that_agree_have_no_heterogeneity():
    [row] = random_effects(of_data_sets([0.5, 0.5, 0.5], [0.03, 0.04, 0.05])).to_dict("records")
    error = (1 / 0.03**2 + 1 / 0.04**2 + 1 / 0.05**2) ** -0.5  # as if τ² = 0 were known: no narrower
    assert (row["estimate"], row["se"], row["tau"], row["i_squared"]) == pytest.approx((0.5, error, 0.0, 0.0))
    assert row["ci_high"] == pytest.approx(0.5 + stats.t.ppf(0.975, 2) * error)


def test_pooling_needs_three_estimates_with_errors():
    with pytest.raises(TrialsError):
        random_effects(of_data_sets([0.4, 0.5, 0.6], [0.03, 0.04, NAN]))


def test_pooled_share_and_prediction_end_at_0_and_1():
    [row] = random_effects(of_data_sets([0.02, 0.9, 0.99], [0.01] * 3)).to_dict("records")
    assert (row["ci_low"], row["ci_high"], row["prediction_low"], row["prediction_high"]) == (0, 1, 0, 1)


def test_several_estimates_of_a_data_set_are_not_pooled():
    rows = of_data_sets([0.4, 0.5, 0.6, 0.5], [0.03] * 4)
    with pytest.raises(TrialsError, match="for dataset 0"):
        random_effects(pd.concat([rows, rows]))


def test_infinite_errors_and_unnamed_parts_are_not_pooled():
    rows = of_data_sets([0.4, 0.5, 0.6, 0.9], [0.03, 0.03, 0.03, np.inf])
    assert random_effects(rows)["n_estimates"].tolist() == [3]
    with pytest.raises(TrialsError, match="without dataset"):
        random_effects(rows.assign(dataset=["a", "b", "c", None]))
