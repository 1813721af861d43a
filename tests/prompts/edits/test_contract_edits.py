"""What every edit owes: each module of `biaslab.prompts.edits` is found here by itself."""

import pytest
from hypothesis import given, settings, strategies as st

import biaslab as bl
from biaslab.core.errors import InputError
from biaslab.prompts.edits import available, changes, find_edit, placed

#: Words in which somebody may find something to change: hedges, people, numbers, reasons, contractions, lists.
CORPUS = [
    "I think the bridge may have been closed on Monday, because the engineers perhaps found a crack. It's not certain.",
    "She told her brother that the chairman, Mr. Smith, a Black man of 40, didn't come. Therefore, he was late.",
    "It is definitely so that 3 of 4 trains were late; however, nobody complained. They waited, then they left.",
    "Emily and Greg liked the color of the theater.",
    *bl.load_dataset("graded", limit=2).candidates["text"],
]


@pytest.fixture(params=available().values(), ids=list(available()))
def edit(request):
    return request.param.given("What happened to the bridge?")


def test_edit_has_description_and_source(edit):
    assert edit.about
    assert edit.source
    assert available()[edit.name] is find_edit(edit.name)
    assert available()[edit.name].about == edit.about
    assert not edit.name.startswith("null:")


def test_changes_what_is_shown(edit):
    assert any(changes(edit, text, "Summary A") for text in CORPUS)
    for name in ("Summary A", "summary"):
        for text in CORPUS:
            shown = placed(edit, text, name)
            if edit.place == "text":
                assert (shown.heading, shown.note) == ("", "")
            else:
                assert shown.text == text
                assert (shown.heading if edit.place == "heading" else shown.note).strip()


@settings(max_examples=25)
@given(text=st.text())
@pytest.mark.parametrize("name", list(available()))
def test_is_deterministic_and_makes_text_of_any_text(name, text):
    edit = find_edit(name)
    made = edit(text)
    assert isinstance(made, str)
    assert made == edit(text)


def test_a_note_names_the_candidate(edit):
    if edit.place == "note":
        assert edit("Summary B") != edit("Summary A")


def test_own_functions_are_edits_and_no_text_is_refused():
    assert find_edit(str.upper)("Rain.") == "RAIN."
    with pytest.raises(InputError, match="function from text to text"):
        find_edit(len)("Rain.")
    with pytest.raises(InputError, match="authority"):
        find_edit("authorty")
