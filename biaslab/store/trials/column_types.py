"""Types of the columns of trials, and a frame from columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

#: Columns with repeated values, which are dictionary-encoded.
REPEATED = pa.dictionary(pa.int32(), pa.string())
_LEADING = ("probe", "judge", "dataset", "context_id", "candidate_id", "opponent_id", "attribute")
_TRAILING = {
    "replicate": pa.int64(),
    "value": pa.float64(),
    "status": REPEATED,
    "label_mass": pa.float64(),
    "samples": pa.float64(),
    "tokens": pa.int64(),
    "key": pa.string(),
}
#: Tokens of a reply and, if thinking is a condition, of its thought; NaN for trials without a reply.
OF_THOUGHTS = ("written", "thought_tokens")
_NUMPY: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "U": str}
_NUMBERS = ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64()))

#: A chunk of trials: Arrow columns, and columns with mixed types unchanged.
Part: TypeAlias = tuple[pa.Table, dict[str, list[Any]]]


class Columns:
    """The columns of trials and their types, determined in a first pass through a design.

    Parameters
    ----------
    kinds : mapping of str to set of type
        The types of the values of each condition, and of ``opponent_id``; none for None. Text, numbers, or booleans; a
        condition with mixed types is kept as Python objects. If thinking is a condition (``thinking``), there are
        columns of thinking tokens too.
    replies : bool
        Whether there is a column ``reply``.
    first : sequence of str, optional
        The conditions placed before ``replicate``, those of the first trial; others come last. By default all.

    Attributes
    ----------
    mixed : tuple of str
        Conditions with mixed types, which do not fit into one column of a file.

    Examples
    --------
    >>> columns = Columns({"opponent_id": set(), "template": {int}, "human_gap": {float, int}})
    >>> columns.names[7:9], str(columns.types["human_gap"]), columns.mixed
    (('template', 'human_gap'), 'double', ())
    """

    def __init__(
        self, kinds: Mapping[str, set[type]], replies: bool = False, first: Sequence[str] | None = None
    ) -> None:
        conditions = {name: _type_of(types) for name, types in kinds.items() if name not in _LEADING}
        self.types: dict[str, pa.DataType | None] = dict.fromkeys(_LEADING, REPEATED)
        self.types |= {name: kind for name, kind in conditions.items() if first is None or name in first}
        self.types |= _TRAILING
        if not kinds.get("opponent_id"):
            self.types["opponent_id"] = pa.null()
        if "thinking" in kinds:
            self.types |= dict.fromkeys(OF_THOUGHTS, pa.float64())
        if replies:
            self.types["reply"] = pa.large_string()
        self.types |= {name: kind for name, kind in conditions.items() if name not in self.types}
        self.conditions = tuple(name for name in conditions if name not in (*_TRAILING, *OF_THOUGHTS))
        self.names = tuple(self.types)
        self.mixed = tuple(name for name, kind in self.types.items() if kind is None)

    @property
    def schema(self) -> pa.Schema:
        """The schema of a file, in which repeated text is plain text."""
        kept = {name: kind for name, kind in self.types.items() if kind is not None}
        return pa.schema([(name, pa.string() if kind == REPEATED else kind) for name, kind in kept.items()])

    def pack(self, columns: Mapping[str, Sequence[Any]], rows: int) -> Part:
        """Convert some rows to columns.

        Parameters
        ----------
        given : mapping of str to sequence
            The values of each column; for a constant column, the value alone in a list.
        rows : int
            Number of rows.
        """
        arrays, loose = {}, {}
        for name, kind in self.types.items():
            values = columns[name]
            constant = len(values) == 1 and rows != 1
            if kind is None:
                loose[name] = list(values) * (rows if constant else 1)
            elif constant:
                codes = pa.array(np.zeros(rows, np.int32))
                arrays[name] = pa.DictionaryArray.from_arrays(codes, _array(values, pa.string()))
            else:
                arrays[name] = _array(values, kind)
        return pa.table(arrays), loose

    def frame(self, parts: Sequence[Part]) -> pd.DataFrame:
        """Concatenate chunks into one frame of plain columns, with the types that pandas infers."""
        table = pa.concat_tables([part for part, _ in parts])
        frame: pd.DataFrame = spelled_out(table).to_pandas()
        for name in self.mixed:
            frame[name] = [value for _, loose in parts for value in loose[name]]
        return frame[list(self.names)]


def spelled_out(table: pa.Table) -> pa.Table:
    """Return a table with dictionary-encoded text decoded."""
    spelled = [pa.field(each.name, pa.string()) if pa.types.is_dictionary(each.type) else each for each in table.schema]
    return table.cast(pa.schema(spelled))


def _type_of(types: Iterable[type]) -> pa.DataType | None:
    """Return the column type for values of these types; None if no type fits all."""
    types = {_NUMPY.get(np.dtype(each).kind, each) if issubclass(each, np.generic) else each for each in types}
    if not types:
        return pa.null()
    if all(issubclass(each, str) for each in types):
        return REPEATED
    if any(issubclass(each, str | bool) for each in types) and len(types) > 1:
        return None
    fitting = (kind for base, kind in _NUMBERS if all(issubclass(each, base) for each in types))
    numbers = all(issubclass(each, int | float) for each in types)
    return next(fitting, pa.float64() if numbers else None)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind, from_pandas=True)
    except UnicodeEncodeError:  # half of a surrogate pair, which models may generate, is not valid text elsewhere
        plain = [v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v for v in values]
        return pa.array(plain, kind, from_pandas=True)
