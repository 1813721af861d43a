"""Recognise the columns of a table by common names: verdicts, scores, items and covariates."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from biaslab.core.errors import InputError
from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import parse_expression, whole, written
from biaslab.logs.readers.field_values import NUMERAL, is_no_value, keyed
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.rows import Rows, Source
from biaslab.logs.readers.verdict_words import side_of

KNOWN = 0.9
"""Minimum share of a column's values that must be interpretable."""

FEW = 20
"""Maximum number of different verdicts, prompts or data sets; columns with more are texts."""

GIVEN_OUTCOMES = frozenset({"winner", "p_first", "score", "reply"})
_HOLD_JUDGES = named.JUDGES | named.VERDICT | named.SCORE | {"votes", "results", "evaluations", "evals"}
_DEEPEST, _MOST = 6, 200  # maximum depth of nested objects, and maximum number of columns
_IN_LISTS = (1, 2)  # lengths of lists whose items become columns: one object, or two candidates
_TURN = frozenset(["role", "content"])  # fields of a turn in a conversation, which counts as a text
_DIFFERENT = 0.05  # share of identifiers that may have several texts by mistake
#: Words in names of numeric columns that are not judgements.
COUNTS = frozenset(["scale", "max", "min", "count", "length", "len", "tokens", "words", "chars", "id", "idx", "norm",
                    "normalized", "index", "latency", "cost", "price", "time", "timestamp", "tstamp", "duration",
                    "seconds", "ms", "num", "temperature", "seed", "version", "year", "step", "turn", "confidence",
                    "threshold", "unnamed", "elo", "replicate", "run", "trial", "rep"])  # fmt: skip


@dataclass(frozen=True)
class TableReading:
    """How to read a table.

    Parameters
    ----------
    entries : tuple of dict
        One mapping per judge or attribute column.
    note : str
        One-line description of the interpretation.
    """

    entries: tuple[Entries, ...]
    note: str

    def read(self, rows: Rows, source: Source, mapping: Mapping[str, Any]) -> pd.DataFrame:
        """Return the trials of every column of verdicts or scores; the user's mapping takes precedence."""
        parts = [read_mapped(rows, source, {"judge": "=unknown", **entries, **mapping}) for entries in self.entries]
        return parts[0] if len(parts) == 1 else pd.concat(parts)


