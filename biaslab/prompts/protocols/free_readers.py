"""Verdicts without a prescribed format: scores in free text, and custom functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from biaslab.core import Status
from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.prompts.parsing.scores import parse_score
from biaslab.prompts.protocols.readers import Reader, Verdicts, label_of, require_verdicts


@dataclass(frozen=True)
class FreeScore(Reader):
    """Score in a text without a prescribed format, parsed by `biaslab.prompts.parsing.parse_score`.

    Parameters
    ----------
    scale : str
        Name of the scale.

    Examples
    --------
    >>> FreeScore("1-5").find("I would give it 4 out of 5.")
    [4.0]
    """

    scale: str

    def find(self, text: str) -> list[float]:
        """Return the score given in the text."""
        value, status = parse_score(text, scale_named(self.scale))
        return [value] if status == "ok" else []

    def unread(self, text: str) -> Status:
        """Return the status of a text that gives no score on the scale."""
        return parse_score(text, scale_named(self.scale))[1]

    def write(self, value: float) -> str:
        """Return the label of a value."""
        scale = scale_named(self.scale)
        return label_of(tuple(zip(scale.labels, scale.values, strict=True)), value)


@dataclass(frozen=True)
class Function(Reader):
    """Verdict parsed by a custom function.

    Parameters
    ----------
    function : callable
        Maps a text to a number, a label of `examples`, or None if it finds nothing.
    examples : sequence of (str, float)
        Replies and their values, so that replies can be written.

    Raises
    ------
    InputError
        If the function parses an example incorrectly.

    Examples
    --------
    >>> reader = Function(lambda text: 1.0 if "first" in text else 0.0, (("the first", 1.0), ("the other", 0.0)))
    >>> reader.find("I prefer the first")
    [1.0]
    """

    function: Callable[[str], Any]
    examples: Verdicts

    @property
    def points(self) -> tuple[float, ...]:
        """The values of the examples."""
        return tuple(sorted({value for _, value in self.examples}))

    def __post_init__(self) -> None:
        require_verdicts(self.examples, "examples")
        for text, value in self.examples:
            if self.find(text) != [value]:
                misread = f"a function that reads {text!r} as {self.find(text)}"
                raise InputError("parse", misread, f"one that reads it as {value}")

    def find(self, text: str) -> list[float]:
        """Return what the function finds."""
        value = self.function(text)
        if value is None:
            return []
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError("parse", value, "a number, or None where nothing is read", f"from {text[:60]!r}")
        return [float(value)]

    def write(self, value: float) -> str:
        """Return the first example with a value."""
        return label_of(self.examples, value)
