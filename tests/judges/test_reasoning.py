"""Judges behind an API that think before they answer: room, thoughts apart, refused fields, cost, resume."""

import asyncio
import json
import os
import runpy
import signal
import subprocess
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core import About, Choice, Completion, Reply, Usage, request_key
from biaslab.core.errors import (
    BudgetExceededError,
    CutOffError,
    InputError,
    NearestDesignWarning,
    ServerError,
    UnsupportedRequestError,
)
from biaslab.judges import load_judge
from biaslab.judges.api import Patience
from biaslab.judges.api.faults import Fault, of_status
from biaslab.judges.api.sender import Refusals, Thoughts
from biaslab.judges.api.wire import Wire, usage_of
from biaslab.judges.thinking import ThinkingOption
from biaslab.study import windows
from biaslab.study.spending import Ledger, dollars
from biaslab.testing import FaultServer

SERVER = runpy.run_path(str(Path(__file__).with_name("reasoning_server.py")))
ReasoningServer, bodies_of = SERVER["ReasoningServer"], SERVER["bodies_of"]
PLACES = ("reasoning_content", "reasoning", "tags", "inside")
QUICK = Patience(retries=2, first_wait=0.001, grace=5, reach=2)
ROOM = {"tokens": 1024}


@pytest.fixture
def judge_of():
    made = []

    def make(server, **options):
        made.append(bl.ApiJudge("thinker", server.url, **{"patience": QUICK, "timeout": 20.0, **options}))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


