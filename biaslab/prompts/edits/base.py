"""Edits: deterministic changes of how a candidate is shown, named after what may sway a judge."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError

Place = Literal["text", "heading", "note"]
Quality = Literal["left", "lowered"]
Reads = Literal["shown", "context"]
_TITLES = "".join(rf"(?<!\b{title})" for title in ("Mr", "Ms", "Mrs", "Dr", "St", "Prof", "[A-Z]"))
_SENTENCE_END = re.compile(rf"{_TITLES}[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])|\n+")


@dataclass(frozen=True)
class Edit:
    """A deterministic change of how a candidate is shown; call it to apply the change.

    Parameters
    ----------
    name : str
        Name in trials and estimates.
    change : callable
        str → str, deterministic; see ``place``.
    place : {"text", "heading", "note"}
        Where the change is applied. ``text``: the candidate's text is replaced by what ``change`` returns for it.
        ``heading``: ``change`` gets the text and returns words to put in brackets after the candidate's name in the
        prompt. ``note``: ``change`` gets the candidate's name in the prompt ("Summary A", or "summary" if one is
        scored) and returns a sentence to put before the question. With ``heading`` and ``note`` the text itself is
        unchanged.
    source : str
        Paper and section that describe the bias.
    quality : {"left", "lowered"}
        Whether the edit preserves quality, so that any effect is bias, or lowers it, so that any gain is bias.
    reads : {"shown", "context"}
        What ``change`` gets: the argument described under ``place``, or the candidate's context (its question or
        source); see `given`.

    Raises
    ------
    InputError
        If place, quality or reads is invalid; when called, if ``change`` does not return text.
    """

    name: str
    change: Callable[[str], str]
    place: Place = "text"
    source: str = ""
    quality: Quality = "left"
    reads: Reads = "shown"

    def __post_init__(self) -> None:
        require_one_of("place", self.place, get_args(Place))
        require_one_of("quality", self.quality, get_args(Quality))
        require_one_of("reads", self.reads, get_args(Reads))

    def __call__(self, text: str) -> str:
        """Apply the change to a text, or to a candidate's name; an edit that reads the context waits for `given`."""
        edited = text if self.reads == "context" else self.change(text)
        if not isinstance(edited, str):
            raise InputError(f"edit {self.name}", edited, "a function from text to text")
        return edited

    def given(self, context: str) -> Edit:
        """Return the edit for the candidates of one context: itself, unless it reads the context.

        Examples
        --------
        >>> Edit("asking", str.upper, reads="context").given("What fell?")("Rain fell.")
        'WHAT FELL?'
        """
        if self.reads == "shown" or not context.strip():
            return self
        words, about = self.change(context), self.change.__doc__ or ""
        return constant(self.name, words, about, self.source, self.place, self.quality)

    @property
    def about(self) -> str:
        """First line of the docstring of ``change``."""
        return (self.change.__doc__ or "").strip().partition("\n")[0]


def edit(
    source: str, place: Place = "text", quality: Quality = "left", name: str | None = None, reads: Reads = "shown"
) -> Callable[[Callable[[str], str]], Edit]:
    """Create an `Edit` from a function, named after it; a decorator.

    Examples
    --------
    >>> @edit(source="our own")
    ... def shouting(text: str) -> str:
    ...     "Write everything in capitals."
    ...     return text.upper()
    >>> shouting.name, shouting("Rain fell."), shouting.about
    ('shouting', 'RAIN FELL.', 'Write everything in capitals.')
    """
    return lambda change: Edit(name or change.__name__, change, place, source, quality, reads)


def constant(
    name: str, words: str, about: str, source: str, place: Place = "heading", quality: Quality = "left"
) -> Edit:
    """Create an `Edit` that shows the same words for every text, such as a label.

    Examples
    --------
    >>> constant("draft", "first draft", "Say that it is a draft.", "our own")("Rain fell.")
    'first draft'
    """

    def change(_: str) -> str:
        return words

    change.__doc__ = about
    return Edit(name, change, place, source, quality)


@dataclass(frozen=True)
class Placed:
    """A candidate as a prompt shows it.

    Parameters
    ----------
    text : str
        Its text.
    heading : str
        Words in brackets after its name; empty for none.
    note : str
        A sentence before the question; empty for none.
    edit : str
        Name of the edit that was applied; empty if the candidate is unedited.
    """

    text: str
    heading: str = ""
    note: str = ""
    edit: str = ""


def placed(edit: Edit | None, text: str, name: str) -> Placed:
    """Return a candidate as it is shown with an edit, or without one.

    Parameters
    ----------
    edit : Edit, optional
        The edit to apply; None for the unedited candidate.
    text : str
        Its text.
    name : str
        Its name in the prompt: "Summary A", or "summary" if one is scored.

    Examples
    --------
    >>> from biaslab.prompts.edits import find_edit
    >>> placed(find_edit(str.upper), "Rain fell.", "Summary A").text
    'RAIN FELL.'
    >>> label = Edit("label", lambda text: "revised version", place="heading")
    >>> placed(label, "Rain fell.", "Summary A")
    Placed(text='Rain fell.', heading='revised version', note='', edit='label')
    """
    if edit is None:
        return Placed(text)
    if edit.place == "heading":
        return Placed(text, heading=edit(text), edit=edit.name)
    if edit.place == "note":
        return Placed(text, note=edit(name), edit=edit.name)
    return Placed(edit(text), edit=edit.name)


def changes(edit: Edit, text: str, name: str) -> bool:
    """Return whether an edit changes how a candidate is shown; some texts give an edit nothing to change.

    Examples
    --------
    >>> from biaslab.prompts.edits import find_edit
    >>> changes(find_edit(str.upper), "RAIN", "Summary A")
    False
    """
    shown = placed(edit, text, name)
    return shown.text != text or bool(shown.heading or shown.note)


def split_sentences(text: str) -> list[str]:
    """Split a text after each sentence and line; the pieces join to the original text.

    Examples
    --------
    >>> split_sentences("Rain fell. Mr. Hale ran.")
    ['Rain fell. ', 'Mr. Hale ran.']
    """
    cuts = [0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]
