"""`ApiJudge` against a real server on loopback that plays faults: what is asked again, what is said, what is kept."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from itertools import islice

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood, Reply
from biaslab.core.errors import (
    BudgetExceededError,
    InputError,
    ModelChangedWarning,
    PromptTooLongError,
    ServerError,
    StoreError,
    UnreachableError,
    UnsupportedRequestError,
)
from biaslab.judges.api import ApiJudge, Patience, ReplyStream
from biaslab.judges.api.endpoints import ApiKey, Endpoint, Endpoints, addresses_of
from biaslab.judges.api.exact_labels import ExactLabels
from biaslab.judges.api.sender import ThoughtsByBudget
from biaslab.judges.api.wire import Wire
from biaslab.judges.in_flight import Loop
from biaslab.testing import FaultServer, answer_of as said

QUICK = Patience(retries=6, first_wait=0.001, grace=5)
COSTLY = ["500", "truncated", "cut", "invalid", "html", "nothing", "null", "list", "empty", "error in 200", "number"]
FREE = ["429", "429 plain", "503", "drop"]


def prompts(count, word="prompt"):
    return [Completion(f"{word} {number}", max_tokens=8) for number in range(count)]


def gather(answers, got):
    """Note the prompt of each reply that comes before an error."""
    for request, _ in answers:
        got.append(request.messages[0].content)


def once(fault):
    """Play a fault at the first attempt of every prompt."""
    return lambda text, attempt: "" if attempt else fault


@pytest.mark.slow
@pytest.mark.parametrize(("concurrency", "bad"), [(1, 1), (4, 6)])
def test_requests_that_always_fail_take_no_room_from_others(judge_of, concurrency, bad):
    failing = {f"prompt {number}" for number in range(20, 20 + bad)}
    with FaultServer(lambda text, attempt: "500" if text in failing else "", latency=0.002) as server:
        judge, got = judge_of(server, max_concurrency=concurrency, patience=QUICK), []
        with pytest.raises(ServerError):
            gather(judge.ask(prompts(60)), got)
    assert len(got) == len(set(got)) == 60 - bad


@pytest.mark.parametrize("fault", [*COSTLY, *FREE])
def test_every_fault_that_may_pass_is_asked_again_and_counted(judge_of, fault):
    with FaultServer(once(fault)) as server:
        judge = judge_of(server)
        replies = dict(judge.ask(prompts(5)))
        assert {r.messages[0].content: reply.text for r, reply in replies.items()} == {
            f"prompt {n}": said(f"prompt {n}") for n in range(5)
        }
        assert set(server.asked.values()) == {2}
        assert (judge.attempts, judge.faults.total()) == (10, 5)


@pytest.mark.parametrize("fault", ["hang", "drip"])
def test_a_server_that_hangs_is_given_up_on_in_time(judge_of, fault):
    with FaultServer(once(fault)) as server:
        judge = judge_of(server, timeout=0.3)
        assert len(list(judge.ask(prompts(3)))) == 3
        assert judge.faults == {"the server timed out": 3}


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("401", ServerError, r"HTTP 401.*does not accept the key"),
        ("403", ServerError, "has no access to this model"),
        ("404", ServerError, r"`judge` does not exist.*check `model` and `base_url`"),
        ("400", ServerError, "HTTP 400: no such field"),
        ("quota", ServerError, "no credit"),
        ("too long", PromptTooLongError, "maximum context length is 10"),
    ],
)
def test_a_permanent_error_ends_the_run_at_once_with_one_message(judge_of, fault, kind, words):
    with FaultServer(once(fault)) as server:
        with pytest.raises(kind, match=words) as caught:
            list(judge_of(server).ask(prompts(500)))
        assert caught.value.request in prompts(500)
        assert "\n" not in str(caught.value)
        assert sum(server.asked.values()) == 1  # the first request goes out alone


@pytest.mark.slow
def test_a_permanent_error_later_hands_on_what_is_paid_for(judge_of):
    with FaultServer(lambda text, attempt: "404" if text == "prompt 77" else "", latency=0.05) as server:
        answers = judge_of(server, max_concurrency=8).ask([*prompts(100, "other"), Completion("prompt 77")])
        got = []
        with pytest.raises(ServerError):
            gather(answers, got)
        assert set(got) == {text for text in server.paid if text.startswith("other")}
        assert set(server.asked.values()) == {1}


def test_one_request_that_always_fails_does_not_stop_the_others(judge_of):
    with FaultServer(lambda text, attempt: "500" if text in ("prompt 3", "prompt 4") else "") as server:
        answers, got = judge_of(server).ask(prompts(40)), []
        with pytest.raises(ServerError, match=r"2 requests failed.*failed 7 times.*HTTP 500"):
            gather(answers, got)
        assert len(got) == 38
        assert server.asked["prompt 3"] == 7


def test_a_server_that_always_fails_ends_the_run(judge_of):
    with FaultServer(lambda text, attempt: "500") as server, pytest.raises(ServerError, match="failed 7 times"):
        list(judge_of(server).ask(prompts(1000)))
    assert sum(server.asked.values()) == 7


def test_unreachable_server_raises_after_reach(judge_of):
    with FaultServer() as server:
        pass
    judge, began = judge_of(server, patience=Patience(reach=0.3, first_wait=0.05)), time.monotonic()
    with pytest.raises(UnreachableError, match=rf"nothing answers at {server.url} \(ConnectionRefused") as gone:
        list(judge.ask(prompts(3)))
    assert gone.value.remedy == "start the server, or check its address"
    assert gone.value.remedy not in gone.value.reason
    assert time.monotonic() - began < 30
    assert 2 <= judge.attempts <= 6


@pytest.mark.slow
def test_server_that_answered_before_is_retried_for_minutes(judge_of):
    with FaultServer() as server:
        judge = judge_of(server, patience=Patience(retries=1000, reach=0.5, minutes=0.02, first_wait=0.05))
        assert len(list(judge.ask(prompts(1)))) == 1
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=r"failed \d+ times"):
        list(judge.ask(prompts(3, "later")))
    assert time.monotonic() - began > 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="what a full queue does to a connection is the system's choice")
def test_connection_without_handshake_times_out_after_reach(judge_of):
    """The queue of the listening socket is full, so that the third handshake gets no answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, contextlib.ExitStack() as waiting:
        for held in [waiting.enter_context(socket.socket()) for _ in range(4)]:
            held.setblocking(False)
            held.connect_ex(listening.getsockname())
        judge = ApiJudge("judge", f"http://127.0.0.1:{listening.getsockname()[1]}/v1", patience=Patience(reach=0.4))
        began = time.monotonic()
        with pytest.raises(UnreachableError, match="nothing answers at"):
            list(judge.ask(prompts(1)))
        assert time.monotonic() - began < 30
        judge.close()


