"""What panels of the atlas say is what their rows hold, and agrees with what was counted from the published files."""

import re
from pathlib import Path

import pandas as pd
import pytest

import biaslab as bl
from biaslab.atlas import panels
from biaslab.atlas.estimates_table import PEOPLE, estimates, reference
from biaslab.atlas.panels import WRITTEN, AtlasFigure, choose, joined, labelled, largest
from biaslab.core.errors import TrialsError
from biaslab.report.verdicts import find_peers, judges_of
from biaslab.stats.frame import LEADING

ROOT = Path(__file__).resolve().parents[2]
PANELS = {
    name: make
    for name, make in vars(panels).items()
    if callable(make)
    and getattr(make, "__annotations__", {}).get("return") == "AtlasFigure"
    and not name.startswith("_")
}


def value_of(panel, **where):
    rows = panel.rows
    for name, value in where.items():
        rows = rows[rows[name] == value]
    [found] = rows["estimate"]
    return float(found)


def test_there_is_a_panel_for_each_question():
    assert len(PANELS) == 10


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_has_rows_with_intervals_and_one_sentence(name):
    panel = PANELS[name]()
    assert isinstance(panel, AtlasFigure)
    assert {*LEADING, "estimate", "ci_low", "ci_high", "n_contexts", "data", "kind"} <= set(panel.rows)
    assert panel.rows[["estimate", "ci_low", "ci_high"]].notna().all(axis=None)
    assert panel.headline.endswith(".")
    assert re.search(r"\d", panel.headline)
    assert "nan" not in panel.headline
    assert not re.search(r"\. [A-Z]", panel.headline), "one sentence"


def test_first_position_has_about_thirty_judges_on_data():
    panel = panels.first_position()
    assert 25 <= len(panel.rows) <= 35
    assert value_of(panel, judge="gpt-4", source="llmbar") == pytest.approx(0.5119, abs=5e-5)
    assert value_of(panel, judge="falcon-180b-chat", source="llmbar") == pytest.approx(0.7757, abs=5e-5)
    assert value_of(panel, judge="chatgpt", source="llmbar") == pytest.approx(0.6468, abs=5e-5)
    assert value_of(panel, judge="gpt-4-0613", source="mt_bench") == pytest.approx(0.4908, abs=1.5e-4)
    assert (panel.rows["estimate"].diff().dropna() >= 0).all()
    assert not panel.rows.duplicated(["judge", "source", "attribute"]).any()
    counts = panel.rows["finding"].value_counts()
    stated = [int(number) for number in re.findall(r"(?<!\() ?\bin (\d+)(?! of)", panel.headline)]
    assert stated == [counts["above"], counts["below"], counts["none"]]
    assert f"(in {panel.rows['slight'].sum()} of these" in panel.headline
    assert f"{counts['open']} are inconclusive" in panel.headline
    assert f"{panel.rows['judge'].nunique()} judges" in panel.headline


@pytest.mark.parametrize(
    ("page", "name", "panel"),
    [
        ("README.md", "today", panels.today),
        ("README.md", "order_consistency", panels.order_and_noise),
        ("docs/index.md", "today", panels.today),
        ("docs/index.md", "first_position_rate", panels.first_position),
    ],
)
def test_captions_state_the_numbers_of_their_figures(page, name, panel):
    text = (ROOT / page).read_text(encoding="utf-8")
    [said] = re.findall(rf"!\[([^]]+)\]\(figures/atlas__{name}\.png\)", text)
    stated, computed = (set(re.findall(r"\d+(?: ?%)?", words)) for words in (said, panel().headline))
    assert stated
    assert {number.replace(" ", "") for number in stated} <= {number.replace(" ", "") for number in computed}


def test_readme_states_the_number_of_judges_in_the_atlas():
    assert f"of {estimates()['judge'].nunique()} recorded judges" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_todays_judges_are_recent_and_named():
    rows = panels.today().rows
    assert len(rows) >= 5
    assert (rows["released"] >= "2024-05").all()
    assert set(rows["judge"]) <= set(WRITTEN)
    assert rows[["judge", "metric"]].duplicated().sum() == 0
    [rate] = rows.query("judge == 'gemini-2.5-flash'").to_dict("records")
    assert (rate["estimate"], rate["n_contexts"]) == (pytest.approx(0.6136, abs=5e-5), 47)
    assert "the answer shown first is preferred by Gemini 2.5 Flash (61 %)" in panels.today().headline


