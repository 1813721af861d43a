"""Studies fixed beforehand: what the file holds, what a changed study is refused for, and what is marked."""

import dataclasses
import re

import pandas as pd
import pytest

import biaslab as bl
from biaslab import cli
from biaslab.core.errors import InputError
from biaslab.stats.estimate import notes_of

PROBE = bl.probes.Position(["coherence"], [1], n_pairs=2)
JUDGE = "simulated:position=1,noise=1"


@pytest.fixture(scope="module")
def data():
    return bl.load_dataset("graded", limit=16)


@pytest.fixture
def study(tmp_path, data):
    return bl.freeze(tmp_path / "study.toml", PROBE, JUDGE, data, contexts=12)


def run(study, data, judge=JUDGE, **options):
    return study.run(dataset=data, judge=judge, progress=False, **options)


def changed(data, frame, row, column, value):
    table = getattr(data, frame).copy()
    table.loc[row, column] = value
    return dataclasses.replace(data, **{frame: table})


@pytest.mark.slow
def test_same_study_twice_gives_the_same_bytes(tmp_path, data):
    until = bl.Until(effect=0.2)
    bl.freeze(tmp_path / "s.toml", PROBE, JUDGE, data, until=until)
    files = []
    for name in ("one", "two"):
        result = run(bl.FrozenStudy.read(tmp_path / "s.toml"), data, store=tmp_path / "s.sqlite")
        files.append([path.read_bytes() for path in result.save(tmp_path / name)])
    assert files[0] == files[1]
    assert result.cost["asked"] == 0
    assert result.departures == ()


def test_file_holds_what_is_run(study):
    read = bl.FrozenStudy.read(study.path)
    assert read == study
    tables = read.tables
    assert tables["hypotheses"] == [
        {"metric": "first_position_rate", "null": 0.5, "direction": "two-sided", "effect": 0.1}
    ]
    assert (tables["probe"]["parameters"]["n_pairs"], tables["probe"]["unset"]) == (2, [])
    assert len(tables["data"]["contexts"]) == tables["sampling"]["contexts"] == 12
    assert {"biaslab", "python", "numpy", "pandas"} <= set(tables["versions"])
    again = bl.freeze(
        study.path.with_name("again.toml"), PROBE, JUDGE, bl.load_dataset("graded", limit=16), contexts=12
    )
    assert again.digest == study.digest


def test_preregistration_has_the_sections_of_osf(study):
    text = study.path.with_suffix(".md").read_text()
    sections = ["Hypotheses", "Design", "Sampling plan", "Stopping rule", "Variables", "Analysis plan", "Exclusions"]
    assert re.findall(r"^## (\w+(?: plan| rule)?)", text, re.MULTILINE)[:7] == sections
    assert study.digest in text


def test_changed_context_or_score_is_refused(study, data):
    name = next(iter(study.tables["data"]["contexts"]))
    texts, scores = data.candidates, data.human
    row = texts.index[texts["context_id"] == name][0]
    score = scores.index[scores["context_id"] == name][0]
    value = 1.0 if scores.loc[score, "score"] != 1.0 else 2.0
    others = [
        changed(data, "candidates", texts.index[texts["context_id"] == name], "context", "another source"),
        changed(data, "candidates", row, "text", texts.loc[row, "text"] + "."),
        changed(data, "human", score, "score", value),
        data.of_contexts(set(texts["context_id"]) - {name}),
    ]
    judge = bl.load_judge(JUDGE, data)
    for other in others:
        with pytest.raises(InputError) as error:
            run(study, other, judge)
        assert error.value.name == f"data.contexts.{name}"
    with pytest.raises(InputError, match="none of them"):
        run(study, data.of_contexts(set(texts["context_id"]) - set(study.tables["data"]["contexts"])), judge)


def test_changed_judge_or_parameter_is_refused(study, data):
    with pytest.raises(InputError) as error:
        run(study, data, "simulated:position=1.5,noise=1")
    assert error.value.name == "judge.id"
    with pytest.raises(InputError) as error:
        run(study, data, probe=dataclasses.replace(PROBE, n_pairs=3))
    assert (error.value.name, error.value.value) == ("probe.parameters.n_pairs", "3")
    assert error.value.allowed.startswith("2")
    with pytest.raises(InputError) as error:
        run(study, data, probe=dataclasses.replace(PROBE, cue="Answer:"))
    assert error.value.name == "probe.parameters.cue"


def test_changed_prompt_is_refused(study, data):
    class Reworded(bl.probes.Position):
        name = "position"

        def design(self, dataset):
            for trial in super().design(dataset):
                yield dataclasses.replace(trial, request=dataclasses.replace(trial.request, labels=("1", "2")))

    with pytest.raises(InputError) as error:
        run(study, data, probe=Reworded(["coherence"], [1], n_pairs=2))
    assert error.value.name == "probe.design"


@pytest.mark.parametrize(
    ("before", "after", "table"),
    [
        ("n_pairs = 2", "n_pairs = 3", "probe"),
        ("effect = 0.1", "effect = 0.2", "hypotheses"),
        ('"two-sided"', '"above"', "hypotheses"),
        ("alpha = 0.05", "alpha = 0.01", "sampling"),
        ("order_consistency", "tie_rates", "metrics"),
    ],
)
def test_edited_file_is_refused(study, data, before, after, table):
    text = study.path.read_text()
    assert before in text
    study.path.write_text(text.replace(before, after, 1))
    with pytest.raises(InputError) as error:
        run(bl.FrozenStudy.read(study.path), data)
    assert error.value.name.endswith(f"table.{table}")


