"""Whole blocks: joined by numbers, they are what a join by names gives."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from biaslab.core.errors import MissingDataWarning, TrialsError
from biaslab.measures.ranking.pairs import (
    both_orders,
    comparative_accuracy,
    decisions,
    first_position_rate,
    order_consistency,
    primacy_share,
)

NAMES = st.sampled_from(["a", "b", "c10", "c9", "é", ""])
ROW = st.tuples(
    st.sampled_from(["k", "l", "m"]), NAMES, NAMES, st.integers(0, 1), st.sampled_from([0.0, 0.2, 0.5, 0.9]),
    st.sampled_from(["ok", "ok", "tie", "refused"]),
)  # fmt: skip


def frame_of(rows):
    columns = ["context_id", "candidate_id", "opponent_id", "replicate", "value", "status"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(human_gap=np.arange(len(frame), dtype=float), label_mass=0.5)


@given(st.lists(ROW, max_size=25, unique_by=lambda row: row[:4]).map(lambda rows: [r for r in rows if r[1] != r[2]]))
def test_pairs_in_both_orders_and_no_others(rows):
    trials = frame_of(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingDataWarning)
        blocks = both_orders(trials, "test")
    usable = {row[:4]: (row[4], row[5], i) for i, row in enumerate(rows) if row[5] != "refused"}
    expected = set()
    for (context, one, two, replicate), (p_ij, status_ij, i) in usable.items():
        twin = usable.get((context, two, one, replicate))
        if one < two and twin:
            ties = (status_ij == "tie" or p_ij == 0.5, twin[1] == "tie" or twin[0] == 0.5)
            won = tuple(-1.0 if tie else float(p > 0.5) for tie, p in zip(ties, (p_ij, twin[0]), strict=True))
            expected.add((context, p_ij, twin[0], *won, float(i)))
    columns = ["context_id", "p_ij", "p_ji", "first_ij", "first_ji", "human_gap"]
    assert set(blocks[columns].fillna(-1).itertuples(index=False, name=None)) == expected
    assert len(blocks) == len(expected)
    assert blocks.attrs["n_dropped"] == len(rows) - 2 * len(expected)


def test_a_repeated_judgement_is_named():
    row = ("k", "a", "b", 0, 0.9, "ok")
    with pytest.raises(TrialsError, match="duplicate context_id k, candidate_id a, opponent_id b"):
        both_orders(frame_of([row, row]), "test")


def expected_over_samples(k, p_ij, p_ji, function):
    """The expectation over k samples of both orders, by enumeration."""
    chances = [stats.binom.pmf(np.arange(k + 1), k, p) for p in (p_ij, p_ji)]
    shares = np.arange(k + 1) / k
    return sum(a * b * function(x, y) for a, x in zip(chances[0], shares, strict=True)
               for b, y in zip(chances[1], shares, strict=True))  # fmt: skip


@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize(("p_ij", "p_ji"), [(0.9, 0.3), (0.5, 0.5), (0.7, 0.8)])
def test_the_number_of_samples_moves_no_sum(k, p_ij, p_ji):
    """Numerators and denominators are, on average over samples, those of the probabilities themselves."""

    def sums(ratio):
        return np.array([np.sum(ratio.numerator), np.sum(ratio.denominator)], float)

    metrics = [
        lambda x, y: sums(first_position_rate([0], [[x, y]])),
        lambda x, y: sums(order_consistency([0], [x], [y])),
        lambda x, y: sums(primacy_share([0], [x], [y])),
        lambda x, y: sums(comparative_accuracy([0, 0], [x, y], [1.0, -1.0])),
    ]
    for metric in metrics:
        np.testing.assert_allclose(expected_over_samples(k, p_ij, p_ji, metric), metric(p_ij, p_ji))


def test_half_the_probability_is_a_tie_but_half_the_samples_not():
    rows = [("k", "a", "b", 0, 0.5, "ok"), ("k", "b", "a", 0, 0.5, "ok"), ("l", "a", "b", 0, 0.5, "tie")]
    trials = frame_of(rows).assign(label_mass=1.0)
    assert np.isnan(decisions(trials)).all()
    sampled = decisions(trials.assign(samples=2.0))
    assert sampled[:2].tolist() == [0.5, 0.5]
    assert np.isnan(sampled[2])
