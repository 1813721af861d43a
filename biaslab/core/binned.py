"""Separate estimates for single bins, such as bins of the human gap, from those over all items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: Condition columns that hold the mean of a bin; missing in estimates over all items.
BINS = ("human_gap",)


def without_breakdowns(estimates: pd.DataFrame, by: str | Sequence[str] = BINS) -> pd.DataFrame:
    """Return the estimates over all items, dropping those of bins or subsets, which count the same items twice.

    Parameters
    ----------
    estimates : pandas.DataFrame
        The estimates frame.
    by : str or sequence of str
        Condition columns that break estimates down, such as ``"subset"`` in `biaslab.atlas.estimates`; they are
        missing in estimates over everything. Columns not in the frame are ignored.

    Returns
    -------
    pandas.DataFrame
        The rows in which all these columns are missing.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"human_gap": [None, 0.5, None], "subset": [None, None, "hard"], "estimate": [6, 7, 8]})
    >>> without_breakdowns(frame)["estimate"].tolist()
    [6, 8]
    >>> without_breakdowns(frame, ["human_gap", "subset"])["estimate"].tolist()
    [6]
    """
    columns = [name for name in ([by] if isinstance(by, str) else by) if name in estimates]
    return estimates[estimates[columns].isna().all(axis=1)].reset_index(drop=True) if columns else estimates
