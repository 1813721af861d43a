"""Read recorded judgements as trials: logs in any known format, or any table with a mapping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.checked import checked
from biaslab.core.errors import InputError
from biaslab.logs.readers import inspect_logs
from biaslab.logs.readers.arrow_tables import ArrowTable, InterchangeTable, to_pandas
from biaslab.logs.readers.common_tables import read_table
from biaslab.logs.readers.detection import available, detect, find_format
from biaslab.logs.readers.documents import Document, documents, is_pattern, read_frame, read_rows, why_empty
from biaslab.logs.readers.log_columns import COLUMNS, counted, without_duplicates
from biaslab.logs.readers.mapped_columns import COUNTED
from biaslab.logs.readers.mapping_files import LogMapping, make_mapping
from biaslab.logs.readers.nested_annotations import read_annotations, unnested
from biaslab.logs.readers.refusing import READ, Refusal, explained, lists_of, printable
from biaslab.logs.readers.reshaping import Shape, shaped
from biaslab.logs.readers.rows import Log, Rows, Source
from biaslab.logs.readers.sense import require_sense
from biaslab.logs.readers.table_columns import TableReading

__all__ = ["available", "read_judgements"]
_TABLE = "table"  # name of a data frame in messages
_SHOWN = 3  # files without records explained in a message
_SAMPLED = 2000  # records searched for a field that distinguishes judgements


@checked(eager=True)
def read_judgements(
    path: str | Path | pd.DataFrame | ArrowTable | InterchangeTable,
    format: str | None = None,  # noqa: A002 - the usual name
    mapping: Mapping[str, Any] | str | Path | Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    strict: bool = False,
) -> pd.DataFrame:
    r"""Read a log of judgements as trials.

    Parameters
    ----------
    path : str, Path, pandas.DataFrame or a table of another package
        A file, or an archive (tar), folder or pattern such as ``"logs/*.jsonl"`` whose files form one log; gzip and xz
        are unpacked. JSON Lines, one JSON list, CSV, TSV, Parquet or an .xlsx workbook with one sheet of rows; in UTF-8
        or another encoding that can be detected.
        Or a table from pandas, polars, Arrow or DuckDB, whose rows are read like those of a file.
    format : str, optional
        One of `biaslab.logs.readers.available`; default: detected from the fields of the records, never from a name.
    mapping : mapping of str to str, path, or callable, optional
        Column of the trials → ``"field"`` or dotted path in the file, ``"=constant"``, ``"field~regular expression"``
        (its first group), or ``"field | 0 -> tie, 1 -> a"`` (the meaning of its values). It overrides what a format's
        reader finds, as in ``{"judge": "=GPT-4"}``, and is required for tables of unknown format (see
        `biaslab.logs.readers.mapping`). ``explode`` turns a list into rows, ``join`` adds the fields of a second file
        (`biaslab.logs.readers.reshaping`), and ``score_pattern`` is a regular expression that extracts scores from
        texts, replacing `biaslab.prompts.parsing`. A path points to a TOML file with all this
        (`biaslab.logs.readers.mapping_files`). A function takes the table of a file (`pandas.json_normalize`: nested
        objects become columns such as ``"meta.judge"``) and returns a table with the column names of trials or of a
        known format; keep its index, the line in the file, to make rows traceable.
    strict : bool
        Raise at the first malformed line.

    Returns
    -------
    pandas.DataFrame
        The columns of `biaslab.collect`, with "recorded" as ``probe`` and file and line as ``key``, and those that
        probes read: for pairs ``template, human_gap, order_known, p_first_label`` (probability of the first label,
        whichever candidate had it) and ``p_both_orders`` (mean over both orders, if the log has no other probability);
        for scores ``configuration, scale, answer, form, order, rules, human, human_scale, ratings``; ``words`` and
        ``opponent_words``, the lengths of the texts; ``subset`` of the data set; ``judge_system``, the judge's own
        system; and ``reply``, the text. ``value`` is the probability that the candidate shown first wins (1, 0, or ½
        for a tie, if the judge gave only a verdict), or the score. Duplicate judgements are dropped (the first is
        kept); a missing second order stays missing. ``attrs`` has ``files`` (name → format), ``encodings`` (name →
        encoding, for files not in UTF-8), ``skipped`` (files of unknown format in an archive or folder),
        ``judgements`` (number read), ``malformed`` and ``problems`` (number of malformed lines; file, line and reason
        of each), ``left_out`` (reason → records that are not judgements, such as failed calls), ``unmatched`` (reason →
        judgements that the mapping does not match), ``tables`` (name → how a table with common columns was read),
        ``duplicates``, and ``contradictions``, the duplicates with a different verdict.

    Raises
    ------
    InputError
        If the file does not exist, its format is unknown, or the mapping names something that does not exist.
    TrialsError
        With ``strict``, at the first malformed line.
    MissingDependencyError
        For Inspect logs, if ``inspect_ai`` is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "log.jsonl"
    >>> line = '{"judge": "j", "question": 1, "A": "%s", "B": "%s", "judgment": "So it is [[%s]]."}\n'
    >>> _ = file.write_text(line % ("x", "y", "A") + line % ("y", "x", "B") + "{oops\n")
    >>> trials = read_judgements(file)
    >>> trials[["candidate_id", "opponent_id", "value", "status"]].to_numpy().tolist()
    [['x', 'y', 1.0, 'ok'], ['y', 'x', 0.0, 'ok']]
    >>> [(line, reason.partition(":")[0]) for _, line, reason in trials.attrs["problems"]]
    [(3, 'not JSON')]

    A function of the table as mapping:

    >>> def mapping(table):
    ...     names = {"question": "context_id", "A": "candidate_id", "B": "opponent_id", "judgment": "reply"}
    ...     return table.rename(columns=names).replace({"reply": r".*\[\[(.)\]\].*"}, r"\1", regex=True)
    >>> read_judgements(file, mapping=mapping)[["judge", "candidate_id", "value", "key"]].to_numpy().tolist()
    [['j', 'x', 1.0, 'log.jsonl:1'], ['j', 'y', 0.0, 'log.jsonl:2']]
    """
    given = make_mapping(mapping)
    chosen = given.format if format is None else format
    if chosen is not None and chosen not in ("inspect", "table"):
        find_format(chosen)
    reading = _Reading(chosen, given, strict)
    if isinstance(path, ArrowTable | InterchangeTable):  # includes data frames of pandas
        reading.alone = True
        parts = list(reading.of_frame(path if isinstance(path, pd.DataFrame) else to_pandas(path)))
    else:
        parts = _of_files(reading, path, is_pattern(path))
        if not parts and not reading.alone and not is_pattern(path):  # a folder or an archive of nothing but tables
            again = _Reading(chosen, given, strict)
            parts = _of_files(again, path, alone=True)
            reading = again if parts else reading
    if not parts:
        reading.explain(path)
    whole = pd.concat(parts, ignore_index=True)
    if given.columns.get("replicate") == f"={COUNTED}":
        whole = counted(whole)
    trials, duplicates, others = without_duplicates(whole)
    trials = trials.reset_index(drop=True)
    counts = {"judgements": len(trials), "duplicates": duplicates, "contradictions": others}
    trials.attrs = reading.facts() | counts
    if set(reading.files.values()) & {"mapping", "table"}:
        require_sense(trials, whole, given.columns, reading.records)
    return trials


def _of_files(reading: _Reading, path: str | Path, alone: bool) -> list[pd.DataFrame]:
    """Return the trials of the files at a path; reads tables by column names only outside folders and archives."""
    parts: list[pd.DataFrame] = []
    for document in documents(path):
        reading.alone = alone or document.name == Path(path).name
        parts += reading.of(document)
    return parts


class _Reading:
    """State of reading one path: files, logs and problems so far."""

    def __init__(self, format_: str | None, mapping: LogMapping, strict: bool) -> None:
        self.format, self.mapping, self.strict = format_, mapping, strict
        self.logs: list[Log] = []
        self.files: dict[str, str] = {}
        self.skipped: list[str] = []
        self.fields: list[str] = []
        self.records: dict[str, dict[str, Any]] = {}  # examples, by the key of their trial
        self.lists: list[str] = []
        self.examples: list[dict[str, Any]] = []
        self.empty: dict[str, str] = {}
        self.refusals: list[Refusal] = []
        self.tables: dict[str, str] = {}
        self.alone = False  # whether the path is a single file or table, not one of many in a folder

    def of(self, document: Document) -> Iterator[pd.DataFrame]:
        """Yield the trials of a file in chunks."""
        log = Log(document.name)
        if self.format == "inspect" or (self.format is None and inspect_logs.is_inspect(document)):
            scale = self.mapping.columns.get("scale")
            yield from self._of_rows(_inspected(document, log, scale), log, inspect=True)
        else:
            yield from self._of_rows(read_rows(document, log), log)
        if log.file not in self.files and not self.fields:
            self.empty[log.file] = _first_problem(log) or why_empty(document)

    def of_frame(self, frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
        """Yield the trials of a table in chunks."""
        if frame.empty:
            self.empty[_TABLE] = f"it has {len(frame)} rows and {len(frame.columns)} columns"
            return
        log = Log(_TABLE)
        yield from self._of_rows(read_frame(frame, log), log)

    def _of_rows(self, chunks: Iterator[Rows], log: Log, inspect: bool = False) -> Iterator[pd.DataFrame]:
        given = {name: said for name, said in self.mapping.columns.items() if not (inspect and name == "scale")}
        exploded = isinstance(self.mapping.shape, Shape) and bool(self.mapping.shape.explode)
        if self.format in (None, "table", "mapping") and not exploded:
            chunks = unnested(chunks)
        chunks = shaped(chunks, self.mapping.shape)
        first = next(chunks, None)
        name = "mapping" if inspect else self.format
        if first is not None and name is None:
            name = "mapping" if exploded and given else detect(first.records, bool(given))
        table = self._table(first, name, given)
        name = "table" if table is not None else name
        if first is None or name is None:
            self.lists += lists_of(first.records) if first else []
            self.examples = self.examples or (list(first.records[:READ]) if first else [])
            self.fields += sorted({str(field) for record in (first.records[:5] if first else ()) for field in record})
            self.skipped.append(log.file)
            return
        log.strict = self.strict
        if self.strict and log.problems:
            log.refuse(log.problems[0].line, log.problems[0].reason)
        self.logs.append(log)
        some = zip(first.lines[:_SAMPLED], first.records[:_SAMPLED], strict=True)
        self.records |= {f"{log.file}:{line}": record for line, record in some} if len(self.records) < _SAMPLED else {}
        self.files[log.file] = "inspect" if inspect else name
        read = find_format(name).read if table is None else table.read
        source = Source(log.file, self.mapping.score_pattern)
        for rows in chain([first], chunks):
            made = read(rows, source, given)
            if len(made) and len(trials := _with_places(made, rows, log.file)):
                yield trials

    def _table(self, first: Rows | None, name: str | None, given: Mapping[str, Any]) -> TableReading | None:
        """Return how to read a table of unknown format by its column names, or None."""
        needed = {"context_id", "candidate_id"}
        unknown = name in (None, "mapping", "table") and self.format in (None, "table")
        if first is None or not self.alone or not unknown or needed <= set(given):
            return None
        if needed <= {field for record in first.records for field in record}:
            return None
        reading = read_annotations(first, given) or read_table(first, given) or self._in_lists(first)
        if isinstance(reading, TableReading):
            self.tables[first.log.file] = reading.told
            return reading
        if isinstance(reading, Refusal):
            if name is not None:
                raise InputError(
                    "mapping", dict(given), "a mapping that leaves a single interpretation", printable(reading.lines())
                )
            self.refusals.append(reading)
        return None

    def _in_lists(self, first: Rows) -> Refusal | None:
        """Return the lines that read records each of which holds a list of what was judged."""
        if self.mapping.columns or self.mapping.shape is not None:
            return None
        some = Rows(first.records[:READ], first.lines[:READ], Log(first.log.file), first.textual)
        names = dict.fromkeys(name for record in some.records for name, value in record.items()
                              if isinstance(value, list) and value and isinstance(value[0], dict))  # fmt: skip
        for name in names:
            kept = [record for record in some.records if isinstance(record.get(name), list)]
            inner = read_table(Shape((name,)).of(Rows(kept, range(len(kept)), Log(""), first.textual)), {})
            if isinstance(inner, TableReading):
                return Refusal(f"each record holds a list ({name})", ((f"a row an item of {name}", {"explode": name}),))
            if isinstance(inner, Refusal) and inner.options:
                options = tuple((said, {"explode": name, **entries}) for said, entries in inner.options)
                return Refusal(f"each record holds a list ({name}); {inner.reason}", options)
        return None

    def explain(self, path: object) -> None:
        """Raise an error that says why there is no judgement."""
        given = str(path) if isinstance(path, str | Path) else "a table"
        wanted = "a log with at least one judgement"
        if self.files:
            problem = next(filter(None, map(_first_problem, self.logs)), None)
            reasons = "; ".join({reason: None for log in self.logs for reason in log.left_out})
            left_out = f"every record was left out{reasons and ': '}{reasons}"
            raise InputError("path", given, wanted, problem or left_out)
        if self.fields:
            allowed = "a log of a known format (`biaslab.logs.readers.available`), or a table with a mapping"
            said = explained(self.fields, self.examples, self.lists, self.refusals[0] if self.refusals else None)
            raise InputError("path", given, allowed, said)
        if len(self.empty) == 1:
            raise InputError("path", given, wanted, next(iter(self.empty.values())))
        if not self.empty:
            raise InputError("path", given, wanted, "it contains no file")
        reasons = "; ".join(f"{name}: {why}" for name, why in list(self.empty.items())[:_SHOWN])
        remedy = f"none of its {len(self.empty)} files has a record ({reasons})"
        raise InputError("path", given, wanted, remedy)

    def facts(self) -> dict[Hashable | None, Any]:
        """Return the trials' attrs, in plain types so that they can be saved."""
        problems = [tuple(problem) for log in self.logs for problem in log.problems]
        left_out = sum((log.left_out for log in self.logs), Counter[str]())
        unmatched = sum((log.unmatched for log in self.logs), Counter[str]())
        encodings = {log.file: log.encoding for log in self.logs if log.encoding != "utf-8"}
        return {"files": self.files, "skipped": self.skipped, "malformed": len(problems), "problems": problems,
                "left_out": dict(left_out), "unmatched": dict(unmatched), "encodings": encodings,
                "tables": self.tables}  # fmt: skip


