"""Saved trials from `biaslab.collect` or `biaslab.read_judgements`, as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.core import STATUSES
from biaslab.logs.readers.field_values import NUMERAL, strings
from biaslab.logs.readers.log_columns import SCHEMA, trials_of
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset(
    {"probe", "judge", "dataset", "context_id", "candidate_id", "attribute", "replicate", "value", "status"}
)


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return the saved trials, including the conditions of any probe."""
    columns = {
        name: rows.take(name, "id") for name in ("probe", "judge", "dataset", "context_id", "candidate_id", "attribute")
    }
    value, status = rows.take("value", "number"), rows.take("status", "id")
    rows.refuse(~status.isin(STATUSES), f"status is not one of {', '.join(STATUSES)}")
    usable = status.isin(["ok", "tie"])
    rows.refuse(usable & value.isna(), "a value is missing")
    rows.refuse(~usable & value.notna(), "a value although the status excludes one")
    names = dict.fromkeys(name for record in rows.records for name in record)
    for name in (name for name in names if name not in (*FIELDS, "key")):
        column = SCHEMA.get(name)
        if column is None or column.kind in ("text", "name"):
            columns[name] = _saved_column(rows, name, textual=column is not None)
        else:
            columns[name] = rows.take(name, column.kind, column.default if column.kind == "flag" else None)
    if "opponent_id" in columns:
        paired = columns["opponent_id"].notna()
        rows.refuse(usable & paired & ~value.between(0, 1), "a pair's value is not from 0 to 1")
    columns["replicate"] = rows.take("replicate", "number", 0).fillna(0)
    trials = trials_of({**columns, "value": value, "status": status}, value.index)
    others = {name: column for name, column in columns.items() if name not in trials}
    return trials.assign(**others)


def _saved_column(rows: Rows, name: str, textual: bool) -> pd.Series:
    """Return a saved column; a probe's own condition becomes numeric if all its values are numbers."""
    values = [record.get(name) for record in rows.records]
    wrong = [not isinstance(value, str | int | float | None) for value in values]
    rows.refuse(np.array(wrong, bool), f"{name} is not a plain value")
    kept = [None if bad or value == "" or value != value else value for value, bad in zip(values, wrong, strict=True)]
    numeral = [isinstance(v, str) and rows.textual and NUMERAL.fullmatch(v) is not None for v in kept]
    words = [isinstance(v, str | bool) and not number for v, number in zip(kept, numeral, strict=True)]
    if textual or any(words):
        return strings([None if v is None else str(v) for v in kept])
    return pd.Series(kept, dtype=float)
