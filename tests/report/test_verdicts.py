"""Words follow the numbers: what is shown, what is excluded, and what is left open."""

import dataclasses
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import biaslab as bl
from biaslab import report
from biaslab.core import Comparison, Metric
from biaslab.core.errors import InputError, TrialsError
from biaslab.logs.audit.measures import Halo
from biaslab.logs.audit.pair_measures import PairLength
from biaslab.probes import available, find_metric, is_primary
from biaslab.report.summary import STATUS, sum_up
from biaslab.report.verdicts import FEWEST, classify, find_peers, judges_of
from biaslab.report.wording import MISSING
from biaslab.stats.estimate import is_above
from biaslab.stats.frame import adjust_families
from biaslab.stats.ratio import Ratio
from biaslab.stats.resample import Resampling

NAN = float("nan")
PROBES = available()
WIDE = {"ci_low": 0.3, "ci_high": 0.6}
NO_INTERVAL = {"ci_low": NAN, "ci_high": NAN}
UNVARYING = '[["no_variation", {"bounded": false}]]'
NEVER = {"estimate": 0.5, "ci_low": 0.5, "ci_high": 0.5, "mde": NAN, "notes": UNVARYING, "n_contexts": 96}


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
        ({"p_value": 0.4} | WIDE, ("open", False), "inconclusive: a shift of up to 0.20 is possible; ≥ 0.10"),
        (
            {"p_value": 0.4, "estimate": 0.5, "ci_low": 0.41, "ci_high": 0.604},
            ("open", False),
            "a shift of up to 0.104 is possible; ≥ 0.100 matters",
        ),
        ({"p_value": 0.4, "estimate": 0.5, "ci_low": 0.4, "ci_high": 0.59}, ("open", False), "up to 0.10 is possible"),
        (
            {
                "probe": "verbosity",
                "metric": "verbosity_logit",
                "p_value": 0.3,
                "estimate": 2,
                "ci_low": -2,
                "ci_high": 31,
            },
            ("open", False),
            "inconclusive: 30 contexts do not bound the size: use more contexts",
        ),
        (
            {"p_value": 0.4},
            ("open", False),
            "inconclusive: the interval excludes 0.5, but the test does not reject",
        ),
        ({"p_value": 0.4, "estimate": 0.5, "mde": NAN}, ("none", False), "no bias of ≥ 0.10"),
        ({"estimate": 0.5 + 0.1 - 1e-15}, ("above", False), "prefers the candidate shown first"),
        ({"p_value": 0.05 - 1e-17, "estimate": 0.48}, ("none", False), "no bias of ≥ 0.10"),
        ({"p_value": 0.4, "ci_low": NAN, "ci_high": NAN}, ("open", False), "inconclusive: no interval"),
        ({"p_value": 1.0, "note": "few"} | NO_INTERVAL, ("open", False), "inconclusive: few"),
        (
            {"p_value": 1.0, "metric": "comparative_accuracy"} | NEVER,
            ("none", False),
            "no effect in any of 96 contexts: at most 3.8 % of all contexts can have one",
        ),
        (
            {"p_value": 1.0, "metric": "comparative_accuracy"} | NEVER | {"n_contexts": 35},
            ("open", False),
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
        "open",
        False,
        "coherence: 0.600 [0.500, 0.700], p = 0.010: inconclusive: significant, but the interval contains 0.5",
    )
    assert finding(row | {"ci_low": 0.51})[0] == "above"
    without = finding(row | {"ci_low": NAN, "ci_high": NAN})
    assert (without[0], without[2].rpartition(": ")[2]) == ("open", "significant, but there is no interval")
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
    assert (found["finding"] == "open") == decide
    assert ("inconclusive: depends on 9 missing judgements: with them" in found["sentence"]) == decide
    assert report.card(pd.DataFrame([row]), reference=None).biases["status"].iloc[0] == (
        "unclear" if decide else "bias"
    )


