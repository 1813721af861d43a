"""The walk of a judgement: what is asked, kept, resumed, refused and stopped."""

import dataclasses
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import biaslab as bl
from biaslab.core import Choice, Reply
from biaslab.core.errors import (
    BudgetExceededError,
    InputError,
    JudgeError,
    PromptTooLongError,
    RepeatedTextsWarning,
    UnsupportedRequestError,
)
from biaslab.probes.position import Position
from biaslab.stats.blocks import linked_contexts
from biaslab.study.token_counts import count_tokens

PROBE = Position(["coherence"], [1])


class Watched:
    """A judge that counts what it is asked and can fail on the way."""

    kinds = frozenset({Choice})

    def __init__(self, judge, fail_after=None):
        self.judge, self.fail_after, self.asked = judge, fail_after, []
        self.id = judge.id

    def check(self, requests):
        self.judge.check(requests)

    def ask(self, requests):
        for request, reply in self.judge.ask(requests):
            if self.fail_after is not None and len(self.asked) == self.fail_after:
                raise ConnectionError("the line is dead")
            self.asked.append(request)
            yield request, reply


@pytest.fixture
def judge(graded):
    return bl.SimulatedJudge(graded, position=0.5, noise=1)


def collect(judge, data, **options):
    return bl.collect(PROBE, judge, data, progress=False, **options)


def test_repeated_texts_of_contexts_are_announced(judge, graded):
    names = graded.candidates["context_id"].unique()
    text = graded.candidates["context"].where(graded.candidates["context_id"] != names[1], "")
    text = text.where(graded.candidates["context_id"] != names[0], text.iloc[-1])
    data = dataclasses.replace(graded, candidates=graded.candidates.assign(context=text))
    with pytest.warns(RepeatedTextsWarning, match="2 contexts have only 1 text"):
        collect(judge, data)
    clusters = linked_contexts(data.candidates, "context")
    assert clusters == {names[0]: names[0], names[-1]: names[0]}
    probe = dataclasses.replace(PROBE, resampling=bl.Resampling(clusters=clusters))
    bl.collect(probe, judge, data, progress=False)  # without a warning


def test_trials_frame(judge, graded):
    trials = collect(judge, graded)
    assert list(trials.columns) == [
        "probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute",
        "template", "human_gap", "replicate", "value", "status", "label_mass", "samples", "tokens", "key",
    ]  # fmt: skip
    assert (trials["label_mass"] - 1).abs().max() < 1e-12
    assert trials["key"].is_unique
    assert (trials.attrs["asked"], trials.attrs["stored"]) == (len(trials), 0)


def test_a_second_run_asks_nothing_and_is_equal(judge, graded, tmp_path):
    store = tmp_path / "replies.sqlite"
    first = collect(judge, graded, store=store)
    silent = Watched(judge)
    second = collect(silent, graded, store=str(store))
    assert silent.asked == []
    assert (second.attrs["asked"], second.attrs["stored"]) == (0, len(second))
    pd.testing.assert_frame_equal(first, second)


def test_a_failure_keeps_what_was_answered(judge, graded, tmp_path):
    store = tmp_path / "replies.sqlite"
    failing = Watched(judge, fail_after=37)
    with pytest.raises(ConnectionError):
        collect(failing, graded, store=store)
    rest = Watched(judge)
    trials = collect(rest, graded, store=store)
    assert not set(rest.asked) & set(failing.asked)
    assert len(rest.asked) == len(trials) - 37
    pd.testing.assert_frame_equal(trials, collect(judge, graded))


def test_equal_requests_are_asked_once(judge, graded):
    class Twice(Position):
        def design(self, dataset):
            for trial in super().design(dataset):
                yield trial
                yield dataclasses.replace(trial, replicate=1)

    watched = Watched(judge)
    trials = bl.collect(Twice(["coherence"], [1]), watched, graded, progress=False)
    assert len(trials) == 2 * len(watched.asked)
    assert trials.groupby("key")["value"].nunique().eq(1).all()


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (bl.Budget(requests=10, partial=True), "10 of 10 requests; 10 of 240 requests were answered"),
        (bl.Budget(tokens=5, partial=True), "tokens"),
        (bl.Budget(minutes=1e-9), "minutes"),
        (bl.Budget(minutes=1e-9, seconds_per_request=1, partial=True), "minutes"),
    ],
)
def test_a_partial_budget_stops_the_run_and_keeps_everything(judge, graded, tmp_path, budget, words):
    store = tmp_path / "replies.sqlite"
    watched = Watched(judge)
    with pytest.raises(BudgetExceededError, match=words):
        collect(watched, graded, store=store, budget=budget)
    assert 0 < len(watched.asked) <= 10
    rest = Watched(judge)
    collect(rest, graded, store=store)
    assert len(rest.asked) + len(watched.asked) == 240


def test_a_budget_one_request_short_refuses_and_one_exact_starts(judge, graded, tmp_path):
    watched = Watched(judge)
    with pytest.raises(BudgetExceededError, match=r"needs 240 requests, but the budget allows 239, .* 7 of 8 contexts"):
        collect(watched, graded, budget=bl.Budget(requests=239))
    assert watched.asked == []
    assert len(collect(watched, graded, budget=bl.Budget(requests=240))) == len(watched.asked) == 240


