"""Scores of the calibration weight: what is planted can be read off the answers, in every form that prompts ask for."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import biaslab as bl
from biaslab import prompts
from biaslab.core import Choice, Completion, Trial
from biaslab.errors import JudgeError
from biaslab.parsing import parse_score, parse_scores
from biaslab.scales import SCALES, find_scale, whole_numbers

HUNDRED = find_scale("1-100")
NAMES = ["coherence", "fluency", "relevance"]


@pytest.fixture(scope="module")
def row(graded):
    """The second candidate of the first context: coherence 3.5, consistency, fluency and relevance 3."""
    return graded.candidates.iloc[1]


@pytest.fixture
def rate(graded, row):
    def ask(names=("fluency",), scale=HUNDRED, reasons="none", context=row["context"], candidate=row["text"]):
        return prompts.rate(graded, list(names), scale, candidate, context, reasons)

    return ask


def centre(judge, messages, scale=HUNDRED):
    """Read the centre of a score distribution, on the unit scale, off the odds of the lowest and the highest label."""
    [(_, reply)] = judge.ask([Choice(messages, scale.labels)])
    assert math.fsum(map(math.exp, reply.logprobs)) == pytest.approx(1)
    return 0.5 + (reply.logprobs[-1] - reply.logprobs[0]) / judge.sharpness**2


def unit(human):
    return (human - 1) / 4


def test_scores_centre_on_what_humans_gave(graded, rate):
    judge = bl.SimulatedJudge(graded, quality=0.6)
    for _, row in graded.candidates.iterrows():
        for name in graded.attributes:
            human = graded.human_means.loc[(row["context_id"], row["candidate_id"]), name]
            messages = rate([name], context=row["context"], candidate=row["text"])
            assert centre(judge, messages) == pytest.approx(0.5 + 0.6 * (human - 3) / 4)


def test_the_distribution_has_the_planted_sharpness(graded, rate):
    [(_, reply)] = bl.SimulatedJudge(graded, sharpness=10.0).ask([Choice(rate(), HUNDRED.labels)])
    p, x = np.exp(reply.logprobs), np.linspace(0, 1, 100)
    assert p @ x == pytest.approx(unit(3.0), abs=1e-5)
    assert math.sqrt(p @ (x - p @ x) ** 2) == pytest.approx(0.1, rel=1e-3)


def test_reasons_before_the_score_raise_it(graded, rate, row):
    judge = bl.SimulatedJudge(graded, reason_first=0.15)
    gains = {reasons: centre(judge, rate(reasons=reasons)) - unit(3.0) for reasons in ("none", "before", "after")}
    assert gains == pytest.approx({"none": 0.0, "before": 0.15, "after": 0.0})
    for layout, order, rules in itertools.product(("ex", "json"), ("s", "sr", "rs"), (False, True)):
        messages = output_order(graded, row, layout, order, rules)
        assert centre(judge, messages) - unit(3.0) == pytest.approx(0.15 if order == "rs" else 0.0)


def test_without_the_source_quality_is_seen_less(graded, rate):
    judge = bl.SimulatedJudge(graded, source_reliance=0.4)
    assert centre(judge, rate(["coherence"])) == pytest.approx(0.5 + 0.5 / 4)
    assert centre(judge, rate(["coherence"], context="")) == pytest.approx(0.5 + 0.6 * 0.5 / 4)


def test_a_score_is_drawn_towards_the_one_before(graded, rate):
    """In a prefix, and in a transcript: by 0.3 of the way from its own mean."""
    judge = bl.SimulatedJudge(graded, anchoring=0.3)
    for given in (1, 40, 100):
        expected = unit(3.0) + 0.3 * (HUNDRED.unit(given) - unit(3.0))
        joint = ("user", rate(NAMES))
        assert centre(judge, [joint, ("assistant", f"coherence: {given}\nfluency:")]) == pytest.approx(expected)
        turns = [("user", rate(["coherence"])), ("assistant", str(given)), ("user", rate(["fluency"]))]
        assert centre(judge, turns) == pytest.approx(expected)
        told = f"You have given:\ncoherence: {given}\n\nNow the rating of fluency alone."
        assert centre(judge, [joint, ("assistant", "Yes."), ("user", told)]) == pytest.approx(expected)
    assert centre(judge, rate(["fluency"])) == pytest.approx(unit(3.0))


def test_text_goes_on_where_a_prefix_stops(graded, rate):
    judge = bl.SimulatedJudge(graded)
    request = Completion([("user", rate(NAMES)), ("assistant", "coherence: 90\nfluency:")])
    assert dict(judge.ask([request]))[request].text == " 50\nrelevance: 50"


def test_digits_heap_on_long_scales_only(graded, rate):
    fair, heaping = bl.SimulatedJudge(graded), bl.SimulatedJudge(graded, heaping=1.6)
    for scale in (*SCALES.values(), whole_numbers(0, 100)):
        request = Choice(rate(scale=scale), scale.labels)
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
def test_text_follows_the_distribution_and_its_temperature(graded, rate, temperature):
    """p_T is proportional to p^(1/T), and greedy text is the likeliest label."""
    judge, scale = bl.SimulatedJudge(graded, sharpness=4.0), find_scale("1-5")
    messages = rate(["coherence"], scale)
    [(_, reply)] = judge.ask([Choice(messages, scale.labels)])
    weights = np.exp(np.array(reply.logprobs) / temperature)
    replies = judge.ask(Completion(messages, temperature, replicate=k) for k in range(2000))
    texts = [reply.text for _, reply in replies]
    counts = [texts.count(label) for label in scale.labels]
    assert stats.chisquare(counts, 2000 * weights / weights.sum()).pvalue > 0.01
    [(_, greedy)] = judge.ask([Completion(messages, 0.0)])
    assert greedy.text == scale.labels[int(np.argmax(reply.logprobs))]


@pytest.mark.parametrize("scale", [*SCALES.values(), whole_numbers(0, 100)], ids=lambda s: s.name)
@pytest.mark.parametrize("reasons", ["none", "before", "after"])
@pytest.mark.parametrize("names", [NAMES[:1], NAMES, NAMES[::-1]], ids=["alone", "joint", "reversed"])
def test_every_form_of_the_rating_prompt_is_read_and_answered(graded, rate, scale, reasons, names):
    judge = bl.SimulatedJudge(graded, quality=4.0, sharpness=30.0)
    request = Completion(rate(names, scale, reasons))
    judge.check([request])
    read = parse_scores(dict(judge.ask([request]))[request].text, names, scale)
    expected = {"coherence": (1.0, 0.04), "fluency": (0.5, 0.13), "relevance": (0.5, 0.13)}
    for name, (value, status) in read.items():
        assert status == "ok"
        assert scale.unit(value) == pytest.approx(expected[name][0], abs=expected[name][1])


def output_order(data, row, layout, order, rules, scale=HUNDRED):
    names = {"noun": data.noun, "attribute": "fluency", "definition": data.attributes["fluency"]}
    shown = {"context": row["context"], "candidate": row["text"]}
    return prompts.render("output_order", **shown, **names, scale=scale, format=layout, order=order, rules=rules)


@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("rules", [False, True])
@pytest.mark.parametrize(("layout", "order"), list(itertools.product(("ex", "json"), ("s", "sr", "rs"))))
def test_every_output_order_is_answered_in_its_form(graded, row, layout, order, rules, scale):
    request = Completion(output_order(graded, row, layout, order, rules, scale))
    text = dict(bl.SimulatedJudge(graded).ask([request]))[request].text
    assert parse_score(text, scale)[1] == "ok"
    assert scale.unit(parse_score(text, scale)[0]) == pytest.approx(0.5, abs=0.06)
    assert text.startswith("{") == (layout == "json")
    assert ("reasons" in text) == ("r" in order)
    if "r" in order:
        assert (text.index("reasons") < text.index("score")) == (order == "rs")


@pytest.mark.parametrize("template", [1, 2])
@pytest.mark.parametrize(("low", "high"), [(1, 5), (0, 100), (1, 10)])
def test_scoring_templates_are_read(graded, row, template, low, high):
    names = {"noun": graded.noun, "attribute": "fluency", "definition": graded.attributes["fluency"]}
    shown = {"context": row["context"], "candidate": row["text"]}
    request = Completion(prompts.render(f"scoring_{template}", **shown, **names, low=low, high=high))
    text = dict(bl.SimulatedJudge(graded).ask([request]))[request].text
    assert int(text) == pytest.approx((low + high) / 2, abs=0.5)


def test_refusals_and_garbage_are_what_they_are(graded, rate):
    scale = find_scale("1-5")
    requests = [Completion(rate(NAMES[:n], scale), 1.0, replicate=k) for n in (1, 3) for k in range(300)]
    judge, unread = bl.SimulatedJudge(graded, garbage=0.3), 0
    for request, reply in judge.ask(requests):
        names = NAMES if "in this order" in request.messages[0].content else NAMES[:1]
        unread += {status for _, status in parse_scores(reply.text, names, scale).values()} == {"unparsable"}
    assert stats.binomtest(unread, len(requests), 0.3).pvalue > 0.01
    for _, reply in bl.SimulatedJudge(graded, refusal=1.0).ask(requests[::200]):
        assert parse_score(reply.text, scale)[1] == "refused"


def test_selective_refusals_spare_what_is_good(graded, rate):
    judge = bl.SimulatedJudge(graded, refusal=1.0, selective=True)
    for _, row in graded.candidates.head(12).iterrows():
        human = graded.human_means.loc[(row["context_id"], row["candidate_id"]), "fluency"]
        [(_, reply)] = judge.ask([Choice(rate(context=row["context"], candidate=row["text"]), HUNDRED.labels)])
        assert all(map(math.isinf, reply.logprobs)) == (human < 3)


def test_says_what_it_cannot_score(graded, rate, row):
    judge = bl.SimulatedJudge(graded)
    requests = [
        (Completion(f"Summary: {row['text']}\n\nHow fluent is it?"), "no scale"),
        (Choice(rate(), ("good", "bad")), "no scale"),
        (Completion(f"Summary: {row['text']}\n\nRate its charm from 1 to 5."), "no context or attribute"),
        (Completion([("user", rate(NAMES[:2])), ("assistant", "coherence: 1\nfluency: 2\n")]), "already given"),
    ]
    for request, words in requests:
        with pytest.raises(JudgeError, match=words) as caught:
            judge.check([request])
        assert caught.value.request == request


def test_expected_scores_are_for_scores(graded, rate):
    judge = bl.SimulatedJudge(graded)
    request = Completion(rate(NAMES[:2]))
    with pytest.raises(JudgeError, match="does not ask for relevance"):
        judge.expected_scores([Trial(request, "news-1", "relevance", "c2")])
    with pytest.raises(JudgeError, match="labels are for coherence"):
        judge.expected_scores([Trial(Choice(rate(NAMES[:2]), HUNDRED.labels), "news-1", "fluency", "c2")])
    with pytest.raises(JudgeError, match="only requests for a score"):
        judge.expected_scores([bl.Likelihood("text")])
