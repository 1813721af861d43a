"""What SECURITY.md promises, promise by promise."""

import ast
import csv
import gzip
import re
import time
from functools import partial
from pathlib import Path

import pandas as pd
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
    assert calls <= {("judges/replica.py", "pickle.loads")}, calls


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
