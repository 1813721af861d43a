"""The calibration weight: what is planted is what is answered, and the same request has the same answer."""

import dataclasses
import itertools
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_distributions, expected_scores
from scipy import integrate, stats

import biaslab as bl
from biaslab import prompts
from biaslab.calibration.population import construct_population
from biaslab.core import About, Choice, Completion, Likelihood, Messages, Trial
from biaslab.core.errors import InputError, JudgeError, MissingDataWarning, UnsupportedRequestError
from biaslab.core.scales import SCALES, find_scale, scale_named, whole_numbers
from biaslab.judges import available
from biaslab.judges.simulated.pair_truth import normal_rule
from biaslab.measures.ranking import pairs
from biaslab.measures.scoring.pointwise import about_scores, items
from biaslab.probes import position
from biaslab.probes.position import Position
from biaslab.prompts.parsing import parse_score, parse_scores
from biaslab.stats.estimate import Estimate
from biaslab.stats.resample import Resampling


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


@pytest.mark.slow
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
    for name in ("charm=1", "position", "log_perplexity=1", "dataset=1", "position=1,position=2"):
        with pytest.raises(InputError, match="judge is"):
            bl.load_judge(f"simulated:{name}", graded)
    for name, value in (("position", "much"), ("selective", "2"), ("seed", "0.5"), ("noise", "nan"), ("edits.x", "")):
        with pytest.raises(InputError, match=f"{name} is {value!r}"):
            bl.load_judge(f"simulated:{name}={value}", graded)
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


HUNDRED = find_scale("1-100")
NAMES = ["coherence", "fluency", "relevance"]


@dataclass
class Asked:
    """A prompt with what it is about."""

    messages: Messages
    about: About

    def choice(self):
        return Choice(self.messages, scale_named(self.about.scale).labels, self.about)

    def text(self, *how, **more):
        return Completion(self.messages, *how, **more, about=self.about)


@pytest.fixture(scope="module")
def item(graded):
    """The second candidate of the first context: coherence 3.5, consistency, fluency and relevance 3."""
    return list(items(graded))[1]


@pytest.fixture
def rate(graded, item):
    def ask(names=("fluency",), scale=HUNDRED, reasons="none", shown=item):
        prompt = prompts.rate(graded, list(names), scale, shown.text, shown.context, reasons)
        form = "lines" if len(names) > 1 or reasons != "none" else "bare"
        return Asked(prompt, about_scores(shown, names, scale, form, reasons))

    return ask


def centre(judge, asked):
    """Read the centre of a score distribution, on the unit scale, off the odds of the lowest and the highest label."""
    [(_, reply)] = judge.ask([asked.choice()])
    assert math.fsum(map(math.exp, reply.logprobs)) == pytest.approx(1)
    return 0.5 + (reply.logprobs[-1] - reply.logprobs[0]) / judge.sharpness**2


def unit(human):
    return (human - 1) / 4


def test_scores_centre_on_what_humans_gave(graded, rate):
    judge = bl.SimulatedJudge(graded, quality=0.6)
    for item in items(graded):
        for name in graded.attributes:
            expected = pytest.approx(0.5 + 0.6 * (item.human[name] - 3) / 4)
            assert centre(judge, rate([name], shown=item)) == expected


def test_the_distribution_has_the_planted_sharpness(graded, rate):
    [(_, reply)] = bl.SimulatedJudge(graded, sharpness=10.0).ask([rate().choice()])
    p, x = np.exp(reply.logprobs), np.linspace(0, 1, 100)
    assert p @ x == pytest.approx(unit(3.0), abs=1e-5)
    assert math.sqrt(p @ (x - p @ x) ** 2) == pytest.approx(0.1, rel=1e-3)


def test_reasons_before_the_score_raise_it(graded, rate, item):
    judge = bl.SimulatedJudge(graded, reason_first=0.15)
    gains = {reasons: centre(judge, rate(reasons=reasons)) - unit(3.0) for reasons in ("none", "before", "after")}
    assert gains == pytest.approx({"none": 0.0, "before": 0.15, "after": 0.0})
    for layout, order, rules in itertools.product(("ex", "json"), ("s", "sr", "rs"), (False, True)):
        asked = output_order(graded, item, layout, order, rules)
        assert centre(judge, asked) - unit(3.0) == pytest.approx(0.15 if order == "rs" else 0.0)


