r"""Formats of studies of scores: G-Eval, SocREval, Prometheus and SummEval.

Scores with several samples per item: ``source, system_output, prompt, all_responses`` and, mostly, ``scores``.

The format of G-Eval (Liu et al. 2023, arXiv 2303.16634) and of *A Closer Look into Automatic Evaluation Using LLMs*
(Chiang & Lee 2023, arXiv 2310.05657), a JSON list. The prompt gives attribute, scale, output order and whether there
are evaluation steps (auto-CoT); the judge is the part of the file name before the first underscore.

Scores by a reasoning model, with several samples per item: ``id, human, prompt, responses``.

Replies to prompts of *SocREval* (He et al. 2024, arXiv 2310.00074), as JSON Lines. The prompt gives the scale, such as
``[1, 2, 3, 4, 5]``, and the name of the score, which is the last field of its example, such as ``"overall quality":
5``. In a reply, the score is the first number next to that name after the thinking. If any reply in a file closes
thinking that it did not open, the prompt opened it, and replies that do not close it were cut off. Judge and data set
are the parts of the file name before and after the last underscore.

Scores of SummEval summaries: ``judge, system, aspect, mode, id, resp``, one reply per line.

Published with Shen et al. 2023, *Large Language Models are Not Yet Human-Level Evaluators for Abstractive
Summarization* (arXiv 2305.13091). Modes: ``rts`` and ``altrts`` reason, then score; ``stareval`` gives stars; ``mcq``
and ``altmcq`` choose A (1, worst) to E (5, best). Modes that end in "old" are superseded and left out.
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
from biaslab.logs.readers.readings import UNREAD, each, lettered, read_answer, scored
from biaslab.logs.readers.rows import LogSource, Rows, measured, plain, strings, trials_of, trials_of_several
from biaslab.prompts.parsing.replies import ParsedScore
from biaslab.prompts.parsing.thoughts import begins_inside

_ATTRIBUTE = re.compile(r"^[ \t]*-?[ \t]*(?P<name>[A-Z]\w+):?\s*\Z", re.MULTILINE)
_CRITERION = re.compile(r"\b(?P<name>[A-Z]\w+)[ \t]*\((?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)\)")
_ALL_RESPONSES_SCALE = re.compile(r"scale of (?P<low>\d+)[ \t]*[-–][ \t]*(?P<high>\d+)")
_ALL_RESPONSES_NAMES = {
    "summeval": {"coherence", "consistency", "fluency", "relevance"},
    "topicalchat": {"engagingness", "coherence"},
}


_ALL_RESPONSES_COLUMNS = (
    "dataset",
    "context_id",
    "candidate_id",
    "attribute",
    "scale",
    "form",
    "order",
    "configuration",
    "human",
    "words",
    "replicate",
    "reply",
    "value",
    "status",
)


def read_all_responses(rows: Rows, source: LogSource) -> pd.DataFrame:
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
    def reading(text: str, scale: str, attribute: str) -> ParsedScore:
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
    trials = trials_of_several(values, _ALL_RESPONSES_COLUMNS, judge=source.file.rsplit("/", 1)[-1].split("_")[0])
    return trials.assign(source_key=strings(keys).to_numpy())  # a recorded judge finds the context by this


def _question(prompt: str) -> tuple[str, str, str, str] | None:
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


def _human(scores: Any, attribute: str) -> float:
    return measured(scores.get(attribute)) if isinstance(scores, dict) else math.nan


def _dataset(scores: Any) -> str:
    names = set(scores) if isinstance(scores, dict) else set()
    return next((name for name, attributes in _ALL_RESPONSES_NAMES.items() if attributes <= names), "unknown")


_SOCREVAL_SCALE = re.compile(r"\[(\d+)(?:, \d+)*, (\d+)\]")
_SOCREVAL_NAME = re.compile(r'"(\w[\w -]*)": ?\d+(?:\.\d+)?\s*\}')
_SOCREVAL_COLUMNS = ("context_id", "attribute", "scale", "human", "replicate", "reply", "value", "status")


def read_socreval(rows: Rows, source: LogSource) -> pd.DataFrame:
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
    return trials_of_several(
        trials, _SOCREVAL_COLUMNS, judge=judge or "unknown", dataset=dataset, candidate_id="response"
    )


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


_SUMMEVAL_SCORES_SCALE = "1-5"
_LETTERS: dict[str, ParsedScore] = {letter: (float(worth), "ok") for worth, letter in enumerate("ABCDE", start=1)}
_ORDERS = {"rts": "rs", "altrts": "rs", "stareval": "sr", "mcq": "s", "altmcq": "s"}


def read_summeval_scores(rows: Rows, source: LogSource) -> pd.DataFrame:
    """Return one score trial per record."""
    names = {name: rows.take(name, "id") for name in ("judge", "system", "aspect", "mode", "id")}
    texts, tokens = rows.take("resp", "text"), rows.take("total_len", "number", 0)
    mode = names["mode"].fillna("")
    rows.leave_out(mode.str.endswith("old"), "superseded mode")
    readings = pd.DataFrame({"value": math.nan, "status": "unparsable"}, index=texts.index)
    letters = mode.str.contains("mcq", regex=False)
    readings.loc[letters] = each(texts[letters], lambda text: lettered(text, _LETTERS))
    scale = scale_named(source.scale or _SUMMEVAL_SCORES_SCALE)
    for aspect, part in texts[~letters].groupby(names["aspect"][~letters]):
        readings.loc[part.index] = each(part, scored(scale, str(aspect), source.score_pattern))
    return trials_of(
        {
            "judge": names["judge"],
            "dataset": "summeval",
            "context_id": names["id"],
            "candidate_id": names["system"],
            "attribute": names["aspect"],
            "configuration": mode,
            "form": mode,
            "order": mode.map(_ORDERS),
            "scale": scale.name,
            "tokens": tokens.fillna(0).astype("int64"),
            "reply": texts,
            **readings,
        },
        texts.index,
    )
