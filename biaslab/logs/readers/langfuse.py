"""Langfuse scores, exported or from its API: ``traceId, name, value, source``.

``source`` is EVAL for a model as judge, ANNOTATION for a person, API for what a program sent. What people say of the
same trace (and observation) under the same name is the human score. ``dataType`` is NUMERIC or BOOLEAN; a CATEGORICAL
score has no number and is left out. The numbers of a scale other than 0 to 1 need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import Judged, people_means, score_trials
from biaslab.logs.readers.rows import Rows, Source, at

FIELDS = frozenset({"traceId", "name", "value", "source"})
_CATEGORY = "a category, which is no score"
_BY_PEOPLE = "a person's score, which goes to the model's of the same trace"
_OTHER = "sent by a program, which may be no model"


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial a score of a model, with the mean of people's scores."""
    people = people_means(
        rows, lambda record: record.get("source") == "ANNOTATION", _key, lambda record: record.get("value")
    )

    def scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
        """Yield the score of a record, or why it is none of a model."""
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
