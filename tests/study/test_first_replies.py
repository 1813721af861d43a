"""A study whose first replies hold no label stops, and shows what it saw."""

import math
import runpy
from contextlib import closing
from pathlib import Path

import pytest

import biaslab as bl
from biaslab.core import Choice, Reply
from biaslab.core.errors import UnlabelledRepliesError
from biaslab.testing import FaultServer

AnsweringServer = runpy.run_path(str(Path(__file__).parents[1] / "judges/answering_server.py"))["AnsweringServer"]
PROBE = bl.probes.Position(["coherence"], [1])


class ShortServer(FaultServer):
    """Answers "X" where the labels are "Summary A" and "Summary B"."""

    def answer_of(self, text):
        return "Neither"

    def likeliest(self, text):
        return {"X": 0.6, "Y": 0.3}


class Declining(bl.SimulatedJudge):
    """Declines some of the requests."""

    every, asked = 1, 0

    def ask(self, requests):
        for request, reply in super().ask(requests):
            self.asked += 1
            nothing = Reply(logprobs=(-math.inf,) * 2) if isinstance(request, Choice) else Reply(text="No.")
            yield request, nothing if self.asked % self.every == 0 else reply


def test_labels_that_the_judge_does_not_use_stop_the_study(graded):
    with ShortServer() as server, closing(bl.ApiJudge("judge", server.url, max_concurrency=8)) as judge:
        with pytest.raises(UnlabelledRepliesError, match="'Summary A', 'Summary B'") as caught:
            bl.collect(PROBE, judge, graded, progress=False)
        assert sum(server.asked.values()) < 60
    assert str(caught.value).count("'X'") == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("position", "verbosity", "anchoring") else pytest.mark.thorough)
        for name in sorted(bl.probes.available())
    ],
)
def test_unreadable_texts_stop_every_probe(name, graded, tmp_path):
    probe = bl.probes.available()[name]()
    with FaultServer(probabilities=False) as server, closing(bl.ApiJudge("judge", server.url)) as judge:
        server.answer_of = lambda text: "I would rather talk about the weather."
        with pytest.raises(UnlabelledRepliesError, match="the weather"):
            bl.collect(probe, judge, graded, tmp_path / "s", progress=False)
        assert sum(server.asked.values()) < 250


@pytest.mark.parametrize("wrap", [bl.Sampled, None], ids=["sampled", "panel"])
def test_judges_that_ask_others_stop_too(wrap, graded):
    judges = [Declining(graded, seed=seed) for seed in range(2)]
    judge = bl.Panel(judges) if wrap is None else wrap(judges[0], 3)
    with pytest.raises(UnlabelledRepliesError):
        bl.collect(PROBE, judge, graded, progress=False)


def test_recorded_judges_stop_no_study_in_a_panel_or_store(graded, tmp_path):
    judges = [Declining(graded, seed=seed) for seed in range(2)]
    for judge in judges:
        judge.is_recorded = True
    with bl.Store(tmp_path / "s") as store:
        for judge in (bl.Panel(judges), bl.Sampled(judges[0], 2), store.wrap(judges[1])):
            assert set(bl.collect(PROBE, judge, graded, progress=False)["status"]) == {"refused"}


@pytest.mark.parametrize(("every", "stops"), [(2, False), (1, True)])
def test_half_of_the_replies_may_be_refused(every, stops, graded):
    judge = Declining(graded)
    judge.every = every
    if not stops:
        assert bl.collect(PROBE, judge, graded, progress=False)["value"].notna().mean() == 0.5
        return
    with pytest.raises(UnlabelledRepliesError):
        bl.collect(PROBE, judge, graded, progress=False)
    assert judge.asked <= 100  # a pack of this judge


def test_share_of_refusals_above_half_stops_after_50(graded):
    class MostlyDeclining(Declining):
        def ask(self, requests):
            for request, reply in bl.SimulatedJudge.ask(self, requests):
                self.asked += 1
                yield request, reply if self.asked % 5 == 0 else Reply(logprobs=(-math.inf,) * 2)

    judge = MostlyDeclining(graded)
    with pytest.raises(UnlabelledRepliesError, match="80 of the first 100"):
        bl.collect(PROBE, judge, graded, progress=False)
    assert judge.asked <= 100


def test_stored_replies_without_labels_are_still_read(graded, tmp_path):
    judge, store = Declining(graded), tmp_path / "s"
    with bl.Store(store) as kept:
        for trial in PROBE.design(graded):
            kept.put(trial.request, judge.id, Reply(logprobs=(-math.inf, -math.inf)))
    trials = bl.collect(PROBE, judge, graded, store, progress=False)
    assert (set(trials["status"]), judge.asked) == ({"refused"}, 0)


def test_study_goes_on_in_a_second_run_with_its_store(graded, tmp_path):
    judge = Declining(graded)
    judge.every = 1
    with pytest.raises(UnlabelledRepliesError, match="run again with a store"):
        bl.collect(PROBE, judge, graded, tmp_path / "s", progress=False)
    trials = bl.collect(PROBE, judge, graded, tmp_path / "s", progress=False)
    assert set(trials["status"]) == {"refused"}
    assert judge.asked == trials["key"].nunique()