def test_reasons_before_the_score_add_quality(graded, rate):
    judge = bl.SimulatedJudge(graded, quality=0.5, reason_quality=0.4)
    for reasons, quality in (("none", 0.5), ("before", 0.9), ("after", 0.5)):
        assert centre(judge, rate(["coherence"], reasons=reasons)) == pytest.approx(0.5 + quality * 0.5 / 4)


def test_coarse_noise_is_that_of_scales_under_ten_labels(graded, rate):
    judges = [bl.SimulatedJudge(graded, coarse_noise=0.4, noise=0.3, seed=seed) for seed in range(400)]
    for scale, expected in ((find_scale("1-5"), 0.5), (find_scale("1-10"), 0.3)):
        centres = [centre(judge, rate(scale=scale)) for judge in judges]
        assert 4 * np.std(centres) == pytest.approx(expected, rel=0.15)


def test_without_the_source_quality_is_seen_less(graded, rate, item):
    judge = bl.SimulatedJudge(graded, source_reliance=0.4)
    assert centre(judge, rate(["coherence"])) == pytest.approx(0.5 + 0.5 / 4)
    assert centre(judge, rate(["coherence"], shown=replace(item, context=""))) == pytest.approx(0.5 + 0.6 * 0.5 / 4)


def test_own_texts_gain_what_is_planted(graded, rate):
    judge = bl.SimulatedJudge(graded, self_preference=0.8, own_system="clean")
    for item in itertools.islice(items(graded), 12):
        expected = unit(item.human["fluency"]) + 0.2 * (item.system == "clean")
        assert centre(judge, rate(shown=item)) == pytest.approx(expected)


def test_a_score_is_drawn_towards_the_one_before(graded, rate):
    """In a prefix, and in a transcript: by 0.3 of the way from its own mean."""
    judge = bl.SimulatedJudge(graded, anchoring=0.3)
    for given in (1, 40, 100):
        expected = unit(3.0) + 0.3 * (HUNDRED.unit(given) - unit(3.0))
        joint, alone = rate(NAMES), rate(["fluency"])
        prefix = [("user", joint.messages), ("assistant", f"coherence: {given}\nfluency:")]
        about = replace(joint.about, attributes=("fluency", "relevance"), previous=given)
        assert centre(judge, Asked(prefix, about)) == pytest.approx(expected)
        first = rate(["coherence"]).messages
        turns = [("user", first), ("assistant", str(given)), ("user", alone.messages)]
        assert centre(judge, Asked(turns, replace(alone.about, previous=given))) == pytest.approx(expected)
    assert centre(judge, rate(["fluency"])) == pytest.approx(unit(3.0))


def test_text_goes_on_where_a_prefix_stops(graded, rate):
    joint = rate(NAMES)
    about = replace(joint.about, attributes=("fluency", "relevance"), previous=90)
    begun = Asked([("user", joint.messages), ("assistant", "coherence: 90\nfluency:")], about).text()
    assert dict(bl.SimulatedJudge(graded).ask([begun]))[begun].text == " 50\nrelevance: 50"


def test_digits_heap_on_long_scales_only(graded, rate):
    fair, heaping = bl.SimulatedJudge(graded), bl.SimulatedJudge(graded, heaping=1.6)
    for scale in (*SCALES.values(), whole_numbers(0, 100)):
        request = rate(scale=scale).choice()
        gains = np.subtract(*(dict(judge.ask([request]))[request].logprobs for judge in (heaping, fair)))
        gains -= gains.min()
        values = np.array(scale.values)
        expected = np.where(values % 10 == 0, 1.6, np.where(values % 5 == 0, 0.8, 0.0))
        assert gains == pytest.approx(expected if scale.high == 100 else 0.0, abs=1e-9)


