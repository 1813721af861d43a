"""Verdicts without brackets in the form that a prompt asks for: after "Answer:", or alone."""

from __future__ import annotations

import re

from biaslab.prompts.parsing.mentions import UNKNOWN, Names

VERDICT = r"(?:answer|choice|verdict|decision|winner|preference|selection|judge?ment|conclusion|pick|vote|result)"
"""Pattern of what a verdict is called."""

_STATED = re.compile(
    r"(?:^|[.!?:,]\s|\n)[^\w\n]*(?P<adjectives>(?:(?:my|the|so|and|thus|therefore|final|overall|best|better|correct|preferred)"
    rf"[\s,]+){{0,4}}){VERDICT}"
    r"\b[*_\"']*\s*(?::|=|is\b|would be\b|goes to\b)(?=[:*_\s]*(?P<said>[^\n]*))",
    re.IGNORECASE,
)
_ENDS = r"[.:;!–—]|\s\((?![A-Za-z]\))|\s-\s|,?\s+(?:because|since)\b|,\s+(?:as|for)\b"
_HEAD = re.compile(_ENDS)
_STOP = re.compile(rf"{_ENDS}|(?<=[\"'])\s*[,}}]|\s+(?:is|was|for|over|due|based|by|wins|with)\s")
_LAST = re.compile(r"(?:^|[.!?:]\s+)(\[[^\[\]\n]{1,40}\]|\*\*[^*\n]{1,40}\*\*)[\s.]*$")
_LABELS = re.compile(r"\[\[\s*([^\[\]\n]{1,60}?)\s*\]\]")


def stated(text: str, names: Names) -> set[int]:
    r"""Return what stands after "Answer:", "Choice:", "My final verdict is" and the like.

    `UNKNOWN` stands for what has the form of a label and is none, as in "Verdict: D"; a sentence there ("The answer is
    clear") states nothing.

    Examples
    --------
    >>> from biaslab.prompts.parsing.mentions import names_of
    >>> stated("I weighed both and choose:\n\nChoice: B\nReason: A is shorter.", names_of(("A", "B")))
    {1}
    """
    found: set[int] = set()
    for match in _STATED.finditer(text):
        said = match["said"]
        if len({names.exactly(label) for label in _LABELS.findall(said)}) > 1:  # "[[A]] or [[B]]"
            continue
        lead = _lead(said, _STOP)
        if (place := names.exactly(lead)) is not None:
            found.add(place)
        elif names.resembles(lead) and "correct" not in match["adjectives"].lower():  # "The correct answer is D"
            found.add(UNKNOWN)
    return found - {UNKNOWN} or found


def alone(text: str, names: Names) -> set[int]:
    r"""Return the label that is all of a text, or opens or ends it on its own: "B.", "A: it is clearer", "… [A]".

    Examples
    --------
    >>> from biaslab.prompts.parsing.mentions import names_of
    >>> alone("A: clear\nB: muddled", names_of(("A", "B"))), alone("A: it is clearer", names_of(("A", "B")))
    (set(), {0})
    """
    if (whole := names.exactly(text, any_case=True)) is not None:
        return {whole}
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    opening, closing = names.exactly(_lead(lines[0], _HEAD)), _closing(lines[-1], names)
    heads = {place for line in lines if (place := names.exactly(_lead(line, _HEAD))) is not None}
    if len(heads) > 1 or (len(lines) > 1 and lines[0].rstrip("*_ ").endswith(":")):  # a list, or a heading
        opening = None
    return {place for place in (opening, closing) if place is not None}


def _closing(line: str, names: Names) -> int | None:
    """Return the label that the last line is, or what stands in brackets or in bold as its last sentence."""
    last = _LAST.search(line)
    if last is None:
        return names.exactly(line)
    place = names.exactly(last[1])
    return UNKNOWN if place is None and names.resembles(last[1]) else place


def _lead(said: str, ends: re.Pattern[str]) -> str:
    """Return that with which a line begins, up to what ends the statement."""
    end = ends.search(said)
    return said[: end.start()] if end else said
