"""LangSmith: feedback on runs, and the table of an evaluation.

Feedback from ``client.list_feedback``: ``run_id, key, score``, with ``comment`` and ``feedback_source`` (type "model"
for a model, "app" for a person). Table from ``evaluate(…).to_pandas()``: ``inputs.NAME, outputs.NAME, feedback.KEY,
example_id``. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.judged_scores import Judged, people_means, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"run_id", "key", "score"})
TABLE_FIELDS = frozenset({"example_id"})
_FEEDBACK, _OUTPUTS = "feedback.", "outputs."
_BY_PEOPLE = "a person's score (used as the human score of the same run)"


def tells_table(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have feedback columns and output columns."""
    names = {str(name) for record in records for name in record}
    return all(any(name.startswith(prefix) for name in names) for prefix in (_FEEDBACK, _OUTPUTS))


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per feedback that is not by a person, with the mean human score."""
    people = people_means(rows, lambda record: _kind(record) == "app", _key, lambda record: record.get("score"))

    def scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        if _kind(record) == "app":
            yield _BY_PEOPLE
            return
        judge = at(record, "feedback_source.metadata.model")
        yield Judged(record["run_id"], "run", record["key"], record["score"], judge,
                     reply=record.get("comment"), human=people(record))  # fmt: skip

    return score_trials(rows, source, scores, "langsmith")


def read_table(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per row and feedback column."""

    def scores(record: Mapping[str, Any]) -> Iterator[Judged]:
        """Yield the scores of a record."""
        output = next((record[name] for name in record if str(name).startswith(_OUTPUTS)), None)
        for name in record:
            if str(name).startswith(_FEEDBACK) and record[name] is not None:
                key = str(name).removeprefix(_FEEDBACK)
                yield Judged(record["example_id"], "experiment", key, record[name], text=output)

    return score_trials(rows, source, scores, "langsmith")


def _kind(record: Mapping[str, Any]) -> Any:
    origin = record.get("feedback_source")
    return origin.get("type") if isinstance(origin, dict) else record.get("feedback_source.type")


def _key(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("run_id")), str(record.get("key"))
