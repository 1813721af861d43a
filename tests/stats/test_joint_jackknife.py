"""Values without each context that estimates carry, held against estimates computed anew without each."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import biaslab as bl
from biaslab.stats.blocks import joined, shared_requests
from biaslab.stats.correlation import estimate_correlation
from biaslab.stats.joint_jackknife import (
    carried,
    estimated_rows,
    rows_by_cell,
    suppressed_data_warnings,
    without_each,
)
from biaslab.stats.ratio import Ratio
from biaslab.stats.regression import linear_model, logistic_model
from biaslab.stats.resample import Resampling

BY_CONTEXT = Resampling(weights="contexts")
PAIRS = {"asks": ["pairs"]}


def judged(probe, contexts=6, **planted):
    data = bl.load_dataset("graded", limit=contexts)
    judge = bl.SimulatedJudge(data, **{"noise": 1.0, "context_noise": 0.5} | planted)
    return bl.collect(probe, judge, data, progress=False)


def with_ratings(trials):
    """Return trials with the ratings of three annotators of each item in place of its human score."""
    items = trials.drop_duplicates(["context_id", "candidate_id"]).set_index(["context_id", "candidate_id"])
    noise = np.random.default_rng(0).normal(size=(len(items), 3))
    given = items["human"].to_numpy(float)[:, None] + noise
    columns = {"human": given.mean(axis=1), "ratings": [" ".join(map(str, row)) for row in given.tolist()]}
    rated = pd.DataFrame(columns | {"annotators": "a b c"}, items.index)
    return trials.drop(columns=[*rated]).join(rated, on=["context_id", "candidate_id"])


def with_missing(trials):
    lost = np.random.default_rng(0).random(len(trials)) < 0.1
    return trials.assign(value=trials["value"].mask(lost), status=trials["status"].mask(lost, "refused"))


def sharing_requests(trials):
    """Return trials in which the first two contexts share their requests."""
    first, second = trials["context_id"].unique()[:2]
    keys = trials["key"].to_numpy(object)
    shared = (trials["context_id"] == first).to_numpy(), (trials["context_id"] == second).to_numpy()
    size = min(shared[0].sum(), shared[1].sum())
    keys[np.flatnonzero(shared[1])[:size]] = keys[np.flatnonzero(shared[0])[:size]]
    return trials.assign(key=keys)


def both_ways(probe, trials, metrics):
    """Return the rows of estimates, whether each carries values, and these, carried and computed anew."""
    with suppressed_data_warnings():
        [rows], conditions = estimated_rows(probe, [trials], metrics)
    columns = ["metric", "dataset", "judge", *conditions]
    cells = rows_by_cell(rows, columns)
    anew = {key: {**row, "leave_one_out": None} for key, row in cells.items()}
    quick, slow = (without_each(probe, [trials], [each], columns)[:, :, 0] for each in (cells, anew))
    units = pd.unique(joined(probe.resampling, shared_requests(trials)).cluster_of(trials["context_id"]))
    carry = [carried(row["estimate"], row["leave_one_out"], pd.Index(units)) is not None for row in cells.values()]
    return list(cells.values()), carry, quick, slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "change"),
    [
        ("Position", {}, None),
        ("Position", {"answer": "text"}, with_missing),
        ("Position", {"resampling": BY_CONTEXT}, with_missing),
        ("Position", {}, sharing_requests),
        ("Verbosity", {}, None),
        ("Verbosity", {}, with_missing),
        ("Verbosity", {}, with_ratings),
        ("Verbosity", {}, sharing_requests),
        ("Verbosity", {"reliability": 0.8}, None),
        ("Verbosity", {"level": "dataset"}, with_ratings),
        ("Verbosity", PAIRS, None),
        ("Verbosity", PAIRS | {"answer": "text"}, None),
        ("Verbosity", PAIRS | {"answer": "text", "reliability": 0.8}, sharing_requests),
        ("Familiarity", {}, with_ratings),
        ("SelfPreference", {"answer": "text"}, None),
        ("Source", {}, None),
        ("Comparative", {}, None),
        ("Comparative", {"debiasing": "uniform-prior"}, None),
        ("ListPosition", {}, None),
        ("Thinking", {}, None),
        ("Edit", {"answer": "text"}, None),
        ("Template", {}, None),
    ],
)
def test_carried_values_equal_those_computed_anew(name, parameters, change):
    """Of all primary metrics."""
    probe = getattr(bl.probes, name)(attributes=["coherence"], **parameters)
    trials = judged(probe) if change is None else change(judged(probe))
    rows, carry, quick, slow = both_ways(probe, trials, list(probe.primary))
    known = [math.isfinite(row["estimate"]) for row in rows]
    assert any(known)
    assert quick[known] == pytest.approx(slow[known], abs=1e-6, nan_ok=True)
    assert all(carry[at] == (parameters.get("debiasing") is None) for at in np.flatnonzero(known))


@st.composite
def frames(draw):
    """Return rows of contexts in clusters, with a rate, two variables, a score and a verdict."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    names = np.array([f"c{number}" for number in range(draw(st.integers(8, 20)))])
    context = rng.choice(names, 5 * len(names))
    x, z = rng.normal(size=(2, len(context)))
    columns = {"score": x - z + rng.normal(size=len(x)), "won": (x + 2 * rng.logistic(size=len(x)) > 0) * 1.0}
    clusters = dict(zip(names[1:4], names[[0, 0, 3]], strict=True))
    return pd.DataFrame({"context_id": context, "x": x, "z": z, **columns}), draw(st.sampled_from([None, clusters]))


