"""``biaslab batch``: from a probe to its estimates through files."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.cli import main

BatchServer = runpy.run_path(str(Path(__file__).parents[1] / "judges" / "batch_server.py"))["BatchServer"]
EXPORT = ["batch", "export", "position", "s.jsonl", "--attribute", "coherence", "--contexts", "1", "--judge"]


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_export_submit_status_import(capsys):
    with BatchServer() as server:
        judge = f"api:judge@{server.url}"
        assert main([*EXPORT, judge]) == 0
        assert "60 requests; next: biaslab batch submit s.jsonl" in capsys.readouterr().out
        assert main(["batch", "status", "s.jsonl"]) == 0
        assert "nothing was submitted" in capsys.readouterr().out
        assert main(["batch", "submit", "s.jsonl"]) == 0
        assert "s.jsonl: batch-0\n1 submitted" in capsys.readouterr().out
        assert main(["batch", "submit", "s.jsonl"]) == 0
        assert "submitted already" in capsys.readouterr().out
        assert main(["batch", "status", "s.jsonl"]) == 0
        assert "batch-0 completed, 60 of 60 done" in capsys.readouterr().out
        assert main(["batch", "import", "s.jsonl"]) == 0
        assert "60 replies stored, 0 already stored" in capsys.readouterr().out
        assert not server.asked
        assert main(["probe", "position", "--attribute", "coherence", "--contexts", "1", "--judge", judge]) == 0
        assert "0 judge calls, 60 replies from the store" in capsys.readouterr().out
        assert not server.asked
        assert main([*EXPORT, judge]) == 0
        assert "nothing to export" in capsys.readouterr().out


def test_a_file_of_results_from_a_cluster(capsys):
    assert main([*EXPORT, "api:judge@http://localhost:1/v1"]) == 0
    server, lines = BatchServer(), Path("s.jsonl").read_text().splitlines()
    results = [server.result(json.loads(line)) for line in lines[:50]]
    Path("results.jsonl").write_text("\n".join(map(json.dumps, results)))
    assert main(["batch", "import", "s.jsonl", "results.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "50 replies stored" in shown
    assert "10 requests still open" in shown
    with bl.Store("judgements.sqlite", create=False) as store:
        assert len(store) == 50


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        ([*EXPORT, "simulated"], 2, "a judge behind a server"),
        (["batch", "import", "none.jsonl"], 2, "batch export"),
        (["batch", "submit", "none.jsonl"], 2, "batch export"),
    ],
)
def test_wrong_use(words, code, expected, capsys):
    assert main(words) == code
    assert expected in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_import_of_batch_loads_nothing_heavy():
    heavy = "{'torch', 'openai', 'matplotlib', 'pandas', 'numpy'}"
    script = f"import sys, biaslab.cli.probe; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
