"""What works without the extras, what names them, and that the lists of them agree."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from biaslab.core.checks import EXTRAS as KNOWN_EXTRAS, require_extra
from biaslab.core.errors import MissingDependencyError

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: What those of the extras bring in turn, and so is not there without them either.
BROUGHT = {
    "huggingface_hub",
    "IPython",
    "ipykernel",
    "jupyter_client",
    "nbclient",
    "nbformat",
    "safetensors",
    "tokenizers",
}
WITHOUT = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, *where):
        return None if name.split(".")[0] in NAMES else self.finder.find_spec(name, *where)

sys.meta_path[:] = map(Without, sys.meta_path)
"""
SERVER = '''
import json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Judge(BaseHTTPRequestHandler):
    """Prefers whatever stands first, with probability 3/4."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        first = {"token": "Summary", "logprob": 0.0, "bytes": None}
        either = [{"token": f" {name}", "logprob": p, "bytes": None} for name, p in (("A", -0.2877), ("B", -1.3863))]
        tokens = [{**first, "top_logprobs": [first]}, {**either[0], "top_logprobs": either}]
        said = {"message": {"role": "assistant", "content": "Summary A"}, "finish_reason": "stop", "index": 0,
                "logprobs": {"content": tokens, "refusal": None}}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "choices": [said],
                "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
'''
WALK = """
import biaslab as bl
from biaslab.cli import main

def run(*words):
    assert main(words) == 0, words

run("list")
position = ["probe", "position", "--attribute", "coherence", "--contexts"]
run(*position, "6", "--judge", "simulated:position=1", "--out", "p.csv")
run("table", "p.csv")
run(*position, "1", "--judge", f"api:scripted@{address}")
run("audit", "atlas:gpt-4@llmbar?template=Vanilla", "--out", "audit.csv")
run("atlas", "list")
run("notebooks", "copy")
data = bl.load_dataset("graded", limit=2)
rates = bl.atlas.estimates(probe="position", metric="first_position_rate", source="llmbar")
bl.plots.save(bl.plots.intervals(rates.head(3), "first_position_rate", by="judge"), rates, "lean", "rates", ".")
assert bl.distill.Stars(aspects=["coherence"])
"""
REFUSED = """
import biaslab as bl
from biaslab.figures import regenerate

data = bl.load_dataset("graded", limit=2)
tries = {
    "judge": bl.LocalJudge,
    "hub": lambda: bl.load_judge("organisation/model"),
    "evaluator": lambda: bl.load_judge("evaluator:folder"),
    "encoder": bl.scoring.load_encoder,
    "overlap": lambda: bl.scoring.reference_scores(data),
    "train": lambda: bl.distill.train,
    "figures": lambda: regenerate(["tour"]),
    "dataset": lambda: bl.load_dataset("hub"),
    "ray": lambda: bl.load_judge("ray:2:api:scripted@http://localhost:8000/v1"),
}
for name, attempt in tries.items():
    try:
        attempt()
    except bl.BiaslabError as error:
        print(f"{name}: {error}")
"""


def script(*parts):
    """Run parts of a script, one after the other, where no extra is installed."""
    names = sorted(BROUGHT.union(*KNOWN_EXTRAS.values()))
    code = "".join([f"NAMES = {names}\n", WITHOUT, *parts])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)


def names_in(requirements):
    return {re.split(r"[><=\[ ]", requirement)[0] for requirement in requirements}


