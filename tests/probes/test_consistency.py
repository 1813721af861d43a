"""The consistency probe against published alphas, exact expectations and planted inconsistency."""

import dataclasses

import krippendorff
import numpy as np
import pandas as pd
import pytest
from expected_scores import expected_distributions
from scipy import stats
from studies import row_of, run

import biaslab as bl
from biaslab.calibration.population import construct_population
from biaslab.core.errors import InputError, MissingDataWarning, TrialsError
from biaslab.probes.consistency import Consistency

ONE = {"attributes": ["coherence"], "scales": ["1-5"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attribute", "interval", "ordinal"), [("coherence", 0.5756, 0.5744), ("consistency", 0.8989, 0.8146)]
)
def test_experts_of_summeval_agree_as_computed_independently(shared_data, attribute, interval, ordinal):
    """1200 of the paper's 1600 items; its Table E prints .559 and .899 for all."""
    data = bl.load_dataset("summeval", path=shared_data / "summeval" / "annotations_1200.jsonl.gz")
    probe = Consistency([attribute], scales=["1-5"], joint=False, replicates=2)
    estimates = run(probe, bl.SimulatedJudge(data), data, ["human_alpha"])
    for level, expected in (("interval", interval), ("ordinal", ordinal)):
        found = row_of(estimates, "human_alpha", level=level)
        assert found["estimate"] == pytest.approx(expected, abs=5e-5)
        assert found["ci_low"] < expected < found["ci_high"]
        assert found["n_contexts"] == 100
    published = bl.published.load("stureborg2024", "E")
    printed = published.query(f"attribute == '{attribute}' and row == 'Inter-annotator agreement'")["value"].item()
    found = row_of(estimates, "human_alpha", level="interval")
    assert found["ci_low"] < printed < found["ci_high"]


def test_one_question_serves_all_samples(graded):
    trials = list(Consistency().design(graded.head(1)))
    assert len(trials) == 6 * 4 * 4 * 5
    assert len({t.request for t in trials}) == 6 * 4 * 4
    assert {t.condition["configuration"] for t in trials} == {"1-5", "1-10", "1-100", "1-5 joint"}
    joint = [t for t in trials if t.condition["configuration"] == "1-5 joint" and t.attribute == "fluency"]
    assert joint[0].request.messages[-1].content == "fluency:"


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_samples_follow_the_tempered_distribution(graded, temperature):
    probe = Consistency(**ONE, joint=False, replicates=2000, n_candidates=1, temperature=temperature)
    judge, data = bl.SimulatedJudge(graded, sharpness=3.0), graded.head(1)
    request = next(iter(probe.design(data))).request
    [(_, reply)] = judge.ask([request])
    weights = np.exp(np.array(reply.logprobs) / temperature)
    trials = bl.collect(probe, judge, data, progress=False)
    counts = [int((trials["value"] == score).sum()) for score in range(1, 6)]
    assert stats.chisquare(counts, 2000 * weights / weights.sum()).pvalue > 0.01
    again = bl.collect(probe, judge, data, progress=False)
    other = bl.collect(dataclasses.replace(probe, seed=1), judge, data, progress=False)
    assert trials["value"].equals(again["value"])
    assert not trials["value"].equals(other["value"])


def test_greedy_samples_agree_perfectly(graded):
    judge = bl.SimulatedJudge(graded, quality=0.9)  # no two labels are equally likely
    found = run(Consistency(**ONE, temperature=0.0), judge, graded, ["sample_alpha"])
    assert found["estimate"].to_numpy() == pytest.approx(1.0)


@pytest.mark.slow
def test_alphas_are_those_of_the_package(graded):
    """Alpha between samples and between configurations, recomputed by the package krippendorff."""
    probe = Consistency(["coherence"], scales=["1-5", "1-10"], joint=False, replicates=4)
    trials = bl.collect(probe, bl.SimulatedJudge(graded, sharpness=4.0), graded, progress=False)
    estimates = probe.estimate(trials)
    item = [*zip(trials["context_id"], trials["candidate_id"], strict=True)]
    wide = trials.assign(item=item).pivot_table(index="item", columns=["configuration", "replicate"], values="value")
    five, ten = ((wide[name].to_numpy() - 1) / (top - 1) for name, top in (("1-5", 5), ("1-10", 10)))
    for level in ("interval", "ordinal"):
        between = krippendorff.alpha(five.T, level_of_measurement=level)
        across = krippendorff.alpha(np.array([five.ravel(), ten.ravel()]), level_of_measurement=level)
        floor = krippendorff.alpha(np.vstack([five, ten]).T, level_of_measurement=level)
        assert row_of(estimates, "sample_alpha", level=level, configuration="1-5")["estimate"] == pytest.approx(between)
        assert row_of(estimates, "configuration_alpha", level=level)["estimate"] == pytest.approx(across)
        gap = row_of(estimates, "configuration_gap", level=level)
        assert gap["estimate"] == pytest.approx(across - floor)
        assert np.isnan(gap["p_value"])


@pytest.mark.slow
def test_alpha_of_samples_is_the_exact_one():
    """Over many items alpha tends to 1 - variance within / variance of all scores, which the distributions give."""
    data = construct_population(600)
    judge = bl.SimulatedJudge(data, sharpness=5.0)
    probe = Consistency(scales=["1-5"], joint=False, replicates=3)
    found = row_of(run(probe, judge, data, ["sample_alpha"]), "sample_alpha", level="interval")
    requests = list(dict.fromkeys(t.request for t in probe.design(data)))
    p, x = np.array(expected_distributions(judge, requests)), np.arange(1, 6)
    mean, square = p @ x, p @ x**2
    within = (square - mean**2).mean()
    exact = 1 - within / (within + mean.var())
    assert found["estimate"] == pytest.approx(exact, abs=3 * (found["ci_high"] - found["ci_low"]) / 4)
    assert found["estimate"] == pytest.approx(exact, abs=0.03)


@pytest.mark.slow
def test_text_agrees_with_distributions(graded):
    judge = bl.SimulatedJudge(graded, sharpness=4.0)
    exact, text = (
        run(Consistency(**ONE, levels=["interval"], answer=answer, replicates=20), judge, graded)
        for answer in ("distribution", "text")
    )
    for name in ("sample_alpha", "configuration_alpha"):
        cell = {"configuration": "1-5" if name == "sample_alpha" else "1-5 vs 1-5 joint"}
        assert row_of(text, name, **cell)["estimate"] == pytest.approx(
            row_of(exact, name, **cell)["estimate"], abs=0.05
        )


@pytest.mark.slow
def test_configuration_gap_is_found_only_with_prompt_noise(graded):
    for noise, found in ((0.0, False), (1.0, True)):
        judge = bl.SimulatedJudge(graded, noise=noise, context_noise=0.5)
        rows = run(Consistency(scales=["1-5"]), judge, graded, ["configuration_gap"])
        assert len(rows) == 8
        assert (rows["q_value"] < 0.05).all() if found else (rows["q_value"] > 0.05).all()


@pytest.mark.slow
def test_joint_text_is_pulled_by_earlier_scores():
    data = construct_population(60, attributes=2)
    probe = Consistency(["fluency"], scales=["1-5"], levels=["interval"], answer="text", replicates=2)
    pulled = run(probe, bl.SimulatedJudge(data, anchoring=0.8), data, ["configuration_gap"]).iloc[0]
    fair = run(probe, bl.SimulatedJudge(data), data, ["configuration_gap"]).iloc[0]
    assert pulled["ci_high"] < 0 < fair["ci_high"]


@pytest.mark.slow
def test_more_consistent_than_humans_or_less():
    data = construct_population(60)
    probe = Consistency(scales=["1-5"], levels=["interval"], joint=False)
    sharp, blunt = (run(probe, bl.SimulatedJudge(data, sharpness=s), data) for s in (20.0, 3.0))
    human = row_of(sharp, "human_alpha")["estimate"]
    assert human == row_of(blunt, "human_alpha")["estimate"]
    for found, sign in ((sharp, 1), (blunt, -1)):
        gap = row_of(found, "alpha_gap")
        assert gap["estimate"] == pytest.approx(row_of(found, "sample_alpha")["estimate"] - human)
        assert gap["estimate"] * sign > 0
        assert gap["p_value"] < 0.01


def test_a_refusal_drops_the_item_from_both_configurations(graded):
    probe = Consistency(**ONE, levels=["interval"], replicates=3)
    trials = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False)
    gone = (trials["configuration"] == "1-5 joint") & (trials["context_id"] == trials["context_id"].iloc[0])
    missing = trials.assign(value=trials["value"].mask(gone), status=trials["status"].mask(gone, "refused"))
    with pytest.warns(MissingDataWarning, match="consistency"):
        found = probe.estimate(missing, ["sample_alpha", "configuration_alpha"])
    whole = probe.estimate(trials[trials["context_id"] != trials["context_id"].iloc[0]], ["configuration_alpha"])
    row = row_of(found, "configuration_alpha")
    assert row["estimate"] == pytest.approx(whole["estimate"].item())
    assert (row["n_trials"], row["n_dropped"]) == (2 * 3 * 42, 2 * 3 * 6)
    assert row_of(found, "sample_alpha", configuration="1-5")["n_dropped"] == 0


