"""``biaslab probe --trials`` and ``biaslab estimate``: judgements in a file, estimated without a judge."""

import pandas as pd
import pytest

from biaslab.cli import main
from biaslab.store.tables import TrialsFile

ASKED = ["probe", "position", "--judge", "simulated:position=2", "--attribute", "coherence", "--contexts", "3"]


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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
