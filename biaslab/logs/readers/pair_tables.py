"""Tables of pairs: two columns of answers or systems, and verdicts of judges and people on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.refusing import Entries, Refusal, either_order
from biaslab.logs.readers.rows import NUMERAL
from biaslab.logs.readers.table_columns import (
    FEW,
    GIVEN_OUTCOMES,
    KNOWN,
    Table,
    TableReading,
    all_numbers,
    beside,
    context_of,
    judge_name,
    no_context,
)

_SHOWN_THEN = {"shown", "presented", "position"}  # words of a verdict that names a place


def of_pairs(table: Table, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> TableReading | Refusal | None:
    """Return how pairs are read: candidates are systems where they are named, and texts otherwise."""
    shown, entries = _candidates(pairs)
    if (context := context_of(table)) is None:
        return no_context(table, entries)
    entries = {"context_id": context, **entries, **beside(table, "template")}
    if (orders := named.both_orders(table.names)) is not None and not GIVEN_OUTCOMES & set(table.given):
        return _in_both_orders(table, entries, shown, orders)
    if (refusal := _order_told(table, shown)) is not None:
        return refusal
    verdicts, people = _verdict_columns(table)
    if GIVEN_OUTCOMES & set(table.given):
        verdicts = [""]
    readings: dict[str, Any] = {name: _verdict(table, name, entries, shown) for name in [*verdicts, *people] if name}
    if refusals := [said for said in readings.values() if isinstance(said, Refusal)]:
        return refusals[0]
    if people and not {"preference", "human_gap"} & set(table.given):
        preferred: Any = readings[people[0]] if len(people) == 1 else _several(readings, people)
        entries = {**entries, "preference": preferred}
        table.told.append(f"humans = {', '.join(people)}")
    if (refusal := _which_verdict(verdicts, entries, readings)) is not None:
        return refusal
    made = tuple(_of_judge(table, entries, name, readings.get(name), len(verdicts)) for name in verdicts)
    place = "" if "order_known" in table.given else _place_told(readings.get(verdicts[0]), shown)
    told = [f"pairs: {shown[0]} and {shown[1]} on each {context}", place, *table.told]
    return TableReading(made, "; ".join(filter(None, told)))


def _in_both_orders(
    table: Table, entries: Entries, shown: tuple[str, str, int], orders: tuple[str, str]
) -> TableReading | Refusal:
    """Return how rows are read that hold the verdicts of both orders."""
    said, other = (_verdict(table, name, entries, shown) for name in orders)
    if isinstance(said, Refusal) or isinstance(other, Refusal):
        return said if isinstance(said, Refusal) else Refusal(**vars(other))
    whole: Entries = {**entries, "winner": said, "winner_swapped": other}
    if people := [name for name in _verdict_columns(table)[1] if name not in orders]:
        readings = {name: _verdict(table, name, entries, shown) for name in people}
        if refusals := [each for each in readings.values() if isinstance(each, Refusal)]:
            return refusals[0]
        whole["preference"] = readings[people[0]] if len(people) == 1 else _several(readings, people)
    sides = other["values"] if isinstance(other, dict) else {}
    if {"first", "second"} & set(sides.values()) and not _SHOWN_THEN & set(named.tokens(orders[1])):
        return Refusal(
            f"{orders[1]} is the verdict of the other order, and no name says what its values mean",
            either_order(whole, shown[0], shown[1]),
        )
    told = f"pairs: {shown[0]} and {shown[1]} on each {entries['context_id']}; {orders[0]} with {shown[0]} shown first"
    return TableReading((whole,), "; ".join([f"{told}, {orders[1]} with it shown second", *table.told]))


def _candidates(pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> tuple[tuple[str, str, int], Entries]:
    """Return the columns of what is compared, and the mapping of them and of their texts."""
    texts = next((pair for words, pair in pairs.items() if set(words) & named.TEXT), None)
    systems = next((pair for words, pair in pairs.items() if set(words) & named.SYSTEM and pair != texts), None)
    shown = systems or texts or next(iter(pairs.values()))
    entries: Entries = {"candidate_id": shown[0], "opponent_id": shown[1]}
    return shown, entries if texts is None else entries | {"text": texts[0], "opponent_text": texts[1]}


def _place_told(reading: Any, shown: tuple[str, str, int]) -> str:
    first = (
        next((v for v, side in reading["values"].items() if side == "first"), "") if isinstance(reading, dict) else ""
    )
    what = f"{first} = {shown[0]}" if first and first != shown[0] else shown[0]
    return f"{what}, taken as shown first: say --order-unknown otherwise"


def _of_judge(table: Table, entries: Entries, name: str, reading: Any, judges: int) -> Entries:
    """Return the mapping of one column of verdicts."""
    outcome = {"winner": reading} if reading is not None else {}
    if judges > 1 or named.is_model(name):
        table.told.append(f"judge {judge_name(name)} = {name}")
        return {"judge": f"={judge_name(name)}"} | entries | outcome
    return entries | outcome


def _verdict_columns(table: Table) -> tuple[list[str], list[str]]:
    """Return the columns of judges' verdicts, and those of people."""
    verdicts, people = [], []
    for name in table.names:
        words = set(named.tokens(name))
        if "judge" in words:
            words -= {"reference", "user"}
        is_verdict = bool(words & named.VERDICT) or name.lower() == "gold"
        few = 0 < table.distinct(name) <= FEW or _names_systems(name)
        if words & named.ORDER or not few or len(set(words) & {"a", "b"}) > 0:
            continue
        if words & named.HUMAN and (is_verdict or _mostly_sides(table, name)):
            people.append(name)
        elif is_verdict or (named.is_model(name) and _mostly_sides(table, name)):
            verdicts.append(name)
    return verdicts, people


