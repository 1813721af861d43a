"""Null edits: meaningless changes of the same size as an edit, the noise floor against which an edit is compared.

A judge's score changes whenever a text does, even by a comma, so an effect of an edit is not yet bias. Every edit has
a null edit, also deterministic, which changes and adds as many words, or is in the same place of the prompt, and gives
no reason to think better or worse of the candidate:

* for words changed or removed: as many places of the text are changed, first by expanding contractions of "not"
  ("didn't" → "did not"), then by doubling spaces between words, evenly over the text;
* for words added: sentences about the text itself with as many words, which say nothing about the content, at the end;
* for a heading: "text no. 7"; for a note: a sentence with as many words that names the candidate without saying
  anything about it.

The effect of an edit beyond its null edit is the effect of its meaning. Null edits of the same size turn a text into
the same text, which is asked about once, so edits that are compared share their noise floor, and its noise. A null
edit is not among `biaslab.edits.available`; its name is "null:" followed by that of the edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import partial
from typing import NamedTuple

import numpy as np

from biaslab.prompts.edits.base import Edit, Place

PREFIX = "null:"
_HEADING = "text no. 7"
_CONTRACTION = re.compile(r"\b(?!ain)([a-z]+n)['’]t\b", re.IGNORECASE)
_STEMS = {"can": "can", "won": "will", "shan": "shall"}  # others drop an n before "not"
_BLANK = re.compile(r"(?<=\S) (?=\S)")
#: Sentences of 1, 2, … 9 words, to end a text.
_LAST = (
    "End.",
    "It ends.",
    "This ends it.",
    "The text ends here.",
    "The text ends right here.",
    "This is where the text ends.",
    "This is the place where it ends.",
    "This is the place at which it ends.",
    "This is the place at which the text ends.",
)
#: Sentences of 9 words, to precede the last one.
_BEFORE = (
    "What stands here is one more line of text.",
    "The next line comes after the one before it.",
    "A line like this one is found in places.",
)


class Size(NamedTuple):
    """Size of an edit: number of words changed or removed, and number of words added."""

    changed: int
    added: int


def null_edit(edit: Edit) -> Edit:
    """Return the null edit of an edit: a meaningless change of the same size in the same place.

    Parameters
    ----------
    edit : Edit
        Any edit.

    Returns
    -------
    Edit
        Named "null:" plus the edit's name, with the same place, quality-preserving. Texts that the edit does not
        change are unchanged.

    Examples
    --------
    >>> from biaslab.prompts.edits import find_edit
    >>> null = null_edit(find_edit("authority"))
    >>> null.name, null("Rain fell.")
    ('null:authority', 'Rain fell. The next line comes after the one before it. It ends.')
    >>> null_edit(find_edit(str.upper))("So it didn't fall.")
    'So  it  did not  fall.'
    """
    edits: dict[Place, Callable[[str], str]] = {
        "text": partial(_same_size, edit),
        "heading": lambda _: _HEADING,
        "note": partial(_same_note, edit),
    }
    return Edit(f"{PREFIX}{edit.name}", edits[edit.place], edit.place, source="the noise floor of " + edit.name)


def size_of(before: str, after: str) -> Size:
    """Return how many words of a text are changed or removed, and how many are added; at least one if it differs.

    Examples
    --------
    >>> size_of("Rain fell on Monday.", "Heavy rain fell.")
    Size(changed=4, added=0)
    >>> size_of("Rain fell.", "Rain fell. Good!")
    Size(changed=0, added=1)
    """
    one, two = before.split(), after.split()
    changed = added = 0
    for operation, start, end, begin, stop in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if operation != "equal":
            changed += end - start
            added += max(0, (stop - begin) - (end - start))
    return Size(int(before != after) if changed + added == 0 else changed, added)


def neutral(words: int) -> str:
    """Return sentences with a number of words that say nothing.

    Examples
    --------
    >>> neutral(4), neutral(12)
    ('The text ends here.', 'A line like this one is found in places. This ends it.')
    """
    sentences = []
    while words > len(_LAST):
        sentences.append(_BEFORE[words % len(_BEFORE) - 1])
        words -= len(_LAST)
    return " ".join([*sentences, _LAST[words - 1]]) if words > 0 else ""


def _same_size(edit: Edit, text: str) -> str:
    """Change as many words of a text, and add as many, as an edit does."""
    edited = edit(text)
    if edited == text:
        return text
    changed, added = size_of(text, edited)
    moved, places = _move(text, changed)
    added = max(added, int(places == 0))  # a one-word text has no place to change
    return f"{moved.rstrip()} {neutral(added)}".lstrip() if added else moved


def _move(text: str, places: int) -> tuple[str, int]:
    """Expand contractions, then double spaces, in a number of places; return the text and the number of changes."""
    written, count = _CONTRACTION.subn(_without_contraction, text, count=places) if places else (text, 0)
    blanks = [match.start() for match in _BLANK.finditer(written)]
    wanted = min(places - count, len(blanks))
    chosen = {blanks[i] for i in np.linspace(0, len(blanks) - 1, wanted).astype(int)} if wanted else set()
    moved = "".join(letter * 2 if place in chosen else letter for place, letter in enumerate(written))
    return moved, count + len(chosen)


def _without_contraction(match: re.Match[str]) -> str:
    stem = match[1]
    plain = _STEMS.get(stem.lower())
    if plain is None:
        return f"{stem[:-1]} not"
    return f"{plain.capitalize() if stem[0].isupper() else plain} not"


def _same_note(edit: Edit, name: str) -> str:
    """Return a note of the same length that names the candidate without saying anything about it."""
    called = f"This {name}" if name.islower() else name
    first = f"{called} is one text on this page."
    rest = len(edit(name).split()) - len(first.split())
    return f"{first} {neutral(rest)}".rstrip()
