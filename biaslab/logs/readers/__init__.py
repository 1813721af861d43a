"""Read recorded judgements as trials: logs in any known format, or any table with a mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.logs.readers.card import RecordedTrials
from biaslab.logs.readers.documents import LogInput, is_pattern, iter_documents
from biaslab.logs.readers.formats import available, find_reader
from biaslab.logs.readers.mapping import LogMapping, make_mapping
from biaslab.logs.readers.proposal import Proposal
from biaslab.logs.readers.reading import LogReading, explain

__all__ = ["Proposal", "available", "propose", "read_judgements"]


def read_judgements(
    path: LogInput,
    format: str | None = None,  # noqa: A002 - the usual name
    mapping: Mapping[str, Any] | str | Path | Callable[[pd.DataFrame], pd.DataFrame] | None = None,
    strict: bool = False,
    keep: Sequence[str] = (),
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
        Column of the trials → ``"field"`` or path in the file (``"meta.judge"``, ``"turns[0]"``; with
        ``"runs[].score"`` each item is a row), ``"=constant"``, ``"field~regular expression"`` (its first group), or
        ``"field | 0 -> tie, 1 -> a"`` (the meaning of its values), as in `biaslab.logs.readers.mapping`. It completes
        what the columns of a table leave open, and overrides what a format's reader finds; `propose` writes one.
        ``explode`` turns a list into rows too, ``join`` adds the fields of a second file, ``ignore`` names columns
        without a role (`biaslab.logs.readers.mapping`), and ``score_pattern`` is a regular expression that
        extracts scores from texts, replacing `biaslab.prompts.parsing`. A path names a TOML file with all of this. A
        function takes the table of a file (`pandas.json_normalize`: nested objects become columns such as
        ``"meta.judge"``) and returns a table with the column names of trials or of a known format; it should keep the
        index, the line in the file, so that rows can be traced.
    strict : bool
        Raise at the first malformed line.
    keep : sequence of str
        Columns of the log, or paths in its records (``"meta.language"``), that are kept under their own names: groups
        and covariates. Numbers stay numbers, anything else is text; they tell no judgements apart.

    Returns
    -------
    pandas.DataFrame
        The columns of `biaslab.collect`, with "recorded" as ``probe`` and file and line as ``key``, and those that
        probes need: for pairs ``template, human_gap, order_known, p_first_label`` (probability of the first label,
        whichever candidate had it) and ``p_both_orders`` (mean over both orders, if the log has no other probability);
        for scores ``configuration, scale, answer, form, order, rules, human, human_scale, ratings``; ``words`` and
        ``opponent_words``, the lengths of the texts; ``subset`` of the data set; ``judge_system``, the judge's own
        system; and ``reply``, the text. ``value`` is the probability that the candidate shown first wins (1, 0, or ½
        for a tie, if the judge gave only a verdict), or the score. Duplicate judgements are dropped (the first is
        kept); a missing second order stays missing. ``attrs`` has ``files`` (name → format), ``encodings`` (name →
        encoding, for files not in UTF-8), ``skipped`` (files of unknown format in an archive or folder),
        ``judgements`` (number read), ``malformed`` and ``problems`` (number of malformed lines; file, line and reason
        of each), ``left_out`` (reason → records that are not judgements, such as failed calls), ``unmatched`` (reason →
        judgements that the mapping does not match, or whose verdict names neither candidate), ``duplicates``,
        ``contradictions``, the duplicates with a different verdict, and ``reading``, the reading card as data: roles
        and columns set aside for files that are read alike, counts, and some rows. The frame is shown below this card.

    Raises
    ------
    InputError
        If the file does not exist, its format is unknown, the mapping or `keep` names something that does not exist,
        or `keep` the name of another column of the trials.
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

    A column of the log beside those of trials:

    >>> table = pd.DataFrame({"case_id": [1, 2], "judge_verdict": ["pass", "fail"], "language": ["de", "fr"]})
    >>> read_judgements(table, keep=["language"])[["context_id", "value", "language"]].to_numpy().tolist()
    [['1', 1.0, 'de'], ['2', 0.0, 'fr']]
    """
    log_mapping = make_mapping(mapping)
    chosen = log_mapping.format if format is None else format
    if not isinstance(chosen, str | None) or chosen not in (None, "inspect", "table"):
        find_reader(chosen)
    return _read(path, chosen, log_mapping, strict, (keep,) if isinstance(keep, str) else keep)


def _read(
    path: LogInput, chosen: str | None, log_mapping: LogMapping, strict: bool, keep: Sequence[str]
) -> pd.DataFrame:
    """Return the trials at a path; raise `InputError` with the reason if there are none."""
    reading = LogReading(chosen, log_mapping, strict, keep)
    parts = _of_documents(reading, path, is_pattern(path))
    if not parts and not reading.alone and not is_pattern(path):  # a folder or an archive of nothing but tables
        again = LogReading(chosen, log_mapping, strict, keep)
        parts = _of_documents(again, path, alone=True)
        reading = again if parts else reading
    if not parts or reading.is_unclear:
        explain(reading, path)
    trials = reading.trials(parts)
    source = str(path) if isinstance(path, str | Path) else "the table"
    recorded = RecordedTrials(trials)
    recorded.attrs = trials.attrs | {"reading": reading.notes.facts(source, trials)}
    return recorded


def propose(log: LogInput, mapping: Mapping[str, Any] | str | Path | None = None) -> Proposal:
    """Propose how to read a table: the role of each column, and questions about what its columns leave open.

    Parameters
    ----------
    log : str, Path, pandas.DataFrame or a table of another package
        A file, of which the first log is examined, or a table.
    mapping : mapping of str to str, or path, optional
        Entries that are settled.

    Returns
    -------
    Proposal
        Its ``entries`` are a mapping for `read_judgements` once its ``questions`` are answered; ``toml()`` writes both.

    Raises
    ------
    InputError
        If the file does not exist, has no record, or is in a known format, which needs no mapping.

    Examples
    --------
    >>> import pandas as pd
    >>> answers = {"a": ["Rome", "Oslo"], "b": ["Oslo", "Rome"]}
    >>> table = pd.DataFrame({"question": ["q1", "q2"], **answers, "winner": ["A", "B"]})
    >>> propose(table).entries
    {'candidate_id': 'a', 'opponent_id': 'b', 'winner': {'field': 'winner', 'values': {'A': 'first', 'B': 'second'}}, \
'context_id': 'question'}
    """
    reading = LogReading(None, make_mapping(mapping), strict=False)
    for document in iter_documents(log):
        if (proposal := reading.proposal_of(document)) is not None:
            return proposal
    return explain(reading, log)


def _of_documents(reading: LogReading, path: LogInput, alone: bool) -> list[pd.DataFrame]:
    """Return the trials of the files at a path; tables in folders are read by their column names only if `alone`."""
    parts: list[pd.DataFrame] = []
    for document in iter_documents(path):
        reading.alone = alone or not isinstance(path, str | Path) or document.name == Path(path).name
        parts += reading.of(document)
    return parts


def __dir__() -> list[str]:
    return __all__