def test_noise_of_prompts_and_of_contexts(graded, rate):
    """Each in points of the human scale; scores of a context share the one, no two prompts share the other."""
    prompt, other = rate(["fluency"]), rate(["coherence"])
    noisy = [bl.SimulatedJudge(graded, noise=0.8, seed=seed) for seed in range(300)]
    shifts = np.array([(centre(j, prompt) - unit(3.0), centre(j, other) - unit(3.5)) for j in noisy]) * 4
    assert stats.kstest(shifts[:, 0], stats.norm(0, 0.8).cdf).pvalue > 0.01
    assert stats.pearsonr(*shifts.T).pvalue > 0.01
    clustered = [bl.SimulatedJudge(graded, context_noise=0.8, seed=seed) for seed in range(300)]
    shifts = np.array([(centre(j, prompt) - unit(3.0), centre(j, other) - unit(3.5)) for j in clustered]) * 4
    assert shifts[:, 0] == pytest.approx(shifts[:, 1])
    assert stats.kstest(shifts[:, 0], stats.norm(0, 0.8).cdf).pvalue > 0.01


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_score_text_follows_distribution_and_temperature(graded, rate, temperature):
    """p_T is proportional to p^(1/T), and greedy text is the likeliest label."""
    judge, scale = bl.SimulatedJudge(graded, sharpness=4.0), find_scale("1-5")
    asked = rate(["coherence"], scale)
    [(_, reply)] = judge.ask([asked.choice()])
    weights = np.exp(np.array(reply.logprobs) / temperature)
    replies = judge.ask(asked.text(temperature, replicate=k) for k in range(2000))
    texts = [reply.text for _, reply in replies]
    counts = [texts.count(label) for label in scale.labels]
    assert stats.chisquare(counts, 2000 * weights / weights.sum()).pvalue > 0.01
    [(_, greedy)] = judge.ask([asked.text(0.0)])
    assert greedy.text == scale.labels[int(np.argmax(reply.logprobs))]


@pytest.mark.parametrize("scale", [*SCALES.values(), whole_numbers(0, 100)], ids=lambda s: s.name)
@pytest.mark.parametrize("reasons", ["none", "before", "after"])
@pytest.mark.parametrize("names", [NAMES[:1], NAMES, NAMES[::-1]], ids=["alone", "joint", "reversed"])
def test_every_form_of_the_rating_prompt_is_answered(graded, rate, scale, reasons, names):
    judge = bl.SimulatedJudge(graded, quality=4.0, sharpness=30.0)
    request = rate(names, scale, reasons).text()
    judge.check([request])
    read = parse_scores(dict(judge.ask([request]))[request].text, names, scale)
    expected = {"coherence": (1.0, 0.04), "fluency": (0.5, 0.13), "relevance": (0.5, 0.13)}
    for name, (value, status) in read.items():
        assert status == "ok"
        assert scale.unit(value) == pytest.approx(expected[name][0], abs=expected[name][1])


def output_order(data, item, layout, order, rules, scale=HUNDRED):
    prompt = prompts.order_output(data, "fluency", scale, item.text, item.context, layout, order, rules)
    form, reasons = {"ex": "text", "json": "json"}[layout], {"s": "none", "sr": "after", "rs": "before"}[order]
    return Asked(prompt, about_scores(item, ["fluency"], scale, form, reasons))


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize(("layout", "order"), list(itertools.product(("ex", "json"), ("s", "sr", "rs"))))
def test_every_output_order_is_answered_in_its_form(graded, item, layout, order, rules, scale):
    request = output_order(graded, item, layout, order, rules, scale).text()
    text = dict(bl.SimulatedJudge(graded).ask([request]))[request].text
    assert parse_score(text, scale)[1] == "ok"
    assert scale.unit(parse_score(text, scale)[0]) == pytest.approx(0.5, abs=0.06)
    assert text.startswith("{") == (layout == "json")
    assert ("reasons" in text) == ("r" in order)
    if "r" in order:
        assert (text.index("reasons") < text.index("score")) == (order == "rs")


def test_refusals_are_refused_and_garbage_is_unparsable(graded, rate):
    scale = find_scale("1-5")
    requests = [rate(NAMES[:n], scale).text(1.0, replicate=k) for n in (1, 3) for k in range(300)]
    judge, unread = bl.SimulatedJudge(graded, garbage=0.3), 0
    for request, reply in judge.ask(requests):
        unread += {status for _, status in parse_scores(reply.text, request.about.attributes, scale).values()} == {
            "unparsable"
        }
    assert stats.binomtest(unread, len(requests), 0.3).pvalue > 0.01
    for _, reply in bl.SimulatedJudge(graded, refusal=1.0).ask(requests[::200]):
        assert parse_score(reply.text, scale)[1] == "refused"


def test_selective_refusals_spare_what_is_good(graded, rate):
    judge = bl.SimulatedJudge(graded, refusal=1.0, selective=True)
    for item in itertools.islice(items(graded), 12):
        [(_, reply)] = judge.ask([rate(shown=item).choice()])
        assert all(map(math.isinf, reply.logprobs)) == (item.human["fluency"] < 3)


