"""`audit`: which probes run on what, what the others say, and that their estimates are those of the probes
themselves."""

import json

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError
from biaslab.stats.inference import Resampling

QUICK = Resampling(n=100)
OTHERS = ("replies", "human_agreement", "halo", "pair_length", "one_order", "one_list", "subsets", "self_preference")


def pair_log(contexts=12, first=0.8, seed=0, **more):
    rng = np.random.default_rng(seed)
    pairs = [(c, a, b) for c in range(contexts) for a, b in (("x", "y"), ("y", "x"))]
    return [
        {
            "context_id": c,
            "candidate_id": a,
            "opponent_id": b,
            "p_first": 0.75 if rng.random() < first else 0.25,
            **more,
        }
        for c, a, b in pairs
    ]


def score_log(contexts=12, candidates=4, seed=0, **more):
    rng = np.random.default_rng(seed)
    rows = []
    for context in range(contexts):
        for candidate in range(candidates):
            quality = int(rng.integers(1, 6))
            for attribute, spread in (("coherence", 1), ("fluency", 1)):
                human = int(np.clip(quality + rng.integers(-spread, spread + 1), 1, 5))
                judged = int(np.clip(quality + rng.integers(-1, 2), 1, 5))
                rows.append(
                    {"context_id": context, "candidate_id": candidate, "attribute": attribute, "score": judged,
                     "human": human, "scale": "1-5", **more}
                )  # fmt: skip
    return rows


def read(folder, rows, **options):
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return bl.read_judgements(file, **options)


def test_pairs_are_audited_as_the_probe_does(tmp_path):
    trials = read(tmp_path, pair_log())
    found = bl.audit(trials, only=["position"], resampling=QUICK)
    own = bl.probes.Position(resampling=QUICK).estimate(trials)
    pd.testing.assert_frame_equal(found[own.columns], own, check_dtype=False)
    logit = found.set_index("metric").loc["first_position_logit", "estimate"]
    assert logit == pytest.approx(np.log(3) * (2 * (trials["value"] > 0.5).mean() - 1))


def test_scores_run_some_probes_and_others_give_a_reason(tmp_path):
    found = bl.audit(read(tmp_path, score_log()), resampling=QUICK)
    assert {"score_distribution", "human_agreement", "halo"} <= set(found["probe"])
    not_run = found.attrs["not_run"]
    assert not_run["position"] == "needs judgements of two candidates shown one after the other"
    assert not_run["replies"] == "needs judgements of two candidates"
    assert "several annotators" in not_run["consistency"]
    assert "before and after reasons" in not_run["output_order"]
    assert "with and without the source" in not_run["source"]
    assert set(not_run) | set(found["probe"]) == {*bl.probes.available(), *OTHERS}
    assert all("\n" not in why for why in not_run.values())


def test_audit_of_pairs_and_scores_runs_probes_of_both(tmp_path):
    trials = pd.concat([read(tmp_path, pair_log()), read(tmp_path, score_log())], ignore_index=True)
    found = bl.audit(trials, resampling=QUICK)
    assert {"position", "replies", "score_distribution", "human_agreement", "halo"} <= set(found["probe"])


def test_agreement_and_halo_by_hand(tmp_path):
    rows = [
        ("a", "x", "coherence", 1, 1), ("a", "y", "coherence", 2, 2), ("a", "z", "coherence", 3, 3),
        ("a", "x", "fluency", 1, 3), ("a", "y", "fluency", 2, 2), ("a", "z", "fluency", 3, 1),
        ("b", "x", "coherence", 1, 2), ("b", "y", "coherence", 3, 1), ("b", "z", "coherence", 2, 3),
        ("b", "x", "fluency", 1, 1), ("b", "y", "fluency", 3, 3), ("b", "z", "fluency", 2, 2),
    ]  # fmt: skip
    names = ("context_id", "candidate_id", "attribute", "score", "human")
    trials = read(tmp_path, [dict(zip(names, row, strict=True), scale="1-5") for row in rows])
    found = bl.audit(trials, only=["human_agreement", "halo"], resampling=QUICK)
    at = (found["level"] == "context") & (found["coefficient"] == "spearman")
    agreement = found[at].set_index("attribute")["estimate"]
    assert agreement["coherence"] == pytest.approx((1 - 0.5) / 2)
    assert agreement["fluency"] == pytest.approx((-1 + 1) / 2)
    halo = found[found["probe"] == "halo"].set_index("metric")["estimate"]
    assert halo["halo_judge"] == pytest.approx(1.0)
    assert halo["halo_human"] == pytest.approx((-1 - 0.5) / 2)
    assert halo["halo_excess"] == pytest.approx(1.75)


