"""What a verdict has to add where something other than the judge could explain what it says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from biaslab.stats import is_above


def hedges(record: Mapping[Any, Any], null: float | None, finding: str, size: float | None) -> list[str]:
    """Return what a reader must know beside a verdict, read from the columns of its row that there are.

    ``bound_low`` and ``bound_high`` are worst-case bounds: what the estimate could be if what is missing were known.
    ``note`` is what the estimate itself says on how to read it.

    Parameters
    ----------
    record : mapping
        A row of an estimates frame.
    null, size : float, optional
        Fair value, and the smallest distance from it that matters.
    finding : str
        See `biaslab.report.findings`. What is inconclusive or untested needs no hedge.

    Examples
    --------
    >>> hedges({"bound_low": 0.44, "bound_high": 0.81}, 0.5, "above", 0.1)
    ['what is missing could explain it']
    >>> hedges({"bound_low": 0.52, "bound_high": 0.81}, 0.5, "above", 0.1)
    []
    """
    if finding not in ("above", "below", "none") or null is None:
        return []
    note = record.get("note")
    return [*_missing(record, null, finding, size), *([note] if isinstance(note, str) and note else [])]


def _missing(record: Mapping[Any, Any], null: float, finding: str, size: float | None) -> list[str]:
    low, high = (float(record.get(name, math.nan)) for name in ("bound_low", "bound_high"))
    if math.isnan(low) or math.isnan(high):
        return []
    if finding == "none":
        hidden = size is not None and (is_above(null - size, low) or is_above(high, null + size))
        return ["what is missing could hide a shift that matters"] if hidden else []
    reached = not is_above(low, null) if finding == "above" else not is_above(null, high)
    return ["what is missing could explain it"] if reached else []