def test_unscorable_requests_are_refused(graded, rate, item):
    judge, about = bl.SimulatedJudge(graded), rate().about
    for wrong, words in (
        ({"scale": "good to bad"}, "scale"),
        ({"attributes": ("charm",)}, "nobody rated .* on charm"),
        ({"attributes": ()}, "on an attribute"),
        ({"candidate_ids": ("c99",)}, "no candidate"),
        ({"candidate_ids": ("c1", "c2", "c3"), "texts": (item.text,) * 3}, "one candidate, or compares two or a list"),
    ):
        request = Completion("Rate it.", about=replace(about, **wrong))
        with pytest.raises(JudgeError, match=words) as caught:
            judge.check([request])
        assert caught.value.request == request
    with pytest.raises(UnsupportedRequestError, match="field about"):
        judge.check([Completion(rate().messages)])


def test_expected_scores_are_for_scores(graded, rate):
    judge = bl.SimulatedJudge(graded)
    asked = rate(NAMES[:2])
    with pytest.raises(JudgeError, match="does not ask for relevance"):
        expected_scores(judge, [Trial(asked.text(), "news-1", "relevance", "c2")])
    with pytest.raises(JudgeError, match="labels are for coherence"):
        expected_scores(judge, [Trial(asked.choice(), "news-1", "fluency", "c2")])
    with pytest.raises(JudgeError, match="only requests for a score"):
        expected_scores(judge, [bl.Likelihood("text")])


METRICS = (
    "first_position_rate",
    "first_position_logit",
    "order_consistency",
    "primacy_share",
    "comparative_accuracy",
    "tie_rate",
)
SEEDS = 300
UTILITIES = {"familiarity": -1.0, "verbosity": 2.0, "self_preference": 1.0, "own_system": "clean"}
PLANTED = {
    "no noise": ({"position": 0.7}, {}),
    "noise": ({"position": 0.5, "noise": 1.0}, {}),
    "utilities": ({"noise": 0.5, **UTILITIES}, {}),
    "both noises": ({"quality": 0.5, "position": 0.3, "noise": 0.7, "context_noise": 1.0}, {}),
    "contexts only": ({"position": 0.3, "context_noise": 1.0}, {}),
    "contexts and ties": ({"position": 0.3, "context_noise": 1.0, "ties": 0.8}, {"ties": True}),
    "ties": ({"position": 0.3, "noise": 1.0, "context_noise": 0.5, "ties": 0.8}, {"ties": True}),
    "selective": ({"quality": 0.5, "position": 0.4, "noise": 0.5, "refusal": 0.4, "selective": True}, {}),
    "refusals": ({"quality": 0.5, "position": 0.4, "noise": 0.5, "refusal": 0.3}, {}),
    "text": ({"quality": 0.5, "position": 0.4, "noise": 0.5, "context_noise": 0.5}, {"temperature": 0.7}),
    "cold text": ({"quality": 0.5, "position": 0.4, "noise": 2.0}, {"temperature": 0.05}),
    "greedy text": ({"quality": 0.5, "position": 0.4}, {"temperature": 0.0}),
    "text, ties": (
        {"quality": 0.5, "noise": 0.5, "context_noise": 0.3, "ties": 0.8},
        {"temperature": 1.0, "ties": True},
    ),
    "text, ties, no noise": ({"context_noise": 0.5, "ties": 0.8}, {"temperature": 1.0, "ties": True}),
    "garbage": ({"position": 0.4, "noise": 0.5, "garbage": 0.3}, {"temperature": 1.0}),
}


def judged(data, probe, planted):
    """Judge with many seeds; every seed's contexts have names of their own."""
    trials = list(probe.design(data))
    rows = []
    for seed in range(SEEDS):
        replies = dict(bl.SimulatedJudge(data, seed=seed, **planted).ask([t.request for t in trials]))
        for t in trials:
            mass = math.nan if replies[t.request].text else 1.0
            found = probe.read(t, replies[t.request])
            identity = (f"{t.context_id}/{seed}", t.candidate_id, t.opponent_id, t.replicate, t.condition["human_gap"])
            rows.append((*identity, *found, mass))
    columns = ("context_id", "candidate_id", "opponent_id", "replicate", "human_gap", "value", "status", "label_mass")
    return pd.DataFrame(rows, columns=list(columns))


