"""Lists: balanced orders, the metrics of places, agreement with pairs at k = 2, and planted primacy that is found."""

import hashlib
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.special import softmax
from scipy.stats import kendalltau, spearmanr

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core import Choice, Completion, Rank, Reply
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError, UnlabelledRepliesError
from biaslab.measures.ranking.lists import balanced_orders, list_blocks
from biaslab.probes import ListPosition

TWIN = {  # of lists, and of pairs
    "first_place_excess": "first_position_rate",
    "first_place_logit": "first_position_logit",
    "same_best": "order_consistency",
    "resampling_same_best": "resampling_consistency",
}


def estimated(probe, judge, data, **options):
    return probe.estimate(bl.collect(probe, judge, data, progress=False), **options)


def overall(estimates):
    return estimates[estimates["place"].isna()].set_index("metric")


def draw(*parts):
    """Return a number from 0 to 1 that hangs on some texts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") / 2**64


@given(st.integers(2, 20), st.booleans())
def test_each_candidate_stands_in_each_place_equally_often(k, neighbours):
    orders = balanced_orders(range(k), neighbours)
    assert all(sorted(order) == list(range(k)) for order in orders)
    assert all(set(Counter(column).values()) == {len(orders) / k} for column in zip(*orders, strict=True))
    if k % 2 == 0 or neighbours:
        before = Counter(pair for order in orders for pair in pairwise(order))
        assert len(before) == k * (k - 1)
        assert len(set(before.values())) == 1


def test_orders_of_two_are_both_orders_of_a_pair():
    assert sorted(balanced_orders("ab")) == [("a", "b"), ("b", "a")]
    with pytest.raises(InputError, match="all different"):
        balanced_orders("aa")


def test_design_puts_each_candidate_in_each_place_once(graded):
    data = graded.head(3)
    trials = list(ListPosition(["coherence"], k=4).design(data))
    assert len(trials) == 3 * 4 * 4
    assert len({trial.request for trial in trials}) == 3 * 4
    stands = Counter((trial.context_id, trial.candidate_id, trial.condition["place"]) for trial in trials)
    assert set(stands.values()) == {1}
    for trial in trials:
        about = trial.request.about
        assert about.candidate_ids[trial.condition["place"] - 1] == trial.candidate_id
        assert all(text in trial.request.messages[0].content for text in about.texts)


def close(lists, pairs):
    for name, twin in TWIN.items():
        fair = 0.5 if name == "first_place_excess" else 0.0
        for column in ("estimate", "ci_low", "ci_high"):
            assert lists.loc[name, column] + fair == pytest.approx(pairs.loc[twin, column], abs=1e-12, nan_ok=True)
        assert lists.loc[name, "p_value"] == pytest.approx(pairs.loc[twin, "p_value"], abs=1e-12, nan_ok=True)


def test_lists_of_two_equal_pairs_from_distributions():
    data = construct_population(30, candidates=2)
    judge = bl.SimulatedJudge(data, quality=0.5, position=0.3, context_noise=1.0)
    lists = overall(estimated(ListPosition(k=2), judge, data))
    pairs = estimated(bl.probes.Position(templates=[1]), judge, data, breakdowns=False).set_index("metric")
    close(lists, pairs)
    assert lists.loc["first_place_logit", "estimate"] != pytest.approx(0)


@pytest.mark.parametrize("replicates", [1, 3])
def test_lists_of_two_equal_pairs_from_texts(replicates):
    data = construct_population(40, candidates=2)
    trials = bl.collect(bl.probes.Position(templates=[1], answer="text", replicates=replicates),
                        bl.SimulatedJudge(data, quality=0.3, position=0.4), data, progress=False)  # fmt: skip
    pairs = bl.probes.Position(templates=[1]).estimate(trials, breakdowns=False).set_index("metric")
    lists = overall(ListPosition(k=2).estimate(as_lists(trials)))
    close(lists, pairs)


def test_lists_of_two_equal_pairs_from_shares_of_samples():
    data = construct_population(40, candidates=2)
    judge = bl.Sampled(bl.SimulatedJudge(data, quality=0.3, position=0.4), 5)
    trials = bl.collect(bl.probes.Position(templates=[1]), judge, data, progress=False)
    pairs = bl.probes.Position(templates=[1]).estimate(trials, breakdowns=False).set_index("metric")
    close(overall(ListPosition(k=2).estimate(as_lists(trials))), pairs)


def as_lists(pairs):
    """Write judgements of pairs as judgements of lists of two."""
    order = (pairs["candidate_id"] > pairs["opponent_id"]).astype(int)
    first = pairs.assign(k=2, ranked=False, list_order=order, place=1, opponent_id=None)
    second = first.assign(place=2, candidate_id=pairs["opponent_id"], value=1 - first["value"])
    return pd.concat([first, second], ignore_index=True).assign(probe="list_position")


@pytest.mark.parametrize("k", [3, 5, 10])
def test_planted_primacy_is_recovered_from_distributions(k):
    data = construct_population(20, candidates=k)
    judge = bl.SimulatedJudge(data, quality=0.7, position=0.6)
    found = overall(estimated(ListPosition(k=k), judge, data))
    assert found.loc["first_place_logit", "estimate"] == pytest.approx(0.6, abs=1e-9)
    noisy = overall(estimated(ListPosition(k=k), replace(judge, noise=1.0, context_noise=0.5), data))
    assert_near(noisy.loc["first_place_logit"], 0.6)
    assert noisy.loc["first_place_excess", "estimate"] > 0


def assert_near(row, truth):
    """Within three standard errors, which are small enough to say something."""
    assert row["se"] < 0.25
    assert abs(row["estimate"] - truth) < 3 * row["se"]


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 5, 10])
def test_planted_primacy_is_recovered_from_texts(k):
    data = construct_population(400, candidates=k)
    judge = bl.SimulatedJudge(data, quality=0.5, position=1.0)
    found = overall(estimated(ListPosition(k=k, answer="text"), judge, data))
    assert_near(found.loc["first_place_logit"], 1.0)
    ranked = overall(estimated(ListPosition(k=k, ranks=True), judge, data))
    assert ranked.loc["first_place_excess", "ci_low"] > 0
    assert ranked.loc["place_rank_correlation", "ci_low"] > 0


def test_place_rates_are_relative_frequencies(graded):
    """A judge that always takes the second place."""
    probe = ListPosition(["coherence"], k=3)
    found = estimated(probe, bl.FunctionJudge(lambda candidates: 1, "second"), graded)
    rates = found[found["metric"] == "place_rate"].set_index("place")["estimate"]
    assert rates.to_dict() == {1: 0.0, 2: 1.0, 3: 0.0}
    assert overall(found).loc["first_place_excess", "estimate"] == pytest.approx(-1 / 3)
    assert overall(found).loc["same_best", "estimate"] == 0


def test_a_judge_that_reads_texts_alone_has_no_primacy(graded):
    found = overall(estimated(ListPosition(["coherence"], k=4), bl.FunctionJudge(longest, "longest"), graded))
    assert found.loc["first_place_excess", "estimate"] == pytest.approx(0, abs=1e-12)
    assert found.loc["same_best", "estimate"] == 1


def longest(context, candidates):
    return max(range(len(candidates)), key=lambda at: (len(candidates[at]), candidates[at]))


def by_length(candidates):
    return sorted(range(len(candidates)), key=lambda at: (-len(candidates[at]), candidates[at]))


def test_rankings_have_the_correlations_of_scipy(graded):
    def mixed(candidates):
        return sorted(range(len(candidates)), key=lambda at: draw(candidates[at]) + 0.3 * draw(*candidates) * at)

    probe = ListPosition(["coherence"], k=4, ranks=True)
    trials = bl.collect(probe, bl.FunctionJudge(mixed), graded, progress=False)
    found = overall(probe.estimate(trials))
    blocks = list_blocks(trials, "")
    ranks = blocks.by_candidate(blocks.value)
    taus = [kendalltau(r[o], r[p]).statistic for r in ranks for o in range(4) for p in range(o)]
    assert found.loc["rank_consistency", "estimate"] == pytest.approx(np.mean(taus))
    rhos = [spearmanr(range(4), row).statistic for row in blocks.value.reshape(-1, 4)]
    assert found.loc["place_rank_correlation", "estimate"] == pytest.approx(np.mean(rhos))
    means = probe.estimate(trials, breakdowns=True).query("metric == 'mean_rank'").set_index("place")["estimate"]
    assert means.tolist() == pytest.approx(blocks.value.reshape(-1, 4).mean(axis=0).tolist())


def test_the_logit_of_texts_is_the_odds_ratio_of_two_orders(graded):
    """By hand: with i first in one order and j in the other, taken when first against taken in the other's place."""
    probe = ListPosition(["coherence"], k=3, answer="text")
    trials = bl.collect(probe, bl.SimulatedJudge(graded, position=0.4, quality=0.0, seed=2), graded, progress=False)
    up = down = 0
    for _, rows in trials.groupby("context_id"):
        orders = [part.sort_values("place") for _, part in rows.groupby("list_order")]
        first = [part["candidate_id"].iloc[0] for part in orders]
        best = [part.loc[part["value"] == 1, "candidate_id"].item() for part in orders]
        for one in range(3):
            for other in range(one):
                up += best[one] == first[one] and best[other] == first[other]
                down += best[one] == first[other] and best[other] == first[one]
    found = overall(probe.estimate(trials)).loc["first_place_logit", "estimate"]
    assert min(up, down) > 0
    assert found == pytest.approx(math.log(up / down) / 2)


