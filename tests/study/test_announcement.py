"""What is going to be asked is said in one line, before the first request, and is what is then asked."""

import pytest

import biaslab as bl
from biaslab.core import Choice
from biaslab.study.spending import Ledger, announcement_of, announcement_of_all
from biaslab.study.token_counts import count_tokens

PROBE = bl.probes.Position(["coherence"], [1], n_pairs=2)


class Listening:
    """A judge that keeps what was said before it was asked."""

    kinds = frozenset({Choice})

    def __init__(self, judge, capsys):
        self.judge, self.capsys, self.heard, self.asked = judge, capsys, "", 0
        self.id, self.check = judge.id, judge.check

    def ask(self, requests):
        for request, reply in self.judge.ask(requests):
            self.heard += self.capsys.readouterr().out
            self.asked += 1
            yield request, reply


@pytest.fixture
def judge(graded, capsys):
    return Listening(bl.SimulatedJudge(graded), capsys)


def test_announcement_comes_before_the_first_request(judge, graded, tmp_path, capsys):
    bl.collect(PROBE, judge, graded.head(2), store=tmp_path / "s", announce=True, progress=False)
    assert judge.heard.startswith("position: 8 requests; ")
    assert judge.heard.count("\n") == 1
    bl.collect(PROBE, judge, graded.head(3), store=tmp_path / "s", announce=True, progress=False)
    assert "position: 4 requests (8 more in the store); " in judge.heard
    assert judge.asked == 12
    bl.collect(PROBE, judge, graded.head(3), store=tmp_path / "s", announce=True, progress=False)
    assert capsys.readouterr().out == ""


def test_announcement_follows_the_progress_bar(judge, graded):
    bl.collect(PROBE, judge, graded.head(1), progress=False)
    bl.collect(PROBE, judge, graded.head(1), announce=False)
    assert judge.heard == ""
    bl.collect(PROBE, judge, graded.head(1))
    assert judge.heard.startswith("position: 4 requests; ")


def test_announcement_has_known_price_and_time(judge, graded):
    budget = bl.Budget(prices={"input": 1000.0, "output": 2000.0}, seconds_per_request=30)
    bl.collect(PROBE, judge, graded, budget=budget, announce=True, progress=False)
    requests = [trial.request for trial in PROBE.design(graded)]
    tokens = count_tokens(judge, requests)
    read, written = tokens.read.sum(), tokens.written.sum()
    assert f"{read:,.0f} input tokens and at most {written:,.0f} output tokens, {tokens.method}" in judge.heard
    assert f"at most ${(1000 * read + 2000 * written) / 1e6:,.2f}; 16.0 min\n" in judge.heard


def planned_for(judge, requests):
    ledger = Ledger(judge, announces=True)
    ledger.plan(requests)
    return announcement_of(ledger)


def test_samples_are_counted(judge, graded):
    requests = [trial.request for trial in PROBE.design(graded)]
    planned = planned_for(bl.Sampled(bl.SimulatedJudge(graded), 5), requests)
    assert (planned.requests, planned.asked) == (32, 160)
    assert str(planned).startswith("32 requests (160 sent); ")


def test_tokens_are_estimated_from_a_sample(judge):
    data = bl.load_dataset("graded", limit=24)
    requests = [trial.request for trial in bl.probes.Position(["fluency"], [1]).design(data)]
    full, part = count_tokens(judge, requests), planned_for(judge, requests)
    assert len(requests) == 720
    assert part.read == pytest.approx(full.read.sum(), rel=0.01)


def test_requests_shared_by_designs_are_counted_once(graded, tmp_path):
    probes = [PROBE, bl.probes.Position(["coherence"], [1]), bl.probes.Anchoring(["coherence"])]  # which wants two
    planned = announcement_of_all(probes, bl.SimulatedJudge(graded), graded, tmp_path / "none.sqlite")
    assert planned.requests == 8 * 30
    assert not (tmp_path / "none.sqlite").exists()
