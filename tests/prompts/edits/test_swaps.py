"""Identity and spelling: words swapped whole, back again by the same swap, and nothing else touched."""

import re

import pytest
from edited_texts import SENTENCES, SUMMARY, numbers_of
from hypothesis import given, strategies as st

from biaslab.prompts.edits import find_edit
from biaslab.prompts.edits.swaps import swapper

gender, race, british = (find_edit(name) for name in ("gender_swapped", "race_swapped", "spelling_british"))
CASES = st.sampled_from([str.lower, str.capitalize, str.upper])
NOUNS = st.sampled_from(
    ["man", "woman", "king", "queen", "father", "sister", "himself", "he", "she", "ladies", "actor"]
)
OWNED = st.sampled_from(["his book", "her book", "his own car", "told him.", "saw her, and", "is hers.", "was his!"])
NAMES = st.sampled_from(["Emily", "Lakisha", "Greg", "Jamal", "Brad", "TAMIKA", "Anne"])


def cased(words):
    return st.tuples(words, CASES).map(lambda found: found[1](found[0]))


MEN_AND_WOMEN = st.lists(cased(NOUNS) | OWNED | SENTENCES | st.just("kingfisher human Hermes theme"), max_size=8)


@given(parts=MEN_AND_WOMEN)
def test_gender_swapped_twice_is_the_text(parts):
    text = " ; ".join(parts)
    assert gender(gender(text)) == text
    assert numbers_of(gender(text)) == numbers_of(text)


@given(parts=st.lists(NAMES | SENTENCES | st.just("gregarious Annex jay"), max_size=8))
def test_names_swapped_twice_are_the_text(parts):
    text = " ".join(parts)
    assert race(race(text)) == text


@given(text=st.text(max_size=80))
def test_a_swap_of_any_text_goes_back(text):
    swap = swapper("he/she Ann/Ben")
    assert swap(swap(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He lost his hat; she gave him hers.", "She lost her hat; he gave her his."),
        ("Her brother saw her. THE KING RAN.", "His sister saw him. THE QUEEN RAN."),
        ("The book is his, and she told him.", "The book is hers, and he told her."),
        ("They saw her in Rome with her mother.", "They saw him in Rome with his father."),
        ("The chairman of Manchester; a human theme.", "The chairman of Manchester; a human theme."),
        ("The he-goat and the well-man clinic.", "The he-goat and the well-man clinic."),
        ("Mr Smith's wife says he's late.", "Ms Smith's husband says she's late."),
    ],
)
def test_gender_in_sentences(text, expected):
    assert gender(text) == expected


def test_names_are_names_only_with_a_capital():
    assert race("Emily told Greg; the emily; Brads.") == "Lakisha told Jamal; the emily; Brads."


def test_british_spelling():
    assert british("The color of the theater, organized.") == "The colour of the theatre, organised."
    assert british("Rockefeller Center on Labor Day") == "Rockefeller Center on Labor Day"
    assert british(british("a gray color")) == "a grey colour"
    assert british("discolored; colorful") == "discolored; colorful"


@given(text=SENTENCES)
@pytest.mark.parametrize("name", ["gender_swapped", "race_swapped", "spelling_british"])
def test_swaps_leave_numbers_and_all_that_is_no_word(name, text):
    assert re.sub(r"\w+", "", find_edit(name)(text)) == re.sub(r"\w+", "", text)
    assert numbers_of(find_edit(name)(text)) == numbers_of(text)


def test_gender_swap_of_the_summary_changes_only_she_and_mr():
    assert gender(SUMMARY).replace(" he ", " she ").replace("Ms.", "Mr.") == SUMMARY
