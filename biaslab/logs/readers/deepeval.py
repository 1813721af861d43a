"""DeepEval: test runs (``testCases``, ``metricsData``) and evaluation results (``test_results``, ``metrics_data``).

Each metric has ``name``, ``score`` (0 to 1), ``reason`` and, if graded by a model, ``evaluationModel``; metrics without
a model were computed by code and are left out. A test case has ``input`` and ``actualOutput``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.judged_scores import BY_CODE, Judged, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS: frozenset[str] = frozenset()
_CASES = ("testCases", "test_cases", "test_results", "testResults", "conversationalTestCases")
_METRICS = ("metricsData", "metrics_data")


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record is a test case with metrics, or contains one."""
    return any(
        any(isinstance(case.get(name), list) for name in _METRICS)
        for record in records
        for case in _cases(record)
        if isinstance(case, dict)
    )


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per model-graded metric."""
    return score_trials(rows, source, _scores, "deepeval")


def _cases(record: Mapping[str, Any]) -> Sequence[Any]:
    cases = [case for name in _CASES if isinstance(record.get(name), list) for case in record[name]]
    return cases if any(name in record for name in _CASES) else [record]


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    candidate = at(record, "hyperparameters.model")
    for case in _cases(record):
        output = case.get("actualOutput", case.get("actual_output"))
        for metric in next((case[name] for name in _METRICS if name in case), None) or []:
            judge = metric.get("evaluationModel", metric.get("evaluation_model"))
            if judge is None:
                yield BY_CODE
                continue
            asked = case.get("input") or case.get("turns") or case["name"]
            yield Judged(asked, candidate or "response", metric["name"], metric["score"], judge,
                         reply=metric.get("reason"), text=output)  # fmt: skip
