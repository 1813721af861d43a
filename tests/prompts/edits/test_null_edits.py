"""Null edits are as large as what they stand beside, leave every word of a text, and are no edits of their own."""

import pytest
from hypothesis import given, strategies as st

from biaslab.prompts.edits import Edit, available, edit, find_edit, null_edit
from biaslab.prompts.edits.null import Size, neutral, size_of

WORDS = st.lists(st.text("abcdefghij", min_size=1, max_size=6), min_size=1, max_size=30, unique=True)


def shouting_first(n):
    """An edit that changes the first n words."""
    return Edit("shouting", lambda text: " ".join([*map(str.upper, text.split()[:n]), *text.split()[n:]]))


def ending(n):
    """An edit that adds n words."""
    return Edit("ending", lambda text: f"{text} {'indeed ' * n}".strip())


@given(words=WORDS, n=st.integers(1, 40))
def test_adds_as_many_words(words, n):
    text = " ".join(words)
    made = null_edit(ending(n))(text)
    assert size_of(text, made) == size_of(text, ending(n)(text)) == Size(0, n)
    assert made.split()[: len(words)] == words


@given(words=WORDS, n=st.integers(1, 40))
def test_changes_as_many_places_and_no_word(words, n):
    text = " ".join(words)
    made = null_edit(shouting_first(n))(text)
    if len(words) == 1:
        assert made == f"{text} End."
        return
    assert made.split() == words
    assert made.count("  ") == min(n, len(words) - 1)


@given(text=st.text())
def test_is_deterministic_and_changes_what_the_edit_changes(text):
    for change in (find_edit("authority"), find_edit(str.upper), find_edit(str.strip)):
        null = null_edit(change)
        assert null(text) == null_edit(change)(text)
        assert (null(text) == text) == (change(text) == text)


@given(n=st.integers(0, 200))
def test_neutral_text_has_the_number_of_words(n):
    assert len(neutral(n).split()) == n


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("It didn't.", "It did not."),
        ("We can't go.", "We can not go."),
        ("Won’t you?", "Will not you?"),
        ("Isn't it", "Is not it"),
    ],
)
def test_contractions_are_written_out_first(text, written):
    assert null_edit(shouting_first(1))(text) == written


def test_in_a_heading_and_in_a_note():
    heading = Edit("label", lambda text: "revised version", place="heading")
    assert null_edit(heading)("Rain.") == "text no. 7"

    @edit(source="our own", place="note")
    def crowd(name):
        """Say what most people think."""
        return f"Nine of ten readers of all those who were asked about it think that {name} is the better one of them."

    for name in ("Summary A", "summary"):
        null = null_edit(crowd)
        assert null.place == "note"
        assert name in null(name)
        assert abs(len(null(name).split()) - len(crowd(name).split())) <= 1


def test_are_not_among_the_edits_and_leave_quality():
    assert not any("null" in name for name in available())
    null = null_edit(find_edit("authority"))
    assert (null.name, null.quality, null.place) == ("null:authority", "left", "text")


def test_sizes():
    assert size_of("a b c", "a b c") == (0, 0)
    assert size_of("a b c", "a  b c") == (1, 0)  # white space alone
    assert size_of("a b c", "a c") == (1, 0)
    assert size_of("a b c", "a x y c d") == (1, 2)
    assert size_of("", "x y") == (0, 2)
