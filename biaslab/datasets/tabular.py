"""Your own table (CSV, TSV, JSON, JSON Lines, Parquet or a data frame), with a column mapping."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import CANDIDATE_COLUMNS, HUMAN_COLUMNS, Dataset
from biaslab.datasets._files import from_frame, need_path, read_table, text_key

KEY = ["context_id", "candidate_id"]
REMEDY = "load_dataset('tabular', path='my.csv', columns={'text': 'summary'}, attributes=['coherence'])"


def load(
    path: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | Sequence[str] | None = None,
    scale: tuple[float, float] = (1.0, 5.0),
    noun: str = "text",
    name: str | None = None,
    human: str | Path | pd.DataFrame | None = None,
    provenance: str = "",
    data: pd.DataFrame | None = None,
    variables: Sequence[str] = (),
) -> Dataset:
    r"""Load a table of candidates, with or without human scores.

    *Wide*: one row per candidate with one column per attribute; with an ``annotator`` column, one row per candidate ×
    annotator. *Long* (any table with a ``score`` column): one row per candidate × attribute × annotator. Rows of the
    same candidate repeat its texts.

    Parameters
    ----------
    path : str or Path, optional
        A file that ends in .csv, .tsv, .json (a list of objects), .jsonl, .ndjson or .parquet; text formats are UTF-8,
        optionally with .gz. A CSV file may be separated by commas, semicolons or tabs.
    columns : mapping of str to str, optional
        Name in the schema → column of the file, for
        ``context_id, context, candidate_id, system, text, reference, attribute, annotator, score`` and, in wide
        tables, each attribute. Columns that have the schema's name need no entry; all others are ignored.
    attributes : mapping of str to str, or sequence of str
        Attribute → definition that a prompt can quote; for a sequence the definition is "the <attribute> of the
        <noun>". For long tables the default is every attribute of the file; ratings of attributes that are not listed
        are dropped. A wide table without any of the attributes' columns has no human scores.
    scale : tuple of float
        Lowest and highest score.
    noun : str
        What prompts call a candidate.
    name : str, optional
        Name of the data set; by default the file's name up to its first dot.
    human : str, Path or pandas.DataFrame, optional
        A second table, wide or long, with the scores; items are matched by ``context_id`` and ``candidate_id`` (or
        ``system``, if that identifies candidates). Scores in the first table are then ignored.
    provenance : str
        Origin and licence of the data.
    data : pandas.DataFrame, optional
        The table itself, instead of a path; its index is ignored.
    variables : sequence of str
        Additional columns to keep, such as a rubric, for the slots of a `biaslab.Protocol`. An empty value is an empty
        text.

    Returns
    -------
    Dataset
        Missing identifiers are derived: ``context_id`` from the context's text (12 hex digits); ``candidate_id`` from
        ``system``, or else from the order within the context ("0", "1", …), counting rows if each candidate has one
        row, or distinct texts if it has several. Missing ``context``, ``reference`` and ``system`` are empty; a
        missing ``annotator`` is ``human``. Empty scores are unrated.

    Raises
    ------
    InputError
        If neither or both of path and data are given, the suffix or a key of ``columns`` is unknown, or attributes are
        missing.
    DatasetError
        If the file violates the schema. Messages name file, row (data rows count from 1) and column; for malformed
        JSON Lines, the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
    >>> _ = file.write_text("doc,sys,summary,coherence\nSun.,a,It shines.,4\nSun.,b,It rains.,1\n")
    >>> load(file, columns={"context": "doc", "system": "sys", "text": "summary"}, attributes=["coherence"])
    Dataset('mine': 1 contexts, 2 candidates, 1 attributes, 2 human scores)
    """
    if path is not None and data is not None:
        raise InputError("path", str(path), "None together with 'data'", "pass only one of the two")
    source_table = path if data is None else data
    if not scale[0] < scale[1]:
        raise InputError("scale", scale, "the lowest and the highest score, in this order")
    if isinstance(attributes, str):
        raise InputError("attributes", attributes, "a list of names, or name → definition", f"['{attributes}']")
    if not isinstance(columns, Mapping | None):
        raise InputError("columns", columns, "role → column", "write columns={'text': 'summary'}")
    names, mapping = tuple(attributes or ()), dict(columns or {})
    table, where = _read(source_table, "data")
    second, source = (None, where) if human is None else _read(human, "human")
    elsewhere = () if second is None else tuple(second.columns)
    if isinstance(variables, str):
        raise InputError("variables", variables, "a list of columns", f"['{variables}']")
    items = _with_texts(map_columns(table, mapping, names, where, elsewhere), where)
    items = items.assign(**{name: _texts(table, name, where) for name in variables})
    one_row = not {"score", "annotator"} & set(items.columns) - set(names)
    items = _with_ids(items, where, one_row)
    candidates = _merge(items, where, one_row, variables)
    if second is not None:
        items = _of_candidates(map_columns(second, mapping, names, source, tuple(table.columns)), candidates, source)
    ratings, rated = read_scores(items, names, scale, source)
    if second is not None and ratings.empty:
        raise DatasetError.plain(f"{source} has no scores, expected: scores of {', '.join(names)}; map their columns")
    listed = attributes if isinstance(attributes, Mapping) else {a: f"the {a} of the {noun}" for a in rated}
    name, given = name or Path(where).name.split(".")[0], f"The user's own table {Path(where).name}, as it was given."
    return Dataset(name, candidates, ratings, dict(listed), scale, noun, provenance or given)


def _read(source: str | Path | pd.DataFrame | None, name: str) -> tuple[pd.DataFrame, str]:
    """Return a table with rows counted from 1, and its name in messages: its path, or the parameter."""
    if source is None or isinstance(source, str | Path):
        file = need_path(source, REMEDY)
        return read_table(file), str(file)
    return from_frame(source, name), name


def _with_texts(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the table with text, context, reference and system as strings; missing columns are empty."""
    if "text" not in table:
        raise DatasetError.plain(f"{where} has no column 'text' with the candidates' texts; {REMEDY}")
    table = table.copy()
    for column in ("text", "context", "reference"):
        if column not in table:
            table[column] = ""
        for row, value in table[column].items():
            blank = column == "text" and isinstance(value, str) and not value.strip()
            if blank or not (isinstance(value, str) or (column != "text" and is_missing(value))):
                allowed = "a non-blank text" if column == "text" else "a text"
                raise DatasetError(f"{where}, row {row}, column {column!r}", value, allowed)
        table[column] = table[column].where(table[column].notna(), "").astype(object)
    table["system"] = to_ids(table["system"], where, optional=True) if "system" in table else ""
    return table


