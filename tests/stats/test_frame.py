"""The estimates frame: its columns, and corrections of p-values against statsmodels."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.stats.multitest import multipletests

from biaslab.core.errors import InputError
from biaslab.stats.estimate import notes_of
from biaslab.stats.frame import LEADING, TRAILING, adjust, average_over, estimate_rows, estimates_frame
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
