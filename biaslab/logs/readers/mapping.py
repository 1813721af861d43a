r"""Read any table with a mapping, or override by it the columns that a format's reader found.

Read any table with a mapping from its fields to the columns of trials.

A mapping gives, for each column of the trials, one of the forms in `biaslab.logs.readers.expressions`: ``"field"``, a
field or dotted path; ``"=text"``, a constant; ``"field~expression"``, the first group of a regular expression searched
in the field; ``"field | 0 -> tie, 1 -> a"``, the meaning of its values. Fields that have the name of a trials column
need no entry. One of these outcomes is required:

``winner``
    The candidate that won: its identifier, "first", "second" or "tie".
``p_first``
    Probability that the candidate shown first wins, 0 to 1.
``score``
    A number on the ``scale``, such as "1-5", which is required too.
``reply``
    The judge's text. For pairs, ``[[A]]`` or "A" is the first, B the second, C a tie; for scores, it states a score.

Further entries are optional:

``replicate``
    A field with integers, or ``=#`` to number repeated judgements in the order of the file.
``swapped``
    True if the candidate of a row was shown second. In ``winner``, "first" and "second" then mean positions as shown,
    and "candidate" and "opponent" the columns of the row.
``shown_first``
    The candidate that was shown first, in the form of ``winner``; with any other value, the order is unknown.
``winner_swapped``
    For rows with verdicts of both orders: the verdict in the other order, read like ``winner`` of a swapped row. Each
    row becomes two judgements.
``person``
    Who gave the scores, in a log of people without a judge; such a log has no judge's verdict.
``preference``
    The candidate that humans prefer, in the form of ``winner``: a gold label, or a list or several fields with one
    entry per person. It becomes ``human_gap``, -1 to 1.
``ratings``
    Human scores of a candidate: a list, or several fields. Their mean becomes ``human``.
``text``, ``opponent_text``
    The judged texts, which become ``words`` and ``opponent_words``.

Several columns of verdicts or scores, ``score = ["tone", "style"]``, are read one after the other; other entries can
then be tables with a value for each, such as ``scale = { tone = "=0-2", style = "=1-5" }``.

A record that does not match a required expression becomes a row without a value, with the status "unparsable"; an
identifier then falls back to the whole field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.logs.readers.expressions import KINDS, LISTS, NO_WINNER, TEXTS, columns_of
from biaslab.logs.readers.readings import (
    OF_PAIRS,
    OF_SCORES,
    OUTCOMES,
    each,
    human_gaps,
    number_on,
    read_pair,
    read_score,
    sides,
)
from biaslab.logs.readers.rows import COLUMNS, SCHEMA, LogSource, Rows, field_names, read_value, trials_of

_SHOWN = 6  # verdicts shown in a message

#: Columns that must be mapped explicitly, because fields with these names rarely have this meaning.
_EXPLICIT = (*TEXTS, "person", "samples", "label_mass", "swapped", "shown_first", "winner_swapped")
#: Columns of trials that can distinguish columns of verdicts.
DISTINGUISHING = ("judge", "attribute", "replicate", "template", "configuration")
_UNMAPPED = ("probe", "value", "status", "key", "p_first_label", "p_both_orders")
NAMES = tuple(dict.fromkeys((*OUTCOMES, *(c for c in COLUMNS if c not in _UNMAPPED), "preference", *_EXPLICIT)))


def with_preference(columns: dict[str, pd.Series], swapped: pd.Series | None = None) -> dict[str, pd.Series]:
    """Convert ``preference`` to ``human_gap``, unless that is mapped; `swapped` flags exchanged rows."""
    if "preference" not in columns:
        return columns
    rest = {name: column for name, column in columns.items() if name != "preference"}
    if "human_gap" in rest:
        return rest
    named, (first, second) = columns["preference"], (rest["candidate_id"], rest["opponent_id"])
    listed = [row if isinstance(row, list) else [] for row in named]
    if named.dtype == "str":  # a constant
        listed = [[text] for text in named]
    return rest | {"human_gap": human_gaps(listed, first, second, swapped)}


def as_shown(columns: dict[str, pd.Series]) -> dict[str, pd.Series]:
    """Exchange candidate and opponent in rows that were shown in the other order."""
    if "shown_first" in columns:
        ahead = sides(columns.pop("shown_first"), columns["candidate_id"], columns["opponent_id"])
        known = pd.Series(np.isin(ahead, (0.0, 1.0)), index=columns["candidate_id"].index)
        columns["order_known"] = columns.get("order_known", known) & known
        columns["swapped"] = pd.Series(ahead == 0.0, index=known.index)
    if "swapped" not in columns:
        return columns
    swapped = columns["swapped"]
    exchanged = {
        name: columns[name].where(~swapped, columns[other])
        for one, two in (("candidate_id", "opponent_id"), ("words", "opponent_words"))
        if one in columns and two in columns
        for name, other in ((one, two), (two, one))
    }
    if "human_gap" in columns:
        exchanged["human_gap"] = columns["human_gap"].where(~swapped, -columns["human_gap"])
    return columns | exchanged


def read_mapped(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return one trial per record, or two if it has both orders; with an ``opponent_id``, trials are pairs.

    Raises
    ------
    InputError
        If context, candidate, outcome or scale is neither in the file nor mapped.
    """
    return read_entries(rows, source, completed(rows, mapping))


