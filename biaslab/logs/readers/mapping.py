r"""Load a mapping and read a table with it, or override by it the columns that a format's reader found.

A mapping gives, for each column of the trials, an entry of one of these forms:

================================  ==========================================================================
``question``                      a field of the record
``judgments.0.decision``          a path of object keys and list indices, from 0
``=GPT-4``                        a constant
``custom_id~^(.+?)/``             the first matching group of a regular expression, searched in a field
``verdict | 0 -> tie, 1 -> a``    the meaning of a field's values; other values have none
``annotator1, annotator2``        several fields, for ``ratings`` and ``preference``
``task, id``                      several fields that form one name, for columns such as ``context_id``
``score_a > score_b``             for ``winner`` and ``preference``: the candidate with the greater number
``share | 1 -> 1, 2 -> 0``        for numbers: the meaning of two of them, with interpolation in between
================================  ==========================================================================

In a mapping file, the same is written ``{ field = "verdict", pattern = "…", values = { 0 = "tie" } }``, with a pattern,
values, or both.

Fields that have the name of a trials column need no entry. One of these outcomes is required:

``winner``
    The candidate that won: its identifier, "first", "second" or "tie".
``p_first``
    Probability that the candidate shown first wins, 0 to 1.
``score``
    A number on the ``scale``, such as "1-5", which is required too.
``reply``
    The judge's text. For pairs, ``[[A]]`` or "A" is the first, B the second, C a tie; for scores, it states a score.

Further entries are optional:

``replicate``
    A field with integers, or ``=#`` to number repeated judgements in the order of the file.
``swapped``
    True if the candidate of a row was shown second. In ``winner``, "first" and "second" then mean positions as shown,
    and "candidate" and "opponent" the columns of the row.
``shown_first``
    The candidate that was shown first, in the form of ``winner``; with any other value, the order is unknown.
``winner_swapped``
    For rows with verdicts of both orders: the verdict in the other order, read like ``winner`` of a swapped row. Each
    row becomes two judgements.
``person``
    Who gave the scores, in a log of people without a judge; such a log has no judge's verdict.
``preference``
    The candidate that humans prefer, in the form of ``winner``: a gold label, or a list or several fields with one
    entry per person. It becomes ``human_gap``, -1 to 1.
``ratings``
    Human scores of a candidate: a list, or several fields. Their mean becomes ``human``.
``text``, ``opponent_text``
    The judged texts, which become ``words`` and ``opponent_words``.

Several columns of verdicts or scores, ``score = ["tone", "style"]``, are read one after the other; other entries can
then be tables with a value for each, such as ``scale = { tone = "=0-2", style = "=1-5" }``.

A record that does not match a required expression becomes a row without a value, with the status "unparsable"; an
identifier then falls back to the whole field.

A mapping is a dictionary, a TOML file, or a function of the table::

    # mapping of verdicts.json
    join = "annotators.json on idx"          # a second file, relative to this one
    explode = "games"                        # one row per item of a list
    judge = "=GPT-3.5"                       # like --map judge==GPT-3.5
    context_id = "idx"
    winner = { field = "games.verdict", values = { 1 = "first", 2 = "second", 0 = "tie" } }
    preference = ["annotator1", "annotator2", "annotator3"]

``format`` and ``score_pattern`` are allowed too. Names and expressions are checked when the file is loaded.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from biaslab.core.arrays import Bools
from biaslab.core.checks import read
from biaslab.core.errors import InputError
from biaslab.core.scales import scale_named
from biaslab.logs.readers import cells, readings
from biaslab.logs.readers.cells import NUMERAL, answered, is_no_value, keyed, read_value, strings, whole, written
from biaslab.logs.readers.flatten import Shape, TableFunction, make_shape
from biaslab.logs.readers.readings import OF_PAIRS, OF_SCORES, OUTCOMES
from biaslab.logs.readers.rows import LogSource, Rows, field_names
from biaslab.logs.readers.trials import COLUMNS, SCHEMA, trials_of

OPEN = "?"
"""Marks, in a proposed mapping, what only the user knows."""

LISTS = ("ratings", "preference")  # columns that are made of several fields, or of a list
#: Columns whose values several fields can form together.
TOGETHER = ("context_id", "candidate_id", "opponent_id", "judge", "dataset", "attribute", "template", "configuration")
_COMPARED = ("winner", "winner_swapped", "preference")
_GREATER = re.compile(r"(?P<one>[^>|~]*[^>|~\s-])\s+>\s+(?P<two>[^>|~]*[^>|~\s])")
_SEEN = 3  # values shown in a message
_PARTS = {"field", "fields", "pattern", "values", "constant"}
_SPECIAL = set(" |<>&;()$`\"'*?[]#~\\!")  # characters special to a shell
_ALLOWED = "a field, '=constant', 'field~regular expression' or 'field | value -> meaning, …'"


def map_line(entries: Mapping[str, Any]) -> str:
    """Return a mapping as command-line options.

    Examples
    --------
    >>> map_line({"context_id": "q", "winner": {"field": "w", "values": {"A": "first", "B": "second"}}})
    '--map context_id=q --map "winner=w | A -> first, B -> second"'
    """
    return " ".join(f"--map {_quoted(name, expression)}" for name, expression in entries.items())


def _quoted(name: str, expression: Any) -> str:
    if isinstance(expression, Mapping):
        field = ", ".join(expression["fields"]) if "fields" in expression else expression["field"]
        meanings = ", ".join(f"{value} -> {meaning}" for value, meaning in expression.get("values", {}).items())
        field = f"{field}~{expression['pattern']}" if "pattern" in expression else field
        expression = f"{field} | {meanings}" if meanings else field
    text = f"{name}={expression}"
    if set(text) & set("$`\\!"):
        return shlex.quote(text)
    return text if not set(text) & _SPECIAL else '"' + text.replace('"', '\\"') + '"'


def paths_of(entry: Any, known: Container[str] = ()) -> Iterator[str]:
    """Yield the fields and paths that a mapping's entry names; one that is known may have commas.

    Examples
    --------
    >>> [list(paths_of(entry)) for entry in ("runs[].verdict | yes -> 1, no -> 0", {"fields": ["a", "b"]}, "=1")]
    [['runs[].verdict'], ['a', 'b'], []]
    """
    if isinstance(entry, str) and not entry.startswith("="):
        field = entry.partition("|")[0].partition("~")[0].strip()
        parts = [field] if field in known else field.replace(" > ", ",").split(",")
        yield from (part.strip() for part in parts)
    elif isinstance(entry, Mapping) and "constant" not in entry:
        for value in (entry.get("field"), entry.get("fields")) if {"field", "fields"} & set(entry) else entry.values():
            yield from paths_of(value, known)
    elif isinstance(entry, list | tuple):
        yield from (path for each in entry for path in paths_of(each, known))


@dataclass(frozen=True)
class Expression:
    """The source of a column's values.

    Parameters
    ----------
    fields : tuple of str
        Fields or paths; several only for columns that combine fields.
    constant : str, optional
        A value for all records, instead of fields.
    pattern : re.Pattern, optional
        A regular expression whose first matching group is used.
    values : mapping of str to str, optional
        Value → meaning; booleans and null are keyed as "true", "false" and "null".
    compared : bool
        Whether the first of two fields is compared with the second.
    """

    fields: tuple[str, ...] = ()
    constant: str | None = None
    pattern: re.Pattern[str] | None = None
    values: Mapping[str, str] | None = None
    compared: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the field is taken unchanged."""
        return self.constant is None and self.pattern is None and self.values is None and not self.compared

    def reader(self, numbers: bool = False) -> Callable[[Any], str | None]:
        """Return what gives a value's text; None if the pattern does not match or the value has no meaning.

        With ``numbers``, values between those mapped to numbers are interpolated linearly.
        """
        known = {whole(value): meaning for value, meaning in (self.values or {}).items()}
        between = _interpolation(known) if numbers else None

        def read(value: Any) -> str | None:
            text = written(value)
            if self.pattern is not None and text is not None:
                text = readings.first_group(self.pattern, text)
            return text if self.values is None else _meant("null" if text is None else text.strip(), known, between)

        return read

    def greater(self, rows: Rows) -> list[str | None]:
        """Return "candidate" if the first field is greater, "opponent" if the second is, "tie" if they are equal."""
        pairs = zip(*(map(readings.number_of, rows.values(field)) for field in self.fields), strict=True)
        words = {-1.0: "opponent", 0.0: "tie", 1.0: "candidate"}
        return [words.get(float(np.sign(one - two))) for one, two in pairs]


