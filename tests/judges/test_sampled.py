"""`Sampled`: shares of labels among samples, and what they cost."""

import math
from collections import Counter

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import Choice, Completion, Likelihood, Reply, Usage, as_judge
from biaslab.core.errors import InputError, UnsupportedRequestError
from biaslab.judges.sampled import Sampled
from biaslab.prompts.parsing import parse_choice
from biaslab.study.spending.token_counts import count_tokens

PROBE = bl.probes.Position(["coherence"], [1])


class Says:
    """Writes the replicate's text from a list."""

    id, kinds = "says", frozenset({Completion})

    def __init__(self, texts):
        self.texts, self.asked = texts, []

    def check(self, requests):
        self.asked += list(requests)

    def ask(self, requests):
        for request in reversed(list(requests)):
            yield request, Reply(text=self.texts[request.replicate % len(self.texts)], usage=Usage(10, 4, 2), model="m")


def test_counts_shares_and_usage():
    judge = Sampled(Says(["A", "B", "A", "[[A]]", "I cannot say.", "Both A and B"]), 6)
    [(request, reply)] = judge.ask([Choice("which?", ("A", "B"))])
    assert request == Choice("which?", ("A", "B"))
    assert np.exp(reply.logprobs) == pytest.approx([3 / 6, 1 / 6])
    assert (reply.usage, reply.model, reply.samples) == (Usage(60, 24, 12), "m", 6)
    assert judge.id == "sampled:k=6,temperature=1:says"


def test_breadth_is_that_of_the_wrapped_judge_per_sample(graded):
    class Wide(bl.SimulatedJudge):
        breadth = 100

    wide = Wide(graded)
    assert (Sampled(wide, k=5).breadth, bl.SimulatedJudge(graded).breadth, as_judge(wide).breadth) == (20, 0, 100)
    assert bl.Panel([wide, bl.SimulatedJudge(graded, position=1.0)]).breadth == 100


def test_declined_samples_count_for_no_label():
    class Declines(Says):
        def ask(self, requests):
            for request in requests:
                yield request, Reply(text="A", finish_reason="content_filter" if request.replicate else "stop")

    [(_, reply)] = Sampled(Declines([]), 4).ask([Choice("which?", ("A", "B"))])
    assert reply.logprobs == (math.log(1 / 4), -math.inf)


def test_label_shares_are_those_of_the_samples(graded):
    inner = bl.SimulatedJudge(graded, position=0.3, noise=1)
    requests = list(dict.fromkeys(trial.request for trial in PROBE.design(graded.head(1))))[:5]
    for request, reply in Sampled(inner, 40, temperature=0.8, seed=3).ask(requests):
        samples = [Completion(request.messages, 0.8, 15, n, 3, request.about) for n in range(40)]
        chosen = Counter(parse_choice(r.text, request.labels)[0] for _, r in inner.ask(samples))
        assert np.exp(reply.logprobs) == pytest.approx([chosen[0] / 40, chosen[1] / 40])


def test_samples_can_be_kept_one_by_one(graded, tmp_path):
    data = graded.head(1)
    with bl.Store(tmp_path / "s") as store:
        judge = Sampled(store.wrap(bl.SimulatedJudge(data)), 3)
        trials = bl.collect(PROBE, judge, data, store=store, progress=False)
        assert len(store) == 4 * len(trials)
        assert judge.judge.asked == 3 * len(trials)
        bl.collect(PROBE, judge, data, store=store, progress=False)
        assert judge.judge.asked == 3 * len(trials)


def test_a_plan_counts_every_sample(graded):
    inner = bl.SimulatedJudge(graded)
    requests = [Choice("Is A or B better?", ("A", "B")), Completion("abcdefgh", max_tokens=7)]
    counted = count_tokens(Sampled(inner, 5), requests)
    assert counted.read.tolist() == [25.0, 2.0]
    assert counted.written.tolist() == [5 * 13.0, 7.0]


def test_other_kinds_and_bad_values():
    judge = Sampled(Says(["x"]), 2)
    assert [reply.text for _, reply in judge.ask([Completion("p")])] == ["x"]
    with pytest.raises(UnsupportedRequestError):
        judge.check([Likelihood("x")])
    for options in ({"k": 0}, {"k": 2, "temperature": 0}, {"k": 2, "max_tokens": 0}):
        with pytest.raises(InputError):
            Sampled(Says([]), **options)

    class Labels(Says):
        kinds = frozenset({Choice})

    with pytest.raises(InputError, match="answers Completion"):
        Sampled(Labels([]), 2)
