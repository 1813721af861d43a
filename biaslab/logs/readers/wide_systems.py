"""Split tables in which each system has its own columns of texts and scores into one row per system.

An example is ``question, gpt-4o_answer, gpt-4o_score, llama_answer, llama_score``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.expressions import written
from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.rows import Rows

_FEWEST = 2  # minimum number of systems
_SIDES = {word for sides in named.SIDES for word in sides if not word.isdigit()} | {"c", "d"}
_SEEN = 50  # records examined


def rows_of_systems(rows: Rows, mapping: Mapping[str, Any]) -> Rows | None:
    """Return one row per system, named by ``model``; None if records do not have several, or if there is a mapping."""
    names = [str(name) for name in (rows.records[0] if rows.records else {})]
    if mapping or any(set(named.tokens(name)) & named.VERDICT for name in names):
        return None
    systems: dict[str, dict[str, str]] = {}  # system → noun → column
    for name in names:
        system, noun = _parts(name)
        if system and noun:
            systems.setdefault(system, {})[noun] = name
    nouns = set.intersection(*map(set, systems.values())) if len(systems) >= _FEWEST else set()
    first = next(iter(systems.values()), {})
    texts = [noun for noun in nouns if named.is_text([noun]) and not _are_numbers(rows, first[noun])]
    scores = [noun for noun in nouns if {noun} & (named.SCORE | named.ATTRIBUTES) and _are_numbers(rows, first[noun])]
    if not texts or not scores:
        return None
    own = {column for columns in systems.values() for column in columns.values()}
    records = [
        (at, {name: value for name, value in record.items() if name not in own}
         | {"model": system, **{noun: record.get(columns[noun]) for noun in nouns}})
        for at, record in enumerate(rows.records) for system, columns in systems.items()
    ]  # fmt: skip
    return Rows([row for _, row in records], [rows.lines[at] for at, _ in records], rows.log, rows.textual)


def _parts(name: str) -> tuple[str, str]:
    """Split a column's name into system and noun, such as "gpt-4o" and "score"; two empty texts for other names."""
    words = named.tokens(name)
    nouns = named.SCORE | named.ATTRIBUTES | named.TEXT
    if len(words) < 2 or words[-1] not in nouns or set(words[:-1]) & (_SIDES | named.HUMAN | nouns | {"judge", "llm"}):
        return "", ""
    if {word for word in words[:-1] if not word.isdigit()} <= named.SYSTEM:  # a numbered candidate, such as model_1
        return "", ""
    head = name[: name.lower().rindex(words[-1])].strip(" _-./")
    return head, words[-1]


def _are_numbers(rows: Rows, name: str) -> bool:
    values = [text for record in rows.records[:_SEEN] if (text := written(record.get(name)))]
    return bool(values) and all(NUMERAL.fullmatch(value) for value in values)
