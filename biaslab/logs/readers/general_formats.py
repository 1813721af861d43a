"""Formats of no single study: saved trials, exports of a store, OpenAI's batches, and rankings of lists.

Saved trials from `biaslab.collect` or `biaslab.read_judgements`, as CSV, JSON Lines or Parquet.

Exports of a `biaslab.Store`: ``key, judge, kind, request, reply``, as JSON Lines, CSV or Parquet.

A store keeps requests and replies but not their subject, so the prompt identifies the context of a judgement.
Probabilities of two labels, or of two and "Tie", are a pair, named "first" and "second" as shown; the labels of a known
scale are a score. Texts are parsed as scores if the prompt states a scale; other texts are left out. To run a probe on
an export, with contexts and candidates, use it as a judge: `biaslab.logs.recorded.ExportedJudge`.

Output files of OpenAI's batch API: ``custom_id, response, error``, one reply per line.

Only ``custom_id`` identifies what was judged, so a mapping is required, such as ``context_id="custom_id~^(.+?)/"``.
Each choice is a replicate. Lines with an error, or a status other than 200, are left out.

Lists of candidates ranked in one prompt: ``candidates, ranking`` and the question.

``candidates`` names them in the order shown. ``ranking`` orders them from best to worst: a list of names or positions
(from 1), AlpacaEval's objects ``{"model": …, "rank": 1}``, or a text such as ``[2] > [1] > [3]``. If each candidate of
a list was shown equally often in each position, its trials are those of `biaslab.probes.ListPosition`. Other lists,
such as those in a single order, are informative about position only if their order was random
(`biaslab.logs.audit.measures`).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.files import unguarded
from biaslab.core.scales import SCALES, Scale, scale_named, stated_scale
from biaslab.core.trials import AT_LIMIT, STATUSES, UNUSABLE, Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.columns import aliases
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.readings import UNREAD, read_answer, scored
from biaslab.logs.readers.rows import (
    CALL_FAILED,
    NUMERAL,
    SCHEMA,
    LogSource,
    Rows,
    at,
    plain,
    read_value,
    strings,
    trials_of,
    trials_of_several,
)
from biaslab.prompts.protocols import list_protocol

COLLECTED_FIELDS = frozenset(
    {"probe", "judge", "dataset", "context_id", "candidate_id", "attribute", "replicate", "value", "status"}
)


def read_collected(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return the saved trials, including the conditions of any probe."""
    columns = {
        name: rows.take(name, "id") for name in ("probe", "judge", "dataset", "context_id", "candidate_id", "attribute")
    }
    value, status = rows.take("value", "number"), rows.take("status", "id")
    rows.refuse(~status.isin(STATUSES), f"status is not one of {', '.join(STATUSES)}")
    usable = status.isin(["ok", "tie"])
    rows.refuse(usable & value.isna(), "a value is missing")
    rows.refuse(~usable & value.notna(), "a value although the status excludes one")
    names = dict.fromkeys(name for record in rows.records for name in record)
    for name in (name for name in names if name not in (*COLLECTED_FIELDS, "key")):
        column = SCHEMA.get(name)
        if column is None or column.kind in ("text", "name"):
            columns[name] = _saved_column(rows, name, textual=column is not None)
        else:
            columns[name] = rows.take(name, column.kind, column.default if column.kind == "flag" else None)
    if "opponent_id" in columns:
        paired = columns["opponent_id"].notna()
        rows.refuse(usable & paired & ~value.between(0, 1), "a pair's value is not from 0 to 1")
    columns["replicate"] = rows.take("replicate", "number", 0).fillna(0)
    trials = trials_of({**columns, "value": value, "status": status}, value.index)
    others = {name: column for name, column in columns.items() if name not in trials}
    return trials.assign(**others)


def _saved_column(rows: Rows, name: str, textual: bool) -> pd.Series:
    """Return a saved column; a probe's own condition becomes numeric if all its values are numbers."""
    values = [record.get(name) for record in rows.records]
    wrong = [not isinstance(value, str | int | float | None) for value in values]
    rows.refuse(np.array(wrong, bool), f"{name} is not a plain value")
    kept = [None if bad or value == "" or value != value else value for value, bad in zip(values, wrong, strict=True)]
    numeral = [isinstance(v, str) and rows.textual and NUMERAL.fullmatch(v) is not None for v in kept]
    words = [isinstance(v, str | bool) and not number for v, number in zip(kept, numeral, strict=True)]
    if textual or any(words):
        return strings([None if v is None else str(v) for v in kept])
    return pd.Series(kept, dtype=float)


