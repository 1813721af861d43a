"""Exact labels on a real vLLM server, beside transformers on the same weights; skipped where there is no vLLM.

With ``BIASLAB_VLLM_RECORD`` as well, what goes over the wire is written to the file that `test_exact_labels` replays.
"""

import contextlib
import json
import os
import runpy
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import Choice
from biaslab.core.errors import ServerError

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
PYTHON = os.environ.get("BIASLAB_VLLM", "")
VLLM = runpy.run_path(str(HERE / "vllm_server.py"))
Recorder = runpy.run_path(str(HERE / "traffic.py"))["Recorder"]
REQUESTS = VLLM["REQUESTS"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    if not PYTHON:
        pytest.skip("no vLLM: BIASLAB_VLLM names bin/python of an environment that has it")
    folder = tmp_path_factory.mktemp("vllm") / "model"
    return folder, *VLLM["tiny_model"](folder)


@pytest.fixture(scope="module")
def url(weights):
    folder = weights[0]
    with VLLM["serving"](PYTHON, folder, folder.parent / "server.log") as address:
        yield address


@pytest.fixture
def judge_of():
    made = []

    def make(*address, **options):
        made.append(bl.ApiJudge(VLLM["MODEL"], *address, **{"prefill": "vllm", **options}))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


@pytest.fixture(scope="module")
def references(weights):
    return [VLLM["expected"](*weights[1:], request) for request in REQUESTS]


def test_exact_labels_are_those_of_transformers(judge_of, url, weights, references):
    with Recorder(url) as between, warnings.catch_warnings():
        warnings.simplefilter("error")
        judge = judge_of(between.url, max_concurrency=1)
        replies = dict(judge.ask(REQUESTS))
        assert judge.is_exact
        list(judge_of(between.url, max_concurrency=1, exact=False).ask(REQUESTS))
        kept = between.kept
    for request, levels in zip(REQUESTS, references, strict=True):
        np.testing.assert_allclose(replies[request].logprobs, levels, atol=1e-4)
        assert (replies[request].unseen, replies[request].bounded) == (0.0, ())
        assert replies[request].model.startswith(f"{VLLM['MODEL']} vllm-")
    if record := os.environ.get("BIASLAB_VLLM_RECORD"):
        encode = weights[2].encode
        tokens = [[encode(way) for label in r.labels for way in (label, f" {label}")] for r in REQUESTS]
        document = {"references": references, "tokens": tokens, "traffic": kept}
        Path(record).write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


def test_the_likeliest_tokens_bound_what_is_exact(judge_of, url, references):
    """The old way, on labels that are far from the likeliest tokens of a random model."""
    judge = judge_of(url, exact=False)
    replies = dict(judge.ask(REQUESTS[:3]))
    for request, levels in zip(REQUESTS[:3], references, strict=False):
        assert len(replies[request].bounded) == len(request.labels)
        assert replies[request].unseen > 0.3
        assert max(np.exp(levels)) < replies[request].unseen + 1e-6


def test_concurrent_endpoints_agree_with_sequential_requests(judge_of, url):
    """The same server by two addresses; a hundred labels are more than one request may name."""
    labels = tuple(map(str, range(1, 101)))
    requests = [Choice(f"How good is text {n}, from 1 to 100?", labels) for n in range(12)]
    requests += [
        Choice(f"Which is longer, Summary A or Summary B, of {n}?", ("Summary A", "Summary B")) for n in range(12)
    ]
    alone = dict(judge_of(url, max_concurrency=1).ask(requests))
    judge, other = judge_of([url, url.replace("127.0.0.1", "localhost")]), judge_of(url, exact=False)

    def ask_otherwise():  # as other clients may; where it is asked again too often, that is an error of theirs
        with contextlib.suppress(ServerError):
            list(other.ask(requests))

    beside = threading.Thread(target=ask_otherwise)
    beside.start()
    together = dict(judge.ask(requests))
    beside.join()
    assert judge.is_exact
    for request in requests:
        np.testing.assert_allclose(together[request].logprobs, alone[request].logprobs, atol=1e-4)


def test_a_probe_through_a_store(judge_of, url, graded, tmp_path):
    probe, data = bl.probes.Position(["coherence"], [1], n_pairs=2), graded.head(1)
    judge = judge_of(url)
    trials = bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
    assert set(trials["status"]) == {"ok"}
    again = bl.collect(
        probe, judge_of([url, url.replace("127.0.0.1", "localhost")]), data, tmp_path / "s", progress=False
    )
    assert again.attrs["asked"] == 0
