"""Processes that are killed, that write at once, that fork: this module is also the program that they run."""

import hashlib
import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from biaslab.core import Completion, Reply, Request, Usage, request_key
from biaslab.core.errors import StoreError
from biaslab.store import Store, stored_judge
from biaslab.store.codec import reply_to_json


class LoggingJudge:
    """Answers from a hash of the request and a salt, slowly, and logs every request before and after."""

    id = "logging"
    kinds: frozenset[type] = frozenset({Completion})

    def __init__(self, log: Path, delay: float, salt: str = "") -> None:
        self.log, self.delay, self.salt = log, delay, salt

    def check(self, requests: Iterable[Request]) -> None:
        pass

    def ask(self, requests: Iterable[Request]) -> Iterator[tuple[Request, Reply]]:
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # an append outlives a killed process
        try:
            for request in requests:
                key = request_key(request, self.id)
                os.write(log, f"asked {key}\n".encode())
                time.sleep(self.delay)
                digest = hashlib.sha256((self.salt + key).encode()).digest()
                os.write(log, f"answered {key}\n".encode())
                yield request, make_reply(digest)
        finally:
            os.close(log)


def make_reply(digest: bytes) -> Reply:
    return Reply(text=digest.hex() * 20, finish_reason="stop", usage=Usage(digest[0], 0, digest[1]))


def make_requests(first: int, last: int) -> list[Request]:
    return [Completion(f"Say {number}. " + "x" * 300) for number in range(first, last)]


def logged(log: Path, moment: str) -> list[str]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split()[1] for line in lines if line.startswith(moment)]


def start(task: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, task, *map(str, arguments)])


def run(path: Path, log: Path, first: int, last: int, delay: float, salt: str) -> dict[str, str]:
    with Store(path) as store:
        judge = store.wrap(LoggingJudge(log, delay, salt))
        answers = {}
        for request, reply in judge.ask(make_requests(first, last)):
            answers[request_key(request, judge.id)] = reply_to_json(reply)
            with log.open("a") as lines:
                lines.write(f"received {request_key(request, judge.id)}\n")
        return answers


