"""Records of a log, the values of their fields, and the columns of trials they become."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.errors import TrialsError
from biaslab.core.schema import count_words

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
            values = [default if _is_blank(value) else value for value in values]
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
        if default is not None and _is_blank(value):
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


FieldKind = Literal["id", "name", "text", "number", "flag", "list", "any"]
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
NUMERAL = re.compile(r"\s*[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")
_NO_VALUE = re.compile(
    r"n/?a|nan|null|none|nil|-+|\?+|invalid|missing|unknown|unpars(?:e?able|ed)|timed out|refused|no (?:score|verdict)"
    r"|(?:\w+[ _]){0,3}(?:error|failed|failure|timeout)(?:\W.*)?",
    re.IGNORECASE | re.DOTALL,
)
WRONG = object()
"""Marks a value that is missing or has the wrong type."""


def read_value(value: Any, kind: FieldKind) -> Any:
    """Convert a value to a type; None if it has another type.

    Examples
    --------
    >>> read_value("4.5", "number"), read_value("yes", "flag"), read_value(3, "id")
    (4.5, None, '3')
    """
    converted = CONVERSIONS[kind].read(value)
    return None if converted is WRONG else converted


def is_no_value(text: str) -> bool:
    """Return whether a text marks a missing value, such as ``N/A`` or the words of an error.

    Examples
    --------
    >>> is_no_value("N/A"), is_no_value("ERROR: rate limit"), is_no_value("4"), is_no_value("neither")
    (True, True, False, False)
    """
    return _NO_VALUE.fullmatch(text.strip()) is not None


def measured(value: Any) -> float:
    """Return a finite number; NaN for text, booleans and anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if number else math.nan


def word_counts(texts: pd.Series) -> pd.Series:
    """Return the number of words in each text; NaN if missing."""
    return texts.map(count_words, na_action="ignore").astype(float)


def at(record: Any, path: str) -> Any:
    """Return the value at a dotted path of a record, or None.

    Examples
    --------
    >>> at({"metadata": {"model": "m"}}, "metadata.model"), at({"metadata": None}, "metadata.model")
    ('m', None)
    """
    value = value_at(record, path)
    return None if value is WRONG else value


def value_at(record: Any, path: str) -> Any:
    """Return the value at a dotted path of object keys and list indices, or `WRONG` if there is none."""
    steps = path.split(".")
    for at_, step in enumerate(steps):
        if isinstance(record, dict) and step in record:
            record = record[step]
        elif isinstance(record, dict) and (key := _key_with_points(record, steps[at_:])) is not None:
            rest = steps[at_ + key.count(".") + 1 :]
            return value_at(record[key], ".".join(rest)) if rest else record[key]
        elif isinstance(record, list) and step.isascii() and step.isdigit() and int(step) < len(record):
            record = record[int(step)]
        else:
            return WRONG
    return record


def _key_with_points(record: dict[str, Any], steps: Sequence[str]) -> str | None:
    """Return the key with points, such as "gpt-4.1", with which the rest of a path starts; None if there is none."""
    return next((key for end in range(len(steps), 1, -1) if (key := ".".join(steps[:end])) in record), None)


def items_in(value: Any, textual: bool = False) -> list[tuple[Any, Any]] | None:
    """Return the items of a list or an object, with their index or key; None for other values.

    With ``textual``, as in CSV, a text may be a list or an object as JSON or Python writes them, or have signs between
    its items.

    Examples
    --------
    >>> items_in(["A", "B"]), items_in({"x": 1}), items_in("A;B") is None
    ([(0, 'A'), (1, 'B')], [('x', 1)], True)
    >>> items_in("['A', 'tie']", textual=True), items_in("A;B", textual=True)
    ([(0, 'A'), (1, 'tie')], [(0, 'A'), (1, 'B')])
    """
    if textual and isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else None


def _from_text(text: str) -> Any:
    if text[:1] in ("[", "{"):
        return parse_literal(text)
    between = next((sign for sign in (";", "|", ",") if sign in text), None)
    return [part.strip() for part in text.split(between)] if between and text else [text] if text else []


def parse_literal(text: str) -> Any:
    """Return the value that a text writes as JSON or in Python; None if it is neither."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def plain(text: str | None) -> str | None:
    """Escape lone surrogates, so that a text can be encoded."""
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def keyed(value: Any) -> Any:
    """Return a short key of a list or an object, such as the messages of a conversation; other values unchanged.

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
    """Return a series of strings, escaping lone surrogates, which are not valid text."""
    try:
        return pd.Series(list(values), dtype="str")
    except UnicodeEncodeError:
        return pd.Series([plain(value) for value in values], dtype="str")


