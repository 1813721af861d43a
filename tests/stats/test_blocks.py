"""An item enters a contrast whole or not at all, and what does not enter is counted."""

import warnings

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.stats.blocks import number_items, side_by_side, whole_blocks

LEVELS = ("a", "b", "c")
statuses = st.sampled_from(["ok", "ok", "ok", "refused", "unparsable"])


def frame(outcomes):
    """One trial an outcome: item, level and replicate follow from its place."""
    rows = []
    for at, (status, score) in enumerate(outcomes):
        item, rest = divmod(at, len(LEVELS) * 2)
        where = {"context_id": f"c{item // 2}", "candidate_id": f"x{item}", "replicate": rest % 2}
        value = score if status == "ok" else float("nan")
        rows.append({**where, "order": LEVELS[rest // 2], "status": status, "value": value, "human": float(item)})
    return pd.DataFrame(rows)


@pytest.mark.slow
@given(st.lists(st.tuples(statuses, st.floats(0, 10)), min_size=24, max_size=24), st.randoms())
def test_blocks_are_whole(outcomes, random):
    trials = frame(outcomes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        blocks = whole_blocks(trials, "order", LEVELS, "shift")
    for candidate, rows in trials.groupby("candidate_id"):
        good = rows[rows["status"] == "ok"]
        full = set(good["order"]) == set(LEVELS)
        found = blocks[blocks["candidate_id"] == candidate]
        assert len(found) == full
        if full:
            assert found["human"].item() == rows["human"].iloc[0]
            for level in LEVELS:
                assert found[level].item() == pytest.approx(good.loc[good["order"] == level, "value"].mean())
    assert blocks.attrs["n_trials"] + blocks.attrs["n_dropped"] == len(trials)
    assert bool(caught) == (blocks.attrs["n_dropped"] > 0.05 * len(trials))
    shuffled = trials.sample(frac=1, random_state=random.randrange(1 << 30))
    with warnings.catch_warnings(action="ignore"):
        again = whole_blocks(shuffled, "order", LEVELS, "shift")
    key = ["context_id", "candidate_id"]
    pd.testing.assert_frame_equal(again.sort_values(key, ignore_index=True), blocks.sort_values(key, ignore_index=True))


def test_missing_trials_raise_a_warning_with_their_count():
    trials = frame([("ok", 1.0)] * 23 + [("refused", 1.0)] + [("refused", 0.0)] * 2 + [("ok", 1.0)] * 4)
    with pytest.warns(MissingDataWarning, match="shift: 7 of 30"):
        blocks = whole_blocks(trials, "order", LEVELS, "shift")
    assert len(blocks) == 4
    assert blocks.attrs == {"n_trials": 23, "n_dropped": 7}


def test_conditions_of_different_items_raise_no_warning():
    trials = frame([("ok", 1.0)] * 4)
    apart = trials.assign(context_id=[f"c{n}" for n in range(4)], order=[LEVELS[n % 2] for n in range(4)])
    with warnings.catch_warnings(action="error"):
        blocks = whole_blocks(apart, "order", LEVELS[:2], "shift")
    assert blocks.attrs == {"n_trials": 0, "n_dropped": 4}


def test_condition_without_judgements_is_refused():
    with pytest.raises(InputError, match="order d"):
        whole_blocks(frame([("ok", 1.0)] * 6), "order", (*LEVELS, "d"), "shift")


def in_order(table):
    return table.sort_index(axis=0).sort_index(axis=1)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2), st.floats(-9, 9)), min_size=1))
def test_side_by_side_is_the_pivot_table_of_means(rows):
    trials = pd.DataFrame(rows, columns=["context_id", "candidate_id", "replicate", "value"])
    by = ["context_id", "candidate_id"]
    expected = trials.pivot_table(index=by, columns="replicate", values="value", sort=False)
    found = side_by_side(trials, "replicate")
    assert list(found.index) == list(trials.drop_duplicates(by)[by].itertuples(index=False, name=None))
    pd.testing.assert_frame_equal(in_order(found), in_order(expected), check_names=False)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1.5, float("nan")]))))
def test_items_are_numbered_as_they_appear_missing_names_too(rows):
    frame = pd.DataFrame(rows, columns=["name", "at"])
    item, first = number_items(frame, ["name", "at"])
    names = [(name, str(at)) for name, at in rows]
    seen = list(dict.fromkeys(names))
    assert item.tolist() == [seen.index(name) for name in names]
    assert first.tolist() == [names.index(name) for name in seen]