def quietly(function, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


def collect(*given, **named):
    return quietly(bl.collect, *given, progress=False, **named)


def position(**options):
    return bl.probes.Position(["coherence"], [1], answer="text", **options)


@pytest.mark.parametrize("where", PLACES)
def test_thought_and_answer(judge_of, where):
    with ReasoningServer(where, refuses=()) as server:
        judge = judge_of(server, thinking=ROOM)
        ((_, reply),) = judge.ask([Completion("Which is better, Summary A or Summary B?", max_tokens=16)])
    assert reply.text in ("Summary A", "Summary B")
    assert "[[A]]" in reply.thought
    assert reply.finish_reason == "stop"
    assert 300 <= reply.usage.reasoning_tokens < 350
    assert reply.usage.completion_tokens == reply.usage.reasoning_tokens + 4
    assert server.bodies[0]["max_tokens"] == 16 + 1024


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("counts", [True, False])
def test_model_that_thinks_gets_room_with_one_warning(judge_of, where, counts):
    data = bl.load_dataset("graded", limit=2)
    with ReasoningServer(where, counts=counts, refuses=()) as server:
        judge = judge_of(server)
        with pytest.warns(NearestDesignWarning, match="thinks before it answers") as warned:
            trials = bl.collect(position(), judge, data, progress=False)
        assert len(server.order) == trials["key"].nunique() + 1
    assert trials["status"].isin(["ok", "tie"]).all()
    assert len(warned) == 1
    assert "thinking" not in judge.id
    assert judge.thought_tokens == 1024


def test_short_texts_of_a_model_that_does_not_think_cost_one_reply_more(judge_of):
    """A text without a verdict at its limit may be a thought, so the first one is asked for once more."""
    about = About("c1", ("a",), ("A text.",), ("fluency",), scale="1-5", reasons="none")
    with FaultServer() as server:
        server.answer_of = lambda text: "It depends on the"
        make = server.document
        server.document = lambda body, text: of_length(make(body, text))
        judge = judge_of(server)
        with pytest.raises(CutOffError):
            list(judge.ask([Completion(f"How good? {n}", max_tokens=16, about=about) for n in range(12)]))
        assert sum(body["max_tokens"] > 16 for body in server.bodies) == 1
        assert len(server.bodies) <= 10


def test_answer_after_a_thought_without_tags_is_kept(judge_of):
    about = About("c1", ("a",), ("A text.",), ("fluency",), scale="1-5", reasons="none")
    with FaultServer() as server:
        make = server.document

        def thinks(body, text):
            server.answer_of = lambda _: "It flows well, so: Score: 4" if body["max_tokens"] > 16 else "It flows"
            document = make(body, text)
            return document if body["max_tokens"] > 16 else of_length(document)

        server.document = thinks
        requests = [Completion(f"How good? {n}", max_tokens=16, about=about) for n in range(12)]
        with pytest.warns(NearestDesignWarning, match="thinks before it answers, so each"):
            replies = [reply for _, reply in judge_of(server).ask(requests)]
        assert {reply.text for reply in replies} == {"It flows well, so: Score: 4"}
        assert len(server.bodies) == 13


def of_length(document):
    document["choices"][0]["finish_reason"] = "length"
    return document


def test_budget_without_room_for_thoughts_stops_the_study_early(judge_of):
    data = bl.load_dataset("graded", limit=4)
    with ReasoningServer(refuses=(), latency=0.05) as server:
        with pytest.raises(BudgetExceededError, match="thinks before it answers, so the run needs at least"):
            collect(position(), judge_of(server), data, budget=bl.Budget(tokens=50_000))
        assert len(server.order) <= 8  # of the first four, each asked again with more room


def test_resumed_study_plans_only_thoughts_that_are_not_stored(judge_of, tmp_path, monkeypatch):
    monkeypatch.setattr(windows, "SIZE", 1)
    data = bl.load_dataset("graded", limit=4)
    with ReasoningServer(refuses=()) as server, bl.Store(tmp_path / "s") as store:
        judge = judge_of(server, thinking=1024)
        trials = collect(position(), judge, data, store=store)
        lost = list(dict.fromkeys(trials["key"]))[:6]
        store._file.run(f"DELETE FROM replies WHERE key IN ({', '.join('?' * 6)})", tuple(lost))
        again = collect(position(), judge, data, store=store, budget=bl.Budget(tokens=12_000))
    assert again.attrs["asked"] == 6


@pytest.mark.parametrize(("lengths", "stops"), [([500] * 4, True), ([30, 30, 30, 2000], False)])
def test_budget_ends_a_study_whose_thoughts_will_surely_exceed_it(lengths, stops):
    """Of few thoughts of different lengths, one may be longer than those that follow."""
    ledger = Ledger(bl.ApiJudge("thinker", "http://localhost:1/v1"), bl.Budget(tokens=30_000))
    ledger.plan([Completion(f"p {n}") for n in range(100)])
    ledger.count([Reply(text="4", usage=Usage(10, 0, length, length - 1)) for length in lengths])
    with pytest.raises(BudgetExceededError, match="thinks before it answers") if stops else nullcontext():
        ledger.stop_at_limit("4 of 100")


def test_small_token_budget_error_suggests_a_larger_one(judge_of):
    with ReasoningServer() as server:
        with pytest.raises(
            CutOffError, match=r"limit of 132 tokens .* up to 132 tokens; set a larger .*thinking=\{\"tokens\": 4096\}"
        ):
            collect(position(), judge_of(server, thinking=100), bl.load_dataset("graded", limit=4))
        assert len(server.order) <= 10


@pytest.mark.parametrize("where", PLACES)
def test_auto_finds_the_room(judge_of, where):
    data = bl.load_dataset("graded", limit=2)
    with ReasoningServer(where) as server:
        judge = judge_of(server, thinking="auto")
        trials = collect(position(), judge, data)
    assert (trials["status"] == "ok").mean() >= 0.95
    assert judge.thought_tokens == 1024
    assert sum(body["max_tokens"] == 32 for body in bodies_of(server)) <= 3  # with those that were refused
    first = next(iter(trials["tokens"]))
    assert first > 300  # what was cut off is paid for, too


def test_auto_counts_what_was_cut_off(judge_of):
    with ReasoningServer(refuses=()) as server:
        ((_, reply),) = judge_of(server, thinking="auto").ask(
            [Completion("Which is better, Summary A or Summary B?", max_tokens=16)]
        )
    assert [body["max_tokens"] for body in server.bodies] == [16, 1040]
    assert reply.usage.completion_tokens > 16 + 300
    assert reply.usage.reasoning_tokens > 16 + 300


def test_thinking_is_part_of_the_id_only_where_it_is_given():
    url = "http://localhost:8000/v1"
    ids = {
        str(how): bl.ApiJudge("j", url, thinking=how).id
        for how in (None, 4096, {"tokens": 4096}, {"effort": "low"}, "off", "auto")
    }
    assert ids["None"] == "api:j@localhost:8000/v1"
    assert ids["4096"] == ids["{'tokens': 4096}"] == 'api:j@localhost:8000/v1:{"thinking":{"tokens":4096}}'
    assert ids["{'effort': 'low'}"].endswith('{"thinking":{"effort":"low"}}')
    assert (ids["off"].endswith('{"thinking":"off"}'), ids["auto"].endswith('{"thinking":"auto"}')) == (True, True)


@pytest.mark.parametrize(
    ("option", "setting"),
    [("4096", {"tokens": 4096}), ("low", {"effort": "low"}), ("off", "off"), ("auto", "auto")],
)
def test_thinking_in_a_judge_name(option, setting):
    judge = load_judge(f"api:j@http://localhost:8000/v1?thinking={option}")
    assert json.loads(judge.id.partition("/v1:")[2]) == {"thinking": setting}
    assert judge.wire.thinking == ThinkingOption.of(setting)


def test_thinking_in_biaslab_toml(tmp_path, monkeypatch):
    (tmp_path / "biaslab.toml").write_text(
        '[judges.one]\nmodel = "j"\naddress = "http://localhost:8000/v1"\nthinking = {effort = "high", tokens = 9000}\n'
    )
    monkeypatch.chdir(tmp_path)
    assert load_judge("one").wire.thinking == ThinkingOption(9000, "high")


@pytest.mark.parametrize("bad", ["loud", 0, -3, True, {"tokens": "many"}, {"budget": 3}, {}, {"effort": "off"}, 2.5])
def test_invalid_thinking_is_refused(bad):
    with pytest.raises(InputError, match="thinking"):
        bl.ApiJudge("j", "http://localhost:8000/v1", thinking=bad)


def test_effort_and_off_are_sent_to_the_server(judge_of):
    request = Completion("Summary A or Summary B?", max_tokens=16)
    with ReasoningServer(refuses=()) as server:
        list(judge_of(server, thinking={"effort": "low"}).ask([request]))
        list(judge_of(server, thinking="off").ask([request]))
    low, off = server.bodies
    assert (low["reasoning_effort"], low["max_tokens"]) == ("low", 16 + 4096)
    assert (off["chat_template_kwargs"]["enable_thinking"], off["max_tokens"]) == (False, 16)


def test_labels_of_a_model_that_thinks_are_asked_as_text(judge_of):
    """Declared before anything is asked, else found out by the first reply, without a retry."""
    request = Choice("Which is better, Summary A or Summary B?", ("Summary A", "Summary B"))
    with ReasoningServer(refuses=()) as server:
        with pytest.raises(UnsupportedRequestError, match=r"thinks before it answers.*Sampled"):
            judge_of(server, thinking=ROOM).check([request])
        assert not server.order
        with pytest.raises(UnsupportedRequestError, match="thinks before it answers"):
            list(judge_of(server, exact=False).ask([request]))
        assert len(server.order) == 1
    for where in ("tags", "reasoning"):
        with (
            ReasoningServer(where, refuses=(), counts=False) as server,
            pytest.raises(UnsupportedRequestError, match="thinks before it answers"),
        ):
            list(judge_of(server, exact=False).ask([request]))


def test_refused_parameters_are_omitted_with_one_warning(judge_of):
    requests = [
        Completion([("system", "Be fair."), ("user", f"Which is better, Summary A or Summary B? {n}")], 0.7, 16, seed=n)
        for n in range(12)
    ]
    refuses = ("temperature", "seed", "system", "max_tokens", "stop")
    with ReasoningServer(refuses=refuses) as server:
        judge = judge_of(server, thinking=ROOM, parameters={"stop": ["\n\n\n"]})
        with pytest.warns(NearestDesignWarning) as caught:
            replies = dict(judge.ask(requests))
    (warning,) = caught
    for words in (
        "fixed temperature of 1",
        "seed is omitted",
        "stop is omitted",
        "system message",
        "max_completion_tokens",
    ):
        assert words in str(warning.message)
    assert len(server.order) == 12 + 5
    assert {reply.temperature for reply in replies.values()} == {1.0}
    last = server.bodies[-1]
    assert last["max_completion_tokens"] == 16 + 1024
    assert [each["role"] for each in last["messages"]] == ["user"]
    assert last["messages"][0]["content"].startswith("Be fair.\n\nWhich")
    assert not {"temperature", "seed", "max_tokens", "stop"} & last.keys()


@pytest.mark.parametrize(
    ("field", "remedy"), [("chat_template_kwargs", 'omit thinking="off"'), ("reasoning_effort", "accepts no effort")]
)
def test_a_model_without_a_thinking_budget_says_what_to_omit(field, remedy):
    body = json.dumps({"error": {"message": f"Unrecognized request argument supplied: {field}"}})
    error = of_status(400, body, {}, Completion("A or B?"))
    assert isinstance(error, ServerError)
    assert remedy in str(error)


BODY = {
    "temperature": 0, "seed": 1, "stop": ["x"], "max_tokens": 9,
    "messages": [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "A or B?"}],
}  # fmt: skip
REFUSED = {
    "temperature": (
        (400, "gpt-5 models don't support temperature=0.0. Only temperature=1 is supported."),
        (400, "`temperature` may only be set to 1 when thinking is enabled."),
        (400, "The temperature parameter is not compatible with reasoning models"),
        (400, "temperature is deprecated for this model"),
        (400, "temperature should be 1.0 for this model"),
        (404, "No endpoints found that support the parameter temperature"),
        (422, "temperature: Extra inputs are not permitted"),
    ),
    "seed": (
        (422, "[{'type': 'extra_forbidden', 'loc': ['body', 'seed'], 'msg': 'Extra inputs are not permitted'}]"),
        (400, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.'),
        (404, "argument seed not valid for this model"),
    ),
    "stop": ((400, "Argument not supported on this model: stop"), (400, "`stop` cannot be used with this model")),
    "system": (
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (400, "Only user and assistant roles are supported!"),
        (400, "Developer instruction is not enabled for this model"),
        (400, "Invalid value: 'system'. Supported values are: 'user' and 'assistant'."),
    ),
    "max_tokens": (
        (400, "max_tokens is deprecated in favor of max_completion_tokens"),
        (400, "this model is not supported MaxTokens, please use MaxCompletionTokens"),
    ),
}  # fmt: skip


class Answers:
    """A connection to a server that rejects the bodies with certain fields, in its own words."""

    request = Completion("A or B?")

    def __init__(self, said, status=400, rejects=lambda body: True):
        self.error = ServerError(f"HTTP {status}: {said}", remedy="see `parameters`", status=status, words=said)
        self.rejects, self.bodies = rejects, []

    async def post(self, path, body):
        self.bodies.append(body)
        if self.rejects(body):
            raise self.error
        return body


def sent(connection, body):
    """Send a body, and return what the server rejects."""
    refusals = Refusals("judge", (), 1.0)
    asyncio.run(refusals.send(connection, "/chat/completions", body))
    return refusals


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 9000. This model allows at most 4096 completion tokens",
        "temperature must be in the range (0, 2]",
        "`temperature` must be strictly positive",
        "The value of temperature is not valid: expected a number between 0 and 2",
        "Invalid value for max_tokens: must not exceed 8192",
        "no such field",
    ],
)
def test_other_errors_are_not_taken_for_refusals(said):
    connection = Answers(said)
    with pytest.raises(ServerError, match="HTTP 400"):
        sent(connection, BODY)
    assert connection.bodies == [BODY]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Could not finish the message because max_tokens or model output limit was reached"),
        (404, "The model `seed-oss` does not exist or is unknown"),
    ],
)
def test_failed_retry_leaves_request_fields_unchanged(status, message):
    connection, refusals = Answers(message, status), Refusals("judge", (), 1.0)
    with pytest.raises(ServerError, match=f"HTTP {status}"):
        asyncio.run(refusals.send(connection, "/chat/completions", BODY))
    assert len(connection.bodies) == 2
    assert (refusals.left_out, refusals.adapt(BODY)) == ({}, BODY)


