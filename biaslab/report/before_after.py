"""Which remedy was measured to bring an estimate nearer to fair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from biaslab.core.output import number
from biaslab.report.wording import interval
from biaslab.stats import require_columns

if TYPE_CHECKING:
    import pandas as pd

_NONE = {"", "none"}


def best_remedy(cells: pd.DataFrame, remedies: pd.DataFrame) -> str:
    """Say which remedy helps one metric of one judge, and from what to what.

    Parameters
    ----------
    cells : pandas.DataFrame
        Rows of `biaslab.report.findings` of one judge and metric.
    remedies : pandas.DataFrame
        An estimates frame with a column ``remedy``, such as `biaslab.ranking.compare_remedies` returns. Rows without
        one, or with "none", are what is compared with; where there are none, the cells are. Differences to another
        remedy (column ``against``) are left out.

    Returns
    -------
    str
        Empty if no remedy of the metric was measured for this judge. A remedy helps if its estimates lie, on average,
        nearer to the null than without it.

    Raises
    ------
    TrialsError
        If a column is missing.
    """
    require_columns(remedies, ("judge", "metric", "remedy", "estimate", "ci_low", "ci_high"), "remedies")
    first = cells.iloc[0]
    own = remedies[(remedies["judge"] == first["judge"]) & (remedies["metric"] == first["metric"])]
    own = own[own["estimate"].notna()]
    if "against" in own:  # there the estimate is a difference to no remedy
        own = own[own["against"].fillna("") == ""]
    names = own["remedy"].fillna("").astype(str)
    tried, untreated = own[~names.isin(_NONE)], own[names.isin(_NONE)]
    if tried.empty:
        return ""
    null = float(first["null"])
    before = untreated if len(untreated) else cells
    distance = (tried["estimate"] - null).abs().groupby(tried["remedy"], sort=False).mean()
    best, nearest = distance.idxmin(), float(distance.min())
    start = before["estimate"].mean()
    if not nearest < float((before["estimate"] - null).abs().mean()):
        return f"none helped of {', '.join(map(str, distance.index))}"
    rows = tried[tried["remedy"] == best]
    bounds = (
        f" {interval(rows['ci_low'].iloc[0], rows['ci_high'].iloc[0])}" if len(rows) == 1 else f" (mean of {len(rows)})"
    )
    return f"{best}: {number(start)} becomes {number(rows['estimate'].mean())}{bounds}"
