"""The wheel holds what the code reads: notebooks, data sets, prompts, templates, the atlas."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILT_FROM = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "biaslab", "notebooks")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
USED = """
from pathlib import Path

import pandas as pd

import biaslab as bl
from biaslab.cli import main
from biaslab.distill import aspects
from biaslab.figures.regenerate import list_notebooks

place = bl.__file__
kept = Path(place).parent / "atlas" / "log_perplexities.parquet"
assert ".whl" not in place and "site" in place, place
assert main(["atlas", "build", "."]) == 2  # the scripts that build it are in the repository alone
print(len(list_notebooks()), len(pd.read_parquet(kept)), len(aspects()), len(bl.atlas.trials(source="llmbar")))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this working tree, built without the network from a copy."""
    made = tmp_path_factory.mktemp("wheel")
    for source in (ROOT / name for name in BUILT_FROM):
        if source.is_dir():
            shutil.copytree(source, made / source.name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, made)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*pip, "--wheel-dir", "dist", "."], cwd=made, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [file] = (made / "dist").glob("*.whl")
    return file


@pytest.mark.slow
def test_every_file_of_the_package_and_every_notebook_is_in_it(wheel):
    listed = subprocess.run(
        ["git", "ls-files", "biaslab", "notebooks"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("git does not know this folder, so nobody says which files are meant")
    wanted = {name if name.startswith("biaslab") else f"biaslab/{name}" for name in listed.stdout.split()}
    wanted -= {name for name in wanted if "/contributed_logs/" in name and name.endswith(".parquet")}  # for CI alone
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted
    kinds = {Path(name).suffix for name in held}
    assert kinds >= {".ipynb", ".parquet", ".csv", ".json", ".j2", ".md", ".pyi", ".typed"}
    assert "biaslab/atlas/log_perplexities.parquet" in held


@pytest.mark.slow
def test_installed_wheel_reads_its_data_files(wheel, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{USED}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    notebooks, perplexities, aspects, trials = map(int, done.stdout.split())
    assert notebooks == len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert min(perplexities, aspects, trials) > 0
