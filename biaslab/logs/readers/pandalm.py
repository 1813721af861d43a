"""PandaLM's test set (Wang et al. 2024, arXiv 2306.05087): ``idx`` and one field ``<judge>_result``.

The result is 1, 2, or a tie (0 or "Tie"); anything else is unreadable. ``<judge>_reason`` is the reply. If the
annotators' file is joined (``join = "testset-v1.json on idx"``), ``annotator1`` and so on give the human preference,
``cmp_key`` names the two systems, and the texts give lengths and the context. Each pair was shown in one order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.datasets._files import text_key
from biaslab.logs.readers.field_values import strings, word_counts
from biaslab.logs.readers.log_columns import trials_of
from biaslab.logs.readers.outcomes import human_gaps, read_pair
from biaslab.logs.readers.rows import Rows, Source

FIELDS = frozenset({"idx"})
_RESPONSES = ("response1", "response2")
_ANNOTATOR = re.compile(r"annotator\d+")
_MEANING = {"1": "first", "2": "second", "0": "tie", "tie": "tie"}


def tells(records: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether records have the verdict of exactly one judge."""
    return _judge(records) is not None


def read(rows: Rows, _source: Source) -> pd.DataFrame:
    """Return one pair trial per record."""
    judge = _judge(rows.records) or "unknown"
    index, winner = rows.take("idx", "id"), strings([_meaning(value) for value in rows.values(f"{judge}_result")])
    systems = [_systems(value) for value in rows.values("cmp_key")]
    texts = {name: rows.take(name, "text") for name in ("instruction", "input")}
    first, second = (strings([pair[at] for pair in systems]) for at in (0, 1))
    asked = zip(index, texts["instruction"], texts["input"], strict=True)
    return trials_of(
        {
            "judge": judge,
            "dataset": "pandalm",
            "context_id": strings([_context(*parts) for parts in asked]),
            "candidate_id": first,
            "opponent_id": second,
            "human_gap": _preferred(rows, first, second),
            "words": _lengths(rows.values("response1")),
            "opponent_words": _lengths(rows.values("response2")),
            "reply": rows.take(f"{judge}_reason", "text"),
            **read_pair({"winner": winner, "candidate_id": first, "opponent_id": second}, "winner"),
        },
        index.index,
    )


def _judge(records: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the only judge with a result in half of the records, or None."""
    names = Counter(str(name) for record in records for name in record if str(name).endswith("_result"))
    common = [name for name, count in names.items() if 2 * count >= len(records)]
    return common[0].removesuffix("_result") if len(common) == 1 else None


def _meaning(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return _MEANING.get(str(value).strip().lower())


def _systems(key: Any) -> tuple[str, str]:
    """Return the systems that wrote the two responses; generic names if the annotators' file is not joined."""
    one, between, two = key.partition("_") if isinstance(key, str) else ("", "", "")
    return (one, two) if between and one and two and one != two and "_" not in two else _RESPONSES


def _context(index: str | None, instruction: str | None, input_: str | None) -> str | None:
    """Return a key of the instruction, which several pairs may share, or the pair's number if there are no texts."""
    return text_key(instruction, input_ or "") if isinstance(instruction, str) else index


def _preferred(rows: Rows, first: pd.Series, second: pd.Series) -> pd.Series:
    names = sorted({str(name) for record in rows.records for name in record if _ANNOTATOR.fullmatch(str(name))})
    if not names:
        return pd.Series(np.nan, index=first.index)
    labels = zip(*(rows.values(name) for name in names), strict=True)
    return human_gaps([[_meaning(value) or "" for value in row] for row in labels], first, second)


def _lengths(responses: list[Any]) -> pd.Series:
    """Return word counts, also of responses that are numbers, as some in the published file are."""
    texts = (str(g) if isinstance(g, str | int | float) and not isinstance(g, bool) else None for g in responses)
    return word_counts(strings(list(texts)))
