"""Your own table (CSV, TSV, JSON, JSON Lines, Parquet or a data frame), with a column mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import CANDIDATE_COLUMNS, Dataset
from biaslab.datasets._columns import is_missing, map_columns, read_scores, to_ids
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
        raise DatasetError(source, "no scores", f"scores of {', '.join(names)}", "map their columns")
    listed = attributes if isinstance(attributes, Mapping) else {a: f"the {a} of the {noun}" for a in rated}
    return Dataset(
        name or Path(where).name.split(".")[0],
        candidates,
        ratings,
        dict(listed),
        scale,
        noun,
        provenance or f"The user's own table {Path(where).name}, as it was given.",
    )


def _read(source: str | Path | pd.DataFrame | None, name: str) -> tuple[pd.DataFrame, str]:
    """Return a table with rows counted from 1, and its name in messages: its path, or the parameter."""
    if source is None or isinstance(source, str | Path):
        file = need_path(source, REMEDY)
        return read_table(file), str(file)
    return from_frame(source, name), name


def _with_texts(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """Return the table with text, context, reference and system as strings; missing columns are empty."""
    if "text" not in table:
        raise DatasetError(f"{where}, column 'text'", "missing", "a column with the candidates' texts", REMEDY)
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
        raise DatasetError(f"{where}, column {name!r}", "missing", f"another column of the file: {having}")
    return table[name].map(lambda value: "" if is_missing(value) else str(value)).astype(object)


def _with_ids(table: pd.DataFrame, where: str, one_row: bool) -> pd.DataFrame:
    """Return the table with both identifiers, derived if the file lacks them."""
    if "context_id" in table:
        table["context_id"] = to_ids(table["context_id"], where)
    elif (table["context"] != "").all():
        table["context_id"] = table["context"].map(text_key)
    else:
        raise DatasetError(f"{where}, column 'context_id'", "missing", "context_id, or a context in every row", REMEDY)
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
            raise DatasetError(f"{source}, column {column!r}", "missing", "context_id and candidate_id (or system)")
        table = table.assign(**{column: to_ids(table[column], source)})
    unknown = ~pd.MultiIndex.from_frame(table[KEY]).isin(pd.MultiIndex.from_frame(candidates[KEY]))
    if unknown.any():
        row = table.index[unknown][0]
        identity = tuple(table.loc[row, KEY])
        raise DatasetError(f"{source}, row {row}, column 'candidate_id'", identity, "a candidate of the first table")
    return table
