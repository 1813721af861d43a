"""Read records of a log as columns; malformed ones are counted, with line and reason, and skipped."""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.errors import TrialsError
from biaslab.core.schema import count_words

CALL_FAILED = "the call failed"
"""Why a record is left out that a judge did not answer."""

Kind = Literal["id", "name", "text", "number", "flag", "list", "any"]
_WORDS = {"true": True, "false": False, "1": True, "0": False}
NUMERAL = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")
_WRONG = object()  # stands for a value of another kind than was asked for


@dataclass(frozen=True)
class Source:
    """A file that is being read.

    Parameters
    ----------
    file : str
        Its name, within its archive or folder where it has one.
    score_pattern : str, optional
        The user's regular expression for scores in texts.
    scale : str, optional
        The user's scale, on which scores are read instead of the format's own.
    """

    file: str
    score_pattern: str | None = None
    scale: str | None = None


class Problem(NamedTuple):
    """A line that is no judgement, and why."""

    file: str
    line: int
    reason: str


@dataclass
class Log:
    """Problems of a log: malformed lines, records left out, and values that a mapping did not match.

    Parameters
    ----------
    file : str
        Name of the file, within its archive where it has one.
    strict : bool
        Raise at the first malformed line instead of going on.
    problems : list of Problem
        Malformed lines so far.
    left_out : Counter
        Well-formed records that are no judgements to be read, by reason.
    unmatched : Counter
        Judgements in which a mapping did not find what it asks for, by reason; they are rows without a value.
    encoding : str
        What the file's bytes were read as.
    unit : {"line", "row", "annotation"}
        What is counted in the file.
    """

    file: str
    strict: bool = False
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    unmatched: Counter[str] = field(default_factory=Counter)
    encoding: str = "utf-8"
    unit: str = "line"

    def refuse(self, line: int, reason: str) -> None:
        """Note a malformed line.

        Raises
        ------
        TrialsError
            If the log is read strictly.
        """
        if self.strict:
            where = f"{self.file}, {self.unit} {line}"
            raise TrialsError(where, reason, "a well-formed line", "leave out strict to go on")
        self.problems.append(Problem(self.file, line, reason))


