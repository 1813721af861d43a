"""Verdicts that regular expressions find."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from biaslab.core.errors import InputError
from biaslab.prompts.protocols.readers import (
    ATTRIBUTE,
    OfVerdicts,
    Reader,
    Verdicts,
    as_number,
    label_of,
    require_verdicts,
)


@dataclass(frozen=True)
class Pattern(OfVerdicts):
    r"""Verdicts that regular expressions find.

    Parameters
    ----------
    patterns : tuple of str
        Tried in turn; the first that matches decides. Each has one group, which holds the verdict; or two, which hold
        the scores of the first and the second candidate. ``{attribute}`` is the attribute that is read, where a reply
        judges several: ``"{attribute}: ([1-5])"``.
    verdicts : sequence of (str, float), optional
        What a group's text means, white space and case aside. Without them it is a number.
    writes : str
        A reply that the first pattern matches, with ``{}`` for the verdict; by default the shortest that it matches.

    Raises
    ------
    InputError
        If a pattern is none, or has no group or more than two.

    Examples
    --------
    >>> reader = Pattern((r"\[RESULT\]\s*(\d+)",))
    >>> reader.find("Good work. [RESULT] 4"), reader.write(5)
    ([4.0], '[RESULT]5')
    """

    patterns: tuple[str, ...]
    verdicts: Verdicts = ()
    writes: str = ""

    def __post_init__(self) -> None:
        for pattern in self.patterns:
            groups = compiled(pattern).groups
            if groups not in (1, 2):
                remedy = f'such as "Rating: ([1-5])"; has {groups}'
                raise InputError("pattern", pattern, "one group, which holds the verdict", remedy)
        if self.verdicts:
            require_verdicts(self.verdicts)

    @property
    def points(self) -> tuple[float, ...]:
        """Values of the verdicts; of two scores, 0, ½ and 1."""
        return (0.0, 0.5, 1.0) if compiled(self.patterns[0]).groups == 2 else super().points

    def of(self, attribute: str) -> Pattern:
        """Return the reader of one attribute's verdict."""
        if not any(ATTRIBUTE in pattern for pattern in self.patterns):
            return self
        patterns = tuple(pattern.replace(ATTRIBUTE, re.escape(attribute)) for pattern in self.patterns)
        return replace(self, patterns=patterns, writes=self.writes.replace(ATTRIBUTE, attribute))

    def find(self, text: str) -> list[float]:
        """Return what the first pattern that matches finds."""
        for pattern in self.patterns:
            values = [self._value(match) for match in compiled(pattern).finditer(text)]
            if known := [value for value in values if value is not None]:
                return known
        return []

    def _value(self, match: re.Match[str]) -> float | None:
        if match.re.groups == 2:
            first, second = (as_number(group) for group in match.groups())
            return None if first is None or second is None else (0.5 if first == second else float(first > second))
        return self.meaning(match[1] or "")

    def write(self, value: float) -> str:
        """Return a reply that the first pattern matches, with a verdict in it."""
        if compiled(self.patterns[0]).groups == 2:
            texts: tuple[str, ...] = ("2", "1") if value > 0.5 else ("1", "2") if value < 0.5 else ("1", "1")
        else:
            texts = (self.spelled(value),)
        reply = self.writes or shortest_match(self.patterns[0])
        for text in texts:
            reply = reply.replace("{}", text, 1)
        return reply


@dataclass(frozen=True)
class Matches(Reader):
    r"""Verdicts each of which has a regular expression of its own, as AlpacaEval configures them.

    Parameters
    ----------
    values : sequence of (str, float)
        Each pattern and what a match means.
    labels : sequence of (str, float), optional
        What a reply of each value looks like; by default the shortest that its pattern matches.

    Examples
    --------
    >>> Matches(((r"Output \(a\)", 1.0), (r"Output \(b\)", 0.0))).find("Output (b)")
    [0.0]
    """

    values: Verdicts
    labels: Verdicts = ()

    @property
    def points(self) -> tuple[float, ...]:
        """The values of all patterns."""
        return tuple(sorted({value for _, value in self.values}))

    def find(self, text: str) -> list[float]:
        """Return the values of all matches, by where they begin; none overlap."""
        values: list[float] = []
        start = 0
        while True:
            matches = [
                (match, value) for pattern, value in self.values if (match := compiled(pattern).search(text, start))
            ]
            if not matches:
                return values
            match, value = min(matches, key=lambda pair: pair[0].start())
            values.append(value)
            start = max(match.end(), start + 1)

    def write(self, value: float) -> str:
        """Return the label that means a value, or a short text that its pattern matches."""
        return label_of(self.labels or tuple((shortest_match(pattern), meant) for pattern, meant in self.values), value)


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a compiled regular expression.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        return re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise InputError("pattern", pattern, f"a regular expression ({error})") from error


def shortest_match(pattern: str) -> str:
    r"""Return a short text that a regular expression matches, with ``{}`` for each group.

    Examples
    --------
    >>> shortest_match(r"(?i)rating:?\s+\[\[(\d+)\]\]")
    'rating [[{}]]'
    """
    return _shortest(re._parser.parse(pattern))  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public parser


def _shortest(parsed: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_shortest_of(str(kind), content) for kind, content in parsed)


def _shortest_of(kind: str, content: Any) -> str:
    if kind == "LITERAL":
        return chr(content)
    if kind == "SUBPATTERN":
        return "{}" if content[0] is not None else _shortest(content[-1])
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _shortest(content[2]) * int(content[0])
    if kind == "BRANCH":
        return _shortest(content[1][0])
    if kind == "IN":
        inner, value = content[0]
        return chr(value[0]) if str(inner) == "RANGE" else _shortest_of(str(inner), value)
    if kind == "CATEGORY":
        return _OF_CATEGORY.get(str(content), "a")
    return {"ANY": "a", "NOT_LITERAL": "a", "NEGATE": "~"}.get(kind, "")


_OF_CATEGORY = {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_NOT_WORD": " "}