@pytest.mark.parametrize(
    ("changes", "finding", "doubt"),
    [
        ({"bound_low": 0.45, "bound_high": 0.55}, "none", ""),
        ({"bound_low": 0.41, "bound_high": 0.6}, "open", "missing"),
        ({"bound_low": 0.3, "bound_high": 0.52}, "open", "missing"),
        ({"notes": '[["unbounded", {}]]'}, "open", "missing"),
        ({"notes": '[["over_reliabilities", {"low": 0.41, "high": 0.59}]]'}, "none", ""),
        ({"notes": '[["over_reliabilities", {"low": 0.3, "high": 0.59}]]'}, "open", "reliability"),
        ({"ci_low": 0.35, "bound_low": 0.3, "bound_high": 0.52}, "open", "wide"),
    ],
)
def test_no_bias_survives_missing_data_and_unreliability(make_row, changes, finding, doubt):
    fair = {"estimate": 0.5, "ci_low": 0.46, "ci_high": 0.54, "p_value": 0.9, "n_dropped": 9, "note": ""}
    frame = pd.DataFrame([make_row(**fair | changes)])
    found = report.findings(frame).iloc[0]
    assert (found["finding"], found["doubt"]) == (finding, doubt)
    [overall] = report.card(frame, reference=None).overall.values()
    assert ("Fine for" in overall) == (finding == "none")


@pytest.mark.parametrize(
    ("changes", "finding", "doubt"),
    [
        ({}, "none", ""),
        ({"bound_low": 0.42, "bound_high": 0.58}, "none", ""),
        ({"bound_low": 0.2, "bound_high": 0.58}, "open", "missing"),
        ({"notes": '[["unbounded", {}]]'}, "open", "missing"),
        ({"notes": '[["over_reliabilities", {"low": 0.45, "high": 0.8}]]'}, "open", "reliability"),
        (NEVER | {"bound_low": 0.48, "bound_high": 0.5}, "open", "missing"),
    ],
)
def test_metric_without_a_size_is_not_cleared_in_spite_of_a_doubt(make_row, changes, finding, doubt):
    unsized = {"metric": "comparative_accuracy", "estimate": 0.5, "ci_low": 0.46, "ci_high": 0.54, "mde": 0.1}
    found = report.findings(pd.DataFrame([make_row(**unsized | {"p_value": 0.9, "n_dropped": 9} | changes)])).iloc[0]
    assert (found["finding"], found["doubt"]) == (finding, doubt)


def test_slight_bias_survives_missing_data(make_row):
    slight = {"estimate": 0.54, "ci_low": 0.52, "ci_high": 0.56, "p_value": 0.001, "bound_low": 0.51}
    frame = pd.DataFrame([make_row(**slight, bound_high=0.58), make_row(**slight, bound_high=0.7)])
    assert report.findings(frame)["slight"].tolist() == [True, False]


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


def test_declared_metric_without_rows_has_no_sentences(make_row):
    rows = pd.DataFrame([make_row()])
    assert report.verdicts(rows, metric="tie_rate") == []
    assert report.overview(rows, metric="tie_rate").empty
    with pytest.raises(InputError, match="did you mean first_position_rate"):
        report.verdicts(rows, metric="first_positon_rate")


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


NAN_words_and_numbers = math.nan
#: Every metric that has a null, of every probe, audits' among them.
METRICS = [(kind.name, metric) for kind in available().values() for metric in kind.metrics if metric.null is not None]
NEGATIVE = re.compile(r"−")


def kind_of(metric):
    """What verdicts make a difference of; metrics of one kind walk the same lines."""
    size = "a size" if metric.matters else "no size"
    return " ".join([size, *(name for name in ("primary", "quality", "above") if getattr(metric, name))])


KINDS = sorted({kind_of(metric) for _, metric in METRICS})


