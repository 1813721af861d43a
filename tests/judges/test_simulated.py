"""The calibration weight: what is planted is what is answered, and the same request has the same answer."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion, Likelihood
from biaslab.core.errors import InputError, JudgeError, UnsupportedRequestError
from biaslab.judges import available
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


def test_every_attribute_and_template_is_answered(graded):
    judge = bl.SimulatedJudge(graded, quality=1.0)
    for trial in Position().design(graded):
        [(_, reply)] = judge.ask([trial.request])
        assert reply.logprobs[0] - reply.logprobs[1] == pytest.approx(trial.condition["human_gap"])


def test_request_without_about_is_refused(graded):
    request = Choice("Which is better?", ("A", "B"))
    with pytest.raises(UnsupportedRequestError, match="field about") as caught:
        bl.SimulatedJudge(graded).check([request])
    assert caught.value.request == request
    with pytest.raises(JudgeError):
        list(bl.SimulatedJudge(graded).ask([Completion("hello")]))


def test_a_pair_without_human_scores_cannot_be_judged(graded):
    human = graded.human[graded.human["candidate_id"] != "c1"]
    partly = bl.Dataset("partly", graded.candidates, human, graded.attributes, graded.scale, graded.noun)
    requests = [t.request for t in Position(["fluency"], [1]).design(graded)]
    with pytest.raises(JudgeError, match="nobody rated context 'news-1', candidate 'c1' on fluency"):
        bl.SimulatedJudge(partly).check(requests)


def test_every_utility_moves_log_odds_as_planted(graded):
    """Familiarity is counted on the perplexity that the judge itself tells, verbosity on words."""
    planted = {"familiarity": -1.5, "verbosity": 0.7, "self_preference": 0.9, "own_system": "clean"}
    judge = bl.SimulatedJudge(graded, quality=0.8, position=0.3, **planted)
    rows = graded.candidates.set_index(["context_id", "candidate_id"])
    for trial, reply in answers(judge, graded):
        first, second = (rows.loc[(trial.context_id, name)] for name in (trial.candidate_id, trial.opponent_id))
        told = dict(judge.ask([Likelihood(first["text"]), Likelihood(second["text"])]))
        perplexity = [-np.mean(told[Likelihood(side["text"])].logprobs) for side in (first, second)]
        words = [len(side["text"].split()) for side in (first, second)]
        own = (first["system"] == "clean") - (second["system"] == "clean")
        expected = 0.8 * trial.condition["human_gap"] + 0.3 - 1.5 * (perplexity[0] - perplexity[1])
        expected += 0.7 * math.log2(words[0] / words[1]) + 0.9 * own
        assert reply.logprobs[0] - reply.logprobs[1] == pytest.approx(expected, abs=1e-9)


def test_log_perplexity_is_normal_or_as_given(graded):
    texts = [f"text {k}" for k in range(400)]
    judge = bl.SimulatedJudge(graded)
    drawn = [-reply.logprobs[0] for _, reply in judge.ask(map(Likelihood, texts))]
    assert stats.kstest(drawn, stats.norm(3, 0.35).cdf).pvalue > 0.01
    given = bl.SimulatedJudge(graded, log_perplexity={"text 0": 2.5}, seed=9)
    [(_, told), (_, default)] = given.ask([Likelihood("text 0"), Likelihood("text 1")])
    assert told.logprobs == (-2.5, -2.5)
    assert default.logprobs[0] == -drawn[1]


def test_contexts_share_one_shift_of_the_position_bias(graded):
    shifts = []
    for seed in range(60):
        judge = bl.SimulatedJudge(graded, context_noise=1.5, position=0.5, seed=seed)
        found = {}
        for trial, reply in answers(judge, graded, n_pairs=2):
            shift = reply.logprobs[0] - reply.logprobs[1] - trial.condition["human_gap"] - 0.5
            found.setdefault(trial.context_id, []).append(shift)
        assert all(np.ptp(same) < 1e-9 for same in found.values())
        shifts += [same[0] for same in found.values()]
    assert len(shifts) == 480
    assert stats.kstest(shifts, stats.norm(0, 1.5).cdf).pvalue > 0.01


@pytest.mark.parametrize("answer", ["distribution", "text"])
def test_ties_are_pairs_within_the_band_where_a_tie_is_offered(graded, answer):
    judge = bl.SimulatedJudge(graded, ties=1.2)
    probe = Position(["coherence"], [1, 2], answer=answer, ties=True, temperature=0.0)
    trials = bl.collect(probe, judge, graded, progress=False)
    assert ((trials["status"] == "tie") == (trials["human_gap"].abs() < 1.2)).all()
    assert ((trials["value"] > 0.5) == (trials["human_gap"] >= 1.2)).all()
    plain = bl.collect(Position(["coherence"], [1], answer=answer, temperature=0.0), judge, graded, progress=False)
    assert (plain["status"] == "ok").all()
    even = plain["human_gap"] == 0
    assert (plain.loc[even, "value"] == 0.5).all() or answer == "text"


def test_garbage_is_as_often_as_planted_and_cannot_be_read(graded):
    judge = bl.SimulatedJudge(graded, garbage=0.25)
    probe = Position(["fluency"], [1], answer="text", replicates=4)
    status = bl.collect(probe, judge, graded, progress=False)["status"]
    assert set(status) == {"ok", "unparsable"}
    assert stats.binomtest(int((status == "unparsable").sum()), len(status), 0.25).pvalue > 0.01


def test_the_length_of_a_padded_candidate_counts(graded):
    trial = next(iter(Position(["fluency"], [1]).design(graded)))
    first, second = trial.request.about.texts
    padded = f"{first} Needless to say, this is what it is."
    about = dataclasses.replace(trial.request.about, texts=(padded, second))
    told = trial.request.messages[0].content.replace(first, padded)
    judge = bl.SimulatedJudge(graded, verbosity=2.0)
    requests = [trial.request, Choice(told, trial.request.labels, about)]
    plain, longer = (reply.logprobs[0] - reply.logprobs[1] for _, reply in judge.ask(requests))
    assert longer - plain == pytest.approx(2 * math.log2(len(padded.split()) / len(first.split())))


def test_candidates_that_no_prompt_tells_apart_are_one(graded):
    """Equal requests have equal replies, whichever of two candidates with one text they are about."""
    texts = graded.candidates["text"].where(graded.candidates["candidate_id"] != "c3", None)
    first = graded.candidates[graded.candidates["candidate_id"] == "c1"].set_index("context_id")["text"]
    candidates = graded.candidates.assign(text=texts.fillna(graded.candidates["context_id"].map(first)))
    data = bl.Dataset("twins", candidates, graded.human, graded.attributes, graded.scale, graded.noun)
    judge = bl.SimulatedJudge(data)
    asked = [
        t for t in Position(["fluency"], [1]).design(data) if {"c1", "c3"} & {t.candidate_id} and t.opponent_id == "c2"
    ]
    found = {}
    for trial in asked:
        [(_, reply)] = judge.ask([trial.request])
        found.setdefault(trial.request, set()).add(reply.logprobs)
    assert len(found) == len(asked) / 2
    assert all(len(replies) == 1 for replies in found.values())


BAD = [
    {"refusal": 2},
    {"garbage": -0.1},
    {"source_reliance": 1.5},
    {"noise": -1},
    {"context_noise": -1},
    {"ties": -1},
    {"sharpness": 0},
    {"anchoring": math.nan},
    {"log_perplexity": {"text": 0.0}},
]


@pytest.mark.parametrize("options", BAD, ids=lambda o: next(iter(o)))
def test_planted_values_are_checked(graded, options):
    with pytest.raises(InputError, match=next(iter(options))):
        bl.SimulatedJudge(graded, **options)
    with pytest.raises(InputError, match=r"own_system.*clean"):
        bl.SimulatedJudge(graded, self_preference=1, own_system="nobody")


def test_by_name(graded):
    judge = bl.load_judge("simulated:position=0.5,seed=2", graded)
    assert (judge.position, judge.seed) == (0.5, 2)
    assert bl.load_judge("simulated", graded).position == 0
    judge = bl.load_judge("simulated:selective=true,self_preference=1,own_system=clean,heaping=2", graded)
    assert (judge.selective, judge.own_system, judge.heaping) == (True, "clean", 2.0)
    bad = (
        "charm=1",
        "position=much",
        "position",
        "selective=2",
        "seed=0.5",
        "noise=nan",
        "log_perplexity=1",
        "dataset=1",
    )
    for name in bad:
        with pytest.raises(InputError, match="name=number"):
            bl.load_judge(f"simulated:{name}", graded)
    with pytest.raises(InputError, match="dataset"):
        bl.load_judge("simulated")


def test_the_list_of_judges_names_everything_a_name_can_plant():
    listed = available()["simulated[:name=value,…]"]
    names = {f.name for f in dataclasses.fields(bl.SimulatedJudge)} - {"dataset", "log_perplexity"}
    assert all(name in listed for name in names)


def test_id_names_everything_planted(graded):
    """Every field moves the id, and so does what the judge knows; neutral values stay out of it."""
    changed = {"own_system": "clean", "selective": True, "log_perplexity": {"a": 1.0}, "edits": {"a": 1.0}, "seed": 5}
    changed |= dict.fromkeys(("refusal", "garbage", "source_reliance"), 0.5)
    names = [f.name for f in dataclasses.fields(bl.SimulatedJudge) if f.name not in ("dataset", "self_preference")]
    judges = [bl.SimulatedJudge(graded, **{name: changed.get(name, 2.5)}) for name in names]
    judges += [bl.SimulatedJudge(graded, self_preference=1, own_system="clean"), bl.SimulatedJudge(graded)]
    human = graded.human.assign(score=graded.human["score"].clip(upper=4.5))
    rescored = bl.Dataset(graded.name, graded.candidates, human, graded.attributes, graded.scale, graded.noun)
    judges.append(bl.SimulatedJudge(rescored))
    judges.append(bl.SimulatedJudge(graded, log_perplexity={"a": 2.0}))
    judges.append(bl.SimulatedJudge(graded, edits={"a": 2.0}))
    assert len({judge.id for judge in judges}) == len(judges)
    assert all(judge.id.startswith("simulated:graded (constructed):") for judge in judges)
    assert all(f"{name}=" in judge.id for name, judge in zip(names, judges, strict=False))
    assert bl.SimulatedJudge(graded).id.count("=") == 1
    assert bl.SimulatedJudge(graded, position=0.5).id == bl.SimulatedJudge(graded.head(8), position=0.5).id


def test_judge_of_calibration_population_prefers_own_texts():
    data = construct_population(10, systems=("own", "another", "a third"))
    judge = bl.SimulatedJudge(data, self_preference=0.8)
    system = data.candidates.set_index(["context_id", "candidate_id"])["system"]
    assert "own_system" not in judge.id
    assert "self_preference=0.8" in judge.id
    for trial, reply in answers(judge, data):
        own = [system[trial.context_id, name] == "own" for name in (trial.candidate_id, trial.opponent_id)]
        gap = trial.condition["human_gap"] + 0.8 * (own[0] - own[1])
        assert reply.logprobs[0] - reply.logprobs[1] == pytest.approx(gap)
