"""``biaslab plan``, ``screen`` and ``probe --list``: what a user reads before and after anything is asked."""

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


WORDS = ["screen", "simulated:position=3,noise=1", "--contexts", "8"]


@pytest.mark.slow
def test_screen_asks_the_planned_requests_and_writes_the_card(capsys):
    assert main([*WORDS, "--plan", "--price-in", "2"]) == 0
    message = capsys.readouterr().out
    assert "\n  72 requests; " in message
    assert "at most $0.0" in message
    assert not list(Path().iterdir())
    assert main([*WORDS, "--out", "mine", "--max-requests", "72"]) == 0
    message = capsys.readouterr().out
    assert ", 5 probes: 72 requests; " in message
    assert "found:\n  ● position, P(A), decisions for the first (share): " in message
    assert "self preference (set own to the judge's own system" in " ".join(message.split())
    assert {path.name for path in Path().glob("mine.*")} == {"mine.html", "mine.md", "mine.png", "mine.csv"}
    assert main([*WORDS, "--plan"]) == 0
    assert "all replies are in the store" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--max-requests", "71"], 3, "the run needs 72 requests, but the budget allows 71"),
        (["--max-requests", "71"], 3, "use --contexts 7, a larger budget, or --partial"),
        (["--max-requests", "3", "--partial"], 3, "run again with a larger budget to continue\n"),
        (["--candidates", "1"], 2, "candidates is 1"),
        (["--contexts", "0"], 2, "contexts is 0"),
        (["--attribute", "charm"], 2, "coherence"),
        (["--own", "nobody"], 2, "clean"),
        (["--protocol", "missing.toml"], 2, "missing.toml"),
        (["--partial"], 2, "add --max-requests"),
        (["--max-dollars", "1"], 2, "prices"),
        (["--price-out", "1"], 2, "price-in"),
        (["--max-tokens", "0"], 2, "budget.tokens is 0"),
    ],
)
def test_bad_input_is_refused_in_one_line(options, code, message, capsys):
    assert main([*WORDS, *options]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("biaslab: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not list(Path().glob("*.html"))


def test_probes_are_listed_by_form(capsys):
    assert main(["probe", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:3] == ["self_preference", "pair", "self_preference_logit"] for line in lines)
    assert any(line.split()[:3] == ["verbosity", "score", "verbosity_slope"] for line in lines)
