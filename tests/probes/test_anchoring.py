"""The anchoring probe against planted pulls, hand-computed tables and exact joint distributions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_scores
from scipy import stats
from studies import row_of, run

import biaslab as bl
from biaslab.core import Choice
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.core.scales import find_scale
from biaslab.probes.anchoring import Anchoring

TWO = ("coherence", "fluency")


def test_design_asks_alone_in_every_order_and_after_every_score(graded):
    trials = list(Anchoring().design(graded.head(1)))
    requests = {t.request for t in trials}
    assert len(requests) == 6 * (4 + 4 * (1 + 5))
    assert len(trials) == 5 * len(requests)
    forced = [t for t in trials if t.condition["arm"] == "forced"]
    last = forced[0].request.messages[-1]
    assert (last.role, last.content) == ("assistant", "coherence: 1\nconsistency:")
    assert forced[0].request.labels == (" 1", " 2", " 3", " 4", " 5")
    firsts = {(t.attribute, t.condition["after"]) for t in forced}
    assert firsts == {
        ("consistency", "coherence"), ("fluency", "consistency"), ("relevance", "fluency"), ("coherence", "relevance")
    }  # fmt: skip


def test_text_outputs_are_one_request_for_all_attributes(graded):
    probe = Anchoring(answer="text", n_forced=0, replicates=2)
    joint = [t for t in probe.design(graded.head(1)) if t.condition["arm"] == "joint"]
    assert len(joint) == 6 * 4 * 4 * 2
    assert len({t.request for t in joint}) == 6 * 4 * 2
    assert {t.request.max_tokens for t in joint} == {4 * probe.max_tokens}
    assert {t.condition["position"] for t in joint} == {1, 2, 3, 4}


def test_forced_scores_are_drawn_by_seed_and_item(graded):
    def drawn(data, seed):
        trials = Anchoring(TWO, n_orders=1, n_forced=2, seed=seed).design(data)
        return {(t.context_id, t.candidate_id, t.condition["forced"]) for t in trials if t.condition["arm"] == "forced"}

    few, many = drawn(graded.head(2), 0), drawn(graded, 0)
    assert few < many
    assert len(few) == 2 * 6 * 2
    assert drawn(graded, 1) != many
    assert {value for _, _, value in many} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("anchor", ["prefix", pytest.param("transcript", marks=pytest.mark.slow)])
def test_planted_pull_is_the_slope(graded, anchor):
    """On a fine scale, away from its ends, the next score moves by the planted share of the way."""
    judge = bl.SimulatedJudge(graded, quality=0.2, anchoring=0.3)
    found = row_of(run(Anchoring(TWO, 1, scale="1-10", anchor=anchor), judge, graded, ["anchor_slope"]), "anchor_slope")
    assert found["estimate"] == pytest.approx(0.3, abs=0.02)


@pytest.mark.slow
def test_slope_is_that_of_the_expected_scores(graded):
    """With noise the slope is the regression on what the judge is expected to say, within its own uncertainty."""
    judge = bl.SimulatedJudge(graded, anchoring=0.4, noise=0.6, context_noise=0.3)
    probe = Anchoring(TWO, n_orders=1)
    trials = [t for t in probe.design(graded) if t.condition["arm"] == "forced" and t.condition["label"] == 1.0]
    expected = expected_scores(judge, trials).reshape(-1, 5)
    slope = np.mean([stats.linregress(np.arange(5), row).slope for row in expected])
    found = row_of(run(probe, judge, graded), "anchor_slope")
    assert found["ci_low"] < slope < found["ci_high"]
    assert found["p_value"] < 0.05


@pytest.mark.slow
def test_joint_distribution_is_exact(graded):
    """Correlation and shares agree with enumerating both scores of every item by the judge's own formula."""
    judge = bl.SimulatedJudge(graded, anchoring=0.5, sharpness=4.0)
    probe = Anchoring(TWO, n_orders=1)
    estimates, scale = run(probe, judge, graded), find_scale("1-5")
    values, means = np.array(scale.values), graded.human_means
    units = (values - 1) / 4

    def chances(centre):
        weights = np.exp(-0.5 * 16 * (units - centre) ** 2)
        return weights / weights.sum()

    tables, apart = [], []
    for x, y in means[list(TWO)].to_numpy():
        centres = [0.5 + (score - 3) / 4 for score in (x, y)]
        first = chances(centres[0])
        then = np.array([chances(centres[1] + 0.5 * (unit - centres[1])) for unit in units])
        tables.append(first[:, None] * then)
        apart.append(np.outer(first, chances(centres[1])))

    def correlation(table):
        mean = [table.sum(axis=1 - k) @ values for k in (0, 1)]
        spread = [table.sum(axis=1 - k) @ values**2 - mean[k] ** 2 for k in (0, 1)]
        return (values @ table @ values - mean[0] * mean[1]) / np.sqrt(spread[0] * spread[1])

    joint, alone = np.mean(tables, axis=0), np.mean(apart, axis=0)
    assert row_of(estimates, "correlation_joint")["estimate"] == pytest.approx(correlation(joint))
    assert row_of(estimates, "correlation_alone")["estimate"] == pytest.approx(correlation(alone))
    assert row_of(estimates, "anchor_excess")["estimate"] == pytest.approx(correlation(joint) - correlation(alone))
    for side, on in (("low", values <= 3), ("high", values > 3)):
        share = joint[on].sum(axis=0) / joint[on].sum()
        for value, expected in zip(values, share, strict=True):
            assert row_of(estimates, f"share_after_{side}", score=value)["estimate"] == pytest.approx(expected)
        assert row_of(estimates, f"mean_after_{side}")["estimate"] == pytest.approx(share @ values)


