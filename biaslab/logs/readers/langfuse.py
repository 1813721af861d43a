"""Langfuse scores, exported or from its API: ``traceId, name, value, source``.

``source`` is EVAL for a judge model, ANNOTATION for a person, API for a program. Scores by people for the same trace
(and observation) and name are the human score. ``dataType`` is NUMERIC or BOOLEAN; CATEGORICAL scores have no number
and are left out. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import Judged, people_means, score_trials
from biaslab.logs.readers.rows import Rows, Source, at

FIELDS = frozenset({"traceId", "name", "value", "source"})
_CATEGORY = "a category, not a score"
_BY_PEOPLE = "a person's score (used as the human score of the same trace)"
_OTHER = "sent by a program, perhaps not a model"


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per score of a model, with the mean of people's scores."""
    people = people_means(
        rows, lambda record: record.get("source") == "ANNOTATION", _key, lambda record: record.get("value")
    )

    def scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        if str(record.get("dataType") or "NUMERIC").upper() == "CATEGORICAL":
            yield _CATEGORY
        elif record["source"] != "EVAL":
            yield _BY_PEOPLE if record["source"] == "ANNOTATION" else _OTHER
        else:
            yield Judged(record["traceId"], record.get("observationId") or "trace", record["name"], record["value"],
                         at(record, "metadata.model"), reply=record.get("comment"), human=people(record))  # fmt: skip

    return score_trials(rows, source, scores, "langfuse")


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(str(record.get(name)) for name in ("traceId", "observationId", "name"))
