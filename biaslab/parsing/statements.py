"""Verdicts in the form that a prompt asks for: in brackets, after "Answer:", or alone."""

from __future__ import annotations

import re

from biaslab.parsing.mentions import TIE, Names

_BRACKETS = re.compile(r"\[\[\s*([^\[\]\n]{1,60}?)\s*\]\](?!\**\w)")
_DEGREES = re.compile(r"(.*[^><=])\s*(>>?|=|<<?)\s*([^><=].*)")
_STATED = re.compile(
    r"(?:^|[.!?:,]\s|\n)[^\w\n]*(?:(?:my|the|so|and|thus|therefore|final|overall|best|better|correct|preferred)[\s,]+){0,4}"
    r"(?:answer|choice|verdict|decision|winner|preference|selection|judge?ment|conclusion|pick|vote|result)"
    r"\b[*_\"]*\s*(?::|=|is\b|would be\b|goes to\b)(?=[:*_\s]*(?P<said>[^\n]*))",
    re.IGNORECASE,
)
_ENDS = r"[.:;!–—]|\s\((?![A-Za-z]\))|\s-\s|,?\s+(?:because|since)\b|,\s+(?:as|for)\b"
_HEAD = re.compile(_ENDS)
_STOP = re.compile(rf"{_ENDS}|\s+(?:is|was|for|over|due|based|by|wins|with)\s")


def in_brackets(text: str, names: Names) -> set[int]:
    """Return what stands in double brackets: ``[[A]]``, ``[[A>B]]``, ``[[A>>B]]``, and `TIE` for ``[[A=B]]``.

    Examples
    --------
    >>> from biaslab.parsing.mentions import names_of
    >>> in_brackets("My final verdict is [[B>>A]].", names_of(("A", "B")))
    {1}
    """
    found = (_degree(inside, names) for inside in _BRACKETS.findall(text))
    return {place for place in found if place is not None}


def without_brackets(text: str) -> str:
    """Return a text in which what stood in double brackets stands without them."""
    return _BRACKETS.sub(r"\1", text)


def stated(text: str, names: Names) -> set[int]:
    r"""Return what stands after "Answer:", "Choice:", "My final verdict is" and the like.

    Examples
    --------
    >>> from biaslab.parsing.mentions import names_of
    >>> stated("I weighed both and choose:\n\nChoice: B\nReason: A is shorter.", names_of(("A", "B")))
    {1}
    """
    said = (match["said"] for match in _STATED.finditer(text))
    found = (_leading(one, names, _STOP) for one in said if len(in_brackets(one, names)) < 2)
    return {place for place in found if place is not None}


def alone(text: str, names: Names) -> set[int]:
    r"""Return the label that is all of a text, or opens or ends it on its own: "B.", "A: it is clearer".

    Examples
    --------
    >>> from biaslab.parsing.mentions import names_of
    >>> alone("A: clear\nB: muddled", names_of(("A", "B"))), alone("A: it is clearer", names_of(("A", "B")))
    (set(), {0})
    """
    if (whole := names.exactly(text, any_case=True)) is not None:
        return {whole}
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    opening, closing = _leading(lines[0], names, _HEAD), names.exactly(lines[-1])
    heads = {place for line in lines if (place := _leading(line, names, _HEAD)) is not None}
    if len(heads) > 1 or (len(lines) > 1 and lines[0].rstrip("*_ ").endswith(":")):  # a list, or a heading
        opening = None
    return {place for place in (opening, closing) if place is not None}


def _degree(inside: str, names: Names) -> int | None:
    compared = _DEGREES.fullmatch(inside)
    if compared is None:
        return names.exactly(inside)
    first, second = names.exactly(compared[1]), names.exactly(compared[3])
    if first is None or second is None or first == second:
        return None
    return TIE if compared[2] == "=" else first if compared[2].startswith(">") else second


def _leading(said: str, names: Names, ends: re.Pattern[str]) -> int | None:
    """Return the label with which a line begins, if what follows ends the statement."""
    end = ends.search(said)
    return names.exactly(said[: end.start()] if end else said)