def parse_expression(name: str, entry: Any) -> Expression:
    r"""Parse the mapping entry of a column.

    Raises
    ------
    InputError
        If the entry has none of the forms in the module's table.

    Examples
    --------
    >>> parse_expression("winner", "verdict | 0 -> tie, A>B -> a").values
    {'0': 'tie', 'A>B': 'a'}
    >>> parse_expression("context_id", r"id~^(\d+)").fields, parse_expression("judge", "=me").constant
    (('id',), 'me')
    """
    where = f"mapping[{name!r}]"
    if isinstance(entry, Mapping):
        return _from_table(where, name, entry)
    if not isinstance(entry, str) or not entry.strip():
        raise InputError(where, entry, _ALLOWED)
    if entry.startswith("="):
        return Expression(constant=entry[1:])
    field, tilde, pattern = entry.partition("~")
    if tilde:
        pattern, meanings = _pattern_and_meanings(pattern)
        values = None if meanings is None else _meanings(where, meanings)
        return Expression((field.strip(),), pattern=readings.compiled(pattern, where), values=values)
    field, bar, meanings = entry.partition("|")
    if bar and "->" in meanings:
        return Expression(_fields(name, field.strip()), values=_meanings(where, meanings))
    if name in _COMPARED and (compared := _GREATER.fullmatch(entry.strip())) is not None:
        return Expression((compared["one"], compared["two"]), compared=True)
    return Expression(_fields(name, entry))


def _pattern_and_meanings(text: str) -> tuple[str, str | None]:
    """Split ``expression | value -> meaning``; a ``|`` of the expression itself has no arrow after it."""
    for bar in (" | ", "|"):
        pattern, found, meanings = text.rpartition(bar)
        if found and "->" in meanings and pattern.strip():
            return pattern.rstrip(), meanings
    return text, None