@pytest.mark.parametrize("key", ["name", "id", "primary", "unset", "alpha", "contexts"])
def test_file_without_an_entry_is_refused(study, key):
    text = study.path.read_text(encoding="utf-8")
    study.path.write_text(re.sub(rf"(?m)^{key} = .*\n", "", text), encoding="utf-8")
    with pytest.raises(InputError, match=f"'{key}' is missing"):
        bl.FrozenStudy.read(study.path)


def test_other_versions_and_allowed_departures_are_marked(study, data, monkeypatch):
    monkeypatch.setattr("biaslab.report.preregistration.python_version", lambda: "2.7")
    result = run(study, data)
    assert [(each.where, each.present) for each in result.departures] == [("versions.python", "2.7")]
    assert all("departure" in notes_of(row) for row in result.estimates.to_dict("records"))
    assert "versions.python" in str(result)
    other = run(study, data, "simulated:position=0,noise=1", allow_departures=True)
    assert [each.where for each in other.departures] == ["judge.id", "versions.python"]


@pytest.mark.parametrize(
    ("position", "direction", "outcome"),
    [(2, "above", "supported, above the null"), (2, "below", "contradicted, above the null")],
)
def test_outcome_depends_on_the_direction(tmp_path, data, position, direction, outcome):
    hypothesis = bl.Hypothesis("first_position_rate", direction, 0.1)
    study = bl.freeze(
        tmp_path / "s.toml", PROBE, f"simulated:position={position},noise=1", data, hypotheses=[hypothesis]
    )
    result = study.run(dataset=data, progress=False)
    assert result.outcomes()["outcome"].tolist() == [outcome]
    tested = result.estimates[result.estimates["q_value"].notna()]
    assert tested["metric"].unique().tolist() == ["first_position_rate"]


@pytest.mark.slow
def test_power_is_that_of_the_rule(tmp_path, data):
    data = bl.load_dataset("graded")
    planned = bl.plan(PROBE, bl.SimulatedJudge(data), data, effect=0.15)
    powers = {}
    for name, until in {"fixed": None, "rule": bl.Until(), "looks": bl.Until(looks=[8, 16, 24])}.items():
        sampling = bl.freeze(tmp_path / f"{name}.toml", PROBE, JUDGE, data, planned=planned, until=until).tables[
            "sampling"
        ]
        powers[name] = sampling["contexts"], sampling["power"]
    assert powers["fixed"][1] == pytest.approx(0.8, abs=0.01)
    assert powers["rule"][0] > 1.5 * powers["fixed"][0]
    assert powers["rule"][1] >= 0.8


def test_nothing_is_frozen_that_cannot_be_run(tmp_path, data):
    taken = tmp_path / "taken.toml"
    taken.write_text("")
    edited = bl.probes.Edit(["coherence"], edits=[str.upper])
    for options in (
        {"path": taken}, {"path": tmp_path / "s.txt"}, {"alpha": 0.2}, {"contexts": 17}, {"exclude": ["none"]},
        {"hypotheses": [bl.Hypothesis("order_consistency")]}, {"probe": edited}, {"until": bl.Until(contexts=99)},
        {"hypotheses": [bl.Hypothesis("first_position_rate", "up")]},
    ):  # fmt: skip
        arguments = {"path": tmp_path / "s.toml", "probe": PROBE, "judge": JUDGE, "dataset": data, **options}
        with pytest.raises(InputError):
            bl.freeze(**arguments)
    assert not (tmp_path / "s.toml").exists()
    for text in ("", "a = [", 'digests = 3\nhypotheses = "none"'):
        taken.write_text(text)
        with pytest.raises(InputError):
            bl.FrozenStudy.read(taken)


@pytest.mark.slow
def test_command_line_freezes_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--judge", JUDGE, "--attribute", "coherence", "-p", "templates=1", "-p", "n_pairs=2", "--effect", ".2"]
    plan = ["plan", "position", *options, "--until-effect", ".2", "--direction", "above", "--freeze", "study.toml"]
    assert cli.main(plan) == 0
    assert cli.main(["run", "study.toml"]) == 0
    assert "supported, above the null" in capsys.readouterr().out
    estimates = pd.read_csv("study_results.csv")
    assert {"asymptotic confidence sequence", "betting confidence sequence"} & set(estimates["method"])
    assert cli.main(["run", "study.toml", "--judge", "simulated:position=3"]) == 2
    assert "judge.id" in capsys.readouterr().err
    assert cli.main(plan) == 2
    assert cli.main(["plan", "position", *options, "--direction", "above"]) == 2


@pytest.mark.slow
def test_probe_command_says_what_a_rule_saved(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--judge", JUDGE, "--attribute", "coherence", "-p", "templates=1", "--contexts", "40"]
    assert cli.main(["probe", "position", *options, "--until-half-width", ".1"]) == 0
    assert "requests saved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"until": bl.Until(metric="order_consistency")}, "until.metric"),
        ({"until": 0.1}, "until"),
        ({"contexts": 0}, "contexts"),
        ({"contexts": 8, "seed": -1}, "seed"),
        ({"alpha": "low"}, "alpha"),
        ({"hypotheses": ["first_position_rate"]}, "hypotheses"),
        ({"hypotheses": [bl.Hypothesis("first_position_rate")] * 2}, "hypotheses"),
    ],
)
def test_study_that_could_not_be_run_is_not_frozen(tmp_path, data, options, name):
    with pytest.raises(InputError) as error:
        bl.freeze(tmp_path / "study.toml", PROBE, JUDGE, data, **options)
    assert error.value.name == name
    assert not any(tmp_path.iterdir())
