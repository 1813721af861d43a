"""What SECURITY.md promises, promise by promise.

A project of its own runs in a process of its own: every command that asks a server or writes what it asked, failures of
every kind, with the switch for debuggers. Then all that is left is searched.
"""

import ast
import contextlib
import csv
import gzip
import json
import os
import re
import subprocess
import sys
import threading
import time
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from runpy import run_path

import pandas as pd
import psutil
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.core.errors import InputError, ServerError
from biaslab.judges.api import Patience
from biaslab.testing import FAULTS, FaultServer

ROOT = Path(bl.__file__).parents[1]
FORMULA = "=HYPERLINK(0)"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def estimates():
    """Estimates of judges whose names are formulas and markup."""
    data = bl.load_dataset("graded", limit=6)
    probe = bl.probes.Position(attributes=["fluency"], n_pairs=4)
    trials = bl.collect(probe, bl.SimulatedJudge(data, position=0.5), data, progress=False)
    return pd.concat([probe.estimate(trials.assign(judge=name)) for name in (FORMULA, MARKUP)], ignore_index=True)


def no_formula_in_csv(tmp_path, estimates):
    from biaslab.cli.options import write_table

    bl.report.write(estimates, tmp_path / "table.csv")
    bl.report.card(estimates).save(tmp_path / "card", picture=False)
    write_table(estimates, tmp_path / "out.csv", "estimate")
    with bl.Store(tmp_path / "s") as store:
        store.put(Completion("x"), FORMULA, bl.Reply(text=FORMULA))
        store.export(tmp_path / "export.csv")
    files = sorted(tmp_path.glob("*.csv"))
    assert [file.name for file in files] == ["card.csv", "export.csv", "out.csv", "table.csv"]
    for file in files:
        with file.open(newline="", encoding="utf-8") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row if cell.startswith(tuple("=+-@\t\r\n"))]
        assert pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").notna().all(), (file.name, cells)
        assert f"'{FORMULA}" in file.read_text(encoding="utf-8")


