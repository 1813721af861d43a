"""Scales hold the answers of Stureborg et al., and a prompt tells which scale it states."""

import math
from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from biaslab.core.errors import InputError
from biaslab.core.scales import SCALES, Scale, find_scale, stated_scale, whole_numbers


def test_granularity_of_stureborg_et_al():
    """Their Table 2, column G; with words it is 13 there, as "weak 1" and "strong 5" were not counted."""
    assert {name: len(scale.labels) for name, scale in SCALES.items()} == {
        "1-5": 5,
        "1-5 words": 15,
        "1-5 float": 13,
        "1-10": 10,
        "1-100": 100,
    }
    inside = [v for v in SCALES["1-5 words"].values if 1 <= v <= 5]
    assert len(inside) == 13
    assert inside == pytest.approx(SCALES["1-5 float"].values, abs=0.004)


def test_words_add_and_take_a_third():
    scale = find_scale("1-5 words")
    worth = dict(zip(scale.labels, scale.values, strict=True))
    assert worth["weak 4"] == pytest.approx(11 / 3)
    assert worth["strong 4"] == pytest.approx(13 / 3)
    assert (scale.low, scale.high) == pytest.approx((2 / 3, 16 / 3))


@given(st.integers(0, 200), st.integers(1, 200))
def test_whole_numbers(low, width):
    scale = whole_numbers(low, low + width)
    assert scale.labels == tuple(str(int(value)) for value in scale.values)
    assert len(scale.labels) == width + 1
    assert [scale.unit(scale.low), scale.unit(scale.high)] == [0.0, 1.0]
    assert scale.unit((scale.low + scale.high) / 2) == pytest.approx(0.5)
    assert math.isnan(scale.unit(math.nan))
    assert stated_scale(f"Rate it with {scale.wording}.") == scale


def test_wordings_tell_scales_apart():
    assert all(a.wording not in b.wording for a, b in permutations(SCALES.values(), 2))
    for first, last in permutations(SCALES.values(), 2):
        assert stated_scale(f"A text says {first.wording}.\n\nGive {last.wording}.") == last
    assert stated_scale("Which is better?") is None
    assert stated_scale("a whole number from 9 (worst) to 3 (best)") is None


def test_bad_scales_are_named():
    with pytest.raises(InputError, match="1-5 words"):
        find_scale("1-7")
    with pytest.raises(InputError, match="0 <= low < high"):
        whole_numbers(5, 5)
    with pytest.raises(InputError, match="0 <= low < high"):
        whole_numbers(-1, 5)
    with pytest.raises(InputError, match="ascending"):
        Scale("x", ("a", "b"), (2.0, 1.0), "a or b")
    with pytest.raises(InputError, match="one number per label"):
        Scale("x", ("a", "b"), (1.0,), "a or b")
    with pytest.raises(InputError, match="different"):
        Scale("x", ("a", "a"), (1.0, 2.0), "a")
