"""Agreement with people in audits: its numbers, units, forms, and the lines of the page."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, MissingDataWarning
from biaslab.correct.labels import with_labels
from biaslab.stats.resample import Resampling

QUICK = Resampling(n=100)
WORDS = np.array(["fail", "pass"])


def pass_fail(n=160, seed=5, **columns):
    """Return verdicts of a judge that passes .45 of what people fail, with their labels, as a table of words."""
    rng = np.random.default_rng(seed)
    label = rng.random(n) < 0.6
    verdict = np.where(label, rng.random(n) < 0.92, rng.random(n) < 0.45)
    texts = [" ".join(["word"] * int(size)) + f" {place}" for place, size in enumerate(rng.integers(3, 40, n))]
    table = {"case_id": [f"case {place}" for place in range(n)], "answer": texts, **columns}
    return pd.DataFrame(table | {"judge_verdict": WORDS[verdict * 1], "human_verdict": WORDS[label * 1]})


def audited(table, mapping=None, **options):
    trials = bl.read_judgements(table, mapping=mapping)
    return bl.audit(trials, only=["agreement"], resampling=QUICK, **options)


def main_rows(found, **where):
    plain = found[found[["other_judge", "left_out", "group", "verdict", "label"]].isna().all(axis=1)]
    for name, value in ({"rater": "judge"} | where).items():
        plain = plain[plain[name] == value]
    return plain.set_index("metric")["estimate"]


def test_pass_and_fail_equal_the_table_of_counts():
    table = pass_fail()
    found = audited(table)
    counts = pd.crosstab(table["judge_verdict"], table["human_verdict"])
    rows = main_rows(found)
    assert rows["exact_agreement"] == pytest.approx(np.trace(counts) / 160)
    assert rows["true_positive_rate"] == pytest.approx(counts.loc["pass", "pass"] / counts["pass"].sum())
    assert rows["true_negative_rate"] == pytest.approx(counts.loc["fail", "fail"] / counts["fail"].sum())
    assert rows["precision_of_fail"] == pytest.approx(counts.loc["fail", "fail"] / counts.loc["fail"].sum())
    assert rows["leniency"] == pytest.approx((counts.loc["pass"].sum() - counts["pass"].sum()) / 160)
    assert rows["cohen_kappa"] == pytest.approx(cohens_kappa(counts.to_numpy(), return_results=False))
    cells = found[found["metric"] == "verdict_share"].set_index(["verdict", "label"])["n_trials"]
    assert cells["pass", "fail"] == counts.loc["pass", "fail"]
    assert cells.sum() == 160


def test_a_judgement_with_three_labels_counts_once():
    """Scores of 240 texts with three raters each were called 720 judgements."""
    rng = np.random.default_rng(3)
    quality = rng.integers(1, 6, 240)
    table = pd.DataFrame({"item": np.arange(240) // 3, "system": [f"s{n}" for n in np.arange(240) % 3],
                          "score": np.clip(quality + rng.integers(-1, 2, 240), 1, 5)})  # fmt: skip
    raters = [f"human_{name}" for name in "abc"]
    table = table.assign(**{name: np.clip(quality + rng.integers(-1, 2, 240), 1, 5) for name in raters})
    found = audited(table, {"context_id": "item", "candidate_id": "system", "score": "score", "ratings": raters,
                            "scale": "=1-5"})  # fmt: skip
    main = found[found["metric"].isin(["exact_agreement", "mean_score"]) & found["left_out"].isna()]
    counts = main.set_index(["metric", "rater", main["member"].fillna("")])["n_trials"]
    assert counts["exact_agreement", "judge", ""] == counts["mean_score", "judge", ""] == 240
    assert counts["mean_score", "people", ""] == 720
    assert counts["exact_agreement", "judge", "s0"] == 80
    shares = found[found["metric"] == "verdict_share"]
    fives = [shares.loc[shares[name] == "5", "n_trials"].item() for name in ("verdict", "label")]
    assert fives == [(table["score"] == 5).sum(), (table[raters] == 5).sum().sum()]


def test_planted_rates_lie_in_their_intervals():
    rows = audited(pass_fail(300)).set_index("metric")
    rows = rows[rows["group"].isna() & rows["verdict"].isna()]
    for metric, truth in (("true_positive_rate", 0.92), ("true_negative_rate", 0.55), ("leniency", 0.132)):
        assert rows.loc[metric, "ci_low"] <= truth <= rows.loc[metric, "ci_high"]


def test_part_of_the_items_with_labels_is_counted():
    table = pass_fail()
    table.loc[60:, "human_verdict"] = None
    found = audited(table)
    assert found.attrs["notes"]["agreement"] == "people labelled 60 of 160 items"
    assert main_rows(found)["exact_agreement"] == pytest.approx(
        (table["judge_verdict"] == table["human_verdict"])[:60].mean()
    )


def test_verdicts_that_cannot_be_read_are_dropped_and_counted():
    table = pass_fail()
    table.loc[:9, "judge_verdict"] = "the service did not answer this request in time"
    with pytest.warns(MissingDataWarning, match="10 of 160"):
        found = audited(table)
    lenient = found[(found["metric"] == "leniency") & found["group"].isna()].iloc[0]
    assert lenient["bound_low"] < lenient["ci_low"] - 0.05
    row = found[(found["metric"] == "exact_agreement") & found["group"].isna()].iloc[0]
    assert (row["n_trials"], row["n_dropped"]) == (150, 10)


def test_gap_of_passes_is_within_bounds_if_all_missing_are_fails():
    """Of what people pass, the judge refuses half in one group; were these fails, the gap would be a half."""
    label, language = np.arange(200) % 2 == 1, np.repeat(["de", "fr"], 100)
    verdict = np.where(label & (np.arange(200) < 100) & (np.arange(200) % 4 == 1), "?", WORDS[label * 1])
    table = pd.DataFrame({"case_id": range(200), "judge_verdict": verdict, "human_verdict": WORDS[label * 1]})
    trials = bl.read_judgements(table.assign(language=language), keep=["language"])
    with pytest.warns(MissingDataWarning, match="25 of 200"):
        found = bl.audit(trials, only=["agreement"], by=["language"], resampling=QUICK)
    [gap] = found[found["metric"] == "true_positive_rate_gap"].to_dict("records")
    assert (gap["member"], gap["estimate"]) == ("fr", 0.0)
    assert gap["bound_low"] == pytest.approx(gap["ci_low"])
    assert gap["bound_high"] == pytest.approx(gap["ci_high"] + 0.5)


def graded(n=150, people=1, seed=2):
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n)

    def scores(noise):
        return np.clip(np.round(3 + quality + noise * rng.normal(size=n)), 1, 5).astype(int)

    table = pd.DataFrame({"case_id": range(n), "judge_score": scores(0.6)})
    return table.assign(**{f"annotator_{place}": scores(0.5) for place in range(people)})


MAPPING = {"context_id": "case_id", "candidate_id": "=answer", "score": "judge_score", "scale": "=1-5"}


def test_scores_have_leniency_in_points_and_correlations_over_items():
    table = graded()
    found = audited(table, MAPPING | {"ratings": ["annotator_0"]})
    apart = table["judge_score"] - table["annotator_0"]
    rows = main_rows(found[found["level"].isna()])
    assert rows["mean_difference"] == pytest.approx(apart.mean())
    assert rows["agreement_within_1"] == pytest.approx((apart.abs() <= 1).mean())
    assert rows["limit_of_agreement_high"] == pytest.approx(apart.mean() + 1.959963984540054 * apart.std())
    of = found[found["metric"] == "correlation"].set_index(["level", "coefficient"])["estimate"]
    assert set(of.index.get_level_values("level")) == {"dataset"}
    assert of["dataset", "pearson"] == pytest.approx(table.corr().loc["judge_score", "annotator_0"])


def test_contexts_of_two_candidates_have_no_correlation_within():
    """Two candidates are in the same or in the other order: ±1 is no measure of agreement."""
    rng = np.random.default_rng(0)
    label = rng.integers(1, 6, 200)
    table = pd.DataFrame({"q": np.repeat(np.arange(100), 2), "s": ["x", "y"] * 100, "score": label, "human": label})
    table.loc[::5, "score"] = rng.integers(1, 6, 40)
    names = {"context_id": "q", "candidate_id": "s", "score": "score", "scale": "=1-5", "human": "human"}
    found = audited(table, names)
    assert "context" not in set(found["level"].dropna())
    same = (table["score"] == table["human"]).mean()
    assert main_rows(found[found["level"].isna()])["exact_agreement"] == pytest.approx(same)


@pytest.mark.slow
def test_people_are_compared_with_each_other_beside_the_judge():
    table = graded(people=3)
    found = audited(table, MAPPING | {"ratings": ["annotator_0", "annotator_1", "annotator_2"]})
    left = found[found["metric"] == "exact_agreement"].set_index(["left_out", "rater"])["estimate"]
    people = table.filter(like="annotator")
    same = [(people[one] == people[two]).mean() for one in people for two in people if one != two]
    assert left["each", "people"] == pytest.approx(np.mean(same))
    assert left["1", "people"] == pytest.approx(
        np.mean([(people["annotator_1"] == people[other]).mean() for other in ("annotator_0", "annotator_2")])
    )
    assert left["1", "judge"] == pytest.approx(
        np.mean([(table["judge_score"] == people[other]).mean() for other in ("annotator_0", "annotator_2")])
    )


def test_runs_of_one_judge_share_the_weight_of_an_item():
    table = pd.concat([pass_fail(60, run=0), pass_fail(60, run=1).head(30)])
    mapping = {"context_id": "case_id", "candidate_id": "answer", "score": "judge_verdict|pass->1,fail->0",
               "human": "human_verdict|pass->1,fail->0", "scale": "=0-1", "replicate": "run"}  # fmt: skip
    once = audited(table[table["run"] == 0], mapping)
    assert main_rows(audited(table, mapping))["cohen_kappa"] == pytest.approx(main_rows(once)["cohen_kappa"])


def test_scores_of_another_scale_are_correlated_and_not_subtracted():
    table = graded().assign(human=lambda frame: frame["annotator_0"] * 10)
    found = audited(table, MAPPING | {"human": "human", "human_scale": "=10-50"})
    assert set(found.loc[found["estimate"].notna(), "metric"]) == {"correlation"}
    assert "10-50" in found.loc[found["metric"] == "exact_agreement", "note"].item()


def test_groups_have_their_own_rates_and_one_test_each():
    table = pass_fail(200, model=["a", "b"] * 100, question=[f"What is {place}?" for place in range(200)])
    flip = (table["model"] == "b") & (np.arange(200) % 3 == 0)
    table.loc[flip, "judge_verdict"] = table.loc[flip, "human_verdict"].map({"pass": "fail", "fail": "pass"})
    found = audited(table)
    of = found[(found["group"] == "system") & (found["metric"] == "exact_agreement")].set_index("member")["estimate"]
    hit = (table["judge_verdict"] == table["human_verdict"]).groupby(table["model"]).mean()
    assert of["a"] == pytest.approx(hit["a"])
    gap = found[found["metric"].str.endswith("_gap") & (found["group"] == "system")].set_index("metric")
    assert list(gap.index) == ["true_positive_rate_gap", "true_negative_rate_gap"]
    passed = table["human_verdict"] == "pass"
    rate = (table["judge_verdict"] == "pass")[passed].groupby(table["model"]).mean()
    assert abs(gap.loc["true_positive_rate_gap", "estimate"]) == pytest.approx(abs(rate["a"] - rate["b"]))
    assert gap.loc["true_positive_rate_gap", "q_value"] < 0.05


def test_groups_that_people_pass_unequally_do_not_differ():
    """One judge for both groups, of which people pass .85 and .15: agreement differs, its two rates do not."""
    rng = np.random.default_rng(1)
    group = np.arange(600) % 2
    label = rng.random(600) < np.where(group, 0.85, 0.15)
    verdict = np.where(label, rng.random(600) < 0.9, rng.random(600) < 0.5)
    table = pd.DataFrame(
        {"case_id": range(600), "judge_verdict": WORDS[verdict * 1], "human_verdict": WORDS[label * 1]}
    )
    found = bl.audit(bl.read_judgements(table).assign(team=group), only=["agreement"], resampling=QUICK, by=["team"])
    rates = found[(found["group"] == "team") & (found["metric"] == "exact_agreement")]["estimate"]
    assert np.ptp(rates) > 0.15
    assert (found.loc[found["metric"].str.endswith("_gap"), "q_value"] > 0.05).all()


def test_a_column_to_split_by_must_be_kept():
    with pytest.raises(InputError, match="language"):
        audited(pass_fail(), by=["language"])


def test_columns_named_by_the_user_split_agreement():
    trials = bl.read_judgements(pass_fail(200))
    found = bl.audit(trials.assign(language=["en", "fr"] * 100), only=["agreement"], resampling=QUICK, by=["language"])
    assert set(found.loc[found["group"] == "language", "member"]) == {"en", "fr"}


@pytest.mark.slow
def test_difference_of_two_judges_is_over_the_items_of_both():
    one, two = pass_fail(seed=1), pass_fail(seed=1)
    two["judge_verdict"] = np.roll(two["judge_verdict"], 7)
    table = pd.concat([one.assign(judge="sharp"), two.iloc[20:].assign(judge="blunt")])
    found = audited(table)
    row = found[(found["metric"] == "exact_agreement_difference")].iloc[0]
    hits = [(each["judge_verdict"] == each["human_verdict"])[20:].mean() for each in (one, two)]
    assert (row["judge"], row["other_judge"]) == ("sharp", "blunt")
    assert row["estimate"] == pytest.approx(hits[0] - hits[1])
    assert row["q_value"] < 0.05


def test_items_that_one_judge_refuses_bound_the_difference():
    """Two judges answer alike, but for a tenth of the items, which one of them refuses."""
    label, right = np.arange(200) % 2 == 1, np.arange(200) % 5 > 0
    verdict = WORDS[(label == right) * 1]
    table = pd.DataFrame({"case_id": range(200), "judge_verdict": verdict, "human_verdict": WORDS[label * 1]})
    refused = table.assign(judge="b", judge_verdict=np.where(np.arange(200) % 10 == 0, "?", verdict))
    with pytest.warns(MissingDataWarning, match="20 of 200"):
        found = audited(pd.concat([table.assign(judge="a"), refused])).set_index("metric")
    gap = found.loc["exact_agreement_difference"]
    assert (gap["estimate"], gap["n_dropped"]) == (0.0, 20)
    assert gap["bound_high"] == pytest.approx(0.9 * gap["ci_high"] + 0.1)
    assert "unbounded" in found.loc["cohen_kappa_difference", "notes"]


@pytest.mark.slow
def test_two_judges_are_compared_with_each_other():
    one, two = pass_fail(seed=1), pass_fail(seed=1)
    two["judge_verdict"] = np.roll(two["judge_verdict"], 7)
    found = audited(pd.concat([one.assign(judge="sharp"), two.iloc[20:].assign(judge="blunt")]))
    rows = found[found["other_judge"].notna()].set_index("metric")
    pairs = pd.crosstab(one["judge_verdict"][20:], two["judge_verdict"][20:]).to_numpy()
    assert rows.loc["exact_agreement", "n_trials"] == 140
    assert rows.loc["exact_agreement", "estimate"] == pytest.approx(np.trace(pairs) / 140)
    assert rows.loc["cohen_kappa", "estimate"] == pytest.approx(cohens_kappa(pairs, return_results=False))


def test_ties_of_pairs_are_a_third_verdict():
    table = pd.DataFrame({
        "context_id": range(40), "candidate_id": "x", "opponent_id": "y",
        "winner": ["x", "y", "tie", "x"] * 10, "preference": ["x", "y", "x", "y"] * 10,
    })  # fmt: skip
    rows = main_rows(audited(table))
    assert rows["exact_agreement"] == pytest.approx(0.5)
    assert rows["agreement_without_ties"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_labels_of_a_file_of_their_own_are_those_of_the_log(tmp_path, capsys):
    table = pass_fail()
    table.drop(columns="human_verdict").to_csv(tmp_path / "verdicts.csv", index=False)
    part = table[["case_id", "human_verdict"]].sample(70, random_state=1)
    part.to_csv(tmp_path / "labels.csv", index=False)
    command = ["audit", str(tmp_path / "verdicts.csv"), "--labels", str(tmp_path / "labels.csv")]
    assert main([*command, "--only", "agreement", "--out", str(tmp_path / "found.csv")]) == 0
    assert "people labelled 70 of 160 items" in capsys.readouterr().out
    table.loc[~table["case_id"].isin(part["case_id"]), "human_verdict"] = None
    found = main_rows(pd.read_csv(tmp_path / "found.csv"))
    assert found["cohen_kappa"] == pytest.approx(main_rows(audited(table))["cohen_kappa"])


@pytest.mark.slow
def test_several_labels_of_a_file_are_those_of_several_people():
    table = graded(people=2)
    people = table.melt("case_id", ["annotator_0", "annotator_1"], "person", "score")
    trials = bl.read_judgements(table.drop(columns=["annotator_0", "annotator_1"]), mapping=MAPPING)
    labels = people.rename(columns={"case_id": "context_id"}).assign(candidate_id="answer")
    found = bl.audit(with_labels(trials, labels), only=["agreement"], resampling=QUICK)
    own = audited(table, MAPPING | {"ratings": ["annotator_0", "annotator_1"]})
    pd.testing.assert_series_equal(main_rows(found), main_rows(own))
    pd.testing.assert_series_equal(*(each.loc[each["left_out"] == "each", "estimate"] for each in (found, own)))


def test_judge_that_always_passes_has_a_leniency():
    found = audited(pass_fail().assign(judge_verdict="pass"))
    rows = main_rows(found)
    assert rows["true_positive_rate"] == 1
    assert rows["true_negative_rate"] == 0
    assert rows["leniency"] == pytest.approx((pass_fail()["human_verdict"] == "fail").mean())


def test_page_without_any_estimate_names_the_measure():
    found = audited(pass_fail().drop(columns="human_verdict"))
    assert found.empty
    assert "agreement" in bl.report.page(found)


@pytest.mark.slow
def test_half_points_can_be_exactly_equal():
    table = graded().assign(judge_score=lambda frame: (frame["judge_score"] + 0.5 * (frame.index % 2)).clip(upper=5))
    rows = main_rows(audited(table, MAPPING | {"ratings": ["annotator_0"]}).query("level.isna()"))
    assert rows["exact_agreement"] == pytest.approx((table["judge_score"] == table["annotator_0"]).mean())


def test_page_of_pass_and_fail_fits_a_screen():
    page = bl.report.page(bl.audit(bl.read_judgements(pass_fail(model=["a", "b"] * 80))))
    lines = page.splitlines()
    assert len(lines) <= 40
    start = next(place for place, line in enumerate(lines) if line.startswith("  agreement with people"))
    answers = " ".join(lines[start : start + 10])
    assert all(word in answers for word in ("κ", "true-positive rate", "true-negative rate", "leniency", "by system"))


@pytest.mark.slow
def test_page_of_several_judges_begins_with_their_table():
    table = pd.concat([pass_fail(seed=1).assign(judge="sharp"), pass_fail(seed=1).assign(judge="same")])
    lines = bl.report.page(bl.audit(bl.read_judgements(table))).splitlines()
    start = lines.index("agreement with people:")
    assert [line.split()[0] for line in lines[start + 2 : start + 4]] == ["sharp", "same"]


@pytest.mark.slow
def test_whatever_doctor_promises_audit_estimates():
    trials = bl.read_judgements(pass_fail(model=["a", "b"] * 80))
    promised = bl.doctor(trials).biases
    promised = promised[promised["estimable"]]
    found = bl.audit(trials, resampling=QUICK)
    known = set(found.loc[found["estimate"].notna(), "metric"])
    assert len(promised)
    assert set(promised["metric"]) <= known


@pytest.mark.slow
def test_arena_judge_equals_a_count_of_the_file(shared_data):
    """Claude against Gemini, judged by GPT-5.2 and people: verdicts counted here from the records."""
    file = shared_data / "recorded" / "arena_gpt52" / "claude-opus-4-20250514_vs_gemini-2.5-pro.jsonl.gz"
    trials = bl.read_judgements(file)
    found = bl.audit(trials, only=["agreement"], resampling=QUICK)
    known = trials[trials["human_gap"].notna() & trials["value"].notna()]
    for judge, own in known.groupby("judge"):
        judged, labelled = np.sign(own["value"] - 0.5), np.sign(own["human_gap"])
        table = pd.crosstab(judged, labelled).reindex(index=[-1, 0, 1], columns=[-1, 0, 1], fill_value=0).to_numpy()
        occurs = table.sum(axis=0) + table.sum(axis=1) > 0
        table = table[np.ix_(occurs, occurs)]
        rows = main_rows(found, judge=judge)
        assert rows["exact_agreement"] == pytest.approx(np.trace(table) / table.sum(), abs=1e-9)
        assert rows["cohen_kappa"] == pytest.approx(cohens_kappa(table, return_results=False), abs=1e-9)
    assert len(known)


@pytest.mark.slow
@pytest.mark.parametrize("judge", ["gpt-4o", "mistral-v03"])
def test_alt_test_judges_equal_a_count_of_the_files(shared_data, judge):
    """Framing: each judgement beside each worker, an item having weight 1, counted from the files themselves."""
    folder = shared_data / "recorded" / "alt_test" / "framing"
    people, judges = (
        json.loads(gzip.decompress((folder / f"{who}_annotations.json.gz").read_bytes())) for who in ("human", "llm")
    )
    rows = [
        (item, judges[judge][item] == "yes", label == "yes")
        for labels in people.values()
        for item, label in labels.items()
        if judges[judge].get(item) in ("yes", "no") and label in ("yes", "no")
    ]
    frame = pd.DataFrame(rows, columns=["item", "judged", "labelled"])
    weight = 1 / frame.groupby("item")["item"].transform("size")
    ratings = frame.groupby("item")["labelled"].agg(lambda labels: " ".join(str(int(label)) for label in labels))
    table = pd.DataFrame({
        "item": ratings.index, "ratings": ratings, "score": frame.groupby("item")["judged"].first() * 1,
    })  # fmt: skip
    found = main_rows(audited(table, {"context_id": "item", "candidate_id": "=x", "score": "score", "scale": "=0-1",
                                      "ratings": "ratings"}))  # fmt: skip
    of = {(one, two): weight[(frame["judged"] == one) & (frame["labelled"] == two)].sum()
          for one in (False, True) for two in (False, True)}  # fmt: skip
    shares = np.array([[of[one, two] for two in (False, True)] for one in (False, True)]) / weight.sum()
    chance = shares.sum(axis=0) @ shares.sum(axis=1)
    assert found["exact_agreement"] == pytest.approx(np.trace(shares), abs=1e-9)
    assert found["true_positive_rate"] == pytest.approx(shares[1, 1] / shares[:, 1].sum(), abs=1e-9)
    assert found["cohen_kappa"] == pytest.approx((np.trace(shares) - chance) / (1 - chance), abs=1e-9)


def test_audit_reads_trials_whose_templates_are_numbers():
    data = bl.load_dataset("graded", limit=8)
    probe = bl.probes.Position(["coherence"], [1], n_pairs=2)
    estimates = bl.audit(bl.collect(probe, bl.SimulatedJudge(data), data, progress=False))
    assert "agreement" in estimates["probe"].unique()
