"""The most likely ranking: brute force, greedy, HiGHS and search beside each other."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from biaslab.core.errors import InputError
from biaslab.measures.ranking import Comparisons, Conditionals, decode, fit_conditionals, most_likely_ranking, select
from biaslab.stats.correlation import correlate_within


def draw(n, seed, noise=1.5, hard=False, budget=None):
    rng = np.random.default_rng(seed)
    scores, pairs = rng.normal(size=n), select(n, "random", budget, seed)
    p = 1 / (1 + np.exp(-(scores[pairs[:, 0]] - scores[pairs[:, 1]] + noise * rng.normal(size=len(pairs)))))
    return Comparisons.of(list(map(str, range(n))), *pairs.T, np.round(p) if hard else p)


def log_likelihood(comparisons, order):
    """Eq. 12 as its text has it, comparison by comparison; for decisions, how many the order keeps."""
    rank = {candidate: place for place, candidate in enumerate(order)}
    total = 0.0
    for i, j, p in zip(comparisons.first, comparisons.second, comparisons.p, strict=True):
        chance = p if rank[i] < rank[j] else 1 - p
        total += chance if set(comparisons.p) <= {0.0, 1.0} else np.log(chance)
    return total


@pytest.mark.slow
@given(st.integers(2, 7), st.integers(0, 10_000), st.booleans(), st.integers(3, 42))
@settings(max_examples=25, deadline=None)
def test_exact_ranking_equals_brute_force(n, seed, hard, budget):
    comparisons = draw(n, seed, hard=hard, budget=budget)
    compared = np.flatnonzero(comparisons.times).tolist()
    best = max(log_likelihood(comparisons, order) for order in itertools.permutations(compared))
    found = most_likely_ranking(comparisons)
    assert sorted(found.order.tolist()) == compared
    assert found.log_likelihood == pytest.approx(best)
    assert log_likelihood(comparisons, found.order.tolist()) == pytest.approx(best)
    assert (found.method, found.gap) == ("exact", 0.0)


def test_exact_is_brute_force_with_eight_candidates():
    comparisons = draw(8, 3)
    orders = np.array(list(itertools.permutations(range(8))))
    rank = np.argsort(orders, axis=1)
    above = rank[:, comparisons.first] < rank[:, comparisons.second]
    totals = np.where(above, np.log(comparisons.p), np.log1p(-comparisons.p)).sum(axis=1)
    assert most_likely_ranking(comparisons).log_likelihood == pytest.approx(totals.max())


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_exact_at_16_is_never_below_greedy_search_or_highs(seed, hard):
    comparisons = draw(16, seed, noise=3, hard=hard, budget=120)
    exact, greedy, search, milp = (
        most_likely_ranking(comparisons, method) for method in ("exact", "greedy", "search", "milp")
    )
    for other in (greedy, search):
        assert exact.log_likelihood >= other.log_likelihood - 1e-9
        assert other.bound >= exact.log_likelihood - 1e-9
    assert milp.log_likelihood == pytest.approx(exact.log_likelihood)
    assert milp.gap == pytest.approx(0, abs=1e-6)
    assert exact.log_likelihood == pytest.approx(log_likelihood(comparisons, exact.order.tolist()))


@pytest.mark.parametrize("hard", [False, True])
def test_greedy_ranking_is_optimal_among_swaps(hard):
    comparisons = draw(7, 5, noise=3, hard=hard)
    greedy = most_likely_ranking(comparisons, "greedy")
    for one, two in itertools.combinations(range(7), 2):
        order = greedy.order.tolist()
        order[one], order[two] = order[two], order[one]
        assert log_likelihood(comparisons, order) <= greedy.log_likelihood + 1e-6


@pytest.mark.slow
def test_greedy_is_beaten():
    """The paper's search is not exact: somewhere it loses likelihood."""
    gaps = []
    for seed in range(10):
        comparisons = draw(16, seed, noise=3, budget=120)
        best, greedy = most_likely_ranking(comparisons), most_likely_ranking(comparisons, "greedy")
        gaps.append(best.log_likelihood - greedy.log_likelihood)
    assert max(gaps) > 1


@pytest.mark.parametrize("hard", [False, True])
def test_beyond_16_highs_proves_it_and_search_comes_near(hard):
    comparisons = draw(24, 1, noise=2, hard=hard, budget=300)
    proved, searched = most_likely_ranking(comparisons), most_likely_ranking(comparisons, "search")
    assert (proved.method, proved.gap < 1e-6) == ("milp", True)
    assert searched.log_likelihood <= proved.log_likelihood + 1e-9 <= searched.bound + 2e-9
    assert searched.log_likelihood >= most_likely_ranking(comparisons, "greedy").log_likelihood


@pytest.mark.slow
def test_no_time_leaves_an_honest_gap():
    comparisons = draw(26, 2, noise=3, hard=True)
    hurried = most_likely_ranking(comparisons, "milp", seconds=0.0)
    assert hurried.log_likelihood <= most_likely_ranking(comparisons).log_likelihood <= hurried.bound
    assert hurried.gap > 0


def test_contradictory_certain_answers_have_finite_likelihood():
    comparisons = Comparisons.of(["a", "b"], [0, 1], [1, 0], [1.0, 0.9])
    assert np.isfinite(most_likely_ranking(comparisons).log_likelihood)


def test_candidates_without_comparisons_are_unranked():
    comparisons = Comparisons.of(["a", "b", "c"], [0], [2], [0.1])
    assert most_likely_ranking(comparisons).order.tolist() == [2, 0]
    np.testing.assert_array_equal(decode(comparisons, "likelihood").scores, [0, np.nan, 1])
    np.testing.assert_array_equal(decode(Comparisons.of(["a"], [], [], []), "likelihood").scores, [np.nan])


def test_unknown_methods_and_too_many_candidates_are_refused():
    with pytest.raises(InputError, match="greedy"):
        most_likely_ranking(draw(4, 0), "guess")
    with pytest.raises(InputError, match="16"):
        most_likely_ranking(draw(17, 0), "exact")


@pytest.mark.slow
def test_thousands_of_candidates_are_searched_in_seconds():
    comparisons = draw(2000, 0, noise=0.5, hard=True, budget=20_000)
    found = decode(comparisons, "likelihood")
    assert found.method == "most likely ranking (search)"
    assert found.gap > 0
    assert "not proved" in found.note


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
