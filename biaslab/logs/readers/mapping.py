r"""Read any table with a mapping from fields to the columns of trials.

A mapping gives, for a column of the trials, one of the forms in `biaslab.logs.readers.expressions`: ``"field"``, a
field or dotted path; ``"=text"``, a constant; ``"field~expression"``, the first group of a regular expression searched
in the field; ``"field | 0 -> tie, 1 -> a"``, the meaning of its values. Fields with the name of a trials column need no
entry. In addition there are, one of which is required:

``winner``
    Names the candidate that won, or says "tie", "first" or "second".
``p_first``
    Probability that the candidate shown first wins, 0 to 1.
``score``
    A number on the ``scale``, such as "1-5", which must be given.
``reply``
    The judge's text: for pairs ``[[A]]`` or "A" for the first, B for the second, C for a tie; for scores a score.

and, for human scores and texts:

``replicate``
    A field with integers, or ``=#`` to number repeated judgements in the order of the file.
``swapped``
    True where the candidate of a row was shown second: then ``winner`` says "first" and "second" as they were shown,
    and "candidate" and "opponent" as they stand in the row.
``shown_first``
    Names the candidate of a row that was shown first, as ``winner`` does; where it names none the order is unknown.
``winner_swapped``
    For rows with both orders: the verdict in the other order, read like ``winner`` of a swapped row. Each row becomes
    two judgements.
``preference``
    The candidate that humans prefer, in the form of ``winner``: a gold label, or a list or several fields with one
    entry per person. It becomes ``human_gap``, -1 to 1.
``ratings``
    Human scores of a candidate: a list, or several fields. Their mean becomes ``human``.
``text``, ``opponent_text``
    The judged texts, which become ``words`` and ``opponent_words``.

A record that does not match a required expression becomes a row without a value, with the status "unparsable"; an
identifier then falls back to the whole field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from biaslab.core.errors import InputError
from biaslab.logs.readers.common_names import side_of
from biaslab.logs.readers.expressions import LISTS, TOGETHER, Expression, parse_expression
from biaslab.logs.readers.log_columns import COLUMNS, SCHEMA, trials_of
from biaslab.logs.readers.outcomes import (
    OF_PAIRS,
    OF_SCORES,
    OUTCOMES,
    human_gaps,
    human_ratings,
    read_pair,
    read_score,
    sides,
)
from biaslab.logs.readers.refusing import map_line
from biaslab.logs.readers.rows import (
    NUMERAL,
    Kind,
    Rows,
    Source,
    field_names,
    keyed,
    read_value,
    strings,
    word_counts,
)

NO_WINNER = "no winner"
UNKNOWN_WINNER = "winner names neither candidate"
_SHOWN = 6  # verdicts shown in a message
COUNTED = "#"
"""The constant for ``replicate`` that numbers repeated judgements in the order of the file."""

_TEXTS = {"text": "words", "opponent_text": "opponent_words"}
_EXPLICIT = (
    *_TEXTS,
    "samples",
    "label_mass",
    "swapped",
    "shown_first",
    "winner_swapped",
)  # fields of such names rarely mean that
_UNMAPPED = ("probe", "value", "status", "key", "p_first_label", "p_both_orders")
NAMES = tuple(dict.fromkeys((*OUTCOMES, *(c for c in COLUMNS if c not in _UNMAPPED), "preference", *_EXPLICIT)))
_KINDS: dict[str, Kind] = {name: "id" if column.kind == "text" else column.kind for name, column in SCHEMA.items()}
_KINDS |= {"p_first": "number", "score": "number", "reply": "text", "winner": "id", "text": "text"}
_KINDS |= {"opponent_text": "text", "swapped": "flag", "shown_first": "name"}
_IDENTITY = ("context_id", "candidate_id", "opponent_id")


class Mapped(NamedTuple):
    """The mapped columns, and which records did not match."""

    columns: dict[str, pd.Series]
    unmatched: NDArray[np.bool_]


def columns_of(rows: Rows, mapping: Mapping[str, Any]) -> Mapped:
    """Return the mapped columns, refusing records with a value of the wrong type."""
    lost = np.zeros(len(rows.records), bool)
    found: dict[str, pd.Series] = {}
    lists: dict[str, list[list[str]]] = {}
    for name, given in mapping.items():
        expression = _apart(rows, name, parse_expression(name, given))
        _require_fields(rows, name, expression)
        if name in LISTS and expression.compared:
            lists[name] = [[said or ""] for said in expression.greater(rows)]
        elif name in LISTS and expression.constant is None:
            parts = [_raw(rows, expression, field) for field in expression.fields]
            lists[name] = [_listed(several) for several in zip(*parts, strict=True)]
        else:
            found[name] = _column(rows, name, expression, lost)
    if "replicate" in found:
        rows.refuse(found["replicate"].isna() | (found["replicate"] % 1 != 0), "replicate is not a whole number")
    if "ratings" in lists:
        found = human_ratings(lists["ratings"]) | found
    if "preference" in lists:
        found["preference"] = pd.Series(lists["preference"], dtype=object)
    for name, column in _TEXTS.items():
        if name in found:
            found.setdefault(column, word_counts(found.pop(name)))
    return Mapped(found, lost)


def with_preference(found: dict[str, pd.Series], swapped: pd.Series | None = None) -> dict[str, pd.Series]:
    """Turn whom humans prefer into ``human_gap``, unless that is given; ``swapped`` where candidates were exchanged."""
    if "preference" not in found:
        return found
    rest = {name: column for name, column in found.items() if name != "preference"}
    if "human_gap" in rest:
        return rest
    named, (first, second) = found["preference"], (rest["candidate_id"], rest["opponent_id"])
    listed = [row if isinstance(row, list) else [] for row in named]
    if named.dtype == "str":  # a constant
        listed = [[text] for text in named]
    return rest | {"human_gap": human_gaps(listed, first, second, swapped)}


def as_shown(found: dict[str, pd.Series]) -> dict[str, pd.Series]:
    """Swap candidate and opponent in rows that were shown in the other order."""
    if "shown_first" in found:
        ahead = sides(found.pop("shown_first"), found["candidate_id"], found["opponent_id"])
        known = pd.Series(np.isin(ahead, (0.0, 1.0)), index=found["candidate_id"].index)
        found["order_known"] = found.get("order_known", known) & known
        found["swapped"] = pd.Series(ahead == 0.0, index=known.index)
    if "swapped" not in found:
        return found
    swapped = found["swapped"]
    exchanged = {
        name: found[name].where(~swapped, found[other])
        for one, two in (("candidate_id", "opponent_id"), ("words", "opponent_words"))
        if one in found and two in found
        for name, other in ((one, two), (two, one))
    }
    if "human_gap" in found:
        exchanged["human_gap"] = found["human_gap"].where(~swapped, -found["human_gap"])
    return found | exchanged


def read_mapped(rows: Rows, source: Source, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return one trial per record, or two if it has both orders; with an ``opponent_id``, trials are pairs.

    Raises
    ------
    InputError
        If context, candidate, outcome or scale is neither in the file nor mapped.
    """
    whole = {name: name for name in NAMES if name not in _EXPLICIT and _says_itself(rows, name, mapping)} | dict(
        mapping
    )
    if "winner_swapped" in whole:
        return _in_both_orders(rows, source, whole)
    return _read_once(rows, source, mapping, whole)


