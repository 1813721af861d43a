"""Whole blocks: joined by numbers, they are what a join by names gives."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from biaslab.errors import MissingDataWarning, TrialsError
from biaslab.ranking.pairs import both_orders

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
    with pytest.raises(TrialsError, match="twice context_id k, candidate_id a, opponent_id b"):
        both_orders(frame_of([row, row]), "test")