@pytest.mark.slow
def test_text_agrees_with_distributions(graded):
    judge = bl.SimulatedJudge(graded, anchoring=0.5, sharpness=5.0)
    names = ["anchor_excess", "correlation_joint", "anchor_slope", "mean_after_low", "mean_after_high"]
    exact = run(Anchoring(TWO, n_orders=1), judge, graded, names).set_index("metric")
    text = run(Anchoring(TWO, n_orders=1, answer="text", replicates=40), judge, graded, names).set_index("metric")
    for name, tolerance in zip(names, (0.06, 0.06, 0.06, 0.15, 0.15), strict=True):
        assert text.loc[name, "estimate"] == pytest.approx(exact.loc[name, "estimate"], abs=tolerance)


@pytest.mark.slow
def test_a_fair_judge_is_not_accused(graded):
    judge = bl.SimulatedJudge(graded, noise=0.5, context_noise=0.5)
    estimates = run(Anchoring(), judge, graded, ["anchor_excess", "anchor_slope"])
    assert len(estimates) == 8
    assert (estimates["q_value"] > 0.05).all()


@pytest.mark.slow
def test_positions_and_agreement(graded):
    judge = bl.SimulatedJudge(graded, anchoring=0.9, sharpness=40.0)
    estimates = run(Anchoring(answer="text", n_forced=0), judge, graded)
    kendall = estimates[estimates["metric"] == "kendall_dataset"].pivot_table(
        index="attribute", columns="position", values="estimate"
    )
    assert list(kendall.columns) == [0, 1, 2, 3, 4]
    assert (kendall[1] > 0.8).all()
    assert (kendall[[2, 3, 4]].to_numpy() < kendall[[1]].to_numpy() - 0.2).all()
    changes = estimates[estimates["metric"] == "kendall_change"]
    assert len(changes) == 12
    assert (changes["estimate"] < 0).all()


def table(rows):
    columns = ["context_id", "candidate_id", "arm", "attribute", "after", "position", "forced", "value"]
    frame = pd.DataFrame(rows, columns=columns)
    fixed = {"judge": "j", "dataset": "d", "scale": "1-5", "answer": "text", "replicate": 0, "human": 3.0}
    status = np.where(frame["value"].isna(), "refused", "ok")
    return frame.assign(**fixed, status=status)


def items_by_hand(values):
    """Make the trials of items: x and y alone, x and y together, y after 1 and after 5."""
    rows = []
    for k, (x0, y0, x, y, low, high) in enumerate(values):
        who, nan = (f"c{k % 3}", f"s{k}"), np.nan
        rows += [
            (*who, "alone", "x", "", 0, nan, x0), (*who, "alone", "y", "", 0, nan, y0),
            (*who, "joint", "x", "x", 1, nan, x), (*who, "joint", "y", "x", 2, nan, y),
            (*who, "forced", "y", "x", 2, 1.0, low), (*who, "forced", "y", "x", 2, 5.0, high),
        ]  # fmt: skip
    return table(rows)


BY_HAND = [(1, 2, 1, 1, 2, 3), (2, 1, 2, 3, 1, 3), (4, 3, 4, 4, 3, 3), (5, 5, 5, 4, 4, 5), (3, 5, 3, 2, 3, 4)]


