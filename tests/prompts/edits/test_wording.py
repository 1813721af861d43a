"""Assertiveness, fallacies, layout, repetition: what exactly changes, shown as a diff."""

import difflib
import re

import pytest
from edited_texts import DIALOGUE, SENTENCES, SUMMARY, numbers_of, words_of
from hypothesis import given, strategies as st

from biaslab.prompts.edits import find_edit
from biaslab.prompts.edits.base import split_sentences
from biaslab.prompts.edits.presentation import swapper

MARKUP = re.compile(r"[*#✨👍]|^- ", re.M)


def diff(name, text):
    """Words taken out and put in, each with its place left out."""
    lines = list(difflib.ndiff(words_of(text), words_of(find_edit(name)(text))))
    return [line for line in lines if line[0] in "+-"]


@given(text=SENTENCES | st.text(max_size=60))
def test_pieces_join_up_to_the_text(text):
    assert "".join(split_sentences(text)) == text
    assert all(split_sentences(text))


def test_sentence_splitting():
    assert [part.strip() for part in split_sentences(SUMMARY)] == [
        "The council voted on 12 May 2024 to close the old bridge, because it had rusted for years.",
        "Mr. Hale said that it was perhaps the cheapest way.",
        "About 3,500 people signed a letter against it, and she promised to read it.",
    ]
    assert len(split_sentences(DIALOGUE)) == 4


def test_hedges_put_in_are_all_that_changes():
    found = diff("hedged", "Rain fell. It was 3.5 mm.")
    assert " ".join(found) == "- fell. + fell, + I + think. - mm. + mm, + I + think."
    assert " ".join(diff("assertive", "Rain fell.")) == "- fell. + fell, + without + any + doubt."
    assert diff("hedged", "It rained at 3 p.m. in the U.S.") == []


@given(text=SENTENCES)
@pytest.mark.parametrize(("name", "put"), [("hedged", ", I think"), ("assertive", ", without any doubt")])
def test_inserted_text_can_be_removed_again(name, put, text):
    assert find_edit(name)(text).replace(put, "") == text


def test_hedges_taken_out():
    assert diff("unhedged", SUMMARY) == ["- perhaps"]
    assert find_edit("unhedged")("It was, perhaps, late. He is probably right.") == "It was late. He is right."
    assert find_edit("unhedged")("It was, I think.") == "It was."


@given(text=SENTENCES)
def test_taking_out_hedges_takes_out_nothing_else(text):
    taken = [line[2:] for line in diff("unhedged", text) if line[0] == "-"]
    assert all(re.match(r"(perhaps|I|think),?$|.*,$", word) for word in taken)
    assert numbers_of(find_edit("unhedged")(text)) == numbers_of(text)


@pytest.mark.parametrize("name", ["unhedged", "fallacy_circular", "fallacy_reversed", "beauty_list", "beauty_bold"])
def test_text_without_a_match_is_unchanged(name):
    assert find_edit(name)("Rain fell") == "Rain fell"


@given(text=SENTENCES)
@pytest.mark.parametrize("name", ["beauty_list", "beauty_bold", "beauty_emoji"])
def test_without_its_markup_a_beautiful_text_is_the_text(name, text):
    assert words_of(MARKUP.sub("", find_edit(name)(text))) == words_of(text)


def test_layout():
    assert find_edit("beauty_list")("Rain fell. Snow fell.") == "- Rain fell.\n- Snow fell."
    bold = find_edit("beauty_bold")(SUMMARY)
    assert re.findall(r"\*\*(.+?)\*\*", bold) == ["12 May 2024", "3,500"]
    assert find_edit("beauty_bold")("He met Ann Lee in Rome.") == "He met **Ann Lee** in **Rome**."
    headline, _, body = find_edit("beauty_headline")(SUMMARY).partition("\n\n")
    assert headline == "## The council voted on 12"
    assert body == SUMMARY


def test_padding_follows_every_sentence_and_line():
    assert find_edit("padding")("Rain fell. Snow fell.\nIce.").split("\n") == [
        "Rain fell. This is worth noting. Snow fell. It should be kept in mind.",
        "Ice. So much can be said here.",
    ]
    assert find_edit("restating")("Rain fell.").count("Rain fell.") == 2


def test_a_fallacy_keeps_the_conclusion_and_breaks_the_reason():
    reversed_ = find_edit("fallacy_reversed")(SUMMARY)
    assert reversed_.startswith(
        "It had rusted for years because the council voted on 12 May 2024 to close the old bridge. Mr. Hale said"
    )
    assert sorted(words_of(re.sub(r"[,.]", "", reversed_).lower())) == sorted(
        words_of(re.sub(r"[,.]", "", SUMMARY).lower())
    )
    assert find_edit("fallacy_reversed")("Ann ran because Ben ran.") == "Ben ran because Ann ran."
    circular = find_edit("fallacy_circular")(SUMMARY)
    claim = split_sentences(SUMMARY)[0].strip()
    assert circular.startswith(claim)
    assert circular.endswith(claim)
    assert "Hale" not in circular


def test_a_reason_reversed_twice_is_the_reason():
    for text in ("The bridge fell because the rain came.", "Ann left because Ben slept. It rained."):
        once = find_edit("fallacy_reversed")(text)
        assert once != text
        assert find_edit("fallacy_reversed")(once) == text


def test_repetition():
    assert find_edit("first_sentence_repeated")("Rain fell. Snow fell.") == "Rain fell. Rain fell. Rain fell."
    assert find_edit("first_sentence_repeated")(" ") == " "


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
