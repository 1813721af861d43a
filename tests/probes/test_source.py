"""The source probe against planted reliance, hand-computed frames and the published table."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from studies import row_of, run

import biaslab as bl
from biaslab.atlas import published
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.probes.source import Source

ONE = {"attributes": ["coherence"]}


def frame(rows, **cell):
    fixed = {"judge": "j", "dataset": "d", "attribute": "fluency", "scale": "1-5", "answer": "text", "replicate": 0}
    columns = ["context_id", "candidate_id", "human", "with", "without"]
    trials = pd.DataFrame(rows, columns=columns).melt(columns[:3], var_name="source")
    return trials.assign(status=np.where(trials["value"].isna(), "refused", "ok"), **(fixed | cell))


ROWS = [
    ("a", "x", 1.0, 1.0, 3.0), ("a", "y", 2.0, 3.0, 2.0), ("a", "z", 3.0, 4.0, 4.0),
    ("b", "x", 1.0, 2.0, 2.0), ("b", "y", 2.0, 1.0, 3.0), ("b", "z", 3.0, 5.0, 1.0),
    ("c", "x", 1.0, 2.0, 2.0), ("c", "y", 2.0, 4.0, 3.0), ("c", "z", 3.0, 5.0, 4.0),
]  # fmt: skip


def test_design_is_every_item_with_and_without(graded):
    trials = list(Source().design(graded))
    assert len(trials) == len(graded.candidates) * 4 * 2
    assert len({t.request for t in trials}) == len(trials)
    contexts = graded.candidates.drop_duplicates("context_id").set_index("context_id")["context"]
    for trial in trials:
        shown = contexts[trial.context_id] in trial.request.messages[0].content
        assert shown == (trial.condition["source"] == "with")


def test_estimates_of_a_frame_computed_by_hand():
    found = Source(coefficients=["kendall"], temperature=0.0).estimate(frame(ROWS))
    assert row_of(found, "source_shift")["estimate"] == pytest.approx(
        np.mean([1 - 3, 3 - 2, 0, 0, 1 - 3, 5 - 1, 0, 1, 1])
    )
    assert row_of(found, "mean_score", source="without")["estimate"] == pytest.approx(24 / 9)
    taus = {"with": [1, 1 / 3, 1], "without": [1 / 3, -1 / 3, 1]}  # pairs in order less pairs in disorder, of three
    for source, values in taus.items():
        row = row_of(found, "agreement", source=source, level="context")
        assert row["estimate"] == pytest.approx(np.mean(values))
    loss = row_of(found, "agreement_loss", level="context")
    assert loss["estimate"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    table = pd.DataFrame(ROWS)
    pooled = [stats.kendalltau(table[column], table[2]).statistic for column in (3, 4)]
    assert row_of(found, "agreement_loss", level="dataset")["estimate"] == pytest.approx(pooled[0] - pooled[1])
    assert row_of(found, "sample_difference")["estimate"] == pytest.approx((2 + 1 + 0 + 0 + 2 + 4 + 0 + 1 + 1) / 9)
    assert "two samples" in row_of(found, "resampling_difference")["note"]


@pytest.mark.slow
def test_relative_loss_is_loss_over_agreement_above_zero(graded):
    judge = bl.SimulatedJudge(graded, noise=1.0, source_reliance=0.6)
    found = run(Source(**ONE), judge, graded)
    for level in ("context", "dataset"):
        for coefficient in ("kendall", "spearman"):
            cell = {"level": level, "coefficient": coefficient}
            kept = row_of(found, "agreement", source="with", **cell)["estimate"]
            lost = row_of(found, "agreement_loss", **cell)["estimate"]
            share = row_of(found, "relative_loss", **cell)
            assert share["estimate"] == pytest.approx(lost / kept)
            assert share["ci_low"] < share["estimate"] < share["ci_high"]
    blind = run(Source(**ONE), bl.SimulatedJudge(graded, quality=0.0, noise=1.0), graded, ["relative_loss"])
    assert blind["estimate"].isna().all()
    assert blind["note"].str.contains("not shown to be above 0").all()


def expected_loss(judge, data, probe):
    """Kendall's tau within contexts, with minus without, of a second judge with other noise: an independent draw."""
    trials = bl.collect(probe, judge, data, progress=False)
    wide = trials.pivot_table(index=["context_id", "candidate_id"], columns="source", values="value")
    human = data.human_means["coherence"].reindex(wide.index)
    losses = [
        stats.kendalltau(part["with"], human[part.index]).statistic
        - stats.kendalltau(part["without"], human[part.index]).statistic
        for _, part in wide.groupby("context_id")
    ]
    return np.mean(losses), np.std(losses) / np.sqrt(len(losses))


@pytest.mark.slow
@pytest.mark.parametrize("reliance", [0.0, pytest.param(0.5, marks=pytest.mark.slow), 1.0])
def test_planted_reliance_comes_back(reliance):
    """Two judges that differ in their noise alone lose the same agreement, here computed with SciPy for one of them."""
    data = construct_population(250)
    probe = Source(levels=["context"], coefficients=["kendall"])
    judge, other = (bl.SimulatedJudge(data, noise=1.0, source_reliance=reliance, seed=seed) for seed in (0, 1))
    found = run(probe, judge, data)
    loss = row_of(found, "agreement_loss")
    truth, error = expected_loss(other, data, probe)
    assert abs(loss["estimate"] - truth) < 3.5 * np.hypot(error, loss["mde"] / 2.8)
    assert (loss["p_value"] < 0.01) == (reliance > 0)
    blind = row_of(found, "agreement", source="without")
    assert (blind["ci_low"] < 0 < blind["ci_high"]) == (reliance == 1)


