"""The best of several: by one evaluator, by several with weights, and weights that are tuned."""

from itertools import pairwise, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import biaslab as bl
from biaslab.core import Reply, Score
from biaslab.core.errors import InputError, TrialsError
from biaslab.distill.annotation import Reward
from biaslab.distill.reranking import evaluate, rerank, tune_weights


class Lengths:
    """An evaluator that likes long texts, or short ones."""

    kinds = frozenset({Score})

    def __init__(self, sign=1.0):
        self.id, self.sign, self.asked = f"lengths {sign}", sign, []

    def check(self, requests):
        list(requests)

    def ask(self, requests):
        for request in requests:
            self.asked.append(request)
            shared = len(set(request.text.split()) & set(request.reference.split()))
            bonus = {"": 0.0, "coherence": 0.0, "fluency": -2 * self.sign * len(request.text)}[request.attribute]
            yield request, Reply(score=self.sign * len(request.text) + bonus + 1000 * shared)


def frame(data, values, name="x", attribute=""):
    items = data.candidates[["context_id", "candidate_id"]]
    whose = {"scorer": name, "judge": name, "dataset": data.name, "attribute": attribute}
    return items.assign(**whose, score=np.asarray(values, float))


def test_rerank_keeps_the_best_of_each_context_with_scores(graded):
    judge = Lengths()
    best = rerank(graded, judge, progress=False)
    lengths = graded.candidates.assign(n=graded.candidates["text"].str.len())
    expected = lengths.loc[lengths.groupby("context_id", sort=False)["n"].idxmax()]
    assert (
        best.candidates[["context_id", "candidate_id"]].to_numpy().tolist()
        == expected[["context_id", "candidate_id"]].to_numpy().tolist()
    )
    assert {request.reference for request in judge.asked} == {""}  # reference-free
    assert len(best.human) == len(expected) * len(graded.attributes)
    pd.testing.assert_frame_equal(best.human_means, graded.human_means.loc[best.human_means.index])
    assert "greatest" in best.provenance


def test_a_store_is_asked_before_the_evaluator(graded, tmp_path):
    store = tmp_path / "store.sqlite"
    one = rerank(graded, Lengths(), store=store, progress=False)
    silent = Lengths()
    other = rerank(graded, silent, store=store, progress=False)
    assert silent.asked == []
    pd.testing.assert_frame_equal(one.candidates, other.candidates)


@pytest.mark.slow
def test_weights_decide_between_evaluators(graded):
    judges = {"long": Lengths(), "short": Lengths(-1.0)}
    by = lambda *w: rerank(graded, judges, dict(zip(judges, w, strict=True)), progress=False).candidates["text"]  # noqa: E731
    assert by(2, 1).tolist() == rerank(graded, Lengths(), progress=False).candidates["text"].tolist()
    assert by(1, 2).tolist() == rerank(graded, Lengths(-1.0), progress=False).candidates["text"].tolist()
    first = graded.candidates.drop_duplicates("context_id")
    assert by(1, 1).tolist() == first["text"].tolist()  # all equal: the first


def test_attributes_are_scores_of_their_own(graded):
    table = evaluate(graded, Lengths(), attributes=["coherence", "fluency"], progress=False)
    assert list(table.columns) == ["coherence", "fluency"]
    assert (table["fluency"] == -table["coherence"]).all()
    named = evaluate(graded, {"one": Lengths()}, attributes=["coherence", "fluency"], progress=False)
    assert list(named.columns) == ["one: coherence", "one: fluency"]


def test_takes_the_scores_of_any_scorer(graded):
    judge = bl.SimulatedJudge(graded, quality=2.0)
    found = bl.scoring.scores(bl.collect(bl.scoring.GEval(["coherence"]), judge, graded, progress=False))
    best = rerank(graded, found)
    means = graded.human_means["coherence"]
    assert means.loc[best.human_means.index].mean() > means.groupby(level=0).mean().mean()