@pytest.mark.parametrize("reply", ["[2] > [1]", "[1] > [1] > [2]", "[1] > [2] > [9]", "None of them."])
def test_invalid_rankings_drop_the_list_and_are_counted(graded, reply):
    protocol = bl.Protocol.from_template("{candidates}", "list", replies="order")
    probe = ListPosition(["coherence"], k=3, protocol=protocol)

    def mine(prompt):
        return reply if draw(prompt) < 0.3 else "[1] > [2] > [3]"

    trials = bl.collect(probe, bl.FunctionJudge(mine), graded, progress=False)
    assert set(trials["status"]) - {"ok"} <= {"incomplete", "repeated", "invented", "off_format"}
    with pytest.warns(MissingDataWarning):
        found = overall(probe.estimate(trials))
    lost = trials["value"].isna().groupby(trials["context_id"]).any()
    assert 0 < lost.sum() < len(lost)
    assert found.loc["first_place_excess", "n_dropped"] == 9 * lost.sum()
    assert found.loc["first_place_excess", "estimate"] == pytest.approx(2 / 3)


def test_mixed_lengths_and_duplicate_places_are_refused(graded):
    probe = ListPosition(["coherence"], k=3)
    trials = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False)
    with pytest.raises(TrialsError, match="occurs twice"):
        probe.estimate(pd.concat([trials, trials]))
    with pytest.raises(TrialsError, match="different lengths"):
        probe.estimate(trials[~((trials["context_id"] == trials["context_id"].iloc[0]) & (trials["place"] == 2))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 1}, "k"),
        ({"k": 21}, "k"),
        ({"answer": "words"}, "answer"),
        ({"replicates": 2}, 'use answer="text"'),
        ({"protocol": bl.Protocol.from_template("{first} {second}", verdicts={"A": 1, "B": 0})}, "this one is a pair"),
        ({"protocol": bl.Protocol.from_template("{answer}", "score", scale="1-5")}, "this one is a score"),
    ],
)
def test_parameters_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        ListPosition(**options)


