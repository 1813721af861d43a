"""Records of a log as columns: what is malformed is counted with its line and reason, and the rest goes on."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.errors import TrialsError

Kind = Literal["id", "name", "text", "number", "flag", "list", "object", "any"]
_WORDS = {"true": True, "false": False, "1": True, "0": False}
_LARGEST = 2**53  # beyond which not every whole number is a float
NUMERAL = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")
_SAYS: dict[Kind, str] = {
    "id": "a name or a whole number",
    "name": "a name, a whole number or null",
    "text": "a text or null",
    "number": "a finite number or null",
    "flag": "true or false",
    "list": "a list",
    "object": "an object",
}


@dataclass(frozen=True)
class Source:
    """A file that is being read.

    Parameters
    ----------
    file : str
        Its name, within its archive or folder where it has one.
    score_pattern : str, optional
        The user's regular expression for scores in texts.
    """

    file: str
    score_pattern: str | None = None


class Problem(NamedTuple):
    """A line that is no judgement, and why."""

    file: str
    line: int
    reason: str


@dataclass
class Log:
    """What was wrong with a log.

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
    """

    file: str
    strict: bool = False
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def refuse(self, line: int, reason: str) -> None:
        """Note a malformed line.

        Raises
        ------
        TrialsError
            If the log is read strictly.
        """
        if self.strict:
            raise TrialsError(f"{self.file}, line {line}", reason, "a well-formed line", "leave out strict to go on")
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
        """Say whether any record has a field."""
        return any(name in record for record in self.records)

    def take(self, name: str, kind: Kind, default: Any = None) -> pd.Series:
        """Return a field of every record; records in which it is of another kind are refused.

        Parameters
        ----------
        name : str
            Of the field.
        kind : {"id", "name", "text", "number", "flag", "list", "object", "any"}
            What is allowed. A missing name or text is None and a missing number NaN; anything else must be there.
        default : object
            For records that lack the field or have null in it.

        Returns
        -------
        pandas.Series
            One value a record, in order; of refused records it means nothing.
        """
        values = [record.get(name) for record in self.records]
        if self.textual:
            values = [None if value == "" else value for value in values]
        if default is not None:
            values = [default if value is None else value for value in values]
        made, wrong = _READERS[kind](values)
        self.refuse(wrong, f"{name} is not {_SAYS.get(kind, '')}")
        return made

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


Made = tuple[pd.Series, NDArray[np.bool_]]


def _ids(values: list[Any]) -> Made:
    plain = set(map(type, values)) <= {str} and all(map(str.strip, values))
    made = values if plain else [_id(value) for value in values]
    return strings(made), np.array([value is None for value in made], bool)


def _names(values: list[Any]) -> Made:
    made = [None if value is None or value != value else _id(value) for value in values]
    wrong = [name is None and value is not None and value == value for name, value in zip(made, values, strict=True)]
    return strings(made), np.array(wrong, bool)


def plain(text: str | None) -> str | None:
    """Return a text that can be encoded: half a surrogate pair becomes its escape."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def strings(values: Sequence[str | None]) -> pd.Series:
    """Return a series of strings; half a surrogate pair, which no text holds, becomes its escape."""
    try:
        return pd.Series(list(values), dtype="str")
    except UnicodeEncodeError:
        return pd.Series([plain(value) for value in values], dtype="str")


def _id(value: Any) -> str | None:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _texts(values: list[Any]) -> Made:
    wrong = [value is not None and not isinstance(value, str) for value in values]
    kept = [None if bad else value for value, bad in zip(values, wrong, strict=True)]
    return strings(kept), np.array(wrong, bool)


def _numbers(values: list[Any]) -> Made:
    if set(map(type, values)) <= {float} and np.isfinite(values).all():
        return pd.Series(values, dtype=float), np.zeros(len(values), bool)
    if set(map(type, values)) <= {int} and max(map(abs, values), default=0) < _LARGEST:
        return pd.Series(values, dtype=float), np.zeros(len(values), bool)
    made = [_number(value) for value in values]
    wrong = np.array([number is None for number in made], bool)
    return pd.Series([math.nan if number is None else number for number in made], dtype=float), wrong


def _number(value: Any) -> float | None:
    """Return a finite number, NaN for null or NaN, None for anything else."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not NUMERAL.fullmatch(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isinf(number) else number


def _flags(values: list[Any]) -> Made:
    read = [_WORDS.get(value.lower()) if isinstance(value, str) else value for value in values]
    wrong = np.array([not isinstance(value, bool) for value in read], bool)
    return pd.Series([value is True for value in read], dtype=bool), wrong


def _of(kind: type) -> Callable[[list[Any]], Made]:
    def read(values: list[Any]) -> Made:
        wrong = np.array([not isinstance(value, kind) for value in values], bool)
        empty = kind()
        kept = [empty if bad else value for value, bad in zip(values, wrong, strict=True)]
        return pd.Series(kept, dtype=object), wrong

    return read


_READERS: dict[Kind, Callable[[list[Any]], Made]] = {
    "id": _ids,
    "name": _names,
    "text": _texts,
    "number": _numbers,
    "flag": _flags,
    "list": _of(list),
    "object": _of(dict),
    "any": lambda values: (pd.Series(values, dtype=object), np.zeros(len(values), bool)),
}
