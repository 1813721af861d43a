"""Several processes on one store: each request is asked once, and nobody waits for one that is gone."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from biaslab.store import Store, stored_judge
from biaslab.store.stored_judge import Claims
from biaslab.testing import FaultServer

fcntl = pytest.importorskip("fcntl", reason="needs locks of POSIX")
RUN = """
import sys
import biaslab as bl
from biaslab.core import Completion
from biaslab.judges.api import ApiJudge
requests = [Completion(f"p {n}") for n in range(960)]
with bl.Store(sys.argv[2]) as store:
    judge = store.wrap(ApiJudge("judge", sys.argv[1], max_concurrency=64))
    replies = dict(judge.ask(requests))
    print(len(replies), hash(tuple(replies[request].text for request in requests)))
"""
HOLD = """
import os, sys, time
from pathlib import Path
from biaslab.store.stored_judge import Claims
claims = Claims(Path(sys.argv[1]))
taken = claims.take({"a", "b"})
print(len(taken), flush=True)
time.sleep(600)
"""


def started(server, path):
    command = [sys.executable, "-c", RUN, server.url, str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_four_processes_ask_each_request_once(tmp_path, killed):
    with FaultServer(latency=0.2) as server:
        processes = [started(server, tmp_path / "s") for _ in range(4)]
        while killed and sum(server.paid.values()) < 200:
            time.sleep(0.01)
        dead = None
        if killed:  # the one that asks
            [asks] = (tmp_path / ".s.claims").glob("*-*")
            dead = next(process for process in processes if is_open(asks, process.pid))
            dead.send_signal(signal.SIGKILL)
        outputs = {process: process.communicate(timeout=300) for process in processes}
    printed = {output for process, (output, error) in outputs.items() if process is not dead}
    assert len(printed) == 1, outputs
    assert printed.pop().startswith("960 ")
    twice = sum(count - 1 for count in server.paid.values())
    assert twice <= (3 * 64 if killed else 0)
    with Store(tmp_path / "s") as store:
        assert len(store) == 960
    assert sorted(file.name for file in tmp_path.iterdir()) == ["s"]


def is_open(file, pid):
    return any(os.path.realpath(link) == str(file) for link in Path(f"/proc/{pid}/fd").glob("*"))


@pytest.mark.slow
def test_claims_end_with_their_process_and_with_their_lease(tmp_path, monkeypatch):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "s")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "2\n"
    ours = Claims(tmp_path / "s")
    assert ours.take({"a", "c"}) == {"c"}
    with monkeypatch.context() as patch:
        patch.setattr(stored_judge, "LEASE", -1.0)
        assert ours.take({"a"}) == {"a"}
    assert ours.take({"b"}) == set()
    holder.kill()
    holder.communicate()
    assert ours.take({"a", "b"}) == {"a", "b"}
    ours.close()
    assert list(tmp_path.iterdir()) == []


def test_claims_end_with_their_process_although_its_children_live(tmp_path):
    command = [sys.executable, "-c", HOLD.replace("print(", "child = os.fork()\nchild and print("), str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as holder:
        assert holder.stdout.readline() == "2\n"
        ours = Claims(tmp_path / "s")
        assert ours.take({"a", "c"}) == {"c"}
        holder.kill()
        holder.wait()
        freed: set[str] = set()
        try:
            for _ in range(200):  # until the child has run, which gives back what it inherited
                freed |= ours.take({"a", "b"} - freed)
                if freed == {"a", "b"}:
                    break
                time.sleep(0.1)
        finally:
            os.killpg(holder.pid, signal.SIGKILL)
        assert freed == {"a", "b"}
    ours.close()


def test_a_forked_child_claims_in_a_file_of_its_own(tmp_path):
    ours = Claims(tmp_path / "s")
    assert ours.take({"a"}) == {"a"}
    child = os.fork()
    if not child:
        os._exit(ours.take({"a", "b"}) != {"b"})
    assert ours.take({"c"}) == {"c"}
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ours.close()


def test_runs_of_one_thread_do_not_wait_for_each_other(tmp_path):
    one, other = Claims(tmp_path / "s"), Claims(tmp_path / "s")
    assert one.take({"a"}) == other.take({"a"}) == {"a"}
    with ThreadPoolExecutor(1) as pool:
        claims = pool.submit(Claims, tmp_path / "s").result()
    assert claims.take({"a", "c"}) == {"c"}
    claims.close()
    one.close()
    other.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_makes_no_claims(tmp_path):
    (tmp_path / ".s.claims").write_text("no folder")
    made = Claims(tmp_path / "s")
    assert made.take({"a"}) == {"a"}
    made.close()
