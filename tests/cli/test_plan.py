"""``biaslab plan``: what a user reads before anything is asked."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app, main

PLAN = ["plan", "position", "--judge", "simulated:noise=1", "--attribute", "coherence"]


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def printed(*words):
    done = CliRunner().invoke(app, [*PLAN, *words])
    assert done.exit_code == 0, done.exception
    return done.output


def test_plan_correct_points_to_plan_labels(capsys):
    assert main(["plan", "correct"]) == 2
    assert "biaslab plan-labels" in capsys.readouterr().err


@pytest.mark.slow
def test_it_prints_what_the_package_plans():
    data = bl.load_dataset("graded")
    probe, judge = bl.probes.Position(attributes=["coherence"]), bl.load_judge("simulated:noise=1", data)
    prices = {"input": 2.0, "output": 8.0, "cached": 0.5}
    shown = printed("--effect", "0.1", "--power", "0.9", "--price-in", "2", "--price-out", "8", "--price-cached", "0.5")
    assert shown == f"{bl.plan(probe, judge, data, effect=0.1, power=0.9, prices=prices)}\n"
    assert "90 % power" in shown
    assert not Path("judgements.sqlite").exists()
    assert printed("--contexts", "9") == f"{bl.plan(probe, judge, data, contexts=9)}\n"


@pytest.mark.slow
def test_measuring_keeps_what_it_asks():
    assert "time: not measured" in printed("--contexts", "4")
    shown = printed("--contexts", "4", "--measure")
    assert "× 60 requests = 240, 120 stored" in shown
    assert " s per request" in shown
    with bl.Store("judgements.sqlite", create=False) as store:
        assert len(store) == 120
    assert "120 stored" in printed("--contexts", "4")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--effect", "0"], "effect is 0"),
        (["--effect", "0.1", "--contexts", "3"], "effect and contexts"),
        (["--price-out", "3"], "price-in"),
        (["--metric", "charm", "--measure"], "first_position_rate"),
    ],
)
def test_wrong_options_are_found_before_anything_is_asked(words, expected, capsys):
    assert main([*PLAN, *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("biaslab: ")
    assert captured.err.count("\n") == 1
    assert expected in captured.err
    assert not Path("judgements.sqlite").exists()


def test_import_of_plan_loads_nothing_heavy():
    heavy = "{'torch', 'numpy', 'pandas', 'scipy', 'matplotlib'}"
    script = f"import sys, biaslab.cli.probe; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