_MOST_MASS = 1 + 1e-3  # tolerance for rounding
_LARGE = 700.0  # values above about 709 overflow exp
_LABELS = {scale.labels: scale for scale in SCALES.values()}


def read_store_export(rows: Rows, source: LogSource) -> pd.DataFrame:
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


def _judgement(kind: str, request: dict[str, Any], reply: dict[str, Any], source: LogSource) -> tuple[Any, ...] | None:
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
    value, status = _store_export_first(chances) if is_usable else (math.nan, UNUSABLE)
    return context, "second", None, "distribution", 0, value, status, mass, None


def _expected(scale: Scale, chances: np.ndarray[Any, Any]) -> tuple[float, Status]:
    total = chances.sum()
    return (float(chances @ np.array(scale.values) / total), "ok") if total > 0 else (math.nan, "refused")


def _store_export_first(chances: np.ndarray[Any, Any]) -> tuple[float, Status]:
    both = chances[0] + chances[1]
    if not both > 0:
        return (0.5, "tie") if len(chances) > 2 and chances[2] > 0 else (math.nan, "refused")
    return float(chances[0] / both), "tie" if len(chances) > 2 and chances[2] > max(chances[:2]) else "ok"


def read_openai_batch(rows: Rows, source: LogSource, mapping: Mapping[str, str]) -> pd.DataFrame:
    """Return one trial per choice."""
    error = rows.take("error", "any")
    response = rows.take("response", "any")
    status = [at(each, "status_code") for each in response]
    went_wrong = pd.Series([e is not None or s not in (None, 200) for e, s in zip(error, status, strict=True)])
    rows.leave_out(went_wrong, CALL_FAILED)
    replies = [_openai_batch_choices(each) for each in response]
    rows.refuse(np.array([choices is None for choices in replies], bool), "the response contains no chat completion")
    flat, places = [], []
    for place, choices in enumerate(replies):
        for choice in choices or [] if rows.good[place] else []:
            flat.append({"custom_id": rows.records[place].get("custom_id"), **choice})
            places.append(place)
    inner = Rows(flat, [rows.lines[place] for place in places], rows.log, textual=False)
    if not flat:
        return pd.DataFrame()
    own = {name: name for name in ("judge", "replicate", "reply", "tokens")}
    trials = read_mapped(inner, source, own | dict(mapping))
    declined = np.array([entry["declined"] for entry in flat], bool)
    trials.loc[declined, "value"], trials.loc[declined, "status"] = np.nan, "refused"
    cut = np.array([entry["cut"] for entry in flat], bool) & (trials["status"] == "unparsable")
    trials.loc[cut, "status"] = "cut_off"
    return trials[inner.good].set_axis(np.array(places)[inner.good])


def _openai_batch_choices(response: Any) -> list[dict[str, Any]] | None:
    """Return the choices of a chat completion; None if there is none."""
    choices = at(response, "body.choices")
    if not isinstance(choices, list) or not choices:
        return None
    judge, total = at(response, "body.model"), at(response, "body.usage.total_tokens")
    replies = []
    for replicate, choice in enumerate(choices):
        message = at(choice, "message")
        if not isinstance(message, dict) or not isinstance(message.get("content"), str | None):
            return None
        refusal = message.get("refusal")
        declined = isinstance(refusal, str) or choice.get("finish_reason") == "content_filter"
        replies.append({
            "judge": judge,
            "reply": refusal if isinstance(refusal, str) else message.get("content"),
            "replicate": replicate,
            "tokens": total,
            "declined": declined,
            "cut": choice.get("finish_reason") == AT_LIMIT,
        })  # fmt: skip
    return replies


_BALANCED, _OTHERS = "list_position", "one_list"  # the probe and the measure that read these trials
_LEAST, _MOST = 2, 20
_RANKINGS_COLUMNS = (
    "probe",
    "context_id",
    "candidate_id",
    "judge",
    "attribute",
    "replicate",
    "value",
    "status",
    "reply",
)
_OF_LISTS = ("k", "list_order", "place")  # columns that only trials of lists have
_RANKINGS_NAMES = ("model", "name", "candidate", "id")  # fields that name the candidate in an object with a rank
_RankedList = tuple[tuple[float, ...], Status]


