"""Read tables with common column names without a mapping, and report the interpretation.

Tables of pairs have two columns of answers or systems and a column of verdicts; tables of scores have an answer or a
system and a column of numbers. Human columns, several judges and several attributes are recognised by name. An
ambiguous table is refused, and the error shows a command for each interpretation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.pair_tables import of_pairs
from biaslab.logs.readers.pairs_of_columns import named_pair, of_any_name, winner_and_loser, with_baseline
from biaslab.logs.readers.refusing import Refusal
from biaslab.logs.readers.rows import Rows
from biaslab.logs.readers.score_tables import of_scores
from biaslab.logs.readers.table_columns import Table, TableReading
from biaslab.logs.readers.winning_flags import by_flag


def read_table(rows: Rows, mapping: Mapping[str, Any]) -> TableReading | Refusal | None:
    """Return how to read a table, why it is refused, or None if it has no common columns.

    Parameters
    ----------
    rows : Rows
        The first records of the table.
    mapping : mapping
        The user's mapping.
    """
    table = Table(rows, mapping)
    pairs = named.find_pairs(table.names)
    candidates = {
        words: pair for words, pair in pairs.items()
        if (not words and not any(map(table.is_numeric, pair[:2])))
        or (words and (named.is_compared((words[0], words[-1])) or {words[0], words[-1]} & named.SYSTEM))
    }  # fmt: skip
    if candidates and (third := named.third_candidate(table.names, candidates)) is not None:
        return Refusal(f"it compares more than two candidates ({third}): split each row into one row per pair")
    candidates = candidates or named_pair(table) or with_baseline(table) or by_flag(table)
    if candidates and (reading := of_pairs(table, candidates)) is not None:
        return reading
    if (refusal := winner_and_loser(table)) is not None:
        return refusal
    in_both_orders = named.both_orders(table.names) is not None  # pairs whose candidates the table does not name
    reading = None if in_both_orders else of_scores(table)
    if isinstance(reading, TableReading) or not (other := of_any_name(table, pairs)):
        return reading
    return of_pairs(table, other) or reading