def _says_itself(rows: Rows, name: str, mapping: Mapping[str, Any]) -> bool:
    """Return whether a field is called as a column of the trials and may be that, beside what is mapped."""
    if not rows.has(name) or (name in OUTCOMES and name != "reply" and set(OUTCOMES) & set(mapping)):
        return False
    if name in LISTS:
        return True
    values = [value for value in rows.values(name) if value is not None and value != ""]
    return not values or any(read_value(value, _KINDS.get(name, "any")) is not None for value in values)


def _in_both_orders(rows: Rows, source: Source, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return two trials per record, one for the verdict of each order."""
    if "swapped" in mapping or "winner" not in mapping or "opponent_id" not in mapping:
        allowed = "used with opponent_id and winner (the verdict in the row's order), and without swapped"
        raise InputError("mapping['winner_swapped']", mapping["winner_swapped"], allowed)
    as_stands = {name: expression for name, expression in mapping.items() if name != "winner_swapped"}
    other = as_stands | {"winner": mapping["winner_swapped"], "swapped": "=true"}
    return pd.concat([_read_once(rows, source, each, each, both=True) for each in (as_stands, other)])


def _read_once(
    rows: Rows, source: Source, mapping: Mapping[str, Any], whole: Mapping[str, Any], both: bool = False
) -> pd.DataFrame:
    """Return one trial per record; with ``both``, human preferences refer to the record's first candidate."""
    is_pair = "opponent_id" in whole
    possible = OF_PAIRS if is_pair else OF_SCORES
    outcome = next((name for given in (mapping, whole) for name in (*possible, *OUTCOMES) if name in given), None)
    _require_entries(rows, source, mapping, whole, outcome)
    found, unmatched = columns_of(rows, whole)
    if is_pair:
        if both:
            found = as_shown(with_preference(found))
        else:
            found = as_shown(found)
            found = with_preference(found, found.get("swapped"))
        rows.leave_out(found["candidate_id"] == found["opponent_id"], "a candidate stands beside itself")
    elif "ratings" in found and "scale" in found:
        found.setdefault("human_scale", found["scale"])
    if outcome is None:
        reading = pd.DataFrame({"value": np.nan, "status": "unparsable"}, index=range(len(rows.records)))
    else:
        reading = read_pair(found, outcome) if is_pair else read_score(found, outcome, source)
        if outcome == "winner":
            _note_unknown(rows, whole["winner"], found["winner"][reading["status"] == "unparsable"])
    kept = {name: column for name, column in found.items() if name in COLUMNS}
    trials = trials_of({**kept, **reading}, pd.RangeIndex(len(rows.records)))
    return without_value(trials, unmatched)


def _note_unknown(rows: Rows, given: Any, words: pd.Series) -> None:
    """Record verdicts that name neither candidate, with a mapping that would give their meaning."""
    known = Counter(word.strip() for word in words.dropna() if word.strip() != NO_WINNER)
    if not known or not isinstance(given, str):
        return
    sides = {word: side_of(word) or "…" for word, _ in known.most_common(_SHOWN)}
    line = map_line({"winner": {"field": parse_expression("winner", given).fields[0], "values": sides}})
    rows.log.unmatched[f"{UNKNOWN_WINNER}; give its meaning: {line}"] += known.total()


def _require_entries(
    rows: Rows, source: Source, mapping: Mapping[str, Any], whole: Mapping[str, Any], outcome: str | None
) -> None:
    """Raise `InputError` unless all required columns are there; ratings by people need no judge's score."""
    missing = [name for name in ("context_id", "candidate_id") if name not in whole]
    alone = outcome is None and not ("ratings" in whole and "opponent_id" not in whole)
    if missing or alone:
        wanted = [*missing, *([f"one of {', '.join(OUTCOMES)}"] if alone else [])]
        remedy = f"the file has {field_names(rows.records)}; write for example context_id=question"
        raise InputError(f"mapping of {source.file}", dict(mapping), f"entries for {' and '.join(wanted)}", remedy)
    if outcome is not None and "opponent_id" not in whole and "scale" not in whole:
        raise InputError("mapping", dict(mapping), "an entry for scale", "such as scale='=1-5'")


def without_value(trials: pd.DataFrame, unmatched: NDArray[np.bool_]) -> pd.DataFrame:
    """Remove the value from rows that the mapping did not match."""
    if not unmatched.any():
        return trials
    kept = trials["value"].where(~unmatched)
    return trials.assign(value=kept, status=trials["status"].where(~unmatched, "unparsable"))


def _require_fields(rows: Rows, name: str, expression: Expression) -> None:
    absent = [field for field in expression.fields if not rows.has(field)]
    if absent:
        allowed = f"a field of the file: {field_names(rows.records)}"
        raise InputError(f"mapping[{name!r}]", ", ".join(absent), allowed)


def _apart(rows: Rows, name: str, expression: Expression) -> Expression:
    """Return what names something by several fields as these; a field may have a comma in its name, too."""
    field = expression.fields[0] if expression.is_plain and len(expression.fields) == 1 else ""
    if name not in TOGETHER or "," not in field or rows.has(field):
        return expression
    return Expression(tuple(part.strip() for part in field.split(",") if part.strip()))


def _column(rows: Rows, name: str, expression: Expression, lost: NDArray[np.bool_]) -> pd.Series:
    if expression.constant is not None:
        return pd.Series(_constant(name, expression.constant), index=range(len(rows.records)))
    field = expression.fields[0]
    if expression.compared:
        return strings(expression.greater(rows))
    if len(expression.fields) > 1:
        parts = [rows.take(each, "id") for each in expression.fields]
        return strings(["/".join(map(str, values)) for values in zip(*parts, strict=True)])
    if expression.is_plain and name == "context_id":
        return rows.convert([keyed(value) for value in rows.values(field)], field, "id")
    if expression.is_plain:
        return rows.take(field, _KINDS[name], NO_WINNER if name == "winner" else None)
    texts = expression.texts(rows, field, numbers=_KINDS[name] == "number")
    missing = np.array([text is None for text in texts], bool)
    if missing.any():
        rows.log.unmatched[f"{name}: {field} does not match"] += int((missing & rows.good).sum())
    if name in _IDENTITY and missing.any():
        lost |= missing
        whole = rows.take(field, "id")
        texts = [said if text is None else text for text, said in zip(texts, whole, strict=True)]
    return _converted(texts, _KINDS[name])


def _converted(texts: list[Any], kind: Kind) -> pd.Series:
    """Convert texts to numbers or flags, with NaN and False if invalid, or return them unchanged."""
    if kind == "number":
        numbers = (read_value(text, "number") for text in texts)
        return pd.Series([np.nan if number is None else number for number in numbers], dtype=float)
    if kind == "flag":
        return pd.Series([bool(read_value(text or "", "flag")) for text in texts], dtype=bool)
    return strings(texts)


def _constant(name: str, text: str) -> Any:
    if (name, text) == ("replicate", COUNTED):
        return 0
    kind = _KINDS.get(name)
    if kind not in ("number", "flag"):
        return text
    value = read_value(text, kind)
    if value is None:
        raise InputError(f"mapping[{name!r}]", text, "a number" if kind == "number" else "true or false")
    return value


def _raw(rows: Rows, expression: Expression, field: str) -> list[Any]:
    """Return a field that may be a list, with the mapped meaning of each item."""
    if expression.is_plain:
        return rows.values(field)
    values = rows.values(field)
    if not any(isinstance(value, list) for value in values):
        return expression.texts(rows, field)
    inner = [value if isinstance(value, list) else [value] for value in values]
    flat = Rows([{"item": item} for items in inner for item in items], [], rows.log, rows.textual)
    said = iter(expression.texts(flat, "item"))
    return [[next(said) for _ in items] for items in inner]


def _listed(parts: tuple[Any, ...]) -> list[str]:
    """Return the items of several fields or a list as texts; empty if one is neither text nor number."""
    whole = [item for part in parts for item in (part if isinstance(part, list) else _split(part))]
    return [_text(item) for item in whole]


def _split(part: Any) -> list[Any]:
    """Split a text that consists of numbers, as in saved trials; otherwise return the value itself."""
    words = part.split() if isinstance(part, str) else []
    return words if len(words) > 1 and all(NUMERAL.fullmatch(word) for word in words) else [part]


def _text(item: Any) -> str:
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    return str(item).strip() if isinstance(item, str | int | float) and not isinstance(item, bool) else ""
