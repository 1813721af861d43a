"""Trials of recorded judgements: the columns of `biaslab.collect`, and what the probes read beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

#: Columns that identify a judgement: a second row that is alike in all of them is a duplicate.
KEYS = (
    "judge",
    "dataset",
    "context_id",
    "candidate_id",
    "opponent_id",
    "attribute",
    "template",
    "configuration",
    "scale",
    "form",
    "order",
    "rules",
    "replicate",
)
_DEFAULTS: dict[str, Any] = {
    "probe": "recorded",
    "judge": "unknown",
    "dataset": "unknown",
    "opponent_id": None,
    "attribute": "overall",
    "template": "recorded",
    "human_gap": np.nan,
    "order_known": True,
    "configuration": "recorded",
    "scale": None,
    "answer": "text",
    "form": None,
    "order": None,
    "rules": False,
    "human": np.nan,
    "human_scale": "",
    "ratings": "",
    "words": np.nan,
    "replicate": 0,
    "label_mass": np.nan,
    "tokens": 0,
    "reply": None,
}
COLUMNS = (
    "probe",
    "judge",
    "dataset",
    "context_id",
    "candidate_id",
    "opponent_id",
    "attribute",
    "template",
    "human_gap",
    "order_known",
    "configuration",
    "scale",
    "answer",
    "form",
    "order",
    "rules",
    "human",
    "human_scale",
    "ratings",
    "words",
    "replicate",
    "value",
    "status",
    "label_mass",
    "tokens",
    "reply",
    "key",
)
_TEXTUAL = frozenset(COLUMNS) - {
    "human_gap", "order_known", "rules", "human", "words", "replicate", "value", "label_mass", "tokens",
}  # fmt: skip


def trials_of(columns: Mapping[str, Any], index: pd.Index) -> pd.DataFrame:
    """Return a trials frame from the columns that a reader fills; the others are at their defaults.

    Parameters
    ----------
    columns : mapping
        Column → one value, or a series with one value a judgement.
    index : pandas.Index
        Position of the record of each judgement among those that were read.
    """
    made = {}
    for name in COLUMNS[:-1]:
        value = columns.get(name, _DEFAULTS.get(name))
        dtype = "str" if name in _TEXTUAL else None
        if isinstance(value, pd.Series):
            made[name] = value if dtype is None or value.dtype == "str" else value.astype("str")
            if isinstance(_DEFAULTS.get(name), str):  # probes read these, and a table has nothing for an empty text
                made[name] = made[name].fillna(_DEFAULTS[name])
        else:
            made[name] = pd.Series(value, index=index, dtype=dtype)
    return pd.DataFrame(made, index=index)


def without_duplicates(trials: pd.DataFrame) -> tuple[pd.DataFrame, int, int]:
    """Keep the first row of each judgement; return how many were dropped, and how many of them said something else.

    Columns that only some logs have are conditions, and tell judgements apart too.
    """
    keys = [*KEYS, *(name for name in trials.columns if name not in COLUMNS)]
    repeated = trials.duplicated(keys)
    if not repeated.any():
        return trials, 0, 0
    said = trials[[*keys, "value", "status"]]
    other = repeated & ~said.duplicated()
    return trials[~repeated], int(repeated.sum()), int(other.sum())
