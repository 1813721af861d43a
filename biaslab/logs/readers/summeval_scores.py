"""Scores of SummEval summaries: ``judge, system, aspect, mode, id, resp``, one reply per line.

Published with Shen et al. 2023, *Large Language Models are Not Yet Human-Level Evaluators for Abstractive
Summarization* (arXiv 2305.13091). Modes: ``rts`` and ``altrts`` reason, then score; ``stareval`` gives stars; ``mcq``
and ``altmcq`` choose A (1, worst) to E (5, best). Modes that end in "old" are superseded and left out.
"""

from __future__ import annotations

import math

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.logs.readers.log_columns import trials_of
from biaslab.logs.readers.readings import each, lettered, scored
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.parsing.numerals import Reading

FIELDS = frozenset({"judge", "system", "aspect", "mode", "id", "resp"})
_SCALE = "1-5"
_LETTERS: dict[str, Reading] = {letter: (float(worth), "ok") for worth, letter in enumerate("ABCDE", start=1)}
_ORDERS = {"rts": "rs", "altrts": "rs", "stareval": "sr", "mcq": "s", "altmcq": "s"}


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per record."""
    names = {name: rows.take(name, "id") for name in ("judge", "system", "aspect", "mode", "id")}
    texts, tokens = rows.take("resp", "text"), rows.take("total_len", "number", 0)
    mode = names["mode"].fillna("")
    rows.leave_out(mode.str.endswith("old"), "superseded mode")
    readings = pd.DataFrame({"value": math.nan, "status": "unparsable"}, index=texts.index)
    letters = mode.str.contains("mcq", regex=False)
    readings.loc[letters] = each(texts[letters], lambda text: lettered(text, _LETTERS))
    scale = scale_named(source.scale or _SCALE)
    for aspect, part in texts[~letters].groupby(names["aspect"][~letters]):
        readings.loc[part.index] = each(part, scored(scale, str(aspect), source.score_pattern))
    return trials_of(
        {
            "judge": names["judge"],
            "dataset": "summeval",
            "context_id": names["id"],
            "candidate_id": names["system"],
            "attribute": names["aspect"],
            "configuration": mode,
            "form": mode,
            "order": mode.map(_ORDERS),
            "scale": scale.name,
            "tokens": tokens.fillna(0).astype("int64"),
            "reply": texts,
            **readings,
        },
        texts.index,
    )
