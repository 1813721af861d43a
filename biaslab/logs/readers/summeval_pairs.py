"""SummEval pairs in both orders, one reply per line: ``judge, model_1, model_2, aspect, toggled, id, resp``.

``toggled`` is true if model_2 was shown first. The reply is A (the first), B (the second) or C (a tie).
``human_score_1`` and ``human_score_2`` are mean expert scores. Published with Shen et al. 2023 (arXiv 2305.13091).
"""

from __future__ import annotations

import pandas as pd

from biaslab.logs.readers.log_columns import trials_of
from biaslab.logs.readers.readings import each, lettered
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"judge", "model_1", "model_2", "aspect", "toggled", "id", "resp"})


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return one pair trial per record."""
    names = {name: rows.take(name, "id") for name in ("judge", "model_1", "model_2", "aspect", "id")}
    texts, toggled = rows.take("resp", "text"), rows.take("toggled", "flag")
    one, two = rows.take("human_score_1", "number"), rows.take("human_score_2", "number")
    tokens = rows.take("total_len", "number", 0)
    return trials_of(
        {
            "judge": names["judge"],
            "dataset": "summeval",
            "context_id": names["id"],
            "candidate_id": names["model_1"].where(~toggled, names["model_2"]),
            "opponent_id": names["model_2"].where(~toggled, names["model_1"]),
            "attribute": names["aspect"],
            "human_gap": (one - two).where(~toggled, two - one),
            "tokens": tokens.fillna(0).astype("int64"),
            "reply": texts,
            **each(texts, lettered),
        },
        texts.index,
    )