def read_rankings(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one trial per position in each list, with the rank as value."""
    context = _rankings_context(rows)
    judge, attribute = rows.take("judge", "id", "unknown"), rows.take("attribute", "id", "overall")
    replicate = rows.take("replicate", "number", 0)
    shown = [_rankings_names(value) for value in rows.values("candidates")]
    rows.refuse(
        pd.Series([names is None for names in shown], dtype=bool), "candidates is not a list of different names"
    )
    lists = [
        (context[at], judge[at], attribute[at], replicate[at], frozenset(names or ())) for at, names in enumerate(shown)
    ]
    unbalanced = _unbalanced(lists, shown)
    orders: dict[tuple[Any, ...], dict[tuple[str, ...], int]] = {}
    values: list[tuple[Any, ...]] = []
    places: list[tuple[int, ...]] = []
    for index, (names, ranking) in enumerate(zip(shown, rows.values("ranking"), strict=True)):
        if names is None or not rows.good[index]:
            continue
        known = orders.setdefault(lists[index], {})
        number = known.setdefault(names, len(known))
        ranks, status = _rankings_ranks(ranking, names)
        read_ = (status, ranking if isinstance(ranking, str) else None)
        about = (judge[index], attribute[index], int(replicate[index]))
        for place, (name, rank) in enumerate(zip(names, ranks, strict=True), start=1):
            values.append(
                (index, _OTHERS if unbalanced[index] else _BALANCED, context[index], name, *about, rank, *read_)
            )
            places.append((len(names), number, place))
    trials = trials_of_several(values, _RANKINGS_COLUMNS)
    columns = {name: [row[at] for row in places] for at, name in enumerate(_OF_LISTS)}
    return trials.assign(**columns, ranked=1)


def _rankings_context(rows: Rows) -> pd.Series:
    """Return the question, from the first field with a common name for it."""
    fields = list(dict.fromkeys(str(name) for record in rows.records for name in record))
    usual = aliases()["role"]["question"]["first"]
    return rows.take(next((name for name in usual if name in fields), usual[0]), "id")


def _rankings_names(value: Any) -> tuple[str, ...] | None:
    """Return the names of the candidates; None if they are not a list of 2 to 20 different names."""
    if not isinstance(value, list):
        return None
    names = [read_value(each, "id") for each in value]
    good = None not in names and len(set(names)) == len(names) and _LEAST <= len(names) <= _MOST
    return tuple(map(str, names)) if good else None


def _unbalanced(lists: Sequence[tuple[Any, ...]], shown: Sequence[tuple[str, ...] | None]) -> list[bool]:
    """Return, for each record, whether the positions of its candidates are unbalanced."""
    seen: dict[tuple[Any, ...], dict[tuple[str, ...], None]] = {}
    for key, names in zip(lists, shown, strict=True):
        if names is not None:
            seen.setdefault(key, {})[names] = None
    uneven = set()
    for key, orders in seen.items():
        counts = Counter((place, name) for names in orders for place, name in enumerate(names))
        k = len(next(iter(orders)))
        if len(orders) % k or set(counts.values()) != {len(orders) // k} or len(counts) != k * k:
            uneven.add(key)
    return [key in uneven for key in lists]


def _rankings_ranks(ranking: Any, names: tuple[str, ...]) -> _RankedList:
    """Return the rank of each candidate in the order shown, and the status."""
    if isinstance(ranking, str):
        return list_protocol(ranks=True).parse_list(ranking, len(names))
    unread: _RankedList = ((math.nan,) * len(names), "unparsable")
    if not isinstance(ranking, list) or not ranking:
        return unread
    if all(isinstance(each, Mapping) for each in ranking):
        ranking = _by_rank(ranking)
    best_first = [_rankings_name(each, names) for each in ranking or ()]
    if not best_first:
        return unread
    if len(set(best_first)) < len(best_first):
        return unread[0], "repeated"
    if not set(best_first) <= set(names):
        return unread[0], "invented"
    if len(best_first) < len(names):
        return unread[0], "incomplete"
    return tuple(float(best_first.index(name) + 1) for name in names), "ok"


def _by_rank(entries: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """Return the names in objects with ranks, best first; None if the ranks are not 1 to n."""
    ranks = [read_value(entry.get("rank", ""), "number") for entry in entries]
    if sorted(rank for rank in ranks if rank is not None) != list(range(1, len(ranks) + 1)):
        return None
    who = [next((entry[name] for name in _RANKINGS_NAMES if name in entry), None) for entry in entries]
    return [who[ranks.index(rank)] for rank in range(1, len(ranks) + 1)]


def _rankings_name(value: Any, names: tuple[str, ...]) -> str:
    """Return the candidate with this name or, failing that, in this position."""
    name = read_value(value, "id")
    if name in names or name is None:
        return str(name)
    place = int(name) if name.isascii() and name.isdigit() and len(name) < 3 else 0
    return names[place - 1] if 0 < place <= len(names) else name
