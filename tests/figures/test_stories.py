"""Notebooks are stories: cells that a reader follows, each after a sentence that says what it is for."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
STORIES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
_MOST = 1500  # lines of code in all notebooks, with what four papers draw; 1,500 is the aim


def code_of(name):
    """Return the cells of code of a notebook, without its parameters."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return [
        cell for cell in cells if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", [])
    ]


@pytest.mark.parametrize("name", STORIES)
def test_no_cell_is_longer_than_fifteen_lines(name):
    lengths = {cell["id"]: len(cell["source"]) for cell in code_of(name)}
    assert {cell: length for cell, length in lengths.items() if length > 15} == {}


def test_notebooks_together_stay_short():
    lines = [line for name in STORIES for cell in code_of(name) for line in cell["source"] if line.strip()]
    assert len(lines) <= _MOST
