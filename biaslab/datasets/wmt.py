"""WMT metrics tasks: translations by many systems, MQM scores by professional translators (path needed)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.schema import CANDIDATE_COLUMNS, Dataset
from biaslab.datasets._files import need_path, read_columns, read_number, text_key

REMEDY = "get the table of MQM scores of WMT's metrics tasks, then load_dataset('wmt', path=..., pair='en-de')"
COLUMNS = ("lp", "src", "mt", "ref", "score", "system")


def load(
    path: str | Path | None = None,
    pair: str | None = None,
    year: int | None = None,
    domain: str | None = None,
    scale: Sequence[float] = (-25.0, 0.0),
) -> Dataset:
    """Load human scores of machine translations from the table in which they are distributed.

    Parameters
    ----------
    path : str or Path
        A table with the columns ``lp`` (language pair), ``src``, ``mt``, ``ref``, ``score``, ``system``, and
        optionally ``year`` and ``domain``.
    pair : str, optional
        A language pair, for example "en-de"; required if the file has several.
    year : int, optional
        Year of the task.
    domain : str, optional
        For example "news".
    scale : sequence of two floats
        Smallest and largest possible score; −25 to 0 for MQM.

    Returns
    -------
    Dataset
        Noun ``"translation"``, one attribute, "quality". A context is a source segment with its reference, and named
        after both texts; its candidates are named after their systems. Repeated segments of a system get the mean of
        their scores.

    Raises
    ------
    InputError
        If no path is given, the file has several language pairs, or nothing is left.
    DatasetError
        If a column is missing or a score is not a number; the message names file, row and column.

    References
    ----------
    Freitag et al. 2021, *Experts, Errors, and Context*; Wang et al. 2023 (ECT), §3.1, who report system-level accuracy
    on WMT.

    Examples
    --------
    >>> data = load("train.csv", pair="en-de", year=2020)  # doctest: +SKIP
    """
    file = need_path(path, REMEDY)
    table = read_columns(file, COLUMNS, REMEDY)
    for column, wanted in (("lp", pair), ("year", year), ("domain", domain)):
        table = _only(table, column, wanted)
    pairs = list(dict.fromkeys(map(str, table["lp"])))
    if len(pairs) > 1:
        raise InputError.plain(f"pair is missing, expected: one of {', '.join(pairs)}; such as pair={pairs[0]!r}")
    table["score"] = [read_number(value, f"{file}, row {row}, column 'score'") for row, value in table["score"].items()]
    table["key"] = [text_key(*map(str, texts)) for texts in zip(table["src"], table["ref"], strict=True)]
    first = table.groupby(["key", "system", "mt"], sort=False)
    rows = first.agg(src=("src", "first"), ref=("ref", "first"), score=("score", "mean")).reset_index()
    rows = rows.drop_duplicates(["key", "system"])
    names = ["key", "src", "system", "system", "mt", "ref"]
    candidates = rows[names].astype(str).apply(lambda texts: texts.str.strip()).set_axis(CANDIDATE_COLUMNS, axis=1)
    human = candidates.assign(attribute="quality", annotator="mqm", score=rows["score"])
    name, provenance = f"wmt {table['lp'].iloc[0]}", "MQM scores of the WMT metrics shared tasks."
    attributes = {"quality": "the translation says what the source says, in good and natural language"}
    ends = (float(scale[0]), float(scale[1]))
    return Dataset(name, candidates, human, attributes, ends, "translation", provenance)


def _only(table: pd.DataFrame, column: str, wanted: str | int | None) -> pd.DataFrame:
    if wanted is None:
        return table
    known = list(dict.fromkeys(map(str, table[column]))) if column in table else []
    name = "pair" if column == "lp" else column
    if str(wanted) not in known:
        raise InputError(name, wanted, f"among {', '.join(known) or 'none: the file has no such column'}")
    return table[table[column].astype(str) == str(wanted)].copy()
