"""Room beside other packages: what is declared is what is tested, and every Python and vLLM find releases that fit."""

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT["classifiers"]
    if name.startswith("Programming Language :: Python :: 3.")
]
USED = [
    Requirement(text) for text in (*PROJECT["dependencies"], *EXTRAS["local"], *EXTRAS["notebooks"], *EXTRAS["hub"])
]
UNREACHED = ("error sending request", "failed to fetch", "dns error", "operation timed out")


def pinned(file):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def resolve(tmp_path, python, *options, beside=()):
    """Resolve `biaslab[all]` by metadata alone, nothing is downloaded; skip where no package index can be reached."""
    if importlib.util.find_spec("uv") is None:
        pytest.skip("uv is not installed: pip install 'biaslab[test]'")
    others = tmp_path / "others.in"
    others.write_text("\n".join(beside))
    uv = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--extra", "all"]
    # some of the newest releases want the fifth patch of Python 3.11
    where = ["--python-version", f"{python}.5", "--python-platform", "x86_64-manylinux_2_35"]
    words = [*uv, *where, "--only-binary", ":all:", "--no-binary", "rouge-score", *options, "pyproject.toml", others]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    if any(words in done.stderr.lower() for words in UNREACHED):
        pytest.skip(f"the package index is out of reach: {done.stderr.strip().splitlines()[0]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(line.split("==") for line in done.stdout.split() if "==" in line)


@pytest.mark.parametrize("needed", USED, ids=lambda needed: needed.name)
def test_lowest_declared_release_is_the_tested_one(needed):
    floors = [Version(part.version) for part in needed.specifier if part.operator == ">="]
    assert floors == [pinned("constraints-lowest.txt")[canonicalize_name(needed.name)]]


def test_the_newest_that_are_tested_are_admitted():
    newest = pinned("constraints.txt")
    for needed in USED:
        name = canonicalize_name(needed.name)
        assert name == "datasets" or needed.specifier.contains(newest[name]), needed


def test_every_python_is_in_the_workflow():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert f"python: [{', '.join(map(repr, PYTHONS))}]".replace("'", '"') in workflow
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.thorough
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize(
    "options", [(), ("--resolution", "lowest-direct"), ("--constraint", "constraints.txt")], ids=str
)
def test_every_python_finds_wheels(tmp_path, python, options):
    found = resolve(tmp_path, python, *options)
    assert {"torch", "transformers", "pandas", "papermill"} <= found.keys()


@pytest.mark.thorough
@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_vllm_fits_beside_it(tmp_path, python):
    """An environment of both: `uv pip compile --extra all pyproject.toml` with vllm==0.32 added."""
    found = resolve(tmp_path, python, beside=["vllm==0.32"])
    assert found["vllm"] == "0.32.0"
    assert Version(found["transformers"]) < Version("5.20")
