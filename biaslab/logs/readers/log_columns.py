"""Columns of recorded trials: those of `biaslab.collect`, and others that probes read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from biaslab.logs.readers.field_values import plain

Kind = Literal["text", "name", "number", "flag"]


class Column(NamedTuple):
    """A column of recorded trials.

    Parameters
    ----------
    kind : {"text", "name", "number", "flag"}
        Type of the values; a name may be missing.
    default : object
        Value if the log has none.
    tells_apart : bool
        Whether it is part of a judgement's identity: rows that agree in all such columns are duplicates.
    """

    kind: Kind
    default: Any
    tells_apart: bool = False


#: The columns of recorded trials, in order: those of `biaslab.collect`, then others that probes read.
SCHEMA = {
    "probe": Column("text", "recorded"),
    "judge": Column("text", "unknown", True),
    "dataset": Column("text", "unknown", True),
    "context_id": Column("text", None, True),
    "candidate_id": Column("text", None, True),
    "opponent_id": Column("name", None, True),
    "attribute": Column("text", "overall", True),
    "template": Column("name", "recorded", True),
    "human_gap": Column("number", np.nan),
    "order_known": Column("flag", True),
    "configuration": Column("name", "recorded", True),
    "scale": Column("text", None, True),
    "answer": Column("text", "text"),
    "form": Column("name", None, True),
    "order": Column("name", None, True),
    "rules": Column("flag", False, True),
    "human": Column("number", np.nan),
    "human_scale": Column("name", ""),
    "ratings": Column("name", ""),
    "annotators": Column("name", ""),
    "words": Column("number", np.nan),
    "opponent_words": Column("number", np.nan),
    "subset": Column("name", ""),
    "edit": Column("name", "", True),
    "edited": Column("name", "", True),
    "judge_system": Column("name", ""),
    "p_first_label": Column("number", np.nan),
    "p_both_orders": Column("number", np.nan),
    "replicate": Column("number", 0, True),
    "value": Column("number", None),
    "status": Column("text", None),
    "label_mass": Column("number", np.nan),
    "samples": Column("number", np.nan),
    "tokens": Column("number", 0),
    "reply": Column("text", None),
    "key": Column("text", None),
}
COLUMNS = tuple(SCHEMA)


def trials_of(columns: Mapping[str, Any], index: pd.Index) -> pd.DataFrame:
    """Return a trials frame from the columns that a reader fills; other columns have their defaults.

    Parameters
    ----------
    columns : mapping
        Column → a single value, or a series with one value per judgement.
    index : pandas.Index
        Position of each judgement's record among those read.
    """
    prepared: dict[str, pd.Series] = {}
    constant: dict[tuple[Any, ...], pd.Series] = {}  # columns of equal text share their memory
    for name in COLUMNS[:-1]:
        value = columns.get(name, SCHEMA[name].default)
        dtype = "str" if SCHEMA[name].kind in ("text", "name") else None
        if isinstance(value, pd.Series):
            prepared[name] = value if dtype is None or value.dtype == "str" else value.astype("str")
            if isinstance(SCHEMA[name].default, str):  # probes read these, and tables store empty text as missing
                prepared[name] = prepared[name].fillna(SCHEMA[name].default)
        else:
            same = (dtype, value) if dtype else (name,)
            prepared[name] = constant.setdefault(same, pd.Series(value, index=index, dtype=dtype))
    return pd.DataFrame(prepared, index=index)


def trials_of_several(rows: Sequence[tuple[Any, ...]], names: Sequence[str], **fixed: Any) -> pd.DataFrame:
    """Return the trials of records with several judgements each.

    Parameters
    ----------
    rows : sequence of tuple
        One tuple per judgement: the position of its record, then the values of the columns.
    names : sequence of str
        Names of these columns.
    **fixed
        Columns with the same value in all rows.
    """
    columns = ["place", *names]
    try:
        frame = pd.DataFrame(list(rows), columns=columns)
    except UnicodeEncodeError:  # lone surrogates are not valid text
        whole = [tuple(plain(value) if isinstance(value, str) else value for value in row) for row in rows]
        frame = pd.DataFrame(whole, columns=columns)
    indexed = frame.set_index("place")
    return trials_of({**fixed, **indexed}, indexed.index)


def counted(trials: pd.DataFrame) -> pd.DataFrame:
    """Count repeated judgements of the same item as replicates, from 0, in order."""
    same = trials.groupby([name for name in identity_of(trials) if name != "replicate"], sort=False, dropna=False)
    return trials.assign(replicate=same.cumcount().astype("int64"))


def without_duplicates(trials: pd.DataFrame) -> tuple[pd.DataFrame, int, int]:
    """Drop duplicate judgements, keeping the first; also return how many were dropped and how many contradicted it.

    Columns that only some logs have are conditions, and part of a judgement's identity too.
    """
    keys = identity_of(trials)
    repeated = trials.duplicated(keys)
    if not repeated.any():
        return trials, 0, 0
    several = trials[trials.duplicated(keys, keep=False)]
    group = several.groupby(keys, sort=False, dropna=False)
    place = group.ngroup().to_numpy()
    first = group[["value", "status"]].nth(0)  # one per group, in the order of the groups
    same = several["status"].to_numpy() == first["status"].to_numpy()[place]
    value, of_first = several["value"].to_numpy(float), first["value"].to_numpy(float)[place]
    same &= (value == of_first) | (np.isnan(value) & np.isnan(of_first))
    return trials[~repeated], int(repeated.sum()), int((~same).sum())


def identity_of(trials: pd.DataFrame) -> list[str]:
    """Return the columns that identify a judgement; rows that agree in all of them are duplicates."""
    return [name for name in trials.columns if name not in SCHEMA or SCHEMA[name].tells_apart]
