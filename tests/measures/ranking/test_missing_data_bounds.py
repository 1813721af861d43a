"""Bounds of pair metrics are the least and the greatest over all completions of what is missing."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st

from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import missing_data_bounds, note_missing_pairs
from biaslab.probes import find_probe
from biaslab.stats.resample import Resampling

COLUMNS = ["context_id", "candidate_id", "opponent_id", "human_gap", "value"]
pytestmark = pytest.mark.filterwarnings("ignore::biaslab.core.errors.MissingDataWarning")


def trials_of(rows):
    trials = pd.DataFrame(rows, columns=COLUMNS).assign(replicate=0, label_mass=np.nan)
    return trials.assign(status=np.where(trials["value"].isna(), "refused", "ok"))


def value(ratio):
    return np.sum(ratio.numerator) / np.sum(ratio.denominator)


def metrics(trials):
    """Compute each metric of trials of which nothing is missing, from the definition."""
    blocks = pairs.both_orders(trials, "")
    both = blocks[["first_ij", "first_ji"]].to_numpy(float)
    context, won = blocks["context_id"].repeat(2), both.ravel()
    gap = np.outer(blocks["human_gap"], (1, -1)).ravel()
    return {
        "first_position_rate": pairs.first_position_rate(context, won),
        "comparative_accuracy": pairs.comparative_accuracy(context, won, gap),
        "order_consistency": pairs.order_consistency(context, won, both[:, ::-1].ravel()),
        "tie_rate": pairs.tie_rate(context, won),
    }


@pytest.mark.slow
@settings(max_examples=20)
@example([0.5] * 6)
@example([0.5] * 5 + [np.nan])
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, np.nan]), min_size=6, max_size=6))
def test_bounds_cover_every_completion_and_are_attained(values):
    values = np.array(values)
    values[np.flatnonzero(np.isnan(values))[3:]] = 1.0  # 27 completions are enough
    order = [pair for a, b in combinations("xyz", 2) for pair in ((a, b), (b, a))]
    quality = {"x": 0.0, "y": 1.0, "z": 3.0}
    rows = [("c", a, b, quality[a] - quality[b], p) for (a, b), p in zip(order, values, strict=True)]
    found = missing_data_bounds(trials_of(rows))
    missing = np.isnan(values)
    reached = {name: [] for name in found}
    for filling in product([0.0, 0.5, 1.0], repeat=int(missing.sum())):
        full = values.copy()
        full[missing] = filling
        trials = trials_of([(*row[:4], p) for row, p in zip(rows, full, strict=True)])
        for name, ratio in metrics(trials).items():
            if np.sum(ratio.denominator):
                reached[name].append(value(ratio))
    for name, (least, most) in found.items():
        if not reached[name]:  # ties throughout
            assert not np.sum(least.denominator)
            assert not np.sum(most.denominator)
            continue
        assert (value(least), value(most)) == pytest.approx((min(reached[name]), max(reached[name]))), name


def study(seed, contexts, lost, more_of_second=3.0):
    """Text answers about three candidates a context; of those for the second, more are lost."""
    rng = np.random.default_rng(seed)
    rows = []
    for context in range(contexts):
        quality, shift = rng.normal(size=3), rng.normal() / 2
        for one, two in combinations(range(3), 2):
            for a, b in ((one, two), (two, one)):
                gap = quality[a] - quality[b]
                won = float(rng.random() < 1 / (1 + np.exp(-gap - shift)))
                share = 2 * lost * (1 if won else more_of_second) / (1 + more_of_second)
                rows.append((f"c{context}", str(a), str(b), gap, np.nan if rng.random() < share else won))
    cell = {"judge": "j", "dataset": "d", "attribute": "a", "template": 1}
    return trials_of(rows).assign(**cell)


def estimated(trials, metric="first_position_rate"):
    return find_probe("position")(resampling=Resampling(n=200)).estimate(trials, [metric]).iloc[0]


def test_only_bounded_metrics_with_missing_data_have_bounds():
    full, some = estimated(study(1, 12, 0.0)), estimated(study(1, 12, 0.2))
    assert np.isnan([full["bound_low"], full["bound_high"]]).all()
    assert not full["note"]
    assert some["bound_low"] < some["ci_low"] < some["estimate"] < some["ci_high"] < some["bound_high"]
    logit = estimated(study(1, 12, 0.2).assign(value=lambda t: t["value"].clip(0.1, 0.9)), "first_position_logit")
    assert np.isnan(logit["bound_low"])
    assert "nothing bounds" in logit["note"]


def test_a_twin_that_was_never_asked_for_is_not_missing():
    trials = study(2, 12, 0.0)
    fewer = trials[~((trials["candidate_id"] == "1") & (trials["opponent_id"] == "0"))]
    found = estimated(fewer)
    assert found["n_dropped"] == 12
    assert (found["bound_low"], found["bound_high"]) == pytest.approx((found["ci_low"], found["ci_high"]))


def test_a_refusal_that_was_asked_again_is_not_missing():
    trials = study(3, 12, 0.0)
    refused = trials.iloc[:4].assign(value=np.nan, status="refused")
    found = estimated(pd.concat([refused, trials], ignore_index=True))
    assert (found["bound_low"], found["bound_high"]) == pytest.approx((found["ci_low"], found["ci_high"]))


def test_note_reports_missingness_related_to_quality():
    trials = study(4, 40, 0.0)
    rng = np.random.default_rng(0)
    lost = (trials["human_gap"] > 0) & (rng.random(len(trials)) < 0.4)
    refused = trials.assign(value=trials["value"].mask(lost), status=trials["status"].mask(lost, "refused"))
    assert "depend on whether the better candidate is shown first" in estimated(refused)["note"]
    assert note_missing_pairs(trials) == ()


@pytest.mark.thorough
@pytest.mark.parametrize("contexts", [24, 100])
def test_bounds_cover_and_hedge_where_the_interval_does_not(contexts):
    """A fifth is lost, three times as often where the second would be said: P(A) is ½, and the interval misses it."""
    rows = pd.DataFrame([estimated(study([contexts, k], contexts, 0.2)) for k in range(100)])
    assert ((rows["bound_low"] <= 0.5) & (rows["bound_high"] >= 0.5)).mean() >= 0.95
    assert ((rows["ci_low"] <= 0.5) & (rows["ci_high"] >= 0.5)).mean() < 0.93
