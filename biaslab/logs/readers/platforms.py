"""Formats of tracing platforms: Langfuse, LangSmith, Phoenix, Opik, Galileo, TruLens and MLflow.

Langfuse scores, exported or from its API: ``traceId, name, value, source``, or ``trace_id`` in exported tables.

``source`` is EVAL for a judge model, ANNOTATION for a person, API for a program. Scores by people with the same trace,
observation and name become the human score. ``dataType`` is NUMERIC or BOOLEAN; CATEGORICAL scores have no number and
are left out. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.

LangSmith: feedback on runs, and the table of an evaluation.

Feedback from ``client.list_feedback``: ``run_id, key, score``, with ``comment`` and ``feedback_source`` (type "model"
for a model, "app" for a person). Table from ``evaluate(…).to_pandas()``: ``inputs.NAME, outputs.NAME, feedback.KEY,
example_id``. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.

Arize Phoenix: annotations of spans, and OpenInference spans with evaluations in columns.

Annotations, from the API and the client: ``span_id, name, annotator_kind, result`` (score, label, explanation); in the
client's data frame, ``result.score`` and so on. The kind LLM is a model, HUMAN a person; CODE is left out. Spans:
``context.span_id`` with columns ``eval.NAME.score``, ``eval.NAME.label`` and ``eval.NAME.explanation``, and with
``attributes.input.value``, ``attributes.output.value`` and ``attributes.llm.model_name``. Scales other than 0 to 1 need
``--map scale==LOW-HIGH``.

Opik: exported traces or experiment items with ``feedback_scores``.

Each score has ``name``, ``value``, ``reason`` and ``source``. Scores from "ui" are given by people and become the human
score of the same name; those from "online_scoring" and "sdk" come from metrics. ``input`` is the context and ``output``
the judged text. Scales other than 0 to 1 need ``--map scale==LOW-HIGH``.

Galileo records, as exported in JSON: ``input, output, metrics, metric_info``.

``metric_info`` has for each metric, those of users too, ``status_type`` ("success" if it was computed), ``value``,
``model_alias`` (the judge), ``explanation`` or ``rationale``, and ``scorer_type``. Metrics without a judge and without
an explanation, such as durations and counts, were computed by code and are left out. Scores are from 0 to 1; others
need ``--map scale==LOW-HIGH``.

TruLens records with feedback (``session.get_records_and_feedback()`` as CSV, JSON or a frame).

Each feedback function has a column of scores named as the user chose, from 0 to 1, and a column ``NAME_calls`` of what
it was computed from; ``input`` and ``output`` are what was asked and answered. The system is ``app_name`` with
``app_version``, or ``app_id``. The table does not say whether a model or code gave a score.

MLflow: the table of ``mlflow.evaluate`` (``eval_results_table.json``), or its rows as CSV or a frame.

The JSON has ``columns`` and ``data``. A model-graded metric has columns ``NAME/vN/score`` and
``NAME/vN/justification``, on a scale of 1 to 5; other metrics, such as ``toxicity/v1/score``, have no justification and
are left out. The context is ``inputs`` or ``question``, the judged text ``outputs`` or ``answer``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers.columns import alias_words, tokens
from biaslab.logs.readers.readings import (
    BY_CODE,
    JudgedScore,
    field,
    number_of,
    people_means,
    score_trials,
    text_of,
)
from biaslab.logs.readers.rows import LogSource, Rows, at

LANGFUSE_FIELDS = frozenset({"name", "value", "source"})
_CATEGORY = "a category, not a score"
_LANGFUSE_BY_PEOPLE = "a person's score (used as the human score of the same trace)"
_OTHER = "sent by a program, perhaps not a model"


def is_langfuse(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether all sources are those of Langfuse, and some record belongs to a trace."""
    snake = [_snake(record) for record in records]
    known = {str(record.get("source")) for record in snake} <= {"EVAL", "ANNOTATION", "API"}
    return known and any(record.get("trace_id") for record in snake)


