"""Ranks from trials, agreement with humans, remedies side by side, fewer comparisons and fewer candidates."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.measures.ranking import agreement_by_budget, compare_remedies, rank, self_consistency
from biaslab.measures.scoring import agreement
from biaslab.probes.comparative import Comparative
from biaslab.probes.position import Position
from biaslab.stats.correlation import (
    context_correlations,
    correlate_within,
    correlation_difference,
    estimate_correlation,
)
from biaslab.stats.frame import LEADING, TRAILING, without_breakdowns


@pytest.fixture(scope="module")
def judge(graded):
    return bl.SimulatedJudge(graded, position=1.5, noise=1.0)


@pytest.fixture(scope="module")
def trials(judge, graded):
    return bl.collect(Position(["coherence", "fluency"], [1]), judge, graded, progress=False)


@pytest.mark.slow
@given(st.integers(0, 9999), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_spearman_of_all_contexts_at_once_is_that_of_each(seed, contexts):
    rng = np.random.default_rng(seed)
    context = np.sort(rng.integers(contexts, size=rng.integers(1, 30)))
    context = np.unique(context, return_inverse=True)[1]
    score, human = (rng.integers(0, 4, len(context)) / 3 for _ in range(2))
    score[rng.random(len(score)) < 0.2] = np.nan
    frame = pd.DataFrame({"context_id": context, "score": score, "human": human})
    expected = context_correlations(frame.dropna(), "score", "human", "spearman", "context_id")
    found = correlate_within(score, human, context, "spearman")
    there = np.unique(context[~np.isnan(score)])
    np.testing.assert_allclose(found[there], expected, atol=1e-12)
    assert np.isnan(np.delete(found, there)).all()


def test_ranks_follow_scores_in_every_cell(trials):
    ranked = rank(trials)
    assert ranked.columns.tolist() == [
        "judge", "dataset", "attribute", "template", "context_id", "candidate_id", "score", "rank",
    ]  # fmt: skip
    assert len(ranked) == 8 * 6 * 2
    for _, cell in ranked.groupby(["attribute", "context_id"]):
        assert cell["rank"].tolist() == cell["score"].rank(ascending=False).tolist()
    # the win ratio, counted by hand
    first = trials[(trials["attribute"] == "fluency") & (trials["context_id"] == trials["context_id"].iloc[0])]
    won = (first["value"] > 0.5).groupby(first["candidate_id"]).sum()
    lost = (first["value"] < 0.5).groupby(first["opponent_id"]).sum()
    here = ranked[(ranked["attribute"] == "fluency") & (ranked["context_id"] == first["context_id"].iloc[0])]
    assert here.set_index("candidate_id")["score"].to_dict() == pytest.approx(((won + lost) / 10).to_dict())


def test_ranks_say_human_and_system_where_the_trials_do(judge, graded):
    ranked = rank(bl.collect(Comparative(["coherence"]), judge, graded, progress=False))
    human = graded.human_means["coherence"]
    keys = list(zip(ranked["context_id"], ranked["candidate_id"], strict=True))
    assert ranked["human"].tolist() == [human[key] for key in keys]
    systems = graded.candidates.set_index(["context_id", "candidate_id"])["system"]
    assert ranked["system"].tolist() == [systems[key] for key in keys]
    with pytest.raises(TrialsError, match="at least one"):
        rank(bl.collect(Comparative(["coherence"]), judge, graded, progress=False).head(0))


@pytest.mark.slow
def test_ranking_agreement_equals_estimate_correlation(trials, graded):
    ranked = rank(trials)
    found = agreement(ranked, graded)
    assert tuple(found.columns[: len(LEADING)]) == LEADING
    assert set(found["template"]) == {1}
    cell = ranked[ranked["attribute"] == "coherence"].merge(
        graded.human_means["coherence"].rename("human").reset_index(), on=["context_id", "candidate_id"]
    )
    for level in ("context", "dataset"):
        for method in ("spearman", "kendall"):
            expected = estimate_correlation(cell, "score", "human", bl.Resampling(), level, method, null=0.0)
            row = found.query("attribute == 'coherence' and level == @level and coefficient == @method").iloc[0]
            assert row["estimate"] == pytest.approx(expected.estimate)
            assert row["p_value"] == pytest.approx(expected.p_value)


@pytest.mark.slow
def test_ranking_carries_its_human_scores(judge, graded):
    ranked = rank(bl.collect(Comparative(["coherence"]), judge, graded, progress=False))
    pd.testing.assert_frame_equal(agreement(ranked), agreement(ranked, graded))
    assert set(agreement(ranked)["level"]) == {"context", "dataset", "system"}
    assert "system" not in set(agreement(ranked.drop(columns="system"))["level"])
    with pytest.raises(TrialsError, match="twice"):
        agreement(pd.concat([ranked, ranked.head(1)]))
    with pytest.raises(TrialsError, match="human"):
        agreement(ranked.drop(columns="human"))


@pytest.mark.slow
def test_each_template_is_correlated_separately(judge, graded):
    ranked = rank(bl.collect(Position(["coherence"]), judge, graded, progress=False))
    found = agreement(ranked, graded, ["context"], ["spearman"]).set_index("template")["estimate"]
    for template in (1, 2):
        single = agreement(ranked[ranked["template"] == template], graded, ["context"], ["spearman"])
        assert found[template] == single["estimate"].item()


def test_remedies_need_the_attribute_of_the_trials(trials, graded):
    with pytest.raises(InputError, match="column fluency"):
        compare_remedies(trials, graded.human_means[["coherence"]])


@pytest.mark.slow
def test_remedies_are_measured_before_and_after(trials, graded):
    table = compare_remedies(trials, graded.human_means)
    assert tuple(table.columns[-len(TRAILING) :]) == TRAILING
    plain = table[(table["against"] == "") & (table["attribute"] == "coherence")]
    value = plain.set_index(["orders", "remedy", "metric"])["estimate"]
    assert value["both", "none", "first_position_rate"] > 0.65
    for remedy in ("threshold", "uniform-prior", "position-term"):
        assert abs(value["both", remedy, "first_position_rate"] - 0.5) < 0.05
        assert value["both", remedy, "comparative_accuracy"] > value["both", "none", "comparative_accuracy"] + 0.05
        assert value["both", remedy, "order_consistency"] > value["both", "none", "order_consistency"] + 0.1
    assert value["both", "swap-average", "order_consistency"] == 1
    assert value["both", "none", "tokens_per_item"] == 2 * value["one", "none", "tokens_per_item"]
    assert ("one", "swap-average", "spearman") not in value.index
    # without a remedy it is what the position probe estimates
    probe = Position(["coherence"], [1]).estimate(trials[trials["attribute"] == "coherence"])
    overall = without_breakdowns(probe).set_index("metric")["estimate"]
    for metric in ("first_position_rate", "order_consistency", "comparative_accuracy"):
        assert value["both", "none", metric] == pytest.approx(overall[metric])


def test_differences_are_paired(trials, graded):
    table = compare_remedies(trials, graded.human_means, remedies=["none", "threshold"], orders=["both"])
    row = table.query("metric == 'spearman' and against == 'none' and attribute == 'fluency'").iloc[0]
    one, two = (
        rank(trials, debiasing=name).query("attribute == 'fluency'").set_index(["context_id", "candidate_id"])["score"]
        for name in ("threshold", "none")
    )
    frame = pd.DataFrame({"one": one, "two": two, "human": graded.human_means["fluency"]}).reset_index()
    expected = correlation_difference(frame, "one", "two", "human", bl.Resampling())
    assert row["estimate"] == pytest.approx(expected.estimate)
    assert row["method"] == "t over contexts; t test"


@pytest.mark.slow
def test_in_sample_and_cross_fitted_remedies_are_both_reported(trials, graded):
    """Fitted where it is judged, the threshold makes P(A) ½ exactly (Eq. 10), as the paper sets it."""
    remedies = ["none", "threshold", "swap-average"]
    table = compare_remedies(trials, graded.human_means, remedies=remedies, orders=["both"], in_sample=True)
    assert set(table["remedy"]) == {*remedies, "threshold, in sample"}
    table = table[table["attribute"] == "coherence"]
    value = table.set_index(["remedy", "against", "metric"])["estimate"]
    assert value["threshold, in sample", "", "first_position_rate"] == pytest.approx(0.5)
    for metric in ("spearman", "comparative_accuracy", "first_position_rate"):
        gap = value["threshold, in sample", "", metric] - value["threshold", "", metric]
        assert value["threshold, in sample", "threshold", metric] == pytest.approx(gap)
    without = compare_remedies(trials, graded.human_means, remedies=remedies, orders=["both"])
    assert not without["remedy"].str.contains("sample").any()


def test_predicted_tie_rate_depends_on_number_of_candidates(trials, graded):
    """Two candidates in both orders tie where a position bias decides; of two judged in one order none does."""
    found = self_consistency(trials, [2, 6], graded.human_means, draws=20)
    value = found[found["attribute"] == "coherence"].set_index(["metric", "candidates"])["estimate"]
    flips = Position(["coherence"], [1]).estimate(trials[trials["attribute"] == "coherence"], ["order_consistency"])
    flips = 1 - without_breakdowns(flips)["estimate"].iloc[0]
    assert value["predicted_tie_rate", 2] == pytest.approx(flips, abs=0.08)  # of pairs that are drawn
    assert 0 < value["predicted_tie_rate", 6] < value["predicted_tie_rate", 2]
    sure = self_consistency(trials, [2], graded.human_means, "mean-probability", draws=5)
    assert (sure.loc[sure["metric"] == "predicted_tie_rate", "estimate"] < 0.01).all()


def test_one_order_asks_each_pair_once(trials, graded):
    one = compare_remedies(trials, graded.human_means, remedies=["none"], orders=["one"])
    assert (one["n_trials"] == 8 * 15).all()
    assert one.loc[one["metric"] == "order_consistency", "note"].str.contains("both orders").all()
    with pytest.raises(InputError, match="remedies"):
        compare_remedies(trials, graded.human_means, remedies=["prayer"])


@pytest.mark.slow
def test_agreement_grows_with_comparisons_and_converges(trials, graded):
    found = agreement_by_budget(trials[trials["attribute"] == "coherence"], [6, 16, 30], graded.human_means, draws=8)
    rho = found[found["metric"] == "spearman"].set_index(["strategy", "budget"])["estimate"]
    for strategy in ("random", "symmetric", "adaptive"):
        curve = rho[strategy]
        assert curve.index.tolist() == [6, 16, 30]
        assert curve.is_monotonic_increasing
        assert curve[30] == pytest.approx(rho["random", 30])
    assert rho["no-repeat"].index.tolist() == [6, 15]  # each pair once is all it has
    tokens = found[found["metric"] == "tokens_per_item"].set_index(["strategy", "budget"])["estimate"]
    assert tokens["random", 30] == pytest.approx(5 * tokens["random", 6])


def test_debiasing_pays_most_with_few_comparisons(trials, graded):
    only = trials[trials["attribute"] == "coherence"]
    found = agreement_by_budget(
        only, [8, 30], graded.human_means, ["random"], ["none", "threshold"], "bradley-terry", draws=20
    )
    rho = found[found["metric"] == "spearman"].set_index(["debiasing", "budget"])["estimate"]
    assert rho["threshold", 8] > rho["none", 8] + 0.03
    assert rho["threshold", 8] - rho["none", 8] > rho["threshold", 30] - rho["none", 30]


def test_few_candidates_hold_among_all(trials, graded):
    found = self_consistency(trials, [2, 4, 6], graded.human_means, draws=10)
    value = found[found["attribute"] == "coherence"].set_index(["metric", "candidates"])["estimate"]
    assert value["final_accuracy", 6] == 1
    assert value["final_accuracy", 4] > 0.8
    assert 0.5 < value["gold_accuracy", 6] < 1
    everything = rank(trials[trials["attribute"] == "coherence"]).set_index(["context_id", "candidate_id"])
    right = total = 0
    human = graded.human_means["coherence"]
    for _, group in everything.groupby("context_id"):
        for a in group.index:
            for b in group.index:
                gap, score = human[a] - human[b], group.loc[a, "score"] - group.loc[b, "score"]
                if gap > 0 and abs(score) > 1e-9:
                    total, right = total + 1, right + (score > 0)
    assert value["gold_accuracy", 6] == pytest.approx(right / total)


@pytest.mark.parametrize(
    "options", [{"budgets": []}, {"budgets": [1]}, {"strategies": "random"}, {"strategies": ["clever"]}, {"draws": 0}]
)
def test_bad_curves_are_refused(trials, graded, options):
    with pytest.raises(InputError):
        agreement_by_budget(trials, **{"budgets": [6], "human": graded.human_means, **options})
    with pytest.raises(InputError):
        self_consistency(trials, [1], graded.human_means)


def test_the_budget_needed_is_read_off_the_curve_made_monotone():
    def curve(strategy, values, attribute="fluency"):
        rows = {"metric": "spearman", "attribute": attribute, "debiasing": "none", "strategy": strategy}
        return [rows | {"budget": budget, "estimate": rho} for budget, rho in zip((2, 10, 20, 30), values, strict=True)]

    rows = [*curve("random", (0.1, 0.4, 0.3, 0.5)), *curve("symmetric", (-0.2, -0.1, -0.1, -0.1))]
    rows += curve("no-repeat", (0.5, 0.5, 0.5, 0.5))
    found = bl.ranking.budget_needed(pd.DataFrame(rows), 0.8).loc["fluency", "none"]
    assert found["random"] == 20  # .4 is reached at 10, and held by the curve until 20
    assert np.isnan(found["symmetric"])  # nothing to reach where all comparisons agree in nothing
    assert list(found.index) == ["random", "symmetric"]
    for share in (0, 1.1):
        with pytest.raises(InputError, match="share"):
            bl.ranking.budget_needed(pd.DataFrame(rows), share)
