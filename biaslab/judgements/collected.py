"""Trials that `biaslab.collect` or `biaslab.read_judgements` returned, saved as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.core import STATUSES
from biaslab.judgements.log_columns import SCHEMA, trials_of
from biaslab.judgements.rows import NUMERAL, Rows, Source

FIELDS = frozenset(
    {"probe", "judge", "dataset", "context_id", "candidate_id", "attribute", "replicate", "value", "status"}
)


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return the trials as they were saved, conditions of any probe among them."""
    found = {
        name: rows.take(name, "id") for name in ("probe", "judge", "dataset", "context_id", "candidate_id", "attribute")
    }
    value, status = rows.take("value", "number"), rows.take("status", "id")
    rows.refuse(~status.isin(STATUSES), f"status is none of {', '.join(STATUSES)}")
    usable = status.isin(["ok", "tie"])
    rows.refuse(usable & value.isna(), "a value is missing")
    rows.refuse(~usable & value.notna(), "a value where the status says that there is none")
    names = dict.fromkeys(name for record in rows.records for name in record)
    for name in (name for name in names if name not in (*FIELDS, "key")):
        column = SCHEMA.get(name)
        if column is None or column.kind in ("text", "name"):
            found[name] = _as_it_is(rows, name, textual=column is not None)
        else:
            found[name] = rows.take(name, column.kind, column.default if column.kind == "flag" else None)
    found["replicate"] = rows.take("replicate", "number", 0).fillna(0)
    made = trials_of({**found, "value": value, "status": status}, value.index)
    others = {name: column for name, column in found.items() if name not in made}
    return made.assign(**others)


def _as_it_is(rows: Rows, name: str, textual: bool) -> pd.Series:
    """Return a column as it was saved; one of a probe's own conditions is numbers where all of it is."""
    values = [record.get(name) for record in rows.records]
    kept = [None if value is None or value == "" or value != value else value for value in values]
    rows.refuse(np.array([not isinstance(v, str | int | float | None) for v in kept], bool), f"{name} is no value")
    numbers = [_number(value, rows.textual) for value in kept]
    if textual or any(number is None for number in numbers):
        return pd.Series([None if v is None else str(v) for v in kept], dtype="str")
    return pd.Series(numbers, dtype=float)


def _number(value: object, textual: bool) -> float | None:
    """Return a number, NaN for nothing, None for anything else; in a table without types numbers are texts."""
    if value is None:
        return np.nan
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not (textual and NUMERAL.fullmatch(value)):
        return None
    return float(value)
