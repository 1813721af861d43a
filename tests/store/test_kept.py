"""Tables that are kept: computed once, the same afterwards, and anew when anything changes that they depend on."""

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError
from biaslab.store.kept import kept

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
        pd.testing.assert_frame_equal(kept(store, "scores", depends, make), TABLE)
    assert len(made) == 1
    kept(store, "others", depends, make)
    kept(store, "scores", depends | {"settings": ("a", 2)}, make)
    kept(store, "scores", depends | {"taught": TABLE.assign(n=[1, 3])}, make)
    assert len(made) == 4
    assert {path.suffix for path in store.with_suffix(".tables").iterdir()} == {".csv"}


def test_failed_computation_is_not_stored(store):
    with pytest.raises(ZeroDivisionError):
        kept(store, "scores", {}, lambda: 1 / 0)
    assert len(kept(store, "scores", {}, lambda: TABLE)) == 2


@given(st.lists(st.floats(allow_infinity=False, allow_subnormal=False), min_size=1, max_size=5))
def test_stored_numbers_are_equal(tmp_path_factory, values):
    table = pd.DataFrame({"value": values, "i": range(len(values))})
    for _ in range(2):
        found = kept(tmp_path_factory.mktemp("kept") / "s.sqlite", "t", {}, lambda: table)
        pd.testing.assert_frame_equal(found, table, rtol=1e-12, atol=0, check_dtype=False)


@pytest.mark.parametrize("name", ["", "a/b", "../a"])
def test_invalid_file_name_is_refused(store, name):
    with pytest.raises(InputError, match="a name for a file"):
        kept(store, name, {}, lambda: TABLE)
