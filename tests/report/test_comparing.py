"""Whose estimates compare with one: what is declared decides, every judge counts once, and few judges say nothing."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab import report
from biaslab.core import Comparison
from biaslab.core.errors import InputError, TrialsError
from biaslab.logs.audit.halo import Halo
from biaslab.logs.audit.pair_length import PairLength
from biaslab.probes import available, find_metric
from biaslab.report.comparing import FEWEST, find_peers, judges_of

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
    assert find_peers(row, judges_of(others)).standing(row, above) == said


@given(st.floats(0, 1), st.floats(0, 0.3))
def test_exceeded_peers_increase_with_the_estimate(make_row, others, estimate, half):
    peers = find_peers(make_row(), judges_of(others))

    def counts(value, above):
        row = {"estimate": value, "ci_low": value - half, "ci_high": value + half}
        words = peers.standing(row, above).split()
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
    assert texts == ["mine", "judge 1", "6 recorded judges (verdicts on pairs)", "too small to matter"]
    assert len({container.lines[0].get_color() for container in ax.containers}) == 2


def test_the_legend_spans_rows_that_compare_with_fewer(make_row, others):
    frame = pd.DataFrame([make_row(judge="mine"), make_row(judge="judge 1", estimate=0.45)])
    ax = bl.plots.intervals(frame, by="judge", reference=others)
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == [
        "5 to 6 recorded judges (verdicts on pairs)", "too small to matter",
    ]  # fmt: skip


def test_no_marks_are_drawn_without_peers(make_row, others):
    frame = pd.DataFrame([make_row(metric="tie_rate")])
    ax = bl.plots.intervals(frame, reference=others)
    assert [line for line in ax.lines if line.get_color() == "0.68"] == []
    assert not ax.figure.legends
    assert np.isfinite(ax.get_xlim()).all()


def test_first_position_rate_declares_its_comparison():
    assert find_metric("first_position_rate", "position").comparison == Comparison("verdicts on pairs")