@pytest.mark.parametrize(("replicates", "answers"), [(1, {"single"}), (3, {"single", "mean of 3"})])
def test_means_are_over_at_most_the_available_samples(tmp_path, replicates, answers):
    rows = [
        {**row, "replicate": k, "score": (row["score"] + k) % 5 + 1} for row in score_log() for k in range(replicates)
    ]
    found = bl.audit(read(tmp_path, rows), only=["score_distribution"], resampling=QUICK)
    assert set(found["answer"]) == answers


def test_consistency_is_undefined_with_one_sample_per_item(tmp_path):
    """Whatever its number: items of different runs may each have one."""
    rows = [{**row, "replicate": row["context_id"] % 3, "ratings": f"{row['human']} 3"} for row in score_log()]
    found = bl.audit(read(tmp_path, rows), only=["consistency"], resampling=QUICK)
    notes = found[found["metric"].isin(["sample_alpha", "alpha_gap"])]["note"]
    assert len(notes) == 12
    assert notes.str.startswith("undefined: sampling noise needs at least 2 samples").all()
    assert found.loc[found["metric"] == "human_alpha", "estimate"].notna().all()


def test_pairs_in_one_order_only(tmp_path):
    rows = pair_log()
    found = bl.audit(read(tmp_path, rows[::2]), resampling=QUICK)
    assert found.attrs["not_run"]["position"] == "needs pairs in both orders; each was judged in one order only"
    pooled = found.set_index(["metric", "system"])["estimate"]
    assert pooled["first_position_rate", ""] == pytest.approx(np.mean([r["p_first"] > 0.5 for r in rows[::2]]))
    assert pooled["win_rate", "x"] == pytest.approx(np.mean([r["p_first"] for r in rows[::2]]))
    assert pooled["win_rate", "x"] + pooled["win_rate", "y"] == pytest.approx(1)


def test_judge_of_one_order_only_is_excluded_from_position(tmp_path):
    rows = [*pair_log(judge="both"), *pair_log(judge="one")[::2]]
    found = bl.audit(read(tmp_path, rows), only=["position"], resampling=QUICK)
    assert set(found["judge"]) == {"both"}
    assert found.attrs["notes"]["position"].startswith("left out one / unknown / overall / recorded")


def test_unknown_order_never_enters_an_order_effect(tmp_path):
    found = bl.audit(read(tmp_path, pair_log(order_known=False)), resampling=QUICK)
    assert "which candidate was shown first" in found.attrs["not_run"]["position"]
    assert np.isnan(found.set_index("metric").loc["first_position_rate", "estimate"])


def test_length_pays_in_a_log_as_in_the_probe(tmp_path, graded):
    """What a judge with planted verbosity said, written as a log without texts, beside the probe's own estimates."""
    probe = bl.probes.Verbosity(attributes=["coherence"], answer="text", temperature=0.0, resampling=QUICK)
    own = bl.collect(probe, bl.SimulatedJudge(graded, quality=0.5, verbosity=3.0), graded, progress=False)
    rows = own[["context_id", "candidate_id", "attribute"]].assign(score=own["value"], scale="1-5")
    log = read(tmp_path, rows.to_dict("records"))
    assert "a data set with both" in bl.audit(log, resampling=QUICK).attrs["not_run"]["verbosity"]
    found = bl.audit(log, graded, ["verbosity"], QUICK).set_index("metric")
    wanted = probe.estimate(own).set_index("metric")
    for metric in ("verbosity_slope", "verbosity_excess"):
        assert found.loc[metric, ["estimate", "ci_low", "ci_high"]].tolist() == pytest.approx(
            wanted.loc[metric, ["estimate", "ci_low", "ci_high"]].tolist()
        )
    assert found.loc["verbosity_slope", "ci_low"] > 0


