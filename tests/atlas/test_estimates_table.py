"""The table of estimates in the package has the figures that stand beside the raw data, worked out there by others."""

import shutil

import numpy as np
import pandas as pd
import pytest
from beside_data import LLMBAR
from typer.testing import CliRunner

import biaslab as bl
from biaslab.atlas.contribution import FEWEST_CONTEXTS
from biaslab.atlas.sources import SOURCES, find_source
from biaslab.cli.audit import atlas_app
from biaslab.core.errors import InputError
from biaslab.logs.readers.trials import trials_of
from biaslab.stats.frame import LEADING, TRAILING
from tools.atlas import estimating

#: What estimators say beside an estimate.
NOTES = {
    "contexts differ in size and count as # of equal size",
    *(
        f"{range_}, depending on the reliability of {scores} scores"
        for scores in ("single", "the judge's")
        for range_ in ("# to #", "-# to #", "-# to -#")
    ),
    "# of #,# judgements are cut off at the token limit",
    "compare with human judgements of the same texts",
    "expected for a fair judge: #",
    "few contexts differ: a test needs # that do, to one side",
    "holds if error shared by annotators is less than # % of the variance they agree on",
    "holds if single human ratings have a reliability above #",
    "if the order was random, which the log cannot show",
    "a smooth distribution like that of the other scores has an index of #",
    "missing judgements depend on the order (p = #)",
    "missing judgements depend on the template (p = #)",
    "missing judgements depend on whether the better candidate is shown first (p = #)",
    "negative estimate set to #",
    "no variation between contexts",
    "not a smooth statistic: no test, and the coverage of the interval is not established",
    "nothing bounds the effect of what is missing",
    "own texts may be better or worse",
    "resampling noise cannot be separated and is part of item × template",
    "resampling noise cannot be separated and is part of pair × template",
    "the coverage of the interval is not established",
    "tipping point: missing scores # points off their predicted values",
}


def row(source, metric, **where):
    """The one row; a part that is not named is none."""
    found = bl.atlas.estimates(metric=metric, source=source)
    for column, wanted in ({"human_gap": None, "subset": None, "system": None} | where).items():
        found = found[found[column].isna() if wanted is None else found[column] == wanted]
    assert len(found) == 1, found
    return found.iloc[0]


def value(source, metric, **where):
    return row(source, metric, **where)["estimate"]


@pytest.mark.parametrize(
    ("attribute", "interval", "ordinal", "nominal"),
    [("coherence", 0.5756, 0.5744, 0.1607), ("consistency", 0.8989, 0.8146, 0.5363)],
)
def test_alpha_of_the_experts_of_summeval(attribute, interval, ordinal, nominal):
    for level, alpha in (("interval", interval), ("ordinal", ordinal), ("nominal", nominal)):
        found = row("summeval_experts", "human_alpha", attribute=attribute, level=level)
        assert found["estimate"] == pytest.approx(alpha, abs=5e-5)
        assert (found["judge"], found["n_contexts"], found["n_trials"]) == ("humans", 100, 3600)


@pytest.mark.parametrize(("attribute", "rho", "contexts"), [("coherence", 0.4574, 98), ("consistency", 0.6083, 78)])
def test_gpt4_agrees_with_experts(attribute, rho, contexts):
    """The figures beside the data read "2/5" and "4.5/5", once each, as 5: .4509 and .6029 are ours."""
    where = {"judge": "gpt-4-0314", "attribute": attribute, "level": "context", "coefficient": "spearman"}
    found = row("summeval_judges", "correlation", configuration="rts", **where)
    assert found["estimate"] == pytest.approx(rho, abs=7e-3)
    assert found["n_contexts"] == contexts


@pytest.mark.parametrize(("attribute", "first"), [("coherence", 0.5213), ("consistency", 0.4024)])
def test_gpt35_on_pairs_of_summeval(attribute, first):
    assert value("summeval_pairs", "first_position_rate", attribute=attribute) == pytest.approx(first, abs=5e-5)
    assert value("summeval_pairs", "order_consistency", attribute=attribute) == pytest.approx(0.6436, abs=5e-5)


@pytest.mark.parametrize(("attribute", "shift"), [("coherence", 0.3608), ("engagingness", 0.1827)])
def test_scores_before_reasons_are_higher(attribute, shift):
    """Beside the data "Rating: 2.5" is read as 2, which is what .0003 and .0014 are."""
    found = row("topical_chat_judges", "reason_first_shift", attribute=attribute, form="no auto-CoT")
    assert -found["estimate"] == pytest.approx(shift, abs=1.5e-3)
    assert found["n_contexts"] == 60


@pytest.mark.parametrize(("judge", "template", "first", "consistent"), LLMBAR)
def test_llmbar(judge, template, first, consistent):
    where = {"judge": judge, "template": template, "dataset": "llmbar", "probe": "position"}
    assert value("llmbar", "first_position_rate", **where) == pytest.approx(first, abs=5e-5)
    found = row("llmbar", "order_consistency", **where)
    assert found["estimate"] == pytest.approx(consistent, abs=5e-5)
    assert found["n_contexts"] == 419


@pytest.mark.parametrize(
    ("judge", "first", "consistent"), [("gpt-3.5-turbo-1106", 0.4746, 0.6952), ("gpt-4-0613", 0.4908, 0.8150)]
)
def test_mt_bench(judge, first, consistent):
    """Of GPT-4 one reply gives two verdicts, one a question; the figures beside the data take the last.

    Of GPT-3.5 they pool all replies (.4738); the atlas has pairs read in both orders.
    """
    where = {"judge": judge, "dataset": "mt_bench"}
    assert value("mt_bench", "first_position_rate", **where) == pytest.approx(first, abs=2e-4)
    assert value("mt_bench", "order_consistency", **where) == pytest.approx(consistent, abs=4e-4)


