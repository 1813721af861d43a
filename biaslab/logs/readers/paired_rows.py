"""Merge rows that each hold one candidate of a comparison, with a mark on the winner, into one row per pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.rows import Rows

_WON = frozenset(["winner", "won", "win", "wins", "chosen", "selected", "preferred", "best", "picked", "better"])
_COMPARISON = frozenset(["comparison", "pair", "battle", "match", "game", "round"])
_PLACES = frozenset(["position", "place", "slot", "side", "shown", "order", "index", "rank"])
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
_MOST = 0.95  # minimum share of groups that are pairs with at most one winner
_FEWEST = 3  # minimum number of pairs
_ALONE = "a candidate without the other of its comparison"


def rows_of_pairs(rows: Rows, mapping: Mapping[str, Any]) -> Rows | None:
    """Return a row per comparison if each record is one of its candidates; None if not, or if there is a mapping.

    Fields that differ between the two become ``NAME_1`` and ``NAME_2``, in the order of a position field or else of
    the file; in the latter case the order shown is unknown. ``winner`` is "1", "2" or "tie".
    """
    names = list(rows.records[0]) if rows.records else []
    flag = next((name for name in names if _is_flag(rows.records, str(name))), None)
    if mapping or flag is None or named.find_pairs(list(map(str, names))):
        return None
    for item in _comparison_fields(names):
        groups: dict[Any, list[int]] = {}
        for at, record in enumerate(rows.records):
            groups.setdefault(written(record.get(item)), []).append(at)
        pairs = [group for group in groups.values() if _is_pair(rows.records, group, flag)]
        if len(pairs) >= max(_FEWEST, _MOST * len(groups)):
            place = _place(rows.records, names, pairs)
            records = [_pair(rows.records, group, flag, place) for group in pairs]
            if len(rows.records) > 2 * len(pairs):
                rows.log.left_out[_ALONE] += len(rows.records) - 2 * len(pairs)
            return Rows(records, [rows.lines[one] for one, _ in pairs], rows.log, textual=False)
    return None


def _is_flag(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    words = set(named.tokens(name))
    if not words & _WON or words & named.HUMAN:
        return False
    values = {(written(record.get(name)) or "").strip().lower() for record in records}
    return len({_FLAGS[word] for word in values if word in _FLAGS}) > 1 and values <= {*_FLAGS, ""}


def _comparison_fields(names: Sequence[str]) -> list[str]:
    """Return the fields that may identify a comparison: those named so, then common names of items."""
    own = [name for name in names if set(named.tokens(str(name))) & _COMPARISON]
    return [*own, *named.first_named([str(name) for name in names], named.CONTEXT)]


def _won(record: Mapping[str, Any], flag: str) -> bool:
    return _FLAGS.get((written(record.get(flag)) or "").strip().lower(), False)


def _is_pair(records: Sequence[Mapping[str, Any]], group: Sequence[int], flag: str) -> bool:
    return len(group) == 2 and sum(_won(records[at], flag) for at in group) <= 1


def _place(records: Sequence[Mapping[str, Any]], names: Sequence[str], pairs: Sequence[Sequence[int]]) -> str | None:
    """Return the field that gives the position of each candidate, with the same two values in every pair, or None."""
    for name in names:
        if set(named.tokens(str(name))) & _PLACES:
            values = {frozenset(written(records[at].get(name)) for at in pair) for pair in pairs}
            if len(values) == 1 and len(next(iter(values))) == 2 and None not in next(iter(values)):
                return name
    return None


def _pair(records: Sequence[Mapping[str, Any]], group: Sequence[int], flag: str, place: str | None) -> dict[str, Any]:
    one, two = (records[at] for at in group)
    if place is not None:
        one, two = sorted((one, two), key=lambda record: str(written(record.get(place))))
    merged: dict[str, Any] = {} if place is not None else {"order_known": False}
    for name in one:
        if name in (flag, place):
            continue
        if one[name] == two.get(name):
            merged[name] = one[name]
        else:
            merged |= {f"{name}_1": one[name], f"{name}_2": two.get(name)}
    return merged | {"winner": "1" if _won(one, flag) else "2" if _won(two, flag) else "tie"}
