r"""Formats of tools that a spec cannot declare: biaslab's own, OpenAI's batches, rankings, promptfoo and AlpacaEval.

**Saved trials** from `biaslab.collect` or `biaslab.read_judgements`, as CSV, JSON Lines or Parquet.

**Output files of OpenAI's batch API**: ``custom_id, response, error``, one reply per line.

Only ``custom_id`` identifies what was judged, so a mapping is required, such as ``context_id="custom_id~^(.+?)/"``.
Each choice is a replicate. Lines with an error, or a status other than 200, are left out.

**Lists of candidates** ranked in one prompt: ``candidates, ranking`` and the question.

``candidates`` names them in the order shown. ``ranking`` orders them from best to worst: a list of names or positions
(from 1), AlpacaEval's objects ``{"model": …, "rank": 1}``, or a text such as ``[2] > [1] > [3]``. If each candidate of
a list was shown equally often in each position, its trials are those of `biaslab.probes.ListPosition`. Other lists,
such as those in a single order, are informative about position only if their order was random
(`biaslab.logs.audit.measures`).

**promptfoo** (``promptfoo eval --output results.json`` or ``.jsonl``): assertions that a model graded.

The results are in ``results.results``, or one per line: ``provider`` (id, label), ``vars``, ``promptIdx``, ``response``
(output) and ``gradingResult.componentResults``, each with ``score`` (0 to 1), ``reason`` and ``assertion`` (type,
metric, provider). Assertions by code (``contains``, ``equals`` …) are left out.

**promptfoo's CSV** (``promptfoo eval --output results.csv``, or a download): a column of outputs for each provider.

Columns of variables are the context, and each output is headed ``[PROVIDER] prompt``. The next columns are ``Status,
Score, Named Scores, Grader Reason, Comment``. Named scores are each an attribute; an output without them has its score,
the mean over assertions. The file does not say whether a model or code gave a score.

**AlpacaEval**, ``annotations.json``: ``instruction, output_1, output_2, generator_1, generator_2, preference``.

``preference`` is 1 if output_1 won, 2 if output_2 won, 0 or 1.5 for a tie, null without a verdict; for a weighted judge
it is 1 + P(output_2 wins). AlpacaEval shows the outputs in random order and does not record which. If a weighted
preference comes with the log-probabilities of the two labels ("m" is the output shown first), the order is the one
consistent with the preference; preferences have ten digits, so this works however close to ½ they are. Ranking
annotators reveal the order: ``referenced_models`` names the output shown as "m", or else the preference identifies the
output at rank 1. Otherwise the order is unknown, and no order effect can be estimated. The probability of the label
shown first, ``p_first_label``, needs no order. Outputs may be missing, as in files shared without texts.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.schema import count_words
from biaslab.core.trials import AT_LIMIT, STATUSES, Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.columns import aliases
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.readings import BY_CODE
from biaslab.logs.readers.rows import (
    CALL_FAILED,
    MALFORMED,
    NUMERAL,
    SCHEMA,
    Judged,
    LogSource,
    RefusedRecordError,
    Rows,
    at,
    judged_records,
    read_value,
    record_trials,
    strings,
    trials_of,
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


def read_openai_batch(rows: Rows, source: LogSource, mapping: Mapping[str, str]) -> pd.DataFrame:
    """Return one trial per choice."""
    places, flat = judged_records(rows, _openai_choices, "OpenAI's batch API")
    if not flat:
        return pd.DataFrame()
    inner = Rows(flat, [rows.lines[place] for place in places], rows.log, textual=False)
    own = {name: name for name in ("judge", "replicate", "reply", "tokens")}
    trials = read_mapped(inner, source, own | dict(mapping))
    declined = np.array([entry["declined"] for entry in flat], bool)
    trials.loc[declined, "value"], trials.loc[declined, "status"] = np.nan, "refused"
    cut = np.array([entry["cut"] for entry in flat], bool) & (trials["status"] == "unparsable")
    trials.loc[cut, "status"] = "cut_off"
    return trials[inner.good].set_axis(np.array(places)[inner.good])


def _openai_choices(record: Judged) -> Iterator[Judged | str]:
    """Yield the choices of a chat completion."""
    response = record.get("response")
    if record.get("error") is not None or at(response, "status_code") not in (None, 200):
        yield CALL_FAILED
        return
    choices = at(response, "body.choices")
    messages = [at(choice, "message") for choice in choices] if isinstance(choices, list) else []
    if not messages or not all(isinstance(at(each, "content"), str | None) for each in messages):
        raise RefusedRecordError("the response contains no chat completion")
    for replicate, (choice, message) in enumerate(zip(choices, messages, strict=True)):
        refusal, reason = message.get("refusal"), choice.get("finish_reason")
        yield {
            "custom_id": record.get("custom_id"),
            "judge": at(response, "body.model"),
            "reply": refusal if isinstance(refusal, str) else message.get("content"),
            "replicate": replicate,
            "tokens": at(response, "body.usage.total_tokens"),
            "declined": isinstance(refusal, str) or reason == "content_filter",
            "cut": reason == AT_LIMIT,
        }


_BALANCED, _OTHERS = "list_position", "one_list"  # the probe and the measure that read these trials
_LEAST, _MOST = 2, 20
_RANKINGS_NAMES = ("model", "name", "candidate", "id")  # fields that name the candidate in an object with a rank
_RankedList = tuple[tuple[float, ...], Status]


def read_rankings(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one trial per position in each list, with the rank as value."""
    fields = {str(name) for record in rows.records for name in record}
    usual = aliases()["role"]["question"]["first"]
    question = next((name for name in usual if name in fields), usual[0])  # the first usual name for it

    def about(record: Judged) -> Judged:
        texts = {"judge": "unknown", "attribute": "overall"}
        own = {"context_id": rows.field(record, question, "id")}
        own |= {name: rows.field(record, name, "id", default) for name, default in texts.items()}
        return own | {"replicate": int(rows.field(record, "replicate", "number", 0))}

    def list_of(record: Judged) -> tuple[Any, ...]:
        names = _rankings_names(record.get("candidates"))
        return (*about(record).values(), frozenset(names))

    orders: dict[tuple[Any, ...], dict[tuple[str, ...], int]] = {}
    for _, record in rows.each(rows.records):
        with suppress(*MALFORMED):
            known = orders.setdefault(list_of(record), {})
            known.setdefault(_rankings_names(record.get("candidates")), len(known))

    def ranks(record: Judged) -> Iterator[Judged]:
        names, ranking = _rankings_names(record.get("candidates")), record.get("ranking")
        known = orders[list_of(record)]
        ranked, status = _rankings_ranks(ranking, names)
        probe = _BALANCED if _is_balanced(known) else _OTHERS
        reply = ranking if isinstance(ranking, str) else None
        fixed = {"probe": probe, **about(record), "status": status, "reply": reply, "k": len(names)}
        for place, (name, rank) in enumerate(zip(names, ranked, strict=True), start=1):
            yield {**fixed, "candidate_id": name, "value": rank, "list_order": known[names], "place": place,
                   "ranked": 1}  # fmt: skip

    return record_trials(rows, ranks, "rankings")


