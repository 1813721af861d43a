"""Several servers behind one judge: who is asked, who is left out, what is the same as with one."""

import asyncio
import itertools
import socket
import time
from collections import Counter
from contextlib import ExitStack

import pytest
from aiohttp import web
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import Completion, request_key
from biaslab.core.errors import InputError, ModelChangedWarning, ServerError, UnreachableError
from biaslab.judges.api import ApiJudge, Patience
from biaslab.judges.api.endpoints import ApiKey, Endpoint, Endpoints, addresses_of
from biaslab.judges.api.exact_labels import ExactLabels
from biaslab.judges.api.faults import Fault
from biaslab.judges.api.wire import Wire
from biaslab.testing import FaultServer, answer_of as said

QUICK = Patience(retries=3, first_wait=0.001, grace=5, reach=0.3)
PATIENT = Patience(retries=3, first_wait=0.001, grace=5, reach=30)  # connects even on a busy machine


class Listing(FaultServer):
    """A server that says what it serves, after a while, and at first with the given status."""

    def __init__(self, *models, delay=0.0, status=200, **options):
        super().__init__(**options)
        self.models, self.delay, self.statuses = models, delay, [status]

    def add_routes(self, router):
        super().add_routes(router)
        router.add_get("/v1/models", self.list_models)

    async def list_models(self, request):
        await asyncio.sleep(self.delay)
        status = self.statuses.pop() if self.statuses else 200
        if status != 200:
            return web.json_response({"error": {"message": "not now"}}, status=status)
        return web.json_response({"data": [{"id": name, "root": root} for name, root in self.models]})


@pytest.fixture
def judge_of():
    made = []

    def make(*addresses, **options):
        urls = [getattr(address, "url", address) for address in addresses]
        made.append(ApiJudge("judge", urls, **{"patience": QUICK, "timeout": 5.0, **options}))
        return made[-1]

    yield make
    for judge in made:
        judge.close()


@pytest.fixture
def nowhere():
    """Return a function that gives addresses at which nothing answers: each port is taken until the test ends."""
    with ExitStack() as taken:

        def address():
            port = taken.enter_context(socket.socket())
            port.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{port.getsockname()[1]}/v1"

        yield address


def prompts(count, word="prompt"):
    return [Completion(f"{word} {number}", max_tokens=8) for number in range(count)]


def fails_once(text, attempt):
    """The script of a server that is asked first and fails once: whatever the clock does, another one is asked, too."""
    return "500" if text == "prompt 0" and not attempt else ""


def texts(answers):
    return {request.messages[0].content: reply.text for request, reply in answers}


@pytest.mark.slow
def test_requests_are_shared_and_each_is_asked_once(judge_of):
    with FaultServer(latency=0.05) as one, FaultServer(latency=0.05) as other:
        judge = judge_of(one, other, max_concurrency=8)
        assert texts(judge.ask(prompts(200))) == {f"prompt {n}": said(f"prompt {n}") for n in range(200)}
        asked = one.asked + other.asked
        assert set(asked.values()) == {1}
        assert min(sum(one.asked.values()), sum(other.asked.values())) >= 8  # as many as are asked before any answers
        assert max(one.most_open, other.most_open) <= 8  # the limit is that of each


@pytest.mark.slow
def test_faster_endpoint_gets_more_requests(judge_of):
    with FaultServer(latency=0.01) as fast, FaultServer(latency=0.5) as slow:
        list(judge_of(fast, slow, max_concurrency=4).ask(prompts(150)))
        assert sum(fast.asked.values()) > 3 * sum(slow.asked.values()) > 0


def test_the_first_address_is_the_identity(judge_of):
    one = ApiJudge("m", "http://a:1/v1")
    many = bl.load_judge("api:m@http://a:1/v1,http://b:2/v1")
    assert many.id == one.id == ApiJudge("m", ["http://a:1/v1", "http://c:3/v1"]).id == "api:m@a:1/v1"
    assert request_key(prompts(1)[0], many.id) == request_key(prompts(1)[0], one.id)
    assert bl.load_judge("api:m@http://a:1/v1,http://b:2/v1?temperature=0").url == "http://a:1/v1"
    assert bl.load_judge("sampled:5:api:m@http://a:1/v1,http://b:2/v1").judge.id == one.id


def test_a_study_goes_on_with_more_servers(judge_of, tmp_path):
    with FaultServer() as one, FaultServer() as other, bl.Store(tmp_path / "s") as store:
        list(store.wrap(judge_of(one)).ask(prompts(10)))
        list(store.wrap(judge_of(one, other)).ask(prompts(30)))
        assert set((one.asked + other.asked).values()) == {1}
        assert len(store) == 30


