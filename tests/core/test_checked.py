"""Arguments are compared only where a call failed, or where that is asked for; whatever is given is told in words."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import typeguard

import biaslab as bl
from biaslab.core.checked import checked
from biaslab.core.errors import InputError, JudgeError, TrialsError
from biaslab.core.kind_words import remedy_for, words_for
from biaslab.core.kinds import is_kind, wrong_column, wrong_value

FRAME = pd.DataFrame({"a": [1.0]})


@checked
def half(number: float, names: Sequence[str] = ()) -> float:
    return number / 2 + len(list(names))


@checked
def halves(numbers: Iterable[float]) -> Iterator[float]:
    for number in numbers:
        yield number / 2


@checked
def first(trials: pd.DataFrame, column: str) -> Any:
    return trials[column].iloc[0]


@checked
def called(function: Callable[[], Any], name: str = "") -> Any:
    return function()


@checked(eager=True)
@dataclass(frozen=True)
class Kept:
    size: int
    names: Sequence[str] = ()

    def __post_init__(self):
        if self.size == 3:
            raise InputError("size", 3, "any other")

    def times(self, factor: int) -> int:
        return self.size * factor

    @classmethod
    def of(cls, text: str) -> "Kept":
        return cls(len(text.strip()))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: half("4"), "number is '4', allowed: a number; write it without quotes"),
        (lambda: half(None), "number is None, allowed: a number"),
        (lambda: half(1, names=4), "names is 4, allowed: a list of names"),
        (lambda: list(halves([1, "2"])), "numbers is [1, '2'], allowed: a list of numbers"),
        (lambda: Kept("3"), "size is '3', allowed: a whole number"),
        (lambda: Kept(3), "size is 3, allowed: any other"),
        (lambda: Kept(2, "coherence"), "names is 'coherence', allowed: a list of names; write ['coherence']"),
        (lambda: half(FRAME, 3), "number is a DataFrame of 1 rows and 1 columns, allowed: a number"),
        (lambda: Kept.of(2), "text is 2, allowed: a string"),
    ],
)
def test_the_argument_is_named(call, says):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(says)


def test_good_calls_are_as_before():
    assert half(4, ["a"]) == 3.0
    assert half(np.int64(4)) == 2.0
    assert list(halves([2, 4])) == [1.0, 2.0]
    assert Kept(2, ("a",)).times(3) == 6
    assert pickle.loads(pickle.dumps(half)) is half
    assert half.__name__ == "half"
    assert half.__globals__ is globals()  # by which doctest finds it


def test_other_errors_pass():
    def refuse():
        raise JudgeError("no")

    def fail():
        raise ZeroDivisionError

    with pytest.raises(JudgeError):
        called(refuse)
    with pytest.raises(ZeroDivisionError):
        called(fail)  # although the name is empty
    with pytest.raises(ZeroDivisionError):
        half.__wrapped__.__globals__["called"](fail, "name")
    with pytest.raises(TypeError, match="unexpected keyword"):
        half(1, nothing=2)


def test_the_error_that_escaped_is_its_cause():
    with pytest.raises(InputError) as caught:
        half("4")
    assert isinstance(caught.value.__cause__, TypeError)


def test_columns_that_a_frame_lacks():
    trials = pd.DataFrame({"context_id": ["a"], "value": [1.0], "status": ["ok"]})
    with pytest.raises(InputError, match=r"column is 'valu', allowed: a column of trials: .*did you mean value\?"):
        first(trials, "valu")
    with pytest.raises(TrialsError, match=r"a frame of trials, as from biaslab.collect"):
        first(FRAME, "value")
    assert wrong_column([("frame", FRAME)], ValueError()) is None


@pytest.mark.parametrize(
    ("value", "annotation", "fits"),
    [
        (True, int, False),
        (np.int64(3), int, True),
        (3, float, True),
        (np.float64(3), float, True),
        ("a", Sequence[str], False),
        (["a"], Sequence[str], True),
        (("a", 1), Sequence[str], False),
        (np.array(["a"]), Sequence[str], True),
        ((1.0, 2), tuple[float, float], True),
        ((1.0,), tuple[float, float], False),
        (None, int | None, True),
        (iter([]), Iterable[int], True),
        (iter([]), Sequence[int], False),
        ({"a": 1}, Mapping[str, float], True),
        ({"a": "b"}, Mapping[str, float], False),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        (len, Callable[[int], int], True),
        (3, Callable[[int], int], False),
        (FRAME, pd.DataFrame, True),
        (3, Any, True),
    ],
)
def test_kinds(value, annotation, fits):
    assert is_kind(value, annotation) is fits


def test_nobody_elses_typeguard_changes():
    typeguard.check_type(True, int)
    assert is_kind(True, int) is False
    typeguard.check_type("names", Sequence[str])


def test_empty_values_and_no_numbers():
    for value in (float("nan"), "", [], FRAME.iloc[:0], np.array([])):
        assert wrong_value("it", value).allowed
    for value in (0.0, "a", [1], FRAME, {}, np.array(3.0), None):
        assert wrong_value("it", value) is None


def test_words():
    assert words_for(int | None) == "a whole number or None"
    assert words_for(Sequence[str] | None) == "a list of names or None"
    assert words_for(pd.DataFrame, "trials") == "a frame of trials, as from biaslab.collect"
    assert words_for(Mapping[str, float]) == "a dictionary from a string to a number"
    assert remedy_for(Sequence[str], "names", "a") == "write ['a']"


def test_annotations_that_are_imported_for_types_alone():
    with pytest.raises(InputError, match=r"allowed: a data set, as from biaslab.load_dataset"):
        bl.load_judge("simulated:position=1", 3)