@pytest.mark.slow
@given(kept=st.integers(0, 8), budget=st.integers(1, 250))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_budget_counts_open_requests_and_contexts_that_fit(judge, graded, kept, budget):
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "replies.sqlite")
        if kept:
            collect(judge, graded.head(kept), store=store)
        watched, needed = Watched(judge), 30 * (8 - kept)
        if budget >= needed:
            assert len(collect(watched, graded, store=store, budget=bl.Budget(requests=budget))) == 240
            assert len(watched.asked) == needed
            return
        with pytest.raises(BudgetExceededError, match=f"needs {needed} requests") as caught:
            collect(watched, graded, store=store, budget=bl.Budget(requests=budget))
        assert watched.asked == []
        fits = int(re.search(r"enough for (\d+) of 8", str(caught.value))[1])
        assert fits == kept + budget // 30
        if fits:
            collect(watched, graded.head(fits), store=store, budget=bl.Budget(requests=budget))
            assert len(watched.asked) <= budget


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("limit", ["tokens", "minutes"])
def test_tokens_and_a_known_speed_are_checked_before_the_run(judge, graded, limit, short):
    watched = Watched(judge)
    requests = [trial.request for trial in PROBE.design(graded)]
    counted = count_tokens(judge, requests)
    if limit == "tokens":
        budget = bl.Budget(tokens=int((counted.read + counted.written).sum()) - short)
    else:
        budget = bl.Budget(minutes=240 * 0.5 / 60 - 0.001 * short, seconds_per_request=0.5)
    if short:
        with pytest.raises(BudgetExceededError, match=rf"needs [\d,]+ {limit}.*7 of 8 contexts"):
            collect(watched, graded, budget=budget)
        assert watched.asked == []
    else:
        assert len(collect(watched, graded, budget=budget)) == 240


def test_budget_below_one_context_is_refused(judge, graded):
    with pytest.raises(BudgetExceededError, match=r"0 of 8 contexts; nothing was asked; use a larger budget"):
        collect(judge, graded, budget=bl.Budget(requests=29))


def test_stored_replies_cost_no_budget(judge, graded, tmp_path):
    store = tmp_path / "replies.sqlite"
    collect(judge, graded, store=store)
    assert len(collect(judge, graded, store=store, budget=bl.Budget(requests=1))) == 240


@dataclasses.dataclass(frozen=True)
class Doubtful(Position):
    """Asks again, with the other template, whatever it was in doubt about."""

    def design(self, dataset, trials=None):
        if trials is None:
            yield from super().design(dataset)
        elif set(trials["template"]) == {1}:
            doubted = trials[(trials["value"] - 0.5).abs() < 0.1]
            wanted = set(zip(doubted["context_id"], doubted["candidate_id"], doubted["opponent_id"], strict=True))
            for trial in dataclasses.replace(self, templates=[2]).design(dataset):
                if (trial.context_id, trial.candidate_id, trial.opponent_id) in wanted:
                    yield trial


DOUBTFUL = Doubtful(["coherence"], [1])


def test_adaptive_design_continues_from_earlier_trials(judge, graded):
    watched = Watched(judge)
    trials = bl.collect(DOUBTFUL, watched, graded, progress=False)
    first, again = trials[trials["template"] == 1], trials[trials["template"] == 2]
    pd.testing.assert_frame_equal(first.reset_index(drop=True), collect(judge, graded), check_like=True)
    assert len(again) == ((first["value"] - 0.5).abs() < 0.1).sum() > 0
    assert len(watched.asked) == len(trials) == trials.attrs["asked"]
    assert trials.index.tolist() == list(range(len(trials)))


def test_a_later_round_is_resumed_from_the_store(judge, graded, tmp_path):
    store = tmp_path / "replies.sqlite"
    failing = Watched(judge, fail_after=243)
    with pytest.raises(ConnectionError):
        bl.collect(DOUBTFUL, failing, graded, store=store, progress=False)
    rest = Watched(judge)
    trials = bl.collect(DOUBTFUL, rest, graded, store=store, progress=False)
    assert trials.attrs["stored"] == 243
    assert not set(rest.asked) & set(failing.asked)
    pd.testing.assert_frame_equal(trials, bl.collect(DOUBTFUL, judge, graded, progress=False))


def test_spent_budget_starts_no_further_round(judge, graded, tmp_path):
    store, watched = tmp_path / "replies.sqlite", Watched(judge)
    with pytest.raises(BudgetExceededError, match="240 of 240 requests; the design has more requests"):
        bl.collect(DOUBTFUL, watched, graded, store=store, budget=bl.Budget(requests=240), progress=False)
    assert len(watched.asked) == 240
    with pytest.raises(BudgetExceededError, match="needs 240 requests"):
        bl.collect(DOUBTFUL, watched, graded, budget=bl.Budget(requests=239), progress=False)
    assert len(watched.asked) == 240


