"""Every reply that was paid for is stored: of judges that ask several times, after kills, failures and in threads."""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.core.errors import ServerError
from biaslab.judges.api import Patience
from biaslab.judges.repetition import Sampled
from biaslab.store import Store, stored_judge
from biaslab.testing import FaultServer

ASKING = Path(__file__).with_name("asking.py")
MODULE = runpy.run_path(str(ASKING))
made, asked = MODULE["made"], MODULE["asked"]
TIMES = {"plain": 1, "sampled": 10, "thoughts": 4, "panel": 2, "panel of sampled": 8, "function": 1}
TIMES |= {"replicas sampled": 10, "replicas thoughts": 4}
OF_EACH_PUSH = {"plain", "panel of sampled", "function"}
IN_FLIGHT = 32


def run(kind, server, path, count):
    command = [sys.executable, "-c", "import asking; asking.main()", kind, server.url, str(path), str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ASKING.parent)}  # replicas import it, too
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def paid(server):
    return sum(server.paid.values())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(  # test_signals.py sends the gentle ones on each push
    "number",
    [*(pytest.param(gentle, marks=pytest.mark.thorough) for gentle in (signal.SIGINT, signal.SIGTERM)), signal.SIGKILL],
    ids=lambda number: number.name,
)
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in OF_EACH_PUSH else pytest.mark.thorough) for kind in TIMES]
)
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
        _, words = again.communicate(timeout=600)
        assert again.returncode == 0, words
        assert 0 <= paid(server) - 720 <= (IN_FLIGHT if number == signal.SIGKILL else 0)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
@pytest.mark.parametrize("kind", ["plain", "sampled", "panel"])
def test_threads_ask_each_request_once(tmp_path, kind):
    count = 480 // TIMES[kind]
    with FaultServer(latency=0.05) as server, Store(tmp_path / "s") as store:
        judges = [made(kind, server.url) for _ in range(4)]
        counts = []

        def work(judge):
            counts.append(len(dict(store.wrap(judge).ask(asked(kind, count)))))

        threads = [threading.Thread(target=work, args=(judge,)) for judge in judges]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert (counts, paid(server)) == ([count] * 4, 480)


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
@pytest.mark.parametrize("kind", ["plain", "sampled", "panel", "function"])
def test_unfinished_iterator_blocks_no_other_thread(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(stored_judge, "_SUSPENDED", 0.5)
    count = 240 // TIMES[kind]
    with FaultServer(latency=0.05) as server, Store(tmp_path / "s") as store:
        begun = store.wrap(made(kind, server.url)).ask(asked(kind, count))
        first = [next(begun)]
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(lambda: dict(store.wrap(made(kind, server.url)).ask(asked(kind, count))))
            assert len(again.result(60)) == count
        assert len(dict(first + list(begun))) == count
        assert paid(server) == 240


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_replies_stored_for_another_thread_are_counted_as_asked(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_judge, "_SUSPENDED", 0.01)
    with FaultServer(latency=0.05) as server, Store(tmp_path / "s") as store:
        one, other = (store.wrap(made("plain", server.url)) for _ in range(2))
        begun = one.ask(asked("plain", 240))
        next(begun)
        with ThreadPoolExecutor(1) as pool:
            assert len(pool.submit(lambda: dict(other.ask(asked("plain", 240)))).result(60)) == 240
        assert len(list(begun)) == 239
        assert one.asked + other.asked == paid(server) == 240
        assert one.tally.usage.completion_tokens + other.tally.usage.completion_tokens == 240
        assert (one.hits, other.hits) == (240 - one.asked, 240 - other.asked)


def test_replies_stored_after_an_early_end_are_counted_as_asked(tmp_path):
    with FaultServer(latency=0.05) as server, Store(tmp_path / "s") as store:
        judge = store.wrap(made("plain", server.url))
        with closing(judge.packs(asked("plain", 240))) as packs:
            next(packs)
        assert judge.asked == len(store) == paid(server)


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
@pytest.mark.slow
def test_slow_readers_take_turns(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_judge, "_SUSPENDED", 0.01)
    with FaultServer(latency=0.02) as server, Store(tmp_path / "s") as store:
        judges = [bl.ApiJudge("judge", server.url, max_concurrency=8) for _ in range(3)]

        def read_slowly(judge):
            replies = {}
            for request, reply in store.wrap(judge).ask(asked("plain", 120)):
                replies[request] = reply
                time.sleep(0.02)
            return len(replies)

        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(read_slowly, judges)) == [120] * 3
        assert paid(server) == 120


def test_nested_wraps_do_not_wait_for_each_other(tmp_path):
    with FaultServer() as server, Store(tmp_path / "s") as store, closing(bl.ApiJudge("judge", server.url)) as judge:
        replies = dict(store.wrap(store.wrap(judge)).ask([Completion(f"p {n}") for n in range(5)]))
        assert (len(replies), paid(server)) == (5, 5)
