"""Values as people write them: what is read is what was meant, and what is no value of its type is refused."""

from collections.abc import Mapping, Sequence
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError
from biaslab.core.written import pairs, read

WORDS = st.text(st.characters(categories=["L", "N"], exclude_characters=","), min_size=1)


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_numbers_and_truth_come_back(whole, number, truth):
    assert read("x", str(whole), int) == whole
    assert read("x", repr(number), float) == number
    assert read("x", str(truth), bool) is truth
    assert read("x", str(whole), int | None) == whole


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
    ("text", "hint", "said"),
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
def test_text_of_another_type_is_refused(text, hint, said):
    with pytest.raises(InputError, match=f"x is .*{said}"):
        read("x", text, hint)


def test_pairs_are_split_at_the_first_sign():
    assert pairs(["a = 1", "b=x=y"], "param", "NAME=VALUE") == {"a": "1", "b": "x=y"}
    assert pairs(None, "param", "NAME=VALUE") == {}
    assert pairs(["cue="], "param", "NAME=VALUE") == {"cue": ""}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(InputError, match="param is"):
            pairs(wrong, "param", "NAME=VALUE")
