"""`biaslab screen` and `biaslab probe --list`, as a user types them."""

from pathlib import Path

import pytest

from biaslab.cli import main

WORDS = ["screen", "simulated:position=3,noise=1", "--contexts", "8"]


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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
