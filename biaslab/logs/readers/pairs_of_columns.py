"""Find pairs of candidate columns whose names do not contain A and B, 1 and 2, or the like."""

from __future__ import annotations

from collections.abc import Mapping

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.refusing import Entries, Refusal
from biaslab.logs.readers.table_columns import COUNTS, KNOWN, Table
from biaslab.logs.readers.verdict_words import side_of

Pairs = dict[named.Tokens, tuple[str, str, int]]
_BASELINES = frozenset(["baseline", "base", "reference", "ref", "control", "opponent", "competitor"])
_ALIKE = frozenset(["model", "text"])  # words that only the name of a baseline's column may have
#: Verdicts on a candidate compared with a baseline, and the column that they name.
OUTCOMES = {"win": "candidate", "wins": "candidate", "won": "candidate", "candidate": "candidate", "lose": "opponent",
            "loses": "opponent", "loss": "opponent", "lost": "opponent", "baseline": "opponent",
            "reference": "opponent", "opponent": "opponent"}  # fmt: skip
_FEWEST = 2  # minimum number of different texts


def named_pair(table: Table) -> dict[named.Tokens, tuple[str, str, int]]:
    """Return two text columns named after two systems, such as ``gpt-4 answer``, that a verdict column names."""
    by_noun: dict[str, dict[str, str]] = {}
    for name in table.names:
        words = named.tokens(name)
        if len(words) > 1 and named.is_text(words[-1:]) and not set(words[:-1]) & named.HUMAN:
            head = name[: name.lower().rindex(words[-1].lower())].strip(" _-.")
            by_noun.setdefault(words[-1], {})[head.lower()] = name
    for noun, columns in by_noun.items():
        if len(columns) != 2:
            continue
        for verdict in (name for name in table.names if set(named.tokens(name)) & named.VERDICT):
            values = [value.lower() for value in table.present(verdict)]
            known = sum(value in columns or side_of(value) == "tie" for value in values)
            if values and known >= KNOWN * len(values) and set(values) & set(columns):
                one, two = columns.values()
                return {(noun,): (one, two, named.CHOSEN)}
    return _named_by_verdicts(table)


def _named_by_verdicts(table: Table) -> Pairs:
    """Return two columns whose full names are the values of a verdict column."""
    columns = {name.lower(): name for name in table.names if not table.is_numeric(name)}
    places = {frozenset(pair[:2]) for pair in named.find_pairs(table.names).values()}  # their names imply an order
    for verdict in (name for name in table.names if set(named.tokens(name)) & named.VERDICT):
        values = [value.lower() for value in table.present(verdict)]
        called = [columns[value] for value in dict.fromkeys(values) if value in columns and columns[value] != verdict]
        known = sum(value in columns or side_of(value) == "tie" for value in values)
        if (
            len(called) == 2
            and frozenset(called) not in places
            and known >= KNOWN * len(values)
            and all(table.distinct(name) > 1 for name in called)
        ):
            one, two = sorted(called, key=table.names.index)
            return {(): (one, two, named.CHOSEN)}
    return {}


def with_baseline(table: Table) -> Pairs:
    """Return a column of texts or systems and its baseline's column, if a verdict column says which of them wins."""
    if not any(says_who_wins(table, name) for name in table.names):
        return {}
    for two in table.names:
        words = set(named.tokens(two))
        if not words & _BASELINES or table.is_numeric(two):
            continue
        for one in table.names:
            own = set(named.tokens(one))
            judged = named.like_answer(one) or named.like_system(one) or bool(named.first_named([one], named.ANSWER))
            if judged and own <= words and words - own <= _BASELINES | _ALIKE and not table.is_numeric(one):
                return {tuple(named.tokens(one)): (one, two, named.CHOSEN)}
    return {}


def says_who_wins(table: Table, name: str) -> bool:
    """Return whether nearly all values of a column say how a candidate fared against a baseline, as win and loss do."""
    values = [value.lower() for value in table.present(name)]
    known = sum(value in OUTCOMES or side_of(value) == "tie" for value in values)
    return bool(values) and known >= KNOWN * len(values) and bool(set(values) & set(OUTCOMES))


def winner_and_loser(table: Table) -> Refusal | None:
    """Refuse a table whose columns are named after winner and loser, suggesting a mapping; None for other tables."""
    known = {named.tokens(name): name for name in table.names if not table.is_numeric(name)}
    for words, one in known.items():
        two = known.get(tuple({"winner": "loser", "winning": "losing"}.get(word, word) for word in words))
        if two is not None and two != one and "winner" not in table.given:
            entries: Entries = {
                "candidate_id": one,
                "opponent_id": two,
                "winner": "=candidate",
                "order_known": "=false",
            }
            return Refusal(f"{one} and {two} say who won, not who was shown first", (("in unknown order", entries),))
    return None


def of_any_name(table: Table, pairs: Mapping[named.Tokens, tuple[str, str, int]]) -> Pairs:
    """Return pairs of text columns with any shared name, such as ``respuesta_a`` and ``respuesta_b``."""
    return {
        words: pair for words, pair in pairs.items()
        if not set(words) & COUNTS and all(_may_be_judged(table, name) for name in pair[:2])
    }  # fmt: skip


def _may_be_judged(table: Table, name: str) -> bool:
    texts = [value for value in table.present(name) if side_of(value) is None]
    return not table.is_numeric(name) and len(set(texts)) >= _FEWEST and 2 * len(texts) > len(table.present(name))
