"""Notebooks run as they are, with parameters, from papermill; they are committed clean, and say clearly what is
wrong.
"""

import ast
import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest

from biaslab.core.errors import InputError
from biaslab.core.project import (
    defaults,
    differing,
    folder_of,
    recorded,
    require_known,
    types_of,
)
from biaslab.figures import list_notebooks
from biaslab.probes import available

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECRET = "sk-nobody-may-read-this"
#: What would take minutes on any judge, made smaller.
SMALLER = {
    "audit": {"sources": ["pandalm"]},
    "baselines": {"n_comparisons": None},  # a few drawn pairs of four contexts leave out too many candidates
    "budget": {"draws": 4},
    "calibration": {"strengths": [1.0], "studies": 12, "population": 100, "curve": [12]},
    "correct": {"n_contexts": 12, "draws": 4},  # fewer than five labelled contexts give no interval
    "distillation": {"folds": 2, "repeats": 1, "counts": [6], "texts_per_source": [1], "decoder_layer": 4},
    "inheritance": {"n_recorded": 8},
    "joint": {"n_contexts": 80},  # of few battles, the terms predict every verdict
    "reward": {"steps": 1, "n_samples": 3, "n_taught": 20, "trainable": 1, "max_tokens": 12, "layer": 4},
}
#: What `make docs`, and so .ci/run, has papermill execute.
PUBLISHED = set(re.search(r"^PUBLISHED = (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.M)[1].split())
#: For every push, beside one with a real model (below): a tour and a probe. test_warm_kernel.py executes the cells of
#: the rest; `make test-all` has papermill run all.
OF_EACH_KIND = {"00_tour", "position"}
MARKED = [
    pytest.param(path, marks=pytest.mark.slow if path.stem in OF_EACH_KIND else pytest.mark.thorough)
    for path in NOTEBOOKS
]
PARAMETERS = {"judge", "dataset", "path", "attributes", "n_contexts", "seed", "store", "out"}


def papermill(notebook, folder, **parameters):
    options = ["--parameters_yaml", json.dumps(parameters)]
    command = [sys.executable, "-m", "papermill", str(notebook), "out.ipynb", "--no-progress-bar", *options]
    environment = os.environ | {"OPENAI_API_KEY": SECRET}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


def unclean(executed, *folders):
    """Say what somebody who opens an executed notebook should not find in what it shows."""
    cells = [cell for cell in executed.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    shown = json.dumps([[cell.source for cell in cells], outputs])
    paths = [str(folder) for folder in (*folders, ROOT, Path.home(), sys.prefix) if str(folder) in shown]
    warned = [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr" and "Warning" in o.text]
    warned += [found for found in ("?reply/s", "GGUF tensors", "widget-view") if found in shown]
    errors = [o.ename for o in outputs if o.output_type == "error"]
    return paths + warned + errors + [SECRET] * (SECRET in shown)


def pictures(cell):
    """Count the pictures that a cell shows."""
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def wrote(cell, path):
    """Tell by the clock whether a cell wrote a file; papermill notes when it began and ended."""
    ran = cell.metadata.get("papermill", {})
    if cell.cell_type != "code" or not ran.get("end_time"):
        return False
    began, ended = (datetime.fromisoformat(ran[name]).replace(tzinfo=UTC) for name in ("start_time", "end_time"))
    return began.timestamp() <= path.stat().st_mtime <= ended.timestamp()


def test_there_are_notebooks():
    assert {"00_tour", "position"} <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_clean_with_a_parameters_cell(path):
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    [tagged] = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    assert {line.split(" = ")[0] for line in tagged.source.splitlines()} >= PARAMETERS
    assert notebook.metadata.kernelspec.name == "python3"
    assert sum(cell.source.count(f'bl.enter_project("{path.stem}")') for cell in cells) == 1
    record = f"python -c \"from pathlib import Path; from biaslab.core.project import record; record(Path('{path}'))\""
    assert recorded(path) == defaults(tagged.source), f"its metadata say what its parameters are: {record}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_misspelt_parameter_is_found_by_the_first_import(path):
    """By what ``import biaslab`` looks at: the cells that were executed until then."""
    import nbformat

    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert "import biaslab" in cells[1]
    names = list(types_of(path))
    require_known(["", cells[0], "\n".join(["# Parameters", *(f"{name} = None" for name in names)]), cells[1]])
    for name in names:
        if f"{name}x" not in names:
            with pytest.raises(InputError, match=rf"{name}x is 4, .*did you mean .*{name}"):
                require_known(["", cells[0], f"# Parameters\n{name}x = 4\n", cells[1]])


def test_a_parameter_is_read_as_the_notebook_has_it():
    found = {path.stem: types_of(path) for path in NOTEBOOKS}
    assert (found["position"]["n_pairs"], found["position"]["templates"]) == (int | None, list[int] | None)
    assert (found["familiarity"]["sources"], found["reward"]["learning_rate"]) == (bool | None, float | None)
    assert found["reward"]["trainable"] == Literal["all"] | int | None
    lists = {name for name, kind in found["budget"].items() if "list" in str(kind)}
    assert lists == {"attributes", "budgets", "strategies"}


@pytest.mark.parametrize("path", MARKED, ids=lambda path: path.stem)
def test_runs_by_itself_from_papermill(path, tmp_path):
    import nbformat

    changed = {"judge": "simulated:position=0.5,noise=1", "n_contexts": 4} | SMALLER.get(path.stem, {})
    done = papermill(path, tmp_path, **changed)
    assert done.returncode == 0, done.stderr[-3000:]
    figures = tmp_path / "figures" / folder_of(differing(changed, recorded(path)))
    assert list((tmp_path / "figures").iterdir()) == [figures]  # what the notebook came with has the other folder
    names = {p.stem for p in figures.glob("*.png")}
    assert names
    assert names == {p.stem for p in figures.glob("*.pdf")}
    for name in names:
        frame = pd.read_csv(figures / f"{name}.csv")
        assert len(frame)
        assert frame["estimate"].notna().any()
    executed = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert unclean(executed, tmp_path) == []
    shown = [pictures(cell) for cell in executed.cells]
    assert shown == [sum(wrote(cell, picture) for picture in figures.glob("*.png")) for cell in executed.cells]
    assert sum(shown) == len(names)


def test_unclean_outputs_are_detected(tmp_path):
    from nbformat.v4 import new_code_cell, new_notebook, new_output

    said = [f"{ROOT}/x", f"key {SECRET}"]
    outputs = [new_output("stream", name="stdout", text=text) for text in said]
    outputs += [new_output("stream", name="stderr", text="FutureWarning: soon"), new_output("error", ename="KeyError")]
    outputs += [new_output("display_data", data={"text/plain": "0reply [00:00, ?reply/s]"})]
    found = unclean(new_notebook(cells=[new_code_cell("1", outputs=outputs)]), tmp_path)
    assert {str(ROOT), SECRET, "FutureWarning: soon", "KeyError", "?reply/s"} <= set(found)
    assert unclean(new_notebook(cells=[new_code_cell("x = 1")]), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_contexts": 0}, "limit is 0, allowed: a whole number of contexts"),
        ({"n_contxts": 4}, "did you mean n_contexts?"),
        *(
            pytest.param(*wrong, marks=pytest.mark.thorough)
            for wrong in (
                ({"dataset": "gradde"}, "dataset is 'gradde', allowed: one of dialogue_sets, dialogues"),
                ({"judge": "simulated:charm=1"}, "name=number"),
                ({"judge": "/no/such/model"}, "there is no model at '/no/such/model'"),
                ({"path": "/no/such/file"}, "an existing file or folder"),
            )
        ),
    ],
)
def test_a_bad_parameter_gives_a_clear_error(parameters, words, tmp_path):
    done = papermill(ROOT / "notebooks" / "position.ipynb", tmp_path, **parameters)
    assert done.returncode != 0
    assert words in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "judgements.sqlite").exists()


@pytest.mark.slow
def test_the_embedded_judge_is_asked_once(tmp_path):
    """Figures of a real judge; the second run answers from the store and writes the same estimates."""
    command = [
        sys.executable, "-c", "import sys; from biaslab.cli import main; sys.exit(main())",
        "figures", "--only", "position", "--contexts", "1",
    ]  # fmt: skip
    results = []
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        results.append((done.stdout, pd.read_csv(*tmp_path.glob("figures/n_contexts-*/position__estimates.csv"))))
    assert "16 judge calls" in results[0][0]
    assert "0 judge calls" in results[1][0].splitlines()[-1]
    pd.testing.assert_frame_equal(results[0][1], results[1][1])


NOTEBOOKS_knobs_of_notebooks = {path.stem: path for path in list_notebooks()}
#: Fields of a probe that its notebook does not take from outside, with the reason.
LEFT_OUT = {
    "anchoring": {"protocol": "it has prompts of its own, with several attributes in one"},
    "template": {"protocol": "it compares several: `protocols`"},
    "familiarity": {
        "log_perplexity": "read by `likelihood_judge`, or by the judge itself",
    },
    "self_preference": {"level": "data sets have several texts per context, which are compared within it"},
    "comparative": {
        "decoding": "all of them are shown side by side",
        "debiasing": "all remedies are shown side by side",
    },
    "budget": {
        "strategy": "all pairs are asked once; `strategies` are drawn from them",
        "budget": "`budgets` are drawn from all pairs",
        "rounds": "nothing is asked adaptively: all pairs are asked once",
        "folds": "remedies are fitted on all other contexts",
    },
}
#: The probe of a notebook that is not called after it.
OF = {"budget": "comparative"}
#: How a notebook calls a field otherwise.
CALLED = {"resampling": "seed", "budget": "n_comparisons"}


def code_of(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def given_by(name):
    """Return what a notebook gives its probe: in the call that says most, and by name in ``replace(probe, …)``."""
    wanted = f"bl.probes.{available()[OF.get(name, name)].__name__}"
    calls = [
        node for node in ast.walk(ast.parse(code_of(NOTEBOOKS_knobs_of_notebooks[name]))) if isinstance(node, ast.Call)
    ]
    made = [call for call in calls if ast.unparse(call.func) in (wanted, f"{wanted}.from_parameters")]
    made = max(made, key=lambda call: (ast.unparse(call.func) != wanted, len(call.keywords)))
    keywords, own = made.keywords, types_of(NOTEBOOKS_knobs_of_notebooks[name])
    if ast.unparse(made.func) == wanted:
        later = [keyword for call in calls if ast.unparse(call.func) == "replace" for keyword in call.keywords]
        keywords = [*(each for each in later if ast.unparse(each.value) in {*own, "resampling"}), *keywords]
        return {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
    assert [ast.unparse(each) for each in made.args] == ["globals()"]
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
    return {each: each for each in own} | {"resampling": "seed"} | given


@pytest.mark.parametrize("name", sorted((set(available()) | set(OF)) & set(NOTEBOOKS_knobs_of_notebooks)))
def test_every_field_is_a_parameter_or_left_out_with_a_reason(name):
    given = given_by(name)
    known, left = types_of(NOTEBOOKS_knobs_of_notebooks[name]), LEFT_OUT.get(name, {})
    for field in fields(available()[OF.get(name, name)]):
        if field.name in left:
            assert field.name not in given, f"{name}: {field.name} is given, and left out"
            continue
        own = CALLED.get(field.name, field.name)
        assert own in known, f"{name} has no parameter {own}; add it, or say in LEFT_OUT why not"
        if field.name != "likelihood_judge":  # it is put into the probe once it has read
            names = {node.id for node in ast.walk(ast.parse(given.get(field.name, ""))) if isinstance(node, ast.Name)}
            assert names & ({own} | {"resampling", "chosen", "bl"}), f"{name}: {field.name} is not taken from {own}"


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_omitted_names_are_fields(name):
    assert set(LEFT_OUT[name]) <= {field.name for field in fields(available()[OF.get(name, name)])}


@pytest.mark.parametrize("name", sorted(set(NOTEBOOKS_knobs_of_notebooks) & set(available())))
def test_default_none_has_a_numeric_type(name):
    """So that `-p n_candidates=2` is read as a number."""
    kinds = types_of(NOTEBOOKS_knobs_of_notebooks[name])
    for own in ("n_candidates", "n_forced", "n_orders", "reliability", "n_pairs", "n_comparisons"):
        if own in kinds:
            assert "str" not in str(kinds[own]), own


NOTEBOOKS_stories = Path(__file__).resolve().parents[2] / "notebooks"
STORIES = sorted(path.stem for path in NOTEBOOKS_stories.glob("*.ipynb"))
_MOST = 1_590  # lines of code of all notebooks together


def code_of_stories(name):
    """Return the cells of code of a notebook, without its parameters."""
    cells = json.loads((NOTEBOOKS_stories / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return [
        cell for cell in cells if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", [])
    ]


@pytest.mark.parametrize("name", STORIES)
def test_no_cell_is_longer_than_fifteen_lines(name):
    lengths = {cell["id"]: len(cell["source"]) for cell in code_of_stories(name)}
    assert {cell: length for cell, length in lengths.items() if length > 15} == {}


def test_notebooks_together_stay_short():
    lines = [line for name in STORIES for cell in code_of_stories(name) for line in cell["source"] if line.strip()]
    assert len(lines) <= _MOST


@pytest.mark.parametrize("name", STORIES)
def test_notebook_ends_with_its_answer(name):
    cells = json.loads((NOTEBOOKS_stories / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    title, code = ("".join(cell["source"]) for cell in cells[-2:])
    assert title.startswith("## ")
    assert title.endswith("What did we find, and what to do?")
    assert "print(" in code
    assert "bl.report.answer(" in code or "What to do: " in code


def test_appendix_lists_figures_that_notebooks_draw():
    with (ROOT / "docs" / "_hooks" / "data" / "figures.csv").open(encoding="utf-8", newline="") as file:
        listed = [row["figure"].split("__") for row in csv.DictReader(file)]
    code = {path.stem.lstrip("0_"): code_of(path) for path in NOTEBOOKS}
    assert len(listed) > 30
    assert [f"{study}__{name}" for study, name in listed if f'{name}"' not in code[study]] == []