@pytest.mark.slow
def test_reliance_on_the_source_leaves_the_mean_where_it_is():
    """Why the shift of the mean is not primary: good candidates fall and bad ones rise by as much."""
    data = construct_population(400)
    found = run(Source(coefficients=["kendall"]), bl.SimulatedJudge(data, noise=1.0, source_reliance=1.0), data)
    assert abs(row_of(found, "source_shift")["estimate"]) < 0.4  # of 9 points; standard error 0.12
    assert row_of(found, "agreement_loss", level="dataset")["ci_low"] > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.6])
def test_shift_of_all_scores_leaves_agreement_unchanged(graded, shift):
    judge = bl.SimulatedJudge(graded, quality=0.5, noise=0.5)
    probe = Source(**ONE)
    trials = bl.collect(probe, judge, graded, progress=False)
    moved = trials.assign(value=trials["value"] + shift * (trials["source"] == "with"))
    before, after = probe.estimate(trials), probe.estimate(moved)
    row = row_of(after, "source_shift")
    assert row["estimate"] == pytest.approx(row_of(before, "source_shift")["estimate"] + shift)
    assert (row["p_value"] < 0.05) == (shift > 0)
    losses = [found[found["metric"] == "agreement_loss"]["estimate"].to_numpy() for found in (before, after)]
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.slow
def test_text_answers_agree_with_distributions(graded):
    judge = bl.SimulatedJudge(graded, quality=0.7, source_reliance=0.8)
    exact = run(Source(**ONE), judge, graded)
    text = run(Source(answer="text", replicates=8, **ONE), judge, graded)
    for source in ("with", "without"):
        sampled, known = (row_of(found, "mean_score", source=source) for found in (text, exact))
        assert sampled["estimate"] == pytest.approx(known["estimate"], abs=0.25)
    apart, floor = (row_of(text, metric) for metric in ("sample_difference", "resampling_difference"))
    assert apart["estimate"] > floor["estimate"] > 0
    assert "distributions, not samples" in row_of(exact, "resampling_difference")["note"]


def test_refusals_drop_whole_items(graded):
    judge = bl.SimulatedJudge(graded, refusal=0.5, selective=True)
    probe = Source(**ONE)
    trials = bl.collect(probe, judge, graded, progress=False)
    with pytest.warns(MissingDataWarning, match="coherence"):
        found = probe.estimate(trials)
    wide = trials[trials["status"] == "ok"].pivot_table(
        index=["context_id", "candidate_id"], columns="source", values="value"
    )
    whole = wide.dropna()
    assert len(whole) < len(wide)
    shift = row_of(found, "source_shift")
    assert shift["estimate"] == pytest.approx((whole["with"] - whole["without"]).mean())
    assert (shift["n_trials"], shift["n_dropped"]) == (2 * len(whole), len(trials) - 2 * len(whole))


def test_without_human_scores_only_agreement_is_undefined():
    found = Source().estimate(frame(ROWS).assign(human=np.nan))
    correlated = found["metric"].isin(["agreement", "agreement_loss", "relative_loss"])
    assert found.loc[correlated, "estimate"].isna().all()
    assert found.loc[correlated, "note"].str.len().gt(0).all()
    assert row_of(found, "source_shift")["estimate"] == pytest.approx(3 / 9)


def test_a_source_must_be_there_to_be_left_out(graded):
    blank = bl.Dataset(
        "blank",
        graded.candidates.assign(context=" "),
        graded.human,
        graded.attributes,
        graded.scale,
        graded.noun,
    )
    with pytest.raises(InputError, match="source text"):
        list(Source().design(blank))


@pytest.mark.parametrize(
    "given",
    [
        {"levels": ["system"]},
        {"levels": "context"},
        {"coefficients": []},
        {"coefficients": ["kendall", "kendall"]},
        {"scale": "1-7"},
        {"answer": "guess"},
        {"replicates": 3},
        {"attributes": "fluency"},
    ],
)
def test_bad_parameters_are_named(given):
    with pytest.raises(InputError, match=next(iter(given))):
        Source(**given)


def test_a_frame_without_a_column_is_refused():
    with pytest.raises(TrialsError, match="human"):
        Source().estimate(frame(ROWS).drop(columns="human"))


def test_published_losses_follow_from_the_published_agreements():
    """Table 5 prints Excluded − Included, and that in percent of Included: our losses with the opposite sign."""
    table = published.load("stureborg2024", table=5).pivot_table(index="attribute", columns="row", values="value")
    assert len(table) == 5
    loss = table["Included"] - table["Excluded"]
    np.testing.assert_allclose(-table["difference"], loss, atol=0.0011)
    np.testing.assert_allclose(-table["relative difference"] / 100, loss / table["Included"], atol=0.003)