@st.composite
def rows(draw, null, matters):
    """Draw an estimate and its interval in a unit of any size, in any place beside the null, and a test."""
    unit = matters * 10 ** draw(st.floats(-4, 2))
    steps = st.integers(-40, 40)
    low, value, high = (null + unit * step / 8 for step in sorted([draw(steps), draw(steps), draw(steps)]))
    known = draw(st.integers(0, 9)) > 0
    return {
        "estimate": value,
        "ci_low": low if known else NAN_words_and_numbers,
        "ci_high": high if known else NAN_words_and_numbers,
        "p_value": draw(st.floats(0, 1) | st.sampled_from([0.0, 0.04999, 0.05, 0.0501, 1.0, NAN_words_and_numbers])),
        "mde": draw(
            st.floats(1e-4, 1e2).map(lambda share: share * matters) | st.sampled_from([0.0, NAN_words_and_numbers])
        ),
        "n_contexts": draw(st.integers(2, 1000)),
        "note": draw(st.sampled_from(["", "no variation between contexts", NAN_words_and_numbers])),
    }


def numbers(text):
    return [float(NEGATIVE.sub("-", one).replace(",", "")) for one in re.findall(r"[−\d][\d,.]*", text)]


def side(row, null):
    """Return +1 or -1 where estimate and interval lie on one side of the null, else 0."""
    if is_above(row["ci_low"], null) and is_above(row["estimate"], null):
        return 1
    return -1 if is_above(null, row["ci_high"]) and is_above(null, row["estimate"]) else 0


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=5)
def test_words_agree_with_numbers(make_row, kind, data):
    agree(data, make_row, *data.draw(st.sampled_from([each for each in METRICS if kind_of(each[1]) == kind])))


@pytest.mark.thorough
@pytest.mark.parametrize(("probe", "metric"), METRICS, ids=[f"{probe}-{metric.name}" for probe, metric in METRICS])
@given(data=st.data())
@settings(max_examples=15)
def test_words_of_every_metric_agree_with_numbers(make_row, probe, metric, data):
    agree(data, make_row, probe, metric)


def agree(data, make_row, probe, metric):
    matters = metric.matters or 0.1
    drawn = data.draw(st.lists(rows(metric.null, matters), min_size=1, max_size=3))
    about = {"probe": probe, "metric": metric.name}
    frame = pd.DataFrame([make_row(**about | row | {"attribute": f"a{i}"}) for i, row in enumerate(drawn)])
    found = report.findings(frame)
    for row in found.to_dict("records"):
        check(row, metric, found["q_value"].notna().sum() == 1)
    if metric.primary and not metric.quality:
        check_summary(sum_up(classify(frame)), found, metric)


def check(row, metric, alone):
    """Found exactly where the null lies outside the interval and q is below .05; no direction and no size is wrong."""
    sentence, null = row["sentence"], metric.null
    where = side(row, null) if is_above(0.05, row["q_value"]) else 0
    shown = {1: "above", -1: "below"}.get(where)
    assert (row["finding"] in ("above", "below")) == bool(where)
    ways = {"above": metric.above or f"above {null:g}", "below": metric.below or f"below {null:g}"}
    for way, words in ways.items():
        other = ways["below" if way == "above" else "above"]
        assert (f": {words}" in sentence) == (way == shown) or other.startswith(words)
    assert shown is None or row["finding"] == shown
    if row["finding"] == "none":
        assert side(row, null) == 0
    assert ("inconclusive" in sentence or "not significant" in sentence) == (row["finding"] == "open")
    assert not re.search(r"(one|shift) of (0\.0+|–)(?![\d])", sentence)
    assert "nan" not in sentence
    check_written(row, null, alone)


def check_written(row, null, alone):
    """What is written of interval and test shows on which side of null and level they lie."""
    sentence = row["sentence"]
    bounds = re.search(r"\[(.*?)\]", sentence)
    if bounds:
        low, high = numbers(bounds[1].replace(", ", " "))
        assert (low > null, high < null) == (is_above(row["ci_low"], null), is_above(null, row["ci_high"]))
    q = re.search(r", ([pq]) (<|= )([\d.]+)", sentence)
    assert bool(q) == (row["finding"] != "untested")
    if q:
        assert (q[1] == "p") == alone
        assert (float(q[3]) < 0.05) == is_above(0.05, row["q_value"])


