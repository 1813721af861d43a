"""Notebooks are really executed, and what they asked is really counted."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from biaslab.core.errors import InputError, NotebookError, StoreError
from biaslab.core.project import folder_of
from biaslab.figures.gallery import describe
from biaslab.figures.notebook import NotebookRun, NotebookTask
from biaslab.figures.regenerate import earlier_run, inputs, list_notebooks, regenerate, remember
from biaslab.store import Store

PARAMETERS = """
judge = "simulated:position=1"  # papermill's own inspection loses a line with another = in it
dataset = "graded"
path = None
n_contexts = 2
store = "elsewhere.sqlite"
out = "elsewhere"
"""
STUDY = """
import os, sys
from pathlib import Path
import biaslab as bl

print("noise")
os.write(2, b"noise")
data = bl.load_dataset(dataset, limit=n_contexts)
probe = bl.probes.Position(attributes=["coherence"], templates=[1])
estimates = probe.estimate(bl.collect(probe, bl.load_judge(judge, data), data, store=store))
for suffix in (".png", ".pdf"):
    Path(out, "NAME__rate").with_suffix(suffix).write_text(f"{sys.executable}\\n{os.getcwd()}\\n{n_contexts}\\n{judge}")
estimates.to_csv(Path(out) / "NAME__rate.csv", index=False)
"""
PER_CONTEXT = 6 * 5  # ordered pairs of six candidates


def write_notebook(name, *sources, parameters=PARAMETERS):
    """Write a notebook into ./notebooks; NAME in its sources is its own name."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    cells = [new_code_cell(parameters, metadata={"tags": ["parameters"]})] if parameters else []
    cells += [new_code_cell(source.replace("NAME", name)) for source in sources]
    kernel = {"name": "no such kernel", "language": "python", "display_name": "another machine's kernel"}
    Path("notebooks").mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), f"notebooks/{name}.ipynb")


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_second_run_asks_nothing(tmp_path, capfd):
    write_notebook("01_study", STUDY)
    first, second = (
        regenerate(judge="simulated:position=0.5", contexts=3, out="figures", progress=False)[0] for _ in "ab"
    )
    assert (first.notebook, first.figures) == ("01_study", ("01_study__rate",))
    assert [file.suffix for file in first.files] == [".csv", ".pdf", ".png"]
    assert first.files == second.files  # rewritten
    assert (first.asked, first.stored, second.asked, second.stored) == (3 * PER_CONTEXT, 0, 0, 3 * PER_CONTEXT)
    assert first.asked_tokens == second.stored_tokens > 0 == second.asked_tokens
    assert first.estimates == len(pd.read_csv("figures/01_study__rate.csv"))
    assert first.ignored == ()
    assert 0 < first.seconds < 60
    with Store("judgements.sqlite") as store:
        assert len(store) == 3 * PER_CONTEXT
    seen = Path("figures/01_study__rate.png").read_text().splitlines()
    assert seen == [sys.executable, str(tmp_path), "3", "simulated:position=0.5"]
    assert Path(
        "papermill_runs", folder_of({"judge": "simulated:position=0.5", "n_contexts": 3}), "01_study.ipynb"
    ).exists()
    assert not Path("elsewhere").exists()
    page = Path("figures/index.html").read_text(encoding="utf-8")
    assert '<img src="01_study__rate.png"' in page
    assert f"1 figure from {first.estimates} rows of 1 table" in page
    assert f"0 judge calls, {3 * PER_CONTEXT} replies from the store" in page
    assert "graded (constructed) · n = 3 contexts" in page
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_up_to_date_notebooks_are_skipped():
    write_notebook("01_study", STUDY)
    write_notebook("02_broken", "raise ValueError")
    found = []
    for _ in "ab":
        with pytest.raises(NotebookError):  # a failed one is never up to date
            regenerate(judge="simulated:position=0.5", changed=True, out="figures", progress=False, report=found.append)
    assert [run.up_to_date for run in found] == [False, True]
    assert found[1].figures == found[0].figures == ("01_study__rate",)
    assert found[1].asked == 2 * PER_CONTEXT
    assert "01_study__rate.png" in Path("figures/index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_parameter_goes_to_the_notebooks_that_have_it():
    changed = "Path(out, 'NAME__x.png').write_text(repr(n_pairs))"
    own = PARAMETERS + "n_pairs = None  # list of numbers, or None"
    write_notebook("a_has", "from pathlib import Path", changed, parameters=own)
    write_notebook("b_lacks", "x = 1")
    runs = regenerate(parameters={"n_pairs": "1,2"}, out="figures", progress=False)
    assert Path("figures/a_has__x.png").read_text() == "[1, 2]"
    assert [run.ignored for run in runs] == [(), ("n_pairs",)]


@pytest.mark.slow
def test_a_failing_notebook_does_not_stop_the_others(capfd):
    write_notebook(
        "a_fails", "from biaslab.core.errors import InputError", "raise InputError('level', 95, 'a\\nnumber')"
    )
    write_notebook("b_lacks", "print(1)", parameters="store = ''\nout: str = ''")
    done = []
    with pytest.raises(NotebookError) as caught:
        regenerate(judge="simulated", contexts=1, out="figures", progress=False, report=done.append)
    message = str(caught.value)
    assert message.startswith("a_fails.ipynb failed with InputError: level is 95, allowed: a number; ")
    assert "\n" not in message
    [executed] = Path("papermill_runs").rglob("a_fails.ipynb")
    assert str(executed) in message
    assert "Traceback" in "".join(caught.value.__notes__)
    assert [(run.notebook, run.ignored, run.files) for run in done] == [("b_lacks", ("judge", "n_contexts"), ())]
    assert "b_lacks" in Path("figures/index.html").read_text(encoding="utf-8")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_dead_kernel_and_invalid_file_fail_in_one_line():
    write_notebook("dies", "import os; os._exit(1)")
    Path("notebooks/broken.ipynb").write_text("{")
    with pytest.raises(NotebookError, match=r"broken.ipynb failed with JSONDecodeError.*; dies.ipynb failed with Dead"):
        regenerate(progress=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"contexts": 0}, "contexts is 0"),
        ({"contexts": 2.5}, "contexts is 2.5"),
        ({"jobs": 0}, "jobs is 0"),
        ({"path": "missing.jsonl"}, "path is 'missing.jsonl'"),
        ({"dataset": "nope"}, "dataset is 'nope'"),
        ({"judge": "simulated:posit=1"}, "judge is 'posit=1'"),
        ({"only": ["tour", "nope"]}, "only is 'nope', allowed: names among 00_tour, position"),
        ({"only": "tour"}, "write \\['tour'\\]"),
        ({"runs": "notebooks"}, "another folder"),
        ({"out": "notebooks/position.ipynb"}, "out is"),
        ({"notebooks": "missing"}, "notebooks is 'missing'"),
        ({"parameters": {"n_pair": 2}}, "parameter is 'n_pair', allowed: one of judge, dataset, path, n_contexts"),
        ({"parameters": {"n_contexts": "few"}}, "n_contexts is 'few'"),
        ({"parameters": {"n_contexts": 0}}, "contexts is 0"),
        ({"parameters": {"store": "x"}}, "store has an option of its own"),
    ],
)
def test_bad_parameters_are_refused_before_anything_runs(given, said):
    for name in ("position", "00_tour"):
        write_notebook(name, "open('ran', 'w')")
    with pytest.raises(InputError, match=said):
        regenerate(**given)
    assert not Path("ran").exists()


