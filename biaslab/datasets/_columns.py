"""Map the columns of a user's table to the schema, and parse identifiers and scores."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from biaslab.core.errors import DatasetError, InputError
from biaslab.core.schema import CANDIDATE_COLUMNS, HUMAN_COLUMNS

NAMES = tuple(dict.fromkeys((*CANDIDATE_COLUMNS, *HUMAN_COLUMNS)))


def map_columns(
    table: pd.DataFrame,
    columns: Mapping[str, str],
    attributes: tuple[str, ...],
    where: str,
    elsewhere: Iterable[str] = (),
) -> pd.DataFrame:
    """Return the columns that are mapped to the schema or to attributes, renamed accordingly.

    A mapped column must be in the file or in the other one, whose columns are ``elsewhere``.
    """
    known = dict.fromkeys((*NAMES, *attributes))
    unknown = [key for key in columns if key not in known]
    if unknown:
        raise InputError(
            "columns",
            unknown,
            f"keys among {', '.join(known)}",
            "list an attribute in 'attributes' to use it as a key",
        )
    chosen: dict[str, Any] = {}
    for key in known:
        column = columns.get(key, key)
        if column in table.columns:
            chosen[key] = table[column]
        elif key in columns and column not in elsewhere:
            having = ", ".join(str(name) for name in table.columns)
            raise DatasetError(f"{where}, column {column!r}", "missing", f"a column of the file: {having}")
    return pd.DataFrame(chosen, index=table.index)


def is_missing(value: object) -> bool:
    """Return whether a cell is missing; a list is never missing."""
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def to_ids(values: pd.Series, where: str, optional: bool = False) -> pd.Series:
    """Return identifiers as strings, whole numbers without decimals; missing ones raise or become empty."""
    texts = []
    for row, value in values.items():
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        text = "" if is_missing(value) else str(value)
        if not text.strip() and not optional:
            raise DatasetError(f"{where}, row {row}, column {values.name!r}", value, "a non-blank identifier")
        texts.append(text)
    return pd.Series(texts, index=values.index, dtype=object)


def read_scores(
    items: pd.DataFrame, attributes: tuple[str, ...], scale: tuple[float, float], where: str
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the human frame of a wide or long table, and the attributes, in order.

    Parameters
    ----------
    items : pandas.DataFrame
        With both identifiers; the index is the row in the file.
    attributes : tuple of str
        Attributes to keep; if empty, all of a long table.
    scale : tuple of float
        Lowest and highest score.
    where : str
        Name of the file in messages.
    """
    annotators = to_ids(items["annotator"], where) if "annotator" in items else "human"
    stack = _long if "score" in items and "score" not in attributes else _wide
    rated = stack(items.assign(annotator=annotators), attributes, scale, where)
    human = rated.dropna(subset=["score"])[list(HUMAN_COLUMNS)]
    repeated = human.duplicated(["context_id", "candidate_id", "attribute", "annotator"])
    if repeated.any():
        identity = tuple(human.loc[repeated, ["candidate_id", "attribute", "annotator"]].iloc[0])
        allowed = "one score a candidate, attribute and annotator"
        raise DatasetError(f"{where}, row {human.index[repeated][0]}, column 'annotator'", identity, allowed)
    return human, attributes or tuple(dict.fromkeys(rated["attribute"]))


def _long(items: pd.DataFrame, attributes: tuple[str, ...], scale: tuple[float, float], where: str) -> pd.DataFrame:
    if "attribute" not in items:
        if len(attributes) != 1:
            allowed = "a column with the attribute, or exactly one attribute in 'attributes'"
            raise DatasetError(f"{where}, column 'attribute'", "missing", allowed)
        items = items.assign(attribute=attributes[0])
    items = items.assign(attribute=to_ids(items["attribute"], where))
    present = tuple(dict.fromkeys(items["attribute"]))
    absent = [name for name in attributes if name not in present]
    if absent:
        raise InputError("attributes", absent, f"some of those in {where}: {', '.join(present)}")
    kept = items[items["attribute"].isin(attributes or present)]
    return kept.assign(score=_numbers(kept["score"], scale, where))


def _wide(items: pd.DataFrame, attributes: tuple[str, ...], scale: tuple[float, float], where: str) -> pd.DataFrame:
    if not attributes:
        remedy = "pass attributes=['coherence', …] (--attribute coherence), or the columns 'attribute' and 'score'"
        raise InputError("attributes", attributes, "at least one attribute of a wide table", remedy)
    absent = [name for name in attributes if name not in items]
    if len(absent) == len(attributes):
        return items.iloc[:0].assign(attribute="", score=math.nan)
    if absent:
        raise DatasetError(f"{where}, column {absent[0]!r}", "missing", "one column per attribute", "map it")
    return pd.concat([items.assign(attribute=a, score=_numbers(items[a], scale, where)) for a in attributes])


def _numbers(values: pd.Series, scale: tuple[float, float], where: str) -> list[float]:
    """Return scores as floats, NaN if missing; raise for values that are not numbers on the scale."""
    numbers = []
    for row, value in values.items():
        text = str(value).strip()
        if is_missing(value) or text in ("", "nan"):
            numbers.append(math.nan)
            continue
        try:
            number = math.inf if isinstance(value, bool) else float(text)
        except ValueError:
            number = math.inf
        if not scale[0] <= number <= scale[1]:
            allowed = f"a number from {scale[0]:g} to {scale[1]:g}, or empty"
            pointed = text.replace(",", ".")
            remedy = f"write {pointed}" if re.fullmatch(r"-?\d+\.\d+", pointed) and pointed != text else ""
            raise DatasetError(f"{where}, row {row}, column {values.name!r}", value, allowed, remedy)
        numbers.append(number)
    return numbers
