"""What a user gives is refused with its name, its value and what is allowed; what is meant well is taken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import biaslab as bl
from biaslab.core import checks
from biaslab.core.checks import fits, pairs, read, require_counts_and_lists, require_fits
from biaslab.core.errors import BiaslabError, InputError, JudgeError, StoreError
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


def test_require_count_accepts_integers_of_numpy():
    checks.require_count("contexts", np.int64(2), 1)
    for value in (np.int64(0), np.float64(2), True, "2"):
        with pytest.raises(InputError, match=r"contexts is .*, allowed: a whole number of at least 1"):
            checks.require_count("contexts", value, 1)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "y/" * 3000], ids=["long", "null", "deep"])
def test_invalid_paths_raise_biaslab_errors(name):
    with pytest.raises(StoreError):
        bl.Store(name)
    for reader in (bl.read_judgements, lambda path: bl.load_dataset("tabular", path=path)):
        with pytest.raises(InputError, match="an existing file or folder"):
            reader(name)


@pytest.mark.parametrize("kind", ["", "./", "recorded:", "evaluator:", "other:", "atlas:"])
@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".gguf"], ids=["long", "gguf"])
def test_a_judge_of_a_very_long_name_gets_an_error_of_ours(kind, name):
    with pytest.raises(BiaslabError):
        load_judge(kind + name)


WORDS = st.text(st.characters(categories=["L", "N"], exclude_characters=","), min_size=1)


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_numbers_and_truth_come_back(integer, number, truth):
    assert read("x", str(integer), int) == integer
    assert read("x", repr(number), float) == number
    assert read("x", str(truth), bool) is truth
    assert read("x", str(integer), int | None) == integer


@given(st.lists(st.integers(), min_size=1), st.lists(WORDS, min_size=1))
def test_lists_have_commas(numbers, words):
    assert read("x", ",".join(map(str, numbers)), Sequence[int]) == numbers
    assert read("x", ", ".join(words), Sequence[str] | None) == (None if words == ["none"] else words)


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("none", int | None, None),
        ("None", Sequence[str] | None, None),
        ("none", Literal["none", "threshold"], "none"),
        ("none", Literal["none", "threshold"] | None, "none"),
        ("none", str, "none"),
        ("1-10", str, "1-10"),
        ("1-10", tuple[float, float], (1.0, 10.0)),
        ("0.5-1", tuple[float, float], (0.5, 1.0)),
        ("-1-1", tuple[float, float], (-1.0, 1.0)),
        ("yes,no", Sequence[bool], [True, False]),
        ("ex,json", Sequence[Literal["ex", "json"]], ["ex", "json"]),
        ("text=summary,context=article", Mapping[str, str] | None, {"text": "summary", "context": "article"}),
        ("a=0.5", Mapping[str, float], {"a": 0.5}),
        ("", Mapping[str, float], {}),
        ("2024,x", list[int | float | str] | None, [2024, "x"]),
    ],
)
def test_text_is_parsed_by_type_hint(text, hint, value):
    assert read("x", text, hint) == value
    assert type(read("x", text, hint)) is type(value)


@pytest.mark.parametrize(
    ("text", "hint", "output"),
    [
        ("3.5", int, "a whole number"),
        ("nan", float, "a number"),
        ("inf", float, "a number"),
        ("", int, "a whole number"),
        ("2", bool, "true or false"),
        ("none", int, "a whole number"),
        ("1,x", Sequence[int], "a whole number"),
        ("jsn", Literal["ex", "json"], "did you mean json?"),
        ("5", tuple[float, float], "such as 1-5"),
        ("x", Mapping[str, float], "name=value"),
        ("x=y", Mapping[str, float], "a number"),
        ("x", object, "set in Python"),
    ],
)
def test_text_of_another_type_is_refused(text, hint, output):
    with pytest.raises(InputError, match=f"x is .*{output}"):
        read("x", text, hint)


def test_pairs_are_split_at_the_first_sign():
    assert pairs(["a = 1", "b=x=y"], "param", "NAME=VALUE") == {"a": "1", "b": "x=y"}
    assert pairs(None, "param", "NAME=VALUE") == {}
    assert pairs(["cue="], "param", "NAME=VALUE") == {"cue": ""}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(InputError, match="param is"):
            pairs(wrong, "param", "NAME=VALUE")


@pytest.mark.parametrize(
    ("value", "hint", "fitting"),
    [
        (True, int, False),
        (np.int64(3), int, True),
        (np.bool_(True), bool, True),
        (3, float, True),
        ("a", Sequence[str], False),
        (("a", 1), Sequence[str], False),
        (np.array(["a"]), Sequence[str], True),
        ((1.0, 2), tuple[float, float], True),
        ((1.0,), tuple[float, float], False),
        (None, int | None, True),
        ({"a": 1}, Mapping[str, float], True),
        ({"a": "b"}, Mapping[str, float], False),
        ("c", Literal["a", "b"], False),
        (pd.DataFrame({"a": [1]}), Literal["a", "b"], False),
        (len, Callable[[int], int], True),
        (3, Callable[[int], int], False),
        (3, Any, True),
    ],
)
def test_values_fit_declared_types(value, hint, fitting):
    assert fits(value, hint) is fitting


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        ("3", int | None, "x is '3', allowed: a whole number or None"),
        ("a", Sequence[str], r"x is 'a', allowed: a list of names; use \['a'\]"),
        (["medin"], Sequence[Literal["mean", "median"]], "a list of values among mean, median; did you mean median"),
        (3, Mapping[str, float], "a dictionary from a text to a number"),
        ((1,), tuple[str, str], "2 values: a text, a text"),
        (3, Callable[[str], str], "a function"),
        (3, pd.DataFrame, "a DataFrame"),
    ],
)
def test_error_says_declared_type(value, hint, message):
    with pytest.raises(InputError, match=message):
        require_fits("x", value, hint)


@dataclass(frozen=True)
class _Settings:
    seed: int = 0
    samples: int | None = None
    forms: Sequence[Literal["pair", "score"]] = ("pair",)
    names: Sequence[str] = ("a",)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"samples": 0}, "samples is 0, allowed: a whole number of at least 1"),
        ({"forms": []}, "values among pair, score, each once"),
        ({"forms": ["pair", "pair"]}, "values among pair, score, each once"),
        ({"names": ("a", "a")}, "at least one value, each once"),
    ],
)
def test_counts_are_positive_and_lists_have_no_repetition(changed, message):
    require_counts_and_lists(_Settings(), from_zero=("seed",))
    with pytest.raises(InputError, match=message):
        require_counts_and_lists(_Settings(**changed), from_zero=("seed",))


def test_judge_error_keeps_reason_and_remedy_apart():
    error = JudgeError("no probabilities; 3 of 4", remedy="use samples")
    assert (error.reason, error.remedy, str(error)) == (
        "no probabilities; 3 of 4",
        "use samples",
        "no probabilities; 3 of 4; use samples",
    )
