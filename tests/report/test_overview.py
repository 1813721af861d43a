"""Estimates as a reader needs them in a notebook."""

import dataclasses
import math
import pickle

import pandas as pd

import biaslab as bl
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


def test_overview_without_tests_has_no_test_columns(make_row):
    table = overview(pd.DataFrame([make_row(q_value=math.nan)]))
    assert list(table.columns) == ["estimate", "n_contexts"]


def test_several_tests_are_shown_with_what_they_detect_together(make_row):
    table = overview(pd.DataFrame([make_row(judge=str(i), p_value=0.5, q_value=0.5) for i in range(3)]), digits=3)
    assert list(table.columns) == ["estimate", "q_value", "mde", "detectable", "n_contexts"]
    assert (table["detectable"].astype(float) > table["mde"].astype(float)).all()


def test_html_verdicts_use_q_values_of_the_study(make_row):
    """q is that of the study, .2 here, and not over what is shown, where a p-value of .01 would be found."""
    rows = [
        make_row(judge="<b>biased</b>", p_value=0.01, q_value=0.01, estimate=0.9, ci_low=0.8, ci_high=0.95),
        make_row(judge="open", p_value=0.01, q_value=0.2, estimate=0.7, ci_low=0.6, ci_high=0.8),
        make_row(judge="fair", p_value=0.9, q_value=0.9, estimate=0.5, ci_low=0.45, ci_high=0.55, note="a note"),
    ]
    page = overview(pd.DataFrame(rows))._repr_html_()
    assert page.count("<svg") == 3
    for words in ("</b> prefers the candidate shown first", "</b> inconclusive: the interval excludes 0.5", "a note"):
        assert page.count(words) == 1
    assert "no bias of ≥ 0.10" in page
    assert "&lt;b&gt;biased&lt;/b&gt;" in page
    assert page.count("<script") == 1  # which sorts; names are no markup
    assert [float(part.split('"')[0]) for part in page.split('<td class="bar bias" data-value="')[1:]] == [0.9]


def test_bars_of_one_metric_share_an_axis(make_row):
    low, high = (make_row(judge=name, estimate=x, ci_low=x, ci_high=x) for name, x in (("low", 0.2), ("high", 0.8)))
    page = overview(pd.DataFrame([low, high]))._repr_html_()
    places = [float(part.split('"')[0]) for part in page.split('<circle cx="')[1:]]
    nulls = [float(part.split('"')[0]) for part in page.split('<line x1="')[1:] if "dasharray" in part.split(">")[0]]
    assert places[0] < nulls[0] == nulls[1] < places[1]


def test_frames_derived_from_an_overview_are_plain(make_row):
    table = overview(pd.DataFrame([make_row(), make_row(judge="other")]))
    for derived in (table.plain, table.head(1), table.copy(), pd.concat([table, table]), table.reset_index()):
        assert type(derived) is pd.DataFrame
    assert pickle.loads(pickle.dumps(table)).equals(table.plain)


def test_rows_that_lack_what_verdicts_need_are_shown_as_a_frame(make_row):
    rows = pd.DataFrame([make_row(), make_row(judge="other")]).drop(columns="ci_level")
    assert overview(rows)._repr_html_() == overview(rows).plain.to_html()


def test_a_notebook_shows_no_more_rows_than_can_be_read(make_row):
    page = overview(pd.DataFrame([make_row(judge=f"judge-{i}") for i in range(130)]))._repr_html_()
    assert page.count("<svg") == 100
    assert "30 more rows in the frame" in page


def test_values_of_a_condition_have_columns_of_their_own(make_row):
    rows = [
        make_row(attribute=name, metric=metric) for name in ("coherence", "fluency") for metric in ("tie_rate", "x")
    ]
    table = overview(pd.DataFrame(rows), 2, metric="tie_rate", across="attribute")
    assert table.to_dict() == {name: {"tie_rate": "0.37 [0.34, 0.40]"} for name in ("coherence", "fluency")}


def test_bins_are_hidden_beside_the_overall_estimate(make_row):
    whole, binned = make_row(human_gap=math.nan), make_row(human_gap=1.0, estimate=0.2)
    assert len(overview(pd.DataFrame([whole, binned]))) == 1
    assert len(overview(pd.DataFrame([binned]))) == 1


def test_without_rows_of_a_metric_its_table_across_is_empty(estimates):
    assert overview(estimates[estimates["metric"] == "tie_rate"].head(0), across="attribute").empty


def test_a_data_set_says_what_it_holds(graded):
    shown = dataclasses.replace(graded, name="<b>", provenance="a & b")._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "a &amp; b" in shown
    assert '<td style="text-align: left">8</td>' in shown
    assert all(f"attribute {name}" in shown for name in graded.attributes)


def test_a_simulated_judge_says_what_is_planted(graded):
    shown = bl.SimulatedJudge(graded, position=0.5, noise=1.0)._repr_html_()
    assert "<tr><th>position</th><td>0.5</td></tr>" in shown
    assert "a fair judge" in bl.SimulatedJudge(graded)._repr_html_()


def test_a_store_and_a_plan_are_shown(graded, tmp_path):
    judge = bl.SimulatedJudge(graded)
    probe = bl.probes.Position(["coherence"], [1])
    planned = bl.plan(probe, judge, graded)
    assert planned._repr_html_().count("<li>") == len(str(planned).splitlines()) - 1
    with bl.Store(tmp_path / "s.sqlite") as store:
        bl.collect(probe, judge, graded, store=store, progress=False)
        assert "240 replies" in store._repr_html_()