def read_entries(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of a mapping to which no field of the file is added."""
    whole = dict(mapping)
    if "person" in mapping:
        whole = {name: entry for name, entry in whole.items() if name != "person"} | {"judge": mapping["person"]}
    parts = by_column(whole)
    if len(parts) > 1:
        return pd.concat([_read_once(rows, source, own, own) for own in parts])
    if "winner_swapped" in whole:
        return _in_both_orders(rows, source, whole)
    return _read_once(rows, source, whole, whole)


def by_column(mapping: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one mapping for each column of verdicts or scores.

    An entry that is a table with the names of these columns has a value for each. Unless one says otherwise, the name
    of the column is the attribute.

    Examples
    --------
    >>> both = {"score": {"fields": ["tone", "style"]}, "scale": {"tone": "=0-2", "style": "=1-5"}}
    >>> by_column(both)[1]
    {'score': {'fields': ['style']}, 'scale': '=1-5', 'attribute': '=style'}
    """
    outcome = next((name for name in OUTCOMES if name in mapping), None)
    entry = mapping.get(outcome) if outcome is not None else None
    fields = entry.get("fields") if isinstance(entry, Mapping) else None
    if outcome is None or not isinstance(entry, Mapping) or not isinstance(fields, list) or len(fields) < 2:
        return [dict(mapping)]
    parts = []
    for field in fields:
        own = {name: _of_column(each, field, fields) for name, each in mapping.items()}
        own = {name: each for name, each in own.items() if each is not None} | {outcome: {**entry, "fields": [field]}}
        if not any(_is_by_column(mapping.get(name), fields) for name in DISTINGUISHING) and "attribute" not in own:
            own["attribute"] = f"={field}"
        parts.append(own)
    return parts


def _is_by_column(entry: Any, fields: Sequence[str]) -> bool:
    return isinstance(entry, Mapping) and bool(entry) and set(entry) <= set(fields)


def _of_column(entry: Any, field: str, fields: Sequence[str]) -> Any:
    return entry.get(field) if _is_by_column(entry, fields) else entry


def completed(rows: Rows, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the fields that map themselves, in a table with the columns of trials."""
    if not (rows.has("context_id") and rows.has("candidate_id")):
        return dict(mapping)
    names = [name for name in NAMES if name not in _EXPLICIT]
    return {name: name for name in names if _maps_itself(rows, name, mapping)} | dict(mapping)


def _maps_itself(rows: Rows, name: str, mapping: Mapping[str, Any]) -> bool:
    """Return whether a field maps itself: it has a column's name and type, and competes with no mapped outcome."""
    if not rows.has(name) or (name in OUTCOMES and name != "reply" and set(OUTCOMES) & set(mapping)):
        return False
    if name in LISTS:
        return True
    values = [value for value in rows.values(name) if value is not None and value != ""]
    return not values or any(read_value(value, KINDS.get(name, "any")) is not None for value in values)


def _in_both_orders(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return two trials per record, one for the verdict in each order."""
    if "swapped" in mapping or "winner" not in mapping or "opponent_id" not in mapping:
        allowed = "used with opponent_id and winner (the verdict in the row's order), and without swapped"
        raise InputError("mapping['winner_swapped']", mapping["winner_swapped"], allowed)
    as_stands = {name: expression for name, expression in mapping.items() if name != "winner_swapped"}
    other = as_stands | {"winner": mapping["winner_swapped"], "swapped": "=true"}
    return pd.concat([_read_once(rows, source, each, each, both=True) for each in (as_stands, other)])


def _read_once(
    rows: Rows, source: LogSource, mapping: Mapping[str, Any], whole: Mapping[str, Any], both: bool = False
) -> pd.DataFrame:
    """Return one trial per record; with ``both``, human preferences refer to the record's first candidate."""
    is_pair = "opponent_id" in whole
    possible = OF_PAIRS if is_pair else OF_SCORES
    outcome = next((name for entries in (mapping, whole) for name in (*possible, *OUTCOMES) if name in entries), None)
    _require_entries(rows, source, mapping, whole, outcome)
    columns, unmatched = columns_of(rows, whole)
    if is_pair:
        if both:
            columns = as_shown(with_preference(columns))
        else:
            columns = as_shown(columns)
            columns = with_preference(columns, columns.get("swapped"))
        rows.leave_out(columns["candidate_id"] == columns["opponent_id"], "a candidate is compared with itself")
    elif "ratings" in columns and "scale" in columns:
        columns.setdefault("human_scale", columns["scale"])
    if outcome is None:
        reading = pd.DataFrame({"value": np.nan, "status": "unparsable"}, index=range(len(rows.records)))
    else:
        reading = read_pair(columns, outcome, source) if is_pair else read_score(columns, outcome, source)
        if outcome == "winner":
            _note_unknown(rows, columns["winner"][reading["status"] == "unparsable"])
    kept = {name: column for name, column in columns.items() if name in COLUMNS}
    trials = trials_of({**kept, **reading}, pd.RangeIndex(len(rows.records)))
    return without_value(trials, unmatched)


def _note_unknown(rows: Rows, words: pd.Series) -> None:
    """Count verdicts that name neither candidate of their row."""
    known = Counter(word.strip() for word in words.dropna() if word.strip() != NO_WINNER)
    if known:
        shown = ", ".join(word for word, _ in known.most_common(_SHOWN))
        rows.log.unmatched[f"winner names neither candidate; give the meaning of its values ({shown})"] += known.total()


def _require_entries(
    rows: Rows, source: LogSource, mapping: Mapping[str, Any], whole: Mapping[str, Any], outcome: str | None
) -> None:
    """Raise `InputError` unless all required columns are mapped; human ratings alone need no judge's score."""
    missing = [name for name in ("context_id", "candidate_id") if name not in whole]
    alone = outcome is None and not ("ratings" in whole and "opponent_id" not in whole)
    if missing or alone:
        wanted = [*missing, *([f"one of {', '.join(OUTCOMES)}"] if alone else [])]
        remedy = f"the file has {field_names(rows.records)}; write for example context_id=question"
        raise InputError(f"mapping of {source.file}", dict(mapping), f"entries for {' and '.join(wanted)}", remedy)
    if outcome is not None and "opponent_id" not in whole and "scale" not in whole:
        raise InputError("mapping", dict(mapping), "an entry for scale", "such as scale='=1-5'")


def without_value(trials: pd.DataFrame, unmatched: Bools) -> pd.DataFrame:
    """Make rows that the mapping did not match unparsable, without a value."""
    if not unmatched.any():
        return trials
    kept = trials["value"].where(~unmatched)
    return trials.assign(value=kept, status=trials["status"].where(~unmatched, "unparsable"))


LogReader = Callable[[Rows, LogSource, Mapping[str, Any]], pd.DataFrame]
_OF_THE_VERDICT = ("label_mass", "p_first_label", "p_both_orders")  # void if the format's verdict is replaced


def overridden(read: Callable[[Rows, LogSource], pd.DataFrame]) -> LogReader:
    """Wrap a format's reader so that a mapping can override its columns.

    A mapped ``winner``, ``p_first``, ``score`` or ``reply`` replaces the format's verdict; a mapped ``scale`` is used
    to read scores.
    """

    def reader(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
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


def _replaced(trials: pd.DataFrame, rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
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


def _read_again(trials: pd.DataFrame, outcome_column: pd.Series, outcome: str, source: LogSource) -> pd.DataFrame:
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
            readings.append(read_pair(columns, outcome, source) if is_pair else read_score(columns, outcome, source))
    order = np.concatenate([np.flatnonzero(pair), np.flatnonzero(~pair)]).argsort()
    reading = pd.concat(readings).iloc[order].set_axis(trials.index)
    return trials.assign(**reading, **dict.fromkeys(_OF_THE_VERDICT, np.nan))
