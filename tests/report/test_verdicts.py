"""Words follow the numbers: what is shown, what is not, and what could not have been."""

import dataclasses
import math

import pandas as pd
import pytest
from hypothesis import assume, given, strategies as st

from biaslab import report
from biaslab.core import Metric
from biaslab.errors import InputError, TrialsError
from biaslab.probes import available, find_metric, is_primary

PROBES = available()


def finding(row, **options):
    found = report.findings(pd.DataFrame([row]), **options).iloc[0]
    return found["finding"], bool(found["slight"]), found["sentence"]


@pytest.mark.parametrize(
    ("changes", "expected", "said"),
    [
        ({"estimate": 0.7}, ("above", False), "prefers what stands first"),
        ({"estimate": 0.3}, ("below", False), "prefers what stands second"),
        ({"estimate": 0.52}, ("above", True), "prefers what stands first, but less than what matters (0.10)"),
        ({"q_value": 0.4, "estimate": 0.48}, ("none", False), "no effect detected; one of 0.05 would have been"),
        ({"q_value": 0.4, "mde": 0.3}, ("blind", False), "inconclusive: 80 % power takes a shift of 0.30"),
        ({"q_value": 0.4}, ("blind", False), "not significant, though farther from 0.5 than what matters (0.10)"),
        ({"estimate": 0.5 + 0.1 - 1e-15}, ("above", False), "prefers what stands first"),
        ({"q_value": 0.05 - 1e-17, "estimate": 0.48}, ("none", False), "no effect detected"),
        ({"q_value": 0.4, "estimate": 0.48, "mde": 0.1 + 1e-16}, ("none", False), "no effect detected"),
        ({"q_value": 0.4, "estimate": 1.0, "mde": 0.0}, ("blind", False), "inconclusive"),
        ({"q_value": 1.0, "mde": float("nan"), "note": "few"}, ("blind", False), "inconclusive (few)"),
        ({"q_value": float("nan"), "p_value": float("nan"), "note": "odd"}, ("untested", False), "not tested (odd)"),
    ],
)
def test_each_finding_has_its_words(make_row, changes, expected, said):
    *found, sentence = finding(make_row(**changes))
    assert tuple(found) == expected
    assert said in sentence
    assert sentence.startswith("coherence: ")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 2) | st.just(float("nan")), st.floats(0.001, 1))
def test_no_bias_is_said_only_where_it_would_have_been_found(make_row, estimate, q, mde, size):
    found, slight, sentence = finding(
        make_row(estimate=estimate, q_value=q, mde=mde), matters={"first_position_rate": size}
    )
    assume(not any(math.isclose(*pair) for pair in ((q, 0.05), (mde, size), (abs(estimate - 0.5), size))))
    assert (found in ("above", "below")) == (q < 0.05)
    assert (found == "none") == (q >= 0.05 and mde <= size and abs(estimate - 0.5) < size)
    assert ("no effect detected" in sentence) == (found == "none")
    assert slight == (q < 0.05 and abs(estimate - 0.5) < size)


def test_a_metric_outside_the_family_is_read_by_its_p(make_row):
    row = make_row(metric="comparative_accuracy", estimate=0.8, q_value=float("nan"), p_value=0.01)
    assert finding(row)[0] == "above"
    assert ", p = 0.010: orders pairs as the reference scores do" in finding(row)[2]
    assert finding(row | {"metric": "first_position_rate"})[0] == "untested"


def test_rows_are_told_apart_by_what_varies(biased):
    rates = biased[(biased["metric"] == "first_position_rate") & biased["human_gap"].isna()]
    assert [s.split(":")[0] for s in report.verdicts(rates)] == [
        "coherence, template 1", "coherence, template 2", "fluency, template 1", "fluency, template 2",
    ]  # fmt: skip


def test_smallest_effects_are_checked(make_row):
    for wrong in ({"first_position_rate": 0}, {"beauty": 1.0}, {"first_position_rate": float("inf")}):
        with pytest.raises(InputError, match="matters"):
            report.findings(pd.DataFrame([make_row()]), wrong)
    with pytest.raises(TrialsError, match="mde"):
        report.verdicts(pd.DataFrame([make_row()]).drop(columns="mde"))


def test_no_row_is_no_sentence(make_row):
    assert report.verdicts(pd.DataFrame([make_row()]).head(0)) == []


@pytest.mark.parametrize("name", sorted(PROBES))
def test_every_primary_metric_is_declared_with_its_null(name):
    kind = PROBES[name]
    declared_names = [declared.name for declared in kind.metrics]
    assert len(set(declared_names)) == len(declared_names)
    for declared in kind.metrics:
        assert find_metric(declared.name, name) is declared
        assert is_primary(declared.name, name) == declared.primary
        if declared.primary:
            assert declared.null is not None
            assert declared.above
            assert declared.below
            assert declared.matters


def test_metrics_of_one_name_are_those_of_their_probe():
    assert find_metric("agreement", "source").unit != find_metric("agreement", "sweep").unit
    assert find_metric("label_mass", "recipe").label == "probability of all labels together"
    assert find_metric("charm", "no probe") == Metric("charm", "charm")
    assert not is_primary("charm", "no probe")
    assert dataclasses.replace(Metric("a", "b"), unit="c").axis == "b (c)"


def test_a_null_can_be_given_to_metrics_that_no_probe_declares(biased):
    rows = biased[(biased["metric"] == "first_position_rate") & biased["human_gap"].isna()].head(1)
    rows = rows.assign(metric="some_difference", estimate=0.3, p_value=0.001, q_value=float("nan"))
    assert "not tested" in report.verdicts(rows)[0]
    assert report.verdicts(rows, null=0.0)[0].endswith("above 0.0")
    assert report.verdicts(rows, null=1.0)[0].endswith("below 1.0")