def _is_blank(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _id(value: Any) -> Any:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else WRONG


def _name(value: Any) -> Any:
    return None if value is None or value != value else _id(value)


def _number(value: Any) -> Any:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return WRONG
    if isinstance(value, str) and not NUMERAL.fullmatch(value):
        return WRONG
    try:
        number = float(value)
    except OverflowError:
        return WRONG
    return WRONG if math.isinf(number) else number


def _flag(value: Any) -> Any:
    read = _FLAGS.get(value.lower()) if isinstance(value, str) else value
    return read if isinstance(read, bool) else WRONG


class Conversion(NamedTuple):
    """Conversion of a cell of a log to one type: description for messages, converter, placeholder and dtype.

    Options are parsed by `biaslab.core.checks.read`. Cells have other rules: null and NaN are missing values, JSON has
    already typed most of them, and a malformed one is counted as a refused record instead of raising an error.
    """

    allowed: str
    read: Callable[[Any], Any]
    empty: Any
    dtype: Any


CONVERSIONS: dict[FieldKind, Conversion] = {
    "id": Conversion("a name or a whole number", _id, None, "str"),
    "name": Conversion("a name, a whole number or null", _name, None, "str"),
    "text": Conversion("a text or null", lambda v: v if v is None or isinstance(v, str) else WRONG, None, "str"),
    "number": Conversion("a finite number or null", _number, math.nan, float),
    "flag": Conversion("true or false", _flag, False, bool),
    "list": Conversion("a list", lambda value: value if isinstance(value, list) else WRONG, [], object),
    "any": Conversion("anything", lambda value: value, None, object),
}


ColumnKind = Literal["text", "name", "number", "flag"]


class Column(NamedTuple):
    """A column of recorded trials.

    Parameters
    ----------
    kind : {"text", "name", "number", "flag"}
        Type of the values; a name may be missing.
    default : object
        Value if the log has none.
    tells_apart : bool
        Whether it is part of a judgement's identity: rows that agree in all such columns are duplicates.
    """

    kind: ColumnKind
    default: Any = None
    tells_apart: bool = False


#: The columns of recorded trials, in order: those of `biaslab.collect`, then others that probes read.
with files("biaslab.logs.readers").joinpath("trials.toml").open("rb") as _declared:
    SCHEMA = {name: Column(**column) for name, column in tomllib.load(_declared).items()}
COLUMNS = tuple(SCHEMA)


def trials_of(columns: Mapping[str, Any], index: pd.Index) -> pd.DataFrame:
    """Return a trials frame from the columns that a reader fills; other columns have their defaults.

    Parameters
    ----------
    columns : mapping
        Column → a single value, or a series with one value per judgement.
    index : pandas.Index
        Position of each judgement's record among those read.
    """
    prepared: dict[str, pd.Series] = {}
    constant: dict[tuple[Any, ...], pd.Series] = {}  # columns of equal text share their memory
    for name in COLUMNS[:-1]:
        value = columns.get(name, SCHEMA[name].default)
        dtype = "str" if SCHEMA[name].kind in ("text", "name") else None
        if isinstance(value, pd.Series):
            prepared[name] = value if dtype is None or value.dtype == "str" else value.astype("str")
            if isinstance(SCHEMA[name].default, str):  # probes read these, and tables store empty text as missing
                prepared[name] = prepared[name].fillna(SCHEMA[name].default)
        else:
            if (same := (dtype, value) if dtype else (name,)) not in constant:
                constant[same] = pd.Series(value, index=index, dtype=dtype)
            prepared[name] = constant[same]
    return pd.DataFrame(prepared, index=index)


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


def record_trials(rows: Rows, judgements: Judgements, tool: str, **fixed: Any) -> pd.DataFrame:
    """Return the trials of records with any number of judgements each; without one, the frame is empty.

    Parameters
    ----------
    rows, judgements, tool
        As in `judged_records`; a judgement has the columns of a trial, and perhaps others.
    **fixed
        Columns with the same value in all rows.
    """
    places, judged = judged_records(rows, judgements, tool)
    if not judged:
        return pd.DataFrame()
    names = [name for name in judged[0] if name in SCHEMA]
    values = [(place, *(each[name] for name in names)) for place, each in zip(places, judged, strict=True)]
    try:
        frame = pd.DataFrame(values, columns=["place", *names])
    except UnicodeEncodeError:  # lone surrogates are not valid text
        whole = [tuple(plain(value) if isinstance(value, str) else value for value in row) for row in values]
        frame = pd.DataFrame(whole, columns=["place", *names])
    indexed = frame.set_index("place")
    trials = trials_of({**fixed, **indexed}, indexed.index)
    return trials.assign(**{name: [each[name] for each in judged] for name in judged[0] if name not in SCHEMA})


def counted(trials: pd.DataFrame) -> pd.DataFrame:
    """Count repeated judgements of the same item as replicates, from 0, in order."""
    same = trials.groupby([name for name in identity_of(trials) if name != "replicate"], sort=False, dropna=False)
    return trials.assign(replicate=same.cumcount().astype("int64"))


def without_duplicates(trials: pd.DataFrame) -> tuple[pd.DataFrame, int, int]:
    """Drop duplicate judgements, keeping the first; also return how many were dropped and how many contradicted it.

    Columns that only some logs have are conditions, and part of a judgement's identity too.
    """
    keys = identity_of(trials)
    repeated = trials.duplicated(keys)
    if not repeated.any():
        return trials, 0, 0
    several = trials[trials.duplicated(keys, keep=False)]
    group = several.groupby(keys, sort=False, dropna=False)
    place = group.ngroup().to_numpy()
    first = group[["value", "status"]].nth(0)  # one per group, in the order of the groups
    same = several["status"].to_numpy() == first["status"].to_numpy()[place]
    value, of_first = several["value"].to_numpy(float), first["value"].to_numpy(float)[place]
    same &= (value == of_first) | (np.isnan(value) & np.isnan(of_first))
    return trials[~repeated], int(repeated.sum()), int((~same).sum())


def identity_of(trials: pd.DataFrame) -> list[str]:
    """Return the columns that identify a judgement; rows that agree in all of them are duplicates."""
    return [name for name in trials.columns if name not in SCHEMA or SCHEMA[name].tells_apart]
