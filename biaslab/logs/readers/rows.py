"""Records of a log, accessed by column, and the problems found in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.errors import TrialsError
from biaslab.logs.readers.cells import CONVERSIONS, WRONG, FieldKind, at, is_blank, strings, value_at

CALL_FAILED = "the call failed"


"""Reason for leaving out a record without an answer."""


NOTHING_IN = "contains no score"


"""Reason for leaving out a record without a single judgement."""


MALFORMED = (KeyError, TypeError, IndexError, AttributeError, ValueError)


"""Errors at a record that is not of its format."""


class RefusedRecordError(ValueError):
    """A record that is malformed, with the reason."""


@dataclass(frozen=True)
class LogSource:
    """A file being read.

    Parameters
    ----------
    file : str
        Its name, within its archive or folder.
    score_pattern : str, optional
        The user's regular expression for scores in texts.
    scale : str, optional
        The user's scale, which overrides the format's.
    verdicts : callable, optional
        Reads the verdicts in the replies about pairs; default: any label.
    """

    file: str
    score_pattern: str | None = None
    scale: str | None = None
    verdicts: Callable[[pd.Series], pd.DataFrame] | None = None


class Problem(NamedTuple):
    """A malformed line, with the reason."""

    file: str
    line: int
    reason: str


@dataclass
class Log:
    """Problems found in a log: malformed lines, records left out, and records that a mapping did not match.

    Parameters
    ----------
    file : str
        Name of the file, within its archive.
    strict : bool
        Raise at the first malformed line instead of continuing.
    problems : list of Problem
        The malformed lines so far.
    left_out : Counter
        Counts of well-formed records that are not judgements, by reason.
    unmatched : Counter
        Counts of judgements that a mapping did not match, by reason; they become rows without a value.
    encoding : str
        Encoding used to decode the file.
    unit : {"line", "row", "annotation"}
        What the line numbers count.
    """

    file: str
    strict: bool = False
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    unmatched: Counter[str] = field(default_factory=Counter)
    encoding: str = "utf-8"
    unit: str = "line"

    def refuse(self, line: int, reason: str) -> None:
        """Record a malformed line.

        Raises
        ------
        TrialsError
            If the log is read strictly.
        """
        if self.strict:
            where = f"{self.file}, {self.unit} {line}"
            raise TrialsError.plain(f"{where} is malformed: {reason}; omit strict to skip such lines")
        problem = Problem(self.file, line, reason)
        if self.problems[-1:] != [problem]:  # rows of one record share its line
            self.problems.append(problem)


class Rows:
    """A chunk of records, accessed by column.

    Parameters
    ----------
    records : sequence of mapping
        The records of the file.
    lines : sequence of int
        Line number of each record, from 1.
    log : Log
        Collects malformed records.
    textual : bool
        Whether all values are strings, as in CSV; empty strings then count as missing.
    """

    def __init__(self, records: Sequence[dict[str, Any]], lines: Sequence[int], log: Log, textual: bool) -> None:
        self.records, self.lines, self.log, self.textual = records, lines, log, textual
        self.good: Bools = np.ones(len(records), bool)

    def has(self, name: str) -> bool:
        """Return whether any record has a field, or a value at a dotted path such as ``"judgments.0.decision"``."""
        if any(name in record for record in self.records):
            return True
        return "." in name and any(value_at(record, name) is not WRONG for record in self.records)

    def values(self, name: str) -> list[Any]:
        """Return each record's value of a field, or at a dotted path if no record has a field of that name."""
        if "." not in name or any(name in record for record in self.records):
            return [record.get(name) for record in self.records]
        return [at(record, name) for record in self.records]

    def take(self, name: str, kind: FieldKind, default: Any = None) -> pd.Series:
        """Return a field of all records, refusing records with a value of another type.

        Parameters
        ----------
        name : str
            Field name or dotted path.
        kind : {"id", "name", "text", "number", "flag", "list", "any"}
            Allowed type. A missing name or text is None, a missing number NaN; other kinds are required.
        default : object
            Value for records that lack the field or have null, NaN or a blank text.

        Returns
        -------
        pandas.Series
            One value per record, in order; arbitrary for refused records.
        """
        values = self.values(name)
        if self.textual:
            values = [None if value == "" else value for value in values]
        if default is not None:
            values = [default if is_blank(value) else value for value in values]
        return self.convert(values, name, kind)

    def convert(self, values: Sequence[Any], name: str, kind: FieldKind) -> pd.Series:
        """Convert values, one per record, to one type, refusing records with a value of another type."""
        conversion = CONVERSIONS[kind]
        converted = [conversion.read(value) for value in values]
        self.refuse(np.array([value is WRONG for value in converted], bool), f"{name} is not {conversion.allowed}")
        kept = [conversion.empty if value is WRONG else value for value in converted]
        return strings(kept) if conversion.dtype == "str" else pd.Series(kept, dtype=conversion.dtype)

    def field(self, record: Mapping[str, Any], name: str, kind: FieldKind, default: Any = None) -> Any:
        """Return a field of one record, as `take` does; raise `RefusedRecordError` if it has another type."""
        value = record.get(name)
        if default is not None and is_blank(value):
            value = default
        conversion = CONVERSIONS[kind]
        if (converted := conversion.read(None if self.textual and value == "" else value)) is WRONG:
            raise RefusedRecordError(f"{name} is not {conversion.allowed}")
        return converted

    def text(self, record: Mapping[str, Any], name: str) -> str:
        """Return a required text of one record."""
        if (text := self.field(record, name, "text")) is None:
            raise RefusedRecordError(f"{name} is missing")
        return str(text)

    def each(self, *columns: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the position of each accepted record and its value in each column."""
        for place, values in enumerate(zip(*columns, strict=True)):
            if self.good[place]:
                yield place, *values

    def leave_out(self, which: pd.Series, reason: str) -> None:
        """Leave out well-formed records that are not judgements."""
        flagged = np.asarray(which, bool) & self.good
        if flagged.any():
            self.log.left_out[reason] += int(flagged.sum())
        self.good &= ~flagged

    def refuse(self, wrong: Bools | pd.Series, reason: str) -> None:
        """Refuse records, for a reason, unless they are refused already."""
        wrong = np.asarray(wrong, bool) & self.good
        for place in np.flatnonzero(wrong).tolist():
            self.log.refuse(self.lines[place], reason)
        self.good &= ~wrong


def field_names(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the names of the fields of the first records, for a message."""
    return ", ".join(sorted({str(name) for record in records[:20] for name in record}))


Judged = dict[str, Any]


Judgements = Callable[[dict[str, Any]], Iterable[Judged | str]]


def judged_records(rows: Rows, judgements: Judgements, tool: str) -> tuple[list[int], list[Judged]]:
    """Return the judgements of all records, with the position of each one's record.

    Parameters
    ----------
    rows : Rows
        Records of a tool. Those that lack a required field are refused.
    judgements : callable
        Yields the judgements of a record, or a text with the reason for leaving one out; an empty one is not counted.
    tool : str
        Name of the tool.
    """
    places: list[int] = []
    judged: list[Judged] = []
    for place, record in rows.each(rows.records):
        try:
            own = [each for each in judgements(record) if each != ""]
        except MALFORMED as error:
            why = str(error) if isinstance(error, RefusedRecordError) else f"not a record of {tool}"
            rows.log.refuse(rows.lines[place], why)
            rows.good[place] = False
            continue
        rows.log.left_out.update([each for each in own if isinstance(each, str)] if own else [NOTHING_IN])
        made = [each for each in own if not isinstance(each, str)]
        places += [place] * len(made)
        judged += made
    return places, judged
