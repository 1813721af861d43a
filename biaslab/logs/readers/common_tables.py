"""Read a table with the usual names of columns without a mapping, and say how it was read.

Pairs have two columns of answers or of systems and a column of verdicts; scores have an answer or a system and a column
of numbers. Human columns, several judges and several attributes are known by their names. Where two readings are
possible none is chosen: the error shows a command for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.pair_tables import named_pair, of_pairs
from biaslab.logs.readers.refusing import Refusal
from biaslab.logs.readers.rows import Rows
from biaslab.logs.readers.score_tables import of_scores
from biaslab.logs.readers.table_columns import Table, TableReading


def read_table(rows: Rows, given: Mapping[str, Any]) -> TableReading | Refusal | None:
    """Return how a table is read, why it is not, or None where it has no usual columns at all.

    Parameters
    ----------
    rows : Rows
        The first records of the table.
    given : mapping
        What the user maps, which is not asked for again.
    """
    table = Table(rows, given)
    pairs = named.find_pairs(table.names)
    candidates = {
        words: pair for words, pair in pairs.items()
        if not words or named.is_text((words[0], words[-1])) or {words[0], words[-1]} & named.SYSTEM
    }  # fmt: skip
    if candidates and (third := named.third_candidate(table.names, candidates)) is not None:
        return Refusal(f"it compares more than two candidates ({third}): make a row of every two of them")
    candidates = candidates or named_pair(table)
    return (of_pairs(table, candidates) if candidates else None) or of_scores(table)
