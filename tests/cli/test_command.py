"""Commands are made from functions: signature, annotations and numpydoc say all that Typer needs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import biaslab as bl
from biaslab.cli import app, main
from biaslab.cli.command import COMMANDS_OF_WORDS, COMMON, command, parameter_texts

trial_app = typer.Typer(rich_markup_mode=None)


@dataclass(frozen=True)
class Size:
    """Size of a study.

    Parameters
    ----------
    width : CM
        How wide.
    height
        How high.
    """

    width: int = 1
    height: int = 2


@command(trial_app, calls="biaslab.correct.label_plan:plan_labels", takes=("systems", "alpha"))
def measure(
    file: Path,
    /,
    *,
    size: Size,
    map_: list[str] | None = None,
    exact: bool | None = None,
    out: Path | None = None,
    **options: Any,
) -> None:
    """Measure a file.

    With care.

    Parameters
    ----------
    file : FILE
        What to measure.
    map_ : NAME=VALUE
        A pair; may be repeated.
    exact
        Whether it must be exact.
    height
        How high, in metres.
    """
    typer.echo(repr((file.name, size, map_, exact, out, options)))


def run(*words):
    return CliRunner().invoke(trial_app, list(words))


def test_values_reach_the_function():
    done = run("a.csv", "--width", "3", "--map", "a=1", "--map", "b=2", "--no-exact", "--systems", "x", "--alpha", ".1")
    options = {"systems": ["x"], "alpha": 0.1}
    assert done.output.strip() == repr(("a.csv", Size(3, 2), ["a=1", "b=2"], False, None, options))
    assert run("a.csv").output.strip() == repr(("a.csv", Size(), None, None, None, {"systems": None, "alpha": 0.05}))


def test_help_comes_from_the_docstrings():
    shown = " ".join(run("--help").output.split())
    assert "Measure a file. With care. Arguments: FILE" in shown
    assert "Parameters" not in shown
    assert "--width CM How wide. [default: 1]" in shown
    assert "How high, in metres." in shown
    assert "--exact / --no-exact" in shown
    assert "and two-sided level of the test. [default: 0.05]" in shown
    assert COMMON["out"][1] in shown


@pytest.mark.parametrize(("words", "message"), [((), "Missing argument"), (("a.csv", "--width", "wide"), "--width")])
def test_wrong_words_are_refused(words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.output


def test_parameter_texts_of_several_names_and_sentences():
    texts = parameter_texts(bl.plan)
    assert texts["power"] == texts["alpha"] == ("float", "Power and two-sided significance level.")
    assert texts["metric"] == ("str, optional", "The metric; default: the probe's first primary metric.")
    assert parameter_texts(run) == {}


def test_every_option_of_every_command_has_a_help_text():
    root = typer.main.get_command(app)
    for name, each in root.commands.items():
        for one in (each, *getattr(each, "commands", {}).values()):
            for parameter in one.params:
                assert parameter.help, f"{name} {one.name}: {parameter.name}"


def test_words_lead_to_commands_that_exist():
    root = typer.main.get_command(app)
    assert not set(COMMANDS_OF_WORDS) & set(root.commands)
    assert {name.split()[0] for names in COMMANDS_OF_WORDS.values() for name in names.split(", ")} <= set(root.commands)


@pytest.mark.parametrize(
    ("word", "suggested"),
    [("kappa", "biaslab audit"), ("TPR", "biaslab audit"), ("ground_truth", "plan-labels"), ("drift", "compare")],
)
def test_unknown_command_suggests_one_that_answers(word, suggested, capsys):
    assert main([word, "log.csv"]) == 2
    shown = capsys.readouterr().err
    assert repr(word) in shown
    assert suggested in shown