def test_one_annotator_is_no_agreement(graded):
    found = run(Consistency(**ONE, joint=False), bl.SimulatedJudge(graded), graded, ["human_alpha", "alpha_gap"])
    assert found["estimate"].isna().all()
    assert found["note"].str.contains("annotator").all()


def scores_of(folder, contexts, **more):
    """Return the recorded scores 1 and 2 of two candidates in each context."""
    rows = [f"c{c},{name},{score},1-5" for c in range(contexts) for name, score in (("x", 1), ("y", 2))]
    file = folder / "log.csv"
    file.write_text("\n".join(["context_id,candidate_id,score,scale", *rows]), encoding="utf-8")
    return bl.read_judgements(file).assign(**more)


def test_recorded_scores_must_be_repeated_in_some_way(tmp_path):
    probe = Consistency(replicates=2)
    once = scores_of(tmp_path, 8, ratings="3")
    assert "several annotators" in probe.accepts(once).note
    assert probe.accepts(once).trials.empty
    nothing = probe.accepts(once.iloc[:0])
    assert (len(nothing.trials), nothing.note) == (0, "needs scores on a scale")
    two = probe.accepts(once.assign(ratings="3 4"))
    again = probe.accepts(pd.concat([once, once.assign(replicate=1)], ignore_index=True))
    for accepted, n in ((two, 16), (again, 32)):
        assert len(accepted.trials) == n
        assert accepted.probe == dataclasses.replace(probe, levels=("interval", "ordinal", "nominal"))
    alpha = again.probe.estimate(again.trials, ["sample_alpha"])
    assert alpha["estimate"].tolist() == [1.0, 1.0, 1.0]


