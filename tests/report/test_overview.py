"""Estimates as a reader needs them in a notebook."""

import math

import pandas as pd

from biaslab.report import overview


def test_only_columns_that_say_something_are_shown(estimates):
    rates = estimates[estimates["human_gap"].isna() & (estimates["metric"] == "first_position_rate")]
    table = overview(rates)
    assert list(table.index.names) == ["judge", "metric", "attribute", "template"]
    assert list(table.columns) == ["estimate", "q_value", "mde", "detectable", "n_contexts"]
    one = rates[(rates["judge"] == rates["judge"].iloc[0]) & (rates["template"] == 1)]
    assert "template" not in overview(one).index.names
    assert "judge" not in overview(one).index.names
    assert len(overview(one)) == len(one) == 2


def test_numbers_are_written_as_everywhere(make_row):
    rows = [make_row(), make_row(attribute="fluency", estimate=math.nan, ci_low=math.nan, ci_high=math.nan)]
    rows[1] |= {"q_value": math.nan, "mde": math.nan, "n_dropped": 3, "note": "one context only"}
    table = overview(pd.DataFrame(rows), digits=2)
    assert table.loc[("first_position_rate", "coherence")].to_list() == [
        "0.37 [0.34, 0.40]", "0.004", "0.05", 30, 0, ""
    ]  # fmt: skip
    assert table.loc[("first_position_rate", "fluency")].to_list() == ["–", "–", "–", 30, 3, "one context only"]


def test_where_nothing_is_tested_no_test_is_shown(make_row):
    table = overview(pd.DataFrame([make_row(q_value=math.nan)]))
    assert list(table.columns) == ["estimate", "n_contexts"]


def test_several_tests_are_shown_with_what_they_detect_together(make_row):
    table = overview(pd.DataFrame([make_row(judge=str(i), p_value=0.5, q_value=0.5) for i in range(3)]), digits=3)
    assert list(table.columns) == ["estimate", "q_value", "mde", "detectable", "n_contexts"]
    assert (table["detectable"].astype(float) > table["mde"].astype(float)).all()
