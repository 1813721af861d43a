"""Files of at most 100 kB take at most 500 MB and five seconds, and get errors of our own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("hostile_files.py")
MOST_MB, MOST_SECONDS = 500, 5


@pytest.mark.slow
def test_hostile_files_raise_own_errors_within_limits(tmp_path):
    """Processor time; most take less than a second."""
    ran = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, check=True)
    measures = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(measures) >= 40
    assert max(size for _, size, *_ in measures) <= 102_400
    assert [name for name, _, raised, *_ in measures if raised.startswith("raw")] == []
    assert [(name, used) for name, _, _, used, _ in measures if used > MOST_MB] == []
    assert [(name, seconds) for name, *_, seconds in measures if seconds > MOST_SECONDS] == []