def check_summary(written, found, metric):
    """A card says of all cells together what its strongest cell shows, and nothing of a shift of none."""
    shown = found["finding"].isin(["above", "below"])
    assert (written["status"] in ("bias", "slight")) == shown.any()
    assert written["status"] in STATUS
    words = {"above": metric.above, "below": metric.below}
    if shown.any():
        for way in set(found.loc[shown, "finding"]):
            assert words[way] in written["verdict"]
        low, high = numbers(written["interval"].replace(", ", " "))
        assert not low <= metric.null <= high
    assert not re.search(r"shift of (0\.0+|–)(?![\d])", written["verdict"])
    assert "nan" not in written["verdict"]
    assert written["mde"] == MISSING or float(written["mde"].replace(",", "")) > 0


def test_every_probe_has_a_verdict_to_test():
    assert {probe for probe, metric in METRICS if metric.primary} == set(available())
    assert all(find_metric(metric.name, probe) is metric for probe, metric in METRICS)


RATES = (0.35, 0.45, 0.5, 0.55, 0.6, 0.7)


@pytest.fixture(scope="module")
def others(make_row):
    """Six judges of pairs, each with an interval of .02 to both sides."""
    rates = {f"judge {i}": rate for i, rate in enumerate(RATES)}
    rows = [make_row(judge=j, dataset="chats", estimate=r, ci_low=r - 0.02, ci_high=r + 0.02) for j, r in rates.items()]
    return pd.DataFrame(rows)


def test_each_judge_counts_once_by_its_median(make_row, others):
    again = pd.DataFrame([make_row(judge="judge 0", dataset="essays", estimate=x) for x in (0.9, 0.95)])
    peers = find_peers(make_row(), judges_of(pd.concat([others, again])))
    assert len(peers.judges) == len(RATES)
    assert peers.judges.loc["judge 0", "estimate"] == 0.9
    assert peers.datasets == ("chats", "essays")
    assert peers.label == "6 recorded judges (verdicts on pairs)"


@pytest.mark.parametrize(
    "changes",
    [
        {"metric": "tie_rate"},  # declares no comparison: it depends on whether ties were offered
        {"metric": "order_consistency"},  # no other judge has it here
        {"probe": "replies"},  # the same name, but of replies without their twins
        {"metric": "reason_first_shift", "probe": "output_order"},  # points of a scale, which the frame does not say
    ],
)
def test_incomparable_estimate_has_no_peers(make_row, others, changes):
    assert find_peers(make_row(**changes), judges_of(others)) is None


def test_a_metric_compares_only_on_its_own_scale(make_row):
    shift = {"probe": "output_order", "metric": "reason_first_shift"}
    scales = ["1-10"] * 6 + ["1-5"] * 4
    rows = [make_row(**shift, judge=f"judge {i}", scale=scale, estimate=i / 10) for i, scale in enumerate(scales)]
    known = judges_of(pd.DataFrame(rows))
    assert len(find_peers(make_row(**shift, scale="1-10"), known).judges) == 6
    assert find_peers(make_row(**shift, scale="1-5"), known) is None


def test_bins_undefined_estimates_and_itself_are_no_peers(make_row, others):
    binned = others.assign(judge=others["judge"] + " by gap", human_gap=0.5)
    undefined = others.assign(judge=others["judge"] + " undefined", estimate=math.nan)
    known = judges_of(pd.concat([others.assign(human_gap=math.nan), binned, undefined]))
    assert len(find_peers(make_row(), known).judges) == 6
    assert len(find_peers(make_row(judge="judge 3"), known).judges) == 5
    assert find_peers(make_row(judge="judge 3"), known[known["judge"] != "judge 4"]) is None
    assert FEWEST == 5