@pytest.mark.parametrize(
    ("model", "fixed"), [("o3-mini", 1.0), ("openai/gpt-5-mini", 1.0), ("gpt-5-chat-latest", None)]
)
def test_temperature_of_known_models_is_omitted(model, fixed):
    refusals = Refusals(model, (), 1.0)
    assert refusals.temperature == fixed
    assert ("temperature" in refusals.adapt(BODY)) == (fixed is None)
    assert ("fixed temperature" in refusals.warning()) == (fixed is not None)


def test_declared_fields_are_never_sent(judge_of):
    request = Completion([("system", "Be fair."), ("user", "Which is better, Summary A or Summary B?")], 0.7, 16)
    refuses = ("temperature", "seed", "system")
    with ReasoningServer(refuses=refuses) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        judge = judge_of(server, thinking=ROOM, omit="temperature,system,seed", default_temperature=0.6)
        [(_, reply)] = judge.ask([request])
    assert len(server.order) == 1
    assert reply.temperature == 0.6
    assert '"omit":["seed","system","temperature"]' in judge.id
    assert '"default_temperature":0.6' in judge.id
    with pytest.raises(InputError, match="omit is 'top_p', allowed: "):
        judge_of(server, omit=["top_p"])


@pytest.mark.parametrize(("name", "status", "said"), [(n, *each) for n, several in REFUSED.items() for each in several])
def test_refusals_in_the_words_of_many_servers(name, status, said):
    def rejects(body):
        has_system = any(message["role"] == "system" for message in body["messages"])
        return has_system if name == "system" else name in body

    refusals = sent(Answers(said, status, rejects), BODY)
    assert name in refusals.left_out
    assert refusals.temperature == (1.0 if name == "temperature" else None)


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        ({"finish_reason": "MAX_TOKENS"}, ("B", "length")),
        ({"finish_reason": "max_output_tokens"}, ("B", "length")),
        ({"finish_reason": None, "native_finish_reason": "max_tokens"}, ("B", "length")),
        ({"finish_reason": "SAFETY"}, ("B", "content_filter")),
        ({"finish_reason": "end_turn"}, ("B", "end_turn")),
        ({"finish_reason": None}, ("B", None)),
    ],
)
def test_finish_reason_of_a_reply(choice, read):
    reply = Wire("j", "max_tokens").read(Completion("A or B?"), {"choices": [{"message": {"content": "B"}, **choice}]})
    assert (reply.text, reply.finish_reason) == read


