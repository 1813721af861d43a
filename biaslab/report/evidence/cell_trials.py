"""Find the trials behind an estimate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from biaslab.core.binned import BINS
from biaslab.core.errors import BiaslabError, TrialsError
from biaslab.logs.readers.log_columns import COLUMNS
from biaslab.measures.ranking import pairs
from biaslab.measures.ranking.pairs import is_pair
from biaslab.probes import find_probe, names
from biaslab.stats import LEADING, TRAILING


def is_estimates(frame: pd.DataFrame) -> bool:
    """Return whether a frame holds estimates, not trials."""
    return {"metric", "estimate"} <= set(frame.columns)


def behind(estimates: pd.DataFrame, trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials behind rows of estimates, with notes on conditions that could not be separated.

    Parameters
    ----------
    estimates : pandas.DataFrame
        Rows of an estimates frame, from a probe or from `biaslab.audit`.
    trials : pandas.DataFrame
        The trials they were estimated from.

    Raises
    ------
    TrialsError
        If there is no row, or a row has no trials.

    Notes
    -----
    Trials are matched by probe, judge, data set and every condition that is a column of the trials. A bin of the human
    gap is matched by the pairs whose gap lies in the bin, for the default number of bins. From a log, only trials that
    the probe accepts are used. A condition that the probe computes itself cannot be matched; a note says so.
    """
    if estimates.empty:
        raise TrialsError("estimates", "an empty frame", "at least one row")
    parts, notes = [], dict[str, None]()
    for row in estimates.to_dict("records"):
        cell, unused = _of_row({str(name): value for name, value in row.items()}, trials)
        if cell.empty:
            labels = ", ".join(str(row[name]) for name in (*LEADING, "attribute") if name in row)
            raise TrialsError("trials", "none behind " + labels, "the trials that the estimates were computed from")
        parts.append(cell)
        if unused:
            notes[f"Trials have no {' and '.join(unused)}: showing the whole cell of {row['metric']}."] = None
    whole = pd.concat(parts)
    return whole[~whole.index.duplicated()].sort_index(), list(notes)


def _of_row(row: Mapping[str, Any], trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials behind one row, and the conditions that the trials lack."""
    cell, unused = _accepted(str(row.get("probe", "")), trials), []
    for name in ("judge", "dataset"):
        if name in row and name in cell:
            cell = cell[cell[name] == row[name]]
    conditions = [c for c in row if c not in (*LEADING, *TRAILING, *BINS) and not pd.isna(row[c])]
    for name in conditions:
        if name not in cell:
            unused.append(f"{name} {row[name]}")
            continue
        cell = cell[cell[name].astype(str) == _as_in_column(row[name], cell[name])]
    if not pd.isna(row.get("human_gap")):
        cell = _of_bin(cell, float(row["human_gap"]))
    return trials.loc[trials.index.isin(cell.index)], unused


def _accepted(probe: str, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials that a probe accepts, named as in its estimates."""
    own = trials[trials["probe"] == probe] if "probe" in trials else trials
    if len(own) or probe not in names():
        return own if len(own) else trials
    if set(trials.columns) < set(COLUMNS):
        return trials
    try:
        return find_probe(probe)().accepts(trials).trials
    except BiaslabError:
        return trials.iloc[:0]


def _as_in_column(value: Any, column: pd.Series) -> str:
    """Format a value like the column's: integers in a frame with gaps became floats."""
    if isinstance(value, float) and value.is_integer() and not pd.api.types.is_float_dtype(column.dtype):
        return str(int(value))
    return str(float(value)) if pd.api.types.is_float_dtype(column.dtype) else str(value)


def _of_bin(trials: pd.DataFrame, mean: float, bins: int = 4) -> pd.DataFrame:
    """Return the pairs in the human-gap bin whose mean is nearest to `mean`."""
    both = trials[is_pair(trials) & trials["human_gap"].notna().to_numpy()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blocks = pairs.both_orders(both, "pairs")
    binned = list(pairs.by_gap(blocks, bins))
    if not binned:
        return both
    _, chosen = min(binned, key=lambda part: abs(part[0] - mean))
    gaps = set(chosen["human_gap"].abs().round(9))
    return both[both["human_gap"].abs().round(9).isin(gaps)]
