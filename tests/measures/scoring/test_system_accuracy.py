"""Accuracy over pairs of systems: against a count by hand, and what may not change it."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.core.errors import TrialsError
from biaslab.measures.scoring import system_accuracy
from biaslab.measures.scoring.scorer import scored

QUICK = bl.Resampling(n=200)


@pytest.fixture(scope="module")
def data():
    whole = bl.load_dataset("graded", limit=12)
    rng = np.random.default_rng(0)
    candidates = whole.candidates.assign(system=[f"S{i % 6}" for i in range(len(whole.candidates))])
    human = whole.human.assign(score=rng.integers(1, 6, len(whole.human)).astype(float))
    return replace(whole, candidates=candidates, human=human)


def frame(data, seed=1):
    values = np.random.default_rng(seed).normal(size=len(data.candidates)).round(1)
    return scored(data, "noise", "nobody", values, ["fluency"])


def by_hand(scores, data):
    means = data.human_means["fluency"].to_numpy()
    table = data.candidates.assign(score=scores["score"].to_numpy(), human=means).dropna(subset=["score"])
    means = table.groupby("system")[["score", "human"]].mean().round(12)
    pairs = [np.sign(means.loc[a] - means.loc[b]) for a, b in combinations(means.index, 2)]
    return np.mean([pair["score"] == pair["human"] for pair in pairs])


@pytest.mark.parametrize("seed", range(5))
def test_the_count_by_hand(data, seed):
    scores = frame(data, seed)
    [found] = system_accuracy(scores, data, QUICK).to_dict("records")
    assert found["estimate"] == pytest.approx(by_hand(scores, data))
    assert found["metric"] == "system_accuracy"
    assert 0 <= found["ci_low"] <= found["estimate"] <= found["ci_high"] <= 1
    assert np.isnan(found["p_value"])
    assert found["n_contexts"] == 12


def test_humans_have_accuracy_1_and_their_opposite_only_ties(data):
    human = data.human_means["fluency"].to_numpy()
    means = pd.Series(human).groupby(data.candidates["system"].to_numpy()).mean().round(12)
    ties = np.mean([a == b for a, b in combinations(means, 2)])  # which their opposite ties, too
    for values, expected in ((human, 1.0), (7.3 * human + 1, 1.0), (-human, ties)):
        found = system_accuracy(scored(data, "x", "y", values, ["fluency"]), data, QUICK)
        assert found["estimate"].item() == pytest.approx(expected)


def test_a_tie_is_right_where_humans_tie_only(data):
    tied = replace(data, human=data.human.assign(score=3.0))
    assert system_accuracy(frame(data).assign(score=1.0), tied, QUICK)["estimate"].item() == 1
    assert system_accuracy(frame(data), tied, QUICK)["estimate"].item() < 0.2
    assert system_accuracy(frame(data).assign(score=1.0), data, QUICK)["estimate"].item() < 0.2


def test_order_of_contexts_and_missing_scores(data):
    scores = frame(data).assign(score=lambda f: f["score"].where(f.index % 7 > 0))
    one = system_accuracy(scores, data, QUICK)
    assert one["estimate"].item() == pytest.approx(by_hand(scores, data))
    assert one["n_dropped"].item() == scores["score"].isna().sum()
    pd.testing.assert_frame_equal(one, system_accuracy(scores.iloc[::-1], data, QUICK))


def test_several_scorers_have_a_row_each(data):
    both = pd.concat([frame(data), frame(data, 2).assign(scorer="other")])
    assert system_accuracy(both, data, QUICK)["scorer"].tolist() == ["noise", "other"]


def test_missing_systems_and_columns_are_named(data):
    with pytest.raises(TrialsError, match="a system for every candidate"):
        system_accuracy(frame(data), replace(data, candidates=data.candidates.assign(system="")), QUICK)
    with pytest.raises(TrialsError, match="without"):
        system_accuracy(frame(data).drop(columns="scorer"), data, QUICK)
    alone = replace(data, candidates=data.candidates.assign(system="S"))
    assert "fewer than two systems" in system_accuracy(frame(data), alone, QUICK)["note"].item()
