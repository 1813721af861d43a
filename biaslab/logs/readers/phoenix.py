"""Arize Phoenix: annotations of spans, and OpenInference spans with evaluations in columns.

Annotations, from the API and the client: ``span_id, name, annotator_kind, result`` (score, label, explanation); in the
client's data frame, ``result.score`` and so on. The kind LLM is a model, HUMAN a person; CODE is left out. Spans:
``context.span_id`` with columns ``eval.NAME.score``, ``eval.NAME.label`` and ``eval.NAME.explanation``, and with
``attributes.input.value``, ``attributes.output.value`` and ``attributes.llm.model_name``. Scales other than 0 to 1 need
``--map scale==LOW-HIGH``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.field_values import at
from biaslab.logs.readers.judged_scores import BY_CODE, Judged, people_means, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"span_id", "annotator_kind"})
SPAN_FIELDS = frozenset({"context.span_id"})
_EVALUATION = re.compile(r"eval\.(?P<name>.+)\.(?:score|label)")
_BY_PEOPLE = "a person's score (used as the human score of the same span)"


def tells_spans(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any span has an evaluation."""
    return any(_EVALUATION.fullmatch(str(name)) for record in records for name in record)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per annotation by a model, with the mean human score."""
    people = people_means(
        rows, lambda record: record.get("annotator_kind") == "HUMAN", _key, lambda record: _result(record, "score")
    )

    def scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        if record["annotator_kind"] != "LLM":
            yield _BY_PEOPLE if record["annotator_kind"] == "HUMAN" else BY_CODE
            return
        score = _score(_result(record, "score"), _result(record, "label"))
        yield Judged(record["span_id"], "span", _name(record), score, at(record, "metadata.model"),
                     reply=_result(record, "explanation"), human=people(record))  # fmt: skip

    return score_trials(rows, source, scores, "phoenix")


def read_spans(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per evaluation of a span."""

    def scores(record: Mapping[str, Any]) -> Iterator[Judged]:
        """Yield the scores of a record."""
        names = dict.fromkeys(match["name"] for name in record if (match := _EVALUATION.fullmatch(str(name))))
        for name in names:
            score, label = record.get(f"eval.{name}.score"), record.get(f"eval.{name}.label")
            if score is None and label is None:
                continue  # not evaluated on this
            context = record.get("attributes.input.value") or record["context.span_id"]
            yield Judged(context, record.get("attributes.llm.model_name") or "span", name, _score(score, label),
                         reply=record.get(f"eval.{name}.explanation"),
                         text=record.get("attributes.output.value"))  # fmt: skip

    return score_trials(rows, source, scores, "phoenix")


def _score(score: Any, label: Any) -> Any:
    """Return the score or, if there is none, the label, such as "pass"."""
    return label if score is None or score == "" else score


def _result(record: Mapping[str, Any], name: str) -> Any:
    result = record.get("result")
    return result.get(name) if isinstance(result, dict) else record.get(f"result.{name}")


def _name(record: Mapping[str, Any]) -> str:
    return str(record.get("name") or record["annotation_name"])


def _key(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("span_id")), str(record.get("name") or record.get("annotation_name"))
