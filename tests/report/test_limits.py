"""Limits for a judge: what passes, what fails, and what a study is too small to tell."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app
from biaslab.core.errors import InputError, TrialsError
from biaslab.report import Limit, check_limits, check_runs
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
def test_invalid_limit_is_refused(text):
    with pytest.raises(InputError, match="LOW:HIGH"):
        Limit.read(METRIC, text)


def test_an_estimate_without_interval_is_unclear(make_row):
    frame = pd.DataFrame([make_row(metric=METRIC, estimate=0.5, ci_low=float("nan"), ci_high=float("nan"))])
    checked = check_limits(frame, {METRIC: Limit(0.4, 0.6)})
    assert checked["place"].tolist() == ["unclear"]
    assert "too few contexts" in checked["sentence"].iloc[0]


def test_missing_metric_error_suggests_a_name(make_row):
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
def test_exit_code_of_check_is_the_verdict(tmp_path, judge, contexts, limit, code):
    asked = ["--contexts", contexts, "-p", "templates=1", "-p", "attributes=coherence", "--store", str(tmp_path / "s")]
    written = ["--out", str(tmp_path / "found.csv"), "--junit", str(tmp_path / "found.xml")]
    done = CliRunner().invoke(app, ["check", "--judge", judge, "--limit", limit, *asked, *written])
    assert done.exit_code == code, done.output
    assert len(done.output.strip().splitlines()) >= 1
    again = CliRunner().invoke(app, ["check", "--estimates", str(tmp_path / "found.csv"), "--limit", limit])
    assert again.exit_code == code, again.output
    assert ElementTree.parse(tmp_path / "found.xml").getroot().get("tests") == "1"


def test_limit_of_the_command_line_overrides_the_file(tmp_path):
    data = bl.load_dataset("graded", limit=8)
    probe = bl.probes.Position(attributes=["coherence"], templates=[1])
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=3.0), data, progress=False)
    probe.estimate(trials, [METRIC]).to_csv(tmp_path / "e.csv", index=False)
    (tmp_path / "l.toml").write_text(f'[limits]\n{METRIC} = ":0.6"\n', encoding="utf-8")
    given = ["check", "--estimates", str(tmp_path / "e.csv"), "--limits", str(tmp_path / "l.toml")]
    assert CliRunner().invoke(app, given).exit_code == 1
    assert CliRunner().invoke(app, [*given, "--limit", f"{METRIC}=.5:1"]).exit_code == 0


def run_of(*rows):
    """Return a run of a study: estimates with ± .05, by attribute."""
    made = [
        {"probe": "position", "judge": "j", "dataset": "d", "metric": METRIC, "attribute": name, "estimate": estimate}
        | {"ci_low": estimate - 0.05, "ci_high": estimate + 0.05, "ci_level": 0.95}
        for name, estimate in rows
    ]
    return check_limits(pd.DataFrame(made), {METRIC: Limit(0.4, 0.6)})


def test_most_runs_decide_row_by_row():
    runs = [run_of(("a", a), ("b", b), ("c", c)) for a, b, c in ((0.5, 0.7, 0.5), (0.5, 0.7, 0.7), (0.7, 0.58, 0.58))]
    found = check_runs(runs)
    assert found["place"].tolist() == ["inside", "outside", "unclear"]
    assert found[["inside", "outside"]].to_numpy().tolist() == [[2, 1], [0, 2], [1, 1]]
    assert found["error_rate"].tolist() == pytest.approx([0.025 * 3 / 2] * 3)
    assert check_runs(runs[:1])["place"].tolist() == runs[0]["place"].tolist()
    assert check_runs(runs[:2])["place"].tolist() == ["inside", "outside", "unclear"]  # two of two
    assert check_runs(runs[:1])["error_rate"].iloc[0] == pytest.approx(0.025)


def test_runs_of_other_studies_are_refused():
    with pytest.raises(InputError, match="differ in their rows"):
        check_runs([run_of(("a", 0.5)), run_of(("b", 0.5))])
    with pytest.raises(InputError, match="at least one frame"):
        check_runs([])


@pytest.mark.parametrize("dependence", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("count", [3, 5])
def test_error_rate_of_most_runs_holds_for_dependent_runs(dependence, count):
    rng = np.random.default_rng(count)
    studies, half = 4_000, 0.05
    shared, own = rng.normal(size=(studies, 1)), rng.normal(size=(studies, count))
    estimates = 0.6 + half / 1.96 * (np.sqrt(dependence) * shared + np.sqrt(1 - dependence) * own)
    inside = (estimates + half <= 0.6).sum(axis=1) >= count // 2 + 1
    [bound] = check_runs([run_of(("a", 0.5))] * count)["error_rate"]
    assert bound == pytest.approx(0.025 * count / (count // 2 + 1))
    assert inside.mean() <= bound + 2 * np.sqrt(bound / studies)


class Flaky:
    """A judge under one name."""

    id = "flaky"

    def __init__(self, judge):
        self.kinds, self.check, self.ask = judge.kinds, judge.check, judge.ask


@pytest.mark.slow
def test_one_outlying_run_of_three_keeps_the_verdict(tmp_path, monkeypatch):
    seeds = iter(range(3))

    def another(name, data):
        return Flaky(bl.SimulatedJudge(data, noise=0.5, position=(0.1, 0.1, 3.0)[next(seeds)]))

    monkeypatch.setattr(bl, "load_judge", another)
    asked = [
        "--contexts",
        "24",
        "-p",
        "templates=1",
        "-p",
        "attributes=coherence",
        "--store",
        str(tmp_path / "s.sqlite"),
    ]
    written = ["--junit", str(tmp_path / "found.xml"), "--runs", "3"]
    done = CliRunner().invoke(app, ["check", "--judge", "flaky", "--limit", f"{METRIC}=.4:.6", *asked, *written])
    assert done.exit_code == 0, done.output
    assert "inside in 2 of 3 runs, estimates 0.5" in done.output
    assert {path.name for path in tmp_path.glob("*.sqlite")} == {"s.sqlite", "s.run2.sqlite", "s.run3.sqlite"}
    assert ElementTree.parse(tmp_path / "found.xml").getroot().get("failures") == "0"


@pytest.mark.parametrize(
    ("options", "name"), [(["--runs", "0"], "runs"), (["--runs", "2", "--estimates", "e"], "runs")]
)
def test_invalid_number_of_runs_is_refused(options, name):
    judge = [] if "--estimates" in options else ["--judge", "simulated"]
    done = CliRunner().invoke(app, ["check", *judge, "--limit", f"{METRIC}=.4:.6", *options])
    assert isinstance(done.exception, InputError)
    assert done.exception.name == name
