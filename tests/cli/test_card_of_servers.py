"""`biaslab card` and `probe` of judges behind servers that people have: chat alone, text alone, none at all."""

import runpy
import time
from pathlib import Path

import pandas as pd
import pytest

from biaslab.cli import main

FOLDER = Path(__file__).resolve().parents[1] / "judges"
AnsweringServer = runpy.run_path(str(FOLDER / "answering_server.py"))["AnsweringServer"]
SMALL = ["--contexts", "2", "--attribute", "coherence", "--candidates", "2"]


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def chat_alone(*options):
    return AnsweringServer(*options, probabilities=False, completions=False)


def card(server, *probes, options=""):
    name = f"api:judge@{server.url}?patience.first_wait=0.001&patience.reach=0.3&patience.retries=1{options}"
    return main(["card", name, *SMALL, *(word for probe in probes for word in ("--probe", probe))])


@pytest.mark.slow
def test_card_of_a_chat_server_names_substituted_requests(capsys):
    probes = ("verbosity", "familiarity", "source")
    with chat_alone() as server:
        assert card(server, *probes) == 0
        message = capsys.readouterr()
        assert card(server, *probes) == 0
        assert capsys.readouterr().out.count(" 0 judge calls") == len(probes)
    for words in (message.out, Path("card.md").read_text(), Path("card.html").read_text()):
        assert "verbosity reads text instead of label probabilities (the server gives no log-probabilities" in words
        assert "uses the perplexity of the embedded model instead of the judge" in words
    assert "not measured" not in message.out
    assert "Warning" not in message.err.replace("MissingDataWarning", "")
    cells = pd.read_csv("card.csv")
    assert set(cells["probe"]) == set(probes)
    assert cells.loc[cells["probe"] == "verbosity", "estimate"].notna().all()
    assert Path("card.png").stat().st_size > 10_000


@pytest.mark.slow
def test_failed_probe_is_unmeasured_and_card_is_saved_each_time(capsys):
    there = []

    def script(text, attempt):
        there.append(Path("card.html").exists())
        return "too long" if "Summary A" in text else ""

    with chat_alone(script) as server:
        assert card(server, "position", "verbosity", "anchoring", "source") == 0
    message = capsys.readouterr().out
    assert "position of api:judge" in message
    assert "not measured; context 'news-01'" not in message  # it is the server that refuses, not a check
    assert "the prompt is too long for the server (HTTP 400" in message
    assert "anchoring of api:judge" in message  # it needs two attributes
    page = Path("card.md").read_text()
    assert "Not measured: position (the prompt is too long" in page
    assert "Not measured: anchoring (attributes is" in page
    assert set(pd.read_csv("card.csv")["probe"]) == {"verbosity", "source"}
    assert not there[0]
    assert there[-1]  # saved before the last probe was asked


@pytest.mark.slow
def test_unreachable_server_is_reported_once(capsys):
    with chat_alone() as server:
        pass
    began = time.monotonic()
    assert card(server) == 3
    captured = capsys.readouterr()
    assert time.monotonic() - began < 60
    assert "not measured; nothing answers" not in captured.out
    assert captured.err.count("\n") == 1
    assert f"biaslab: nothing answers at {server.url} (ConnectionRefusedError)" in captured.err
    assert "start the server, or check its address" in captured.err
    assert not Path("card.html").exists()


@pytest.mark.slow
def test_refused_key_stops_the_remaining_probes(capsys):
    asked = []

    def script(text, attempt):
        if "Summary A" in text:
            asked.append(text)
            return "401"
        return ""

    with chat_alone(script) as server:
        assert card(server, "verbosity", "position", "source", "comparative") == 0
    assert len(asked) <= 64  # what was in flight of one probe
    message = capsys.readouterr().out
    assert "stopped asking: the server refuses (HTTP 401" in message
    assert "Not measured: position, source, comparative (the server refuses (HTTP 401" in Path("card.md").read_text()
    assert set(pd.read_csv("card.csv")["probe"]) == {"verbosity"}


@pytest.mark.slow
def test_probe_prints_substituted_requests(capsys):
    with chat_alone() as server:
        words = ["probe", "position", "--judge", f"api:judge@{server.url}", "--contexts", "2"]
        assert main([*words, "--attribute", "coherence"]) == 0
    message = capsys.readouterr()
    reported = "position reads text instead of label probabilities (the server gives"
    assert any(line.startswith(reported) for line in message.out.splitlines())
    assert "NearestDesign" not in message.err