@pytest.mark.slow
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 3), st.floats(0.1, 10))
def test_only_the_direction_of_weights_matters(graded, seed, n, factor):
    data = graded.head(3)
    rng = np.random.default_rng(seed)
    judges = {f"j{i}": frame(data, rng.integers(0, 5, len(data.candidates))) for i in range(n)}
    weights = dict(zip(judges, rng.integers(1, 4, n).tolist(), strict=True))
    one = rerank(data, judges, weights)
    other = rerank(data, judges, {k: v * factor for k, v in weights.items()})
    table = sum(weights[k] * v["score"].to_numpy() for k, v in judges.items())
    index = pd.MultiIndex.from_frame(data.candidates[["context_id", "candidate_id"]])
    totals = pd.Series(table, index=index)
    for found in (one, other):
        kept = totals.loc[pd.MultiIndex.from_frame(found.candidates[["context_id", "candidate_id"]])]
        assert kept.groupby(level=0).max().to_numpy() == pytest.approx(totals.groupby(level=0).max().to_numpy())


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_tuned_weights_are_as_good_as_the_best_of_a_fine_grid(graded, size, seed):
    rng = np.random.default_rng(seed)
    n = len(graded.candidates)
    judges = {f"j{i}": frame(graded, rng.normal(size=n)) for i in range(size)}
    aims = frame(graded, 0.3 * judges["j0"]["score"] + judges["j1"]["score"] + rng.normal(size=n), "aim")
    weights = tune_weights(graded, judges, aims, seed=seed)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    means = lambda w: rerank(graded, judges, w).candidates.merge(aims)["score"].mean()  # noqa: E731
    assert means(weights) == pytest.approx(weights.attrs["objective"])
    assert weights.attrs["equal"] == pytest.approx(means(dict.fromkeys(judges, 1.0)))
    table = np.stack([judge["score"].to_numpy() for judge in judges.values()], axis=1)
    blocks = graded.candidates.groupby("context_id", sort=False).indices.values()
    aimed = aims["score"].to_numpy()
    steps = np.linspace(0, 1, 60 if size == 2 else 25)
    grid = np.array([w for w in product(steps, repeat=size) if any(w)])
    best = np.mean([aimed[rows[np.argmax(table[rows] @ grid.T, axis=0)]] for rows in blocks], axis=0).max()
    assert weights.attrs["objective"] >= best - 1e-12


def test_equal_weights_stay_where_nothing_is_better(graded):
    same = frame(graded, np.arange(len(graded.candidates)))
    weights = tune_weights(graded, {"a": same, "b": same}, same)
    assert weights.to_dict() == {"a": 0.5, "b": 0.5}
    again = tune_weights(graded, {"a": same, "b": same}, same)
    pd.testing.assert_series_equal(weights, again)


def test_the_objective_may_be_an_evaluator_that_sees_references(graded):
    aim = Lengths()
    weights = tune_weights(graded, {"long": Lengths(), "short": Lengths(-1.0)}, aim, progress=False)
    assert all(request.reference for request in aim.asked)
    assert weights.attrs["objective"] >= weights.attrs["equal"]


def test_missing_scores_and_invalid_weights_are_refused(graded):
    one = frame(graded, range(len(graded.candidates)))
    with pytest.raises(InputError, match="no score of"):
        rerank(graded, one.iloc[1:])
    with pytest.raises(InputError, match="a finite number for each of a, b"):
        rerank(graded, {"a": one, "b": one}, {"a": 1.0})
    with pytest.raises(InputError, match="a finite number"):
        rerank(graded, {"a": one}, {"a": np.nan})
    with pytest.raises(InputError, match="has 2 scorers"):
        rerank(graded, pd.concat([one, one.assign(scorer="y")]))
    with pytest.raises(InputError, match="at least one judge"):
        rerank(graded, {})
    with pytest.raises(InputError, match="give only one score"):
        tune_weights(graded, one, one)
    with pytest.raises(InputError, match="several scores"):
        tune_weights(graded, {"a": one, "b": one}, pd.concat([one, one.assign(attribute="y")]))
    with pytest.raises(TrialsError, match="lacks the column score"):
        rerank(graded, one.drop(columns="score"))
    with pytest.raises(InputError, match="list"):
        Reward("coherence")


def test_language_model_is_refused_as_evaluator(graded):
    with pytest.raises(bl.BiaslabError, match="Score"):
        rerank(graded, bl.SimulatedJudge(graded), progress=False)


def test_ties_go_to_the_first(graded):
    best = rerank(graded, frame(graded, np.zeros(len(graded.candidates))))
    assert best.candidates["candidate_id"].tolist() == ["c1"] * graded.n_contexts
    order = best.candidates["context_id"].tolist()
    assert all(a < b for a, b in pairwise([graded.candidates["context_id"].tolist().index(c) for c in order]))
