"""Kills at 64 requests in flight: what came is stored, and at most what is in flight in what died is asked again.

A server answers some requests and holds the others, so that nothing here depends on how fast a machine is: what it
answered has to reach the store while the rest hangs.
"""

import asyncio
import math
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec

import psutil
import pytest

import biaslab as bl
from biaslab.testing import FaultServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
]
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="replicas need Ray: pip install '.[ray]'")
PROBE = bl.probes.Position(templates=[1])
ANSWERED, IN_FLIGHT = 80, 64
GENTLE = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LONG = 900.0  # seconds: on a machine that does much else, replicas start in minutes
# One kill of each kind at a push, with a data set that Ray does not send along; five with each size otherwise.
SIZES = pytest.mark.parametrize(
    ("size", "times"),
    [
        pytest.param(116_000, 1),
        *(pytest.param(size, 5, marks=pytest.mark.thorough) for size in (0, 31_000, 116_000, 5_000_000)),
    ],
)
DRIVER = """
import pickle, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
import biaslab as bl
from biaslab.judges import ray_judge
ray_judge._SECONDS = 1800.0
data, probe = pickle.load(open(sys.argv[1], "rb")), bl.probes.Position(templates=[1])
bl.collect(probe, bl.load_judge(sys.argv[2], data), data, sys.argv[3], progress=False)
"""


