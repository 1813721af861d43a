"""OpenAI evals (``oaieval``): events of a run; those of model-graded evals are scores.

Each line is an event: ``run_id, event_id, sample_id, type, data``. A ``metrics`` event with a ``choice`` and a
``score`` is a judge's grade of the sample; the ``sampling`` event before it contains the prompt. ``match`` events and
other metrics are computed by code and left out, as are lines about the run itself (``spec``, ``final_report``). The
score comes from ``choice_scores``, 0 to 1; other scales need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import BY_CODE, Judged, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"run_id", "event_id", "sample_id", "type", "data"})
_OF_THE_RUN = "a line about the run or a call, not a judgement"


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per grade given by a model."""
    return score_trials(rows, source, _scores, "openai_evals")


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    data = record.get("data")
    if not isinstance(data, dict) or record.get("type") == "sampling":
        yield _OF_THE_RUN
    elif record.get("type") != "metrics" or "choice" not in data:
        yield BY_CODE
    else:
        task, _, _ = str(record["sample_id"]).rpartition(".")
        yield Judged(record["sample_id"], "completion", task or "overall", data["score"], reply=str(data["choice"]))
