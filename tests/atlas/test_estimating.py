"""Estimates of recorded judges are those of audits, made again from rows or raw files to the same digits."""

import shutil

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import biaslab as bl
from biaslab.atlas.sources import find_source
from biaslab.cli.atlas import app
from biaslab.core.errors import InputError
from biaslab.logs.readers.log_columns import trials_of
from tools.atlas import estimating

QUICK = bl.Resampling(n=100)


def pairs(n, subset, judge="j", won="first"):
    """Both orders of one pair a context; the winner is the first shown, or x."""
    rows = [(f"{subset}/{k}", *sides) for k in range(n) for sides in (("x", "y"), ("y", "x"))]
    frame = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id"])
    value = 1.0 if won == "first" else (frame["candidate_id"] == "x").astype(float)
    gap = np.where(frame["candidate_id"] == "x", 1.0, -1.0)
    known = {"judge": judge, "dataset": "d", "subset": subset, "status": "ok", "value": value, "human_gap": gap}
    return trials_of(dict(frame.assign(**known).items()), frame.index)


def scores(contexts, attributes, configurations, judge="j", **more):
    rng = np.random.default_rng(0)
    rows = [
        (f"c{c}", f"k{k}", a, w)
        for c in range(contexts)
        for k in range(4)
        for a in attributes
        for w in configurations
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["context_id", "candidate_id", "attribute", "configuration"])
    frame["value"] = rng.integers(1, 6, len(frame)).astype(float)
    frame["human"] = frame["value"].clip(2, 4)
    known = {"judge": judge, "dataset": "d", "scale": "1-5", "human_scale": "1-5", "status": "ok"} | more
    return trials_of(dict(frame.assign(**known).items()), frame.index)


def made(trials, perplexities=None):
    return estimating.estimate_source(trials, find_source("llmbar"), perplexities, QUICK)


def test_each_subset_has_its_own_rows():
    whole = pd.concat([pairs(10, "easy", won="x"), pairs(30, "hard")], ignore_index=True)
    found = made(whole).query("probe == 'position' and human_gap.isna()")
    rate = found[found["metric"] == "order_consistency"].set_index("subset")["estimate"]
    assert (rate["easy"], rate["hard"], rate[rate.index.isna()].item()) == (1.0, 0.0, 0.25)
    alone = made(pairs(10, "easy"))
    assert alone["subset"].isna().all() if "subset" in alone else True


@pytest.mark.slow
def test_configurations_are_a_condition_and_no_part_of_a_name():
    found = made(scores(10, ["coherence", "fluency"], ["rts", "mcq"]))
    use = found[(found["metric"] == "scale_use") & (found["answer"] == "single")]
    assert use[["attribute", "configuration"]].to_numpy().tolist() == [
        ["coherence", "rts"], ["coherence", "mcq"], ["fluency", "rts"], ["fluency", "mcq"],
    ]  # fmt: skip


def test_the_one_way_of_asking_is_named():
    found = made(scores(10, ["coherence"], ["rts"]))
    assert set(found["configuration"]) == {"rts"}
    assert "configuration" not in made(pairs(10, "easy")).query("probe == 'position'").dropna(axis="columns", how="all")


@pytest.mark.slow
def test_human_alpha_excludes_the_compared_experts():
    parts = [scores(10, ["a"], ["recorded"], f"expert-{n}", ratings="3 4", annotators="0 1") for n in (1, 2, 3)]
    found = made(pd.concat(parts, ignore_index=True))
    alpha = found[found["metric"] == "human_alpha"]
    assert set(alpha["judge"]) == {"humans"}
    assert alpha["estimate"].tolist() == pytest.approx([1.0] * 3)
    assert {"expert-1", "expert-2", "expert-3"} <= set(found["judge"])


@pytest.mark.slow
def test_familiarity_is_estimated_where_perplexity_is_known():
    trials = scores(12, ["a"], ["rts", "mcq"])
    texts = trials[["dataset", "context_id", "candidate_id"]].drop_duplicates(ignore_index=True)
    known = texts.assign(log_perplexity=np.random.default_rng(1).normal(3, 1, len(texts)))
    found = made(trials, known)
    slopes = found[found["metric"] == "familiarity_slope"]
    assert slopes[["configuration", "likelihood_judge"]].to_numpy().tolist() == [
        ["rts", "smollm2-135m"], ["mcq", "smollm2-135m"],
    ]  # fmt: skip
    assert found.equals(made(trials, known))
    assert "familiarity" not in set(made(trials, known.head(20))["probe"])
    assert made(trials).equals(made(trials, known.head(20)))


@pytest.mark.slow
def test_undefined_and_small_cells_have_no_row():
    assert made(pairs(10, "easy"))["estimate"].notna().all()
    few = pd.concat([pairs(7, "easy"), pairs(10, "hard")], ignore_index=True)
    assert "easy" not in set(made(few)["subset"])


@pytest.mark.parametrize("name", ["null_model", "prometheus"])
def test_carried_rows_give_the_table_again(name):
    found = estimating.estimate_source(bl.atlas.trials(name), find_source(name))
    same_as_table(found, name)


def same_as_table(found, name):
    there = bl.atlas.estimates(source=name).dropna(axis="columns", how="all")
    told = [column for column in there if column != "version"]
    assert set(told) <= set(found)
    first, second = (frame[told].fillna({"note": "", "method": ""}) for frame in (found, there))
    pd.testing.assert_frame_equal(first, second, check_dtype=False, rtol=2e-5, atol=1e-6)


def test_an_unknown_source_or_a_missing_file_writes_nothing(tmp_path):
    target = tmp_path / "estimates.csv"
    for names in (["mt_bensch"], ["null_model"]):
        with pytest.raises(InputError):
            estimating.build(tmp_path, names, target)
    assert not target.exists()
    before = estimating.FILE.read_bytes()
    ran = CliRunner().invoke(app, ["build", str(tmp_path), "--estimates", "--source", "null_model"])
    assert isinstance(ran.exception, InputError)
    assert estimating.FILE.read_bytes() == before


@pytest.mark.slow
def test_some_sources_are_made_again_from_raw_files(shared_data, tmp_path):
    """And the rows of all others stay as they are."""
    target = tmp_path / "estimates.csv"
    shutil.copy(estimating.FILE, target)
    names = ["null_model", "pandalm", "prometheus", "summeval_pairs", "alpaca_eval"]
    estimating.build(shared_data, names, target)
    found = pd.read_csv(target, low_memory=False)
    assert list(found["source"].unique()) == list(bl.atlas.estimates()["source"].unique())
    for name in ("devbench", *names):
        same_as_table(found[found["source"] == name].reset_index(drop=True), name)
