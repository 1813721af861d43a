"""The methods sentences hold the numbers of the estimates, and nothing else."""

import json
import re
import subprocess
import sys

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.core.errors import TrialsError


@pytest.fixture(scope="module")
def ranking():
    trials = bl.atlas.trials("pandalm", judge="gpt-3.5-turbo")
    labelled = list(trials["context_id"].unique()[:60])
    return bl.correct(trials, labelled=labelled, corrections=["judge", "human", "ppi"])


def test_more_than_two_systems_are_ranked_by_default(ranking):
    assert set(ranking["metric"]) == {"win_rate", "rank"}
    assert len(ranking[ranking["metric"] == "rank"]) == 3 * 5
    two = bl.correct(bl.atlas.trials("arena_gpt52", judge="gpt-5.2"), corrections=["judge"])
    assert set(two["metric"]) == {"win_rate"}


def test_methods_name_judge_counts_labels_and_level(ranking):
    words = bl.report.methods(ranking)
    numbers = {int(text.replace(",", "")) for text in re.findall(r"(?<![\w.])\d[\d,]*(?![\w.]|,\d)", words)}
    assert {
        int(ranking["n_contexts"].max()),
        int(ranking["n_trials"].max()),
        int(ranking["n_labelled"].max()),
        95,
    } <= numbers
    assert "gpt-3.5-turbo" in words
    assert "prediction-powered" in words


def test_methods_count_what_was_left_out(ranking):
    """The two numbers are of one estimate."""
    rows = ranking.assign(n_dropped=0, n_trials=1000).reset_index(drop=True)
    assert "left out" in bl.report.methods(rows)
    rows.loc[0, ["n_dropped", "n_trials"]] = 7, 20
    assert "7 of 27 judgements" in bl.report.methods(rows)
    assert "20 to 1,000 judgements" in bl.report.methods(rows)


def test_methods_name_no_unknown_judge(ranking):
    assert "unknown" not in bl.report.methods(ranking.assign(judge="unknown", dataset="unknown"))


@pytest.mark.parametrize("column", ["n_trials", "method", "seed"])
def test_methods_without_a_column_are_refused(column, ranking):
    with pytest.raises(TrialsError, match=column):
        bl.report.methods(ranking.drop(columns=column))


def test_methods_of_nothing_are_refused(ranking):
    with pytest.raises(TrialsError):
        bl.report.methods(ranking.iloc[:0])


@pytest.mark.slow
def test_macro_names_do_not_change_when_data_grow():
    trials = bl.atlas.trials("pandalm", judge="gpt-3.5-turbo")
    contexts = list(trials["context_id"].unique())
    names = []
    for n in (40, 80):
        found = bl.correct(trials[trials["context_id"].isin(contexts[: 2 * n])], labelled=contexts[:n])
        names.append(re.findall(r"newcommand\{\\(\w+)\}", bl.report.to_macros(found)))
    assert names[0] == names[1]
    assert not any(word in name for name in names[0] for word in ("NLabelled", "Four", "Eight"))


def test_wide_tables_fit_the_width_of_the_text(ranking):
    wide = bl.report.to_latex(ranking, "win_rate", across="correction")
    assert wide.count(r"\resizebox{\textwidth}") == 1
    assert wide.count("{") == wide.count("}")
    narrow = bl.report.to_latex(ranking[ranking["correction"] == "ppi"], "rank")
    assert "resizebox" not in narrow


def test_ranks_are_whole_numbers_in_tables(ranking):
    assert re.search(r"& [1-5] & \[[1-5], [1-5]\]", bl.report.to_latex(ranking[ranking["correction"] == "ppi"], "rank"))


@pytest.mark.slow
def test_leaderboard_orders_systems_by_corrected_rank(ranking):
    drawn = bl.plots.leaderboard(ranking)
    ranks = ranking[(ranking["metric"] == "rank") & (ranking["correction"] == "ppi")].sort_values("estimate")
    labels = [text.get_text() for text in drawn.axes[0].get_yticklabels()]
    places = dict(zip(labels, drawn.axes[0].get_yticks(), strict=True))
    shown = sorted(places, key=places.get, reverse=drawn.axes[0].yaxis_inverted() is False)
    assert shown == ranks["system"].tolist()


@pytest.mark.parametrize("corrections", [["judge"], ["judge", "ppi"]])
@pytest.mark.slow
def test_leaderboard_tells_of_moves_only_if_corrected(corrections, ranking, tmp_path):
    rows = ranking[ranking["correction"].isin(corrections)]
    said = bl.plots.leaderboard(rows, "correct__board", tmp_path).headline
    assert ("correction" in said) == ("ppi" in corrections)


def test_leaderboard_without_ranks_is_refused(ranking):
    with pytest.raises(TrialsError, match="ranks"):
        bl.plots.leaderboard(ranking[ranking["metric"] == "win_rate"])


