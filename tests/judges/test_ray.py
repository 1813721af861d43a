"""Replicas of a judge on a local Ray cluster: they are one judge, whatever dies."""

import pickle
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, nullcontext
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

import biaslab as bl
from biaslab.core import Completion
from biaslab.core.errors import InputError, JudgeError, PromptTooLongError
from biaslab.core.schema import Dataset
from biaslab.judges import ray_cluster
from biaslab.testing import FaultServer

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="replicas need Ray: pip install '.[ray]'")
PROBE = bl.probes.Position(["fluency"], [1], n_pairs=2)
DRIVER = """
import sys
import biaslab as bl

data = bl.load_dataset("graded", limit=8)
probe = bl.probes.Position(["fluency"], [1], n_pairs=2)
bl.collect(probe, bl.load_judge(sys.argv[1]), data, sys.argv[2], progress=False)
"""
JOINED = """
import biaslab as bl
from biaslab.judges import ray_cluster

data = bl.load_dataset("graded", limit=1)
judge = bl.load_judge("ray:1:simulated", data)
print(len(list(judge.ask([trial.request for trial in bl.probes.Position().design(data)]))), ray_cluster.is_ours())
judge.close()
"""
UNREACHED = """
import os, sys
import biaslab as bl
from biaslab.core.errors import UnreachableError

for os.environ["RAY_ADDRESS"] in sys.argv[1:]:
    try:
        bl.load_judge("ray:2:smollm2-135m")
    except UnreachableError as error:
        print(error)
"""


@pytest.mark.parametrize("failures", [0, 2, 9])
def test_a_local_cluster_that_starts_late_is_started_again(monkeypatch, failures):
    import ray

    begun, others = [], []
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]

    def init(**options):
        begun.append(subprocess.Popen([*sleep, ray.__file__.replace("__init__.py", "raylet")]))
        others.append(subprocess.Popen(sleep))  # by another thread
        if len(begun) <= failures:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(JudgeError, match="timed out during startup") if failures == 9 else nullcontext():
        ray_cluster._start()
    assert len(begun) == min(failures + 1, 4)
    begun[-1].kill()
    for process in begun:  # those of earlier attempts were ended
        process.wait(30)
    assert all(process.poll() is None for process in others)
    for process in others:
        process.kill()
        process.wait(30)


def named(server, replicas=2, **options):
    wanted = {"max_concurrency": 1, "patience.retries": 1, "patience.first_wait": 0.001, **options}
    return f"ray:{replicas}:api:judge@{server.url}?{'&'.join(f'{name}={value}' for name, value in wanted.items())}"


def replicas_of(process):
    """Processes that hold a replica."""
    return [each for each in process.children(recursive=True) if "ray::Replica" in command_of(each)]


