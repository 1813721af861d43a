"""Which pairs are asked, and that asking what says most pays."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm, spearmanr

from biaslab.core.errors import InputError
from biaslab.measures.ranking import Comparisons, fit_bradley_terry, most_informative, select, select_adaptively
from biaslab.measures.ranking.selection import STRATEGIES

DRAWN = ("random", "no-repeat", "symmetric")


@given(st.integers(2, 12), st.sampled_from(DRAWN), st.integers(2, 150), st.integers(0, 99))
def test_every_strategy_selects_distinct_pairs_within_budget(n, strategy, budget, seed):
    pairs = [tuple(pair) for pair in select(n, strategy, budget, seed)]
    available = n * (n - 1) // (2 if strategy == "no-repeat" else 1)
    wanted = min(budget, available)
    assert len(pairs) == (wanted - wanted % 2 if strategy == "symmetric" else wanted)
    assert len(set(pairs)) == len(pairs)
    assert all(i != j and min(i, j) >= 0 and max(i, j) < n for i, j in pairs)
    unordered = {frozenset(pair) for pair in pairs}
    if strategy == "no-repeat":
        assert len(unordered) == len(pairs)
    if strategy == "symmetric":
        assert {(j, i) for i, j in pairs} == set(pairs)
    assert [tuple(pair) for pair in select(n, strategy, budget, seed)] == pairs


@pytest.mark.parametrize("strategy", DRAWN)
def test_draws_favour_no_pair_and_no_order(strategy):
    counts = np.zeros((4, 4))
    for seed in range(600):
        for i, j in select(4, strategy, 4, seed):
            counts[i, j] += 1
    drawn = counts[~np.eye(4, dtype=bool)]
    assert drawn.sum() == 2400
    assert drawn.min() > 140  # 200 expected, standard deviation at most 14
    assert drawn.max() < 260


def test_full_is_all_ordered_pairs():
    assert sorted(map(tuple, select(5, "full").tolist())) == list(itertools.permutations(range(5), 2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((5, "clever"), "strategy"),
        ((5, "adaptive"), "select_adaptively"),
        ((1, "full"), "candidates"),
        ((5, "full", 3), "budget"),
        ((5, "random", 0), "budget"),
        ((5, "symmetric", 1), "budget"),
        ((5, "random", 3, -1), "seed"),
    ],
)
def test_invalid_selection_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        select(*arguments)


def answers(scores, noise=0.0, bias=0.0, seed=0):
    rng, n = np.random.default_rng(seed), len(scores)
    won = (scores[:, None] - scores + bias + noise * rng.normal(size=(n, n)) > 0).astype(float)
    return lambda pairs: won[tuple(np.asarray(pairs).T)]


def test_the_next_comparison_gains_most_of_all():
    """Against the variances of the ranks with each ordered pair added, computed one by one."""
    rng, prior = np.random.default_rng(1), 0.7
    one, two = np.array([0, 1, 2, 3, 0, 4]), np.array([1, 2, 3, 4, 4, 2])
    known = Comparisons.of(list("abcde"), one, two, np.append(rng.random(5), 1.0))
    found = fit_bradley_terry(known, prior, position=True, covariance=True)
    before = np.linalg.inv(found.covariance)

    def above(scores):
        """Expected number of candidates below each, every difference being normal by itself."""
        apart = [[np.eye(6)[i] - np.eye(6)[j] for j in range(5)] for i in range(5)]
        spread = np.array([[np.sqrt(step @ found.covariance @ step) if step.any() else 1 for step in r] for r in apart])
        return norm.cdf((scores[:, None] - scores) / spread).sum(axis=1)

    small = 1e-5 * np.eye(5)
    slope = np.column_stack([(above(found.scores + d) - above(found.scores - d)) / 2e-5 for d in small])
    left = {}
    for i, j in set(itertools.permutations(range(5), 2)) - set(zip(one, two, strict=True)):
        q = 1 / (1 + np.exp(-(found.scores[i] - found.scores[j] + found.position)))
        step = np.eye(6)[i] - np.eye(6)[j] + np.eye(6)[5]
        after = np.linalg.inv(before + q * (1 - q) * np.outer(step, step))[:5, :5]
        left[i, j] = np.trace(slope @ after @ slope.T)
    [chosen] = most_informative(known, 1, rng, prior).tolist()
    now = np.trace(slope @ found.covariance[:5, :5] @ slope.T)
    best = min(left, key=left.get)
    assert set(chosen) == set(best)
    assert now - left[tuple(chosen)] >= 0.75 * (now - left[best])


def test_a_batch_does_not_ask_the_same_twice_and_spreads():
    nothing = Comparisons.of(list("abcdefgh"), [], [], [])
    pairs = most_informative(nothing, 4, np.random.default_rng(0))
    assert sorted(pairs.ravel().tolist()) == list(range(8))


@pytest.mark.parametrize("batch", [1, 7])
def test_adaptive_asks_every_ordered_pair_once_and_then_stops(batch):
    asked = []

    def ask(pairs):
        asked.extend(map(tuple, pairs.tolist()))
        return np.where(pairs[:, 0] == 2, np.nan, 0.8)

    found = select_adaptively(5, 99, ask, batch, seed=3)
    assert sorted(asked) == list(itertools.permutations(range(5), 2))
    assert len(found) == 16  # what had no answer is left out, and was not asked again


def test_both_places_are_shared_out_evenly():
    scores = np.random.default_rng(0).normal(size=12)
    found = select_adaptively(12, 66, answers(scores, 0.5), seed=1)
    balance = np.bincount(found.first, minlength=12) - np.bincount(found.second, minlength=12)
    assert np.abs(balance).max() <= 3


def test_with_many_candidates_neighbours_are_compared_and_each_once_in_a_batch():
    """Above 400 candidates, there is no covariance, and only pairs with near-even odds are considered."""
    n, scores = 402, np.linspace(-30, 30, 402)
    asked = select(n, "random", 20 * n, seed=1)
    known = Comparisons.of(list(map(str, range(n))), *asked.T, answers(scores, 0.0)(asked))
    pairs = most_informative(known, n // 4, np.random.default_rng(0))
    assert len(np.unique(pairs)) == pairs.size == 2 * (n // 4)
    assert not {*map(tuple, pairs.tolist())} & {*map(tuple, asked.tolist())}
    assert np.abs(np.diff(pairs)).mean() < 20  # at random, a third of n


@pytest.mark.slow
def test_ten_thousand_candidates_are_selected_in_seconds():
    n, scores = 10_000, np.random.default_rng(0).normal(size=10_000)
    started = time.process_time()
    symmetric = select(n, "symmetric", 10 * n, seed=1)
    ask = lambda pairs: (scores[pairs[:, 0]] > scores[pairs[:, 1]]).astype(float)  # noqa: E731
    adaptive = select_adaptively(n, 2 * n, ask, batch=n, seed=1)
    assert time.process_time() - started < 10
    assert len(symmetric) == 10 * n
    assert len(adaptive) == 2 * n
    keys = adaptive.first * n + adaptive.second
    assert len(np.unique(keys)) == len(keys)
    assert adaptive.times.min() >= 2


@pytest.mark.slow
def test_adaptive_selection_under_bias_shows_the_better_second():
    """Where standing first is worth more than most gaps, the better one is shown second, and the ranking profits."""
    n, scores, noise = 500, np.random.default_rng(2).uniform(1, 5, 500), np.random.default_rng(3)

    def ask(pairs):
        gap = scores[pairs[:, 0]] - scores[pairs[:, 1]]
        return (gap + 2 + noise.normal(size=len(pairs)) > 0).astype(float)

    pairs = select(n, "random", 10 * n, seed=1)
    found = {
        "random": Comparisons.of(list(map(str, range(n))), *pairs.T, ask(pairs)),
        "adaptive": select_adaptively(n, 10 * n, ask, batch=n, seed=1),
    }
    fitted = {name: fit_bradley_terry(each, position=True) for name, each in found.items()}
    late = slice(5 * n, None)
    assert np.mean(scores[found["adaptive"].first[late]] < scores[found["adaptive"].second[late]]) > 0.9
    error = {name: 1 - spearmanr(fit.scores, scores).statistic for name, fit in fitted.items()}
    assert error["adaptive"] < 0.7 * error["random"]


@pytest.mark.thorough
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_adaptive_needs_at_most_four_fifths_of_random(bias):
    """16 candidates, hard decisions with noise, scores over 1-5: R for 90 % and 95 % of the agreement of all pairs."""
    n, runs, grid = 16, 100, np.arange(32, 241, 16)
    curves = {name: np.zeros((runs, len(grid))) for name in ("random", "adaptive")}
    for run in range(runs):
        scores = np.random.default_rng([5, run]).uniform(1, 5, n)
        ask = answers(scores, noise=1.0, bias=bias, seed=1000 + run)
        pairs = select(n, "random", None, run)
        drawn = {
            "random": Comparisons.of(list(map(str, range(n))), *pairs.T, ask(pairs)),
            "adaptive": select_adaptively(n, 240, ask, seed=run),
        }
        for name, found in drawn.items():
            for k, size in enumerate(grid):
                fitted = fit_bradley_terry(found.take(slice(0, size)), position=True).scores
                curves[name][run, k] = spearmanr(fitted, scores).statistic
    mean = {name: np.maximum.accumulate(curve.mean(axis=0)) for name, curve in curves.items()}
    for share in (0.9, 0.95):
        need = {name: np.interp(share * mean["random"][-1], curve, grid) for name, curve in mean.items()}
        assert need["adaptive"] <= 0.8 * need["random"], (share, need)


def test_strategies_are_those_of_the_probe():
    assert set(STRATEGIES) == {"full", *DRAWN, "adaptive"}
