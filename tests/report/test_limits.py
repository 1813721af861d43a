"""Limits for a judge: what passes, what fails, and what a study is too small to tell."""

from xml.etree import ElementTree

import pandas as pd
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app
from biaslab.core.errors import InputError, TrialsError
from biaslab.report import Limit, check_limits
from biaslab.report.limits import exit_code, to_junit

METRIC = "first_position_rate"
numbers = st.floats(-10, 10)


@given(low=numbers, high=numbers, ends=st.tuples(numbers, numbers).map(sorted))
def test_inside_means_that_no_value_of_the_interval_is_beyond(low, high, ends):
    if low > high:
        with pytest.raises(InputError):
            Limit(low, high)
        return
    place = Limit(low, high).place(*ends)
    values = [ends[0] + (ends[1] - ends[0]) * share for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    within = [low - 1e-9 <= value <= high + 1e-9 for value in values]
    if place == "inside":
        assert all(within)
    if place == "outside":
        assert not any(low + 1e-9 < value < high - 1e-9 for value in values)


@pytest.mark.parametrize(
    ("text", "limit"), [(".4:.6", Limit(0.4, 0.6)), (":0.2", Limit(high=0.2)), ("-0.1:", Limit(low=-0.1))]
)
def test_limits_as_people_write_them(text, limit):
    assert Limit.read(METRIC, text) == limit


@pytest.mark.parametrize("text", ["", ":", "0.4", "a:b", ".6:.4"])
def test_what_is_no_limit_is_said(text):
    with pytest.raises(InputError, match="LOW:HIGH"):
        Limit.read(METRIC, text)


def test_an_estimate_without_interval_is_unclear(make_row):
    frame = pd.DataFrame([make_row(metric=METRIC, estimate=0.5, ci_low=float("nan"), ci_high=float("nan"))])
    checked = check_limits(frame, {METRIC: Limit(0.4, 0.6)})
    assert checked["place"].tolist() == ["unclear"]
    assert "too few contexts" in checked["sentence"].iloc[0]


def test_a_metric_that_was_not_estimated_is_said(make_row):
    frame = pd.DataFrame([make_row(metric=METRIC)])
    with pytest.raises(TrialsError, match="did you mean first_position_rate"):
        check_limits(frame, {"first_position_rat": Limit(0.4, 0.6)})


def test_exit_codes_and_junit_count_alike(make_row):
    ends = [(0.45, 0.55), (0.7, 0.8), (0.5, 0.7)]
    rows = [make_row(metric=METRIC, estimate=(a + b) / 2, ci_low=a, ci_high=b) for a, b in ends]
    checked = check_limits(pd.DataFrame(rows), {METRIC: Limit(0.4, 0.6)})
    assert checked["place"].tolist() == ["inside", "outside", "unclear"]
    assert exit_code(list(checked["place"])) == 1
    suite = ElementTree.fromstring(to_junit(checked))
    assert suite.attrib | {"name": ""} == {"name": "", "tests": "3", "failures": "1", "errors": "1"}
    assert len(suite.findall("testcase")) == 3
    assert [len(list(suite.iter(tag))) for tag in ("failure", "error")] == [1, 1]


@pytest.mark.parametrize(
    ("judge", "contexts", "limit", "code"),
    [
        ("simulated:quality=1", "24", "first_position_rate=.4:.6", 0),
        ("simulated:position=3", "24", "first_position_rate=.4:.6", 1),
        ("simulated:context_noise=2", "4", "first_position_rate=.49:.51", 4),
    ],
)
def test_the_command_says_by_its_exit_code_whether_a_judge_passes(tmp_path, judge, contexts, limit, code):
    asked = ["--contexts", contexts, "-p", "templates=1", "-p", "attributes=coherence", "--store", str(tmp_path / "s")]
    written = ["--out", str(tmp_path / "found.csv"), "--junit", str(tmp_path / "found.xml")]
    done = CliRunner().invoke(app, ["check", "--judge", judge, "--limit", limit, *asked, *written])
    assert done.exit_code == code, done.output
    assert len(done.output.strip().splitlines()) >= 1
    again = CliRunner().invoke(app, ["check", "--estimates", str(tmp_path / "found.csv"), "--limit", limit])
    assert again.exit_code == code, again.output
    assert ElementTree.parse(tmp_path / "found.xml").getroot().get("tests") == "1"


def test_limits_stand_in_a_file_and_the_command_line_goes_before(tmp_path):
    data = bl.load_dataset("graded", limit=8)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=3.0), data, progress=False)
    probe.estimate(trials, [METRIC]).to_csv(tmp_path / "e.csv", index=False)
    (tmp_path / "l.toml").write_text(f'[limits]\n{METRIC} = ":0.6"\n', encoding="utf-8")
    given = ["check", "--estimates", str(tmp_path / "e.csv"), "--limits", str(tmp_path / "l.toml")]
    assert CliRunner().invoke(app, given).exit_code == 1
    assert CliRunner().invoke(app, [*given, "--limit", f"{METRIC}=.5:1"]).exit_code == 0
