"""Parse a mapping entry: a field or path, a constant, part of a field, or the meaning of a field's values.

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
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from biaslab.core.errors import InputError
from biaslab.logs.readers.field_values import NUMERAL
from biaslab.logs.readers.readings import compiled, first_group
from biaslab.logs.readers.rows import Rows

LISTS = ("ratings", "preference")  # columns that are made of several fields, or of a list
#: Columns whose values several fields can form together.
TOGETHER = ("context_id", "candidate_id", "opponent_id", "judge", "dataset", "attribute", "template", "configuration")
_COMPARED = ("winner", "winner_swapped", "preference")
_GREATER = re.compile(r"(?P<one>[^>|~]*[^>|~\s-])\s+>\s+(?P<two>[^>|~]*[^>|~\s])")
_POINT = re.compile(r"([-+]?\d+)\.0+")
_PARTS = {"field", "fields", "pattern", "values", "constant"}
_ALLOWED = "a field, '=constant', 'field~regular expression' or 'field | value -> meaning, …'"


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

    def texts(self, rows: Rows, field: str, numbers: bool = False) -> list[Any]:
        """Return a field's text for each record; None if the pattern does not match or the value has no meaning.

        With ``numbers``, values between those mapped to numbers are interpolated linearly.
        """
        texts = [written(value) for value in rows.values(field)]
        if self.pattern is not None:
            texts = [None if text is None else first_group(self.pattern, text) for text in texts]
        if self.values is not None:
            known = {whole(value): meaning for value, meaning in self.values.items()}
            between = _interpolation(known) if numbers else None
            texts = [_meant("null" if text is None else text.strip(), known, between) for text in texts]
        return texts

    def greater(self, rows: Rows) -> list[str | None]:
        """Return "candidate" if the first field is greater, "opponent" if the second is, "tie" if they are equal."""
        pairs = zip(*(map(_number, rows.values(field)) for field in self.fields), strict=True)
        return [
            None if one is None or two is None else "tie" if one == two else "candidate" if one > two else "opponent"
            for one, two in pairs
        ]


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
        return Expression((field.strip(),), pattern=compiled(pattern, where))
    field, bar, meanings = entry.partition("|")
    if bar and "->" in meanings:
        return Expression(_fields(name, field.strip()), values=_meanings(where, meanings))
    if name in _COMPARED and (compared := _GREATER.fullmatch(entry.strip())) is not None:
        return Expression((compared["one"], compared["two"]), compared=True)
    return Expression(_fields(name, entry))


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
    if not fields or not named or (len(fields) > 1 and name not in (*LISTS, *TOGETHER)):
        several = ", ".join((*LISTS, *TOGETHER))
        raise InputError(where, source, f"the name of a field, or names of several for {several}")
    pattern, values = entry.get("pattern"), entry.get("values")
    if values is not None and not isinstance(values, Mapping):
        raise InputError(f"{where}.values", values, 'a table such as { 0 = "tie" }')
    known = None if values is None else {str(key): written(value) or "" for key, value in values.items()}
    return Expression(fields, None, None if pattern is None else compiled(str(pattern), where), known)


def _fields(name: str, entry: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in entry.split(",") if field.strip()) if name in LISTS else (entry,)


def _meanings(where: str, text: str) -> dict[str, str]:
    """Parse ``a -> b, c -> d``; a comma without a following arrow belongs to the text before it."""
    meanings: dict[str, str] = {}
    parts = re.split(r",\s+(?=(?:(?!->).)*->)", text)  # commas without a following space belong to values
    if not all("->" in pair for pair in parts):
        parts = re.split(r",(?=[^,]*->)", text)
    for pair in parts:
        value, arrow, meaning = pair.partition("->")
        if not arrow or not value.strip() or not meaning.strip():
            raise InputError(where, text.strip(), "value -> meaning, separated by commas", "such as 0 -> tie, 1 -> one")
        meanings[value.strip()] = meaning.strip()
    return meanings


def whole(text: str) -> str:
    """Remove the decimal point of a whole number ("3.0"), which tables with missing numbers are saved with."""
    match = _POINT.fullmatch(text.strip())
    return match[1] if match else text.strip()


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    text = (written(value) or "").strip().lower()
    return {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}.get(
        text, float(text) if NUMERAL.fullmatch(text) else None
    )


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


def written(value: Any) -> str | None:
    """Return a value as text: integers without decimals, true and false in lower case; None for anything else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) and value == value else None
