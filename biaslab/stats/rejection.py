"""When an estimate is told from its null: its interval lies on one side of it, and so says the corrected test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from biaslab.core.checked import checked
from biaslab.core.errors import TrialsError
from biaslab.stats.estimate import is_above

#: What is found has a q-value below this.
ALPHA = 0.05


@checked
def significant(q: float) -> bool:
    """Return whether a q-value is below .05 by more than rounding; NaN is not.

    Examples
    --------
    >>> significant(0.049), significant(0.05), significant(float("nan"))
    (True, False, False)
    """
    return is_above(ALPHA, q)


@checked
def side_of(row: Mapping[Any, Any], null: float) -> Literal["above", "below"] | None:
    """Return on which side of the null an estimate and its interval lie, if they do.

    Parameters
    ----------
    row : mapping
        Of an estimates frame: ``estimate``, ``ci_low``, ``ci_high``.
    null : float
        Where there is no effect.

    Examples
    --------
    >>> row = {"estimate": 0.6, "ci_low": 0.52, "ci_high": 0.7}
    >>> side_of(row, 0.5), side_of(row, 0.55)
    ('above', None)
    """
    if "ci_low" not in row:
        raise TrialsError("row", row, "a row of an estimates frame", "such as one of estimates.to_dict('records')")
    if is_above(row["ci_low"], null) and is_above(row["estimate"], null):
        return "above"
    if is_above(null, row["ci_high"]) and is_above(null, row["estimate"]):
        return "below"
    return None
