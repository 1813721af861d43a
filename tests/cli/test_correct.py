"""``biaslab correct``, the corrected number at the end of an audit, ``biaslab replace`` and ``biaslab joint``."""

import gzip
import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import InputError, TrialsError
from biaslab.correct.systems import correct_systems, corrected_line, corrected_overall

RATES = {"new": 0.7, "old": 0.5}
CELLS = ["correction", "metric", "system"]


def verdicts(contexts=400, labelled=60):
    """One answer a question by one of two systems; the judge passes .9 of what people pass, .35 of what they fail."""
    rng = np.random.default_rng(5)
    model = np.where(np.arange(contexts) % 2 == 0, "new", "old")
    human = rng.random(contexts) < np.where(model == "new", RATES["new"], RATES["old"])
    judge = np.where(human, rng.random(contexts) < 0.9, rng.random(contexts) < 0.35)
    part = np.isin(np.arange(contexts), rng.choice(contexts, labelled, replace=False))
    frame = pd.DataFrame({"case_id": [f"case-{n}" for n in range(contexts)], "model": model})
    frame["answer"] = [f"an answer with number {n}" for n in range(contexts)]
    frame["judge_verdict"], human = (np.where(passed, "pass", "fail") for passed in (judge, human))
    return frame.assign(human_verdict=np.where(part, human, ""))


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log with people's verdicts on 60 of 400 rows."""
    monkeypatch.chdir(tmp_path)
    frame = verdicts()
    frame.to_csv("part.csv", index=False)
    frame.drop(columns="human_verdict").to_csv("log.csv", index=False)
    return frame


def estimates(*words):
    assert main(["correct", *map(str, words), "--out", "found.csv"]) == 0
    names = {"system": str, "other": str}
    return pd.read_csv("found.csv", keep_default_na=False, na_values=[""], dtype=names).fillna(dict.fromkeys(names, ""))


