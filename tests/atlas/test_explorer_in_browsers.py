"""The explorer in Chromium, by keyboard alone: from the disk, and as a widget in JupyterLab."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import biaslab as bl

KEYS = {"Tab": 9, "Enter": 13, "ArrowDown": 40, "Escape": 27}
SHIFT = 8
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FRAME = "document.querySelector('iframe[title=\"Atlas of recorded judges\"]')"
CELLS = (
    "import biaslab as bl\nexplorer = bl.atlas.explorer().widget()\nexplorer",
    *["sorted(explorer.selection['judge'])"] * 2,
)


class Browser:
    """One page of a headless Chromium, over its debugging protocol."""

    def __init__(self, profile, address):
        websocket = pytest.importorskip("websocket", reason="websocket-client is not installed: it is with jupyterlab")
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
        command += ["--remote-allow-origins=*", f"--user-data-dir={profile}", "--window-size=1400,1000", "about:blank"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        port = wait_for(lambda: port_in(profile / "DevToolsActivePort"))
        pages = wait_for(lambda: [one for one in of_json(port) if one["type"] == "page"])
        self.socket = websocket.create_connection(pages[0]["webSocketDebuggerUrl"], timeout=120)
        self.asked, self.errors = 0, []
        for domain in ("Runtime", "Log", "Page"):
            self.send(f"{domain}.enable")
        self.send("Page.navigate", url=address)

    def send(self, method, **params):
        self.asked += 1
        self.socket.send(json.dumps({"id": self.asked, "method": method, "params": params}))
        while (told := json.loads(self.socket.recv())).get("id") != self.asked:
            self.hear(told)
        assert "error" not in told, told
        return told["result"]

    def hear(self, told):
        about = told.get("params", {})
        kinds = {
            "Runtime.exceptionThrown": "error",
            "Runtime.consoleAPICalled": about.get("type"),
            "Log.entryAdded": about.get("entry", {}).get("level"),
        }
        if kinds.get(told.get("method")) == "error":
            self.errors.append(told)

    def value(self, script):
        return self.send("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def until(self, script, seconds=120):
        return wait_for(lambda: self.value(script), seconds)

    def press(self, key, modifiers=0):
        about = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": modifiers}
        text = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def close(self):
        self.socket.close()
        end(self.process)


def port_in(file):
    """Return the port that the browser wrote, or nothing as long as the file is missing or empty."""
    return file.is_file() and (file.read_text().splitlines() or [""])[0]


def of_json(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=30) as answer:
        return json.load(answer)


def wait_for(what, seconds=60):
    end_at = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end_at, f"nothing within {seconds} s"
        time.sleep(0.2)
    return found


def end(process):
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


@pytest.fixture
def browse(tmp_path):
    if CHROMIUM is None:
        pytest.skip("no chromium here")
    opened = []

    def open_page(address):
        opened.append(Browser(tmp_path / "profile", address))
        return opened[-1]

    yield open_page
    for one in opened:
        one.close()


@pytest.fixture
def lab(tmp_path):
    """Return the address of a JupyterLab with a notebook whose first cell shows the widget."""
    for name in ("jupyterlab", "anywidget"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install '.[notebooks,widgets]'")
    cells = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
        for n, source in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "explorer.ipynb").write_text(json.dumps(book))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    own = {f"JUPYTER_{name}": str(tmp_path / name) for name in places} | {
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "s")
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", "--LabApp.news_url=''"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | own,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    yield f"http://127.0.0.1:{port}/lab/tree/explorer.ipynb", port
    end(process)


@pytest.mark.slow
def test_page_from_disk_is_usable_by_keyboard(browse, tmp_path):
    page = browse(bl.atlas.explorer().save(tmp_path / "atlas.html").as_uri())
    page.until("document.querySelectorAll('#rows tr').length")
    page.press("Tab")
    page.press("Tab")
    page.send("Input.insertText", text="gemini")
    assert page.until("document.querySelector('#told').value").endswith(" of 2 judges")
    while page.value("document.activeElement.closest('td.judge') === null"):
        page.press("Tab")
    assert not page.value("document.querySelector('#tip').hidden"), "focus shows what hovering shows"
    page.press("Enter")
    assert "published at" in page.value("document.querySelector('tr.more').textContent")
    assert page.value("document.querySelector('tr.more a').href").startswith("https://github.com/")
    first = page.value("document.activeElement.closest('tr').rowIndex")
    page.press("ArrowDown")
    assert page.value("document.activeElement.closest('tr').rowIndex") == first + 2
    assert page.errors == []


@pytest.mark.thorough
def test_jupyterlab_selection_is_the_rows_shown(browse, lab):
    address, port = lab
    wait_for(lambda: is_served(port), 120)
    page = browse(address)
    page.until("document.querySelector('.jp-NotebookPanel .jp-KernelName')?.textContent.includes('Python 3')")
    page.until("document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'")
    time.sleep(3)  # until then a cell that is run asks for a kernel
    run(page, 0)
    page.until(f"{FRAME} !== null")
    output = (
        "document.querySelectorAll('.jp-Notebook .jp-Cell')[{}].querySelector('.jp-OutputArea-output')?.textContent"
    )
    time.sleep(5)  # the page in the frame draws, and tells what it shows
    run(page, 1)
    assert len(page.until(output.format(1)).split(",")) == 44
    page.value(f"{FRAME}.focus()")
    page.press("Tab")
    page.press("Tab")
    page.send("Input.insertText", text="gpt-5")
    time.sleep(2)
    run(page, 2)
    assert page.until(output.format(2)) == "['gpt-5']"
    assert page.errors == []


def run(page, cell):
    """Run a cell as a reader does, by Shift+Enter in it."""
    page.value(f"document.querySelectorAll('.jp-Notebook .jp-Cell')[{cell}].querySelector('.cm-content').focus()")
    time.sleep(0.5)
    page.press("Enter", SHIFT)


def is_served(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api", timeout=10) as answer:
            return answer.status == 200
    except OSError:
        return False
