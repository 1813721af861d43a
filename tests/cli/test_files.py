"""``biaslab probe --trials``, ``estimate``, ``map`` and ``atlas check``: what they read and write."""

import pandas as pd
import pytest

import biaslab as bl
from biaslab.cli import main
from biaslab.store.tables import TrialsFile


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = {"question": [f"q{n // 2}" for n in range(12)], "model_a": ["x", "y"] * 6, "model_b": ["y", "x"] * 6}
    pd.DataFrame(pairs | {"winner": [*"ABABABABABAB"], "judge": "gpt"}).to_csv("pairs.csv", index=False)


def test_a_proposed_mapping_is_printed_written_and_read_again(capsys):
    assert main(["map", "pairs.csv", "--write", "map.toml"]) == 0
    shown = capsys.readouterr().out
    assert "pairs.csv: proposed reading" in shown
    assert "nothing is open" in shown
    assert "written to map.toml (complete); then: biaslab audit pairs.csv --mapping map.toml" in shown
    read = bl.read_judgements("pairs.csv", mapping="map.toml")
    pd.testing.assert_frame_equal(read, bl.read_judgements("pairs.csv"))


def test_an_open_question_is_shown_and_left_as_a_question_mark(capsys):
    table = {"q": [f"q{n}" for n in range(6)], "answer": [*"uvwxyz"], "score": [1, 2, 3, 4, 4, 2]}
    pd.DataFrame(table).to_csv("scores.csv", index=False)
    assert main(["map", "scores.csv", "--write", "map.toml"]) == 0
    shown = capsys.readouterr().out
    assert "1 open question:" in shown
    assert "written to map.toml (1 open question, each a ?)" in shown
    assert 'scale = "?"' in (bl.logs.propose("scores.csv").toml())
    assert "<code>scale = ?</code>" in bl.logs.propose("scores.csv")._repr_html_()


def test_an_empty_folder_has_no_contributions(tmp_path, capsys):
    (tmp_path / "contributions").mkdir()
    assert main(["atlas", "check", "contributions"]) == 0
    assert capsys.readouterr().out == "no contributions\n"


ASKED = ["probe", "position", "--judge", "simulated:position=2", "--attribute", "coherence", "--contexts", "3"]


def test_a_file_of_judgements_is_written_and_estimated(capsys):
    assert main([*ASKED, "--trials", "trials.parquet", "--out", "asked.csv"]) == 0
    assert "180 judgements written to trials.parquet" in capsys.readouterr().out
    assert len(TrialsFile("trials.parquet")) == 180
    assert main(["estimate", "position", "trials.parquet", "--out", "read.csv"]) == 0
    assert "position from 180 judgements in trials.parquet" in capsys.readouterr().out
    pd.testing.assert_frame_equal(pd.read_csv("asked.csv"), pd.read_csv("read.csv"))
    assert main(["estimate", "position", "trials.parquet", "--metric", "tie_rate"]) == 0
    assert "first_position_rate" not in capsys.readouterr().out


def test_invalid_trials_file_is_refused(capsys):
    assert main(["estimate", "position", "none.parquet"]) == 2
    assert "a Parquet file of trials" in capsys.readouterr().err
    assert main([*ASKED, "--trials", "trials.csv"]) == 2
    assert "ends in .parquet" in capsys.readouterr().err