def _names_systems(name: str) -> bool:
    return bool(set(named.tokens(name)) & {"winner", "preferred", "preference", "better", "best", "chosen"})


def _mostly_sides(table: Table, name: str) -> bool:
    values = table.present(name)
    understood = sum(named.side_of(value) is not None for value in values)
    return bool(values) and understood >= KNOWN * len(values) and not all_numbers(values)


def _verdict(table: Table, name: str, entries: Entries, shown: tuple[str, str, int]) -> Entries | str | Refusal:
    """Return the expression that reads a column of verdicts, or why it cannot be told."""
    values = Counter(table.present(name))
    candidates = {*table.present(shown[0]), *table.present(shown[1])}
    by_name = sum(n for value, n in values.items() if value in candidates or named.side_of(value) == "tie")
    sides = named.meanings(values, shown[2])
    by_side = 0 if sides is None else sum(n for value, n in values.items() if sides.get(value))
    columns = {shown[0]: "first", shown[1]: "second"}
    whole = sum(values.values())
    if by_name >= KNOWN * whole and any(value in candidates for value in values):
        if by_side >= KNOWN * whole and sides is not None and any(s in ("first", "second") for s in sides.values()):
            as_side: Entries = entries | {"winner": {"field": name, "values": sides}}
            options = (("as places", as_side), ("as names of candidates", entries | {"winner": name}))
            return Refusal(f"{name} may name a place or a candidate ({_some(values)})", options)
        tied = {value: "tie" for value in values if value not in candidates and named.side_of(value) == "tie"}
        if set(tied) - {"tie"}:
            return {"field": name, "values": {value: value for value in sorted(candidates & set(values))} | tied}
        return name
    if sides is not None:
        sides = {value: columns.get(value) or side for value, side in sides.items() if side}
        known = sum(n for value, n in values.items() if value in sides)
        if known >= KNOWN * whole and {"first", "second"} & set(sides.values()):
            return {"field": name, "values": sides}
    return _unclear(name, values, entries)