def value_and_error(made):
    """Return an estimate, or a ratio of sums over seeds, with its standard error.

    That of a ratio is by the delta method over seeds, which are independent; that of an estimate is over contexts.
    """
    if isinstance(made, Estimate):
        return made.estimate, made.se
    seeds = pd.Series(np.asarray(made.context, dtype=object)).str.rpartition("/")[2].to_numpy()
    sums = pd.DataFrame({"top": made.numerator, "bottom": made.denominator}).groupby(seeds).sum()
    found = sums["top"].sum() / sums["bottom"].sum()
    spread = (sums["top"] - found * sums["bottom"]).std(ddof=1) / sums["bottom"].mean()
    return found, spread / math.sqrt(len(sums))


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANTED)
def test_the_probe_finds_the_truth_on_average(graded, name):
    planted, options = PLANTED[name]
    temperature = options.get("temperature")
    answer = {"temperature": temperature, "answer": "text"} if temperature is not None else {}
    probe = position.Position(["coherence"], [1], ties="ties" in options, **answer)
    data = graded.head(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        blocks = pairs.both_orders(judged(data, probe, planted), name)
    terms = position._metrics(blocks, Resampling())
    judge = bl.SimulatedJudge(data, **planted)
    trials = bl.collect(probe, judge, data, progress=False)
    for metric in METRICS:
        truth = judge.truth(metric, trials, temperature)
        made = terms[metric]() if metric == "first_position_logit" else terms[metric]
        counted = metric == "first_position_logit" and temperature is not None  # of answers there is no logit a pair
        assert isinstance(made, Estimate) == counted
        found, error = value_and_error(made)
        if math.isnan(truth):
            assert math.isnan(found)
        else:
            assert found == pytest.approx(truth, abs=4 * error + 1e-6), metric


def test_truth_of_one_pair_matches_the_normal_cdf(graded):
    """Independently computed: P(first) by the cdf, both orders by the bivariate normal of the two log odds."""
    data = graded.head(1)
    judge = bl.SimulatedJudge(data, quality=0.8, position=0.3, noise=0.6, context_noise=0.9)
    trials = bl.collect(position.Position(["fluency"], [1], n_pairs=1), judge, data, progress=False)
    gap = trials["human_gap"].iloc[0]
    means, variance = np.array([0.3 + 0.8 * gap, 0.3 - 0.8 * gap]), 0.6**2 + 0.9**2
    rate = stats.norm.cdf(means / math.sqrt(variance)).mean()
    assert judge.truth("first_position_rate", trials) == pytest.approx(rate, abs=1e-12)
    covariance = [[variance, 0.81], [0.81, variance]]
    both = stats.multivariate_normal.cdf(means, cov=covariance), stats.multivariate_normal.cdf(-means, cov=covariance)
    assert judge.truth("order_consistency", trials) == pytest.approx(1 - sum(both), abs=1e-6)
    assert judge.truth("primacy_share", trials) == pytest.approx(both[0] / sum(both), abs=1e-6)


def test_truth_needs_both_orders_and_knows_what_it_knows(graded):
    judge = bl.SimulatedJudge(graded, position=1.0)
    trials = bl.collect(position.Position(["fluency"], [1]), judge, graded, progress=False)
    assert math.isnan(judge.truth("first_position_rate", trials.head(1)))
    assert judge.truth("first_position_logit", trials) == pytest.approx(1.0)
    with pytest.raises(InputError, match=r"metric is 'charm'.*first_position_rate.*tie_rate"):
        judge.truth("charm", trials)
    with pytest.raises(InputError, match="opponent_id"):
        judge.truth("tie_rate", trials.drop(columns="opponent_id"))
    with pytest.raises(InputError, match="candidates of the judge's data set"):
        judge.truth("tie_rate", trials.replace({"context_id": "news-1"}, "news-9"))


@pytest.mark.parametrize(("ratio", "width"), [(0.3, 1 / 0.3), (4.0, 0.25), (30.0, 1 / 30)])
def test_the_quadrature_integrates_steep_functions(ratio, width):
    def steep(z):
        return stats.norm.cdf((z - 0.4) / width) * 1 / (1 + np.exp(-np.clip((z + 0.2) / width, -500, 500)))

    nodes, weights = normal_rule(ratio)
    exact = integrate.quad(lambda z: steep(z) * stats.norm.pdf(z), -9, 9, points=[-0.2, 0.4], limit=500)[0]
    assert weights @ steep(nodes) == pytest.approx(exact, abs=1e-7)


SCORES = {
    "plain": {},
    "noise": {"noise": 1.0, "position": 2.0},
    "both noises": {"noise": 0.5, "context_noise": 1.0, "reason_first": 0.1},
    "sharp": {"noise": 1.0, "sharpness": 40.0},
    "anchored": {"noise": 0.6, "context_noise": 0.6, "anchoring": 0.5},
    "anchored, no noise": {"anchoring": -0.4},
    "heaping": {"noise": 1.0, "heaping": 1.5, "context_noise": 0.3},
}


@pytest.mark.parametrize(
    "temperature", [None, 1.0, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.0, 2.0))]
)
@pytest.mark.parametrize("name", SCORES)
def test_labels_are_as_often_as_expected(graded, name, temperature):
    """The last of three scores in one text, or the distribution of the second after a forced first one."""
    planted = SCORES[name]
    scale = find_scale("1-100" if name == "heaping" else "1-5 float")
    item, names = list(items(graded))[1], ["coherence", "fluency", "relevance"]
    prompt = prompts.rate(graded, names, scale, item.text, item.context, "before")
    about = about_scores(item, names, scale, "lines", "before")
    if temperature is None:
        prefix = ("assistant", f"coherence: {scale.labels[-1]}\nfluency:")
        about = replace(about, attributes=("fluency", "relevance"), previous=scale.high)
        trial = Trial(Choice([("user", prompt), prefix], scale.labels, about), "news-1", "fluency", "c2")
    else:
        trial = Trial(Completion(prompt, temperature, about=about), "news-1", "relevance", "c2")
    draws = np.array([_shares(bl.SimulatedJudge(graded, seed=seed, **planted), trial, scale) for seed in range(300)])
    judge = bl.SimulatedJudge(graded, **planted)
    [expected], [mean] = expected_distributions(judge, [trial]), expected_scores(judge, [trial])
    assert expected.sum() == pytest.approx(1)
    assert mean == pytest.approx(expected @ np.array(scale.values))
    if temperature is None:
        error = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
        assert (np.abs(draws.mean(axis=0) - expected) <= 4 * error + 1e-6).all()
    elif expected.max() > 1 - 1e-9:
        assert draws.mean(axis=0) == pytest.approx(expected)
    else:
        assert _fits(draws.sum(axis=0), expected * len(draws))


