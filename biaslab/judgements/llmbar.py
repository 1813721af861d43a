"""LLMBar's ``result.json`` (Zeng et al. 2024, arXiv 2310.07641): a list of pairs, each judged in both orders.

``input, output_1, output_2, label, results``, where ``results`` is a list of ``{"swap = False": {completion, winner},
"swap = True": …}``. With swap, output_2 was shown first; ``winner`` is mapped back already. Judge, prompt and subset
are not in the file; they are taken from its path, ``<subset>/evaluators/<judge>/<prompt>/result.json``.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from biaslab.core import Status
from biaslab.datasets._files import text_key
from biaslab.judgements.log_columns import trials_of_several
from biaslab.judgements.rows import Rows, Source, plain
from biaslab.parsing.refusal import is_refusal

FIELDS = frozenset({"input", "output_1", "output_2", "label", "results"})
_OUTPUTS = ("output_1", "output_2")


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one pair trial a record, order and repetition."""
    texts = rows.take_texts("input", *_OUTPUTS)
    label, results = rows.take("label", "id"), rows.take("results", "list")
    rows.refuse(~label.isin(["1", "2"]), "label is neither 1 nor 2")
    rows.refuse(pd.Series([not _is_whole(given) for given in results]), "results are not of both orders")
    *_, subset, judge, prompt = _of_path(source.file)
    made: list[tuple[Any, ...]] = []
    for place, (gold, given) in enumerate(zip(label, results, strict=True)):
        if not rows.good[place]:
            continue
        key = text_key(texts["input"][place])
        name = f"{subset}/{key}" if subset else key
        for replicate, orders in enumerate(given):
            for swap in (False, True):
                shown = _OUTPUTS[::-1] if swap else _OUTPUTS
                value, status = _verdict(orders[f"swap = {swap}"], shown)
                gap = (1.0 if gold == "1" else -1.0) * (-1.0 if swap else 1.0)
                said = _reply_text(orders[f"swap = {swap}"])
                made.append((place, name, *shown, gap, replicate, value, status, said))
    names = ("context_id", "candidate_id", "opponent_id", "human_gap", "replicate", "value", "status", "reply")
    fixed = {"judge": judge or "unknown", "template": prompt or "recorded", "dataset": "llmbar"}
    return trials_of_several(made, names, **fixed)


def _of_path(file: str) -> tuple[str, str, str]:
    """Return subset, judge and prompt of a path; empty where it does not say."""
    parts = file.split("/")
    if len(parts) < 4 or parts[-4] != "evaluators":
        return "", "", ""
    return (parts[-5] if len(parts) > 4 else ""), parts[-3], parts[-2]


def _is_whole(given: list[Any]) -> bool:
    orders = [f"swap = {swap}" for swap in (False, True)]
    return bool(given) and all(isinstance(g, dict) and all(isinstance(g.get(o), dict) for o in orders) for g in given)


def _verdict(given: dict[str, Any], shown: tuple[str, ...]) -> tuple[float, Status]:
    """Return the probability that the first shown wins; the names of the winner are "1" and "2", whatever the order."""
    winner = given.get("winner")
    if isinstance(winner, bool) or winner not in ("1", "2", 1, 2):
        return math.nan, "refused" if is_refusal(_reply_text(given)) else "unparsable"
    return float(shown[0] == f"output_{winner}"), "ok"


def _reply_text(given: dict[str, Any]) -> str:
    completion = given.get("completion")
    first = completion[0] if isinstance(completion, list) and completion else completion
    return plain(first) or "" if isinstance(first, str) else ""
