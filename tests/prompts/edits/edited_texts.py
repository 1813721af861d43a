"""Texts of our own, and what may be in any text."""

import re

from hypothesis import strategies as st

SUMMARY = (
    "The council voted on 12 May 2024 to close the old bridge, because it had rusted for years. Mr. Hale said that it "
    "was perhaps the cheapest way. About 3,500 people signed a letter against it, and she promised to read it."
)
DIALOGUE = "Ann: Hi, Ben!\nBen: Hello. I think it may rain today.\nAnn: Then I stay at home."
TEXTS = {"summary": SUMMARY, "dialogue": DIALOGUE, "one": "Rain fell", "blank": " \n"}
WORDS = st.sampled_from(SUMMARY.split() + DIALOGUE.split() + ["\n", "—", "é", "12.5", "U.S.", "?", "\u2028"])
SENTENCES = st.lists(WORDS, max_size=25).map(" ".join)


def words_of(text):
    """Everything between white space."""
    return text.split()


def is_subsequence(short, long):
    """Whether the words of one stand in the other in their order."""
    rest = iter(long)
    return all(word in rest for word in short)


def numbers_of(text):
    return re.findall(r"\d+(?:[.,]\d+)*", text)