def test_an_answer_that_broke_off_is_no_reply():
    broken = {"message": {"content": ""}, "finish_reason": "error", "error": {"message": "provider went away"}}
    with pytest.raises(Fault, match="provider went away"):
        Wire("j", "max_tokens").read(Completion("A or B?"), {"choices": [broken]})


def test_thought_without_answer_is_cut_off_without_finish_reason():
    """Parts of a content, of which the text is missing; or no reason why it ended."""
    thoughts, request = Thoughts(None), Completion("A or B?", max_tokens=8)
    for content in ([{"type": "thinking", "thinking": "A?"}], "<think>A?"):
        document = {"choices": [{"message": {"content": content}, "finish_reason": None}]}
        reply = thoughts.read(Wire("j", "max_tokens").read(request, document))
        assert (reply.text, reply.thought, thoughts.is_cut(request, reply)) == ("", "A?", True)


def test_counted_thought_without_answer_is_cut_off():
    usage = {"prompt_tokens": 9, "completion_tokens": 8, "completion_tokens_details": {"reasoning_tokens": 8}}
    for reason, cut in (("stop", True), ("SAFETY", False)):
        document = {"choices": [{"message": {"content": ""}, "finish_reason": reason}], "usage": usage}
        reply = Thoughts(None).read(Wire("j", "max_tokens").read(Completion("A or B?", max_tokens=8), document))
        assert Thoughts(None).is_cut(Completion("A or B?", max_tokens=8), reply) == cut


