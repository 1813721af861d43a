"""Judgements that FastChat's ``gen_judgment.py`` writes for MT-Bench: pairs in both orders, or single scores.

Pairs: ``question_id, model_1, model_2, g1_judgment, g2_judgment``; the first game shows model_1 first, the second
model_2. Files without texts have ``g1_winner`` and ``g2_winner``: "model_1", "model_2" or "tie", numbered alike in both
games. Single scores: ``question_id, model, judgment``, with ``[[8]]`` on a scale of 1 to 10. ``judge`` is a list of
model and prompt; ``turn`` is part of the context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd

from biaslab.core.scales import scale_named
from biaslab.logs.readers.field_values import strings
from biaslab.logs.readers.log_columns import trials_of
from biaslab.logs.readers.readings import UNREAD, bracketed, each, failed, scored
from biaslab.logs.readers.rows import CALL_FAILED, Rows, Source
from biaslab.prompts.parsing.numerals import Reading

FIELDS = frozenset({"question_id", "model_1", "model_2", "g1_judgment", "g2_judgment"})
WINNER_FIELDS = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner"})
SINGLE_FIELDS = frozenset({"question_id", "model", "judge", "judgment"})
_SCALE = "1-10"
_RATING = r"\[\[\s*(\d+(?:\.\d+)?)\s*\]\]"


def read(rows: Rows, _source: Source) -> pd.DataFrame:
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


def read_winners(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return two pair trials per record, one per game."""
    models = {name: rows.take(name, "id") for name in ("model_1", "model_2")}
    common = _common(rows)
    parts = []
    for game, shown in enumerate((("model_1", "model_2"), ("model_2", "model_1")), start=1):
        worth: dict[str, Reading] = {shown[0]: (1.0, "ok"), shown[1]: (0.0, "ok"), "tie": (0.5, "tie")}
        winner = rows.take(f"g{game}_winner", "text")
        verdicts = each(winner.str.strip().str.lower(), _worth(worth))
        about = {"candidate_id": models[shown[0]], "opponent_id": models[shown[1]]}
        parts.append(trials_of({**common, **about, **verdicts}, winner.index))
    return pd.concat(parts)


def _worth(known: Mapping[str, Reading]) -> Callable[[str], Reading]:
    return lambda winner: known.get(winner, UNREAD)


def read_single(rows: Rows, source: Source) -> pd.DataFrame:
    """Return one score trial per record."""
    model, texts, common = rows.take("model", "id"), rows.take("judgment", "text"), _common(rows)
    rows.leave_out(failed(texts), CALL_FAILED)
    scale = scale_named(source.scale or _SCALE)
    readings = each(texts, scored(scale, pattern=source.score_pattern or _RATING))
    prompt = common.pop("template")
    columns = {"candidate_id": model, "configuration": prompt, "scale": scale.name, "reply": texts}
    return trials_of({**common, **columns, **readings}, texts.index)


def _common(rows: Rows) -> dict[str, pd.Series | str]:
    question, turn, judge = rows.take("question_id", "id"), rows.take("turn", "id", 1), rows.take("judge", "any")
    wrong = [not isinstance(j, str) and not _is_named(j) for j in judge]
    rows.refuse(pd.Series(wrong), "judge is neither a name nor a list of model and prompt")
    named = [("unknown", "recorded") if bad else _name(j) for j, bad in zip(judge, wrong, strict=True)]
    return {
        "judge": strings([name for name, _ in named]),
        "template": strings([prompt for _, prompt in named]),
        "dataset": "mt_bench",
        "context_id": question + "/turn " + turn,
    }


def _is_named(judge: object) -> bool:
    return isinstance(judge, list) and bool(judge) and all(isinstance(part, str) and part for part in judge)


def _name(judge: str | list[str]) -> tuple[str, str]:
    return (judge, "recorded") if isinstance(judge, str) else (judge[0], "-".join(judge[1:]) or "recorded")
