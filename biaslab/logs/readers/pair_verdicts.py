"""Find the verdict columns of tables of pairs, and interpret their values."""

from __future__ import annotations

from collections import Counter
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.field_values import NUMERAL, is_no_value
from biaslab.logs.readers.pairs_of_columns import OUTCOMES, says_who_wins
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import FEW, KNOWN, Table, fields_of, mostly_sides
from biaslab.logs.readers.unclear_verdicts import most_common, unclear
from biaslab.logs.readers.verdict_words import meanings, side_of
from biaslab.logs.readers.winning_flags import is_alone, sides_of_flag

#: Words in names of columns that accompany a verdict.
_BESIDE = {"reason", "reasons", "reasoning", "rationale", "explanation", "comment", "confidence", "strength", "why",
           "justification", "raw", "time", "count", "type", "prompt", "statement", "elaboration"}  # fmt: skip
_ABOUT = {"id", "agent", "status", "user", "version", "at", "model"}  # other fields of an object with a verdict
_REPLIES = {"raw", "reply", "output", "completion", "evaluation", "review", "judge", "critique", "explanation"}
_LONG = 10  # mean characters above which texts may be replies
_MOST_WORDS, _LONGEST = 6, 20  # verdicts, and characters of one that may mean a tie
_FROM_0_OR_TIES = {"0", "1", "2"}  # places in a list counted from 0, with 2 for a tie, or from 1, with 0 for a tie
_NUMBERS_OF_SIDES = {"-1", "0", "1", "2"}


def verdict_columns(table: Table, entries: Entries, shown: tuple[str, str, int]) -> tuple[list[str], list[str]]:
    """Return the columns of verdicts by judges, and those of verdicts by people.

    A column counts as one by its name, because its values name sides, or because it says whether one side wins.
    """
    taken = {*fields_of(entries), *table.used}
    verdicts: list[str] = []
    people: list[str] = []
    unread: list[str] = []
    flags = _flags_of_sides(table, shown)
    beside_texts = {
        name for *pair, place in named.find_pairs(table.names).values() if place == named.CHOSEN for name in pair
    }
    for name in table.names:
        words = set(named.tokens(name))
        if "judge" in words:
            words -= {"reference", "user"}
        if name not in taken and (name in flags or (shown[2] == named.CHOSEN and says_who_wins(table, name))):
            (people if words & named.HUMAN else verdicts).append(name)
            continue
        if name in taken or name in beside_texts or _is_about(name, words) or _is_flag_of_ties(table, name):
            continue
        is_verdict = bool(words & named.VERDICT) or name.lower() == "gold"
        if not table.present(name) or (table.distinct(name) > FEW and not _names_systems(words)):
            continue
        sides = mostly_sides(table, name) or _names_both(table, name)
        if (words & named.HUMAN or named.beside_a_person(table.names, name)) and (
            is_verdict or sides or _names_candidates(table, name, entries) or _has_side_numbers(table, name, words)
        ):
            people.append(name)
        elif sides:
            verdicts.append(name)
        elif is_verdict:
            verdicts.append(name)
            if not any(map(side_of, table.present(name))):
                unread.append(name)
    plain = [name for name in verdicts if name not in unread]
    words_only = [name for name in unread if not table.is_numeric(name) and not _names_candidates(table, name, entries)]
    return ([name for name in verdicts if name not in words_only] if plain else verdicts), people


def _flags_of_sides(table: Table, shown: tuple[str, str, int]) -> list[str]:
    """Return the columns that say whether one side wins; a single one of 0 and 1 may be a probability."""
    flags = [name for name in table.names if sides_of_flag(table, name, shown) is not None and is_alone(table, name)]
    judged = [name for name in flags if not set(named.tokens(name)) & named.HUMAN]
    if shown[2] != named.CHOSEN and len(judged) == 1 and table.is_numeric(judged[0]):
        flags.remove(judged[0])
    return flags


def _is_about(name: str, words: set[str]) -> bool:
    """Return whether a column's name suggests a companion of a verdict: an order, a reason, one side, an index."""
    side = bool(words & {"a", "b"}) and len(words) > 1
    within = "." in name and bool(set(named.tokens(name.rpartition(".")[2])) & _ABOUT)
    return bool(words & (named.ORDER | _BESIDE)) or side or within or name.endswith("#")


def _has_side_numbers(table: Table, name: str, words: set[str]) -> bool:
    """Return whether a column named only after a person, such as ``annotator1``, contains numbers of sides."""
    plain = all(word in named.HUMAN or word.isdigit() for word in words)
    return plain and table.distinct(name) > 1 and set(table.present(name)) <= _NUMBERS_OF_SIDES