def test_log_may_hold_lengths_and_human_scores(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"context_id": c, "candidate_id": k, "configuration": way, "human": int(rng.integers(1, 6)), "scale": "1-5",
         "length": 2**k, "score": k + 1 if way == "long" else int(rng.integers(1, 6))}
        for way in ("long", "fair") for c in range(12) for k in range(5)
    ]  # fmt: skip
    names = ("context_id", "candidate_id", "configuration", "human", "scale", "score")
    log = read(tmp_path, rows, mapping={**{name: name for name in names}, "words": "length"})
    found = bl.audit(log, only=["verbosity"], resampling=QUICK)
    slopes = found[found["metric"] == "verbosity_slope"].set_index("attribute")
    assert slopes.loc["overall (long)", "estimate"] == pytest.approx(1 / np.std([1, 2, 3, 4, 5] * 12, ddof=1))
    assert slopes.loc["overall (fair)", "ci_low"] < 0 < slopes.loc["overall (fair)", "ci_high"]


def test_human_scores_are_joined_from_a_data_set(tmp_path, graded):
    items = graded.candidates[["context_id", "candidate_id"]].head(12).to_dict("records")
    scores = read(tmp_path, [{**item, "attribute": "coherence", "score": 3, "scale": "1-5"} for item in items])
    found = bl.audit(scores, graded, ["human_agreement"], QUICK)
    assert (found["note"] != "").any()  # constant scores correlate with nothing
    pairs = [
        {"context_id": one["context_id"], "candidate_id": one["candidate_id"], "opponent_id": two["candidate_id"],
         "attribute": "coherence", "winner": one["candidate_id"]}
        for one in items for two in items if one["context_id"] == two["context_id"] and one != two
    ]  # fmt: skip
    found = bl.audit(read(tmp_path, pairs), graded, ["position"], QUICK)
    assert found["human_gap"].notna().any()
    stranger = read(
        tmp_path, [{**scores.iloc[0][["context_id"]], "candidate_id": "nobody", "score": 3, "scale": "1-5"}]
    )
    with pytest.raises(InputError, match="nobody"):
        bl.audit(stranger, graded)


def test_own_trials_run_their_own_probe(tmp_path, graded):
    data = graded.head(6)
    probe = bl.probes.Source(attributes=["coherence"])
    trials = bl.collect(probe, bl.SimulatedJudge(data), data, progress=False)
    trials.to_parquet(tmp_path / "t.parquet")
    found = bl.audit(bl.read_judgements(tmp_path / "t.parquet"), resampling=QUICK)
    own = bl.probes.Source(resampling=QUICK).estimate(trials)
    np.testing.assert_allclose(found.loc[found["probe"] == "source", "estimate"], own["estimate"])


def test_wrong_input_is_named(tmp_path):
    trials = read(tmp_path, pair_log(2))
    with pytest.raises(InputError, match="nonsense"):
        bl.audit(trials, only=["nonsense"])
    with pytest.raises(InputError, match="list"):
        bl.audit(trials, only="position")
    with pytest.raises(TrialsError, match="value"):
        bl.audit(trials.drop(columns="value"))


def test_audit_lists_all_probes_that_cannot_run(tmp_path):
    found = bl.audit(read(tmp_path, pair_log(2)), only=["source", "sweep"])
    assert found.empty
    assert list(found.attrs["not_run"]) == ["source", "sweep"]


def test_command_line(tmp_path, capsys):
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in pair_log()) + "{broken\n")
    out = tmp_path / "out.csv"
    assert main(["audit", str(file), "--map", "judge==me", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "24 judgements (mapping), 24 of them readable" in said
    assert "1 malformed lines" in said
    assert "log.jsonl, line 25: not JSON" in said
    assert "me (unknown, " in said
    assert " source, " in " ".join(said.rpartition("ask the judge (biaslab probe NAME --judge JUDGE)")[2].split())
    assert set(pd.read_csv(out)["probe"]) == {"position", "replies"}
    assert main(["audit", str(file), "--strict"]) == 2
    assert "line 25" in capsys.readouterr().err
    assert main(["audit", str(file), "--map", "judge"]) == 2
    assert main(["audit", str(tmp_path / "none")]) == 2
