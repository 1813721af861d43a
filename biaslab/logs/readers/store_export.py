"""Exports of a `biaslab.Store`: ``key, judge, kind, request, reply``, as JSON Lines, CSV or Parquet.

A store keeps requests and replies but not their subject, so the prompt identifies the context of a judgement.
Probabilities of two labels, or of two and "Tie", are a pair, named "first" and "second" as shown; the labels of a known
scale are a score. Texts are parsed as scores if the prompt states a scale; other texts are left out. To run a probe on
an export, with contexts and candidates, use it as a judge: `biaslab.logs.exported.ExportedJudge`.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core import AT_LIMIT, UNUSABLE, Status
from biaslab.core.csv_files import unguarded
from biaslab.core.scales import SCALES, Scale, scale_named, stated_scale
from biaslab.datasets._files import text_key
from biaslab.logs.readers.field_values import plain
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import UNREAD, read_answer, scored
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"key", "judge", "kind", "request", "reply"})
_MOST_MASS = 1 + 1e-3  # tolerance for rounding
_LARGE = 700.0  # values above about 709 overflow exp
_LABELS = {scale.labels: scale for scale in SCALES.values()}


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one trial per reply that gives a score or compares two candidates."""
    judge, kind = [unguarded(name) for name in rows.take("judge", "id")], rows.take("kind", "id")
    requests, replies = ([_document(v) for v in rows.take(name, "any")] for name in ("request", "reply"))
    rows.refuse(np.array([not isinstance(r, dict) for r in requests]), "request is not a JSON object")
    rows.refuse(np.array([not isinstance(r, dict) for r in replies]), "reply is not a JSON object")
    trials = []
    for place, (request, reply) in enumerate(zip(requests, replies, strict=True)):
        if rows.good[place]:
            judgement = _judgement(str(kind[place]), request, reply, source)
            if judgement is None:
                rows.log.left_out["neither a pair nor a score"] += 1
            else:
                trials.append((place, judge[place], *judgement))
    identity = ("judge", "context_id", "opponent_id", "scale", "answer", "replicate")
    reading = ("value", "status", "label_mass", "reply")
    return trials_of_several(trials, (*identity, *reading), dataset="store", candidate_id="first")


def _document(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _judgement(kind: str, request: dict[str, Any], reply: dict[str, Any], source: Source) -> tuple[Any, ...] | None:
    try:
        prompt = "\n\n".join(str(message[1]) for message in request["messages"])
        if kind == "choice":
            labels = tuple(str(label).strip() for label in request["labels"])
            logprobs = [_level(level) for level in reply["logprobs"]]
            usable = reply.get("finish_reason") != UNUSABLE
            return _of_labels(text_key(prompt), labels, logprobs, usable)
        scale = stated_scale(prompt) if source.scale is None else scale_named(source.scale)
        if kind != "completion" or scale is None:
            return None
        text, replicate = reply.get("text"), int(request.get("replicate", 0))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return None
    reading = read_answer(text, scored(scale, None, source.score_pattern)) if isinstance(text, str) else UNREAD
    if reading[1] == "unparsable" and reply.get("finish_reason") == AT_LIMIT:
        reading = math.nan, "cut_off"
    shown = plain(text) if isinstance(text, str) else None
    return text_key(prompt), None, scale.name, "text", replicate, *reading, math.nan, shown


def _level(level: Any) -> float:
    """Return a log-probability; values well above 0 are kept, so that the total probability shows the error."""
    if level is None:
        return -math.inf
    number = math.nan if isinstance(level, bool) else float(level)
    return min(number, _LARGE) if number > _MOST_MASS - 1 else min(number, 0.0)


def _of_labels(context: str, labels: tuple[str, ...], logprobs: list[float], usable: bool) -> tuple[Any, ...] | None:
    if len(labels) != len(logprobs):
        return None
    chances = np.exp(logprobs)
    mass = float(chances.sum())
    is_usable = usable and mass <= _MOST_MASS
    scale = _LABELS.get(labels)
    if scale is not None:
        reading = _expected(scale, chances) if is_usable else (math.nan, UNUSABLE)
        return context, None, scale.name, "distribution", 0, *reading, mass, None
    if len(labels) not in (2, 3) or (len(labels) == 3 and labels[2] != "Tie"):
        return None
    value, status = _first(chances) if is_usable else (math.nan, UNUSABLE)
    return context, "second", None, "distribution", 0, value, status, mass, None


def _expected(scale: Scale, chances: np.ndarray[Any, Any]) -> tuple[float, Status]:
    total = chances.sum()
    return (float(chances @ np.array(scale.values) / total), "ok") if total > 0 else (math.nan, "refused")


def _first(chances: np.ndarray[Any, Any]) -> tuple[float, Status]:
    both = chances[0] + chances[1]
    if not both > 0:
        return (0.5, "tie") if len(chances) > 2 and chances[2] > 0 else (math.nan, "refused")
    return float(chances[0] / both), "tie" if len(chances) > 2 and chances[2] > max(chances[:2]) else "ok"