@pytest.fixture(scope="module")
def corrected(tmp_path_factory):
    """The estimates from people's verdicts that the log holds itself."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("log"))
        verdicts().to_csv("part.csv", index=False)
        return estimates("part.csv")


def value(found, correction, metric, system=""):
    [only] = found[(found[CELLS] == [correction, metric, system]).all(axis=1)].to_dict("records")
    return only


def test_labels_in_the_log_correct_each_system(log, capsys):
    found = estimates("part.csv")
    for system, truth in RATES.items():
        row = value(found, "ppi", "pass_rate", system)
        assert row["ci_low"] <= truth <= row["ci_high"]
        judge = (log.loc[log["model"] == system, "judge_verdict"] == "pass").mean()
        assert value(found, "judge", "pass_rate", system)["estimate"] == pytest.approx(judge)
        labelled = log[(log["model"] == system) & (log["human_verdict"] != "")]
        assert row["n_labelled"] == len(labelled)
        passed = labelled["human_verdict"] == "pass"
        for metric, among in (("true_positive_rate", passed), ("true_negative_rate", ~passed)):
            right = (labelled["judge_verdict"] == labelled["human_verdict"])[among]
            assert value(found, "rogan_gladen", metric, system)["estimate"] == pytest.approx(right.mean())
    shown = capsys.readouterr().out
    assert shown.index("400 judgements") < shown.index("people labelled 29 of 200") < shown.index("plan-labels")


def test_difference_of_systems_without_common_context(log, corrected):
    found = corrected
    row = value(found, "ppi", "pass_rate_difference", "new")
    new, old = (value(found, "ppi", "pass_rate", system) for system in ("new", "old"))
    assert row["other"] == "old"
    assert row["estimate"] == pytest.approx(new["estimate"] - old["estimate"])
    assert row["se"] == pytest.approx(np.hypot(new["se"], old["se"]))
    assert row["p_value"] == row["q_value"]
    ranks = [value(found, "ppi", "rank", system) for system in ("new", "old")]
    assert [(row["estimate"], row["ci_low"], row["ci_high"]) for row in ranks] == [(1, 1, 2), (2, 1, 2)]


def labels_of(log, form):
    part = log[log["human_verdict"] != ""]
    if form == "rows of the log":
        return part.drop(columns="judge_verdict")
    if form == "only ids":
        return part[["case_id", "human_verdict"]].rename(columns={"human_verdict": "human_label"})
    if form == "verdicts in the judge's column":
        return part.drop(columns="judge_verdict").rename(columns={"human_verdict": "judge_verdict"})
    score = (part["human_verdict"] == "pass").astype(int)
    table = pd.DataFrame({"context_id": part["case_id"], "candidate_id": part["model"], "score": score})
    return table.assign(attribute="overall")


@pytest.mark.parametrize("form", ["rows of the log", "only ids", "label table"])
def test_each_form_of_labels_equals_labels_in_the_log(log, corrected, capsys, form):
    labels_of(log, form).to_csv("labels.csv", index=False)
    found = estimates("log.csv", "--labels", "labels.csv")
    assert "labels: 60 of items that were judged, 0 of others" in capsys.readouterr().out
    pd.testing.assert_frame_equal(found, corrected)


def test_verdicts_are_labels_only_if_mapped_to_people(log, corrected, capsys):
    labels_of(log, "verdicts in the judge's column").to_csv("labels.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "labels.csv"]) == 2
    assert "--map person==people" in capsys.readouterr().err
    found = estimates("log.csv", "--labels", "labels.csv", "--map", "person==people")
    pd.testing.assert_frame_equal(found, corrected)
    twice = pd.read_csv("labels.csv")
    other = twice.assign(judge_verdict=twice["judge_verdict"].map({"pass": "fail", "fail": "pass"}))
    pd.concat([twice, other]).to_csv("labels.csv", index=False)
    found = estimates("log.csv", "--labels", "labels.csv", "--map", "person==people")
    assert value(found, "human", "pass_rate", "new")["estimate"] == pytest.approx(0.5)


def test_column_named_label_counts_as_people(log, corrected):
    labels = labels_of(log, "only ids")
    labels.rename(columns={"human_label": "label"}).to_csv("labels.csv", index=False)
    pd.testing.assert_frame_equal(estimates("log.csv", "--labels", "labels.csv"), corrected)
    labels.rename(columns={"human_label": "llm_label"}).to_csv("labels.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "labels.csv"]) == 2


@pytest.mark.slow
def test_labels_join_texts_by_context_only_if_unique(log):
    plain = bl.read_judgements(log.drop(columns=["model", "human_verdict"]))
    labels = labels_of(log, "only ids")
    found = correct_systems(plain, labels)
    assert (found.matched, found.unmatched) == (60, 0)
    assert value(found.estimates, "ppi", "pass_rate")["n_labelled"] == 60
    both = pd.concat([plain, plain.assign(candidate_id="another answer", value=1.0)])
    with pytest.raises(TrialsError, match=r"context case-\d+ has several candidates"):
        correct_systems(both, labels)


@pytest.mark.slow
def test_labels_of_other_items_are_counted_or_refused(log, capsys):
    labels = labels_of(log, "rows of the log")
    other = labels.assign(case_id="x" + labels["case_id"])
    pd.concat([labels, other.head(5)]).to_csv("some.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "some.csv"]) == 0
    assert "60 of items that were judged, 5 of others" in capsys.readouterr().out
    other.to_csv("none.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "none.csv"]) == 2
    refused = capsys.readouterr().err
    for words in ("context_id xcase-", "context_id case-0", "candidate_id new"):
        assert words in refused
    assert main(["correct", "log.csv"]) == 2
    assert "--labels FILE" in capsys.readouterr().err


@pytest.mark.slow
def test_mapping_of_the_log_leaves_plain_labels_readable(log, corrected):
    log.drop(columns="human_verdict").rename(columns={"judge_verdict": "zzz"}).to_csv("odd.csv", index=False)
    labels_of(log, "only ids").to_csv("labels.csv", index=False)
    found = estimates("odd.csv", "--labels", "labels.csv", "--map", "score=zzz | pass -> 1, fail -> 0")
    pd.testing.assert_frame_equal(found, corrected)
    planned = [
        "plan-labels",
        "--judged",
        "odd.csv",
        "--map",
        "score=zzz | pass -> 1, fail -> 0",
        "--labels",
        "labels.csv",
    ]
    assert main([*planned, "--effect", ".2"]) == 0


@pytest.mark.slow
def test_column_of_the_labels_identifies_items_of_the_log(log, corrected):
    """The log is read by its questions, the labels by an id that stands beside them."""
    named = log.rename(columns={"case_id": "id"}).assign(question=[f"What is {n} plus one?" for n in range(400)])
    named.drop(columns="human_verdict").to_csv("log.csv", index=False)
    assert bl.read_judgements("log.csv")["context_id"].iloc[0] == "What is 0 plus one?"
    labels = named.loc[named["human_verdict"] != "", ["id", "human_verdict"]]
    labels.to_csv("labels.csv", index=False)
    found = estimates("log.csv", "--labels", "labels.csv")
    assert found["estimate"].tolist() == pytest.approx(corrected["estimate"].tolist(), nan_ok=True)


@pytest.mark.slow
def test_column_of_both_files_identifies_items_of_both(log, corrected):
    named = log.assign(question=[f"What is {n} plus one?" for n in range(400)])
    named.drop(columns=["case_id", "human_verdict"]).to_csv("log.csv", index=False)
    labels = named.loc[named["human_verdict"] != "", ["case_id", "question", "human_verdict"]]
    labels.to_csv("labels.csv", index=False)
    found = estimates("log.csv", "--labels", "labels.csv")
    assert found["estimate"].tolist() == pytest.approx(corrected["estimate"].tolist(), nan_ok=True)


@pytest.mark.slow
def test_common_columns_that_match_different_items_ask(log, capsys):
    named = log.assign(row=range(400)).drop(columns="model")
    named.drop(columns="human_verdict").to_csv("log.csv", index=False)
    labels = named.loc[named["human_verdict"] != "", ["case_id", "human_verdict"]]
    labels.assign(row=range(60)).to_csv("labels.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "labels.csv"]) == 2
    refused = capsys.readouterr().err
    assert "--map context_id=case_id" in refused
    assert "--map context_id=row" in refused
    found = estimates("log.csv", "--labels", "labels.csv", "--map", "context_id=case_id")
    own = log[log["human_verdict"] != ""]["human_verdict"] == "pass"
    assert value(found, "human", "pass_rate")["estimate"] == pytest.approx(own.mean())
    assert "matched by context_id (case_id)" in capsys.readouterr().out


@pytest.mark.slow
def test_entries_of_map_go_to_the_file_with_the_column(log, corrected):
    copied = log[log["human_verdict"] != ""].rename(columns={"human_verdict": "label"})
    copied.to_csv("labels.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "labels.csv"]) == 2
    ratings = ["--map", "ratings=label | pass -> 1, fail -> 0"]
    found = estimates("log.csv", "--labels", "labels.csv", *ratings)
    pd.testing.assert_frame_equal(found, corrected)
    assert main(["correct", "log.csv", "--labels", "labels.csv", *ratings, "--map", "judge=xxx"]) == 2


@pytest.mark.slow
def test_mapping_file_belongs_to_the_file_with_its_columns(log, corrected):
    log.drop(columns="human_verdict").rename(columns={"judge_verdict": "zzz"}).to_csv("odd.csv", index=False)
    labels_of(log, "only ids").rename(columns={"human_label": "yyy"}).to_csv("labels.csv", index=False)
    score = 'score = { field = "yyy", values = { pass = "1", fail = "0" } }'
    Path("map.toml").write_text(f'context_id = "case_id"\nperson = "=people"\n{score}\n')
    given = ["--mapping", "map.toml", "--map", "score=zzz | pass -> 1, fail -> 0"]
    found = estimates("odd.csv", "--labels", "labels.csv", *given)
    pd.testing.assert_frame_equal(found, corrected)


@pytest.mark.slow
def test_labels_on_another_scale_ask_for_theirs(log, capsys):
    n = np.arange(60)
    pd.DataFrame({"question": n, "judge_score": 1 + n % 10}).to_csv("log.csv", index=False)
    pd.DataFrame({"question": n[:30], "human_score": 1 + n[:30] % 5}).to_csv("labels.csv", index=False)
    assert main(["correct", "log.csv", "--labels", "labels.csv"]) == 2
    assert "--map human_scale==1-5 or --map human_scale==1-10" in capsys.readouterr().err
    assert main(["correct", "log.csv", "--labels", "labels.csv", "--map", "human_scale==1-5"]) == 2
    found = estimates("log.csv", "--labels", "labels.csv", "--map", "human_scale==1-10")
    assert value(found, "human", "mean_score")["estimate"] == pytest.approx(3)


@pytest.mark.slow
def test_observed_range_of_people_is_not_their_scale(log):
    n = np.arange(60)
    pd.DataFrame({"question": n, "judge_score": 1 + n % 5}).to_csv("log.csv", index=False)
    labels = pd.DataFrame({"question": n // 2, "annotator": ["ann", "bob"] * 30, "score": 2 + n % 3})
    labels.to_csv("labels.csv", index=False)
    found = estimates("log.csv", "--labels", "labels.csv")
    assert value(found, "human", "mean_score")["estimate"] == pytest.approx(3)
    assert main(["correct", "log.csv", "--labels", "labels.csv", "--map", "human_scale==1-10"]) == 2
    labels.assign(score=1 + n % 10).to_csv("labels.csv", index=False)
    for given in ([], ["--map", "human_scale==1-5"]):
        assert main(["correct", "log.csv", "--labels", "labels.csv", *given]) == 2


@pytest.mark.slow
def test_by_keeps_a_column_of_the_log(log, capsys):
    log.assign(language=np.resize(["de", "en", ""], 400)).to_csv("part.csv", index=False)
    found = estimates("part.csv", "--by", "language")
    passed = log["judge_verdict"] == "pass"
    for place, name in enumerate(("de", "en", "(none)")):
        assert value(found, "judge", "pass_rate", name)["estimate"] == pytest.approx(passed[place::3].mean())


@pytest.mark.parametrize("named", [["model"], []])
def test_suggested_table_is_written(named, log, capsys):
    log[["case_id", *named, "judge_verdict", "human_verdict"]].drop_duplicates("case_id").to_csv("few.csv", index=False)
    estimates("few.csv")
    [command] = [line for line in capsys.readouterr().out.splitlines() if "biaslab table" in line]
    assert main(shlex.split(command.partition("biaslab ")[2])) == 0
    assert "\\toprule" in Path("table.tex").read_text(encoding="utf-8")


@pytest.mark.slow
def test_suggested_command_quotes_paths(log, capsys):
    log.drop(columns="human_verdict").to_csv("my log.csv", index=False)
    labels_of(log, "only ids").to_csv("my labels.csv", index=False)
    for command in ("correct", "audit"):
        assert main([command, "my log.csv", "--labels", "my labels.csv"]) == 0
        words = shlex.split(capsys.readouterr().out.splitlines()[-1])
        assert {"my log.csv", "my labels.csv"} <= set(words)


def arena(contexts=60):
    """Three systems meet in every context, each pair once; people label a third of the contexts."""
    rng = np.random.default_rng(2)
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    rows = pd.DataFrame([(f"q{n}", *pair) for n in range(contexts) for pair in pairs])
    rows.columns = ["question_id", "model_a", "model_b"]
    for name in ("judge", "human"):
        rows[name] = np.where(rng.random(len(rows)) < 0.75, "model_a", "model_b")
    return rows


def test_judge_column_of_people_names_the_persons(log):
    rows = arena()
    rows.rename(columns={"judge": "winner"}).drop(columns="human").assign(judge="gpt-4").to_csv(
        "arena.csv", index=False
    )
    own = rows[rows["question_id"].isin([f"q{n}" for n in range(20)])].drop(columns="judge")
    own = own.rename(columns={"human": "winner"})
    own.to_csv("plain.csv", index=False)
    own.assign(judge="human").to_csv("labels.csv", index=False)
    found = [estimates("arena.csv", "--labels", file) for file in ("plain.csv", "labels.csv")]
    pd.testing.assert_frame_equal(*found)


@pytest.mark.parametrize(
    ("judge", "told"),
    [(judge, f"by {judge}; if they are people's: --map person=judge") for judge in ("gpt-4o", "maria")]
    + [("human-aligned-gpt-4o", "judge = ?")],
)
def test_labels_by_somebody_unknown_are_refused(judge, told, log, capsys):
    rows = arena()
    judged = rows.rename(columns={"judge": "winner"}).drop(columns="human")
    judged.assign(judge="gpt-4").to_csv("arena.csv", index=False)
    own = rows.drop(columns="judge").rename(columns={"human": "winner"})
    own.head(60).assign(judge=judge).to_csv("labels.csv", index=False)
    assert main(["correct", "arena.csv", "--labels", "labels.csv"]) == 2
    assert told in capsys.readouterr().err


def test_words_of_buttons_are_scores_of_a_label_table(log, capsys):
    bl.label("log.csv").save("labels.csv")
    table = pd.read_csv("labels.csv", dtype=str)
    assert main(["correct", "log.csv", "--labels", "labels.csv"]) == 2
    assert "the column score is empty" in capsys.readouterr().err
    table.assign(score=["pass", "fail"] * (len(table) // 2)).to_csv("labels.csv", index=False)
    assert set(bl.correct(bl.read_judgements("log.csv"), "labels.csv")["n_labelled"]) == {len(table) // 2}


def test_log_is_refused_as_its_own_labels(log, capsys):
    assert main(["correct", "log.csv", "--labels", "log.csv"]) == 2
    assert "another file than the log" in capsys.readouterr().err


@pytest.mark.slow
def test_labels_of_pairs_in_the_form_of_the_log(log):
    rows = arena()
    rows.rename(columns={"judge": "winner"}).drop(columns="human").to_csv("arena.csv", index=False)
    labels = rows[rows["question_id"].isin([f"q{n}" for n in range(20)])].rename(columns={"human": "winner"})
    labels = labels.drop(columns="judge")
    labels.to_csv("labels.csv", index=False)
    names = {"model_a": "model_b", "model_b": "model_a"}
    turned = labels.rename(columns=names).assign(winner=labels["winner"].map(names))
    turned[["question_id", "model_a", "model_b", "winner"]].to_csv("turned.csv", index=False)
    pd.testing.assert_frame_equal(estimates("arena.csv", "--labels", "labels.csv"), estimates(
        "arena.csv", "--labels", "labels.csv", "--map", "person==people"))  # fmt: skip
    found = estimates("arena.csv", "--labels", "labels.csv", "--map", "person==people")
    wins = labels["winner"] == "model_a"
    own = pd.concat([wins[labels["model_a"] == "b"], ~wins[labels["model_b"] == "b"]])
    assert value(found, "human", "win_rate", "b")["estimate"] == pytest.approx(own.mean())
    assert len(found[(found["metric"] == "win_rate_difference") & (found["correction"] == "ppi")]) == 3
    pd.testing.assert_frame_equal(found, estimates("arena.csv", "--labels", "turned.csv", "--map", "person==people"))


@pytest.mark.slow
def test_texts_without_systems_are_taken_together(log):
    found = correct_systems(bl.read_judgements(log.drop(columns="model"))).estimates
    assert set(found["system"]) == {""}
    assert set(found["metric"]) == {"pass_rate", "true_positive_rate", "true_negative_rate"}
    texts = arena().assign(model_a=lambda rows: rows.index.map("answer {}".format))
    texts = texts.assign(model_b=texts["model_a"] + "b", human_winner=texts["human"]).rename(
        columns={"judge": "winner"}
    )
    with pytest.raises(TrialsError, match="name the systems"):
        correct_systems(bl.read_judgements(texts.drop(columns="human")))


@pytest.mark.slow
def test_other_column_is_compared_instead_of_systems(log):
    trials = bl.read_judgements(log).assign(subset=np.where(np.arange(400) < 200, "easy", "hard"))
    found = correct_systems(trials, by="subset").estimates
    assert value(found, "judge", "pass_rate_difference", "easy")["other"] == "hard"
    with pytest.raises(InputError, match="by is 'nothing'"):
        correct_systems(trials, by="nothing")


@pytest.mark.slow
def test_plan_halves_the_detectable_effect(log):
    found = correct_systems(bl.read_judgements(log))
    widest = found.estimates.query("metric == 'pass_rate' and correction == 'ppi'")["mde"].max()
    assert found.plan.effect == pytest.approx(widest / 2, rel=0.05)
    assert found.plan.pilot < found.plan.with_judge <= found.plan.judged == 200
    assert correct_systems(bl.read_judgements(log[log["human_verdict"] != ""])).plan is None


def test_audit_ends_with_the_corrected_number(log, capsys):
    trials = bl.read_judgements(log)
    judge, own = (corrected_overall(trials).set_index("correction").loc[name] for name in ("judge", "ppi"))
    assert judge["estimate"] == pytest.approx((log["judge_verdict"] == "pass").mean())
    assert own["ci_low"] <= 0.6 <= own["ci_high"]
    assert (own["n_labelled"], own["n_contexts"]) == (60, 400)
    assert corrected_line(trials[trials["human"].notna()]) == corrected_line(trials.assign(human=np.nan)) == ""
    assert main(["audit", "part.csv"]) == 0
    line, command = capsys.readouterr().out.splitlines()[-2:]
    assert line == corrected_line(trials)
    assert command.endswith("biaslab correct part.csv")


def annotators(items=60, seed=0):
    """Labels of three people, and of a judge who mostly says what they say, as annotator → item → label."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=items)
    labels = {name: np.where(rng.random(items) < 0.15, 1 - truth, truth) for name in ("ann", "bo", "cy")}
    people = {name: {f"i{n}": int(label) for n, label in enumerate(own)} for name, own in labels.items()}
    return people, {"judge": {f"i{n}": int(label) for n, label in enumerate(truth)}}