@pytest.mark.slow
def test_a_lean_install_lists_asks_a_server_audits_and_draws(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BIASLAB_API_KEY", "none")
    done = script(SERVER, WALK)
    assert done.returncode == 0, done.stderr[-2000:]
    asked = done.stdout.partition("position of api:scripted")[2]
    assert re.search(r"first_position_logit.* 1\.099 ", asked)  # log 3
    assert "60 judge calls" in asked
    for file in ("p.csv", "lean__rates.png", "notebooks/position.ipynb"):
        assert Path(file).stat().st_size > 0


@pytest.mark.slow
def test_missing_extra_is_named():
    done = script(REFUSED)
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    clone = "in a clone of biaslab"
    local = f"needs accelerate, gguf, psutil, torch, transformers: pip install '.[local]' {clone}"
    assert said == {
        "judge": f"the model 'smollm2-135m' {local}",
        "hub": f"the model 'organisation/model' {local}",
        "evaluator": f"the judge 'evaluator:folder' {local}",
        "encoder": f"the model 'smollm2-135m' {local}",
        "overlap": f"ROUGE-1 needs rouge_score, sacrebleu: pip install '.[text-metrics]' {clone}",
        "train": f"biaslab.distill.train {local}",
        "figures": f"executing notebooks needs ipywidgets, jupyterlab, papermill: pip install '.[notebooks]' {clone}",
        "dataset": f"the data set 'mteb/summeval' needs datasets: pip install '.[hub]' {clone}",
        "ray": f"a judge of 2 replicas needs psutil, ray: pip install '.[ray]' {clone}",
    }


@pytest.mark.parametrize("extra", KNOWN_EXTRAS)
def test_extras_are_those_of_the_project(extra):
    assert names_in(PROJECT["optional-dependencies"][extra]) == set(KNOWN_EXTRAS[extra])
    assert not names_in(PROJECT["dependencies"]) & {*KNOWN_EXTRAS[extra], *BROUGHT}


def test_extra_all_is_local_and_notebooks():
    assert PROJECT["optional-dependencies"]["all"] == ["biaslab[local,notebooks,text-metrics]"]


def test_error_names_missing_packages_only(monkeypatch):
    require_extra("notebooks", "this")
    monkeypatch.setitem(sys.modules, "papermill", None)
    with pytest.raises(
        MissingDependencyError, match=r"^this needs papermill: pip install '\.\[notebooks\]' in a clone"
    ):
        require_extra("notebooks", "this")


ROOT = Path(__file__).resolve().parents[1]
PROJECT_room = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT_room["optional-dependencies"]
PYTHONS = [
    name.rpartition(" ")[2]
    for name in PROJECT_room["classifiers"]
    if name.startswith("Programming Language :: Python :: 3.")
]
USED = [
    Requirement(text)
    for text in PROJECT_room["dependencies"]
    + [text for name in ("local", "notebooks", "text-metrics", "hub") for text in EXTRAS[name]]
]
UNREACHED = ("error sending request", "failed to fetch", "dns error", "operation timed out")


def pinned(file):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def resolve(tmp_path, python, *options, beside=()):
    """Resolve `biaslab[all]` by metadata alone, nothing is downloaded; skip where no package index can be reached."""
    if importlib.util.find_spec("uv") is None:
        pytest.skip("uv is not installed: pip install '.[test]'")
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


def test_core_dependencies_are_few():
    assert len(PROJECT_room["dependencies"]) <= 16


def test_pre_commit_runs_the_ruff_of_the_constraints():
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert f"rev: v{pinned('constraints.txt')['ruff']} " in config


def test_light_packages_are_dependencies_or_test_runners():
    [listed] = re.findall(r"^LIGHT_PACKAGES := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    declared = {Requirement(text).name for text in (*PROJECT_room["dependencies"], *EXTRAS["test"])}
    assert set(listed.split()) <= declared


def test_every_python_is_in_the_workflow():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    assert f"python: [{', '.join(map(repr, PYTHONS))}]".replace("'", '"') in workflow
    assert PROJECT_room["requires-python"] == f">={PYTHONS[0]}"


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


BUILT_FROM = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "biaslab", "notebooks")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
USED_wheel = """
from pathlib import Path

import pandas as pd

import biaslab as bl
from biaslab.cli import main
from biaslab.distill import aspects_of
from biaslab.figures.regenerate import list_notebooks

place = bl.__file__
kept = Path(place).parent / "atlas" / "log_perplexities.parquet"
assert ".whl" not in place and "site" in place, place
assert main(["atlas", "build", "."]) == 2  # the scripts that build it are in the repository alone
print(len(list_notebooks()), len(pd.read_parquet(kept)), len(aspects_of()), len(bl.atlas.trials(source="llmbar")))
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
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{USED_wheel}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    notebooks, perplexities, aspects, trials = map(int, done.stdout.split())
    assert notebooks == len(list((ROOT / "notebooks").glob("*.ipynb")))
    assert min(perplexities, aspects, trials) > 0


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
