"""Verdicts in JSON: in a reply, somewhere in a text, or in the arguments of a tool call."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from biaslab.core.errors import InputError
from biaslab.prompts.parsing import structured
from biaslab.prompts.protocols.readers import ATTRIBUTE, OfVerdicts, Verdicts, as_number, as_text, require_verdicts

_STEP = re.compile(r"\.?(\{attribute\}|[^\W\d][\w -]*)|\[(\d+)\]|\[([\w -]+)=([^\]]*)\]")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class JsonPath(OfVerdicts):
    """Verdict in a JSON object: alone, somewhere in a text, or in the arguments of a tool call.

    Parameters
    ----------
    path : str
        Keys separated by dots, ``[0]`` for a place in a list, ``[model=m]`` for its first object with that entry:
        ``"ordered_models[model=m].rank"``. ``{attribute}`` is the attribute that is read, where a reply judges several:
        ``"scores.{attribute}"``.
    verdicts : sequence of (str, float), optional
        What the value means; without them it is a number.
    beside : sequence of (str, str)
        Further keys of the object that `write` makes, with their texts.

    Raises
    ------
    InputError
        If the path is malformed.

    Examples
    --------
    >>> reader = JsonPath("score")
    >>> reader.find('Well: {"strengths": "clear", "score": "7"}'), reader.write(7)
    ([7.0], '{"score": 7}')
    >>> JsonPath("[model=m].rank", (("1", 1.0), ("2", 0.0))).write(1)
    '[{"model": "m", "rank": 1}]'
    """

    path: str
    verdicts: Verdicts = ()
    beside: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _ = self.steps
        if self.verdicts:
            require_verdicts(self.verdicts)

    @cached_property
    def steps(self) -> tuple[str | int | tuple[str, str], ...]:
        """The path, step by step: a key, a place, or a pair of key and value."""
        rest, steps = self.path, []
        while rest:
            match = _STEP.match(rest)
            if match is None:
                allowed = 'keys and places such as "result.score" or "models[name=m].rank"'
                raise InputError("json", self.path, allowed, f"see {rest!r}")
            key, place, name, value = match.groups()
            steps.append(key if key is not None else int(place) if place is not None else (name, value))
            rest = rest[match.end() :]
        if not steps:
            raise InputError("json", self.path, "at least one key", 'such as "score"')
        return tuple(steps)

    def of(self, attribute: str) -> JsonPath:
        """Return the reader of one attribute's value."""
        return replace(self, path=self.path.replace(ATTRIBUTE, attribute)) if ATTRIBUTE in self.path else self

    def find(self, text: str) -> list[float]:
        """Return the value in each outermost JSON object or list of a text that has one."""
        return [value for document in documents(text) if (value := self._value(document)) is not None]

    def _value(self, document: Any) -> float | None:
        for step in self.steps:
            document = _step(document, step)
        return None if document is None or isinstance(document, list | dict) else self.meaning(document)

    def write(self, value: float) -> str:
        """Return a minimal document that gives a value."""
        document: Any = _json_value(self.spelled(value))
        for step in reversed(self.steps):
            if isinstance(step, str):
                document = {step: document}
            elif isinstance(step, int):
                document = [None] * step + [document]
            else:
                document = [{step[0]: step[1]} | document]
        return json.dumps({**dict(self.beside), **document} if isinstance(document, dict) else document)


def documents(text: str) -> Iterator[Any]:
    """Yield every outermost JSON object or list of a text; where there is none, a Python literal that is one."""
    seen = False
    for document in structured.documents(text, _DECODER, "{["):
        seen = True
        yield document
    if not seen:
        try:
            document = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            return
        if isinstance(document, list | dict):
            yield document


def _step(document: Any, step: str | int | tuple[str, str]) -> Any:
    if isinstance(step, str):
        return document.get(step) if isinstance(document, Mapping) else None
    if not isinstance(document, list):
        return None
    if isinstance(step, int):
        return document[step] if step < len(document) else None
    name, value = step
    entries = (each for each in document if isinstance(each, Mapping))
    return next((each for each in entries if as_text(each.get(name)) == value), None)


def _json_value(text: str) -> object:
    number = as_number(text)
    return text if number is None else int(number) if number.is_integer() else number