def _texts(table: pd.DataFrame, name: str, where: str) -> pd.Series:
    """Return a column as texts; missing values are empty."""
    if name not in table or name in CANDIDATE_COLUMNS:
        having = ", ".join(str(column) for column in table.columns if column not in CANDIDATE_COLUMNS)
        raise DatasetError.plain(f"{where}, column {name!r} is missing, expected: another column of the file: {having}")
    return table[name].map(lambda value: "" if is_missing(value) else str(value)).astype(object)


def _with_ids(table: pd.DataFrame, where: str, one_row: bool) -> pd.DataFrame:
    """Return the table with both identifiers, derived if the file lacks them."""
    if "context_id" in table:
        table["context_id"] = to_ids(table["context_id"], where)
    elif (table["context"] != "").all():
        table["context_id"] = table["context"].map(text_key)
    else:
        raise DatasetError.plain(f"{where} has neither a column 'context_id' nor a context in every row; {REMEDY}")
    if "candidate_id" in table:
        table["candidate_id"] = to_ids(table["candidate_id"], where)
    elif (table["system"] != "").all():
        table["candidate_id"] = table["system"]
    elif one_row:
        table["candidate_id"] = table.groupby("context_id").cumcount().astype(str)
    else:
        numbers = table.groupby("context_id")["text"].transform(lambda texts: pd.factorize(texts)[0])
        table["candidate_id"] = numbers.astype(str)
    return table


def _merge(items: pd.DataFrame, where: str, one_row: bool, variables: Sequence[str]) -> pd.DataFrame:
    """Return one row per candidate; raise if rows of the same candidate or context are inconsistent."""
    repeated = items.duplicated(KEY)
    if one_row and repeated.any():
        row = items.index[repeated][0]
        identity = tuple(items.loc[row, KEY])
        remedy = "map a column to 'candidate_id', or to 'annotator' if several people rated a candidate"
        raise DatasetError(f"{where}, row {row}, column 'candidate_id'", identity, "one row per candidate", remedy)
    of_candidate = ("text", "system", "reference", *variables)
    for column, by in (("context", ["context_id"]), *((name, KEY) for name in of_candidate)):
        differs = items[column] != items.groupby(by)[column].transform("first")
        if differs.any():
            row = items.index[differs][0]
            value, allowed = items.loc[row, column], f"the same value in all rows of one {' and '.join(by)}"
            raise DatasetError(f"{where}, row {row}, column {column!r}", value, allowed)
    return items.loc[~repeated, [*CANDIDATE_COLUMNS, *variables]]


