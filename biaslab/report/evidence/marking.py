"""Locate the source and the candidates in a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Part = Literal["words", "source", "first", "second"]


class Segment(NamedTuple):
    """A piece of a prompt and its role: the probe's wording, the source, or a candidate."""

    part: Part
    text: str


def marked(prompt: str, texts: Mapping[Part, str]) -> list[Segment]:
    """Split a prompt into the probe's wording, the source and the candidates.

    Parameters
    ----------
    prompt : str
        The text of one message.
    texts : mapping
        Texts to find: "source", "first" and "second" candidate; blank ones are skipped.

    Returns
    -------
    list of Segment
        Concatenated they give the prompt. Texts that are not found are not marked.

    Notes
    -----
    A candidate may repeat a sentence of the source or contain the other candidate. Therefore the source is located
    first, then the first candidate, outside the source if possible, then the second, after the first if possible.

    Examples
    --------
    >>> [tuple(s) for s in marked("It rains. A: Rain. B: Sun.", {"source": "It rains.", "first": "Rain."})]
    [('source', 'It rains.'), ('words', ' A: '), ('first', 'Rain.'), ('words', ' B: Sun.')]
    """
    taken: list[tuple[int, int, Part]] = []
    after = 0
    for part in ("source", "first", "second"):
        text = texts.get(part, "").strip()  # templates may strip whitespace
        start = _free(prompt, text, taken, after)
        if start < 0 and after:
            start = _free(prompt, text, taken, 0)
        if start >= 0:
            taken.append((start, start + len(text), part))
            after = start + len(text) if part == "first" else after
    return _cut(prompt, sorted(taken))


def _free(prompt: str, text: str, taken: Sequence[tuple[int, int, Part]], after: int) -> int:
    """Return the position of the first occurrence that overlaps no mark, or -1."""
    start = prompt.find(text, after) if text else -1
    while start >= 0:
        over = [end for begin, end, _ in taken if begin < start + len(text) and start < end]
        if not over:
            return start
        start = prompt.find(text, max(over))
    return -1


def _cut(prompt: str, marks: Sequence[tuple[int, int, Part]]) -> list[Segment]:
    segments: list[Segment] = []
    start_of_rest = 0
    for start, end, part in marks:
        segments += [Segment("words", prompt[start_of_rest:start]), Segment(part, prompt[start:end])]
        start_of_rest = end
    segments.append(Segment("words", prompt[start_of_rest:]))
    return [segment for segment in segments if segment.text]
