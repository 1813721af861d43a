r"""Anybody's table through a mapping: which field, constant or part of a field is which column of the trials.

A mapping goes from a column of the trials to ``"field"``, a field of the file; ``"=text"``, a constant; or
``"field~expression"``, the first group of a regular expression found in the field. Columns that the file names as the
trials do need no entry. Besides the columns of the trials there are, one of them is needed:

``winner``
    Names the candidate that won, or says "tie".
``p_first``
    Probability that the candidate that was shown first wins, 0 to 1.
``score``
    A number on the ``scale``, such as "1-5", which is never guessed.
``reply``
    The judge's text: of pairs ``[[A]]`` or "A" for the first, B for the second, C for a tie; of scores a score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslab.errors import InputError
from biaslab.judgements.log_columns import COLUMNS, SCHEMA, trials_of
from biaslab.judgements.readings import bracketed, compiled, each, each_on_scale, lettered, number_on, scored
from biaslab.judgements.rows import Kind, Rows, Source
from biaslab.parsing.numerals import Reading
from biaslab.scales import Scale

OUTCOMES = ("winner", "p_first", "score", "reply")
NAMES = tuple(dict.fromkeys((*OUTCOMES, *(c for c in COLUMNS if c not in ("probe", "value", "status", "key")))))
_KINDS: dict[str, Kind] = {name: "id" if column.kind == "text" else column.kind for name, column in SCHEMA.items()}
_KINDS |= {"p_first": "number", "score": "number", "reply": "text"}


def check_mapping(mapping: Mapping[str, str]) -> None:
    """Raise `InputError` unless a mapping goes from known names to expressions."""
    unknown = [name for name in mapping if name not in NAMES]
    if unknown:
        raise InputError("mapping", unknown, f"some of {', '.join(NAMES)}")
    for name, expression in mapping.items():
        if not isinstance(expression, str) or not expression:
            raise InputError(f"mapping[{name!r}]", expression, "a field, '=constant' or 'field~regular expression'")


def columns_of(rows: Rows, mapping: Mapping[str, str]) -> dict[str, pd.Series]:
    """Return the columns that a mapping names, and refuse records in which one is of the wrong kind."""
    return {name: _column(rows, name, expression) for name, expression in mapping.items()}


def read_mapped(rows: Rows, source: Source, mapping: Mapping[str, str]) -> pd.DataFrame:
    """Return one trial a record, of a pair where an ``opponent_id`` is given and of a score otherwise.

    Raises
    ------
    InputError
        If context, candidate, outcome or scale is neither in the file nor mapped.
    """
    whole = {name: name for name in NAMES if rows.has(name)} | dict(mapping)
    outcome = next((name for name in OUTCOMES if name in whole), None)
    missing = [name for name in ("context_id", "candidate_id") if name not in whole]
    if outcome is None or missing:
        fields = ", ".join(sorted({name for record in rows.records[:20] for name in record}))
        wanted = [*missing, *([f"one of {', '.join(OUTCOMES)}"] if outcome is None else [])]
        raise InputError(f"mapping of {source.file}", dict(mapping), f"entries for {' and '.join(wanted)}",
                         f"the file has {fields}; write for example context_id=question")  # fmt: skip
    found = columns_of(rows, whole)
    if "replicate" in found:
        rows.refuse(found["replicate"].isna() | (found["replicate"] % 1 != 0), "replicate is not a whole number")
    is_pair = "opponent_id" in found
    if not is_pair and "scale" not in found:
        raise InputError("mapping", dict(mapping), "an entry for scale", "such as scale='=1-5'; it is never guessed")
    reading = _pair(found, outcome) if is_pair else _score(found, outcome, source)
    kept = {name: column for name, column in found.items() if name not in OUTCOMES[:3]}
    return trials_of({**kept, **reading}, pd.RangeIndex(len(rows.records)))


def _column(rows: Rows, name: str, expression: str) -> pd.Series:
    if expression.startswith("="):
        return pd.Series(_kind_of(name, expression[1:]), index=range(len(rows.records)))
    field, part, pattern = expression.partition("~")
    if not rows.has(field):
        listed = ", ".join(sorted({key for record in rows.records[:20] for key in record}))
        raise InputError(f"mapping[{name!r}]", field, f"a field of the file: {listed}")
    if part:
        return _within(rows, field, compiled(pattern, f"mapping[{name!r}]"))
    if name == "winner":
        return rows.take(field, "id", "no winner")
    return rows.take(field, _KINDS[name])


def _kind_of(name: str, constant: str) -> Any:
    kind = _KINDS.get(name)
    if kind not in ("number", "flag"):
        return constant
    try:
        return float(constant) if kind == "number" else {"true": True, "false": False}[constant.lower()]
    except (KeyError, ValueError) as error:
        allowed = "a number" if kind == "number" else "true or false"
        raise InputError(f"mapping[{name!r}]", constant, allowed) from error


def _within(rows: Rows, field: str, expression: re.Pattern[str]) -> pd.Series:
    texts = rows.take(field, "id")
    found = [expression.search(text) if isinstance(text, str) else None for text in texts]
    groups = [next((g for g in match.groups() if g is not None), None) if match else None for match in found]
    rows.refuse(np.array([group is None for group in groups], bool), f"{field} does not match")
    return pd.Series(groups, dtype="str")


def _pair(found: Mapping[str, pd.Series], outcome: str) -> pd.DataFrame:
    if outcome == "p_first":
        return each(found["p_first"], _probability)
    if outcome == "winner":
        won = found["winner"]
        first, second = won == found["candidate_id"], won == found["opponent_id"]
        tie = won.str.lower() == "tie"
        value = np.select([tie, first & ~second, second & ~first], [0.5, 1.0, 0.0], math.nan)
        status = np.select([tie, ~np.isnan(value)], ["tie", "ok"], "unparsable")
        return pd.DataFrame({"value": value, "status": status}, index=won.index)
    if outcome == "reply":
        return each(found["reply"], lambda text: bracketed(text) if "[[" in text else lettered(text))
    raise InputError("mapping", outcome, "winner, p_first or reply where there is an opponent_id")


def _score(found: Mapping[str, pd.Series], outcome: str, source: Source) -> pd.DataFrame:
    values = found.get(outcome)
    if values is None or outcome not in ("score", "reply"):
        raise InputError("mapping", outcome, "score or reply where there is no opponent_id")
    attribute = found.get("attribute", pd.Series("", index=values.index)).fillna("")

    def reader(scale: Scale, about: str) -> Callable[[Any], Reading]:
        return number_on(scale) if outcome == "score" else scored(scale, about, source.score_pattern)

    return each_on_scale(values, found["scale"].fillna(""), attribute, reader)


def _probability(value: float) -> Reading:
    if not 0 <= value <= 1:
        return math.nan, "unparsable" if math.isnan(value) else "out_of_range"
    return (0.5, "tie") if value == 0.5 else (value, "ok")
