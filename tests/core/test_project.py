"""One store and one folder of figures, wherever a kernel starts."""

import shutil
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.core.project import bundled, find_project
from biaslab.figures.regenerate import regenerate

PARAMETERS = 'judge = "simulated:position=1"\nn_contexts = 2\nstore = "judgements.sqlite"\nout = "figures"'
STUDY = """
from pathlib import Path
import biaslab as bl

bl.enter_project()
data = bl.load_dataset("graded", limit=n_contexts)
probe = bl.probes.Position(attributes=["coherence"], templates=[1], n_pairs=1)
trials = bl.collect(probe, bl.load_judge(judge, data), data, store=store)
Path(out).mkdir(exist_ok=True)
probe.estimate(trials).to_csv(Path(out) / "study__rate.csv")
print(trials.attrs)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder, which is the working directory, with notebooks of ours and one study."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install '.[notebooks]'")
    from nbformat.v4 import new_code_cell, new_notebook

    monkeypatch.chdir(tmp_path)
    Path("notebooks").mkdir()
    for name in ("00_tour.ipynb", "position.ipynb"):
        shutil.copy(bundled() / name, "notebooks")
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_code_cell(STUDY)]
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), "notebooks/study.ipynb")
    return tmp_path


def asked(place):
    """Execute the study where a kernel starts in a folder, and return what it says that it asked."""
    import papermill

    executed = papermill.execute_notebook("notebooks/study.ipynb", None, cwd=str(place), progress_bar=False)
    return [output.text for output in executed.cells[-1].outputs if output.output_type == "stream"][-1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_notebook_finds_its_store_from_any_start_folder(project):
    """As JupyterLab starts it, beside the notebook; as papermill does, in the project folder; as `biaslab figures`."""
    assert "{'asked': 4, 'stored': 0," in asked(project / "notebooks")
    assert "{'asked': 0, 'stored': 4," in asked(project)
    [run] = regenerate(only=["study"], progress=False)
    assert (run.asked, run.stored, [file.name for file in run.files]) == (0, 4, ["study__rate.csv"])
    assert [path.relative_to(project) for path in project.rglob("*.sqlite")] == [Path("judgements.sqlite")]
    assert [path.relative_to(project) for path in project.rglob("study__*")] == [Path("figures/study__rate.csv")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_figures_are_made_where_they_are_asked_for(project, monkeypatch):
    """`biaslab figures` in a folder below a project is about that folder: its own store, its own figures."""
    (project / "biaslab.toml").touch()
    (project / "other").mkdir()
    monkeypatch.chdir("other")
    [run] = regenerate(only=["study"], progress=False, notebooks="../notebooks")
    assert (run.asked, len(run.files)) == (4, 1)
    assert not (project / "judgements.sqlite").exists()


def test_the_project_is_the_nearest_folder_that_says_so(project):
    deep = project / "notebooks" / "drafts" / "old"
    deep.mkdir(parents=True)
    assert find_project() == find_project(deep) == find_project(project / "notebooks") == project
    (project / "papermill_runs").mkdir()
    assert find_project(project / "papermill_runs") == project
    (project / "notebooks" / "drafts" / "biaslab.toml").touch()
    assert find_project(deep) == deep.parent
    (deep / "biaslab.toml").mkdir()  # a folder is no file of settings
    assert find_project(deep) == deep.parent


def test_elsewhere_it_is_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(bundled() / "00_tour.ipynb", "downloaded.ipynb")
    shutil.copy(bundled() / "00_tour.ipynb", "00_tour.ipynb")  # one notebook is no project
    monkeypatch.delenv("BIASLAB_PROJECT", raising=False)
    bl.enter_project()
    assert Path.cwd() == find_project() == tmp_path
    (tmp_path / "named").mkdir()
    monkeypatch.setenv("BIASLAB_PROJECT", "named")
    bl.enter_project()
    assert Path.cwd() == tmp_path / "named"
    monkeypatch.setenv("BIASLAB_PROJECT", "missing")
    with pytest.raises(InputError, match="BIASLAB_PROJECT is 'missing', allowed: an existing folder; unset it"):
        bl.enter_project()
