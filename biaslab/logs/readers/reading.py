"""Read the files at a path: detect the format of each, read its records, and explain what cannot be read.

There are three ways in: a known format, recognised by its fields; a table whose columns speak for themselves
(`biaslab.logs.readers.proposal` leaves no question); and a mapping, the user's statement.
A reading that cannot be right is refused: a single question, contradicting judgements, too many judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from biaslab.core.checks import unknown
from biaslab.core.errors import InputError
from biaslab.logs.readers import flatten, inspect_logs
from biaslab.logs.readers.card import FileLayout, ReadingNotes
from biaslab.logs.readers.cells import NUMERAL, list_in, written
from biaslab.logs.readers.columns import aliases, names_people, roles_of, tokens
from biaslab.logs.readers.documents import MOST_COLUMNS, LogDocument, read_rows, why_empty
from biaslab.logs.readers.formats import detect, find_reader
from biaslab.logs.readers.mapping import (
    COUNTED,
    LogMapping,
    by_column,
    completed,
    constant_scale,
    paths_of,
    read_entries,
)
from biaslab.logs.readers.proposal import FRAME, SAMPLED, Proposal, open_questions
from biaslab.logs.readers.rows import Log, LogSource, Rows
from biaslab.logs.readers.shared_roles import propose_rows
from biaslab.logs.readers.trials import COLUMNS, counted, identity_of, without_duplicates

_KEPT = "kept: "  # marks columns of the log among those of trials
_SMALL = 10_000  # rows of a file below which texts of all files are put together
_FIELDS = 20  # maximum fields named in a message
_SHOWN = 3  # maximum files without records, or example rows, in a message
_LONGEST = 60  # characters of a verdict in words


class LogReading:
    """State of reading a path: the files, logs and problems so far."""

    def __init__(self, format_: str | None, mapping: LogMapping, strict: bool, keep: Sequence[str] = ()) -> None:
        self.format, self.mapping, self.strict = format_, mapping, strict
        self.keep = dict.fromkeys(keep, False)  # whether the log has the column
        self.textual = False  # whether numbers are written as texts, as in CSV
        self.logs: list[Log] = []
        self.files: dict[str, str] = {}
        self.skipped: list[str] = []
        self.fields: list[str] = []
        self.records: dict[str, dict[str, Any]] = {}  # sample of records, by the key of their trial
        self.empty: dict[str, str] = {}
        self.proposals: dict[str, Proposal] = {}  # of each table, complete or not
        self.notes = ReadingNotes()
        self.alone = False  # whether tables may be read by column names, as for a single file outside a folder

    def of(self, document: LogDocument) -> Iterator[pd.DataFrame]:
        """Yield the trials of a file in chunks."""
        log = Log(document.name)
        if self.format == "inspect" or (self.format is None and inspect_logs.is_inspect(document)):
            scale = constant_scale(self.mapping.columns)
            yield from self.of_rows(_inspected(document, log, scale), log, inspect=True)
        else:
            yield from self.of_rows(read_rows(document, log), log)
        if log.file not in self.files and not self.fields:
            self.empty[log.file] = first_problem(log) or why_empty(document)

    def of_rows(self, chunks: Iterator[Rows], log: Log, inspect: bool = False) -> Iterator[pd.DataFrame]:
        """Yield the trials of records in chunks."""
        mapping = {name: entry for name, entry in self.mapping.columns.items() if not (inspect and name == "scale")}
        name, chunks = self._restructured(chunks, mapping)
        first = next(chunks, None)
        if inspect:
            name = "mapping"
        elif first is not None and self.alone and name in (None, "mapping", "table"):
            name, mapping = self._with_table(first, name, mapping)
        if first is None or name is None:
            self.fields += sorted({str(field) for record in (first.records[:5] if first else ()) for field in record})
            self.skipped.append(log.file)
            return
        log.strict = self.strict
        if self.strict and log.problems:
            log.refuse(log.problems[0].line, log.problems[0].reason)
        self.logs.append(log)
        some = zip(first.lines[:SAMPLED], first.records[:SAMPLED], strict=True)
        self.records |= {f"{log.file}:{line}": record for line, record in some} if len(self.records) < SAMPLED else {}
        self.files[log.file] = "inspect" if inspect else name
        read = read_entries if name == "table" else find_reader(name)
        source = LogSource(log.file, self.mapping.score_pattern)
        self.notes.start(self._layout(first, mapping), log.file, first)
        for rows in chain([first], chunks):
            part = self._with_kept(read(rows, source, mapping), rows)
            if len(part) and len(trials := _with_positions(part, rows, log.file)):
                self.notes.see(part, trials, rows)
                yield trials

    def _layout(self, first: Rows, mapping: Mapping[str, Any]) -> FileLayout:
        """Return how a file is read: by a mapping for each verdict or score, or by the reader of a format."""
        name, given, kept = self.files[first.log.file], tuple(self.mapping.columns), tuple(self.keep)
        if name not in ("mapping", "table"):
            return FileLayout(name, (), given, kept=kept)
        whole = dict(mapping) if name == "table" else completed(_head(first), mapping)
        unnamed = {} if "person" in whole or name == "mapping" else {"judge": "=unknown"}
        proposal = self.proposals.get(first.log.file)
        aside = {} if proposal is None else dict(proposal.set_aside)
        return FileLayout(name, tuple(unnamed | own for own in by_column(whole)), given, aside, kept=kept)

    def _with_kept(self, trials: pd.DataFrame, rows: Rows) -> pd.DataFrame:
        """Return trials with the columns of their records that are kept, whose names are marked."""
        for name in self.keep:
            self.keep[name] |= rows.has(name)
            values = pd.Series(rows.values(name), dtype=object)
            trials[f"{_KEPT}{name}"] = values.iloc[trials.index].to_numpy()
            self.textual |= rows.textual
        return trials

    def _kept(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the kept columns under their names, as numbers or texts, without those that trials have."""
        if absent := [name for name, is_there in self.keep.items() if not is_there]:
            raise unknown("keep", absent[0], self.notes.columns)
        columns = {name: kept_column(name, trials[f"{_KEPT}{name}"], self.textual) for name in self.keep}
        for name in {*columns} & {*COLUMNS}:
            if not columns.pop(name).map(written).fillna("").equals(trials[name].map(written).fillna("")):
                why = f"keep: {name} of the log has other values than the column {name} of trials"
                raise InputError.plain(f"{why}; rename it in the log")
        return pd.DataFrame(columns, index=trials.index)

    @property
    def is_unclear(self) -> bool:
        """Whether some table of a log leaves a question, or tables of one log have been given different scales."""
        scales = {str(proposal.entries.get("scale")) for proposal in self.proposals.values() if proposal.is_complete}
        return len(scales) > 1 or not all(proposal.is_complete for proposal in self.proposals.values())

    def proposal_of(self, document: LogDocument) -> Proposal | None:
        """Return the proposed reading of a file; None if it has no record."""
        log = Log(document.name)
        name, chunks = self._restructured(read_rows(document, log), self.mapping.columns)
        first = next(chunks, None)
        if first is None:
            self.empty[log.file] = first_problem(log) or why_empty(document)
            return None
        if name not in (None, "mapping", "table"):
            raise InputError.plain(f"{log.file} is in the format {name}, which is read without a mapping")
        return propose_rows(first, self._given(self.mapping.columns), log.file)

    def _given(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        return dict(mapping) | ({"ignore": list(self.mapping.ignored)} if self.mapping.ignored else {})

    def _restructured(self, chunks: Iterator[Rows], mapping: Mapping[str, Any]) -> tuple[str | None, Iterator[Rows]]:
        """Return the name of the format, None if it is unknown, and the records, flat if it is."""
        exploded = isinstance(self.mapping.shape, flatten.Shape) and bool(self.mapping.shape.explode)
        free = self.format in (None, "table", "mapping")
        if free and not exploded:
            chunks = _unpacked(chunks)
        chunks = flatten.shaped(chunks, self.mapping.shape)
        first = next(chunks, None)
        if first is None:
            return None, chunks
        chunks = chain([first], chunks)
        if not free:
            return self.format, chunks
        known = None if (exploded and mapping) or self.format else detect(first.records, bool(mapping))
        if known not in (None, "mapping"):
            return known, chunks
        if not exploded and not callable(self.mapping.shape) and not _is_like_trials(first):
            chunks = map(_of_few_columns, _flat(first, chunks, mapping))
        return known or ("mapping" if exploded and mapping else self.format), chunks

    def _with_table(self, first: Rows, name: str | None, mapping: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Complete the mapping of a table by what its columns say; without a complete one, there is no format."""
        if is_complete(mapping) or _is_like_trials(first) or self.format == "mapping":
            return name or "mapping", mapping
        annotated = {"candidate_id": "=annotated"} if first.log.unit == "annotation" else {}
        proposal = propose_rows(first, annotated | self._given(mapping), first.log.file)
        self.proposals[first.log.file] = proposal
        if not proposal.is_complete:
            return None, mapping
        return "table", {name: entry for name, entry in proposal.entries.items() if name != "ignore"}

    def trials(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return the trials of all files without duplicates; raise if the reading of a table is implausible."""
        whole = self._without_people(pd.concat(parts, ignore_index=True))
        if len(parts) > 1 and len(whole) < _SMALL * len(parts):  # selections of text from hundreds of pieces are slow
            whole = whole.take(np.arange(len(whole)))
        kept = self._kept(whole)
        whole = whole.drop(columns=[f"{_KEPT}{name}" for name in self.keep])
        columns = self.mapping.columns
        if columns.get("replicate") == f"={COUNTED}":
            whole = counted(whole)
        trials, duplicates, others = without_duplicates(whole)
        trials = trials.join(kept).reset_index(drop=True)
        counts = {"judgements": len(trials), "duplicates": duplicates, "contradictions": others}
        trials.attrs = self.facts() | counts
        if set(self.files.values()) & {"mapping", "table"}:
            require_plausible(trials, whole, columns, self.records)
        return trials

    def _without_people(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Leave out files of people's scores, which no mapping joins, if others have a judge's."""
        people = self.notes.files_of_people()
        if not people or len(people) == len(self.files):
            return trials
        self.skipped += people
        for name in people:
            del self.files[name]
        return trials[~trials["key"].str.rpartition(":")[0].isin(people)].reset_index(drop=True)

    def facts(self) -> dict[Hashable | None, Any]:
        """Return the trials' attrs, in plain types so that they can be saved."""
        problems = [tuple(problem) for log in self.logs for problem in log.problems]
        left_out = sum((log.left_out for log in self.logs), Counter[str]())
        unmatched = sum((log.unmatched for log in self.logs), Counter[str]())
        encodings = {log.file: log.encoding for log in self.logs if log.encoding != "utf-8"}
        return {
            "files": self.files,
            "skipped": self.skipped,
            "malformed": len(problems),
            "problems": problems,
            "left_out": dict(left_out),
            "unmatched": dict(unmatched),
            "encodings": encodings,
        }


def kept_column(name: str, values: pd.Series, textual: bool) -> pd.Series:
    """Return the values of a column of a log as numbers, or else as texts.

    Examples
    --------
    >>> kept_column("n", pd.Series(["3", "", "1.5"], dtype=object), textual=True).tolist()
    [3.0, nan, 1.5]

    Raises
    ------
    InputError
        If a value is a list or an object.
    """
    if any(isinstance(value, list | dict) for value in values):
        raise InputError("keep", name, "a column with a number or a text in each record")
    known = values[[written(value) not in (None, "") for value in values]]
    kinds = (int, float, str) if textual else (int, float)
    if all(isinstance(value, kinds) and NUMERAL.fullmatch(str(value)) for value in known):
        return pd.to_numeric(known).reindex(values.index)
    return known.map(written).astype("str").reindex(values.index)


def _head(rows: Rows) -> Rows:
    return Rows(rows.records[:SAMPLED], rows.lines[:SAMPLED], Log(rows.log.file), rows.textual)


def _is_like_trials(first: Rows) -> bool:
    """Return whether fields are named like the columns of trials, so that they need no mapping."""
    return {"context_id", "candidate_id"} <= {field for record in first.records[:SAMPLED] for field in record}


def is_complete(mapping: Mapping[str, Any]) -> bool:
    """Return whether a mapping needs nothing from a table's column names: one of pairs, or of scores with a scale."""
    if not {"context_id", "candidate_id"} <= set(mapping):
        return False
    scored = "scale" in mapping and bool({"score", "reply"} & set(mapping))
    return scored or bool({"opponent_id", "human", "ratings"} & set(mapping))


def _unpacked(chunks: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the records within a file that is one object: a table, annotations, or a list of a known format."""
    start = next(chunks, None)
    records = _records_within(start.records[0]) if start is not None and len(start.records) == 1 else None
    if start is None or records is None:
        yield from chunks if start is None else chain([start], chunks)
        return
    start.log.unit = "annotation" if set(records[0]) == {flatten.ANNOTATOR, flatten.ANNOTATED, flatten.LABEL} else "row"
    yield Rows(records, range(1, len(records) + 1), start.log, textual=False)


def _records_within(record: dict[str, Any]) -> list[dict[str, Any]] | None:
    if detect([record], mapped=False) is not None:
        return None
    rows = flatten.table_within(record)
    if rows is not None and any(roles_of(tokens(str(name))) for name in rows[0]):
        return rows
    if flatten.are_annotations([record]):
        return flatten.annotated_records(record)
    for name, items in record.items():
        if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
            about = {key: value for key, value in record.items() if key != name and not isinstance(value, list)}
            if detect([about | items[0]], mapped=False) is not None:
                return [{**about, **item} for item in items]
    inner = [value for value in record.values() if isinstance(value, dict) and value]
    if len(inner) == 1 and not any(isinstance(value, list) for value in record.values()):
        known = detect(inner, mapped=False) is not None
        within = [dict(inner[0])] if known else _records_within(inner[0]) if len(record) == 1 else None
        if within is not None:
            return within
    return flatten.keyed_records(record)


def _flat(first: Rows, chunks: Iterator[Rows], mapping: Mapping[str, Any]) -> Iterator[Rows]:
    """Yield flat records; the lists that become rows are those that the mapping names, or that hold outcomes."""
    first, chunks = _with_lists(first), map(_with_lists, chunks)
    paths = [path for own in by_column(mapping) for entry in own.values() for path in paths_of(entry)]
    steps = flatten.steps_of_paths(paths)
    if not steps and not is_complete(mapping):
        steps = _single_list(first)
    if steps or any("[" in path for path in paths) or not is_complete(mapping):
        return (rows for rows in (flatten.flattened(rows, steps) for rows in chunks) if rows.records)
    return chunks


def _of_few_columns(rows: Rows) -> Rows:
    most = max(map(len, rows.records), default=0)
    if most > MOST_COLUMNS:
        raise InputError("path", rows.log.file, f"records of at most {MOST_COLUMNS} values", f"one has {most}")
    return rows


def _with_lists(rows: Rows) -> Rows:
    """Return rows in which lists of labels by several people are lists, if texts write them as JSON or in Python."""
    labels, some = set(aliases()["role"]["people"]["labels"]), rows.records[:SAMPLED]
    named = {name for record in some for name, value in record.items() if isinstance(value, str) and value[:1] == "["}
    named = {name for name in named if names_people(words := tokens(name)) or labels & set(words)}
    if not named:
        return rows
    records = [{n: list_in(v) if n in named else v for n, v in record.items()} for record in rows.records]
    return Rows(records, rows.lines, rows.log, rows.textual)


def _single_list(first: Rows) -> tuple[str, ...]:
    """Return the lists that become rows; refuse a file with verdicts or scores in several."""
    found = flatten.unnesting(first.records, _is_outcome)
    if found.others:
        lists = ", ".join(steps[-1] for steps in (found.steps, *found.others))
        why = f"{first.log.file} has verdicts or scores in several lists ({lists})"
        raise InputError.plain(f"{why}: map the values of one of them, such as --map 'score=LIST[].COLUMN'")
    return found.steps


def _is_outcome(path: str, value: Any) -> bool:
    """Return whether a value is a verdict or a score, by its name and kind."""
    role = next(iter(roles_of(tokens(path))), "")
    brief = isinstance(value, bool | int | float) or (isinstance(value, str) and 0 < len(value) <= _LONGEST)
    return role in ("verdict", "score") and brief


def first_problem(log: Log) -> str | None:
    """Return the number of the first malformed line and the reason, or None."""
    return next((f"{log.unit} {problem.line}: {problem.reason}" for problem in log.problems), None)


def _inspected(document: LogDocument, log: Log, scale: str | None) -> Iterator[Rows]:
    """Yield the scores, then the pairs of an Inspect log; the user's scale applies to numbers, not to grades."""
    judgements = []
    for line, record in inspect_logs.read_records(document):
        is_pair = "opponent_id" in record
        record = ({"scale": scale} | record) if scale and not is_pair else record
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
    whole = kept.reset_index(drop=True).astype({"replicate": "int64"}).assign(key=f"{file}:" + lines)
    others = [name for name in whole.columns if name not in COLUMNS]
    ordered: pd.DataFrame = whole.reindex(columns=[*COLUMNS[:-1], *others, "key"])
    return ordered


def explain(reading: LogReading, path: object) -> NoReturn:
    """Raise the error for a path without judgements, with what is open and how to answer it.

    Raises
    ------
    InputError
        Always.
    """
    source = str(path) if isinstance(path, str | Path) else FRAME
    if reading.is_unclear:
        unclear = next((each for each in reading.proposals.values() if not each.is_complete), None)
        if unclear is None:
            scales = {name: each.entries.get("scale") for name, each in reading.proposals.items()}
            ranges = ", ".join(sorted(f"{name}: {scale}" for name, scale in scales.items() if scale is not None))
            raise InputError.plain(f"the files of {source} have different ranges ({ranges}): map scale")
        where = source if len(reading.proposals) == 1 else f"{source} ({unclear.source})"
        raise InputError.plain(open_questions(where, unclear))
    if reading.files:
        problem = next(filter(None, map(first_problem, reading.logs)), None)
        reasons = "; ".join({reason: None for log in reading.logs for reason in log.left_out})
        left_out = f"every record was left out{reasons and ': '}{reasons}"
        raise InputError.plain(f"{source} has no judgement: {problem or left_out}")
    if reading.fields:
        known = "`biaslab.logs.readers.available` lists the known ones"
        fields = f"its fields are {', '.join(reading.fields[:_FIELDS])}"
        raise InputError.plain(f"{source} has an unknown format ({known}); {fields}; map one file: biaslab map FILE")
    if len(reading.empty) == 1:
        raise InputError.plain(f"{source} has no judgement: {next(iter(reading.empty.values()))}")
    if not reading.empty:
        raise InputError.plain(f"{source} contains no file")
    reasons = "; ".join(f"{name}: {why}" for name, why in list(reading.empty.items())[:_SHOWN])
    raise InputError.plain(f"none of the {len(reading.empty)} files of {source} has a record ({reasons})")


Records = Mapping[str, Mapping[str, Any]]
_SOME_TWICE, _SHARE_TWICE = 2, 0.02  # tolerated number and share of contradictions
_SHARE_AGREEING = 0.1  # share of agreeing duplicates above which no column may tell them apart
_MANY = 10  # minimum judgements for a single context to be implausible
_MOST_JUDGES, _FEWEST = 20, 5  # judges of whom each has fewer rows than this are no judges
_IDENTITY = ("context_id", "candidate_id", "opponent_id")
_DIFFERING = 8  # fields shown in a message


def require_plausible(
    trials: pd.DataFrame, with_duplicates: pd.DataFrame, mapping: Mapping[str, Any], records: Records
) -> None:
    """Raise `InputError` if the reading of a table is implausible.

    Parameters
    ----------
    trials : pandas.DataFrame
        The judgements without duplicates, with the counts of duplicates in ``attrs``.
    with_duplicates : pandas.DataFrame
        The judgements with duplicates.
    mapping : mapping
        The user's mapping.
    records : mapping of str to mapping
        A sample of the original records, by the key of their trial.

    Raises
    ------
    InputError
        If an identifier is a constant that is the name of a field; if there is only one context although other fields
        differ; if there are many judges of few judgements each; or if many judgements are duplicates that contradict
        each other.
    """
    fields = list(dict.fromkeys(str(name) for record in records.values() for name in record))
    for name in _IDENTITY:
        expression = mapping.get(name)
        if isinstance(expression, str) and expression.startswith("=") and expression[1:] in fields:
            remedy = f"for the field of that name, omit the first =: {name} = {expression[1:]}"
            raise InputError(f"mapping[{name!r}]", expression, "a field ('=' makes it a constant for all rows)", remedy)
    used = {name for entry in mapping.values() if isinstance(entry, str) for name in (entry, *entry.split(","))}
    _require_contexts(trials, len(with_duplicates), records, used)
    _require_judges(trials)
    _require_one_row_each(trials, with_duplicates, records)


def _require_contexts(trials: pd.DataFrame, rows: int, records: Records, used: set[str]) -> None:
    contexts = set(trials["context_id"])
    if len(contexts) > 1 or rows < _MANY:
        return
    differing = [name for name in _differing(list(records.values())) if _is_question(name) and name not in used]
    if differing:
        remedy = f"map the field that identifies the question; these differ: {', '.join(differing)}"
        raise InputError("context_id", contexts.pop(), "more than one question", remedy)


def _is_question(name: str) -> bool:
    words = tokens(name)
    return "_".join(words) in aliases()["role"]["question"]["first"] or roles_of(words)[:1] == ("question",)


def _require_judges(trials: pd.DataFrame) -> None:
    counts = trials["judge"].value_counts()
    if len(counts) > _MOST_JUDGES and counts.median() < _FEWEST:
        shown = ", ".join(map(str, counts.index[:3]))
        allowed = f"judges with at least {_FEWEST} judgements each, if there are more than {_MOST_JUDGES}"
        remedy = "map another field to judge, or map this one to person if it names people"
        raise InputError("judge", f"{len(counts)} different ones ({shown}, …)", allowed, remedy)


def _require_one_row_each(trials: pd.DataFrame, with_duplicates: pd.DataFrame, records: Records) -> None:
    twice, contradictory = trials.attrs["duplicates"], trials.attrs["contradictions"]
    few = contradictory <= max(_SOME_TWICE, _SHARE_TWICE * len(with_duplicates))
    if few and twice <= _SHARE_AGREEING * len(with_duplicates):
        return
    keys = identity_of(with_duplicates)
    seen = with_duplicates[with_duplicates["key"].isin(list(records))]
    groups = seen[seen.duplicated(keys, keep=False)].groupby(keys, sort=False, dropna=False)["key"]
    examples = [[records[key] for key in group] for _, group in list(groups)[:_MANY]]
    differing = list(dict.fromkeys(name for each in examples for name in _differing(each)))[:_DIFFERING]
    if few and not _tells_apart(examples, differing):
        return
    problem = f"{twice:,} duplicate judgements, {contradictory:,} of which contradict the first"
    where = f"they differ in {', '.join(differing)}; " if differing else ""
    remedy = f"{where}map what tells them apart, or number repetitions without a field: --map replicate==#"
    raise InputError("mapping", problem, "one row per judgement", remedy)


def _tells_apart(groups: Sequence[Sequence[Mapping[str, Any]]], fields: Sequence[str]) -> bool:
    """Return whether a field with few values, unlike a number of rows, differs within each group of duplicates."""
    for name in fields:
        values = [[written(record.get(name)) for record in group] for group in groups]
        distinct = {value for group in values for value in group}
        if all(len(set(group)) == len(group) for group in values) and len(distinct) <= _DIFFERING:
            return True
    return False


def _differing(records: list[Mapping[str, Any]]) -> list[str]:
    """Return the fields in which records differ."""
    names = dict.fromkeys(str(name) for record in records for name in record)
    return [name for name in names if len({written(record.get(name)) for record in records}) > 1][:_DIFFERING]