@pytest.mark.parametrize(
    ("judge", "own", "flipped", "first"),
    [
        ("gpt-4", 0.7050, 0.2278, 0.4416),
        ("gpt-3.5-turbo", 0.5816, 0.5777, 0.2251),
        ("llama-2-7b-chat", 0.5145, 0.7548, 0.8689),
    ],
)
def test_own_summaries_of_xsum(judge, own, flipped, first):
    """Llama-2's .5108 beside the data is what the file calls so: answers to another question, whose the text is."""
    where = {"judge": judge, "template": "recorded"}
    assert value("self_recognition", "own_win_rate", **where) == pytest.approx(own, abs=5e-5)
    assert 1 - value("self_recognition", "order_consistency", **where) == pytest.approx(flipped, abs=2e-3)
    assert value("self_recognition", "first_position_rate", **where) == pytest.approx(first, abs=2e-3)


@pytest.mark.parametrize(
    ("template", "own"), [("authors named rightly", 0.7325), ("authors named wrongly", 1 - 0.3157)]
)
def test_own_summaries_under_names(template, own):
    """.3157 of GPT-4's verdicts go to what is wrongly *named* its own: the other text."""
    found = value("self_recognition", "own_win_rate", judge="gpt-4", template=template)
    assert found == pytest.approx(own, abs=5e-5)


def test_pandalm_and_the_null_model():
    where = {"judge": "gpt-3.5-turbo", "probe": "replies"}
    assert value("pandalm", "readable_rate", **where) == pytest.approx(974 / 999, abs=5e-7)
    assert value("pandalm", "first_position_rate", **where) == pytest.approx(460 / 936, abs=5e-7)
    assert value("null_model", "win_rate", system="null_model") == pytest.approx(0.76920, abs=5e-6)


def test_estimates_cover_every_source_in_the_usual_columns():
    found = bl.atlas.estimates()
    assert list(found["source"].unique()) == [source.name for source in SOURCES]
    assert {*LEADING, "estimate", "ci_low", "ci_high", "n_contexts", "repository", "version"} <= set(found.columns)
    assert found["estimate"].notna().all()
    assert (found["n_contexts"] >= FEWEST_CONTEXTS).all()
    conditions = [name for name in found if name not in (*TRAILING, "repository", "version")]
    assert not found.duplicated([name for name in conditions if name not in ("probe", "source")]).any(), "one cell"
    assert (found["ci_low"] <= found["estimate"] + 1e-6).all(), "each has an interval"
    assert (found["ci_high"] >= found["estimate"] - 1e-6).all()
    assert not (found["attribute"].str.contains("(", regex=False)).any()
    assert {"expert-1", "annotator-3", "humans", "gpt-4-0613", "claude-3-opus-20240229"} <= set(found["judge"])


def test_estimates_hold_numbers_and_short_words_only():
    """But for what estimators say of their method, and what to know of an estimate, where numbers vary."""
    found = bl.atlas.estimates()
    texts = found.select_dtypes(include=["str", "object"]).drop(columns=["note", "notes", "method", "repository"])
    longest = {name: found[name].dropna().astype(str).str.len().max() for name in texts}
    assert max(longest.values()) <= 40, longest
    assert found["repository"].str.fullmatch(r"[\w-]+/[\w-]+").all()
    parts = found["note"].str.replace(r"\d[\d.e-]*", "#", regex=True).str.split("; ").explode()
    assert set(parts) - {""} <= NOTES
    assert found["method"].nunique() < 45


@pytest.mark.parametrize("column", ["probe", "metric", "judge", "source"])
def test_chooses_by_names(column):
    found = bl.atlas.estimates()
    names = found[column].unique().tolist()
    one, two = bl.atlas.estimates(**{column: names[0]}), bl.atlas.estimates(**{column: names[:2]})
    assert set(one[column]) == {names[0]}
    assert len(two) == np.isin(found[column], names[:2]).sum()
    for wrong in ("gpt-9", ["gpt-9"], []):
        with pytest.raises(InputError, match=f"{column} is"):
            bl.atlas.estimates(**{column: wrong})


def test_changing_a_frame_does_not_change_the_next():
    changed = bl.atlas.estimates()
    changed["estimate"] = 0.0
    assert bl.atlas.estimates()["estimate"].abs().max() > 0


def test_verdicts_and_figures_take_the_rows():
    rows = bl.atlas.estimates(probe="position", metric="first_position_rate", source="devbench")
    said = bl.report.verdicts(rows[rows["dataset"] == "devbench"])
    assert any("claude-3-haiku-20240307" in str(line) for line in said)
    ax = bl.plots.intervals(rows[rows["dataset"] == "devbench"], by="judge", hue=None)
    assert isinstance(rows, pd.DataFrame)
    assert len(ax.get_yticklabels()) == 5


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    first, second = (frame[told].fillna({"note": "", "notes": "", "method": ""}) for frame in (found, there))
    pd.testing.assert_frame_equal(first, second, check_dtype=False, rtol=2e-5, atol=1e-6)


def test_an_unknown_source_or_a_missing_file_writes_nothing(tmp_path):
    target = tmp_path / "estimates.csv"
    for names in (["mt_bensch"], ["null_model"]):
        with pytest.raises(InputError):
            estimating.build(tmp_path, names, target)
    assert not target.exists()
    before = estimating.FILE.read_bytes()
    ran = CliRunner().invoke(atlas_app, ["build", str(tmp_path), "--estimates", "--source", "null_model"])
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
