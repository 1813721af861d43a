"""`Panel`: what several judges say together, who is asked for it, and what it costs."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import About, Choice, Completion, Likelihood, Rank, Reply, Score, Usage, as_judge, request_key
from biaslab.core.errors import BudgetExceededError, InputError, JudgeError, UnsupportedRequestError
from biaslab.core.scales import find_scale
from biaslab.judges.panel import DIVIDED, combine
from biaslab.judges.repetition import Sampled
from biaslab.prompts.parsing import parse_choice, parse_score
from biaslab.study.spending import Ledger, budget_of
from biaslab.study.token_counts import count_tokens

PROBE = bl.probes.Position(["coherence"], [1])
PAIR = About("c", ("x", "y"), ("one", "two"), ("coherence",), labels=("Summary A", "Summary B"))
RATED = About("c", ("x",), ("one",), ("coherence",), scale="1-5", form="text")
QUESTION = Choice("which?", ("A", "B"))


class Says:
    """Gives one reply to everything, and counts how often it is asked."""

    def __init__(self, name, reply, kinds=(Choice, Completion, Score)):
        self.id, self.reply, self.kinds, self.asked = name, reply, frozenset(kinds), []

    def check(self, requests):
        bl.core.require_kinds(self, requests)

    def ask(self, requests):
        for request in reversed(list(requests)):
            self.asked.append(request)
            yield request, self.reply


def shares(*p, **more):
    return Reply(logprobs=tuple(math.log(each) if each else -math.inf for each in p), **more)


def told(request, *replies, weights=None):
    members = [Says(f"judge {n}", reply) for n, reply in enumerate(replies)]
    [(_, reply)] = bl.Panel(members, weights).ask([request])
    return reply


def test_panel_averages_normalized_distributions():
    reply = told(QUESTION, shares(0.08, 0.02), shares(0.4, 0.6))
    p = np.exp(reply.logprobs)
    assert p.sum() == pytest.approx((0.1 + 1.0) / 2)
    assert p[0] / p.sum() == pytest.approx((0.8 + 0.4) / 2)
    assert reply.samples is None


@given(
    p=st.lists(st.floats(0.01, 0.99), min_size=2, max_size=5),
    weights=st.lists(st.floats(0.1, 9), min_size=5, max_size=5),
)
def test_panel_mean_lies_within_the_range_of_members(p, weights):
    reply = told(QUESTION, *(shares(one, 1 - one) for one in p), weights=weights[: len(p)])
    assert min(p) - 1e-9 <= math.exp(reply.logprobs[0]) <= max(p) + 1e-9
    same = told(QUESTION, *[shares(p[0], 1 - p[0])] * len(p), weights=weights[: len(p)])
    assert np.exp(same.logprobs) == pytest.approx([p[0], 1 - p[0]])


def test_member_without_label_mass_has_no_vote():
    p = np.exp(told(QUESTION, shares(0.3, 0.7), shares(0, 0)).logprobs)
    assert p[0] / p.sum() == pytest.approx(0.3)
    assert p.sum() == pytest.approx(0.5)
    assert told(QUESTION, shares(0, 0), shares(0, 0)).logprobs == (-math.inf, -math.inf)


def test_bounds_and_unseen_mass_survive_the_panel():
    reply = told(QUESTION, shares(0.5, 0.1, unseen=0.4, bounded=(1,)), shares(0.5, 0.5))
    assert (reply.bounded, reply.unseen) == ((1,), pytest.approx(0.2))


def test_samples_are_pooled_only_where_they_make_a_count():
    pooled = told(QUESTION, shares(0.5, 0.25, samples=4), shares(1, 0, samples=4))
    assert (np.exp(pooled.logprobs) * 8).tolist() == pytest.approx([6, 1])
    assert pooled.samples == 8
    for others, options in (((shares(0.5, 0.5),), {}), ((shares(1, 0, samples=4),), {"weights": [2, 1]})):
        with pytest.raises(JudgeError, match="cannot be pooled"):
            told(QUESTION, shares(0.5, 0.5, samples=4), *others, **options)


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        (("[[A]]", "I think [[B]] is better.", "Summary A"), "[[A]]"),
        (("[[B]]", "[[A]]", "What do you mean?"), "Tie"),
        (("What?", "[[B]]", "I cannot help with that."), "[[B]]"),
        (("It is a tie.", "[[B]]", "Tie"), "It is a tie."),
        (("", "What?"), ""),
    ],
)
def test_pair_texts_give_the_verdict_of_the_majority(texts, chosen):
    said = told(Completion("which?", about=PAIR), *(Reply(text=text, finish_reason="stop") for text in texts)).text
    assert said == chosen
    if chosen == "Tie":
        assert parse_choice(said, PAIR.labels) == (None, "tie")


def test_a_tie_has_the_word_that_the_request_offers():
    offered = replace(PAIR, labels=(*PAIR.labels, "Neither"))
    texts = [Reply(text=text) for text in ("Summary A", "Summary B")]
    assert told(Completion("which?", about=offered), *texts).text == "Neither"


def test_score_texts_give_the_mode_or_the_mean_of_modes():
    request = Completion("how good?", about=RATED)
    texts = [Reply(text=text) for text in ("Score: 4", "2", "I would give it a score of 4.", "2")]
    assert told(request, *texts[:3]).text == "Score: 4"
    divided = told(request, *texts)
    assert parse_score(divided.text, find_scale("1-5")) == (3.0, "ok")
    assert told(request, *texts[:2], weights=[1, 2]).text == "2"


def test_other_texts_are_compared_verbatim():
    texts = [Reply(text=text) for text in ("yes", "no", " yes")]
    assert told(Completion("is it?"), *texts).text == "yes"
    divided = told(Completion("is it?"), *texts[:2]).text
    assert divided == DIVIDED
    assert parse_choice(divided, ("Summary A", "Summary B")) == (None, "unparsable")


def test_refusal_has_no_vote():
    declined = Reply(text="Summary B", finish_reason="refusal")
    request = Completion("which?", about=PAIR)
    assert told(request, declined, Reply(text="[[A]]")).text == "[[A]]"
    assert told(request, declined, declined).finish_reason == "refusal"


def test_evaluators_are_averaged_and_tokens_added():
    reply = told(Score("a text"), Reply(score=0.2, usage=Usage(5, 1, 2), model="m"), Reply(score=0.6, usage=Usage(7)))
    assert (reply.score, reply.usage, reply.model) == (pytest.approx(0.4), Usage(12, 1, 2), "m")


def test_weights_of_a_context_are_those_of_its_name():
    members = [Says("yes", shares(1, 0)), Says("no", shares(0, 1))]
    panel = bl.Panel(members, {"c": [3, 1]})
    asked = [Choice("which?", ("A", "B"), replace(PAIR, context_id=name)) for name in ("c",)]
    [(_, reply)] = panel.ask(asked)
    assert np.exp(reply.logprobs) == pytest.approx([0.75, 0.25])
    [(_, reply)] = panel.ask([QUESTION])
    assert np.exp(reply.logprobs) == pytest.approx([0.5, 0.5])
    ids = {bl.Panel(members, weights).id for weights in (None, [1, 1], [2, 1], {"c": [3, 1]}, {"c": [1, 3]})}
    assert len(ids) == 4


def test_a_panel_is_the_mean_of_its_members_in_every_probe(graded):
    data = graded.head(4)
    members = [bl.SimulatedJudge(data, position=size, noise=1.0, seed=seed) for seed, size in enumerate((1.0, -0.5))]
    trials = [bl.collect(PROBE, judge, data, progress=False) for judge in (*members, bl.Panel(members))]
    assert trials[2]["value"].to_numpy() == pytest.approx((trials[0]["value"] + trials[1]["value"]) / 2)
    assert (trials[2]["tokens"] == trials[0]["tokens"] + trials[1]["tokens"]).all()
    assert PROBE.estimate(trials[2])["estimate"].notna().any()


@pytest.fixture
def counted(graded):
    """Two members that count how often they are asked."""

    class Counted(bl.SimulatedJudge):
        def ask(self, requests):
            requests = list(requests)
            self.times = getattr(self, "times", 0) + len(requests)
            return super().ask(requests)

    return [Counted(graded, position=size) for size in (0.0, 1.0)]


def test_a_member_that_was_asked_alone_is_not_asked_again(counted, graded, tmp_path):
    data = graded.head(2)
    with bl.Store(tmp_path / "s") as store:
        alone = bl.collect(PROBE, counted[0], data, store=store, progress=False)
        both = bl.collect(PROBE, bl.Panel(counted), data, store=store, progress=False)
        assert [judge.times for judge in counted] == [len(alone)] * 2
        assert len(store) == 3 * len(alone)
        later = bl.collect(PROBE, counted[1], data, store=store, progress=False)
        assert (later.attrs["asked"], both.attrs["asked"]) == (0, len(alone))
        requests = [trial.request for trial in PROBE.design(data)]
        assert set(store.get(request_key(one, counted[1].id) for one in requests)) == set(later["key"])


def test_a_panel_of_members_that_were_asked_costs_nothing(counted, graded, tmp_path):
    data = graded.head(2)
    with bl.Store(tmp_path / "s") as store:
        for judge in counted:
            bl.collect(PROBE, judge, data, store=store, progress=False)
        spent = [judge.times for judge in counted]
        found = bl.collect(PROBE, bl.Panel(counted, [2, 1]), data, store, False, bl.Budget(requests=1))
        assert (found.attrs["asked"], found.attrs["stored"]) == (0, len(found))
        assert [judge.times for judge in counted] == spent
        with pytest.raises(BudgetExceededError):
            bl.collect(PROBE, bl.Panel(counted), graded.head(3), store, False, bl.Budget(requests=1))


def test_replies_before_a_fault_are_stored(counted, graded, tmp_path):
    class Breaks(Says):
        def ask(self, requests):
            raise JudgeError("gone", next(iter(requests)))
            yield

    data = graded.head(2)
    with bl.Store(tmp_path / "s") as store:
        with pytest.raises(JudgeError, match="gone"):
            bl.collect(PROBE, bl.Panel([counted[0], Breaks("b", shares(1, 0))]), data, store=store, progress=False)
        assert len(store) == counted[0].times > 0


def test_a_plan_counts_every_member(graded):
    members = [bl.SimulatedJudge(graded), bl.SimulatedJudge(graded, position=1.0)]
    counted = count_tokens(bl.Panel(members), [QUESTION])
    assert counted.read.tolist() == (2 * count_tokens(members[0], [QUESTION]).read).tolist()
    ledger = Ledger(bl.Panel([members[0], bl.Sampled(members[1], 5)]), announces=True)
    ledger.plan([QUESTION])
    assert ledger.sent == 6


def test_panel_budget_has_the_lowest_limits_and_highest_prices():
    def served(model, **options):
        return bl.ApiJudge(model, "http://localhost:8000/v1", **options)

    one = served("one", prices={"input": 1.0, "output": 9.0}, limits={"requests": 50})
    two = served("two", prices={"input": 2.0}, limits={"requests": 80, "minutes": 3.0})
    found = budget_of(bl.Panel([one, two]))
    assert (found.prices, found.requests, found.minutes) == ({"input": 2.0, "output": 9.0}, 50, 3.0)
    assert budget_of(bl.Panel([one, served("three", limits={"tokens": 5})])).prices is None


def test_it_is_loaded_by_name(graded):
    judge = bl.load_judge("panel:simulated:position=0.5+simulated:seed=3", graded)
    assert [member.position for member in judge.members] == [0.5, 0.0]
    with pytest.raises(InputError, match=r"panel:judge\+judge"):
        bl.load_judge("panel:simulated", graded)


@pytest.mark.parametrize(
    ("judges", "weights", "says"),
    [
        ([], None, "at least two judges"),
        (["one"], None, "at least two judges"),
        (["one", "one"], None, r"judges is \['one'\].*different judges"),
        (["one", "two"], [1.0], "2 numbers, one per member"),
        (["one", "two"], [1.0, -1.0], "at least 0"),
        (["one", "two"], [0.0, 0.0], "not all 0"),
        (["one", "two"], {"c": [1.0, math.nan]}, "2 numbers"),
    ],
)
def test_bad_panels_are_refused(judges, weights, says):
    with pytest.raises(InputError, match=says):
        bl.Panel([Says(name, shares(1, 0)) for name in judges], weights)


def test_members_whose_answers_cannot_be_combined_are_refused():
    labels, numbers, words = (Says(kind.kind, None, [kind]) for kind in (Choice, Score, Likelihood))
    for members in ([labels, numbers], [words, Says("other words", None, [Likelihood])]):
        with pytest.raises(InputError, match="same kinds of requests"):
            bl.Panel(members)
    both = bl.Panel([Says("a", None, [Choice, Likelihood]), Says("b", None, [Choice, Likelihood])])
    with pytest.raises(UnsupportedRequestError):
        both.check([Likelihood("a text")])
    with pytest.raises(JudgeError, match="no log-probability of each label"):
        combine(QUESTION, [Reply(text="A"), shares(1, 0)], [0.5, 0.5])


LIST = Rank(("one", "two", "three", "four"))


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("[1] > [2] > [3] > [4]", "[2] > [1] > [3] > [4]", "[2] > [4] > [1] > [3]"), "[2] > [1] > [4] > [3]"),
        (("[3]", "[3]", "[1]"), "[3]"),
        (("[3]", "[1] > [3] > [2] > [4]", "[3]"), "[3] > [1] > [2] > [4]"),
        (("[2] > [2] > [1] > [3]", "[9]", "[4]"), "[4]"),
        (("", "what?", "[1] > [1]"), ""),
    ],
)
def test_panel_ranks_lists_by_mean_rank(texts, said):
    assert told(LIST, *map(members_reply, texts)).text == said


def members_reply(text):
    return Reply(text=text, finish_reason="stop")


def test_list_probabilities_are_averaged_or_ranked_with_texts():
    reply = told(LIST, shares(0.4, 0.3, 0.2, 0.1), shares(0.0, 0.1, 0.1, 0.0))
    assert np.exp(reply.logprobs) / np.exp(reply.logprobs).sum() == pytest.approx([0.2, 0.4, 0.35, 0.05])
    assert told(LIST, shares(0.4, 0.3, 0.2, 0.1), Reply(text="", finish_reason="refusal")).logprobs is not None
    mixed = told(LIST, shares(0.1, 0.2, 0.3, 0.4), members_reply("[4] > [2] > [3] > [1]"), weights=[3, 1])
    assert mixed.text == "[4] > [3] > [2] > [1]"


def test_member_of_weight_0_has_no_vote_on_a_list():
    replies = [members_reply(text) for text in ("[3] > [1] > [2] > [4]", "[4] > [3] > [2] > [1]")]
    assert told(LIST, *replies, weights=[0, 1]).text == "[4] > [3] > [2] > [1]"


@given(orders=st.lists(st.permutations(range(4)), min_size=2, max_size=4), shown=st.permutations(range(4)))
def test_panel_ranking_is_independent_of_the_order_shown(orders, shown):
    """Ties too: each member ranks texts, whatever their places."""

    def best_first(texts):
        names = {text: f"[{place}]" for place, text in enumerate(texts, 1)}
        replies = [members_reply(" > ".join(names[LIST.texts[at]] for at in order)) for order in orders]
        said = told(Rank(texts), *replies).text.split(" > ")
        return [texts[int(name[1]) - 1] for name in said]

    assert best_first(LIST.texts) == best_first(tuple(LIST.texts[at] for at in shown))


@pytest.mark.parametrize("ranks", [False, True])
@pytest.mark.parametrize("answer", ["text", "verdict"])
def test_a_panel_answers_lists_as_its_members_do(graded, ranks, answer):
    """Opposite preferences for places cancel; a judge of lists alone will do."""

    def first(candidates):
        return [0, 2, 1] if ranks else 0

    def last(candidates):
        return [2, 0, 1] if ranks else 2

    simulated = [bl.SimulatedJudge(graded, quality=0.5, noise=0.5, seed=seed) for seed in (1, 2, 3)]
    members = [bl.FunctionJudge(first), bl.FunctionJudge(last)] if answer == "verdict" else simulated
    probe = bl.probes.ListPosition(["coherence"], k=3, answer=answer, ranks=ranks)
    panel = bl.Panel(members, [2, 1] if answer == "verdict" else None)
    trials = bl.collect(probe, panel, graded, progress=False)
    assert set(trials["status"]) == {"ok"}
    if answer == "verdict":
        assert probe.estimate(trials, ["first_place_excess"])["estimate"].item() == pytest.approx(2 / 3)
        return
    same = [
        probe.estimate(bl.collect(probe, judge, graded, progress=False), ["same_best"])["estimate"].item()
        for judge in (members[0], panel)
    ]
    assert same[1] > same[0]


class SampledSays:
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
    judge = Sampled(SampledSays(["A", "B", "A", "[[A]]", "I cannot say.", "Both A and B"]), 6)
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
    class Declines(SampledSays):
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
    judge = Sampled(SampledSays(["x"]), 2)
    assert [reply.text for _, reply in judge.ask([Completion("p")])] == ["x"]
    with pytest.raises(UnsupportedRequestError):
        judge.check([Likelihood("x")])
    for options in ({"k": 0}, {"k": 2, "temperature": 0}, {"k": 2, "max_tokens": 0}):
        with pytest.raises(InputError):
            Sampled(SampledSays([]), **options)

    class Labels(SampledSays):
        kinds = frozenset({Choice})

    with pytest.raises(InputError, match="answers Completion"):
        Sampled(Labels([]), 2)
