"""Files are written whole or not at all, and what killed processes leave behind goes away in time."""

import ast
import csv
import io
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab
from biaslab.core.errors import OutputError
from biaslab.core.files import csv_of, guarded, read_csv, unguarded, write_csv
from biaslab.core.output import replacing

WEEK = 7 * 24 * 3600


def test_a_file_is_replaced_at_the_end_or_not_at_all(tmp_path):
    table = tmp_path / "table [1].csv"
    with replacing(table) as partial:
        partial.write_text("whole")
        assert not table.exists()
    with pytest.raises(UnicodeEncodeError), replacing(table) as partial:
        partial.write_text("torn: \ud800", encoding="utf-8")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("table [1].csv", "whole")]


@pytest.mark.parametrize(("age", "is_left"), [(2 * WEEK, False), (WEEK // 2, True)])
def test_partial_file_of_a_killed_process_expires_in_a_week(tmp_path, age, is_left):
    left, other = tmp_path / ".table [1].csv.1.partial", tmp_path / ".other.csv.1.partial"
    for file in (left, other):
        file.touch()
        os.utime(file, (time.time() - age,) * 2)
    with replacing(tmp_path / "table [1].csv") as partial:
        partial.write_text("whole")
    assert (left.exists(), other.exists()) == (is_left, True)


FORMULAS = [
    '=HYPERLINK("http://evil")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "-",
    "=",
    "'=1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_begins_as_a_formula(text, tmp_path):
    frame = pd.DataFrame({"judge": [text, "a judge"], text: ["x", "y"], "n": [-1.5, 2.0]})
    frame["kind"] = pd.Categorical([text, "b"])
    cells = [cell for row in csv.reader(io.StringIO(csv_of(frame), newline="")) for cell in row]
    assert len(cells) == 12
    assert [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n"))] == ["-1.5"]
    write_csv(frame, tmp_path / "x.csv")
    pd.testing.assert_frame_equal(read_csv(tmp_path / "x.csv"), frame.astype({"kind": "str"}), check_dtype=False)


@given(st.text("=+-@\t\r\n'1.e% a", max_size=6))
def test_guarded_cells_round_trip(text):
    assert unguarded(guarded(text)) == text
    first = guarded(text)[:1]
    assert first not in set("=+-@\t\r\n") or pd.notna(pd.to_numeric(text.rstrip("%"), errors="coerce"))


@pytest.mark.parametrize("cell", ["-1", "+0.5", "-1e-3", "+5%", -1.0, None, float("nan"), True])
def test_numbers_stay_numbers(cell):
    assert guarded(cell) is cell


def test_frames_without_formulas_are_written_as_pandas_does():
    frame = pd.DataFrame(
        {"a": ["x", None, "y, z"], "b": [1, 2, 3], "c": [0.1, np.nan, -1e-9], "d": [True, False, None]}
    )
    assert csv_of(frame) == frame.to_csv(index=False, lineterminator="\n")


def test_only_two_modules_call_to_csv():
    """`to_csv` of pandas is called in one place; a digest, which no file holds, is the one exception."""
    root = Path(biaslab.__file__).parent
    texts = {path: text for path in root.rglob("*.py") if "to_csv" in (text := path.read_text(encoding="utf-8"))}
    calls = [
        path.relative_to(root).as_posix()
        for path, text in texts.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "to_csv"
    ]
    assert sorted(calls) == ["core/files.py", "store/tables.py"]


def test_a_disk_that_is_full_names_the_file():
    if not Path("/dev/full").exists():
        pytest.skip("no full disk")
    with pytest.raises(OutputError, match=r"cannot write /dev/nowhere/x.csv \(No such file or directory\); free some"):
        write_csv(pd.DataFrame({"a": [1]}), "/dev/nowhere/x.csv")