class HoldingServer(FaultServer):
    """Answers so many requests, when each replica has sent its first one, and the others when it is let go."""

    answers, begun, replicas = ANSWERED, 0, 1

    def __init__(self, *given):
        super().__init__(*given)
        self.hanging = Counter()  # requests that wait, by the port of the client

    async def play(self, fault, request, *given):
        self.begun += 1
        place, until, port = self.begun, time.monotonic() + LONG, request.transport.get_extra_info("peername")[1]
        self.hanging[port] += 1
        try:
            while (place > self.answers or self.begun < self.replicas) and time.monotonic() < until:
                await asyncio.sleep(0.01)
        finally:
            self.hanging[port] -= 1
        return await super().play(fault, request, *given)

    def holds(self, process):
        """Say whether a request of a process waits; how many do is up to its pace."""
        return any(self.hanging[each.laddr.port] for each in process.net_connections("tcp") if each.laddr)

    def let_go(self):
        self.answers = math.inf

    @property
    def again(self):
        """How many requests were asked more often than once."""
        return sum(count - 1 for count in self.asked.values())

    def name(self, replicas=0):
        self.replicas = replicas or 1
        where, each = (f"ray:{replicas}:", IN_FLIGHT // replicas) if replicas else ("", IN_FLIGHT // 2)
        return f"{where}api:judge@{self.url}?max_concurrency={each}&patience.retries=1&patience.first_wait=0.001"


def data_of(size, context=""):
    """Eight contexts whose pickled form has so many bytes at least."""
    data = bl.load_dataset("graded", limit=8)
    notes = context + "x" * (size // len(data.candidates)) + data.candidates["candidate_id"].astype(str)
    data = replace(data, candidates=data.candidates.assign(notes=notes)) if size else data
    assert len(pickle.dumps(data)) >= size
    return data


def wait_for(condition, process=None):
    until = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < until
        assert process is None or process.poll() is None, "the run ended early"
        time.sleep(0.02)


def stored(path):
    if not path.exists():
        return 0
    with bl.Store(path) as store:
        return len(store)


def undisturbed(data):
    """The trials of a run that nothing disturbs."""
    with FaultServer() as server, closing(bl.load_judge(f"api:judge@{server.url}")) as judge:
        return bl.collect(PROBE, judge, data, progress=False)


def assert_same(trials, expected):
    columns = [name for name in expected if name not in ("judge", "key")]  # which name the server's address
    assert trials[columns].equals(expected[columns])


def started(server, path, data, replicas, environment=None):
    """Start a run in another process, and wait until it stored what was answered and has the rest in flight."""
    given = path.with_suffix(".pickle")
    given.write_bytes(pickle.dumps(data))
    command = [sys.executable, "-c", DRIVER, str(given), server.name(replicas), str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    wait_for(lambda: stored(path) == ANSWERED, process)
    asking = psutil.Process(process.pid)
    for each in replicas_of(asking) if replicas else [asking]:
        wait_for(lambda each=each: server.holds(each), process)
    return process


def replicas_of(process):
    return [each for each in process.children(recursive=True) if "ray::Replica" in " ".join(each.cmdline())]


def kill_worker(judge):
    replicas_of(psutil.Process())[0].kill()


def kill_replica(judge):
    import ray

    ray.kill(judge._actors[0], no_restart=False)


@needs_ray
@pytest.mark.usefixtures("local_cluster")
@pytest.mark.parametrize("kill", [pytest.param(kill_worker, marks=pytest.mark.thorough), kill_replica])
@SIZES
def test_a_replica_dies(tmp_path, kill, size, times):
    data = data_of(size)
    expected = undisturbed(data)
    requests = list(dict.fromkeys(trial.request for trial in PROBE.design(data)))
    for number in range(times):
        with (
            HoldingServer() as server,
            bl.Store(tmp_path / f"{number}.sqlite") as store,
            closing(bl.load_judge(server.name(2), data)) as judge,
        ):
            answers = store.wrap(judge).ask(requests)
            replies = dict(next(answers) for _ in range(ANSWERED))
            replicas = replicas_of(psutil.Process())
            for each in replicas:
                wait_for(lambda each=each, server=server: server.holds(each))
            assert len(store) == ANSWERED
            kill(judge)
            wait_for(lambda replicas=replicas: not all(each.is_running() for each in replicas))
            server.let_go()
            replies |= dict(answers)
            assert set(replies) == set(requests)
            assert 0 < server.again <= IN_FLIGHT / 2  # those of one of two
            assert_same(bl.collect(PROBE, judge, data, store, progress=False), expected)


@needs_ray
@pytest.mark.thorough
@pytest.mark.usefixtures("local_cluster")
@pytest.mark.parametrize("number", [*GENTLE, signal.SIGKILL], ids=lambda number: number.name)
@SIZES
def test_the_process_that_asks_dies(tmp_path, monkeypatch, number, size, times):
    import ray

    monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
    die_and_go_on(tmp_path, number, data_of(size), times, 2)


@pytest.mark.parametrize("number", [*GENTLE, signal.SIGKILL], ids=lambda number: number.name)
@SIZES
def test_a_process_without_replicas_dies(tmp_path, number, size, times):
    die_and_go_on(tmp_path, number, data_of(size), times, 0)


@needs_ray
@pytest.mark.thorough
@SIZES
def test_the_raylet_dies(tmp_path, monkeypatch, size, times):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)  # a cluster of the process that asks
    data = data_of(size)
    expected = undisturbed(data)
    for each in range(times):
        path = tmp_path / f"{each}.sqlite"
        with HoldingServer() as server:
            process = started(server, path, data, 2)
            raylet = next(each for each in psutil.Process(process.pid).children() if each.name() == "raylet")
            raylet.kill()
            server.let_go()
            _, said = process.communicate(timeout=LONG)
            assert process.returncode == 1, said  # of a JudgeError, or of Ray, which may end it first
            assert stored(path) >= ANSWERED
            go_on(server, path, data, expected, IN_FLIGHT)


def die_and_go_on(folder, number, data, times, replicas):
    expected = undisturbed(data)
    for each in range(times):
        path = folder / f"{each}.sqlite"
        with HoldingServer() as server:
            process = started(server, path, data, replicas)
            process.send_signal(number)
            if number == signal.SIGKILL:
                process.wait(LONG)
            server.let_go()
            _, said = process.communicate(timeout=LONG)
            expected_codes = {signal.SIGINT: (-number, 1), signal.SIGKILL: (-number,)}.get(number, (128 + number,))
            assert process.returncode in expected_codes, said  # 1: Ray's own end may hide an interrupt from Python
            wait_for(lambda server=server: server.open == 0)  # its replicas end with it
            assert stored(path) == ANSWERED if number == signal.SIGKILL else stored(path) == len(server.asked)
            go_on(server, path, data, expected, IN_FLIGHT if number == signal.SIGKILL else 0)


def go_on(server, path, data, expected, again):
    """Resume a run without replicas, and check that at most so many requests are asked again."""
    wait_for(lambda: server.open == 0)
    with closing(bl.load_judge(server.name())) as judge:
        trials = bl.collect(PROBE, judge, data, path, progress=False)
    assert_same(trials, expected)
    assert server.again <= again
