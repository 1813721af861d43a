"""Langfuse scores, exported or from its API: ``traceId, name, value, source``, or ``trace_id`` in exported tables.

``source`` is EVAL for a judge model, ANNOTATION for a person, API for a program. Scores by people with the same trace,
observation and name become the human score. ``dataType`` is NUMERIC or BOOLEAN; CATEGORICAL scores have no number and
are left out. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.common_names import tokens
from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.judged_scores import Judged, people_means, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"name", "value", "source"})
_CATEGORY = "a category, not a score"
_BY_PEOPLE = "a person's score (used as the human score of the same trace)"
_OTHER = "sent by a program, perhaps not a model"


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all sources are those of Langfuse, and some record belongs to a trace."""
    snake = [_snake(record) for record in records]
    known = {str(record.get("source")) for record in snake} <= {"EVAL", "ANNOTATION", "API"}
    return known and any(record.get("trace_id") for record in snake)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per model score, with the mean human score."""
    people = people_means(
        rows, lambda record: record.get("source") == "ANNOTATION", _key, lambda record: record.get("value")
    )

    def scores(exported: Mapping[str, Any]) -> Iterator[Judged | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        record = _snake(exported)
        if str(record.get("data_type") or "NUMERIC").upper() == "CATEGORICAL":
            yield _CATEGORY
        elif record["source"] != "EVAL":
            yield _BY_PEOPLE if record["source"] == "ANNOTATION" else _OTHER
        else:
            yield Judged(record["trace_id"], record.get("observation_id") or "trace", record["name"], record["value"],
                         at(record, "metadata.model"), reply=record.get("comment"), human=people(exported))  # fmt: skip

    return score_trials(rows, source, scores, "langfuse")


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    snake = _snake(record)
    return tuple(str(snake.get(name) or None) for name in ("trace_id", "observation_id", "name"))


def _snake(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with field names in snake case, as in exported tables."""
    return {"_".join(tokens(str(name))): value for name, value in record.items()}
