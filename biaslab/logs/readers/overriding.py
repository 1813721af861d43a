"""Override the columns of a format's reader by a user's mapping, and recompute the columns that depend on them."""

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
_OF_THE_VERDICT = ("label_mass", "p_first_label", "p_both_orders")  # void if the format's verdict is replaced


def overridden(read: Callable[[Rows, Source], pd.DataFrame]) -> Reader:
    """Wrap a format's reader so that a mapping can override its columns.

    A mapped ``winner``, ``p_first``, ``score`` or ``reply`` replaces the format's verdict; a mapped ``scale`` is used
    to read scores.
    """

    def reader(rows: Rows, source: Source, mapping: Mapping[str, Any]) -> pd.DataFrame:
        frames = []
        for selected, scale in _by_scale(rows, mapping):
            part = _rescaled(read(selected, replace(source, scale=scale)), scale)
            frames.append(part if selected is rows else part[selected.good[part.index.to_numpy()]])
        trials = frames[0] if len(frames) == 1 else pd.concat(frames)
        named = {name: expression for name, expression in mapping.items() if name != "scale"}
        return _replaced(trials, rows, source, named) if named and len(trials) else trials

    return reader


def _by_scale(rows: Rows, mapping: Mapping[str, Any]) -> Iterator[tuple[Rows, str | None]]:
    """Yield the rows once per mapped scale, accepting only the records with that scale."""
    if "scale" not in mapping:
        yield rows, None
        return
    scales = columns_of(rows, {"scale": mapping["scale"]}).columns["scale"]
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
        selected = Rows(rows.records, rows.lines, rows.log, rows.textual)
        selected.good = good & (scales == name).to_numpy()
        yield selected, name
        after |= selected.good
    rows.good = after


def _rescaled(trials: pd.DataFrame, scale: str | None) -> pd.DataFrame:
    """Set the user's scale on scores that were read on another one, and check that they lie on it."""
    if scale is None:
        return trials
    other = (trials["opponent_id"].isna() & (trials["scale"] != scale)).to_numpy()
    if other.any():
        usable = other & trials["status"].eq("ok").to_numpy()
        readings = each(trials.loc[usable, "value"], number_on(scale_named(scale)))
        for name in readings:
            trials.loc[usable, name] = readings[name].to_numpy()
        trials.loc[other, "scale"] = scale
    return trials


def _replaced(trials: pd.DataFrame, rows: Rows, source: Source, mapping: Mapping[str, Any]) -> pd.DataFrame:
    columns, unmatched = columns_of(rows, mapping)
    places = trials.index.to_numpy()
    aligned = {name: column.iloc[places].set_axis(trials.index) for name, column in columns.items()}
    whole = {name: aligned.get(name, trials[name]) for name in ("candidate_id", "opponent_id")} | aligned
    if "human_gap" not in aligned:
        whole = with_preference(whole)
    if "ratings" in aligned and "human_scale" not in aligned:
        whole["human_scale"] = trials["scale"]
    replaced = trials.assign(**{name: _filled(name, column) for name, column in whole.items() if name in SCHEMA})
    outcome = next((name for name in OUTCOMES if name in mapping), None)
    if outcome is not None:
        replaced = _read_again(replaced, aligned[outcome], outcome, source)
    return without_value(replaced, unmatched[places])


def _filled(name: str, column: pd.Series) -> pd.Series:
    """Fill in a column's default for records that the mapping did not match."""
    default = SCHEMA[name].default
    return column.fillna(default) if isinstance(default, str) else column


def _read_again(trials: pd.DataFrame, outcome_column: pd.Series, outcome: str, source: Source) -> pd.DataFrame:
    """Replace the format's verdict or score by the reading of the mapped column."""
    pair = trials["opponent_id"].notna().to_numpy()
    wrong = [kind for kind, present, allowed in (("pairs", pair.any(), OF_PAIRS), ("scores", not pair.all(), OF_SCORES))
             if present and outcome not in allowed]  # fmt: skip
    if wrong:
        allowed = ", ".join(OF_PAIRS if wrong == ["pairs"] else OF_SCORES)
        raise InputError("mapping", outcome, f"one of {allowed} for a log of {wrong[0]}")
    readings = []
    for chosen, is_pair in ((pair, True), (~pair, False)):
        if chosen.any():
            subset = trials[chosen]
            columns = {str(name): subset[name] for name in subset} | {outcome: outcome_column[chosen]}
            readings.append(read_pair(columns, outcome) if is_pair else read_score(columns, outcome, source))
    order = np.concatenate([np.flatnonzero(pair), np.flatnonzero(~pair)]).argsort()
    reading = pd.concat(readings).iloc[order].set_axis(trials.index)
    return trials.assign(**reading, **dict.fromkeys(_OF_THE_VERDICT, np.nan))