def test_unresolvable_host_raises_unreachable_error():
    judge = ApiJudge("judge", "http://no-such-host.invalid/v1", patience=Patience(reach=0.3, first_wait=0.05))
    with pytest.raises(UnreachableError, match=r"nothing answers at http://no-such-host.invalid/v1 \(gaierror\)"):
        list(judge.ask(prompts(1)))
    judge.close()


@pytest.mark.parametrize("fault", ["404", "400"])
def test_a_server_without_completions_gives_no_likelihoods(judge_of, fault):
    with FaultServer(lambda text, attempt: fault if text == "a text" else "") as server:
        judge = judge_of(server)
        with pytest.raises(UnsupportedRequestError, match="use another model's perplexity"):
            list(judge.ask([Likelihood("a text"), *prompts(40)]))
        assert sum(server.asked.values()) == 2  # one request of each kind before the others
        with pytest.raises(UnsupportedRequestError, match=f"HTTP {fault}"):
            judge.check([Likelihood("another text")])
        assert len(list(judge.ask(prompts(3)))) == 3


def test_the_bar_shows_retries_while_they_happen(judge_of, graded, capsys):
    probe, data = bl.probes.Position(["coherence"], [1], n_pairs=1, answer="text"), graded.head(1)
    with FaultServer(lambda text, attempt: "" if attempt > 1 else "503") as server:
        bl.collect(probe, judge_of(server), data)
    shown = capsys.readouterr().err
    retries = list(re.finditer(r"([1-4]) retr(y|ies): HTTP 503", shown))  # also where the bar has 80 columns
    assert retries[-1][1] == "4"  # those that come while another is being written may be left out
    assert retries[0].start() < shown.rindex("2/2")  # both replies may come at once


