"""What a user gives is refused with its name, its value and what is allowed; what is meant well is taken."""

import numpy as np
import pytest

import biaslab as bl
from biaslab.core import checks
from biaslab.core.errors import BiaslabError, InputError, StoreError
from biaslab.judges import load_judge


@pytest.mark.parametrize("value", [1, 7])
def test_whole_numbers_are_accepted(value):
    checks.require_whole("folds", value, 1)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "2", None, np.float64(2), np.int64(2), np.True_])
def test_anything_else_is_no_whole_number(value):
    with pytest.raises(InputError, match=r"folds is .*, allowed: a whole number of at least 1"):
        checks.require_whole("folds", value, 1)


def test_a_range_has_two_ends():
    assert [checks.is_whole(value, 2, 4) for value in (1, 2, 4, 5)] == [False, True, True, False]


@pytest.mark.parametrize("value", ["mean", None, ["cls"], ("cls", "last")])
def test_one_of(value):
    checks.require_one_of("pooling", "cls", ("cls", "last"))
    with pytest.raises(InputError, match=r"pooling is .*, allowed: one of cls, last"):
        checks.require_one_of("pooling", value, ("cls", "last"))


@pytest.mark.parametrize("values", ["cls", [], None, 3, ["cls", "cls"], ["cls", "mean"], [["cls"]]])
def test_some_of(values):
    for good in (["cls"], ("last", "cls"), {"last"}, iter(["cls"])):
        checks.require_some_of("pooling", good, ("cls", "last"))
    with pytest.raises(InputError, match="allowed: a list of values among cls, last, each once"):
        checks.require_some_of("pooling", values, ("cls", "last"))


def test_a_lone_name_is_no_list():
    checks.require_attributes_list(None)
    checks.require_attributes_list(["fluency"])
    with pytest.raises(InputError, match=r"use \['fluency'\]"):
        checks.require_attributes_list("fluency")


def test_require_count_accepts_integers_of_numpy():
    checks.require_count("contexts", np.int64(2), 1)
    for value in (np.int64(0), np.float64(2), True, "2"):
        with pytest.raises(InputError, match=r"contexts is .*, allowed: a whole number of at least 1"):
            checks.require_count("contexts", value, 1)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "y/" * 3000], ids=["long", "null", "deep"])
def test_invalid_paths_raise_biaslab_errors(name):
    with pytest.raises(StoreError):
        bl.Store(name)
    for read in (bl.read_judgements, lambda path: bl.load_dataset("tabular", path=path)):
        with pytest.raises(InputError, match="an existing file or folder"):
            read(name)


@pytest.mark.parametrize("kind", ["", "./", "recorded:", "evaluator:", "other:", "atlas:"])
@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".gguf"], ids=["long", "gguf"])
def test_a_judge_of_a_very_long_name_gets_an_error_of_ours(kind, name):
    with pytest.raises(BiaslabError):
        load_judge(kind + name)
