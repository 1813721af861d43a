"""Responses that nobody asked for, on connections that stay open, answer no other request."""

import runpy
from contextlib import closing
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.judges.api import Patience

SERVER = runpy.run_path(str(Path(__file__).with_name("surplus_server.py")))
SurplusServer, other_answer = SERVER["SurplusServer"], SERVER["other_answer"]
QUICK = Patience(first_wait=0.001, grace=5)


def same(response, number):
    return response


def no_http(response, number):
    return b"\r\nand this"


@pytest.mark.parametrize("width", [4, pytest.param(32, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("delay", "surplus"),
    [
        (0.0, same),
        pytest.param(0.0, other_answer, marks=pytest.mark.slow),
        (0.0, no_http),
        pytest.param(0.01, same, marks=pytest.mark.slow),
        pytest.param(0.05, same, marks=pytest.mark.slow),
        (0.05, SERVER["late_answer"]),
        pytest.param(0.05, SERVER["answer_of_vllm"], marks=pytest.mark.slow),
    ],
    ids=["at once", "another at once", "no HTTP", "soon", "late", "another late", "another late by vLLM"],
)
def test_surplus_response_answers_no_request(width, delay, surplus):
    requests = [bl.Completion(f"p {number}") for number in range(100)]
    with SurplusServer(delay, surplus) as server:
        with closing(bl.ApiJudge("m", server.url, max_concurrency=width, patience=QUICK)) as judge:
            replies = dict(judge.ask(requests))
        assert server.sent >= 20
    assert {reply.text for reply in replies.values()} == {f"said p {number}" for number in range(100)}
    assert all(replies[request].text == f"said p {number}" for number, request in enumerate(requests))


def test_connections_of_a_sound_server_are_reused():
    with SurplusServer(surplus=lambda response, number: b"") as server:
        with closing(bl.ApiJudge("m", server.url, max_concurrency=4)) as judge:
            assert len(dict(judge.ask([bl.Completion(f"p {number}") for number in range(100)]))) == 100
            assert not judge.faults
        assert server.connections <= 5