def test_a_thought_that_is_sent_twice_is_read_once():
    message = {"content": "<think>[[A]]?</think>[[B]]", "reasoning_content": "[[A]]?"}
    reply = Wire("j", "max_tokens").read(Completion("A or B?"), {"choices": [{"message": message}]})
    assert Thoughts(None).read(reply).text == "[[B]]"


def test_thoughts_are_announced_counted_and_priced(judge_of, tmp_path, capsys):
    data, prices = bl.load_dataset("graded", limit=1), {"input": 1.0, "output": 10.0}
    with ReasoningServer() as server:
        judge = judge_of(server, thinking=ROOM, prices=prices)
        requests = list(dict.fromkeys(trial.request for trial in position(n_pairs=4).design(data)))
        ledger = Ledger(judge, announces=True)
        ledger.plan(requests)
        assert ledger.written == len(requests) * (32 + 1024)
        with pytest.raises(BudgetExceededError, match=r"nothing was asked"):
            collect(position(n_pairs=4), judge, data, budget=bl.Budget(tokens=len(requests) * 500))
        assert not server.order
        path = tmp_path / "replies.sqlite"
        collect(position(n_pairs=4), judge, data, store=path)
    with bl.Store(path) as store:
        info, replies = store.info().iloc[0], store.get(request_key(each, judge.id) for each in requests)
    usage = Usage.total([reply.usage for reply in replies.values()])
    assert (info["replies"], info["reasoning_tokens"]) == (len(requests), usage.reasoning_tokens)
    assert usage.reasoning_tokens > 300 * len(requests)
    assert dollars(usage, prices) == pytest.approx((usage.prompt_tokens + 10 * usage.completion_tokens) / 1e6)
    assert main(["store", "info", str(path)]) in (0, None)
    assert f"{usage.reasoning_tokens}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reasons", "limit", "texts", "stops"),
    [
        ("none", 16, ["Okay, so I need to"] * 4, True),
        ("none", 16, ["Okay, so I need to"] * 3, False),
        ("none", 16, ["Okay, so I need to"] * 3 + ["4"], False),
        ("before", 16, ["Okay, so I need to"] * 4, False),
        ("none", 256, ["Okay, so I need to"] * 4, False),
    ],
)
def test_texts_that_end_inside_a_thought_without_any_tag(reasons, limit, texts, stops):
    """Where the prompt opens the thought, short replies show nothing but that none of them says a score."""
    thoughts = Thoughts(None)
    about = About("c1", ("a",), ("A text.",), ("fluency",), scale="1-5", reasons=reasons)
    for n, text in enumerate(texts):
        request = Completion(f"How fluent is it? {n}", 0.0, limit, about=about)
        thoughts.note(request, thoughts.read(Reply(text=text, finish_reason="length")), limit, 0)
    assert thoughts.holds(4) == (0 < len(texts) < 4 and limit == 16 and reasons == "none")
    error = thoughts.error(request)
    assert (error is not None) == stops
    assert not stops or "4 of the first 4 replies reached the limit of 16 tokens" in str(error)