def test_a_foreign_store_is_refused_before_anything_runs():
    write_notebook("position", "open('ran', 'w')")
    Path("notes.txt").write_text("not a store" * 99)
    with pytest.raises(StoreError, match=r"notes\.txt"):
        regenerate(store="notes.txt")
    assert not Path("ran").exists()


@pytest.mark.slow
def test_notebooks_are_chosen_by_name_and_sorted():
    for name in ("position", "00_tour", "01_first"):
        write_notebook(name, "x = 1")
    assert [path.stem for path in list_notebooks()] == ["00_tour", "01_first", "position"]
    runs = regenerate(only=["position", "tour", "00_tour.ipynb"], runs="{runs}", progress=False)
    assert [run.notebook for run in runs] == ["00_tour", "position"]
    assert {path.stem for path in Path("{runs}").iterdir()} == {"00_tour", "position"}  # braces are a name's, too


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
    made = NotebookTask(Path("notebooks/study.ipynb"), Path("papermill_runs/study.ipynb"), {"n": 3}, always, False, 1)
    remember(made, NotebookRun("study", tuple(MADE), 7.0, 5, 4, 3, 2, 1, ("judge",)), inputs(made))
    return made


def test_unchanged_inputs_are_up_to_date(task):
    found = earlier_run(task, inputs(task))
    assert found == NotebookRun("study", tuple(MADE), 7.0, 5, 4, 3, 2, 1, ("judge",), up_to_date=True)
    assert describe(found) == "study: 1 figure, up to date"


def test_parameter_absent_from_the_notebook_is_no_input(task):
    assert inputs(NotebookTask(**{**vars(task), "wanted": {"n": 3, "judge": "simulated"}})) == inputs(task)


def edit_notebook():
    source = Path("notebooks", "study.ipynb")
    source.write_text(source.read_text(encoding="utf-8").replace("n = 2", "n = 2  # contexts"), encoding="utf-8")


MODULE = sys.modules["biaslab.figures.regenerate"]  # the face of the package has a function of this name
CHANGES = {
    "the notebook": lambda _: edit_notebook(),
    "a file that a parameter names": lambda _: Path("texts", "one.txt").write_text("another"),
    "a further file there": lambda _: Path("texts", "two.txt").write_text("2"),
    "a figure that is another": lambda _: MADE[1].write_text("2"),
    "a table that is gone": lambda _: MADE[0].unlink(),
    "the executed notebook": lambda _: Path("papermill_runs", "study.ipynb").unlink(),
    "an executed notebook that is torn": lambda _: Path("papermill_runs", "study.ipynb").write_text("{"),
    "biaslab": lambda patch: patch.setattr(MODULE, "_package", lambda: "another"),
    "what is installed": lambda patch: patch.setattr(MODULE, "_installed", lambda: ["another"]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_any_changed_input_is_not_up_to_date(task, monkeypatch, what):
    CHANGES[what](monkeypatch)
    assert earlier_run(task, inputs(task)) is None


def test_another_value_of_a_parameter(task):
    other = NotebookTask(**{**vars(task), "wanted": {"n": 4}})
    assert earlier_run(other, inputs(other)) is None


def test_run_with_replies_since_deleted_is_not_up_to_date(task):
    run = json.loads(task.target.read_text(encoding="utf-8"))
    run["metadata"]["biaslab"]["replies"] = 1
    task.target.write_text(json.dumps(run), encoding="utf-8")
    assert earlier_run(task, inputs(task)) is None


def test_a_notebook_that_cannot_be_read_is_never_up_to_date(task):
    task.source.write_text("{", encoding="utf-8")
    assert inputs(task) == ""
    remember(task, NotebookRun("study", tuple(MADE), 7.0, 5, 4, 3, 2, 1), "")
    assert earlier_run(task, "") is None
