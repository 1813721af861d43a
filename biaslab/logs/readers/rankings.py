"""Lists of candidates ranked in one prompt: ``candidates, ranking`` and the question.

``candidates`` names them in the order shown. ``ranking`` orders them from best to worst: a list of names or positions
(from 1), AlpacaEval's objects ``{"model": …, "rank": 1}``, or a text such as ``[2] > [1] > [3]``. If each candidate of
a list was shown equally often in each position, its trials are those of `biaslab.probes.ListPosition`. Other lists,
such as those in a single order, are informative about position only if their order was random
(`biaslab.logs.audit.one_list`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.core import Status
from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.field_values import read_value
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.protocols import list_protocol

FIELDS = frozenset({"candidates", "ranking"})
_BALANCED, _OTHERS = "list_position", "one_list"  # the probe and the measure that read these trials
_LEAST, _MOST = 2, 20
_COLUMNS = ("probe", "context_id", "candidate_id", "judge", "attribute", "replicate", "value", "status", "reply")
_OF_LISTS = ("k", "list_order", "place")  # columns that only trials of lists have
_NAMES = ("model", "name", "candidate", "id")  # fields that name the candidate in an object with a rank
Ranking = tuple[tuple[float, ...], Status]


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return one trial per position in each list, with the rank as value."""
    context = _context(rows)
    judge, attribute = rows.take("judge", "id", "unknown"), rows.take("attribute", "id", "overall")
    replicate = rows.take("replicate", "number", 0)
    shown = [_names(value) for value in rows.values("candidates")]
    rows.refuse(
        pd.Series([names is None for names in shown], dtype=bool), "candidates is not a list of different names"
    )
    lists = [
        (context[at], judge[at], attribute[at], replicate[at], frozenset(names or ())) for at, names in enumerate(shown)
    ]
    unbalanced = _unbalanced(lists, shown)
    orders: dict[tuple[Any, ...], dict[tuple[str, ...], int]] = {}
    values: list[tuple[Any, ...]] = []
    places: list[tuple[int, ...]] = []
    for at, (names, ranking) in enumerate(zip(shown, rows.values("ranking"), strict=True)):
        if names is None or not rows.good[at]:
            continue
        known = orders.setdefault(lists[at], {})
        number = known.setdefault(names, len(known))
        ranks, status = _ranks(ranking, names)
        read_ = (status, ranking if isinstance(ranking, str) else None)
        about = (judge[at], attribute[at], int(replicate[at]))
        for place, (name, rank) in enumerate(zip(names, ranks, strict=True), start=1):
            values.append((at, _OTHERS if unbalanced[at] else _BALANCED, context[at], name, *about, rank, *read_))
            places.append((len(names), number, place))
    trials = trials_of_several(values, _COLUMNS)
    columns = {name: [row[at] for row in places] for at, name in enumerate(_OF_LISTS)}
    return trials.assign(**columns, ranked=1)


def _context(rows: Rows) -> pd.Series:
    """Return the question, from the first field with a common name for it."""
    fields = list(dict.fromkeys(str(name) for record in rows.records for name in record))
    usual = named.first_named(fields, named.CONTEXT)
    return rows.take(usual[0] if usual else named.CONTEXT[0], "id")


def _names(value: Any) -> tuple[str, ...] | None:
    """Return the names of the candidates; None if they are not a list of 2 to 20 different names."""
    if not isinstance(value, list):
        return None
    names = [read_value(each, "id") for each in value]
    good = None not in names and len(set(names)) == len(names) and _LEAST <= len(names) <= _MOST
    return tuple(map(str, names)) if good else None


def _unbalanced(lists: Sequence[tuple[Any, ...]], shown: Sequence[tuple[str, ...] | None]) -> list[bool]:
    """Return, for each record, whether the positions of its candidates are unbalanced."""
    seen: dict[tuple[Any, ...], dict[tuple[str, ...], None]] = {}
    for key, names in zip(lists, shown, strict=True):
        if names is not None:
            seen.setdefault(key, {})[names] = None
    uneven = set()
    for key, orders in seen.items():
        counts = Counter((place, name) for names in orders for place, name in enumerate(names))
        k = len(next(iter(orders)))
        if len(orders) % k or set(counts.values()) != {len(orders) // k} or len(counts) != k * k:
            uneven.add(key)
    return [key in uneven for key in lists]


def _ranks(ranking: Any, names: tuple[str, ...]) -> Ranking:
    """Return the rank of each candidate in the order shown, and the status."""
    if isinstance(ranking, str):
        return list_protocol(ranks=True).parse_list(ranking, len(names))
    unread: Ranking = ((math.nan,) * len(names), "unparsable")
    if not isinstance(ranking, list) or not ranking:
        return unread
    if all(isinstance(each, Mapping) for each in ranking):
        ranking = _by_rank(ranking)
    best_first = [_name(each, names) for each in ranking or ()]
    if not best_first:
        return unread
    if len(set(best_first)) < len(best_first):
        return unread[0], "repeated"
    if not set(best_first) <= set(names):
        return unread[0], "invented"
    if len(best_first) < len(names):
        return unread[0], "incomplete"
    return tuple(float(best_first.index(name) + 1) for name in names), "ok"


def _by_rank(entries: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """Return the names in objects with ranks, best first; None if the ranks are not 1 to n."""
    ranks = [read_value(entry.get("rank", ""), "number") for entry in entries]
    if sorted(rank for rank in ranks if rank is not None) != list(range(1, len(ranks) + 1)):
        return None
    who = [next((entry[name] for name in _NAMES if name in entry), None) for entry in entries]
    return [who[ranks.index(rank)] for rank in range(1, len(ranks) + 1)]


def _name(value: Any, names: tuple[str, ...]) -> str:
    """Return the candidate with this name or, failing that, in this position."""
    name = read_value(value, "id")
    if name in names or name is None:
        return str(name)
    place = int(name) if name.isascii() and name.isdigit() and len(name) < 3 else 0
    return names[place - 1] if 0 < place <= len(names) else name
