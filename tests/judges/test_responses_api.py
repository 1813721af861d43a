"""OpenAI's Responses API: the same judge through another dialect."""

import math

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import ServerError, UnsupportedRequestError
from biaslab.judges.api.responses import as_chat
from biaslab.testing import FaultServer

LABELS = ("Summary A", "Summary B")


class ThinkingServer(FaultServer):
    """Answers with a thought in its own item, and cuts off what has less room than it."""

    thought = "Is it B? No."

    def document(self, body, text):
        whole = super().document(body, text)
        if "input" not in body:
            return whole
        whole["usage"] |= {"output_tokens": 90, "output_tokens_details": {"reasoning_tokens": 80}}
        whole["output"][0]["summary"] = [{"type": "summary_text", "text": self.thought}]
        if body["max_output_tokens"] < 90:
            whole |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            whole["output"] = whole["output"][:1]
        return whole


def ask(server, requests, **settings):
    judge = bl.ApiJudge("m", server.url, dialect="responses", **settings)
    try:
        return dict(judge.ask(requests))
    finally:
        judge.close()


def test_texts_and_distributions_are_those_of_chat_completions():
    requests = [Completion("Summary A or Summary B?", 0.5, 16), Choice("Summary A or Summary B? Say it.", LABELS)]
    with FaultServer() as server:
        found = ask(server, requests)
        chat = bl.ApiJudge("m", server.url, exact=False)
        expected = dict(chat.ask(requests))
        chat.close()
    for request in requests:
        assert (found[request].text, found[request].logprobs) == (expected[request].text, expected[request].logprobs)
    body = next(each for each in server.bodies if "input" in each and "include" not in each)
    assert body["max_output_tokens"] == 16
    assert body["store"] is False
    assert body["temperature"] == 0.5
    assert not body.keys() & {"messages", "seed", "max_tokens", "logprobs"}
    assert math.isclose(sum(map(math.exp, found[requests[1]].logprobs)), 0.95, rel_tol=1e-9)


def test_thought_and_its_tokens_are_read():
    request = Completion("Summary A or Summary B?", 1.0, 16)
    with ThinkingServer() as server:
        reply = ask(server, [request], thinking={"effort": "low"})[request]
        assert (reply.text, reply.thought) == ("Summary A", ThinkingServer.thought)
        assert reply.usage.reasoning_tokens == 80
        assert server.bodies[-1]["reasoning"] == {"effort": "low"}
        cut = ask(server, [request], thinking={"tokens": 1})[request]
        assert (cut.text, cut.finish_reason) == ("", "length")
        found = ask(server, [request], thinking="auto")[request]
        assert found.text == "Summary A"


def test_a_probe_runs_through_it():
    data = bl.load_dataset("graded", limit=2)
    probe = bl.probes.Position(templates=[1], answer="text")
    with ThinkingServer() as server:
        judge = bl.load_judge(f"api:m@{server.url}?dialect=responses&thinking=low")
        trials = bl.collect(probe, judge, data, progress=False)
        judge.close()
    assert (trials["status"] == "ok").all()
    assert '"dialect":"responses"' in judge.id


def test_responses_api_refuses_likelihoods():
    with FaultServer() as server, pytest.raises(UnsupportedRequestError, match="no log-probabilities of a prompt"):
        ask(server, [Likelihood("A text.")])


def test_a_model_that_needs_it_is_named_with_the_option():
    words = "This model is only supported in v1/responses and not in v1/chat/completions."

    class Other(FaultServer):
        async def play(self, fault, request, body, text):
            from aiohttp import web

            return web.json_response({"error": {"message": words}}, status=404)

    with Other() as server:
        judge = bl.ApiJudge("m", server.url)
        with pytest.raises(ServerError, match='dialect="responses"'):
            list(judge.ask([Completion("Say A.")]))
        judge.close()


@pytest.mark.parametrize(
    ("changed", "text", "reason", "thought"),
    [
        ({}, "A", "stop", None),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "A", "content_filter", None),
        ({"output": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "B?"}]}]}, "", "stop", "B?"),
        ({"output": [{"type": "function_call", "arguments": '{"verdict": "A"}'}]}, '{"verdict": "A"}', "stop", None),
        ({"output": [{"type": "web_search_call"}, {"type": "message", "content": None}]}, "", "stop", None),
    ],
)
def test_items_become_a_message(changed, text, reason, thought):
    said = {"type": "message", "content": [{"type": "output_text", "text": "A"}]}
    [choice] = as_chat({"status": "completed", "output": [said]} | changed)["choices"]
    message = choice["message"]
    assert (message["content"], choice["finish_reason"], message["reasoning_content"]) == (text, reason, thought)


@pytest.mark.parametrize(
    "document",
    [
        {"output": "A", "status": "completed"},
        {"output": ["A"], "status": "completed"},
        {"output": [], "status": "failed", "error": {"code": "server_error", "message": "overloaded"}},
        {"output": [], "status": "cancelled"},
    ],
)
def test_no_answer_is_a_fault(document):
    from biaslab.judges.api.faults import Fault

    with pytest.raises(Fault):
        as_chat(document)
