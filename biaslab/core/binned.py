"""Separate estimates of single bins, such as of the human gap, from those over all items."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: Condition columns that hold the mean of a bin; missing where an estimate is over all items.
BINS = ("human_gap",)


def over_all_items(estimates: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates over all items, without those of single bins, which would count the same items twice.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"estimate": [0.6, 0.5, 0.7], "human_gap": [None, 0.5, 2.0]})
    >>> over_all_items(frame)["estimate"].tolist()
    [0.6]
    """
    bins = [name for name in BINS if name in estimates]
    return estimates[estimates[bins].isna().all(axis=1)] if bins else estimates
