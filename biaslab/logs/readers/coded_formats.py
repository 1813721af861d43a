r"""Formats that a spec cannot declare: of tools and of studies.

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

**Self-recognition** (Panickssery et al. 2024, arXiv 2404.13076), a judge's own summary against another one.

``key, model, self_preference``, where ``model`` wrote the other summary. ``forward_comparison`` is the label chosen
when the judge's own summary is shown first, ``backward_comparison`` when it is shown second; their probabilities, if
any, are in ``…_probability`` (of the chosen label) or ``…_comparison_output`` (of both). ``self_preference``, the mean
over both orders, becomes ``p_both_orders`` if neither order has a probability of its own. Where they have one, the mean
turns out to be something else: in the ``label_wrong`` files, it refers to the summary *labelled* as the judge's, which
is the other one; in Llama-2's ``pairs_`` file, to another question (recognition). If neither order is recorded, the
mean is the judgement and the order is unknown; under wrong or random names it is unclear which text the mean refers to,
so it is left out.

``scores_`` files have ``key, model, target_model, scores``, exact distributions over 1 to 5; the value is the expected
score. Data set, naming of authors and, for pairs, the judge are taken from the file name:
``pairs_xsum_gpt4.json``, ``label_wrong_xsum_gpt4.json``, ``scores_xsum_gpt4.json``. A file may hold rows of both data
sets: a key of 40 hexadecimal digits is a CNN/Daily Mail article, one of eight digits an XSum article.

**G-Eval**, several samples per item: ``source, system_output, prompt, all_responses`` and, mostly, ``scores``.

The format of G-Eval (Liu et al. 2023, arXiv 2303.16634) and of *A Closer Look into Automatic Evaluation Using LLMs*
(Chiang & Lee 2023, arXiv 2310.05657), a JSON list. The prompt gives attribute, scale, output order and whether there
are evaluation steps (auto-CoT); the judge is the part of the file name before the first underscore.

**SocREval**, scores by a reasoning model, several samples per item: ``id, human, prompt, responses``.

Replies to prompts of *SocREval* (He et al. 2024, arXiv 2310.00074), as JSON Lines. The prompt gives the scale, such as
``[1, 2, 3, 4, 5]``, and the name of the score, which is the last field of its example, such as ``"overall quality":
5``. In a reply, the score is the first number next to that name after the thinking. If any reply in a file closes
thinking that it did not open, the prompt opened it, and replies that do not close it were cut off. Judge and data set
are the parts of the file name before and after the last underscore.

**LLMBar**, ``result.json`` (Zeng et al. 2024, arXiv 2310.07641): a list of pairs, each judged in both orders.

``input, output_1, output_2, label, results``. The last entry of ``results`` is the verdict, ``{"swap = False":
{completion, winner}, "swap = True": …}``; earlier entries are intermediate steps that the judge saw before it decided
(the questions of ``Metrics``, the answer of ``Reference``, or the first round of ``Swap``), not replicates. With swap,
output_2 was shown first; ``winner`` is already mapped back.

If the last entry has ``score_1`` and ``score_2`` (``Rating*``), each output was scored separately, 0 to 9, and
``winner`` derives from the scores, with ties broken by the order: the trials are scores, and ``winner`` is ignored.

The gold ``label`` is the human preference: ``human_gap`` ±1 for pairs, ``human`` 1 or 0 for scores. The prompt is the
context; if several pairs share it, the outputs of the second are called ``output_1 (2)`` and so on. Judge, prompt and
subset are taken from the path, ``<subset>/evaluators/<judge>/<prompt>/result.json``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.files import declared
from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.core.trials import AT_LIMIT, STATUSES, Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.cells import NUMERAL, at, measured, plain, read_value, strings
from biaslab.logs.readers.columns import aliases
from biaslab.logs.readers.mapping import read_mapped
from biaslab.logs.readers.readings import BY_CODE, UNREAD, number_on, probability, read_answer, scored
from biaslab.logs.readers.rows import CALL_FAILED, Judged, LogSource, RefusedRecordError, Rows, judged_records
from biaslab.logs.readers.trials import SCHEMA, record_trials, trials_of
from biaslab.prompts.parsing.replies import ParsedScore, is_refusal
from biaslab.prompts.parsing.thoughts import begins_inside
from biaslab.prompts.protocols import list_protocol


def read_collected(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return the saved trials, including the conditions of any probe."""
    identity = ("probe", "judge", "dataset", "context_id", "candidate_id", "attribute")
    columns = {name: rows.take(name, "id") for name in identity}
    value, status = rows.take("value", "number"), rows.take("status", "id")
    rows.refuse(~status.isin(STATUSES), f"status is not one of {', '.join(STATUSES)}")
    usable = status.isin(["ok", "tie"])
    rows.refuse(usable & value.isna(), "a value is missing")
    rows.refuse(~usable & value.notna(), "a value although the status excludes one")
    read = {*columns, "value", "status", "replicate", "key"}
    for name in dict.fromkeys(name for record in rows.records for name in record if name not in read):
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
        return (*about(record).values(), frozenset(_rankings_names(record.get("candidates"))))

    orders: dict[tuple[Any, ...], dict[tuple[str, ...], int]] = {}
    for _, record in rows.each(rows.records):
        with suppress(ValueError):  # it is raised again below
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