def test_replace_reads_json_and_tables_of_labels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people, judge = annotators()
    Path("judge.json").write_text(json.dumps(judge))
    Path("people.json.gz").write_bytes(gzip.compress(json.dumps(people).encode()))
    rows = [(who, item, label) for who, own in (people | judge).items() for item, label in own.items()]
    pd.DataFrame(rows, columns=["annotator", "item", "label"]).to_csv("all.csv", index=False)
    files = ["--out", "found.csv", "--people", "rest.csv", "--page", "page.html", "--price", ".5", "--error", ".3"]
    found = []
    for words in (["judge.json", "--labels", "people.json.gz"], ["all.csv", "--judge", "judge"]):
        Path("rest.csv").unlink(missing_ok=True)
        assert main(["replace", *words, *files]) == 0
        found.append(pd.read_csv("found.csv").set_index("metric"))
        assert found[-1].loc["winning_rate", "estimate"] == 1
        assert found[-1].loc["stands", "estimate"] == 1
    assert (found[0]["estimate"].dropna() == found[1]["estimate"].dropna()).all()
    assert pd.read_csv("rest.csv").empty
    assert "<li>" in Path("page.html").read_text(encoding="utf-8")
    assert "$90.00" in capsys.readouterr().out  # 60 items × 3 people × .5
    labels = Path("all.csv").read_bytes()
    for option, target in (("--people", "rest.csv"), ("--out", "all.csv"), ("--people", "all.csv")):
        assert main(["replace", "all.csv", "--judge", "judge", option, target]) == 2
    assert Path("all.csv").read_bytes() == labels


