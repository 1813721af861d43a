"""What the likeliest tokens of an answer say about labels, and how many requests are in flight."""

import math

import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import ServerError, UnsupportedRequestError
from biaslab.judges.api import faults
from biaslab.judges.api.endpoints import Pace
from biaslab.judges.api.wire import TokenPosition, as_chat, read_labels, tokens_of
from biaslab.testing import FaultServer


def place(token, **shown):
    return TokenPosition(token, {name.replace("_", " "): math.log(p) for name, p in shown.items()})


def mass(labels, *places):
    found = read_labels(labels, places)
    return [round(math.exp(value), 6) for value in found.logprobs], round(found.unseen, 6), found.bounded


def test_label_mass_ignores_whitespace_and_punctuation():
    shown = {"A": math.log(0.4), " A": math.log(0.1), "\nA": math.log(0.05), "A.": math.log(0.05), "B": math.log(0.3)}
    assert mass(("A", "B"), TokenPosition("A", shown)) == ([0.6, 0.3], 0.1, ())


def test_a_longer_word_is_not_the_label():
    found, unseen, bounded = mass(("A", "B"), place("And", And=0.6, A=0.3, B=0.05))
    assert (found, unseen, bounded) == ([0.3, 0.05], 0.05, ())


def test_labels_of_several_tokens_share_their_beginning():
    places = [place("Summary", Summary=0.8, The=0.1, A=0.05), place("_A", _A=0.7, _B=0.25)]
    places[1] = TokenPosition(" A", places[1].shown)
    assert mass(("Summary A", "Summary B"), *places) == ([0.56, 0.2], 0.09, ())  # .05 + .8 × .05


def test_label_mass_excludes_longer_labels():
    places = [place("1", **{"1": 0.6, "2": 0.3}), place("0", **{"0": 0.5, ".": 0.3, "<end>": 0.15})]
    found, unseen, _ = mass(("1", "2", "10"), *places)
    assert found == [0.3, 0.3, 0.3]
    assert unseen == pytest.approx(0.1 + 0.6 * 0.05)


def test_a_decimal_is_not_the_whole_number_before_its_point():
    assert mass(("1", "2"), place("1.5", **{"1.5": 0.5, "1.": 0.2, "2": 0.2}))[0] == [0.2, 0.2]


def test_label_not_shown_is_bounded_by_unseen_mass():
    assert mass(("A", "B"), place("A", A=0.9, x=0.05)) == ([0.9, 0.05], 0.05, (1,))
    found, unseen, bounded = mass(("A", "B"), place("x", x=0.9, y=0.05))
    assert (found, unseen, bounded) == ([0.0, 0.0], 0.05, (0, 1))
    # the beginning of both labels was likely, but the answer went another way
    assert mass(("Text A", "Text B"), place("The", The=0.6, Text=0.3))[1:] == (0.4, (0, 1))


@given(st.lists(st.integers(1, 100), min_size=4, max_size=4), st.integers(1, 4))
def test_seen_and_unseen_mass_sum_to_one_and_bounds_hold(weights, shown):
    total = sum(weights)
    levels = {label: math.log(weight / total) for label, weight in zip("ABCD", weights, strict=True)}
    top = dict(sorted(levels.items(), key=lambda pair: -pair[1])[:shown])
    found = read_labels("ABCD", [TokenPosition(next(iter(top)), top)])
    assert sum(math.exp(v) for i, v in enumerate(found.logprobs) if i not in found.bounded) + found.unseen == (
        pytest.approx(1.0)
    )
    for label, value in zip("ABCD", found.logprobs, strict=True):
        assert value >= levels[label] - 1e-12 or label not in top
        assert value == pytest.approx(levels[label]) or label not in top
        assert math.exp(value) >= math.exp(levels[label]) - 1e-9  # a bound is one


@pytest.mark.parametrize(
    ("labels", "tokens"), [(("1", "2", "3"), 1), (("1", "2", "10"), 2), (("strong 1", "1"), 4), (("Text A", "Tie"), 3)]
)
def test_tokens(labels, tokens):
    assert tokens_of(labels) == tokens


def simulate(capacity, most=64, seconds=60.0, base=0.2):
    """A server of so many places: more in flight only wait longer. Return the mean of the later limits."""
    pace, now, limits = Pace(most), 0.0, []
    while now < seconds:
        size = int(pace.limit)
        latency = base * max(1.0, size / capacity)
        for n in range(size):
            pace.replied(sent=now, now=now + latency * (0.999 + 0.001 * n / size))
        now += latency
        limits.append(pace.limit)
    late = limits[len(limits) // 2 :]
    return sum(late) / len(late)


def test_the_pace_reaches_the_most_where_the_server_takes_it():
    assert simulate(capacity=1000) == 64


def test_the_pace_stays_near_what_a_server_can_do_at_once():
    assert 20 <= simulate(capacity=20, most=256) <= 48


def test_a_refusal_halves_once_a_round():
    pace = Pace(64)
    for _ in range(100):
        pace.replied(0.0, 0.1)
    assert pace.limit == 64
    for _ in range(20):
        pace.refused(sent=0.1, now=0.2)  # all sent before the first refusal came back
    assert pace.limit == 32
    pace.refused(sent=0.3, now=0.4, wait=5)
    assert (pace.limit, pace.until) == (16, 5.4)


def test_retry_headers_and_messages_are_parsed():
    assert faults.retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert faults.retry_after({"retry-after": "soon"}) is None
    assert faults.retry_after({"retry-after": "nan"}) is None
    assert faults.message_of('{"detail": [{"msg": "no"}]}') == '[{"msg": "no"}]'
    assert faults.message_of("") == ""


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


@pytest.mark.parametrize(
    ("tokens", "labels", "chosen"),
    [
        (["A"], ("Summary A", "Summary B"), 0),
        (["B", "."], ("Summary A", "Summary B"), 1),
        (["A", " good"], ("Summary A", "Summary B"), None),
        (["A"], ("Plan A", "Model A"), None),
    ],
)
def test_last_word_of_a_label_is_the_label(tokens, labels, chosen):
    mass = read_labels(labels, [TokenPosition(token, {token: math.log(0.9)}) for token in tokens])
    likely = [index for index, value in enumerate(mass.logprobs) if value > math.log(0.5)]
    assert likely == ([] if chosen is None else [chosen])
