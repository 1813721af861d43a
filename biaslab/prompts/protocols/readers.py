"""Parse verdicts from replies (labels, patterns, JSON, free text), and write replies with a given verdict.

A reader finds every verdict in a text, in order; `biaslab.prompts.protocols.Protocol` chooses among them. Every reader
also writes: ``find(write(value))`` gives the value, so that a simulated judge can answer in any format.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, permutations
from typing import Any, TypeAlias

from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.core.trials import Status
from biaslab.prompts.parsing import replies
from biaslab.prompts.parsing.choice import settled
from biaslab.prompts.parsing.replies import is_refusal
from biaslab.prompts.parsing.scores import parse_score

#: Placeholder, in a pattern or JSON path, for the attribute to read if a reply judges several.
ATTRIBUTE = "{attribute}"
VerdictValues: TypeAlias = tuple[tuple[str, float], ...]
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_WORDS = re.compile(r"\w+(?: \(?\w+\)?){0,2}")


class VerdictReader(ABC):
    """Finds the verdicts in a text, and writes one."""

    @property
    def points(self) -> tuple[float, ...]:
        """Every value that it can find, in ascending order; empty if it finds numbers."""
        return tuple(sorted({value for _, value in getattr(self, "verdicts", ())}))

    def unread(self, text: str) -> Status:
        """Return the status of a text without a verdict."""
        return "refused" if is_refusal(text) else "off_format"

    def of(self, attribute: str) -> VerdictReader:  # noqa: ARG002
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


class OfVerdicts(VerdictReader):
    """Parses a piece of text as one of ``verdicts``, ignoring white space and case, or without any as a number."""

    verdicts: VerdictValues

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
class LabelReader(VerdictReader):
    """Verdicts that are fixed words, such as ``[[A]]``.

    Parameters
    ----------
    verdicts : sequence of (str, float)
        Each label and its value.

    Raises
    ------
    InputError
        If there are no verdicts, one is empty, or one is found inside another.

    Examples
    --------
    >>> reader = LabelReader((("[[A]]", 1.0), ("[[B]]", 0.0)))
    >>> reader.find("[[A]] is tempting, but [[B]]"), reader.write(0)
    ([1.0, 0.0], '[[B]]')
    """

    verdicts: VerdictValues

    def __post_init__(self) -> None:
        require_verdicts(self.verdicts)
        for inner, outer in permutations((label for label, _ in self.verdicts), 2):
            if re.search(_whole(inner), outer):
                remedy = "put delimiters around them, such as [[A]], or give a pattern"
                overlap = f"{inner!r}, which {outer!r} contains"
                raise InputError("verdicts", overlap, "labels that do not contain each other", remedy)

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return re.compile("|".join(_whole(label) for label, _ in self.verdicts))

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
        if len(set(map(str.casefold, self._words))) < len(self._words):  # sentences do not distinguish m and M
            return verdicts[-1] if len(set(verdicts)) == 1 else None
        place, _ = settled(text, self._words, {self._words.index(match) for match in self._any.findall(text)})
        return None if place is None else self.verdicts[place][1]

    def unread(self, text: str) -> Status:
        """Return the status of a text without a verdict, or with several of which none counts."""
        return "ambiguous" if self.find(text) and not is_refusal(text) else super().unread(text)

    def find(self, text: str) -> list[float]:
        """Return the values of all labels in a text."""
        values = dict(self.verdicts)
        return [values[label] for label in self._any.findall(text)]

    def write(self, value: float) -> str:
        """Return the first label for a value."""
        return label_of(self.verdicts, value)


@dataclass(frozen=True)
class FirstOf(VerdictReader):
    """Several readers; the first that finds a verdict decides.

    Examples
    --------
    >>> FirstOf((LabelReader((("A", 1.0), ("B", 0.0))), LabelReader((("yes", 1.0), ("no", 0.0))))).find("no")
    [0.0]
    """

    readers: tuple[VerdictReader, ...]

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


def _whole(label: str) -> str:
    """Pattern of a label that does not continue as a word."""
    before = r"(?<!\w)" if label[:1].isalnum() else ""
    after = r"(?!\w)" if label[-1:].isalnum() else ""
    return before + re.escape(label) + after


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
    verdicts: VerdictValues = ()
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
class Matches(VerdictReader):
    r"""Verdicts with one regular expression each, as in AlpacaEval's configurations.

    Parameters
    ----------
    verdicts : sequence of (str, float)
        Each pattern and its value.
    labels : sequence of (str, float), optional
        A reply for each value; by default the shortest that its pattern matches.

    Examples
    --------
    >>> Matches(((r"Output \(a\)", 1.0), (r"Output \(b\)", 0.0))).find("Output (b)")
    [0.0]
    """

    verdicts: VerdictValues
    labels: VerdictValues = ()

    def find(self, text: str) -> list[float]:
        """Return the values of all matches, by position; they do not overlap, and ``^`` matches after each."""
        values: list[float] = []
        patterns, at = [(compiled(pattern), value) for pattern, value in self.verdicts], 0
        later = [pattern.search(text) for pattern, _ in patterns]
        while at <= len(text):
            later = [m.re.search(text, at) if m is not None and m.start() < at else m for m in later]
            found = zip(later, patterns, strict=True)
            spans = [_span_at(pattern, text, at) or (m and m.span()) for m, (pattern, _) in found]
            hits = [(span, value) for span, (_, value) in zip(spans, patterns, strict=True) if span is not None]
            if not hits:
                break
            (start, end), value = min(hits, key=lambda hit: hit[0][0])
            values.append(value)
            at = max(end, start + 1)
        return values

    def write(self, value: float) -> str:
        """Return the label for a value, or a short text that only its own pattern matches."""
        if self.labels:
            return label_of(self.labels, value)
        pattern = label_of(self.verdicts, value)
        texts = [*matching_texts(pattern), pattern]
        alone = (text for text in texts if [value] == [of for own, of in self.verdicts if compiled(own).search(text)])
        return next(alone, texts[0])


def _span_at(pattern: re.Pattern[str], text: str, at: int) -> tuple[int, int] | None:
    """Return where a pattern matches at a place, as if the text began there; only what is near is copied."""
    match = pattern.match(text[at : at + _NEAR])
    if match is not None and match.end() == _NEAR:
        match = pattern.match(text[at:])
    return None if match is None else (at, at + match.end())


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


_MOST_TEXTS, _NEAR = 32, 1000
_OF_CATEGORY = {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "1", "CATEGORY_NOT_WORD": " "}


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
    verdicts: VerdictValues = ()

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
        return json.dumps(document)


@dataclass(frozen=True)
class Whole(VerdictReader):
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
    for document in replies.documents(text, _DECODER, "{["):
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


@dataclass(frozen=True)
class FreeScore(VerdictReader):
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
class Function(VerdictReader):
    """Verdict parsed by a custom function.

    Parameters
    ----------
    function : callable
        Maps a text to a number, or to None if it finds nothing.
    verdicts : sequence of (str, float)
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
    verdicts: VerdictValues

    def __post_init__(self) -> None:
        require_verdicts(self.verdicts, "examples")
        for text, value in self.verdicts:
            if self.find(text) != [value]:
                raise InputError.plain(f"parse reads {text!r} as {self.find(text)}, expected: {value}")

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
        return label_of(self.verdicts, value)
