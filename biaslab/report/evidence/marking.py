"""Find source and candidates in a prompt by their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

Part = Literal["words", "source", "first", "second"]


class Segment(NamedTuple):
    """A piece of a prompt, and what it is: the probe's own words, the source, or a candidate."""

    part: Part
    text: str


def marked(prompt: str, texts: Mapping[Part, str]) -> list[Segment]:
    """Cut a prompt into the probe's words, the source and the candidates.

    Parameters
    ----------
    prompt : str
        The text of one message.
    texts : mapping
        What may stand in it: "source", "first" and "second" candidate; blank ones are not looked for.

    Returns
    -------
    list of Segment
        They give the prompt again when put together. What is not found is not marked.

    Notes
    -----
    A candidate may repeat a sentence of the source, or contain the other candidate: so the source is found first, the
    candidate shown first then as far as possible outside of it, and the second one behind the first where it stands
    there.

    Examples
    --------
    >>> [tuple(s) for s in marked("It rains. A: Rain. B: Sun.", {"source": "It rains.", "first": "Rain."})]
    [('source', 'It rains.'), ('words', ' A: '), ('first', 'Rain.'), ('words', ' B: Sun.')]
    """
    taken: list[tuple[int, int, Part]] = []
    after = 0
    for part in ("source", "first", "second"):
        text = texts.get(part, "").strip()  # templates strip, or do not
        start = _free(prompt, text, taken, after)
        if start < 0 and after:
            start = _free(prompt, text, taken, 0)
        if start >= 0:
            taken.append((start, start + len(text), part))
            after = start + len(text) if part == "first" else after
    return _cut(prompt, sorted(taken))


def _free(prompt: str, text: str, taken: Sequence[tuple[int, int, Part]], after: int) -> int:
    """Return the first free occurrence of a text in a prompt, or -1."""
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