def test_more_candidates_than_any_context_has_are_refused(graded):
    with pytest.raises(InputError, match="at most 6"):
        list(ListPosition(k=7).design(graded))


class Reads(bl.SimulatedJudge):
    """A judge that gives no probabilities."""

    kinds = frozenset({Completion})


def test_a_judge_without_probabilities_is_asked_for_text(graded):
    with pytest.warns(bl.core.errors.NearestDesignWarning, match="reads text instead"):
        trials = bl.collect(ListPosition(["coherence"]), Reads(graded), graded, progress=False)
    assert trials["value"].isin([0.0, 1.0]).all()


@pytest.mark.parametrize(
    ("returned", "reply"),
    [
        (1, "[2]"), ("[3]", "[3]"), (np.int64(0), "[1]"), ([2, 0, 1], "[3] > [1] > [2]"), (["[2]", "[1]"], "[2] > [1]"),
        (np.array([1, 0, 2]), "[2] > [1] > [3]"),
    ],
)  # fmt: skip
def test_a_function_of_candidates_picks_or_ranks(returned, reply):
    judge = bl.FunctionJudge(lambda context, candidates: returned)
    assert judge.kinds == {Rank}
    [(_, answer)] = judge.ask([Rank(("a", "b", "c"), "Q?")])
    assert answer.text == reply


