"""ReIFE results (Liu et al. 2024, arXiv 2410.07069): ``instruction, output_1, output_2, response, result, winner``.

JSON Lines, in files ``DATASET.JUDGE.METHOD.PROMPT.jsonl``, and ``…_swap.jsonl`` for output_2 shown first. ``winner`` is
1 or 2 for output_1 or output_2 in both. For unreadable replies, the authors draw the winner at random and set
``result.fail``; such rows get no verdict here. ``result.tie`` marks a tie broken at random. ``label`` is the gold
label, and ``response[0].text`` the judge's reply.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from biaslab.core.schema import count_words
from biaslab.datasets._files import text_key
from biaslab.logs.readers.field_values import plain
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.parsing.numerals import Reading

FIELDS = frozenset({"instruction", "output_1", "output_2", "response", "winner", "result"})
_SIDES = ("output_1", "output_2")
_COLUMNS = ("context_id", "candidate_id", "opponent_id", "words", "opponent_words", "human_gap", "value", "status",
            "reply")  # fmt: skip
_SWAPPED = "_swap"


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one pair trial per record."""
    texts = rows.take_texts("instruction", *_SIDES)
    winner, label, result = rows.take("winner", "number"), rows.take("label", "any"), rows.take("result", "any")
    response = rows.take("response", "any")
    rows.refuse(~winner.isin([1, 2]), "winner is neither 1 nor 2")
    judge, dataset, prompt, swapped = _of_name(source.file)
    step = -1 if swapped else 1
    trials: list[tuple[Any, ...]] = []
    for place in range(len(rows.records)):
        if not rows.good[place]:
            continue
        lengths = [float(count_words(texts[side][place])) for side in _SIDES]
        gap = {"1": 1.0, "2": -1.0}.get(str(label[place]), math.nan) * step
        outputs = "\n".join(texts[side][place] for side in _SIDES)
        context = text_key(f"{texts['instruction'][place]}\n{outputs}")
        verdict = _verdict(winner[place], result[place], swapped)
        trials.append((place, context, *_SIDES[::step], *lengths[::step], gap, *verdict, _text(response[place])))
    return trials_of_several(trials, _COLUMNS, judge=judge, dataset=dataset, template=prompt)


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


def _verdict(winner: float, result: Any, swapped: bool) -> Reading:
    facts = result if isinstance(result, dict) else {}
    if facts.get("fail"):
        return math.nan, "unparsable"
    return (0.5, "tie") if facts.get("tie") else (float((winner == 1) != swapped), "ok")


def _text(response: Any) -> str | None:
    first = response[0] if isinstance(response, list) and response else response
    text = first.get("text") if isinstance(first, dict) else first
    return plain(text) if isinstance(text, str) else None
