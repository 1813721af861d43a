"""Arena-Hard judgements (``model_judgment/JUDGE/MODEL.jsonl``): two games against a baseline, one per order.

``question_id, model, judge, games`` (v0.1) or ``uid, model, judge, baseline, games`` (v2). A is the baseline in the
first game and the model in the second; ``score`` is "A>>B", "A>B", "A=B", "B>A", "B>>A" or null. If the file does not
name the baseline, it is called "baseline".
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from biaslab.logs.readers.field_values import plain
from biaslab.logs.readers.log_columns import trials_of_several
from biaslab.logs.readers.rows import CALL_FAILED, Rows, Source
from biaslab.prompts.parsing.numerals import Reading

FIELDS = frozenset({"model", "judge", "games"})
_VERDICTS: dict[Any, Reading] = {"A>>B": (1.0, "ok"), "A>B": (1.0, "ok"), "A=B": (0.5, "tie"), "B=A": (0.5, "tie"),
                                 "B>A": (0.0, "ok"), "B>>A": (0.0, "ok")}  # fmt: skip
_UNREAD: Reading = (math.nan, "unparsable")
_COLUMNS = ("judge", "context_id", "candidate_id", "opponent_id", "value", "status", "reply")


def read(rows: Rows, _source: Source) -> pd.DataFrame:
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
            trials.append((place, judge[place], question[place], *shown, *verdict, _text_of(game.get("judgment"))))
    return trials_of_several(trials, _COLUMNS, dataset="arena_hard")


def _text_of(judgment: Any) -> str | None:
    text = judgment.get("answer") if isinstance(judgment, dict) else judgment
    return plain(text) if isinstance(text, str) else None
