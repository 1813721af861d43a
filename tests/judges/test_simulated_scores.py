"""Scores of the calibration weight: what is planted can be read off the answers, in every form that prompts ask for."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from expected_scores import expected_scores
from scipy import stats

import biaslab as bl
from biaslab import prompts
from biaslab.core import About, Choice, Completion, Messages, Trial
from biaslab.core.errors import JudgeError, UnsupportedRequestError
from biaslab.core.scales import SCALES, find_scale, scale_named, whole_numbers
from biaslab.measures.scoring.pointwise import about_scores, items
from biaslab.prompts.parsing import parse_score, parse_scores

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