@pytest.mark.parametrize(
    ("estimate", "above", "said"),
    [
        (
            0.61,
            True,
            "more so than 5 of 6 recorded judges (verdicts on pairs; chats), 4 of them with a non-overlapping interval",
        ),
        (
            0.61,
            False,
            "more so than 1 of 6 recorded judges (verdicts on pairs; chats), 1 of them with a non-overlapping interval",
        ),
        (0.35, True, "more so than 0 of 6 recorded judges (verdicts on pairs; chats)"),
    ],
)
def test_standing_counts_those_that_an_estimate_exceeds(make_row, others, estimate, above, said):
    row = make_row(estimate=estimate, ci_low=estimate - 0.03, ci_high=estimate + 0.03)
    assert find_peers(row, judges_of(others)).standing(row, above).words == said


@given(st.floats(0, 1), st.floats(0, 0.3))
def test_exceeded_peers_increase_with_the_estimate(make_row, others, estimate, half):
    peers = find_peers(make_row(), judges_of(others))

    def counts(value, above):
        row = {"estimate": value, "ci_low": value - half, "ci_high": value + half}
        words = peers.standing(row, above).words.split()
        return int(words[3]), int(words[-6]) if words[-1] == "apart" else 0

    assert counts(estimate, True)[0] == sum(rate < estimate - 1e-12 for rate in RATES)
    assert all(a <= b for a, b in zip(counts(estimate, True), counts(estimate + 0.1, True), strict=True))
    assert counts(estimate, True)[0] + counts(estimate, False)[0] <= len(RATES)
    assert counts(estimate, True)[1] <= counts(estimate, True)[0]


def test_other_names_and_frames_are_refused(others):
    with pytest.raises(InputError, match="'atlas', or an estimates frame"):
        judges_of("charts")
    with pytest.raises(TrialsError, match="ci_low"):
        judges_of(others.drop(columns="ci_low"))


def test_comparison_conditions_are_columns_of_the_estimates():
    """Conditions that have to be alike are columns of the probe's estimates, and every comparison says of what."""
    of_probes = [(metric, kind.cell + kind.conditions) for kind in available().values() for metric in kind.metrics]
    of_audits = [(metric, ()) for kind in (Halo, PairLength) for metric in kind.metrics]
    declared = [(metric, columns) for metric, columns in of_probes + of_audits if metric.comparison]
    assert {"first_position_rate", "order_consistency", "halo_excess"} <= {metric.name for metric, _ in declared}
    for metric, columns in declared:
        assert metric.comparison.of
        assert set(metric.comparison.alike) <= set(columns), metric.name
    points = [metric for metric, _ in declared if metric.unit == "points"]
    assert all("scale" in metric.comparison.alike for metric in points)


def test_sentences_give_the_standing_among_peers(make_row, others):
    found = [
        make_row(judge="mine", estimate=0.65, ci_low=0.62, ci_high=0.68),
        make_row(judge="mine", attribute="fluency", estimate=0.51, p_value=0.6),
        make_row(judge="mine", metric="tie_rate", p_value=math.nan),
    ]
    frame = pd.DataFrame(found)
    told = report.findings(frame, reference=others)["standing"].tolist()
    assert told[0].startswith("more so than 5 of 6 recorded judges")
    assert told[1] == "6 recorded judges (verdicts on pairs; chats): 0.35 to 0.70, median 0.53"
    assert told[2] == ""
    sentences = report.verdicts(frame, reference=others)
    assert "prefers the candidate shown first; more so than 5 of 6" in sentences[0]
    assert not any("recorded" in sentence for sentence in report.verdicts(frame))


@pytest.mark.slow
def test_card_and_page_give_the_standing_among_peers(make_row, others):
    frame = pd.DataFrame([make_row(judge="mine", estimate=0.65, ci_low=0.62, ci_high=0.68)])
    card = report.card(frame, reference=others)
    wanted = "more so than 5 of 6 recorded judges (verdicts on pairs; chats), 4 of them with a non-overlapping interval"
    assert card.biases["standing"].tolist() == [wanted]
    assert wanted in card.to_html()
    assert "Among others: more so than 5 of 6 recorded judges" in card.to_markdown()
    assert "Each recorded judge counts once" in card.to_markdown()
    assert "more so than 5 of 6" in " ".join(text.get_text() for text in card.plot().texts).replace("\n", " ")
    assert "recorded judge" not in report.card(frame, reference=None).to_markdown()
    assert wanted in " ".join(report.page(frame, reference=others).split())


