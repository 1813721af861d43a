"""`ApiJudge` on ``transformers serve`` with the embedded model, beside `LocalJudge` on the same weights."""

import math
import os
import socket
import subprocess
import sys
import time
import urllib.request
import warnings

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core import Choice, Completion
from biaslab.core.errors import MissingDataWarning, NearestDesignWarning, UnsupportedRequestError
from biaslab.judges.loading import find_model, load_model
from biaslab.probes import available

pytestmark = pytest.mark.slow

#: Two contexts of two candidates, short, since a small model on a processor reads them many times.
ITEMS = (
    ("bridge", "The council closed the old bridge in May.", "a", "The old bridge is closed.", (4, 5)),
    ("bridge", "The council closed the old bridge in May.", "b", "Bridge the council may.", (1, 2)),
    ("ferry", "A ferry takes people across the river.", "a", "A ferry crosses the river.", (5, 4)),
    ("ferry", "A ferry takes people across the river.", "b", "Ferry an river.", (2, 1)),
)
ONE = ("coherence",)
#: Designs of as few requests as they have.
FEW = {
    "anchoring": {"attributes": ("coherence", "fluency"), "n_orders": 1, "n_forced": 2, "n_candidates": 1},
    "consistency": {"scales": ("1-5",), "replicates": 2, "n_candidates": 1},
    "familiarity": {"sources": False},
    "list_position": {"k": 2},
    "output_order": {"forms": ("ex",), "replicates": 1, "max_tokens": 16},
    "position": {"templates": (1,)},
    "recipe": {"against": ("rate_explain",), "samples": 2},
    "score_distribution": {"scales": ("1-100",), "samples": 2, "n_candidates": 1},
    "sweep": {"temperatures": (0.0, 1.0), "samples": 2, "cot": (False,), "n_candidates": 1},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The embedded model as a folder, and the address of a server that runs it."""
    folder = tmp_path_factory.mktemp("served") / "smollm2"
    model, tokenizer = load_model(find_model("smollm2-135m"), "float32", "cpu")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder / "serve.log").open("w")
    words = ["serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--dtype", "float32"]
    command = [sys.executable, "-c", "from transformers.cli.transformers import main; main()", *words]
    server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        for _ in range(240):
            assert server.poll() is None, (folder / "serve.log").read_text()[-2000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                break
            except OSError:
                time.sleep(0.5)
        yield str(folder), f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(20)
        log.close()


@pytest.fixture
def judge(served):
    judge = bl.ApiJudge(*served, max_concurrency=2)
    yield judge
    judge.close()


def test_missing_probabilities_raise_unsupported_request_error(judge):
    with pytest.raises(UnsupportedRequestError, match=r"Sampled\(judge, k\)"):
        list(judge.ask([Choice("Which is a fruit, A: apple or B: car?", ("A", "B"))]))
    with pytest.raises(UnsupportedRequestError):
        list(judge.ask([bl.Likelihood("a text", "given")]))


@pytest.mark.thorough
def test_replies_are_the_local_judges_greedy_ones(served, judge):
    data = bl.load_dataset("graded", limit=1)
    probe = bl.probes.Position(["coherence"], [1, 2], n_pairs=1, answer="text", temperature=0.0)
    requests = list(dict.fromkeys(trial.request for trial in probe.design(data)))
    requests += [Completion(f"Name {n} animals.", max_tokens=20) for n in (2, 3)]
    local = dict(bl.LocalJudge(served[0], "float32", "cpu").ask(requests))
    remote = dict(judge.ask(requests))
    assert len(remote) == len(requests) == 6
    for request in requests:
        assert (remote[request].text, remote[request].finish_reason) == (
            local[request].text,
            local[request].finish_reason,
        )
        assert remote[request].usage.prompt_tokens == local[request].usage.prompt_tokens


@pytest.mark.thorough
def test_position_end_to_end(judge, tmp_path):
    data = bl.load_dataset("graded", limit=2)
    probe = bl.probes.Position(["coherence"], [1], n_pairs=2, answer="text", temperature=0.0)
    trials = bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
    assert (trials.attrs["asked"], len(trials)) == (8, 8)
    assert trials["status"].isin(["ok", "unparsable", "refused"]).all()
    assert (trials["tokens"] > 100).all()
    estimates = probe.estimate(trials)
    assert "first_position_rate" in set(estimates["metric"])
    again = bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
    assert again.attrs["asked"] == 0


def test_custom_protocol_on_the_command_line(served, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text(
        "template = '{question} A: {answer_a} B: {answer_b} Better, A or B?'\nanswer = 'label'\nmax_tokens = 4\n"
        "[verdicts]\nA = 1\nB = 0\n"
    )
    monkeypatch.chdir(tmp_path)
    command = (
        f"probe position --judge api:{served[0]}@{served[1]} --protocol mine.toml --attribute coherence --contexts 2"
    )
    with warnings.catch_warnings(action="ignore"):  # no label probabilities, and so small a model is not always read
        assert main([*command.split(), "-p", "n_pairs=1", "--out", "t.csv"]) == 0
    assert "mine@" in capsys.readouterr().out


@pytest.mark.thorough
def test_consistency_of_sampled_answers_end_to_end(judge, tmp_path):
    data = bl.load_dataset("graded", limit=1)
    design = {"scales": ["1-5"], "joint": False, "replicates": 2, "n_candidates": 1, "max_tokens": 4}
    probe = bl.probes.Consistency(attributes=["coherence"], answer="text", **design)
    trials = bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
    assert trials.groupby(["context_id", "candidate_id"])["replicate"].nunique().ge(2).all()
    assert trials["status"].isin(["ok", "unparsable", "out_of_range", "cut_off"]).all()
    with warnings.catch_warnings(action="ignore", category=MissingDataWarning):  # so small a model is not always read
        estimates = probe.estimate(trials)
    assert estimates["judge"].eq(judge.id).all()
    assert len(estimates) > 0


def test_sampled_labels(judge):
    question = "Answer with Text A or Text B only. Which is longer, Text A: cat, or Text B: a black cat?"
    [(_, reply)] = bl.Sampled(judge, 4, max_tokens=4).ask([Choice(question, ("Text A", "Text B"))])
    assert reply.usage.prompt_tokens > 4 * 10
    assert sum(map(math.exp, reply.logprobs)) <= 1 + 1e-9


@pytest.fixture
def short(tmp_path):
    rows = [
        (*item, name, score)
        for *item, scores in ITEMS
        for name, score in zip(("coherence", "fluency"), scores, strict=True)
    ]
    columns = ["context_id", "context", "candidate_id", "text", "attribute", "score"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "short.csv", index=False)
    return tmp_path / "short.csv"


@pytest.mark.thorough
def test_every_probe_ends_in_estimates(served, short, tmp_path):
    """The column "text only" of `tests/test_every_judge.py`, by a real server that refuses log-probabilities."""
    judge = bl.load_judge("api:{}@{}?max_tokens=6&max_concurrency=2".format(*served))
    data, otherwise = bl.load_dataset("tabular", short), {}
    for name, kind in available().items():
        probe = kind(**{"attributes": ONE, **FEW.get(name, {})}, resampling=bl.Resampling(n=200))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissingDataWarning)
            warnings.simplefilter("ignore", NearestDesignWarning)
            trials = bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
            estimates = probe.estimate(trials)
        otherwise[name] = trials.attrs.get("otherwise", "")
        primary = estimates[estimates["metric"].isin(probe.primary)]
        assert len(primary), name
        assert (primary["estimate"].notna() | primary["note"].str.len().gt(0)).all(), name
        assert trials["judge"].eq(judge.id).all()
    assert {name for name, words in otherwise.items() if "reads text" in words} == {*available()} - {"output_order"}
    assert "puts the first score in an earlier turn" in otherwise["anchoring"]
    assert "uses the perplexity of the embedded model" in otherwise["familiarity"]
    judge.close()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")  # so small a model is not always read
def test_a_card_ends_with_a_page(served, short, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = "api:{}@{}?max_tokens=6&max_concurrency=2".format(*served)
    wanted = ("position", "familiarity", "verbosity", "source")
    words = [word for probe in wanted for word in ("--probe", probe)]
    assert main(["card", name, "--dataset", "tabular", "--path", str(short), *words, "--candidates", "1"]) == 0
    assert "not measured" not in capsys.readouterr().out
    page = (tmp_path / "card.html").read_text(encoding="utf-8")
    assert page.count("instead of label probabilities") >= len(wanted)
    assert "data:image/png" in page