def _from_table(where: str, name: str, entry: Mapping[str, Any]) -> Expression:
    unknown = sorted(set(entry) - _PARTS)
    sources = [part for part in ("field", "fields", "constant") if part in entry]
    if unknown or len(sources) != 1:
        raise InputError(where, dict(entry), "a table with field, fields or constant, and optionally pattern or values")
    if "constant" in entry:
        return Expression(constant=written(entry["constant"]) or "")
    source = entry[sources[0]]
    fields = tuple(source) if isinstance(source, list) else _fields(name, source) if isinstance(source, str) else ()
    named = all(isinstance(field, str) and field for field in fields)
    if not fields or not named or (len(fields) > 1 and name not in (*LISTS, *TOGETHER, *OUTCOMES)):
        several = ", ".join((*LISTS, *TOGETHER, *OUTCOMES))
        raise InputError(where, source, f"the name of a field, or names of several for {several}")
    pattern, values = entry.get("pattern"), entry.get("values")
    if values is not None and not isinstance(values, Mapping):
        raise InputError(f"{where}.values", values, 'a table such as { 0 = "tie" }')
    known = None if values is None else {str(key): written(value) or "" for key, value in values.items()}
    return Expression(fields, None, None if pattern is None else readings.compiled(str(pattern), where), known)


def _fields(name: str, entry: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in entry.split(",") if field.strip()) if name in LISTS else (entry,)


def _meanings(where: str, text: str) -> dict[str, str]:
    """Parse ``a -> b, c -> d``; a comma without a following arrow belongs to the text before it."""
    meanings: dict[str, str] = {}
    parts = re.split(r",\s+(?=(?:(?!->).)*->)", text)  # commas without a following space belong to values
    if not all(pair.count("->") == 1 for pair in parts):
        parts = re.split(r",(?=[^,]*->)", text)
    for pair in parts:
        value, arrow, meaning = pair.partition("->")
        if not arrow or not value.strip() or not meaning.strip():
            raise InputError(where, text.strip(), "value -> meaning, separated by commas", "such as 0 -> tie, 1 -> one")
        meanings[value.strip()] = meaning.strip()
    return meanings


def _interpolation(known: Mapping[str, str]) -> tuple[list[float], list[float]] | None:
    """Return the mapped numbers, ascending, and their meanings; None unless there are two and all are numbers."""
    if len(known) < 2 or not all(NUMERAL.fullmatch(text) for pair in known.items() for text in pair):
        return None
    ordered = sorted((float(value), float(meaning)) for value, meaning in known.items())
    return [value for value, _ in ordered], [meaning for _, meaning in ordered]


def _meant(text: str, known: Mapping[str, str], between: tuple[list[float], list[float]] | None) -> str | None:
    """Return the meaning of a value, interpolated if it is not listed; None if it has none."""
    if (meaning := known.get(whole(text))) is not None or between is None:
        return meaning
    number = text.removesuffix("%")
    if not NUMERAL.fullmatch(number) or not between[0][0] <= float(number) <= between[0][-1]:
        return None
    return repr(float(np.interp(float(number), *between)))


NO_WINNER = "no winner"
"""Placeholder for a missing ``winner``."""

COUNTED = "#"
"""The constant for ``replicate`` that numbers repeated judgements in the order of the file."""

TEXTS = {"text": "words", "opponent_text": "opponent_words"}
KINDS: dict[str, cells.FieldKind] = {
    name: "id" if column.kind == "text" else column.kind for name, column in SCHEMA.items()
}
KINDS |= {"p_first": "number", "score": "number", "reply": "text", "winner": "id", "text": "text"}
KINDS |= {"person": "id", "opponent_text": "text", "swapped": "flag", "shown_first": "name"}
_SCORES = ("score", "p_first")
_IDENTITY = ("context_id", "candidate_id", "opponent_id")


def columns_of(rows: Rows, mapping: Mapping[str, Any]) -> tuple[dict[str, pd.Series], Bools]:
    """Return the columns of a mapping, and flag records that did not match; refuse those with a wrong type of value."""
    lost = np.zeros(len(rows.records), bool)
    columns: dict[str, pd.Series] = {}
    lists: dict[str, list[list[str]]] = {}
    for name, expression_text in mapping.items():
        expression = _split_fields(rows, name, parse_expression(name, expression_text))
        _require_fields(rows, name, expression)
        if name in LISTS and expression.constant is None:
            lists[name] = _lists(rows, name, expression)
        else:
            columns[name] = _column(rows, name, expression, lost)
            if name == "score" and "reply" not in mapping and expression.constant is None:
                columns["reply"] = _replies(rows, expression, columns[name])
    if "replicate" in columns:
        rows.refuse(columns["replicate"].isna() | (columns["replicate"] % 1 != 0), "replicate is not a whole number")
    if "ratings" in lists:
        rated = readings.human_ratings(lists["ratings"])
        _note_unread_ratings(rows, lists["ratings"], rated["human"])
        columns = rated | columns
    if "preference" in lists:
        columns["preference"] = pd.Series(lists["preference"], dtype=object)
    for name, column in TEXTS.items():
        if name in columns:
            columns.setdefault(column, cells.word_counts(columns.pop(name)))
    return columns, lost