@pytest.mark.parametrize("limit", ["requests", "tokens", "minutes", "seconds_per_request"])
def test_bad_budget(limit):
    for value in (0, -1, float("nan")):
        with pytest.raises(InputError, match=f"budget.{limit}"):
            bl.Budget(**{limit: value})


def test_unanswerable_request_is_named_before_any_request(judge, graded):
    class Narrow(Watched):
        def check(self, requests):
            longest = max(requests, key=lambda r: len(r.messages[0].content))
            raise PromptTooLongError("too long", longest)

    narrow = Narrow(judge)
    with pytest.raises(
        PromptTooLongError, match=r"context 'news-\d|context '\w+-\d+', candidate c\d and c\d"
    ) as caught:
        collect(narrow, graded)
    assert caught.value.request is not None
    assert narrow.asked == []


def test_a_judge_without_distributions_is_refused(judge, graded):
    watched = Watched(judge)
    text_probe = Position(["coherence"], [1], answer="text")
    watched.check = lambda requests: bl.SimulatedJudge.check(watched, requests)
    with pytest.raises(UnsupportedRequestError, match="Completion"):
        bl.collect(text_probe, watched, graded, progress=False)


def test_judge_that_omits_requests_is_refused(judge, graded):
    class Lazy(Watched):
        def ask(self, requests):
            yield requests[0], Reply(logprobs=(-0.2, -2.0))

    with pytest.raises(JudgeError, match="unanswered"):
        collect(Lazy(judge), graded)


def test_empty_design_is_refused(judge, graded):
    single = bl.Dataset(
        "one", graded.candidates.head(1), graded.human.head(0), graded.attributes, graded.scale, graded.noun
    )
    with pytest.raises(InputError, match="at least one judgement"):
        collect(judge, single)


SLOW_RUN = """
import sys, time
import biaslab as bl
class Slow:
    def __init__(self, judge): self.judge, self.id, self.kinds, self.check = judge, judge.id, judge.kinds, judge.check
    def ask(self, requests):
        for request, reply in self.judge.ask(requests):
            time.sleep(0.004)
            with open(sys.argv[2], "a") as log:
                log.write(bl.core.request_key(request, self.id) + chr(10))
            yield request, reply
data = bl.load_dataset("graded", limit=8)
judge = Slow(bl.SimulatedJudge(data, position=0.5, noise=1))
trials = bl.collect(bl.probes.Position(["coherence"], [1]), judge, data, store=sys.argv[1], progress=False)
trials.to_pickle(sys.argv[3])
"""


@pytest.mark.thorough
@pytest.mark.slow
def test_kill_minus_nine_ten_times_then_resume(judge, graded, tmp_path):
    """The trials equal an uninterrupted run's; only the reply in flight at a kill may be asked for again."""
    store, log, result = (tmp_path / name for name in ("replies.sqlite", "asked.log", "trials.pickle"))
    command = [sys.executable, "-c", SLOW_RUN, str(store), str(log), str(result)]
    rng, kills = random.Random(5), 0
    while kills < 10 and not result.exists():
        process = subprocess.Popen(command)
        seen = len(log.read_text().splitlines()) if log.exists() else 0
        target = seen + rng.randint(1, 24)
        while process.poll() is None and (len(log.read_text().splitlines()) if log.exists() else 0) < target:
            time.sleep(rng.random() * 0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 10
    subprocess.run(command, check=True)
    pd.testing.assert_frame_equal(pd.read_pickle(result), collect(judge, graded))
    asked = log.read_text().splitlines()
    assert set(asked) == set(collect(judge, graded)["key"])
    assert len(asked) - len(set(asked)) <= kills


def test_scorers_and_probes_are_designs(graded):
    from biaslab.core import Design, ProbeInterface

    scorer = bl.scoring.PromptScoring(["coherence"])
    assert isinstance(scorer, Design)
    assert not isinstance(scorer, ProbeInterface)
    for kind in bl.probes.available().values():
        assert isinstance(kind(), Design)
        assert isinstance(kind(), ProbeInterface)
    trials = bl.collect(scorer, bl.SimulatedJudge(graded), graded, progress=False)
    assert set(trials["probe"]) == {scorer.name}


def test_a_budget_is_held_against_the_nearest_design_alone(graded):
    """What was planned before a server refused it is not charged a second time."""

    class TextOnly(bl.SimulatedJudge):
        def packs(self, requests):
            asked = list(requests)
            for request in asked:
                if isinstance(request, Choice):
                    raise UnsupportedRequestError("only text", request)
            return super().packs(asked)

    probe = Position(["coherence"], [1], n_pairs=2)
    size = sum(1 for _ in probe.design(graded))
    with pytest.warns(bl.errors.NearestDesignWarning, match="only text"):
        trials = bl.collect(probe, TextOnly(graded), graded, progress=False, budget=bl.Budget(requests=size))
    assert trials.attrs["asked"] == size


def test_value_off_the_scale_has_one_traceback(graded):
    with pytest.raises(JudgeError, match="returned 70") as caught:
        bl.collect(bl.probes.Verbosity(attributes=["coherence"]), lambda candidate: 70, graded, progress=False)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