@dataclass
class Table:
    """The columns of some records, with notes on their interpretation.

    Fields of nested objects are columns named by their path, such as ``judgment.score``.
    """

    rows: Rows
    given: Mapping[str, Any]
    names: list[str] = field(default_factory=list)
    columns: dict[str, list[str | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    own_scales: dict[str, str] = field(default_factory=dict)  # scales of columns that differ from the common one
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        paths = dict.fromkeys(_paths(list(self.rows.records[:50])))
        self.names = [path for path in paths if path][:_MOST]  # a column without a name cannot be mapped
        for name in self.names:
            context = bool(named.first_named([name], named.CONTEXT) or set(named.tokens(name)) & named.CONVERSATIONS)
            values = [written(keyed(v) if context or _is_conversation(v) else v) for v in self.rows.values(name)]
            self.columns[name] = [None if value is None or not value.strip() else whole(value) for value in values]
        self.used = set(fields_of(self.given))

    def present(self, name: str) -> list[str]:
        """Return the non-empty values of a column."""
        return [value for value in self.columns[name] if value is not None]

    def valued(self, name: str) -> list[str]:
        """Return the values of a column without those that mean "none", unless these are more than half."""
        values = self.present(name)
        stated = [value for value in values if not is_no_value(value)]
        return stated if 2 * len(stated) >= len(values) else values

    def distinct(self, name: str) -> int:
        """Return the number of different values in a column."""
        return len(set(self.present(name)))

    def is_numeric(self, name: str) -> bool:
        """Return whether nearly all values of a column are numbers."""
        values = self.valued(name)
        return bool(values) and sum(NUMERAL.fullmatch(value) is not None for value in values) >= KNOWN * len(values)

    def is_within(self, name: str, *others: str) -> bool:
        """Return whether a column has a single value, with few exceptions, for each combination of others' values."""
        seen: dict[tuple[str | None, ...], set[str]] = defaultdict(set)
        for value, *key in zip(self.columns[name], *(self.columns[other] for other in others), strict=True):
            if value is not None and None not in key:
                seen[tuple(key)].add(value)
        return sum(len(values) > 1 for values in seen.values()) <= _DIFFERENT * len(seen)

    def note_unused(self, entries: Sequence[Entries]) -> None:
        """Note the numeric columns that no mapping uses, because they may be judgements."""
        used = {name for each in entries for name in fields_of(each)} | self.used
        left = [
            name
            for name in self.names
            if name not in used
            and not name.endswith("#")  # the place in a list
            and not set(named.tokens(name)) & COUNTS
            and not named.first_named([name], named.CONTEXT)
            and self.distinct(name) > 1
            and self.is_numeric(name)
        ]
        if left:
            self.notes.append(f"left aside: {', '.join(left)}")


def fields_of(mapping: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that a mapping names."""
    for name, expression in mapping.items():
        try:
            fields = parse_expression(name, expression).fields
        except InputError:  # raised again where the mapping is read
            continue
        yield from fields
        yield from (part.strip() for each in fields if "," in each for part in each.split(","))


def _paths(values: Sequence[Any], path: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the field names of objects, and the paths of fields in nested objects and in lists of the same length."""
    names = dict.fromkeys(str(name) for value in values for name in value)
    for name in names:
        inner = [value[name] for value in values if value.get(name) is not None]
        objects = [item for item in inner if isinstance(item, dict) and item]
        if objects and len(objects) == len(inner) and all(set(item) >= _TURN for item in objects):
            yield f"{path}{name}.content"  # a message; its other fields give the author
            continue
        deeper = depth < _DEEPEST and ("." not in name or named.is_model(name))
        if not objects or not deeper or any(map(_is_opaque, objects)):
            yield f"{path}{name}"
        else:
            yield from (() if len(objects) == len(inner) else (f"{path}{name}",))
            yield from _paths(objects, f"{path}{name}.", depth + 1)
        if deeper and inner and (size := _length(inner)):
            yield from _list_paths(inner, f"{path}{name}.", size, depth + 1)


def _is_conversation(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(turn, dict) and set(turn) >= _TURN for turn in value)
    )


def _is_opaque(item: Mapping[str, Any]) -> bool:
    """Return whether keys of an object have points, which paths cannot hold, unless they are models such as gpt-4.1."""
    return any("." in str(key) and not named.is_model(str(key)) for key in item)


def _length(values: Sequence[Any]) -> int:
    """Return the shared length of lists of objects, or of two texts; 0 for other values and for conversations."""
    if not all(isinstance(value, list) for value in values):
        return 0
    lengths = {len(value) for value in values}
    items = [item for value in values for item in value]
    objects = all(isinstance(item, dict) and item and not set(item) >= _TURN for item in items)
    if objects and lengths == {2} and set(items[0]) & set(named.JUDGE):  # two judgements, and not two candidates
        return 0
    texts = lengths == {2} and all(isinstance(item, str) for item in items)
    return lengths.pop() if len(lengths) == 1 and lengths <= set(_IN_LISTS) and (objects or texts) else 0


def _list_paths(values: Sequence[list[Any]], path: str, size: int, depth: int) -> Iterator[str]:
    for place in range(size):
        items = [value[place] for value in values]
        if isinstance(items[0], dict):
            yield from _paths(items, f"{path}{place}.", depth)
        else:
            yield f"{path}{place}"


def is_called(name: str) -> bool:
    """Return whether a column's name says that it is an identifier, a question, a count, an order or a person's."""
    words = set(named.tokens(name))
    if name.endswith("#"):  # the place in a list
        return True
    return bool(words & (COUNTS | named.HUMAN | named.ORDER)) or bool(named.first_named([name], named.CONTEXT))


def shared_entries(table: Table, condition: str) -> Entries:
    """Return the mapping of judge, data set, prompt (the column `condition`) and replicate, if the table has them."""
    entries: Entries = {}
    for column, names in (
        ("judge", named.JUDGE),
        ("dataset", named.DATASET),
        (condition, named.TEMPLATE),
        ("replicate", named.REPLICATE),
    ):
        known = [name for name in named.first_named(table.names, names) if table.present(name)]
        if column == "judge" and not known:
            known = [name for name in table.names if named.like_judge(name) and table.present(name)]
        if column == "replicate":
            known = [name for name in known if all_numbers(table.present(name))]
        elif column == "judge":
            known = [name for name in known if not is_outcome(table, name)]
        else:
            known = [name for name in known if table.distinct(name) <= FEW]
        if known and known[0] not in table.used:
            entries[column] = known[0]
            if column == "judge":
                table.notes.append(f"judge = {known[0]}")
    return entries


def judged_by_people(table: Table, entries: Entries) -> Refusal | None:
    """Ask whether judges with the names of people, such as ``"expert_3"``, are to be audited; None for others."""
    name = entries.get("judge")
    if name is None or "judge" in table.given:
        return None
    values = sorted(set(table.present(name)))
    people = [value for value in values if set(named.tokens(value)) & (named.HUMAN | named.PERSONS)]
    if 2 * len(people) <= len(values) or any(map(named.is_model, people)):
        return None
    reason = f"{name} names people ({', '.join(people[:3])}{', …' if len(people) > 3 else ''})"
    one = ("if they are to be audited together, as one judge", {"judge": "=people"})
    return Refusal(reason, (("if they are to be audited as judges", {"judge": name}), one))


def people_or_judges(table: Table) -> Refusal | None:
    """Ask whether a column of people names judges; None if there is no such column, or if it is mapped."""
    people = [name for name in named.first_named(table.names, named.PEOPLE) if table.distinct(name) > 1]
    if not people or people[0] in table.used:
        return None
    return Refusal(f"{people[0]} may be people or judges", ((f"each {people[0]} is a judge", {"judge": people[0]}),))


def is_outcome(table: Table, name: str) -> bool:
    """Return whether a column named like a judge contains its verdicts: sides, or numbers."""
    return mostly_sides(table, name) or (table.is_numeric(name) and table.distinct(name) > 1)


def mostly_sides(table: Table, name: str) -> bool:
    """Return whether nearly all values of a column name a side or a tie, in words or letters."""
    values = table.present(name)
    if not values or all_numbers(values) or set(values) <= {"x", "y"}:  # x and y may be names of anything
        return False
    sides = [side_of(value) for value in values]
    return sum(side is not None for side in sides) >= KNOWN * len(values) and bool({"first", "second"} & {*sides})


def judge_name(column: str) -> str:
    """Return the judge in the name of a column of verdicts or scores.

    >>> judge_name("gpt-4o_coherence_score"), judge_name("verdict (claude)"), judge_name("score")
    ('gpt-4o', 'claude', 'score')
    >>> judge_name("votes.gpt-4.1"), judge_name("judges.strict.verdict")
    ('gpt-4.1', 'strict')
    """
    head, dot, tail = column.partition(".")
    words = tail if dot and set(named.tokens(head)) & _HOLD_JUDGES else column
    known = "|".join(sorted(named.VERDICT | named.SCORE | named.ATTRIBUTES, key=len, reverse=True))
    while True:
        rest = re.sub(rf"(?:^|[\s_./:-])(?:{known})$|^(?:{known})[\s_./:-]+", "", words, flags=re.IGNORECASE)
        rest = rest.strip(" _./:-()[]")
        if rest == words or not rest:
            return words
        words = rest


def all_numbers(values: Sequence[str]) -> bool:
    """Return whether all values are numbers."""
    return all(NUMERAL.fullmatch(value) is not None for value in values)