def test_replace_reads_a_log_with_labels(log):
    assert main(["replace", "part.csv", "--out", "found.csv"]) == 0
    found = pd.read_csv("found.csv").set_index("metric")
    assert found.loc["agreement_of_verdicts", "n_trials"] == 60
    assert np.isnan(found.loc["winning_rate", "estimate"])


def test_replace_compares_two_judges(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = verdicts().drop(columns="human_verdict")
    frame.to_csv("old.csv", index=False)
    lenient = np.where(np.arange(400) < 300, "pass", frame["judge_verdict"])
    frame.assign(judge_verdict=lenient).to_csv("new.csv", index=False)
    assert main(["replace", "old.csv", "new.csv", "--out", "found.csv"]) == 0
    found = pd.read_csv("found.csv").set_index("metric")
    assert found.loc["judge_part", "estimate"] == pytest.approx(np.mean(lenient != frame["judge_verdict"]))
    assert found.loc["judge_part", "equivalence"] == "different"
    assert "bridge" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        *(["all.csv", "--page", "page.txt"], ["judge.json", "--labels", "log.csv"], ["none.csv"], ["empty.csv"]),
        *(["no.json.gz"], ["part.csv", "part.csv", "--price"], ["part.csv", "--price"], ["part.csv", "--judge"]),
    ],
)
def test_replace_refuses_what_it_cannot_read(words, log, capsys):
    Path("judge.json").write_text(json.dumps(annotators()[1]))
    Path("empty.csv").touch()
    Path("no.json.gz").write_bytes(b"no")
    more = ["-3"] if words[-1].startswith("-") else []
    assert main(["replace", *words, *more]) == 2
    said = capsys.readouterr().err
    assert words[-1].strip("-") in said
    assert "unexpected" not in said


