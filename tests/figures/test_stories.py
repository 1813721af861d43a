"""Notebooks are stories: cells that a reader follows, each after a sentence that says what it is for."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
STORIES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("name", STORIES)
def test_no_cell_is_longer_than_fifteen_lines(name):
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [
        cell for cell in cells if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", [])
    ]
    lengths = {cell["id"]: len(cell["source"]) for cell in code}
    assert {cell: length for cell, length in lengths.items() if length > 15} == {}
