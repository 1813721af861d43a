"""Words follow the numbers: what is shown, what is excluded, and what is left open."""

import dataclasses

import pandas as pd
import pytest

from biaslab import report
from biaslab.core import Metric
from biaslab.core.errors import InputError, TrialsError
from biaslab.probes import available, find_metric, is_primary
from biaslab.stats import adjust_families

NAN = float("nan")
PROBES = available()
WIDE = {"ci_low": 0.3, "ci_high": 0.6}
NO_INTERVAL = {"ci_low": NAN, "ci_high": NAN}
NEVER = {"estimate": 0.5, "ci_low": 0.5, "ci_high": 0.5, "mde": NAN, "method": "none; t test", "n_contexts": 96}


def finding(row, **options):
    found = report.findings(pd.DataFrame([row]), **options).iloc[0]
    return found["finding"], bool(found["slight"]), found["sentence"]


@pytest.mark.parametrize(
    ("changes", "expected", "said"),
    [
        ({"estimate": 0.7}, ("above", False), "prefers the candidate shown first"),
        ({"estimate": 0.3}, ("below", False), "prefers the candidate shown second"),
        (
            {"estimate": 0.52, "ci_low": 0.51},
            ("above", True),
            "candidate shown first, but no bias of ≥ 0.10",
        ),
        ({"p_value": 0.4, "estimate": 0.48}, ("none", False), ": no bias of ≥ 0.10"),
        ({"p_value": 0.4} | WIDE, ("blind", False), "inconclusive: a shift of up to 0.20 is possible; ≥ 0.10"),
        (
            {"p_value": 0.4, "estimate": 0.5, "ci_low": 0.41, "ci_high": 0.604},
            ("blind", False),
            "a shift of up to 0.104 is possible; ≥ 0.100 matters",
        ),
        ({"p_value": 0.4, "estimate": 0.5, "ci_low": 0.4, "ci_high": 0.59}, ("blind", False), "up to 0.10 is possible"),
        (
            {
                "probe": "verbosity",
                "metric": "verbosity_logit",
                "p_value": 0.3,
                "estimate": 2,
                "ci_low": -2,
                "ci_high": 31,
            },
            ("blind", False),
            "inconclusive: 30 contexts do not bound the size: use more contexts",
        ),
        (
            {"p_value": 0.4},
            ("blind", False),
            "inconclusive: the interval excludes 0.5, but the test does not reject",
        ),
        ({"p_value": 0.4, "estimate": 0.5, "mde": NAN}, ("none", False), "no bias of ≥ 0.10"),
        ({"estimate": 0.5 + 0.1 - 1e-15}, ("above", False), "prefers the candidate shown first"),
        ({"p_value": 0.05 - 1e-17, "estimate": 0.48}, ("none", False), "no bias of ≥ 0.10"),
        ({"p_value": 0.4, "ci_low": NAN, "ci_high": NAN}, ("blind", False), "inconclusive: no interval"),
        ({"p_value": 1.0, "note": "few"} | NO_INTERVAL, ("blind", False), "inconclusive: few"),
        (
            {"p_value": 1.0, "metric": "comparative_accuracy"} | NEVER,
            ("none", False),
            "no effect in any of 96 contexts: at most 3.8 % of all contexts can have one",
        ),
        (
            {"p_value": 1.0, "metric": "comparative_accuracy"} | NEVER | {"n_contexts": 35},
            ("blind", False),
            "inconclusive: no effect in any of 35 contexts, but up to 10 % of all contexts could have one",
        ),
        (
            {"p_value": 0.4, "metric": "comparative_accuracy", "ci_low": 0.4, "ci_high": 0.6},
            ("none", False),
            "no effect detected; can detect ≥ 0.05 (80 % power)",
        ),
        ({"p_value": float("nan"), "note": "odd"}, ("untested", False), "not tested (odd)"),
    ],
)
def test_each_finding_has_its_words(make_row, changes, expected, said):
    *found, sentence = finding(make_row(**changes))
    assert tuple(found) == expected
    assert said in sentence
    assert sentence.startswith("coherence: ")


def test_p_values_are_corrected_over_all_rows_with_a_verdict(make_row):
    row = make_row(metric="comparative_accuracy", estimate=0.8, ci_low=0.7, ci_high=0.9, q_value=NAN, p_value=0.01)
    assert finding(row)[0] == "above"
    assert ", p = 0.010: orders pairs as the reference scores do" in finding(row)[2]
    cells = [make_row(p_value=p, q_value=0.9, attribute=name) for p, name in ((0.01, "a"), (0.04, "b"))]
    alone, both = (report.findings(pd.DataFrame(rows)) for rows in (cells, [*cells, row]))
    assert alone["q_value"].tolist() == pytest.approx([0.02, 0.04])
    assert both["q_value"].tolist() == pytest.approx(adjust_families([0.01, 0.04, 0.01], [0, 0, 1]).tolist())
    assert ", q = 0.040 over 2 tests: " in alone["sentence"].iloc[1]
    assert all("over 3 tests of 2 metrics: " in sentence for sentence in both["sentence"])


