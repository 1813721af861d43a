"""Files are written whole or not at all, and what killed processes leave behind goes away in time."""

import os
import time

import pytest

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
