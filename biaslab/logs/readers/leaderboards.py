"""Formats of leaderboards of chat models: MT-Bench, AlpacaEval, Arena-Hard and others that judge like them.

Judgements that FastChat's ``gen_judgment.py`` writes for MT-Bench: pairs in both orders, or single scores.

Pairs: ``question_id, model_1, model_2, g1_judgment, g2_judgment``; the first game shows model_1 first, the second
model_2. Files without texts have ``g1_winner`` and ``g2_winner``: "model_1", "model_2" or "tie", numbered alike in both
games. Single scores: ``question_id, model, judgment``, with ``[[8]]`` on a scale of 1 to 10. ``judge`` is a list of
model and prompt; ``turn`` is part of the context.

AlpacaEval's ``annotations.json``: ``instruction, output_1, output_2, generator_1, generator_2, preference``.

``preference`` is 1 if output_1 won, 2 if output_2 won, 0 or 1.5 for a tie, null without a verdict; for a weighted judge
it is 1 + P(output_2 wins). AlpacaEval shows the outputs in random order and does not record which. If a weighted
preference comes with the log-probabilities of the two labels ("m" is the output shown first), the order is the one
consistent with the preference; preferences have ten digits, so this works however close to ½ they are. Ranking
annotators reveal the order: ``referenced_models`` names the output shown as "m", or else the preference identifies the
output at rank 1. Otherwise the order is unknown, and no order effect can be estimated. The probability of the label
shown first, ``p_first_label``, needs no order. Outputs may be missing, as in files shared without texts.

Arena-Hard judgements (``model_judgment/JUDGE/MODEL.jsonl``): two games against a baseline, one per order.

``question_id, model, judge, games`` (v0.1) or ``uid, model, judge, baseline, games`` (v2). A is the baseline in the
first game and the model in the second; ``score`` is "A>>B", "A>B", "A=B", "B>A", "B>>A" or null. If the file does not
name the baseline, it is called "baseline".

Pair logs with a verdict in each judgment: ``judge, question, A, B, judgment`` and, for repetitions, ``rep``.

The format of the Position Bias Analyzer (Shi et al. 2024, arXiv 2406.07791): A is shown first; the judgment contains
``[[A]]``, ``[[B]]`` or ``[[C]]`` (a tie), or degrees (``[[A>>B]]``), as on MT-Bench and Arena-Hard, or "Choice: A", as
on DevBench. ``dataset`` is optional. Judgments that report a failed call are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.trials import Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.readings import UNREAD, bracketed, each, failed, of_pairs, scored
from biaslab.logs.readers.rows import (
    CALL_FAILED,
    LogSource,
    Rows,
    plain,
    strings,
    trials_of,
    trials_of_several,
    word_counts,
)
from biaslab.prompts.parsing.replies import ParsedScore

MT_BENCH_FIELDS = frozenset({"question_id", "model_1", "model_2", "g1_judgment", "g2_judgment"})
MT_BENCH_WINNER_FIELDS = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner"})
MT_BENCH_SINGLE_FIELDS = frozenset({"question_id", "model", "judge", "judgment"})
_MT_BENCH_SCALE = "1-10"
_RATING = r"\[\[\s*(\d+(?:\.\d+)?)\s*\]\]"


def read_mt_bench(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return two pair trials per record, one per game."""
    names = {name: rows.take(name, "id") for name in ("model_1", "model_2")}
    games = [rows.take(f"g{game}_judgment", "text") for game in (1, 2)]
    common = _common(rows)
    parts = []
    for texts, first, second in zip(games, ("model_1", "model_2"), ("model_2", "model_1"), strict=True):
        shown = {"candidate_id": names[first], "opponent_id": names[second], "reply": texts}
        trials = trials_of({**common, **shown, **each(texts, bracketed)}, texts.index)
        rows.log.left_out[CALL_FAILED] += int((failed(texts) & rows.good).sum())
        parts.append(trials[~failed(texts)])
    return pd.concat(parts)


