"""Whatever the numbers are: words of a verdict agree with interval, null, sign and test, for every metric there is."""

import math
import re

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from biaslab import report
from biaslab.probes import available, find_metric
from biaslab.report.summary import STATUS, sum_up
from biaslab.report.wording import MISSING
from biaslab.stats import is_above

NAN = math.nan
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
        "ci_low": low if known else NAN,
        "ci_high": high if known else NAN,
        "p_value": draw(st.floats(0, 1) | st.sampled_from([0.0, 0.04999, 0.05, 0.0501, 1.0, NAN])),
        "mde": draw(st.floats(1e-4, 1e2).map(lambda share: share * matters) | st.sampled_from([0.0, NAN])),
        "n_contexts": draw(st.integers(2, 1000)),
        "note": draw(st.sampled_from(["", "no variation between contexts", NAN])),
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
@settings(max_examples=30)
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
        check_summary(sum_up(found, None), found, metric)


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
    assert ("inconclusive" in sentence or "not significant" in sentence) == (row["finding"] == "blind")
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
