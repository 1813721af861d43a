"""`biaslab card` and `biaslab table`, as a user types them."""

from pathlib import Path

import pandas as pd
import pytest

from biaslab.cli import main


@pytest.fixture(autouse=True)
def _work_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_card_of_two_judges(capsys):
    words = ["card", "simulated:position=3", "simulated:noise=1", "--contexts", "8", "--attribute", "coherence"]
    words += ["--probe", "position", "--probe", "anchoring", "--out", "mine"]
    assert main(words) == 0
    message = capsys.readouterr().out
    assert "found:\n  ● position, P(A), decisions for the first (share): " in message
    assert "anchoring of simulated" in message  # one attribute is too few for it
    assert "not measured" in message
    assert {path.name for path in Path().glob("mine.*")} == {"mine.html", "mine.md", "mine.png", "mine.csv"}
    assert "not measured" in Path("mine.html").read_text(encoding="utf-8").lower()
    assert main(words) == 0
    assert " 0 judge calls" in capsys.readouterr().out


def test_from_estimates_to_a_table_and_macros(capsys):
    words = ["probe", "position", "--judge", "simulated:position=1", "--contexts", "6", "--attribute", "coherence"]
    assert main([*words, "--out", "position.csv"]) == 0
    capsys.readouterr()
    assert main(["table", "position.csv"]) == 0
    assert capsys.readouterr().out.startswith(
        "| template | P(A), decisions for the first (share) | 95 % interval | q |"
    )
    out = ["--out", "table.tex", "--macros", "numbers.tex", "--where", "template=1", "--label", "tab:position"]
    assert main(["table", "position.csv", *out]) == 0
    assert "\\begin{tabular}" in Path("table.tex").read_text(encoding="utf-8")
    rate = pd.read_csv("position.csv").query("metric == 'first_position_rate' and template == 1 and human_gap.isna()")
    text = Path("numbers.tex").read_text(encoding="utf-8")
    assert f"{{\\biasPositionRateCoherence}}{{{rate['estimate'].iloc[0]:.3f}}}" in text
    assert main(["table", "position.csv", "--metric", "tie_rate", "--out", "t.csv"]) == 0
    assert set(pd.read_csv("t.csv")["metric"]) == {"tie_rate"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table", "missing.csv"], "biaslab probe --out"),
        (["table", "e.csv", "--out", "table.docx"], "ends in .tex, .md, .html, .csv"),
        (["table", "e.csv", "--macros", "numbers.txt"], "ends in .tex"),
        (["table", "e.csv", "--out", "e.csv/table.tex"], "a folder that exists or can be created"),
        (["table", "e.csv", "--where", "attribute"], "COLUMN=VALUE"),
        (["table", "e.csv", "--where", "attribute=charm"], "a value among coherence"),
        (["table", "e.csv", "--metric", "charm"], "first_position_rate"),
        (["card", "simulated", "--out", "e.csv/card"], "a folder that exists or can be created"),
        (["card", "simulated", "--candidates", "0"], "candidates is 0"),
        (["card", "simulated", "--probe", "charm"], "position"),
        (["card", "simulated", "--probe", "comparative"], "at least one that measures a bias: "),
        (["card", "simulated", "--attribute", "charm"], "coherence"),
        (["card", "simulated", "--remedies", "missing.csv"], "a CSV file of estimates"),
    ],
)
def test_bad_input_is_refused_in_one_line(words, message, capsys, make_row):
    pd.DataFrame([make_row()]).to_csv("e.csv", index=False)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("biaslab: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
