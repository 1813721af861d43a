"""Eq. 13 with unequal conditionals: estimated from decisions alone, used where only one order was asked."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from biaslab.core.errors import InputError
from biaslab.measures.ranking import Comparisons, Conditionals, decode, fit_conditionals, most_likely_ranking, select
from biaslab.stats.correlation import correlate_within


def decided(contexts, n, better, worse, budget=None, seed=0):
    """Return decisions drawn from the model of Eq. 13 itself, and the scores that say who is better."""
    rng = np.random.default_rng(seed)
    scores = np.concatenate([rng.permutation(n).astype(float) for _ in range(contexts)])
    strategy = "full" if budget is None else "no-repeat"
    pairs = np.concatenate([select(n, strategy, budget, seed + k) + k * n for k in range(contexts)])
    first, second = pairs.T
    chance = np.where(scores[first] > scores[second], better, worse)
    names = np.repeat(np.arange(contexts).astype(str).astype(object), n), np.tile(np.arange(n).astype(str), contexts)
    p = (rng.random(len(first)) < chance).astype(float)
    return Comparisons(names[0], names[1].astype(object), first, second, p), scores


@pytest.mark.parametrize(("better", "worse"), [(0.9, 0.5), (0.55, 0.1), (0.8, 0.2)])
@pytest.mark.parametrize("budget", [None, 28])
def test_planted_conditionals_are_recovered(better, worse, budget):
    comparisons, _ = decided(60, 8, better, worse, budget)
    found = fit_conditionals(comparisons)
    assert found == pytest.approx((better, worse), abs=0.04 if budget is None else 0.1)


@given(st.integers(2, 6), st.integers(0, 10_000), st.floats(0.55, 0.95), st.floats(0.05, 0.5), st.integers(3, 30))
@settings(max_examples=25, deadline=None)
def test_the_ranking_is_the_best_under_eq_13(n, seed, better, worse, budget):
    rng, pairs = np.random.default_rng(seed), select(n, "random", budget, seed)
    comparisons = Comparisons.of(list(map(str, range(n))), *pairs.T, rng.choice([0.0, 0.5, 1.0], len(pairs)))

    def likelihood(order):
        rank = {candidate: place for place, candidate in enumerate(order)}
        total = 0.0
        for i, j, p in zip(comparisons.first, comparisons.second, comparisons.p, strict=True):
            chance = better if rank[i] < rank[j] else worse
            total += 0.0 if p == 0.5 else math.log(chance if p else 1 - chance)
        return total

    compared = np.flatnonzero(comparisons.times).tolist()
    found = most_likely_ranking(comparisons, conditionals=Conditionals(better, worse))
    best = max(likelihood(order) for order in itertools.permutations(compared))
    assert found.log_likelihood == pytest.approx(best) == pytest.approx(likelihood(found.order.tolist()))
    assert found.gap == 0


def test_majority_ranking_is_optimal_with_both_orders_only():
    """Both orders agree, and weigh the same for every pair, or cancel; with one order this does not hold."""
    conditionals = Conditionals(0.95, 0.6)
    both = decided(1, 7, 0.95, 0.6, seed=3)[0]
    # c over a, shown second, against a over b over c and a over d over c, shown first: one telling decision against two
    one = Comparisons.of(list("abcd"), [0, 1, 0, 3, 0], [1, 2, 3, 2, 2], [1, 1, 1, 1, 0])
    for comparisons, lost in ((both, 0.0), (one, math.log(0.4 / 0.05) - 2 * math.log(0.95 / 0.6))):
        above, below = conditionals.log_chances(comparisons.won)
        place = np.argsort(most_likely_ranking(comparisons).order)
        value = np.where(place[comparisons.first] < place[comparisons.second], above, below).sum()
        best = most_likely_ranking(comparisons, conditionals=conditionals).log_likelihood
        assert best - value == pytest.approx(lost, abs=1e-9)


def test_fitted_conditionals_rank_better_in_one_order_designs():
    comparisons, scores = decided(60, 8, 0.95, 0.6, budget=16, seed=1)
    rho = {
        name: np.nanmean(correlate_within(decode(comparisons, name).scores, scores, comparisons.context, "spearman"))
        for name in ("likelihood", "likelihood-decisions")
    }
    assert rho["likelihood-decisions"] > rho["likelihood"] + 0.03


def test_conditionals_of_random_and_undecided_judges():
    flat, _ = decided(100, 6, 0.7, 0.7)
    assert sum(abs(weight) for weight in fit_conditionals(flat).weights) < 1.5  # of 0.95 and 0.6 it is 2.5
    ties = Comparisons.of(["a", "b"], [0, 1], [1, 0], [0.5, 0.5])
    assert decode(ties, "likelihood-decisions").scores.tolist() == [1.0, 0.0]
    with pytest.raises(InputError, match="decision"):
        fit_conditionals(ties)
