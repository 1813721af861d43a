"""Refuse ambiguous verdicts, with a mapping for each interpretation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers.common_names import CHOSEN
from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import FEW, KNOWN
from biaslab.logs.readers.verdict_words import side_of

_MOST_WORDS = 6  # maximum number of different verdicts considered
_BRACKETS = re.compile(r"\[\[\W{0,3}[ABC]\b")


def unclear(name: str, values: Counter[str], entries: Entries, shown: tuple[str, str, int]) -> Refusal:
    """Refuse a column of ambiguous verdicts, with a mapping for each interpretation.

    Parameters
    ----------
    name : str
        The column of verdicts.
    values : Counter
        Counts of its values.
    entries : dict
        The mapping of the other columns.
    shown : tuple of (str, str, int)
        The two candidate columns, and the index in `common_names.SIDES` of the words that distinguish their names.
    """
    if shown[2] == CHOSEN:  # names that say nothing about the order
        entries = entries | {"order_known": "=false"}
    numbers = sorted({float(value.removesuffix("%")) for value in values if NUMERAL.fullmatch(value.removesuffix("%"))})
    counted = sum(n for value, n in values.items() if NUMERAL.fullmatch(value.removesuffix("%")))
    if counted >= KNOWN * values.total():
        return _of_numbers(name, numbers, entries, shown)
    options = _guesses(name, values, entries, shown)
    if len(values) > FEW or sum(n for value, n in values.items() if _BRACKETS.search(value)) >= KNOWN * values.total():
        options = [("if it holds the judge's words", entries | {"reply": name})]
    return Refusal(
        f"{name} contains {most_common(values)}, which names neither a position nor a candidate", tuple(options)
    )


def _guesses(
    name: str, values: Counter[str], entries: Entries, shown: tuple[str, str, int]
) -> list[tuple[str, Entries]]:
    """Return the interpretations of verdicts with one or two unknown words; one with dots to fill in if more."""
    sides = {value: side for value, _ in values.most_common(_MOST_WORDS) if (side := side_of(value)) is not None}
    other = [value for value, _ in values.most_common(_MOST_WORDS) if value not in sides]

    def option(assumption: str, meanings: Mapping[str, str]) -> tuple[str, Entries]:
        return assumption, entries | {"winner": {"field": name, "values": {**sides, **meanings}}}

    if len(other) == 1 and {"first", "second"} <= set(sides.values()) and "tie" not in sides.values():
        return [option(f"if {other[0]} is a tie", {other[0]: "tie"})]
    if len(other) == 2 and not {"first", "second"} & set(sides.values()):
        one, two = other
        return [option(f"if {one} is {shown[0]} and {two} is {shown[1]}", {one: "first", two: "second"}),
                option(f"if {two} is {shown[0]} and {one} is {shown[1]}", {one: "second", two: "first"})]  # fmt: skip
    return [option("with first, second or tie for dots", dict.fromkeys(other, "…"))]


def _of_numbers(name: str, numbers: Sequence[float], entries: Entries, shown: tuple[str, str, int]) -> Refusal:
    low, high = numbers[0], numbers[-1]
    if not all(number.is_integer() for number in numbers) or high > FEW or -low > FEW:
        return _of_shares(name, _ends(low, high), entries, shown)
    ranks = [int(number) for number in numbers]
    readings, reason = _readings(ranks, *shown[:2])
    options = [
        (words, entries | {"winner": {"field": name, "values": {str(k): side for k, side in sides.items()}}})
        for words, sides in readings
    ]
    return Refusal(f"{name} {reason}", tuple(options))


def _ends(low: float, high: float) -> tuple[float, float]:
    """Return the first usual range that contains the numbers, else their own minimum and maximum."""
    usual = ((0, 1), (1, 2), (-1, 1), (0, 100))
    return next(((least, most) for least, most in usual if least <= low and high <= most), (low, high))


def _readings(ranks: Sequence[int], first: str, second: str) -> tuple[list[tuple[str, dict[int, str]]], str]:
    """Return the interpretations of a few whole numbers as verdicts on two sides, and what is unclear about them."""
    if set(ranks) <= {0, 1}:
        flags = [
            ("counted from 0", {0: "first", 1: "second"}),
            ("1 means that the first wins", {0: "second", 1: "first"}),
        ]
        return flags, "is 0 or 1, which may be positions or flags"
    if set(ranks) <= {0, 1, 2} and 0 in ranks:
        from_0 = {0: "first", 1: "second", 2: "tie"}
        counts = [("counted from 0", from_0), ("0 is a tie", {0: "tie", 1: "first", 2: "second"})]
        return counts, "is 0, 1 or 2, which may be counted from 0 or have 0 for a tie"
    end = max(-ranks[0], ranks[-1])
    places = range(-end, end + 1) if ranks[0] < 0 else range(min(ranks[0], 1), max(ranks[-1], 2) + 1)
    middle = (places[0] + places[-1]) / 2
    rising = {at: "tie" if at == middle else "first" if at < middle else "second" for at in places}
    falling = {at: {"first": "second", "second": "first"}.get(side, side) for at, side in rising.items()}
    readings = [(f"if {places[0]} is {first} and {places[-1]} is {second}", rising),
                (f"if {places[0]} is {second} and {places[-1]} is {first}", falling)]  # fmt: skip
    if list(places) == [1, 2, 3]:
        readings.append(("if 3 is a tie", {1: "first", 2: "second", 3: "tie"}))
    if list(places) == [1, 2]:
        readings[1] = ("counted from 0, and 2 is a tie", {0: "first", 1: "second", 2: "tie"})
    if set(ranks) == {-1, 0, 1}:
        readings.append(("counted from 0, and -1 is a tie", {0: "first", 1: "second", -1: "tie"}))
    return readings, f"ranges from {ranks[0]} to {ranks[-1]}, and it is unclear which end stands for which candidate"


def _of_shares(name: str, ends: tuple[float, float], entries: Entries, shown: tuple[str, str, int]) -> Refusal:
    """Refuse a column of numbers that may be the probability of either candidate, with both interpretations."""
    low, high = (f"{end:g}" for end in ends)
    first: Any = name if ends == (0, 1) else {"field": name, "values": {low: "0", high: "1"}}
    second = {"field": name, "values": {low: "1", high: "0"}}
    options = [(f"the probability of {shown[0]}", entries | {"p_first": first}),
               (f"the probability of {shown[1]}", entries | {"p_first": second})]  # fmt: skip
    if ends == (1, 2):  # as AlpacaEval counts
        options.reverse()
    return Refusal(f"{name} ranges from {low} to {high}, and it is unclear for which candidate", tuple(options))


def most_common(values: Counter[str]) -> str:
    """Return the most common values of a column, for a message."""
    return ", ".join(value if len(value) <= 30 else f"{value[:30]}…" for value, _ in values.most_common(4))
