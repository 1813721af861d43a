"""Parse verdicts from replies, and write replies with a given verdict.

A reader finds every verdict in a text, in order; `biaslab.prompts.protocols.Protocol` chooses among them. Every reader
also writes: ``find(write(value))`` gives the value, so that a simulated judge can answer in any format.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import TypeAlias

from biaslab.core import Status
from biaslab.core.errors import InputError
from biaslab.prompts.parsing.settled import settled
from biaslab.prompts.parsing.whole_replies import is_refusal

#: Placeholder, in a pattern or JSON path, for the attribute to read if a reply judges several.
ATTRIBUTE = "{attribute}"
Verdicts: TypeAlias = tuple[tuple[str, float], ...]
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_WORDS = re.compile(r"\w+(?: \(?\w+\)?){0,2}")


class Reader(ABC):
    """Finds the verdicts in a text, and writes one."""

    @property
    def points(self) -> tuple[float, ...]:
        """Every value that it can find, in ascending order; empty if it finds numbers."""
        return tuple(sorted({value for _, value in getattr(self, "verdicts", ())}))

    def unread(self, text: str) -> Status:
        """Return the status of a text without a verdict."""
        return "refused" if is_refusal(text) else "off_format"

    def of(self, attribute: str) -> Reader:  # noqa: ARG002
        """Return the reader for one of several attributes in a reply; itself if a reply judges one."""
        return self

    @abstractmethod
    def find(self, text: str) -> list[float]:
        """Return the value of every verdict in a text, in order."""

    def last(self, text: str, verdicts: Sequence[float]) -> float | None:  # noqa: ARG002
        """Return the last of the verdicts found in a text, at least one; None if they contradict each other."""
        return verdicts[-1]

    @abstractmethod
    def write(self, value: float) -> str:
        """Return a reply with a value.

        Raises
        ------
        InputError
            If no reply has it.
        """


class OfVerdicts(Reader):
    """Parses a piece of text as one of ``verdicts``, ignoring white space and case, or without any as a number."""

    verdicts: Verdicts

    @cached_property
    def _meanings(self) -> dict[str, float]:
        """Values by label, and by lower-case label if labels do not differ only in case."""
        loose = {label.strip().casefold(): value for label, value in self.verdicts}
        exact = {label.strip(): value for label, value in self.verdicts}
        return loose | exact if len(loose) == len(exact) else exact

    def meaning(self, piece: object) -> float | None:
        """Return the value of a piece, None if it has none."""
        if not self.verdicts:
            return as_number(str(piece))
        text = as_text(piece).strip()
        return self._meanings.get(text, self._meanings.get(text.casefold()))

    def spelled(self, value: float) -> str:
        """Return the label for a value, or the number."""
        return label_of(self.verdicts, value) if self.verdicts else as_text(value)


@dataclass(frozen=True)
class Labels(Reader):
    """Verdicts that are fixed words, such as ``[[A]]``.

    Parameters
    ----------
    verdicts : sequence of (str, float)
        Each label and its value.
    ignore_case : bool
        Whether "tie" matches "Tie".

    Raises
    ------
    InputError
        If there are no verdicts, one is empty, or one is found inside another.

    Examples
    --------
    >>> reader = Labels((("[[A]]", 1.0), ("[[B]]", 0.0)))
    >>> reader.find("[[A]] is tempting, but [[B]]"), reader.write(0)
    ([1.0, 0.0], '[[B]]')
    """

    verdicts: Verdicts
    ignore_case: bool = False

    def __post_init__(self) -> None:
        require_verdicts(self.verdicts)
        for inner, outer in permutations((self._spelled(label) for label, _ in self.verdicts), 2):
            if _whole(inner, self._flags).search(outer):
                remedy = "put delimiters around them, such as [[A]], or give a pattern"
                overlap = f"{inner!r}, which {outer!r} contains"
                raise InputError("verdicts", overlap, "labels that do not contain each other", remedy)

    @cached_property
    def _flags(self) -> int:
        return re.IGNORECASE if self.ignore_case else 0

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return re.compile("|".join(_whole(label, 0).pattern for label, _ in self.verdicts), self._flags)

    @cached_property
    def _values(self) -> dict[str, float]:
        return {self._spelled(label): value for label, value in self.verdicts}

    def _spelled(self, label: str) -> str:
        return label.casefold() if self.ignore_case else label

    @cached_property
    def _words(self) -> tuple[str, ...]:
        """All labels, if they are words that a sentence may name ("A", "Response 1", "Output (a)"); else none."""
        labels = tuple(label for label, _ in self.verdicts)
        return labels if all(map(_WORDS.fullmatch, labels)) else ()

    def last(self, text: str, verdicts: Sequence[float]) -> float | None:
        """Return the last verdict; for labels that are words, the one that the text decides for.

        The last label named in a sentence may be the one it decides against: "B is better than A".
        """
        if not self._words or self._any.fullmatch(text.strip(" \t\r\n.*_`\"'")):
            return verdicts[-1]
        spelled = [self._spelled(label) for label in self._words]
        if len(set(map(str.casefold, spelled))) < len(spelled):  # sentences do not distinguish m and M
            return verdicts[-1] if len(set(verdicts)) == 1 else None
        place, _ = settled(
            text, self._words, {spelled.index(self._spelled(match)) for match in self._any.findall(text)}
        )
        return None if place is None else self.verdicts[place][1]

    def unread(self, text: str) -> Status:
        """Return the status of a text without a verdict, or with several of which none counts."""
        return "ambiguous" if self.find(text) and not is_refusal(text) else super().unread(text)

    def find(self, text: str) -> list[float]:
        """Return the values of all labels in a text."""
        return [self._values[self._spelled(match[0])] for match in self._any.finditer(text)]

    def write(self, value: float) -> str:
        """Return the first label for a value."""
        return label_of(self.verdicts, value)


@dataclass(frozen=True)
class FirstOf(Reader):
    """Several readers; the first that finds a verdict decides.

    Examples
    --------
    >>> FirstOf((Labels((("A", 1.0), ("B", 0.0))), Labels((("yes", 1.0), ("no", 0.0))))).find("no")
    [0.0]
    """

    readers: tuple[Reader, ...]

    @property
    def points(self) -> tuple[float, ...]:
        """Labels of all readers; none if one of them reads numbers."""
        each = [reader.points for reader in self.readers]
        return tuple(sorted({value for points in each for value in points})) if all(each) else ()

    def of(self, attribute: str) -> FirstOf:
        """Return the readers for an attribute."""
        return FirstOf(tuple(reader.of(attribute) for reader in self.readers))

    def find(self, text: str) -> list[float]:
        """Return the verdicts of the first reader that finds any."""
        return next((values for reader in self.readers if (values := reader.find(text))), [])

    def last(self, text: str, verdicts: Sequence[float]) -> float | None:
        """Return the last verdict of the first reader that finds any."""
        return next(reader for reader in self.readers if reader.find(text)).last(text, verdicts)

    def unread(self, text: str) -> Status:
        """Return the status of a text without a verdict, or with several of which none counts."""
        first = next((reader for reader in self.readers if reader.find(text)), None)
        return super().unread(text) if first is None else first.unread(text)

    def write(self, value: float) -> str:
        """Return a reply from the first reader that can find the value."""
        able = (reader for reader in self.readers if not reader.points or value in reader.points)
        return next(able, self.readers[0]).write(value)


def require_verdicts(verdicts: Sequence[tuple[str, float]], name: str = "verdicts") -> None:
    """Raise `InputError` unless there are at least two distinct, non-empty texts, each with a number."""
    texts = [text for text, _ in verdicts]
    if len(texts) < 2 or len(set(texts)) < len(texts) or not all(text.strip() for text in texts):
        raise InputError(name, dict(verdicts), "at least two different, non-empty texts, each with its value")


def label_of(verdicts: Sequence[tuple[str, float]], value: float) -> str:
    """Return the first label for a value.

    Raises
    ------
    InputError
        If there is none.
    """
    for label, meaning in verdicts:
        if meaning == value:
            return label
    raise InputError("value", value, f"one of {', '.join(f'{meaning:g}' for _, meaning in verdicts) or 'no labels'}")


def as_number(text: str) -> float | None:
    """Return the number that a text consists of, None if it is not a number."""
    match = re.fullmatch(rf"\s*({_NUMBER})\s*", text)
    return float(match[1]) if match else None


def as_text(value: object) -> str:
    """Format a number as short as possible, and everything else unchanged.

    Examples
    --------
    >>> as_text(4.0), as_text(3.5), as_text("4")
    ('4', '3.5', '4')
    """
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _whole(label: str, flags: int) -> re.Pattern[str]:
    """Match a label unless it continues as a word."""
    before = r"(?<!\w)" if label[:1].isalnum() else ""
    after = r"(?!\w)" if label[-1:].isalnum() else ""
    return re.compile(before + re.escape(label) + after, flags)