def test_ordinal_alpha_is_omitted_over_3000_contexts(tmp_path):
    accepted = Consistency().accepts(scores_of(tmp_path, 3001, ratings="3 4"))
    assert accepted.probe.levels == ("interval", "nominal")
    assert "the 3,001 contexts" in accepted.note


def test_own_trials_take_precedence_over_recorded_scores(graded, tmp_path):
    probe = Consistency(**ONE, joint=False)
    own = bl.collect(probe, bl.SimulatedJudge(graded), graded, progress=False)
    both = pd.concat([own, scores_of(tmp_path, 8, ratings="3 4")], ignore_index=True)
    accepted = probe.accepts(both)
    assert (len(accepted.trials), accepted.note, accepted.probe) == (len(own), "", None)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"attributes": "fluency"}, "attributes"), ({"scales": []}, "scales"), ({"scales": "1-5"}, "scales"),
        ({"scales": ["1-7"]}, "scale"), ({"levels": ["ratio"]}, "levels"), ({"replicates": 1}, "replicates"),
        ({"answer": "speech"}, "answer"), ({"n_candidates": 0}, "n_candidates"), ({"temperature": -1}, "temperature"),
    ],
)  # fmt: skip
def test_parameters_are_checked(options, name):
    with pytest.raises(InputError, match=name):
        Consistency(**options)


def test_columns_are_checked():
    with pytest.raises(TrialsError, match="ratings"):
        Consistency().estimate(pd.DataFrame({"judge": []}))
