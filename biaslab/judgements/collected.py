"""Trials that `biaslab.collect` or `biaslab.read_judgements` returned, saved as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.core import STATUSES
from biaslab.judgements.log_columns import trials_of
from biaslab.judgements.rows import Rows, Source

FIELDS = frozenset(
    {"probe", "judge", "dataset", "context_id", "candidate_id", "attribute", "replicate", "value", "status"}
)
_NUMBERS = (
    "human", "human_gap", "label_mass", "replicate", "tokens", "label", "position", "forced", "temperature", "words",
    "log_perplexity", "source_log_perplexity",
)  # fmt: skip
_FLAGS = ("order_known", "rules")


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
        if name in _NUMBERS:
            found[name] = rows.take(name, "number")
        elif name in _FLAGS:
            found[name] = rows.take(name, "flag", name == "order_known")
        else:
            found[name] = _as_it_is(rows, name)
    found["replicate"] = rows.take("replicate", "number", 0).fillna(0)
    made = trials_of({**found, "value": value, "status": status}, value.index)
    others = {name: column for name, column in found.items() if name not in made}
    return made.assign(**others)


def _as_it_is(rows: Rows, name: str) -> pd.Series:
    values = [record.get(name) for record in rows.records]
    kept = [None if value is None or value == "" or value != value else value for value in values]
    numbers = all(value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in kept)
    if numbers and name in ("template", "after", "order", "form"):
        return pd.Series([None if v is None else str(v) for v in kept], dtype="str")
    if not numbers:
        rows.refuse(np.array([not isinstance(v, str | int | float | None) for v in kept], bool), f"{name} is no value")
        return pd.Series([None if v is None else str(v) for v in kept], dtype="str")
    return pd.Series([np.nan if v is None else float(v) for v in kept], dtype=float)
