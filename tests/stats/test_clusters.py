"""Contexts that share requests are one cluster: they are found, said, and resampled and tested together."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError, SharedRequestsWarning
from biaslab.stats import (
    Ratio,
    Resampling,
    cluster_statistic,
    estimate_alpha,
    estimate_correlation,
    linear_model,
    shared_requests,
    warn_shared,
)
from biaslab.stats.jackknife import over_clusters

NUMBERS = ("estimate", "se", "ci_low", "ci_high", "p_value", "n_contexts")


def by_hand(rows):
    """Merge contexts that share a key until nothing changes."""
    groups = [{context} for context in dict.fromkeys(context for context, _ in rows)]
    for key in {key for _, key in rows}:
        sharing = {context for context, other in rows if other == key}
        touched = [group for group in groups if group & sharing]
        groups = [group for group in groups if not group & sharing] + [set().union(*touched)]
    return {frozenset(group) for group in groups if len(group) > 1}


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 12)), min_size=1, max_size=25))
def test_clusters_are_the_connected_components(rows):
    trials = pd.DataFrame(rows, columns=["context_id", "key"]).astype({"key": str})
    found = shared_requests(trials)
    groups = pd.Series(found).index.groupby(pd.Series(found)) if found else {}
    assert {frozenset(group) for group in groups.values()} == by_hand(rows)
    order = list(trials["context_id"])
    assert all(order.index(cluster) == min(map(order.index, groups[cluster])) for cluster in groups)


def test_trials_without_key_share_no_requests():
    trials = pd.DataFrame({"context_id": [*"aabb"], "key": ["1", "2", "2", "1"]})
    assert shared_requests(trials)
    assert not shared_requests(trials.drop(columns="key"))
    assert not shared_requests(trials.assign(probe="recorded"))
    assert not shared_requests(trials.assign(key=None))
    assert not shared_requests(trials.assign(key=""))
    assert not shared_requests(trials.assign(context_id="a"))  # asked twice in one context
    assert not shared_requests(trials.iloc[:0])


def test_the_warning_counts_contexts_and_clusters():
    with pytest.warns(SharedRequestsWarning, match=r"position: 3 contexts .* as 1 cluster "):
        warn_shared("position", {"a": "a", "b": "a", "c": "a"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_shared("position", {})


def twice(contexts):
    """Names of contexts and of their copies, and the clusters that they are."""
    copies = [f"{name} again" for name in contexts]
    return [*contexts, *copies], dict(zip([*contexts, *copies], [*contexts] * 2, strict=True))


def same(found, wanted, tolerance=1e-9):
    for name in NUMBERS:
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=tolerance, abs=1e-9, nan_ok=True), name


@pytest.mark.parametrize("weights", ["items", "contexts"])
@pytest.mark.parametrize("inference", ["resampling", "t"])
def test_a_ratio_of_contexts_twice_is_that_of_contexts_once(inference, weights):
    rng = np.random.default_rng(3)
    context = [f"c{k}" for k in rng.integers(0, 12, 60)]
    up, down = rng.random(60), rng.integers(1, 4, 60).astype(float)
    other = rng.random(60)
    names, clusters = twice(context)
    options = {"null": 0.3, "inference": inference}
    once, again = Resampling(n=300, weights=weights), Resampling(n=300, weights=weights, clusters=clusters)
    one, two = Ratio(context, up, down, **options), Ratio(names, [*up, *up], [*down, *down], **options)
    same(two.estimate(again), one.estimate(once))
    against = Ratio(context, other, down, **options), Ratio(names, [*other, *other], [*down, *down], **options)
    same(two.difference(against[1], again), one.difference(against[0], once))


@pytest.mark.parametrize("level", ["context", "dataset"])
def test_correlations_slopes_and_alpha_follow(level):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"context_id": np.repeat([f"c{k}" for k in range(10)], 4), "x": rng.normal(size=40)})
    frame = frame.assign(y=frame["x"] + rng.normal(size=40))
    names, clusters = twice(list(frame["context_id"]))
    double = pd.concat([frame, frame], ignore_index=True).assign(context_id=names)
    once, again = Resampling(n=200), Resampling(n=200, clusters=clusters)
    same(estimate_correlation(double, "x", "y", again, level), estimate_correlation(frame, "x", "y", once, level))
    slope = linear_model(double, "y ~ x", within=level == "context", clusters=clusters)["x"]
    same(slope, linear_model(frame, "y ~ x", within=level == "context")["x"])
    ratings = frame.melt("context_id", ["x", "y"], "annotator", "score", ignore_index=False).reset_index()
    copies = pd.concat([ratings, ratings.assign(context_id=ratings["context_id"] + " again")], ignore_index=True)
    units = ["index"]
    found, wanted = estimate_alpha(copies, again, units=units), estimate_alpha(ratings, once, units=units)
    same(found, wanted, 0.05)  # alpha counts the ratings


def test_jackknife_deletes_whole_clusters():
    values = np.array([0.2, 0.5, 0.4, 0.1, 0.6, 0.3, 0.7])
    clusters = Resampling(clusters={"b": "a", "g": "f"})
    statistic, n = over_clusters(lambda w: w @ values / w.sum(axis=1), [*"abcdefg"], clusters)
    found = cluster_statistic(statistic, n, Resampling())
    groups = [[0, 1], [2], [3], [4], [5, 6]]
    left = np.array([np.delete(values, group).mean() for group in groups])
    pseudo = 5 * values.mean() - 4 * left
    assert (found.estimate, found.se) == pytest.approx((values.mean(), pseudo.std(ddof=1) / np.sqrt(5)))


def test_weights_are_checked():
    with pytest.raises(InputError, match="items or contexts"):
        Resampling(weights="size")
