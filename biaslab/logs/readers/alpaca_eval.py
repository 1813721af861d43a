"""Read AlpacaEval's ``annotations.json``: ``instruction, output_1, output_2, generator_1, generator_2, preference``.

``preference`` is 1 if output_1 won, 2 if output_2 won, 0 or 1.5 for a tie, null without a verdict; for a weighted judge
it is 1 + P(output_2 wins). AlpacaEval shows the outputs in random order and does not record which. If a weighted
preference comes with the log-probabilities of the two labels ("m" is the output shown first), the order is the one
consistent with the preference; preferences have ten digits, so this works however close to ½ they are. Ranking
annotators reveal the order: ``referenced_models`` names the output shown as "m", or else the preference identifies the
output at rank 1. Otherwise the order is unknown, and no order effect can be estimated. The probability of the label
shown first, ``p_first_label``, needs no order. Outputs may be missing, as in files shared without texts.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from biaslab.core.trials import Status
from biaslab.datasets._files import text_key
from biaslab.logs.readers.rows import LogSource, Rows, strings, trials_of, word_counts

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