def test_servers_that_leave_thoughts_out_of_the_tokens_written():
    reported = {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 300}}
    assert usage_of(reported | {"total_tokens": 15}) == Usage(10, 0, 5, 300)
    assert usage_of(reported | {"total_tokens": 315}) == usage_of(reported) == Usage(10, 0, 305, 300)
    others = {"completion_tokens": 305, "completion_tokens_details": {"accepted": 0}, "reasoning_tokens": 300}
    assert usage_of(others) == usage_of({**others, "reasoning_tokens": None, "thinking_tokens": 300})
    assert usage_of(others) == Usage(0, 0, 305, 300)


@pytest.mark.slow
def test_fixed_temperature_is_recorded_in_the_trials(judge_of):
    probe = bl.probes.Sweep(["coherence"], temperatures=(0.0, 1.0), samples=2, cot=(False,), answer="text")
    with ReasoningServer() as server:
        trials = collect(probe, judge_of(server, thinking=ROOM), bl.load_dataset("graded", limit=2))
    assert set(trials["temperature"]) == {1.0}
    item = ["context_id", "candidate_id", "attribute", "cot", "replicate"]
    assert not trials.duplicated(item).any()
    assert trials.groupby(item[:-1]).size().eq(3).all()  # the one at 0 is a third sample at 1
    estimates = quietly(probe.estimate, trials)
    assert estimates.loc[estimates["temperature"] == 0, "estimate"].isna().all()
    assert estimates.loc[estimates["temperature"] == 1, "estimate"].notna().any()


def test_replies_that_were_cut_off_have_a_status_and_are_counted(judge_of):
    """Too few to be stopped; the page's note says how many."""
    data = bl.load_dataset("graded", limit=1)
    with ReasoningServer() as server:
        trials = collect(position(n_pairs=1), judge_of(server, thinking=100), data)
    assert set(trials["status"]) == {"cut_off"}
    notes = quietly(position(n_pairs=1).estimate, trials)["note"]
    assert notes.str.contains(f"{len(trials)} of {len(trials)} judgements are cut off at the token limit").all()


