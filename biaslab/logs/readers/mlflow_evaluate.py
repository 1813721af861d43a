"""MLflow: the table of ``mlflow.evaluate`` (``eval_results_table.json``), or its rows as CSV or a frame.

The JSON has ``columns`` and ``data``. A model-graded metric has columns ``NAME/vN/score`` and
``NAME/vN/justification``, on a scale of 1 to 5; other metrics, such as ``toxicity/v1/score``, have no justification and
are left out. The context is ``inputs`` or ``question``, the judged text ``outputs`` or ``answer``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from biaslab.logs.readers import common_names as named
from biaslab.logs.readers.judged_scores import BY_CODE, Judged, field, score_trials
from biaslab.logs.readers.rows import Rows, Source

FIELDS: frozenset[str] = frozenset()
_SCORE = re.compile(r"(?P<metric>(?P<name>[^/]+)/v\d+)/score")
_INPUTS = ("inputs", "input", *named.ASKED)
_OUTPUTS = ("outputs", "prediction", *named.ANSWER)
_SCALE = "1-5"


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether any record is an MLflow table or a row of one."""
    return any(_SCORE.fullmatch(str(name)) for record in records for name in _columns(record))


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per row and model-graded metric."""
    return score_trials(rows, source, _scores, "mlflow")


def _columns(record: Mapping[str, Any]) -> Sequence[Any]:
    columns = record.get("columns")
    return columns if isinstance(columns, list) and isinstance(record.get("data"), list) else list(record)


def _table(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if isinstance(record.get("columns"), list) and isinstance(record.get("data"), list):
        yield from (dict(zip(record["columns"], row, strict=True)) for row in record["data"])
    else:
        yield record


def _scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    for row in _table(record):
        for name in row:
            if (match := _SCORE.fullmatch(str(name))) is None:
                continue
            reason = f"{match['metric']}/justification"
            if reason not in row:
                yield BY_CODE
                continue
            context = field(row, _INPUTS)
            output = next((row[column] for column in _OUTPUTS if column in row), None)
            yield Judged(context, "model", match["name"], row[name], scale=_SCALE, reply=row[reason], text=output)
