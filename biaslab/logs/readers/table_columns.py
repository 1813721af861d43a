"""Recognise the columns of a table by usual names: verdicts, scores, items and covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.rows import NUMERAL, Rows, Source

KNOWN = 0.9
"""Share of the values of a column that must be understood."""

FEW = 20
"""Different verdicts, prompts or data sets; more are texts."""

_OTHERS = named.VERDICT | named.SCORE | named.HUMAN | named.TEXT | named.SYSTEM | named.ATTRIBUTES
GIVEN_OUTCOMES = frozenset({"winner", "p_first", "score", "reply"})


@dataclass(frozen=True)
class TableReading:
    """The roles of a table's columns.

    Parameters
    ----------
    entries : tuple of dict
        A mapping for each judge or attribute that has a column of its own.
    told : str
        How it is read, in one line.
    """

    entries: tuple[Entries, ...]
    told: str

    def read(self, rows: Rows, source: Source, given: Mapping[str, Any]) -> pd.DataFrame:
        """Return the trials of every column of verdicts or scores; what the user maps goes before."""
        parts = [read_mapped(rows, source, {**entries, **given}) for entries in self.entries]
        return parts[0] if len(parts) == 1 else pd.concat(parts)


@dataclass
class Table:
    """The columns of some records, and what is known of them."""

    rows: Rows
    given: Mapping[str, Any]
    names: list[str] = field(default_factory=list)
    columns: dict[str, list[str | None]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = list(dict.fromkeys(name for record in self.rows.records[:50] for name in record))
        for name in self.names:
            values = [written(record.get(name)) for record in self.rows.records]
            self.columns[name] = [None if value is None or not value.strip() else value.strip() for value in values]

    def present(self, name: str) -> list[str]:
        """Return what a column holds, without empty cells."""
        return [value for value in self.columns[name] if value is not None]

    def distinct(self, name: str) -> int:
        """Return how many different values a column holds."""
        return len(set(self.present(name)))

    def is_numeric(self, name: str) -> bool:
        """Return whether a column holds numbers, nearly throughout."""
        values = self.present(name)
        return bool(values) and sum(NUMERAL.fullmatch(value) is not None for value in values) >= KNOWN * len(values)


def context_of(table: Table) -> str | None:
    """Return the column that tells items apart: not one that is the same in all rows, nor a number of the row."""
    if "context_id" in table.given:
        return "context_id" if "context_id" in table.names else str(table.given["context_id"])
    possible = named.first_named(table.names, named.CONTEXT)
    if len(table.rows.records) > 1:
        possible = [name for name in possible if table.distinct(name) > 1]
    texts = [name for name in possible if name.lower() not in ("id", "idx", "uid")]
    return next(iter([*texts, *possible]), None)


def no_context(table: Table, entries: Entries) -> Refusal:
    """Return the refusal of a table without a column of questions."""
    rest = [name for name in table.names if name not in entries.values()]
    known = (name for name in rest if table.distinct(name) > 1 and not set(named.tokens(name)) & _OTHERS)
    option = (("with the field that tells the items apart", {"context_id": next(known, "FIELD")}),)
    return Refusal(f"no column is called as what was judged is (question, prompt, …), among {', '.join(rest)}", option)


def beside(table: Table, condition: str) -> Entries:
    """Return judge, data set, replicate and prompt, where the table has them."""
    entries: Entries = {}
    for column, names in (
        ("judge", named.JUDGE),
        ("dataset", named.DATASET),
        (condition, named.TEMPLATE),
        ("replicate", named.REPLICATE),
    ):
        known = [name for name in named.first_named(table.names, names) if table.present(name)]
        if column == "replicate":
            known = [name for name in known if all_numbers(table.present(name))]
        elif column != "judge":
            known = [name for name in known if table.distinct(name) <= FEW]
        if known:
            entries[column] = known[0]
            if column == "judge":
                table.told.append(f"judge = {known[0]}")
    return entries


def judge_name(column: str) -> str:
    """Return the judge after whom a column of verdicts or scores is called."""
    words = column
    for word in sorted(named.VERDICT | named.SCORE, key=len, reverse=True):
        for end in (f"_{word}", f" {word}", f"-{word}"):
            words = words.removesuffix(end)
    return words


def all_numbers(values: Sequence[str]) -> bool:
    """Return whether all values are numerals."""
    return all(NUMERAL.fullmatch(value) is not None for value in values)
