"""Probes and judges of other packages are found by their entry points, in a process that imports nothing of them."""

import subprocess
import sys

import pytest

MODULE = """
from dataclasses import dataclass
from biaslab import SimulatedJudge
from biaslab.core import Metric
from biaslab.probes.position import Position

@dataclass(frozen=True)
class Colour(Position):
    name = "colour"
    metrics = (Metric("red_rate", "P(red)", "share", null=0.5, above="prefers red"), *Position.metrics)

def load(name, dataset):
    return SimulatedJudge(dataset, position=float(name.partition(":")[2]))
"""
ENTRIES = """
[biaslab.probes]
colour = painted:Colour
[biaslab.judges]
painted = painted:load
"""
USE = """
import biaslab as bl
from biaslab.core import find_metric
from biaslab.judges import available
from biaslab.probes import find_probe, names

assert find_metric("red_rate", "colour").above == "prefers red"
assert "colour" in names() and find_probe("colour") is bl.probes.Colour and "Colour" in dir(bl.probes)
assert "painted:…" in available()
judge = bl.load_judge("painted:0.25", bl.load_dataset("graded", limit=2))
assert judge.position == 0.25
"""


@pytest.fixture
def installed(tmp_path):
    """A folder with a package as pip would install it."""
    (tmp_path / "painted.py").write_text(MODULE, encoding="utf-8")
    metadata = tmp_path / "painted-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: painted\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(ENTRIES, encoding="utf-8")
    return tmp_path


def run(code, folder):
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_probes_and_judges_of_another_package_are_found(installed):
    done = run(USE, installed)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_package_that_cannot_be_imported_is_named_and_left_out(installed):
    (installed / "painted.py").write_text("import nowhere_to_be_found", encoding="utf-8")
    done = run("from biaslab.core import find_metric; print(find_metric('first_position_rate').null)", installed)
    assert (done.returncode, done.stdout.strip()) == (0, "0.5")
    assert "ignored biaslab.probes colour = 'painted:Colour': ModuleNotFoundError" in done.stderr
