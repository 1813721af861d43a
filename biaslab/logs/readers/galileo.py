"""Galileo records, as exported in JSON: ``input, output, metrics, metric_info``.

``metric_info`` has for each metric, those of users too, ``status_type`` ("success" if it was computed), ``value``,
``model_alias`` (the judge), ``explanation`` or ``rationale``, and ``scorer_type``. Metrics without a judge and without
an explanation, such as durations and counts, were computed by code and are left out. Scores are from 0 to 1; others
need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.common_names import tokens
from biaslab.logs.readers.judged_scores import BY_CODE, Judged, score_trials
from biaslab.logs.readers.rows import Rows, Source
from biaslab.logs.readers.table_columns import COUNTS

FIELDS = frozenset({"metric_info"})
_JUDGED = ("model_alias", "explanation", "rationale", "num_judges")
_NOT_COMPUTED = "a metric that was not computed"
_UNEXPLAINED = "a metric that metric_info does not explain"
_NO_NUMBER = "a metric whose value is no number"


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a record has metrics with their status."""
    infos = (record.get("metric_info") for record in records)
    return any(
        isinstance(metric, dict) and "status_type" in metric
        for info in infos if isinstance(info, dict) for metric in info.values()
    )  # fmt: skip


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per metric that a model gave."""
    return score_trials(rows, source, _scores, "galileo")


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    asked, answered = _message_text(record.get("input")), _message_text(record.get("output"))
    system = record.get("model") or (record.get("user_metadata") or {}).get("model") or record.get("type") or "trace"
    explained = record["metric_info"] or {}
    for name, value in (record.get("metrics") or {}).items():
        if name not in explained and isinstance(value, int | float) and not set(tokens(name)) & COUNTS:
            yield _UNEXPLAINED
    for name, metric in explained.items():
        if metric.get("status_type", "success") != "success":
            yield _NOT_COMPUTED
        elif all(metric.get(field) in (None, "") for field in _JUDGED):
            yield BY_CODE
        elif isinstance(metric["value"], list | dict) or metric["value"] is None:
            yield _NO_NUMBER
        else:
            reason = metric.get("explanation") or metric.get("rationale")
            yield Judged(asked or record["id"], system, name, metric["value"], metric.get("model_alias"),
                         reply=reason, text=answered)  # fmt: skip


def _message_text(value: Any) -> Any:
    """Return the text of a message, or of the only one of a list; anything else unchanged."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, str) else value