def test_own_texts_win_as_published_and_names_count_for_less():
    panel = panels.own_texts()
    plain = {"naming": "authors not named"}
    assert value_of(panel, judge="gpt-4", **plain) == pytest.approx(0.7050, abs=5e-5)
    assert value_of(panel, judge="gpt-3.5-turbo", **plain) == pytest.approx(0.5816, abs=5e-5)
    wrong = value_of(panel, judge="gpt-4", naming="authors named wrongly")
    assert wrong == pytest.approx(0.6843, abs=5e-5)
    assert "0.705 (gpt-4)" in panel.headline
    assert "0.684 (gpt-4)" in panel.headline


def test_reasons_before_the_score_lower_it_as_published():
    rows = panels.reasons().rows.set_index(["attribute", "form"])["estimate"]
    assert rows["coherence", "no auto-CoT"] == pytest.approx(-0.3608, abs=1e-3)
    assert rows["engagingness", "no auto-CoT"] == pytest.approx(-0.1827, abs=2e-3)
    assert "in 4 of 4 cells" in panels.reasons().headline


def test_the_null_model_wins_as_published():
    by_place = panels.constant_answer()
    assert value_of(by_place, role="constant answer") == pytest.approx(0.76920, abs=5e-6)
    assert by_place.rows.loc[by_place.rows["role"].str.startswith("…"), "n_contexts"].sum() == 805
    assert value_of(by_place, system="text_davinci_001") == pytest.approx(0.0276, abs=5e-5)
    assert "in 77 % of 805 questions" in by_place.headline


def test_experts_agree_as_published():
    rows = panels.reliability().rows
    people = rows[(rows["metric"] == "human_alpha") & (rows["data"] == "SummEval")].set_index("attribute")["estimate"]
    assert people["coherence"] == pytest.approx(0.5756, abs=5e-5)
    assert people["consistency"] == pytest.approx(0.8989, abs=5e-5)


def test_the_reference_is_models_with_one_prompt_each():
    rows = reference()
    assert not rows["judge"].str.fullmatch(PEOPLE).any()
    assert rows["subset"].isna().all()
    assert set(rows.loc[rows["source"] == "llmbar", "template"].dropna()) == {"Vanilla"}
    position = rows[(rows["metric"] == "first_position_rate") & (rows["probe"] == "position")]
    assert set(position.loc[position["source"] == "self_recognition", "template"]) == {"recorded"}


def test_the_judge_at_hand_stands_among_real_ones(make_row):
    peers = find_peers(make_row(estimate=1.0, ci_low=0.99, ci_high=1.0), judges_of("atlas"))
    assert len(peers.judges) >= 15
    said = peers.standing({"estimate": 1.0, "ci_low": 0.99, "ci_high": 1.0}, above=True).words
    n = len(peers.judges)
    assert said.startswith(f"more so than {n} of {n} recorded judges (verdicts on pairs; ")
    assert said.endswith(f"{n} of them with a non-overlapping interval")
    of_itself = find_peers(make_row(judge="gpt-4-0613"), judges_of("atlas"))
    assert len(of_itself.judges) == n - 1


def test_absent_rows_are_refused():
    with pytest.raises(TrialsError, match=r"no rows with .'metric': 'charm'"):
        choose(estimates(), metric="charm")


def test_largest_data_set_of_a_source_is_kept():
    frame = pd.DataFrame(
        {"source": "s", "judge": ["a", "a", "b"], "attribute": "x", "n_contexts": [80, 24, 24], "dataset": list("pqq")}
    )
    assert largest(frame)["dataset"].tolist() == ["p", "q"]


def test_row_labels_are_distinct():
    frame = pd.DataFrame({"judge": ["a", "b"], "configuration": ["recorded", "rts"], "data": [None, "SummEval"]})
    told = labelled(frame, "judge", "configuration", "data")["who"].tolist()
    assert told == ["a", "b · reasons, then score · SummEval"]
    assert [joined(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]


def test_trend_is_drawn_over_dates(tmp_path):
    panel = panels.over_time()
    [ax] = bl.atlas.draw_trend(panel.rows, 0.5, panel.headline, name="atlas__trend", out=tmp_path).axes
    drawn = sorted(y for container in ax.containers for y in container.lines[0].get_ydata())
    assert drawn == pytest.approx(sorted((panel.rows["estimate"] - 0.5).abs()))
    found = bl.atlas.trend(panel.rows, null=0.5)["estimate"]
    [line] = [line for line in ax.lines if line.get_label().startswith("mean")]
    years = panel.rows["years"]
    assert line.get_ydata() == pytest.approx([found[0] + found[1] * years.min(), found[0] + found[1] * years.max()])