def test_leaderboard_of_several_judges_is_refused(ranking):
    both = pd.concat([ranking, ranking.assign(judge="other")])
    with pytest.raises(TrialsError, match=r"^judge .*other"):
        bl.plots.leaderboard(both)


def test_correction_that_is_no_narrower_says_so():
    labels = ["pass", "fail", "pass", "fail"] * 5 + [""] * 20
    verdicts = {"verdict": ["pass", "fail", "fail", "pass"] * 10, "human_label": labels}
    trials = bl.read_judgements(pd.DataFrame({"case_id": [f"c{n}" for n in range(40)], **verdicts}))
    found = bl.correct(trials, corrections=["human", "ppi"]).set_index("correction")
    widths = found["ci_high"] - found["ci_low"]
    assert widths["ppi"] >= widths["human"]
    assert "no narrower" in found.loc["ppi", "note"]
    assert found.loc["human", "note"] == ""


@pytest.mark.slow
def test_leaderboard_is_saved_like_any_figure(ranking, tmp_path):
    paths = bl.plots.save(bl.plots.leaderboard(ranking), ranking, "correct", "board", tmp_path, formats=["png"])
    assert [path.name for path in paths] == ["correct__board.png", "correct__board.csv"]
    assert all(path.stat().st_size > 0 for path in paths)


@pytest.mark.slow
def test_metrics_of_audits_are_known_in_a_fresh_process():
    code = "from biaslab.core.metrics import find_metric as f; print(f('cohen_kappa', 'agreement').label)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Cohen's κ with people\n"


@pytest.mark.slow
def test_table_of_an_audit_has_leniency_and_nothing_undefined(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    verdicts = {"judge_verdict": ["pass", "pass", "fail", "pass"] * 10, "human_verdict": ["pass", "fail"] * 20}
    answers = [f"an answer of {n} words" + " more" * (n % 7) for n in range(40)]
    log = pd.DataFrame({"case_id": range(40), "answer": answers, **verdicts})
    log.to_csv("log.csv", index=False)
    assert main(["audit", "log.csv", "--out", "audit.csv"]) == 0
    capsys.readouterr()
    assert main(["table", "audit.csv"]) == 0
    table = capsys.readouterr().out
    assert "leniency, the judge minus people" in table
    assert "| – | – |" not in table


@pytest.fixture(scope="module")
def judged_twice():
    return bl.atlas.estimates(judge="claude-3-haiku-20240307", source="devbench", breakdowns=False)


def test_checklist_answers_what_estimates_hold(judged_twice):
    items = bl.report.checklist(judged_twice).items.set_index("item")
    assert items["answer"].map(bool).sum() == 9
    assert items.index.is_unique
    rate = judged_twice[judged_twice["metric"] == "first_position_rate"]
    position = items.loc["Position bias, and pairs decided alike in both orders", "answer"]
    assert all(f"{value:.3f}" in position for value in rate["estimate"])
    one = judged_twice[judged_twice["dataset"] == "devbench"].assign(judge="unknown")
    answers = bl.report.checklist(one).items.set_index("item")["answer"]
    assert not answers[["More than one data set", "Model, version and configuration"]].any()


def test_checklist_names_what_was_left_open(judged_twice):
    rows = judged_twice[judged_twice["metric"] == "first_position_rate"]
    wide = rows.assign(estimate=0.55, ci_low=0.2, ci_high=0.9, p_value=0.5, q_value=0.5, mde=0.31)
    answers = bl.report.checklist(wide).items.set_index("item")["answer"]
    assert "below 0.31" in answers["Limitations: what this study could not have found"]


def test_checklist_is_the_same_in_all_forms(judged_twice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judged_twice.to_csv("found.csv", index=False)
    texts = {}
    for suffix in (".md", ".tex", ".json"):
        assert main(["table", "found.csv", "--checklist", f"items{suffix}"]) == 0
        texts[suffix] = (tmp_path / f"items{suffix}").read_text(encoding="utf-8")
    records = json.loads(texts[".json"])
    assert texts[".md"].count("- [x]") == sum(bool(row["answer"]) for row in records) == 9
    assert texts[".md"].count("- [ ]") == texts[".tex"].count(r"\itshape") == len(records) - 9
    assert main(["table", "found.csv", "--checklist", "items.pdf"]) == 2


@pytest.mark.slow
def test_card_carries_the_checklist(judged_twice):
    made = bl.report.card(judged_twice)
    assert made.checklist.to_markdown() in made.to_markdown()
    assert made.to_html().count("\N{BALLOT BOX WITH CHECK}") == 9


def test_methods_name_the_template(ranking):
    assert "template 2" in bl.report.methods(ranking.assign(template="2"))
    assert "template" not in bl.report.methods(ranking.assign(template="recorded"))
