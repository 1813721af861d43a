"""Ask what the items of lists and objects of verdicts are, such as ``["A", "tie"]``: of judges, or repetitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.field_values import items_in
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import KNOWN, Table
from biaslab.logs.readers.verdict_words import side_of

_SEEN = 50  # records examined
_LONGEST = 30  # maximum characters of a verdict
_RANKS = {"rank", "ranks", "ranking", "rankings", "order"}
_SEVERAL = 2  # scores of an object
_ORDERS = 2  # verdicts in both orders


def refuse_listed(table: Table, outcomes: Sequence[str] = ()) -> Refusal | None:
    """Ask what lists or objects of verdicts hold; None if there are none.

    Parameters
    ----------
    table : Table
        The records, of pairs.
    outcomes : sequence of str
        Columns of verdicts that were found: items of one list or object, or others.
    """
    heads = {name.rpartition(".")[0] for name in outcomes}
    if outcomes:
        return _ask(table, heads.pop()) if len(heads) == 1 and heads != {""} else None
    if "explode" in table.given:
        return None
    names = dict.fromkeys(str(name) for record in table.rows.records[:_SEEN] for name in record)
    free = [name for name in names if name not in table.used and not set(named.tokens(name)) & _RANKS]
    return next((said for name in free if (said := _ask(table, name))), None)


def refuse_listed_scores(columns: Sequence[str]) -> Refusal | None:
    """Ask whether an object of a judge's scores, or of judges, has a score for each judge or for each attribute."""
    heads = {name.rpartition(".")[0] for name in columns}
    head = heads.pop() if len(heads) == 1 else ""
    words = set(named.tokens(head))
    if (
        len(columns) < _SEVERAL
        or not words & named.JUDGES
        or any(named.is_model(name.rpartition(".")[2]) for name in columns)
    ):
        return None
    if any(set(named.tokens(name.rpartition(".")[2])) & named.ATTRIBUTES for name in columns):
        return None
    each = ", ".join(name.rpartition(".")[2] for name in columns[:4])
    options = tuple(
        (f"if each is {what}", {"explode": head, column: f"{head}#", "score": head})
        for what, column in (("a judge", "judge"), ("an attribute", "attribute"))
    )
    return Refusal(f"{head} has a score for each of {each}", options)


def _ask(table: Table, name: str) -> Refusal | None:
    """Ask what the items at a path are; None if they are not verdicts."""
    listed = [items_in(value, table.rows.textual) for value in table.rows.values(name)[:_SEEN] if value is not None]
    given = [items for items in listed if items]
    if not given or len(given) < len(listed) or not all(map(_are_verdicts, given)):
        return None
    options: list[tuple[str, Entries]] = []
    if all(isinstance(key, str) for items in given for key, _ in items):
        keys = list(dict.fromkeys(str(key) for items in given for key, _ in items))
        options += [(f"if {_some(keys)} are judges", _exploded(name, "judge")),
                    (f"if {_some(keys)} are attributes", _exploded(name, "attribute"))]  # fmt: skip
        return Refusal(f"{name} has several verdicts in each record", tuple(options))
    options += [("if each is another judge's", _exploded(name, "judge")),
                ("if they are repetitions by one judge", _exploded(name, "replicate"))]  # fmt: skip
    if not table.rows.textual and {len(items) for items in given} == {_ORDERS}:
        options += _of_orders(name, given)
    return Refusal(f"{name} has a list of verdicts in each record", tuple(options))


def _exploded(name: str, column: str) -> Entries:
    return {"explode": name, column: f"{name}#"}


def _of_orders(name: str, given: Sequence[Sequence[tuple[Any, Any]]]) -> list[tuple[str, Entries]]:
    """Return the reading of two verdicts as those in both orders, if all of them name positions."""
    words = sorted({text for items in given for _, value in items if (text := written(value)) is not None})
    sides = {word: side for word in words if (side := side_of(word)) is not None}
    if len(sides) < len(words):
        return []
    entries: Mapping[str, Any] = {which: {"field": f"{name}.{place}", "values": sides}
                                  for place, which in enumerate(("winner", "winner_swapped"))}  # fmt: skip
    return [("if the second was given in the other order, and names positions as shown in it", dict(entries))]


def _are_verdicts(items: Sequence[tuple[Any, Any]]) -> bool:
    texts = [written(value) for _, value in items]
    short = [text for text in texts if text is not None and 0 < len(text) <= _LONGEST]
    return len(short) >= KNOWN * len(texts) and sum(side_of(text) is not None for text in short) >= KNOWN * len(texts)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
