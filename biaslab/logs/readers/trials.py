"""The columns of recorded trials, what tells judgements apart, and trials from judgements of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.files import declared
from biaslab.logs.readers.cells import plain
from biaslab.logs.readers.rows import Judgements, Rows, judged_records

ColumnKind = Literal["text", "name", "number", "flag"]


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

    kind: ColumnKind
    default: Any = None
    tells_apart: bool = False


#: The columns of recorded trials, in order: those of `biaslab.collect`, then others that probes read.
SCHEMA = {name: Column(**column) for name, column in declared("biaslab.logs.readers", "trials.toml").items()}


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
            if (same := (dtype, value) if dtype else (name,)) not in constant:
                constant[same] = pd.Series(value, index=index, dtype=dtype)
            prepared[name] = constant[same]
    return pd.DataFrame(prepared, index=index)


def record_trials(rows: Rows, judgements: Judgements, tool: str, **fixed: Any) -> pd.DataFrame:
    """Return the trials of records with any number of judgements each; without one, the frame is empty.

    Parameters
    ----------
    rows, judgements, tool
        As in `judged_records`; a judgement has the columns of a trial, and perhaps others.
    **fixed
        Columns with the same value in all rows.
    """
    places, judged = judged_records(rows, judgements, tool)
    if not judged:
        return pd.DataFrame()
    index, names = pd.Index(places, name="place"), set[str]().union(*judged)
    columns = {name: [each.get(name, SCHEMA[name].default) for each in judged] for name in SCHEMA if name in names}
    others = {name: [each[name] for each in judged] for name in judged[0] if name not in SCHEMA}
    try:
        frame = pd.DataFrame(columns, index)
    except UnicodeEncodeError:  # lone surrogates are not valid text
        texts = {name: [plain(v) if isinstance(v, str) else v for v in values] for name, values in columns.items()}
        frame = pd.DataFrame(texts, index)
    return trials_of({**fixed, **frame}, index).assign(**others)


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
