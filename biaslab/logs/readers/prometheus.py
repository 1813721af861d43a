"""Scores of the Prometheus sets (Kim et al. 2024, arXiv 2310.08491): ``instruction, gpt4_score, gpt4_feedback``.

A JSON list; each item has its own rubric from 1 to 5, which becomes the attribute "rubric", and a list of scores, which
are repetitions of one judgement. The context is the instruction to evaluate within ``instruction``.
"""

from __future__ import annotations

import math
import re
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.core.schema import count_words
from biaslab.datasets._files import text_key
from biaslab.logs.readers.field_values import measured, plain
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import number_on
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"instruction", "gpt4_score"})
_SCALE = "1-5"
TASK = re.compile(r"###\s*The instruction to evaluate:\s*(.*?)\s*###\s*Response to evaluate:\s*(.*?)\s*###", re.DOTALL)


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per repetition."""
    instruction, graded = rows.take("instruction", "text"), rows.take("gpt4_score", "list")
    system, feedback = rows.take("response_source", "id", "unknown"), rows.take("gpt4_feedback", "any")
    tasks = [TASK.search(text) if isinstance(text, str) else None for text in instruction]
    rows.refuse(pd.Series([task is None for task in tasks]), "instruction contains no response to evaluate")
    numbers = [[_number(score) for score in scores] for scores in graded]
    rows.refuse(pd.Series([None in scores for scores in numbers]), "a score is neither a number nor null")
    scale = scale_named(source.scale or _SCALE)
    place_score = number_on(scale)
    trials: list[tuple[Any, ...]] = []
    for place, (task, scores) in enumerate(zip(tasks, numbers, strict=True)):
        if not rows.good[place] or task is None:
            continue
        shown = system[place] if system[place] != "unknown" else text_key(task[2])
        texts = feedback[place] if isinstance(feedback[place], list) else []
        for replicate, score in enumerate(scores):
            text = plain(texts[replicate]) if replicate < len(texts) and isinstance(texts[replicate], str) else None
            reading = place_score(math.nan if score is None else score)
            trials.append((place, text_key(task[1]), shown, float(count_words(task[2])), replicate, *reading, text))
    names = ("context_id", "candidate_id", "words", "replicate", "value", "status", "reply")
    fixed = {"judge": "gpt-4", "dataset": "prometheus", "attribute": "rubric", "scale": scale.name}
    return trials_of_several(trials, names, **fixed)


def _number(score: Any) -> float | None:
    """Return a finite number, NaN for null, None for anything else."""
    if score is None:
        return math.nan
    number = measured(score)
    return None if math.isnan(number) else number