@pytest.mark.slow
@pytest.mark.parametrize(("count", "delay"), [(250, 0.006), (3000, 0.0003)])
def test_kill_loses_nothing_that_was_received(tmp_path: Path, count: int, delay: float) -> None:
    path, dice, is_fast = tmp_path / "replies.sqlite", random.Random(count), delay < stored_judge.AT_ONCE
    logs = [tmp_path / f"{number}.log" for number in range(11)]
    for number, log in enumerate(logs[:10]):
        process = start("run", path, log, 0, count, delay, "salt")
        begun = log if number % 2 else path  # a slow start is killed too, but not every time
        while not begun.exists() and process.poll() is None:
            time.sleep(0.001)
        time.sleep(dice.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
    final = run(path, logs[10], 0, count, delay, "salt")
    assert final == run(tmp_path / "other.sqlite", tmp_path / "other.log", 0, count, 0, "salt")
    asked = [logged(log, "asked") for log in logs]
    assert sum(map(bool, asked)) > 3  # the kills did fall into runs
    for number, keys in enumerate(asked):
        assert keys[:-1] == logged(logs[number], "answered")[: len(keys) - 1] if keys else True
        later = {key for others in asked[number + 1 :] for key in others}
        assert not later & set(logged(logs[number], "received"))
        assert is_fast or not later & set(keys[:-1])  # only the one in flight may be asked again
    times = Counter(key for keys in asked for key in keys)
    assert times.keys() == final.keys()
    assert is_fast or times.total() <= count + 10
    with Store(path) as store:
        assert len(store) == count
    assert not list(tmp_path.glob("*-wal"))


@pytest.mark.slow
def test_two_processes_fill_one_store_and_agree(tmp_path: Path) -> None:
    path, go = tmp_path / "replies.sqlite", tmp_path / "go"
    spans = {"one": (0, 300), "two": (100, 400)}  # the salt makes their judges disagree
    processes = [start("race", path, tmp_path / f"{salt}.log", *span, 0.002, salt, go) for salt, span in spans.items()]
    time.sleep(1)
    go.touch()
    assert [process.wait(120) for process in processes] == [0, 0]
    one, two = (json.loads((tmp_path / f"{salt}.json").read_text()) for salt in spans)
    assert (len(one), len(two), len(one.keys() & two.keys())) == (300, 300, 200)
    assert all(one[key] == two[key] for key in one.keys() & two.keys())
    asked = Counter(key for salt in spans for key in logged(tmp_path / f"{salt}.log", "asked"))
    with Store(path) as store:
        assert len(store) == 400
        stored = {key: reply_to_json(reply) for key, reply in store.get([*one, *two]).items()}
    assert stored == one | two
    assert max(asked.values()) == 1  # what the other one asked is waited for


@pytest.mark.slow
def test_processes_create_one_store_at_once(tmp_path: Path) -> None:
    processes = [start("create", tmp_path, number, tmp_path / "go") for number in range(4)]
    time.sleep(1.5)
    (tmp_path / "go").touch()
    assert [process.wait(120) for process in processes] == [0] * 4
    stores = sorted((tmp_path / "stores").iterdir())
    assert [store.name for store in stores] == [f"{number:03}" for number in range(40)]
    for file in stores:
        with Store(file) as store:
            assert len(store) == 4


@pytest.mark.slow
def test_kill_during_creation_leaves_no_half_made_store(tmp_path: Path) -> None:
    dice = random.Random(3)
    for round_ in range(5):
        folder = tmp_path / str(round_)
        process = start("create", folder, 0, tmp_path)
        while not folder.exists():
            time.sleep(0.001)
        time.sleep(dice.uniform(0.0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.wait()
        files = [file for file in (folder / "stores").glob("*") if file.name.isdigit()]
        for file in files:
            with Store(file, create=False) as store:
                assert len(store) in (0, 1)


def write_from(store: Store, salt: int) -> None:
    for number in range(100):
        store.put(Completion(f"{salt} says {number}"), "judge", Reply(text=str(number)))


def test_threads_share_a_store(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        threads = [threading.Thread(target=write_from, args=(store, salt)) for salt in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store) == 400


@pytest.mark.slow
def test_forked_children_share_a_store(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with Store(tmp_path / "store") as store:
        write_from(store, 0)
        children = [context.Process(target=write_from, args=(store, salt)) for salt in (1, 2)]
        for child in children:
            child.start()
        write_from(store, 3)
        for child in children:
            child.join(60)
        assert [child.exitcode for child in children] == [0, 0]
        assert len(store) == 400
    assert list(tmp_path.iterdir()) == [tmp_path / "store"]


def test_file_that_cannot_grow_keeps_what_it_has(tmp_path: Path) -> None:
    path, log = tmp_path / "store", tmp_path / "log"
    assert start("confined", path, log, 0, 300, 0, "salt").wait(60) == 0
    message = log.with_suffix(".message").read_text()
    with Store(path) as store:
        kept = len(store)
    assert 10 < kept < len(logged(log, "answered")) < 300
    assert len(logged(log, "received")) <= kept
    assert "replies stored so far are safe; free some space" in message
    again = tmp_path / "again.log"
    assert len(run(path, again, 0, 300, 0, "salt")) == 300
    assert len(logged(again, "asked")) == 300 - kept


def main(task: str, path: Path, *rest: str) -> None:
    if task == "create":
        wait_for(Path(rest[1]))
        for number in range(40):
            with Store(path / "stores" / f"{number:03}") as store:
                store.put(Completion(f"from {rest[0]}"), "judge", Reply(text="x"))
        return
    log, first, last, delay, salt = Path(rest[0]), int(rest[1]), int(rest[2]), float(rest[3]), rest[4]
    if task == "run":
        run(path, log, first, last, delay, salt)
    elif task == "race":
        wait_for(Path(rest[5]))
        log.with_suffix(".json").write_text(json.dumps(run(path, log, first, last, delay, salt)))
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, 2**18))
        try:
            run(path, log, first, last, delay, salt)
        except StoreError as error:
            log.with_suffix(".message").write_text(str(error))


def wait_for(go: Path) -> None:
    while not go.exists():
        time.sleep(0.001)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