def no_markup_in_pages(tmp_path, estimates):
    card = bl.report.card(estimates)
    card.save(tmp_path / "card", picture=False)
    bl.report.write(estimates, tmp_path / "table.html")
    for file in ("card.html", "card.md", "table.html"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert "alert(1)" in text, file
        assert MARKUP not in text, file


class Live(HTMLParser):
    """Collects what a page runs, loads or links to."""

    def __init__(self, page):
        super().__init__()
        self.names = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        own = tag == "img" and str(given.get("src")).startswith("data:image/png")
        live = tag in ("script", "img", "iframe", "svg") or "href" in given or any(name[:2] == "on" for name in given)
        self.names += [tag] if live and not own else []


NAMES = [
    MARKUP,
    '"><img src=x onerror=alert(1)>',
    "]]>",
    "</style></svg><script>",
    "[a](javascript:a) ![b](c) <d:e>",
    "\u202e|",
]


def test_names_are_no_markup_in_cards_and_tables(estimates, tmp_path):
    from markdown_it import MarkdownIt

    named = [estimates.head(2).assign(judge=name, dataset=name, attribute=name) for name in NAMES]
    rows = pd.concat([estimates, *named], ignore_index=True)
    bl.report.card(rows).save(tmp_path / "card", picture=False)
    for kind in ("html", "md"):
        bl.report.write(rows, tmp_path / f"table.{kind}")
    for file in ("card.html", "card.md", "table.html", "table.md"):
        page = (tmp_path / file).read_text(encoding="utf-8")
        assert not Live(MarkdownIt("commonmark").enable("table").render(page) if file.endswith(".md") else page).names


def no_bomb_unpacks(tmp_path, estimates):
    file = tmp_path / "bomb.jsonl.gz"
    file.write_bytes(gzip.compress(b"\0" * 270_000_000))
    with pytest.raises(InputError, match="BIASLAB_UNPACKED_GB"):
        bl.read_judgements(file)


def no_code_from_data(tmp_path, estimates):
    """No module evaluates text; what unpickles does so with what the same process pickled, to see that it can."""
    calls = set()
    for path in (ROOT / "biaslab").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in (
                    "eval",
                    "exec",
                    "pickle.load",
                    "pickle.loads",
                    "yaml.load",
                    "yaml.unsafe_load",
                    "marshal.loads",
                ):
                    calls.add((path.relative_to(ROOT / "biaslab").as_posix(), name))
            if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
                assert ast.unparse(node.value) == "False", path
            if isinstance(node, ast.keyword) and node.arg == "weights_only":
                assert ast.unparse(node.value) == "True", path
    assert calls <= {("judges/ray_judge.py", "pickle.loads")}, calls


def no_prompt_to_strangers(tmp_path, estimates):
    with FaultServer() as stranger:
        with FaultServer(lambda text, attempt: f"redirect 307 {stranger.url}/chat/completions") as server:
            judge = bl.ApiJudge("judge", server.url)
            with pytest.raises(ServerError, match=f"redirects to {stranger.url}"):
                list(judge.ask([Completion("secret text")]))
            judge.close()
        assert not stranger.asked


def no_key_in_what_is_written(tmp_path, estimates):
    key, path = "sk-a-key-of-some-length-0123456789", tmp_path / "s"
    with FaultServer(lambda text, attempt: "401" if text == "refused" else "") as server, bl.Store(path) as store:
        judge = bl.ApiJudge("judge", server.url, api_key=lambda: key)
        list(store.wrap(judge).ask([Completion("x")]))
        with pytest.raises(ServerError) as raised:
            list(store.wrap(judge).ask([Completion("refused")]))
        assert any(key in value for headers in server.headers for value in headers.values())
        judge.close()
    assert key not in f"{raised.value} {judge!r} {judge.id} {vars(judge)}"
    for file in tmp_path.iterdir():
        assert key.encode() not in file.read_bytes()


def no_reply_without_end(tmp_path, estimates):
    judge_of = partial(bl.ApiJudge, "judge", patience=Patience(0, minutes=0.001, first_wait=0.01))
    for fault, words in (("bomb", "larger than 64 MB"), ("429 for years", "slow down")):
        with FaultServer(fault) as server:
            judge, began = judge_of(server.url), time.monotonic()
            with pytest.raises(ServerError, match=words):
                list(judge.ask([Completion("x")]))
            assert time.monotonic() - began < 300  # and not 32 years
            judge.close()


def no_verdict_from_a_broken_reply(tmp_path, estimates):
    """All kinds are played in `tests/testing/test_every_fault.py`; here are those of a distribution."""
    (number,) = re.findall(r"(\d+) kinds of faults", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert int(number) == len(FAULTS)
    request = Choice("Summary A or Summary B?", ("Summary A", "Summary B"))
    for name in [name for name, kind in FAULTS.items() if kind.distribution == "unusable"]:
        with FaultServer(name) as server:
            judge = bl.ApiJudge("judge", server.url)
            [(_, reply)] = judge.ask([request])
            judge.close()
        assert (reply.finish_reason, bool(reply.text)) == ("unusable", True), name  # the text says why


WALKED = [
    no_formula_in_csv,
    no_markup_in_pages,
    no_bomb_unpacks,
    no_code_from_data,
    no_prompt_to_strangers,
    no_key_in_what_is_written,
    no_reply_without_end,
    no_verdict_from_a_broken_reply,
]


@pytest.mark.slow
@pytest.mark.parametrize("promise", WALKED, ids=lambda promise: promise.__name__)
def test_a_promise_holds(promise, tmp_path, estimates):
    promise(tmp_path, estimates)


def test_every_promise_is_walked():
    promised = re.findall(r"^\d\. \*\*(.+?)\*\*", (ROOT / "SECURITY.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [name.lower().replace(" ", "_") for name in promised] == [promise.__name__ for promise in WALKED]


BatchServer = run_path(str(Path(__file__).parent / "judges" / "batch_server.py"))["BatchServer"]
#: Where a key is planted, and the key. A server repeats those of the last four places, as careless ones do.
PLACES = {
    "OPENAI_API_KEY": "sk-sentinel-openai-00000001",
    "BIASLAB_API_KEY": "sk-sentinel-biaslab-00000002",
    "a variable that biaslab.toml names": "sk-sentinel-named-00000003",
    "a variable that an address names": "sk-sentinel-option-00000004",
    "a function": "sk-sentinel-function-00000005",
    "a password in biaslab.toml": "sentinel-password-00000006",
    "HF_TOKEN": "hf_sentinel00000007",
    "an error of the server": "sk-sentinel-error-00000008",
    "a reply": "sk-sentinel-reply-00000009",
    "the name of a model": "sk-sentinel-model-00000010",
    "a redirect": "sk-sentinel-redirect-00000011",
}
PROGRAM = """
import json, os, pickle, sys, traceback
import biaslab as bl
from biaslab.cli import main
from biaslab.judges.api import ApiJudge, Patience

url, places = json.loads(sys.stdin.readline())
SMALL = ["--attribute", "coherence", "--contexts", "1"]

def run(*words, works=True):
    code = main(list(words))
    print("$", *words, "->", code, flush=True)
    assert (code == 0) == works, words

for judge in ("named", "password", f"api:plain@{url}", f"api:option@{url}?api_key=OPTION_KEY"):
    name = judge.replace(":", "")[:8]
    run("probe", "position", "--judge", judge, *SMALL, "--out", f"{name}.csv", "--trials", f"{name}.parquet")
for fault in ("error", "redirect", "broken", "denied"):
    run("probe", "position", "--judge", fault, *SMALL, works=False)
    run("--debug", "probe", "position", "--judge", fault, *SMALL, works=False)
run("card", "named", "reply", "model", *SMALL, "--probe", "position")
run("batch", "export", "position", "s.jsonl", "--judge", "named", "--attribute", "fluency", "--contexts", "1")
run("batch", "submit", "s.jsonl")
run("batch", "import", "s.jsonl")
run("store", "info", "judgements.sqlite")
run("store", "export", "judgements.sqlite", "export.jsonl")
run("store", "export", "judgements.sqlite", "export.csv")
for source in (lambda: places["a function"], "NAMED_KEY", None):
    for model in ("plain", "reply", "model", "error", "redirect", "broken"):
        judge = ApiJudge(model, url, source, patience=Patience(0, 0.01, 0.001))
        print(repr(judge), judge.id, vars(judge), judge.wire)
        try:
            with bl.Store("python.sqlite") as store:
                for request, reply in store.wrap(judge).ask([bl.Completion(f"Say {n}") for n in range(4)]):
                    print(repr(reply))
        except bl.errors.BiaslabError as error:
            traceback.print_exception(error)
            open(f"{model}.pickle", "wb").write(pickle.dumps(error))
        judge.close()
try:
    bl.ApiJudge("judge")
    print(list(bl.ApiJudge("judge").check([bl.Completion("x")]) or ()))
except bl.errors.BiaslabError as error:
    print(error)
"""


class Careless(BatchServer):
    """A server that repeats the key of a request wherever the model's name says so."""

    async def play(self, fault, request, body, text):
        from aiohttp import web

        key, model = request.headers.get("Authorization", ""), body.get("model")
        if model == "error":
            return web.json_response({"error": {"message": f"bad key {key}", "headers": {"auth": key}}}, status=400)
        if model == "denied":
            return web.json_response({"error": {"message": f"Incorrect API key provided: {key}"}}, status=401)
        if model == "broken":
            return web.Response(text=f"<html>{key} {key.partition(' ')[2]}</html>", content_type="text/html")
        if model == "redirect":
            return web.Response(status=307, headers={"Location": f"http://elsewhere.invalid/{key[7:]}?key={key[7:]}"})
        self.key = key.partition(" ")[2]
        return await super().play(fault, request, body, text)

    def document(self, body, text):
        document = super().document(body, text)
        key = getattr(self, "key", "")
        if body["model"] == "reply":
            document["choices"][0]["message"]["content"] += f" {key}"
        if body["model"] == "model":
            document["model"] = f"model {key}"
        return document


TOML = """
[judges.named]
model = "named"
address = "{url}"
api_key = "NAMED_KEY"

[judges.password]
model = "password"
address = "{secret}"
"""
FAULTY = ("error", "reply", "model", "redirect", "broken", "denied")
KEYS = {"error": "an error of the server", "reply": "a reply", "model": "the name of a model", "redirect": "a redirect"}


def arguments_of(process, seen):
    """Note what `ps` shows of a process and of those that it starts, as long as it runs."""
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):  # one may end meanwhile
            for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
                seen.add(" ".join(each.cmdline()))
        threading.Event().wait(0.05)


@pytest.mark.slow
def test_planted_keys_are_nowhere(tmp_path):
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    with Careless() as server:
        secret = server.url.replace("http://", f"http://me:{PLACES['a password in biaslab.toml']}@")
        toml = TOML.format(url=server.url, secret=secret)
        for name in FAULTY:
            toml += f'\n[judges.{name}]\nmodel = "{name}"\naddress = "{server.url}"\napi_key = "{name.upper()}_KEY"\n'
            toml += "patience = { retries = 0, minutes = 0.01, first_wait = 0.001 }\n"
        (project / "biaslab.toml").write_text(toml)
        given = {name: value for name, value in os.environ.items() if not name.startswith(("BIASLAB", "OPENAI", "HF_"))}
        given |= {name: PLACES[name] for name in ("OPENAI_API_KEY", "BIASLAB_API_KEY", "HF_TOKEN")}
        given |= {
            "NAMED_KEY": PLACES["a variable that biaslab.toml names"],
            "OPTION_KEY": PLACES["a variable that an address names"],
            **{f"{name.upper()}_KEY": PLACES[KEYS.get(name, "an error of the server")] for name in FAULTY},
        }
        given |= {"HOME": str(home), "TMPDIR": str(home), "OPENAI_LOG": "debug", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=project,
            env=given,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        shown = set()
        watcher = threading.Thread(target=arguments_of, args=(process, shown), daemon=True)
        watcher.start()
        out, err = process.communicate(json.dumps([server.url, PLACES]) + "\n", timeout=1200)
        watcher.join(60)
        sent = {value for headers in server.headers for name, value in headers.items() if name == "Authorization"}
    assert process.returncode == 0, err[-3000:]
    assert sum(key in value for key in PLACES.values() for value in sent) >= 8  # they were used
    left = {str(file): file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    (own,) = [name for name in left if name.endswith("biaslab.toml")]
    del left[own]  # the user's own
    assert len(left) > 10
    assert shown
    left |= {"stdout": out.encode(), "stderr": err.encode(), "ps": "\n".join(shown).encode()}
    found = [(place, name) for place, key in PLACES.items() for name, data in left.items() if key.encode() in data]
    assert not found, found