class Rows:
    """Some records of a log, column by column.

    Parameters
    ----------
    records : sequence of mapping
        As they stand in the file.
    lines : sequence of int
        Line of each, counted from 1.
    log : Log
        Where malformed ones are noted.
    textual : bool
        Whether every value is a string, as in CSV; an empty one is missing then.
    """

    def __init__(self, records: Sequence[dict[str, Any]], lines: Sequence[int], log: Log, textual: bool) -> None:
        self.records, self.lines, self.log, self.textual = records, lines, log, textual
        self.good: NDArray[np.bool_] = np.ones(len(records), bool)

    def has(self, name: str) -> bool:
        """Return whether any record has a field, or something at a dotted path such as ``"judgments.0.decision"``."""
        if any(name in record for record in self.records):
            return True
        return "." in name and any(_at(record, name) is not _WRONG for record in self.records)

    def values(self, name: str) -> list[Any]:
        """Return what every record has in a field, or at a dotted path where no record has a field of that name."""
        if "." not in name or any(name in record for record in self.records):
            return [record.get(name) for record in self.records]
        return [at(record, name) for record in self.records]

    def take(self, name: str, kind: Kind, default: Any = None) -> pd.Series:
        """Return a field of every record; records in which it is of another kind are refused.

        Parameters
        ----------
        name : str
            Of the field, or a dotted path.
        kind : {"id", "name", "text", "number", "flag", "list", "any"}
            What is allowed. A missing name or text is None and a missing number NaN; anything else must be there.
        default : object
            For records that lack the field or have null in it.

        Returns
        -------
        pandas.Series
            One value a record, in order; of refused records it means nothing.
        """
        values = self.values(name)
        if self.textual:
            values = [None if value == "" else value for value in values]
        if default is not None:
            values = [default if value is None else value for value in values]
        return self.convert(values, name, kind)

    def convert(self, values: Sequence[Any], name: str, kind: Kind) -> pd.Series:
        """Convert values, one per record, to one kind; refuse records with others, naming the field."""
        conversion = _CONVERSIONS[kind]
        made = [conversion.read(value) for value in values]
        self.refuse(np.array([value is _WRONG for value in made], bool), f"{name} is not {conversion.allowed}")
        kept = [conversion.empty if value is _WRONG else value for value in made]
        return strings(kept) if conversion.dtype == "str" else pd.Series(kept, dtype=conversion.dtype)

    def take_texts(self, *names: str) -> dict[str, pd.Series]:
        """Return fields that hold a text in every record; records in which one is missing are refused."""
        texts = {name: self.take(name, "text") for name in names}
        for name, values in texts.items():
            self.refuse(values.isna(), f"{name} is missing")
        return texts

    def each(self, *columns: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the place of each record that is not refused, and what columns hold there."""
        for place, values in enumerate(zip(*columns, strict=True)):
            if self.good[place]:
                yield place, *values

    def leave_out(self, which: pd.Series, reason: str) -> None:
        """Leave out records that are well formed and not to be read."""
        there = np.asarray(which, bool) & self.good
        if there.any():
            self.log.left_out[reason] += int(there.sum())
        self.good &= ~there

    def refuse(self, wrong: NDArray[np.bool_] | pd.Series, reason: str) -> None:
        """Refuse some records, unless they are refused already."""
        wrong = np.asarray(wrong, bool) & self.good
        for place in np.flatnonzero(wrong).tolist():
            self.log.refuse(self.lines[place], reason)
        self.good &= ~wrong


def read_value(value: Any, kind: Kind) -> Any:
    """Return a value as one kind; None if it is of another.

    Examples
    --------
    >>> read_value("4.5", "number"), read_value("yes", "flag"), read_value(3, "id")
    (4.5, None, '3')
    """
    made = _CONVERSIONS[kind].read(value)
    return None if made is _WRONG else made


def measured(value: Any) -> float:
    """Return a finite number; NaN for a text, true, false and anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if number else math.nan


def word_counts(texts: pd.Series) -> pd.Series:
    """Return the number of words of each text; NaN where it is missing."""
    return texts.map(count_words, na_action="ignore").astype(float)


def field_names(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of the fields of the first records, for a message."""
    return ", ".join(sorted({str(name) for record in records[:20] for name in record}))


def at(record: Any, path: str) -> Any:
    """Return the value at a dotted path of a record; None if there is none.

    Examples
    --------
    >>> at({"metadata": {"model": "m"}}, "metadata.model"), at({"metadata": None}, "metadata.model")
    ('m', None)
    """
    value = _at(record, path)
    return None if value is _WRONG else value


def _at(record: Any, path: str) -> Any:
    """Return the value at a dotted path: keys of objects and positions in lists."""
    for step in path.split("."):
        if isinstance(record, dict) and step in record:
            record = record[step]
        elif isinstance(record, list) and step.isascii() and step.isdigit() and int(step) < len(record):
            record = record[int(step)]
        else:
            return _WRONG
    return record


def plain(text: str | None) -> str | None:
    """Return a text that can be encoded: half a surrogate pair becomes its escape."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def keyed(value: Any) -> Any:
    """Return a short key of a list or an object, such as the messages of a conversation; else the value itself.

    Examples
    --------
    >>> keyed([{"role": "user", "content": "Why?"}]) == keyed([{"content": "Why?", "role": "user"}]), keyed("q1")
    (True, 'q1')
    """
    if not isinstance(value, list | dict) or not value:
        return value
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def strings(values: Sequence[str | None]) -> pd.Series:
    """Return a series of strings; half a surrogate pair, which no text holds, becomes its escape."""
    try:
        return pd.Series(list(values), dtype="str")
    except UnicodeEncodeError:
        return pd.Series([plain(value) for value in values], dtype="str")


def _id(value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else _WRONG


def _name(value: Any) -> Any:
    return None if value is None or value != value else _id(value)


def _number(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _WRONG
    if isinstance(value, str) and not NUMERAL.fullmatch(value):
        return _WRONG
    try:
        number = float(value)
    except OverflowError:
        return _WRONG
    return _WRONG if math.isinf(number) else number


def _flag(value: Any) -> Any:
    read = _WORDS.get(value.lower()) if isinstance(value, str) else value
    return read if isinstance(read, bool) else _WRONG


class _Conversion(NamedTuple):
    """Conversion of values of one kind: allowed values for messages, reader, placeholder and dtype."""

    allowed: str
    read: Callable[[Any], Any]
    empty: Any
    dtype: Any


_CONVERSIONS: dict[Kind, _Conversion] = {
    "id": _Conversion("a name or a whole number", _id, None, "str"),
    "name": _Conversion("a name, a whole number or null", _name, None, "str"),
    "text": _Conversion("a text or null", lambda v: v if v is None or isinstance(v, str) else _WRONG, None, "str"),
    "number": _Conversion("a finite number or null", _number, math.nan, float),
    "flag": _Conversion("true or false", _flag, False, bool),
    "list": _Conversion("a list", lambda value: value if isinstance(value, list) else _WRONG, [], object),
    "any": _Conversion("anything", lambda value: value, None, object),
}