def test_function_of_candidates_gives_probabilities_or_refuses():
    [(_, reply)] = bl.FunctionJudge(lambda candidates: {0: 1, 2: 3}).ask([Rank(("a", "b", "c"))])
    assert np.exp(reply.logprobs).tolist() == pytest.approx([0.25, 0, 0.75])
    [(_, reply)] = bl.FunctionJudge(lambda candidates: None).ask([Rank(("a", "b", "c"))])
    assert reply.text == ""


@pytest.mark.parametrize("returned", [3, -1, 0.5, "second", True, [], [0, 7], {}, {5: 1.0}, object()])
def test_function_of_candidates_with_invalid_result_is_refused(returned):
    def mine(candidates):
        return returned

    with pytest.raises(bl.core.errors.JudgeError, match=r"mine returned .*, allowed: the index of the best"):
        list(bl.FunctionJudge(mine, retries=0).ask([Rank(("a", "b", "c"))]))


def test_ranking_function_also_picks_but_picks_give_no_ranking(graded):
    for ranks in (False, True):
        trials = bl.collect(ListPosition(["coherence"], k=3, ranks=ranks), by_length, graded, progress=False)
        assert (trials["status"] == "ok").all()
        assert set(trials["value"]) == ({1.0, 2.0, 3.0} if ranks else {0.0, 1.0})
    with pytest.raises(UnlabelledRepliesError, match="incomplete"):
        bl.collect(ListPosition(["coherence"], k=3, ranks=True), bl.FunctionJudge(longest), graded, progress=False)


def test_requests_of_lists_have_keys_and_come_back():
    request = Rank(["a", "b"], "Q?")
    from biaslab.core.requests import request_fields, request_from_fields

    assert request_from_fields("rank", request_fields(request)) == request
    assert bl.core.request_key(request, "j") != bl.core.request_key(Rank(("b", "a"), "Q?"), "j")
    with pytest.raises(InputError, match="at least two texts"):
        Rank(("a",))


def test_replies_of_lists_are_stored(graded, tmp_path):
    probe = ListPosition(["coherence"], k=3)
    with bl.Store(tmp_path / "replies.sqlite") as store:
        first = bl.collect(probe, longest, graded, store, progress=False)
        again = bl.collect(probe, longest, graded, store, progress=False)
    assert again.attrs["asked"] == 0
    assert again["value"].equals(first["value"])


class Drawn:
    """Judgements drawn by numpy, from a model that is not the simulated judge's: primacy that falls by place."""

    def __init__(self, primacy, seed):
        self.rng, self.primacy = np.random.default_rng(seed), primacy

    def __call__(self, candidates):
        worth = 2.0 * np.array([draw(text) for text in candidates]) - self.primacy * np.arange(len(candidates))
        return int(self.rng.choice(len(candidates), p=softmax(worth)))


@pytest.mark.slow
def test_a_primacy_that_falls_from_place_to_place_is_found(graded):
    data = construct_population(100, candidates=5)
    fair = overall(estimated(ListPosition(k=5), bl.FunctionJudge(Drawn(0.0, 1), "fair", concurrency=1), data))
    biased = overall(estimated(ListPosition(k=5), bl.FunctionJudge(Drawn(0.5, 2), "biased", concurrency=1), data))
    assert fair.loc["first_place_excess", "p_value"] > 0.01
    assert biased.loc["first_place_excess", "p_value"] < 0.001
    assert biased.loc["last_place_excess", "ci_high"] < 0


def test_judge_scoring_texts_alone_has_no_place_effect(graded):
    class Rewards(bl.core.BaseJudge):
        id, kinds, reads_prompts, score_scale = "rewards", frozenset({Rank}), False, "reward"

        def ask(self, requests):
            for request in requests:
                rewards = np.array([len(text) / 100 for text in request.texts])
                logs = rewards - np.logaddexp.reduce(rewards)
                yield request, Reply(logprobs=tuple(np.minimum(logs, 0.0).tolist()))

    found = overall(estimated(ListPosition(["coherence"]), Rewards(), graded))
    assert found.loc["first_place_excess", "estimate"] == 0
    assert "scored alone" in found.loc["first_place_excess", "note"]


def test_choice_labels_are_the_candidate_names(graded):
    trial = next(iter(ListPosition(["coherence"], k=5).design(graded)))
    assert isinstance(trial.request, Choice)
    assert trial.request.labels == ("[1]", "[2]", "[3]", "[4]", "[5]")