def read_mt_bench_winners(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return two pair trials per record, one per game."""
    models = {name: rows.take(name, "id") for name in ("model_1", "model_2")}
    common = _common(rows)
    parts = []
    for game, shown in enumerate((("model_1", "model_2"), ("model_2", "model_1")), start=1):
        worth: dict[str, ParsedScore] = {shown[0]: (1.0, "ok"), shown[1]: (0.0, "ok"), "tie": (0.5, "tie")}
        winner = rows.take(f"g{game}_winner", "text")
        verdicts = each(winner.str.strip().str.lower(), _worth(worth))
        about = {"candidate_id": models[shown[0]], "opponent_id": models[shown[1]]}
        parts.append(trials_of({**common, **about, **verdicts}, winner.index))
    return pd.concat(parts)


def _worth(known: Mapping[str, ParsedScore]) -> Callable[[str], ParsedScore]:
    return lambda winner: known.get(winner, UNREAD)


def read_mt_bench_single(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per record."""
    model, texts, common = rows.take("model", "id"), rows.take("judgment", "text"), _common(rows)
    rows.leave_out(failed(texts), CALL_FAILED)
    scale = scale_named(source.scale or _MT_BENCH_SCALE)
    readings = each(texts, scored(scale, pattern=source.score_pattern or _RATING))
    prompt = common.pop("template")
    columns = {"candidate_id": model, "configuration": prompt, "scale": scale.name, "reply": texts}
    return trials_of({**common, **columns, **readings}, texts.index)


def _common(rows: Rows) -> dict[str, pd.Series | str]:
    question, turn, judge = rows.take("question_id", "id"), rows.take("turn", "id", 1), rows.take("judge", "any")
    wrong = [not isinstance(j, str) and not _is_named(j) for j in judge]
    rows.refuse(pd.Series(wrong), "judge is neither a name nor a list of model and prompt")
    named = [("unknown", "recorded") if bad else _mt_bench_name(j) for j, bad in zip(judge, wrong, strict=True)]
    return {
        "judge": strings([name for name, _ in named]),
        "template": strings([prompt for _, prompt in named]),
        "dataset": "mt_bench",
        "context_id": question + "/turn " + turn,
    }


def _is_named(judge: object) -> bool:
    return isinstance(judge, list) and bool(judge) and all(isinstance(part, str) and part for part in judge)


def _mt_bench_name(judge: str | list[str]) -> tuple[str, str]:
    return (judge, "recorded") if isinstance(judge, str) else (judge[0], "-".join(judge[1:]) or "recorded")


ALPACA_EVAL_FIELDS = frozenset({"instruction", "generator_1", "generator_2", "preference"})
_ANSWERS = ("m", "M")  # shown first, shown second
_OUTPUTS = {"output_1": 1, "output_2": 2}
_CLOSE = 1e-3  # tolerance for preferences rounded to three digits
_CLEARLY = 20  # minimum ratio of the distances from the two orders


def read_alpaca_eval(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record."""
    outputs = [name for name in ("output_1", "output_2") if rows.has(name)]
    texts = rows.take_texts("instruction", *outputs)
    instruction = texts["instruction"]
    unknown = pd.Series(math.nan, index=instruction.index)
    lengths = [word_counts(texts[name]) if name in texts else unknown for name in ("output_1", "output_2")]
    generators = [rows.take(f"generator_{i}", "id") for i in (1, 2)]
    preference, judge = rows.take("preference", "number"), rows.take("annotator", "id", "unknown")
    completions = rows.take("raw_completion", "any")
    read_ = [_second_wins(value) for value in preference]
    second, status = pd.Series([p for p, _ in read_], dtype=float), strings([s for _, s in read_])
    named = rows.take("referenced_models", "any")
    seen = [_shown_order(*about) for about in zip(completions, second, named, strict=True)]
    first_is_two = pd.Series([order != 1 for order, _, _ in seen])  # unknown orders keep output_2, the candidate, first
    return trials_of(
        {
            "judge": judge,
            "dataset": "alpaca_eval",
            "context_id": strings([text_key(text) if isinstance(text, str) else "" for text in instruction]),
            "candidate_id": generators[1].where(first_is_two, generators[0]),
            "opponent_id": generators[0].where(first_is_two, generators[1]),
            "words": lengths[1].where(first_is_two, lengths[0]),
            "opponent_words": lengths[0].where(first_is_two, lengths[1]),
            "order_known": pd.Series([order > 0 for order, _, _ in seen]),
            "value": second.where(first_is_two, 1 - second),
            "status": status,
            "p_first_label": pd.Series([share for _, share, _ in seen], dtype=float),
            "label_mass": pd.Series([mass for _, _, mass in seen], dtype=float),
            "reply": strings([_alpaca_eval_text(completion) for completion in completions]),
        },
        instruction.index,
    )


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


def _alpaca_eval_text(completion: Any) -> str | None:
    text = completion.get("text") if isinstance(completion, dict) else completion
    return text if isinstance(text, str) else None


ARENA_HARD_FIELDS = frozenset({"model", "judge", "games"})
_VERDICTS: dict[Any, ParsedScore] = {"A>>B": (1.0, "ok"), "A>B": (1.0, "ok"), "A=B": (0.5, "tie"), "B=A": (0.5, "tie"),
                                 "B>A": (0.0, "ok"), "B>>A": (0.0, "ok")}  # fmt: skip
_UNREAD: ParsedScore = (math.nan, "unparsable")
_ARENA_HARD_COLUMNS = ("judge", "context_id", "candidate_id", "opponent_id", "value", "status", "reply")


def read_arena_hard(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one pair trial per game."""
    question = rows.take("uid" if rows.has("uid") else "question_id", "id")
    model, judge, games = rows.take("model", "id"), rows.take("judge", "id"), rows.take("games", "list")
    baseline = rows.take("baseline", "id", "baseline")
    rows.refuse(model == baseline, "the model is its own baseline")
    wrong = [not 0 < len(judged) < 3 or not all(isinstance(game, dict | None) for game in judged) for judged in games]
    rows.refuse(pd.Series(wrong, dtype=bool), "games are not one or two")
    trials: list[tuple[Any, ...]] = []
    for place, judged in enumerate(games):
        for number, game in enumerate(judged if rows.good[place] else ()):
            if game is None:
                rows.log.left_out[CALL_FAILED] += 1
                continue
            shown = (baseline[place], model[place])[:: -1 if number else 1]
            score = game.get("score")
            verdict = _VERDICTS.get(score.strip(), _UNREAD) if isinstance(score, str) else _UNREAD
            trials.append(
                (place, judge[place], question[place], *shown, *verdict, _arena_hard_text_of(game.get("judgment")))
            )
    return trials_of_several(trials, _ARENA_HARD_COLUMNS, dataset="arena_hard")


def _arena_hard_text_of(judgment: Any) -> str | None:
    text = judgment.get("answer") if isinstance(judgment, dict) else judgment
    return plain(text) if isinstance(text, str) else None


BRACKET_PAIRS_FIELDS = frozenset({"judge", "question", "A", "B", "judgment"})


def read_bracket_pairs(rows: Rows, _source: LogSource) -> pd.DataFrame:
    """Return one pair trial per record."""
    names = {name: rows.take(name, "id") for name in ("judge", "question", "A", "B")}
    texts, repetition = rows.take("judgment", "text"), rows.take("rep", "number", 1)
    rows.refuse(repetition % 1 != 0, "rep is not a whole number")
    rows.leave_out(failed(texts), CALL_FAILED)
    return trials_of(
        {
            "judge": names["judge"],
            "dataset": rows.take("dataset", "id", "unknown"),
            "context_id": names["question"],
            "candidate_id": names["A"],
            "opponent_id": names["B"],
            "replicate": repetition.fillna(1) - 1,
            "reply": texts,
            **of_pairs(texts),
        },
        texts.index,
    )
