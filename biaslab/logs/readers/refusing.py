"""Refuse a table that cannot be read by itself with what would read it: a mapping made of its own fields."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import written

Entries = dict[str, Any]
_SHOWN = 3  # example rows
_LONG = 30  # characters; a longer verdict is a text that holds it
_LONGEST = 160  # characters of each
_QUOTED = set(" |<>&;()$`\"'*?[]#~\\!")  # what a shell would change


@dataclass(frozen=True)
class Refusal:
    """Why a table is not read without a mapping, and the mappings that would read it.

    Parameters
    ----------
    reason : str
        What could not be told.
    options : tuple of (str, dict)
        What each reading takes for granted, and its mapping; dots stand for what only the user knows.
    """

    reason: str
    options: tuple[tuple[str, Entries], ...] = ()

    def lines(self) -> list[str]:
        """Return the reason and, for each reading, what to put on the command line."""
        return [self.reason, *(f"{said}: {map_line(entries)}" for said, entries in self.options)]


def map_line(entries: Mapping[str, Any]) -> str:
    """Return a mapping as it is put on a command line.

    Examples
    --------
    >>> map_line({"context_id": "q", "winner": {"field": "w", "values": {"A": "first", "B": "second"}}})
    '--map context_id=q --map "winner=w | A -> first, B -> second"'
    """
    return " ".join(f"--map {_quoted(name, expression)}" for name, expression in entries.items())


def _quoted(name: str, expression: Any) -> str:
    if isinstance(expression, Mapping) and "fields" in expression:
        expression = ", ".join(expression["fields"])
    elif isinstance(expression, Mapping):
        said = ", ".join(f"{value} -> {meaning}" for value, meaning in expression["values"].items())
        expression = f"{expression['field']} | {said}"
    text = f"{name}={expression}"
    return text if not set(text) & _QUOTED else '"' + text.replace('"', '\\"') + '"'


def suggestion(records: Sequence[Mapping[str, Any]]) -> Refusal:
    r"""Return the mapping that is nearest to the fields of some records, with dots for what they do not have.

    Examples
    --------
    >>> print("\n".join(suggestion([{"q": 1, "system": "x", "mark": 3}]).lines()))
    say which fields are context_id, candidate_id, and opponent_id and winner of pairs, or score and scale
    the nearest mapping: --map context_id=q --map candidate_id=system --map score=mark --map scale==LOW-HIGH
    """
    names = list(dict.fromkeys(str(name) for record in records for name in record))
    pairs = {words: pair for words, pair in named.find_pairs(names).items() if "id" not in words}
    candidates = next(iter(pairs.values()), None)
    rest = [name for name in names if candidates is None or name not in candidates]
    context = next(iter([*named.first_named(rest, named.CONTEXT), *rest, "FIELD"]))
    rest = [name for name in rest if name != context]
    if candidates is not None:
        verdict = next((name for name in rest if set(named.tokens(name)) & named.VERDICT), None)
        entries: Entries = {"context_id": context, "candidate_id": candidates[0], "opponent_id": candidates[1]}
        entries |= _outcome(verdict, [written(record.get(verdict)) for record in records] if verdict else [])
    else:
        own = [*named.first_named(rest, named.CANDIDATE), *named.first_named(rest, named.ANSWER)]
        candidate = next(iter([*own, *rest, "FIELD"]))
        score = next((name for name in rest if set(named.tokens(name)) & (named.SCORE | named.ATTRIBUTES)), None)
        entries = {"context_id": context, "candidate_id": candidate, "score": score or "FIELD", "scale": "=LOW-HIGH"}
    said = "say which fields are context_id, candidate_id, and opponent_id and winner of pairs, or score and scale"
    return Refusal(said, (("the nearest mapping", entries),))


def _outcome(verdict: str | None, values: Sequence[str | None]) -> Entries:
    """Return how verdicts are read that name places, or texts that hold them."""
    known = Counter(value for value in values if value)
    sides = {value: side for value in known if (side := named.side_of(value)) is not None}
    if verdict and known and not sides and max(map(len, known)) > _LONG:
        return {"reply": verdict}
    return {"winner": {"field": verdict or "FIELD", "values": sides or {"A": "first", "B": "second", "tie": "tie"}}}


def example_rows(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the first rows as they stand in the file, each on one line and no longer than can be read."""
    return [_brief(record) for record in records[:_SHOWN]]


def _brief(record: Mapping[str, Any]) -> str:
    text = json.dumps({str(name): _cut(value) for name, value in record.items()}, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _cut(value: Any) -> Any:
    return f"{value[:30]}…" if isinstance(value, str) and len(value) > 30 else value
