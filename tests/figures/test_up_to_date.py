"""A notebook is executed again exactly when something that its figures depend on has changed."""

import json
from pathlib import Path

import pytest

from biaslab.figures import up_to_date
from biaslab.figures.gallery import describe
from biaslab.figures.notebook import Run, Task
from biaslab.figures.up_to_date import earlier_run, inputs, remember
from biaslab.store import Store

CELL = {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": 'n = 2\nfolder = "texts"\nout = "x"'}
MADE = [Path("figures", name) for name in ("study__rate.csv", "study__rate.png")]


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A notebook that was executed, with a table and a figure, and a folder that its parameter names."""
    monkeypatch.chdir(tmp_path)
    for folder in ("notebooks", "papermill_runs", "figures", "texts"):
        Path(folder).mkdir()
    for place in ("notebooks", "papermill_runs"):
        Path(place, "study.ipynb").write_text(json.dumps({"cells": [CELL], "metadata": {}}), encoding="utf-8")
    for file in (*MADE, Path("texts", "one.txt")):
        file.write_text("1")
    with Store("judgements.sqlite"):
        pass
    always = {"store": "judgements.sqlite", "out": "figures"}
    made = Task(Path("notebooks/study.ipynb"), Path("papermill_runs/study.ipynb"), {"n": 3}, always, False, 1)
    remember(made, Run("study", tuple(MADE), 7.0, 5, 4, 3, 2, 1, ("judge",)), inputs(made))
    return made


def test_unchanged_inputs_are_up_to_date(task):
    found = earlier_run(task, inputs(task))
    assert found == Run("study", tuple(MADE), 7.0, 5, 4, 3, 2, 1, ("judge",), up_to_date=True)
    assert describe(found) == "study: 1 figure, up to date"


def test_parameter_absent_from_the_notebook_is_no_input(task):
    assert inputs(Task(**{**vars(task), "wanted": {"n": 3, "judge": "simulated"}})) == inputs(task)


def edit_notebook():
    source = Path("notebooks", "study.ipynb")
    source.write_text(source.read_text(encoding="utf-8").replace("n = 2", "n = 2  # contexts"), encoding="utf-8")


CHANGES = {
    "the notebook": lambda _: edit_notebook(),
    "a file that a parameter names": lambda _: Path("texts", "one.txt").write_text("another"),
    "a further file there": lambda _: Path("texts", "two.txt").write_text("2"),
    "a figure that is another": lambda _: MADE[1].write_text("2"),
    "a table that is gone": lambda _: MADE[0].unlink(),
    "the executed notebook": lambda _: Path("papermill_runs", "study.ipynb").unlink(),
    "an executed notebook that is torn": lambda _: Path("papermill_runs", "study.ipynb").write_text("{"),
    "biaslab": lambda patch: patch.setattr(up_to_date, "_package", lambda: "another"),
    "what is installed": lambda patch: patch.setattr(up_to_date, "_installed", lambda: ["another"]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_changed_input_is_not_up_to_date(task, monkeypatch, what):
    CHANGES[what](monkeypatch)
    assert earlier_run(task, inputs(task)) is None


def test_another_value_of_a_parameter(task):
    other = Task(**{**vars(task), "wanted": {"n": 4}})
    assert earlier_run(other, inputs(other)) is None


def test_run_with_replies_since_deleted_is_not_up_to_date(task):
    run = json.loads(task.target.read_text(encoding="utf-8"))
    run["metadata"]["biaslab"]["replies"] = 1
    task.target.write_text(json.dumps(run), encoding="utf-8")
    assert earlier_run(task, inputs(task)) is None


def test_a_notebook_that_cannot_be_read_is_never_up_to_date(task):
    task.source.write_text("{", encoding="utf-8")
    assert inputs(task) == ""
    remember(task, Run("study", tuple(MADE), 7.0, 5, 4, 3, 2, 1), "")
    assert earlier_run(task, "") is None