@pytest.mark.slow
def test_prices_and_limits_of_the_judge_make_its_budget(judge_of, graded, capsys):
    probe, prices = bl.probes.Position(["coherence"], [1], answer="text"), {"input": 1000.0, "output": 1000.0}
    with FaultServer() as server:
        judge = judge_of(server, prices=prices, limits={"dollars": 1})
        assert "at most $" in str(bl.plan(probe, judge, graded))
        with pytest.raises(BudgetExceededError, match="the budget allows 1"):
            bl.collect(probe, bl.Sampled(judge, 2), graded, progress=False)
        assert not server.asked
        bl.collect(probe, judge, graded.head(1), budget=bl.Budget(prices=prices))  # what is given goes before it
        assert "$" in capsys.readouterr().err
    assert judge.id == judge_of(server).id
    for limits, words in (({"dollar": 1}, "did you mean dollars"), ({"tokens": 0}, "limits.tokens is 0")):
        with pytest.raises(InputError, match=words):
            judge_of(server, limits=limits)
    with pytest.raises(InputError, match="input tokens"):
        judge_of(server, prices={"output": 1.0})


def test_retry_after_is_heeded_by_all(judge_of):
    with FaultServer(lambda text, attempt: "429 long" if text == "prompt 0" and not attempt else "") as server:
        judge, started = judge_of(server), time.monotonic()
        assert len(list(judge.ask(prompts(50)))) == 50
        assert 0.4 <= time.monotonic() - started < 30
        assert set(server.asked.values()) == {1, 2}


def test_refusals_that_cost_nothing_do_not_use_up_the_retries(judge_of):
    with FaultServer(lambda text, attempt: "429" if attempt < 20 else "") as server:
        judge = judge_of(server, patience=Patience(retries=0, first_wait=0.0001))
        assert len(list(judge.ask(prompts(2)))) == 2
        assert not server.paid - Counter(["prompt 0", "prompt 1"])


@pytest.mark.slow
def test_concurrency_reaches_the_most_and_no_more(judge_of):
    with FaultServer(latency=0.2) as server:  # long beside what sending 40 requests takes, also on a busy machine
        assert len(list(judge_of(server, max_concurrency=40).ask(prompts(400)))) == 400
        assert server.most_open == 40


def test_common_beginnings_go_out_together(judge_of):
    with FaultServer() as server:
        mixed = [Completion(f"{'ab'[n % 2]} {n}") for n in range(60)]
        list(judge_of(server, max_concurrency=1).ask(mixed))
        firsts = [text[0] for text in server.order]
        assert firsts == sorted(firsts)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("filter", "content_filter"), ("refusal", "refusal"), ("filtered prompt", "content_filter")],
)
def test_a_filter_or_refusal_is_a_reply_with_a_status(judge_of, graded, fault, reason):
    with FaultServer(lambda text, attempt: fault) as server:
        judge = judge_of(server)
        for request in (Completion("x"), Choice("x", ("A", "B"))):
            [(_, reply)] = judge.ask([request])
            assert reply.finish_reason == reason
        for answer in ("text", "distribution"):
            probe = bl.probes.Position(["coherence"], [1], answer=answer, n_pairs=5)
            trials = bl.collect(probe, judge, graded.head(1), progress=False)
            assert set(trials["status"]) == {"refused"}


@pytest.mark.parametrize("fault", ["no logprobs", "no logprobs here", "logprobs forbidden"])
@pytest.mark.parametrize("request_", [Choice("x", ("A", "B")), Likelihood("a text", "given ")])
def test_missing_probabilities_are_detected_by_one_request(judge_of, fault, request_):
    with FaultServer(lambda text, attempt: fault if fault != "no logprobs" else "", probabilities=False) as server:
        many = [Choice(f"{n}", ("A", "B")) for n in range(50)] if isinstance(request_, Choice) else [request_]
        words = r"Sampled\(judge, k\)" if isinstance(request_, Choice) else "prompt_logprobs"
        with pytest.raises(UnsupportedRequestError, match=words):
            list(judge_of(server).ask(many))
        assert sum(server.asked.values()) == 1


@pytest.mark.slow
def test_filtered_prompts_do_not_hide_missing_probabilities(judge_of, graded):
    filtered = []

    def filters_first(text, attempt):
        filtered.append(text)
        return "filtered prompt" if text in filtered[:3] else ""

    probe = bl.probes.Position(["coherence"], [1])
    with FaultServer(filters_first, probabilities=False) as server:
        with pytest.warns(bl.errors.NearestDesignWarning, match="reads text"):
            trials = bl.collect(probe, judge_of(server), graded.head(3), progress=False)
        assert len(trials) == 90
        assert sum(server.asked.values()) <= 90 + 4
        assert (trials["status"] == "refused").sum() == 3


