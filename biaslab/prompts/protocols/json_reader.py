"""Verdicts in JSON: a whole reply, somewhere in a text, or in the arguments of a tool call."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from biaslab.core.errors import InputError
from biaslab.prompts.parsing import structured
from biaslab.prompts.protocols.readers import (
    ATTRIBUTE,
    OfVerdicts,
    Reader,
    Verdicts,
    as_number,
    as_text,
    require_verdicts,
)

_STEP = re.compile(r"\.?(\{attribute\}|[^\W\d][\w -]*)|\[(\d+)\]|\[([\w -]+)=([^\]]*)\]")
_DECODER = json.JSONDecoder(strict=False)
_MOST_LOOSE = 50
_BRACE = re.compile(r"[{}]")
_COMMA = re.compile(r",(\s*[}\]])")
_CURLY = str.maketrans("“”‘’", "\"\"''")
_CALLS = ("arguments", "parameters", "input")
_FENCE = re.compile(r"```json(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class JsonPath(OfVerdicts):
    """Verdict in a JSON object: alone, somewhere in a text, or in the arguments of a tool call.

    Parameters
    ----------
    path : str
        Keys separated by dots, ``[0]`` for an index into a list, ``[model=m]`` for its first object with that entry:
        ``"ordered_models[model=m].rank"``. ``{attribute}`` is replaced by the attribute to read, if a reply judges
        several: ``"scores.{attribute}"``.
    verdicts : sequence of (str, float), optional
        Meaning of each value; without them it is a number.
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
        """The path as steps: a key, an index, or a pair of key and value."""
        rest, steps = self.path, []
        while rest:
            match = _STEP.match(rest)
            if match is None:
                allowed = 'keys and indices, such as "result.score" or "models[name=m].rank"'
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
        for read in (documents, loose_documents):
            values = [value for document in read(text) if (value := self.value_in(document)) is not None]
            if values:
                return values
        return []

    def value_in(self, document: Any) -> float | None:
        """Return the value in a document, None if it has none."""
        if isinstance(self.steps[0], str):
            document = _object_with(document, self.steps[0])
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


@dataclass(frozen=True)
class Whole(Reader):
    """Verdict in a reply that consists of one document.

    Parameters
    ----------
    inner : JsonPath
        Where the verdict is in the document.
    written : {"json", "python"}
        Whether it is JSON, alone or in a fence (three backticks and ``json``), or a Python literal.

    Examples
    --------
    >>> reader = Whole(JsonPath("score"))
    >>> reader.find('{"score": 3}'), reader.find('Well: {"score": 3}')
    ([3.0], [])
    """

    inner: JsonPath
    written: str = "json"

    @property
    def points(self) -> tuple[float, ...]:
        """The values of the verdicts."""
        return self.inner.points

    def of(self, attribute: str) -> Whole:
        """Return the reader of one attribute's value."""
        return replace(self, inner=self.inner.of(attribute))

    def find(self, text: str) -> list[float]:
        """Return the value in the document."""
        fence = _FENCE.search(text) if self.written == "json" else None
        load = _DECODER.decode if self.written == "json" else _literal
        value = self.inner.value_in(_loaded(load, (fence[1] if fence else text).strip()))
        return [] if value is None else [value]

    def write(self, value: float) -> str:
        """Return a minimal document that gives a value."""
        return self.inner.write(value)


def documents(text: str) -> Iterator[Any]:
    """Yield every outermost JSON object or list in a text; if there is none, a Python literal that is one."""
    seen = False
    for document in structured.documents(text, _DECODER, "{["):
        seen = True
        yield document
    if not seen and isinstance(document := _loaded(_literal, text.strip()), list | dict):
        yield document


def loose_documents(text: str) -> Iterator[Any]:
    """Yield what would be JSON objects except for an extra comma, or curly or single quotes, as models may write them.

    Examples
    --------
    >>> list(loose_documents("So: {'score': 3} or {“score”: 4,}"))
    [{'score': 3}, {'score': 4}]
    """
    for piece in islice(_braced(text), _MOST_LOOSE):
        straight = _COMMA.sub(r"\1", piece.translate(_CURLY))
        documents_read = (_loaded(load, straight) for load in (_DECODER.decode, _literal))
        yield from islice((each for each in documents_read if isinstance(each, Mapping)), 1)


def _loaded(load: Callable[[str], Any], text: str) -> Any:
    """Return the document that a text consists of, None if it is not one."""
    try:
        return load(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _literal(text: str) -> Any:
    """Return the value of a Python literal, suppressing Python's warnings about code in other replies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text)


def _braced(text: str) -> Iterator[str]:
    """Yield every outermost piece in braces."""
    depth = start = 0
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            start = brace.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                yield text[start : brace.end()]


def _object_with(document: Any, key: str) -> Any:
    """Return the object with a key: the only one of a list, or the arguments of a written-out tool call."""
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if isinstance(document, Mapping) and key not in document:
        return next((each for name in _CALLS if isinstance(each := document.get(name), Mapping)), document)
    return document


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
