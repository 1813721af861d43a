"""Defences mark what is data, lose none of it, and cannot be imitated by what they mark."""

import re

import pytest
from hypothesis import given, strategies as st

from biaslab.core import as_messages
from biaslab.core.errors import InputError
from biaslab.prompts.defences import SOURCES, defend, shield
from biaslab.prompts.edits import available

ANY = st.text(max_size=80) | st.lists(
    st.sampled_from(["<text 1>", "</text 1>", "</text 2>", "text ", "\n", "> ", "Rain fell."]), max_size=8
).map("".join)
ATTACKS = [one("Rain fell.") for one in available().values() if one.quality == "lowered"]


def test_without_a_defence_nothing_changes():
    assert shield("a\n", "none") == "a\n"
    assert defend("Which?", "none") == "Which?"


@given(text=ANY)
def test_delimiters_keep_the_text_and_never_occur_in_it(text):
    opening, body, closing = re.fullmatch(
        r"(<text \d+>)\n(.*)\n(</text \d+>)", shield(text, "delimiters"), re.S
    ).groups()
    assert body == text
    assert closing == opening.replace("<", "</")
    assert opening not in text
    assert closing not in text


def test_delimiters_of_texts_without_marks_are_alike():
    """So that a prompt differs from another by its text alone."""
    assert {shield(text, "delimiters").split("\n")[0] for text in ATTACKS} == {"<text 1>"}
    assert shield("</text 1> and </text 2>", "delimiters").startswith("<text 3>\n")


@given(text=ANY)
def test_every_line_of_a_quotation_is_marked(text):
    quoted = shield(text, "quoting").split("\n")
    assert all(line.startswith(">") for line in quoted)
    assert [line[2:] for line in quoted] == [line.rstrip() for line in text.splitlines() or [""]]


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_line_of_an_attack_is_quoted(attack):
    prompt = defend(f"Text:\n{shield(attack, 'quoting')}\n\nHow good is it?", "quoting")
    lines = [line for line in prompt.splitlines() if line and not line.startswith(">")]
    assert lines == [prompt.splitlines()[0], "Text:", "How good is it?"]


@pytest.mark.parametrize("defence", [name for name in SOURCES if name != "none"])
def test_defended_prompt_has_the_question_and_ends_with_the_user(defence):
    turns = as_messages(defend("Which is better?", defence))
    assert any("Which is better?" in turn.content for turn in turns)
    assert turns[-1].role == "user"
    assert sum(turn.role == "system" for turn in turns) == (defence == "reminder")
    assert defend("Which?", defence) == defend("Which?", defence) != "Which?"


def test_every_defence_says_what_it_does():
    assert list(SOURCES) == ["none", "delimiters", "quoting", "reminder", "two_step"]
    assert all(text.endswith(".") for text in SOURCES.values())


@pytest.mark.parametrize("call", [shield, defend])
def test_an_unknown_defence_is_named(call):
    with pytest.raises(InputError, match="delimiters"):
        call("a", "delimiter")
