"""Files of people's labels: their mapping beside that of a log, and the column that identifies items in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.files import unguarded
from biaslab.logs.readers import propose, read_judgements
from biaslab.logs.readers.card import is_by_people
from biaslab.logs.readers.cells import read_value
from biaslab.logs.readers.columns import alias_words, aliases, is_model, names_people, roles_of, tokens
from biaslab.logs.readers.documents import first_rows, iter_documents, read_rows
from biaslab.logs.readers.mapping import COUNTED, OPTIONS, map_line, parse_expression, paths_of
from biaslab.logs.readers.rows import Log, Rows
from biaslab.stats.blocks import ITEM

LABEL_COLUMNS = ("context_id", "candidate_id", "score")
"""Columns of a label table, which is not read like a log."""

_PROBABILITY = "probability"  # of each context to be labelled
#: Columns of trials for people's labels.
_OF_PEOPLE = ("human", "human_gap", "human_scale", "ratings", "annotators", "preference", "person")


def read_label_file(file: Path, mapping: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Read a file of labels: a label table, or anything that is read as a log.

    Parameters
    ----------
    file : Path
        The file.
    mapping : mapping, optional
        As in `biaslab.read_judgements`; for a label table only ``human_scale``.

    Returns
    -------
    pandas.DataFrame
        A label table, or trials. Trials repeat an item with contradictory labels.

    Raises
    ------
    InputError
        If the file does not exist or cannot be read, or a label table has another mapping.
    """
    if not file.is_file():
        raise InputError("labels", str(file), "an existing file")
    rows = first_rows(file)
    if rows is None or not _is_label_table(rows):
        return read_labels(file, mapping)
    parts = [rows for document in iter_documents(file) for rows in read_rows(document, Log(document.name))]
    records = [{name: unguarded(cell) for name, cell in record.items()} for rows in parts for record in rows.records]
    table = pd.DataFrame(records).replace("", np.nan)
    if not mapping:
        return table
    scale = parse_expression("human_scale", mapping.get("human_scale")).constant
    if len(mapping) > 1 or scale is None:
        allowed = f"only human_scale==LOW-HIGH for a table with {', '.join(LABEL_COLUMNS)}"
        raise InputError("mapping", dict(mapping), allowed)
    return table.assign(scale=scale)


def read_labels(labels: Path | pd.DataFrame, mapping: Mapping[str, Any] | None = None) -> pd.DataFrame:
    """Read labels as trials; several rows of an item are kept if they contradict each other."""
    counted = {"replicate": f"={COUNTED}"}
    entries, rows = dict(mapping or {}), first_rows(labels)
    keep = [_PROBABILITY] if rows is not None and rows.has(_PROBABILITY) else []
    entries |= {"ignore": [*{*entries.get("ignore", ()), *keep}]} if keep else {}
    if not {"person", "judge"} & {*entries} and (people := _names_of_people(labels)):
        entries["person"] = people
    if not {"winner", "score"} & {*entries}:
        entries |= _label_of_people(rows, entries, "winner", "winner")
    if rows is not None and not {"person", "judge"} & {*entries}:
        asked = propose(pd.DataFrame(rows.records), entries).questions
        if len(asked) == 1 and asked[0].entry == "person" and len(asked[0].options) == 1:  # of labels, whose they are
            entries["person"] = asked[0].options[0]
    named = "judge" in entries or any(paths_of(entries.get("person")))
    try:
        trials = read_judgements(labels, mapping=entries if named else counted | entries, keep=keep)
    except InputError:  # beside an answer such as "yes", which could be a verdict too
        known = {"winner", "score"} & {*entries}
        if known or not (label := _label_of_people(rows, entries, "verdict", "score")):
            raise
        return read_labels(labels, entries | label)
    roles = [role for reading in trials.attrs["reading"]["readings"] for role in reading["roles"]]
    columns = [name for role in roles if role["role"] == "score" for own in role["sources"] for name in own["columns"]]
    if columns and all(map(is_label, columns)) and "person" not in entries and (trials["judge"] == "unknown").all():
        return read_labels(labels, entries | {"person": "=people"})
    if not (trials.attrs["duplicates"] and is_by_people(trials)):
        return trials
    every = read_judgements(labels, mapping=entries | counted, keep=keep)
    scores = every.groupby([*ITEM, "attribute"])["human"]
    return every if (scores.max() > scores.min()).any() else trials


def _label_of_people(rows: Rows | None, entries: Mapping[str, Any], name: str, role: str) -> dict[str, Any]:
    """Return the entry for the only column that is named after people, as if it had a name; nothing if that is open."""
    names = [] if rows is None else list(dict.fromkeys(name for record in rows.records for name in record))
    of_people = [name for name in names if "people" in roles_of(tokens(name))]
    if rows is None or len(of_people) != 1 or name in names:
        return {}
    proposed = propose(pd.DataFrame(rows.records).rename(columns={of_people[0]: name}), entries)
    entry = proposed.entries.get(role)
    if proposed.questions or not isinstance(entry, Mapping) or entry.get("field") != name:
        return {}
    return {role: {**entry, "field": of_people[0]}}


def _names_of_people(labels: Path | pd.DataFrame) -> str | None:
    """Return the column of judges in a file of labels if its values name people, such as "human" or "annotator 2"."""
    rows = first_rows(labels)
    if rows is None:
        return None
    people = alias_words("people") | set(aliases()["role"]["people"]["values"])
    for name in dict.fromkeys(name for record in rows.records for name in record):
        if set(tokens(name)) & alias_words("judge"):
            values = {str(record[name]) for record in rows.records if record.get(name) not in (None, "")}
            if values and all(set(tokens(value)) & people and not is_model(value) for value in values):
                return name
    return None


