"""Every reply that was paid for is stored: of judges that ask several times, after kills, failures and in threads."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.core.errors import ServerError
from biaslab.judges.api import Patience
from biaslab.judges.repetition import Sampled
from biaslab.store import Store
from biaslab.testing import FaultServer

JUDGES = """
import functools, http.client, json, sys, time
import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.judges.api import ApiJudge
from biaslab.judges.repetition import MeanOverThoughts, Sampled


class Thinker(ApiJudge):
    thought_tokens = 8


def made(kind, url):
    api = functools.partial(ApiJudge, base_url=url, max_concurrency=32)
    if kind == "plain":
        return api("judge")
    if kind == "sampled":
        return Sampled(api("judge"), 10)
    if kind == "thoughts":
        return MeanOverThoughts(Thinker("judge", url, max_concurrency=32), 4)
    if kind == "panel":
        return bl.Panel([api("judge"), api("other")])
    if kind == "panel of sampled":
        return bl.Panel([Sampled(api("judge"), 4), Sampled(api("other"), 4)])

    def called(prompt):
        link = http.client.HTTPConnection(url.split("/")[2])
        link.request("POST", "/v1/chat/completions", json.dumps({"model": "f", "messages": [{"content": prompt}]}))
        return json.loads(link.getresponse().read())["choices"][0]["message"]["content"]

    return bl.FunctionJudge(called, concurrency=32)


def asked(kind, count):
    if kind == "function":
        return [Completion(f"Summary {n}?") for n in range(count)]
    return [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(count)]
"""
RUN = (
    JUDGES
    + """
kind, url, path, count = sys.argv[1:]
judge = made(kind, url)
with bl.Store(path) as store:
    for _ in store.wrap(judge).ask(asked(kind, int(count))):
        pass
"""
)
TIMES = {"plain": 1, "sampled": 10, "thoughts": 4, "panel": 2, "panel of sampled": 8, "function": 1}
IN_FLIGHT = 32
exec(JUDGES)  # noqa: S102 - the same judges here and in other processes


def run(kind, server, path, count):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, kind, server.url, str(path), str(count)], stderr=subprocess.PIPE, text=True
    )


def paid(server):
    return sum(server.paid.values())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
@pytest.mark.parametrize("kind", TIMES)
def test_kill_loses_at_most_what_is_in_flight(tmp_path, kind, number):
    count = 720 // TIMES[kind]
    with FaultServer(latency=0.1) as server:
        process = run(kind, server, tmp_path / "s", count)
        while paid(server) < 250:
            time.sleep(0.005)
            assert process.poll() is None, process.communicate()
        process.send_signal(number)
        process.communicate(timeout=60)
        assert paid(server) < 720
        again = run(kind, server, tmp_path / "s", count)
        _, words = again.communicate(timeout=120)
        assert again.returncode == 0, words
        assert 0 <= paid(server) - 720 <= (IN_FLIGHT if number == signal.SIGKILL else 0)


def test_one_failure_in_three_loses_no_sample(tmp_path):
    sent = []

    def fails_one_in_three(text, attempt):
        sent.append(text)
        return "500" if len(sent) % 3 == 0 and len(sent) <= 240 else ""

    requests = [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(40)]
    with FaultServer(fails_one_in_three) as server, Store(tmp_path / "s") as store:
        with closing(bl.ApiJudge("judge", server.url, patience=Patience(retries=0))) as judge:
            for _ in range(2):
                with pytest.raises(ServerError):
                    dict(store.wrap(Sampled(judge, 5)).ask(requests))
            sent += [""] * 240
            replies = dict(store.wrap(Sampled(judge, 5)).ask(requests))
        assert {reply.samples for reply in replies.values()} == {5}
        assert paid(server) == 200


def test_more_samples_cost_the_difference(tmp_path):
    requests = [Choice(f"Summary A or Summary B? {n}", ("Summary A", "Summary B")) for n in range(10)]
    with FaultServer() as server, Store(tmp_path / "s") as store, closing(bl.ApiJudge("judge", server.url)) as judge:
        for k, cost in ((3, 30), (5, 50), (3, 50)):
            assert {reply.samples for _, reply in store.wrap(Sampled(judge, k)).ask(requests)} == {k}
            assert paid(server) == cost


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
@pytest.mark.parametrize("kind", ["plain", "sampled", "panel"])
def test_threads_ask_each_request_once(tmp_path, kind):
    count = 480 // TIMES[kind]
    with FaultServer(latency=0.05) as server, Store(tmp_path / "s") as store:
        judges = [made(kind, server.url) for _ in range(4)]  # noqa: F821
        counts = []

        def work(judge):
            counts.append(len(dict(store.wrap(judge).ask(asked(kind, count)))))  # noqa: F821

        threads = [threading.Thread(target=work, args=(judge,)) for judge in judges]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert (counts, paid(server)) == ([count] * 4, 480)


def test_nested_wraps_do_not_wait_for_each_other(tmp_path):
    with FaultServer() as server, Store(tmp_path / "s") as store, closing(bl.ApiJudge("judge", server.url)) as judge:
        replies = dict(store.wrap(store.wrap(judge)).ask([Completion(f"p {n}") for n in range(5)]))
        assert (len(replies), paid(server)) == (5, 5)
