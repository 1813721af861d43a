"""Figures of parameters that are not a notebook's own never take the place of those that are."""

from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.core.project import (
    bundled,
    defaults,
    differing,
    folder_of,
    parameters_cell,
    record,
    recorded,
)
from biaslab.figures import regenerate

OWN = parameters_cell(bundled() / "position.ipynb")
EDITED = OWN.replace("n_contexts = 20", "n_contexts = 4")
ENTER = 'import biaslab as bl\nbl.enter_project("position")'
FOUR = str(Path("figures", folder_of({"n_contexts": 4})))


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """A notebook's shell in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BIASLAB_PROJECT", raising=False)
    made = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    yield made
    InteractiveShell.clear_instance()


def run(shell, *cells):
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()
    return shell.user_ns["out"]


@pytest.mark.parametrize(
    ("cells", "out"),
    [
        ([OWN, ENTER], "figures"),
        ([OWN, "# Parameters\nn_contexts = 20\ntemperature = 1", ENTER], "figures"),
        ([OWN, "# Parameters\nstore = 'elsewhere'", ENTER], "figures"),
        ([OWN, "# Parameters\nn_contexts = 4", ENTER], FOUR),
        ([EDITED, ENTER], FOUR),
        ([OWN, ENTER, EDITED], FOUR),  # the cell of parameters run again, and not the one behind it
        ([OWN, ENTER, "templates = sorted({1, 2})"], "figures"),  # a variable that a notebook uses again
        ([EDITED, ENTER, OWN], "figures"),
        ([EDITED, ENTER, ENTER], FOUR),
        ([OWN, "# Parameters\nn_contexts = 4\nout = 'mine'", ENTER], "mine"),
        ([OWN, "# Parameters\nn_contexts = 4\nout = 'figures'", ENTER], "figures"),
        ([EDITED.replace('"figures"', '"mine"'), ENTER], "mine"),
    ],
)
def test_a_notebook_knows_where_its_figures_go(shell, cells, out, capsys):
    assert run(shell, *cells) == out
    said = capsys.readouterr().out
    assert (f"n_contexts = 4; figures are saved in {FOUR}" in said) == (out == FOUR or cells[0] == EDITED)


def test_a_notebook_that_biaslab_does_not_have_is_named(shell):
    with pytest.raises(InputError, match=r"notebook is 'positon', allowed: a bundled notebook: .*did you mean"):
        bl.enter_project("positon")


def test_edited_parameters_cell_differs_from_the_recorded_one(tmp_path):
    path = tmp_path / "study.ipynb"
    cell = new_code_cell("seed = 0\nn_pairs = 2", metadata={"tags": ["parameters"]})
    nbformat.write(new_notebook(cells=[cell]), path)
    assert recorded(path) == {"seed": 0, "n_pairs": 2}
    record(path)
    saved = nbformat.read(path, as_version=4)
    saved.cells[0].source = "seed = 0\nn_pairs = 3"
    nbformat.write(saved, path)
    assert differing(defaults(parameters_cell(path)), recorded(path)) == {"n_pairs": 3}


def test_alike_changes_have_one_folder_and_others_another():
    same = folder_of({"seed": 1, "n_contexts": 4})
    assert same == folder_of({"n_contexts": 4, "seed": 1})
    others = [{"n_contexts": 4}, {"n_contexts": 4, "seed": 2}, {"judge": "a", "n_contexts": 4, "seed": 1, "ties": True}]
    assert len({same, *map(folder_of, others)}) == 4
    assert same.startswith("n_contexts-seed-")


STUDY = """
from pathlib import Path

Path(out, "NAME__rate.csv").write_text(f"estimate\\n{VALUE}\\n")
Path(out, "NAME__rate.png").write_text(str(VALUE))
"""


@pytest.fixture
def studies(tmp_path, monkeypatch):
    """Two notebooks, of which one has the parameter n."""
    monkeypatch.chdir(tmp_path)
    Path("notebooks").mkdir()
    for name, parameter in (("one", "n = 1"), ("two", "m = 1")):
        cells = [new_code_cell(f'{parameter}\nstore = "x"\nout = "figures"', metadata={"tags": ["parameters"]})]
        cells.append(new_code_cell(STUDY.replace("NAME", name).replace("VALUE", parameter[0])))
        kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), Path("notebooks", f"{name}.ipynb"))


@pytest.mark.slow
def test_other_parameters_leave_the_default_figures_unchanged(studies):
    first = regenerate(progress=False)
    assert [run.files[1] for run in first] == [Path("figures/one__rate.png"), Path("figures/two__rate.png")]
    apart = Path("figures", folder_of({"n": 5}))
    changed = {"parameters": {"n": 5}, "progress": False, "changed": True}
    one, two = regenerate(**changed)
    assert (one.up_to_date, one.files[1], one.files[1].read_bytes()) == (False, apart / "one__rate.png", b"5")
    assert (two.up_to_date, two.ignored) == (True, ())  # it has no such parameter, and is what it was
    assert Path("figures/one__rate.csv").read_text() == "estimate\n1\n"
    assert "one__rate.png" in (apart / "index.html").read_text(encoding="utf-8")
    assert "two__rate.png" not in (apart / "index.html").read_text(encoding="utf-8")
    assert (apart / "precision.csv").exists()
    assert Path("papermill_runs", apart.name, "one.ipynb").exists()
    assert [run.up_to_date for run in regenerate(progress=False, changed=True)] == [True, True]
    assert [run.up_to_date for run in regenerate(**changed)] == [True, True]
    given = regenerate(only=["one"], out="figures", **changed)
    assert given[0].files[1].read_text() == "5"
    assert given[0].files[1] == Path("figures/one__rate.png")
