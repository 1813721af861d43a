"""A study in windows: what is asked, what comes back and what is in memory, whatever the size of a window."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import weakref

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import biaslab as bl
from biaslab.core import Choice, Reply, Trial, Usage
from biaslab.core.errors import BudgetExceededError, InputError, JudgeError, UnsupportedRequestError
from biaslab.probes import available
from biaslab.probes.position import Position
from biaslab.study import windows as windowed
from biaslab.study.windows import Seen, windows

PROBE = Position(["coherence"], [1])


class Watched:
    """Counts what it is asked, call by call, and how many replies are alive."""

    kinds = frozenset({Choice})

    def __init__(self, judge):
        self.judge, self.id, self.calls = judge, judge.id, []
        self.refuses, self.alive, self.most = None, weakref.WeakSet(), 0

    def check(self, requests):
        for request in requests:
            if self.refuses is not None and self.refuses in request.messages[0].content:
                raise UnsupportedRequestError("not that one", request)

    def ask(self, requests):
        self.calls.append(list(requests))
        for request, reply in self.judge.ask(requests):
            own = Seldom(**vars(reply))
            self.alive.add(own)
            self.most = max(self.most, len(self.alive))
            yield request, own


@dataclasses.dataclass(frozen=True, eq=False)
class Seldom(Reply):
    """A reply that can be watched."""


@pytest.fixture(params=[7, 45, 10_000])
def small(request, monkeypatch):
    monkeypatch.setattr(windowed, "SIZE", request.param)
    return request.param


@pytest.fixture
def judge(graded):
    return bl.SimulatedJudge(graded, position=0.5, noise=1, refusal=0.05)


@given(sizes=st.lists(st.integers(1, 9), max_size=12), most=st.integers(1, 20))
def test_windows_hold_whole_contexts_in_order(sizes, most):
    request = Choice("A or B?", ("A", "B"))
    trials = [Trial(request, str(n), "x", str(at)) for n, size in enumerate(sizes) for at in range(size)]
    found = list(windows(iter(trials), most))
    assert [trial for window in found for trial in window] == trials
    assert all(len(window) >= most for window in found[:-1])
    names = [{trial.context_id for trial in window} for window in found]
    assert sum(map(len, names)) == len(sizes)


@given(st.lists(st.sets(st.integers(-(2**63), 2**63 - 1), max_size=20), max_size=20))
def test_seen_reports_numbers_added_before(parts):
    seen, known = Seen(), set()
    for part in parts:
        given_now = np.array(sorted(part), np.int64)
        assert seen.add(given_now).tolist() == [number in known for number in given_now.tolist()]
        known |= part


def test_trials_do_not_depend_on_the_window(graded, judge, small, tmp_path):
    watched = Watched(judge)
    trials = bl.collect(PROBE, watched, graded, progress=False)
    windowed.SIZE = 10_000
    pd.testing.assert_frame_equal(trials, bl.collect(PROBE, judge, graded, progress=False))
    assert (trials.attrs["asked"], trials.attrs["stored"]) == (240, 0)
    assert len(watched.calls) == {7: 8, 45: 4, 10_000: 1}[small]
    contexts = [{request.about.context_id for request in call} for call in watched.calls]
    assert sum(map(len, contexts)) == 8


def test_a_window_keeps_a_broad_judge_busy(graded, judge, monkeypatch):
    monkeypatch.setattr(windowed, "SIZE", 7)
    watched = Watched(judge)
    watched.breadth = 100
    bl.collect(PROBE, watched, graded, progress=False)
    assert [len(call) for call in watched.calls] == [120, 120]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("familiarity", "position", "sweep") else pytest.mark.slow)
        for name in sorted(available())
    ],
)
def test_every_probe_streams_into_a_file(name, graded, monkeypatch, tmp_path):
    monkeypatch.setattr(windowed, "SIZE", 50)
    data = graded.head(2)
    probe = available()[name](**{} if name in ("source", "recipe") else {"attributes": ["coherence", "fluency"]})
    judge = bl.SimulatedJudge(data, noise=1, garbage=0.05)
    store = tmp_path / "replies.sqlite"
    trials = bl.collect(probe, judge, data, store, progress=False)
    file = bl.collect(probe, judge, data, store, progress=False, out=tmp_path / "trials.parquet")
    pd.testing.assert_frame_equal(file.to_pandas(), trials)
    assert file.attrs == trials.attrs | {"asked": 0, "stored": trials.attrs["asked"], "tokens": 0}


def test_requests_in_several_windows_are_asked_once(graded, judge, small):
    class Twice(Position):
        def design(self, dataset):
            yield from super().design(dataset)
            for trial in super().design(dataset):
                yield dataclasses.replace(trial, replicate=1)

    watched = Watched(judge)
    trials = bl.collect(Twice(["coherence"], [1]), watched, graded, progress=False)
    assert sum(map(len, watched.calls)) == 240
    assert (trials.attrs["asked"], trials.attrs["stored"]) == (240, 0)
    assert trials.groupby("key")["value"].nunique(dropna=False).eq(1).all()


def test_bad_request_in_the_last_window_is_refused_first(graded, judge, small):
    watched = Watched(judge)
    watched.refuses = graded.candidates["context"].iloc[-1]
    with pytest.raises(UnsupportedRequestError, match=f"context {graded.candidates['context_id'].iloc[-1]!r}"):
        bl.collect(PROBE, watched, graded, progress=False, nearest=False)
    assert watched.calls == []


def test_a_budget_is_held_against_all_windows(graded, judge, small, tmp_path):
    watched, store = Watched(judge), tmp_path / "replies.sqlite"
    with pytest.raises(BudgetExceededError, match=r"needs 240 requests, but the budget allows 239, .* 7 of 8 contexts"):
        bl.collect(PROBE, watched, graded, progress=False, budget=bl.Budget(requests=239))
    assert watched.calls == []
    with pytest.raises(BudgetExceededError, match="100 of 240 requests were answered"):
        bl.collect(PROBE, watched, graded, store, progress=False, budget=bl.Budget(requests=100, partial=True))
    trials = bl.collect(PROBE, watched, graded, store, progress=False, budget=bl.Budget(requests=140))
    assert (trials.attrs["asked"], trials.attrs["stored"]) == (140, 100)


def test_tokens_are_counted_as_of_the_whole_design(graded, judge, small, capsys):
    bl.collect(PROBE, judge, graded, progress=False, announce=True)
    message = capsys.readouterr().err + capsys.readouterr().out
    windowed.SIZE = 10_000
    bl.collect(PROBE, judge, graded, progress=False, announce=True)
    assert message == capsys.readouterr().err + capsys.readouterr().out


def test_replies_are_dropped_with_their_window(graded, judge, monkeypatch):
    monkeypatch.setattr(windowed, "SIZE", 30)
    watched = Watched(judge)
    bl.collect(PROBE, watched, graded, progress=False)
    assert watched.most <= 2 * 30 < 240


def test_an_error_leaves_the_file_that_was_there(graded, judge, small, tmp_path):
    out = tmp_path / "trials.parquet"

    class Failing(Watched):
        def ask(self, requests):
            yield from super().ask(requests[:-1])

    with pytest.raises(JudgeError, match="unanswered"):
        bl.collect(PROBE, Failing(judge), graded, progress=False, out=out)
    assert list(tmp_path.iterdir()) == []
    bl.collect(PROBE, judge, graded, progress=False, out=out)
    before = out.read_bytes()
    with pytest.raises(JudgeError, match="unanswered"):
        bl.collect(PROBE, Failing(judge), graded, progress=False, out=out)
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_other_files_are_refused_before_any_request(graded, judge, tmp_path):
    out, watched = tmp_path / "trials.parquet", Watched(judge)
    pd.DataFrame({"a": [1]}).to_parquet(out)
    with pytest.raises(InputError, match=r"a new file, or one with the columns probe, judge.*it has a; "):
        bl.collect(PROBE, watched, graded, progress=False, out=out)
    bl.collect(PROBE, bl.SimulatedJudge(graded), graded, progress=False, out=tmp_path / "other.parquet")
    with pytest.raises(InputError, match=r"or one of this study.*it is of judge simulated"):
        bl.collect(PROBE, watched, graded, progress=False, out=tmp_path / "other.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet")
    with pytest.raises(InputError, match="a Parquet file of trials"):
        bl.collect(PROBE, watched, graded, progress=False, out=tmp_path / "text.parquet")
    with pytest.raises(InputError, match=r"ends in \.parquet"):
        bl.collect(PROBE, watched, graded, progress=False, out=tmp_path / "trials.csv")
    assert watched.calls == []


def test_mixed_types_of_a_condition_are_refused_only_for_files(graded, judge, tmp_path):
    class Mixed(Position):
        def design(self, dataset):
            for at, trial in enumerate(super().design(dataset)):
                yield dataclasses.replace(trial, condition={"odd": "yes" if at % 2 else 1})

    probe, watched = Mixed(["coherence"], [1]), Watched(judge)
    with pytest.raises(InputError, match="odd has mixed types"):
        bl.collect(probe, watched, graded, progress=False, out=tmp_path / "trials.parquet")
    assert watched.calls == []
    assert bl.collect(probe, judge, graded, progress=False)["odd"].tolist()[:2] == [1, "yes"]


@pytest.mark.slow
@given(text=st.text(st.characters(codec=None, categories=["Cs", "Cc", "L", "P"]), max_size=30))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_reply_goes_into_a_file(text, graded, tmp_path):
    class Writes:
        id, kinds = "writes", frozenset({bl.Completion})

        def check(self, requests):
            pass

        def ask(self, requests):
            for request in requests:
                yield request, Reply(text=text, finish_reason="stop", usage=Usage(1, 0, 1))

    class Keeps(Position):
        keeps_replies = True

    probe = Keeps(["coherence"], [1], answer="text")
    file = bl.collect(probe, Writes(), graded.head(1), progress=False, out=tmp_path / "trials.parquet")
    plain = text.encode("utf-8", "backslashreplace").decode()
    assert file["reply"].tolist() == [plain] * 30


RUN = """
import sys, time
import biaslab as bl
from biaslab.study import windows as windows
windows.SIZE = 30
class Slow:
    def __init__(self, judge): self.judge, self.id, self.kinds, self.check = judge, judge.id, judge.kinds, judge.check
    def packs(self, requests):
        for pack in self.judge.packs(requests):
            time.sleep(0.2)
            yield pack
    def ask(self, requests): raise NotImplementedError
data = bl.load_dataset("graded", limit=8)
judge = Slow(bl.SimulatedJudge(data, position=0.5, noise=1, refusal=0.05))
bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, store=sys.argv[1], progress=False, out=sys.argv[2])
"""


@pytest.mark.slow
def test_restart_of_a_killed_run_asks_only_missing_requests(graded, judge, tmp_path):
    store, out = tmp_path / "replies.sqlite", tmp_path / "trials.parquet"
    process = subprocess.Popen([sys.executable, "-c", RUN, str(store), str(out)])
    while process.poll() is None and not (store.exists() and len(bl.Store(store)) >= 60):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    watched = Watched(judge)
    trials = bl.collect(PROBE, watched, graded, store, progress=False, out=out)
    assert trials.attrs["stored"] >= 60
    assert trials.attrs["asked"] == sum(map(len, watched.calls)) == 240 - trials.attrs["stored"]
    pd.testing.assert_frame_equal(trials.to_pandas(), bl.collect(PROBE, judge, graded, progress=False))
