"""`TextEdit`: a deterministic change of how a candidate is shown, its null edit, and edits given as a table.

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

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from biaslab.core.checks import require_one_of
from biaslab.core.errors import InputError

EditTarget = Literal["text", "heading", "note"]
Quality = Literal["left", "lowered"]
Reads = Literal["shown", "context"]
_TITLES = "".join(rf"(?<!\b{title})" for title in ("Mr", "Ms", "Mrs", "Dr", "St", "Prof", "[A-Z]"))
_SENTENCE_END = re.compile(rf"{_TITLES}[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9])|\n+")


@dataclass(frozen=True)
class TextEdit:
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
    place: EditTarget = "text"
    source: str = ""
    quality: Quality = "left"
    reads: Reads = "shown"

    def __post_init__(self) -> None:
        require_one_of("place", self.place, get_args(EditTarget))
        require_one_of("quality", self.quality, get_args(Quality))
        require_one_of("reads", self.reads, get_args(Reads))

    def __call__(self, text: str) -> str:
        """Apply the change to a text, or to a candidate's name; an edit that reads the context waits for `given`."""
        edited = text if self.reads == "context" else self.change(text)
        if not isinstance(edited, str):
            raise InputError.plain(f"edit {self.name} returned {edited!r}, expected: a function from text to text")
        return edited

    def given(self, context: str) -> TextEdit:
        """Return the edit for the candidates of one context: itself, unless it reads the context.

        Examples
        --------
        >>> TextEdit("asking", str.upper, reads="context").given("What fell?")("Rain fell.")
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
    source: str, place: EditTarget = "text", quality: Quality = "left", reads: Reads = "shown"
) -> Callable[[Callable[[str], str]], TextEdit]:
    """Create a `TextEdit` from a function, named after it; a decorator.

    Examples
    --------
    >>> @edit(source="our own")
    ... def shouting(text: str) -> str:
    ...     "Write everything in capitals."
    ...     return text.upper()
    >>> shouting.name, shouting("Rain fell."), shouting.about
    ('shouting', 'RAIN FELL.', 'Write everything in capitals.')
    """
    return lambda change: TextEdit(change.__name__, change, place, source, quality, reads)


def constant(
    name: str, words: str, about: str, source: str, place: EditTarget = "heading", quality: Quality = "left"
) -> TextEdit:
    """Create a `TextEdit` that shows the same words for every text, such as a label.

    Examples
    --------
    >>> constant("draft", "first draft", "Say that it is a draft.", "our own")("Rain fell.")
    'first draft'
    """

    def change(_: str) -> str:
        return words

    change.__doc__ = about
    return TextEdit(name, change, place, source, quality)


def framed(name: str, frame: str, about: str, source: str, quality: Quality = "left") -> TextEdit:
    """Create a `TextEdit` that puts the text into a frame of fixed words.

    Examples
    --------
    >>> framed("sure", "{text} So it is.", "Confirm it.", "ours")("It rains. ")
    'It rains. So it is.'
    """

    def change(text: str) -> str:
        return frame.format(text=text.rstrip(), bare=text.strip())

    change.__doc__ = about
    return TextEdit(name, change, "text", source, quality)


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


def placed(edit: TextEdit | None, text: str, name: str) -> Placed:
    """Return a candidate as it is shown with an edit, or without one.

    Parameters
    ----------
    edit : TextEdit, optional
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
    >>> label = TextEdit("label", lambda text: "revised version", place="heading")
    >>> placed(label, "Rain fell.", "Summary A")
    Placed(text='Rain fell.', heading='revised version', note='', edit='label')
    """
    if edit is None:
        return Placed(text)
    words = edit(name if edit.place == "note" else text)
    return replace(Placed(text, edit=edit.name), **{edit.place: words})


def changes(edit: TextEdit, text: str, name: str) -> bool:
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


def null_edit(edit: TextEdit) -> TextEdit:
    """Return the null edit of an edit: a meaningless change of the same size in the same place.

    Parameters
    ----------
    edit : TextEdit
        Any edit.

    Returns
    -------
    TextEdit
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
    own: dict[EditTarget, Callable[[str], str]] = {"text": partial(_same_size, edit), "note": partial(_same_note, edit)}
    edits: dict[EditTarget, Callable[[str], str]] = own | {"heading": lambda _: _HEADING}
    return TextEdit(f"{PREFIX}{edit.name}", edits[edit.place], edit.place, source="the noise floor of " + edit.name)


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


def _same_size(edit: TextEdit, text: str) -> str:
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


def _same_note(edit: TextEdit, name: str) -> str:
    """Return a note of the same length that names the candidate without saying anything about it."""
    called = f"This {name}" if name.islower() else name
    first = f"{called} is one text on this page."
    rest = len(edit(name).split()) - len(first.split())
    return f"{first} {neutral(rest)}".rstrip()


_CALM = re.compile(r"(answer[12])_(\w+)")
_SIDES = ("1", "2")
_FORMATS = "columns text and edited; CALM's answer1, answer1_KIND …; or JudgeBiasBench's original_response1 …"
_SOURCES = {
    "calm": "Ye et al. 2024, Justice or Prejudice? (CALM), its table",
    "judgebiasbench": "Zhou et al. 2026, JudgeBiasBench, its table",
    "own": "the user's own table",
}
_LOWERED = {"fallacy_oversight"}


