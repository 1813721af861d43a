"""The calibration weight: what is planted is what is answered, and the same request has the same answer."""

import math

import numpy as np
import pytest
from scipy import stats

import biaslab as bl
from biaslab.core import Choice, Completion
from biaslab.errors import InputError, JudgeError
from biaslab.probes.position import Position


def answers(judge, data, **options):
    trials = list(Position(["coherence"], [1], **options).design(data))
    replies = dict(judge.ask([t.request for t in trials]))
    return [(t, replies[t.request]) for t in trials]


def test_log_odds_are_as_planted(graded):
    for trial, reply in answers(bl.SimulatedJudge(graded, quality=0.7, position=-0.4), graded):
        first, second = reply.logprobs
        assert first - second == pytest.approx(0.7 * trial.condition["human_gap"] - 0.4)
        assert math.exp(first) + math.exp(second) == pytest.approx(1)


def test_noise_has_the_planted_size(graded):
    judge = bl.SimulatedJudge(graded, quality=0, noise=2.0)
    draws = [r.logprobs[0] - r.logprobs[1] for _, r in answers(judge, graded)]
    assert stats.kstest(draws, stats.norm(0, 2.0).cdf).pvalue > 0.01


def test_refusals_are_as_often_and_as_selective_as_planted(graded):
    refused = [all(map(math.isinf, r.logprobs)) for _, r in answers(bl.SimulatedJudge(graded, refusal=0.3), graded)]
    assert stats.binomtest(sum(refused), len(refused), 0.3).pvalue > 0.01
    selective = bl.SimulatedJudge(graded, refusal=1.0, selective=True)
    for trial, reply in answers(selective, graded):
        assert all(map(math.isinf, reply.logprobs)) == (trial.condition["human_gap"] < 0)


def test_text_follows_the_distribution_and_its_temperature(graded):
    judge = bl.SimulatedJudge(graded, quality=0, position=1.0)
    for temperature in (0.5, 2.0):
        replies = answers(judge, graded, answer="text", replicates=8, temperature=temperature)
        wins = sum(r.text == "Summary A" for _, r in replies)
        assert stats.binomtest(wins, len(replies), 1 / (1 + math.exp(-1 / temperature))).pvalue > 0.01
    assert {r.text for _, r in answers(judge, graded, answer="text", temperature=0.0)} == {"Summary A"}


def test_replies_depend_on_seed_and_request_alone(graded):
    judge, twin = (bl.SimulatedJudge(graded, noise=1, seed=3) for _ in range(2))
    plain, again = answers(judge, graded), answers(twin, graded.head(3))
    assert [r for _, r in plain][: len(again)] == [r for _, r in again]
    other = answers(bl.SimulatedJudge(graded, noise=1, seed=4), graded)
    assert [r for _, r in plain] != [r for _, r in other]


def test_every_attribute_and_template_is_recognised(graded):
    judge = bl.SimulatedJudge(graded, quality=1.0)
    for trial in Position().design(graded):
        [(_, reply)] = judge.ask([trial.request])
        assert reply.logprobs[0] - reply.logprobs[1] == pytest.approx(trial.condition["human_gap"])


def test_says_what_it_cannot_judge(graded):
    with pytest.raises(JudgeError, match="0 candidates") as caught:
        bl.SimulatedJudge(graded).check([Choice("Which is better?", ("A", "B"))])
    assert caught.value.request is not None
    with pytest.raises(JudgeError):
        list(bl.SimulatedJudge(graded).ask([Completion("hello")]))


@pytest.mark.parametrize("options", [{"refusal": 2}, {"noise": -1}])
def test_planted_values_are_checked(graded, options):
    with pytest.raises(InputError, match=next(iter(options))):
        bl.SimulatedJudge(graded, **options)


def test_by_name(graded):
    judge = bl.load_judge("simulated:position=0.5,seed=2", graded)
    assert (judge.position, judge.seed) == (0.5, 2)
    assert bl.load_judge("simulated", graded).position == 0
    for name in ("simulated:charm=1", "simulated:position=much", "simulated:position"):
        with pytest.raises(InputError, match="name=number"):
            bl.load_judge(name, graded)
    with pytest.raises(InputError, match="dataset"):
        bl.load_judge("simulated")


def test_id_names_everything_planted(graded):
    ids = {
        bl.SimulatedJudge(graded, **{k: v}).id for k, v in {"quality": 2, "position": 1, "noise": 1, "seed": 5}.items()
    }
    assert len(ids | {bl.SimulatedJudge(graded).id}) == 5
    assert np.all([i.startswith("simulated:graded (constructed):") for i in ids])
