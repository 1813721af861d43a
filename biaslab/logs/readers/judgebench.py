"""JudgeBench's outputs (Tan et al. 2025, arXiv 2410.12784): ``pair_id, response_A, response_B, label, judgments``.

``judgments`` has one entry per game, ``{"judgment": {judge_model, response, …}, "decision": "A>B"}``. The second game
swaps the responses, and ``decision`` names them by the letters shown. A null entry is a failed call. The gold ``label``
becomes the human preference, ``source`` the subset, ``judge_name`` the prompt. Reward models give no text.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from biaslab.core.schema import count_words
from biaslab.logs.readers.field_values import at, plain
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.rows import CALL_FAILED, Rows, Source
from biaslab.prompts.parsing.numerals import Reading
from biaslab.prompts.parsing.whole_replies import is_refusal

FIELDS = frozenset({"pair_id", "response_A", "response_B", "label", "judgments"})
_RESPONSES = ("response_A", "response_B")
_WORTH: dict[Any, Reading] = {"A>B": (1.0, "ok"), "B>A": (0.0, "ok"), "A=B": (0.5, "tie"), "B=A": (0.5, "tie")}
_GAPS = {"A>B": 1.0, "B>A": -1.0}
_NAMES = ("template", "subset", "context_id", "judge", "candidate_id", "opponent_id", "human_gap", "words",
          "opponent_words", "value", "status", "reply")  # fmt: skip


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return one pair trial per game."""
    pair, label, games = rows.take("pair_id", "id"), rows.take("label", "id"), rows.take("judgments", "list")
    texts = rows.take_texts(*_RESPONSES)
    prompt, subset = rows.take("judge_name", "id", "recorded"), rows.take("source", "id", "all")
    rows.refuse(~label.isin(list(_GAPS)), "label is neither A>B nor B>A")
    rows.refuse(
        pd.Series([not _are_games(judged) for judged in games], dtype=bool), "judgments are not one or two games"
    )
    trials: list[tuple[Any, ...]] = []
    for place, judged in rows.each(games):
        lengths = [count_words(texts[name][place]) for name in _RESPONSES]
        about = (place, prompt[place], subset[place], pair[place], _judge(judged))
        for game, entry in enumerate(judged):
            if entry is None:
                rows.log.left_out[CALL_FAILED] += 1
                continue
            step = -1 if game else 1
            reply = _reply(entry)
            reading = _verdict(entry.get("decision"), reply)
            trials.append((*about, *_RESPONSES[::step], _GAPS[label[place]] * step, *lengths[::step], *reading, reply))
    return trials_of_several(trials, _NAMES, dataset="judgebench")


def _are_games(values: list[Any]) -> bool:
    return 0 < len(values) < 3 and all(entry is None or isinstance(entry, dict) for entry in values)


def _judge(games: list[Any]) -> str:
    """Return the judge, from the first game that names one."""
    named = [at(entry, "judgment.judge_model") for entry in games]
    name = next((each for each in named if isinstance(each, str) and each.strip()), "unknown")
    return plain(name) or "unknown"


def _reply(entry: dict[str, Any]) -> str | None:
    text = at(entry, "judgment.response")
    return plain(text) if isinstance(text, str) else None


def _verdict(decision: Any, reply: str | None) -> Reading:
    """Return the probability that the response shown first wins, reading "A>>B" as "A>B"; NaN without a decision."""
    known = decision.replace(">>", ">").replace(" ", "") if isinstance(decision, str) else None
    if known in _WORTH:
        return _WORTH[known]
    return math.nan, "refused" if decision is None and is_refusal(reply or "") else "unparsable"
