"""Scores with several samples per item: ``source, system_output, prompt, all_responses`` and, mostly, ``scores``.

The format of G-Eval (Liu et al. 2023, arXiv 2303.16634) and of *A Closer Look into Automatic Evaluation Using LLMs*
(Chiang & Lee 2023, arXiv 2310.05657), a JSON list. The prompt gives attribute, scale, output order and whether there
are evaluation steps (auto-CoT); the judge is the part of the file name before the first underscore.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.datasets._files import text_key
from biaslab.logs.readers.field_values import measured, plain, strings
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import UNREAD, read_answer, scored
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.parsing.numerals import Reading

FIELDS = frozenset({"source", "system_output", "prompt", "all_responses"})
_ATTRIBUTE = re.compile(r"^[ \t]*-?[ \t]*(?P<name>[A-Z]\w+):?\s*\Z", re.MULTILINE)
_CRITERION = re.compile(r"\b(?P<name>[A-Z]\w+)[ \t]*\((?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)\)")
_SCALE = re.compile(r"scale of (?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)")
_NAMES = {
    "summeval": {"coherence", "consistency", "fluency", "relevance"},
    "topicalchat": {"engagingness", "coherence"},
}


_COLUMNS = ("dataset", "context_id", "candidate_id", "attribute", "scale", "form", "order", "configuration", "human",
            "words", "replicate", "reply", "value", "status")  # fmt: skip


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per sample."""
    texts = rows.take_texts("source", "system_output", "prompt")
    context, system = rows.take("context", "text"), rows.take("system_id", "id", "unknown")
    responses, scores = rows.take("all_responses", "list"), rows.take("scores", "any")
    asked = [_question(prompt) if isinstance(prompt, str) else None for prompt in texts["prompt"]]
    rows.refuse(pd.Series([each is None for each in asked]), "the prompt names no attribute with a scale")
    no_text = [not all(isinstance(reply, str | None) for reply in samples) for samples in responses]
    rows.refuse(pd.Series(no_text), "a response is not text")
    values: list[tuple[Any, ...]] = []
    keys: list[str] = []

    @cache
    def reading(text: str, scale: str, attribute: str) -> Reading:
        return read_answer(text, scored(scale_named(scale), attribute, source.score_pattern))

    for place, (question, samples) in enumerate(zip(asked, responses, strict=True)):
        if not rows.good[place] or question is None:
            continue
        attribute, scale, form, order = question
        scale = source.scale or scale
        text, about, output = texts["source"][place], context[place], texts["system_output"][place]
        identity = text_key(*(part.strip() for part in (text, about) if isinstance(part, str)))
        shown = system[place] if system[place] != "unknown" else text_key(output.strip())
        human, words = _human(scores[place], attribute), float(count_words(output))
        fixed = (place, _dataset(scores[place]), identity, shown, attribute, scale, form, order, f"{form}, {order}")
        for replicate, reply in enumerate(map(plain, samples)):
            value, status = UNREAD if reply is None else reading(reply, scale, attribute)
            values.append((*fixed, human, words, replicate, reply, value, status))
            keys.append(text_key(text.strip()))
    trials = trials_of_several(values, _COLUMNS, judge=source.file.rsplit("/", 1)[-1].split("_")[0])
    return trials.assign(source_key=strings(keys).to_numpy())  # a recorded judge finds the context by this


def _question(prompt: str) -> tuple[str, str, str, str] | None:
    """Return attribute, scale, form and output order; None if the prompt names no attribute with a scale."""
    ends = _ATTRIBUTE.search(prompt)
    spans = [span for span in _CRITERION.finditer(prompt) if ends is None or span["name"] == ends["name"]]
    if not spans:
        return None
    span = _SCALE.search(prompt) if ends is None else None
    low, high = (int((span or spans[0])[end]) for end in ("low", "high"))
    if not low < high:
        return None
    tail = prompt[-600:]
    rating, reasons = tail.find('"Rating:'), max(tail.find('"Rationale:'), tail.find('"Analysis:'))
    order = "s" if reasons < 0 else "sr" if 0 <= rating < reasons else "rs"
    form = "question" if ends is None else "auto-CoT" if "Evaluation Steps" in prompt else "no auto-CoT"
    return spans[0]["name"].lower(), f"{low}-{high}", form, order


def _human(scores: Any, attribute: str) -> float:
    return measured(scores.get(attribute)) if isinstance(scores, dict) else math.nan


def _dataset(scores: Any) -> str:
    names = set(scores) if isinstance(scores, dict) else set()
    return next((name for name, attributes in _NAMES.items() if attributes <= names), "unknown")
