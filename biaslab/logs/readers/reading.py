"""Read the files at a path: detect the format of each, read its records, and explain what cannot be read.

Read tables with common column names without a mapping, and report the interpretation.

Tables of pairs have two columns of answers or systems and a column of verdicts; tables of scores have an answer or a
system and a column of numbers. Human columns, several judges and several attributes are recognised by name. An
ambiguous table is refused, and the error shows a command for each interpretation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers import common_names as named, inspect_logs
from biaslab.logs.readers.detection import detect, find_format
from biaslab.logs.readers.documents import LogDocument, read_frame, read_rows, why_empty
from biaslab.logs.readers.expressions import COUNTED
from biaslab.logs.readers.layouts import read_annotations, unnested
from biaslab.logs.readers.mapping_files import LogMapping, Shape, make_mapping, shaped
from biaslab.logs.readers.pair_tables import of_pairs
from biaslab.logs.readers.refusals import (
    READ,
    Entries,
    ImplausibleError,
    Refusal,
    example_rows,
    lists_of,
    printable,
    require_plausible,
    suggestion,
    within_lists,
)
from biaslab.logs.readers.rows import COLUMNS, Log, LogSource, Rows, counted, without_duplicates
from biaslab.logs.readers.score_tables import of_scores
from biaslab.logs.readers.table_columns import (
    LogTable,
    TableReading,
    named_pair,
    of_any_name,
    winner_and_loser,
    with_baseline,
)
from biaslab.logs.readers.verdict_columns import by_flag

_TABLE = "table"  # name of a data frame in messages
_TURN = {"role", "content"}  # fields of a turn in a conversation
_SMALL = 10_000  # rows of a file below which texts of all files are put together
_SAMPLED = 2000  # records kept to try mappings on, and to find a field that distinguishes judgements


class UnclearError(Exception):
    """A table is ambiguous even with the mapping; internal, for `biaslab.logs.readers.reading`."""

    def __init__(self, refusal: Refusal, sample: Rows) -> None:
        super().__init__(refusal.reason)
        self.refusal, self.sample = refusal, sample


class LogReading:
    """State of reading a path: the files, logs and problems so far."""

    def __init__(self, format_: str | None, mapping: LogMapping, strict: bool) -> None:
        self.format, self.mapping, self.strict = format_, mapping, strict
        self.logs: list[Log] = []
        self.files: dict[str, str] = {}
        self.skipped: list[str] = []
        self.fields: list[str] = []
        self.records: dict[str, dict[str, Any]] = {}  # sample of records, by the key of their trial
        self.examples: list[dict[str, Any]] = []
        self.empty: dict[str, str] = {}
        self.refused: list[tuple[Refusal | None, Rows]] = []  # refusal of each file not read, and its first records
        self.tables: dict[str, str] = {}
        self.alone = False  # whether tables may be read by column names, as for a single file outside a folder

    def of(self, document: LogDocument) -> Iterator[pd.DataFrame]:
        """Yield the trials of a file in chunks."""
        log = Log(document.name)
        if self.format == "inspect" or (self.format is None and inspect_logs.is_inspect(document)):
            scale = self.mapping.columns.get("scale")
            yield from self.of_rows(_inspected(document, log, scale), log, inspect=True)
        else:
            yield from self.of_rows(read_rows(document, log), log)
        if log.file not in self.files and not self.fields:
            self.empty[log.file] = first_problem(log) or why_empty(document)

    def of_frame(self, frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield the trials of a table in chunks."""
        if frame.empty:
            self.empty[_TABLE] = f"it has {len(frame)} rows and {len(frame.columns)} columns"
            return
        log = Log(_TABLE)
        named = [name for name in frame.index.names if name is not None and name not in frame.columns]
        frame = frame.reset_index(level=named) if named else frame
        yield from self.of_rows(read_frame(frame, log), log)

    def of_rows(self, chunks: Iterator[Rows], log: Log, inspect: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the trials of records in chunks."""
        mapping = {name: entry for name, entry in self.mapping.columns.items() if not (inspect and name == "scale")}
        start = next(chunks, None)
        if start is None:
            self.skipped.append(log.file)
            return
        sample, chunks = _sampled(start), chain([start], chunks)
        exploded = isinstance(self.mapping.shape, Shape) and bool(self.mapping.shape.explode)
        if self.format in (None, "table", "mapping") and not exploded:
            chunks = unnested(chunks, mapping)
        chunks = shaped(chunks, self.mapping.shape)
        first = next(chunks, None)
        name = "mapping" if inspect else self.format
        if first is not None and name is None:
            name = "mapping" if exploded and mapping else detect(first.records, bool(mapping))
        table = self._table(first, name, mapping)
        if isinstance(table, Refusal) and name is not None:
            raise UnclearError(table, sample)
        refusal, table = (table, None) if isinstance(table, Refusal) else (None, table)
        name = "table" if table is not None else name
        if first is None or name is None:
            self.examples = self.examples or (list(first.records[:READ]) if first else [])
            self.fields += sorted({str(field) for record in (first.records[:5] if first else ()) for field in record})
            self.skipped.append(log.file)
            self.refused.append((refusal, sample))
            return
        log.strict = self.strict
        if self.strict and log.problems:
            log.refuse(log.problems[0].line, log.problems[0].reason)
        self.logs.append(log)
        some = zip(first.lines[:_SAMPLED], first.records[:_SAMPLED], strict=True)
        self.records |= {f"{log.file}:{line}": record for line, record in some} if len(self.records) < _SAMPLED else {}
        self.files[log.file] = "inspect" if inspect else name
        read = find_format(name).read if table is None else table.read
        source = LogSource(log.file, self.mapping.score_pattern)
        for rows in chain([first], chunks):
            part = read(rows, source, mapping)
            if len(part) and len(trials := _with_positions(part, rows, log.file)):
                yield trials

    def _table(self, first: Rows | None, name: str | None, mapping: Mapping[str, Any]) -> TableReading | Refusal | None:
        """Return how to read a table of unknown format by its column names, or a refusal; None for other files."""
        needed = {"context_id", "candidate_id"}
        unknown = name in (None, "mapping", "table") and self.format in (None, "table")
        if first is None or not self.alone or not unknown or (needed <= set(mapping) and _is_whole(mapping)):
            return None
        if needed <= {field for record in first.records for field in record}:
            return None
        reading = read_annotations(first, mapping) or read_table(first, mapping)
        if not isinstance(reading, TableReading) and (within := self._in_lists(first)) is not None:
            before = reading.options if isinstance(reading, Refusal) and not reading.is_guess else ()
            reading = (
                Refusal(within.reason, (*within.options, *before)) if reading is None or within.options else reading
            )
        if isinstance(reading, TableReading):
            self.tables[first.log.file] = reading.note
        return reading

    def _in_lists(self, first: Rows) -> Refusal | None:
        """Suggest mappings for records that each contain a list of judgements; None if they contain no such list."""
        if self.mapping.columns or self.mapping.shape is not None:
            return None
        some = Rows(first.records[:READ], first.lines[:READ], Log(first.log.file), first.textual)
        names = dict.fromkeys(name for record in some.records for name, value in record.items()
                              if isinstance(value, list) and value and isinstance(value[0], dict)
                              and not set(value[0]) >= _TURN)  # fmt: skip
        for name in names:
            kept = [record for record in some.records if isinstance(record.get(name), list)]
            inner = read_table(Shape((name,)).of(Rows(kept, range(len(kept)), Log(""), first.textual)), {})
            if isinstance(inner, TableReading):
                option = (f"one row per item of {name}", {"explode": name})
                return Refusal(f"each record holds a list ({name})", (option,))
            if isinstance(inner, Refusal) and inner.options:
                options = tuple((assumption, {"explode": name, **entries}) for assumption, entries in inner.options)
                return Refusal(f"each record holds a list ({name}); {inner.reason}", options)
        return None

    def trials(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return the trials of all files without duplicates; raise if the reading of a table is implausible."""
        whole = pd.concat(parts, ignore_index=True)
        if len(parts) > 1 and len(whole) < _SMALL * len(parts):  # selections of text from hundreds of pieces are slow
            whole = whole.take(np.arange(len(whole)))
        columns = self.mapping.columns
        if columns.get("replicate") == f"={COUNTED}":
            whole = counted(whole)
        trials, duplicates, others = without_duplicates(whole)
        trials = trials.reset_index(drop=True)
        counts = {"judgements": len(trials), "duplicates": duplicates, "contradictions": others}
        trials.attrs = self.facts() | counts
        if set(self.files.values()) & {"mapping", "table"}:
            require_plausible(trials, whole, columns, self.records)
        return trials

    def facts(self) -> dict[Hashable | None, Any]:
        """Return the trials' attrs, in plain types so that they can be saved."""
        problems = [tuple(problem) for log in self.logs for problem in log.problems]
        left_out = sum((log.left_out for log in self.logs), Counter[str]())
        unknown = sum((log.unknown_winners for log in self.logs), Counter[str]())
        unmatched = sum((log.unmatched for log in self.logs), unknown)
        encodings = {log.file: log.encoding for log in self.logs if log.encoding != "utf-8"}
        return {
            "files": self.files,
            "skipped": self.skipped,
            "malformed": len(problems),
            "problems": problems,
            "left_out": dict(left_out),
            "unmatched": dict(unmatched),
            "unknown_winners": list(unknown),
            "encodings": encodings,
            "tables": self.tables,
        }


def _is_whole(mapping: Mapping[str, Any]) -> bool:
    """Return whether a mapping is complete without a table's column names: one of pairs, or of scores with a scale."""
    scored = "scale" in mapping and bool({"score", "reply"} & set(mapping))
    return scored or bool({"opponent_id", "human", "ratings"} & set(mapping))


def _sampled(rows: Rows) -> Rows:
    """Return the first records of a file, to try mappings on."""
    log = Log(rows.log.file, encoding=rows.log.encoding, unit=rows.log.unit)
    return Rows(rows.records[:_SAMPLED], rows.lines[:_SAMPLED], log, rows.textual)


def first_problem(log: Log) -> str | None:
    """Return the number of the first malformed line and the reason, or None."""
    return next((f"{log.unit} {problem.line}: {problem.reason}" for problem in log.problems), None)


def _inspected(document: LogDocument, log: Log, scale: str | None) -> Iterator[Rows]:
    """Yield the scores, then the pairs of an Inspect log; the user's scale applies to numbers, not to grades."""
    if scale is not None and not scale.startswith("="):
        raise InputError("mapping['scale']", scale, "a constant for Inspect logs, such as '=1-5'")
    judgements = []
    for line, record in inspect_logs.read_records(document):
        is_pair = "opponent_id" in record
        record = ({"scale": scale[1:]} | record) if scale and not is_pair else record
        if is_pair or "scale" in record:
            judgements.append((line, record))
        else:
            log.left_out["a number of unknown scale"] += 1
    for name in ("scale", "opponent_id"):
        if some := [(line, record) for line, record in judgements if name in record]:
            yield Rows([record for _, record in some], [line for line, _ in some], log, textual=False)


def _with_positions(trials: pd.DataFrame, rows: Rows, file: str) -> pd.DataFrame:
    """Drop the trials of refused records, and add file and line of the others as their key."""
    kept = trials[rows.good[trials.index.to_numpy()]]
    lines = pd.Series(np.asarray(rows.lines)[kept.index.to_numpy()]).astype("str")
    whole = kept.reset_index(drop=True).assign(key=f"{file}:" + lines)
    whole = whole.assign(replicate=whole["replicate"].astype("int64"))
    others = [name for name in whole.columns if name not in COLUMNS]
    ordered: pd.DataFrame = whole.reindex(columns=[*COLUMNS[:-1], *others, "key"])
    return ordered


def read_table(rows: Rows, mapping: Mapping[str, Any]) -> TableReading | Refusal | None:
    """Return how to read a table, why it is refused, or None if it has no common columns.

    Parameters
    ----------
    rows : Rows
        The first records of the table.
    mapping : mapping
        The user's mapping.
    """
    table = LogTable(rows, mapping)
    pairs = named.find_pairs(table.names)
    candidates = {
        words: pair for words, pair in pairs.items()
        if (not words and not any(map(table.is_numeric, pair[:2])))
        or (words and (named.is_compared((words[0], words[-1])) or {words[0], words[-1]} & named.SYSTEM))
    }  # fmt: skip
    if candidates and (third := named.third_candidate(table.names, candidates)) is not None:
        return Refusal(f"it compares more than two candidates ({third}): split each row into one row per pair")
    candidates = candidates or named_pair(table) or with_baseline(table) or by_flag(table)
    if candidates and (reading := of_pairs(table, candidates)) is not None:
        return reading
    if (refusal := winner_and_loser(table)) is not None:
        return refusal
    in_both_orders = named.both_orders(table.names) is not None  # pairs whose candidates the table does not name
    reading = None if in_both_orders else of_scores(table)
    if isinstance(reading, TableReading) or not (other := of_any_name(table, pairs)):
        return reading
    return of_pairs(table, other) or reading


_DEEPEST = 4  # maximum number of refusals in a row, each of which follows from an option of the one before
_MOST = 6  # maximum options in a message
_FIELDS = 20  # maximum fields named in a message
_SHOWN = 3  # maximum files without records named in a message
_READ = 0.5  # share of the records above which a mapping works
_DOTS = "…"  # marks values that only the user knows
_READABLE = ("ok", "tie", "refused")


class MappingTrial(NamedTuple):
    """Result of trying a mapping: whether it works, or the refusal that asks for more."""

    works: bool
    refusal: Refusal | None = None


def explain(reading: LogReading, path: object) -> None:
    """Raise the error for a path without judgements, with the reason and mappings that would read its first file.

    Raises
    ------
    InputError
        Always.
    """
    source = str(path) if isinstance(path, str | Path) else "a table"
    if reading.files:
        problem = next(filter(None, map(first_problem, reading.logs)), None)
        reasons = "; ".join({reason: None for log in reading.logs for reason in log.left_out})
        left_out = f"every record was left out{reasons and ': '}{reasons}"
        raise InputError.plain(f"{source} has no judgement: {problem or left_out}")
    if reading.fields:
        known = "`biaslab.logs.readers.available` lists the known ones"
        raise InputError.plain(f"{source} has an unknown format ({known}); {_of_unknown_format(reading)}")
    if len(reading.empty) == 1:
        raise InputError.plain(f"{source} has no judgement: {next(iter(reading.empty.values()))}")
    if not reading.empty:
        raise InputError.plain(f"{source} contains no file")
    reasons = "; ".join(f"{name}: {why}" for name, why in list(reading.empty.items())[:_SHOWN])
    raise InputError.plain(f"none of the {len(reading.empty)} files of {source} has a record ({reasons})")


def lines_of(refusal: Refusal, sample: Rows, mapping: LogMapping) -> str:
    """Return the reason why a mapping does not read some records, and the extended mappings that do, as one text."""
    return printable((followed(refusal, sample, mapping) or refusal).lines())


def followed(refusal: Refusal, sample: Rows, mapping: LogMapping, depth: int = _DEEPEST) -> Refusal | None:
    """Return a refusal with only those options that read the records, each completed by the entries that it needs.

    An option that leads to another refusal is combined with the options of that one. Guesses are kept only if nothing
    else works. None if no option works.
    """
    options: list[tuple[str, Entries]] = []
    guessed: list[tuple[str, Entries]] = []
    for assumption, entries in refusal.options:
        trial = try_mapping(sample, mapping, entries)
        if trial.works:
            (guessed if refusal.is_guess else options).append((assumption, entries))
        elif trial.refusal is not None and depth > 1 and (extended := _with(mapping, entries)) is not None:
            inner = followed(trial.refusal, sample, extended, depth - 1)
            if inner is not None:
                into = guessed if inner.is_guess or refusal.is_guess else options
                into += [(f"{assumption}, {then}", {**entries, **rest}) for then, rest in inner.options]
    kept = tuple((options or guessed)[:_MOST])
    return Refusal(refusal.reason, kept, is_guess=not options) if kept else None


def try_mapping(sample: Rows, mapping: LogMapping, entries: Mapping[str, Any]) -> MappingTrial:
    """Try a mapping with further entries on some records."""
    whole = _with(mapping, entries)
    if whole is None:
        return MappingTrial(False)
    reading = LogReading(None, whole, False)
    reading.alone = True
    log = Log(sample.log.file, unit=sample.log.unit)
    rows = Rows(sample.records, sample.lines, log, sample.textual)
    try:
        parts = list(reading.of_rows(iter([rows]), log))
        if not parts:
            return MappingTrial(False, next((refusal for refusal, _ in reading.refused if refusal), None))
        trials = reading.trials(parts)
    except UnclearError as unclear:
        return MappingTrial(False, unclear.refusal)
    except ImplausibleError as error:
        apart = [
            (f"{entry} = {field}", {entry: field}) for entry, field in error.entries.items() if entry != "configuration"
        ]
        return MappingTrial(False, Refusal(error.args[0], tuple(apart)) if apart else None)
    except InputError:
        return MappingTrial(False)
    return MappingTrial(float(trials["status"].isin(_READABLE).mean()) > _READ)


def _with(mapping: LogMapping, entries: Mapping[str, Any]) -> LogMapping | None:
    """Return a mapping with further entries; None if one of them is invalid."""
    try:
        extension = make_mapping(entries)
    except InputError:
        return None
    return replace(mapping, columns={**mapping.columns, **extension.columns}, shape=extension.shape or mapping.shape)


def _of_unknown_format(reading: LogReading) -> str:
    """Return a text with the fields of the first file that was not read, mappings that read it, and its first rows."""
    refusal, sample = reading.refused[0]
    mapping = replace(reading.mapping, format=None)
    examples = reading.examples
    lists = lists_of(examples)
    if lists and (refusal is None or len(examples) == 1):
        options = tuple((f"one row per item of {name}", {"explode": name}) for name in lists)
        refusal = Refusal(f"it is one JSON object with lists in {', '.join(lists[:5])}", options)
    shown = _lines(refusal, sample, mapping, within_lists(examples, lists) if lists else suggestion(examples))
    fields = f"its fields are {', '.join(reading.fields[:_FIELDS])}"
    return printable([fields, *shown, "the first rows:", *example_rows(examples)])


def _lines(refusal: Refusal | None, sample: Rows, mapping: LogMapping, closest: Refusal) -> list[str]:
    """Return the reason why records are not read, and the mappings that read them, or else the closest one."""
    if refusal is not None and not refusal.options:
        return refusal.lines()
    tried = followed(refusal, sample, mapping) if refusal is not None else None
    if tried is None or tried.is_guess:
        tried = followed(closest, sample, mapping) or tried
    if tried is not None and refusal is not None:
        return Refusal(refusal.reason, tried.options).lines()
    if tried is not None or refusal is None:
        return (tried or closest).lines()
    dots = tuple((assumption, entries) for assumption, entries in refusal.options if _DOTS in str(entries))
    return Refusal(refusal.reason, dots or closest.options).lines()
