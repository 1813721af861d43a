"""Check contributions: their files follow the schema, and their judgements reproduce their estimates."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.atlas.contributed import FOLDER, Contribution, contributions
from biaslab.atlas.contributed_rows import load_rows, rows_file
from biaslab.atlas.estimates_csv import CONDITIONS
from biaslab.atlas.estimating import estimate_source
from biaslab.atlas.sources import Source

if TYPE_CHECKING:
    from biaslab.stats import Resampling

#: Outcomes of a check.
EQUAL, DIFFERENT, UPDATED, NOT_CARRIED = "equal", "different", "updated", "not carried"
_CELL = ("source", "probe", "judge", "dataset", "metric", *CONDITIONS)
_COMPARED = ("estimate", "ci_low", "ci_high", "q_value", "n_contexts", "n_trials", "n_dropped")
_CLOSE = 2e-5  # relative; the table has six significant digits


def check(
    folder: str | PathLike[str] = FOLDER, *, update: bool = False, resampling: Resampling | None = None
) -> pd.DataFrame:
    """Recompute the estimates of contributions from their judgements, and compare.

    Parameters
    ----------
    folder : path
        Folder of files written by `biaslab.atlas.add`; by default the contributions in the package.
    update : bool
        Overwrite estimates and data card if they differ, for example after an estimator has changed.
    resampling : Resampling, optional
        The one passed to `biaslab.atlas.add`.

    Returns
    -------
    pandas.DataFrame
        One row per contribution: ``source``; ``estimates`` and ``judgements`` (counts); ``outcome``: *equal*,
        *different*, *updated* (differed and was overwritten), or *not carried* (the licence does not allow
        redistribution); and ``why`` it is not equal.

    Raises
    ------
    InputError
        If there is no such folder, or a file in it violates the schema.

    Examples
    --------
    >>> check().columns.tolist()
    ['source', 'estimates', 'judgements', 'outcome', 'why']
    """
    place = Path(folder)
    rows = []
    for one in contributions(place):
        why, again = _compared(one, place, resampling)
        outcome = DIFFERENT if why else EQUAL if again is not None else NOT_CARRIED
        if update and why and again is not None:
            again.save(place)
            outcome = UPDATED
        if outcome == NOT_CARRIED:
            why = f"judgements under the licence {one.source['licence']} are left out"
        rows.append((one.source["name"], len(one.estimates), int(one.log["judgements"]), outcome, why))
    return pd.DataFrame(rows, columns=["source", "estimates", "judgements", "outcome", "why"])


def _compared(one: Contribution, folder: Path, resampling: Resampling | None) -> tuple[str, Contribution | None]:
    """Return the differences and the recomputed contribution; None if its judgements are not included."""
    name = one.source["name"]
    if not one.log.get("carried"):
        return "", None
    if not rows_file(folder, name).is_file():
        return f"{rows_file(folder, name).name} is missing", None
    trials = load_rows(folder, name)
    if len(trials) != one.log["judgements"]:
        return f"{len(trials)} judgements, but the data card says {one.log['judgements']}", None
    source = Source(name, one.source["title"], one.source["repository"], one.source["licence"], "", True, (), "", "")
    again = estimate_source(trials, source, resampling=resampling)
    recomputed = replace(one, estimates=again, version=str(again["version"].iloc[0]))
    return _difference(one.estimates, again) or _card_difference(one, folder), recomputed


def _difference(stored: pd.DataFrame, again: pd.DataFrame) -> str:
    """Describe the cells in which two tables of estimates differ; empty if there are none."""
    tables = [_by_cell(table) for table in (stored, again)]
    missing, added = (len(a.index.difference(b.index)) for a, b in (tables, tables[::-1]))
    if missing or added:
        return f"{missing} of {len(stored)} estimates do not come out again, and {added} are new"
    first, second = (table.sort_index() for table in tables)
    close = np.isclose(first.to_numpy(), second.to_numpy(), rtol=_CLOSE, atol=1e-6, equal_nan=True)
    places = np.flatnonzero(~close.all(axis=1))
    if not len(places):
        return ""
    row, column = int(places[0]), int(np.argmin(close[places[0]]))
    where = dict(zip(_CELL, first.index[row], strict=True))
    values = [f"{table.to_numpy()[row, column]:.6g}" for table in (first, second)]
    number = f"{len(places)} of {len(stored)} estimates differ"
    return f"{number}, such as {where['metric']} of {where['judge']}: {_COMPARED[column]} {values[0]}, now {values[1]}"


def _by_cell(table: pd.DataFrame) -> pd.DataFrame:
    cells = table.reindex(columns=list(_CELL)).astype("str").replace({"nan": "", "<NA>": "", "None": ""})
    numbers = table.reindex(columns=list(_COMPARED)).astype(float)
    return numbers.set_index(pd.MultiIndex.from_frame(cells))


def _card_difference(one: Contribution, folder: Path) -> str:
    card = folder / f"{one.source['name']}.md"
    same = card.is_file() and card.read_text(encoding="utf-8") == one.card()
    return "" if same else f"{card.name} is not the data card of the other files"