def is_label(column: str) -> bool:
    """Return whether a column of a file of labels holds people's, by its name: unless it is named after a judge.

    Examples
    --------
    >>> is_label("label"), is_label("human_verdict"), is_label("winner"), is_label("llm_label"), is_label("verdict")
    (True, True, True, False, False)
    """
    judges = aliases()["role"]["judge"]
    of_judge = set(tokens(column)) & {*judges["words"], *judges["verdicts"]} or is_model(column)
    return names_people(tokens(column)) or not of_judge


def read_labels_of(
    log: Path | None, file: Path, mapping: Mapping[str, Any], written: Mapping[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Read the labels of a log, and return the mapping with which the log is to be read.

    A mapping file belongs to the labels if only they have all of its columns, else to the log. An entry for people's
    labels belongs to the labels if they have its columns; any other to each file that has them. Without an entry for
    ``context_id``, a column of questions that both files have identifies the items.

    Parameters
    ----------
    log : Path or None
        The log, of which only the first records are read; None if it is no file.
    file : Path
        The labels.
    mapping : mapping of str to str
        Entries for both files.
    written : mapping
        The content of a mapping file, or nothing.

    Returns
    -------
    tuple of DataFrame and dict
        As from `read_label_file`, and the mapping.

    Raises
    ------
    InputError
        As in `read_label_file`; also if several common columns match different items.
    """
    if log is not None and file.exists() and log.exists() and file.samefile(log):
        raise InputError("labels", str(file), "another file than the log", "labels in the log itself need no --labels")
    judged = None if log is None else first_rows(log)
    labels = first_rows(file) if file.is_file() else None
    labels = None if labels is None or _is_label_table(labels) else labels
    of_log, of_labels = _divided(mapping, judged, labels)
    paths = [path for name, entry in written.items() for path in _paths(name, entry)]
    if _has(labels, paths) and not _has(judged, paths):
        of_labels = {**written, **of_labels}
    else:
        of_labels = {name: entry for name, entry in written.items() if _has(labels, _paths(name, entry))} | of_labels
        of_log = {**written, **of_log}
    table = read_label_file(file, of_labels)
    readings = table.attrs.get("reading", {}).get("readings", ())
    if written or "context_id" in mapping or not readings or judged is None or labels is None:
        return table, of_log
    names = _common_keys(judged, labels)
    roles = [role for reading in readings for role in reading["roles"] if role["role"] == "question"]
    columns = [source["columns"] for role in roles for source in role["sources"]]
    own = columns[0][0] if len(columns) == 1 and len(columns[0]) == 1 else ""
    for name, n_values in names.items():
        if own not in names and n_values >= table["context_id"].nunique():
            own, table = name, read_label_file(file, {"context_id": name} | of_labels)
    return table, {"context_id": own} | of_log if own in names else of_log


def _is_label_table(rows: Rows) -> bool:
    return all(map(rows.has, LABEL_COLUMNS))


def _divided(mapping: Mapping[str, Any], judged: Rows | None, labels: Rows | None) -> list[dict[str, Any]]:
    """Return the entries of the log, and those of the labels."""
    of_log, of_labels = dict[str, Any](), dict[str, Any]()
    for name, entry in mapping.items():
        in_labels = _has(labels, _paths(name, entry))
        of_people = name in _OF_PEOPLE and (in_labels or not _paths(name, entry))
        if in_labels or of_people:
            of_labels[name] = entry
        if not of_people and (not in_labels or _has(judged, _paths(name, entry))):
            of_log[name] = entry
    return [of_log, of_labels]


def _paths(name: str, entry: Any) -> list[str]:
    return [] if name in OPTIONS else list(paths_of(entry))


def _has(rows: Rows | None, paths: Sequence[str]) -> bool:
    """Return whether records have all of some fields, at least one; of a field in a list, the list."""
    return rows is not None and bool(paths) and all(rows.has(path.partition("[")[0]) for path in paths)


def _common_keys(judged: Rows, labels: Rows) -> dict[str, int]:
    """Return the columns of questions in both files that match the same items, and how many values labels have.

    Raises
    ------
    InputError
        If they match different items.
    """
    first = set(aliases()["role"]["question"]["first"])
    columns = dict.fromkeys(name for record in labels.records for name in record)
    names = [name for name in columns if name in first or roles_of(tokens(name))[:1] == ("question",)]
    both = {name: (_ids(judged, name), _ids(labels, name)) for name in names if judged.has(name)}
    values = {name: ids for name, ids in both.items() if {*ids[0]} & {*ids[1]} - {None}}
    differ = (_match_differently(*ids, *others) for ids in values.values() for others in values.values())
    if any(differ):
        lines = " or ".join(map_line({"context_id": name}) for name in values)
        raise InputError.plain(f"{' and '.join(values)} match different items of labels and log; add {lines}")
    return {name: len({*theirs} - {None}) for name, (_, theirs) in values.items()}


def _ids(rows: Rows, name: str) -> list[Any]:
    return [read_value(value, "id") or None for value in rows.values(name)]


def _match_differently(own: Sequence[Any], theirs: Sequence[Any], others: Sequence[Any], their: Sequence[Any]) -> bool:
    """Return whether a label has another value in a second column than the items with its value in the first."""
    known: dict[Any, set[Any]] = {}
    for value, other in zip(own, others, strict=True):
        known.setdefault(value, set()).add(other)
    labelled = zip(theirs, their, strict=True)
    return any(None not in (value, other) and other not in known.get(value, {other}) for value, other in labelled)
