"""Verdicts found by regular expressions."""

from __future__ import annotations

import re
import warnings
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
    r"""Verdicts found by regular expressions.

    Parameters
    ----------
    patterns : tuple of str
        Tried in turn; the first that matches decides. Each has one group, for the verdict; or, without ``verdicts``,
        two, for the scores of the first and the second candidate. ``{attribute}`` is replaced by the attribute to
        read, if a reply judges several: ``"{attribute}: ([1-5])"``.
    verdicts : sequence of (str, float), optional
        Meaning of a group's text, ignoring white space and case. Without them it is a number.
    writes : str
        A reply that the first pattern matches, with ``{}`` for the verdict; by default the shortest one.

    Raises
    ------
    InputError
        If a pattern is invalid, or does not have one or two groups.

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
                raise InputError("pattern", pattern, "exactly one group, for the verdict", remedy)
        if self.verdicts:
            require_verdicts(self.verdicts)

    @property
    def points(self) -> tuple[float, ...]:
        """Values of the verdicts; for two scores, 0, ½ and 1."""
        return (0.0, 0.5, 1.0) if self._compares else super().points

    @property
    def _compares(self) -> bool:
        return not self.verdicts and compiled(self.patterns[0]).groups == 2

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
        if match.re.groups == 2 and not self.verdicts:
            first, second = (as_number(group) for group in match.groups())
            return None if first is None or second is None else (0.5 if first == second else float(first > second))
        return self.meaning(match[1] or "")

    def write(self, value: float) -> str:
        """Return a reply that the first pattern matches, with a verdict in it."""
        if self._compares:
            texts: tuple[str, ...] = ("2", "1") if value > 0.5 else ("1", "2") if value < 0.5 else ("1", "1")
        else:
            texts = (self.spelled(value), *[""] * (compiled(self.patterns[0]).groups - 1))
        reply = self.writes or shortest_match(self.patterns[0])
        for text in texts:
            reply = reply.replace("{}", text, 1)
        return reply


@dataclass(frozen=True)
class Matches(Reader):
    r"""Verdicts with one regular expression each, as in AlpacaEval's configurations.

    Parameters
    ----------
    values : sequence of (str, float)
        Each pattern and its value.
    labels : sequence of (str, float), optional
        A reply for each value; by default the shortest that its pattern matches.

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
        """Return the values of all matches, by position; matches do not overlap."""
        values: list[float] = []
        while hits := [(match, value) for pattern, value in self.values if (match := compiled(pattern).search(text))]:
            match, value = min(hits, key=lambda pair: pair[0].start())
            values.append(value)
            text = text[max(match.end(), 1) :]
        return values

    def write(self, value: float) -> str:
        """Return the label for a value, or a short text that only its own pattern matches."""
        if self.labels:
            return label_of(self.labels, value)
        pattern = label_of(self.values, value)
        texts = [*matching_texts(pattern), pattern]
        alone = (text for text in texts if [value] == [each for own, each in self.values if compiled(own).search(text)])
        return next(alone, texts[0])


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a compiled regular expression.

    Raises
    ------
    InputError
        If it is invalid.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # [[A]] is a set of [ and A, as its authors intended
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
    return matching_texts(pattern)[0]


def matching_texts(pattern: str) -> list[str]:
    """Return short texts that a regular expression may match, with ``{}`` for each group: at least one.

    Examples
    --------
    >>> matching_texts("[xy]z?(?:a|b)")
    ['xa', 'xb', 'ya', 'yb']
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        parsed = re._parser.parse(pattern)  # type: ignore[attr-defined]  # noqa: SLF001 - there is no public parser
    return _texts(parsed)


def _texts(parsed: Iterable[tuple[Any, Any]]) -> list[str]:
    texts = [""]
    for kind, content in parsed:
        ends = _texts_of(str(kind), content)
        texts = [text + end for text in texts for end in ends][:_MOST_TEXTS]
    return texts


def _texts_of(kind: str, content: Any) -> list[str]:
    if kind == "LITERAL":
        return [chr(content)]
    if kind == "SUBPATTERN":
        return ["{}"] if content[0] is not None else _texts(content[-1])
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return [text * int(content[0]) for text in _texts(content[2])] if content[0] else [""]
    if kind == "BRANCH":
        return [text for branch in content[1] for text in _texts(branch)]
    if kind == "IN":
        return [text for inner, value in content for text in _texts_of(str(inner), value)]
    if kind == "RANGE":
        return [chr(content[0])]
    if kind == "CATEGORY":
        return [_OF_CATEGORY.get(str(content), "a")]
    return [{"ANY": "a", "NOT_LITERAL": "a", "NEGATE": "~"}.get(kind, "")]


_MOST_TEXTS = 32
_OF_CATEGORY = {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_NOT_WORD": " "}
