"""Notebooks show every figure once, in the cell that draws it, whether or not somebody set up a backend before."""

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import biaslab as bl

SET_UP = """
import pandas as pd
import biaslab as bl

row = {"probe": "position", "judge": "j", "dataset": "d", "metric": "first_position_rate", "p_value": 0.01, "seed": 0}
row |= {"q_value": 0.01, "mde": 0.1, "ci_level": 0.95, "n_contexts": 9, "n_trials": 90, "n_dropped": 0, "method": "t"}
values = {"attribute": list("ab"), "estimate": [0.6, 0.7], "ci_low": [0.5, 0.6], "ci_high": [0.7, 0.8]}
estimates = pd.DataFrame(row | values)
"""
#: What a cell draws, and how many pictures it shows.
CELLS = {
    SET_UP: 0,
    "bl.plots.intervals(estimates)": 1,
    "for name in 'xy':\n    bl.plots.save(bl.plots.intervals(estimates), estimates, 'position', name)": 2,
    "axes = bl.plots.panels(2)\nbl.plots.save(axes, estimates, 'position', 'z');": 1,
    "bl.plots.hover(bl.plots.intervals(estimates)).svg[:5]": 1,
    "import matplotlib.pyplot as plt\nplt.plot([1, 2]);": 1,
    "plt.rcParams['font.size']": 0,
}


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def test_styled_keeps_settings_of_the_backend():
    """As the inline backend turns ``interactive`` on, by the first figure."""
    before = plt.isinteractive()
    try:
        bl.plots.styled(plt.ion)()
        assert plt.isinteractive()
    finally:
        plt.interactive(before)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("before", ["", "%matplotlib inline", "import matplotlib.pyplot as plt"])
def test_every_cell_shows_each_of_its_figures_once(before, tmp_path):
    notebook = new_notebook(cells=[new_code_cell(source) for source in (before, *CELLS)])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    nbformat.validate(notebook)
    assert [pictures(cell) for cell in notebook.cells[1:]] == list(CELLS.values())
    assert notebook.cells[-1].outputs[0]["data"]["text/plain"] == "10.0"  # not ours