def test_metrics_by_hand():
    estimates = Anchoring().estimate(items_by_hand(BY_HAND))
    x0, y0, x, y, low, high = np.array(BY_HAND, float).T
    joint, alone = np.corrcoef(x, y)[0, 1], np.corrcoef(x0, y0)[0, 1]
    assert row_of(estimates, "correlation_joint")["estimate"] == pytest.approx(joint)
    assert row_of(estimates, "anchor_excess")["estimate"] == pytest.approx(joint - alone)
    assert row_of(estimates, "anchor_slope")["estimate"] == pytest.approx((high - low).mean() / 4)
    assert row_of(estimates, "mean_after_high")["estimate"] == pytest.approx(4.0)
    assert row_of(estimates, "share_after_low", score=1.0)["estimate"] == pytest.approx(1 / 3)


def test_a_refusal_drops_the_whole_item_from_its_contrast_only():
    trials = items_by_hand([*BY_HAND, (2, 4, 2, np.nan, 2, 2), (2, 4, 2, 3, 2, np.nan)])
    names = ["anchor_excess", "anchor_slope"]
    with pytest.warns(MissingDataWarning, match="anchoring"):
        estimates = Anchoring().estimate(trials, names)
    with warnings.catch_warnings(action="ignore"):
        kept = [Anchoring().estimate(trials[trials["candidate_id"] != drop], names) for drop in ("s5", "s6")]
    excess, slope = row_of(estimates, "anchor_excess"), row_of(estimates, "anchor_slope")
    assert (excess["n_trials"], excess["n_dropped"]) == (24, 4)
    assert (slope["n_trials"], slope["n_dropped"]) == (12, 2)
    assert excess["estimate"] == pytest.approx(row_of(kept[0], "anchor_excess")["estimate"])
    assert slope["estimate"] == pytest.approx(row_of(kept[1], "anchor_slope")["estimate"])


@pytest.mark.slow
def test_rows_in_any_order_do_not_matter(graded):
    probe = Anchoring(TWO)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, anchoring=0.3, noise=1), graded, progress=False)
    plain, shuffled = probe.estimate(trials), probe.estimate(trials.sample(frac=1, random_state=1))
    cell = ["metric", "attribute", "after", "position", "score"]
    both = plain.merge(shuffled, on=cell, suffixes=("", "_shuffled"))
    assert len(both) == len(plain)
    numbers = ["estimate", "ci_low", "ci_high", "p_value"]
    np.testing.assert_allclose(both[numbers], both[[f"{n}_shuffled" for n in numbers]], atol=1e-9)


def test_undefined_metrics_have_a_reason(graded):
    judge = bl.SimulatedJudge(graded)
    some = run(Anchoring(TWO, n_orders=1, n_forced=3), judge, graded)
    assert "force all labels" in row_of(some, "anchor_excess")["note"]
    none = run(Anchoring(TWO, n_orders=1, answer="text", n_forced=0), judge, graded)
    assert "no first score was forced" in row_of(none, "anchor_slope")["note"]
    sure = run(Anchoring(TWO, n_orders=1), bl.SimulatedJudge(graded, quality=0.0, sharpness=60.0), graded)
    assert np.isnan(row_of(sure, "correlation_joint")["estimate"])
    assert row_of(sure, "correlation_joint")["note"]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"attributes": "fluency"}, "attributes"), ({"scale": "1-7"}, "scale"), ({"n_orders": 0}, "n_orders"),
        ({"n_forced": 1}, "n_forced"), ({"n_forced": 0}, "n_forced"), ({"n_forced": 6}, "n_forced"),
        ({"anchor": "hint"}, "anchor"), ({"replicates": 2}, "replicates"), ({"n_candidates": 0}, "n_candidates"),
    ],
)  # fmt: skip
def test_parameters_are_checked(options, name):
    with pytest.raises(InputError, match=name):
        Anchoring(**options)


def test_one_attribute_cannot_anchor(graded):
    with pytest.raises(InputError, match="at least two"):
        list(Anchoring(["fluency"]).design(graded))
    with pytest.raises(TrialsError, match="after"):
        Anchoring().estimate(pd.DataFrame({"judge": []}))


def test_labels_go_on_after_a_prefix_with_a_space(graded):
    trials = list(Anchoring(TWO, n_orders=1).design(graded.head(1)))
    for trial in trials:
        assert isinstance(trial.request, Choice)
        assert trial.request.labels[0].startswith(" ") == (trial.condition["arm"] != "alone")


def test_only_trials_of_its_own_design_will_do(graded):
    probe = Anchoring(attributes=["coherence", "fluency"])
    own = bl.collect(probe, bl.SimulatedJudge(graded), graded.head(1), progress=False)
    assert len(probe.accepts(own).trials) == len(own)
    for others in (own.assign(probe="recorded"), own.drop(columns="arm")):
        refused = probe.accepts(others)
        assert refused.trials.empty
        assert refused.note.startswith("needs scores of several attributes in one output")