@pytest.mark.parametrize("fault", ["no logprobs", "bad logprobs", "positive logprobs"])
def test_malformed_probabilities_are_retried_after_good_ones(judge_of, fault):
    with FaultServer(lambda text, attempt: fault if text == "2" and not attempt else "") as server:
        judge = judge_of(server, max_concurrency=1)
        replies = dict(judge.ask([Choice(f"{n}", ("A", "B")) for n in range(5)]))
        assert all(reply.logprobs[0] > reply.logprobs[1] for reply in replies.values())
        assert server.asked["2"] == 2


@pytest.mark.parametrize("how", ["echo", "prompt_logprobs"])
def test_likelihood(judge_of, how):
    with FaultServer() as server:
        [(_, reply)] = judge_of(server, likelihood=how).ask([Likelihood(" the old bridge", "They closed")])
        assert reply.logprobs == (-4.0, -4.0, -7.0)
        [(_, reply)] = judge_of(server, likelihood=how).ask([Likelihood("the old bridge")])
        assert reply.logprobs == (-4.0, -7.0)


def test_request_body(judge_of):
    with FaultServer() as server:
        judge = judge_of(
            server, parameters={"top_p": 0.9, "temperature": None}, prefill={"continue_final_message": True}
        )
        list(judge.ask([Completion([("user", "score"), ("assistant", "fluency:")], 0.7, 5, n) for n in range(2)]))
        first, second = server.bodies
        assert first["seed"] != second["seed"]
        assert {k: v for k, v in first.items() if k != "seed"} == {
            "model": "judge",
            "messages": [{"role": "user", "content": "score"}, {"role": "assistant", "content": "fluency:"}],
            "max_tokens": 5,
            "top_p": 0.9,
            "continue_final_message": True,
        }
        with pytest.raises(UnsupportedRequestError, match="prefill='vllm'"):
            judge_of(server).check([Completion([("user", "a"), ("assistant", "b")])])


