"""Turn mapped columns into verdicts, scores, human preferences and human ratings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.errors import InputError
from biaslab.core.scales import Scale
from biaslab.logs.readers.field_values import NUMERAL, strings
from biaslab.logs.readers.readings import each, each_on_scale, lettered, number_on, probability, scored
from biaslab.logs.readers.rows import Source
from biaslab.prompts.parsing.numerals import Reading

OUTCOMES = ("winner", "p_first", "score", "reply")
OF_PAIRS = ("winner", "p_first", "reply")
OF_SCORES = ("score", "reply")
_SIDES = {"first": 1.0, "second": 0.0, "tie": 0.5}
_COLUMNS = {"candidate": 1.0, "opponent": 0.0}  # columns of the row, regardless of the order shown


def read_pair(columns: Mapping[str, pd.Series], outcome: str) -> pd.DataFrame:
    """Return ``value`` and ``status`` of judgements of two candidates.

    Raises
    ------
    InputError
        If the outcome is one of scores.
    """
    if outcome == "p_first":
        return each(columns["p_first"], probability)
    if outcome == "winner":
        value = sides(columns["winner"], columns["candidate_id"], columns["opponent_id"], columns.get("swapped"))
        status = np.select([value == 0.5, ~np.isnan(value)], ["tie", "ok"], "unparsable")
        return pd.DataFrame({"value": value, "status": status}, index=columns["winner"].index)
    if outcome == "reply":
        return each(columns["reply"], lettered)
    raise InputError("mapping", outcome, "winner, p_first or reply, because there is an opponent_id")


def read_score(columns: Mapping[str, pd.Series], outcome: str, source: Source) -> pd.DataFrame:
    """Return ``value`` and ``status`` of judgements of one candidate, each on its ``scale``.

    Raises
    ------
    InputError
        If the outcome is one of pairs, or a scale is unknown.
    """
    if outcome not in OF_SCORES:
        raise InputError("mapping", outcome, "score or reply, because there is no opponent_id")
    values = columns[outcome]
    attribute = columns.get("attribute", pd.Series("", index=values.index)).fillna("")

    def reader(scale: Scale, about: str) -> Callable[[Any], Reading]:
        return number_on(scale) if outcome == "score" else scored(scale, about, source.score_pattern)

    return each_on_scale(values, columns["scale"].fillna(""), attribute, reader)


def sides(
    named: pd.Series, first: pd.Series, second: pd.Series, swapped: pd.Series | None = None
) -> np.ndarray[Any, Any]:
    """Return 1 if the first candidate is named, 0 for the second, ½ for a tie, NaN if unknown.

    A candidate is named by its identifier, by its position as shown ("first" or "second"), or by its column
    ("candidate" or "opponent", whose positions a swapped row exchanges).
    """
    words = named.str.strip().str.lower()
    by_word, by_column = words.map(_SIDES).to_numpy(float), words.map(_COLUMNS).to_numpy(float)
    if swapped is not None:
        by_column = np.where(swapped.to_numpy(bool), 1 - by_column, by_column)
    by_word = np.where(np.isnan(by_word), by_column, by_word)
    name, one, two = (column.reset_index(drop=True) for column in (named, first, second))
    known = name.notna()
    return np.select([(name == one) & known, (name == two) & known], [1.0, 0.0], by_word)


def human_gaps(
    rows: Sequence[Sequence[str]], first: pd.Series, second: pd.Series, swapped: pd.Series | None = None
) -> pd.Series:
    """Return the mean preference for the candidate shown first, -1 to 1, over people with a known preference."""
    most = max(map(len, rows), default=0)
    gaps = np.full((max(most, 1), len(rows)), np.nan)
    for at in range(most):
        named = strings([row[at] if at < len(row) else None for row in rows])
        gaps[at] = 2 * sides(named, first, second, swapped) - 1
    known = ~np.isnan(gaps)
    count = known.sum(axis=0)
    mean = np.where(known, gaps, 0.0).sum(axis=0) / np.maximum(count, 1)
    return pd.Series(np.where(count > 0, mean, np.nan), index=first.index)


def human_ratings(rows: Sequence[Sequence[str]]) -> dict[str, pd.Series]:
    """Return ``human`` (the mean), ``ratings``, and ``annotators`` (numbered by position in the list)."""
    numerals = [[(at, text.strip()) for at, text in enumerate(row) if NUMERAL.fullmatch(text)] for row in rows]
    means = [sum(float(text) for _, text in row) / len(row) if row else math.nan for row in numerals]
    return {
        "human": pd.Series(means, dtype=float),
        "ratings": strings([" ".join(text for _, text in row) for row in numerals]),
        "annotators": strings([" ".join(str(at) for at, _ in row) for row in numerals]),
    }
