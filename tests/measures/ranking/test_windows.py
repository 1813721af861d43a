"""Sliding windows: which windows, what they bring up, and the effect of the initial place, planted and found."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, JudgeError
from biaslab.measures.ranking.lists import (
    balanced_orders,
    judge_ranker,
    sliding_windows,
    window_effect,
    windows_of,
)


def by_size(numbers):
    return sorted(range(len(numbers)), key=lambda at: -numbers[at])


@given(st.integers(1, 60), st.integers(2, 20), st.data())
def test_windows_cover_all_places_and_end_at_the_top(n, window, data):
    step = data.draw(st.integers(1, window))
    spans = list(windows_of(n, window, step))
    assert spans[0][1] == n
    assert spans[-1][0] == 0
    assert set(range(n)) == {place for start, end in spans for place in range(start, end)}
    assert all(end - start <= window for start, end in spans)


@given(st.lists(st.integers(), min_size=1, max_size=40, unique=True), st.integers(2, 10), st.data())
def test_the_best_of_a_faultless_ranker_arrive_at_the_top(numbers, window, data):
    step = data.draw(st.integers(1, window - 1))
    order = sliding_windows(numbers, by_size, window, step)
    assert sorted(order) == list(range(len(numbers)))
    top = sorted(numbers, reverse=True)[: window - step]
    assert [numbers[at] for at in order[: len(top)]] == top


def test_a_list_that_fits_is_ranked_at_once():
    calls = []

    def ranker(shown):
        calls.append(list(shown))
        return by_size(shown)

    assert sliding_windows([2, 3, 1], ranker, window=5, step=2) == [1, 0, 2]
    assert calls == [[2, 3, 1]]


@pytest.mark.parametrize(
    ("options", "message"), [({"window": 1}, "window"), ({"step": 0}, "step"), ({"window": 3, "step": 4}, "step")]
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        sliding_windows([1, 2, 3], by_size, **options)


@pytest.mark.parametrize("ranked", [[0, 1], [0, 0, 1], [0, 1, 3], 1, None])
def test_a_ranker_that_leaves_out_repeats_or_invents_is_refused(ranked):
    with pytest.raises(InputError, match="each index from 0 to 2 once"):
        sliding_windows([1, 2, 3], lambda shown: ranked, window=3, step=1)


def orders_of(judge, data, attribute="coherence", **windows):
    rows = []
    for context_id, names in data.candidates.groupby("context_id")["candidate_id"]:
        ranker = judge_ranker(judge, data, attribute, context_id)
        for number, order in enumerate(balanced_orders(list(names))):
            final = [order[at] for at in sliding_windows(order, ranker, **windows)]
            rows += [(context_id, number, name, order.index(name) + 1, final.index(name) + 1) for name in order]
    return pd.DataFrame(rows, columns=["context_id", "list", "candidate_id", "place", "rank"])


def test_a_sure_judge_has_no_effect_of_windows_where_all_fit():
    data = construct_population(8, candidates=5)
    orders = orders_of(bl.SimulatedJudge(data, quality=50.0), data, window=5, step=2)
    found = window_effect(orders).set_index("metric")
    assert found.loc["place_correlation", "estimate"] == 0
    assert found.loc["rank_spread", "estimate"] == 0


def test_noiseless_judge_in_windows_has_an_initial_place_effect():
    """Every comparison is right, and yet what starts far down does not all get past its window."""
    data = construct_population(12, candidates=10)
    found = window_effect(orders_of(bl.SimulatedJudge(data, quality=50.0), data, window=4, step=2)).set_index("metric")
    assert found.loc["place_correlation", "ci_low"] > 0
    assert found.loc["place_correlation", "p_value"] < 0.01
    assert found.loc["rank_spread", "estimate"] > 0.5


@pytest.mark.slow
def test_primacy_adds_to_the_window_effect():
    data = construct_population(12, candidates=8)
    effects = [
        window_effect(orders_of(bl.SimulatedJudge(data, quality=1.0, position=size), data, window=4, step=2))
        .set_index("metric")
        .loc["place_correlation", "estimate"]
        for size in (0.0, 3.0)
    ]
    assert effects[1] > effects[0] + 0.05


def test_the_effect_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    rows = [
        (context, number, name, place, rank)
        for context in "abcdefgh"
        for number in range(3)
        for name, place, rank in zip("xyz", np.roll([1, 2, 3], number), rng.permutation(3) + 1, strict=True)
    ]
    orders = pd.DataFrame(rows, columns=["context_id", "list", "candidate_id", "place", "rank"])
    spread = orders.groupby(["context_id", "candidate_id"])["rank"].std(ddof=0).groupby("context_id").mean().mean()
    found = window_effect(orders).set_index("metric")["estimate"]
    assert found["rank_spread"] == pytest.approx(spread)
    assert -1 < found["place_correlation"] < 1


def test_frames_that_say_too_little_are_refused():
    orders = pd.DataFrame({"context_id": ["a"], "list": [0], "candidate_id": ["x"], "place": [1], "rank": [1]})
    with pytest.raises(InputError, match="rank"):
        window_effect(orders.drop(columns="rank"))
    with pytest.raises(InputError, match="several positions"):
        window_effect(orders)


def test_a_reply_that_is_no_ranking_stops_the_list(graded):
    judge = bl.SimulatedJudge(graded, garbage=1.0)
    context, names = next(iter(graded.candidates.groupby("context_id")["candidate_id"]))
    with pytest.raises(JudgeError, match="is off_format"):
        sliding_windows(list(names), judge_ranker(judge, graded, "coherence", context), window=4, step=2)
    best = bl.Protocol.from_template("{candidates}", "list")
    with pytest.raises(InputError, match="asks for a ranking"):
        judge_ranker(judge, graded, "coherence", context, best)
