"""Parse what a mapping writes for one column: a field or path, a constant, a part of a field, or names for its values.

================================  ==========================================================================
``question``                      a field of the record
``judgments.0.decision``          a path: keys of objects and positions in lists, from 0
``=GPT-4``                        a constant
``custom_id~^(.+?)/``             the first group of a regular expression that matches, found in a field
``verdict | 0 -> tie, 1 -> a``    what the values of a field mean; others mean nothing
``annotator1, annotator2``        several fields, of ``ratings`` and ``preference``
================================  ==========================================================================

In a mapping file a table says the same: ``{ field = "verdict", pattern = "…", values = { 0 = "tie" } }``, and may have
both a pattern and values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biaslab.core.errors import InputError
from biaslab.logs.readers.readings import compiled, first_group
from biaslab.logs.readers.rows import Rows

LISTS = ("ratings", "preference")  # columns that are made of several fields, or of a list
_PARTS = {"field", "fields", "pattern", "values", "constant"}
_ALLOWED = "a field, '=constant', 'field~regular expression' or 'field | value -> meaning, …'"


@dataclass(frozen=True)
class Expression:
    """Source of a column.

    Parameters
    ----------
    fields : tuple of str
        Fields or paths; several only for a column that is made of several.
    constant : str, optional
        The same for every record; then there are no fields.
    pattern : re.Pattern, optional
        The first of its groups that matches is taken.
    values : mapping of str to str, optional
        What values mean; true, false and null are written so.
    """

    fields: tuple[str, ...] = ()
    constant: str | None = None
    pattern: re.Pattern[str] | None = None
    values: Mapping[str, str] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the field is taken unchanged."""
        return self.constant is None and self.pattern is None and self.values is None

    def texts(self, rows: Rows, field: str) -> list[Any]:
        """Return what a field says of each record; None where the pattern does not match or a value means nothing."""
        texts = [written(value) for value in rows.values(field)]
        if self.pattern is not None:
            texts = [None if text is None else first_group(self.pattern, text) for text in texts]
        if self.values is not None:
            texts = [self.values.get("null" if text is None else text.strip()) for text in texts]
        return texts


def parse_expression(name: str, given: Any) -> Expression:
    r"""Return what a mapping writes for a column.

    Raises
    ------
    InputError
        If it is none of what the module lists.

    Examples
    --------
    >>> parse_expression("winner", "verdict | 0 -> tie, A>B -> a").values
    {'0': 'tie', 'A>B': 'a'}
    >>> parse_expression("context_id", r"id~^(\d+)").fields, parse_expression("judge", "=me").constant
    (('id',), 'me')
    """
    where = f"mapping[{name!r}]"
    if isinstance(given, Mapping):
        return _from_table(where, name, given)
    if not isinstance(given, str) or not given.strip():
        raise InputError(where, given, _ALLOWED)
    if given.startswith("="):
        return Expression(constant=given[1:])
    field, part, pattern = given.partition("~")
    if part:
        return Expression((field.strip(),), pattern=compiled(pattern, where))
    field, bar, meanings = given.partition("|")
    if bar and "->" in meanings:
        return Expression((field.strip(),), values=_meanings(where, meanings))
    return Expression(_fields(name, given))


def _from_table(where: str, name: str, given: Mapping[str, Any]) -> Expression:
    unknown = sorted(set(given) - _PARTS)
    sources = [part for part in ("field", "fields", "constant") if part in given]
    if unknown or len(sources) != 1:
        raise InputError(where, dict(given), "a table with one of field, fields and constant, and pattern or values")
    if "constant" in given:
        return Expression(constant=written(given["constant"]) or "")
    said = given[sources[0]]
    fields = tuple(said) if isinstance(said, list) else _fields(name, said) if isinstance(said, str) else ()
    named = all(isinstance(field, str) and field for field in fields)
    if not fields or not named or (len(fields) > 1 and name not in LISTS):
        raise InputError(where, said, f"the name of a field, or names of several for {' and '.join(LISTS)}")
    pattern, values = given.get("pattern"), given.get("values")
    if values is not None and not isinstance(values, Mapping):
        raise InputError(f"{where}.values", values, 'a table such as { 0 = "tie" }')
    known = None if values is None else {str(key): written(value) or "" for key, value in values.items()}
    return Expression(fields, None, None if pattern is None else compiled(str(pattern), where), known)


def _fields(name: str, given: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in given.split(",") if part.strip()) if name in LISTS else (given,)


def _meanings(where: str, text: str) -> dict[str, str]:
    """Read ``a -> b, c -> d``; a comma that no arrow follows belongs to what stands before it."""
    found: dict[str, str] = {}
    for part in re.split(r",(?=[^,]*->)", text):
        value, arrow, meaning = part.partition("->")
        if not arrow or not value.strip() or not meaning.strip():
            raise InputError(where, text.strip(), "value -> meaning, separated by commas", "such as 0 -> tie, 1 -> one")
        found[value.strip()] = meaning.strip()
    return found


def written(value: Any) -> str | None:
    """Return a value as text: whole numbers without a point, true and false in small letters; None for all else."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) and value == value else None
