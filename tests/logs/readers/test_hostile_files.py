"""Files of at most 100 kB take at most 500 MB and five seconds, and get errors of our own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("hostile_files.py")
MOST_MB, MOST_SECONDS = 500, 5


@pytest.fixture(scope="module")
def measures(tmp_path_factory):
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("files"))], capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.slow
def test_hostile_files_are_small_and_many(measures):
    assert len(measures) >= 40
    assert max(size for _, size, *_ in measures) <= 102_400


@pytest.mark.slow
def test_hostile_files_raise_own_errors(measures):
    assert [name for name, _, raised, *_ in measures if raised.startswith("raw")] == []


@pytest.mark.slow
def test_hostile_files_take_500_megabytes_at_most(measures):
    assert [(name, used) for name, _, _, used, _ in measures if used > MOST_MB] == []


@pytest.mark.slow
def test_hostile_files_take_five_seconds_at_most(measures):
    """Processor time; most take less than a second."""
    assert [(name, seconds) for name, *_, seconds in measures if seconds > MOST_SECONDS] == []