def _rankings_names(value: Any) -> tuple[str, ...]:
    """Return the names of the candidates; refuse a record if they are not a list of 2 to 20 different names."""
    names = [read_value(each, "id") for each in value] if isinstance(value, list) else []
    if None in names or len(set(names)) < len(names) or not _LEAST <= len(names) <= _MOST:
        raise RefusedRecordError("candidates is not a list of different names")
    return tuple(map(str, names))


def _is_balanced(orders: Collection[tuple[str, ...]]) -> bool:
    """Return whether each candidate of a list was shown equally often in each position."""
    k = len(next(iter(orders)))
    counts = Counter((place, name) for names in orders for place, name in enumerate(names))
    return len(orders) % k == 0 and set(counts.values()) == {len(orders) // k} and len(counts) == k * k


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


_BY_MODEL = (
    "llm-rubric", "g-eval", "model-graded-closedqa", "model-graded-factuality", "factuality", "closed-qa",
    "answer-relevance", "context-faithfulness", "context-recall", "context-relevance", "conversation-relevance", "pi",
    "search-rubric", "agent-rubric",
)  # fmt: skip
_CHOICES = ("select-best", "max-score")


def _promptfoo_results(record: Mapping[str, Any]) -> Sequence[Any]:
    if "gradingResult" in record:
        return [record]
    results = record.get("results")
    inner = results.get("results") if isinstance(results, dict) else results
    return inner if isinstance(inner, list) else []


def promptfoo_scores(record: Mapping[str, Any]) -> Iterator[Judged | str]:
    """Yield the scores of model-graded assertions in one result, or in a file of results."""
    for result in _promptfoo_results(record):
        grading, provider = result["gradingResult"], result["provider"]
        if grading is None:
            yield CALL_FAILED
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
            yield {"context_id": _question(result["vars"]), "candidate_id": candidate, "attribute": attribute,
                   "score": component["score"], "judge": judge, "reply": component.get("reason"),
                   "text": output}  # fmt: skip


def _question(variables: Any) -> Any:
    """Return the variables of a prompt; of a single one its value, so that labels of questions match."""
    return next(iter(variables.values())) if isinstance(variables, dict) and len(variables) == 1 else variables


_BESIDE = ("Status", "Score", "Named Scores", "Grader Reason")
_PROVIDER = re.compile(r"\[([^\]]+)\]\s")


def promptfoo_table_scores(record: Judged) -> Iterator[Judged | str]:
    """Yield the named scores of each output in a row."""
    names = list(record)
    if not (outputs := _promptfoo_outputs(names)):
        raise ValueError("no output")
    variables = {name: record[name] for name in names[: outputs[0]] if name != "Description"}
    systems = _promptfoo_systems([names[at] for at in outputs])
    for at_, system in zip(outputs, systems, strict=True):
        status, score, by_name, reason = (record[name] for name in names[at_ + 1 : at_ + 1 + len(_BESIDE)])
        if not status or status == "ERROR":
            yield CALL_FAILED
            continue
        named = dict(json.loads(by_name)) if by_name else {}
        for attribute, each in (named or {"score": score}).items():
            yield {"context_id": variables, "candidate_id": system, "attribute": attribute, "score": each,
                   "reply": reason or None, "text": str(record[names[at_]] or "")}  # fmt: skip


def _promptfoo_outputs(names: Sequence[str]) -> list[int]:
    """Return the places of columns of outputs, which those of their status, score and reason follow."""
    plain_names = [name.partition(" #")[0] for name in names]
    return [at for at in range(len(names)) if tuple(plain_names[at + 1 : at + 1 + len(_BESIDE)]) == _BESIDE]


def _promptfoo_systems(headings: Sequence[str]) -> list[str]:
    """Return the providers of the outputs, from their headings, numbered if one has several prompts."""
    matches = [_PROVIDER.match(heading) for heading in headings]
    names = [f"output {at}" if match is None else match[1] for at, match in enumerate(matches, start=1)]
    numbers = [names[:at].count(name) for at, name in enumerate(names)]
    return [name if names.count(name) == 1 else f"{name} (prompt {n})" for name, n in zip(names, numbers, strict=True)]


_ANSWERS = ("m", "M")  # shown first, shown second
_OUTPUTS = {"output_1": 1, "output_2": 2}
_CLOSE = 1e-3  # tolerance for preferences rounded to three digits
_CLEARLY = 20  # minimum ratio of the distances from the two orders


def read_alpaca_eval(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record."""
    has_outputs = [rows.has(name) for name in _OUTPUTS]

    def pairs(record: Judged) -> Iterator[Judged]:
        instruction = rows.text(record, "instruction")
        texts = [rows.text(record, name) if has else None for name, has in zip(_OUTPUTS, has_outputs, strict=True)]
        words = [math.nan if text is None else float(count_words(text)) for text in texts]
        systems = [rows.field(record, f"generator_{i}", "id") for i in (1, 2)]
        second, status = _second_wins(rows.field(record, "preference", "number"))
        judge, completion = rows.field(record, "annotator", "id", "unknown"), record.get("raw_completion")
        order, share, mass = _shown_order(completion, second, record.get("referenced_models"))
        one, two = (0, 1) if order == 1 else (1, 0)  # unknown orders keep output_2, the candidate, first
        text = completion.get("text") if isinstance(completion, dict) else completion
        yield {
            "judge": judge,
            "context_id": text_key(instruction),
            "candidate_id": systems[one],
            "opponent_id": systems[two],
            "words": words[one],
            "opponent_words": words[two],
            "order_known": order > 0,
            "value": 1 - second if order == 1 else second,
            "status": status,
            "p_first_label": share,
            "label_mass": mass,
            "reply": text if isinstance(text, str) else None,
        }

    return record_trials(rows, pairs, "AlpacaEval", dataset="alpaca_eval")


def _second_wins(preference: float) -> tuple[float, Status]:
    """Return P(output_2 wins) and the status."""
    if math.isnan(preference):
        return math.nan, "unparsable"
    if preference in (0.0, 1.5):
        return 0.5, "tie"
    return (preference - 1.0, "ok") if 1.0 <= preference <= 2.0 else (math.nan, "out_of_range")


def _shown_order(completion: Any, second: float, named: Any) -> tuple[int, float, float]:
    """Return the output shown first (1 or 2; 0 if unknown), the share of its label, and the mass of both labels."""
    if isinstance(named, dict) and (order := _named_first(named)):
        return order, math.nan, math.nan
    if isinstance(completion, dict) and "ordered_models" in completion:
        return _ranked(completion["ordered_models"], second), math.nan, math.nan
    try:
        top = completion["logprobs"]["content"][0]["top_logprobs"]
        probabilities = {entry["token"]: math.exp(min(float(entry["logprob"]), 0.0)) for entry in top}
    except (KeyError, IndexError, TypeError, ValueError):
        return 0, math.nan, math.nan
    masses = [probabilities.get(answer, 0.0) for answer in _ANSWERS]
    total = sum(masses)
    if not total > 0:
        return 0, math.nan, math.nan
    share = masses[0] / total
    if math.isnan(second):
        return 0, share, total
    apart = sorted((abs(chance - share), order) for order, chance in ((1, 1 - second), (2, second)))
    (near, order), (far, _) = apart
    return (order if near < _CLOSE and far > _CLEARLY * near else 0), share, total


def _named_first(named: dict[Any, Any]) -> int:
    """Return the output shown first, from the outputs labelled "m" and "M"; 0 if unknown."""
    first, second = (named.get(answer) for answer in _ANSWERS)
    if first in _OUTPUTS:
        return _OUTPUTS[first]
    return 3 - _OUTPUTS[second] if first is None and second in _OUTPUTS else 0


def _ranked(models: Any, second: float) -> int:
    """Return the output shown first, from the label at rank 1 and the output that won; 0 if unknown."""
    rows = [one for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    best = [one.get("model") for one in rows if one.get("rank") in (1, "1")]
    if best not in ([_ANSWERS[0]], [_ANSWERS[1]]) or second not in (0.0, 1.0):
        return 0
    winner = 2 if second else 1
    return winner if best == [_ANSWERS[0]] else 3 - winner
