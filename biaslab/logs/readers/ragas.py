"""Ragas results (``result.to_pandas()`` as CSV, JSON or a frame): question, response and one column per metric.

``user_input, response`` or, before version 0.2, ``question, answer``. Model-graded metrics are recognised by their
names; other numeric columns are left out and counted. Scores that Ragas could not compute are empty. Scores range from
0 to 1, those of rubrics from 1 to 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import Judged, field, number_of, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS: frozenset[str] = frozenset()
_QUESTION, _ANSWER = ("user_input", "question"), ("response", "answer")
#: Model-graded metrics of Ragas 0.1 to 0.3.
_METRICS = (
    "faithfulness", "answer_relevancy", "response_relevancy", "context_precision", "context_recall",
    "llm_context_precision_with_reference", "llm_context_precision_without_reference", "context_entity_recall",
    "noise_sensitivity_relevant", "answer_correctness", "factual_correctness",
    "noise_sensitivity", "aspect_critic", "simple_criteria",
    "harmfulness", "maliciousness", "coherence", "correctness", "conciseness",
    "nv_accuracy", "nv_context_relevance", "nv_response_groundedness",
)  # fmt: skip
_RUBRICS = {"domain_specific_rubrics", "rubrics_score", "instance_rubrics", "rubrics_based_scoring"}  # 1 to 5
_OWN = {"faithfulness", "answer_relevancy", "response_relevancy", "context_precision", "context_recall"}


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have a question, a response and a metric specific to Ragas."""
    names = {name for record in records for name in record}
    asked = any({question, answer} <= names for question, answer in zip(_QUESTION, _ANSWER, strict=True))
    return asked and bool(_OWN & names)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per metric."""
    return score_trials(rows, source, _scores, "ragas")


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    answer = next((record[name] for name in _ANSWER if name in record), None)
    for name in record:
        metric = str(name).partition("(")[0]  # "factual_correctness(mode=f1)"
        if metric in _METRICS or metric in _RUBRICS:
            scale = "1-5" if metric in _RUBRICS else "0-1"
            yield Judged(field(record, _QUESTION), "response", str(name), record[name], scale=scale, text=answer)
        elif not math.isnan(number_of(record[name])):
            yield f"{name} is not known as a score of a model"
