"""Comparisons: what is read from trials, and what becomes of it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking import Comparisons, comparisons_of
from biaslab.measures.ranking.comparisons import read_trials

COLUMNS = ["context_id", "candidate_id", "opponent_id", "value", "status"]
NAN = float("nan")


def trials(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def test_refusals_are_no_comparisons_but_their_candidates_stay():
    rows = ("d", "a", "b", 0.9, "ok"), ("d", "c", "a", NAN, "refused"), ("e", "a", "b", 0.2, "ok")
    found = comparisons_of(trials(*rows))
    assert found.n_contexts == 2
    names = list(zip(found.context_id, found.candidate_id, strict=True))
    assert dict(zip(names, zip(found.times.tolist(), found.wins.tolist(), strict=True), strict=True)) == {
        ("d", "a"): (1, 1), ("d", "b"): (1, 0), ("d", "c"): (0, 0), ("e", "a"): (1, 0), ("e", "b"): (1, 1),
    }  # fmt: skip


def test_tie_counts_one_half_despite_label_probabilities():
    found = comparisons_of(trials(("d", "a", "b", 0.7, "tie"), ("d", "b", "a", 0.7, "ok")))
    assert found.p.tolist() == [0.5, 0.7]
    assert found.won.tolist() == [0.5, 1.0]


def test_samples_of_one_request_are_averaged():
    """Eq. 5: the share of samples that choose the first."""
    found = comparisons_of(
        trials(*[("d", "a", "b", v, "ok") for v in (1, 1, 0, 1)], ("d", "a", "b", NAN, "unparsable"))
    )
    assert found.p.tolist() == [0.75]


def test_twins_are_the_other_order_of_the_same_pair():
    found = Comparisons.of(["a", "b", "c"], [0, 1, 1, 2], [1, 0, 2, 0], [0.1, 0.2, 0.3, 0.4])
    assert found.twins.tolist() == [1, 0, -1, -1]
    assert found.paired().p.tolist() == [0.1, 0.2]


@given(st.integers(1, 5), st.integers(2, 5), st.integers(0, 40), st.integers(0, 999))
def test_splitting_and_taking_contexts_loses_nothing(contexts, candidates, size, seed):
    rng = np.random.default_rng(seed)
    home = rng.integers(contexts, size=size)
    one = rng.integers(candidates, size=size)
    two = (one + rng.integers(1, candidates, size=size)) % candidates
    whole = Comparisons(
        np.repeat(np.arange(contexts).astype(str).astype(object), candidates),
        np.tile(np.arange(candidates).astype(str).astype(object), contexts),
        home * candidates + one,
        home * candidates + two,
        rng.random(size),
    )
    parts = list(whole.split())
    assert sum(map(len, parts)) == size
    assert np.concatenate([p.times for p in parts]).tolist() == whole.times.tolist()
    np.testing.assert_allclose(np.concatenate([p.wins for p in parts]), whole.wins)
    for k, part in enumerate(parts):
        only = whole.take(home == k)
        assert only.p.tolist() == part.p.tolist()
        assert (only.first - k * candidates).tolist() == part.first.tolist()
        assert set(part.context_id) == {str(k)}


def test_values_of_candidates_follow_them(graded):
    probe = bl.probes.Comparative(["coherence"])
    frame = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False).sample(frac=1, random_state=1)
    read = read_trials(frame)
    human = read.of_candidates(frame["human"], frame["opponent_human"])
    names = zip(read.comparisons.context_id, read.comparisons.candidate_id, strict=True)
    means = graded.human_means["coherence"]
    assert human.tolist() == [means[name] for name in names]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["a", "b"], [0], [2], [0.5]), "indices"),
        ((["a", "b"], [0], [1], [1.5]), "probabilities"),
        ((["a", "b"], [0, 1], [1], [0.5]), "equal length"),
    ],
)
def test_bad_comparisons_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Comparisons.of(*arguments)


def test_trials_that_are_no_comparisons_are_refused():
    with pytest.raises(TrialsError, match="without opponent_id"):
        comparisons_of(trials(("d", "a", None, 3.0, "ok")))
    with pytest.raises(TrialsError, match="itself"):
        comparisons_of(trials(("d", "a", "a", 0.5, "ok")))
    with pytest.raises(TrialsError, match="status"):
        comparisons_of(trials(("d", "a", "b", 0.5, "ok")).drop(columns="status"))


def test_no_trials_are_no_comparisons():
    assert len(comparisons_of(trials())) == 0