def _unclear(name: str, values: Counter[str], entries: Entries) -> Refusal:
    """Return the readings of a verdict whose values may mean one thing or another."""
    kinds = set(values)
    options: tuple[tuple[str, Entries], ...]

    def option(**meanings: str) -> Entries:
        values = {key.removeprefix("_").replace("m1", "-1"): side for key, side in meanings.items()}
        return entries | {"winner": {"field": name, "values": values}}

    if kinds <= {"0", "1", "2"} and "0" in kinds and "1" in kinds:
        two = {"_2": "tie"} if "2" in kinds else {}
        other = {"_0": "tie", "_1": "first", "_2": "second"} if "2" in kinds else {"_0": "second", "_1": "first"}
        said = "0 is a tie" if "2" in kinds else "1 says that the first wins"
        options = (("counted from 0", option(_0="first", _1="second", **two)), (said, option(**other)))
        return Refusal(f"{name} is 0 and 1, which may be places or flags", options)
    if kinds <= {"-1", "0", "1"}:
        options = (("1 is the first", option(_1="first", m1="second", _0="tie")),
                   ("1 is the second", option(_1="second", m1="first", _0="tie")))  # fmt: skip
        return Refusal(f"{name} is -1, 0 and 1, and no name says which is which", options)
    numbers = [float(value) for value in kinds if NUMERAL.fullmatch(value)]
    if len(numbers) == len(kinds) and all(0 <= number <= 1 for number in numbers):
        options = (("the probability of the first", {**entries, "p_first": name}),)
        return Refusal(f"{name} is a number from 0 to 1, and no name says of which candidate", options)
    guess = {value: named.side_of(value) or "…" for value, _ in values.most_common(6)}
    options = (("with first, second or tie for dots", entries | {"winner": {"field": name, "values": guess}}),)
    if len(values) > FEW:
        options = (("if it holds the judge's texts", entries | {"reply": name}),)
    return Refusal(f"{name} says {_some(values)}, which names neither a place nor a candidate", options)


def _some(values: Counter[str]) -> str:
    return ", ".join(value if len(value) <= 30 else f"{value[:30]}…" for value, _ in values.most_common(4))


def _which_verdict(verdicts: Sequence[str], entries: Entries, readings: Mapping[str, Any]) -> Refusal | None:
    """Ask which of several columns is the judge's, unless each is called after a judge."""
    if not verdicts:
        guess = {**entries, "winner": {"field": "FIELD", "values": {"A": "first", "B": "second", "tie": "tie"}}}
        return Refusal("no column holds the judge's verdicts", (("with the field that does", guess),))
    if len(verdicts) < 2 or all(named.is_model(name) for name in verdicts):
        return None
    options = tuple(
        (
            f"{name} is the judge's, {other} people's",
            entries | {"winner": readings[name], "preference": readings[other]},
        )
        for name, other in (verdicts[:2], verdicts[1::-1])
    )
    return Refusal(f"{' and '.join(verdicts)} are both verdicts", options)


def _order_told(table: Table, shown: tuple[str, str, int]) -> Refusal | None:
    """Ask what a column means that says how the candidates were shown."""
    if {"swapped", "order_known"} & set(table.given):
        return None
    for name in table.names:
        if name in shown or not set(named.tokens(name)) & named.ORDER or not 1 < table.distinct(name) <= FEW:
            continue
        flags = {value: _flag(value, shown) for value in sorted(set(table.present(name)))}
        swapped = name if all(value.lower() in ("true", "false", "0", "1") for value in flags) else None
        expression: Any = swapped or {"field": name, "values": {value: flag or "…" for value, flag in flags.items()}}
        verdicts, _ = _verdict_columns(table)
        column = verdicts[0] if verdicts else "FIELD"
        values = Counter(table.present(column)) if verdicts else Counter(("A", "B"))
        sides = named.meanings(values, shown[2]) or {}
        back = {value: {"first": "candidate", "second": "opponent"}.get(side, side) for value, side in sides.items()}
        seen = {"winner": {"field": column, "values": sides}} if sides else {}
        mapped = {"winner": {"field": column, "values": back}} if sides else {}
        options = (
            (f"{shown[0]} is shown second where it says so, verdicts name places", {"swapped": expression} | seen),
            (f"{shown[0]} is shown second where it says so, verdicts name columns", {"swapped": expression} | mapped),
            (f"{shown[0]} was always shown first", {"order_known": "=true"}),
        )  # fmt: skip
        return Refusal(f"{name} says how they were shown, and no name says what {shown[0]} is then", options)
    return None


def _flag(value: str, shown: tuple[str, str, int]) -> str | None:
    low = value.lower()
    if low in ("true", "false", "0", "1"):
        return {"0": "false", "1": "true"}.get(low, low)
    if low in ("ab", "original", "normal", "forward", "a", "first", shown[0].lower()):
        return "false"
    return "true" if low in ("ba", "swapped", "reversed", "backward", "b", "second", shown[1].lower()) else None


def _several(readings: Mapping[str, Any], people: Sequence[str]) -> Entries:
    """Return the verdicts of several people as one expression; their values mean the same."""
    whole: dict[str, str] = {}
    for name in people:
        whole |= readings[name]["values"] if isinstance(readings[name], dict) else {}
    return {"fields": list(people), "values": whole} if whole else {"fields": list(people)}