_PROMPTFOO = declared("biaslab.logs", "formats/promptfoo.toml")


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
            if kind in _PROMPTFOO["choices"]:
                yield "a choice among outputs, which is no score"
                continue
            if kind not in _PROMPTFOO["by_model"]:
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
        for attribute, own in (named or {"score": score}).items():
            yield {"context_id": variables, "candidate_id": system, "attribute": attribute, "score": own,
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


_SELF_RECOGNITION_NAME = re.compile(r"(?:pairs|label_(?P<naming>[a-z]+)|scores)_(?P<dataset>[^_]+)_(?P<judge>[^_.]+)\.")
_NAMINGS = {"correct": "authors named rightly", "wrong": "authors named wrongly", "random": "authors named at random"}
_PROBABILITIES = ("probability", "comparison_output")
_SELF_RECOGNITION_SCALE = "1-5"
#: Data sets recognised by the form of their identifiers.
_IDS = {"cnn": re.compile(r"[0-9a-f]{40}"), "xsum": re.compile(r"\d{8}")}
_OF_OWN_TEXT = ("recorded", "authors named rightly")  # namings under which a bare mean refers to the judge's own text
_UNCLEAR = "self_preference under wrong or random names does not say which text it refers to"


def read_self_recognition(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per order, or one of unknown order if the file has only the mean of both."""
    judge, named, naming = _of_name(source.file)

    def pairs(record: Judged) -> Iterator[Judged | str]:
        key, other = rows.field(record, "key", "id"), rows.field(record, "model", "id")
        mean = rows.field(record, "self_preference", "number")
        if other == judge:
            raise RefusedRecordError("the other summary is the judge's own")
        if mean < 0 or mean > 1:
            raise RefusedRecordError("self_preference is not a probability")
        if naming not in _OF_OWN_TEXT and not _has_orders(record):
            yield _UNCLEAR
            return
        for order in _orders(record, judge, other, mean):
            yield {"context_id": key, "dataset": _dataset(key, named), **order}

    return record_trials(rows, pairs, "self-recognition", judge=judge, template=naming, judge_system=judge)


def read_self_recognition_scores(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per record."""
    scale, named = scale_named(source.scale or _SELF_RECOGNITION_SCALE), _of_name(source.file)[1]

    def scores(record: Judged) -> Iterator[Judged]:
        key, judge, system = (rows.field(record, name, "id") for name in ("key", "model", "target_model"))
        if (chances := _distribution(record.get("scores"))) is None:
            raise RefusedRecordError("scores are not probabilities of integers")
        mass = sum(chances.values())
        expected = sum(score * chance for score, chance in chances.items()) / mass if mass > 0 else math.nan
        value, status = number_on(scale)(expected)
        yield {"judge": judge, "context_id": key, "dataset": _dataset(key, named), "candidate_id": system,
               "value": value, "status": status, "label_mass": mass}  # fmt: skip

    return record_trials(rows, scores, "self-recognition", scale=scale.name, answer="distribution")


def _of_name(file: str) -> tuple[str, str, str]:
    """Return judge, data set and naming of authors, from the file name."""
    match = _SELF_RECOGNITION_NAME.match(file.rsplit("/", 1)[-1])
    if match is None:
        return "unknown", "unknown", "recorded"
    return match["judge"], match["dataset"], _NAMINGS.get(match["naming"] or "", "recorded")


def _dataset(key: str, named: str) -> str:
    """Return the data set of an article, by the form of its identifier or else by the file name."""
    return next((name for name, form in _IDS.items() if form.fullmatch(key)), named)


def _has_orders(record: Judged) -> bool:
    return any(f"{order}_comparison" in record for order in ("forward", "backward"))


def _orders(record: Judged, judge: str, other: str, mean: float) -> Iterator[Judged]:
    names = ("candidate_id", "opponent_id", "order_known", "p_both_orders", "value", "status", "label_mass")
    if not _has_orders(record):
        yield dict(zip(names, (judge, other, False, mean, *probability(mean), math.nan), strict=True))
        return
    single = any(f"{order}_{field}" in record for order in ("forward", "backward") for field in _PROBABILITIES)
    for order, shown, own in (("forward", (judge, other), mean), ("backward", (other, judge), 1 - mean)):
        value, mass = _first_wins(record, order)
        both = math.nan if single else own
        yield dict(zip(names, (*shown, True, both, *probability(value), mass), strict=True))


def _first_wins(record: Judged, order: str) -> tuple[float, float]:
    """Return the probability of the first label and the total of both, from the distribution or the chosen label."""
    distribution = record.get(f"{order}_comparison_output")
    if isinstance(distribution, dict):
        masses = [_chance(distribution.get(label, 0.0)) for label in ("1", "2")]
        total = sum(masses)
        return (masses[0] / total, total) if total > 0 else (math.nan, math.nan)
    chosen = str(record.get(f"{order}_comparison"))
    if chosen not in ("1", "2"):
        return math.nan, math.nan
    probability = f"{order}_probability"
    sure = _chance(record[probability]) if probability in record else 1.0
    return (sure if chosen == "1" else 1 - sure), math.nan


def _chance(value: Any) -> float:
    """Return a probability; NaN if it is not one."""
    return number if 0 <= (number := measured(value)) <= 1 else math.nan


def _distribution(scores: Any) -> dict[int, float] | None:
    """Return the probability of every score; None if the object is not a distribution."""
    if not isinstance(scores, dict) or not scores:
        return None
    whole_numbers = [score for score in scores if re.fullmatch(r"\d{1,3}", str(score))]
    distribution = {int(score): _chance(scores[score]) for score in whole_numbers}
    whole = len(distribution) == len(scores) and all(chance == chance for chance in distribution.values())
    return distribution if whole and sum(distribution.values()) <= 1 + 1e-6 else None


_ATTRIBUTE = re.compile(r"^[ \t]*-?[ \t]*(?P<name>[A-Z]\w+):?\s*\Z", re.MULTILINE)
_CRITERION = re.compile(r"\b(?P<name>[A-Z]\w+)[ \t]*\((?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)\)")
_ALL_RESPONSES_SCALE = re.compile(r"scale of (?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)")
_ALL_RESPONSES = declared("biaslab.logs", "formats/all_responses.toml")


def read_all_responses(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per sample; a recorded judge finds the context by ``source_key``."""

    def scores(record: Judged) -> Iterator[Judged]:
        text, output, prompt = (rows.text(record, name) for name in ("source", "system_output", "prompt"))
        about, system = rows.field(record, "context", "text"), rows.field(record, "system_id", "id", "unknown")
        samples, people = _samples(rows, record, "all_responses"), record.get("scores")
        if (asked := _question_of_prompt(prompt)) is None:
            raise RefusedRecordError("the prompt names no attribute with a scale")
        attribute, scale, form, order = asked
        scale = source.scale or scale
        fixed = {
            "dataset": _dataset_of(people),
            "context_id": text_key(*(part.strip() for part in (text, about) if part is not None)),
            "candidate_id": system if system != "unknown" else text_key(output.strip()),
            "attribute": attribute,
            "scale": scale,
            "form": form,
            "order": order,
            "configuration": f"{form}, {order}",
            "human": measured(people.get(attribute)) if isinstance(people, dict) else math.nan,
            "words": float(count_words(output)),
            "source_key": text_key(text.strip()),
        }
        read = scored(scale_named(scale), attribute, source.score_pattern)
        yield from (fixed | sample for sample in _read_samples(samples, lambda reply: read_answer(reply, read)))

    judge = source.file.rsplit("/", 1)[-1].split("_")[0]
    return record_trials(rows, scores, "G-Eval", judge=judge)


def _samples(rows: Rows, record: Judged, name: str) -> list[str | None]:
    """Return the replies in a list."""
    samples: list[str | None] = rows.field(record, name, "list")
    if not all(isinstance(reply, str | None) for reply in samples):
        raise RefusedRecordError("a response is not text")
    return samples


def _read_samples(samples: Sequence[str | None], read: Callable[[str], ParsedScore]) -> Iterator[Judged]:
    """Yield the replies as replicates, each with its score."""
    for replicate, reply in enumerate(map(plain, samples)):
        value, status = UNREAD if reply is None else read(reply)
        yield {"replicate": replicate, "reply": reply, "value": value, "status": status}


def _question_of_prompt(prompt: str) -> tuple[str, str, str, str] | None:
    """Return attribute, scale, form and output order; None if the prompt names no attribute with a scale."""
    ends = _ATTRIBUTE.search(prompt)
    spans = [span for span in _CRITERION.finditer(prompt) if ends is None or span["name"] == ends["name"]]
    if not spans:
        return None
    span = _ALL_RESPONSES_SCALE.search(prompt) if ends is None else None
    low, high = (int((span or spans[0])[end]) for end in ("low", "high"))
    if not low < high:
        return None
    tail = prompt[-600:]
    rating, reasons = tail.find('"Rating:'), max(tail.find('"Rationale:'), tail.find('"Analysis:'))
    order = "s" if reasons < 0 else "sr" if 0 <= rating < reasons else "rs"
    form = "question" if ends is None else "auto-CoT" if "Evaluation Steps" in prompt else "no auto-CoT"
    return spans[0]["name"].lower(), f"{low}-{high}", form, order


def _dataset_of(scores: Any) -> str:
    names = set(scores) if isinstance(scores, dict) else set()
    return next((name for name, own in _ALL_RESPONSES["attributes"].items() if set(own) <= names), "unknown")


_SOCREVAL_SCALE = re.compile(r"\[(\d+)(?:, \d+)*, (\d+)\]")
_SOCREVAL_NAME = re.compile(r'"(\w[\w -]*)": ?\d+(?:\.\d+)?\s*\}')


def read_socreval(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per sample."""
    replies = (reply for samples in rows.values("responses") if isinstance(samples, list) for reply in samples)
    opened = any(begins_inside(reply) for reply in replies if isinstance(reply, str))

    def scores(record: Judged) -> Iterator[Judged]:
        identity, prompt = rows.field(record, "id", "id"), rows.field(record, "prompt", "text")
        human, samples = rows.field(record, "human", "number"), _samples(rows, record, "responses")
        if (asked := _name_and_scale(prompt or "")) is None:
            raise RefusedRecordError("the prompt shows no scale, or no example of a score")
        name, stated = asked
        scale = scale_named(source.scale or stated)
        read = scored(scale, pattern=source.score_pattern or _number_after(name))
        fixed = {"context_id": identity, "attribute": name, "scale": scale.name, "human": human}
        for sample in _read_samples(samples, lambda reply: read_answer(reply, read, opened=opened)):
            yield fixed | sample

    judge, _, dataset = source.file.rsplit("/", 1)[-1].partition(".")[0].rpartition("_")
    about = {"judge": judge or "unknown", "dataset": dataset, "candidate_id": "response"}
    return record_trials(rows, scores, "SocREval", **about)


def _name_and_scale(prompt: str) -> tuple[str, str] | None:
    """Return the name of the score and the scale; None if the prompt lacks one of them."""
    scale, name = _SOCREVAL_SCALE.search(prompt), _SOCREVAL_NAME.search(prompt)
    if scale is None or name is None or not int(scale[1]) < int(scale[2]):
        return None
    return name[1], f"{scale[1]}-{scale[2]}"


def _number_after(name: str) -> str:
    """Return a pattern that captures the number after a name, in JSON or Markdown."""
    words = "[ _]".join(map(re.escape, re.split(r"[ _]", name)))
    return rf'(?i){words}"?\s*:?[\s*"]*(\d+(?:\.\d+)?)'


_LLMBAR_OUTPUTS = ("output_1", "output_2")
_LLMBAR_SCORES = ("score_1", "score_2")
_LLMBAR_SCALE = "0-9"
_FILTERED = ("content_filter", "content management policy")  # reasons for a missing text


_LlmbarOutput = tuple[str, int, bool]  # name, words, and whether the gold label is for it


def read_llmbar(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record and order, or one score trial per record and output."""
    subset, judge, prompt = _of_path(source.file)
    scale = source.scale or _LLMBAR_SCALE
    score = scored(scale_named(scale), None, source.score_pattern)
    known: dict[str, dict[str, int]] = {}  # prompt → pair of outputs → number of the pair

    def judged(record: Judged) -> Iterator[Judged]:
        asked, *shown = (rows.text(record, name) for name in ("input", *_LLMBAR_OUTPUTS))
        label, results = rows.field(record, "label", "id"), rows.field(record, "results", "list")
        if label not in ("1", "2"):
            raise RefusedRecordError("label is neither 1 nor 2")
        last: Any = results[-1] if results else None
        is_rating = isinstance(last, dict) and all(name in last for name in _LLMBAR_SCORES)
        if not (is_rating or _is_pair(last)):
            raise RefusedRecordError("the last result is neither a verdict in both orders nor two scores")
        key = text_key(asked)
        among = known.setdefault(key, {})
        place = among.setdefault(text_key(*shown), len(among) + 1)
        outputs = [
            (f"{name} ({place})" if place > 1 else name, count_words(text), label == number)
            for name, text, number in zip(_LLMBAR_OUTPUTS, shown, "12", strict=True)
        ]
        about = {"context_id": f"{subset}/{key}" if subset else key}
        about |= {"configuration": prompt, "scale": scale} if is_rating else {"template": prompt}
        for own in _llmbar_scores(outputs, last, score) if is_rating else _pairs(outputs, last):
            yield about | own

    return record_trials(rows, judged, "LLMBar", judge=judge or "unknown", dataset="llmbar", subset=subset)


def _of_path(file: str) -> tuple[str, str, str]:
    """Return subset, judge and prompt from a path, if it gives them."""
    parts = file.split("/")
    if len(parts) < 4 or parts[-4] != "evaluators":
        return "", "", "recorded"
    return (parts[-5] if len(parts) > 4 else ""), parts[-3], parts[-2]


def _is_pair(result: Any) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(f"swap = {swap}"), dict) for swap in (False, True))


def _pairs(outputs: Sequence[_LlmbarOutput], result: dict[str, Any]) -> Iterator[Judged]:
    """Yield the judgements in both orders."""
    for swap in (False, True):
        verdict = result[f"swap = {swap}"]
        (first, words, is_better), (second, opponent_words, _) = reversed(outputs) if swap else outputs
        text, why = _llmbar_text_of(verdict.get("completion"))
        value, status = _llmbar_verdict(verdict.get("winner"), swap, text, why)
        yield {"candidate_id": first, "opponent_id": second, "human_gap": 1.0 if is_better else -1.0, "words": words,
               "opponent_words": opponent_words, "value": value, "status": status, "reply": text}  # fmt: skip


def _llmbar_scores(outputs: Sequence[_LlmbarOutput], result: dict[str, Any], score: Any) -> Iterator[Judged]:
    """Yield the scores of both outputs."""
    for (output, words, is_better), name in zip(outputs, _LLMBAR_SCORES, strict=True):
        text, why = _llmbar_text_of(result[name])
        value, status = (math.nan, "refused") if why in _FILTERED and not text else score(text)
        yield {"candidate_id": output, "human": float(is_better), "words": words, "human_scale": "0-1", "value": value,
               "status": status, "reply": text}  # fmt: skip


def _llmbar_verdict(winner: Any, swap: bool, text: str, why: str) -> tuple[float, Status]:
    """Return the probability that the output shown first wins; winners "1" and "2" are outputs, not positions."""
    if isinstance(winner, bool) or winner not in ("1", "2", 1, 2):
        return math.nan, "refused" if why in _FILTERED or is_refusal(text) else "unparsable"
    return float(str(winner) == ("2" if swap else "1")), "ok"


def _llmbar_text_of(completion: Any) -> tuple[str, str]:
    """Return the text and the finish reason of a completion, which is a text or a list of both."""
    pair = [*completion, "", ""] if isinstance(completion, list) else [completion, ""]
    text, why = ((plain(item) or "" if isinstance(item, str) else "") for item in pair[:2])
    return text, why
