"""``biaslab protocol check``: what a prompt shows and how replies are read, before any judge is asked."""

import sys

import pandas as pd
import pytest

from biaslab.cli import main

MINE = """
template = "{question} 1: {answer_1} 2: {answer_2} {hint}"
verdicts = {"[[1]]" = 1, "[[2]]" = 0, "[[=]]" = 0.5}
values = {hint = "Be fair."}
max_tokens = 50
"""


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    return path


def test_an_item_is_shown_and_verdicts_are_written_and_read_back(mine, tmp_path, capsys):
    (tmp_path / "replies.txt").write_text("First [[1]]\n---\nNeither,\nreally\n")
    command = ["protocol", "check", str(mine), "--reply", "[[2]]", "--replies", str(tmp_path / "replies.txt")]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "answer_1 shows first" in shown
    assert "Be fair." in shown
    assert "'[[1]]' is parsed as P(first wins) = 1" in shown
    assert "'[[=]]' is parsed as a tie" in shown
    assert "reply '[[2]]' is parsed as P(first wins) = 0" in shown
    assert "reply 'Neither, really' is parsed as off_format" in shown


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (MINE.replace("{answer_2}", ""), "does not show the candidate shown second"),
        (MINE.replace("{question}", "{rubric}"), "variable is 'rubric'"),
        (MINE.replace("[[2]]", "[[1]]x"), "contain each other"),
    ],
)
def test_invalid_protocol_file_is_refused(mine, capsys, changed, message):
    mine.write_text(changed)
    assert main(["protocol", "check", str(mine)]) == 2
    assert message in capsys.readouterr().err


def test_a_probe_asks_with_it(mine, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "probe position --judge simulated:position=1 --contexts 4 --attribute coherence -p protocol=mine.toml"
    assert main(command.split()) == 0
    assert "mine@" in capsys.readouterr().out


OWN = """
import biaslab as bl

def first_letter(text):
    return {"A": 1.0, "B": 0.0}.get(text[:1])

mine = bl.Protocol.from_template("{question} {answer_a} {answer_b}", parse=first_letter, examples={"A.": 1, "B.": 0})
"""


@pytest.mark.parametrize("named", ["deployed", "python:own_protocol:mine"])
def test_protocol_may_be_in_biaslab_toml_or_in_python(mine, tmp_path, capsys, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])  # as for a console command
    (tmp_path / "biaslab.toml").write_text("[protocols.deployed]\nfile = 'mine.toml'\n")
    (tmp_path / "own_protocol.py").write_text(OWN)
    assert main(["protocol", "check", named]) == 0
    shown = capsys.readouterr().out
    assert "is parsed as P(first wins) = 1" in shown
    command = f"probe position --judge simulated:position=1 --contexts 4 --attribute coherence --protocol {named}"
    assert main(command.split()) == 0
    assert shown.partition(":")[0] in capsys.readouterr().out


RUBRIC = """
form = "score"
template = "{question} {answer}"
pattern = '\\[\\[(\\d+)\\]\\]'
scale = [1, 10]
"""


@pytest.mark.slow
def test_a_card_asks_each_probe_with_the_protocol_of_its_form(mine, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.toml").write_text(RUBRIC)
    probes = "--probe position --probe verbosity --protocol mine.toml --protocol score.toml"
    assert main(f"card simulated:position=1 --contexts 8 --attribute coherence {probes}".split()) == 0
    estimates = pd.read_csv("card.csv")
    assert estimates.loc[estimates["probe"] == "position", "template"].str.startswith("mine@").all()
    assert estimates.loc[estimates["probe"] == "verbosity", "protocol"].str.startswith("score@").all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("probe position --protocol score.toml", "one that fits: position (pair)"),
        ("probe sweep --protocol mine.toml", "none of them accepts one"),
        ("probe position --protocol mine.toml --protocol mine.toml", "one protocol for pairs"),
        ("probe position --protocol gone.toml", "a text file"),
        ("probe position --protocol code.toml", "a file names no code; make the Protocol in Python"),
        ("probe position --protocol python:math", "python:module:object, such as python:my_module:my_protocol"),
        ("probe position --protocol python:math:pi", "the name of a Protocol; this is a float"),
    ],
)
def test_unusable_protocol_is_refused_with_a_reason(mine, tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "score.toml").write_text(RUBRIC)
    (tmp_path / "code.toml").write_text('template = "{question} {answer_a} {answer_b}"\nparse = "os:system"\n')
    assert main([*options.split(), "--judge", "simulated:position=1"]) == 2
    assert message in capsys.readouterr().err
