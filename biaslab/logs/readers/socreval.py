r"""Scores by a reasoning model, with several samples per item: ``id, human, prompt, responses``.

Replies to prompts of *SocREval* (He et al. 2024, arXiv 2310.00074), as JSON Lines. The prompt gives the scale, such as
``[1, 2, 3, 4, 5]``, and the name of the score, which is the last field of its example, such as ``"overall quality":
5``. In a reply, the score is the first number next to that name after the thinking. If any reply in a file closes
thinking that it did not open, the prompt opened it, and replies that do not close it were cut off. Judge and data set
are the parts of the file name before and after the last underscore.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.logs.readers.field_values import plain
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.readings import UNREAD, read_answer, scored
from biaslab.logs.readers.rows import Rows, Source
from biaslab.prompts.parsing.thoughts import begins_inside

FIELDS = frozenset({"id", "human", "prompt", "responses"})
_SCALE = re.compile(r"\[(\d+)(?:, \d+)*, (\d+)\]")
_NAME = re.compile(r'"(\w[\w -]*)": ?\d+(?:\.\d+)?\s*\}')
_COLUMNS = ("context_id", "attribute", "scale", "human", "replicate", "reply", "value", "status")


def read(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per sample."""
    identity, prompts = rows.take("id", "id"), rows.take("prompt", "text")
    human, responses = rows.take("human", "number"), rows.take("responses", "list")
    asked = [_name_and_scale(prompt) if isinstance(prompt, str) else None for prompt in prompts]
    rows.refuse(pd.Series([each is None for each in asked]), "the prompt shows no scale, or no example of a score")
    no_text = [not all(isinstance(reply, str | None) for reply in samples) for samples in responses]
    rows.refuse(pd.Series(no_text), "a response is not text")
    opened = any(begins_inside(reply) for samples in responses for reply in samples if isinstance(reply, str))
    trials: list[tuple[Any, ...]] = []
    for place, (question, samples) in enumerate(zip(asked, responses, strict=True)):
        if not rows.good[place] or question is None:
            continue
        name, stated = question
        scale = scale_named(source.scale or stated)
        read_score = scored(scale, pattern=source.score_pattern or _number_after(name))
        for replicate, reply in enumerate(map(plain, samples)):
            reading = UNREAD if reply is None else read_answer(reply, read_score, opened=opened)
            trials.append((place, identity[place], name, scale.name, human[place], replicate, reply, *reading))
    judge, _, dataset = source.file.rsplit("/", 1)[-1].partition(".")[0].rpartition("_")
    return trials_of_several(trials, _COLUMNS, judge=judge or "unknown", dataset=dataset, candidate_id="response")


def _name_and_scale(prompt: str) -> tuple[str, str] | None:
    """Return the name of the score and the scale; None if the prompt lacks one of them."""
    scale, name = _SCALE.search(prompt), _NAME.search(prompt)
    if scale is None or name is None or not int(scale[1]) < int(scale[2]):
        return None
    return name[1], f"{scale[1]}-{scale[2]}"


def _number_after(name: str) -> str:
    """Return a pattern that captures the number after a name, in JSON or Markdown."""
    words = "[ _]".join(map(re.escape, re.split(r"[ _]", name)))
    return rf'(?i){words}"?\s*:?[\s*"]*(\d+(?:\.\d+)?)'