def _lists(rows: Rows, name: str, expression: Expression) -> list[list[str]]:
    """Return the labels of each record by several people, and count words without a meaning."""
    if expression.compared:
        return [[label or ""] for label in expression.greater(rows)]
    parts = [_raw(rows, expression, field) for field in expression.fields]
    words = [rows.values(field) for field in expression.fields]
    lost = sum(own is None and bool(word) for own, word in zip(chain(*parts), chain(*words), strict=True))
    if lost and not expression.is_plain:
        rows.log.unmatched[f"{name}: {', '.join(expression.fields)} does not match"] += lost
    return [_listed(several) for several in zip(*parts, strict=True)]


def _note_unread_ratings(rows: Rows, lists: list[list[str]], means: pd.Series) -> None:
    """Count people's scores that are no numbers."""
    unread = [text for texts, mean in zip(lists, means, strict=True) for text in texts if text.strip() and mean != mean]
    if unread:
        shown = ", ".join(dict.fromkeys(unread[:_SEEN]))
        rows.log.unmatched[f"ratings are no numbers; give their meaning ({shown})"] += len(unread)


def require_fields(rows: Rows, mapping: Mapping[str, Any]) -> None:
    """Raise `InputError` if an entry names a field that no record has."""
    for name, entry in mapping.items():
        _require_fields(rows, name, _split_fields(rows, name, parse_expression(name, entry)))


def _require_fields(rows: Rows, name: str, expression: Expression) -> None:
    absent = [field for field in expression.fields if not rows.has(field)]
    if absent:
        allowed = f"a field of the file: {field_names(rows.records)}"
        raise InputError(f"mapping[{name!r}]", ", ".join(absent), allowed)


def _split_fields(rows: Rows, name: str, expression: Expression) -> Expression:
    """Split an expression such as ``task, id`` into its fields, unless a field has that very name."""
    field = expression.fields[0] if expression.is_plain and len(expression.fields) == 1 else ""
    if name not in TOGETHER or "," not in field or rows.has(field):
        return expression
    return Expression(tuple(part.strip() for part in field.split(",") if part.strip()))


def _column(rows: Rows, name: str, expression: Expression, lost: Bools) -> pd.Series:
    if expression.constant is not None:
        return pd.Series(_constant(name, expression.constant), index=range(len(rows.records)))
    field = expression.fields[0]
    if expression.compared:
        return strings(expression.greater(rows))
    if len(expression.fields) > 1:
        return _joined(rows, expression.fields)
    if expression.is_plain and name in _IDENTITY:
        return rows.convert([keyed(value) for value in rows.values(field)], field, "id")
    if expression.is_plain and name in TEXTS:
        return rows.convert([answered(value) for value in rows.values(field)], field, "text")
    if expression.is_plain and name in _SCORES:
        lacking = is_text if name == "score" else _is_no_text
        return rows.convert([None if lacking(value) else value for value in rows.values(field)], field, "number")
    if expression.is_plain:
        return rows.take(field, KINDS[name], NO_WINNER if name == "winner" else None)
    texts = list(map(expression.reader(numbers=KINDS[name] == "number"), rows.values(field)))
    missing = np.array([text is None for text in texts], bool)
    empty = np.array([value in ("", None) for value in rows.values(field)], bool) & (name == "human")
    if unmatched := int((missing & rows.good & ~empty).sum()):
        rows.log.unmatched[f"{name}: {field} does not match"] += unmatched
    if name in _IDENTITY and missing.any():
        lost |= missing
        whole = rows.take(field, "id")
        texts = [own if text is None else text for text, own in zip(texts, whole, strict=True)]
    return _converted(texts, KINDS[name])


def _is_no_text(value: Any) -> bool:
    """Return whether a text says that there is no value, such as that of an error."""
    return isinstance(value, str) and (not value.strip() or is_no_value(value))


def is_text(value: Any) -> bool:
    """Return whether a value is a text and no number, such as a judge's words instead of a score."""
    return isinstance(value, str) and not NUMERAL.fullmatch(value)


def _replies(rows: Rows, expression: Expression, scores: pd.Series) -> pd.Series:
    """Return the texts in place of scores, and those that a score was taken from."""
    texts = rows.values(expression.fields[0])
    kept = scores.isna() | (expression.pattern is not None)
    words = [text if keep and is_text(text) and text.strip() else None for text, keep in zip(texts, kept, strict=True)]
    return strings(words)


def _joined(rows: Rows, fields: Sequence[str]) -> pd.Series:
    """Join the values of several fields; one may be empty, such as the input of an instruction."""
    parts = []
    for name in fields:
        values = [None if value == "" else keyed(value) for value in rows.values(name)]
        parts.append(rows.convert(values, name, "name"))
    empty = np.logical_and.reduce([part.isna().to_numpy() for part in parts])
    rows.refuse(empty, f"{', '.join(fields)} are empty")
    return strings(["/".join(map(str, values)) for values in zip(*(part.fillna("") for part in parts), strict=True)])