def ratio(frame, resampling):
    return Ratio(frame["context_id"], frame["score"], frame["won"]).estimate(resampling)


def slope(frame, resampling):
    return linear_model(frame, "score ~ x + z", clusters=resampling.clusters)["x"]


def slope_within(frame, resampling):
    return linear_model(frame, "score ~ x + z", within=True, clusters=resampling.clusters)["x"]


def log_odds(frame, resampling):
    return logistic_model(frame, "won", ["x", "z"], resampling)["x"]


def rank_correlation(frame, resampling):
    return estimate_correlation(frame, "score", "x", resampling, "dataset")


def mean_correlation(frame, resampling):
    return estimate_correlation(frame, "score", "x", resampling)


@pytest.mark.parametrize("estimate", [ratio, slope, slope_within, log_odds, rank_correlation, mean_correlation])
@settings(max_examples=5, deadline=None)
@given(drawn=frames())
def test_estimate_carries_its_values_without_each_context(estimate, drawn):
    frame, clusters = drawn
    resampling = Resampling(100, clusters=clusters, leave_one_out=True)
    whole, unit = estimate(frame, resampling), pd.Series(resampling.cluster_of(frame["context_id"]))
    values = carried(whole.estimate, whole.leave_one_out, pd.Index(unit.unique()))
    anew = [estimate(frame[(unit != name).to_numpy()], resampling).estimate for name in unit.unique()]
    assert values == pytest.approx([whole.estimate, *anew], abs=1e-7, nan_ok=True)


def test_values_of_a_changed_estimate_are_not_taken():
    left_out = np.array(["a", "b"], object), np.array([0.5, 0.4, 0.6])
    assert carried(0.5, left_out, pd.Index(["a", "b"])).tolist() == [0.5, 0.4, 0.6]
    assert carried(0.25, left_out, pd.Index(["a", "b"])) is None
    assert carried(0.5, left_out, pd.Index(["a", "c"])) is None


def test_log_odds_without_a_context_may_be_infinite():
    """The only context in which the first loses decides that there are finite log odds."""
    frame = pd.DataFrame({"context_id": [*"aabbcc"], "x": 1.0, "won": [1.0, 0, 1, 1, 1, 1]})
    names, values = logistic_model(frame, "won", ["x"], Resampling(leave_one_out=True))["x"].leave_one_out
    assert names.tolist() == ["a", "b", "c"]
    assert np.isnan(values).tolist() == [False, True, False, False]
