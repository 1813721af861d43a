"""Find the column of a table of pairs that gives the order in which the candidates were shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import FEW, KNOWN, Table

_SWAPS = {"swap", "swapped", "swapping", "flipped", "reversed", "exchanged", "toggled"}
_BACK = {"first": "candidate", "second": "opponent"}


def order_of(
    table: Table, shown: tuple[str, str, int], verdicts: Mapping[str, Any], people: Sequence[str],
    readings: Mapping[str, Any],
) -> Entries | Refusal:  # fmt: skip
    """Return the mapping of the order shown, or a refusal that asks how to read the column that gives it.

    Empty if no column gives the order: then the candidate of the first column is assumed to be shown first. If the
    columns are named by preference (chosen and rejected), the order is unknown instead.
    """
    if {"swapped", "shown_first", "order_known"} & set(table.given):
        return {}
    for name in table.names:
        if name in shown or name in table.used or not table.present(name):
            continue
        words = set(named.tokens(name))
        if not words & named.ORDER and not ("first" in words and words & (named.SYSTEM | named.TEXT)):
            continue
        order = _expression(table, name, shown, words)
        if order is None:
            continue
        named_by_name = bool(verdicts) and all(isinstance(reading, str) for reading in verdicts.values())
        if named_by_name and "…" not in str(order):
            table.notes.append(f"shown first = {name}")
            return order
        return _ask(name, order, shown, verdicts, {person: readings[person] for person in people})
    return {"order_known": "=false"} if shown[2] == named.CHOSEN else {}


def _expression(table: Table, name: str, shown: tuple[str, str, int], words: set[str]) -> Entries | None:
    """Return the mapping of a column that says which candidate was shown first; None if its values do not."""
    values = table.present(name)
    rows = zip(table.columns[name], table.columns[shown[0]], table.columns[shown[1]], strict=True)
    by_name = [value in (one, two) for value, one, two in rows if value is not None]
    if sum(by_name) >= KNOWN * len(by_name):
        return {"shown_first": name}
    if table.distinct(name) > FEW:
        return None
    distinct = sorted(set(values))
    flags = {value: _flag(value, shown, distinct) for value in distinct}
    if len(distinct) == 1:
        flag = flags[distinct[0]]
        doubtful = flag == "true" and (words & _SWAPS or not distinct[0].isdigit())
        return {"swapped": name} if doubtful and distinct[0].lower() == "true" else (
            {"swapped": {"field": name, "values": flags}} if doubtful else None)  # fmt: skip
    if all(value.lower() in ("true", "false", "0", "1") for value in distinct):
        return {"swapped": name}
    return {"swapped": {"field": name, "values": {value: flag or "…" for value, flag in flags.items()}}}


def _ask(
    name: str, order: Entries, shown: tuple[str, str, int], verdicts: Mapping[str, Any], people: Mapping[str, Any]
) -> Refusal:
    column = next(iter(verdicts), "")
    reading = verdicts.get(column)
    sides = dict(reading["values"]) if isinstance(reading, dict) and "values" in reading else {}
    seen: Entries = {"winner": {"field": column, "values": sides}} if sides and column else {}
    back: Entries = (
        {"winner": {"field": column, "values": {value: _BACK.get(side, side) for value, side in sides.items()}}}
        if sides and column else {}
    )  # fmt: skip
    gold = next((label for label in people.values() if isinstance(label, dict) and "values" in label), None)
    if gold is not None and len(people) == 1:  # human labels refer to columns, regardless of the order shown
        labels = {value: _BACK.get(side, side) for value, side in gold["values"].items()}
        seen, back = (each | {"preference": {**gold, "values": labels}} for each in (seen, back))
    always: tuple[str, Entries] = (f"{shown[0]} was always shown first", {"order_known": "=true"})
    if isinstance(reading, dict) and "p_first" in reading:  # a probability refers to a column, not to a position
        return Refusal(f"{name} gives the order shown", (always,))
    swapped = "shown second where the column says so" if "swapped" in order else "shown first where it is named"
    if isinstance(reading, str) or not sides:
        readings = [(f"{shown[0]} is {swapped}", order | back)]
    else:
        readings = [
            (f"{shown[0]} is {swapped}, verdicts name positions", order | seen),
            (f"{shown[0]} is {swapped}, verdicts name columns", order | back),
        ]
    why = f"{name} gives the order shown, but its relation to {shown[0]} is unclear"
    return Refusal(why, (*readings, always))


def _flag(value: str, shown: tuple[str, str, int], distinct: Sequence[str]) -> str | None:
    """Return whether a value says that the second candidate was shown first: "true", "false", or None."""
    low = value.lower()
    if set(distinct) == {"1", "2"}:
        return "false" if value == "1" else "true"
    if low in ("true", "false", "0", "1"):
        return {"0": "false", "1": "true"}.get(low, low)
    one, two = named.SIDES[shown[2]]
    marks = [word for word in (*named.tokens(low), *low) if word in (one, two, "a", "b", "1", "2")]
    places = {one: "false", two: "true", "a": "false", "b": "true", "1": "false", "2": "true"}
    if low in ("original", "normal", "forward", "first", shown[0].lower(), "unswapped", "not swapped"):
        return "false"
    if low in ("swapped", "reversed", "reverse", "backward", "second", shown[1].lower(), "swap", "flipped"):
        return "true"
    words = named.tokens(low)
    known = {one, two, "a", "b", "1", "2", "ab", "ba", "model", "answer", "response", "output", "first", "then",
             "12", "21"}  # fmt: skip
    return places[marks[0]] if marks and set(words) <= known else None
