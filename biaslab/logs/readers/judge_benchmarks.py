"""Formats of benchmarks of judges, with gold labels: LLMBar, JudgeBench, PandaLM and ReIFE.

LLMBar's ``result.json`` (Zeng et al. 2024, arXiv 2310.07641): a list of pairs, each judged in both orders.

``input, output_1, output_2, label, results``. The last entry of ``results`` is the verdict, ``{"swap = False":
{completion, winner}, "swap = True": …}``; earlier entries are intermediate steps that the judge saw before it decided
(the questions of ``Metrics``, the answer of ``Reference``, or the first round of ``Swap``), not replicates. With swap,
output_2 was shown first; ``winner`` is already mapped back.

If the last entry has ``score_1`` and ``score_2`` (``Rating*``), each output was scored separately, 0 to 9, and
``winner`` derives from the scores, with ties broken by the order: the trials are scores, and ``winner`` is ignored.

The gold ``label`` is the human preference: ``human_gap`` ±1 for pairs, ``human`` 1 or 0 for scores. The prompt is the
context; if several pairs share it, the outputs of the second are called ``output_1 (2)`` and so on. Judge, prompt and
subset are taken from the path, ``<subset>/evaluators/<judge>/<prompt>/result.json``.

JudgeBench's outputs (Tan et al. 2025, arXiv 2410.12784): ``pair_id, response_A, response_B, label, judgments``.

``judgments`` has one entry per game, ``{"judgment": {judge_model, response, …}, "decision": "A>B"}``. The second game
swaps the responses, and ``decision`` names them by the letters shown. A null entry is a failed call. The gold ``label``
becomes the human preference, ``source`` the subset, ``judge_name`` the prompt. Reward models give no text.

PandaLM's test set (Wang et al. 2024, arXiv 2306.05087): ``idx`` and one field ``<judge>_result``.

The result is 1, 2, or a tie (0 or "Tie"); anything else is unreadable. ``<judge>_reason`` is the reply. If the
annotators' file is joined (``join = "testset-v1.json on idx"``), ``annotator1`` and so on give the human preference,
``cmp_key`` names the two systems, and the texts give lengths and the context. Each pair was shown in one order.

ReIFE results (Liu et al. 2024, arXiv 2410.07069): ``instruction, output_1, output_2, response, result, winner``.

JSON Lines, in files ``DATASET.JUDGE.METHOD.PROMPT.jsonl``, and ``…_swap.jsonl`` for output_2 shown first. ``winner`` is
1 or 2 for output_1 or output_2 in both. For unreadable replies, the authors draw the winner at random and set
``result.fail``; such rows get no verdict here. ``result.tie`` marks a tie broken at random. ``label`` is the gold
label, and ``response[0].text`` the judge's reply.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.core.trials import Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.readings import human_gaps, read_pair, scored
from biaslab.logs.readers.rows import (
    CALL_FAILED,
    LogSource,
    Rows,
    at,
    plain,
    strings,
    trials_of,
    trials_of_several,
    word_counts,
)
from biaslab.prompts.parsing.replies import ParsedScore, is_refusal

LLMBAR_FIELDS = frozenset({"input", "output_1", "output_2", "label", "results"})
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


JUDGEBENCH_FIELDS = frozenset({"pair_id", "response_A", "response_B", "label", "judgments"})
_JUDGEBENCH_RESPONSES = ("response_A", "response_B")
_WORTH: dict[Any, ParsedScore] = {"A>B": (1.0, "ok"), "B>A": (0.0, "ok"), "A=B": (0.5, "tie"), "B=A": (0.5, "tie")}
_GAPS = {"A>B": 1.0, "B>A": -1.0}
_JUDGEBENCH_NAMES = ("template", "subset", "context_id", "judge", "candidate_id", "opponent_id", "human_gap", "words",
          "opponent_words", "value", "status", "reply")  # fmt: skip


def read_judgebench(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one pair trial per game."""
    pair, label, games = rows.take("pair_id", "id"), rows.take("label", "id"), rows.take("judgments", "list")
    texts = rows.take_texts(*_JUDGEBENCH_RESPONSES)
    prompt, subset = rows.take("judge_name", "id", "recorded"), rows.take("source", "id", "all")
    rows.refuse(~label.isin(list(_GAPS)), "label is neither A>B nor B>A")
    rows.refuse(
        pd.Series([not _are_games(judged) for judged in games], dtype=bool), "judgments are not one or two games"
    )
    trials: list[tuple[Any, ...]] = []
    for place, judged in rows.each(games):
        lengths = [count_words(texts[name][place]) for name in _JUDGEBENCH_RESPONSES]
        about = (place, prompt[place], subset[place], pair[place], _judgebench_judge(judged))
        for game, entry in enumerate(judged):
            if entry is None:
                rows.log.left_out[CALL_FAILED] += 1
                continue
            step = -1 if game else 1
            reply = _reply(entry)
            reading = _judgebench_verdict(entry.get("decision"), reply)
            trials.append(
                (*about, *_JUDGEBENCH_RESPONSES[::step], _GAPS[label[place]] * step, *lengths[::step], *reading, reply)
            )
    return trials_of_several(trials, _JUDGEBENCH_NAMES, dataset="judgebench")


