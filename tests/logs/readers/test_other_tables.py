"""Tables of other packages, patterns and folders as one log, and sheets."""

import pandas as pd
import pyarrow as pa
import pytest

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.logs.readers import read_judgements

TABLE = pd.DataFrame(
    {
        "question": [f"What is {n}?" for n in range(12)],
        "answer_a": [f"one {n}" for n in range(12)],
        "answer_b": [f"two {n}" for n in range(12)],
        "winner": ["A", "B", "tie"] * 4,
    }
)


class Stream:
    """What polars and DuckDB give: a stream of Arrow, and nothing else."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Interchange:
    """A table with the interchange protocol alone."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame)

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._table.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize("kind", [pa.Table.from_pandas, Stream, Interchange])
def test_tables_of_other_packages_are_read_as_those_of_pandas(kind):
    found, expected = read_judgements(kind(TABLE)), read_judgements(TABLE)
    pd.testing.assert_frame_equal(found, expected)
    assert found["value"].tolist() == [1.0, 0.0, 0.5] * 4


def test_nested_and_missing_cells_of_arrow_are_read(tmp_path):
    rows = [{"context_id": n, "candidate_id": "x", "score": None if n == 2 else n, "scale": "1-5", "ratings": [1, 2]}
            for n in range(1, 6)]  # fmt: skip
    trials = read_judgements(pa.Table.from_pylist(rows))
    assert trials["status"].tolist() == ["ok", "unparsable", "ok", "ok", "ok"]
    assert trials["ratings"].tolist() == ["1 2"] * 5


def test_audit_and_doctor_take_them_too():
    found = bl.audit(Stream(TABLE), only=["replies"])
    assert "win_rate" not in set(found["metric"])
    assert bl.doctor(Stream(TABLE)).holdings.pairs == 12
    with pytest.raises(InputError, match="path is 3"):
        read_judgements(3)


def parts(folder):
    TABLE.iloc[:6].to_csv(folder / "one.csv", index=False)
    TABLE.iloc[6:].to_csv(folder / "two.csv", index=False)
    return folder


def test_a_folder_of_tables_and_a_pattern_are_one_log(tmp_path):
    whole = read_judgements(TABLE)
    for path in (parts(tmp_path), tmp_path / "*.csv", str(tmp_path / "**/*.csv")):
        trials = read_judgements(path)
        assert trials["value"].tolist() == whole["value"].tolist()
        assert trials["context_id"].tolist() == whole["context_id"].tolist()
        assert set(trials.attrs["files"]) == {"one.csv", "two.csv"}
    assert len(read_judgements(tmp_path / "one*")) == 6


def test_tables_beside_a_known_log_are_no_logs(tmp_path):
    parts(tmp_path)
    (tmp_path / "log.jsonl").write_text('{"judge": "j", "question": 1, "A": "x", "B": "y", "judgment": "[[A]]"}\n')
    trials = read_judgements(tmp_path)
    assert set(trials.attrs["files"]) == {"log.jsonl"}
    assert set(trials.attrs["skipped"]) == {"one.csv", "two.csv"}


def test_a_pattern_that_matches_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="a pattern that matches at least one file"):
        read_judgements(tmp_path / "*.jsonl")


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        (["one.csv", "two.csv"], "a pattern such as logs/\\*.jsonl"),
        ([{"question": "q", "winner": "A"}], r"pandas.DataFrame\(records\)"),
        (3, "pass the path of the log"),
    ],
)
@pytest.mark.parametrize("function", [read_judgements, bl.audit, bl.doctor])
def test_other_types_than_paths_are_refused_with_a_remedy(function, path, remedy):
    with pytest.raises(InputError, match=remedy):
        function(path)


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    TABLE.to_csv(tmp_path / "run[1].csv", index=False)
    assert len(read_judgements(tmp_path / "run[1].csv")) == 12
