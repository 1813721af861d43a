r"""Marked verdicts: ``[[A]]``, ``\boxed{A}``, ``<verdict>A</verdict>``, ``{"winner": "A"}``, "Verdict: A".

One reader serves live text answers and recorded logs. A mark outranks whatever the sentences beside it say, and one
that names none of the labels is `UNKNOWN`: then nothing is guessed from the sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from biaslab.prompts.parsing.decisions import decided
from biaslab.prompts.parsing.mentions import TIE, UNKNOWN, Names
from biaslab.prompts.parsing.statements import VERDICT, alone, stated
from biaslab.prompts.parsing.structured import fields

_BRACKETS = re.compile(r"\[\[\s*([^\[\]\n]{1,60}?)\s*\]\](?!\**\w)")
_BOXED = re.compile(r"\\boxed\s*\{\s*(?:\\(?:text|mathrm|mathbf)\w*\s*\{)?\s*([^{}\n]{1,60}?)\s*\}")
_TAGS = re.compile(rf"<((?:final[_ -]?)?{VERDICT})>(.*?)(?:</\1>|$)", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(rf"(?:(?:final|overall|better|best|preferred)[_ -]?)?{VERDICT}", re.IGNORECASE)
_DEGREES = re.compile(r"(.*[^><=])\s*(>>?|=|<<?)\s*([^><=].*)")


def marked(text: str, names: Names) -> set[int]:
    r"""Return what the marks of a text say: places of labels, `TIE`, `UNKNOWN`; nothing where it has no mark.

    The first form that occurs decides. Marks that contradict each other are settled by a statement, such as "My final
    verdict is [[A]]"; two labels in brackets without one are names in a sentence ("[[A]] is better than [[B]]").

    Examples
    --------
    >>> from biaslab.prompts.parsing.mentions import names_of
    >>> names = names_of(("A", "B", "Tie"))
    >>> marked("A is clearer, B is longer. [[C]]", names) == {TIE}, marked("A is better. [[D]]", names) == {UNKNOWN}
    (True, True)
    >>> marked(r"B is longer, so \boxed{A}", names), marked('{"winner": "B", "why": "A is vague"}', names)
    ({0}, {1})
    """
    for form in _FORMS:
        found = _read(form(text), names)
        if len(found) == 1:
            return found
        if TIE in found:
            return stated(text, names) or found
    return stated(text, names)


def in_brackets(text: str, names: Names) -> set[int]:
    """Return what stands in double brackets: ``[[A]]``, ``[[A>B]]``, ``[[A>>B]]``, and `TIE` for ``[[A=B]]``.

    Examples
    --------
    >>> from biaslab.prompts.parsing.mentions import names_of
    >>> in_brackets("My final verdict is [[B>>A]].", names_of(("A", "B")))
    {1}
    """
    return _read(_BRACKETS.findall(text), names)


def without_brackets(text: str) -> str:
    """Return a text in which what stood in double brackets stands without them."""
    return _BRACKETS.sub(r"\1", text)


_FORMS: tuple[Callable[[str], list[str]], ...] = (
    _BRACKETS.findall,
    _BOXED.findall,
    lambda text: [inside for _, inside in _TAGS.findall(text)],
    lambda text: fields(text, _FIELD),
)


def _read(marks: list[str], names: Names) -> set[int]:
    """Return what marks say; `UNKNOWN` only where none of them says anything."""
    found = {place for mark in marks for place in _places(mark, names)}
    return found - {UNKNOWN} or found


def _places(mark: str, names: Names) -> Iterator[int]:
    """Yield what one mark says: a label, a degree of preference, or else what its own words decide."""
    place = names.exactly(mark, any_case=True)
    place = _degree(mark, names) if place is None else place
    if place is not None:
        yield place
        return
    found = (stated(mark, names) or alone(mark, names) or decided(names.mask(mark))) if mark.strip() else set()
    yield found.pop() if len(found) == 1 else UNKNOWN


def _degree(inside: str, names: Names) -> int | None:
    compared = _DEGREES.fullmatch(inside)
    if compared is None:
        return None
    first, second = names.exactly(compared[1]), names.exactly(compared[3])
    if first is None or second is None or first == second:
        return None
    return TIE if compared[2] == "=" else first if compared[2].startswith(">") else second