def test_significance_with_null_in_interval_is_inconclusive(make_row):
    row = make_row(estimate=0.6, ci_low=0.5, ci_high=0.7, p_value=0.01)
    assert finding(row) == (
        "blind",
        False,
        "coherence: 0.600 [0.500, 0.700], p = 0.010: inconclusive: significant, but the interval contains 0.5",
    )
    assert finding(row | {"ci_low": 0.51})[0] == "above"
    without = finding(row | {"ci_low": NAN, "ci_high": NAN})
    assert (without[0], without[2].rpartition(": ")[2]) == ("blind", "significant, but there is no interval")
    written = report.card(pd.DataFrame([row])).biases.iloc[0]
    assert (written["status"], written["verdict"]) == ("unclear", "significant, but the interval contains 0.5")


def test_significance_lost_by_correction_is_inconclusive(make_row):
    rows = [make_row(p_value=p, attribute=name) for p, name in ((0.04, "a"), (0.9, "b"))]
    torn = report.findings(pd.DataFrame(rows))
    assert (
        torn["sentence"]
        .iloc[0]
        .endswith(
            "inconclusive: the interval excludes 0.5, but the test is not significant after correction for 2 tests"
        )
    )
    written = report.card(torn[list(rows[0])]).biases.iloc[0]
    assert (written["status"], written["strongest"]) == ("unclear", "a")
    assert (
        written["verdict"]
        == "the interval excludes 0.5, but the test is not significant after correction for 2 tests (in 2 of 2)"
    )


def test_rounding_never_turns_small_values_into_the_null(make_row):
    tiny = make_row(estimate=0.5004, ci_low=0.5001, ci_high=0.5007, p_value=0.04996, mde=0.0004)
    written = "coherence: 0.5004 [0.5001, 0.5007], p = 0.04996: prefers the candidate shown first"
    assert finding(tiny)[2].startswith(written)
    nothing = report.card(pd.DataFrame([tiny | {"ci_low": 0.4999, "p_value": 0.4}])).biases.iloc[0]
    assert nothing["verdict"] == "no bias of ≥ 0.10"
    assert (nothing["interval"], nothing["mde"]) == ("[0.4999, 0.5007]", "0.0004")
    unknown = make_row(p_value=1.0, mde=NAN, note="one context only") | NO_INTERVAL
    assert report.card(pd.DataFrame([unknown])).biases["verdict"].iloc[0] == "one context only"


@pytest.mark.parametrize(
    ("changes", "hedge"),
    [
        ({"estimate": 0.7, "ci_low": 0.6, "ci_high": 0.8, "bound_low": 0.55, "bound_high": 0.8}, ""),
        ({"bound_low": 0.2, "bound_high": 0.48}, ""),
        ({"bound_low": NAN, "bound_high": NAN}, ""),
        ({"estimate": 0.5, "p_value": 0.9, "bound_low": 0.3, "bound_high": 0.52}, "could hide a shift that matters"),
        ({"estimate": 0.5, "p_value": 0.9, "bound_low": 0.42, "bound_high": 0.52}, ""),
        ({"p_value": 0.9, "ci_high": 0.7, "bound_low": 0.3, "bound_high": 0.52}, ""),
        ({"note": "ratings are taken to have no error"}, "ratings are taken to have no error"),
    ],
)
def test_a_verdict_says_what_else_could_explain_it(make_row, changes, hedge):
    frame = pd.DataFrame([make_row(**changes)])
    found = report.findings(frame).iloc[0]
    assert found["hedge"].removeprefix("missing data ") == hedge
    assert found["sentence"].endswith(f"; {found['hedge']}") if hedge else "; missing data" not in found["sentence"]
    assert found["cell"] == "coherence"
    assert hedge in report.card(frame).biases["verdict"].iloc[0]


@pytest.mark.parametrize(
    ("changes", "decide"),
    [
        ({"bound_low": 0.45, "bound_high": 0.8}, True),
        ({"bound_low": 0.5, "bound_high": 0.8}, True),
        ({"bound_low": 0.55, "bound_high": 0.8}, False),
        ({"estimate": 0.3, "ci_low": 0.2, "ci_high": 0.4, "bound_low": 0.2, "bound_high": 0.52}, True),
        ({"estimate": 0.3, "ci_low": 0.2, "ci_high": 0.4, "bound_low": 0.2, "bound_high": 0.48}, False),
    ],
)
def test_finding_that_missing_judgements_decide_is_inconclusive(make_row, changes, decide):
    row = make_row(**{"estimate": 0.7, "ci_low": 0.6, "ci_high": 0.8, "n_dropped": 9} | changes)
    found = report.findings(pd.DataFrame([row])).iloc[0]
    assert (found["finding"] == "blind") == decide
    assert ("inconclusive: depends on 9 missing judgements: with them" in found["sentence"]) == decide
    assert report.card(pd.DataFrame([row]), reference=None).biases["status"].iloc[0] == (
        "unclear" if decide else "bias"
    )


def test_sentences_name_the_conditions_that_vary(biased):
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


def test_empty_frame_has_no_sentences(make_row):
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
    assert report.verdicts(rows, null=0.0)[0].endswith("above 0")
    assert report.verdicts(rows, null=1.0)[0].endswith("below 1")