STUDY = """
import sys, warnings
import biaslab as bl
warnings.simplefilter("ignore")
judge = bl.ApiJudge("thinker", sys.argv[1], thinking={"tokens": 1024}, max_concurrency=4)
probe = bl.probes.Position(["coherence"], [1], answer="text")
bl.collect(probe, judge, bl.load_dataset("graded", limit=34), store=sys.argv[2], progress=False)
"""


@pytest.mark.slow
def test_restart_of_a_killed_study_asks_no_stored_thought(judge_of, tmp_path):
    path = tmp_path / "replies.sqlite"
    killed = []

    def kill(text, attempt):
        if len(server.order) == 400 and not killed:
            killed.append(study.pid)
            os.kill(study.pid, signal.SIGKILL)
        return ""

    with ReasoningServer(script=kill, refuses=()) as server:
        study = subprocess.Popen([sys.executable, "-c", STUDY, server.url, str(path)])
        assert study.wait(600) == -signal.SIGKILL
        with bl.Store(path) as store:
            kept = list(store.records())
        assert 300 < len(kept) <= 400  # four are in flight, and a burst may not be on the disk yet
        before, sent = server.asked.copy(), len(server.order)
        judge = judge_of(server, thinking=ROOM)
        trials = collect(position(), judge, bl.load_dataset("graded", limit=34), store=path)
        stored = {record.request.messages[-1].content for record in kept}
        assert all(server.asked[text] == before[text] for text in stored)
        assert 0 <= len(server.order) - sent - (len(trials) - len(kept)) <= 4  # what was in flight may arrive late
    assert len(trials) == 1020
    assert all(record.reply.thought for record in kept)
    assert (trials["status"] == "ok").all()
    assert trials.attrs["stored"] == len(kept)


ReasoningServer_reasoning_probes = runpy.run_path(str(Path(__file__).with_name("reasoning_server.py")))[
    "ReasoningServer"
]
PROBES = runpy.run_path(str(Path(__file__).parents[1] / "test_every_judge.py"))["PROBES"]
ROOM_reasoning_probes = {"tokens": 2048}
#: One a form of question, quickly; all of them otherwise.
QUICKLY = {"position"}
#: Takes perplexities of the embedded model.
LENGTHY = {"familiarity"}
PLACES_reasoning_probes = (("reasoning_content", "tags"), ("reasoning", "inside"))


@pytest.fixture(scope="module")
def data():
    """Two contexts of the bundled set with three candidates each."""
    whole = bl.load_dataset("graded", limit=2)
    kept = sorted(set(whole.candidates["candidate_id"]))[:3]
    frames = {name: getattr(whole, name) for name in ("candidates", "human")}
    return replace(whole, **{name: frame[frame["candidate_id"].isin(kept)] for name, frame in frames.items()})


@pytest.mark.parametrize(
    ("name", "where"),
    [
        pytest.param(name, where, marks=() if name in QUICKLY else pytest.mark.slow)
        for at, name in enumerate(sorted(PROBES.keys() - {"thinking"}))  # which sets its budgets itself
        for where in PLACES_reasoning_probes[at % 2][: 1 if name in LENGTHY else 2]
    ],
)
def test_with_and_without_room(name, where, data, tmp_path):
    probe = PROBES[name]
    with (
        warnings.catch_warnings(),
        ReasoningServer_reasoning_probes(where) as server,
        bl.Store(tmp_path / "replies.sqlite") as store,
    ):
        warnings.simplefilter("ignore")
        judge = bl.ApiJudge("thinker", server.url, patience=QUICK, thinking=ROOM_reasoning_probes)
        trials = bl.collect(probe, judge, data, store=store, progress=False)
        of_thinker = trials[trials["status"] != "refused"]
        assert of_thinker["status"].isin(["ok", "tie"]).mean() >= 0.95
        assert len(probe.estimate(trials))
        asked = len(server.order)
        again = bl.collect(probe, judge, data, store=store, progress=False)
        assert again["value"].equals(trials["value"])
        assert len(server.order) == asked
        judge.close()
    with warnings.catch_warnings(), ReasoningServer_reasoning_probes(where) as server:
        warnings.simplefilter("ignore")
        judge = bl.ApiJudge("thinker", server.url, patience=QUICK)
        trials = bl.collect(probe, judge, data, progress=False)
        assert trials.loc[trials["status"] != "refused", "status"].isin(["ok", "tie"]).mean() >= 0.95
        judge.close()
