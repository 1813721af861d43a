"""The cells of every notebook, one after the other in one kernel: what is imported once is imported for all."""

import runpy
from pathlib import Path

import pandas as pd
import pytest

from biaslab.core.project import types_of

SHARED = runpy.run_path(str(Path(__file__).with_name("test_notebooks.py")))
#: Executed by `make docs`, or for minutes: papermill runs all of them in `make test-all`.
ELSEWHERE = {*SHARED["PUBLISHED"], "reward"}
NOTEBOOKS = [
    pytest.param(path, id=path.stem, marks=pytest.mark.thorough if path.stem in ELSEWHERE else [])
    for path in SHARED["NOTEBOOKS"]
    if path.stem not in SHARED["OF_EACH_KIND"]
]
#: Those that ask for label probabilities or, as ``answer`` says, for text.
ANSWERS = [path for path in SHARED["NOTEBOOKS"] if "answer" in types_of(path)]
#: Begin as in a kernel that has just started, in a folder of one's own; what was imported stays.
ANEW = """
import os, matplotlib.pyplot
os.chdir({folder!r})
matplotlib.pyplot.close("all")
get_ipython().reset()
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path_factory.mktemp("kernel")))
    client = manager.client()  # one for all notebooks: each would leave its sockets open
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(kernel, path, folder, **parameters):
    """Run a notebook's cells in a folder, with a simulated judge and few contexts, and return it."""
    import nbformat
    from nbclient import NotebookClient
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    wanted = {"judge": "simulated:position=0.5,noise=1", "n_contexts": 4} | SHARED["SMALLER"].get(path.stem, {})
    wanted |= parameters
    notebook = parameterize_notebook(load_notebook_node(str(path)), wanted)
    beginning = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(ANEW.format(folder=str(folder)))])
    for each in (beginning, notebook):
        runner = NotebookClient(each, km=kernel[0], timeout=600)
        runner.kc = kernel[1]
        runner.execute()
    return notebook


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", NOTEBOOKS)
def test_notebook_cells_run_and_draw(kernel, path, tmp_path):
    notebook = run(kernel, path, tmp_path)
    figures = list((tmp_path / "figures").rglob("*.png"))
    assert figures
    for figure in figures:
        frame = pd.read_csv(figure.with_suffix(".csv"))
        assert frame["estimate"].notna().any()
    assert sum(map(SHARED["pictures"], notebook.cells)) == len(figures)
    assert SHARED["unclean"](notebook, tmp_path) == []


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_notebook_cells_run_on_text_answers(kernel, path, tmp_path):
    run(kernel, path, tmp_path, answer="text")
    assert list((tmp_path / "figures").rglob("*.png"))