def _are_games(values: list[Any]) -> bool:
    return 0 < len(values) < 3 and all(entry is None or isinstance(entry, dict) for entry in values)


def _judgebench_judge(games: list[Any]) -> str:
    """Return the judge, from the first game that names one."""
    named = [at(entry, "judgment.judge_model") for entry in games]
    name = next((each for each in named if isinstance(each, str) and each.strip()), "unknown")
    return plain(name) or "unknown"


def _reply(entry: dict[str, Any]) -> str | None:
    text = at(entry, "judgment.response")
    return plain(text) if isinstance(text, str) else None


def _judgebench_verdict(decision: Any, reply: str | None) -> ParsedScore:
    """Return the probability that the response shown first wins, reading "A>>B" as "A>B"; NaN without a decision."""
    known = decision.replace(">>", ">").replace(" ", "") if isinstance(decision, str) else None
    if known in _WORTH:
        return _WORTH[known]
    return math.nan, "refused" if decision is None and is_refusal(reply or "") else "unparsable"


PANDALM_FIELDS = frozenset({"idx"})
_PANDALM_RESPONSES = ("response1", "response2")
_ANNOTATOR = re.compile(r"annotator\d+")
_MEANING = {"1": "first", "2": "second", "0": "tie", "tie": "tie"}