@pytest.mark.parametrize("first", [True, False])
def test_unreachable_endpoint_is_skipped(judge_of, nowhere, first):
    with FaultServer() as server:
        addresses = [nowhere(), server] if first else [server, nowhere()]
        judge = judge_of(*addresses, patience=Patience(retries=0, first_wait=0.001, reach=0.3))
        assert len(list(judge.ask(prompts(60)))) == 60
        assert set(server.asked.values()) == {1}
        assert 1 <= judge.faults.total() <= 4


@pytest.mark.slow
def test_a_server_that_dies_loses_nothing(judge_of, tmp_path):
    with ExitStack() as living, bl.Store(tmp_path / "s") as store:
        stays = living.enter_context(FaultServer(latency=0.01))
        dies = FaultServer(latency=0.01)
        dies.__enter__()
        judge = judge_of(stays, dies, max_concurrency=4, patience=Patience(retries=6, first_wait=0.01))
        answers = store.wrap(judge).ask(prompts(300))
        for _ in range(60):
            next(answers)
        assert sum(dies.paid.values()) > 5
        dies.__exit__(None, None, None)
        assert sum(1 for _ in answers) == 240
        assert len(store) == 300
        twice = stays.paid + dies.paid - Counter(dict.fromkeys(stays.asked | dies.asked, 1))
        assert sum(twice.values()) <= 4  # what was on its way to it


@pytest.mark.slow
def test_a_server_that_comes_back_is_asked_again(judge_of):
    with FaultServer(latency=0.02) as stays:
        gone = FaultServer()
        with gone:
            port = gone.port
        judge = judge_of(stays, f"http://127.0.0.1:{port}/v1", max_concurrency=2)
        answers = judge.ask(prompts(400))
        for _ in range(10):
            next(answers)
        with FaultServer(latency=0.02, port=port) as back:
            assert sum(1 for _ in answers) == 390
            assert sum(back.asked.values()) > 20


def test_error_is_raised_where_all_endpoints_are_unreachable(judge_of, nowhere):
    one, other = nowhere(), nowhere()
    judge, began = judge_of(one, other, patience=Patience(reach=0.3, first_wait=0.05)), time.monotonic()
    with pytest.raises(UnreachableError, match=rf"nothing answers at ({one}|{other})"):
        list(judge.ask(prompts(3)))
    assert time.monotonic() - began < 30


def test_failed_request_moves_to_another_endpoint(judge_of):
    with FaultServer(lambda text, attempt: "500") as broken, FaultServer(latency=0.02) as good:
        judge = judge_of(broken, good, patience=Patience(retries=1, first_wait=0.001))
        assert len(list(judge.ask(prompts(40)))) == 40
        assert set(good.asked.values()) == {1}
        assert sum(broken.asked.values()) > 0


def test_permanent_error_of_one_endpoint_ends_the_run(judge_of):
    with (
        FaultServer(lambda text, attempt: "403") as other,
        FaultServer() as good,
        pytest.raises(ServerError, match="has no access to this model"),
    ):
        list(judge_of(other, good).ask(prompts(50)))


@pytest.mark.slow
def test_rate_limit_of_one_endpoint_does_not_pause_others(judge_of):
    with FaultServer(latency=0.01) as free, FaultServer("429 long", latency=0.01) as limited:
        assert len(list(judge_of(free, limited, max_concurrency=4).ask(prompts(80)))) == 80
        assert sum(free.asked.values()) == 80
        assert sum(limited.asked.values()) < 10


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (
            [("judge", "lab/a-8b"), ("judge", "lab/b-8b")],
            r"judge is a-8b at http.* and b-8b at http.*serve the same model",
        ),
        ([("judge", "lab/a-8b"), ("other", "lab/a-8b")], r"serves other, not judge; use only servers"),
        ([("judge", "/data/a-8b/"), ("judge", "lab/a-8b")], ""),
    ],
)
def test_different_models_are_refused_before_they_are_mixed(judge_of, models, words):
    with Listing(models[0]) as one, Listing(models[1]) as other:
        judge = judge_of(one, other, patience=PATIENT)
        if not words:
            assert len(list(judge.ask(prompts(20)))) == 20
            return
        with pytest.raises(ServerError, match=words):
            list(judge.ask(prompts(20)))
        assert not one.asked
        assert not other.asked


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("options", [{"delay": 0.5}, {"status": 503}, {"status": 429}])
def test_no_reply_is_accepted_before_models_are_listed(judge_of, which, options):
    """A listing that comes late, or that a busy server refuses at first, is awaited: two models are never mixed."""
    behaviours = [options, {}] if which == 0 else [{}, options]
    with (
        Listing(("judge", "lab/a-8b"), **behaviours[0]) as one,
        Listing(("judge", "lab/b-8b"), **behaviours[1]) as other,
        pytest.raises(ServerError, match=r"judge is a-8b at .* and b-8b"),
    ):
        list(judge_of(one, other, patience=PATIENT).ask(prompts(20)))
    assert not (one.asked and other.asked)


