"""A complete store in a folder that may not be written to is read, and asks nothing again."""

import os
import tempfile
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.probes.position import Position

NOBODY = 65534


@pytest.fixture
def folder():
    """A folder whose parents every user may enter, unlike those of ``tmp_path``."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Path(place)
        Path(place).chmod(0o755)


def succeeds(act):
    """Return whether an act raises nothing in a process without the rights of root."""
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a process with other rights")
def test_complete_store_in_a_read_only_folder_is_read(folder):
    data, path = bl.load_dataset("graded", limit=2), folder / "store.sqlite"

    def run():
        options = {"store": path, "progress": False}
        return bl.collect(Position(templates=[1]), bl.SimulatedJudge(data), data, **options).attrs

    stored = run()["asked"]
    path.chmod(0o444)
    folder.chmod(0o555)
    assert stored > 0
    assert succeeds(lambda: [run()["asked"]].remove(0))
