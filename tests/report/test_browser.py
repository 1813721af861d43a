"""The tour runs in JupyterLab, and what notebooks show is sorted and searched, in a real browser."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import biaslab as bl

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("run_notebook.cjs")


@pytest.fixture
def browser():
    return found_browser()


def found_browser():
    """Return node, Chromium and an environment where node finds playwright-core; skip where one is missing."""
    node, chromium = shutil.which("node"), shutil.which("chromium") or shutil.which("google-chrome")
    if node is None or chromium is None:
        pytest.skip("no node or no chromium here; Debian's packages are nodejs, npm and chromium")
    environment = dict(os.environ)
    if npm := shutil.which("npm"):
        found = subprocess.run([npm, "root", "--global"], capture_output=True, text=True, check=False).stdout.strip()
        environment["NODE_PATH"] = os.pathsep.join(filter(None, (environment.get("NODE_PATH"), found)))
    check = [node, "-e", "require.resolve('playwright-core')"]
    if subprocess.run(check, env=environment, capture_output=True, check=False).returncode:
        pytest.skip("node finds no playwright-core here; npm install --global playwright-core, or set NODE_PATH")
    return node, chromium, environment


@pytest.fixture
def jupyter(tmp_path):
    """JupyterLab on a copy of the tour that asks a simulated judge; yields the notebook's address."""
    import nbformat

    tour = nbformat.read(ROOT / "notebooks" / "00_tour.ipynb", as_version=4)
    [parameters] = [cell for cell in tour.cells if "parameters" in cell.metadata.get("tags", [])]
    parameters.source += '\njudge = "simulated:position=0.5,noise=1"'
    nbformat.write(tour, tmp_path / "tour.ipynb")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = [
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=t",
        f"--notebook-dir={tmp_path}",
        "--LabApp.expose_app_in_browser=True",
    ]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", *settings]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path / ".config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / ".run"),
    }
    with (tmp_path / "lab.log").open("w") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env=environment)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/status?token=t", process, tmp_path / "lab.log")
            yield f"http://127.0.0.1:{port}/lab/tree/tour.ipynb?token=t"
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(address, process, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(address):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.3)
    pytest.fail(f"JupyterLab does not answer: {log.read_text()[-1500:]}")


@pytest.mark.slow
def test_the_tour_runs_in_jupyterlab(browser, jupyter, tmp_path):
    import nbformat

    node, chromium, environment = browser
    picture = tmp_path / "tour.png"
    command = [node, str(SCRIPT), jupyter, chromium, str(picture)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["errors"] == []
    assert not [text for text in shown["warnings"] if "Warning" in text]
    assert shown["cards"] == 1
    assert shown["images"] >= 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    saved = nbformat.read(tmp_path / "tour.ipynb", as_version=4)
    assert all(cell.execution_count for cell in saved.cells if cell.cell_type == "code")
    assert str(ROOT) not in json.dumps([cell.get("outputs", []) for cell in saved.cells])


@pytest.mark.slow
def test_scripts_sort_and_filter_estimates_and_cards(browser, tmp_path):
    node, chromium, environment = browser
    data = bl.load_dataset("graded", limit=4)
    probe = bl.probes.Position(attributes=["coherence", "fluency"], templates=[1])
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=0.5, noise=1), data, progress=False)
    shown = bl.show(trials, n=12, sort="trials")
    estimates = probe.estimate(trials)
    page = tmp_path / "page.html"
    parts = (bl.report.overview(estimates)._repr_html_(), shown._repr_html_())
    page.write_text(f"<!DOCTYPE html><meta charset='utf-8'>{''.join(parts)}", encoding="utf-8")
    command = [node, str(SCRIPT.with_name("use_pages.cjs")), str(page), chromium]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["errors"] == []
    for way, ascending in (("up", True), ("down", False)):
        numbers = [float(cell.split()[0].replace("−", "-")) for cell in seen[way]["cells"] if cell != "–"]
        assert numbers == sorted(numbers, reverse=not ascending)
        assert seen[way]["told"] == ("ascending" if ascending else "descending")
    tested = [cell for cell in seen["q"]["cells"] if cell]
    assert 0 < len(tested) < len(seen["q"]["cells"])
    assert seen["q"]["cells"][: len(tested)] == tested  # what is not tested stands last
    assert seen["all"] == {"at": list(range(12)), "told": "12 of 12 cards"}
    sizes = [one.size for one in shown.exhibits]
    assert [sizes[at] for at in seen["effect"]["at"]] == sorted(sizes, reverse=True)
    contexts = [one.where["context_id"] for one in shown.exhibits]
    assert [contexts[at] for at in seen["context"]["at"]] == sorted(contexts)
    wanted = {at for at, one in enumerate(shown.exhibits) if one.where["attribute"] == "fluency"}
    assert 0 < len(wanted) < 12
    assert set(seen["filtered"]["at"]) == wanted
    assert seen["none"] == {"at": [], "told": "0 of 12 cards"}