def command_of(process):
    """Return the command line of a process; "" of one that ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def planned(data):
    return [trial.request for trial in PROBE.design(data)]


def prompt_of(request):
    return request.messages[-1].content


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("smollm2-135m", 0), "replicas is 0, allowed: a whole number of at least 1"),
        (("smollm2-135m", 2.0), "replicas is 2.0"),
        (("smollm2-135m", 2, -1), "gpus is -1, allowed: a whole number of at least 0, or a share"),
        (("smollm2-135m", 2, 1.5), "gpus is 1.5"),
        (("smollm2-135m", 2, float("nan")), "gpus is nan"),
        (("smollm2-135m", 2, "all"), "gpus is 'all'"),
        (("ray:2:smollm2-135m", 2), "judge is 'ray:2:smollm2-135m', allowed: the name of a judge"),
        (("", 2), "judge is ''"),
        ((lambda: None, 2), "a judge object cannot be sent to other machines; pass its name"),
        ((None, 2), "judge is None"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(arguments, words, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # nothing is there
    with pytest.raises(InputError, match=words):
        bl.RayJudge(*arguments)


@pytest.mark.parametrize("name", ["ray:x:smollm2-135m", "ray:2", "ray:2:", "ray::smollm2-135m", "ray:-1:smollm2-135m"])
def test_names_that_say_too_little_are_refused(name):
    with pytest.raises(InputError, match="allowed: ray:replicas:judge, such as ray:8:organisation/model"):
        bl.load_judge(name)


def test_a_judge_itself_is_refused(graded):
    with pytest.raises(InputError, match="a judge object cannot be sent"):
        bl.RayJudge(bl.SimulatedJudge(graded), 2)


@pytest.mark.slow
def test_unreachable_cluster_error_names_its_address():
    """In a process that belongs to no cluster yet."""
    with closing(socket.socket()) as free, FaultServer() as other:
        free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1], other.port]
        addresses = [f"{kind}127.0.0.1:{port}" for kind in ("", "ray://") for port in ports]
        done = subprocess.run(
            [sys.executable, "-c", UNREACHED, *addresses], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert len(said) == len(addresses)
    for address, words in zip(addresses, said, strict=True):
        assert words.startswith(f"could not join a Ray cluster at {address} (")
        assert ("what listens there is not Ray" in words) == address.endswith(str(ports[1]))
        assert "correct RAY_ADDRESS, or unset it for a local cluster" in words
        assert words.endswith("set RAY_AUTH_MODE=token for both")


@pytest.mark.slow
@pytest.mark.usefixtures("local_cluster")
class TestReplicas:
    def test_two_replicas_answer_as_one_judge_and_share_its_keys(self, tmp_path, graded):
        part, whole, path, local = graded.head(1), graded.head(2), tmp_path / "replies.sqlite", bl.LocalJudge()
        with closing(bl.load_judge("ray:2:smollm2-135m")) as judge:
            assert judge.id == local.id
            assert judge.encodes
            assert judge.encode(planned(part)[0]) == local.encode(planned(part)[0])
            with pytest.raises(PromptTooLongError) as caught:
                judge.check([*planned(part), Completion("word " * 9000), Completion("word " * 9001)])
            assert caught.value.request == Completion("word " * 9000)
            ours = dict(judge.ask(planned(whole)))
            with bl.Store(path) as store:  # the one judge begins a study, the other goes on with it
                begun = bl.collect(PROBE, local, part, store, progress=False)
                done = bl.collect(PROBE, judge, whole, store, progress=False)
                again = bl.collect(PROBE, local, whole, store, progress=False)
                theirs = dict(store.wrap(local).ask(planned(part)))
                assert {*theirs} & {*ours}
        asked = [trials.attrs["asked"] for trials in (begun, done, again)]
        assert asked == [len(planned(part)), len({*planned(whole)} - {*planned(part)}), 0]
        assert again["value"].equals(done["value"])
        assert again["key"].equals(done["key"])
        for request in {*theirs} & {*ours}:
            reply = theirs[request]
            assert reply.logprobs == pytest.approx(ours[request].logprobs, abs=1e-4)
            assert reply.usage == ours[request].usage

    def test_killed_replica_is_replaced_and_its_blocks_retried(self, tmp_path, graded):
        wanted = planned(graded)
        with FaultServer(latency=0.03) as server, bl.Store(tmp_path / "s.sqlite") as store:
            judge = bl.load_judge(named(server))
            kept = store.wrap(judge)
            replies, killed = {}, None
            for request, reply in kept.ask(wanted):
                replies[request] = reply
                if killed is None:
                    killed = replicas_of(psutil.Process())[0]
                    killed.send_signal(signal.SIGKILL)
            judge.close()
            assert set(replies) == set(wanted)
            assert len(store) == len(wanted)
            again = [count for count in server.asked.values() if count > 1]
            assert set(again) <= {2}
            assert len(again) <= 2 * 4  # two blocks of four requests each
            assert not killed.is_running() or killed.status() == psutil.STATUS_ZOMBIE

    @pytest.mark.thorough
    def test_a_replica_is_replaced_whatever_the_size_of_its_data_set(self, graded):
        """Ray hands larger arguments of an actor over by reference, and forgets them once it is there."""
        candidates = graded.candidates.assign(notes="x" * 5_000 + graded.candidates["candidate_id"].astype(str))
        large = Dataset(
            graded.name, candidates, graded.human, graded.attributes, graded.scale, graded.noun, graded.provenance
        )
        assert len(pickle.dumps(large)) > 200_000
        wanted = planned(large)
        with FaultServer(latency=0.03) as server, closing(bl.load_judge(named(server), large)) as judge:
            replies, killed = {}, None
            for request, reply in judge.ask(wanted):
                replies[request] = reply
                if killed is None:
                    killed = replicas_of(psutil.Process())[0]
                    killed.send_signal(signal.SIGKILL)
        assert set(replies) == set(wanted)
        assert sum(count > 1 for count in server.asked.values()) <= 2 * 4

    @pytest.mark.thorough
    def test_restart_after_killed_driver_asks_no_stored_request(self, tmp_path, graded):
        path, stored = tmp_path / "s.sqlite", set()
        with FaultServer(latency=0.1) as server:
            driver = subprocess.Popen([sys.executable, "-c", DRIVER, named(server), str(path)])
            while not stored:
                assert driver.poll() is None
                time.sleep(0.1)
                if path.exists():
                    with bl.Store(path) as store:
                        stored = {prompt_of(record.request) for record in store.records()}
            replicas = replicas_of(psutil.Process(driver.pid))
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            assert len(replicas) == 2
            assert not psutil.wait_procs(replicas, timeout=60)[1]  # they go with it
            with bl.Store(path) as store:
                stored = {prompt_of(record.request) for record in store.records()}
            assert 0 < len(stored) < len(planned(graded))
            before = Counter(server.asked)
            with closing(bl.load_judge(named(server))) as judge:
                trials = bl.collect(PROBE, judge, graded, path, progress=False)
            assert trials.attrs["stored"] == len(stored)
            assert trials.attrs["asked"] == len(planned(graded)) - len(stored)
            assert not any((server.asked - before)[prompt] for prompt in stored)
            with bl.Store(path) as store:
                assert len(store) == len(planned(graded))

    @pytest.mark.thorough
    def test_prompt_too_long_raises_and_keeps_other_replies(self, tmp_path, graded):
        wanted = planned(graded)
        bad, refuses = wanted[9], [True]
        with FaultServer(lambda text, _: "too long" if refuses[0] and text == prompt_of(bad) else "") as server:
            with closing(bl.load_judge(named(server))) as judge, bl.Store(tmp_path / "s.sqlite") as store:
                with pytest.raises(PromptTooLongError, match="maximum context length is 10 tokens") as caught:
                    list(store.wrap(judge).ask(wanted))
                assert caught.value.request == bad
                paid = {request for request in wanted if server.paid[prompt_of(request)]}
                assert set(wanted) - set(store.missing(judge, wanted)) == paid  # whatever was answered is kept
                refuses[0] = False
                replies = dict(store.wrap(judge).ask(wanted))
            assert set(replies) == set(wanted)
            assert set(server.paid.values()) == {1}  # and nothing was paid for twice

    @pytest.mark.thorough
    def test_stopped_run_yields_its_replies_and_resumes(self, graded):
        wanted = planned(graded)
        with FaultServer(latency=0.02) as server, closing(bl.load_judge(named(server))) as judge:
            answers = judge.ask(wanted)
            first, _ = next(answers)
            late = dict(answers.stop())
            assert first in late
            paid = sum(server.paid.values())
            assert len(late) == paid < len(wanted)
            assert list(answers) == []
            packs = list(judge.packs(wanted))
            assert all(packs)
            assert {request for pack in packs for request, _ in pack} == set(wanted)

    @pytest.mark.thorough
    def test_panel_and_sampled_around_replicas_keep_their_ids(self, graded):
        for name in ("panel:simulated:seed=1+simulated:seed=2", "sampled:3:simulated:noise=1"):
            around, plain = bl.load_judge(f"ray:1:{name}", graded), bl.load_judge(name, graded)
            assert around.id == plain.id
            assert dict(around.ask(planned(graded.head(1)))) == dict(plain.ask(planned(graded.head(1))))

    @pytest.mark.thorough
    def test_a_protocol_is_asked_and_read_as_by_one_judge(self, graded):
        prompt = "{question}\n\n1: {answer_1}\n\n2: {answer_2}\n\nReply as JSON."
        mine = bl.Protocol.from_template(prompt, verdicts={"1": 1, "2": 0}, json="winner")
        probe, data = bl.probes.Position(["coherence"], protocol=mine, n_pairs=3), graded.head(4)
        name = "simulated:position=1,noise=1,context_noise=0.5"
        around, plain = (
            bl.collect(probe, bl.load_judge(each, data), data, progress=False).sort_values("key")
            for each in (f"ray:2:{name}", name)
        )
        assert set(plain["status"]) == {"ok"}
        assert set(plain["template"]) == {mine.id}
        columns = ["key", "template", "value", "status"]
        assert around[columns].to_dict("list") == plain[columns].to_dict("list")

    @pytest.mark.thorough
    def test_a_cluster_that_is_there_is_joined_and_left_as_it_is(self, monkeypatch):
        import ray

        monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
        done = subprocess.run([sys.executable, "-c", JOINED], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("240 False\n", "")  # nothing of Ray's own is printed
        assert ray.get(ray.put("alive")) == "alive"
        assert ray.cluster_resources()

    def test_more_gpus_than_available_are_refused(self):
        import ray

        if ray.is_initialized() and ray.cluster_resources().get("GPU"):
            pytest.skip("this machine has GPUs")
        with pytest.raises(InputError, match=r"gpus is 1.0, allowed: at most 0: this machine has 0 GPUs for 2"):
            bl.RayJudge("smollm2-135m", 2, gpus=1)

    def test_an_error_of_making_the_judge_is_raised_as_it_is(self, tmp_path, monkeypatch):
        with pytest.raises(InputError, match="did you mean simulated"):
            bl.load_judge("ray:1:simulatd:position=1")
        monkeypatch.chdir(tmp_path)  # names are read where the driver works
        Path("biaslab.toml").write_text('[judges.mine]\nmodel = "qwen3"\naddress = "http://127.0.0.1:9/v1"\n')
        with closing(bl.load_judge("ray:1:mine")) as judge:
            assert judge.id == bl.load_judge("mine").id
