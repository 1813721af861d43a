"""Comparisons that do not hang on the last bit, which differs between processors."""

from biaslab.stats.intervals import ROUNDING


def is_above(value: float, other: float, size: float = 0.0) -> bool:
    """Return whether a value is above another by more than rounding; where either is NaN, it is not.

    Parameters
    ----------
    value, other : float
        What is compared.
    size : float
        How large the numbers are that both come of, where that is more than they themselves: beside a bound of 0.

    Examples
    --------
    >>> is_above(0.1 + 0.2, 0.3), is_above(0.31, 0.3), is_above(1e-16, 0), is_above(1e-16, 0, size=1)
    (False, True, True, False)
    """
    return value - other > ROUNDING * max(abs(value), abs(other), size)
