"""What works without the extras, what names them, and that the lists of them agree."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from biaslab.core.checks import EXTRAS, require_extra
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
    names = sorted(BROUGHT.union(*EXTRAS.values()))
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
    local = "needs accelerate, gguf, psutil, torch, transformers: pip install 'biaslab[local]'"
    assert said == {
        "judge": f"the model 'smollm2-135m' {local}",
        "hub": f"the model 'organisation/model' {local}",
        "evaluator": f"the judge 'evaluator:folder' {local}",
        "encoder": f"the model 'smollm2-135m' {local}",
        "train": f"biaslab.distill.train {local}",
        "figures": "executing notebooks needs ipywidgets, jupyterlab, papermill: pip install 'biaslab[notebooks]'",
        "dataset": "the data set 'mteb/summeval' needs datasets: pip install 'biaslab[hub]'",
        "ray": "a judge of 2 replicas needs ray: pip install 'biaslab[ray]'",
    }


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_are_those_of_the_project(extra):
    assert names_in(PROJECT["optional-dependencies"][extra]) == set(EXTRAS[extra])
    assert not names_in(PROJECT["dependencies"]) & {*EXTRAS[extra], *BROUGHT}


def test_extra_all_is_local_and_notebooks():
    assert PROJECT["optional-dependencies"]["all"] == ["biaslab[local,notebooks]"]


def test_error_names_missing_packages_only(monkeypatch):
    require_extra("notebooks", "this")
    monkeypatch.setitem(sys.modules, "papermill", None)
    with pytest.raises(MissingDependencyError, match=r"^this needs papermill: pip install 'biaslab\[notebooks\]'$"):
        require_extra("notebooks", "this")