def test_marks_are_behind_each_row_and_counted_in_the_legend(make_row, others):
    rows = [make_row(judge="mine", attribute=name, estimate=0.6) for name in ("coherence", "fluency")]
    frame = pd.DataFrame([*rows, make_row(judge="judge 1", attribute="fluency", estimate=0.45)])
    ax = bl.plots.intervals(frame, "first_position_rate", by="attribute", hue="judge", reference=others)
    marks = [line for line in ax.lines if line.get_marker() == "|" and line.get_color() == "0.68"]
    assert [sorted(line.get_xdata()) for line in marks] == [pytest.approx(RATES)] * 2
    assert [set(line.get_ydata()) for line in marks] == [{0.0}, {1.0}]
    assert all(line.get_zorder() < container.lines[0].get_zorder() for line in marks for container in ax.containers)
    [legend] = ax.figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts[:3] == ["mine", "judge 1", "6 recorded judges (verdicts on pairs)"]
    assert texts[-1] == "too small to matter"
    assert len({container.lines[0].get_color() for container in ax.containers}) == 2


def test_the_legend_spans_rows_that_compare_with_fewer(make_row, others):
    frame = pd.DataFrame([make_row(judge="mine"), make_row(judge="judge 1", estimate=0.45)])
    ax = bl.plots.intervals(frame, by="judge", reference=others)
    texts = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert [texts[0], texts[-1]] == ["5 to 6 recorded judges (verdicts on pairs)", "too small to matter"]


def test_no_marks_are_drawn_without_peers(make_row, others):
    frame = pd.DataFrame([make_row(metric="tie_rate")])
    ax = bl.plots.intervals(frame, reference=others)
    assert [line for line in ax.lines if line.get_color() == "0.68"] == []
    assert not ax.figure.legends
    assert np.isfinite(ax.get_xlim()).all()


def test_first_position_rate_declares_its_comparison():
    assert find_metric("first_position_rate", "position").comparison == Comparison("verdicts on pairs")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_findings_of_other_dtypes_equal_those_of_numpy(make_row, backend):
    rows = pd.DataFrame([make_row(), make_row(estimate=0.5, p_value=math.nan, mde=math.nan, bound_low=math.nan)])
    other = rows.convert_dtypes(dtype_backend=backend)
    assert report.verdicts(other) == report.verdicts(rows)
    found, expected = report.findings(other), report.findings(rows)
    assert found["finding"].tolist() == expected["finding"].tolist()
    assert report.page(other) == report.page(rows)
    assert report.overview(other)["estimate"].tolist() == report.overview(rows)["estimate"].tolist()
    assert report.card(other).overall == report.card(rows).overall


def test_giant_context_is_named_where_it_leaves_a_bias_open(make_row):
    """A thousand judgements of one document, and ten of each other: what the others show counts for little."""
    context = np.repeat(np.arange(31), [1000, *[10] * 30])
    won = (np.arange(len(context)) % 10 < np.where(context == 0, 8, 4 + 2 * (context % 2))) * 1.0
    for weights, uneven in (("items", True), ("contexts", False)):
        ratio = Ratio(context, won, np.ones(len(won)), 0.5, (0, 1))
        values = ratio.estimate(Resampling(weights=weights)).row()
        found = report.findings(pd.DataFrame([make_row(**values)])).iloc[0]
        assert (found["finding"], "count as 1.7" in found["words"]) == (("open", True) if uneven else ("none", False))


@pytest.mark.slow
def test_undefined_estimates_share_one_sentence():
    audited = bl.audit(bl.atlas.trials("llmbar", judge="gpt-4"))
    sentences = bl.report.verdicts(audited)
    assert len(sentences) == audited["estimate"].notna().sum() + 1
    empty = audited[audited["estimate"].isna()]
    assert all(sentences[-1].count(note) == 1 for note in empty["note"].unique())
