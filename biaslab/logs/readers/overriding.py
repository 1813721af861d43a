"""Let a user's mapping override columns from a format's reader, and recompute what depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.logs.readers.log_columns import SCHEMA
from biaslab.logs.readers.mapped_columns import columns_of
from biaslab.logs.readers.mapping import with_preference, without_value
from biaslab.logs.readers.outcomes import OF_PAIRS, OF_SCORES, OUTCOMES, read_pair, read_score
from biaslab.logs.readers.readings import each, number_on
from biaslab.logs.readers.rows import Rows, Source

Reader = Callable[[Rows, Source, Mapping[str, Any]], pd.DataFrame]
_OF_THE_VERDICT = ("label_mass", "p_first_label", "p_both_orders")  # columns that belonged to the format's verdict


def overridden(read: Callable[[Rows, Source], pd.DataFrame]) -> Reader:
    """Return a format's reader whose columns a mapping can override.

    A mapped ``winner``, ``p_first``, ``score`` or ``reply`` replaces the format's verdict; a mapped ``scale`` is used
    to read scores.
    """

    def reader(rows: Rows, source: Source, given: Mapping[str, Any]) -> pd.DataFrame:
        parts = []
        for part, scale in _by_scale(rows, given):
            made = _rescaled(read(part, replace(source, scale=scale)), scale)
            parts.append(made if part is rows else made[part.good[made.index.to_numpy()]])
        found = parts[0] if len(parts) == 1 else pd.concat(parts)
        named = {name: expression for name, expression in given.items() if name != "scale"}
        return _replaced(found, rows, source, named) if named and len(found) else found

    return reader


def _by_scale(rows: Rows, given: Mapping[str, Any]) -> Iterator[tuple[Rows, str | None]]:
    """Yield the records of each mapped scale, with all others marked as not to be read."""
    if "scale" not in given:
        yield rows, None
        return
    scales = columns_of(rows, {"scale": given["scale"]}).columns["scale"]
    rows.refuse(scales.isna(), "scale is missing")
    names = scales[rows.good].unique().tolist()
    if len(names) == 1:
        scale_named(names[0])
        yield rows, names[0]
        return
    good = rows.good.copy()
    after = np.zeros(len(good), bool)
    for name in names:
        scale_named(name)
        part = Rows(rows.records, rows.lines, rows.log, rows.textual)
        part.good = good & (scales == name).to_numpy()
        yield part, name
        after |= part.good
    rows.good = after


def _rescaled(found: pd.DataFrame, scale: str | None) -> pd.DataFrame:
    """Check saved scores against the user's scale."""
    if scale is None:
        return found
    other = (found["opponent_id"].isna() & (found["scale"] != scale)).to_numpy()
    if other.any():
        usable = other & found["status"].eq("ok").to_numpy()
        readings = each(found.loc[usable, "value"], number_on(scale_named(scale)))
        for name in readings:
            found.loc[usable, name] = readings[name].to_numpy()
        found.loc[other, "scale"] = scale
    return found


def _replaced(found: pd.DataFrame, rows: Rows, source: Source, given: Mapping[str, Any]) -> pd.DataFrame:
    columns, unmatched = columns_of(rows, given)
    places = found.index.to_numpy()
    aligned = {name: column.iloc[places].set_axis(found.index) for name, column in columns.items()}
    whole = {name: aligned.get(name, found[name]) for name in ("candidate_id", "opponent_id")} | aligned
    if "human_gap" not in aligned:
        whole = with_preference(whole)
    if "ratings" in aligned and "human_scale" not in aligned:
        whole["human_scale"] = found["scale"]
    made = found.assign(**{name: _filled(name, column) for name, column in whole.items() if name in SCHEMA})
    outcome = next((name for name in OUTCOMES if name in given), None)
    if outcome is not None:
        made = _read_again(made, aligned[outcome], outcome, source)
    return without_value(made, unmatched[places])


def _filled(name: str, column: pd.Series) -> pd.Series:
    """Fill a column's default where the mapping did not match."""
    default = SCHEMA[name].default
    return column.fillna(default) if isinstance(default, str) else column


def _read_again(made: pd.DataFrame, said: pd.Series, outcome: str, source: Source) -> pd.DataFrame:
    """Read the verdict from the mapped column."""
    pair = made["opponent_id"].notna().to_numpy()
    wrong = [kind for kind, there, allowed in (("pairs", pair.any(), OF_PAIRS), ("scores", not pair.all(), OF_SCORES))
             if there and outcome not in allowed]  # fmt: skip
    if wrong:
        allowed = ", ".join(OF_PAIRS if wrong == ["pairs"] else OF_SCORES)
        raise InputError("mapping", outcome, f"one of {allowed} for a log of {wrong[0]}")
    parts = []
    for chosen, is_pair in ((pair, True), (~pair, False)):
        if chosen.any():
            part = made[chosen]
            columns = {str(name): part[name] for name in part} | {outcome: said[chosen]}
            parts.append(read_pair(columns, outcome) if is_pair else read_score(columns, outcome, source))
    order = np.concatenate([np.flatnonzero(pair), np.flatnonzero(~pair)]).argsort()
    reading = pd.concat(parts).iloc[order].set_axis(made.index)
    return made.assign(**reading, **dict.fromkeys(_OF_THE_VERDICT, np.nan))