def test_inside_a_running_loop_and_from_two_threads(judge_of):
    with FaultServer(latency=0.01) as server:
        judge = judge_of(server)

        async def cell():
            return len(list(judge.ask(prompts(20))))

        assert asyncio.run(cell()) == 20
        counts = []

        def work(word):
            counts.append(len(list(judge.ask(prompts(30, word)))))

        threads = [threading.Thread(target=work, args=(word,)) for word in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert counts == [30, 30]


def test_a_changed_model_is_warned_of_kept_and_can_be_pinned(judge_of, graded, tmp_path):
    data = graded.head(1)
    probe = bl.probes.Position(["coherence"], [1], answer="text")
    changed = sorted(trial.request.messages[0].content for trial in probe.design(data))[10]
    with FaultServer(lambda text, attempt: "changed" if text >= changed else "") as server:
        judge = judge_of(server, max_concurrency=1)
        with pytest.warns(ModelChangedWarning) as caught:
            bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
        assert "now runs 'judge fp_two'; previously 'judge fp_one'" in str(caught[0].message)
        with pytest.warns(ModelChangedWarning, match=r"20 from 'judge fp_two', 10 from 'judge fp_one'"):
            bl.collect(probe, judge, data, store=tmp_path / "s", progress=False)
        pinned = judge_of(server, fingerprint="fp_one")
        assert '"fingerprint":"fp_one"' in pinned.id
        with pytest.raises(ServerError, match="runs judge fp_two, not fp_one"):
            list(pinned.ask([trial.request for trial in probe.design(data)]))


def test_usage_is_stored_and_paid_in_dollars(judge_of, graded, tmp_path):
    probe, data = bl.probes.Position(["coherence"], [1], answer="text"), graded.head(2)
    prices = {"input": 2.0, "cached": 1.0, "output": 4.0}
    with FaultServer() as server, bl.Store(tmp_path / "s") as store:
        judge = judge_of(server)
        with pytest.raises(bl.errors.BudgetExceededError, match=r"needs [\d.]+ dollars \(estimated"):
            bl.collect(probe, judge, data, store, budget=bl.Budget(dollars=1e-4, prices=prices), progress=False)
        assert not server.asked
        with pytest.raises(bl.errors.BudgetExceededError, match=r"of 0.02 dollars"):
            bl.collect(
                probe, judge, data, store, budget=bl.Budget(dollars=0.02, prices=prices, partial=True), progress=False
            )
        asked = sum(server.asked.values())  # sixty may be in flight, and cost .19 dollars: they are not sent at once
        assert 0.02 <= (2 * sum(map(len, server.asked)) + 2 * asked) / 1e6 < 0.03
        bl.collect(probe, judge, data, store, budget=bl.Budget(prices=prices), progress=False)
        assert set(server.asked.values()) == {1}
        info = store.info()
        assert info["prompt_tokens"].sum() == sum(map(len, server.asked))
        assert info["cached_tokens"].sum() == 2 * len(server.asked)


def test_reply_fields_survive_the_store(judge_of, tmp_path):
    with FaultServer() as server, bl.Store(tmp_path / "s") as store:
        server.tokens = {"A": 0.9, "The": 0.05}
        wrapped = store.wrap(judge_of(server))
        [(request, reply)] = wrapped.ask([Choice("x", ("A", "B"))])
        assert (reply.model, reply.bounded) == ("judge fp_one", (1,))
        assert reply.unseen == pytest.approx(0.05)
        assert list(wrapped.ask([request])) == [(request, reply)]
        assert server.asked["x"] == 1


def test_a_warning_that_is_an_error_loses_nothing(judge_of, tmp_path):
    with (
        FaultServer(lambda text, attempt: "changed" if text > "prompt 2" else "") as server,
        bl.Store(tmp_path / "s") as store,
    ):
        judge = judge_of(server, max_concurrency=2)
        with pytest.raises(ModelChangedWarning):
            list(store.wrap(judge).ask(prompts(40)))
        assert len(store) == sum(server.paid.values()) < 40
        assert len(list(store.wrap(judge).ask(prompts(40)))) == 40
        assert set(server.paid.values()) == {1}


@pytest.mark.slow
def test_the_bar_shows_what_is_spent_and_a_plan_says_it_before(judge_of, graded, tmp_path, capsys):
    probe, data = bl.probes.Position(["coherence"], [1], answer="text"), graded.head(1)
    prices = {"input": 1000.0, "output": 1000.0}
    with FaultServer() as server:
        judge = judge_of(server)
        planned = bl.plan(probe, judge, graded, prices=prices)
        assert "at most $" in str(planned)
        assert not server.asked
        bl.collect(probe, judge, data, tmp_path / "s", budget=bl.Budget(prices=prices))
        tokens = sum(map(len, server.asked)) + len(server.asked)
        assert f"${tokens / 1000:,.2f}" in capsys.readouterr().err


def test_invalid_budgets_are_refused():
    for options in ({"dollars": 5}, {"dollars": -1, "prices": {"input": 1}}, {"prices": {"output": 1}}, {"prices": {}}):
        with pytest.raises(InputError, match=r"prices|dollars"):
            bl.Budget(**options)


def test_invalid_settings_are_refused():
    for options in ({"model": ""}, {"likelihood": "x"}, {"top_logprobs": 0}, {"max_concurrency": 0}, {"timeout": 0}):
        with pytest.raises(InputError):
            ApiJudge(**{"model": "m", **options})
    for address in ("localhost:8000", "ftp://x", "http://h/v1?key=3", "http://h:port"):
        with pytest.raises(InputError, match="base_url"):
            ApiJudge("m", address)
    with pytest.raises(InputError, match="JSON"):
        ApiJudge("m", parameters={"x": object()})


def test_judge_id():
    plain = ApiJudge("m", "http://u:pass@h:1/v1/")
    assert plain.id == "api:m@h:1/v1"
    assert ApiJudge("m", "http://h:1/v1", parameters={"b": 1, "a": 2}).id == 'api:m@h:1/v1:{"parameters":{"a":2,"b":1}}'
    assert bl.load_judge("api:org/m@x@http://h:1/v1").id == "api:org/m@x@h:1/v1"
    assert bl.load_judge("api:gpt").id == "api:gpt@api.openai.com/v1"
    assert bl.load_judge("sampled:5:api:gpt").id == "sampled:k=5,temperature=1:api:gpt@api.openai.com/v1"
    with pytest.raises(InputError, match="sampled"):
        bl.load_judge("sampled:api:gpt")


FAULTS = [*COSTLY, *FREE]


def at_random(text, attempt):
    """Play a fault at 20 % of the attempts, the same ones every time."""
    draw = zlib.crc32(f"{text} {attempt}".encode())
    return FAULTS[draw // 100 % len(FAULTS)] if draw % 100 < 20 else ""


@pytest.mark.slow
def test_five_thousand_requests_with_twenty_percent_faults(judge_of, tmp_path):
    """Each reply is stored once, and nothing is charged but a reply and the faults that cost."""
    requests = prompts(5000)
    with FaultServer(at_random, latency=0.002) as server, bl.Store(tmp_path / "s") as store:
        judge = judge_of(server)
        wrapped = store.wrap(judge)
        replies = dict(wrapped.ask(requests))
        assert len(replies) == len(store) == wrapped.asked == 5000
        assert all(reply.text == said(request.messages[0].content) for request, reply in replies.items())
        for text, asked in server.asked.items():
            forced = [at_random(text, attempt) for attempt in range(asked - 1)]
            assert all(forced), text  # every attempt but the last was a fault
            assert at_random(text, asked - 1) == ""
            assert server.paid[text] == 1 + sum(fault in COSTLY and fault != "500" for fault in forced)
        assert judge.faults.total() == sum(server.asked.values()) - 5000 > 1000


RUN = """
import sys
import biaslab as bl
from biaslab.core import Completion
from biaslab.judges.api import ApiJudge
requests = [Completion(f"p {n}") for n in range(1200)]
with bl.Store(sys.argv[2]) as store:
    for _ in store.wrap(ApiJudge("judge", sys.argv[1], max_concurrency=16)).ask(requests):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGKILL])
def test_stopped_run_pays_again_only_for_requests_in_flight(tmp_path, how):
    with FaultServer(latency=0.05) as server:
        command = [sys.executable, "-c", RUN, server.url, str(tmp_path / "s")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while sum(server.paid.values()) < 100:
            time.sleep(0.005)
            assert process.poll() is None
        process.send_signal(how)
        assert process.wait(30) != 0
        time.sleep(0.2)
        paid = sum(server.paid.values())
        with bl.Store(tmp_path / "s") as store:
            kept = len(store)
        assert 100 <= paid < 1200
        assert paid - kept == 0 if how == signal.SIGINT else paid - kept <= 3 * 16
        subprocess.run(command, check=True, timeout=60)
        assert max(server.paid.values()) <= (1 if how == signal.SIGINT else 2)
        assert sum(server.paid.values()) == 1200 + paid - kept


@pytest.mark.slow
def test_early_close_keeps_what_is_on_its_way(judge_of, tmp_path):
    with FaultServer(latency=0.05) as server, bl.Store(tmp_path / "s") as store:
        judge = judge_of(server, max_concurrency=8)
        answers = store.wrap(judge).ask(prompts(200))
        for _ in range(30):
            next(answers)
        answers.close()
        assert len(store) == sum(server.paid.values()) >= 30
        assert len(list(store.wrap(judge).ask(prompts(200)))) == 200
        assert set(server.paid.values()) == {1}


@pytest.mark.slow
def test_a_caller_that_is_slow_is_not_overrun(judge_of):
    with FaultServer() as server:
        answers = judge_of(server, max_concurrency=4).ask(prompts(300))
        next(answers)
        time.sleep(0.5)
        assert sum(server.paid.values()) <= 1 + 3 * 4
        assert sum(1 for _ in answers) == 299


FULL = """
import sys
from pathlib import Path
import biaslab as bl
from biaslab.core import Completion
from biaslab.core.errors import StoreError
from biaslab.judges.api import ApiJudge, Patience
folder = Path(sys.argv[2])
requests = [Completion(f"p {n} " + "x" * 5000) for n in range(2000)]
with bl.Store(folder / "s") as store:
    try:
        for _ in store.wrap(ApiJudge("judge", sys.argv[1], max_concurrency=16)).ask(requests):
            pass
    except StoreError as error:
        print(len(store), error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")
def test_full_disk_loses_no_paid_reply(tmp_path):
    """On a disk of 12 MiB of its own, in a name space of its own."""
    mount = f'mount -t tmpfs -o size=12m tmpfs {tmp_path} && exec "$@"'
    with FaultServer(latency=0.02) as server:
        command = ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, "-c", FULL, server.url, str(tmp_path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except FileNotFoundError:
            pytest.skip("no unshare")
        if "unshare" in done.stderr or "mount" in done.stderr:
            pytest.skip(f"no small disk: {done.stderr}")
        kept, _, words = done.stdout.partition(" ")
        assert "run again, which asks only missing requests" in words
        assert 100 < int(kept) == sum(server.paid.values()) < 2000
        assert max(server.paid.values()) == 1


def test_full_disk_without_reserve_asks_nothing(tmp_path, judge_of, monkeypatch):
    from biaslab.store import file

    (tmp_path / "f").mkdir()
    with FaultServer(latency=0.05) as server, bl.Store(tmp_path / "f" / "s") as store:
        monkeypatch.setattr(file, "_RESERVED", 2**20)
        (tmp_path / "f" / ".s.reserve").mkdir()  # cannot be written
        with pytest.raises(StoreError, match="less than 1 MiB is free"):
            list(store.wrap(judge_of(server)).ask(prompts(50)))
        assert len(store) == sum(server.paid.values()) == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_connections_of_its_own(judge_of, tmp_path):
    with FaultServer() as server:
        judge = judge_of(server)
        list(judge.ask(prompts(3)))
        code = (
            "import os, sys\nfrom biaslab.core import Completion\nfrom biaslab.judges.api import ApiJudge\n"
            "judge = ApiJudge('judge', sys.argv[1])\nlist(judge.ask([Completion('a')]))\n"
            "if os.fork() == 0:\n    os._exit(len(list(judge.ask([Completion('b')]))))\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, server.url], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.strip() == "1"


@pytest.mark.slow
def test_importing_the_judge_does_not_import_the_sdk():
    code = "import sys, biaslab.judges.api; sys.exit('openai' in sys.modules or 'aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_a_caller_that_is_slow_to_stop_loses_nothing():
    """A reply may arrive between any two lines of `stop`: this thread waits at one of them each time."""
    loop, paid, taken = Loop(), [], set()
    [address] = addresses_of("http://localhost/v1")
    endpoint = Endpoint(address, ApiKey(None, address), ExactLabels(Wire("m", "max_tokens"), address.url), 4)

    async def attempt(request, endpoint):
        await asyncio.sleep(0.001)
        paid.append(request)
        return Reply(text="x")

    def wait_at(place):
        def trace(frame, event, _):
            if frame.f_code is not ReplyStream.stop.__code__:
                return None
            if event == "line" and frame.f_lineno - frame.f_code.co_firstlineno == place:
                time.sleep(0.01)
            return trace

        return trace

    for place in range(sum(1 for _ in ReplyStream.stop.__code__.co_lines())):
        requests = [Completion(f"p {place} {n}") for n in range(20)]
        ignored = (lambda reply: None, str, ThoughtsByBudget(lambda budget: None))
        answers = ReplyStream(loop, attempt, Endpoints([endpoint]), Patience(), requests, {Completion}, *ignored)
        taken.update(request for pack in islice(answers, 3) for request, _ in pack)
        before = sys.gettrace()
        sys.settrace(wait_at(place))
        taken.update(request for request, _ in answers.stop())
        sys.settrace(before)
    loop.close()
    assert taken == set(paid)


@pytest.mark.parametrize("old", [False, True])
def test_the_arguments_of_a_tool_are_the_reply(old):
    tool = {"type": "function", "function": {"name": "rank", "parameters": {"type": "object"}}}
    wire = Wire("m", "max_tokens", {"tools": [tool], "tool_choice": "required"})
    request = Completion("Which?")
    assert wire.write(request)[1]["tools"] == [tool]
    call = {"name": "rank", "arguments": '{"winner": "B"}'}
    message = {"function_call": call} if old else {"tool_calls": [{"type": "function", "function": call}]}
    reply = wire.read(request, {"choices": [{"message": {"content": None, **message}, "finish_reason": "stop"}]})
    protocol = bl.Protocol.from_template("{answer_a} {answer_b}", verdicts={"A": 1, "B": 0}, json="winner")
    assert protocol.read(reply) == (0.0, "ok")
    plain = wire.read(request, {"choices": [{"message": {"content": None}}]})
    assert (plain.text, protocol.read(plain)[1]) == ("", "off_format")
