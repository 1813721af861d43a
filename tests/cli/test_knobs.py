"""Parameters on the command line are those of the probes: every one of them can be written, and does what it does in
Python."""

from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.cli.options import hints, make_probes
from biaslab.core.errors import InputError
from biaslab.probes import available

RATINGS = pd.DataFrame(
    [
        (f"Source {c}.", f"{word} {c}.", score, 11 - score)
        for c in range(8)
        for word, score in (("Good", 9), ("Fair", 6), ("Poor", 2))
    ],
    columns=["article", "summary", "coherence", "fluency"],
)
OWN = ["--dataset", "tabular", "--path", "own.csv", "--columns", "text=summary,context=article", "--scale", "1-10"]


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RATINGS.to_csv("own.csv", index=False)


def written(value):
    """Write a default as somebody would type it."""
    if isinstance(value, dict):
        return ",".join(f"{name}={written(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(written, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


@pytest.mark.parametrize("kind", available().values(), ids=available())
def test_every_parameter_can_be_written(kind):
    given, defaults = hints(kind), kind()
    assert {name.split(".")[0] for name in given} == {each.name for each in fields(kind) if each.init}
    for name in given:
        value = defaults
        for part in name.split("."):
            value = getattr(value, part)
        [made] = make_probes([kind], [f"{name}={written(value)}"], {})
        again = made
        for part in name.split("."):
            again = getattr(again, part)
        assert again == (list(value) if isinstance(value, tuple) else value)


def test_a_name_is_for_all_probes_that_have_it_or_for_one():
    kinds = [bl.probes.Position, bl.probes.Source, bl.probes.Recipe]
    options = {"seed": 3, "n_candidates": 2, "attributes": None}
    first, second, third = make_probes(kinds, ["scale=1-5", "recipe.scale=1-100", "position.n_pairs=4"], options)
    assert (first.n_pairs, second.scale, third.scale) == (4, "1-5", "1-100")
    assert [probe.resampling.seed for probe in (first, second, third)] == [3, 3, 3]
    [probe] = make_probes(kinds[:1], ["resampling.level=0.9", "seed=7"], options)
    assert (probe.seed, probe.resampling.seed, probe.resampling.level) == (7, 3, 0.9)
    for wrong in ("n_candidates=1", "recipe.n_pairs=4", "comparative.template=1"):
        with pytest.raises(InputError, match="parameter is"):
            make_probes(kinds, [wrong], {})


@pytest.mark.slow
def test_parameters_give_the_same_estimates_as_in_python(capsys):
    words = ["probe", "position", "--judge", "simulated:position=1,noise=1", "--contexts", "6"]
    knobs = ["--attribute", "coherence", "-p", "n_pairs=2", "-p", "templates=1"]
    assert main([*words, *knobs, "--out", "a/b/rates.csv"]) == 0
    reported = capsys.readouterr().out
    assert reported.startswith("position: 24 requests; ")
    assert "24 judge calls" in reported
    data = bl.load_dataset("graded", limit=6)
    probe = bl.probes.Position(["coherence"], [1], n_pairs=2)
    judge = bl.SimulatedJudge(data, position=1, noise=1)
    expected = probe.estimate(bl.collect(probe, judge, data, progress=False))
    found = pd.read_csv("a/b/rates.csv")["estimate"].tolist()
    assert found == pytest.approx(expected["estimate"].tolist(), nan_ok=True)


@pytest.mark.slow
def test_custom_table_is_planned_and_judged(capsys):
    words = [*OWN, "--noun", "essay", "--attribute", "coherence", "--attribute", "fluency", "--judge", "simulated"]
    assert main(["plan", "position", *words, "--contexts", "4", "-p", "n_pairs=1", "-p", "templates=1"]) == 0
    assert "4 contexts × 4 requests = 16" in capsys.readouterr().out
    assert main(["card", *words[:-2], "simulated:noise=1", "--probe", "source", "-p", "scale=1-5"]) == 0
    reported = capsys.readouterr().out
    assert "1 probe: 96 requests; " in reported
    assert set(pd.read_csv("card.csv")["scale"]) == {"1-5"}
    named = "tabular?text=summary&context=article&scale=1-10&noun=essay&attributes=coherence,fluency"
    data = bl.load_dataset(named, Path("own.csv"))
    assert (data.noun, data.scale, list(data.attributes)) == ("essay", (1.0, 10.0), ["coherence", "fluency"])
    assert data.attributes["fluency"] == "the fluency of the essay"


@pytest.mark.slow
def test_card_announces_its_requests_first(capsys):
    words = ["card", "simulated", "--contexts", "2", "--attribute", "coherence", "--attribute", "fluency"]
    words += ["--probe", "position", "--probe", "comparative", "--probe", "source"]
    assert main(words) == 0
    reported = capsys.readouterr().out.splitlines()
    calls = [int(line.split("; ")[1].split(" judge")[0]) for line in reported if "judge calls" in line]
    assert f"3 probes: {sum(calls)} requests; " in reported[0]
    assert "plus later rounds" in reported[0]  # as an adaptive comparison does
    assert main(words) == 0
    assert "requests; " not in capsys.readouterr().out.splitlines()[0]
