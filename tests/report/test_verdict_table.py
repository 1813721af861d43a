"""Which judge has which bias, in one table."""

import pickle

import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import TrialsError


@pytest.fixture(scope="module")
def estimates():
    names = ["first_position_rate", "longer_wins_at_equal_gold", "halo_excess"]
    return bl.atlas.estimates(metric=names, source=["mt_bench", "pandalm"], breakdowns=False)


def test_cells_are_those_of_the_card(estimates):
    table = bl.report.verdict_table(estimates)
    card = bl.report.card(estimates, reference=None)
    assert set(table.index) == set(card.judges)
    marks = {"bias": "●", "slight": "◐", "none": "○", "unclear": "?"}
    for row in card.biases.to_dict("records"):
        cell = table.loc[row["judge"], (row["probe"], row["metric"])]
        assert cell == f"{marks[row['status']]} {row['estimate']} {row['interval']}"
    found = (card.biases["status"] == "bias").groupby(card.biases["judge"]).sum()
    assert found[list(table.index)].is_monotonic_decreasing
    untested = {(judge, key) for judge in table.index for key in table.columns} - {
        (row["judge"], (row["probe"], row["metric"])) for row in card.biases.to_dict("records")
    }
    assert untested
    assert {table.loc[judge, key] for judge, key in untested} == {"– not tested"}


def test_a_notebook_shows_verdicts_in_words_and_escapes_names(estimates):
    html = bl.report.verdict_table(estimates.assign(judge="<b>" + estimates["judge"]))._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "prefers the" in html
    assert "not tested" in html


def test_untested_biases_are_a_footnote_without_a_column(estimates):
    row = estimates[estimates["metric"] == "first_position_rate"].head(1)
    undefined = row.assign(probe="halo", metric="halo_excess", estimate=float("nan"), p_value=float("nan"), note="no")
    table = bl.report.verdict_table(pd.concat([row, undefined]))
    assert list(table.columns) == [("position", "first_position_rate")]
    assert "Tested for no judge: correlation of two scores" in table._repr_html_()


def test_table_is_empty_without_biases_and_refused_without_judge(estimates):
    table = bl.report.verdict_table(estimates.assign(metric="tie_rate"))
    assert table.empty
    assert "No bias was tested" in table._repr_html_()
    with pytest.raises(TrialsError, match="judge"):
        bl.report.verdict_table(estimates.drop(columns="judge"))


def test_pickled_table_is_a_plain_frame(estimates):
    table = bl.report.verdict_table(estimates)
    back = pickle.loads(pickle.dumps(table))
    assert type(back) is pd.DataFrame
    pd.testing.assert_frame_equal(back, table.plain)
