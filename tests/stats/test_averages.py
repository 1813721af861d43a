"""Averages of estimates: the mean, an interval that is never too narrow, undefined where a part is."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from biaslab.core.errors import InputError
from biaslab.stats import Ratio, Resampling, average_over, estimate_rows, estimates_frame

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
    whole = frame_of({"both": (columns["a"] + columns["b"]) / 2}).iloc[0]
    assert average["estimate"] == pytest.approx(whole["estimate"])
    assert average["se"] >= whole["se"] - 1e-12
    assert average["ci_low"] <= whole["ci_low"] + 1e-9
    assert average["ci_high"] >= whole["ci_high"] - 1e-9
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