def _first_problem(log: Log) -> str | None:
    """Return place and reason of the first malformed line, or None."""
    return next((f"{log.unit} {problem.line}: {problem.reason}" for problem in log.problems), None)


def _inspected(document: Document, log: Log, scale: str | None) -> Iterator[Rows]:
    """Yield the scores of an Inspect log; the user's scale applies to numbers, not to grades."""
    if scale is not None and not scale.startswith("="):
        raise InputError("mapping['scale']", scale, "a constant for Inspect logs, such as '=1-5'")
    found = []
    for line, record in inspect_logs.read_records(document):
        is_pair = "opponent_id" in record
        record = ({"scale": scale[1:]} | record) if scale and not is_pair else record
        if is_pair or "scale" in record:
            found.append((line, record))
        else:
            log.left_out["a number of unknown scale"] += 1
    for name in ("scale", "opponent_id"):
        if some := [(line, record) for line, record in found if name in record]:
            yield Rows([record for _, record in some], [line for line, _ in some], log, textual=False)


def _with_places(made: pd.DataFrame, rows: Rows, file: str) -> pd.DataFrame:
    """Drop refused records; add the line of each of the others."""
    places = made.index.to_numpy()
    kept = made[rows.good[places]]
    lines = pd.Series(np.asarray(rows.lines)[kept.index.to_numpy()]).astype("str")
    whole = kept.reset_index(drop=True).assign(key=f"{file}:" + lines)
    whole = whole.assign(replicate=whole["replicate"].astype("int64"))
    others = [name for name in whole.columns if name not in COLUMNS]
    ordered: pd.DataFrame = whole.reindex(columns=[*COLUMNS[:-1], *others, "key"])
    return ordered