def is_pandalm(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have the verdict of exactly one judge."""
    return _pandalm_judge(records) is not None


def read_pandalm(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record."""
    judge = _pandalm_judge(rows.records) or "unknown"
    index, winner = rows.take("idx", "id"), strings([_meaning(value) for value in rows.values(f"{judge}_result")])
    systems = [_pandalm_systems(value) for value in rows.values("cmp_key")]
    texts = {name: rows.take(name, "text") for name in ("instruction", "input")}
    first, second = (strings([pair[at] for pair in systems]) for at in (0, 1))
    asked = zip(index, texts["instruction"], texts["input"], strict=True)
    return trials_of(
        {
            "judge": judge,
            "dataset": "pandalm",
            "context_id": strings([_pandalm_context(*parts) for parts in asked]),
            "candidate_id": first,
            "opponent_id": second,
            "human_gap": _preferred(rows, first, second),
            "words": _lengths(rows.values("response1")),
            "opponent_words": _lengths(rows.values("response2")),
            "reply": rows.take(f"{judge}_reason", "text"),
            **read_pair({"winner": winner, "candidate_id": first, "opponent_id": second}, "winner"),
        },
        index.index,
    )


def _pandalm_judge(records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the only judge with a result in half of the records, or None."""
    names = Counter(str(name) for record in records for name in record if str(name).endswith("_result"))
    common = [name for name, count in names.items() if 2 * count >= len(records)]
    return common[0].removesuffix("_result") if len(common) == 1 else None


def _meaning(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return _MEANING.get(str(value).strip().lower())


def _pandalm_systems(key: Any) -> tuple[str, str]:
    """Return the systems that wrote the two responses; generic names if the annotators' file is not joined."""
    one, between, two = key.partition("_") if isinstance(key, str) else ("", "", "")
    return (one, two) if between and one and two and one != two and "_" not in two else _PANDALM_RESPONSES


def _pandalm_context(index: str | None, instruction: str | None, input_: str | None) -> str | None:
    """Return a key of the instruction, which several pairs may share, or the pair's number if there are no texts."""
    return text_key(instruction, input_ or "") if isinstance(instruction, str) else index


def _preferred(rows: Rows, first: pd.Series, second: pd.Series) -> pd.Series:
    names = sorted({str(name) for record in rows.records for name in record if _ANNOTATOR.fullmatch(str(name))})
    if not names:
        return pd.Series(np.nan, index=first.index)
    labels = zip(*(rows.values(name) for name in names), strict=True)
    return human_gaps([[_meaning(value) or "" for value in row] for row in labels], first, second)


def _lengths(responses: list[Any]) -> pd.Series:
    """Return word counts, also of responses that are numbers, as some in the published file are."""
    texts = (str(g) if isinstance(g, str | int | float) and not isinstance(g, bool) else None for g in responses)
    return word_counts(strings(list(texts)))


REIFE_FIELDS = frozenset({"instruction", "output_1", "output_2", "response", "winner", "result"})
_REIFE_SIDES = ("output_1", "output_2")
_REIFE_COLUMNS = (
    "context_id",
    "candidate_id",
    "opponent_id",
    "words",
    "opponent_words",
    "human_gap",
    "value",
    "status",
    "reply",
)
_SWAPPED = "_swap"


def read_reife(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record."""
    texts = rows.take_texts("instruction", *_REIFE_SIDES)
    winner, label, result = rows.take("winner", "number"), rows.take("label", "any"), rows.take("result", "any")
    response = rows.take("response", "any")
    rows.refuse(~winner.isin([1, 2]), "winner is neither 1 nor 2")
    judge, dataset, prompt, swapped = _of_name(source.file)
    step = -1 if swapped else 1
    trials: list[tuple[Any, ...]] = []
    for place in range(len(rows.records)):
        if not rows.good[place]:
            continue
        lengths = [float(count_words(texts[side][place])) for side in _REIFE_SIDES]
        gap = {"1": 1.0, "2": -1.0}.get(str(label[place]), math.nan) * step
        outputs = "\n".join(texts[side][place] for side in _REIFE_SIDES)
        context = text_key(f"{texts['instruction'][place]}\n{outputs}")
        verdict = _reife_verdict(winner[place], result[place], swapped)
        trials.append(
            (place, context, *_REIFE_SIDES[::step], *lengths[::step], gap, *verdict, _reife_text(response[place]))
        )
    return trials_of_several(trials, _REIFE_COLUMNS, judge=judge, dataset=dataset, template=prompt)


def _of_name(file: str) -> tuple[str, str, str, bool]:
    """Return judge, data set, prompt and whether output_2 was shown first, from the file name.

    Examples
    --------
    >>> _of_name("results/mtbench.gpt-3.5-turbo.base_pairwise.pairwise_vanilla_swap.jsonl")
    ('gpt-3.5-turbo', 'mtbench', 'base_pairwise.pairwise_vanilla', True)
    """
    stem = file.rsplit("/", 1)[-1].removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    swapped = stem.endswith(_SWAPPED)
    parts = stem.removesuffix(_SWAPPED).split(".")
    if len(parts) < 4:
        return "unknown", "reife", "recorded", swapped
    return ".".join(parts[1:-2]), parts[0], ".".join(parts[-2:]), swapped


def _reife_verdict(winner: float, result: Any, swapped: bool) -> ParsedScore:
    facts = result if isinstance(result, dict) else {}
    if facts.get("fail"):
        return math.nan, "unparsable"
    return (0.5, "tie") if facts.get("tie") else (float((winner == 1) != swapped), "ok")


def _reife_text(response: Any) -> str | None:
    first = response[0] if isinstance(response, list) and response else response
    text = first.get("text") if isinstance(first, dict) else first
    return plain(text) if isinstance(text, str) else None
