"""Opik: exported traces or experiment items with ``feedback_scores``.

Each score has ``name``, ``value``, ``reason`` and ``source``. Scores from "ui" are given by people and become the human
score of the same name; those from "online_scoring" and "sdk" come from metrics. ``input`` is the context and ``output``
the judged text. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.judged_scores import Judged, number_of, score_trials, text_of
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"id", "feedback_scores"})
_BY_PEOPLE = "a person's score (used as the human score of the same trace)"


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per feedback score of a metric, with the mean human score."""
    return score_trials(rows, source, _scores, "opik")


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    scores = record["feedback_scores"] or []
    people: dict[str, list[float]] = {}
    for score in scores:
        if score.get("source") == "ui" and not math.isnan(number := number_of(score["value"])):
            people.setdefault(score["name"], []).append(number)
    output = record.get("output", record.get("evaluation_task_output"))
    candidate = at(record, "metadata.model")
    for score in scores:
        if score.get("source") == "ui":
            yield _BY_PEOPLE
            continue
        rated = people.get(score["name"], [])
        human = sum(rated) / len(rated) if rated else math.nan
        yield Judged(record.get("input") or record["id"], candidate or "trace", score["name"], score["value"],
                     reply=score.get("reason"), text=text_of(output), human=human)  # fmt: skip