def _of_candidates(table: pd.DataFrame, candidates: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return a table of scores with both identifiers, each matching a candidate."""
    if "candidate_id" not in table and "system" in table:
        table = table.assign(candidate_id=table["system"])
    for column in KEY:
        if column not in table:
            needed = "context_id and candidate_id (or system) are needed"
            raise DatasetError.plain(f"{source} has no column {column!r}; {needed}")
        table = table.assign(**{column: to_ids(table[column], source)})
    unknown = ~pd.MultiIndex.from_frame(table[KEY]).isin(pd.MultiIndex.from_frame(candidates[KEY]))
    if unknown.any():
        row = table.index[unknown][0]
        identity = tuple(table.loc[row, KEY])
        raise DatasetError(f"{source}, row {row}, column 'candidate_id'", identity, "a candidate of the first table")
    return table


NAMES = tuple(dict.fromkeys((*CANDIDATE_COLUMNS, *HUMAN_COLUMNS)))


def map_columns(
    table: pd.DataFrame,
    columns: Mapping[str, str],
    attributes: tuple[str, ...],
    where: str,
    elsewhere: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the columns that are mapped to the schema or to attributes, renamed accordingly.

    A mapped column must be in the file or in the other one, whose columns are ``elsewhere``.
    """
    known = dict.fromkeys((*NAMES, *attributes))
    unknown = [key for key in columns if key not in known]
    if unknown:
        raise InputError("columns", unknown, f"keys among {', '.join(known)}", "list attributes in 'attributes'")
    chosen: dict[str, Any] = {}
    for key in known:
        column = columns.get(key, key)
        if column in table.columns:
            chosen[key] = table[column]
        elif key in columns and column not in elsewhere:
            having = ", ".join(str(name) for name in table.columns)
            raise DatasetError.plain(f"{where}, column {column!r} is missing, expected: a column of the file: {having}")
    return pd.DataFrame(chosen, index=table.index)


def is_missing(value: object) -> bool:
    """Return whether a cell is missing; a list is never missing."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def to_ids(values: pd.Series, where: str, optional: bool = False) -> pd.Series:
    """Return identifiers as strings, whole numbers without decimals; missing ones raise or become empty."""
    texts = []
    for row, value in values.items():
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        text = "" if is_missing(value) else str(value)
        if not text.strip() and not optional:
            raise DatasetError(f"{where}, row {row}, column {values.name!r}", value, "a non-blank identifier")
        texts.append(text)
    return pd.Series(texts, index=values.index, dtype=object)


def read_scores(
    items: pd.DataFrame, attributes: tuple[str, ...], scale: tuple[float, float], where: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the human frame of a wide or long table, and the attributes, in order.

    Parameters
    ----------
    items : pandas.DataFrame
        With both identifiers; the index is the row in the file.
    attributes : tuple of str
        Attributes to keep; if empty, all of a long table.
    scale : tuple of float
        Lowest and highest score.
    where : str
        Name of the file in messages.
    """
    annotators = to_ids(items["annotator"], where) if "annotator" in items else "human"
    stack = _long if "score" in items and "score" not in attributes else _wide
    rated = stack(items.assign(annotator=annotators), attributes, scale, where)
    human = rated.dropna(subset=["score"])[list(HUMAN_COLUMNS)]
    repeated = human.duplicated(["context_id", "candidate_id", "attribute", "annotator"])
    if repeated.any():
        identity = tuple(human.loc[repeated, ["candidate_id", "attribute", "annotator"]].iloc[0])
        allowed = "one score a candidate, attribute and annotator"
        raise DatasetError(f"{where}, row {human.index[repeated][0]}, column 'annotator'", identity, allowed)
    return human, attributes or tuple(dict.fromkeys(rated["attribute"]))


def _long(items: pd.DataFrame, attributes: tuple[str, ...], scale: tuple[float, float], where: str) -> pd.DataFrame:
    if "attribute" not in items:
        if len(attributes) != 1:
            allowed = "a column with the attribute, or exactly one attribute in 'attributes'"
            raise DatasetError.plain(f"{where}, column 'attribute' is missing, expected: {allowed}")
        items = items.assign(attribute=attributes[0])
    items = items.assign(attribute=to_ids(items["attribute"], where))
    present = tuple(dict.fromkeys(items["attribute"]))
    absent = [name for name in attributes if name not in present]
    if absent:
        raise InputError("attributes", absent, f"some of those in {where}: {', '.join(present)}")
    kept = items[items["attribute"].isin(attributes or present)]
    return kept.assign(score=_numbers(kept["score"], scale, where))


def _wide(items: pd.DataFrame, attributes: tuple[str, ...], scale: tuple[float, float], where: str) -> pd.DataFrame:
    if not attributes:
        remedy = "pass attributes=['coherence', …] (--attribute coherence), or the columns 'attribute' and 'score'"
        raise InputError("attributes", attributes, "at least one attribute of a wide table", remedy)
    absent = [name for name in attributes if name not in items]
    if len(absent) == len(attributes):
        return items.iloc[:0].assign(attribute="", score=math.nan)
    if absent:
        raise DatasetError.plain(f"{where} has no column {absent[0]!r} for this attribute; map it")
    return pd.concat([items.assign(attribute=a, score=_numbers(items[a], scale, where)) for a in attributes])


def _numbers(values: pd.Series, scale: tuple[float, float], where: str) -> list[float]:
    """Return scores as floats, NaN if missing; raise for values that are not numbers on the scale."""
    numbers = []
    for row, value in values.items():
        text = str(value).strip()
        if is_missing(value) or text in ("", "nan"):
            numbers.append(math.nan)
            continue
        try:
            number = math.inf if isinstance(value, bool) else float(text)
        except ValueError:
            number = math.inf
        if not scale[0] <= number <= scale[1]:
            allowed = f"a number from {scale[0]:g} to {scale[1]:g}, or empty"
            pointed = text.replace(",", ".")
            remedy = f"write {pointed}" if re.fullmatch(r"-?\d+\.\d+", pointed) and pointed != text else ""
            raise DatasetError(f"{where}, row {row}, column {values.name!r}", value, allowed, remedy)
        numbers.append(number)
    return numbers