def _converted(texts: list[Any], kind: cells.FieldKind) -> pd.Series:
    """Convert texts to numbers or flags, with NaN and False for invalid ones; leave other kinds as text."""
    if kind == "number":
        numbers = (read_value(text, "number") for text in texts)
        return pd.Series([np.nan if number is None else number for number in numbers], dtype=float)
    if kind == "flag":
        return pd.Series([bool(read_value(text or "", "flag")) for text in texts], dtype=bool)
    return strings(texts)


def _constant(name: str, text: str) -> Any:
    if (name, text) == ("replicate", COUNTED):
        return 0
    kind = {"number": float, "flag": bool}.get(KINDS.get(name, "text"))
    return text if kind is None else read(f"mapping[{name!r}]", text, kind)


def _raw(rows: Rows, expression: Expression, field: str) -> list[Any]:
    """Return the values of a field with their mapped meanings; in a list, that of each item."""
    values, read = rows.values(field), expression.reader()
    if expression.is_plain:
        return values
    if not any(isinstance(value, list) for value in values):
        return list(map(read, values))
    return [[read(item) for item in (value if isinstance(value, list) else [value])] for value in values]


def _listed(parts: tuple[Any, ...]) -> list[str]:
    """Return the items of several fields or of lists as texts; empty text for an item that is not text or a number."""
    whole = [item for part in parts for item in (part if isinstance(part, list) else _split(part))]
    return [_text(item) for item in whole]


def _split(part: Any) -> list[Any]:
    """Split a text that consists of several numbers, as in saved trials; otherwise return the value in a list."""
    words = part.split() if isinstance(part, str) else []
    return words if len(words) > 1 and all(NUMERAL.fullmatch(word) for word in words) else [part]


def _text(item: Any) -> str:
    if isinstance(item, float) and item.is_integer():
        item = int(item)
    return str(item).strip() if isinstance(item, str | int | float) and not isinstance(item, bool) else ""


_SHOWN = 6  # verdicts shown in a message

#: Columns that must be mapped explicitly, because fields with these names rarely have this meaning.
_EXPLICIT = (*TEXTS, "person", "samples", "label_mass", "swapped", "shown_first", "winner_swapped")
#: Columns of trials that can distinguish columns of verdicts.
DISTINGUISHING = ("judge", "attribute", "replicate", "template", "configuration")
_UNMAPPED = ("probe", "value", "status", "key", "p_first_label", "p_both_orders")
NAMES = tuple(dict.fromkeys((*OUTCOMES, *(c for c in COLUMNS if c not in _UNMAPPED), "preference", *_EXPLICIT)))


def with_preference(columns: dict[str, pd.Series], swapped: pd.Series | None = None) -> dict[str, pd.Series]:
    """Convert ``preference`` to ``human_gap``, unless that is mapped; `swapped` flags exchanged rows."""
    if "preference" not in columns:
        return columns
    rest = {name: column for name, column in columns.items() if name != "preference"}
    if "human_gap" in rest:
        return rest
    named, (first, second) = columns["preference"], (rest["candidate_id"], rest["opponent_id"])
    listed = [row if isinstance(row, list) else [] for row in named]
    if named.dtype == "str":  # a constant
        listed = [[text] for text in named]
    return rest | {"human_gap": readings.human_gaps(listed, first, second, swapped)}


def as_shown(columns: dict[str, pd.Series]) -> dict[str, pd.Series]:
    """Exchange candidate and opponent in rows that were shown in the other order."""
    if "shown_first" in columns:
        ahead = readings.sides(columns.pop("shown_first"), columns["candidate_id"], columns["opponent_id"])
        known = pd.Series(np.isin(ahead, (0.0, 1.0)), index=columns["candidate_id"].index)
        columns["order_known"] = columns.get("order_known", known) & known
        columns["swapped"] = pd.Series(ahead == 0.0, index=known.index)
    elif "swapped" in columns and "opponent_id" in columns:
        _require_fixed_columns(columns)
    if "swapped" not in columns:
        return columns
    swapped = columns["swapped"]
    exchanged = {
        name: columns[name].where(~swapped, columns[other])
        for one, two in (("candidate_id", "opponent_id"), ("words", "opponent_words"))
        if one in columns and two in columns
        for name, other in ((one, two), (two, one))
    }
    if "human_gap" in columns:
        exchanged["human_gap"] = columns["human_gap"].where(~swapped, -columns["human_gap"])
    return columns | exchanged


def _require_fixed_columns(columns: Mapping[str, pd.Series]) -> None:
    """Raise `InputError` if the candidates of swapped rows are exchanged already, so that swapping undoes the order."""
    swapped = columns["swapped"].to_numpy(bool)
    names = ("context_id", "candidate_id", "opponent_id")
    context, one, two = (columns[name].astype(str).to_numpy() for name in names)
    here, turned = (pd.MultiIndex.from_arrays(pair) for pair in ([context, one, two], [context, two, one]))
    fixed, exchanged = (int(rows[swapped].isin(here[~swapped]).sum()) for rows in (here, turned))
    if exchanged > fixed:
        held = f"{exchanged} pairs have their candidates exchanged in swapped rows already"
        remedy = "the columns hold the order shown: leave swapped out of the mapping"
        raise InputError("mapping['swapped']", held, "a flag beside columns that stay as they are", remedy)


