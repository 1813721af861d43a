"""Signals: nothing new is begun, what is paid for is kept, and a second one ends at once."""

import builtins
import contextlib
import itertools
import signal
import subprocess
import sys
import time

import pytest

import biaslab as bl
from biaslab.core import stopping
from biaslab.core.errors import InputError
from biaslab.testing import FaultServer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
ENDS = {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGHUP: 128 + signal.SIGHUP, signal.SIGINT: -signal.SIGINT}
#: One that Python itself handles, and one that it does not.
OF_EACH_PUSH = [signal.SIGTERM, signal.SIGINT, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough)]
RUN = """
import os
import sys
import time
import biaslab as bl
from biaslab.core import Completion
from biaslab.judges.api import ApiJudge
requests = [Completion(f"p {n}") for n in range(1500)]
try:
    with bl.Store(sys.argv[2]) as store:
        for _ in store.wrap(ApiJudge("judge", sys.argv[1], max_concurrency=64)).ask(requests):
            time.sleep(float(sys.argv[3]))
finally:
    if len(sys.argv) > 4:
        print(bl.core.stopping.dropped(), file=sys.stderr)
        sys.stderr.flush()
        os._exit(1)
"""


def hanging_after(count):
    """Answer so many requests, and no other."""
    asked = itertools.count()
    return lambda text, attempt: "" if next(asked) < count else "hang"


def started(server, path, slow=0.0, *others):
    """Start a run and wait until the server has 64 requests in flight, or hangs with some of them."""
    command = [sys.executable, "-c", RUN, server.url, str(path), str(slow), *others]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while sum(server.paid.values()) < 320:
        time.sleep(0.005)
        assert process.poll() is None
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    "slow", [0.0, pytest.param(0.002, marks=pytest.mark.thorough)], ids=["inside", "in the caller's code"]
)
@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
def test_requests_in_flight_are_stored_at_a_signal(tmp_path, number, slow):
    with FaultServer(latency=0.1) as server:
        process = started(server, tmp_path / "s", slow)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == ENDS[number], said
        assert server.most_open > 32
        paid = sum(server.paid.values())
        with bl.Store(tmp_path / "s") as store:
            assert len(store) == paid < 1500
        subprocess.run([sys.executable, "-c", RUN, server.url, str(tmp_path / "s"), "0"], check=True, timeout=120)
        assert set(server.paid.values()) == {1}
        assert len(server.paid) == 1500


@pytest.mark.slow
@pytest.mark.parametrize("number", OF_EACH_PUSH, ids=lambda number: number.name)
def test_signal_repeated_within_a_second_loses_no_reply(tmp_path, number):
    with FaultServer(latency=0.5) as server:
        process = started(server, tmp_path / "s")
        for pause in (0.05, 0.05, 0):
            process.send_signal(number)
            time.sleep(pause)
        process.communicate(timeout=60)
        assert process.returncode == ENDS[number]
        with bl.Store(tmp_path / "s") as store:
            assert len(store) == sum(server.paid.values()) < 1500


@pytest.mark.slow
def test_dropped_requests_are_counted_after_a_second_signal(tmp_path):
    with FaultServer(hanging_after(300)) as server:
        process = started(server, tmp_path / "s", 0.0, "counts")
        process.send_signal(signal.SIGINT)
        time.sleep(1.5)
        for _ in range(4):  # on a loaded machine the second may follow the first within a second of its arrival
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                _, words = process.communicate(timeout=8)
                break
        with bl.Store(tmp_path / "s") as store:
            lost = sum(server.paid.values()) - len(store)
        assert int(words.splitlines()[-1]) == lost > 0


@pytest.mark.slow
@pytest.mark.parametrize("number", OF_EACH_PUSH, ids=lambda number: number.name)
def test_a_second_signal_ends_at_once(tmp_path, number):
    with FaultServer(hanging_after(300)) as server:
        process = started(server, tmp_path / "s")
        for _ in range(100):  # the first is heeded soon, the second one whenever it is
            process.send_signal(number)
            time.sleep(0.1)
            if process.poll() is not None:
                break
        process.communicate(timeout=30)
        assert process.returncode != 0


@pytest.mark.slow
def test_grace_period_is_limited(tmp_path, monkeypatch):
    monkeypatch.setenv(stopping.GRACE, "0.5")
    with FaultServer(hanging_after(300)) as server:
        process = started(server, tmp_path / "s")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=40)  # the server itself hangs for a minute
        assert process.returncode == 143, said
        with bl.Store(tmp_path / "s") as store:
            assert len(store) >= 250


def test_handlers_of_the_caller_stay_and_ours_go():
    def own(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, own)
    try:
        hang_up = signal.getsignal(signal.SIGHUP)
        with stopping.handling_signals(lambda: None):
            assert signal.getsignal(signal.SIGTERM) is own
            assert signal.getsignal(signal.SIGHUP) != hang_up or hang_up != signal.SIG_DFL
            with stopping.handling_signals(lambda: None):
                pass
            assert signal.getsignal(signal.SIGHUP) != signal.SIG_DFL
        assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGHUP) == hang_up
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture
def anew(monkeypatch):
    """Signals as a process has them that has just started and is no notebook, whatever other tests left."""
    monkeypatch.delattr(builtins, "__IPYTHON__", raising=False)  # IPython never takes it back
    monkeypatch.setattr(stopping, "_SIGNALS", stopping._SignalHandling())
    before = {number: signal.signal(number, default) for number, default in stopping._DEFAULTS.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("anew")
def test_signal_outside_the_run_releases_it_before_raising():
    let_go = []

    def interrupted():
        with stopping.handling_signals(lambda: let_go.append(1)) as run:
            run.is_inside = False
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(stopping.Stopped) as raised:
        interrupted()
    assert (let_go, raised.value.code) == ([1], 143)
    assert stopping.seconds_left() == float("inf")


@pytest.mark.usefixtures("anew")
def test_a_signal_while_replies_are_kept_waits_for_them():
    kept = []

    def interrupted():
        with stopping.handling_signals(lambda: None), stopping.draining():
            signal.raise_signal(signal.SIGTERM)
            kept.append(stopping.seconds_left())

    with pytest.raises(stopping.Stopped):
        interrupted()
    assert 0 < kept[0] <= 25


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_exit_code_survives_a_replaced_system_exit(number):
    def as_ray_waits():
        try:
            signal.raise_signal(number)
        except SystemExit as error:
            raise SystemExit(f"SystemExit is raised (sys.exit is called). Exit code: {error.code}.") from None

    def interrupted():
        with stopping.handling_signals(lambda: None):
            as_ray_waits()

    with pytest.raises(SystemExit) as raised:
        interrupted()
    assert raised.value.code == 128 + number


@pytest.mark.usefixtures("anew")
def test_exit_without_a_signal_is_unchanged():
    with pytest.raises(SystemExit) as raised, stopping.handling_signals(lambda: None):
        sys.exit("enough")
    assert raised.value.code == "enough"


@pytest.mark.parametrize("value", ["-1", "soon", "inf", "nan"])
def test_the_grace_is_a_number_of_seconds(monkeypatch, value):
    monkeypatch.setenv(stopping.GRACE, value)
    with pytest.raises(InputError, match=f"BIASLAB_GRACE is '{value}', allowed: a number"):
        stopping.grace()