def from_table(
    table: str | Path | pd.DataFrame, kind: str | None = None, name: str | None = None, quality: Quality | None = None
) -> TextEdit:
    """Create a `TextEdit` that looks up the edited text; texts not in the table are unchanged.

    Parameters
    ----------
    table : str, pathlib.Path or pandas.DataFrame
        A frame, or a file that ends in ``.json`` (a list of objects), ``.jsonl`` or ``.csv``, in one of three formats:

        * columns ``text`` and ``edited``, optionally ``kind``;
        * CALM's: ``answer1``, optionally ``answer2``, and next to them ``answer1_KIND``, such as ``answer1_cheerful``;
        * JudgeBiasBench's: ``original_response1``, ``original_response2``, ``rewritten_response1``,
          ``rewritten_response2`` and ``label``, which names the better one ("response1" or "response2"). Its kinds are
          ``rejected``, the worse one, into which the bias was written, and ``chosen``, the better one, from which it
          was removed (for gender and race, into which it was written).
    kind : str, optional
        Which of the edits in the table; required if there are several.
    name : str, optional
        Name of the edit; by default the file's name and the kind.
    quality : {"left", "lowered"}, optional
        By default "lowered" for CALM's ``fallacy_oversight``, else "left".

    Returns
    -------
    TextEdit
        If a text occurs in several rows, the first one is used.

    Raises
    ------
    InputError
        If the file does not exist, its format or the kind is unknown, or no text differs.

    References
    ----------
    Ye et al. 2024, *Justice or Prejudice? Quantifying Biases in LLM-as-a-Judge*; Zhou et al. 2026, *Toward Robust
    LLM-Based Judges: Taxonomic Bias Evaluation and Debiasing Optimization*; the formats are those of the authors'
    published data sets.

    Examples
    --------
    >>> table = pd.DataFrame({"answer1": ["Rain fell."], "answer1_sad": ["Alas, rain fell."]})
    >>> edit = from_table(table)
    >>> edit.name, edit("Rain fell."), edit("Snow fell.")
    ('sad', 'Alas, rain fell.', 'Snow fell.')
    """
    frame = table if isinstance(table, pd.DataFrame) else _read(Path(table))
    form, by_kind = _kinds(frame)
    if kind is None and len(by_kind) > 1:
        raise InputError.plain(f"the table contains several edits; choose kind among {', '.join(by_kind)}")
    chosen = next(iter(by_kind)) if kind is None else kind
    require_one_of("kind", chosen, tuple(by_kind))
    looked_up = by_kind[chosen]
    if all(text == edited for text, edited in looked_up.items()):
        raise InputError("table", chosen, "a kind with at least one text that differs from its edited text")
    stem = "" if isinstance(table, pd.DataFrame) else Path(table).stem

    def change(text: str) -> str:
        return looked_up.get(text, text)

    change.__doc__ = f"Look the edited text up among {len(looked_up)}."
    named = name or "_".join(filter(None, (stem, chosen))) or "table"
    quality = quality or ("lowered" if chosen in _LOWERED else "left")
    return TextEdit(named, change, source=_SOURCES[form], quality=quality)


def _kinds(frame: pd.DataFrame) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the format, and for each kind the edited version of each text."""
    rows = frame.to_dict("records")
    columns = {str(column) for column in frame.columns}
    by_kind: dict[str, dict[str, str]] = {}
    if {"text", "edited"} <= columns:
        form, pairs = "own", ((row.get("kind", ""), row["text"], row["edited"]) for row in rows)
    elif {"original_response1", "rewritten_response1", "label"} <= columns:
        form, pairs = "judgebiasbench", (pair for row in rows for pair in _judgebiasbench(row))
    else:
        named = [match for match in map(_CALM.fullmatch, sorted(columns)) if match and match[1] in columns]
        form, pairs = "calm", ((m[2], row[m[1]], row[m[0]]) for m in named for row in rows)
    for kind, text, edited in pairs:
        if isinstance(text, str) and isinstance(edited, str) and edited.strip():
            by_kind.setdefault(str(kind), {}).setdefault(text, edited)
    if not by_kind:
        raise InputError.plain(f"the table lacks pairs, expected: {_FORMATS}, not {', '.join(sorted(columns))}")
    return form, by_kind


def _judgebiasbench(row: Mapping[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
    if row["label"] not in ("response1", "response2"):
        raise InputError("label", row["label"], '"response1" or "response2", the better one')
    for side in _SIDES:
        kind = "chosen" if row["label"].endswith(side) else "rejected"
        yield kind, row.get(f"original_response{side}"), row.get(f"rewritten_response{side}")


def _read(path: Path) -> pd.DataFrame:
    """Read all values as strings: nothing in a text is a number or a date."""
    endings = (".json", ".jsonl", ".csv")
    require_one_of("table", path.suffix, endings, "pass a frame, or a file with one of these extensions")
    try:
        if path.suffix == ".csv":
            return pd.read_csv(path, dtype=str, keep_default_na=False)
        written = path.read_text(encoding="utf-8")
        lines = [line for line in written.split("\n") if line.strip()]
        rows = json.loads(written) if path.suffix == ".json" else [json.loads(line) for line in lines]
    except (OSError, ValueError) as error:
        raise InputError("table", str(path), "a readable file", str(error)) from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("table", str(path), "a list of objects, one a row")
    return pd.DataFrame(rows)