def read_mapped(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return one trial per record, or two if it has both orders; with an ``opponent_id``, trials are pairs.

    Raises
    ------
    InputError
        If context, candidate, outcome or scale is neither in the file nor mapped.
    """
    return read_entries(rows, source, completed(rows, mapping))


def read_entries(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return the trials of a mapping to which no field of the file is added."""
    whole = dict(mapping)
    if "person" in mapping:
        whole = {name: entry for name, entry in whole.items() if name != "person"} | {"judge": mapping["person"]}
    parts = by_column(whole)
    if len(parts) > 1:
        return pd.concat([_read_once(rows, source, own) for own in parts])
    if "winner_swapped" in whole:
        return _in_both_orders(rows, source, whole)
    return _read_once(rows, source, whole)


def by_column(mapping: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one mapping for each column of verdicts or scores.

    An entry that is a table with the names of these columns has a value for each. Unless one says otherwise, the name
    of the column is the attribute.

    Examples
    --------
    >>> both = {"score": {"fields": ["tone", "style"]}, "scale": {"tone": "=0-2", "style": "=1-5"}}
    >>> by_column(both)[1]
    {'score': {'fields': ['style']}, 'scale': '=1-5', 'attribute': '=style'}
    """
    outcome = next((name for name in OUTCOMES if name in mapping), None)
    entry = mapping.get(outcome) if outcome is not None else None
    fields = entry.get("fields") if isinstance(entry, Mapping) else None
    if outcome is None or not isinstance(entry, Mapping) or not isinstance(fields, list) or len(fields) < 2:
        return [dict(mapping)]
    parts = []
    for column in fields:
        own = {n: each.get(column) if _is_by_column(each, fields) else each for n, each in mapping.items()}
        own = {name: each for name, each in own.items() if each is not None} | {outcome: {**entry, "fields": [column]}}
        if not any(_is_by_column(mapping.get(name), fields) for name in DISTINGUISHING) and "attribute" not in own:
            own["attribute"] = f"={column}"
        parts.append(own)
    return parts


def _is_by_column(entry: Any, fields: Sequence[str]) -> bool:
    return isinstance(entry, Mapping) and bool(entry) and set(entry) <= set(fields)


def completed(rows: Rows, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with the fields that map themselves, in a table with the columns of trials."""
    if not (rows.has("context_id") and rows.has("candidate_id")):
        return dict(mapping)
    names = [name for name in NAMES if name not in _EXPLICIT]
    return {name: name for name in names if _maps_itself(rows, name, mapping)} | dict(mapping)


def _maps_itself(rows: Rows, name: str, mapping: Mapping[str, Any]) -> bool:
    """Return whether a field maps itself: it has a column's name and type, and competes with no mapped outcome."""
    if not rows.has(name) or (name in OUTCOMES and name != "reply" and set(OUTCOMES) & set(mapping)):
        return False
    if name in LISTS:
        return True
    values = [value for value in rows.values(name) if value is not None and value != ""]
    return not values or any(read_value(value, KINDS.get(name, "any")) is not None for value in values)


def _in_both_orders(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    """Return two trials per record, one for the verdict in each order."""
    if "swapped" in mapping or "winner" not in mapping or "opponent_id" not in mapping:
        allowed = "used with opponent_id and winner (the verdict in the row's order), and without swapped"
        raise InputError("mapping['winner_swapped']", mapping["winner_swapped"], allowed)
    as_stands = {name: expression for name, expression in mapping.items() if name != "winner_swapped"}
    other = as_stands | {"winner": mapping["winner_swapped"], "swapped": "=true"}
    return pd.concat([_read_once(rows, source, each, both=True) for each in (as_stands, other)])


def _read_once(rows: Rows, source: LogSource, mapping: Mapping[str, Any], both: bool = False) -> pd.DataFrame:
    """Return one trial per record; with ``both``, human preferences refer to the record's first candidate."""
    is_pair = "opponent_id" in mapping
    outcome = next((name for name in (*(OF_PAIRS if is_pair else OF_SCORES), *OUTCOMES) if name in mapping), None)
    _require_entries(rows, source, mapping, outcome)
    columns, unmatched = columns_of(rows, mapping)
    if is_pair:
        if both:
            columns = as_shown(with_preference(columns))
        else:
            columns = as_shown(columns)
            columns = with_preference(columns, columns.get("swapped"))
        rows.leave_out(columns["candidate_id"] == columns["opponent_id"], "a candidate is compared with itself")
    elif "ratings" in columns and "scale" in columns:
        columns.setdefault("human_scale", columns["scale"])
    if outcome is None:
        reading = pd.DataFrame({"value": np.nan, "status": "unparsable"}, index=range(len(rows.records)))
    else:
        read = readings.read_pair if is_pair else readings.read_score
        reading = read(columns, outcome, source)
        if outcome == "winner":
            _note_unknown(rows, columns["winner"][reading["status"] == "unparsable"])
    kept = {name: column for name, column in columns.items() if name in COLUMNS}
    trials = trials_of({**kept, **reading}, pd.RangeIndex(len(rows.records)))
    return without_value(trials, unmatched)


def _note_unknown(rows: Rows, words: pd.Series) -> None:
    """Count verdicts that name neither candidate of their row."""
    known = Counter(word.strip() for word in words.dropna() if word.strip() != NO_WINNER)
    if known:
        shown = ", ".join(word for word, _ in known.most_common(_SHOWN))
        rows.log.unmatched[f"winner names neither candidate; give the meaning of its values ({shown})"] += known.total()


def _require_entries(rows: Rows, source: LogSource, mapping: Mapping[str, Any], outcome: str | None) -> None:
    """Raise `InputError` unless all required columns are mapped; human ratings alone need no judge's score."""
    missing = [name for name in ("context_id", "candidate_id") if name not in mapping]
    alone = outcome is None and not ("ratings" in mapping and "opponent_id" not in mapping)
    if missing or alone:
        wanted = [*missing, *([f"one of {', '.join(OUTCOMES)}"] if alone else [])]
        remedy = f"the file has {field_names(rows.records)}; write for example context_id=question"
        raise InputError(f"mapping of {source.file}", dict(mapping), f"entries for {' and '.join(wanted)}", remedy)
    if outcome is not None and "opponent_id" not in mapping and "scale" not in mapping:
        raise InputError("mapping", dict(mapping), "an entry for scale", "such as scale='=1-5'")


def without_value(trials: pd.DataFrame, unmatched: Bools) -> pd.DataFrame:
    """Make rows that the mapping did not match unparsable, without a value."""
    if not unmatched.any():
        return trials
    kept = trials["value"].where(~unmatched)
    return trials.assign(value=kept, status=trials["status"].where(~unmatched, "unparsable"))


LogReader = Callable[[Rows, LogSource, Mapping[str, Any]], pd.DataFrame]
_OF_THE_VERDICT = ("label_mass", "p_first_label", "p_both_orders")  # void if the format's verdict is replaced


def overridden(read: Callable[[Rows, LogSource], pd.DataFrame]) -> LogReader:
    """Wrap a format's reader so that a mapping can override its columns.

    A mapped ``winner``, ``p_first``, ``score`` or ``reply`` replaces the format's verdict; a mapped ``scale`` is used
    to read scores.
    """

    def reader(rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
        scale = constant_scale(mapping)
        trials = _rescaled(read(rows, replace(source, scale=scale)), scale)
        named = {name: expression for name, expression in mapping.items() if name != "scale"}
        return _replaced(trials, rows, source, named) if named and len(trials) else trials

    return reader


def constant_scale(mapping: Mapping[str, Any]) -> str | None:
    """Return the scale that a mapping gives for a log of a known format; raise `InputError` if it is no constant."""
    if "scale" not in mapping:
        return None
    if (scale := parse_expression("scale", mapping["scale"]).constant) is None:
        raise InputError("mapping['scale']", mapping["scale"], "a constant for a known format, such as '=1-5'")
    return scale_named(scale).name


def _rescaled(trials: pd.DataFrame, scale: str | None) -> pd.DataFrame:
    """Set the user's scale on scores that were read on another one, and check that they lie on it."""
    if scale is None or trials.empty:
        return trials
    other = (trials["opponent_id"].isna() & (trials["scale"] != scale)).to_numpy()
    if other.any():
        usable = other & trials["status"].eq("ok").to_numpy()
        verdicts = readings.parse_texts(trials.loc[usable, "value"], readings.number_on(scale_named(scale)))
        for name in verdicts:
            trials.loc[usable, name] = verdicts[name].to_numpy()
        trials.loc[other, "scale"] = scale
    return trials


def _replaced(trials: pd.DataFrame, rows: Rows, source: LogSource, mapping: Mapping[str, Any]) -> pd.DataFrame:
    columns, unmatched = columns_of(rows, mapping)
    places = trials.index.to_numpy()
    aligned = {name: column.iloc[places].set_axis(trials.index) for name, column in columns.items()}
    whole = {name: aligned.get(name, trials[name]) for name in ("candidate_id", "opponent_id")} | aligned
    if "human_gap" not in aligned:
        whole = with_preference(whole)
    if "ratings" in aligned and "human_scale" not in aligned:
        whole["human_scale"] = trials["scale"]
    defaults = {name: SCHEMA[name].default for name in whole if name in SCHEMA}  # of records that it does not match
    texts = {name: whole[name].fillna(text) for name, text in defaults.items() if isinstance(text, str)}
    replaced = trials.assign(**{name: texts.get(name, whole[name]) for name in defaults})
    outcome = next((name for name in OUTCOMES if name in mapping), None)
    if outcome is not None:
        replaced = _read_again(replaced, aligned[outcome], outcome, source)
    return without_value(replaced, unmatched[places])


def _read_again(trials: pd.DataFrame, outcome_column: pd.Series, outcome: str, source: LogSource) -> pd.DataFrame:
    """Replace the format's verdict or score by the reading of the mapped column."""
    whole, named, parts = trials.reset_index(drop=True), outcome_column.reset_index(drop=True), []
    for is_pair, subset in whole.groupby(whole["opponent_id"].notna()):
        columns = {str(name): subset[name] for name in subset} | {outcome: named[subset.index]}
        read = readings.read_pair if is_pair else readings.read_score
        parts.append(read(columns, outcome, source))
    reading = pd.concat(parts).sort_index().set_axis(trials.index)
    return trials.assign(**reading, **dict.fromkeys(_OF_THE_VERDICT, np.nan))


OPTIONS = ("format", "score_pattern", "explode", "join", "ignore")


@dataclass(frozen=True)
class LogMapping:
    """A user's mapping of a log: columns, format and reshaping.

    Parameters
    ----------
    columns : mapping
        Column of the trials → expression.
    format : str, optional
        Format of the log.
    score_pattern : str, optional
        A regular expression that extracts scores from texts.
    shape : Shape or callable, optional
        Reshaping of records before they are read; a function takes their table and returns a new one.
    ignored : tuple of str
        Columns that have no role.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    score_pattern: str | None = None
    shape: Shape | TableFunction | None = None
    ignored: tuple[str, ...] = ()


def make_mapping(mapping: Mapping[str, Any] | str | Path | TableFunction | None) -> LogMapping:
    """Load and check a mapping.

    Raises
    ------
    InputError
        If the file is not TOML, or a name or an expression is invalid.

    Examples
    --------
    >>> make_mapping({"judge": "=me", "format": "llmbar"}).format
    'llmbar'
    """
    if isinstance(mapping, str | Path):
        return _made(read_mapping_file(mapping), str(mapping))
    if callable(mapping):
        return LogMapping(shape=mapping)
    if mapping is not None and not isinstance(mapping, Mapping):
        allowed = "columns of trials with their fields, a TOML file, or a function of a data frame"
        remedy = 'such as {"context_id": "question", "judge": "=me"}'
        raise InputError.plain(f"mapping has the type {type(mapping).__name__}, expected: {allowed}; {remedy}")
    return _made(dict(mapping or {}), "mapping")


def read_mapping_file(path: str | Path) -> dict[str, Any]:
    """Return the content of a mapping file; a joined file is resolved relative to its folder.

    Raises
    ------
    InputError
        If the file does not exist or is not TOML.
    """
    file = Path(path)
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError("mapping", str(path), "a mapping, or an existing TOML file") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        remedy = 'write for example context_id = "question"'
        raise InputError("mapping", str(path), f"a TOML file ({error})", remedy) from error
    if isinstance(entries.get("join"), str):
        entries["join"] = str(file.parent / entries["join"])  # absolute paths are unchanged
    return entries


def _made(entries: dict[str, Any], name: str) -> LogMapping:
    if is_open := [key for key, value in entries.items() if _is_open(value)]:
        allowed = "a column, a constant such as '=gpt-4', or the meaning of a value"
        raise InputError(f"{name}: {is_open[0]}", entries[is_open[0]], allowed, f"still open: {', '.join(is_open)}")
    columns = {
        key: {"fields": value} if isinstance(value, list) and key in (*LISTS, *OUTCOMES) else value
        for key, value in entries.items()
        if key not in OPTIONS
    }
    if unknown := [key for key in columns if key not in NAMES]:
        raise InputError(name, unknown, f"some of {', '.join((*OPTIONS, *NAMES))}")
    if {"judge", "person"} <= set(columns):
        raise InputError(f"{name}: person", columns["person"], "no person next to a judge", "map one of the two")
    _require_columns(columns, name)
    for own in by_column(columns):
        for key, value in own.items():
            parse_expression(key, value)
    for option in ("format", "score_pattern"):
        if not isinstance(entries.get(option), str | None):
            raise InputError(f"{name}: {option}", entries[option], "a text")
    pattern = entries.get("score_pattern")
    if pattern is not None:
        readings.compiled(pattern, "score_pattern")
    shape = make_shape(entries.get("explode"), entries.get("join"))
    return LogMapping(columns, entries.get("format"), pattern, shape, _ignored(entries.get("ignore"), name))


def _require_columns(columns: Mapping[str, Any], name: str) -> None:
    """Raise `InputError` unless lists of columns are texts, and tables by column have a value for each."""
    outcome = next((each for each in OUTCOMES if each in columns), "")
    entry = columns.get(outcome)
    fields = entry.get("fields", []) if isinstance(entry, Mapping) else []
    if not isinstance(fields, list) or not all(isinstance(field, str) for field in fields):
        raise InputError(f"{name}: {outcome}", fields, "names of columns")
    if len(fields) > 1 and "winner_swapped" in columns:
        raise InputError(f"{name}: winner_swapped", columns["winner_swapped"], "used with a single column of winner")
    for key, value in columns.items():
        several = isinstance(value, Mapping) and len(fields) > 1 and bool(set(value) & set(fields))
        if several and key not in LISTS and set(value) != set(fields):
            raise InputError(f"{name}: {key}", dict(value), f"a value for each of {', '.join(fields)}")


def _is_open(value: Any) -> bool:
    """Return whether a value of a mapping holds a `?` in place of what the user has to say."""
    if isinstance(value, Mapping):
        return any(map(_is_open, value.values()))
    return value == OPEN or (isinstance(value, list) and OPEN in value)


def _ignored(names: Any, name: str) -> tuple[str, ...]:
    listed = names.split(",") if isinstance(names, str) else names or []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise InputError(f"{name}: ignore", names, "names of columns")
    return tuple(each.strip() for each in listed if each.strip())