def _names_both(table: Table, name: str) -> bool:
    """Return whether a column's few values name both sides, with a single further value, which may mean a tie."""
    values = set(table.present(name))
    sides = {value: side_of(value) for value in values}
    others = [value for value, side in sides.items() if side is None]
    both = {"first", "second"} <= set(sides.values()) and not table.is_numeric(name)
    return both and len(others) == 1 and len(values) <= _MOST_WORDS and len(others[0]) <= _LONGEST


def of_verdict(table: Table, name: str, entries: Entries, shown: tuple[str, str, int]) -> Entries | str | Refusal:
    """Return the expression that reads a column of verdicts, or a refusal if they are ambiguous."""
    if (flag := sides_of_flag(table, name, shown)) is not None and is_alone(table, name):
        return {"field": name, "values": flag}
    values = Counter(value for value in table.present(name) if side_of(value) is not None or not is_no_value(value))
    values = values or Counter(table.present(name))
    candidates = {*table.present(shown[0]), *table.present(shown[1])}
    by_name = sum(n for value, n in values.items() if value in candidates or side_of(value) == "tie")
    sides = None if shown[0].endswith(".0") and set(values) >= _FROM_0_OR_TIES else meanings(values, shown[2])
    by_side = 0 if sides is None else sum(n for value, n in values.items() if sides.get(value))
    total = sum(values.values())
    if by_name >= KNOWN * total and any(value in candidates for value in values):
        if by_side >= KNOWN * total and sides is not None and any(s in ("first", "second") for s in sides.values()):
            as_side: Entries = entries | {"winner": {"field": name, "values": sides}}
            options = (("as places", as_side), ("as names of candidates", entries | {"winner": name}))
            return Refusal(f"{name} may name a position or a candidate ({most_common(values)})", options)
        tied = {value: "tie" for value in values if value not in candidates and side_of(value) == "tie"}
        if set(tied) - {"tie"}:
            return {"field": name, "values": {value: value for value in sorted(candidates & set(values))} | tied}
        return name
    columns = _sides_by_name(values, shown, entries)
    if sides is not None or columns:
        sides = {value: side for value in values if (side := columns.get(value) or (sides or {}).get(value))}
        known = sum(n for value, n in values.items() if value in sides)
        if known >= KNOWN * total and set(sides.values()) - {"tie"}:
            return {"field": name, "values": dict(sorted(sides.items()))}
    return unclear(name, values, entries, shown)


def reply_columns(table: Table, entries: Entries) -> list[str]:
    """Return the columns that may contain a judge's replies."""
    taken = {*fields_of(entries), *table.used}
    return [
        name
        for name in table.names
        if name not in taken and set(named.tokens(name)) & (named.VERDICT | _REPLIES)
        and not table.is_numeric(name) and sum(map(len, table.present(name))) > _LONG * len(table.present(name)) > 0
    ]  # fmt: skip


def _is_flag_of_ties(table: Table, name: str) -> bool:
    return bool({"tie", "ties", "draw"} & set(named.tokens(name))) and is_measure(table, name)


def _names_systems(words: set[str]) -> bool:
    return bool(words & {"winner", "preferred", "preference", "better", "best", "chosen"})


def _names_candidates(table: Table, name: str, entries: Entries) -> bool:
    names = {value for column in fields_of(entries) if column in table.columns for value in table.present(column)}
    names |= {str(entries.get(which, "")).removeprefix("=") for which in ("candidate_id", "opponent_id")}
    values = table.present(name)
    return 2 * sum(value in names for value in values) >= len(values)


def _sides_by_name(values: Counter[str], shown: tuple[str, str, int], entries: Entries) -> dict[str, str]:
    """Return the meaning of values that repeat the names of the two columns, or of the systems in these names."""
    meant = ("candidate", "opponent") if shown[2] == named.CHOSEN else ("first", "second")
    called: dict[str, str] = dict(OUTCOMES) if shown[2] == named.CHOSEN else {}
    for name, which, side in zip(shown[:2], ("candidate_id", "opponent_id"), meant, strict=True):
        system = str(entries[which])
        called |= {name.lower(): side}
        called |= {system[1:].lower(): system[1:]} if system.startswith("=") else {}
    sides = {value: called[value.lower()] for value in values if value.lower() in called}
    ties = {value: "tie" for value in values if side_of(value) == "tie"}
    return ties | sides if sides else {}


def is_measure(table: Table, name: str) -> bool:
    """Return whether all values of a column are numbers or flags."""
    values = table.present(name)
    return bool(values) and all(measure_of(value) is not None for value in values)


def measure_of(text: str) -> Any:
    """Return a number, with 1 and 0 for true and false or yes and no; None for other texts."""
    word = text.lower()
    return {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}.get(
        word, float(text) if NUMERAL.fullmatch(text) else None
    )
