"""Read LLMBar's ``result.json`` (Zeng et al. 2024, arXiv 2310.07641): a list of pairs, each judged in both orders.

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

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.core.trials import Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.readings import scored
from biaslab.logs.readers.rows import LogSource, Rows, plain, trials_of_several
from biaslab.prompts.parsing.replies import ParsedScore, is_refusal

_OUTPUTS = ("output_1", "output_2")
_SCORES = ("score_1", "score_2")
_LLMBAR_SCALE = "0-9"
_FILTERED = ("content_filter", "content management policy")  # reasons for a missing text
_READING = ("value", "status", "reply")
_LLMBAR_PAIR = ("context_id", "candidate_id", "opponent_id", "human_gap", "words", "opponent_words", *_READING)
_LLMBAR_SCORE = ("context_id", "candidate_id", "human", "words", *_READING)


class _LlmbarItem(NamedTuple):
    """A record: its position, the names of its prompt and outputs, the gold label, and the outputs' word counts."""

    place: int
    name: str
    outputs: tuple[str, ...]
    gold: str
    words: tuple[int, int]


def read_llmbar(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record and order, or one score trial per record and output."""
    texts = rows.take_texts("input", *_OUTPUTS)
    label, results = rows.take("label", "id"), rows.take("results", "list")
    rows.refuse(~label.isin(["1", "2"]), "label is neither 1 nor 2")
    last: list[Any] = [result[-1] if result else None for result in results]
    alone = [_is_rating(result) for result in last]
    whole = [rating or _is_pair(result) for result, rating in zip(last, alone, strict=True)]
    rows.refuse(~pd.Series(whole, dtype=bool), "the last result is neither a verdict in both orders nor two scores")
    subset, judge, prompt = _of_path(source.file)
    pairs: list[tuple[Any, ...]] = []
    scores: list[tuple[Any, ...]] = []
    known: dict[str, dict[str, int]] = {}  # prompt → pair of outputs → number of the pair
    scale = source.scale or _LLMBAR_SCALE
    number = scored(scale_named(scale), None, source.score_pattern)
    for place, gold, result, rating in rows.each(label, last, alone):
        shown = [texts[name][place] for name in _OUTPUTS]
        key, own = text_key(texts["input"][place]), text_key(*shown)
        among = known.setdefault(key, {})
        number_of_pair = among.setdefault(own, len(among) + 1)
        outputs = tuple(f"{name} ({number_of_pair})" if number_of_pair > 1 else name for name in _OUTPUTS)
        words = (count_words(shown[0]), count_words(shown[1]))
        item = _LlmbarItem(place, f"{subset}/{key}" if subset else key, outputs, gold, words)
        if rating:
            scores += _llmbar_scores(item, result, number)
        else:
            pairs += _pairs(item, result)
    about = {"judge": judge or "unknown", "dataset": "llmbar", "subset": subset}
    prompted = prompt or "recorded"
    frames = [
        trials_of_several(pairs, _LLMBAR_PAIR, template=prompted, **about),
        trials_of_several(scores, _LLMBAR_SCORE, configuration=prompted, scale=scale, human_scale="0-1", **about),
    ]
    return pd.concat([frame for frame in frames if len(frame)] or frames[:1])


def _of_path(file: str) -> tuple[str, str, str]:
    """Return subset, judge and prompt from a path; empty if not given."""
    parts = file.split("/")
    if len(parts) < 4 or parts[-4] != "evaluators":
        return "", "", ""
    return (parts[-5] if len(parts) > 4 else ""), parts[-3], parts[-2]


def _is_pair(result: Any) -> bool:
    return isinstance(result, dict) and all(isinstance(result.get(f"swap = {swap}"), dict) for swap in (False, True))


def _is_rating(result: Any) -> bool:
    return isinstance(result, dict) and all(name in result for name in _SCORES)


def _pairs(item: _LlmbarItem, result: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Yield the judgements in both orders."""
    for swap in (False, True):
        verdict, step = result[f"swap = {swap}"], -1 if swap else 1
        shown = item.outputs[::step]
        gap = (1.0 if item.gold == "1" else -1.0) * step
        text, why = _llmbar_text_of(verdict.get("completion"))
        reading = _llmbar_verdict(verdict.get("winner"), swap, text, why)
        yield item.place, item.name, *shown, gap, *item.words[::step], *reading, text


def _llmbar_scores(item: _LlmbarItem, result: dict[str, Any], number: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the scores of both outputs."""
    for index, (output, name) in enumerate(zip(item.outputs, _SCORES, strict=True)):
        text, why = _llmbar_text_of(result[name])
        reading: ParsedScore = (math.nan, "refused") if why in _FILTERED and not text else number(text)
        yield item.place, item.name, output, float(item.gold == str(index + 1)), item.words[index], *reading, text


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
