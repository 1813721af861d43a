"""Pair logs with a verdict in each judgment: ``judge, question, A, B, judgment`` and, for repetitions, ``rep``.

The format of the Position Bias Analyzer (Shi et al. 2024, arXiv 2406.07791): A is shown first; the judgment contains
``[[A]]``, ``[[B]]`` or ``[[C]]`` (a tie), or degrees (``[[A>>B]]``), as on MT-Bench and Arena-Hard, or "Choice: A", as
on DevBench. ``dataset`` is optional. Judgments that report a failed call are left out.
"""

from __future__ import annotations

import pandas as pd

from biaslab.logs.readers.log_columns import trials_of
from biaslab.logs.readers.readings import failed, of_pairs
from biaslab.logs.readers.rows import CALL_FAILED, Rows, Source

FIELDS = frozenset({"judge", "question", "A", "B", "judgment"})


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return one pair trial per record."""
    names = {name: rows.take(name, "id") for name in ("judge", "question", "A", "B")}
    texts, repetition = rows.take("judgment", "text"), rows.take("rep", "number", 1)
    rows.refuse(repetition % 1 != 0, "rep is not a whole number")
    rows.leave_out(failed(texts), CALL_FAILED)
    return trials_of(
        {
            "judge": names["judge"],
            "dataset": rows.take("dataset", "id", "unknown"),
            "context_id": names["question"],
            "candidate_id": names["A"],
            "opponent_id": names["B"],
            "replicate": repetition.fillna(1) - 1,
            "reply": texts,
            **of_pairs(texts),
        },
        texts.index,
    )
