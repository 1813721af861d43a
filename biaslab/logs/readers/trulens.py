"""TruLens records with feedback (``session.get_records_and_feedback()`` as CSV, JSON or a frame).

Each feedback function has a column of scores named as the user chose, from 0 to 1, and a column ``NAME_calls`` of what
it was computed from; ``input`` and ``output`` are what was asked and answered. The system is ``app_name`` with
``app_version``, or ``app_id``. The table does not say whether a model or code gave a score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import Judged, number_of, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"record_id", "input", "output"})
_CALLS = "_calls"


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have a column of calls and one of scores."""
    return any(_feedback(record) for record in records)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per feedback function."""
    return score_trials(rows, source, _scores, "trulens")


def _feedback(record: Mapping[str, Any]) -> list[str]:
    return [name for name in record if f"{name}{_CALLS}" in record]


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    named = " ".join(str(record[name]) for name in ("app_name", "app_version") if record.get(name))
    system = named or record.get("app_id") or "app"
    for name in _feedback(record):
        score = record[name]
        if score is None or score == "" or (isinstance(score, float) and math.isnan(number_of(score))):
            yield "feedback that was not computed"
            continue
        yield Judged(record["input"], system, name, score, text=record["output"])