def _shares(judge, trial, scale):
    [(_, reply)] = judge.ask([trial.request])
    if reply.logprobs is not None:
        return np.exp(reply.logprobs)
    return np.array([reply.text.endswith(f"relevance: {label}") for label in scale.labels], dtype=float)


def _fits(counts, expected):
    """Chi-square over labels that are expected five times, the rest as one class."""
    often = expected >= 5
    seen, wanted = [*counts[often], counts[~often].sum()], [*expected[often], expected[~often].sum()]
    if wanted[-1] < 1:
        seen, wanted = [*seen[:-2], sum(seen[-2:])], [*wanted[:-2], sum(wanted[-2:])]
    return len(wanted) < 2 or stats.chisquare(seen, wanted, sum_check=False).pvalue > 0.001


def test_mean_shifts_follow_from_expected_scores(graded):
    """What reasons-first, familiarity and the missing source do to the mean, off the ends of the scale."""
    scale, item = find_scale("1-100"), list(items(graded))[1]
    judge = bl.SimulatedJudge(graded, reason_first=0.08, source_reliance=0.5, sharpness=16.0, noise=0.2)
    asked = [
        Completion(
            prompts.rate(graded, ["coherence"], scale, item.text, shown.context, reasons),
            1.0,
            about=about_scores(shown, ["coherence"], scale, "lines", reasons),
        )
        for shown, reasons in ((item, "after"), (item, "before"), (replace(item, context=""), "after"))
    ]
    given = {item.text: 3.4, "another": 2.6}
    after, before, without = expected_scores(judge, asked)
    assert before - after == pytest.approx(0.08 * 99, abs=0.02)
    assert after - without == pytest.approx(0.5 * 0.5 / 4 * 99, abs=0.02)
    known = bl.SimulatedJudge(graded, familiarity=-0.6, sharpness=16.0, noise=0.2, log_perplexity=given)
    plain = bl.SimulatedJudge(graded, sharpness=16.0, noise=0.2)
    [moved], [still] = (
        expected_scores(j, [Choice(asked[0].messages, scale.labels, asked[0].about)]) for j in (known, plain)
    )
    assert moved - still == pytest.approx(-0.6 * (3.4 - 3.0) / 4 * 99, abs=0.02)
