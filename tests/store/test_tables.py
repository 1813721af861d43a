"""Trials in a file: columns, categories, estimates, and what is no such file."""

import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError, TrialsError
from biaslab.probes.position import Position
from biaslab.store.tables import TrialsFile, cached

PROBE = Position(["coherence", "fluency"], [1])


@pytest.fixture
def trials(graded):
    judge = bl.SimulatedJudge(graded, position=0.5, noise=1, refusal=0.01)
    return bl.collect(PROBE, judge, graded, progress=False)


@pytest.fixture
def file(graded, tmp_path, monkeypatch):
    monkeypatch.setattr("biaslab.store.tables._ROWS", 100)  # several row groups
    monkeypatch.setattr("biaslab.study.windows.SIZE", 50)
    judge = bl.SimulatedJudge(graded, position=0.5, noise=1, refusal=0.01)
    return bl.collect(PROBE, judge, graded, progress=False, out=tmp_path / "trials.parquet")


def test_columns_are_those_of_the_frame(trials, file):
    assert (len(file), file.columns, file.attrs) == (len(trials), tuple(trials.columns), trials.attrs)
    pd.testing.assert_frame_equal(file.to_pandas(), trials)
    pd.testing.assert_frame_equal(pd.read_parquet(file.path), trials)
    pd.testing.assert_series_equal(file["value"], trials["value"])
    pd.testing.assert_frame_equal(file[["value", "status"]], trials[["value", "status"]])
    pd.testing.assert_frame_equal(pd.concat(file.parts()), trials)
    pd.testing.assert_frame_equal(file.head(3), trials.head(3))
    assert len(list(file.parts())) > 3
    assert "value" in file
    assert "480 judgements" in repr(file)
    assert "<table" in file._repr_html_()


def test_categories_take_a_few_bytes_a_row(trials, file):
    compact = file.to_pandas(categorical=True)
    assert str(compact["context_id"].dtype) == "category"
    assert compact["context_id"].astype("str").tolist() == trials["context_id"].tolist()
    assert compact.drop(columns="key").memory_usage(index=False).sum() < 100 * len(trials)


def test_numbers_of_keys_are_their_first_digits(trials, file):
    assert [f"{number:016x}" for number in file.compact()["key"]] == trials["key"].str[:16].tolist()


@pytest.mark.parametrize("metrics", [None, ["first_position_rate"]])
def test_estimates_are_those_of_the_frame(trials, file, metrics):
    wanted = PROBE.estimate(trials, metrics)
    pd.testing.assert_frame_equal(PROBE.estimate(file, metrics), wanted)
    pd.testing.assert_frame_equal(PROBE.estimate(str(file.path), metrics), wanted)


def test_contexts_with_shared_requests_are_one_cluster_in_files(trials, tmp_path):
    shared = pd.concat([trials, trials.assign(context_id=trials["context_id"] + "-again")], ignore_index=True)
    shared.to_parquet(tmp_path / "trials.parquet")
    with pytest.warns(bl.errors.SharedRequestsWarning, match=r"16 contexts share requests .* as 8 clusters"):
        found = PROBE.estimate(tmp_path / "trials.parquet", ["first_position_rate"])
    with pytest.warns(bl.errors.SharedRequestsWarning):
        pd.testing.assert_frame_equal(found, PROBE.estimate(shared, ["first_position_rate"]))


def test_other_keys_are_kept_as_they_are(trials, tmp_path):
    for keys in ("", "log.jsonl:3", trials["key"].str.upper()):
        trials.assign(key=keys).to_parquet(tmp_path / "trials.parquet")
        file = TrialsFile(tmp_path / "trials.parquet")
        assert file.compact()["key"].tolist() == trials.assign(key=keys)["key"].tolist()


def test_no_such_file_or_column(file, tmp_path):
    with pytest.raises(InputError, match=r"trials is .*a Parquet file of trials"):
        PROBE.estimate(tmp_path / "none.parquet")
    with pytest.raises(TrialsError, match="there are probe, judge"):
        file.to_pandas(["values"])
    file.to_pandas(["judge", "dataset"]).to_parquet(tmp_path / "few.parquet")
    with pytest.raises(TrialsError, match="lacks the columns attribute, template"):
        PROBE.estimate(tmp_path / "few.parquet")


def test_an_audit_reads_the_file(file, trials):
    read = bl.read_judgements(file.path)
    assert read["value"].tolist() == pytest.approx(trials["value"].tolist(), nan_ok=True)


TABLE = pd.DataFrame({"text": ['a,\n"b"', "NA"], "value": [0.1 + 0.2, float("nan")], "n": [1, 2]})


@pytest.fixture
def store(tmp_path):
    return tmp_path / "replies.sqlite"


def test_a_table_is_computed_once(store):
    made = []

    def make():
        made.append(1)
        return TABLE

    depends = {"settings": ("a", 1), "taught": TABLE}
    for _ in range(2):
        pd.testing.assert_frame_equal(cached(store, "scores", depends, make), TABLE)
    assert len(made) == 1
    cached(store, "others", depends, make)
    cached(store, "scores", depends | {"settings": ("a", 2)}, make)
    cached(store, "scores", depends | {"taught": TABLE.assign(n=[1, 3])}, make)
    assert len(made) == 4
    assert {path.suffix for path in store.with_suffix(".tables").iterdir()} == {".csv"}


def test_failed_computation_is_not_stored(store):
    with pytest.raises(ZeroDivisionError):
        cached(store, "scores", {}, lambda: 1 / 0)
    assert len(cached(store, "scores", {}, lambda: TABLE)) == 2


@given(st.lists(st.floats(allow_infinity=False, allow_subnormal=False), min_size=1, max_size=5))
def test_stored_numbers_are_equal(tmp_path_factory, values):
    table = pd.DataFrame({"value": values, "i": range(len(values))})
    for _ in range(2):
        found = cached(tmp_path_factory.mktemp("kept") / "s.sqlite", "t", {}, lambda: table)
        pd.testing.assert_frame_equal(found, table, rtol=1e-12, atol=0, check_dtype=False)


@pytest.mark.parametrize("name", ["", "a/b", "../a"])
def test_invalid_file_name_is_refused(store, name):
    with pytest.raises(InputError, match="a name for a file"):
        cached(store, name, {}, lambda: TABLE)


def test_file_of_trials_holds_no_absolute_path(tmp_path):
    data = bl.load_dataset("graded", limit=4)
    (tmp_path / "secret-folder").mkdir()
    folder = tmp_path / "secret-folder"
    bl.collect(
        Position(templates=[1]),
        bl.SimulatedJudge(data),
        data,
        store=folder / "store.sqlite",
        out=folder / "trials.parquet",
        progress=False,
    )
    assert b"secret-folder" not in (folder / "trials.parquet").read_bytes()
    assert TrialsFile(folder / "trials.parquet").attrs["store"] == str(folder / "store.sqlite")