@pytest.mark.parametrize(("column", "options"), [("annotator", []), ("judge", ["--map", "person=judge"])])
def test_pair_labels_by_name_answer_who_may_be_replaced(column, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame({"question_id": [f"q{n}" for n in range(90)], "model_a": "x", "model_b": "y"})
    truth = rng.integers(2, size=90)

    def given(wrong):
        return np.where(np.where(rng.random(90) < wrong, 1 - truth, truth) == 1, "model_a", "model_b")

    pairs.assign(winner=given(0.1)).to_csv("log.csv", index=False)
    people = [pairs.assign(**{column: name, "winner": given(0.2)}) for name in ("ann", "bo", "cy")]
    pd.concat(people).to_csv("labels.csv", index=False)
    assert main(["replace", "log.csv", "--labels", "labels.csv", *options, "--out", "found.csv"]) == 0
    rows = pd.read_csv("found.csv").set_index("metric")
    assert sorted(rows.loc["annotator_lead", "left_out"]) == ["ann", "bo", "cy"]
    assert rows.loc["winning_rate", "estimate"] == 1.0


@pytest.fixture
def battles(tmp_path, monkeypatch):
    """Two judges on 30 questions: one prefers x, the other is even."""
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"q{n}", "x", "y", judge, "x" if n % size else "y") for n in range(30) for judge, size in (("a", 9), ("b", 2))
    ]
    table = pd.DataFrame(rows, columns=["context_id", "candidate_id", "opponent_id", "judge", "winner"])
    table.to_csv("battles.csv", index=False)