def test_other_builds_at_the_endpoints_are_warned_of(judge_of):
    with (
        FaultServer(fails_once) as one,
        FaultServer(lambda text, attempt: "changed") as other,
        pytest.warns(ModelChangedWarning, match="fp_two"),
    ):
        list(judge_of(one, other).ask(prompts(30)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "base_url is ''"),
        ("http://a/v1,", "address 2 of 2, is ''"),
        ("http://a/v1,,http://b/v1", "address 2 of 3, is ''"),
        ([], "base_url is ''"),
        (["http://a/v1", None], "address 2 of 2, is ''"),
        (
            "http://a/v1,http://a/v1/",
            "base_url is 'http://a/v1', allowed: different addresses; list each server once",
        ),
        ("http://a/v1,b:8000", "a URL that starts with http"),
        (["http://a/v1", "http://x:secret-word@a/v1"], "list each server once"),
    ],
)
def test_wrong_addresses_are_named(given, words):
    with pytest.raises(InputError, match=words) as caught:
        ApiJudge("m", given)
    assert "secret-word" not in str(caught.value)


def test_each_address_has_its_own_key(judge_of):
    with FaultServer(fails_once) as one, FaultServer() as other:
        urls = [
            server.url.replace("http://", f"http://{name}:pass-word-{name}@")
            for name, server in (("a", one), ("b", other))
        ]
        judge = judge_of(*urls)
        list(judge.ask(prompts(20)))
        heads = [{headers["Authorization"] for headers in server.headers} for server in (one, other)]
        assert [len(each) for each in heads] == [1, 1]
        assert heads[0] != heads[1]
        assert "pass-word" not in repr(judge) + repr(vars(judge)) + judge.id


@given(st.lists(st.sampled_from(["choose", "reply", "busy", "gone", "later"]), max_size=60), st.integers(1, 4))
def test_an_endpoint_is_always_chosen(events, count):
    wire, addresses = Wire("m", "max_tokens"), addresses_of([f"http://h{n}/v1" for n in range(count)])
    members = [Endpoint(each, ApiKey(None, each), ExactLabels(wire, each.url), 8) for each in addresses]
    endpoints, now, sent = Endpoints(members), 0.0, []
    for event in events:
        now += 0.1
        if event == "choose" or not sent:
            chosen = endpoints.choose(now)
            free = [each for each in members if now >= each.out_until] or members
            assert chosen in free
            sent.append(chosen)
            continue
        endpoint = sent.pop(0)
        if event == "reply":
            endpoint.replied(now - 0.1, now)
        elif event == "later":
            now += 100
        else:
            fault = Fault("x", busy=event == "busy", unreached=event == "gone")
            elsewhere = endpoints.failed(endpoint, fault, now - 0.1, now)
            assert elsewhere == (event == "gone" and any(now >= each.out_until for each in members))
        endpoint.in_flight -= 1
    assert sum(each.in_flight for each in members) == len(sent)
    assert endpoints.limit(now + 1000) >= count
    assert endpoints.until(now + 1000) <= now + 1000


def endpoint_of():
    [address] = addresses_of("http://localhost/v1")
    return Endpoint(address, ApiKey(None, address), ExactLabels(Wire("m", "max_tokens"), address.url), 4)


@pytest.mark.parametrize(
    ("name", "is_repeated"),
    [
        ("chatcmpl-17642574{}", False),
        ("cmpl_17642574{}", False),
        ("chatcmpl-2026-11-27T20:36:{}Z", False),
        ("2026-11-27 20:36:{}.123456+00:00", False),
        ("resp-20261127T2036{}", False),
        ("chatcmpl-a01b02c03d04e05{}", True),
        ("2026a127-2036-4b10-8e5f-36501e8a20{}", True),
    ],
)
def test_times_as_ids_of_responses_show_no_repetition(name, is_repeated):
    endpoint = endpoint_of()
    assert not any(endpoint.is_repeated(name.format(n), b"%d" % n) for n in (10, 11))
    assert endpoint.is_repeated(name.format(11), b"12") == is_repeated


def test_ids_repeated_three_times_are_not_those_of_requests():
    """A response can be sent twice by mistake; replicas may have one id each for all their responses."""
    endpoint = endpoint_of()
    names = [f"chatcmpl-replica-{n % 2}-of-two" for n in range(100)]
    repeated = [endpoint.is_repeated(name, b"%d" % n) for n, name in enumerate(names)]
    assert repeated == [False, False, True, True, True, True] + [False] * 94


@pytest.mark.parametrize("ids", [("chatcmpl-0000000000000000a",), ("chatcmpl-replica-one", "chatcmpl-replica-two")])
def test_servers_with_constant_ids_are_asked(judge_of, ids):
    number = itertools.count()
    with FaultServer() as server:
        make = server.document
        server.document = lambda body, text: {**make(body, text), "id": ids[next(number) % len(ids)]}
        judge = judge_of(server)
        assert len(dict(judge.ask(prompts(40)))) == 40
        assert sum(server.asked.values()) <= 40 + 3 * len(ids)