def read_langfuse(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per model score, with the mean human score."""
    people = people_means(
        rows, lambda record: record.get("source") == "ANNOTATION", _langfuse_key, lambda record: record.get("value")
    )

    def scores(exported: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        record = _snake(exported)
        if str(record.get("data_type") or "NUMERIC").upper() == "CATEGORICAL":
            yield _CATEGORY
        elif record["source"] != "EVAL":
            yield _LANGFUSE_BY_PEOPLE if record["source"] == "ANNOTATION" else _OTHER
        else:
            yield JudgedScore(
                record["trace_id"],
                record.get("observation_id") or "trace",
                record["name"],
                record["value"],
                at(record, "metadata.model"),
                reply=record.get("comment"),
                human=people(exported),
            )

    return score_trials(rows, source, scores, "langfuse")


def _langfuse_key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    snake = _snake(record)
    return tuple(str(snake.get(name) or None) for name in ("trace_id", "observation_id", "name"))


def _snake(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with field names in snake case, as in exported tables."""
    return {"_".join(tokens(str(name))): value for name, value in record.items()}


LANGSMITH_FIELDS = frozenset({"run_id", "key", "score"})
LANGSMITH_TABLE_FIELDS = frozenset({"example_id"})
_FEEDBACK, _LANGSMITH_OUTPUTS = "feedback.", "outputs."
_LANGSMITH_BY_PEOPLE = "a person's score (used as the human score of the same run)"


def is_langsmith_table(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have feedback columns and output columns."""
    names = {str(name) for record in records for name in record}
    return all(any(name.startswith(prefix) for name in names) for prefix in (_FEEDBACK, _LANGSMITH_OUTPUTS))


def read_langsmith(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per feedback that is not by a person, with the mean human score."""
    people = people_means(
        rows, lambda record: _langsmith_kind(record) == "app", _langsmith_key, lambda record: record.get("score")
    )

    def scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        if _langsmith_kind(record) == "app":
            yield _LANGSMITH_BY_PEOPLE
            return
        judge = at(record, "feedback_source.metadata.model")
        yield JudgedScore(record["run_id"], "run", record["key"], record["score"], judge,
                     reply=record.get("comment"), human=people(record))  # fmt: skip

    return score_trials(rows, source, scores, "langsmith")


def read_langsmith_table(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per row and feedback column."""

    def scores(record: Mapping[str, Any]) -> Iterator[JudgedScore]:
        """Yield the scores of a record."""
        output = next((record[name] for name in record if str(name).startswith(_LANGSMITH_OUTPUTS)), None)
        for name in record:
            if str(name).startswith(_FEEDBACK) and record[name] is not None:
                key = str(name).removeprefix(_FEEDBACK)
                yield JudgedScore(record["example_id"], "experiment", key, record[name], text=output)

    return score_trials(rows, source, scores, "langsmith")


def _langsmith_kind(record: Mapping[str, Any]) -> Any:
    origin = record.get("feedback_source")
    return origin.get("type") if isinstance(origin, dict) else record.get("feedback_source.type")


def _langsmith_key(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("run_id")), str(record.get("key"))


PHOENIX_FIELDS = frozenset({"span_id", "annotator_kind"})
PHOENIX_SPAN_FIELDS = frozenset({"context.span_id"})
_EVALUATION = re.compile(r"eval\.(?P<name>.+)\.(?:score|label)")
_PHOENIX_BY_PEOPLE = "a person's score (used as the human score of the same span)"


def are_phoenix_spans(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any span has an evaluation."""
    return any(_EVALUATION.fullmatch(str(name)) for record in records for name in record)


def read_phoenix(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per annotation by a model, with the mean human score."""
    people = people_means(
        rows,
        lambda record: record.get("annotator_kind") == "HUMAN",
        _phoenix_key,
        lambda record: _phoenix_result(record, "score"),
    )

    def scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
        """Yield the score of a record, or the reason for leaving it out."""
        if record["annotator_kind"] != "LLM":
            yield _PHOENIX_BY_PEOPLE if record["annotator_kind"] == "HUMAN" else BY_CODE
            return
        score = _phoenix_score(_phoenix_result(record, "score"), _phoenix_result(record, "label"))
        yield JudgedScore(record["span_id"], "span", _phoenix_name(record), score, at(record, "metadata.model"),
                     reply=_phoenix_result(record, "explanation"), human=people(record))  # fmt: skip

    return score_trials(rows, source, scores, "phoenix")


def read_phoenix_spans(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per evaluation of a span."""

    def scores(record: Mapping[str, Any]) -> Iterator[JudgedScore]:
        """Yield the scores of a record."""
        names = dict.fromkeys(match["name"] for name in record if (match := _EVALUATION.fullmatch(str(name))))
        for name in names:
            score, label = record.get(f"eval.{name}.score"), record.get(f"eval.{name}.label")
            if score is None and label is None:
                continue  # not evaluated on this
            context = record.get("attributes.input.value") or record["context.span_id"]
            yield JudgedScore(
                context,
                record.get("attributes.llm.model_name") or "span",
                name,
                _phoenix_score(score, label),
                reply=record.get(f"eval.{name}.explanation"),
                text=record.get("attributes.output.value"),
            )

    return score_trials(rows, source, scores, "phoenix")


def _phoenix_score(score: Any, label: Any) -> Any:
    """Return the score or, if there is none, the label, such as "pass"."""
    return label if score is None or score == "" else score


def _phoenix_result(record: Mapping[str, Any], name: str) -> Any:
    result = record.get("result")
    return result.get(name) if isinstance(result, dict) else record.get(f"result.{name}")


def _phoenix_name(record: Mapping[str, Any]) -> str:
    return str(record.get("name") or record["annotation_name"])


def _phoenix_key(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("span_id")), str(record.get("name") or record.get("annotation_name"))


OPIK_FIELDS = frozenset({"id", "feedback_scores"})
_OPIK_BY_PEOPLE = "a person's score (used as the human score of the same trace)"


def read_opik(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per feedback score of a metric, with the mean human score."""
    return score_trials(rows, source, _opik_scores, "opik")


def _opik_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    scores = record["feedback_scores"] or []
    people: dict[str, list[float]] = {}
    for score in scores:
        if score.get("source") == "ui" and not math.isnan(number := number_of(score["value"])):
            people.setdefault(score["name"], []).append(number)
    output = record.get("output", record.get("evaluation_task_output"))
    candidate = at(record, "metadata.model")
    for score in scores:
        if score.get("source") == "ui":
            yield _OPIK_BY_PEOPLE
            continue
        rated = people.get(score["name"], [])
        human = sum(rated) / len(rated) if rated else math.nan
        yield JudgedScore(record.get("input") or record["id"], candidate or "trace", score["name"], score["value"],
                     reply=score.get("reason"), text=text_of(output), human=human)  # fmt: skip


GALILEO_FIELDS = frozenset({"metric_info"})
_JUDGED = ("model_alias", "explanation", "rationale", "num_judges")
_NOT_COMPUTED = "a metric that was not computed"
_UNEXPLAINED = "a metric that metric_info does not explain"
_NO_NUMBER = "a metric whose value is no number"


def is_galileo(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a record has metrics with their status."""
    infos = (record.get("metric_info") for record in records)
    return any(
        isinstance(metric, dict) and "status_type" in metric
        for info in infos if isinstance(info, dict) for metric in info.values()
    )  # fmt: skip


def read_galileo(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per metric that a model gave."""
    return score_trials(rows, source, _galileo_scores, "galileo")


def _galileo_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    asked, answered = _message_text(record.get("input")), _message_text(record.get("output"))
    system = record.get("model") or (record.get("user_metadata") or {}).get("model") or record.get("type") or "trace"
    explained = record["metric_info"] or {}
    for name, value in (record.get("metrics") or {}).items():
        if (
            name not in explained
            and isinstance(value, int | float)
            and not set(tokens(name)) & (alias_words("covariate") | alias_words("ignore"))
        ):
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
            yield JudgedScore(asked or record["id"], system, name, metric["value"], metric.get("model_alias"),
                         reply=reason, text=answered)  # fmt: skip


def _message_text(value: Any) -> Any:
    """Return the text of a message, or of the only one of a list; anything else unchanged."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    content = value.get("content") if isinstance(value, dict) else None
    return content if isinstance(content, str) else value


TRULENS_FIELDS = frozenset({"record_id", "input", "output"})
_CALLS = "_calls"


def is_trulens(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have a column of calls and one of scores."""
    return any(_feedback(record) for record in records)


def read_trulens(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per feedback function."""
    return score_trials(rows, source, _trulens_scores, "trulens")


def _feedback(record: Mapping[str, Any]) -> list[str]:
    return [name for name in record if f"{name}{_CALLS}" in record]


def _trulens_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    named = " ".join(str(record[name]) for name in ("app_name", "app_version") if record.get(name))
    system = named or record.get("app_id") or "app"
    for name in _feedback(record):
        score = record[name]
        if score is None or score == "" or (isinstance(score, float) and math.isnan(number_of(score))):
            yield "feedback that was not computed"
            continue
        yield JudgedScore(record["input"], system, name, score, text=record["output"])


MLFLOW_FIELDS: frozenset[str] = frozenset()
_MLFLOW_SCORE = re.compile(r"(?P<metric>(?P<name>[^/]+)/v\d+)/score")
_INPUTS = ("inputs", "input", "question", "query", "prompt", "instruction")
_MLFLOW_OUTPUTS = ("outputs", "prediction", "answer", "response", "output")
_MLFLOW_SCALE = "1-5"


def is_mlflow(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record is an MLflow table or a row of one."""
    return any(_MLFLOW_SCORE.fullmatch(str(name)) for record in records for name in _mlflow_columns(record))


def read_mlflow(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per row and model-graded metric."""
    return score_trials(rows, source, _mlflow_scores, "mlflow")


def _mlflow_columns(record: Mapping[str, Any]) -> Sequence[Any]:
    columns = record.get("columns")
    return columns if isinstance(columns, list) and isinstance(record.get("data"), list) else list(record)


def _mlflow_table(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if isinstance(record.get("columns"), list) and isinstance(record.get("data"), list):
        yield from (dict(zip(record["columns"], row, strict=True)) for row in record["data"])
    else:
        yield record


def _mlflow_scores(record: Mapping[str, Any]) -> Iterator[JudgedScore | str]:
    for row in _mlflow_table(record):
        for name in row:
            if (match := _MLFLOW_SCORE.fullmatch(str(name))) is None:
                continue
            reason = f"{match['metric']}/justification"
            if reason not in row:
                yield BY_CODE
                continue
            context = field(row, _INPUTS)
            output = next((row[column] for column in _MLFLOW_OUTPUTS if column in row), None)
            yield JudgedScore(
                context, "model", match["name"], row[name], scale=_MLFLOW_SCALE, reply=row[reason], text=output
            )
