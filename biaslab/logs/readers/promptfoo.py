"""promptfoo (``promptfoo eval --output results.json`` or ``.jsonl``): assertions that a model graded.

The results are in ``results.results``, or one per line: ``provider`` (id, label), ``vars``, ``promptIdx``, ``response``
(output) and ``gradingResult.componentResults``, each with ``score`` (0 to 1), ``reason`` and ``assertion`` (type,
metric, provider). Assertions by code (``contains``, ``equals`` …) are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.judged_scores import BY_CODE, Judged, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"results"})
LINE_FIELDS = frozenset({"gradingResult", "provider"})
_BY_MODEL = (
    "llm-rubric", "g-eval", "model-graded-closedqa", "model-graded-factuality", "factuality", "closed-qa",
    "answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance", "pi",
    "search-rubric", "agent-rubric",
)  # fmt: skip
_CHOICES = ("select-best", "max-score")
_FAILED = "the call failed"


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record contains promptfoo results."""
    return any(
        "gradingResult" in result for record in records for result in _results(record) if isinstance(result, dict)
    )


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per model-graded assertion."""
    return score_trials(rows, source, _scores, "promptfoo")


def _results(record: Mapping[str, Any]) -> Sequence[Any]:
    if "gradingResult" in record:
        return [record]
    results = record.get("results")
    inner = results.get("results") if isinstance(results, dict) else results
    return inner if isinstance(inner, list) else []


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    for result in _results(record):
        grading, provider = result["gradingResult"], result["provider"]
        if grading is None:
            yield _FAILED
            continue
        name = provider.get("label") or provider["id"] if isinstance(provider, dict) else provider
        prompt = result.get("promptIdx") or 0
        candidate = f"{name} (prompt {prompt})" if prompt else name
        output = (result.get("response") or {}).get("output")
        counts: Counter[str] = Counter()
        for component in grading.get("componentResults") or [grading]:
            assertion = component.get("assertion") or {}
            kind = str(assertion.get("type", "")).removeprefix("not-")
            if kind in _CHOICES:
                yield "a choice among outputs, which is no score"
                continue
            if kind not in _BY_MODEL:
                yield BY_CODE
                continue
            attribute = assertion.get("metric") or kind
            counts[attribute] += 1
            attribute = attribute if counts[attribute] == 1 else f"{attribute} {counts[attribute]}"
            grader = assertion.get("provider")
            judge = grader.get("id") if isinstance(grader, dict) else grader
            yield Judged(result["vars"], candidate, attribute, component["score"], judge, reply=component.get("reason"),
                         text=output)  # fmt: skip