def test_robustness_writes_specifications_and_a_figure(battles, capsys):
    words = ["--system", "x", "--figures", "drawn", "--out", "curve.csv", "--half-width", ".1"]
    assert main(["robustness", "battles.csv", *words]) == 0
    curve = pd.read_csv("curve.csv")
    assert curve.set_index("judge")["estimate"].to_dict() == pytest.approx({"a": 26 / 30, "b": 0.5})
    assert Path("drawn/robustness__curve.png").stat().st_size
    assert "2 specifications" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["battles.csv"],
        ["battles.csv", "--system", "z"],
        ["battles.csv", "--system", "x", "--choice", "ties"],
        ["battles.csv", "--system", "x", "--choice", "ties=some"],
        ["battles.csv", "--system", "x", "--half-width", "0"],
        ["battles.csv", "--system", "x", "--price", "-1"],
        ["battles.csv", "--conclusion", "score"],
        ["none.csv", "--system", "x"],
    ],
)
def test_robustness_refuses_what_it_cannot_do(words, battles):
    assert main(["robustness", *words]) == 2


@pytest.fixture
def duels(tmp_path, monkeypatch):
    """A log of 200 pairs by a judge who likes longer texts and the first, with people's preferences."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    words, better = rng.integers(30, 300, (200, 2)), rng.random(200) < 0.5
    odds = 0.5 + 2 * better - 1 + 1.5 * np.log2(words[:, 0] / words[:, 1])
    won = rng.random(200) < 1 / (1 + np.exp(-odds))
    names = np.where(np.arange(200)[:, None] % 2, ["x", "y"], ["y", "x"])
    log = pd.DataFrame({"question": range(200), "answer_a": names[:, 0], "answer_b": names[:, 1]})
    log = log.assign(winner=np.where(won, "A", "B"), human_winner=np.where(better, "A", "B"))
    log.assign(w_a=words[:, 0], w_b=words[:, 1]).to_csv("duels.csv", index=False)


def test_joint_prints_biases_and_writes_estimates(duels, capsys):
    command = "joint duels.csv --covariate length=w_a,w_b --without length --without position --reliability 1"
    assert main([*command.split(), "--out", "joint.csv"]) == 0
    said = capsys.readouterr().out
    assert "favours longer texts" in said
    assert "without length, position: 0." in said
    rows = pd.read_csv("joint.csv", keep_default_na=False, na_values=[""]).query("metric == 'bias_log_odds'")
    assert rows["given"].tolist() == ["alone", "jointly"] * 2
    assert (rows["estimate"] > 0).all()


@pytest.mark.parametrize("wrong", ["--covariate length=w_a,w_c", "--own me", "--without width", "--reliability 3"])
def test_joint_refuses_wrong_options(duels, wrong, capsys):
    assert main(["joint", "duels.csv", *wrong.split()]) == 2
    assert "Traceback" not in capsys.readouterr().err
